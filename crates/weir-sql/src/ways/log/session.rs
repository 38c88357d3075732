//! From the statements of many connections to the transactions that committed.

use std::collections::{BTreeMap, BTreeSet};

use super::format::Entry;
use super::message::{Event, event};
use super::statement::{Control, Executed, Kind, Shapes};
use crate::parse;
use crate::source::Span;

/// A transaction as far as it has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Transaction {
    pub statements: Vec<Executed>,
    pub serializable: bool,
    /// Position of its first statement in the log.
    pub place: Span,
    /// More statements than are kept.
    pub cut: bool,
    savepoints: Vec<(String, usize)>,
    failed: bool,
}

/// Longest loop body that is detected, in statements.
const LOOP_MAX: usize = 8;
/// A transaction with more statements, loops taken away, is a batch job.
pub(super) const STATEMENTS_MAX: usize = 200;

impl Transaction {
    /// Appends a statement. Repetitions are reduced to two occurrences: this shows that more than one row is affected, independent of the
    /// number of rounds.
    fn push(&mut self, statement: Executed, shapes: &Shapes) {
        if self.statements.len() >= STATEMENTS_MAX {
            self.cut = true;
            return;
        }
        self.statements.push(statement);
        let list = &self.statements;
        let same = |a: usize, b: usize| {
            shapes.get(list[a].shape).fingerprint == shapes.get(list[b].shape).fingerprint
        };
        let repeated = (1..=LOOP_MAX.min(list.len() / 3)).find(|&period| {
            let from = list.len() - 3 * period;
            (from..from + 2 * period).all(|at| same(at, at + period))
        });
        if let Some(period) = repeated {
            self.statements.truncate(self.statements.len() - period);
        }
    }
}

#[derive(Debug, Default)]
struct Session {
    /// Between BEGIN and COMMIT.
    open: Option<Transaction>,
    /// Logged before it ran: the next entry tells how it went.
    pending: Option<Transaction>,
}

/// Something that was passed over, with the remedy.
pub(super) struct Remark {
    pub message: String,
    pub hint: &'static str,
    /// The statement is unknown to the analysis.
    pub missing: bool,
}

/// Receiver of the sessions' transactions.
pub(super) trait Sink {
    fn committed(&mut self, transaction: Transaction);
    fn aborted(&mut self);
    fn remark(&mut self, remark: Remark, place: Span);
}

#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub shapes: Shapes,
    /// By process or session id.
    sessions: BTreeMap<String, Session>,
}

impl Sessions {
    pub fn entry(&mut self, entry: &Entry, place: Span, routines: &BTreeSet<String>, sink: &mut dyn Sink) {
        let event = event(&entry.severity, &entry.message, &entry.detail);
        if event == Event::Other {
            return;
        }
        let session = self.sessions.entry(entry.session.clone()).or_default();
        if let Some(done) = session.pending.take() {
            match event {
                Event::Error => return sink.aborted(),
                _ => sink.committed(done),
            }
        }
        match event {
            Event::Error => {
                if let Some(open) = &mut session.open {
                    open.failed = true;
                }
            }
            Event::Disconnected => {
                if self.sessions.remove(&entry.session).is_some_and(|session| session.open.is_some()) {
                    sink.aborted();
                }
            }
            Event::Text { sql, finished } => {
                let pieces = parse::split(&sql);
                let mut executed = Vec::new();
                for (start, end) in pieces {
                    let text = sql[start..end].trim_end().trim_end_matches(';');
                    if text.is_empty() {
                        continue;
                    }
                    executed.push(self.shapes.statement(text, None, routines));
                }
                self.run(&entry.session, executed, place, finished, sink);
            }
            Event::Execution { sql, values, finished } => {
                let text = sql.trim_end().trim_end_matches(';');
                let executed = self.shapes.statement(text, Some(&values), routines);
                self.run(&entry.session, vec![executed], place, finished, sink);
            }
            Event::Other => {}
        }
    }

    /// Handles one message: outside of BEGIN and COMMIT its statements form a transaction.
    fn run(
        &mut self,
        session: &str,
        executed: Vec<Executed>,
        place: Span,
        finished: bool,
        sink: &mut dyn Sink,
    ) {
        let session = self.sessions.entry(session.to_owned()).or_default();
        let mut implicit = Transaction { place, ..Transaction::default() };
        // The statement that waits for the next entry, if that tells how it went.
        let mut last: Option<Transaction> = None;
        for statement in executed {
            let kind = &self.shapes.get(statement.shape).kind;
            match kind {
                Kind::Statement | Kind::Call(_) => {
                    let into = session.open.as_mut().unwrap_or(&mut implicit);
                    into.push(statement, &self.shapes);
                }
                Kind::Nothing => {}
                Kind::PassedOver(what) => {
                    let message = format!("{what} in the log is passed over");
                    let hint =
                        "what it creates belongs into the schema; rows that it moves are no transaction";
                    sink.remark(Remark { message, hint, missing: false }, place);
                }
                Kind::Broken(why) => {
                    let message = format!("a statement of the log is not understood: {why}");
                    let hint = "the log may have been cut, or be in another format; its transaction is taken to do anything to the \
                                tables that it names, or to all tables if it names none that it writes";
                    sink.remark(Remark { message, hint, missing: true }, place);
                    let stand_in = statement.stand_in();
                    let into = session.open.as_mut().unwrap_or(&mut implicit);
                    into.push(stand_in, &self.shapes);
                }
                Kind::Control(control) => {
                    let done = session.control(control, &mut implicit, place, sink);
                    if let Some(before) = done.and_then(|done| last.replace(done)) {
                        sink.committed(before);
                    }
                }
            }
        }
        let done = Some(implicit).filter(|implicit| !implicit.statements.is_empty());
        if let Some(before) = done.and_then(|done| last.replace(done)) {
            sink.committed(before);
        }
        match finished {
            true => last.into_iter().for_each(|done| sink.committed(done)),
            false => session.pending = last,
        }
    }

    /// At the end of the log: what is open is taken for nothing, what was only announced for done.
    pub fn finish(&mut self, sink: &mut dyn Sink) {
        for session in std::mem::take(&mut self.sessions).into_values() {
            session.pending.into_iter().for_each(|done| sink.committed(done));
        }
    }
}

impl Session {
    /// The transaction that this ends successfully.
    fn control(
        &mut self,
        control: &Control,
        implicit: &mut Transaction,
        place: Span,
        sink: &mut dyn Sink,
    ) -> Option<Transaction> {
        match (control, &mut self.open) {
            (Control::Begin { serializable }, None) => {
                let before = std::mem::take(&mut implicit.statements);
                let serializable = *serializable;
                self.open =
                    Some(Transaction { statements: before, serializable, place, ..Transaction::default() });
            }
            (Control::Begin { .. }, Some(_)) => {}
            (Control::Serializable, Some(open)) => open.serializable = true,
            (Control::Serializable, None) => implicit.serializable = true,
            (Control::Savepoint(name), Some(open)) => {
                open.savepoints.push((name.clone(), open.statements.len()));
            }
            (Control::RollbackTo(name), Some(open)) => {
                if let Some(at) = open.savepoints.iter().rposition(|(known, _)| known == name) {
                    open.statements.truncate(open.savepoints[at].1);
                    open.savepoints.truncate(at + 1);
                    open.failed = false;
                }
            }
            (Control::Commit, Some(_)) => {
                let done = self.open.take()?;
                match done.failed {
                    true => sink.aborted(),
                    false => return Some(done),
                }
            }
            (Control::Rollback, Some(_)) => {
                self.open = None;
                sink.aborted();
            }
            (Control::Commit | Control::Rollback | Control::Savepoint(_) | Control::RollbackTo(_), None) => {}
        }
        None
    }
}
