//! What a shard remembers where messages are lost and processes die: what has become of each transaction until its
//! coordinator knows, and what is to be written down (docs/ramp.md, the log and termination).
//!
//! Only bookkeeping, and only where it is wanted: the embedded cluster loses nothing, so its shards have none.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::log::Record;
use super::message::{Reply, Request, TxnId};
use crate::machine::CoordinatorId;
use crate::termination::{Inquiries, Timeouts};

#[derive(Debug, Default)]
pub struct OutcomeTable {
    /// Its driver writes down what it says.
    pub is_logged: bool,
    /// What the driver has not written down yet.
    pub log: Vec<Record>,
    /// How many records the driver has taken since the start.
    pub taken: u64,
    /// Rows have been loaded: what is written down next is everything.
    pub has_loaded: bool,
    /// How often the shard has started.
    pub incarnation: u64,
    /// Transactions that are over here, until their coordinators say that they are over everywhere.
    pub over: BTreeMap<TxnId, Over>,
    /// Coordinators that were silent for too long.
    pub retired: BTreeSet<CoordinatorId>,
    pub inquiries: Inquiries,
    pub timeouts: Timeouts,
    /// Transactions committed, and aborted, because the other participants were asked.
    pub terminated: (u64, u64),
}

/// What has become of a transaction here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Over {
    /// Of its timestamp; none: it has not committed, and never will.
    pub clock: Option<u64>,
    /// What a repetition of its last request is answered.
    pub reply: Option<Box<Reply>>,
}

impl OutcomeTable {
    /// How many records there have been since the start.
    pub fn noted(&self) -> u64 {
        self.taken + self.log.len() as u64
    }

    /// Transactions of that coordinator are over everywhere.
    pub fn forget(&mut self, below: Range<TxnId>) {
        while let Some((&txn, _)) = self.over.range(below.clone()).next() {
            self.over.remove(&txn);
        }
    }

    pub fn forget_coordinator(&mut self, coordinator: CoordinatorId) {
        self.over.retain(|txn, _| txn.coordinator != coordinator);
        self.retired.insert(coordinator);
    }

    /// What a repetition of a request is answered, if it is one.
    pub fn answer_again(&self, request: &Request, shard: super::ShardId) -> Option<Option<Reply>> {
        let txn = request.txn();
        let over = self.over.get(&txn)?;
        Some(match (request, over) {
            (Request::Commit { .. }, Over { clock: Some(_), .. }) => Some(Reply::Committed { txn, shard }),
            // It comes too late.
            (Request::Abort { .. }, Over { clock: Some(_), reply: Some(reply) }) => Some((**reply).clone()),
            (Request::Abort { .. }, _) => Some(Reply::Aborted { txn, shard }),
            (Request::Commit { .. }, _) => None,
            (_, Over { reply: Some(reply), .. }) => Some((**reply).clone()),
            // What was committed had all answers that it needs.
            (_, Over { clock: Some(_), .. }) => None,
            (_, Over { clock: None, .. }) => Some(Reply::Busy { txn, shard }),
        })
    }
}
