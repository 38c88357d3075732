//! What a shard remembers of transactions that are not over: prepared ones, the claims they hold, and
//! committed ones that may not have reached their other participants yet.
//!
//! Only bookkeeping: [`crate::node::Node`] runs the calls and touches storage.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_sql::catalog::TableId;

use super::message::{Age, ShardId, Sibling, TxnId};
use crate::machine::CoordinatorId;
use crate::readers::Readers;
use crate::storage::{IndexId, KeyBytes, Operation, Position, Timestamp, Undone};

/// One write of a prepared transaction; `row` is where it was found, an insert has none.
#[derive(Clone, Debug)]
pub struct Write {
    pub table: TableId,
    pub row: Option<u32>,
    pub operation: Operation,
}

/// A value or row that only one transaction at a time may take.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// A key of a unique index that is about to be inserted.
    Key(TableId, IndexId, KeyBytes),
    /// A row that is taken exactly once, or whose counter is being taken.
    Row(TableId, u32),
}

#[derive(Debug)]
pub struct Prepared {
    pub age: Age,
    pub writes: Arc<[Write]>,
    /// What the run did, taken back; done again as it was if no row of `pins` has been touched meanwhile.
    pub undone: Vec<Undone>,
    /// The rows that it will write, each once, with what [`crate::storage::Storage::pin`] said.
    pub pins: Vec<(TableId, u32, u32)>,
    pub claims: Vec<Claim>,
    pub participants: Arc<[ShardId]>,
    /// The shard's position then: what lies before it has lower timestamps.
    pub at: Position,
}

/// A committed transaction with other participants, until it is known that no reader needs to be told.
#[derive(Debug)]
pub struct Unsettled {
    pub timestamp: Timestamp,
    pub participants: Arc<[ShardId]>,
    /// The shard's position after the commit.
    pub position: Position,
    pub prepared_at: Position,
    /// Kept while a reader may ask for an older state plus this transaction (S5).
    pub writes: Option<Arc<[Write]>>,
}

#[derive(Debug, Default)]
pub struct Participant {
    pub prepared: BTreeMap<TxnId, Prepared>,
    /// Transactions in the order in which they prepared, so that positions ascend; the first is still
    /// prepared.
    order: VecDeque<(Position, TxnId)>,
    pub claims: BTreeMap<Claim, TxnId>,
    pub unsettled: BTreeMap<TxnId, Unsettled>,
    /// Settled transactions whose metadata a read that began before may still need (S10), with the drain
    /// epoch in which they settled.
    draining: VecDeque<(u64, TxnId)>,
    readers: Readers,
}

impl Participant {
    /// `coordinators`: all that may ever read here; metadata waits for each of them.
    pub fn new(coordinators: impl IntoIterator<Item = CoordinatorId>) -> Participant {
        let mut participant = Participant::default();
        for coordinator in coordinators {
            participant.readers.register(coordinator);
        }
        participant
    }

    pub fn hold(&mut self, txn: TxnId, prepared: Prepared) {
        for claim in &prepared.claims {
            let before = self.claims.insert(claim.clone(), txn);
            assert!(before.is_none_or(|holder| holder == txn), "two transactions hold {claim:?}");
        }
        self.order.push_back((prepared.at, txn));
        let before = self.prepared.insert(txn, prepared);
        assert!(before.is_none(), "{txn:?} prepared twice");
    }

    pub fn release(&mut self, txn: TxnId) -> Option<Prepared> {
        let prepared = self.prepared.remove(&txn)?;
        for claim in &prepared.claims {
            self.claims.remove(claim);
        }
        while let Some((_, first)) = self.order.front()
            && !self.prepared.contains_key(first)
        {
            self.order.pop_front();
        }
        Some(prepared)
    }

    /// The oldest position from which a prepared transaction may have to be folded in.
    pub fn oldest_prepare(&self) -> Option<Position> {
        self.order.front().map(|(at, _)| *at)
    }

    pub fn age_of(&self, txn: TxnId) -> Option<Age> {
        self.prepared.get(&txn).map(|prepared| prepared.age)
    }

    /// What a reader that stands at `position` must be told.
    pub fn siblings(&self) -> Vec<Sibling> {
        let sibling = |(txn, unsettled): (&TxnId, &Unsettled)| Sibling {
            txn: *txn,
            timestamp: unsettled.timestamp,
            participants: unsettled.participants.clone(),
        };
        self.unsettled.iter().map(sibling).collect()
    }

    /// A coordinator's word, carried by every batch: all its transactions below `settled_below` are over
    /// everywhere, and all its reads that had begun when it saw epoch `drained` have ended.
    pub fn on_progress(&mut self, now_ms: u64, coordinator: CoordinatorId, settled_below: u64, drained: u64) {
        let known_below = self.readers.on_progress(coordinator, settled_below, drained, |_| ());
        if settled_below > known_below {
            let [from, below] = [known_below, settled_below].map(|sequence| TxnId { coordinator, sequence });
            let (settled, epoch) = (self.unsettled.range(from..below), self.readers.epoch());
            self.draining.extend(settled.map(|(txn, _)| (epoch, *txn)));
        }
        self.drain();
        if !self.draining.is_empty() {
            self.readers.advance(now_ms);
        }
    }

    /// The shard's drain epoch, sent with every batch of replies.
    pub fn epoch(&self) -> u64 {
        self.readers.epoch()
    }

    fn drain(&mut self) {
        let drained = self.readers.drained();
        while let Some(&(epoch, txn)) = self.draining.front() {
            if epoch >= drained {
                break;
            }
            self.draining.pop_front();
            self.unsettled.remove(&txn);
        }
    }
}
