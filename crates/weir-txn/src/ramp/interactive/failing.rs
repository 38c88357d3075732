//! How statements of an interactive transaction fail, and how it is rolled back.

use weir_core::round::Ending;
use weir_types::{SqlError, SqlState};

use super::{Action, Failed, Interactive, Phase, RolledBack, serialization_failure};
use crate::message::Output;

impl Interactive {
    /// Abandons the statement in progress. Returns true if nothing of it takes effect; false if it may.
    pub fn give_up(&mut self, out: &mut Vec<Action>) -> bool {
        let error = SqlError::new(SqlState::QUERY_CANCELED, "a statement of this transaction was given up")
            .with_hint("Nothing of it has happened. Try it again.");
        match &mut self.phase {
            Phase::Finishing { .. } => return false,
            Phase::Ending(ending) if ending.is_committing() => return false,
            Phase::Parts { .. } | Phase::Last { .. } | Phase::Deriving { .. } => {
                self.fail_quietly(error, out)
            }
            Phase::RollingBack { then: RolledBack::BeginsAgain(_), .. } => self.fail_quietly(error, out),
            Phase::RollingBack { then, .. } => {
                *then = RolledBack::Idle;
                self.failed.get_or_insert(Failed { error, can_go_back: true });
            }
            Phase::Idle | Phase::Binding { .. } | Phase::Ending(_) => {
                self.failed = Some(Failed { error, can_go_back: false });
                self.abort(out);
            }
        }
        true
    }

    /// Fails the statement in progress with that error.
    pub fn interrupt(&mut self, error: SqlError, out: &mut Vec<Action>) {
        if self.works() {
            if error.state() == SqlState::DEADLOCK_DETECTED && self.is_serializable {
                // A roll-back to a savepoint keeps what was read, and others would go on waiting.
                return self.fail_for_good(serialization_failure(), out);
            }
            match error.state() == SqlState::DEADLOCK_DETECTED && self.may_begin_again() {
                true => self.begin_again(out),
                false => self.fail(error, out),
            }
        }
    }

    /// Fails the statement and answers the client.
    pub(super) fn fail(&mut self, error: SqlError, out: &mut Vec<Action>) {
        self.tell(error.clone(), out);
        self.fail_quietly(error, out);
    }

    /// Answers the client with the error of the statement, behind the notices that it has raised until then.
    fn tell(&mut self, mut error: SqlError, out: &mut Vec<Action>) {
        if let Some(Output { notices, .. }) = self.kept.take() {
            error.notices_mut().splice(0..0, notices);
        }
        out.push(Action::Answer(Err(error)));
    }

    /// Undoes everything since the innermost savepoint at once, with its locks, as PostgreSQL does; without a savepoint, the whole
    /// transaction.
    pub(super) fn fail_quietly(&mut self, mut error: SqlError, out: &mut Vec<Action>) {
        // Its notices have been delivered.
        error.notices_mut().clear();
        self.kept = None;
        // A failed COMMIT ends the transaction.
        let innermost = self.savepoints.last().copied().filter(|_| !self.commits_next);
        self.failed = Some(Failed { error, can_go_back: innermost.is_some() });
        match innermost {
            Some(after) => self.begin_to_roll_back(after, RolledBack::Idle, out),
            None => self.abort(out),
        }
    }

    /// Ends the transaction and answers a waiting client with the error.
    pub(super) fn fail_for_good(&mut self, error: SqlError, out: &mut Vec<Action>) {
        if error.state() == SqlState::SERIALIZATION_FAILURE && self.may_begin_again() {
            return self.begin_again(out);
        }
        let is_awaited = match &self.phase {
            Phase::Idle => false,
            Phase::RollingBack { then, .. } => *then != RolledBack::Idle,
            _ => true,
        };
        if is_awaited {
            self.tell(error.clone(), out);
        }
        self.failed = Some(Failed { error, can_go_back: false });
        self.abort(out);
    }

    pub(super) fn abort(&mut self, out: &mut Vec<Action>) {
        self.note_asked();
        self.phase = Phase::Ending(Ending::abort(self.open.iter().map(|(shard, _)| *shard)));
        self.send(out);
        if !self.links.resends {
            // The ABORTs cannot be lost, and nobody acknowledges them.
            self.phase = Phase::Ending(Ending::over());
        }
        self.end_if_told(out);
    }

    pub(super) fn end_if_told(&mut self, out: &mut Vec<Action>) {
        if self.is_ended && matches!(&self.phase, Phase::Ending(ending) if ending.is_over()) {
            out.push(Action::Settled);
        }
    }
}
