//! Strict serializability, on the whole logs of all shards and on what clients were told (invariants 2 to 5 of docs/internals/ordered.md).

use std::collections::{BTreeMap, BTreeSet};

use weir_core::ids::{ShardId, TxnId};
use weir_ordered::application::Application;
use weir_ordered::packet::Stamp;
use weir_ordered::replica::log::{Entry, Log};

use crate::world::registers::{Change, Register, Registers, Values};

/// A broken invariant.
#[derive(Debug)]
pub struct Violation {
    pub invariant: &'static str,
    pub text: String,
}

pub fn violation<T>(invariant: &'static str, text: String) -> Result<T, Violation> {
    Err(Violation { invariant, text })
}

/// Transactions of clients, by times of one clock.
#[derive(Default)]
pub struct Told {
    pub begun: BTreeMap<TxnId, u64>,
    /// With the time of the answer.
    pub completed: BTreeMap<TxnId, (u64, BTreeMap<ShardId, Values>)>,
}

impl Told {
    /// The order of real time: for each transaction, those that began after its answer. Left out are those that follow from others, because
    /// another one was begun and answered in between.
    fn real_time(&self) -> impl Iterator<Item = (TxnId, Vec<TxnId>)> {
        let mut begun: Vec<_> = self.begun.iter().map(|(txn, begun)| (*begun, *txn)).collect();
        begun.sort_unstable();
        let mut first_answer = vec![u64::MAX; begun.len() + 1];
        for (place, (_, txn)) in begun.iter().enumerate().rev() {
            let answered = self.completed.get(txn).map_or(u64::MAX, |(completed, _)| *completed);
            first_answer[place] = answered.min(first_answer[place + 1]);
        }
        self.completed.iter().map(move |(txn, (completed, _))| {
            let from = begun.partition_point(|(begun, _)| begun <= completed);
            let later = begun[from..].iter().take_while(|(begun, _)| *begun <= first_answer[from]);
            (*txn, later.map(|(_, txn)| *txn).collect())
        })
    }
}

/// Every answer is that of executing the logs, each transaction is in the logs of all its participants or of none, and the orders of all
/// shards and of real time have no circle. The logs are those of a cluster at rest, from the first entry.
pub fn check_serializable(logs: &BTreeMap<ShardId, Log<Change>>, told: &Told) -> Result<(), Violation> {
    check_whole(logs)?;
    let answers: BTreeMap<_, _> = logs.iter().map(|(shard, log)| (*shard, replay(*shard, log).1)).collect();
    for (txn, (_, told)) in &told.completed {
        for (shard, values) in told {
            let replayed = answers[shard].get(txn);
            if replayed.is_none() {
                return violation("2", format!("{txn:?} was answered, and shard {shard} has it not"));
            }
            if replayed != Some(values) {
                return violation("5", format!("{txn:?} at {shard}: told {values:?}, replayed {replayed:?}"));
            }
        }
    }
    check_order(logs, told)
}

/// The orders of all shards and of real time have no circle.
fn check_order(logs: &BTreeMap<ShardId, Log<Change>>, told: &Told) -> Result<(), Violation> {
    let mut edges: BTreeMap<TxnId, Vec<TxnId>> = BTreeMap::new();
    for log in logs.values() {
        let order = order(log);
        for pair in order.windows(2) {
            edges.entry(pair[0]).or_default().push(pair[1]);
        }
    }
    check_edges(edges, told)
}

/// An order of pairs and that of real time have no circle.
pub fn check_edges(mut edges: BTreeMap<TxnId, Vec<TxnId>>, told: &Told) -> Result<(), Violation> {
    for (before, later) in told.real_time() {
        edges.entry(before).or_default().extend(later);
    }
    match circle(&edges) {
        Some(txn) => violation("4", format!("a circle of orders has {txn:?}")),
        None => Ok(()),
    }
}

/// Each packet is in the logs of all its participants.
fn check_whole(logs: &BTreeMap<ShardId, Log<Change>>) -> Result<(), Violation> {
    let stamps = |log: &Log<Change>| -> BTreeSet<Stamp> {
        log.behind(0).filter_map(|(_, entry)| entry.stamp().cloned()).collect()
    };
    let logged: BTreeMap<_, _> = logs.iter().map(|(shard, log)| (*shard, stamps(log))).collect();
    for stamp in logged.values().flatten() {
        if let Some((shard, _)) = stamp.sequences.iter().find(|(shard, _)| !logged[shard].contains(stamp)) {
            return violation("3", format!("shard {shard} lacks {stamp:?}"));
        }
    }
    Ok(())
}

/// Transactions in the order of their first packets.
fn order(log: &Log<Change>) -> Vec<TxnId> {
    let mut seen = BTreeSet::new();
    let txns = log.behind(0).filter_map(|(_, entry)| entry.packet()).map(|packet| packet.transaction.id);
    txns.filter(|txn| seen.insert(*txn)).collect()
}

/// State and answers of executing a log, each transaction once.
pub fn replay(shard: ShardId, log: &Log<Change>) -> (BTreeMap<Register, u64>, BTreeMap<TxnId, Values>) {
    let (mut registers, mut answers) = (Registers::new(shard), BTreeMap::new());
    for (index, packet) in log.behind(0).filter_map(|(index, entry)| Some((index, Entry::packet(entry)?))) {
        let transaction = &packet.transaction;
        answers.entry(transaction.id).or_insert_with(|| registers.execute(index, &transaction.operation));
    }
    (registers.values, answers)
}

/// A transaction of a circle, if there is one: what is left when transactions without predecessors are taken away.
fn circle(edges: &BTreeMap<TxnId, Vec<TxnId>>) -> Option<TxnId> {
    let mut before: BTreeMap<TxnId, usize> = edges.keys().map(|txn| (*txn, 0)).collect();
    for txn in edges.values().flatten() {
        *before.entry(*txn).or_default() += 1;
    }
    let mut free: Vec<_> = before.iter().filter(|(_, count)| **count == 0).map(|(txn, _)| *txn).collect();
    while let Some(txn) = free.pop() {
        before.remove(&txn);
        for next in edges.get(&txn).into_iter().flatten() {
            if let Some(count) = before.get_mut(next) {
                *count -= 1;
                if *count == 0 {
                    free.push(*next);
                }
            }
        }
    }
    before.into_keys().next()
}
