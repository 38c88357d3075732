//! A random interactive transaction, drawn statement by statement, and its record in the history.
//!
//! Read atomic: one record has all that its statements saw, so the checkers hold it against one set of
//! transactions. Read committed: each statement has a record of its own. What it has itself written is
//! compared here, since other transactions say nothing of it. Some read counters and items to be claimed first, and write them
//! under guards that these are still as they were seen (soundness S17).

use std::collections::BTreeMap;

use weir_core::ids::TxnId;
use weir_kv::{Bytes, Done, Guard, Isolation, ItemRead, Key, KeyRange, Write};

use super::calls::{Call, Statement};
use super::workload::Sessions;
use crate::chance::Chance;
use crate::history::Violation;

pub struct Several {
    isolation: Isolation,
    /// None: before the first statement. Read committed: of the last statement.
    record: Option<usize>,
    /// Number of statements before the commit.
    reads_left: u64,
    writes: bool,
    /// Buffered writes.
    written: BTreeMap<Key, Write>,
    /// Items that it will write under guards.
    claims: Vec<Key>,
    /// Keys and ranges of the statement in progress; none: it commits.
    asked: Option<(Vec<Key>, Vec<KeyRange>)>,
}

impl Several {
    pub fn draw(of: &Sessions, chance: &mut Chance) -> Several {
        let read_committed = chance.per_mille(150);
        let claims = !read_committed && chance.per_mille(400);
        Several {
            isolation: if read_committed { Isolation::ReadCommitted } else { Isolation::ReadAtomic },
            record: None,
            reads_left: chance.between(1, 4),
            writes: chance.per_mille(500),
            written: BTreeMap::new(),
            claims: if claims { of.some_to_claim(chance) } else { Vec::new() },
            asked: None,
        }
    }

    pub fn next(&mut self, of: &mut Sessions, session: usize, now_us: u64, chance: &mut Chance) -> Call {
        let opens = self.record.is_none().then_some(self.isolation);
        if self.reads_left == 0 {
            return Call::Statement(self.commit(of, session, now_us, chance));
        }
        self.reads_left -= 1;
        // Registers only: what a merge makes of a value is no matter of other transactions, and tested elsewhere.
        let mut writes = Vec::new();
        if self.writes && opens.is_none() && chance.per_mille(300) {
            let fresh = |(key, _): &(Key, Write)| key[0] == b'r' && !self.written.contains_key(key);
            writes = of.some_writes(session, chance).into_iter().filter(fresh).collect();
            self.written.extend(writes.iter().cloned());
        }
        let mut keys: Vec<Key> = of.some_keys(chance).into_iter().collect();
        if chance.per_mille(300) {
            let own = self.written.keys().filter(|key| !keys.contains(key)).cloned();
            keys = own.chain(keys.iter().cloned()).collect();
        }
        if opens.is_some() {
            keys.extend(self.claims.iter().cloned());
        }
        // A range must not show what is its own, or the history would have to know it.
        let mut ranges = Vec::new();
        if chance.per_mille(300) {
            ranges.push(of.some_range(chance));
            ranges.retain(|range: &KeyRange| !self.written.keys().any(|key| range.contains(key)));
        }
        if self.record.is_none() || self.isolation == Isolation::ReadCommitted {
            self.record = Some(of.begin_record(session, now_us, Vec::new()));
        }
        self.asked = Some((keys.clone(), ranges.clone()));
        Call::Statement(Statement { opens, writes, read: Some((keys, ranges)), guards: Vec::new() })
    }

    fn commit(&mut self, of: &mut Sessions, session: usize, now_us: u64, chance: &mut Chance) -> Statement {
        self.asked = None;
        let mut writes = if self.writes { of.some_writes(session, chance) } else { Vec::new() };
        writes.retain(|(key, _)| !self.written.contains_key(key));
        let mut guards = Vec::new();
        if let (Isolation::ReadAtomic, Some(record)) = (self.isolation, self.record) {
            let numbers;
            (guards, numbers) = self.claim(of, (record, session), &mut writes, chance);
            of.records[record].guards = guards.clone();
            of.records[record].numbers = numbers;
        }
        self.written.extend(writes.iter().cloned());
        let all = self.written.clone().into_iter().collect();
        match (self.isolation, self.record) {
            (Isolation::ReadAtomic, Some(record)) => of.records[record].writes = all,
            _ => self.record = Some(of.begin_record(session, now_us, all)),
        }
        Statement { opens: None, writes, read: None, guards }
    }

    /// Takes the next numbers of its counters, and replaces or deletes its other claims, as its first statement has seen them.
    fn claim(
        &self,
        of: &mut Sessions,
        (record, session): (usize, usize),
        writes: &mut Vec<(Key, Write)>,
        chance: &mut Chance,
    ) -> (Vec<Guard>, BTreeMap<Key, u64>) {
        let (mut guards, mut numbers) = (Vec::new(), BTreeMap::new());
        for key in &self.claims {
            let mut reads = of.records[record].reads.iter();
            let Some((_, item)) = reads.find(|(one, _)| one == key) else { continue };
            let (seen, absent, value) = (item.stamp, item.value.is_none(), item.value.clone());
            let mark = of.mark(session);
            let write = if is_counter(key) {
                let next = value.map_or(0, |value| number_in(&value)) + 1;
                numbers.insert(key.clone(), next);
                Write::Put(Bytes::from(format!("{next}:{mark}").as_str()))
            } else if !absent && chance.per_mille(400) {
                Write::Delete
            } else {
                Write::Put(Bytes::from(mark.as_str()))
            };
            // A write that only deletes an item needs no guard.
            if write != Write::Delete || chance.per_mille(500) {
                guards.push(Guard { key: key.clone(), seen, absent });
            }
            writes.push((key.clone(), write));
        }
        (guards, numbers)
    }

    /// Handles a result; returns the rest of the transaction, none once it has ended.
    pub fn done(mut self, of: &mut Sessions, now_us: u64, done: Done) -> Option<Several> {
        let record = self.record.expect("it was begun");
        of.statements.0 += 1;
        match done {
            Done::Read { read, .. } => {
                let (keys, ranges) = self.asked.take().expect("it was reading");
                for (key, item) in keys.into_iter().zip(read.items) {
                    match self.written.get(&key) {
                        Some(own) => self.compare(of, &key, own, &item),
                        None => of.records[record].reads.push((key, item)),
                    }
                }
                of.records[record].ranges.extend(ranges.into_iter().zip(read.ranges));
                if self.isolation == Isolation::ReadCommitted {
                    of.records[record].ended_us = Some(now_us);
                }
                Some(self)
            }
            Done::Committed { stamp, .. } => {
                of.records[record].ended_us = Some(now_us);
                of.records[record].stamp = stamp;
                None
            }
            Done::Aborted | Done::Conflict | Done::Restart | Done::TooLarge => {
                of.statements.1 += usize::from(matches!(done, Done::Restart));
                of.records[record].ended_us = Some(now_us);
                of.records[record].aborted = true;
                None
            }
        }
    }

    fn compare(&self, of: &mut Sessions, key: &Key, own: &Write, item: &ItemRead) {
        let expected = match own {
            Write::Put(value) => Some(value),
            _ => None,
        };
        if item.value.as_ref() != expected {
            let seen = format!("{key:?} was read as {item:?} after {own:?}");
            of.wrong = Some(Violation { claim: "a transaction sees its own writes", seen });
        }
    }

    pub fn lost(self, of: &mut Sessions, txn: Option<TxnId>) {
        let Some(record) = self.record else { return };
        match self.asked {
            None => of.records[record].lost = txn,
            // It had written nothing.
            Some(_) => of.records[record].aborted = true,
        }
    }
}

fn is_counter(key: &Key) -> bool {
    key[0] == b'n'
}

/// A counter's value is its number and who took it, with a colon between.
fn number_in(value: &Bytes) -> u64 {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}
