//! What any shard believes of parties in other processes, whatever it keeps: limits, and who may say what.
//!
//! The protocols add what only they can judge: `items::exposed`, `ramp::exposed`.

use crate::machine::{CoordinatorId, Sender};
use crate::ramp::TxnId;
use crate::readers::Readers;

/// So far may the transactions of a coordinator be apart that are not over. A shard keeps a bit for each.
const SPREAD_MAX: u64 = 1 << 22;
/// Sequences that a coordinator can use up in no time. The bit above them is free for whoever keeps them (`items::chain`).
const SEQUENCE_MAX: u64 = u64::MAX / 2;
/// Sixteen bits below are the counter's: the year 10,889.
const CLOCK_MAX: u64 = u64::MAX / 4 * 3;

/// Why a request cannot be taken, if it cannot: such a party makes no such requests, or speaks of another's transaction or
/// far out of its sequence. `is_word`: of termination, which shards say to each other and nobody else says. `txn`: that it is
/// about.
pub fn refuses_from(
    from: Sender,
    is_word: bool,
    txn: Option<TxnId>,
    readers: &Readers,
) -> Option<&'static str> {
    match (from, is_word) {
        (Sender::Shard(_), true) => txn.and_then(|txn| refuses_sequence(txn.sequence)),
        (Sender::Shard(_), false) => Some("a request that shards do not make"),
        (Sender::Coordinator(_), true) => Some("a request that coordinators do not make"),
        (Sender::Coordinator(coordinator), false) => {
            txn.and_then(|txn| refuses_txn(coordinator, txn, readers))
        }
    }
}

pub fn refuses_sequence(sequence: u64) -> Option<&'static str> {
    (sequence > SEQUENCE_MAX).then_some("a sequence number beyond all")
}

pub fn refuses_clock(clock: u64) -> Option<&'static str> {
    (clock > CLOCK_MAX).then_some("a clock beyond all years")
}

fn refuses_txn(coordinator: CoordinatorId, txn: TxnId, readers: &Readers) -> Option<&'static str> {
    if txn.coordinator != coordinator {
        return Some("a transaction of another coordinator");
    }
    let far = txn.sequence.saturating_sub(readers.below(coordinator)) > SPREAD_MAX;
    far.then_some("a sequence number far ahead of all that it has under way")
}
