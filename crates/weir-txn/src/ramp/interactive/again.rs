//! Statements that begin again within their transaction (docs/internals/global-keys.md, 3.10 and 3.18): an INSERT … ON CONFLICT is undone at
//! all shards, and run where a row is that it conflicts with; a statement that names its row by a global key is run where the row is.
//!
//! Nothing of an attempt remains but the shards that took part in it, and the intervals that a serializable one has locked. So each attempt is
//! judged as if it were the first, and a report that is late costs another attempt.

use std::sync::Arc;

use weir_core::ids::ShardId;

use super::{Action, Interactive, Phase, RolledBack, gave_up};
use crate::message::{Attempt, BY_KEY_MAX, Call, Derived};

/// Limit on the attempts of a statement, each of which has met a row that another transaction has inserted or deleted meanwhile.
const ATTEMPTS_MAX: u32 = 10_000;

/// The statement in progress.
#[derive(Debug)]
pub(super) struct Statement {
    call: Arc<Call>,
    participants: Arc<[ShardId]>,
    /// The last step before it.
    after: u32,
    attempts: u32,
}

impl Interactive {
    /// Begins a statement.
    pub(super) fn begin_statement(
        &mut self,
        call: Arc<Call>,
        participants: Arc<[ShardId]>,
        owner: Option<ShardId>,
        out: &mut Vec<Action>,
    ) {
        let (after, attempts) = (self.number, 1);
        self.statement = Some(Statement { call, participants, after, attempts });
        self.begin_attempt(owner.map_or(Attempt::AtHome, Attempt::ByKey), out);
    }

    /// How the statement is to begin again, as far as the shards have reported.
    pub(super) fn next_attempt(&self) -> Option<Attempt> {
        let next = self.derived.iter().filter_map(Derived::attempt).min();
        // The owners of its keys are asked first.
        let is_asked = |one: &Derived| one.stage() == 0;
        next.filter(|next| *next != Attempt::Unopposed || !self.derived.iter().any(is_asked))
    }

    /// Begins the statement again, after it has been undone.
    pub(super) fn begin_again_after(&mut self, last: &Call, attempt: Attempt, out: &mut Vec<Action>) {
        if !last.callee.is_by_key() {
            return self.undo_for(attempt, out);
        }
        // It has done nothing where its row is not.
        let Some(statement) = &mut self.statement else { return };
        statement.attempts += 1;
        match statement.attempts <= BY_KEY_MAX {
            true => self.begin_attempt(attempt, out),
            false => self.begin_attempt(Attempt::AtHome, out),
        }
    }

    /// Undoes the statement; then it begins again.
    fn undo_for(&mut self, attempt: Attempt, out: &mut Vec<Action>) {
        let Some(statement) = self.statement.as_mut().filter(|one| one.attempts < ATTEMPTS_MAX) else {
            return self.fail(gave_up(), out);
        };
        statement.attempts += 1;
        let after = statement.after;
        (self.kept, self.derived) = (None, Vec::new());
        self.begin_to_roll_back(after, RolledBack::BeginsAgain(attempt), out);
    }

    /// Sends the statement to the shards of that attempt. Nothing of an earlier one is left.
    pub(super) fn begin_attempt(&mut self, attempt: Attempt, out: &mut Vec<Action>) {
        let Some(Statement { call, participants, .. }) = &self.statement else { return };
        let (call, participants) = (attempt.call(call), attempt.participants(participants));
        self.phase = Phase::Idle;
        self.attempt(call, participants, out);
    }
}
