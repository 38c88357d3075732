//! The Contention Level of a running server in bounded memory, at a small cost: bursts of transactions are recorded, and the exact function
//! is applied to each burst.
//!
//! Error: a level is that of the recorded bursts, so it has the sampling error of their number. Within a burst, transactions at its edges may
//! have been concurrent with others that were not recorded; they are looked at but not counted. Of a transaction at most
//! [`ACCESSES_MAX`] accesses are recorded. Objects are hashes of 64 bits: two of a burst are the same by chance once in some 10⁹ bursts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::contention::{Contention, each_access};
use crate::history::{Object, Transaction};
use crate::hottest::Hottest;

/// Accesses of a transaction that are recorded.
pub const ACCESSES_MAX: usize = 64;

/// At each edge of a burst one of so many transactions is looked at, but not counted.
const EDGE: usize = 16;

/// Objects that are counted for the hottest ones.
const HOT_MAX: usize = 256;

/// Which transactions are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Transactions of a burst.
    pub burst: u64,
    /// One burst of so many is recorded; 1 is all.
    pub one_of: u64,
}

impl Sampling {
    pub const DEFAULT: Sampling = Sampling { burst: 1_024, one_of: 16 };
}

/// Which kind of transaction it is: whoever records it has the meaning of the number.
pub type Kind = u32;

/// Which table an object belongs to: whoever records it has the meaning of the number.
pub type Table = u32;

/// A recorded attempt at a transaction.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub kind: Kind,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub aborted: bool,
    pub accesses: Vec<(Table, Object)>,
}

/// Number of the burst that a transaction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Burst(u64);

/// Contention of the counted transactions, and how many of them were aborted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    pub contention: Contention,
    pub attempts: u64,
    pub aborts: u64,
}

/// Measured contention at one moment.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub all: Measured,
    pub by_kind: BTreeMap<Kind, Measured>,
    pub by_table: BTreeMap<Table, Contention>,
    /// The objects with most accesses, the hottest first: how many, and by how much that may be too high.
    pub hottest: Vec<((Table, Object), u64, u64)>,
    /// Accesses among which they are the hottest.
    pub hot_accesses: u64,
    /// Accesses beyond [`ACCESSES_MAX`], and attempts that ended when the next burst was under way.
    pub left_out: u64,
}

impl Report {
    fn add(&mut self, attempts: &[Attempt]) {
        let mut ordered: Vec<&Attempt> = attempts.iter().collect();
        ordered.sort_by_key(|attempt| attempt.begin_ns);
        let history: Vec<Transaction> = ordered.iter().map(|attempt| attempt.as_transaction()).collect();
        let edge = history.len() / EDGE;
        let counted = edge..history.len() - edge;
        for attempt in ordered.get(counted.clone()).unwrap_or_default() {
            for measured in [&mut self.all, self.by_kind.entry(attempt.kind).or_default()] {
                measured.attempts += 1;
                measured.aborts += u64::from(attempt.aborted);
            }
        }
        each_access(&history, |number, place, is_common| {
            if counted.contains(&number) {
                let attempt = ordered[number];
                let one = Contention { accesses: 1, common: u64::from(is_common) };
                self.all.contention += one;
                self.by_kind.entry(attempt.kind).or_default().contention += one;
                *self.by_table.entry(attempt.accesses[place].0).or_default() += one;
            }
        });
    }
}

impl Attempt {
    fn as_transaction(&self) -> Transaction {
        // The same key of two tables is two objects.
        let object = |(table, object): &(Table, Object)| {
            object ^ u64::from(*table).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        Transaction {
            begin_ns: self.begin_ns,
            end_ns: self.end_ns,
            accesses: self.accesses.iter().map(object).collect(),
            aborted: self.aborted,
        }
    }
}

/// Recorder of a server's transactions. All of its threads share it.
#[derive(Debug)]
pub struct Live {
    sampling: Sampling,
    begun: AtomicU64,
    recorded: Mutex<Recorded>,
}

#[derive(Debug)]
struct Recorded {
    burst: Burst,
    attempts: Vec<Attempt>,
    whole: Report,
    hottest: Hottest<(Table, Object)>,
}

impl Live {
    /// Both numbers of the sampling are at least 1.
    pub fn new(sampling: Sampling) -> Live {
        let sampling = Sampling { burst: sampling.burst.max(1), one_of: sampling.one_of.max(1) };
        let recorded = Recorded {
            burst: Burst(0),
            attempts: Vec::new(),
            whole: Report::default(),
            hottest: Hottest::new(HOT_MAX),
        };
        Live { sampling, begun: AtomicU64::new(0), recorded: Mutex::new(recorded) }
    }

    /// Records a history as a server would have: begins and ends in the order of their times. All are of one kind and one table, 0.
    pub fn replay(history: &[Transaction], sampling: Sampling) -> Live {
        let live = Live::new(sampling);
        let begins = history.iter().enumerate().map(|(number, one)| (one.begin_ns, true, number));
        let ends = history.iter().enumerate().map(|(number, one)| (one.end(), false, number));
        let mut moments: Vec<(u64, bool, usize)> = begins.chain(ends).collect();
        moments.sort_unstable();
        let mut bursts = vec![None; history.len()];
        for (_, begins, number) in moments {
            let Transaction { begin_ns, end_ns, accesses, aborted } = &history[number];
            if begins {
                bursts[number] = live.begin();
            } else if let Some(burst) = bursts[number] {
                let accesses = accesses.iter().map(|object| (0, *object)).collect();
                let (kind, aborted) = (0, *aborted);
                live.end(burst, Attempt { kind, begin_ns: *begin_ns, end_ns: *end_ns, aborted, accesses });
            }
        }
        live
    }

    /// A transaction begins. None: it is not recorded, and nothing more is to be said of it.
    pub fn begin(&self) -> Option<Burst> {
        let burst = self.begun.fetch_add(1, Relaxed) / self.sampling.burst;
        burst.is_multiple_of(self.sampling.one_of).then_some(Burst(burst))
    }

    /// A recorded transaction has ended.
    pub fn end(&self, burst: Burst, mut attempt: Attempt) {
        let mut recorded = self.recorded();
        if burst > recorded.burst {
            recorded.finish();
            recorded.burst = burst;
        }
        if burst < recorded.burst || recorded.attempts.len() as u64 >= self.sampling.burst {
            recorded.whole.left_out += 1;
            return;
        }
        recorded.whole.left_out += attempt.accesses.len().saturating_sub(ACCESSES_MAX) as u64;
        attempt.accesses.truncate(ACCESSES_MAX);
        recorded.attempts.push(attempt);
    }

    /// Contention since the beginning; the burst that is under way is included as far as it has come.
    pub fn report(&self, hottest: usize) -> Report {
        let recorded = self.recorded();
        let mut report = recorded.whole.clone();
        let mut hot = recorded.hottest.clone();
        report.add(&recorded.attempts);
        count(&recorded.attempts, &mut hot);
        report.hottest = hot.top(hottest);
        report.hot_accesses = hot.accesses();
        report
    }

    /// The objects that are counted for the hottest ones.
    pub fn hot_objects(&self) -> BTreeSet<(Table, Object)> {
        self.recorded().hottest.top(HOT_MAX).into_iter().map(|(object, ..)| object).collect()
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorded {
    fn finish(&mut self) {
        let attempts = std::mem::take(&mut self.attempts);
        self.whole.add(&attempts);
        count(&attempts, &mut self.hottest);
    }
}

/// Counts objects first, and adds each once: finding a counter to give up is what takes time.
fn count(attempts: &[Attempt], hottest: &mut Hottest<(Table, Object)>) {
    let mut counts: FxHashMap<(Table, Object), u64> = FxHashMap::default();
    attempts
        .iter()
        .flat_map(|attempt| &attempt.accesses)
        .for_each(|object| *counts.entry(*object).or_default() += 1);
    let mut counts: Vec<((Table, Object), u64)> = counts.into_iter().collect();
    counts.sort_unstable_by_key(|(object, accesses)| (std::cmp::Reverse(*accesses), *object));
    counts.into_iter().for_each(|(object, accesses)| hottest.add_many(object, accesses));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(kind: Kind, begin_ns: u64, accesses: &[(Table, Object)]) -> Attempt {
        Attempt { kind, begin_ns, end_ns: begin_ns + 10, aborted: kind == 2, accesses: accesses.to_vec() }
    }

    #[test]
    fn kinds_and_tables_are_told_apart() {
        let live = Live::new(Sampling { burst: 8, one_of: 1 });
        for one in [attempt(1, 0, &[(1, 5), (2, 5)]), attempt(2, 5, &[(1, 5), (3, 6)])] {
            let burst = live.begin().expect("all are recorded");
            live.end(burst, one);
        }
        let report = live.report(1);
        assert_eq!(report.all.contention, Contention { accesses: 4, common: 2 });
        assert_eq!((report.all.attempts, report.all.aborts), (2, 1));
        assert_eq!(report.by_kind[&2].contention, Contention { accesses: 2, common: 1 });
        assert_eq!(report.by_table[&1], Contention { accesses: 2, common: 2 });
        assert_eq!(report.by_table[&2], Contention { accesses: 1, common: 0 });
        assert_eq!((report.hottest, report.hot_accesses), (vec![((1, 5), 2, 0)], 4));
    }

    #[test]
    fn one_burst_of_some_is_recorded() {
        let live = Live::new(Sampling { burst: 2, one_of: 3 });
        let recorded: Vec<bool> = (0..14).map(|_| live.begin().is_some()).collect();
        let burst = [true, true, false, false, false, false];
        assert_eq!(recorded, [&burst[..], &burst, &burst[..2]].concat());
    }

    #[test]
    fn memory_is_bounded() {
        let live = Live::new(Sampling { burst: 4, one_of: 1 });
        let long: Vec<(Table, Object)> = (0..100).map(|object| (1, object)).collect();
        let first = live.begin().expect("all are recorded");
        live.end(first, attempt(1, 0, &long));
        (0..4).for_each(|_| {
            live.begin();
        });
        let next = live.begin().expect("all are recorded");
        live.end(next, attempt(1, 100, &[(1, 1)]));
        // It comes when the next burst is under way.
        live.end(first, attempt(1, 0, &[(1, 1)]));
        let report = live.report(9);
        assert_eq!(report.all.contention.accesses, ACCESSES_MAX as u64 + 1);
        assert_eq!(report.left_out, 36 + 1);
    }
}
