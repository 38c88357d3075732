//! Transactions of several statements at a shard, from their first statement to their end (docs/internals/server.md, "Interactive
//! transactions"; docs/internals/write-sets.md).
//!
//! What an open transaction has written is in its write set, beside the tables: its own statements read both, nobody else sees it, and
//! its end applies it once. It holds every row that it has written and every key that it has inserted. It is volatile: a shard that
//! starts again has forgotten it, and says so.

mod advisory;
mod end;
mod versions;

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use weir_sql::catalog::TableId;
use weir_types::{SqlError, SqlState};

use super::definitions::definition_of;
use super::message::{Age, Answers, Begun, Callee, Output, Reply, Request, ShardId, TxnId, Work};
use super::participant::{Claim, Holders, Prepared, Write};
use crate::exec::call::Ran;
use crate::exec::call::{OpenStatement, Role, Stop};
use crate::exec::deferred::{Later, Setting, pending};
use crate::exec::program::Program;
use crate::machine::CoordinatorId;
use crate::node::{Effects, Node, Target};
use crate::storage::{Mark, Timestamp, WriteSet};

pub(crate) use versions::{Version, Versions};

/// Unique keys that a transaction claims one by one. Those beyond are looked for in its write set by whoever is about to take them.
pub(crate) const KEYS_CLAIMED_MAX: usize = 4_096;

/// A transaction that has worked here and has not been asked to end.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) age: Age,
    /// In their order.
    done: Vec<Done>,
    /// The last step's number, and what it was answered.
    answered: (u32, Reply),
    /// What it has made of rows. Its tables are those of the last of its schema versions.
    pub(crate) own: WriteSet,
    /// Unique keys among its claims. At [`KEYS_CLAIMED_MAX`] it is among those that [`Node::loading`] names.
    keys_claimed: usize,
}

impl Open {
    fn new(txn: TxnId, shard: ShardId, age: Age) -> Open {
        let answered = (0, Reply::Aborted { txn, shard });
        Open { age, done: Vec::new(), answered, own: WriteSet::default(), keys_claimed: 0 }
    }

    /// What its statements have left to be looked at; with a setting, what that is about.
    fn pending(&self, last: Option<&Setting>, program: &Program) -> Vec<Later> {
        pending(self.done.iter().map(|done| (done.setting.as_ref(), &done.later[..])), last, program)
    }

    /// Something that it has done has not been looked at.
    fn has_pending(&self, program: &Program) -> bool {
        self.done.iter().any(|done| !done.later.is_empty()) && !self.pending(None, program).is_empty()
    }

    /// It changes the schema.
    pub(crate) fn defines(&self) -> bool {
        self.done.iter().any(|done| done.version.is_some())
    }

    /// Those that it has made.
    pub(crate) fn schema_versions(&self) -> impl Iterator<Item = &Arc<Program>> {
        self.done.iter().filter_map(|done| done.version.as_ref()).map(|version| version.defined.program())
    }
}

/// What one statement has done.
#[derive(Debug, Default)]
pub(crate) struct Done {
    number: u32,
    /// Those that it was the first to take.
    claims: Vec<Claim>,
    /// Where the write set was before it.
    mark: Mark,
    /// Its operations on rows that were there before the transaction.
    writes: Vec<Write>,
    /// It has changed the schema, and nothing else.
    version: Option<Box<Version>>,
    /// What it has said of constraints, and nothing else.
    setting: Option<Setting>,
    /// What it has left to be looked at.
    later: Vec<Later>,
    /// It is a batch of a statement: the rows that this has inserted or updated by ON CONFLICT DO UPDATE so far.
    upserted: Vec<(TableId, u32)>,
}

impl Node {
    /// The step has been done, or must not be done any more: then it is answered here.
    fn is_old_step(&mut self, txn: TxnId, number: u32, opened: Option<u64>, out: &mut Effects) -> bool {
        let is_of_this_start = opened.is_none_or(|opened| opened == self.incarnation());
        if let Some(open) = self.open.get(&txn).filter(|open| open.answered.0 >= number && is_of_this_start) {
            let again = (open.answered.0 == number).then(|| open.answered.1.clone());
            out.replies.extend(again.map(|reply| (txn.coordinator, reply)));
            return true;
        }
        let is_forgotten = opened.is_some_and(|opened| !self.has_open(txn, opened));
        if is_forgotten {
            self.refuse_forgotten(txn, out);
        }
        is_forgotten
    }

    pub(crate) fn on_work(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        begun: Begun,
        work: Box<Work>,
        out: &mut Effects,
    ) {
        let (shard, number) = (self.shard, work.number);
        if self.is_old_step(txn, number, work.opened, out) {
            return;
        }
        if let Callee::AdvisoryLock { key, waits } = work.call.callee {
            return self.on_advisory_lock((txn, begun), work, key, waits, out);
        }
        if let Callee::Sequences = work.call.callee {
            let values = self.sequences.standing(&self.program, shard);
            let open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, shard, begun.age));
            let output = Output { values, ..Output::default() };
            return self.worked(txn, open, (number, Ok((Answers::default(), output))), out);
        }
        let defines = definition_of(&work.call.callee).cloned();
        if defines.is_some()
            && let Some(holder) = self.raise_barrier(txn, begun.age)
        {
            let request = Request::Work { txn, begun, work };
            return self.wait_with_work(smallvec![holder], request, out);
        }
        let timestamp = self.clock.tick(now_ms);
        let mut open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, shard, begun.age));
        let role = match (work.participants.split_last(), &work.answers[..]) {
            (Some((last, others)), answers) if *last == shard && !others.is_empty() => Role::Last(answers),
            (Some((last, _)), _) if *last == shard => Role::Whole,
            _ => Role::Part,
        };
        if defines.is_some() && open.has_pending(&self.program) {
            return self.worked(txn, open, (number, Err(pending_checks())), out);
        }
        if let Some(definition) = defines {
            let result = self.define_within(&mut open, number, &definition, work.call.transaction_time);
            return self.worked(txn, open, (number, result.map(|()| Default::default())), out);
        }
        let mark = open.own.mark();
        let ran = self.run_statement(&mut open, (txn, &work, role), timestamp);
        let result = match ran {
            Ok(ran) if ran.answers.error.is_none() => {
                let mut claims = ran.claims;
                claims.retain(|claim| self.participant.claims.take(claim, txn));
                open.keys_claimed += claims.iter().filter(|claim| matches!(claim, Claim::Key(..))).count();
                if open.keys_claimed >= KEYS_CLAIMED_MAX && !self.loading.contains(&txn) {
                    self.loading.push(txn);
                }
                let setting = work.call.callee.setting().cloned();
                let (writes, later) = (ran.writes, ran.later);
                if let Some(before) = open.done.last_mut().filter(|_| !ran.upserted.is_empty()) {
                    // Those of the batch before are among them.
                    before.upserted = Vec::new();
                }
                let upserted = ran.upserted;
                open.done.push(Done {
                    number,
                    claims,
                    mark,
                    writes,
                    version: None,
                    setting,
                    later,
                    upserted,
                });
                Ok((ran.answers, ran.output))
            }
            Ok(ran) => Ok((ran.answers, ran.output)),
            Err(Stop::Error(error)) => Err(error),
            Err(stop @ (Stop::Held(_) | Stop::Pinned { .. })) => {
                if open.answered.0 > 0 {
                    self.open.insert(txn, open);
                }
                let holders = self.holders(stop);
                self.has_done.waits += 1;
                return self.wait_with_work(holders, Request::Work { txn, begun, work }, out);
            }
        };
        self.worked(txn, open, (number, result), out);
    }

    /// Runs a statement on what the transaction has done here before. Of one that fails, or has to wait, nothing is left.
    fn run_statement(
        &mut self,
        open: &mut Open,
        (txn, work, role): (TxnId, &Work, Role<'_>),
        timestamp: Timestamp,
    ) -> Result<Ran, Stop> {
        let mark = open.own.mark();
        self.put_versions(open);
        let said: SmallVec<[&Setting; 2]> =
            open.done.iter().filter_map(|done| done.setting.as_ref()).collect();
        let setting = work.call.callee.setting();
        let later = setting.map_or_else(Vec::new, |setting| open.pending(Some(setting), &self.program));
        let upserted: &[(TableId, u32)] = open.done.last().map_or(&[], |done| &done.upserted);
        let keys_claimed = open.keys_claimed;
        let statement = OpenStatement { said: &said, later: &later, upserted, keys_claimed };
        let target = Target::WriteSet(&mut open.own, Some(statement));
        let ran = self.run(txn, &work.call, role, timestamp, true, target);
        drop(said);
        if !ran.as_ref().is_ok_and(|ran| ran.answers.error.is_none()) {
            open.own.roll_back(&mut self.storage, mark);
        }
        self.take_versions(open);
        ran
    }

    /// Answers a statement, and keeps the answer for repetitions.
    fn worked(
        &mut self,
        txn: TxnId,
        mut open: Open,
        (number, result): (u32, Result<(Answers, Output), SqlError>),
        out: &mut Effects,
    ) {
        let (shard, incarnation) = (self.shard, self.incarnation());
        // An error may be of more than rows, and so is what a transaction does that has changed the schema.
        self.row_replies += usize::from(result.is_ok() && !open.defines());
        let reply = Reply::Worked { txn, shard, number, incarnation, result }.spoken();
        open.answered = (number, reply.clone());
        self.open.insert(txn, open);
        out.replies.push((txn.coordinator, reply));
    }

    /// `step`: its own number, and that of the last one that stays. A transaction that has not worked here is open from now on, so that
    /// what comes late of its statements does nothing.
    pub(crate) fn on_roll_back_to(
        &mut self,
        txn: TxnId,
        age: Age,
        (number, after): (u32, u32),
        opened: Option<u64>,
        out: &mut Effects,
    ) {
        let shard = self.shard;
        if self.is_old_step(txn, number, opened, out) {
            return;
        }
        self.stop_waiting(txn);
        let mut open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, shard, age));
        let stays = match self.bugs.keeps_what_is_rolled_back {
            true => open.done.len(),
            false => open.done.partition_point(|done| done.number <= after),
        };
        let reply = Reply::RolledBack { txn, shard, number, incarnation: self.incarnation() };
        open.answered = (if self.bugs.rolled_back_comes_again { after } else { number }, reply.clone());
        let claims = self.roll_back_done(&mut open, stays);
        if self.barrier.is_some_and(|barrier| barrier.txn == txn) && !open.defines() {
            // What it kept others out for is taken back, or has not been made.
            self.lower_barrier(txn);
        }
        self.open.insert(txn, open);
        self.release_claims(txn, claims);
        if self.waits_besides.values().any(|holders| holders.contains(&txn)) {
            // It is there and does not hold what they wait for: their coordinators must hear that.
            self.ended.extend(self.waiting.keys());
        }
        out.replies.push((txn.coordinator, reply));
    }

    /// Who holds what a run has stopped at. At least one.
    pub(crate) fn holders(&self, stop: Stop) -> Holders {
        match stop {
            Stop::Held(holders) => holders,
            Stop::Pinned { table, row } => {
                let has =
                    |prepared: &Prepared| prepared.pins.iter().any(|pin| (pin.0, pin.1) == (table, row));
                let mut prepared = self.participant.prepared.iter();
                let (holder, _) =
                    prepared.find(|(_, prepared)| has(prepared)).expect("a pinned row has whoever pinned it");
                smallvec![*holder]
            }
            Stop::Error(_) => unreachable!("nobody holds an error"),
        }
    }

    /// The transaction is open as it was when it was told so: the shard has not started again since.
    pub(crate) fn has_open(&self, txn: TxnId, opened: u64) -> bool {
        (opened == self.incarnation() || self.bugs.opens_again) && self.open.contains_key(&txn)
    }

    fn incarnation(&self) -> u64 {
        self.outcomes.as_deref().map_or(0, |outcomes| outcomes.incarnation)
    }

    fn refuse_forgotten(&mut self, txn: TxnId, out: &mut Effects) {
        self.answer(txn, Reply::Refused { txn, shard: self.shard, error: forgotten() }, out)
    }

    /// Whoever waits for the transaction tries again.
    fn release_claims(&mut self, txn: TxnId, claims: Vec<Claim>) {
        for claim in claims {
            self.participant.claims.release(&claim, txn);
        }
        self.ended.push(txn);
    }

    /// What silent coordinators have open nobody will end.
    pub(crate) fn drop_open_of(&mut self, silent: &[CoordinatorId]) {
        let of_them = |txn: &&TxnId| silent.contains(&txn.coordinator);
        let left: Vec<TxnId> = self.open.keys().filter(of_them).copied().collect();
        left.into_iter().for_each(|txn| self.note_refusal(txn, None));
    }
}

/// A transaction has left constraints to be looked at, and goes on as if it had not.
fn pending_checks() -> SqlError {
    SqlError::new(
        SqlState::OBJECT_IN_USE,
        "the schema cannot be changed while deferred constraints are to be checked",
    )
    .with_hint("Say SET CONSTRAINTS ALL IMMEDIATE first.")
}

/// What a transaction is told that a shard no longer knows.
pub fn forgotten() -> SqlError {
    SqlError::new(
        SqlState::SERIALIZATION_FAILURE,
        "a shard has forgotten this transaction: it has started again, or has not heard of its coordinator",
    )
    .with_hint("Nothing of it has happened. Try it again.")
}
