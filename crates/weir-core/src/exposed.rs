//! Checks of requests from other processes that apply to every protocol: limits, and which sender may send which request.
//!
//! Protocols add their own checks: `weir-kv/src/exposed.rs`, `weir-txn/src/shard/exposed.rs`.

use crate::ids::{CoordinatorId, Sender, TxnId};
use crate::readers::Readers;

/// Largest distance between unfinished transactions of a coordinator. A shard keeps one bit for each sequence in between.
const SPREAD_MAX: u64 = 1 << 22;
/// Largest accepted sequence, which no coordinator reaches. The bit above is free for internal use (`weir-kv/src/chain.rs`).
const SEQUENCE_MAX: u64 = u64::MAX / 2;
/// Largest accepted clock: with sixteen counter bits, the year 10,889.
const CLOCK_MAX: u64 = u64::MAX / 4 * 3;

/// Reason to reject a request, if any: this kind of sender makes no such requests, or the request is about another coordinator's
/// transaction or far outside of its sequence. `is_word`: a message of termination, which only shards send. `txn`: the transaction that
/// it is about.
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
