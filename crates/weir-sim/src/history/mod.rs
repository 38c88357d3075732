//! Histories of client operations and results, and the consistency checks on them.
//!
//! Pure: a history comes from a simulation or from a real run. Every checker has a naive twin in the tests, which decides the same by
//! exhaustive search. Readers cannot see which writes an item consists of, so values must identify them: no two transactions put the same
//! value, insert the same member, or add the same bit to a number (and nothing else is ever added).

mod explain;
mod export;
mod guards;
mod json;
mod linear;
#[cfg(test)]
mod naive;
mod sessions;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use weir_core::ids::TxnId;
use weir_kv::write::{Content, Write};
use weir_kv::{Bytes, Guard, ItemRead, Key, KeyRange, Stamp};

pub use export::{elle_edn, operations_text};
pub use json::{from_json_lines, to_json_lines};
pub use linear::{Operation, is_linearizable};

/// One transaction, as its client knows it.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub session: usize,
    pub begun_us: u64,
    /// None: the client has not been answered.
    pub ended_us: Option<u64>,
    pub reads: Vec<(Key, ItemRead)>,
    pub ranges: Vec<(KeyRange, Vec<(Key, ItemRead)>)>,
    pub writes: Vec<(Key, Write)>,
    /// Under which it wrote.
    pub guards: Vec<Guard>,
    /// By counter, an item that it advanced under a guard: the number that it took.
    pub numbers: BTreeMap<Key, u64>,
    /// Stamp of its writes; none if it has written nothing, or has not been answered.
    pub stamp: Option<Stamp>,
    /// Nothing of it will ever be visible. The client was told so, or its coordinator is dead and the shards' logs
    /// say so.
    pub aborted: bool,
    /// Id of a write without an answer, whose outcome the shards' logs must tell.
    pub lost: Option<TxnId>,
}

/// A claim that does not hold, and what shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub claim: &'static str,
    pub seen: String,
}

/// Transactions by number, in the order in which they began.
#[derive(Debug)]
pub struct History {
    pub records: Vec<Record>,
    /// By item: its writes, by number of the transaction.
    writers: BTreeMap<Key, Vec<(usize, Write)>>,
    /// Writer of each mark found in values.
    marks: BTreeMap<(Key, Mark), usize>,
}

/// Trace of a write in a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Value(Bytes),
    Member(Bytes),
    Bit(u32),
}

/// An item as a transaction saw it.
type Seen<'a> = (&'a Key, Option<&'a Bytes>, Stamp);

impl History {
    pub fn new(records: Vec<Record>) -> History {
        let mut writers: BTreeMap<Key, Vec<(usize, Write)>> = BTreeMap::new();
        let mut marks = BTreeMap::new();
        for (number, record) in records.iter().enumerate() {
            for (key, write) in &record.writes {
                writers.entry(key.clone()).or_default().push((number, write.clone()));
                if let Some(mark) = mark_of(write) {
                    marks.insert((key.clone(), mark), number);
                }
            }
        }
        History { records, writers, marks }
    }

    /// Everything that holds for any history of read-atomic transactions.
    pub fn check(&self) -> Result<(), Violation> {
        self.check_read_atomicity()?;
        self.check_sessions()?;
        self.check_guards()?;
        self.check_single_items()
    }

    /// After everything is over: each item is the fold of all committed writes in order of stamps.
    pub fn check_nothing_lost(&self, last: &BTreeMap<Key, Option<Bytes>>) -> Result<(), Violation> {
        let all: BTreeSet<usize> = (0..self.records.len()).collect();
        for key in self.writers.keys() {
            let expected = self.fold(key, &all);
            let found = last.get(key).cloned().flatten();
            if found != expected {
                let seen = format!(
                    "{} is {} in the end; its committed writes make {} of it",
                    words::key(key),
                    words::value(found.as_ref()),
                    words::value(expected.as_ref())
                );
                return Err(Violation { claim: "no committed write is lost", seen });
            }
        }
        match last.iter().find(|(key, value)| value.is_some() && !self.writers.contains_key(*key)) {
            None => Ok(()),
            Some((key, value)) => {
                let seen =
                    format!("{} is {}, and nobody wrote it", words::key(key), words::value(value.as_ref()));
                Err(Violation { claim: "no committed write is lost", seen })
            }
        }
    }

    /// Value of an item after the writes of these transactions.
    fn fold(&self, key: &Key, transactions: &BTreeSet<usize>) -> Option<Bytes> {
        let writes = self.writers.get(key).into_iter().flatten();
        let mut writes: Vec<(Stamp, &Write)> = writes
            .filter(|(number, _)| transactions.contains(number) && !self.records[*number].aborted)
            .filter_map(|(number, write)| Some((self.records[*number].stamp?, write)))
            .collect();
        writes.sort_by_key(|(stamp, _)| *stamp);
        let mut content = Content::default();
        writes.iter().for_each(|(_, write)| content.apply(write));
        content.value()
    }

    /// Everything that a transaction saw, including written items that were absent from a range.
    fn seen_by(&self, number: usize) -> Vec<Seen<'_>> {
        let record = &self.records[number];
        let mut seen: Vec<Seen<'_>> =
            record.reads.iter().map(|(key, item)| (key, item.value.as_ref(), item.stamp)).collect();
        for (range, entries) in &record.ranges {
            let present: BTreeMap<&Key, &ItemRead> = entries.iter().map(|(key, item)| (key, item)).collect();
            seen.extend(entries.iter().map(|(key, item)| (key, item.value.as_ref(), item.stamp)));
            let written = self.writers.keys().filter(|key| range.contains(key) && !present.contains_key(key));
            seen.extend(written.map(|key| (key, None, Stamp::NONE)));
        }
        seen
    }
}

fn mark_of(write: &Write) -> Option<Mark> {
    match write {
        Write::Put(value) | Write::Max(value) => Some(Mark::Value(value.clone())),
        Write::Insert(member) => Some(Mark::Member(member.clone())),
        Write::Add(amount) => Some(Mark::Bit(amount.trailing_zeros())),
        Write::Delete => None,
    }
}

/// The members of a set, as its value tells them.
fn members(value: &[u8]) -> Vec<Bytes> {
    let mut members = Vec::new();
    let mut rest = value;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = (u32::from_be_bytes(*length) as usize).min(after.len());
        let (member, after) = after.split_at(length);
        members.push(Bytes::new(member));
        rest = after;
    }
    members
}
