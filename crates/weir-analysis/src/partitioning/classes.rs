//! The partitioning array and the classes (operation-partitioning.txt §3.1 "Partitioning optimization", "Multiple
//! partitioning parameters", and §3.2).

use std::collections::BTreeSet;

use super::conflict::{Clause, Conflict};
use super::search::{self, Method, Problem, Solution};
use super::{Because, Key, Keys, Routing, STEPS_MAX};
use crate::plan::Class;

/// More parameters than this that must agree are hardly ever at one server.
const OTHERS_MAX: usize = 3;

pub struct Array {
    /// By procedure.
    pub transactions: Vec<Routing>,
    pub cost: u64,
    pub bound: u64,
    pub method: Method,
}

/// `weights` and `declared` by procedure: a transaction with parameters that declared placements name is routed by
/// one of these, or by none.
pub fn array(conflicts: &[Conflict], weights: &[u64], declared: &[BTreeSet<usize>]) -> Array {
    let procedures = weights.len();
    let all = choices(procedures, conflicts);
    let choices: Vec<Vec<Option<usize>>> = all
        .iter()
        .zip(declared)
        .map(|(list, declared)| {
            let may = |choice: &Option<usize>| choice.is_none_or(|parameter| declared.contains(&parameter));
            let named: Vec<Option<usize>> = list.iter().copied().filter(may).collect();
            if named.iter().any(Option::is_some) { named } else { list.clone() }
        })
        .collect();
    let problem = problem(&choices, conflicts, weights);
    let Solution { choices: chosen, cost, bound, method } = search::minimise(&problem, STEPS_MAX);
    let homes = chosen.iter().zip(&choices).map(|(&choice, list)| list[choice]).collect();
    let mut routing = Classifier::new(conflicts, &choices, &all, homes);
    routing.settle_ties(&problem, chosen, weights);
    let transactions = (0..procedures).map(|procedure| routing.classify(procedure)).collect();
    Array { transactions, cost, bound, method }
}

/// For each transaction the parameters that some clause forces equal to a key of the other call, and none.
fn choices(procedures: usize, conflicts: &[Conflict]) -> Vec<Vec<Option<usize>>> {
    let mut choices = vec![BTreeSet::from([None]); procedures];
    for conflict in conflicts {
        for (left, right) in conflict.clauses.iter().flat_map(|clause| &clause.keys) {
            for (procedure, key) in [(conflict.left, left), (conflict.right, right)] {
                if let Key::Parameter(index) = key {
                    choices[procedure].insert(Some(*index));
                }
            }
        }
    }
    choices.into_iter().map(|set| set.into_iter().collect()).collect()
}

/// Algorithm 1's cost function as tables: each conflict that is not local costs both weights.
fn problem(choices: &[Vec<Option<usize>>], conflicts: &[Conflict], weights: &[u64]) -> Problem {
    let mut problem =
        Problem { single: choices.iter().map(|list| vec![0; list.len()]).collect(), ..Problem::default() };
    for conflict in conflicts {
        let (left, right) = (conflict.left, conflict.right);
        let cost =
            |a: &Option<usize>, b: &Option<usize>| match conflict.is_local(Keys::new(*a), Keys::new(*b)) {
                true => 0,
                false => weights[left] + weights[right],
            };
        if left == right {
            let own = choices[left].iter().map(|choice| cost(choice, choice));
            problem.single[left].iter_mut().zip(own).for_each(|(total, cost)| *total += cost);
        } else {
            let row = |a| choices[right].iter().map(|b| cost(a, b)).collect();
            problem.pairs.insert((left, right), choices[left].iter().map(row).collect());
        }
    }
    problem
}

/// A conflict seen from one transaction.
struct Side {
    conflict: usize,
    other: usize,
    /// The transaction is the conflict's left one.
    left: bool,
}

struct Classifier<'a> {
    conflicts: &'a [Conflict],
    /// By procedure.
    sides: Vec<Vec<Side>>,
    choices: &'a [Vec<Option<usize>>],
    /// Those for further parameters, whatever is declared.
    all: &'a [Vec<Option<usize>>],
    homes: Vec<Option<usize>>,
    /// By procedure, by set of parameters to be routed by (the home alone first): how many of its sides are not
    /// local then.
    blocked: Vec<Vec<usize>>,
}

impl<'a> Classifier<'a> {
    fn new(
        conflicts: &'a [Conflict],
        choices: &'a [Vec<Option<usize>>],
        all: &'a [Vec<Option<usize>>],
        homes: Vec<Option<usize>>,
    ) -> Classifier<'a> {
        let mut sides: Vec<Vec<Side>> = homes.iter().map(|_| Vec::new()).collect();
        for (index, conflict) in conflicts.iter().enumerate() {
            sides[conflict.left].push(Side { conflict: index, other: conflict.right, left: true });
            sides[conflict.right].push(Side { conflict: index, other: conflict.left, left: false });
        }
        let mut classifier = Classifier { conflicts, sides, choices, all, homes, blocked: Vec::new() };
        classifier.blocked =
            (0..classifier.homes.len()).map(|procedure| classifier.blocked_sides(procedure)).collect();
        classifier
    }

    fn blocked_sides(&self, procedure: usize) -> Vec<usize> {
        let count = |keys| {
            self.sides[procedure].iter().filter(|side| self.blocking_clause(side, keys).is_some()).count()
        };
        self.key_sets(procedure).into_iter().map(count).collect()
    }

    /// The home alone, and then with others.
    fn key_sets(&self, procedure: usize) -> Vec<Keys> {
        let home = self.homes[procedure];
        let with = |others: Vec<usize>| Keys::new(home.into_iter().chain(others));
        [Keys::new(home)].into_iter().chain(self.other_parameters(procedure).into_iter().map(with)).collect()
    }

    /// Routes a procedure by another parameter, and counts anew what that changes.
    fn set_home(&mut self, procedure: usize, home: Option<usize>) -> Option<usize> {
        let of_others = |this: &Self, side: &Side| -> Vec<bool> {
            let seen = Side { conflict: side.conflict, other: procedure, left: !side.left };
            let sets = this.key_sets(side.other).into_iter();
            sets.map(|keys| this.blocking_clause(&seen, keys).is_some()).collect()
        };
        let beside = |side: &&Side| side.other != procedure;
        let before: Vec<Vec<bool>> =
            self.sides[procedure].iter().filter(beside).map(|side| of_others(self, side)).collect();
        let old = std::mem::replace(&mut self.homes[procedure], home);
        let after: Vec<(usize, Vec<bool>)> = self.sides[procedure]
            .iter()
            .filter(beside)
            .map(|side| (side.other, of_others(self, side)))
            .collect();
        for ((other, after), before) in after.into_iter().zip(before) {
            let counts = self.blocked[other].iter_mut();
            for ((count, now), then) in counts.zip(after).zip(before) {
                *count = *count + usize::from(now) - usize::from(then);
            }
        }
        self.blocked[procedure] = self.blocked_sides(procedure);
        old
    }

    fn class(&self, procedure: usize) -> Class {
        match self.blocked[procedure].iter().position(|&count| count == 0) {
            _ if self.sides[procedure].is_empty() => Class::Commutative,
            Some(0) => Class::Local,
            Some(_) => Class::LocalOrGlobal,
            None => Class::Global,
        }
    }

    /// Among arrays of equal cost prefers, one change at a time, those with less weight of global calls, and of
    /// those the ones in which fewer clauses are left between servers.
    fn settle_ties(&mut self, problem: &Problem, mut chosen: Vec<usize>, weights: &[u64]) {
        let neighbours = problem.neighbours();
        let mut progress = true;
        while progress {
            progress = false;
            for procedure in 0..chosen.len() {
                for choice in 0..self.choices[procedure].len() {
                    let cost = |choice| problem.cost_at(&neighbours[procedure], &chosen, procedure, choice);
                    if choice != chosen[procedure]
                        && cost(choice) == cost(chosen[procedure])
                        && self.prefers(procedure, self.choices[procedure][choice], weights)
                    {
                        chosen[procedure] = choice;
                        progress = true;
                    }
                }
            }
        }
    }

    /// Routes the procedure by `home` if that is better.
    fn prefers(&mut self, procedure: usize, home: Option<usize>, weights: &[u64]) -> bool {
        let mut around: BTreeSet<usize> = self.sides[procedure].iter().map(|side| side.other).collect();
        around.insert(procedure);
        let weigh = |this: &Self| -> (u64, usize) {
            let share = |class| match class {
                Class::Commutative | Class::Local => 0,
                Class::LocalOrGlobal => 1,
                Class::Global => 2,
            };
            let global = around.iter().map(|&other| share(this.class(other)) * weights[other]);
            (global.sum(), this.clauses_left(procedure))
        };
        let before = weigh(self);
        let old = self.set_home(procedure, home);
        let better = weigh(self) < before;
        if !better {
            self.set_home(procedure, old);
        }
        better
    }

    /// Number of clauses of a transaction's conflicts that are not local.
    fn clauses_left(&self, procedure: usize) -> usize {
        let left = |side: &Side| {
            let conflict = &self.conflicts[side.conflict];
            let keys = |of: usize| Keys::new(self.homes[of]);
            let (left, right) = (keys(conflict.left), keys(conflict.right));
            conflict.clauses.iter().filter(|clause| !clause.is_local(left, right)).count()
        };
        self.sides[procedure].iter().map(left).sum()
    }

    fn classify(&self, procedure: usize) -> Routing {
        let home = self.homes[procedure];
        let routing = |class, others, because| Routing { class, home, others, because };
        if self.sides[procedure].is_empty() {
            return routing(Class::Commutative, Vec::new(), None);
        }
        let Some(because) = self.not_local(procedure, Keys::new(home)) else {
            return routing(Class::Local, Vec::new(), None);
        };
        for others in self.other_parameters(procedure) {
            let keys = Keys::new(home.into_iter().chain(others.iter().copied()));
            if self.not_local(procedure, keys).is_none() {
                return routing(Class::LocalOrGlobal, others, Some(because));
            }
        }
        routing(Class::Global, Vec::new(), Some(because))
    }

    /// Sets of parameters beside the home, small ones first.
    fn other_parameters(&self, procedure: usize) -> Vec<Vec<usize>> {
        let home = self.homes[procedure];
        if home.is_none() {
            return Vec::new();
        }
        let candidates: Vec<usize> =
            self.all[procedure].iter().flatten().copied().filter(|&index| Some(index) != home).collect();
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        let mut all = Vec::new();
        for _ in 0..OTHERS_MAX {
            let larger = |set: &Vec<usize>| {
                let from = set.last().map_or(0, |last| last + 1);
                let more = candidates.iter().filter(move |&&index| index >= from);
                more.map(|&index| set.iter().copied().chain([index]).collect()).collect::<Vec<Vec<usize>>>()
            };
            sets = sets.iter().flat_map(larger).collect();
            all.extend(sets.iter().cloned());
        }
        all
    }

    /// The first clause by which a call that is routed elsewhere reads or writes what a call with these keys
    /// writes (§3.2, conditions i and ii). What a statement says comes before what a constraint does.
    fn not_local(&self, procedure: usize, keys: Keys) -> Option<Because> {
        self.sides[procedure].iter().find_map(|side| {
            let clause = self.blocking_clause(side, keys)?;
            Some(Because { conflict: side.conflict, clause, left: side.left })
        })
    }

    fn blocking_clause(&self, side: &Side, keys: Keys) -> Option<usize> {
        // The other call may have parameters that disagree: then it runs at its home.
        let theirs = Keys::new(self.homes[side.other]);
        let blocks = |clause: &Clause| match side.left {
            true => clause.left_writes && !clause.is_local(keys, theirs),
            false => clause.right_writes && !clause.is_local(theirs, keys),
        };
        self.conflicts[side.conflict].clauses.iter().position(blocks)
    }
}
