//! Runs the transaction of a session over a connection: begins it, asks again what was asked before, and answers until it is over.

use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use weir_conveyor::schema;
use weir_conveyor::work::License;

use crate::operation::{SqlDone, SqlError};
use crate::raw::{Message, Ran, RawConnection};
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

/// Runs the transaction. The port stays with the caller if it is to run again.
///
/// # Errors
/// The connection is lost.
pub(crate) fn run(
    connection: &mut RawConnection,
    port: &mut SessionPort,
    license: Option<License>,
) -> Result<SqlDone, io::Error> {
    port.control.set_key(Some(connection.cancel_key()));
    let stopped = SessionRun { connection, port, license, status: IDLE, is_unsynced: false }.run();
    port.control.set_key(None);
    match stopped {
        Stop::Lost(error) => Err(error),
        Stop::Retry => Ok(SqlDone::SerializationFailure),
        Stop::NotLicensed => Ok(SqlDone::NotLicensed),
        Stop::Over(done) => Ok(done),
    }
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
}

/// The status of a connection without a transaction.
const IDLE: u8 = b'I';
/// No statement: it makes a server give up what has come since the last Sync.
const NO_STATEMENT: &str = "weir conveyor gives the transaction up";

impl SessionRun<'_> {
    fn run(mut self) -> Stop {
        match self.run_to_end() {
            Ok(stop) | Err(stop) => stop,
        }
    }

    fn run_to_end(&mut self) -> Result<Stop, Stop> {
        self.begin()?;
        for place in 0..self.port.start.replayed.len() {
            let (request, digest) = self.port.start.replayed[place].clone();
            let answered = self.ask(&request)?;
            if answered.digest != digest || !answered.is_whole {
                return self.end_as(Ending::Differs, executed());
            }
        }
        loop {
            let request = match self.port.pending.take() {
                Some(request) => request,
                None => match self.port.commands.recv_timeout(IDLE_MAX) {
                    Ok(Command::Run(request)) => request,
                    Err(RecvTimeoutError::Timeout) => return self.end_as(Ending::Idle, executed()),
                    Ok(Command::Abort) => return self.end_as(Ending::TooLong, SqlDone::Cancelled),
                    Ok(Command::End) | Err(RecvTimeoutError::Disconnected) => {
                        self.roll_back()?;
                        return Ok(Stop::Over(executed()));
                    }
                },
            };
            self.port.pending = Some(request.clone());
            let answered = self.ask(&request)?;
            self.port.pending = None;
            if self.port.control.is_aborted() && !answered.is_over() {
                return self.end_as(Ending::TooLong, SqlDone::Cancelled);
            }
            let is_over = answered.is_over();
            self.remember(request, &answered);
            if !(self.port.replies)(SessionReply::Answered(answered)) && !is_over {
                self.roll_back()?;
                return Ok(Stop::Over(executed()));
            }
            if is_over {
                return Ok(Stop::Over(executed()));
            }
        }
    }

    /// Begins the transaction. A global one locks the epoch row, and says in which visit it runs.
    fn begin(&mut self) -> Result<(), Stop> {
        self.connection.bound_prepared()?;
        let settings = self.port.start.settings.clone();
        if let Err(error) = self.connection.adopt(&settings)? {
            return Err(self.fail(&error));
        }
        let begin = match (&self.port.start.begin, self.license) {
            (None, None) => return Ok(()),
            (Some(begin), _) => begin.clone(),
            (None, Some(_)) => "BEGIN ISOLATION LEVEL SERIALIZABLE".to_owned(),
        };
        let text = match self.license {
            None => begin,
            Some(license) => {
                format!("{begin}; {}; {}", schema::lock_epoch(license), schema::set_visit(license))
            }
        };
        let Ran { error, rows, status } = self.connection.run(&text)?;
        self.status = status;
        match error {
            Some(error) if is_serialization_failure(&error) => {
                self.roll_back()?;
                Err(Stop::Retry)
            }
            Some(error) => {
                self.roll_back()?;
                Err(self.fail(&error))
            }
            // One row is that of set_visit.
            None if self.license.is_some() && rows < 2 => {
                self.roll_back()?;
                Err(Stop::NotLicensed)
            }
            None => Ok(()),
        }
    }

    fn fail(&mut self, error: &Message) -> Stop {
        let field = |letter| error.field(letter).unwrap_or_default().to_owned();
        let error = SqlError { sqlstate: field(b'C'), message: field(b'M') };
        (self.port.replies)(SessionReply::Over(Ending::Failed(error)));
        Stop::Over(executed())
    }

    fn end_as(&mut self, ending: Ending, done: SqlDone) -> Result<Stop, Stop> {
        self.roll_back()?;
        (self.port.replies)(SessionReply::Over(ending));
        Ok(Stop::Over(done))
    }

    fn roll_back(&mut self) -> io::Result<()> {
        if self.is_unsynced {
            // A Sync alone would commit statements that no BEGIN has preceded.
            let mut bytes = BytesMut::new();
            frontend::parse("", NO_STATEMENT, [], &mut bytes)?;
            frontend::sync(&mut bytes);
            self.connection.write(&bytes)?;
            loop {
                let message = self.connection.message()?;
                if message.kind() == b'Z' {
                    self.status = message.body().first().copied().unwrap_or(IDLE);
                    break;
                }
            }
            self.is_unsynced = false;
        }
        if self.status != IDLE {
            self.status = self.connection.run("ROLLBACK")?.status;
        }
        Ok(())
    }

    fn remember(&mut self, request: Request, answered: &Answered) {
        let replayed = &mut self.port.start.replayed;
        self.port.is_partial |= !answered.is_whole || replayed.len() >= REPLAYED_MAX;
        if !self.port.is_partial {
            replayed.push((request, answered.digest));
        }
    }

    /// Asks the server. After a serialization failure the transaction is rolled back, if it can be run again.
    fn ask(&mut self, request: &Request) -> Result<Answered, Stop> {
        let mut answer = Answer::default();
        let sent = self.send(request)?;
        if request.sets {
            self.connection.forget_settings();
        }
        self.receive(request.until, sent, &mut answer)?;
        if request.then_commit {
            self.end_block(&mut answer)?;
        }
        let is_failure = answer.error.as_ref().is_some_and(is_serialization_failure);
        if is_failure && answer.is_whole() && !self.port.is_partial {
            self.roll_back()?;
            return Err(Stop::Retry);
        }
        Ok(answer.end())
    }

    /// Writes the messages, behind those that prepare what the connection lacks. Returns the names of the latter.
    fn send(&mut self, request: &Request) -> Result<Vec<String>, Stop> {
        let mut bytes = Vec::new();
        let mut names = Vec::new();
        for (name, parse) in &request.prepared {
            if name.is_empty() || !self.connection.prepared.contains(name) {
                bytes.extend(parse);
                names.push(name.clone());
            }
        }
        bytes.extend(&request.messages);
        self.connection.write(&bytes)?;
        self.is_unsynced = true;
        Ok(names)
    }

    fn receive(&mut self, until: Until, sent: Vec<String>, answer: &mut Answer) -> Result<(), Stop> {
        let mut sent = sent.into_iter();
        let mut counted = 0;
        loop {
            let message = self.connection.message()?;
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
                b'G' | b'W' => {
                    let mut bytes = BytesMut::new();
                    frontend::copy_fail("COPY FROM STDIN does not go through weir conveyor", &mut bytes)?;
                    if until != Until::Ready {
                        frontend::sync(&mut bytes);
                    }
                    self.connection.write(&bytes)?;
                    continue;
                }
                b'A' => continue,
                b'1' | b'2' | b'3' | b'C' | b'I' | b's' | b'T' | b'n' => counted += 1,
                _ => {}
            }
            let is_error = message.kind() == b'E';
            answer.take(message);
            self.let_go(answer)?;
            if matches!(until, Until::Answers(count) if counted >= count || is_error) {
                return Ok(());
            }
        }
    }

    /// A long answer of an operation that is not global leaves in parts.
    fn let_go(&mut self, answer: &mut Answer) -> Result<(), Stop> {
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
        if !(self.port.replies)(SessionReply::Part(part)) {
            return Err(Stop::Lost(io::Error::other("the client has gone")));
        }
        Ok(())
    }

    /// Ends the transaction that was begun for one request.
    fn end_block(&mut self, answer: &mut Answer) -> Result<(), Stop> {
        match answer.status {
            Some(b'T') => {
                let Ran { error, status, .. } = self.connection.run("COMMIT")?;
                if let Some(error) = error {
                    answer.fail(error);
                }
                (answer.status, self.status) = (Some(status), status);
            }
            Some(b'E') => {
                self.status = self.connection.run("ROLLBACK")?.status;
                answer.status = Some(self.status);
            }
            _ => {}
        }
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
