//! Transactions of several statements at a shard, from their first statement to their end (docs/internals/server.md, "Interactive
//! transactions"; docs/internals/write-sets.md).
//!
//! The writes of an open transaction are in its write set, separate from the tables: its own statements read both, no other transaction
//! sees them, and COMMIT applies them once. It holds every row that it has written and every key that it has inserted. All of it is
//! volatile: a restarted shard has forgotten the transaction, and says so.

mod advisory;
mod end;
#[cfg(test)]
mod tests;
mod versions;

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use weir_core::ids::{CoordinatorId, ShardId, Timestamp, TxnId};
use weir_core::lsn::Lsn;
use weir_core::participant::Transactions as _;
use weir_sql::catalog::TableId;
use weir_types::{SqlError, SqlState};

use super::building::Build;
use super::definitions::definition_of;
use super::participant::Prepared;
use crate::claims::{Claim, Holders, KEYS_CLAIMED_MAX};
use crate::exec::call::{OpenStatement, Ran, Role, Stop};
use crate::exec::deferred::{Later, pending};
use crate::exec::program::Program;
use crate::exec::reads::Reads;
use crate::faults::Faults;
use crate::message::{
    Age, Answers, Begun, Callee, Changed, Derived, Output, Reply, Request, Setting, Work, forgotten,
};
use crate::shard::node::Target;
use crate::shard::node::{Effects, Node};
use crate::storage::{Mark, Write, WriteSet};

pub(crate) use versions::{Version, Versions};

/// A transaction that has worked on this shard and has not been asked to end.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) age: Age,
    /// Its statements, in execution order.
    done: Vec<Done>,
    /// Number of the last step, and its reply.
    answered: (u32, Reply),
    /// Uncommitted row changes; its tables are those of the transaction's latest schema version.
    pub(crate) own: WriteSet,
    /// Interval locks of a serializable transaction. Invariant: a roll-back to a savepoint releases none, for the client knows what was read.
    pub(super) intervals: Vec<Claim>,
    /// Claims of a statement that waits, or begins again: those that a worker has taken for it, and those for which it has waited
    /// ([`super::hand_over`]). They are released if it fails.
    waiting_claims: Vec<Claim>,
    /// It keeps out all other writers.
    pub(super) excludes: bool,
    /// It has a place in the order of ordered calls.
    pub(super) has_entered: bool,
    /// The index that it builds for a definition.
    pub(super) build: Option<Box<Build>>,
    /// Number of unique keys among its claims. From [`KEYS_CLAIMED_MAX`] on the transaction is listed in [`Claims::loading`].
    keys_claimed: usize,
    /// Number of entries of `done` that have a version, and that have a setting: most transactions have none, and no statement looks through
    /// all of them for nothing.
    versions: usize,
    settings: usize,
}

impl Open {
    pub(super) fn new(txn: TxnId, shard: ShardId, age: Age) -> Open {
        let answered = (0, Reply::Aborted { txn, shard });
        Open {
            age,
            done: Vec::new(),
            answered,
            own: WriteSet::default(),
            intervals: Vec::new(),
            waiting_claims: Vec::new(),
            excludes: false,
            has_entered: false,
            build: None,
            keys_claimed: 0,
            versions: 0,
            settings: 0,
        }
    }

    /// Returns whether it has answered a step or holds something, so that it must be kept while a statement waits.
    pub(super) fn has_worked(&self) -> bool {
        self.answered.0 > 0 || !self.waiting_claims.is_empty() || !self.intervals.is_empty()
    }

    pub(super) fn keep_while_waiting(&mut self, claims: impl IntoIterator<Item = Claim>) {
        self.waiting_claims.extend(claims);
    }

    /// Deferred checks left by its statements; with a setting, only those that it concerns.
    fn pending(&self, last: Option<&Setting>, program: &Program) -> Vec<Later> {
        pending(self.done.iter().map(|done| (done.setting.as_ref(), &done.later[..])), last, program)
    }

    /// Rows that the earlier batches of the statement in progress have inserted or updated by ON CONFLICT DO UPDATE.
    fn upserted(&self) -> Vec<(TableId, u32)> {
        if self.settings == 0 {
            return Vec::new();
        }
        // The statement begins with a setting.
        let of_statement = self.done.iter().rev().take_while(|done| done.setting.is_none());
        of_statement.flat_map(|done| done.upserted.iter().copied()).collect()
    }

    /// Returns whether a deferred check is outstanding.
    fn has_pending(&self, program: &Program) -> bool {
        self.done.iter().any(|done| !done.later.is_empty()) && !self.pending(None, program).is_empty()
    }

    /// Returns whether definitions of others do not wait for it: it has done nothing but take advisory locks, or build an index.
    pub(crate) fn lets_definitions_pass(&self) -> bool {
        let has_done_nothing = || self.done.is_empty() && self.waiting_claims.is_empty();
        let builds = || (self.build.is_some() || self.has_entered) && has_done_nothing();
        self.intervals.is_empty() && !self.excludes && (self.only_advises() || builds())
    }

    /// The index that it builds.
    pub(crate) fn build(&self) -> Option<&Build> {
        self.build.as_deref()
    }

    /// Returns whether it changes the schema.
    pub(crate) fn defines(&self) -> bool {
        self.versions > 0
    }

    /// Programs of the schema versions that it has made.
    pub(crate) fn schema_versions(&self) -> impl Iterator<Item = &Arc<Program>> {
        self.done.iter().filter_map(|done| done.version.as_ref()).map(|version| version.defined.program())
    }
}

/// Effects of one statement, kept so that it can be rolled back.
#[derive(Debug, Default)]
pub(crate) struct Done {
    number: u32,
    /// Claims that this statement was the first to take.
    claims: Vec<Claim>,
    /// State of the write set before the statement.
    mark: Mark,
    /// Its operations on rows that existed before the transaction.
    writes: Vec<Write>,
    /// The schema version that it has made; such a statement does nothing else.
    version: Option<Box<Version>>,
    /// Its SET CONSTRAINTS; such a statement does nothing else.
    setting: Option<Setting>,
    /// Deferred checks that it has left.
    later: Vec<Later>,
    /// For a batch of a statement: rows inserted or updated by ON CONFLICT DO UPDATE in this batch, and in none before it.
    upserted: Vec<(TableId, u32)>,
    /// Other shards for which it has derived writes, ascending: the coordinator has made them participants before the transaction ends.
    targets: Vec<ShardId>,
}

/// Result of a step, for its reply.
#[derive(Debug, Default)]
pub(super) struct StepResult {
    pub answers: Answers,
    pub output: Output,
    /// Writes for other shards.
    pub derived: Vec<Derived>,
    pub changed: Changed,
}

impl StepResult {
    /// Returns whether the step has succeeded, and leaves nothing to be done before its transaction commits.
    fn is_complete(&self) -> bool {
        self.answers.error.is_none() && self.derived.is_empty() && self.changed.is_empty()
    }
}

/// Copy of the state of a transaction that a statement uses besides the write set, for a worker.
#[derive(Debug)]
pub(super) struct OpenState {
    pub said: Vec<Setting>,
    pub later: Vec<Later>,
    pub upserted: Vec<(TableId, u32)>,
    pub keys_claimed: usize,
}

/// Shards that these writes are for, ascending.
fn targets_of(derived: &[Derived], shards: ShardId) -> Vec<ShardId> {
    let mut targets: Vec<ShardId> = derived.iter().flat_map(|one| one.targets(shards)).collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// Role of the shard in a statement.
pub(super) fn role_at(work: &Work, shard: ShardId) -> Role<'_> {
    match (work.participants.split_last(), &work.answers[..]) {
        (Some((last, others)), answers) if *last == shard && !others.is_empty() => Role::Last(answers),
        (Some((last, _)), _) if *last == shard => Role::Whole,
        _ => Role::Part,
    }
}

impl<F: Faults> Node<F> {
    /// Returns whether the step is done already, or must not be done any more; then this function has answered it.
    fn is_old_step(&mut self, txn: TxnId, number: u32, opened: Option<u64>, out: &mut Effects) -> bool {
        let is_of_this_start = opened.is_none_or(|opened| opened == self.incarnation());
        if let Some(open) = self.open.get(&txn).filter(|open| open.answered.0 >= number && is_of_this_start) {
            let again = (open.answered.0 == number).then(|| open.answered.1.clone());
            if let Some(reply) = again {
                self.reply(txn, reply, out);
            }
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
            return self.worked(txn, open, (number, Ok(StepResult { output, ..StepResult::default() })), out);
        }
        if let Some(asked) = work.call.callee.reads().cloned() {
            return self.on_reads((txn, begun), work, &asked, out);
        }
        if matches!(work.call.callee, Callee::Enter) {
            return self.on_enter(now_ms, (txn, begun), work, out);
        }
        if matches!(work.call.callee, Callee::Barrier) {
            return self.on_barrier((txn, begun), work, out);
        }
        if work.call.callee.is_of_build() {
            return self.on_build(now_ms, (txn, begun), &work, out);
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
        let role = role_at(&work, shard);
        if defines.is_some() && open.has_pending(&self.program) {
            return self.worked(txn, open, (number, Err(pending_checks())), out);
        }
        if let Some(definition) = defines {
            let time = work.call.transaction_time;
            let result = self.define_within((txn, &mut open), number, &definition, time);
            let result = result.map(|derived| StepResult { derived, ..StepResult::default() });
            return self.worked(txn, open, (number, result), out);
        }
        self.hand_over_to_starved(txn, &mut open);
        let result = match self.do_step(&mut open, (txn, &work, role), timestamp) {
            Ok(done) => Ok(done),
            Err(Stop::Error(error)) => Err(error),
            // A run of an open transaction says it by what it derives, unless its request is of no statement.
            Err(Stop::Elsewhere { .. }) => Err(forgotten()),
            Err(Stop::Long) => {
                self.open.insert(txn, open);
                return self.run_beside(Request::Work { txn, begun, work }, out);
            }
            Err(stop @ (Stop::Held(_) | Stop::Pinned { .. })) => {
                if open.has_worked() {
                    self.open.insert(txn, open);
                }
                let holders = self.holders(stop);
                return self.wait_for(holders, Request::Work { txn, begun, work }, out);
            }
        };
        self.worked(txn, open, (number, result), out);
    }

    /// Runs a statement, and keeps what it has done.
    fn do_step(
        &mut self,
        open: &mut Open,
        (txn, work, role): (TxnId, &Work, Role<'_>),
        timestamp: Timestamp,
    ) -> Result<StepResult, Stop> {
        let mark = open.own.mark();
        let mut ran = self.run_statement(open, (txn, work, role), timestamp)?;
        if ran.answers.error.is_none() {
            let claims = &mut self.claims;
            ran.claims.retain(|claim| claims.take(claim, txn));
        }
        Ok(self.has_run(txn, open, work, mark, ran))
    }

    /// Takes the write set of the statement's transaction for a worker, and copies the rest of the state that the statement uses.
    pub(super) fn state_for_worker(&mut self, request: &Request) -> (WriteSet, Option<OpenState>) {
        let Request::Work { txn, work, .. } = request else { return (WriteSet::default(), None) };
        let program = self.program.clone();
        let open = self.open.get_mut(txn).expect("its transaction is open");
        let setting = work.call.callee.setting();
        let state = OpenState {
            said: open.done.iter().filter_map(|done| done.setting.clone()).collect(),
            later: setting.map_or_else(Vec::new, |setting| open.pending(Some(setting), &program)),
            upserted: open.upserted(),
            keys_claimed: open.keys_claimed,
        };
        (std::mem::take(&mut open.own), Some(state))
    }

    /// Continues with a statement that a worker has run. `own`: the write set with what it has written; none: lost.
    pub(super) fn end_statement(
        &mut self,
        now_ms: u64,
        is_unheard: bool,
        request: Request,
        (result, own, claims, mark): (Result<Ran, Stop>, Option<WriteSet>, Vec<Claim>, Mark),
        out: &mut Effects,
    ) {
        let txn = request.txn();
        if !matches!(result, Err(Stop::Long)) {
            self.workers.attempts.remove(&txn);
        }
        let Some(own) = own else {
            // It is lost, and the transaction has been dropped.
            if !is_unheard {
                self.refuse_forgotten(txn, out);
            }
            return;
        };
        let Some(mut open) = self.open.remove(&txn) else {
            // It has been dropped meanwhile.
            self.storage.discard_write_set(own);
            return self.release_claims(txn, claims);
        };
        open.own = own;
        open.waiting_claims.extend(claims);
        let is_done = result.as_ref().is_ok_and(|ran| ran.answers.error.is_none()) && !is_unheard;
        if !is_done && !self.bugs.keeps_unfinished() {
            open.own.roll_back(&mut self.storage, mark);
        }
        let Request::Work { work, .. } = &request else { unreachable!("a statement is work") };
        let number = work.number;
        let result = match result {
            _ if is_unheard => {
                let claims = std::mem::take(&mut open.waiting_claims);
                self.open.insert(txn, open);
                return self.release_claims(txn, claims);
            }
            Ok(ran) => Ok(self.has_run(txn, &mut open, work, mark, ran)),
            Err(Stop::Error(error)) => Err(error),
            Err(stop) => {
                self.open.insert(txn, open);
                return self.stopped_beside(now_ms, stop, request, out);
            }
        };
        let after = self.noted();
        self.worked_after(txn, open, (number, result), after, out);
    }

    /// Keeps what a statement has done. Its claims are taken, and `ran` has those that are its own.
    pub(super) fn has_run(
        &mut self,
        txn: TxnId,
        open: &mut Open,
        work: &Work,
        mark: Mark,
        ran: Ran,
    ) -> StepResult {
        if ran.answers.error.is_some() {
            return StepResult { answers: ran.answers, output: ran.output, ..StepResult::default() };
        }
        let Ran { answers, output, mut claims, writes, later, upserted, derived, changed, .. } = ran;
        claims.append(&mut open.waiting_claims);
        open.keys_claimed += claims.iter().filter(|claim| matches!(claim, Claim::Key(..))).count();
        if open.keys_claimed >= KEYS_CLAIMED_MAX && !self.claims.loading.contains(&txn) {
            self.claims.loading.push(txn);
        }
        let setting = work.call.callee.setting().cloned();
        open.settings += usize::from(setting.is_some());
        let derived = Derived::net(derived);
        let (number, mut targets) = (work.number, targets_of(&derived, self.program.shards));
        // Where there is no other participant, the end names none.
        targets.retain(|target| *target != self.shard);
        open.done.push(Done {
            number,
            claims,
            mark,
            writes,
            version: None,
            setting,
            later,
            upserted,
            targets,
        });
        StepResult { answers, output, derived, changed }
    }

    /// Runs a statement on top of the transaction's earlier work. A statement that fails or has to wait leaves no change.
    fn run_statement(
        &mut self,
        open: &mut Open,
        (txn, work, role): (TxnId, &Work, Role<'_>),
        timestamp: Timestamp,
    ) -> Result<Ran, Stop> {
        let mark = open.own.mark();
        self.put_versions(open);
        let settled = if open.settings == 0 { &[] } else { &open.done[..] };
        let said: SmallVec<[&Setting; 2]> = settled.iter().filter_map(|done| done.setting.as_ref()).collect();
        let setting = work.call.callee.setting();
        let later = setting.map_or_else(Vec::new, |setting| open.pending(Some(setting), &self.program));
        let upserted = &open.upserted()[..];
        let keys_claimed = open.keys_claimed;
        let reads = work.call.callee.is_serializable().then(Reads::default);
        let statement =
            OpenStatement { said: &said, later: &later, upserted, keys_claimed, reads: reads.as_ref() };
        let target = Target::WriteSet(&mut open.own, Some(statement));
        let mut ran = self.run(txn, &work.call, role, timestamp, true, target);
        drop(said);
        if let Some(reads) = &reads {
            ran = self.hold_reads(txn, open, ran, reads);
        }
        if !ran.as_ref().is_ok_and(|ran| ran.answers.error.is_none()) {
            open.own.roll_back(&mut self.storage, mark);
        }
        self.take_versions(open);
        ran
    }

    /// Answers a statement, and keeps the answer for repetitions.
    pub(super) fn worked(
        &mut self,
        txn: TxnId,
        open: Open,
        (number, result): (u32, Result<StepResult, SqlError>),
        out: &mut Effects,
    ) {
        // An error, or a reply of a transaction that has changed the schema, may depend on more than rows that were read.
        let after = match result.is_ok() && !open.defines() {
            true => self.read_dependency(),
            false => self.noted(),
        };
        self.worked_after(txn, open, (number, result), after, out);
    }

    /// The same; the answer depends on the log up to `after`.
    fn worked_after(
        &mut self,
        txn: TxnId,
        mut open: Open,
        (number, result): (u32, Result<StepResult, SqlError>),
        after: Lsn,
        out: &mut Effects,
    ) {
        if !open.waiting_claims.is_empty() {
            // The statement has failed.
            let claims = std::mem::take(&mut open.waiting_claims);
            self.release_claims(txn, claims);
        }
        let (shard, incarnation) = (self.shard, self.incarnation());
        let (result, derived, changed) = match result {
            Ok(StepResult { answers, output, derived, changed }) => (Ok((answers, output)), derived, changed),
            Err(error) => (Err(error), Vec::new(), Changed::default()),
        };
        let reply = Reply::Worked { txn, shard, number, incarnation, result };
        let reply = reply.with_derived(derived).with_changed(changed).spoken();
        open.answered = (number, reply.clone());
        self.open.insert(txn, open);
        out.reply(txn.coordinator, reply, after);
    }

    /// `step`: its own number, and that of the last step to keep. A transaction unknown here becomes open, so that its late statements do
    /// nothing.
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
        let stays = match self.bugs.keeps_what_is_rolled_back() {
            true => open.done.len(),
            false => open.done.partition_point(|done| done.number <= after),
        };
        let reply = Reply::RolledBack { txn, shard, number, incarnation: self.incarnation() };
        open.answered = (if self.bugs.rolled_back_comes_again() { after } else { number }, reply.clone());
        let mut claims = self.roll_back_done(&mut open, stays);
        claims.append(&mut open.waiting_claims);
        if self.barrier.is_some_and(|barrier| barrier.txn == txn) && !open.defines() && !open.excludes {
            // The definition behind the barrier is rolled back, or was never made.
            self.lower_barrier(txn);
        }
        self.open.insert(txn, open);
        self.release_claims(txn, claims);
        if self.waits_besides.values().any(|holders| holders.contains(&txn)) {
            // The transaction still exists but may no longer hold the claims: the coordinators of waiting requests must be notified.
            self.ended.extend(self.waiting.keys());
        }
        self.reply(txn, reply, out);
    }

    /// Transactions whose claims or pins have stopped a run; at least one if it has stopped in this step.
    pub(crate) fn holders(&self, stop: Stop) -> Holders {
        match stop {
            Stop::Held(holders) => holders,
            Stop::Pinned { table, row } => {
                let has =
                    |prepared: &Prepared| prepared.pins.iter().any(|pin| (pin.0, pin.1) == (table, row));
                let mut prepared = self.participant.prepared().iter();
                // None: it has ended since a worker met it.
                prepared.find(|(_, prepared)| has(prepared)).map(|(holder, _)| *holder).into_iter().collect()
            }
            Stop::Error(_) | Stop::Long | Stop::Elsewhere { .. } => unreachable!("nobody holds it up"),
        }
    }

    /// Returns whether the transaction is open since that incarnation of the shard.
    pub(crate) fn has_open(&self, txn: TxnId, opened: u64) -> bool {
        (opened == self.incarnation() || self.bugs.opens_again()) && self.open.contains_key(&txn)
    }

    fn incarnation(&self) -> u64 {
        self.participant.incarnation
    }

    fn refuse_forgotten(&mut self, txn: TxnId, out: &mut Effects) {
        self.answer(txn, Reply::Refused { txn, shard: self.shard, error: forgotten() }, out)
    }

    /// Releases claims; requests that wait for the transaction are retried.
    pub(super) fn release_claims(&mut self, txn: TxnId, claims: Vec<Claim>) {
        for claim in claims {
            self.claims.release(&claim, txn);
        }
        self.ended.push(txn);
    }

    /// Drops the open transactions of silent coordinators, which would never be ended otherwise.
    pub(crate) fn drop_open_of(&mut self, silent: &[CoordinatorId]) {
        let of_them = |txn: &&TxnId| silent.contains(&txn.coordinator);
        let left: Vec<TxnId> = self.open.keys().filter(of_them).copied().collect();
        for txn in left {
            self.note_refusal(txn, None);
        }
    }
}

/// Error of an operation that is not possible while deferred checks are outstanding.
fn pending_checks() -> SqlError {
    SqlError::new(
        SqlState::OBJECT_IN_USE,
        "the schema cannot be changed while deferred constraints are to be checked",
    )
    .with_hint("Say SET CONSTRAINTS ALL IMMEDIATE first.")
}
