//! Contention Level (cat-theorem.txt §3).

use rustc_hash::FxHashMap;

use crate::history::{Object, Transaction};

/// Accesses, and those of them to objects that another concurrent transaction accessed too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contention {
    pub accesses: u64,
    /// At most `accesses`.
    pub common: u64,
}

impl Contention {
    /// From 0 to 1; 0 without accesses.
    pub fn level(self) -> f64 {
        if self.accesses == 0 { 0.0 } else { self.common as f64 / self.accesses as f64 }
    }
}

impl std::ops::AddAssign for Contention {
    fn add_assign(&mut self, other: Contention) {
        self.accesses += other.accesses;
        self.common += other.common;
    }
}

/// The paper's definition for one set of transactions that are all concurrent: accesses to objects that at least two of them access, and all
/// accesses.
pub fn of_set<A: AsRef<[Object]>>(transactions: &[A]) -> Contention {
    // By object: the first transaction that accesses it, whether a second one does, and the number of accesses.
    let mut objects: FxHashMap<Object, (usize, bool, u64)> = FxHashMap::default();
    for (number, transaction) in transactions.iter().enumerate() {
        for object in transaction.as_ref() {
            let (first, is_common, accesses) = objects.entry(*object).or_insert((number, false, 0));
            *is_common |= *first != number;
            *accesses += 1;
        }
    }
    let accesses = objects.values().map(|(_, _, accesses)| accesses).sum();
    let common =
        objects.values().filter(|(_, is_common, _)| *is_common).map(|(_, _, accesses)| accesses).sum();
    Contention { accesses, common }
}

/// The Contention Level of a history, where transactions overlap in part: an access is common if another transaction that is concurrent with
/// its own accesses the object too. For a set of transactions that are all concurrent it is [`of_set`].
pub fn of_history(history: &[Transaction]) -> Contention {
    let mut total = Contention::default();
    each_access(history, |_, _, is_common| {
        total.accesses += 1;
        total.common += u64::from(is_common);
    });
    total
}

/// Calls `found` for each access with the number of its transaction, its place within it, and whether it is common.
pub fn each_access(history: &[Transaction], mut found: impl FnMut(usize, usize, bool)) {
    let mut by_object: FxHashMap<Object, Vec<usize>> = FxHashMap::default();
    for (number, transaction) in history.iter().enumerate() {
        for object in &transaction.accesses {
            let accessors = by_object.entry(*object).or_default();
            // A transaction that accesses an object twice is listed once.
            if accessors.last() != Some(&number) {
                accessors.push(number);
            }
        }
    }
    let shared: FxHashMap<Object, Accessors> = by_object
        .into_iter()
        .filter(|(_, accessors)| accessors.len() > 1)
        .map(|(object, accessors)| (object, Accessors::new(history, accessors)))
        .collect();
    for (number, transaction) in history.iter().enumerate() {
        for (place, object) in transaction.accesses.iter().enumerate() {
            let is_common = shared.get(object).is_some_and(|accessors| accessors.overlap(transaction));
            found(number, place, is_common);
        }
    }
}

/// Begins and ends of the transactions that access one object, each in order.
struct Accessors {
    begins: Vec<u64>,
    ends: Vec<u64>,
}

impl Accessors {
    fn new(history: &[Transaction], accessors: Vec<usize>) -> Accessors {
        let mut begins: Vec<u64> = accessors.iter().map(|number| history[*number].begin_ns).collect();
        let mut ends: Vec<u64> = accessors.iter().map(|number| history[*number].end()).collect();
        begins.sort_unstable();
        ends.sort_unstable();
        Accessors { begins, ends }
    }

    /// Whether one of them, other than the transaction itself, is concurrent with it: those that began before its end, without those that
    /// ended up to its begin, are more than itself.
    fn overlap(&self, transaction: &Transaction) -> bool {
        let begun = self.begins.partition_point(|begin| *begin < transaction.end());
        let over = self.ends.partition_point(|end| *end <= transaction.begin_ns);
        begun.saturating_sub(over) > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    fn transaction(begin_ns: u64, end_ns: u64, accesses: &[Object]) -> Transaction {
        Transaction { begin_ns, end_ns, accesses: accesses.to_vec(), aborted: false }
    }

    #[test]
    fn the_example_of_the_paper() {
        let set = [vec![1, 2, 3], vec![4, 2, 5], vec![5, 6, 7]];
        let contention = of_set(&set);
        assert_eq!(contention, Contention { accesses: 9, common: 4 });
        assert!((contention.level() - 0.44).abs() < 0.005);
    }

    #[test]
    fn sets_made_by_hand() {
        let check = |set: &[Vec<Object>], accesses, common| {
            assert_eq!(of_set(set), Contention { accesses, common }, "{set:?}");
        };
        check(&[], 0, 0);
        check(&[vec![1, 1, 1]], 3, 0);
        check(&[vec![1], vec![2]], 2, 0);
        check(&[vec![1, 1], vec![1]], 3, 3);
        check(&[vec![1, 2], vec![1, 2], vec![1, 3]], 6, 5);
    }

    #[test]
    fn only_transactions_that_run_at_the_same_time_count() {
        let check = |history: &[Transaction], common| {
            assert_eq!(of_history(history).common, common, "{history:?}");
        };
        let first = transaction(0, 10, &[1, 2]);
        check(&[first.clone(), transaction(10, 20, &[1])], 0);
        check(&[first.clone(), transaction(9, 20, &[1])], 2);
        // The long one meets both short ones, which do not meet each other.
        check(&[transaction(0, 30, &[1]), transaction(1, 2, &[1]), transaction(5, 6, &[1])], 3);
        check(&[transaction(0, 3, &[1, 1, 1])], 0);
        check(&[first.clone(), transaction(5, 5, &[1])], 2);
        check(&[first, transaction(10, 10, &[1])], 0);
    }

    /// The definition, word by word.
    fn naive(history: &[Transaction]) -> Contention {
        let mut total = Contention::default();
        for (number, transaction) in history.iter().enumerate() {
            for object in &transaction.accesses {
                let meets = |(other, one): (usize, &Transaction)| {
                    other != number && one.is_concurrent(transaction) && one.accesses.contains(object)
                };
                total.accesses += 1;
                total.common += u64::from(history.iter().enumerate().any(meets));
            }
        }
        total
    }

    #[test]
    fn the_fast_one_agrees_with_the_definition() {
        for seed in 0..200 {
            let mut chance = Chance::from_seed(seed);
            let mut one = || {
                let begin_ns = chance.below(60);
                let end_ns = begin_ns + chance.below(12);
                let accesses = (0..chance.below(5)).map(|_| chance.below(8)).collect();
                Transaction { begin_ns, end_ns, accesses, aborted: false }
            };
            let history: Vec<Transaction> = (0..30).map(|_| one()).collect();
            assert_eq!(of_history(&history), naive(&history), "seed {seed}");
        }
    }

    #[test]
    fn a_history_of_one_set_is_the_set() {
        let mut chance = Chance::from_seed(3);
        let set: Vec<Vec<Object>> = (0..7).map(|_| (0..8).map(|_| chance.below(40)).collect()).collect();
        let history: Vec<Transaction> = set.iter().map(|accesses| transaction(0, 1, accesses)).collect();
        assert_eq!(of_history(&history), of_set(&set));
    }
}
