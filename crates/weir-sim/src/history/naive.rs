//! The checkers' naive twins: the definitions, decided by trying everything on small random histories.

use std::collections::{BTreeMap, BTreeSet};

use weir_core::ids::TxnId;
use weir_kv::write::{Content, Write};
use weir_kv::{Bytes, Guard, ItemRead, Key, Stamp};

use super::{History, Operation, Record, Seen, guards, is_linearizable};
use crate::chance::Chance;

fn stamp(clock: u64) -> Stamp {
    Stamp { clock, txn: TxnId { coordinator: 1, sequence: clock } }
}

fn random_write(chance: &mut Chance, key: &Key, number: usize) -> Write {
    if chance.per_mille(250) {
        return Write::Delete;
    }
    match key[0] {
        b'c' => Write::Add(1 << number),
        b't' => Write::Insert(Bytes::from(format!("{number}").as_str())),
        b'm' => Write::Max(Bytes::from(format!("{}.{number}", chance.below(10)).as_str())),
        _ => Write::Put(Bytes::from(format!("{number}").as_str())),
    }
}

/// Value of an item after the writes of some transactions, with the newest stamp in it.
fn naive_fold(records: &[Record], key: &Key, subset: u32) -> (Option<Bytes>, Stamp) {
    let mut writes: Vec<(Stamp, &Write)> = Vec::new();
    for (number, record) in records.iter().enumerate().filter(|(number, _)| subset >> number & 1 == 1) {
        for (_, write) in record.writes.iter().filter(|(one, _)| one == key) {
            writes.push((records[number].stamp.expect("writers have stamps"), write));
        }
    }
    writes.sort_by_key(|(stamp, _)| *stamp);
    let mut content = Content::default();
    writes.iter().for_each(|(_, write)| content.apply(write));
    (content.value(), writes.last().map_or(Stamp::NONE, |(stamp, _)| *stamp))
}

/// Some writers, then readers that have seen each item as some of them made it.
fn random_history(chance: &mut Chance) -> Vec<Record> {
    let keys: Vec<Key> = ["r0", "r1", "c0", "t0", "m0"].map(Key::from).into();
    let keys = &keys[chance.below(4) as usize..];
    let writers = chance.between(1, 6) as usize;
    let mut records = Vec::new();
    let mut clocks: Vec<u64> = (1..=writers as u64).map(|clock| 10 * clock).collect();
    for number in 0..writers {
        let clock = clocks.swap_remove(chance.below(clocks.len() as u64) as usize);
        let written = keys.iter().filter(|_| chance.per_mille(600)).cloned().collect::<Vec<Key>>();
        let writes =
            written.into_iter().map(|key| (key.clone(), random_write(chance, &key, number))).collect();
        let (session, begun_us) = (chance.below(3) as usize, number as u64);
        let (stamp, ended_us) = (Some(stamp(clock)), Some(begun_us));
        records.push(Record { session, begun_us, ended_us, writes, stamp, ..Record::default() });
    }
    for number in writers..writers + 3 {
        let same = chance.below(1 << writers) as u32;
        let mut reads = Vec::new();
        for key in keys.iter() {
            let subset = if chance.per_mille(700) { same } else { chance.below(1 << writers) as u32 };
            let (value, mut stamp) = naive_fold(&records[..writers], key, subset);
            if value.is_none() && chance.per_mille(500) {
                stamp = Stamp::NONE;
            }
            reads.push((key.clone(), ItemRead { value, stamp }));
        }
        let (session, begun_us) = (chance.below(3) as usize, number as u64);
        records.push(Record { session, begun_us, ended_us: Some(begun_us), reads, ..Record::default() });
    }
    // A read followed by a write.
    let (session, begun_us) = (chance.below(3) as usize, records.len() as u64);
    let clock = 10 * chance.below(writers as u64 + 1) + 5;
    let (stamp, writes) = (Some(stamp(clock)), vec![("r9".into(), put("late"))]);
    records.push(Record { session, begun_us, ended_us: Some(begun_us), writes, stamp, ..Record::default() });
    records
}

fn put(value: &str) -> Write {
    Write::Put(value.into())
}

/// Some set of transactions that has these makes of every item what was seen.
fn naive_explains(records: &[Record], seen: &[Seen<'_>], with: &BTreeSet<usize>) -> bool {
    let deleted_by = |key: &Key, stamp: Stamp| {
        let wrote = |record: &Record| record.writes.contains(&(key.clone(), Write::Delete));
        records.iter().position(|record| stamp != Stamp::NONE && record.stamp == Some(stamp) && wrote(record))
    };
    let mut with: u32 = with.iter().map(|number| 1 << number).sum();
    for (key, _, stamp) in seen.iter().filter(|(_, value, _)| value.is_none()) {
        with |= deleted_by(key, *stamp).map_or(0, |number| 1 << number);
    }
    (0..1_u32 << records.len()).any(|subset| {
        let right = |(key, value, _): &Seen<'_>| naive_fold(records, key, subset).0.as_ref() == *value;
        subset & with == with && seen.iter().all(right)
    })
}

fn seen_of(record: &Record) -> Vec<Seen<'_>> {
    record.reads.iter().map(|(key, item)| (key, item.value.as_ref(), item.stamp)).collect()
}

#[test]
fn read_atomicity_as_by_trying_all_sets_of_transactions() {
    let mut chance = Chance::from_seed(1);
    let mut fractured = 0;
    for _ in 0..400 {
        let records = random_history(&mut chance);
        let none = BTreeSet::new();
        let expected = records.iter().all(|record| naive_explains(&records, &seen_of(record), &none));
        let found = History::new(records.clone()).check_read_atomicity();
        assert_eq!(found.is_ok(), expected, "{found:?}\n{records:#?}");
        fractured += usize::from(!expected);
    }
    assert!((50..350).contains(&fractured), "{fractured}");
}

/// ramp.txt §3.1, word for word: T_i writes x_m and y_n, T_j reads x_m and y_k, and k < n.
#[test]
fn read_atomicity_as_the_paper_defines_it_for_overwrites() {
    let mut chance = Chance::from_seed(2);
    let mut fractured = 0;
    for _ in 0..400 {
        let mut records = random_history(&mut chance);
        for record in &mut records {
            record.writes.retain(|(key, write)| key[0] == b'r' && *write != Write::Delete);
        }
        let writers: Vec<Record> = records.iter().filter(|record| record.stamp.is_some()).cloned().collect();
        for record in records.iter_mut().filter(|record| record.stamp.is_none()) {
            record.reads.retain(|(key, _)| key[0] == b'r');
            for (key, item) in &mut record.reads {
                let subset = chance.below(1 << writers.len()) as u32;
                let (value, stamp) = naive_fold(&writers, key, subset);
                *item = ItemRead { value, stamp };
            }
        }
        let is_fractured = |record: &Record| {
            writers.iter().any(|writer| {
                let wrote = |key: &Key| writer.writes.iter().any(|(one, _)| one == key);
                let read = |(key, item): &(Key, ItemRead)| wrote(key) && Some(item.stamp) == writer.stamp;
                let older = |(key, item): &(Key, ItemRead)| wrote(key) && Some(item.stamp) < writer.stamp;
                record.reads.iter().any(read) && record.reads.iter().any(older)
            })
        };
        let expected = !records.iter().any(is_fractured);
        let found = History::new(records.clone()).check_read_atomicity();
        assert_eq!(found.is_ok(), expected, "{found:?}\n{records:#?}");
        fractured += usize::from(!expected);
    }
    assert!(fractured > 20, "{fractured}");
}

#[test]
fn sessions_as_by_trying_all_sets_of_transactions() {
    let mut chance = Chance::from_seed(3);
    let mut claims: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..600 {
        let records = random_history(&mut chance);
        let history = History::new(records.clone());
        let expected = naive_sessions(&records, &history);
        let found = history.check_sessions().map_err(|violation| violation.claim);
        assert_eq!(found, expected, "{records:#?}");
        *claims.entry(found.err().unwrap_or("holds")).or_default() += 1;
    }
    assert_eq!(claims.len(), 4, "{claims:?}");
}

fn naive_sessions(records: &[Record], history: &History) -> Result<(), &'static str> {
    for (number, record) in records.iter().enumerate() {
        let before = || records[..number].iter().enumerate().filter(|(_, one)| one.session == record.session);
        let own = before().filter(|(_, one)| !one.writes.is_empty()).map(|(number, _)| number).collect();
        let seen = seen_of(record);
        if !naive_explains(records, &seen, &own) {
            return Err("a session reads its writes");
        }
        for (key, ..) in &seen {
            let last =
                before().rev().find_map(|(_, one)| seen_of(one).into_iter().find(|(other, ..)| other == key));
            let saw =
                last.map(|one| history.writers_of(&[one]).expect("somebody wrote it")).unwrap_or_default();
            let one = seen.iter().find(|(other, ..)| other == key).copied().expect("it was seen");
            let now = history.writers_of(&[one]).expect("somebody wrote it");
            if !naive_explains(records, &[one], &now.union(&saw).copied().collect()) {
                return Err("a session never goes back");
            }
        }
        let stamps = |one: &Record| {
            let reads = one.reads.iter().map(|(_, item)| item.stamp);
            reads.chain(one.stamp).max()
        };
        if record.stamp.is_some() && before().any(|(_, one)| stamps(one) > record.stamp) {
            return Err("a session writes after what it has seen");
        }
    }
    Ok(())
}

/// Transaction by transaction in order of stamps, over all items at once.
#[test]
fn nothing_lost_as_by_running_everything_again() {
    let mut chance = Chance::from_seed(5);
    for _ in 0..200 {
        let mut records = random_history(&mut chance);
        records.sort_by_key(|record| record.stamp);
        let mut contents: BTreeMap<Key, Content> = BTreeMap::new();
        for (key, write) in records.iter().flat_map(|record| &record.writes) {
            contents.entry(key.clone()).or_default().apply(write);
        }
        let mut last: BTreeMap<Key, Option<Bytes>> =
            contents.iter().map(|(key, content)| (key.clone(), content.value())).collect();
        let history = History::new(records);
        assert_eq!(history.check_nothing_lost(&last), Ok(()));
        if let Some(mut wrong) = last.first_entry() {
            wrong.insert(Some("lost".into()));
            assert!(history.check_nothing_lost(&last).is_err());
        }
    }
}

#[test]
fn linearizability_as_by_trying_all_orders() {
    let mut chance = Chance::from_seed(4);
    let mut wrong = 0;
    for _ in 0..500 {
        let count = chance.between(1, 6) as usize;
        let operations: Vec<Operation> =
            (0..count).map(|number| random_operation(&mut chance, number)).collect();
        let mut order: Vec<usize> = (0..count).collect();
        let expected = naive_linearizable(&operations, &mut order, 0);
        assert_eq!(is_linearizable(&operations), expected, "{operations:?}");
        wrong += usize::from(!expected);
    }
    assert!((50..450).contains(&wrong), "{wrong}");
}

fn random_operation(chance: &mut Chance, number: usize) -> Operation {
    let begun_us = chance.below(20);
    let ended_us = if chance.per_mille(100) { u64::MAX } else { begun_us + 1 + chance.below(12) };
    let value = |number: u64| Bytes::from(format!("{number}").as_str());
    let write = chance.per_mille(500).then(|| Write::Put(value(number as u64)));
    let read = write.is_none().then(|| Some(chance.below(5)).filter(|seen| *seen > 0).map(value));
    Operation { begun_us, ended_us, read, write }
}

/// Tries all orders of `order[placed..]` behind what is placed; operations without an end may be left out.
fn naive_linearizable(operations: &[Operation], order: &mut Vec<usize>, placed: usize) -> bool {
    let rest_may_go = order[placed..].iter().all(|at| operations[*at].ended_us == u64::MAX);
    if rest_may_go && explains_all(operations, &order[..placed]) {
        return true;
    }
    (placed..order.len()).any(|next| {
        order.swap(placed, next);
        let found = naive_linearizable(operations, order, placed + 1);
        order.swap(placed, next);
        found
    })
}

fn explains_all(operations: &[Operation], order: &[usize]) -> bool {
    let in_time = order.iter().enumerate().all(|(at, one)| {
        let earlier = &order[..at];
        earlier.iter().all(|other| operations[*other].begun_us <= operations[*one].ended_us)
    });
    let mut value: Option<Bytes> = None;
    let right = order.iter().all(|at| {
        let operation = &operations[*at];
        if let Some(Write::Put(written)) = &operation.write {
            value = Some(written.clone());
        }
        operation.read.as_ref().is_none_or(|read| *read == value)
    });
    in_time && right
}

/// Writers of two items who say what they have seen: mostly as it could be, sometimes as guards would not let it be.
fn random_claims(chance: &mut Chance) -> Vec<Record> {
    let count = chance.between(1, 6);
    let mut records = Vec::new();
    let mut given = [0; 2];
    for clock in 1..=count {
        let mut record = Record { stamp: Some(stamp(clock)), ..Record::default() };
        record.aborted = chance.per_mille(150);
        // Never answered.
        if !record.aborted && chance.per_mille(200) {
            record.stamp = None;
        }
        for (given, key) in given.iter_mut().zip(["x", "y"]) {
            if chance.per_mille(300) {
                continue;
            }
            let (key, writes) = (Key::from(key), chance.per_mille(960));
            if writes {
                let write = if chance.per_mille(150) { Write::Delete } else { put(&clock.to_string()) };
                record.writes.push((key.clone(), write));
            }
            if chance.per_mille(960) {
                let seen = stamp(if chance.per_mille(800) { clock - 1 } else { chance.below(3) });
                record.guards.push(Guard { key: key.clone(), seen, absent: chance.per_mille(250) });
            }
            if chance.per_mille(960) {
                let next = if chance.per_mille(850) { *given + 1 } else { chance.below(4) };
                *given += u64::from(!record.aborted && chance.per_mille(900));
                record.numbers.insert(key, next);
            }
        }
        records.push(record);
    }
    for at in (1..records.len()).rev() {
        records.swap(at, chance.below(at as u64 + 1) as usize);
    }
    records
}

#[test]
fn guards_as_the_definitions_say() {
    let mut chance = Chance::from_seed(6);
    let mut claims: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..3_000 {
        let records = random_claims(&mut chance);
        let expected = naive_guards(&records);
        let found = History::new(records.clone()).check_guards();
        assert_eq!(found.clone().map_err(|violation| violation.claim), expected, "{found:?}\n{records:#?}");
        *claims.entry(found.err().map_or("holds", |violation| violation.claim)).or_default() += 1;
    }
    assert!(claims.len() == 3 && claims.values().all(|count| *count > 200), "{claims:?}");
}

/// Every two transactions; every counter with every set of those who may have committed.
fn naive_guards(records: &[Record]) -> Result<(), &'static str> {
    let committed: Vec<&Record> =
        records.iter().filter(|record| !record.aborted && record.stamp.is_some()).collect();
    let wrote = |record: &Record, key: &Key| record.writes.iter().any(|(one, _)| one == key);
    for (at, one) in committed.iter().enumerate() {
        for other in &committed[at + 1..] {
            for (mine, yours) in
                one.guards.iter().flat_map(|mine| other.guards.iter().map(move |yours| (mine, yours)))
            {
                let same = mine.key == yours.key && wrote(one, &mine.key) && wrote(other, &mine.key);
                let (first, second) = (one.stamp.min(other.stamp), one.stamp.max(other.stamp));
                let deletes = |record: &&Record| record.writes.contains(&(mine.key.clone(), Write::Delete));
                let mut deleters = committed.iter().copied().filter(deletes);
                let wrong = match (mine.absent, yours.absent) {
                    (false, false) => mine.seen == yours.seen,
                    (true, true) => !deleters.any(|record| first <= record.stamp && record.stamp < second),
                    _ => false,
                };
                if same && wrong {
                    return Err(guards::CLAIMS);
                }
            }
        }
    }
    let living: Vec<&Record> = records.iter().filter(|record| !record.aborted).collect();
    let keys: BTreeSet<&Key> = living.iter().flat_map(|record| record.numbers.keys()).collect();
    let is_dense = |key: &Key| {
        let concerned =
            || living.iter().filter(|record| wrote(record, key) || record.numbers.contains_key(key));
        let guarded = |record: &Record| record.guards.iter().any(|guard| guard.key == *key);
        let is_counter = concerned()
            .all(|record| wrote(record, key) && guarded(record) && record.numbers.contains_key(key));
        let numbers = |known: bool| -> Vec<u64> {
            concerned()
                .filter(|record| record.stamp.is_some() == known)
                .map(|record| record.numbers[key])
                .collect()
        };
        is_counter.then(|| (numbers(true), numbers(false))).is_none_or(|(given, perhaps)| {
            (0..1_u32 << perhaps.len()).any(|subset| {
                let more = perhaps
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| subset >> at & 1 == 1)
                    .map(|(_, number)| *number);
                let mut all: Vec<u64> = given.iter().copied().chain(more).collect();
                all.sort_unstable();
                all.iter().copied().eq(1..=all.len() as u64)
            })
        })
    };
    if keys.into_iter().all(is_dense) { Ok(()) } else { Err(guards::SEQUENCES) }
}
