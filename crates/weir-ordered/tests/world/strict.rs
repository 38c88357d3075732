//! Strict serializability, on the whole logs of all shards and on what clients were told (invariants 2 to 5 of docs/internals/ordered.md).
//!
//! The replay knows no locks: it executes each log serially, and a general transaction as a whole where its preliminary part is.

use std::collections::{BTreeMap, BTreeSet};

use weir_core::ids::{ShardId, TxnId};
use weir_ordered::application::Application;
use weir_ordered::packet::{Part, Stamp, Transaction};
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
    /// Parts of general transactions that were told that these are aborted.
    pub aborted: BTreeSet<TxnId>,
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

/// The answers are those of the logs, and the orders of all shards and of real time have no circle. The logs are those of a cluster at rest,
/// from the first entry.
pub fn check_serializable(logs: &BTreeMap<ShardId, Log<Change>>, told: &Told) -> Result<(), Violation> {
    check_executed(logs, told)?;
    check_order(logs, told)
}

/// Every answer is that of executing the logs, and each transaction is in the logs of all its participants or of none.
pub fn check_executed(logs: &BTreeMap<ShardId, Log<Change>>, told: &Told) -> Result<(), Violation> {
    check_whole(logs)?;
    let mut answers = BTreeMap::new();
    for (shard, log) in logs {
        let mut committed = committed(log)?.into_iter();
        let is_told = |(general, last): &(TxnId, &Transaction<Change>)| {
            told.aborted.contains(general) || told.aborted.contains(&last.id)
        };
        if let Some((general, _)) = committed.find(is_told) {
            return violation(
                "5",
                format!("{general:?} was told to be aborted, and shard {shard} commits it"),
            );
        }
        answers.insert(*shard, replay(*shard, log)?.1);
    }
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
    Ok(())
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

/// Transactions in the order of their first packets. A general transaction is where its preliminary part is.
fn order(log: &Log<Change>) -> Vec<TxnId> {
    let is_last = |part| matches!(part, Part::Conclusory { .. } | Part::ReplicaAbort);
    let whole = first_parts(log).filter(|(_, transaction)| !is_last(transaction.part));
    whole.map(|(_, transaction)| transaction.id).collect()
}

/// The first instance of each transaction, and each abort of a replica, with their indices.
fn first_parts(log: &Log<Change>) -> impl Iterator<Item = (u64, &Transaction<Change>)> {
    let mut seen = BTreeSet::new();
    let packets = log.behind(0).filter_map(|(index, entry)| Some((index, Entry::packet(entry)?)));
    let transactions = packets.map(|(index, packet)| (index, &*packet.transaction));
    transactions.filter(move |(_, each)| each.part == Part::ReplicaAbort || seen.insert(each.id))
}

/// The conclusory parts that commit, by their general transactions: the first end of each decides.
fn committed(log: &Log<Change>) -> Result<BTreeMap<TxnId, &Transaction<Change>>, Violation> {
    let (mut open, mut committed) = (BTreeSet::new(), BTreeMap::new());
    for (_, transaction) in first_parts(log) {
        let Some(general) = transaction.general() else { continue };
        if transaction.part == Part::Preliminary {
            open.insert(general);
        } else if open.remove(&general) && matches!(transaction.part, Part::Conclusory { commits: true, .. })
        {
            committed.insert(general, transaction);
        }
    }
    match open.pop_first() {
        Some(general) => violation("liveness", format!("{general:?} is not concluded")),
        None => Ok(committed),
    }
}

/// Registers, and what each transaction has been answered.
type Replayed = (BTreeMap<Register, u64>, BTreeMap<TxnId, Values>);

/// State and answers of executing a log serially, each transaction once.
pub fn replay(shard: ShardId, log: &Log<Change>) -> Result<Replayed, Violation> {
    let (mut registers, mut answers) = (Registers::new(shard), BTreeMap::new());
    let committed = committed(log)?;
    for (index, transaction) in first_parts(log) {
        if !matches!(transaction.part, Part::Independent | Part::Preliminary) {
            continue;
        }
        let last = committed.get(&transaction.id).copied();
        for part in std::iter::once(transaction).chain(last) {
            answers.insert(part.id, registers.execute(index, &part.operation));
        }
    }
    Ok((registers.values, answers))
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
