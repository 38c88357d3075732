//! Outcomes that a shard remembers where messages may be lost and processes may die: each transaction's until its coordinator knows it,
//! and the records to be logged (docs/ramp.md, the log and termination).
//!
//! Bookkeeping only, and optional: the embedded cluster loses no messages, so its shards have no such table.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::lsn::Lsn;
use weir_core::termination::{Inquiries, Timeouts};

use super::log::Record;
use crate::message::{Reply, Request};

#[derive(Debug, Default)]
pub struct OutcomeTable {
    /// The driver writes `log` to disk.
    pub is_logged: bool,
    /// Records that the driver has not taken yet.
    pub log: Vec<Record>,
    /// Position after the last record that the driver has taken.
    pub taken: Lsn,
    /// Initial rows have been loaded: the next record must be a full snapshot.
    pub has_loaded: bool,
    /// Number of starts of the shard.
    pub incarnation: u64,
    /// Transactions that are over on this shard, until their coordinators report them as over everywhere.
    pub over: BTreeMap<TxnId, Over>,
    /// Coordinators that were silent for too long.
    pub retired: BTreeSet<CoordinatorId>,
    pub inquiries: Inquiries,
    pub timeouts: Timeouts,
    /// Number of transactions committed, and aborted, by asking the other participants.
    pub terminated: (u64, u64),
}

/// Outcome of a transaction on this shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Over {
    /// Clock of its commit timestamp; none: it has not committed and never will.
    pub clock: Option<u64>,
    /// Reply to a repetition of its last request.
    pub reply: Option<Box<Reply>>,
}

impl OutcomeTable {
    /// Position after the last record noted.
    pub fn noted(&self) -> Lsn {
        self.taken.plus(self.untaken())
    }

    /// Position after the next record.
    pub fn next(&self) -> Lsn {
        let replaced = self.is_logged && self.has_loaded;
        self.taken.plus(if replaced { 1 } else { self.log.len() + 1 })
    }

    /// Number of records that the driver will be given. After a load a snapshot replaces the records.
    fn untaken(&self) -> usize {
        if self.is_logged && self.has_loaded { 1 } else { self.log.len() }
    }

    /// Takes the records; none: a snapshot of the shard replaces them.
    pub fn take(&mut self) -> Option<Vec<Record>> {
        self.taken = self.noted();
        let records = std::mem::take(&mut self.log);
        let is_replaced = self.is_logged && std::mem::take(&mut self.has_loaded);
        (!is_replaced).then_some(records)
    }

    /// Forgets transactions of a coordinator that are over everywhere.
    pub fn forget(&mut self, below: Range<TxnId>) {
        while let Some((&txn, _)) = self.over.range(below.clone()).next() {
            self.over.remove(&txn);
        }
    }

    pub fn forget_coordinator(&mut self, coordinator: CoordinatorId) {
        self.over.retain(|txn, _| txn.coordinator != coordinator);
        self.retired.insert(coordinator);
    }

    /// Reply to a repeated request. None: the request is new; `Some(None)`: it is repeated and needs no reply.
    pub fn answer_again(&self, request: &Request, shard: ShardId) -> Option<Option<Reply>> {
        let txn = request.txn();
        let over = self.over.get(&txn)?;
        Some(match (request, over) {
            (Request::Commit { .. }, Over { clock: Some(_), .. }) => Some(Reply::Committed { txn, shard }),
            // The abort comes too late: the transaction has committed.
            (Request::Abort { .. }, Over { clock: Some(_), reply: Some(reply) }) => Some((**reply).clone()),
            (Request::Abort { .. }, _) => Some(Reply::Aborted { txn, shard }),
            (Request::Commit { .. }, _) => None,
            (_, Over { reply: Some(reply), .. }) => Some((**reply).clone()),
            // A committed transaction had received all the answers that it needs.
            (_, Over { clock: Some(_), .. }) => None,
            (_, Over { clock: None, .. }) => Some(Reply::Busy { txn, shard }),
        })
    }
}
