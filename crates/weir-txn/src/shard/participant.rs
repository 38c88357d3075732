//! Transactions that are not over on this shard: prepared ones with their claims, and committed ones that may not have reached their
//! other participants yet.
//!
//! Bookkeeping only: [`super::Node`] runs the calls and accesses storage.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use weir_core::draining::{Committed, Draining};
use weir_core::ids::{CoordinatorId, Position, ShardId, Timestamp, TxnId};
use weir_core::readers::Readers;
use weir_sql::catalog::TableId;

use super::definitions::Definitions;
use crate::claims::{Claim, Claims};
use crate::message::{Age, Answers, Sibling};
use crate::storage::{Write, WriteSet};

/// Longest delay of garbage collection by a slow reader; after it the reader must begin anew.
const READER_DELAY_MS_MAX: u64 = 5_000;

#[derive(Debug)]
pub struct Prepared {
    pub age: Age,
    pub writes: Arc<[Write]>,
    /// Row changes, applied at COMMIT. Rows of `pins` that were changed meanwhile are folded instead: the operations are redone on the
    /// current row. None after a restart of the shard: then all operations are redone.
    pub own: Option<WriteSet>,
    /// The rows that it will write, each once, with the result of [`crate::storage::Storage::pin`].
    pub pins: Vec<(TableId, u32, u32)>,
    pub claims: Vec<Claim>,
    pub participants: Arc<[ShardId]>,
    /// Position of the shard at the prepare: everything before it has lower timestamps.
    pub at: Position,
    /// Answer to its coordinator, kept where requests may be repeated.
    pub answer: Option<Box<(Answers, Timestamp)>>,
    /// It was an open transaction: no other transaction writes its rows (S14).
    pub holds_rows: bool,
    /// Set if it changes the schema; then it contains all changes of the transaction.
    pub definitions: Option<Box<Definitions>>,
}

/// A committed transaction with other participants, kept until no reader needs it as a sibling.
#[derive(Debug)]
pub struct Unsettled {
    pub timestamp: Timestamp,
    pub participants: Arc<[ShardId]>,
    /// Position of the shard after the commit.
    pub position: Position,
    pub prepared_at: Position,
    /// Kept while a reader may ask for an older state plus this transaction (S5).
    pub writes: Option<Arc<[Write]>>,
    /// All participants have committed it.
    pub settled: bool,
}

impl Unsettled {
    pub fn new(
        timestamp: Timestamp,
        participants: Arc<[ShardId]>,
        position: Position,
        prepared_at: Position,
        writes: Option<Arc<[Write]>>,
    ) -> Unsettled {
        Unsettled { timestamp, participants, position, prepared_at, writes, settled: false }
    }
}

impl Committed for Unsettled {
    fn settled(&mut self) -> &mut bool {
        &mut self.settled
    }
}

#[derive(Debug, Default)]
pub struct Participant {
    pub prepared: BTreeMap<TxnId, Prepared>,
    /// Prepared transactions in prepare order, so that positions ascend. Invariant: the first entry is still prepared.
    order: VecDeque<(Position, TxnId)>,
    pub claims: Claims,
    /// Number of prepared transactions that hold their rows.
    pub hold_rows: usize,
    pub unsettled: BTreeMap<TxnId, Unsettled>,
    /// Settled transactions whose metadata an earlier read may still need (S10).
    draining: Draining,
    pub readers: Readers,
}

impl Participant {
    pub fn hold(&mut self, txn: TxnId, prepared: Prepared) {
        for claim in &prepared.claims {
            self.claims.take(claim, txn);
        }
        self.hold_rows += usize::from(prepared.holds_rows);
        self.order.push_back((prepared.at, txn));
        let before = self.prepared.insert(txn, prepared);
        assert!(before.is_none(), "{txn:?} prepared twice");
    }

    pub fn release(&mut self, txn: TxnId) -> Option<Prepared> {
        let prepared = self.prepared.remove(&txn)?;
        self.hold_rows -= usize::from(prepared.holds_rows);
        for claim in &prepared.claims {
            self.claims.release(claim, txn);
        }
        while let Some((_, first)) = self.order.front()
            && !self.prepared.contains_key(first)
        {
            self.order.pop_front();
        }
        Some(prepared)
    }

    /// Oldest position from which a prepared transaction may have to be folded in.
    pub fn oldest_prepare(&self) -> Option<Position> {
        self.order.front().map(|(at, _)| *at)
    }

    pub fn age_of(&self, txn: TxnId) -> Option<Age> {
        self.prepared.get(&txn).map(|prepared| prepared.age)
    }

    /// Siblings for a reader that stands at the current position.
    pub fn siblings(&self) -> Vec<Sibling> {
        let sibling = |(txn, unsettled): (&TxnId, &Unsettled)| Sibling {
            txn: *txn,
            timestamp: unsettled.timestamp,
            participants: unsettled.participants.clone(),
        };
        self.unsettled.iter().map(sibling).collect()
    }

    /// Applies a coordinator's progress, which every batch carries: its transactions below `settled_below` are over everywhere, and its
    /// reads that had begun when it saw epoch `drained` have ended. Returns the transactions that were not known to be over.
    pub fn on_progress(
        &mut self,
        now_ms: u64,
        coordinator: CoordinatorId,
        settled_below: u64,
        drained: u64,
    ) -> Option<Range<TxnId>> {
        let known_below = self.readers.on_progress(coordinator, settled_below, drained, |_| ());
        let [from, below] = [known_below, settled_below].map(|sequence| TxnId { coordinator, sequence });
        let news = (settled_below > known_below).then_some(from..below);
        if let Some(news) = &news {
            let epoch = self.readers.epoch();
            for (txn, one) in self.unsettled.range_mut(news.clone()) {
                self.draining.settle(epoch, *txn, Some(one));
            }
        }
        self.drain(now_ms);
        news
    }

    /// Marks a transaction as committed by all participants, which its coordinator may not know yet.
    pub fn settle(&mut self, txn: TxnId) {
        self.draining.settle(self.readers.epoch(), txn, self.unsettled.get_mut(&txn));
    }

    /// Drops readers that have delayed garbage collection for longer than the bound.
    pub fn expire(&mut self, now_ms: u64) {
        if !self.draining.is_empty() {
            self.readers.expire(now_ms, READER_DELAY_MS_MAX);
            self.drain(now_ms);
        }
    }

    /// Forgets a coordinator that has nothing left on any shard.
    pub fn forget_coordinator(&mut self, coordinator: CoordinatorId) {
        self.readers.forget(coordinator);
        self.unsettled.retain(|txn, _| txn.coordinator != coordinator);
    }

    /// Restarts the bookkeeping: there are no readers yet, so all settled transactions drain in the first epoch.
    pub fn restart(&mut self, incarnation: u64) {
        self.readers.restart(incarnation);
        for (txn, one) in &mut self.unsettled {
            one.settled |= self.readers.is_below(txn.coordinator, txn.sequence);
        }
        let settled = self.unsettled.iter().filter(|(_, one)| one.settled).map(|(txn, _)| *txn);
        self.draining.restart(self.readers.epoch(), settled);
    }

    /// Drain epoch of the shard, sent with every batch of replies.
    pub fn epoch(&self) -> u64 {
        self.readers.epoch()
    }

    fn drain(&mut self, now_ms: u64) {
        let drained = self.readers.drained();
        while let Some(txn) = self.draining.next_drained(drained) {
            self.unsettled.remove(&txn);
        }
        if !self.draining.is_empty() {
            self.readers.advance(now_ms);
        }
    }
}
