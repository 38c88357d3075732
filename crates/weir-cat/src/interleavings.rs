//! Abort probability by brute force (cat-theorem.txt §3, Figure 2): all interleavings of some transactions, by the rules of serial equivalence.

use crate::history::Object;

/// An operation of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub object: Object,
    pub is_write: bool,
}

impl Operation {
    pub fn write(object: Object) -> Operation {
        Operation { object, is_write: true }
    }

    pub fn read(object: Object) -> Operation {
        Operation { object, is_write: false }
    }

    fn conflicts(self, other: Operation) -> bool {
        self.object == other.object && (self.is_write || other.is_write)
    }
}

/// Most transactions that are taken: a set of them is a byte.
pub const TRANSACTIONS_MAX: usize = 8;

/// Most interleavings that are looked at.
pub const INTERLEAVINGS_MAX: u64 = 20_000_000;

/// Interleavings, and those that are not serially equivalent: some transaction of each would have to abort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interleavings {
    pub all: u64,
    pub aborting: u64,
}

impl Interleavings {
    /// Share of the interleavings that abort a transaction: the abort probability if all are equally likely.
    pub fn abort_probability(self) -> f64 {
        if self.all == 0 { 0.0 } else { self.aborting as f64 / self.all as f64 }
    }
}

/// Counts the interleavings of these transactions. One is serially equivalent if the order of conflicting operations gives an order of the
/// transactions: if the precedence graph has no cycle.
///
/// # Errors
/// There are more than [`TRANSACTIONS_MAX`] transactions or [`INTERLEAVINGS_MAX`] interleavings; the text says which.
pub fn count(transactions: &[Vec<Operation>]) -> Result<Interleavings, String> {
    if transactions.len() > TRANSACTIONS_MAX {
        return Err(format!(
            "{} transactions are too many to interleave: take at most {TRANSACTIONS_MAX}",
            transactions.len()
        ));
    }
    let all = number_of(transactions).filter(|all| *all <= INTERLEAVINGS_MAX).ok_or_else(|| {
        format!("there are more than {INTERLEAVINGS_MAX} interleavings: take fewer or shorter transactions")
    })?;
    if conflicting_pairs(transactions) < 2 {
        // A cycle needs two conflicts.
        return Ok(Interleavings { all, aborting: 0 });
    }
    let mut walk = Walk { transactions, done: vec![0; transactions.len()], found: Interleavings::default() };
    walk.go(Precedence::default());
    debug_assert_eq!(walk.found.all, all);
    Ok(walk.found)
}

/// Pairs of operations of different transactions that conflict.
fn conflicting_pairs(transactions: &[Vec<Operation>]) -> usize {
    let pairs = transactions.iter().enumerate().flat_map(|(at, one)| {
        transactions[at + 1..]
            .iter()
            .flat_map(move |other| one.iter().flat_map(|a| other.iter().map(move |b| (a, b))))
    });
    pairs.filter(|(one, other)| one.conflicts(**other)).count()
}

/// The multinomial coefficient. None: it does not fit.
fn number_of(transactions: &[Vec<Operation>]) -> Option<u64> {
    let (mut all, mut placed) = (1u128, 0u128);
    for transaction in transactions {
        for at in 1..=transaction.len() as u128 {
            placed += 1;
            all = all.checked_mul(placed)? / at;
        }
    }
    u64::try_from(all).ok()
}

/// Which transaction comes before which, transitively: `before[a]` has bit `b` if a is before b.
#[derive(Clone, Copy, Debug, Default)]
struct Precedence {
    before: [u8; TRANSACTIONS_MAX],
    has_cycle: bool,
}

impl Precedence {
    fn add(&mut self, first: usize, second: usize) {
        if self.before[first] & (1 << second) != 0 {
            return;
        }
        let reached = self.before[second] | 1 << second;
        self.has_cycle |= reached & (1 << first) != 0;
        for from in 0..TRANSACTIONS_MAX {
            if from == first || self.before[from] & (1 << first) != 0 {
                self.before[from] |= reached;
            }
        }
    }
}

struct Walk<'a> {
    transactions: &'a [Vec<Operation>],
    /// Operations of each transaction that are placed.
    done: Vec<usize>,
    found: Interleavings,
}

impl Walk<'_> {
    fn go(&mut self, precedence: Precedence) {
        let mut is_whole = true;
        for next in 0..self.transactions.len() {
            let Some(operation) = self.transactions[next].get(self.done[next]).copied() else { continue };
            is_whole = false;
            let mut after = precedence;
            for (other, done) in self.done.iter().enumerate().filter(|(other, _)| *other != next) {
                let placed = &self.transactions[other][..*done];
                if placed.iter().any(|placed| placed.conflicts(operation)) {
                    after.add(other, next);
                }
            }
            self.done[next] += 1;
            self.go(after);
            self.done[next] -= 1;
        }
        if is_whole {
            self.found.all += 1;
            self.found.aborting += u64::from(precedence.has_cycle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(objects: &[Object]) -> Vec<Operation> {
        objects.iter().copied().map(Operation::write).collect()
    }

    #[track_caller]
    fn check(transactions: &[Vec<Operation>], all: u64, aborting: u64) {
        assert_eq!(count(transactions), Ok(Interleavings { all, aborting }), "{transactions:?}");
    }

    #[test]
    fn cases_counted_by_hand() {
        check(&[], 1, 0);
        check(&[writes(&[1, 2])], 1, 0);
        // One object in common orders two transactions one way or the other.
        check(&[writes(&[1, 2]), writes(&[1, 3])], 6, 0);
        // Two objects in common, in the same order: of six interleavings xyXY, XYxy, and those two that take the second object as they took the
        // first (xXyY, XxYy) are equivalent to serial ones; xXYy and XxyY are not.
        check(&[writes(&[1, 2]), writes(&[1, 2])], 6, 2);
        // In opposite orders: only the serial ones are.
        check(&[writes(&[1, 2]), writes(&[2, 1])], 6, 4);
        // Reads do not conflict with reads.
        let reads = vec![Operation::read(1), Operation::read(2)];
        check(&[reads.clone(), reads.clone()], 6, 0);
        check(&[reads, writes(&[1, 2])], 6, 2);
        // A lost update: both read, then both write.
        let update = vec![Operation::read(1), Operation::write(1)];
        check(&[update.clone(), update], 6, 4);
    }

    #[test]
    fn a_cycle_of_three_transactions_is_found() {
        // Each pair has one object in common: no pair is a cycle by itself.
        let ring = [writes(&[1, 2]), writes(&[2, 3]), writes(&[3, 1])];
        let found = count(&ring).expect("they are few");
        assert_eq!(found.all, 90);
        // Of the eight ways to order three conflicts two are cycles. Going round one way, each transaction's second object comes before the next
        // one's first: no order of operations allows it. The other way all first operations come before what follows them.
        assert_eq!(found.aborting, naive(&ring));
        assert!(found.aborting > 0);
    }

    /// Serial equivalence as the textbook says it: for some order of the transactions all conflicting operations come in that order.
    fn naive(transactions: &[Vec<Operation>]) -> u64 {
        let owners: Vec<usize> =
            transactions.iter().enumerate().flat_map(|(at, one)| vec![at; one.len()]).collect();
        let mut aborting = 0;
        each_arrangement(&owners, &mut |order| {
            let mut done = vec![0; transactions.len()];
            let placed: Vec<(usize, Operation)> = order
                .iter()
                .map(|at| {
                    done[*at] += 1;
                    (*at, transactions[*at][done[*at] - 1])
                })
                .collect();
            let mut is_serial = false;
            let names: Vec<usize> = (0..transactions.len()).collect();
            each_arrangement(&names, &mut |serial| {
                let rank = |one: usize| serial.iter().position(|at| *at == one);
                is_serial |= placed.iter().enumerate().all(|(at, (one, first))| {
                    placed[at + 1..].iter().all(|(other, second)| {
                        one == other || !first.conflicts(*second) || rank(*one) < rank(*other)
                    })
                });
            });
            aborting += u64::from(!is_serial);
        });
        aborting
    }

    /// All different arrangements of a sorted list.
    fn each_arrangement(of: &[usize], found: &mut dyn FnMut(&[usize])) {
        fn go(left: &mut Vec<usize>, taken: &mut Vec<usize>, found: &mut dyn FnMut(&[usize])) {
            if left.is_empty() {
                return found(taken);
            }
            for at in 0..left.len() {
                if at > 0 && left[at] == left[at - 1] {
                    continue;
                }
                taken.push(left.remove(at));
                go(left, taken, found);
                left.insert(at, taken.pop().expect("it was pushed"));
            }
        }
        go(&mut of.to_vec(), &mut Vec::new(), found);
    }

    #[test]
    fn it_agrees_with_the_textbook() {
        let mut chance = crate::chance::Chance::from_seed(1);
        for _ in 0..60 {
            let transactions: Vec<Vec<Operation>> = (0..2 + chance.below(2))
                .map(|_| {
                    let operation = |chance: &mut crate::chance::Chance| Operation {
                        object: chance.below(3),
                        is_write: chance.below(2) == 0,
                    };
                    (0..1 + chance.below(3)).map(|_| operation(&mut chance)).collect()
                })
                .collect();
            let found = count(&transactions).expect("they are few");
            assert_eq!(found.aborting, naive(&transactions), "{transactions:?}");
        }
    }

    #[test]
    fn too_much_is_refused() {
        assert!(count(&vec![writes(&[1]); 9]).expect_err("nine").contains("at most 8"));
        assert!(count(&vec![writes(&[1, 2, 3, 4, 5, 6]); 5]).expect_err("long").contains("fewer or shorter"));
        assert_eq!(number_of(&vec![writes(&[1, 2, 3, 4]); 3]), Some(34_650));
    }
}
