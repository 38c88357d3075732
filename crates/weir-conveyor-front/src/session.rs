//! A client's session: its settings, its prepared statements and portals, its transaction; what each message does to them.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{BufMut, Bytes, BytesMut};
use pgwire::messages::PgWireFrontendMessage as Message;
use pgwire::messages::extendedquery::Bind;
use tokio::io::AsyncWriteExt;
use weir_conveyor_net::sessions::{Answered, Request, Until};
use weir_pg::wire::{Expected, Frame, Socket};

use crate::copy::CopyIn;
use crate::figures::count;
use crate::messages::{self, FrontError};
use crate::parameters::given;
use crate::shared::{Cancellable, Shared};
use crate::statement::{Kind, Statement, split};
use crate::transaction::{Bound, Failed, Sink, Transaction};

/// Settings that a session may have.
const SETTINGS_MAX: usize = 200;
/// Prepared statements that a session may have.
const PREPARED_MAX: usize = 10_000;

/// The client's end of a connection. Answers wait until they are flushed.
pub(crate) struct Out {
    pub socket: Socket,
    pub buffer: BytesMut,
}

impl Out {
    pub async fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.socket.get_mut().write_all(&self.buffer).await?;
            self.socket.get_mut().flush().await?;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// A statement of the session.
#[derive(Clone)]
struct Prepared {
    statement: Arc<Statement>,
    /// Its name at servers; empty for the unnamed one.
    name: String,
    /// The Parse message with that name.
    parse: Vec<u8>,
    /// Types of its parameters, as far as they are known.
    types: Vec<u32>,
}

/// The next piece of the answer to a part of an extended query.
enum Awaited {
    /// The front answers this itself.
    Own(Vec<u8>),
    /// An answer of the server. A description of a statement says the types of its parameters.
    Server(Option<String>),
}

/// Messages of an extended query that go to the server together.
#[derive(Default)]
struct Part {
    messages: Vec<u8>,
    prepared: Vec<(String, Vec<u8>)>,
    awaited: Vec<Awaited>,
    statements: Vec<Bound>,
    has_unnamed: bool,
}

impl Part {
    fn server(&mut self, kind: u8, body: &[u8], describes: Option<String>) {
        self.messages.extend(messages::of_client(kind, |out| out.extend_from_slice(body)));
        self.awaited.push(Awaited::Server(describes));
    }

    fn own(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let mut out = BytesMut::new();
        write(&mut out);
        self.awaited.push(Awaited::Own(out.to_vec()));
    }

    fn answers(&self) -> u32 {
        self.awaited.iter().filter(|each| matches!(each, Awaited::Server(_))).count() as u32
    }
}

/// The state of a session's transaction.
enum State {
    Idle,
    /// One is under way; of its own or of one request.
    Open(Box<Transaction>),
    /// It has failed at the agent, and its client has not said so yet.
    Failed,
}

pub(crate) struct Session {
    shared: Arc<Shared>,
    pub cancellable: Cancellable,
    settings: Arc<Vec<String>>,
    /// Those of the startup packet.
    startup: Arc<Vec<String>>,
    /// Settings of the transaction that is open: they stay if it commits.
    new_settings: Vec<String>,
    statements: BTreeMap<String, Prepared>,
    portals: BTreeMap<String, Bound>,
    state: State,
    /// The transaction has failed at the server.
    is_failed: bool,
    part: Part,
    /// After an error everything up to Sync is passed over.
    pub(crate) skips: bool,
    /// A COPY FROM STDIN whose rows are coming.
    pub(crate) copy: Option<CopyIn>,
}

/// Answers of an extended query, among which the front puts its own.
struct Extended<'a> {
    out: &'a mut Out,
    awaited: std::vec::IntoIter<Awaited>,
    current: Option<Option<String>>,
    types: Vec<(String, Vec<u32>)>,
    has_failed: bool,
}

impl Extended<'_> {
    fn own(&mut self) {
        while self.current.is_none() {
            match self.awaited.next() {
                Some(Awaited::Own(bytes)) => self.out.buffer.extend_from_slice(&bytes),
                Some(Awaited::Server(describes)) => self.current = Some(describes),
                None => return,
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while let Some((kind, message)) = messages::first(bytes) {
            bytes = &bytes[message.len()..];
            if !matches!(kind, b'N' | b'S') {
                self.own();
            }
            self.out.buffer.extend_from_slice(message);
            match kind {
                b't' => {
                    if let Some(Some(name)) = &self.current {
                        self.types.push((name.clone(), types_in(message)));
                    }
                }
                b'E' => self.has_failed = true,
                b'1' | b'2' | b'3' | b'C' | b'I' | b's' | b'T' | b'n' => self.current = None,
                _ => {}
            }
        }
        if !self.has_failed {
            self.own();
        }
    }
}

/// Types in a ParameterDescription.
fn types_in(message: &[u8]) -> Vec<u32> {
    let numbers = message.get(7..).unwrap_or_default().chunks_exact(4);
    numbers.map(|number| u32::from_be_bytes([number[0], number[1], number[2], number[3]])).collect()
}

impl Sink for Extended<'_> {
    async fn part(&mut self, messages: &[u8]) -> io::Result<()> {
        self.take(messages);
        self.out.flush().await
    }
}

impl Sink for Out {
    async fn part(&mut self, messages: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(messages);
        self.flush().await
    }
}

impl Session {
    pub fn new(shared: Arc<Shared>, settings: Vec<String>) -> Session {
        let startup = Arc::new(settings);
        Session {
            shared,
            cancellable: Cancellable::default(),
            settings: startup.clone(),
            startup,
            new_settings: Vec::new(),
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
            state: State::Idle,
            is_failed: false,
            part: Part::default(),
            skips: false,
            copy: None,
        }
    }

    pub(crate) fn status(&self) -> u8 {
        match &self.state {
            State::Open(transaction) if transaction.is_block() => {
                if self.is_failed {
                    b'E'
                } else {
                    b'T'
                }
            }
            State::Failed => b'E',
            _ => b'I',
        }
    }

    /// Takes a message, and writes what answers it. Answers leave where the protocol says so.
    pub async fn take(&mut self, frame: Frame, out: &mut Out) -> io::Result<()> {
        let kind = frame.kind;
        if self.skips && kind != b'S' {
            return Ok(());
        }
        let body = frame.body.clone();
        if self.copy.is_some() {
            return self.copy((kind, &body), out).await;
        }
        let message = match frame.message(Expected::Command) {
            Ok(message) => message,
            Err(error) => {
                let error = FrontError::new(error.state().as_str(), error.message());
                return self.refuse(error, kind != b'Q', out).await;
            }
        };
        match message {
            Message::Query(query) => self.query(&query.query, out).await,
            Message::Sync(_) => self.sync(out).await,
            Message::Flush(_) => {
                self.run_part(out).await?;
                out.flush().await
            }
            // A COPY that was refused.
            Message::CopyData(_) | Message::CopyDone(_) | Message::CopyFail(_) => Ok(()),
            message => match self.extended(message, &body, out).await {
                Ok(()) => Ok(()),
                Err(Failed::Socket(error)) => Err(error),
                Err(Failed::Error(error)) => self.refuse(error, true, out).await,
            },
        }
    }

    /// Reports an error of the front.
    async fn refuse(&mut self, error: FrontError, is_extended: bool, out: &mut Out) -> io::Result<()> {
        if is_extended {
            // Messages before it are answered before it.
            if !self.part.awaited.is_empty() {
                self.run_part(out).await?;
            }
            self.part = Part::default();
            if self.skips {
                return Ok(());
            }
            self.skips = true;
        }
        self.report(&error, out);
        if !is_extended {
            messages::ready(&mut out.buffer, self.status());
            out.flush().await?;
        }
        Ok(())
    }

    /// Writes an error. It fails the transaction.
    pub(crate) fn report(&mut self, error: &FrontError, out: &mut Out) {
        messages::error(&mut out.buffer, "ERROR", error);
        self.state = match std::mem::replace(&mut self.state, State::Idle) {
            State::Open(transaction) if transaction.is_block() => State::Failed,
            State::Failed => State::Failed,
            _ => State::Idle,
        };
        self.is_failed = false;
    }

    async fn query(&mut self, text: &str, out: &mut Out) -> io::Result<()> {
        self.portals.remove("");
        let pieces = split(text);
        let statements: Vec<_> = pieces.into_iter().map(|piece| Arc::new(Statement::of(piece))).collect();
        if let [statement] = &*statements
            && let Kind::CopyIn { columns, is_binary } = statement.kind
        {
            self.copy = Some(CopyIn::begin(statement.clone(), false));
            messages::copy_in(&mut out.buffer, columns, is_binary);
            return out.flush().await;
        }
        if statements.is_empty() {
            messages::bare(&mut out.buffer, b'I');
        }
        // A text without statements about transactions is one transaction, and goes as it is.
        let is_plain = |statement: &Arc<Statement>| {
            matches!(statement.kind, Kind::Ordinary | Kind::Neutral | Kind::Call(..) | Kind::Savepoint)
        };
        if statements.len() > 1 && statements.iter().all(is_plain) {
            let all: Vec<Bound> = statements.into_iter().map(|statement| (statement, Vec::new())).collect();
            let ran = self.run_text(text, &all, false, out).await;
            self.end_text(ran, out)?;
        } else {
            for statement in statements {
                let ran = self.run_statement(&statement, out).await;
                if !self.end_text(ran, out)? {
                    break;
                }
            }
        }
        self.end_request();
        messages::ready(&mut out.buffer, self.status());
        out.flush().await
    }

    /// Reports the error of a text. Returns whether there was none.
    pub(crate) fn end_text(&mut self, ran: Result<bool, Failed>, out: &mut Out) -> io::Result<bool> {
        match ran {
            Ok(goes_on) => Ok(goes_on),
            Err(Failed::Socket(error)) => Err(error),
            Err(Failed::Error(error)) => {
                self.report(&error, out);
                Ok(false)
            }
        }
    }

    /// A transaction of one request is over with it.
    pub(crate) fn end_request(&mut self) {
        if let State::Open(transaction) = &self.state
            && !transaction.is_block()
        {
            transaction.end_observed(&self.shared);
            self.state = State::Idle;
        }
    }

    /// Runs a statement of the simple protocol. Returns whether the next one may run.
    async fn run_statement(&mut self, statement: &Arc<Statement>, out: &mut Out) -> Result<bool, Failed> {
        if let Some(ran) = self.control(statement, out).await? {
            return Ok(ran);
        }
        let text = statement.text.clone();
        let sets = matches!(statement.kind, Kind::Set | Kind::ResetAll);
        self.run_text(&text, &[(statement.clone(), Vec::new())], sets, out).await
    }

    async fn run_text(
        &mut self,
        text: &str,
        statements: &[Bound],
        sets: bool,
        out: &mut Out,
    ) -> Result<bool, Failed> {
        let messages = messages::of_client(b'Q', |out| messages::text(out, text));
        let request = Request {
            messages,
            prepared: Vec::new(),
            until: Until::Ready,
            then_commit: false,
            may_commit: false,
            sets,
            copies: false,
        };
        let answered = self.ask((request, statements), out).await?;
        let has_failed = has_error(&answered.messages);
        out.buffer.extend_from_slice(&answered.messages);
        if sets && !has_failed {
            self.note_settings(statements);
        }
        Ok(!has_failed)
    }

    fn note_settings(&mut self, statements: &[Bound]) {
        let is_block = matches!(&self.state, State::Open(transaction) if transaction.is_block());
        for (statement, _) in statements {
            match (&statement.kind, is_block) {
                (Kind::ResetAll, _) => self.settings = self.startup.clone(),
                (Kind::Set, true) => self.new_settings.push(statement.text.clone()),
                (Kind::Set, false) => self.add_settings(vec![statement.text.clone()]),
                _ => {}
            }
        }
    }

    fn add_settings(&mut self, new: Vec<String>) {
        let mut settings = (*self.settings).clone();
        for setting in new {
            settings.retain(|known| *known != setting);
            settings.push(setting);
        }
        let excess = settings.len().saturating_sub(SETTINGS_MAX);
        settings.drain(..excess);
        self.settings = Arc::new(settings);
    }

    /// Asks the server in the transaction that is under way, or in one of the request.
    pub(crate) async fn ask(
        &mut self,
        asked: (Request, &[Bound]),
        sink: &mut impl Sink,
    ) -> Result<Answered, Failed> {
        if matches!(self.state, State::Failed) {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(FrontError::new("25P02", message).into());
        }
        if matches!(self.state, State::Idle) {
            count(&self.shared.figures.transactions);
            self.state = State::Open(Box::new(Transaction::new(None, self.settings.clone())));
        }
        let State::Open(transaction) = &mut self.state else {
            return Err(FrontError::new("XX000", "no transaction").into());
        };
        let answered = match transaction.ask(&self.shared, &self.cancellable, asked, sink).await {
            Ok(answered) => answered,
            Err(failed) => {
                transaction.end_recording(&self.shared, true);
                return Err(failed);
            }
        };
        self.is_failed = answered.status == Some(b'E');
        if answered.is_over() {
            transaction.end_observed(&self.shared);
            transaction.end_recording(&self.shared, has_error(&answered.messages));
            self.state = State::Idle;
            self.portals.clear();
        }
        Ok(answered)
    }

    /// Statements that the front answers itself, or has to answer for. None: the statement is for the server.
    async fn control(&mut self, statement: &Statement, out: &mut Out) -> Result<Option<bool>, Failed> {
        match &statement.kind {
            Kind::Empty => messages::bare(&mut out.buffer, b'I'),
            Kind::Begin(begin) => {
                match &self.state {
                    State::Idle => {
                        count(&self.shared.figures.transactions);
                        let begin = if self.shared.passes_through() { &statement.text } else { begin };
                        let transaction = Transaction::new(Some(begin.clone()), self.settings.clone());
                        self.state = State::Open(Box::new(transaction));
                    }
                    State::Open(transaction) if transaction.is_block() => {}
                    State::Open(_) => {
                        let message = "BEGIN within statements that are one transaction already";
                        return Err(FrontError::new("0A000", message).into());
                    }
                    State::Failed => return self.ask_nothing().map(Some),
                }
                messages::complete(&mut out.buffer, "BEGIN");
            }
            Kind::Commit | Kind::RollBack => return self.end_transaction(statement, out).await.map(Some),
            Kind::Ignored(tag) => messages::complete(&mut out.buffer, tag),
            Kind::Discard => {
                self.settings = self.startup.clone();
                self.statements.clear();
                messages::complete(&mut out.buffer, "DISCARD ALL");
            }
            Kind::Deallocate(name) => {
                match name {
                    Some(name) => drop(self.statements.remove(name)),
                    None => self.statements.clear(),
                }
                messages::complete(
                    &mut out.buffer,
                    if name.is_some() { "DEALLOCATE" } else { "DEALLOCATE ALL" },
                );
            }
            Kind::Refused(what) if !self.shared.passes_through() || is_of_connection(what) => {
                count(&self.shared.figures.refused);
                let message = format!("weir conveyor does not carry {what}");
                return Err(FrontError::new("0A000", message).into());
            }
            Kind::CopyIn { .. } => {
                count(&self.shared.figures.refused);
                let message = "weir conveyor carries COPY FROM STDIN only as a statement by itself";
                return Err(FrontError::new("0A000", message).into());
            }
            Kind::Definition
                if !self.shared.passes_through() && !self.shared.is_maintained.load(Ordering::SeqCst) =>
            {
                count(&self.shared.figures.refused);
                let message = "weir conveyor carries no definitions outside the maintenance mode";
                let hint = "say MAINTENANCE ON on the admin database of each agent, change each server, restart the agents";
                return Err(FrontError::new("0A000", message).with_hint(hint).into());
            }
            _ => return Ok(None),
        }
        Ok(Some(true))
    }

    fn ask_nothing(&self) -> Result<bool, Failed> {
        let message = "current transaction is aborted, commands ignored until end of transaction block";
        Err(FrontError::new("25P02", message).into())
    }

    async fn end_transaction(&mut self, statement: &Statement, out: &mut Out) -> Result<bool, Failed> {
        let is_commit = statement.kind == Kind::Commit;
        let new_settings = std::mem::take(&mut self.new_settings);
        if let State::Open(transaction) = &mut self.state
            && transaction.is_open()
        {
            if !is_commit {
                transaction.give_up();
            }
            let text = if is_commit { "COMMIT" } else { "ROLLBACK" };
            let messages = messages::of_client(b'Q', |out| messages::text(out, text));
            let until = Until::Ready;
            let request = Request {
                messages,
                prepared: Vec::new(),
                until,
                then_commit: false,
                may_commit: is_commit,
                sets: false,
                copies: false,
            };
            let answered = self.ask((request, &[]), out).await?;
            let has_failed = has_error(&answered.messages);
            out.buffer.extend_from_slice(&answered.messages);
            if is_commit && !has_failed {
                self.add_settings(new_settings);
            }
            return Ok(!has_failed);
        }
        let is_failed = matches!(self.state, State::Failed);
        if let State::Open(transaction) = &self.state {
            transaction.end_observed(&self.shared);
        }
        (self.state, self.is_failed) = (State::Idle, false);
        self.portals.clear();
        messages::complete(&mut out.buffer, if is_commit && !is_failed { "COMMIT" } else { "ROLLBACK" });
        Ok(true)
    }

    /// Takes a message of an extended query.
    async fn extended(&mut self, message: Message, body: &Bytes, out: &mut Out) -> Result<(), Failed> {
        match message {
            Message::Parse(parse) => {
                let name = parse.name.unwrap_or_default();
                self.parse(name, &parse.query, &parse.type_oids, body)?;
            }
            Message::Bind(bind) => self.bind(bind, body)?,
            Message::Describe(describe) => {
                let name = describe.name.unwrap_or_default();
                self.describe(describe.target_type == b'S', &name, body)?;
            }
            Message::Execute(execute) => {
                let name = execute.name.unwrap_or_default();
                self.execute(&name, body, out).await?;
            }
            Message::Close(close) => {
                let name = close.name.unwrap_or_default();
                let portal = match close.target_type {
                    b'S' => {
                        self.statements.remove(&name);
                        None
                    }
                    _ => self.portals.remove(&name),
                };
                match portal.is_some_and(|(statement, _)| !is_own(&statement.kind)) {
                    true => self.part.server(b'C', body, None),
                    false => self.part.own(|out| messages::bare(out, b'3')),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn bind(&mut self, bind: Bind, body: &Bytes) -> Result<(), FrontError> {
        let portal = bind.portal_name.unwrap_or_default();
        let name = bind.statement_name.unwrap_or_default();
        let prepared = self.prepared(&name)?;
        let mut givens = Vec::new();
        for (place, value) in bind.parameters.iter().enumerate() {
            let codes = &bind.parameter_format_codes;
            let code = if codes.len() == 1 { codes.first() } else { codes.get(place) };
            let kind = prepared.types.get(place).copied().unwrap_or(0);
            givens.push(given(value.as_deref(), code.is_some_and(|code| *code == 1), kind)?);
        }
        self.portals.insert(portal.clone(), (prepared.statement.clone(), givens));
        if is_own(&prepared.statement.kind) {
            self.part.own(|out| messages::bare(out, b'2'));
            return Ok(());
        }
        self.need(&prepared);
        // The names come first, each with a zero behind it.
        let rest = &body[portal.len() + name.len() + 2..];
        let mut renamed = BytesMut::new();
        messages::text(&mut renamed, &portal);
        messages::text(&mut renamed, &prepared.name);
        renamed.extend_from_slice(rest);
        self.part.server(b'B', &renamed, None);
        Ok(())
    }

    async fn execute(&mut self, name: &str, body: &Bytes, out: &mut Out) -> Result<(), Failed> {
        let portal = self.portals.get(name).cloned();
        let bound = portal.ok_or_else(|| no_portal(name))?;
        if is_own(&bound.0.kind) {
            self.run_part(out).await.map_err(Failed::Socket)?;
            if let Kind::CopyIn { columns, is_binary } = bound.0.kind
                && !self.skips
            {
                self.copy = Some(CopyIn::begin(bound.0.clone(), true));
                messages::copy_in(&mut out.buffer, columns, is_binary);
                out.flush().await.map_err(Failed::Socket)?;
            } else if !self.skips {
                self.control(&bound.0, out).await?;
            }
            return Ok(());
        }
        if let Kind::Definition | Kind::Refused(_) = bound.0.kind {
            self.control(&bound.0, out).await?;
        }
        self.part.server(b'E', body, None);
        self.part.statements.push(bound);
        Ok(())
    }

    fn parse(&mut self, name: String, text: &str, types: &[u32], body: &Bytes) -> Result<(), FrontError> {
        if self.statements.len() >= PREPARED_MAX {
            return Err(FrontError::new("53400", "the session has too many prepared statements"));
        }
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(FrontError::new("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        let statement = Arc::new(Statement::of(text));
        if let (Kind::Refused(what), false) = (&statement.kind, self.shared.passes_through()) {
            count(&self.shared.figures.refused);
            return Err(FrontError::new("0A000", format!("weir conveyor does not carry {what}")));
        }
        let at_server = if name.is_empty() { String::new() } else { self.shared.names.next() };
        let mut renamed = BytesMut::new();
        messages::text(&mut renamed, &at_server);
        renamed.extend_from_slice(&body[name.len() + 1..]);
        let parse = messages::of_client(b'P', |out| out.extend_from_slice(&renamed));
        let is_own = is_own(&statement.kind);
        let prepared = Prepared { statement, name: at_server, parse, types: types.to_vec() };
        match (is_own, name.is_empty()) {
            (true, _) => self.part.own(|out| messages::bare(out, b'1')),
            (false, true) => {
                self.part.has_unnamed = true;
                self.part.server(b'P', &renamed, None);
            }
            (false, false) => {
                self.need(&prepared);
                self.part.own(|out| messages::bare(out, b'1'));
            }
        }
        self.statements.insert(name, prepared);
        Ok(())
    }

    fn prepared(&self, name: &str) -> Result<Prepared, FrontError> {
        let found = self.statements.get(name).cloned();
        found.ok_or_else(|| FrontError::new("26000", format!("prepared statement \"{name}\" does not exist")))
    }

    /// The statement has to be prepared where the part runs.
    fn need(&mut self, prepared: &Prepared) {
        let is_there = match prepared.name.is_empty() {
            true => self.part.has_unnamed,
            false => self.part.prepared.iter().any(|(name, _)| *name == prepared.name),
        };
        if !is_there {
            self.part.has_unnamed |= prepared.name.is_empty();
            self.part.prepared.push((prepared.name.clone(), prepared.parse.clone()));
        }
    }

    fn describe(&mut self, is_statement: bool, name: &str, body: &Bytes) -> Result<(), FrontError> {
        if !is_statement {
            let is_open = matches!(&self.state, State::Open(transaction) if transaction.is_open());
            match self.portals.get(name) {
                Some((statement, _)) if is_own(&statement.kind) => {
                    self.part.own(|out| messages::bare(out, b'n'));
                }
                // DECLARE makes a portal, too: the server knows.
                None if !is_open => return Err(no_portal(name)),
                _ => self.part.server(b'D', body, None),
            }
            return Ok(());
        }
        let prepared = self.prepared(name)?;
        if is_own(&prepared.statement.kind) {
            self.part.own(|out| {
                messages::no_parameters(out);
                messages::bare(out, b'n');
            });
            return Ok(());
        }
        self.need(&prepared);
        let mut renamed = BytesMut::new();
        renamed.put_u8(b'S');
        messages::text(&mut renamed, &prepared.name);
        self.part.server(b'D', &renamed, Some(name.to_owned()));
        Ok(())
    }

    /// Sends what has come of an extended query, and answers it.
    async fn run_part(&mut self, out: &mut Out) -> io::Result<()> {
        let part = std::mem::take(&mut self.part);
        if part.answers() == 0 {
            for each in part.awaited {
                if let Awaited::Own(bytes) = each {
                    out.buffer.extend_from_slice(&bytes);
                }
            }
            return Ok(());
        }
        let until = Until::Answers(part.answers());
        self.send(part, until, out).await
    }

    async fn send(&mut self, part: Part, until: Until, out: &mut Out) -> io::Result<()> {
        let Part { mut messages, prepared, awaited, statements, .. } = part;
        let end = if until == Until::Ready { b'S' } else { b'H' };
        messages.extend(messages::of_client(end, |_| ()));
        let sets =
            statements.iter().any(|(statement, _)| matches!(statement.kind, Kind::Set | Kind::ResetAll));
        let request =
            Request { messages, prepared, until, then_commit: false, may_commit: false, sets, copies: false };
        let mut extended = Extended {
            out,
            awaited: awaited.into_iter(),
            current: None,
            types: Vec::new(),
            has_failed: false,
        };
        extended.own();
        let asked = self.ask((request, &statements), &mut extended).await;
        if let Ok(answered) = &asked {
            extended.take(&answered.messages);
        }
        let (types, has_failed) = (std::mem::take(&mut extended.types), extended.has_failed);
        for (name, types) in types {
            if let Some(prepared) = self.statements.get_mut(&name) {
                prepared.types = types;
            }
        }
        match asked {
            Ok(_) => {
                self.skips |= has_failed && until != Until::Ready;
                if sets && !has_failed {
                    self.note_settings(&statements);
                }
            }
            Err(Failed::Socket(error)) => return Err(error),
            Err(Failed::Error(error)) => {
                self.report(&error, out);
                self.skips = until != Until::Ready;
            }
        }
        Ok(())
    }

    async fn sync(&mut self, out: &mut Out) -> io::Result<()> {
        let mut part = std::mem::take(&mut self.part);
        if self.skips {
            part = Part::default();
        }
        let is_open = matches!(&self.state, State::Open(transaction) if transaction.is_open());
        let is_block = matches!(&self.state, State::Open(transaction) if transaction.is_block());
        // A request that ended with a Flush, or has failed, is over with a Sync at the server.
        let has_work = !part.prepared.is_empty() || part.answers() > 0;
        if has_work || is_open && (self.skips || !is_block) {
            self.send(part, Until::Ready, out).await?;
        } else {
            for each in part.awaited {
                if let Awaited::Own(bytes) = each {
                    out.buffer.extend_from_slice(&bytes);
                }
            }
        }
        self.skips = false;
        self.end_request();
        messages::ready(&mut out.buffer, self.status());
        out.flush().await
    }
}

fn no_portal(name: &str) -> FrontError {
    FrontError::new("34000", format!("portal \"{name}\" does not exist"))
}

/// Statements that the front answers itself.
fn is_own(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Empty
            | Kind::Begin(_)
            | Kind::Commit
            | Kind::RollBack
            | Kind::Ignored(_)
            | Kind::Deallocate(_)
            | Kind::Discard
            | Kind::CopyIn { .. }
    )
}

/// Returns whether even a pass-through cannot carry it, since its connections are shared.
fn is_of_connection(what: &str) -> bool {
    !what.starts_with("LOCK") && !what.starts_with("two-phase")
}

pub(crate) fn has_error(mut bytes: &[u8]) -> bool {
    while let Some((kind, message)) = messages::first(bytes) {
        if kind == b'E' {
            return true;
        }
        bytes = &bytes[message.len()..];
    }
    false
}
