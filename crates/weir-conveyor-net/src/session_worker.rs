//! Runs the transaction of a session over a connection: begins it, asks again what was asked before, and answers until it is over.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use tokio::sync::mpsc::error::TryRecvError;
use weir_conveyor::routing::MapVersion;
use weir_conveyor::schema;
use weir_conveyor::work::License;

use crate::connections::Connections;
use crate::operation::{SqlDone, SqlError};
use crate::raw::{Message, Ran, RawConnection, SYNC, execute};
use crate::sessions::{Answered, Command, Ending, Request, SessionPort, SessionReply, Until};

/// Bytes of an answer that are kept back, so that the request can be run again. A longer answer leaves in parts.
const WHOLE_MAX: usize = 256 << 10;
/// Largest answer of a global operation. It waits for no client, so it is kept in memory.
const GLOBAL_MAX: usize = 64 << 20;
/// A client that says nothing within a transaction for so long loses it: it keeps a connection of a bounded pool. Global ones end earlier, by
/// `operation_ms`.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Requests that are kept to be asked again.
const REPLAYED_MAX: usize = 1_000;

/// Why a transaction does not go on.
enum Stop {
    Lost(io::Error),
    /// It met a serialization failure, and can be run again.
    Retry,
    NotLicensed,
    /// The session has been told everything.
    Over(SqlDone),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Lost(error)
    }
}

/// Runs the transaction over a connection of the pool. The port stays with the caller if it is to run again.
pub(crate) async fn run(
    pool: &Arc<Connections>,
    port: &mut SessionPort,
    license: Option<License>,
) -> SqlDone {
    let mut lease = match pool.take().await {
        Ok(lease) => lease,
        Err(error) => {
            let message = format!("the server cannot be reached: {error}");
            let error = SqlError { sqlstate: "57P03".to_owned(), message };
            port.replies.say(SessionReply::Over(Ending::Failed(error))).await;
            return SqlDone::Lost;
        }
    };
    let connection = &mut lease.connection;
    port.control.set_key(Some(connection.cancel_key()));
    let stopped =
        SessionRun { connection, port, license, status: IDLE, is_unsynced: false, opening: None }.run().await;
    port.control.set_key(None);
    let done = match stopped {
        Stop::Lost(error) => {
            port.replies.say(SessionReply::Over(lost(port, &error))).await;
            return SqlDone::Lost;
        }
        Stop::Retry => SqlDone::SerializationFailure,
        Stop::NotLicensed => SqlDone::NotLicensed,
        Stop::Over(done) => done,
    };
    lease.give_back();
    done
}

/// The end of a transaction whose connection is lost.
fn lost(port: &SessionPort, error: &io::Error) -> Ending {
    if port.pending.as_ref().is_some_and(|request| request.may_commit) {
        return Ending::Unknown;
    }
    let message = format!("the connection to the server is lost: {error}");
    Ending::Failed(SqlError { sqlstate: "08006".to_owned(), message })
}

/// The transaction was carried out, whatever its result: its session has it.
fn executed() -> SqlDone {
    SqlDone::Executed(Ok(Vec::new()))
}

struct SessionRun<'a> {
    connection: &'a mut RawConnection,
    port: &'a mut SessionPort,
    license: Option<License>,
    /// The status of the transaction as of the last ReadyForQuery.
    status: u8,
    /// Messages of the extended protocol were sent behind that.
    is_unsynced: bool,
    /// The messages that begin the transaction, until they are sent.
    opening: Option<Opening>,
}

/// The statement that begins most transactions.
const BEGIN: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";
/// A Query message.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";
/// The status of a connection without a transaction.
const IDLE: u8 = b'I';
/// No statement: it makes a server give up what has come since the last Sync.
const NO_STATEMENT: &str = "weir conveyor gives the transaction up";

impl SessionRun<'_> {
    async fn run(mut self) -> Stop {
        match self.run_to_end().await {
            Ok(stop) | Err(stop) => stop,
        }
    }

    async fn run_to_end(&mut self) -> Result<Stop, Stop> {
        self.begin().await?;
        for place in 0..self.port.start.replayed.len() {
            let (request, digest) = self.port.start.replayed[place].clone();
            let answered = self.ask(&request).await?;
            if answered.digest != digest || !answered.is_whole {
                return self.end_as(Ending::Differs, executed()).await;
            }
        }
        loop {
            let request = match self.port.pending.take() {
                Some(request) => request,
                None => match self.command().await {
                    Some(Command::Run(request)) => request,
                    None => return self.end_as(Ending::Idle, executed()).await,
                    Some(Command::Abort) => return self.end_as(Ending::TooLong, SqlDone::Cancelled).await,
                    Some(Command::End) => {
                        self.roll_back().await?;
                        return Ok(Stop::Over(executed()));
                    }
                },
            };
            self.port.pending = Some(request.clone());
            let answered = self.ask(&request).await?;
            self.port.pending = None;
            if self.port.control.is_aborted() && !answered.is_over() {
                return self.end_as(Ending::TooLong, SqlDone::Cancelled).await;
            }
            let is_over = answered.is_over();
            self.remember(request, &answered);
            let is_heard = self.port.replies.say(SessionReply::Answered(answered)).await;
            if is_over {
                return Ok(Stop::Over(executed()));
            }
            if !is_heard {
                self.roll_back().await?;
                return Ok(Stop::Over(executed()));
            }
        }
    }

    /// Waits for the session's next command. None: it has sent none for too long.
    async fn command(&mut self) -> Option<Command> {
        match self.port.commands.try_recv() {
            Ok(command) => Some(command),
            Err(TryRecvError::Disconnected) => Some(Command::End),
            Err(TryRecvError::Empty) => {
                let command = tokio::time::timeout(IDLE_MAX, self.port.commands.recv()).await.ok()?;
                Some(command.unwrap_or(Command::End))
            }
        }
    }

    /// Prepares the connection, and what begins the transaction: that goes with the first request.
    async fn begin(&mut self) -> Result<(), Stop> {
        self.connection.bound_prepared().await?;
        let settings = self.port.start.settings.clone();
        if let Err(error) = self.connection.adopt(&settings).await? {
            return Err(self.fail(&error).await);
        }
        let start = &self.port.start;
        let begin = match (&start.begin, self.license) {
            (None, None) => None,
            (Some(begin), _) => Some(begin.as_str()),
            (None, Some(_)) => Some(BEGIN),
        };
        let opening = Opening::new(begin, (self.license, start.map), &self.connection.prepared)?;
        self.opening = Some(opening).filter(|opening| opening.statements > 0);
        Ok(())
    }

    /// Hears that the transaction has begun. If it has not, the server has passed over the request, up to its Sync.
    async fn opened(&mut self, opening: Opening, request: &Request) -> Result<(), Stop> {
        let (mut names, mut completed) = (opening.prepared.into_iter(), 0);
        while completed < opening.statements {
            let message = self.connection.message().await?;
            match message.kind() {
                b'1' => self.connection.prepared.extend(names.next().filter(|name| !name.is_empty())),
                b'C' => completed += 1,
                b'E' => return Err(self.not_opened(&message, request).await?),
                _ => {}
            }
        }
        // Statements that no BEGIN has preceded end with the request.
        self.status = if opening.begins { b'T' } else { IDLE };
        Ok(())
    }

    async fn not_opened(&mut self, error: &Message, request: &Request) -> io::Result<Stop> {
        let is_synced = request.messages.ends_with(&SYNC);
        if !is_synced {
            self.connection.write(&SYNC).await?;
        }
        self.status = self.connection.ran().await?.status;
        if is_synced && request.then_commit {
            // Its COMMIT came behind the Sync, and has found no transaction or one that has failed.
            self.status = self.connection.ran().await?.status;
        }
        self.is_unsynced = false;
        self.roll_back().await?;
        Ok(match error.field(b'C') {
            Some(schema::NOT_LICENSED) => Stop::NotLicensed,
            Some(schema::WRONG_MAP) => {
                self.port.replies.say(SessionReply::Over(Ending::WrongMap)).await;
                Stop::Over(executed())
            }
            _ if is_serialization_failure(error) => Stop::Retry,
            _ => self.fail(error).await,
        })
    }

    async fn fail(&mut self, error: &Message) -> Stop {
        let field = |letter| error.field(letter).unwrap_or_default().to_owned();
        let error = SqlError { sqlstate: field(b'C'), message: field(b'M') };
        self.port.replies.say(SessionReply::Over(Ending::Failed(error))).await;
        Stop::Over(executed())
    }

    async fn end_as(&mut self, ending: Ending, done: SqlDone) -> Result<Stop, Stop> {
        self.roll_back().await?;
        self.port.replies.say(SessionReply::Over(ending)).await;
        Ok(Stop::Over(done))
    }

    async fn roll_back(&mut self) -> io::Result<()> {
        if self.is_unsynced {
            // A Sync alone would commit statements that no BEGIN has preceded.
            let mut bytes = BytesMut::new();
            frontend::parse("", NO_STATEMENT, [], &mut bytes)?;
            frontend::sync(&mut bytes);
            self.connection.write(&bytes).await?;
            loop {
                let message = self.connection.message().await?;
                if message.kind() == b'Z' {
                    self.status = message.body().first().copied().unwrap_or(IDLE);
                    break;
                }
            }
            self.is_unsynced = false;
        }
        if self.status != IDLE {
            self.status = self.connection.run("ROLLBACK").await?.status;
        }
        Ok(())
    }

    fn remember(&mut self, request: Arc<Request>, answered: &Answered) {
        let replayed = &mut self.port.start.replayed;
        self.port.is_partial |= !answered.is_whole || replayed.len() >= REPLAYED_MAX;
        if !self.port.is_partial {
            replayed.push((request, answered.digest));
        }
    }

    /// Asks the server. After a serialization failure the transaction is rolled back, if it can be run again.
    async fn ask(&mut self, request: &Request) -> Result<Answered, Stop> {
        let mut answer = Answer::default();
        let opening = self.opening.take();
        let sent = self.send(request, opening.as_ref()).await?;
        if request.sets {
            self.connection.forget_settings();
        }
        if let Some(opening) = opening {
            self.opened(opening, request).await?;
        }
        self.receive(request, sent, &mut answer).await?;
        if request.then_commit {
            self.end_block(&mut answer).await?;
        }
        let is_failure = answer.error.as_ref().is_some_and(is_serialization_failure);
        if is_failure && answer.is_whole() && !self.port.is_partial {
            self.roll_back().await?;
            return Err(Stop::Retry);
        }
        Ok(answer.end())
    }

    /// Writes the messages, behind those that begin the transaction and those that prepare what the connection lacks, and before those that
    /// commit it. Returns the names of what is prepared.
    async fn send(&mut self, request: &Request, opening: Option<&Opening>) -> Result<Vec<String>, Stop> {
        let mut bytes = opening.map_or_else(Vec::new, |opening| opening.messages.to_vec());
        let mut names = Vec::new();
        for (name, parse) in &request.prepared {
            if name.is_empty() || !self.connection.prepared.contains(name) {
                bytes.extend(parse);
                names.push(name.clone());
            }
        }
        bytes.extend(&request.messages);
        if request.then_commit {
            bytes.extend(COMMIT);
        }
        self.connection.write(&bytes).await?;
        self.is_unsynced = true;
        Ok(names)
    }

    async fn receive(
        &mut self,
        request: &Request,
        sent: Vec<String>,
        answer: &mut Answer,
    ) -> Result<(), Stop> {
        let (until, mut sent) = (request.until, sent.into_iter());
        let mut counted = 0;
        loop {
            let message = self.connection.message().await?;
            match message.kind() {
                b'Z' => {
                    answer.status = message.body().first().copied();
                    (self.status, self.is_unsynced) = (answer.status.unwrap_or(IDLE), false);
                    return Ok(());
                }
                b'1' if let Some(name) = sent.next() => {
                    if !name.is_empty() {
                        self.connection.prepared.insert(name);
                    }
                    continue;
                }
                // The session has said so already, and the rows are on their way.
                b'G' if request.copies => continue,
                b'G' | b'W' => {
                    let mut bytes = BytesMut::new();
                    frontend::copy_fail("COPY FROM STDIN does not go through weir conveyor", &mut bytes)?;
                    if until != Until::Ready {
                        frontend::sync(&mut bytes);
                    }
                    self.connection.write(&bytes).await?;
                    continue;
                }
                b'A' => continue,
                b'1' | b'2' | b'3' | b'C' | b'I' | b's' | b'T' | b'n' => counted += 1,
                _ => {}
            }
            let is_error = message.kind() == b'E';
            answer.take(message);
            self.let_go(answer).await?;
            if matches!(until, Until::Answers(count) if counted >= count || is_error) {
                return Ok(());
            }
        }
    }

    /// A long answer of an operation that is not global leaves in parts.
    async fn let_go(&mut self, answer: &mut Answer) -> Result<(), Stop> {
        if answer.messages.len() <= WHOLE_MAX {
            return Ok(());
        }
        if self.license.is_some() {
            if answer.messages.len() > GLOBAL_MAX {
                let why = "the result of a global operation is too large for weir conveyor";
                return Err(Stop::Lost(io::Error::other(why)));
            }
            return Ok(());
        }
        let part = answer.part();
        if !self.port.replies.say(SessionReply::Part(part)).await {
            return Err(Stop::Lost(io::Error::other("the client has gone")));
        }
        Ok(())
    }

    /// Hears how the transaction has ended that was begun for one request: COMMIT went with it.
    async fn end_block(&mut self, answer: &mut Answer) -> Result<(), Stop> {
        let Ran { error, status } = self.connection.ran().await?;
        if let Some(error) = error {
            answer.fail(error);
        }
        (answer.status, self.status) = (Some(status), status);
        Ok(())
    }
}

/// The statements that begin a transaction, in messages of the extended protocol without a Sync: if it fails, the server passes over everything behind it up to
/// the next Sync, so no statement of the session runs outside of the transaction.
struct Opening {
    messages: BytesMut,
    /// Names of what it prepares, in its order.
    prepared: Vec<String>,
    statements: usize,
    /// One of them is a BEGIN.
    begins: bool,
}

impl Opening {
    /// `known`: names of what is prepared.
    fn new(
        begin: Option<&str>,
        (license, map): (Option<License>, Option<MapVersion>),
        known: &BTreeSet<String>,
    ) -> io::Result<Opening> {
        let (messages, begins) = (BytesMut::new(), begin.is_some());
        let mut opening = Opening { messages, prepared: Vec::new(), statements: 0, begins };
        if let Some(begin) = begin {
            // Others are rare.
            let name = if begin == BEGIN { "weir_conveyor_begin" } else { "" };
            opening.add((name, begin), &[], known)?;
        }
        match (license, map) {
            (Some(License { epoch, visit }), map) => {
                let values = [Some(epoch), Some(visit), map];
                opening.add(("weir_conveyor_enter", schema::ENTER), &values, known)?;
            }
            (None, Some(_)) => opening.add(("weir_conveyor_map", schema::CHECK_MAP), &[map], known)?,
            (None, None) => {}
        }
        Ok(opening)
    }

    fn add(
        &mut self,
        (name, text): (&str, &str),
        values: &[Option<u64>],
        known: &BTreeSet<String>,
    ) -> io::Result<()> {
        if !known.contains(name) {
            frontend::parse(name, text, [], &mut self.messages)?;
            self.prepared.push(name.to_owned());
        }
        let values: Vec<_> = values.iter().map(|value| value.map(|number| number.to_string())).collect();
        execute(name, &values, &[], &mut self.messages)?;
        self.statements += 1;
        Ok(())
    }
}

/// An answer that is on its way.
#[derive(Default)]
struct Answer {
    messages: Vec<u8>,
    /// Where the last CommandComplete begins.
    completed: usize,
    has_left: bool,
    status: Option<u8>,
    error: Option<Message>,
    digest: Digest,
}

impl Answer {
    fn take(&mut self, message: Message) {
        match message.kind() {
            b'E' if self.error.is_none() => self.error = Some(message.clone()),
            b'C' => self.completed = self.messages.len(),
            _ => {}
        }
        if !matches!(message.kind(), b'N' | b'S') {
            self.digest.add(message.bytes());
        }
        self.messages.extend(message.bytes());
    }

    /// The COMMIT has failed: what was complete is not.
    fn fail(&mut self, error: Message) {
        self.messages.truncate(self.completed);
        self.take(error);
    }

    fn part(&mut self) -> Vec<u8> {
        (self.has_left, self.completed) = (true, 0);
        std::mem::take(&mut self.messages)
    }

    fn is_whole(&self) -> bool {
        !self.has_left
    }

    fn end(self) -> Answered {
        let is_whole = self.is_whole();
        Answered { messages: self.messages, status: self.status, digest: self.digest.0, is_whole }
    }
}

/// FNV-1a, 64 bits: processes compare digests, so it never changes within a version.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn is_serialization_failure(message: &Message) -> bool {
    matches!(message.field(b'C'), Some("40001" | "40P01"))
}
