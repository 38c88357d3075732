//! What a shard remembers of transactions that are not over: prepared ones, the claims they hold, and
//! committed ones that may not have reached their other participants yet.
//!
//! Only bookkeeping: [`crate::node::Node`] runs the calls and touches storage.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use weir_sql::catalog::TableId;

pub use super::claims::{Claim, Claims, Holders};
use super::definitions::Definitions;
use super::message::{Age, Answers, ShardId, Sibling, TxnId};
use crate::machine::CoordinatorId;
use crate::readers::Readers;
use crate::storage::{Operation, Position, Timestamp, WriteSet};

/// A slow reader holds up what is to be forgotten for no longer than this, then begins anew.
const READER_DELAY_MS_MAX: u64 = 5_000;

/// One write of a prepared transaction; `row` is where it was found, an insert has none.
#[derive(Clone, Debug)]
pub struct Write {
    pub table: TableId,
    pub row: Option<u32>,
    pub operation: Operation,
}

#[derive(Debug)]
pub struct Prepared {
    pub age: Age,
    pub writes: Arc<[Write]>,
    /// What it made of rows; applied at COMMIT but for rows of `pins` that have been touched meanwhile, where its operations are folded in.
    /// None: the shard has started again since, and folds all of its operations.
    pub own: Option<WriteSet>,
    /// The rows that it will write, each once, with what [`crate::storage::Storage::pin`] said.
    pub pins: Vec<(TableId, u32, u32)>,
    pub claims: Vec<Claim>,
    pub participants: Arc<[ShardId]>,
    /// The shard's position then: what lies before it has lower timestamps.
    pub at: Position,
    /// What its coordinator was answered, where it may ask again.
    pub answer: Option<Box<(Answers, Timestamp)>>,
    /// It was open: nobody writes a row that it has written (S14).
    pub holds_rows: bool,
    /// It changes the schema; then all that it does is here.
    pub definitions: Option<Box<Definitions>>,
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

#[derive(Debug, Default)]
pub struct Participant {
    pub prepared: BTreeMap<TxnId, Prepared>,
    /// Transactions in the order in which they prepared, so that positions ascend; the first is still
    /// prepared.
    order: VecDeque<(Position, TxnId)>,
    pub claims: Claims,
    /// How many of the prepared transactions hold their rows.
    pub hold_rows: usize,
    pub unsettled: BTreeMap<TxnId, Unsettled>,
    /// Settled transactions whose metadata a read that began before may still need (S10), with the drain
    /// epoch in which they settled.
    draining: VecDeque<(u64, TxnId)>,
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
    /// everywhere, and all its reads that had begun when it saw epoch `drained` have ended. Gives those that were not
    /// known to be over.
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
            let settled = self.unsettled.range_mut(news.clone()).filter(|(_, one)| !one.settled);
            let settle = |(txn, one): (&TxnId, &mut Unsettled)| {
                one.settled = true;
                (epoch, *txn)
            };
            self.draining.extend(settled.map(settle));
        }
        self.drain(now_ms);
        news
    }

    /// All participants have committed it, which its coordinator may not know.
    pub fn settle(&mut self, txn: TxnId) {
        let Some(one) = self.unsettled.get_mut(&txn).filter(|one| !one.settled) else { return };
        one.settled = true;
        self.draining.push_back((self.readers.epoch(), txn));
    }

    /// Lets go of the readers that have held up what is to be forgotten for longer than the bound.
    pub fn expire(&mut self, now_ms: u64) {
        if !self.draining.is_empty() {
            self.readers.expire(now_ms, READER_DELAY_MS_MAX);
            self.drain(now_ms);
        }
    }

    /// Nothing of that coordinator is left, here or anywhere.
    pub fn forget_coordinator(&mut self, coordinator: CoordinatorId) {
        self.readers.forget(coordinator);
        self.unsettled.retain(|txn, _| txn.coordinator != coordinator);
    }

    /// The shard has started again: nobody reads here yet, so all that is settled drains in the first epoch.
    pub fn restart(&mut self, incarnation: u64) {
        self.readers.restart(incarnation);
        let (epoch, readers) = (self.readers.epoch(), &self.readers);
        self.draining.clear();
        for (txn, one) in &mut self.unsettled {
            one.settled |= readers.is_below(txn.coordinator, txn.sequence);
            if one.settled {
                self.draining.push_back((epoch, *txn));
            }
        }
    }

    /// The shard's drain epoch, sent with every batch of replies.
    pub fn epoch(&self) -> u64 {
        self.readers.epoch()
    }

    fn drain(&mut self, now_ms: u64) {
        let drained = self.readers.drained();
        while let Some(&(epoch, txn)) = self.draining.front()
            && epoch < drained
        {
            self.draining.pop_front();
            self.unsettled.remove(&txn);
        }
        if !self.draining.is_empty() {
            self.readers.advance(now_ms);
        }
    }
}
