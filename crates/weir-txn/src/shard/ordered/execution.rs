//! Execution of ordered calls: one after the other, in the order of their indices, each in one step and without a prepare.
//!
//! The first call that meets a lock waits, and all behind it. It holds nothing, so nobody waits for it but readers, who hold nothing either.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::clock::CLOCK_AHEAD_MS_MAX;
use weir_core::ids::{CoordinatorId, ShardId, Timestamp, TxnId};
use weir_core::lsn::Lsn;
use weir_core::participant::Applied;
use weir_ordered::application::Application;
use weir_ordered::packet::Index;
use weir_types::SqlError;
use weir_types::interrupt::StatementId;

use super::OrderedRecord;
use crate::exec::call::{Ran, Role, Stop, meets_lock};
use crate::faults::Faults;
use crate::message::{
    Answers, Call, Operation, Ordered, OrderedMessage, Output, Pending, Reply, Request, Sibling,
    schema_has_changed,
};
use crate::shard::log::Record;
use crate::shard::node::{Effects, Node, Target};
use crate::shard::participant::Unsettled;

/// An ordered call has no name by which it could be interrupted: its other participants execute it.
pub(in crate::shard) const IN_ORDER: StatementId = (0, u64::MAX, 0);

/// Operations that are delivered, as the replica's application: the shard executes them when nothing holds them up.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    executed: Index,
    /// All behind `executed`.
    pending: BTreeMap<Index, Operation>,
}

impl Deliveries {
    pub(super) fn executed_to(executed: Index) -> Deliveries {
        Deliveries { executed, pending: BTreeMap::new() }
    }

    pub(super) fn executed(&self) -> Index {
        self.executed
    }

    pub(super) fn next(&self) -> Option<(Index, Operation)> {
        self.pending.first_key_value().map(|(index, operation)| (*index, operation.clone()))
    }

    /// Transactions whose operations are not executed yet.
    pub(super) fn pending(&self) -> impl Iterator<Item = TxnId> {
        self.pending.values().map(|operation| operation.txn)
    }

    /// The operation at that index is executed.
    fn pass(&mut self, index: Index) {
        assert!(index > self.executed, "operations are executed in order");
        self.executed = index;
        self.pending.remove(&index);
    }
}

impl Application for Deliveries {
    type Operation = Operation;
    type Answer = ();
    type Snapshot = Pending;

    fn execute(&mut self, index: Index, operation: &Operation) {
        if index > self.executed {
            self.pending.insert(index, operation.clone());
        }
    }

    fn roll_back(&mut self, to: Index) {
        // A group of one adopts no other log than its own.
        assert!(to >= self.executed, "what is executed is durable first");
        self.pending.split_off(&(to + 1));
    }

    fn forget(&mut self, _up_to: Index) {}

    fn snapshot(&self, at: Index) -> Pending {
        self.pending.range(..=at).map(|(index, operation)| (*index, operation.clone())).collect()
    }

    fn restore(&mut self, _at: Index, snapshot: &Pending) {
        let executed = self.executed;
        let left = snapshot.iter().filter(|(index, _)| *index > executed);
        self.pending = left.map(|(index, operation)| (*index, operation.clone())).collect();
    }
}

impl<F: Faults> Node<F> {
    /// Executes what nothing holds up. Returns whether there was something.
    pub(in crate::shard) fn execute_in_order(&mut self, now_ms: u64, out: &mut Effects) -> bool {
        if self.ordering.is_none() {
            return false;
        }
        self.forget_entered();
        let mut has_executed = false;
        while self.decide_by_votes(now_ms, out) || self.execute_next(now_ms, out) {
            has_executed = true;
        }
        has_executed
    }

    /// Executes first what waits for that transaction, which has ended.
    pub(in crate::shard) fn execute_behind(&mut self, now_ms: u64, ended: TxnId, out: &mut Effects) {
        if self.ordering.as_ref().is_some_and(|ordering| ordering.waits_for.contains(&ended)) {
            self.execute_in_order(now_ms, out);
        }
    }

    fn execute_next(&mut self, now_ms: u64, out: &mut Effects) -> bool {
        let Some((index, operation)) = self.ordering.as_ref().and_then(|ordering| ordering.next()) else {
            return false;
        };
        if self.ordering.as_ref().is_some_and(|ordering| ordering.undecided().is_some()) {
            self.refuse_late_entrances(out);
            return false;
        }
        let is_done = match &operation.what {
            Ordered::Enter => {
                self.enter(operation.txn, out);
                true
            }
            Ordered::Call { call, participants } => {
                let at_ms = self.time_in_order(now_ms, operation.begun.at_ms);
                let role = if participants.len() == 1 { Role::Whole } else { Role::InOrder };
                let of = (Some(index), operation.txn);
                !self.is_held_up(now_ms, call)
                    && self.run_in_order(at_ms, of, (call, participants), role, out)
            }
            Ordered::Voted { call, participants } | Ordered::Decided { call, participants } => {
                let at_ms = self.time_in_order(now_ms, operation.begun.at_ms);
                let is_free = !self.is_held_up(now_ms, call) && !self.lacks_answers(&operation);
                if is_free {
                    self.agree(at_ms, (index, &operation), (call, participants), out);
                }
                is_free
            }
        };
        match is_done {
            true => {
                if let Some(ordering) = &mut self.ordering {
                    ordering.replica.application_mut().pass(index);
                    ordering.waits_for.clear();
                }
                // Readers may wait for it.
                self.ended.push(operation.txn);
            }
            false => self.refuse_late_entrances(out),
        }
        is_done
    }

    /// Physical time of a call's timestamp: that of a shard whose clock is far ahead stays within the bound of the coordinator's (S9).
    fn time_in_order(&self, now_ms: u64, begun_ms: u64) -> u64 {
        match self.participant.remembers {
            true => now_ms.min(begun_ms.saturating_add(CLOCK_AHEAD_MS_MAX)),
            false => now_ms,
        }
    }

    /// Returns whether something stands before the next call.
    fn is_held_up(&mut self, now_ms: u64, call: &Call) -> bool {
        if call.schema_version > self.program.schema_version {
            // The transaction that has made it has committed, so this shard will hear of it.
            return true;
        }
        let of = self.barrier.or_else(|| self.in_doubt(now_ms));
        let Some(ordering) = &mut self.ordering else { return false };
        if self.bugs.passes_locks_in_order() {
            return false;
        }
        let prepared = self.participant.prepared();
        ordering.in_doubt.retain(|txn| prepared.contains_key(txn));
        let is_there = |holder: &TxnId| {
            self.open.contains_key(holder) || prepared.contains_key(holder) || self.workers.calls(*holder)
        };
        let waits = !ordering.waits_for.is_empty() && ordering.waits_for.iter().all(is_there);
        waits || of.is_some() || !ordering.entered.is_empty() || !ordering.in_doubt.is_empty()
    }

    /// Runs a call whose turn has come. Returns false, and has done nothing, if it met a lock; the participant that decides a call refuses it
    /// then. `index`: none in the planted bug that executes out of order.
    pub(super) fn run_in_order(
        &mut self,
        now_ms: u64,
        (index, txn): (Option<Index>, TxnId),
        (call, participants): (&Arc<Call>, &Arc<[ShardId]>),
        role: Role<'_>,
        out: &mut Effects,
    ) -> bool {
        if self.participant.outcomes.get(txn).is_some() {
            return true;
        }
        let timestamp = self.clock.tick(now_ms);
        let begin = self.storage.position();
        let is_alone = participants.len() == 1;
        let decides = matches!(role, Role::Last(_));
        // Only readers at an earlier position need its operations (S5).
        let keep = !is_alone && !self.readers.is_empty();
        let result = self.run_unbounded(txn, call, role, timestamp, keep, Target::InPlace);
        let (ran, error) = match result {
            Ok(mut ran) => {
                let error = ran.answers.error.take();
                (ran, error)
            }
            Err(Stop::Error(error)) => (Ran::default(), Some(error)),
            Err(Stop::Held(_) | Stop::Pinned { .. }) if decides => (Ran::default(), Some(meets_lock())),
            Err(stop @ (Stop::Held(_) | Stop::Pinned { .. })) => {
                self.storage.rollback(begin);
                let holders = self.holders(stop);
                if let Some(ordering) = &mut self.ordering {
                    ordering.waits_for = holders;
                }
                return false;
            }
            Err(Stop::Long | Stop::Elsewhere { .. }) => (Ran::default(), Some(schema_has_changed())),
        };
        if error.is_some() {
            self.storage.rollback(begin);
        }
        // The others ask whether it has committed: so it has an outcome even if it has changed nothing.
        let has_changed =
            self.storage.position() != begin || self.sequences.has_changed() || decides && error.is_none();
        let committed = (has_changed && !is_alone).then(|| {
            let writes = keep.then(|| ran.writes.into());
            let position = self.storage.position();
            let unsettled = Unsettled::new(timestamp, participants.clone(), position, begin, writes);
            Unsettled { is_in_order: true, ..unsettled }
        });
        let reply = in_order_reply((txn, self.shard), role, (ran.answers, ran.output), error);
        self.has_done.commits += 1;
        let record = match has_changed {
            true => {
                let of = (txn, timestamp);
                let commit = self.logged_commit(of, (begin, Vec::new()), committed.as_ref(), Some(&reply));
                let answer = self.participant.remembers.then(|| Box::new(reply.clone()));
                let applied = Applied { committed, record: None };
                self.participant.note_commit((txn, timestamp.clock), answer, applied);
                index.zip(commit).map(|(index, commit)| OrderedRecord::Committed { index, txn, commit })
            }
            false => {
                self.participant.note_unchanged(txn, Some(Box::new(reply.clone())));
                let reply = Box::new(reply.clone());
                index.map(|index| OrderedRecord::Unchanged { index, txn, reply })
            }
        };
        if let Some(record) = record {
            self.participant.log.push(Record::Ordered(Box::new(record)));
        }
        match self.bugs.answers_order_early() {
            true => out.reply(txn.coordinator, reply.spoken(), Lsn::START),
            false => self.reply(txn, reply.spoken(), out),
        }
        true
    }

    /// Runs a call to its end, whatever the room, as its other participants do.
    pub(super) fn run_unbounded(
        &mut self,
        txn: TxnId,
        call: &Call,
        role: Role<'_>,
        timestamp: Timestamp,
        keep: bool,
        target: Target<'_>,
    ) -> Result<Ran, Stop> {
        let statement = std::mem::replace(&mut self.statement, IN_ORDER);
        let room = std::mem::take(&mut self.storage.room);
        let met = self.starvation.met.take();
        let result = self.run(txn, call, role, timestamp, keep, target);
        (self.scratch.met, self.scratch.stopped_at) = (None, None);
        (self.statement, self.storage.room, self.starvation.met) = (statement, room, met);
        result
    }

    /// The planted bug that executes out of order.
    pub(super) fn execute_at_once(&mut self, now_ms: u64, operation: Operation, out: &mut Effects) {
        if let Some((call, participants)) = operation.what.call()
            && !self.is_held_up(now_ms, call)
        {
            let role = if participants.len() == 1 { Role::Whole } else { Role::InOrder };
            self.run_in_order(now_ms, (None, operation.txn), (call, participants), role, out);
        }
    }

    /// Answers a coordinator that asks again: as the first time, or that it is retired. Its call may be executed all the same.
    pub(super) fn answer_in_order_again(&mut self, txn: TxnId, out: &mut Effects) {
        let outcomes = &self.participant.outcomes;
        let answer = outcomes.get(txn).and_then(|outcome| outcome.answer.as_deref()).cloned();
        let is_retired = outcomes.is_retired(txn.coordinator);
        let retired = Reply::Retired { txn, shard: self.shard };
        if let Some(reply) = answer.or_else(|| is_retired.then_some(retired)) {
            self.reply(txn, reply.spoken(), out);
        }
    }

    /// Returns whether nothing of the transaction is to come here. A call of a retired coordinator may come: it has its place in the order.
    pub(super) fn is_over(&self, txn: TxnId) -> bool {
        let of = &self.participant;
        of.outcomes.is_over(txn) || of.readers.is_below(txn.coordinator, txn.sequence)
    }

    /// A call that a reader has seen at another shard and that is not executed here yet.
    fn to_be_executed(&self, including: &[Sibling]) -> Option<TxnId> {
        let is_missing = |sibling: &&Sibling| {
            let txn = sibling.txn;
            let of = &self.participant;
            !of.prepared().contains_key(&txn) && !of.committed().contains_key(&txn) && !self.is_over(txn)
        };
        including.iter().find(is_missing).map(|sibling| sibling.txn)
    }

    /// Returns the request, unless it is a read that has to wait for an ordered call: its other participants have executed that, so this one
    /// will.
    pub(in crate::shard) fn behind_what_it_has_seen(&mut self, request: Request) -> Option<Request> {
        let (Request::ReadAt { including, .. } | Request::KeepSnapshot { including, .. }) = &request else {
            return Some(request);
        };
        if self.ordering.is_none() || self.bugs.reads_past_order() {
            return Some(request);
        }
        let Some(missing) = self.to_be_executed(including) else { return Some(request) };
        self.wait_for_execution(missing, request);
        None
    }

    /// Asks the other participants of calls of silent coordinators whether they have executed them.
    pub(super) fn ask_who_has_executed(&mut self, out: &mut Effects) {
        let terminate_ms = self.participant.timeouts.terminate_ms;
        let silent: Vec<CoordinatorId> = self.participant.readers.silent_for(terminate_ms).collect();
        let Some(ordering) = &mut self.ordering else { return };
        let committed = self.participant.committed();
        ordering.executed_at.retain(|txn, _| committed.get(txn).is_some_and(|one| !one.settled));
        if silent.is_empty() {
            return;
        }
        let is_left = |(txn, one): &(&TxnId, &Unsettled)| {
            one.is_in_order && !one.settled && silent.contains(&txn.coordinator)
        };
        let own = self.shard;
        for (&txn, one) in committed.iter().filter(is_left) {
            let known = ordering.executed_at.entry(txn).or_default();
            let others = one.participants.iter().filter(|shard| **shard != own && !known.contains(shard));
            for &shard in others {
                out.ask(shard, Request::Ordered(Box::new(OrderedMessage::HasExecuted { txn })), Lsn::START);
            }
        }
    }

    pub(super) fn on_executed_at(&mut self, peer: ShardId, txn: TxnId) {
        let own = self.shard;
        let Some(one) = self.participant.committed().get(&txn).filter(|one| one.is_in_order) else { return };
        let Some(ordering) = &mut self.ordering else { return };
        let known = ordering.executed_at.entry(txn).or_default();
        known.insert(peer);
        if one.participants.iter().all(|shard| *shard == own || known.contains(shard)) {
            ordering.executed_at.remove(&txn);
            self.participant.settle(txn);
        }
    }
}

fn in_order_reply(
    (txn, shard): (TxnId, ShardId),
    role: Role<'_>,
    (answers, output): (Answers, Output),
    error: Option<SqlError>,
) -> Reply {
    match role {
        Role::Whole => Reply::Executed { txn, result: error.map_or(Ok(output), Err) },
        Role::Last(_) => Reply::DecidedInOrder { txn, shard, result: error.map_or(Ok(output), Err) },
        _ => Reply::InOrder { txn, shard, answers: Answers { error, ..answers } },
    }
}
