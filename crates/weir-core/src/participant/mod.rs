//! The transaction core of a shard: what it keeps of each transaction that it takes part in, whatever the payload
//! (docs/internals/transaction-core.md; soundness S3, S9, S10).
//!
//! A transaction here is in flight, then prepared, then committed or refused, then forgotten; one that has a single participant commits
//! without preparing. A [`Payload`] names what these states contain, [`Participates`] what a shard does at each change, and
//! [`crate::termination`] finishes what silent coordinators leave. All of it is generic: no call is virtual.

mod map;
mod outcomes;
mod records;
#[cfg(test)]
mod tests;
mod transact;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use map::TxnMap;
pub use outcomes::{Outcome, OutcomeTable, OverOfRetired};
pub use records::{Record, RecordLog};
pub use transact::{Applied, Participates, Transactions};

use crate::draining::{self, Committed as _, Draining};
use crate::ids::{CoordinatorId, ShardId, TxnId};
use crate::readers::{OverOf, Readers};
use crate::termination::{Fate, Inquiries, Timeouts};

/// Longest delay of garbage collection by a slow reader; after it the reader must begin anew.
pub const READER_DELAY_MS_MAX: u64 = 5_000;

/// A prepared transaction.
pub trait Prepared {
    /// Position or clock of the shard at the prepare. Never descends from one prepare to the next.
    fn since(&self) -> u64;
    /// Clock sent to the coordinator.
    fn clock(&self) -> u64;
    fn participants(&self) -> &[ShardId];
}

/// A committed transaction, kept until all participants have committed it and no reader may ask for its metadata any more (S10).
pub trait Committed: draining::Committed {
    /// Clock of its commit.
    fn clock(&self) -> u64;
    /// Empty if this shard was the only one.
    fn participants(&self) -> &[ShardId];
    /// All participants have committed it.
    fn is_settled(&self) -> bool;
}

/// Something of a payload that is stored in a log.
pub trait Stored: Clone + Debug + Send + Serialize + DeserializeOwned + 'static {}

impl<T: Clone + Debug + Send + Serialize + DeserializeOwned + 'static> Stored for T {}

/// The content of transactions: the types of their states and of their log records.
pub trait Payload: Clone + Copy + Debug + Default + Send + 'static {
    /// Orders commits.
    type Stamp: Copy + Debug;
    type Prepared: Prepared + Debug + Send;
    type Committed: Committed + Debug + Send;
    type PreparedMap: TxnMap<Self::Prepared> + Debug + Send;
    type CommittedMap: TxnMap<Self::Committed> + Debug + Send;
    /// Answer to a repeated request.
    type Answer: Stored + Default;
    /// Logged form of a prepared transaction.
    type LoggedPrepared: Stored;
    type LoggedCommit: Stored;
    /// Complete state of a shard.
    type Snapshot: Stored;
    type SnapshotPart: Stored;
    /// Rows that are logged ahead of the commit of their transaction.
    type LoggedRows: Stored;
    /// Records of ordered transactions (docs/internals/ordered-calls.md); an empty type where there are none.
    type Ordered: Stored;

    /// Repeated requests of committed transactions are recognised by the outcome table, which has an answer for each, or by one bit in
    /// [`Readers`], which has none. With bits the table holds only what has been refused, or terminated by shards.
    const REMEMBERS_COMMITS: bool;

    fn clock_of(stamp: Self::Stamp) -> u64;
}

/// Bookkeeping of a shard's transactions.
#[derive(Debug)]
pub struct Participant<P: Payload> {
    prepared: P::PreparedMap,
    /// Prepared transactions in prepare order, each with its [`Prepared::since`]. Invariant: the first is still prepared.
    order: VecDeque<(u64, TxnId)>,
    committed: P::CommittedMap,
    /// Settled transactions whose metadata an earlier read may still need (S10).
    draining: Draining,
    /// Coordinators, and how far their transactions and reads have come.
    pub readers: Readers,
    /// Messages may be lost, and processes may die: outcomes are kept, and repeated requests recognised.
    pub remembers: bool,
    pub outcomes: OutcomeTable<P::Answer>,
    pub log: RecordLog<Record<P>>,
    /// Number of starts of the shard.
    pub incarnation: u64,
    pub timeouts: Timeouts,
    /// Answers of other participants about transactions of silent coordinators.
    pub(crate) inquiries: Inquiries,
    /// Number of transactions committed, and aborted, by asking the other participants.
    pub(crate) terminated: (u64, u64),
}

impl<P: Payload> Default for Participant<P> {
    fn default() -> Self {
        Participant {
            prepared: P::PreparedMap::default(),
            order: VecDeque::new(),
            committed: P::CommittedMap::default(),
            draining: Draining::default(),
            readers: Readers::default(),
            remembers: false,
            outcomes: OutcomeTable::default(),
            log: RecordLog::default(),
            incarnation: 0,
            timeouts: Timeouts::default(),
            inquiries: Inquiries::default(),
            terminated: (0, 0),
        }
    }
}

/// Size of the state that a shard holds for one coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    pub prepared: usize,
    pub committed: usize,
    pub outcomes: usize,
}

impl<P: Payload> Participant<P> {
    /// Bookkeeping where messages may be lost and processes may die.
    pub fn remembering(timeouts: Timeouts) -> Participant<P> {
        Participant { remembers: true, timeouts, ..Participant::default() }
    }

    pub fn prepared(&self) -> &P::PreparedMap {
        &self.prepared
    }

    pub fn prepared_mut(&mut self) -> &mut P::PreparedMap {
        &mut self.prepared
    }

    pub fn committed(&self) -> &P::CommittedMap {
        &self.committed
    }

    pub fn committed_mut(&mut self) -> &mut P::CommittedMap {
        &mut self.committed
    }

    pub fn inquiries(&self) -> &Inquiries {
        &self.inquiries
    }

    /// Number of transactions committed, and aborted, by asking the other participants.
    pub fn terminated(&self) -> (u64, u64) {
        self.terminated
    }

    /// Where the oldest prepared transaction stands in the shard's order.
    #[inline]
    pub fn oldest_prepare(&self) -> Option<u64> {
        self.order.front().map(|(since, _)| *since)
    }

    /// Prepared transactions in prepare order.
    pub fn in_prepare_order(&self) -> impl Iterator<Item = (TxnId, &P::Prepared)> {
        let order = self.order.iter();
        order.filter_map(|(since, txn)| Some((*txn, self.prepared_since(*txn, *since)?)))
    }

    fn prepared_since(&self, txn: TxnId, since: u64) -> Option<&P::Prepared> {
        self.prepared.get(txn).filter(|prepared| prepared.since() == since)
    }

    /// # Panics
    /// The transaction is prepared already.
    pub(crate) fn hold(&mut self, txn: TxnId, prepared: P::Prepared) {
        let since = prepared.since();
        debug_assert!(self.order.back().is_none_or(|(last, _)| *last <= since), "prepares go backwards");
        self.order.push_back((since, txn));
        let before = self.prepared.insert(txn, prepared);
        assert!(before.is_none(), "{txn:?} prepared twice");
    }

    pub(crate) fn release(&mut self, txn: TxnId) -> Option<P::Prepared> {
        let prepared = self.prepared.remove(txn)?;
        while let Some((since, first)) = self.order.front()
            && self.prepared_since(*first, *since).is_none()
        {
            self.order.pop_front();
        }
        Some(prepared)
    }

    /// State of a transaction on this shard, as other participants are told; none: unknown.
    pub fn fate(&self, txn: TxnId) -> Option<Fate> {
        if let Some(prepared) = self.prepared.get(txn) {
            return Some(Fate::Prepared { clock: prepared.clock() });
        }
        if let Some(committed) = self.committed.get(txn) {
            return Some(Fate::Committed { clock: committed.clock() });
        }
        if let Some(outcome) = self.outcomes.get(txn) {
            return Some(outcome.clock.map_or(Fate::Refused, |clock| Fate::Committed { clock }));
        }
        // If the transaction has committed everywhere, no asking shard can still act on this answer.
        let refused =
            self.outcomes.is_retired(txn.coordinator) || self.readers.is_over(txn.coordinator, txn.sequence);
        refused.then_some(Fate::Refused)
    }

    /// The other participants of a transaction that is prepared or committed here.
    pub(crate) fn others(&self, txn: TxnId, own: ShardId) -> impl Iterator<Item = ShardId> {
        let prepared = self.prepared.get(txn).map(Prepared::participants);
        let committed = || self.committed.get(txn).map(Committed::participants);
        let all = prepared.or_else(committed).unwrap_or_default();
        all.iter().copied().filter(move |shard| *shard != own)
    }

    /// Whether it is prepared or committed here, and perhaps not committed everywhere.
    pub(crate) fn is_unsettled(&self, txn: TxnId) -> bool {
        self.prepared.contains(txn) || self.committed.get(txn).is_some_and(|one| !one.is_settled())
    }

    /// A transaction has committed here. `committed`: kept for readers and other participants. `record`: none without a log.
    pub fn note_commit(
        &mut self,
        (txn, clock): (TxnId, u64),
        answer: P::Answer,
        Applied { committed, record }: Applied<P>,
    ) {
        if !P::REMEMBERS_COMMITS {
            self.readers.set_over(txn.coordinator, txn.sequence);
        } else if self.remembers {
            self.readers.know(txn.coordinator);
            self.outcomes.commit(txn, clock, answer);
        }
        if let Some(record) = record {
            self.log.push(Record::Committed(record));
        }
        if let Some(committed) = committed {
            self.committed.insert(txn, committed);
        }
    }

    /// A transaction has not committed here and never will. `is_logged`: false for planted bugs.
    pub fn note_refusal(&mut self, txn: TxnId, answer: P::Answer, is_logged: bool) {
        if is_logged && self.log.is_on() {
            self.remember_refusal(txn, answer.clone());
            self.log.push(Record::Refused { txn, answer });
        } else {
            self.remember_refusal(txn, answer);
        }
    }

    /// A transaction of this shard alone is over and has changed nothing. It is remembered until this incarnation ends, and not logged: the
    /// driver of a later one must not run it again unless its coordinator has had no answer.
    pub fn note_unchanged(&mut self, txn: TxnId, answer: P::Answer) {
        self.remember_refusal(txn, answer);
    }

    /// An outcome that the coordinator knows already need not be remembered.
    pub(crate) fn remember_refusal(&mut self, txn: TxnId, answer: P::Answer) {
        self.readers.know(txn.coordinator);
        if self.remembers && !self.readers.is_below(txn.coordinator, txn.sequence) {
            self.outcomes.refuse(txn, answer);
        }
    }

    /// Marks a transaction as committed by all participants, which its coordinator may not know yet.
    pub fn settle(&mut self, txn: TxnId) {
        let Some(committed) = self.committed.get_mut(txn) else { return };
        let clock = committed.clock();
        let is_new = self.draining.settle(self.readers.epoch(), txn, Some(committed));
        let is_known =
            self.outcomes.get(txn).is_some() || self.readers.is_below(txn.coordinator, txn.sequence);
        if is_new && !is_known {
            self.outcomes.commit(txn, clock, P::Answer::default());
        }
    }

    /// Applies a coordinator's progress, which every batch carries: these transactions have been committed by all participants, all those
    /// below the watermark are over everywhere, and its reads that had begun when it saw epoch `drained` have ended. Returns the
    /// transactions that the watermark has newly passed.
    pub fn on_progress(
        &mut self,
        coordinator: CoordinatorId,
        settled: impl IntoIterator<Item = u64>,
        below: u64,
        drained: u64,
    ) -> Option<Range<TxnId>> {
        let epoch = self.readers.epoch();
        let (committed, draining) = (&mut self.committed, &mut self.draining);
        let mut settle = |sequence| {
            let txn = TxnId { coordinator, sequence };
            draining.settle(epoch, txn, committed.get_mut(txn));
        };
        settled.into_iter().for_each(&mut settle);
        // A report of settled transactions may have been lost; the watermark is sent with every batch.
        let known_below = self.readers.on_progress(coordinator, below, drained, settle);
        let passed = TxnId { coordinator, sequence: known_below }..TxnId { coordinator, sequence: below };
        let is_new = below > known_below;
        if is_new && !self.outcomes.is_empty() {
            self.outcomes.forget(passed.clone());
        }
        is_new.then_some(passed)
    }

    /// Whether a settled transaction has not drained.
    #[inline]
    pub fn is_draining(&self) -> bool {
        !self.draining.is_empty()
    }

    /// Forgets the oldest settled transaction, if readers have drained its epoch.
    pub fn next_drained(&mut self, drained: u64) -> Option<P::Committed> {
        // A retired coordinator's may be gone.
        loop {
            let txn = self.draining.next_drained(drained)?;
            if let Some(committed) = self.committed.remove(txn) {
                return Some(committed);
            }
        }
    }

    /// Begins a new drain epoch, if something waits for one.
    pub fn advance(&mut self, now_ms: u64) {
        if self.is_draining() {
            self.readers.advance(now_ms);
        }
    }

    /// State left of that coordinator's transactions.
    pub fn left_of(&self, coordinator: CoordinatorId) -> Left {
        let of_it = |txn: &TxnId| txn.coordinator == coordinator;
        Left {
            prepared: self.prepared.iter().map(|(txn, _)| txn).filter(of_it).count(),
            committed: self.committed.iter().map(|(txn, _)| txn).filter(of_it).count(),
            outcomes: self.outcomes.iter().map(|(txn, _)| txn).filter(of_it).count(),
        }
    }

    pub(crate) fn has_left(&self, coordinator: CoordinatorId) -> bool {
        self.prepared.iter().any(|(txn, _)| txn.coordinator == coordinator)
            || self.committed.iter().any(|(txn, _)| txn.coordinator == coordinator)
    }

    /// Rejects everything of the coordinator from now on. It has no unfinished transactions, so its commits were settled.
    pub(crate) fn forget_coordinator(&mut self, coordinator: CoordinatorId) {
        self.outcomes.retire(coordinator, self.readers.below(coordinator));
        self.readers.forget(coordinator);
        let of_it = self.committed.iter_mut().filter(|(txn, _)| txn.coordinator == coordinator);
        of_it.for_each(|(_, one)| *one.settled() = true);
    }

    /// Restores the state of a snapshot: how far coordinators have come, and what they may not know yet.
    pub fn restore(
        &mut self,
        over: Vec<OverOf>,
        outcomes: impl IntoIterator<Item = (TxnId, Outcome<P::Answer>)>,
        retired: impl IntoIterator<Item = CoordinatorId>,
    ) {
        self.readers.restore(over);
        let readers = &self.readers;
        let is_needed = |txn: TxnId| !readers.is_below(txn.coordinator, txn.sequence);
        self.outcomes.restore(outcomes.into_iter().filter(|(txn, _)| is_needed(*txn)), retired);
    }

    /// Ends recovery, and begins the log of this start: there are no readers yet, so all settled transactions drain in the first epoch.
    pub fn start(&mut self) {
        self.incarnation += 1;
        self.readers.restart(self.incarnation);
        let readers = &self.readers;
        let mut settled = Vec::new();
        for (txn, one) in self.committed.iter_mut() {
            *one.settled() |= readers.is_below(txn.coordinator, txn.sequence);
            settled.extend(one.is_settled().then(|| (one.clock(), txn)));
        }
        settled.sort_unstable();
        self.draining.restart(self.readers.epoch(), settled.into_iter().map(|(_, txn)| txn));
        self.log.start(Record::Started { incarnation: self.incarnation });
    }
}

impl<P, C> Participant<P>
where
    P: Payload<Committed = C, CommittedMap = BTreeMap<TxnId, C>>,
    C: Committed,
{
    /// The watermark of their coordinator has passed these transactions: they are settled.
    pub fn settle_all(&mut self, passed: Range<TxnId>) {
        let epoch = self.readers.epoch();
        for (txn, one) in self.committed.range_mut(passed) {
            self.draining.settle(epoch, *txn, Some(one));
        }
    }
}
