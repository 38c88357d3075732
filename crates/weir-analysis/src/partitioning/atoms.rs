//! An entry's condition as alternatives of atoms (operation-partitioning.txt §3.1: "in disjunctive normal form").
//!
//! Conditions of a statement on its row, and on every row that it joins, in one list. Conditions of another form are omitted, that is,
//! assumed true.

use std::collections::BTreeSet;

use weir_sql::catalog::ColumnIndex;
use weir_types::operator::Comparison;

use crate::effects::{Condition, Key, ProcedureEffects, ReadId, Term, TermId};

/// Number of alternatives that are distinguished.
const ALTERNATIVES_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operand {
    Term(TermId),
    /// A column of the entry's own row.
    Own(ColumnIndex),
    /// A column of another row that the statement found.
    Field(ReadId, ColumnIndex),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    /// Equal values, or both NULL.
    Same(Operand, Operand),
    /// These four only of values that are not NULL.
    Equal(Operand, Operand),
    NotEqual(Operand, Operand),
    Less(Operand, Operand),
    LessOrEqual(Operand, Operand),
    Null(Operand),
    NotNull(Operand),
}

/// Conditions on the row that an inserted value comes from, if there was such a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub row: ReadId,
    pub atoms: Vec<Atom>,
}

/// The condition of an entry: its row as found, and values that its columns have (`compared`: by `=`).
pub fn of(
    effects: &ProcedureEffects,
    row: Option<ReadId>,
    values: &Key,
    compared: bool,
) -> (Vec<Vec<Atom>>, Vec<Pending>) {
    let mut found = Gathering::new(effects, row);
    let mut pending = BTreeSet::new();
    for &(column, term) in values {
        let (left, right) = (Operand::Own(column), Operand::Term(term));
        found.atoms.push(if compared { Atom::Equal(left, right) } else { Atom::Same(left, right) });
        if let Term::Field { row, .. } = *effects.terms.get(term) {
            if compared {
                found.row(row);
            } else {
                pending.insert(row);
            }
        }
    }
    row.into_iter().for_each(|row| found.row(row));
    let pending = pending.into_iter().map(|row| {
        let mut gathering = Gathering::new(effects, None);
        gathering.row(row);
        Pending { row, atoms: gathering.atoms }
    });
    let pending = pending.filter(|pending| !pending.atoms.is_empty()).collect();
    (found.alternatives(), pending)
}

struct Gathering<'a> {
    effects: &'a ProcedureEffects,
    own: Option<ReadId>,
    seen: BTreeSet<ReadId>,
    atoms: Vec<Atom>,
    choices: Vec<Vec<Vec<Atom>>>,
}

impl<'a> Gathering<'a> {
    fn new(effects: &'a ProcedureEffects, own: Option<ReadId>) -> Gathering<'a> {
        Gathering { effects, own, seen: BTreeSet::new(), atoms: Vec::new(), choices: Vec::new() }
    }

    fn operand(&self, term: TermId) -> Operand {
        match *self.effects.terms.get(term) {
            Term::Field { row, column } => self.field(row, column),
            _ => Operand::Term(term),
        }
    }

    fn field(&self, row: ReadId, column: ColumnIndex) -> Operand {
        if self.own == Some(row) { Operand::Own(column) } else { Operand::Field(row, column) }
    }

    /// The row is there: its key, its conditions, and the rows that they name.
    fn row(&mut self, row: ReadId) {
        if !self.seen.insert(row) {
            return;
        }
        let read = self.effects.read(row);
        for &(column, term) in &read.key {
            self.atoms.push(Atom::Equal(self.field(row, column), self.operand(term)));
            self.follow(term);
        }
        read.conditions.iter().for_each(|condition| self.holds(condition));
    }

    fn follow(&mut self, term: TermId) {
        if let Term::Field { row, .. } = *self.effects.terms.get(term) {
            self.row(row);
        }
    }

    fn holds(&mut self, condition: &Condition) {
        match condition {
            Condition::All(list) => list.iter().for_each(|item| self.holds(item)),
            Condition::Any(list) => {
                let alternatives = list.iter().flat_map(|item| self.alternatives_of(item)).collect();
                self.choices.push(alternatives);
            }
            Condition::Row(row) => self.row(*row),
            Condition::Unknown => {}
            Condition::Compare { left, right, .. } => {
                self.atoms.extend(self.atom(condition));
                self.follow(*left);
                self.follow(*right);
            }
            Condition::Null { .. } => self.atoms.extend(self.atom(condition)),
        }
    }

    fn atom(&self, condition: &Condition) -> Option<Atom> {
        match condition {
            Condition::Compare { op, left, right } => {
                let (left, right) = (self.operand(*left), self.operand(*right));
                Some(match op {
                    Comparison::Equal => Atom::Equal(left, right),
                    Comparison::NotEqual => Atom::NotEqual(left, right),
                    Comparison::Less => Atom::Less(left, right),
                    Comparison::LessOrEqual => Atom::LessOrEqual(left, right),
                    Comparison::Greater => Atom::Less(right, left),
                    Comparison::GreaterOrEqual => Atom::LessOrEqual(right, left),
                })
            }
            Condition::Null { operand, negated: false } => Some(Atom::Null(self.operand(*operand))),
            Condition::Null { operand, negated: true } => Some(Atom::NotNull(self.operand(*operand))),
            _ => None,
        }
    }

    /// A nested condition, without the rows that it names.
    fn alternatives_of(&self, condition: &Condition) -> Vec<Vec<Atom>> {
        match condition {
            Condition::All(list) => {
                let parts: Vec<_> = list.iter().map(|item| self.alternatives_of(item)).collect();
                product(Vec::new(), &parts)
            }
            Condition::Any(list) => list.iter().flat_map(|item| self.alternatives_of(item)).collect(),
            other => vec![self.atom(other).into_iter().collect()],
        }
    }

    fn alternatives(self) -> Vec<Vec<Atom>> {
        let mut alternatives = product(self.atoms, &self.choices);
        for atoms in &mut alternatives {
            atoms.sort();
            atoms.dedup();
        }
        alternatives.sort();
        alternatives.dedup();
        alternatives
    }
}

/// Every combination; a factor that would make too many is left out.
fn product(certain: Vec<Atom>, factors: &[Vec<Vec<Atom>>]) -> Vec<Vec<Atom>> {
    let mut alternatives = vec![certain];
    for factor in factors {
        if alternatives.len() * factor.len() > ALTERNATIVES_MAX {
            continue;
        }
        let with = |atoms: &Vec<Atom>, more: &Vec<Atom>| atoms.iter().chain(more).copied().collect();
        let all = alternatives.iter().flat_map(|atoms| factor.iter().map(move |more| with(atoms, more)));
        alternatives = all.collect();
    }
    alternatives
}
