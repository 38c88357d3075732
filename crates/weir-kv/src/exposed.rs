//! Checks of requests from other processes to a shard of items.
//!
//! The cluster's secret proves that a peer belongs to the cluster, not that it is correct. An accepted request may read and write
//! anything, but it cannot make the shard fail.

use std::collections::BTreeSet;

use weir_core::exposed::{refuses_clock, refuses_from, refuses_sequence};
use weir_core::ids::{CoordinatorId, Sender, ShardId, TxnId};
use weir_core::machine::Exposed;
use weir_core::termination::Says as _;

use super::bytes::Key;
use super::faults::Faults;
use super::message::{Progress, Reply, Request};
use super::partition::Partition;
use super::place::shard_of;
use super::write::Write;

/// Up to this number, duplicates are found by comparing all pairs.
const FEW: usize = 16;

impl<F: Faults> Exposed for Partition<F> {
    type Description = ();
    type Attachment = ();

    fn refuses(&self, progress: &Progress) -> Option<&'static str> {
        refuses_sequence(progress.below).or_else(|| refuses_clock(progress.clock))
    }

    fn refuses_request(&self, from: Sender, request: &Request, shards: ShardId) -> Option<&'static str> {
        let is_word = request.word().is_some();
        if let Some(why) = refuses_from(from, is_word, txn_of(request), &self.participant.readers) {
            return Some(why);
        }
        match request {
            Request::Write { writes, .. } => self.refuses_writes(writes, shards),
            Request::Prepare { writes, siblings, .. } => {
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
                self.refuses_writes(writes, shards)
            }
            Request::Commit { stamp } => refuses_clock(stamp.clock),
            Request::Get { naming, .. } | Request::GetAt { naming, .. } | Request::Open { naming, .. } => {
                naming.iter().find_map(|stamp| refuses_clock(stamp.clock))
            }
            Request::Abort { .. } | Request::Ask { .. } | Request::Tell { .. } => None,
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

    fn undecided(&self) -> impl Iterator<Item = CoordinatorId> {
        self.participant.prepared().keys().map(|txn| txn.coordinator)
    }
}

impl<F: Faults> Partition<F> {
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

/// Transaction that the request is about; reads have separate numbers.
fn txn_of(request: &Request) -> Option<TxnId> {
    match request {
        Request::Write { txn, .. }
        | Request::Prepare { txn, .. }
        | Request::Abort { txn }
        | Request::Ask { txn, .. }
        | Request::Tell { txn, .. } => Some(*txn),
        Request::Commit { stamp } => Some(stamp.txn),
        Request::Get { .. } | Request::GetAt { .. } | Request::Open { .. } => None,
    }
}
