//! Equalities between counters, sums and counts.

use std::collections::BTreeSet;

use weir_sql::bound::{AggregateFunction, ExprKind, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{self, uncast};

use super::{Outcome, assertion, balance, claim_guard, total};
use crate::assertion::{Atom, Clause, Group, Shape};
use crate::effects::{ColumnOperation, Write};
use crate::verdict::{Alone, Rule};
use crate::world::{ClaimedRow, KeySource, World};

/// Why a contribution may not survive the merge as it was.
struct Flaw {
    rule: Rule,
    with: usize,
    because: String,
}

struct Judge<'w, 'a> {
    world: &'w World<'a>,
    shape: &'w Shape<'w>,
    procedure: usize,
    /// Rows that the transaction claims count as its own.
    claims: bool,
    used: Vec<ClaimedRow>,
    assumes: BTreeSet<String>,
}

pub fn equality(
    world: &World<'_>,
    shape: &Shape<'_>,
    clause: &Clause<'_>,
    atoms: &[(i64, Atom<'_>)],
    procedure: usize,
) -> Option<Outcome> {
    let touching = touching(world, shape, atoms, procedure);
    if touching.is_empty() {
        return None;
    }
    let operation = assertion::operations(world, &touching);
    if let Some(group) = may_be_null(world, atoms) {
        let because = format!(
            "Without rows of {} the sum is NULL, and the condition holds whatever it is compared with; coalesce(…, 0) \
             would make it one that deltas keep.",
            world.table(group.tables[0].1).name
        );
        return Some(Outcome::undecided(operation, because));
    }
    let alone = match balance::is_balanced(world, shape, clause, atoms, procedure) {
        true => Alone::Proved,
        false => Alone::No,
    };
    let mut judge =
        Judge { world, shape, procedure, claims: false, used: Vec::new(), assumes: BTreeSet::new() };
    let Err(flaw) = judge.all(atoms, &touching) else {
        let because = "Both sides move by the same amount in each branch, and merged amounts add up.";
        let mut outcome = Outcome::yes(Rule::SumOfDeltas, operation, because).alone(alone);
        outcome = existing(outcome, &touching);
        return Some(judge.assumes.into_iter().fold(outcome, Outcome::assuming));
    };
    judge.claims = true;
    judge.assumes.clear();
    let kept = judge.all(atoms, &touching).is_ok();
    let mut outcome = Outcome::no(flaw.rule, flaw.with, operation, flaw.because).alone(alone);
    outcome = existing(outcome, &touching);
    if kept {
        for claim in &judge.used {
            outcome = outcome.guarded(claim_guard(world, claim));
        }
    }
    Some(judge.assumes.into_iter().fold(outcome, Outcome::assuming))
}

/// A sum that may have rows in one branch and none before.
fn may_be_null<'g, 'a>(world: &World<'_>, atoms: &'g [(i64, Atom<'a>)]) -> Option<&'g Group<'a>> {
    let groups = atoms.iter().filter_map(|(_, atom)| match atom {
        Atom::Aggregate(group) if total::may_be_none(group) => Some(group),
        _ => None,
    });
    groups.into_iter().find(|group| {
        group.tables.iter().any(|&(relation, table)| {
            let columns = columns_in(group, relation);
            let selects = |write: &Write| columns.iter().any(|&column| write.update_of(column).is_some());
            world.writes_of(table).any(|(_, write)| write.is_insert() || write.is_delete() || selects(write))
        })
    })
}

/// A proof by amounts takes for granted that an update or delete finds its row.
fn existing(outcome: Outcome, touching: &[&Write]) -> Outcome {
    match outcome.alone == Alone::Proved && touching.iter().any(|write| !write.is_insert()) {
        true => outcome.assuming("the rows that it changes exist"),
        false => outcome,
    }
}

/// Writes that move one of the atoms.
pub(super) fn touching<'a>(
    world: &World<'a>,
    shape: &Shape<'_>,
    atoms: &[(i64, Atom<'_>)],
    procedure: usize,
) -> Vec<&'a Write> {
    let mut places: BTreeSet<(TableId, Option<ColumnIndex>)> = BTreeSet::new();
    for (_, atom) in atoms {
        match atom {
            Atom::Column((relation, column)) => {
                if let Some(table) = shape.table(*relation) {
                    places.insert((table, Some(*column)));
                }
            }
            Atom::Aggregate(group) => {
                for &(relation, table) in &group.tables {
                    places.insert((table, None));
                    for column in columns_in(group, relation) {
                        places.insert((table, Some(column)));
                    }
                }
            }
        }
    }
    let tables: BTreeSet<TableId> = places.iter().map(|(table, _)| *table).collect();
    world.effects[procedure]
        .writes
        .iter()
        .filter(|write| {
            let existence = write.is_insert() || write.is_delete();
            let counts =
                existence && (places.contains(&(write.table, None)) || tables.contains(&write.table));
            counts || write.updates().iter().any(|(column, _)| places.contains(&(write.table, Some(*column))))
        })
        .collect()
}

/// The write changes a counter, or what a group counts.
pub fn moves(shape: &Shape<'_>, atoms: &[(i64, Atom<'_>)], write: &Write) -> bool {
    atoms.iter().any(|(_, atom)| match atom {
        Atom::Column((relation, column)) => {
            shape.table(*relation) == Some(write.table) && write.update_of(*column).is_some()
        }
        Atom::Aggregate(group) => group.tables.iter().any(|&(relation, table)| {
            let updates = |column| write.update_of(column).is_some();
            table == write.table
                && (write.is_insert()
                    || write.is_delete()
                    || columns_in(group, relation).into_iter().any(updates))
        }),
    })
}

/// Columns of one relation that decide what a group sums.
pub(super) fn columns_in(group: &Group<'_>, relation: RelationId) -> BTreeSet<ColumnIndex> {
    let mut columns = BTreeSet::new();
    let mut note = |of: RelationId, column| {
        if of == relation {
            columns.insert(column);
        }
    };
    group.filters.iter().for_each(|filter| walk::columns(filter, &mut note));
    group.argument.iter().for_each(|argument| walk::columns(argument, &mut note));
    group.keys.iter().for_each(|key| walk::columns(key, &mut note));
    columns
}

fn argument_columns(group: &Group<'_>, relation: RelationId) -> BTreeSet<ColumnIndex> {
    let mut columns = BTreeSet::new();
    if let Some(argument) = group.argument {
        walk::columns(argument, &mut |of, column| {
            if of == relation {
                columns.insert(column);
            }
        });
    }
    columns
}

/// The summed column, if the argument is one plain column that no filter mentions.
pub(super) fn summed_column(group: &Group<'_>, relation: RelationId) -> Option<ColumnIndex> {
    let ExprKind::Column { relation: of, column } = uncast(group.argument?).kind else { return None };
    let mut filtered = false;
    let mut note = |r: RelationId, c: ColumnIndex| filtered |= r == relation && c == column;
    group.filters.iter().for_each(|filter| walk::columns(filter, &mut note));
    (of == relation && group.function == Some(AggregateFunction::Sum) && !filtered).then_some(column)
}

impl Judge<'_, '_> {
    fn all(&mut self, atoms: &[(i64, Atom<'_>)], writes: &[&Write]) -> Result<(), Flaw> {
        // The most telling flaw first: a row that two branches take.
        let mut flaws = Vec::new();
        for write in writes {
            for (_, atom) in atoms {
                let result = match atom {
                    Atom::Column((relation, column)) if self.shape.table(*relation) == Some(write.table) => {
                        self.counter(atoms, *relation, *column, write)
                    }
                    Atom::Aggregate(group) => self.group(group, write),
                    Atom::Column(_) => Ok(()),
                };
                flaws.extend(result.err());
            }
        }
        match flaws.into_iter().min_by_key(|flaw| flaw.rule != Rule::TakenTwice) {
            Some(flaw) => Err(flaw),
            None => Ok(()),
        }
    }

    fn flaw(&self, rule: Rule, because: String) -> Result<(), Flaw> {
        Err(Flaw { rule, with: self.procedure, because })
    }

    fn counter(
        &mut self,
        atoms: &[(i64, Atom<'_>)],
        relation: RelationId,
        column: ColumnIndex,
        write: &Write,
    ) -> Result<(), Flaw> {
        let name = self.world.column_name(write.table, column);
        for (_, atom) in atoms {
            if let Atom::Aggregate(group) = atom {
                for link in columns_in(group, relation) {
                    if write.update_of(link).is_some() {
                        let link = self.world.column_name(write.table, link);
                        return self.flaw(
                            Rule::SumOverwritten,
                            format!("It moves the counter itself: it sets {link}."),
                        );
                    }
                }
            }
        }
        match write.update_of(column) {
            None => Ok(()),
            Some(ColumnOperation::Add(delta)) => self.delta(delta, &name),
            Some(_) => self.flaw(
                Rule::SumOverwritten,
                format!(
                    "It overwrites {name}. The merge keeps one of two overwrites, and both of what balanced them. \
                     Written as {name} = {name} + … it would add."
                ),
            ),
        }
    }

    fn delta(&mut self, delta: crate::effects::TermId, name: &str) -> Result<(), Flaw> {
        let Err(unsettled) = self.world.self_determined(self.procedure, delta, self.claims) else {
            self.note_claims_of(delta);
            return Ok(());
        };
        let table = &self.world.table(unsettled.table).name;
        let (what, with) = match unsettled.column {
            Some(column) => {
                let updater = self.world.updaters(unsettled.table, column).next();
                (self.world.column_name(unsettled.table, column), updater)
            }
            None => (format!("which rows of {table} there are"), None),
        };
        Err(Flaw {
            rule: Rule::TakenTwice,
            with: with.unwrap_or(self.procedure),
            because: format!(
                "What it adds to {name} depends on {what}, which the other branch reads and uses as well: it \
                 counts once in the merge, what is added counts twice."
            ),
        })
    }

    /// The claims that make a delta this transaction's own.
    fn note_claims_of(&mut self, delta: crate::effects::TermId) {
        if !self.claims {
            return;
        }
        let effects = &self.world.effects[self.procedure];
        for leaf in effects.terms.leaves(delta) {
            let rows = match effects.terms.get(leaf) {
                crate::effects::Term::Aggregate { rows, .. } => rows.clone(),
                crate::effects::Term::Field { row, column } => {
                    let table = effects.read(*row).table;
                    if self.world.keeps_its_value(table, *column) { Vec::new() } else { vec![*row] }
                }
                _ => Vec::new(),
            };
            for row in rows {
                let claim = self.world.covering_claim(self.procedure, &effects.read(row).key).cloned();
                self.use_claim(claim);
            }
        }
    }

    fn use_claim(&mut self, claim: Option<ClaimedRow>) {
        if let Some(claim) = claim
            && !self.used.iter().any(|used| used.statement == claim.statement)
        {
            self.used.push(claim);
        }
    }

    fn group(&mut self, group: &Group<'_>, write: &Write) -> Result<(), Flaw> {
        for &(relation, table) in group.tables.iter().filter(|(_, table)| *table == write.table) {
            self.multiplied(group, relation, write)?;
            if write.is_insert() {
                self.insert(group, table, write)?;
            }
            if write.is_delete() {
                // An addition to a row that goes is lost, but for transactions that have claimed it.
                self.claimed(write, summed_column(group, relation))?;
            }
            for column in columns_in(group, relation) {
                match write.update_of(column) {
                    None => {}
                    Some(ColumnOperation::Add(delta)) if summed_column(group, relation) == Some(column) => {
                        let name = self.world.column_name(table, column);
                        self.delta(delta, &name)?;
                        self.stays(group, relation, write, column)?;
                    }
                    Some(_) => self.claimed(write, Some(column))?,
                }
            }
        }
        Ok(())
    }

    fn insert(&mut self, group: &Group<'_>, table: TableId, write: &Write) -> Result<(), Flaw> {
        let definition = self.world.table(table);
        if let Some(key) = &definition.primary_key {
            if let KeySource::Upsert = self.world.key_source(self.procedure, write, &key.columns) {
                let because =
                    format!("Two upserts of one row of {} count once in the merge.", definition.name);
                return self.flaw(Rule::TakenTwice, because);
            }
            self.assumes.insert(format!("the primary key {}", key.name));
        }
        for &(_, other) in group.tables.iter().filter(|(_, other)| *other != table) {
            let appears = self.world.inserters(other).next().or_else(|| self.world.deleters(other).next());
            if let Some(with) = appears
                && !self.stays_together(table, other)
            {
                let name = &self.world.table(other).name;
                let because = format!(
                    "A row of {} here and its partner in {name} in the other branch are in no branch's sum, \
                     but in the merge's.",
                    definition.name
                );
                return Err(Flaw { rule: Rule::SumJoinApart, with, because });
            }
        }
        Ok(())
    }

    /// A summed value counts once for each row that it is joined with: where one branch changes the value and the
    /// other how many rows there are, the merge has what neither has counted. (§5.2 speaks of sums of deltas only.)
    fn multiplied(&self, group: &Group<'_>, relation: RelationId, write: &Write) -> Result<(), Flaw> {
        let world = self.world;
        let values = group.tables.iter().flat_map(|&(of, table)| {
            argument_columns(group, of).into_iter().map(move |column| (of, table, column))
        });
        for (of, table, column) in values.filter(|(_, table, column)| !world.keeps_its_value(*table, *column))
        {
            let many = |other: TableId| {
                !world.table(table).foreign_keys.iter().any(|key| key.parent == other)
                    && (world.inserters(other).next().is_some() || world.deleters(other).next().is_some())
            };
            let counted = of != relation && many(write.table) && (write.is_insert() || write.is_delete());
            let changed = of == relation
                && write.update_of(column).is_some()
                && group.tables.iter().any(|&(other, joined)| other != of && many(joined));
            if counted || changed {
                let name = world.column_name(table, column);
                return self.flaw(
                    Rule::SumJoinApart,
                    format!(
                        "{name} counts once for each row that it is joined with. One branch changes it and another \
                         how many there are."
                    ),
                );
            }
        }
        Ok(())
    }

    /// An amount added to a row counts in the merge only if the row does: it is not deleted or moved to another group, or the transaction
    /// that adds to it has claimed it too.
    fn stays(
        &mut self,
        group: &Group<'_>,
        relation: RelationId,
        write: &Write,
        summed: ColumnIndex,
    ) -> Result<(), Flaw> {
        let others: Vec<ColumnIndex> =
            columns_in(group, relation).into_iter().filter(|&column| column != summed).collect();
        let takes = |other: &Write| {
            other.is_delete() || others.iter().any(|&column| other.update_of(column).is_some())
        };
        match self.world.writes_of(write.table).any(|(_, other)| takes(other)) {
            true => self.claimed(write, Some(summed)),
            false => Ok(()),
        }
    }

    /// A row of one table is never new in one branch while its partner is new in the other.
    fn stays_together(&self, table: TableId, other: TableId) -> bool {
        let refers = |from: TableId, to: TableId| {
            self.world.table(from).foreign_keys.iter().any(|key| key.parent == to)
        };
        refers(table, other)
            || refers(other, table)
            || self.world.effects[self.procedure]
                .writes
                .iter()
                .any(|write| write.table == other && write.is_insert())
    }

    /// The write is of rows that only this transaction can reach, given its claim.
    fn claimed(&mut self, write: &Write, column: Option<ColumnIndex>) -> Result<(), Flaw> {
        let effects = &self.world.effects[self.procedure];
        let table = &self.world.table(write.table).name;
        let covering = self.world.covering_claim(self.procedure, &effects.key_of(write)).cloned();
        let settled = covering.as_ref().is_some_and(|claim| {
            column.is_none_or(|column| self.world.updates_are_claimed(write.table, column, claim.table))
        });
        if self.claims && settled {
            self.use_claim(covering);
            return Ok(());
        }
        let because = match column.filter(|_| !write.is_delete()) {
            None => format!(
                "Two branches take the same row of {table}: it goes once in the merge, what each adds elsewhere \
                 counts twice."
            ),
            Some(column) if matches!(write.update_of(column), Some(ColumnOperation::Add(_))) => format!(
                "The row of which it changes {} may be taken in the other branch: then the change is lost, and what \
                 balanced it is not.",
                self.world.column_name(write.table, column)
            ),
            Some(column) => format!(
                "Two branches set {} of the same row: it counts once in the merge, what each adds elsewhere \
                 counts twice.",
                self.world.column_name(write.table, column)
            ),
        };
        self.flaw(Rule::TakenTwice, because)
    }
}
