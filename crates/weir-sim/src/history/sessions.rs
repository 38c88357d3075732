//! Session guarantees (ramp.txt, appendix): a client sees its own writes, never goes back on an item, and
//! what it writes comes after what it has written and seen before.

use std::collections::{BTreeMap, BTreeSet};

use weir_kv::{Key, Stamp};

use super::{History, Operation, Violation, is_linearizable, words};

/// Past of a session.
#[derive(Default)]
struct Past {
    /// Its writing transactions.
    wrote: BTreeSet<usize>,
    /// By item: transactions whose writes it has seen there.
    saw: BTreeMap<Key, BTreeSet<usize>>,
    /// Newest stamp that it has written or seen.
    newest: Option<Stamp>,
}

impl History {
    pub fn check_sessions(&self) -> Result<(), Violation> {
        let mut pasts: BTreeMap<usize, Past> = BTreeMap::new();
        for (number, record) in self.records.iter().enumerate() {
            let past = pasts.entry(record.session).or_default();
            self.check_with_past(number, past)?;
            if record.aborted || record.stamp.is_none() {
                continue;
            }
            if past.newest > record.stamp {
                let said = |stamp: Option<Stamp>| words::stamp(stamp.unwrap_or(Stamp::NONE));
                let what = format!("wrote at {}, after {}", said(record.stamp), said(past.newest));
                let seen = self.told_by(number, &what);
                return Err(Violation { claim: "a session writes after what it has seen", seen });
            }
            past.wrote.insert(number);
            past.newest = record.stamp;
        }
        Ok(())
    }

    fn check_with_past(&self, number: usize, past: &mut Past) -> Result<(), Violation> {
        let seen = self.seen_by(number);
        let before_us = self.ended_us(number);
        let told = |what: String| self.told_by(number, &what);
        let writers = self
            .writers_of(&seen)
            .map_err(|what| Violation { claim: "reads are atomic", seen: told(what) })?;
        let with_own = writers.union(&past.wrote).copied().collect();
        if !self.explains(&seen, with_own, before_us) {
            let own = words::transactions(past.wrote.iter().rev().take(5));
            let (seen, writers) = (words::seen(&seen), words::transactions(&writers));
            let seen = told(format!("read {seen}, as {writers} left it, after {own} of its own session"));
            return Err(Violation { claim: "a session reads its writes", seen });
        }
        past.newest = seen.iter().map(|(_, _, stamp)| Some(*stamp)).fold(past.newest, Option::max);
        for one in seen {
            let now = self.writers_of(&[one]).unwrap_or_default();
            let earlier = past.saw.entry(one.0.clone()).or_default();
            let both = now.union(earlier).copied().collect();
            if !self.explains(&[one], both, before_us) {
                let (now, earlier) = (words::seen(&[one]), words::transactions(earlier.iter()));
                let seen = told(format!("read {now}; its session had seen there what {earlier} wrote"));
                return Err(Violation { claim: "a session never goes back", seen });
            }
            *earlier = now;
        }
        Ok(())
    }

    /// Items that only transactions on one item touch are linearizable.
    pub fn check_single_items(&self) -> Result<(), Violation> {
        let mut operations: BTreeMap<&Key, Vec<Operation>> = BTreeMap::new();
        let mut others: BTreeSet<&Key> = BTreeSet::new();
        for record in self.records.iter().filter(|record| !record.aborted) {
            let keys: BTreeSet<&Key> = record
                .reads
                .iter()
                .map(|(key, _)| key)
                .chain(record.writes.iter().map(|(key, _)| key))
                .collect();
            let alone = keys.len() == 1 && record.ranges.is_empty();
            match (keys.first(), record.reads.first(), record.writes.first()) {
                (Some(key), read, write) if alone && read.is_some() != write.is_some() => {
                    operations.entry(key).or_default().push(Operation {
                        begun_us: record.begun_us,
                        ended_us: record.ended_us.unwrap_or(u64::MAX),
                        read: read.map(|(_, item)| item.value.clone()),
                        write: write.map(|(_, write)| write.clone()),
                    });
                }
                _ => others.extend(keys),
            }
        }
        for (key, operations) in operations.into_iter().filter(|(key, _)| !others.contains(*key)) {
            if !is_linearizable(&operations) {
                let seen = format!(
                    "no order of the {} operations on {} explains what they read and wrote",
                    operations.len(),
                    words::key(key)
                );
                return Err(Violation { claim: "single items are linearizable", seen });
            }
        }
        Ok(())
    }
}
