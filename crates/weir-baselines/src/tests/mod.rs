//! All comparators on the same small driver: what each guarantees and what it does not, that the checks see
//! it, and what each costs.

mod checks;
mod driver;

use std::collections::BTreeMap;

use weir_kv::{Done, Key, KeyRange, ReadSet, Transaction, Write, shard_of};

use crate::chance::Chance;
use crate::faults::PlantedBugs;
use crate::locking::ReadLocks;
use crate::{Cluster, Protocol, by_name};
use checks::{fractured, invariant_values_were_written, is_strictly_serializable};
use driver::{History, Plan};

const SHARDS: u16 = 3;
const COORDINATORS: u64 = 3;
const KEYS: u64 = 5;
const SEEDS: u64 = 200;

fn key(number: u64) -> Key {
    Key::from(format!("user{number}").as_str())
}

fn everything() -> KeyRange {
    KeyRange { from: Key::from(""), to: Key::from("v") }
}

/// Writes of several items, reads of several items or of all, and both; first of all every item is written.
fn plan(seed: u64, transactions: u64) -> Plan {
    let mut random = Chance::from_seed(seed ^ 0xBA5E);
    let mut number = 0;
    let mut write = |key: Key| {
        number += 1;
        (key, Write::Put(Key::from(format!("value {number}").as_str())))
    };
    let mut work = vec![Vec::new(); COORDINATORS as usize];
    for list in &mut work {
        for _ in 0..transactions {
            let chosen: Vec<Key> = (0..KEYS).filter(|_| random.below(2) == 0).map(key).collect();
            let mut transaction = Transaction::default();
            match random.below(8) {
                0..=2 => transaction.writes = chosen.into_iter().map(&mut write).collect(),
                3 => {
                    transaction.reads = vec![key(random.below(KEYS)), key(random.below(KEYS))];
                    transaction.writes = chosen.into_iter().map(&mut write).collect();
                }
                4 => transaction.ranges = vec![everything()],
                _ => transaction.reads = chosen,
            }
            list.push(transaction);
        }
    }
    work[0].insert(
        0,
        Transaction { writes: (0..KEYS).map(key).map(&mut write).collect(), ..Default::default() },
    );
    Plan { seed, work, at_once: 3, delay_max: 20, lost: 0, twice: 0 }
}

fn run(protocol: Protocol, plan: Plan, bugs: PlantedBugs) -> History {
    let cluster = Cluster { shards: SHARDS, coordinators: COORDINATORS, seed: plan.seed, bugs };
    let planned: usize = plan.work.iter().map(Vec::len).sum();
    let seed = plan.seed;
    let history = protocol.drive(cluster, plan);
    assert_eq!((history.begun, history.ended.len()), (planned, planned), "{} seed {seed}", protocol.name());
    assert!(history.all_idle, "{} seed {seed}", protocol.name());
    history
}

fn sound(protocol: Protocol, seed: u64) -> History {
    let mut plan = plan(seed, 20);
    if seed % 2 == 1 {
        (plan.lost, plan.twice) = (3, 5);
    }
    let history = run(protocol, plan, PlantedBugs::default());
    invariant_values_were_written(&history);
    history
}

#[test]
fn names_are_the_papers() {
    for protocol in Protocol::ALL {
        assert_eq!(by_name(protocol.name()), Some(protocol));
    }
    assert_eq!(by_name("lwlwr"), None);
}

/// ramp.txt §5.1: only LWLR and E-PCI provide read atomicity, and the check sees that the others do not.
#[test]
fn fractured_reads_are_where_the_paper_says() {
    for protocol in Protocol::ALL {
        let seen: usize = (0..SEEDS).map(|seed| fractured(&sound(protocol, seed))).sum();
        assert_eq!(seen == 0, protocol.is_read_atomic(), "{}: {seen} fractured reads", protocol.name());
    }
}

#[test]
fn long_locks_are_strictly_serializable() {
    let serializable = |protocol, seed| is_strictly_serializable(&sound(protocol, seed));
    let protocol = Protocol::Locking(ReadLocks::Long);
    for seed in 0..SEEDS {
        assert!(serializable(protocol, seed), "seed {seed}");
    }
    for name in ["none", "lwnr", "lwsr"] {
        let protocol = by_name(name).expect("it is one");
        assert!(!(0..SEEDS).all(|seed| serializable(protocol, seed)), "{name}: the check sees nothing");
    }
}

#[test]
fn planted_bugs_are_caught() {
    let cases = [
        ("lwlr", PlantedBugs { shared_beside_exclusive: true, ..Default::default() }),
        ("e-pci", PlantedBugs { check_is_skipped: true, ..Default::default() }),
    ];
    for (name, bugs) in cases {
        let protocol = by_name(name).expect("it is one");
        let seen: usize = (0..20).map(|seed| fractured(&run(protocol, plan(seed, 20), bugs))).sum();
        assert!(seen > 0, "{name} with {bugs:?}");
    }
}

/// Keys in order of keys whose shards are these, so that locks come in exactly these runs.
fn keys_on(shards: &[u16]) -> Vec<Key> {
    let mut next = 0;
    let mut on = |shard: &u16| loop {
        next += 1;
        let key = Key::from(format!("k{next:04}").as_str());
        if shard_of(&key, SHARDS) == *shard {
            return key;
        }
    };
    shards.iter().map(&mut on).collect()
}

/// One transaction alone: rounds of its read and its write, and all messages to and fro.
#[test]
fn rounds_without_contention() {
    type Cost = ((u32, u32), u64);
    let cases: &[(&str, &[u16], Cost, Cost)] = &[
        // Shards in order of keys; then for a read and for a write: rounds and messages.
        ("none", &[0, 1, 2, 0], ((1, 0), 6), ((0, 1), 6)),
        ("none", &[1], ((1, 0), 2), ((0, 1), 2)),
        ("lwnr", &[0, 1, 2, 0], ((1, 0), 6), ((0, 5), 14)),
        ("lwnr", &[0, 0, 1, 1], ((1, 0), 4), ((0, 3), 6)),
        ("lwsr", &[0, 1, 2, 0], ((1, 0), 6), ((0, 5), 14)),
        ("lwlr", &[0, 1, 2, 0], ((5, 0), 14), ((0, 5), 14)),
        ("lwlr", &[0, 0, 1, 1], ((3, 0), 6), ((0, 3), 6)),
        ("lwlr", &[2, 2], ((1, 0), 2), ((0, 1), 2)),
        ("e-pci", &[0, 1, 2, 0], ((1, 0), 6), ((0, 2), 10)),
        ("e-pci", &[2, 2], ((1, 0), 2), ((0, 1), 2)),
    ];
    for (name, shards, read_cost, write_cost) in cases {
        let keys = keys_on(shards);
        let writes = keys.iter().map(|key| (key.clone(), Write::Put("1".into()))).collect();
        let read = Transaction { reads: keys, ..Default::default() };
        let write = Transaction { writes, ..Default::default() };
        for (transaction, cost) in [(read, read_cost), (write, write_cost)] {
            let mut work = vec![Vec::new(); COORDINATORS as usize];
            work[0].push(transaction);
            let plan = Plan { seed: 1, work, at_once: 1, delay_max: 5, lost: 0, twice: 0 };
            let history = run(by_name(name).expect("it is one"), plan, PlantedBugs::default());
            let Done::Committed { rounds: took, .. } = &history.ended[0].done else {
                panic!("{name} aborts")
            };
            assert_eq!((*took, history.messages), *cost, "{name} over {shards:?}");
        }
    }
}

/// A transaction sees the effects of those that ended before it began: read sets by protocol, including deletions and merges.
#[test]
fn one_after_the_other() {
    let put = |number: u64, value: &str| (key(number), Write::Put(value.into()));
    let steps = [
        Transaction { writes: vec![put(0, "a"), put(1, "b"), put(2, "c")], ..Default::default() },
        Transaction { writes: vec![put(0, "d"), (key(1), Write::Delete)], ..Default::default() },
        Transaction { writes: vec![(key(3), Write::Add(2))], ..Default::default() },
        Transaction { writes: vec![(key(3), Write::Add(3)), put(4, "e")], ..Default::default() },
        Transaction {
            reads: vec![key(3), key(0), key(1), key(0)],
            ranges: vec![
                everything(),
                KeyRange { from: key(2), to: key(1) },
                KeyRange { from: key(2), to: key(4) },
            ],
            writes: vec![put(0, "f")],
        },
        Transaction { reads: vec![key(0)], ..Default::default() },
    ];
    for protocol in Protocol::ALL {
        // Each transaction waits for the one before it to reach every shard.
        let mut work = vec![Vec::new(); COORDINATORS as usize];
        work[0] = steps.to_vec();
        let plan = Plan { seed: 3, work, at_once: 1, delay_max: 1, lost: 0, twice: 0 };
        let history = run(protocol, plan, PlantedBugs::default());
        let read: Vec<&ReadSet> = history
            .ended
            .iter()
            .map(|ended| match &ended.done {
                Done::Committed { read, .. } => read,
                _ => panic!("{} aborts", protocol.name()),
            })
            .collect();
        let five = Some(Key::new(&5_i64.to_be_bytes()));
        let values: Vec<Option<Key>> = read[4].items.iter().map(|item| item.value.clone()).collect();
        assert_eq!(values, [five.clone(), Some("d".into()), None, Some("d".into())], "{}", protocol.name());
        let ranges: Vec<BTreeMap<Key, Option<Key>>> = read[4]
            .ranges
            .iter()
            .map(|entries| entries.iter().map(|(key, item)| (key.clone(), item.value.clone())).collect())
            .collect();
        let some = |text: &str| Some(Key::from(text));
        let all = BTreeMap::from([
            (key(0), some("d")),
            (key(2), some("c")),
            (key(3), five.clone()),
            (key(4), some("e")),
        ]);
        let part = BTreeMap::from([(key(2), some("c")), (key(3), five)]);
        assert_eq!(ranges, [all, BTreeMap::new(), part], "{}", protocol.name());
        assert_eq!(read[5].items[0].value, some("f"), "{}", protocol.name());
    }
}

/// Printed with `--nocapture`: what contention costs each of them, in rounds and messages.
#[test]
fn contention_costs_what_the_paper_says() {
    let mut waits = BTreeMap::new();
    for protocol in Protocol::ALL {
        let (mut reads, mut writes, mut messages, mut took_ms) = ((0, 0), (0, 0), 0, 0);
        let mut counts = Vec::new();
        let mut transactions = 0;
        for seed in 0..20 {
            let history = run(protocol, plan(seed, 50), PlantedBugs::default());
            messages += history.messages;
            counts.push(history.counts);
            for ended in &history.ended {
                transactions += 1;
                took_ms += ended.ended_ms - ended.began_ms;
                let Done::Committed { rounds, .. } = ended.done else { panic!("{} aborts", protocol.name()) };
                let (sum, number) =
                    if ended.transaction.writes.is_empty() { &mut reads } else { &mut writes };
                *sum += rounds.0 + rounds.1;
                *number += 1;
            }
        }
        let mean = |(sum, number): (u32, u32)| f64::from(sum) / f64::from(number);
        let lock_waits: u64 = counts.iter().map(|counts| counts.lock_waits).sum();
        let commit_checks: u64 = counts.iter().map(|counts| counts.commit_checks).sum();
        println!(
            "{:6} rounds: read {:.2} write {:.2}; messages {:.2}, virtual ms {} a transaction; {lock_waits} lock waits, \
             {commit_checks} commit checks in {transactions}",
            protocol.name(),
            mean(reads),
            mean(writes),
            messages as f64 / f64::from(transactions),
            took_ms / u64::from(transactions as u32),
        );
        waits.insert(protocol.name(), (lock_waits, commit_checks));
    }
    assert_eq!(waits["none"], (0, 0));
    assert!(waits["lwnr"].0 < waits["lwsr"].0 && waits["lwnr"].0 < waits["lwlr"].0, "{waits:?}");
    assert!(waits["e-pci"].0 == 0 && waits["e-pci"].1 > 0, "{waits:?}");
}
