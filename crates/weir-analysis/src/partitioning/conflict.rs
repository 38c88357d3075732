//! Conflict detection (operation-partitioning.txt, Algorithm 1, lines 1–10): which pairs of transactions may meet,
//! on what, and which keys are equal whenever they do.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::Application;
use weir_sql::catalog::TableId;

use super::satisfiable::{Access, forced_keys};
use super::sets::{Cause, Entry, Kind, Sets, Touched};
use super::{Key, Keys};
use crate::effects::ProcedureEffects;

/// Everything that may make calls of two transactions (or of one) conflict.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// Procedure indexes; `left ≤ right`.
    pub left: usize,
    pub right: usize,
    /// Never empty.
    pub clauses: Vec<Clause>,
}

/// Two accesses that can mean one row.
#[derive(Clone, Debug)]
pub struct Clause {
    /// Index into the entries of `left` and of `right`.
    pub left: usize,
    pub right: usize,
    /// Whose access writes.
    pub left_writes: bool,
    pub right_writes: bool,
    /// What one writes and the other reads or writes.
    pub touched: Touched,
    /// A key of the left call and one of the right call that are equal whenever the two meet.
    pub keys: Vec<(Key, Key)>,
}

impl Clause {
    /// Calls that are routed by these keys meet at one server.
    pub fn is_local(&self, left: Keys, right: Keys) -> bool {
        self.keys.iter().any(|(a, b)| left.contains(*a) && right.contains(*b))
    }
}

impl Conflict {
    pub fn is_local(&self, left: Keys, right: Keys) -> bool {
        self.clauses.iter().all(|clause| clause.is_local(left, right))
    }
}

pub fn conflicts(app: &Application, effects: &[ProcedureEffects], sets: &Sets) -> Vec<Conflict> {
    let mut by_table: BTreeMap<TableId, Vec<(usize, usize)>> = BTreeMap::new();
    for (procedure, entries) in sets.entries.iter().enumerate() {
        for (index, entry) in entries.iter().enumerate() {
            by_table.entry(entry.table).or_default().push((procedure, index));
        }
    }
    let mut found: BTreeMap<(usize, usize), Vec<Clause>> = BTreeMap::new();
    for accesses in by_table.values() {
        for (at, &left) in accesses.iter().enumerate() {
            for &right in &accesses[at..] {
                let clauses = clauses(app, effects, sets, left, right);
                if !clauses.is_empty() {
                    found.entry((left.0, right.0)).or_default().extend(clauses);
                }
            }
        }
    }
    let conflict = |((left, right), clauses)| Conflict { left, right, clauses: without_repeats(clauses) };
    found.into_iter().map(conflict).collect()
}

/// Of clauses that demand the same, the first; the statements before what constraints do besides.
fn without_repeats(mut clauses: Vec<Clause>) -> Vec<Clause> {
    clauses.sort_by_key(|clause| (clause.left, clause.right));
    let mut seen = BTreeSet::new();
    clauses.retain(|clause| seen.insert((clause.left_writes, clause.right_writes, clause.keys.clone())));
    clauses
}

fn clauses(
    app: &Application,
    effects: &[ProcedureEffects],
    sets: &Sets,
    left: (usize, usize),
    right: (usize, usize),
) -> Vec<Clause> {
    let (one, other) = (&sets.entries[left.0][left.1], &sets.entries[right.0][right.1]);
    let Some(touched) = meeting(one, other) else { return Vec::new() };
    let mut clauses: Vec<Clause> = Vec::new();
    for left_atoms in &one.alternatives {
        for right_atoms in &other.alternatives {
            let side = |(procedure, _): (usize, usize), entry, atoms| Access {
                procedure,
                effects: &effects[procedure],
                entry,
                atoms,
            };
            let sides = [side(left, one, left_atoms), side(right, other, right_atoms)];
            if let Some(keys) = forced_keys(app, sets, sides)
                && !clauses.iter().any(|clause| clause.keys == keys)
            {
                clauses.push(Clause {
                    left: left.1,
                    right: right.1,
                    left_writes: one.kind.is_write(),
                    right_writes: other.kind.is_write(),
                    touched: touched.clone(),
                    keys,
                });
            }
        }
    }
    clauses
}

/// What both touch, if that is a conflict on one row.
fn meeting(one: &Entry, other: &Entry) -> Option<Touched> {
    if !one.kind.is_write() && !other.kind.is_write() {
        return None;
    }
    // Two inserts make two rows. Where they may not, a unique key has each look for the other's.
    if one.kind == Kind::Insert && other.kind == Kind::Insert {
        return None;
    }
    let touched: Touched = one.touched.intersection(&other.touched).copied().collect();
    (!touched.is_empty()).then_some(touched)
}

/// Reads for the sake of a constraint come after what the statements say, in reports.
pub fn is_statement(entry: &Entry) -> bool {
    entry.cause == Cause::Statement
}
