//! Anomalies in a history: fractured reads, values without a writer, cycles.

use std::collections::BTreeMap;

use weir_kv::write::Write;
use weir_kv::{Done, ItemRead, Key, Stamp};

use super::driver::{Ended, History};

/// All that a transaction read, ranges included; none if it did not commit.
fn reads(ended: &Ended) -> Vec<(&Key, &ItemRead)> {
    let Done::Committed { read, .. } = &ended.done else { return Vec::new() };
    let items = ended.transaction.reads.iter().zip(&read.items);
    items.chain(read.ranges.iter().flatten().map(|(key, item)| (key, item))).collect()
}

fn writers(history: &History) -> BTreeMap<Stamp, &Ended> {
    let stamp = |ended: &Ended| match &ended.done {
        Done::Committed { stamp, .. } => *stamp,
        _ => None,
    };
    history.ended.iter().filter_map(|ended| Some((stamp(ended)?, ended))).collect()
}

/// Reads that saw a transaction's write and missed another of it (ramp.txt §3.1); with them reads of the same
/// item that differ.
pub fn fractured(history: &History) -> usize {
    let writers = writers(history);
    let is_fractured = |ended: &&Ended| {
        let reads = reads(ended);
        reads.iter().any(|(_, seen)| {
            let Some(writer) = writers.get(&seen.stamp) else { return false };
            let wrote = |key: &Key| writer.transaction.writes.iter().any(|(one, _)| one == key);
            reads.iter().any(|(key, other)| other.stamp < seen.stamp && wrote(key))
        })
    };
    history.ended.iter().filter(is_fractured).count()
}

/// Every value read is the one that the transaction with its stamp wrote there.
pub fn invariant_values_were_written(history: &History) {
    let writers = writers(history);
    for (key, read) in history.ended.iter().flat_map(reads) {
        if read.stamp == Stamp::NONE {
            assert_eq!(read.value, None, "{key:?}");
            continue;
        }
        // A write whose coordinator has not heard of it yet cannot be looked up; all have, at the end.
        let writer = writers.get(&read.stamp).expect("somebody wrote it");
        let write = writer.transaction.writes.iter().find(|(one, _)| one == key).map(|(_, write)| write);
        assert_eq!(write, read.value.clone().map(Write::Put).as_ref(), "{key:?} at {:?}", read.stamp);
    }
}

/// The transactions can be put in an order in which each reads what the ones before it wrote, and which keeps
/// the order of those that did not overlap.
pub fn is_strictly_serializable(history: &History) -> bool {
    let count = history.ended.len();
    let mut versions: BTreeMap<&Key, BTreeMap<Stamp, usize>> = BTreeMap::new();
    for (at, ended) in history.ended.iter().enumerate() {
        if let Done::Committed { stamp: Some(stamp), .. } = ended.done {
            for (key, _) in &ended.transaction.writes {
                versions.entry(key).or_default().insert(stamp, at);
            }
        }
    }
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); count];
    for writers in versions.values() {
        for (one, next) in writers.values().zip(writers.values().skip(1)) {
            after[*one].push(*next);
        }
    }
    for (at, ended) in history.ended.iter().enumerate() {
        for (key, read) in reads(ended) {
            let Some(writers) = versions.get(key) else { continue };
            after_if_other(&mut after, writers.get(&read.stamp).copied(), Some(at));
            let next = writers.range(read.stamp..).find(|(stamp, _)| **stamp > read.stamp);
            after_if_other(&mut after, Some(at), next.map(|(_, writer)| *writer));
        }
        let later = history.ended.iter().enumerate().filter(|(_, other)| other.began_ms > ended.ended_ms);
        after[at].extend(later.map(|(other, _)| other));
    }
    is_acyclic(&after)
}

fn after_if_other(after: &mut [Vec<usize>], one: Option<usize>, next: Option<usize>) {
    if let (Some(one), Some(next)) = (one, next)
        && one != next
    {
        after[one].push(next);
    }
}

/// Takes away what nothing comes before, as long as there is something.
fn is_acyclic(after: &[Vec<usize>]) -> bool {
    let mut before = vec![0; after.len()];
    after.iter().flatten().for_each(|next| before[*next] += 1);
    let mut free: Vec<usize> = (0..after.len()).filter(|at| before[*at] == 0).collect();
    let mut taken = 0;
    while let Some(at) = free.pop() {
        taken += 1;
        for next in &after[at] {
            before[*next] -= 1;
            if before[*next] == 0 {
                free.push(*next);
            }
        }
    }
    taken == after.len()
}
