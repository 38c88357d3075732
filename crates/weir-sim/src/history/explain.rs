//! Read atomicity (ramp.txt §3.1): a transaction sees all of another one's writes or none.
//!
//! A set of transactions *explains* what a transaction saw if each item that it read is the fold of their writes to it, in stamp order.
//! For overwrites this is the paper's definition (a fractured read is a value without an explanation), and it extends to merged items and
//! to ranges. The values identify the members of the set, except deletions, which leave no value: those are searched for.

use std::collections::BTreeSet;

use weir_kv::write::Write;
use weir_kv::{Bytes, Key, Stamp};

use super::{History, Mark, Seen, Violation, members, words};

impl History {
    pub fn check_read_atomicity(&self) -> Result<(), Violation> {
        for number in 0..self.records.len() {
            let seen = self.seen_by(number);
            let told = self.writers_of(&seen).and_then(|writers| {
                let explained = self.explains(&seen, writers.clone(), self.ended_us(number));
                if explained { Ok(()) } else { Err(self.show_fracture(&seen, &writers)) }
            });
            told.map_err(|what| Violation { claim: "reads are atomic", seen: self.told_by(number, &what) })?;
        }
        Ok(())
    }

    pub(super) fn ended_us(&self, number: usize) -> u64 {
        self.records[number].ended_us.unwrap_or(u64::MAX)
    }

    /// The transactions whose writes are in the values.
    pub(super) fn writers_of(&self, seen: &[Seen<'_>]) -> Result<BTreeSet<usize>, String> {
        let mut writers = BTreeSet::new();
        for (key, value, stamp) in seen {
            let Some(value) = value else {
                // A deletion that is identified by its stamp.
                writers.extend(self.deleter(key, *stamp));
                continue;
            };
            for mark in self.marks_in(key, value) {
                let Some(writer) = self.marks.get(&((*key).clone(), mark)) else {
                    let (of, was) = (words::key(key), words::value(Some(value)));
                    return Err(format!("read {of} as {was}, and nobody wrote that"));
                };
                if self.records[*writer].aborted {
                    let (of, was) = (words::key(key), words::value(Some(value)));
                    return Err(format!(
                        "read {of} as {was}, of {}, which has aborted",
                        words::transaction(*writer)
                    ));
                }
                writers.insert(*writer);
            }
        }
        Ok(writers)
    }

    fn deleter(&self, key: &Key, stamp: Stamp) -> Option<usize> {
        let of_key = self.writers.get(key)?.iter();
        let mut deletes = of_key.filter(|(_, write)| *write == Write::Delete).map(|(number, _)| *number);
        deletes.find(|number| stamp != Stamp::NONE && self.records[*number].stamp == Some(stamp))
    }

    /// The meaning of a value depends on the writes of the item: a set, a number, or a plain value.
    fn marks_in(&self, key: &Key, value: &Bytes) -> Vec<Mark> {
        let writes = self.writers.get(key).into_iter().flatten().map(|(_, write)| write);
        match writes.into_iter().find(|write| **write != Write::Delete) {
            Some(Write::Insert(_)) => members(value).into_iter().map(Mark::Member).collect(),
            Some(Write::Add(_)) => {
                let number = <[u8; 8]>::try_from(&**value).map(u64::from_be_bytes).unwrap_or(u64::MAX);
                (0..64).filter(|bit| number >> bit & 1 == 1).map(Mark::Bit).collect()
            }
            _ => vec![Mark::Value(value.clone())],
        }
    }

    /// These transactions, and deletions that had begun before then, make of every item what was seen.
    pub(super) fn explains(&self, seen: &[Seen<'_>], transactions: BTreeSet<usize>, before_us: u64) -> bool {
        let mut tried = BTreeSet::new();
        self.explains_with(seen, transactions, before_us, &mut tried)
    }

    fn explains_with(
        &self,
        seen: &[Seen<'_>],
        transactions: BTreeSet<usize>,
        before_us: u64,
        tried: &mut BTreeSet<BTreeSet<usize>>,
    ) -> bool {
        let wrong = seen.iter().find(|(key, value, _)| self.fold(key, &transactions).as_ref() != *value);
        let Some((key, value, _)) = wrong else { return true };
        if !tried.insert(transactions.clone()) {
            return false;
        }
        let of_key = self.writers.get(*key).into_iter().flatten();
        let unused = of_key.filter(|(number, write)| {
            let in_time = self.records[*number].begun_us <= before_us;
            *write == Write::Delete && in_time && !transactions.contains(number)
        });
        // If a valid set contains deletions, the last of them alone already explains this item.
        unused.into_iter().any(|(delete, _)| {
            let mut more = transactions.clone();
            more.insert(*delete);
            self.fold(key, &more).as_ref() == *value && self.explains_with(seen, more, before_us, tried)
        })
    }

    fn show_fracture(&self, seen: &[Seen<'_>], writers: &BTreeSet<usize>) -> String {
        let mut lines = Vec::new();
        for (key, value, stamp) in seen {
            let expected = self.fold(key, writers);
            if expected.as_ref() != *value {
                lines.push(format!(
                    "{} as {} ({}), which would be {}",
                    words::key(key),
                    words::value(*value),
                    words::stamp(*stamp),
                    words::value(expected.as_ref())
                ));
            }
        }
        format!(
            "read {} with all that {} wrote",
            words::listed(lines.into_iter()),
            words::transactions(writers)
        )
    }
}
