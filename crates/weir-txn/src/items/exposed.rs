//! What a shard believes of parties in other processes.
//!
//! The cluster's secret says that they belong to it, not that they are right. What gets past here may write and read as it
//! likes; it cannot make the shard fail.

use std::collections::BTreeSet;

use super::bytes::Key;
use super::message::{Progress, Reply, Request};
use super::partition::Partition;
use super::place::shard_of;
use super::write::Write;
use crate::machine::{CoordinatorId, Exposed, Sender};
use crate::ramp::{ShardId, TxnId};

/// So far may the transactions of a coordinator be apart that are not over. A shard keeps a bit for each.
const SPREAD_MAX: u64 = 1 << 22;
/// Sequences that a coordinator can use up in no time.
const SEQUENCE_MAX: u64 = u64::MAX / 2;
/// Sixteen bits below are the counter's: the year 10,889.
const CLOCK_MAX: u64 = u64::MAX / 4 * 3;

/// Of so few, each is compared with each.
const FEW: usize = 16;

impl Exposed for Partition {
    fn refuses(&self, progress: &Progress) -> Option<&'static str> {
        if progress.below > SEQUENCE_MAX {
            return Some("a sequence number beyond all");
        }
        (progress.clock > CLOCK_MAX).then_some("a clock beyond all years")
    }

    fn refuses_request(&self, from: Sender, request: &Request, shards: ShardId) -> Option<&'static str> {
        let coordinator = match (from, request) {
            (Sender::Shard(_), Request::Ask { txn, .. } | Request::Tell { txn, .. }) => {
                return (txn.sequence > SEQUENCE_MAX).then_some("a sequence number beyond all");
            }
            (Sender::Shard(_), _) => return Some("a request that shards do not make"),
            (Sender::Coordinator(_), Request::Ask { .. } | Request::Tell { .. }) => {
                return Some("a request that coordinators do not make");
            }
            (Sender::Coordinator(coordinator), _) => coordinator,
        };
        match request {
            Request::Abort { txn } => self.refuses_txn(coordinator, *txn),
            Request::Write { txn, writes, .. } => {
                self.refuses_txn(coordinator, *txn).or_else(|| self.refuses_writes(writes, shards))
            }
            Request::Prepare { txn, writes, siblings, .. } => {
                let participants = &siblings.participants;
                let is_one = |shard: &ShardId| *shard < shards;
                let twice = |at: usize| participants[..at].contains(&participants[at]);
                if participants.len() < 2
                    || !participants.contains(&self.id)
                    || !participants.iter().all(is_one)
                    || (1..participants.len()).any(twice)
                {
                    return Some("participants that cannot be");
                }
                self.refuses_txn(coordinator, *txn).or_else(|| self.refuses_writes(writes, shards))
            }
            Request::Commit { stamp } if stamp.clock > CLOCK_MAX => Some("a clock beyond all years"),
            Request::Commit { stamp } => self.refuses_txn(coordinator, stamp.txn),
            Request::Get { naming, .. } | Request::GetAt { naming, .. } | Request::Open { naming, .. } => {
                naming.iter().any(|stamp| stamp.clock > CLOCK_MAX).then_some("a clock beyond all years")
            }
            Request::Ask { .. } | Request::Tell { .. } => None,
        }
    }

    fn instead_of(reply: &Reply) -> Option<Reply> {
        match reply {
            Reply::Got { read, shard, .. }
            | Reply::Told { read, shard, .. }
            | Reply::Opened { read, shard, .. } => Some(Reply::TooLarge { read: *read, shard: *shard }),
            _ => None,
        }
    }

    fn undecided_of(&self, coordinator: CoordinatorId) -> usize {
        self.left_of(coordinator).prepared
    }
}

impl Partition {
    fn refuses_txn(&self, coordinator: CoordinatorId, txn: TxnId) -> Option<&'static str> {
        if txn.coordinator != coordinator {
            return Some("a transaction of another coordinator");
        }
        let far = txn.sequence.saturating_sub(self.readers.below(coordinator)) > SPREAD_MAX;
        far.then_some("a sequence number far ahead of all that it has under way")
    }

    fn refuses_writes(&self, writes: &[(Key, Write)], shards: ShardId) -> Option<&'static str> {
        if writes.iter().any(|(key, _)| shard_of(key, shards) != self.id) {
            return Some("an item that lives on another shard");
        }
        let is_repeated = |at: usize| writes[..at].iter().any(|(key, _)| *key == writes[at].0);
        let repeats = if writes.len() <= FEW {
            (1..writes.len()).any(is_repeated)
        } else {
            let mut seen = BTreeSet::new();
            !writes.iter().all(|(key, _)| seen.insert(key))
        };
        repeats.then_some("an item that is written twice")
    }
}
