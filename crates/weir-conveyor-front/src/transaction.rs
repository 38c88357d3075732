//! A transaction of a session: where it is placed, and how it runs there (docs/internals/conveyor.md, "Which operation is this?").

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use weir_conveyor::matching::{Column, Matching, Refusal, Statement as Matched, StatementAction};
use weir_conveyor::message::{Lacks, Placement};
use weir_conveyor_net::process::OpenTransaction;
use weir_conveyor_net::sessions::{Answered, Ending, Replies, Request, SessionReply, SessionStart, Until};
use weir_pg::Recording;
use weir_sql::normal::normalised;

use crate::application::Application;
use crate::figures::count;
use crate::messages::FrontError;
use crate::parameters::Given;
use crate::rows;
use crate::shared::{Cancellable, Mode, Shared};
use crate::statement::{Argument, Kind, Statement, is_neutral, read_tables};

/// Answers that wait for a client that reads slowly.
const REPLIES_MAX: usize = 16;

/// A statement that is to run, with its parameters.
pub(crate) type Bound = (Arc<Statement>, Vec<Given>);

/// A transaction, from its first statement on.
pub(crate) struct Transaction {
    /// The statement that begins it, if its client has said one.
    begin: Option<String>,
    settings: Arc<Vec<String>>,
    /// The application with the map by which it is placed.
    application: Option<Arc<dyn Application>>,
    matching: Option<Matching>,
    /// Statements that count for it.
    texts: Vec<String>,
    /// There are more of them than are kept.
    is_long: bool,
    /// Where its calls run together.
    called: Option<Placement>,
    /// Where it runs, once it does.
    open: Option<Open>,
    /// Requests so far, and the digests of their answers.
    asked: Vec<(Arc<Request>, u64)>,
    /// Its answers could not be taken back, so it stays where it is.
    is_bound: bool,
    /// Where it would have been placed.
    observed: Option<Placement>,
    /// The place where it was begun last.
    placed: Option<Placement>,
    /// None: its contention is not recorded. A transaction is recorded from its first request on, once.
    recording: Option<Box<Recording>>,
    is_begun: bool,
    /// The first routine that a recorded one calls.
    call: Option<String>,
    /// An answer has left it failed, or its client gives it up.
    is_given_up: bool,
}

/// How long a transaction is placed again while its partition moves, and how soon.
const PLACED_AGAIN_MAX: Duration = Duration::from_secs(10);
const PLACED_AGAIN: Duration = Duration::from_millis(5);

/// Requests that are kept to be asked again elsewhere.
const ASKED_MAX: usize = 1_000;

struct Open {
    placement: Placement,
    /// It goes before the handle: whoever waits to say something more is let go before the transaction is given up.
    replies: mpsc::Receiver<SessionReply>,
    handle: Arc<OpenTransaction>,
}

/// Takes parts of an answer that leave before its end.
pub(crate) trait Sink {
    async fn part(&mut self, messages: &[u8]) -> std::io::Result<()>;
}

/// Why a request has no answer.
pub(crate) enum Failed {
    Error(FrontError),
    Socket(std::io::Error),
}

/// The end of a request.
enum Asked {
    Answered(Answered),
    /// It was placed under another map of slots than that of its server, and was not begun.
    WrongMap(Arc<Request>),
}

impl From<FrontError> for Failed {
    fn from(error: FrontError) -> Failed {
        Failed::Error(error)
    }
}

impl Transaction {
    /// `begin`: None for statements that are a transaction of their own.
    pub fn new(begin: Option<String>, settings: Arc<Vec<String>>) -> Transaction {
        Transaction {
            begin,
            settings,
            application: None,
            matching: None,
            texts: Vec::new(),
            is_long: false,
            called: None,
            open: None,
            asked: Vec::new(),
            is_bound: false,
            observed: None,
            placed: None,
            recording: None,
            is_begun: false,
            call: None,
            is_given_up: false,
        }
    }

    /// Its client rolls it back.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// Notes the rows that its statements access, if it is recorded.
    fn record(&mut self, shared: &Shared, statements: &[Bound]) {
        let contention = &shared.figures.contention;
        if !std::mem::replace(&mut self.is_begun, true) {
            self.recording = contention.begin();
        }
        let Some(recording) = &mut self.recording else { return };
        for (statement, givens) in statements {
            let rows = match &statement.kind {
                Kind::Call(name, arguments) => {
                    self.call.get_or_insert_with(|| name.clone());
                    let values = texts_of(arguments, givens).unwrap_or_default();
                    shared.application().rows_of_call(name, &values)
                }
                _ => rows::named(&statement.matched, givens, &shared.keys).into_iter().collect(),
            };
            for (table, key) in rows {
                contention.note_row(recording, &table, &key);
            }
        }
    }

    /// It is over: its contention counts.
    pub fn end_recording(&mut self, shared: &Shared, has_failed: bool) {
        let Some(mut recording) = self.recording.take() else { return };
        let application = shared.application();
        let mut names = Vec::new();
        if let Some(matching) = &self.matching {
            names.extend(matching.covering(application.templates()));
        }
        let name = match &self.call {
            Some(call) => call.clone(),
            None if names.is_empty() => "other".to_owned(),
            None => names.join(", "),
        };
        let class = self.placed.or(self.observed).map_or("other", class_of);
        shared.figures.contention.name(&mut recording, class, &name);
        shared.figures.contention.end(*recording, has_failed || self.is_given_up);
    }

    /// Returns whether its client has said BEGIN.
    pub fn is_block(&self) -> bool {
        self.begin.is_some()
    }

    /// Returns whether it runs somewhere.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Asks the server where the transaction runs, or is to run now. The answer says whether the transaction is over.
    pub async fn ask(
        &mut self,
        shared: &Shared,
        cancellable: &Cancellable,
        (mut request, statements): (Request, &[Bound]),
        sink: &mut impl Sink,
    ) -> Result<Answered, Failed> {
        self.record(shared, statements);
        let given_up = Instant::now() + PLACED_AGAIN_MAX;
        loop {
            let asked = self.ask_once(shared, cancellable, (request, statements), sink).await?;
            request = match asked {
                Asked::Answered(answered) => return Ok(answered),
                Asked::WrongMap(request) => Arc::unwrap_or_clone(request),
            };
            count(&shared.figures.restarts);
            if !self.asked.is_empty() || self.is_bound || Instant::now() >= given_up {
                return Err(moved().into());
            }
            // The agent here, or the one there, does not have the visit yet that has changed the map.
            tokio::time::sleep(PLACED_AGAIN).await;
            (self.application, self.matching, self.called) = (None, None, None);
            (self.texts, self.is_long) = (Vec::new(), false);
        }
    }

    async fn ask_once(
        &mut self,
        shared: &Shared,
        cancellable: &Cancellable,
        (mut request, statements): (Request, &[Bound]),
        sink: &mut impl Sink,
    ) -> Result<Asked, Failed> {
        let wanted = self.place(shared, statements)?;
        self.bring(shared, cancellable, wanted)?;
        let Some(open) = &mut self.open else { return Err(lost().into()) };
        let is_global = matches!(open.placement, Placement::Global(_));
        request.then_commit = is_global && self.begin.is_none() && request.until == Until::Ready;
        request.may_commit |= self.begin.is_none() && request.until == Until::Ready;
        let request = Arc::new(request);
        open.handle.run(request.clone());
        loop {
            match open.replies.recv().await {
                Some(SessionReply::Part(messages)) => {
                    self.is_bound = true;
                    sink.part(&messages).await.map_err(Failed::Socket)?;
                }
                Some(SessionReply::Answered(answered)) => {
                    self.is_given_up |= answered.status == Some(b'E');
                    self.is_bound |= !answered.is_whole || self.asked.len() >= ASKED_MAX;
                    if answered.is_over() {
                        self.open = None;
                    } else if !self.is_bound {
                        self.asked.push((request, answered.digest));
                    }
                    return Ok(Asked::Answered(answered));
                }
                Some(SessionReply::Over(Ending::WrongMap)) => {
                    self.open = None;
                    return Ok(Asked::WrongMap(request));
                }
                Some(SessionReply::Over(ending)) => {
                    self.open = None;
                    return Err(error_of(shared, ending).into());
                }
                None => {
                    self.open = None;
                    return Err(lost().into());
                }
            }
        }
    }

    /// Makes the transaction run at that place: it is begun there, or begun again with everything that was asked.
    fn bring(
        &mut self,
        shared: &Shared,
        cancellable: &Cancellable,
        wanted: Placement,
    ) -> Result<(), FrontError> {
        match &self.open {
            Some(open) if open.placement == wanted || wanted == Placement::Commutative => return Ok(()),
            Some(_) if self.is_bound => {
                count(&shared.figures.contradictions);
                let message =
                    "the transaction turns out to belong elsewhere, and its answers cannot be taken back";
                return Err(FrontError::new("40001", message).with_hint("try it again"));
            }
            Some(_) => count(&shared.figures.restarts),
            None => shared.figures.place(wanted, shared.server),
        }
        // The one that runs is given up before the next is begun.
        self.open = None;
        self.placed = Some(wanted);
        let (sender, replies) = mpsc::channel(REPLIES_MAX);
        let replayed = self.asked.clone();
        let application = self.application.get_or_insert_with(|| shared.application());
        let map = shared.map(&**application);
        let placement = match (wanted, shared.server_for_any(&**application)) {
            (Placement::Commutative, server) if server != shared.server => Placement::Local(server),
            _ => wanted,
        };
        let start =
            SessionStart { begin: self.begin.clone(), settings: self.settings.clone(), replayed, map };
        let handle = Arc::new(shared.executor.open(placement, start, Replies::Session(sender)));
        *cancellable.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::downgrade(&handle);
        self.open = Some(Open { placement, handle, replies });
        Ok(())
    }

    /// Where the transaction has to run with these statements.
    fn place(&mut self, shared: &Shared, statements: &[Bound]) -> Result<Placement, FrontError> {
        if shared.passes_through() {
            if shared.mode == Mode::Observes {
                self.observe(shared, statements);
            }
            return Ok(Placement::Commutative);
        }
        if shared.has_left() {
            let message = "the server of this agent is no member of the deployment";
            let hint = "connect to another agent; ADD SERVER on the admin database makes it one";
            return Err(FrontError::new("57P03", message).with_hint(hint));
        }
        let application = self.application.get_or_insert_with(|| shared.application()).clone();
        let mut matched = None;
        for (statement, givens) in statements {
            match self.place_one(shared, &*application, (statement, givens)) {
                Ok(placement) => matched = placement.or(matched),
                Err(error) => {
                    count(&shared.figures.refused);
                    return Err(error);
                }
            }
        }
        let placement = match (matched, self.called) {
            (Some(matched), Some(called)) => together(matched, called)?,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => {
                return Ok(self.open.as_ref().map_or(Placement::Commutative, |open| open.placement));
            }
        };
        Ok(placement)
    }

    /// The place that matching says. None: the statement says nothing about it.
    fn place_one(
        &mut self,
        shared: &Shared,
        application: &dyn Application,
        (statement, givens): (&Statement, &[Given]),
    ) -> Result<Option<Placement>, FrontError> {
        match &statement.kind {
            Kind::Call(name, arguments) => {
                let values = texts_of(arguments, givens)?;
                let (values, server) = (application.call(name, &values), shared.server_for_any(application));
                match values.and_then(|values| application.templates().call(name, &values, server)) {
                    Some(placement) => {
                        self.called = Some(match self.called {
                            Some(called) => together(called, placement)?,
                            None => placement,
                        });
                        Ok(None)
                    }
                    None => self.match_one(shared, application, (statement, givens)),
                }
            }
            Kind::Ordinary | Kind::CopyIn { .. } => self.match_one(shared, application, (statement, givens)),
            _ => Ok(None),
        }
    }

    fn match_one(
        &mut self,
        shared: &Shared,
        application: &dyn Application,
        (statement, givens): (&Statement, &[Given]),
    ) -> Result<Option<Placement>, FrontError> {
        let parameters: Vec<Option<&str>> = givens.iter().map(Given::text).collect();
        let matchable = application.statement(&statement.matched, &parameters);
        // A statement that no template has is told by its text.
        let (text, arguments) = matchable.unwrap_or_else(|| (statement.matched.clone(), Vec::new()));
        let templates = application.templates();
        let is_first = self.matching.is_none();
        let mut matching = match self.matching.take() {
            Some(matching) => matching,
            None => Matching::new(templates, shared.server_for_any(application)),
        };
        let before = matching.clone();
        let matched = Matched { text: &text, arguments: &arguments, touches: None };
        let mut action = matching.statement(templates, &matched);
        let is_uncovered = matching.covering(templates).is_empty();
        if is_uncovered && is_neutral(&statement.matched, |name| shared.is_own(name)) == Some(true) {
            // It runs wherever the transaction does, and does not count.
            self.matching = (!is_first).then_some(before);
            return Ok(None);
        }
        self.is_long |= self.texts.len() >= ASKED_MAX;
        if !self.is_long {
            self.texts.push(statement.matched.clone());
        }
        if is_uncovered
            && !self.is_long
            && let Some(touched) = touched(&self.texts, shared, application)
        {
            action = matching.touching(templates, touched);
        }
        self.matching = Some(matching);
        match action {
            StatementAction::Runs(placement) | StatementAction::Restarts(placement) => Ok(Some(placement)),
            StatementAction::Refused(refusal) => Err(refused(refusal, &text)),
        }
    }

    /// Counts how the transaction would be placed.
    fn observe(&mut self, shared: &Shared, statements: &[Bound]) {
        let application = shared.application();
        for (statement, givens) in statements {
            if !matches!(statement.kind, Kind::Call(..) | Kind::Ordinary | Kind::CopyIn { .. }) {
                continue;
            }
            match self.place_one(shared, &*application, (statement, givens)) {
                Ok(placement) => self.observed = placement.or(self.called).or(self.observed),
                Err(_) => shared.figures.observe_uncovered(&normalised(&statement.matched)),
            }
        }
    }

    /// Counts how the transaction would have been placed, once it is over.
    pub fn end_observed(&self, shared: &Shared) {
        let application = shared.application();
        let names: Vec<&str> = match &self.matching {
            Some(matching) => matching.covering(application.templates()).into_iter().collect(),
            None => Vec::new(),
        };
        let Some(observed) = self.observed else { return };
        shared.figures.observe(class_of(observed), &names.join(", "));
    }
}

fn class_of(placement: Placement) -> &'static str {
    match placement {
        Placement::Commutative => "commutative",
        Placement::Local(_) => "local",
        Placement::Global(_) => "global",
    }
}

/// Everything that statements touch. None: not known, or one of them does more than to read.
fn touched(texts: &[String], shared: &Shared, application: &dyn Application) -> Option<BTreeSet<Column>> {
    let mut touched = BTreeSet::new();
    for text in texts {
        let tables = read_tables(text, |name| shared.is_own(name))?;
        touched.extend(application.touched(&tables)?);
    }
    Some(touched)
}

fn moved() -> FrontError {
    FrontError::new("40001", "the partition of the transaction is moving to another server")
        .with_hint("it has changed nothing: try it again")
}

fn lost() -> FrontError {
    FrontError::new("57P01", "the agent ends")
}

/// The place of two parts of a transaction.
fn together(one: Placement, other: Placement) -> Result<Placement, FrontError> {
    match (one, other) {
        (Placement::Commutative, place) | (place, Placement::Commutative) => Ok(place),
        (Placement::Local(one), Placement::Local(other)) if one == other => Ok(Placement::Local(one)),
        (one, other) if one.server() == other.server() => {
            Ok(Placement::Global(one.server().unwrap_or_default()))
        }
        _ => {
            let message = "a transaction has parts that belong to two servers";
            let hint = "Make them transactions of their own, or one transaction that the analysis knows.";
            Err(FrontError::new("0A000", message).with_hint(hint))
        }
    }
}

/// Arguments of a call as texts.
fn texts_of<'a>(arguments: &'a [Argument], givens: &'a [Given]) -> Result<Vec<Option<&'a str>>, FrontError> {
    let text = |argument: &'a Argument| match argument {
        Argument::Constant(constant) => Ok(constant.as_deref()),
        Argument::Parameter(number) => {
            let given = number.checked_sub(1).and_then(|place| givens.get(place));
            let fewer = || FrontError::new("08P01", "a statement has fewer parameters than its text names");
            given.map(Given::text).ok_or_else(fewer)
        }
    };
    arguments.iter().map(text).collect()
}

fn refused(refusal: Refusal, form: &str) -> FrontError {
    let form: String = form.chars().take(200).collect();
    let (message, hint) = match refusal {
        Refusal::TouchesLocalRows => (
            format!(
                "no transaction of the application covers this statement, and it touches rows that each server has on its own: {form}"
            ),
            "Make it a transaction of the application, so that it is analysed.",
        ),
        Refusal::Unknown => (
            format!("no transaction of the application covers this statement: {form}"),
            "Make it a transaction of the application, so that it is analysed; `weir conveyor --observe` lists such statements.",
        ),
    };
    FrontError::new("0A000", message).with_hint(hint)
}

fn error_of(shared: &Shared, ending: Ending) -> FrontError {
    match ending {
        Ending::Starved => {
            FrontError::new("40001", "could not serialize access: the transaction was tried several times")
                .with_hint("try it again")
        }
        Ending::Differs => {
            count(&shared.figures.contradictions);
            let message =
                "could not serialize access: the transaction was run again, and an answer was another one";
            FrontError::new("40001", message).with_hint("try it again")
        }
        Ending::Idle => {
            FrontError::new("25P03", "the transaction was ended: its client has said nothing for too long")
        }
        Ending::TooLong => {
            let message = "canceling a global transaction that takes longer than operation_ms";
            FrontError::new("57014", message).with_hint(
                "A global transaction keeps all servers waiting: do not wait for people within it.",
            )
        }
        Ending::NotBegun(lacks) => {
            let waited = match lacks {
                Lacks::Token => {
                    "the token has not come for wait_ms: a server or an agent is away, or there is more to do than there is time"
                }
                Lacks::Database => "the database of its server has not answered for wait_ms",
                Lacks::Connection => {
                    "all connections for operations that need no token were in use for wait_ms"
                }
            };
            FrontError::new("57P03", format!("the transaction was not begun: {waited}"))
                .with_hint("it has changed nothing: try it again; SHOW TOKEN and SHOW POOLS on the admin database say more")
        }
        Ending::Unknown => {
            FrontError::new("08007", "the connection was lost: the transaction has committed or not")
                .with_hint("look whether it has happened before it is tried again")
        }
        Ending::WrongMap => moved(),
        Ending::Failed(error) => FrontError::new(&error.sqlstate, error.message),
    }
}
