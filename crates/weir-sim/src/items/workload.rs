//! Workload of clients of items: transactions of random size over few hot keys and many cold ones.
//!
//! Values identify their writers, as the checkers need (see [`crate::history`]). The first letter of a key determines the kind of its
//! writes, so that a merge never meets another kind.

use std::collections::{BTreeMap, BTreeSet};

use weir_core::ids::TxnId;
use weir_kv::{Bytes, Done, ItemRead, Key, KeyRange, Stamp, Transaction, Write};

use super::calls::Call;
use super::statements::Several;
use crate::chance::Chance;
use crate::cluster::Clients;
use crate::history::{Record, Violation};

/// Frequency of each kind of transaction.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Reads,
    Writes,
    ReadsAndWrites,
    Range,
    /// An interactive transaction with unpredictable statements.
    Statements,
    /// One operation on an item that nothing else touches.
    Single,
}

/// Closed loops of a run, and their results.
pub struct Sessions {
    pub records: Vec<Record>,
    pub second_rounds: usize,
    /// Statements of interactive transactions, and number of these that were told to restart.
    pub statements: (usize, usize),
    /// Violation: an interactive transaction has read its own writes wrongly.
    pub wrong: Option<Violation>,
    /// Clients abandon operations that are not answered soon.
    pub impatient: bool,
    /// By session: the transaction in flight.
    in_flight: Vec<Option<InFlight>>,
    begun: Vec<usize>,
    /// By session: the number under which it goes in the history. A client whose coordinator has died begins anew.
    numbers: Vec<usize>,
    numbered: usize,
    /// No session begins more than that.
    begun_max: usize,
    stopped: bool,
    shapes: Vec<Shape>,
    /// There may be transactions of several statements.
    several: bool,
    /// Number of items of each kind.
    hot: u64,
    cold: u64,
    hot_per_mille: u32,
    merge_per_mille: u32,
    items_max: u64,
    delete_per_mille: u32,
    /// By counter: bits that have been used.
    bits: BTreeMap<Key, u32>,
    written: u64,
}

enum InFlight {
    Whole { record: usize, transaction: Transaction },
    Several(Several),
}

impl Sessions {
    /// The numbers of transactions of each kind are drawn too.
    pub fn new(sessions: usize, statements: bool, chance: &mut Chance) -> Sessions {
        use Shape::*;
        let known: [&[Shape]; 6] = [
            &[Reads, Writes],
            // Reads are so rare that old versions are dropped at once.
            &[Reads, Writes, Writes, Writes, Writes, Writes, Writes, Writes, Writes, Writes, Writes, Writes],
            &[Reads, Reads, Reads, Writes, ReadsAndWrites, Range, Single],
            &[Reads, Writes, Writes, ReadsAndWrites, Single, Single],
            &[Range, Writes, Range, Writes, ReadsAndWrites],
            &[Reads, Writes, ReadsAndWrites, Range, Single],
        ];
        let several: [&[Shape]; 3] = [
            &[Statements, Statements, Writes, ReadsAndWrites],
            &[Reads, Reads, Writes, ReadsAndWrites, Range, Statements, Single],
            &[Range, Writes, Range, Writes, Statements, ReadsAndWrites],
        ];
        let mixes = if statements { [&known[..], &several].concat() } else { known.to_vec() };
        Sessions {
            records: Vec::new(),
            second_rounds: 0,
            statements: (0, 0),
            wrong: None,
            impatient: false,
            in_flight: (0..sessions).map(|_| None).collect(),
            begun: vec![0; sessions],
            numbers: (0..sessions).collect(),
            numbered: sessions,
            begun_max: chance.pick(&[10, 30, 40, 40, 90]),
            stopped: false,
            shapes: chance.pick(&mixes).to_vec(),
            several: statements,
            hot: chance.between(1, 3),
            cold: chance.between(5, 40),
            hot_per_mille: chance.pick(&[300, 700, 950]),
            merge_per_mille: chance.pick(&[100, 500, 950]),
            items_max: chance.pick(&[2, 4, 8, 20]),
            delete_per_mille: chance.pick(&[0, 100, 400]),
            bits: BTreeMap::new(),
            written: 0,
        }
    }

    pub fn have_had_enough(&self) -> bool {
        self.begun.iter().all(|begun| *begun >= self.begun_max)
    }

    /// No session begins another transaction.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Completes the records of transactions without an answer: those that have committed on some shard have these stamps, and the others
    /// have not committed.
    pub fn learn(&mut self, stamps: &BTreeMap<TxnId, Stamp>) {
        for record in self.records.iter_mut().filter(|record| record.ended_us.is_none()) {
            record.stamp = record.lost.and_then(|txn| stamps.get(&txn).copied());
            record.aborted = record.stamp.is_none();
        }
    }

    /// All items that may have been written.
    pub fn keys(&self) -> Vec<Key> {
        let kinds = [
            ("c", self.hot),
            ("m", self.hot),
            ("n", self.hot),
            ("r", self.hot + self.cold),
            ("s", self.hot),
            ("t", self.hot),
            ("u", self.hot),
        ];
        let of_kind = |(kind, count): (&'static str, u64)| (0..count).map(move |at| key(kind, at));
        kinds.into_iter().flat_map(of_kind).collect()
    }

    /// An item that many share: a register, or one that merges.
    fn some_key(&self, chance: &mut Chance) -> Key {
        if !chance.per_mille(self.hot_per_mille) {
            return key("r", self.hot + chance.below(self.cold));
        }
        let merges = chance.per_mille(self.merge_per_mille);
        let kind = if merges { chance.pick(&["c", "m", "t"]) } else { "r" };
        key(kind, chance.below(self.hot))
    }

    pub(super) fn some_keys(&self, chance: &mut Chance) -> BTreeSet<Key> {
        (0..chance.between(1, self.items_max)).map(|_| self.some_key(chance)).collect()
    }

    pub(super) fn some_writes(&mut self, session: usize, chance: &mut Chance) -> Vec<(Key, Write)> {
        let keys = self.some_keys(chance);
        keys.into_iter()
            .filter_map(|key| Some((key.clone(), self.some_write(session, key, chance)?)))
            .collect()
    }

    /// None: a counter whose bits are used up.
    fn some_write(&mut self, session: usize, key: Key, chance: &mut Chance) -> Option<Write> {
        self.written += 1;
        // Deletions make merged items harder to read for the checkers, so there are fewer of those.
        let rarely = if key[0] == b'r' || key[0] == b's' { 1 } else { 8 };
        if chance.per_mille(self.delete_per_mille / rarely) {
            return Some(Write::Delete);
        }
        let mark = Bytes::from(self.mark_of(session).as_str());
        Some(match key[0] {
            b'c' => {
                let bit = self.bits.entry(key).or_default();
                *bit += 1;
                if *bit > 62 {
                    return None;
                }
                Write::Add(1 << (*bit - 1))
            }
            b'm' => Write::Max(Bytes::from(format!("{:03}.{}", chance.below(1000), self.written).as_str())),
            b't' => Write::Insert(mark),
            _ => Write::Put(mark),
        })
    }

    /// Told from all other values.
    pub(super) fn mark(&mut self, session: usize) -> String {
        self.written += 1;
        self.mark_of(session)
    }

    fn mark_of(&self, session: usize) -> String {
        format!("{:05}.{session}", self.written)
    }

    /// Counters, and items that are taken and given up; written under guards.
    pub(super) fn some_to_claim(&self, chance: &mut Chance) -> Vec<Key> {
        let kinds = chance.pick(&[&["n"][..], &["u"], &["n", "u"]]);
        kinds.iter().map(|kind| key(kind, chance.below(self.hot))).collect()
    }

    pub(super) fn some_range(&self, chance: &mut Chance) -> KeyRange {
        // Items are claimed only if there are interactive transactions.
        let kind = if self.several {
            chance.pick(&["c", "m", "n", "r", "r", "r", "t", "u"])
        } else {
            chance.pick(&["c", "m", "r", "r", "r", "t"])
        };
        let from = chance.below(self.hot + self.cold);
        let to = if chance.per_mille(300) { 1_000 } else { from + chance.below(8) };
        KeyRange { from: key(kind, from / 2), to: key(kind, to) }
    }

    fn draw(&mut self, session: usize, shape: Shape, chance: &mut Chance) -> Transaction {
        let mut transaction = Transaction::default();
        match shape {
            Shape::Reads => transaction.reads = self.some_keys(chance).into_iter().collect(),
            Shape::Writes => transaction.writes = self.some_writes(session, chance),
            Shape::ReadsAndWrites => {
                transaction.reads = self.some_keys(chance).into_iter().collect();
                transaction.writes = self.some_writes(session, chance);
            }
            Shape::Range => {
                transaction.ranges = (0..chance.between(1, 2)).map(|_| self.some_range(chance)).collect();
                if chance.per_mille(300) {
                    transaction.reads = self.some_keys(chance).into_iter().collect();
                }
            }
            Shape::Statements => unreachable!("these are drawn one by one"),
            Shape::Single => {
                let key = key("s", chance.below(self.hot));
                if chance.per_mille(500) {
                    transaction.reads = vec![key];
                } else {
                    transaction
                        .writes
                        .extend(self.some_write(session, key.clone(), chance).map(|write| (key, write)));
                }
            }
        }
        transaction
    }
}

fn key(kind: &str, at: u64) -> Key {
    Key::from(format!("{kind}{at:03}").as_str())
}

impl Sessions {
    /// The number of the record.
    pub(super) fn begin_record(&mut self, session: usize, now_us: u64, writes: Vec<(Key, Write)>) -> usize {
        let session = self.numbers[session];
        self.records.push(Record { session, begun_us: now_us, writes, ..Record::default() });
        self.records.len() - 1
    }
}

impl Clients<Call, Done> for Sessions {
    fn next(&mut self, session: usize, now_us: u64, chance: &mut Chance) -> Option<Call> {
        if let Some(InFlight::Several(mut several)) = self.in_flight[session].take() {
            let call = several.next(self, session, now_us, chance);
            self.in_flight[session] = Some(InFlight::Several(several));
            return Some(call);
        }
        if self.stopped || self.begun[session] >= self.begun_max {
            return None;
        }
        self.begun[session] += 1;
        let shape = chance.pick(&self.shapes);
        if let Shape::Statements = shape {
            let mut several = Several::draw(self, chance);
            let call = several.next(self, session, now_us, chance);
            self.in_flight[session] = Some(InFlight::Several(several));
            return Some(call);
        }
        let transaction = self.draw(session, shape, chance);
        let record = self.begin_record(session, now_us, transaction.writes.clone());
        self.in_flight[session] = Some(InFlight::Whole { record, transaction: transaction.clone() });
        Some(Call::Whole(transaction))
    }

    fn done(&mut self, session: usize, now_us: u64, done: Done) {
        let (record, transaction) = match self.in_flight[session].take().expect("it was begun") {
            InFlight::Whole { record, transaction } => (record, transaction),
            InFlight::Several(several) => {
                self.in_flight[session] = several.done(self, now_us, done).map(InFlight::Several);
                return;
            }
        };
        let record = &mut self.records[record];
        record.ended_us = Some(now_us);
        match done {
            Done::Committed { read, stamp, rounds } => {
                self.second_rounds += usize::from(rounds.0 > 1);
                record.stamp = stamp;
                record.reads =
                    transaction.reads.into_iter().zip(read.items).collect::<Vec<(Key, ItemRead)>>();
                record.ranges = transaction.ranges.into_iter().zip(read.ranges).collect();
            }
            _ => record.aborted = true,
        }
    }

    fn lost(&mut self, session: usize, txn: Option<TxnId>) {
        match self.in_flight[session].take().expect("it was begun") {
            InFlight::Whole { record, .. } => self.records[record].lost = txn,
            InFlight::Several(several) => several.lost(self, txn),
        }
        self.moved(session);
    }

    fn patience_us(&mut self, chance: &mut Chance) -> Option<u64> {
        // As long as a message takes, as a second try takes, and until after shards have asked each other.
        let up_to = |chance: &mut Chance| chance.pick(&[5_000, 50_000, 500_000, 5_000_000]);
        self.impatient.then(|| up_to(chance)).map(|up_to| chance.below(up_to))
    }

    /// The session's interactive transaction is between two statements; it will be told to restart.
    fn moved(&mut self, session: usize) {
        self.numbers[session] = self.numbered;
        self.numbered += 1;
    }
}
