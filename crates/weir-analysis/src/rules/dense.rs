//! Density: the next number follows the largest in use; numbers in use have no gap.
//!
//! Atoms are a counter's column and max(), min() and count() of one column over groups of rows. What decides
//! is who adds numbers (only a counter's, taken at commit, keeps them dense) and who takes rows away (only
//! from the low end).

use std::collections::BTreeSet;

use weir_sql::bound::ExprKind;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::uncast;

use super::{Outcome, assertion, combine, describe, sequence_guard};
use crate::assertion::{Atom, Clause, Shape};
use crate::effects::{ColumnOperation, Operation, Write};
use crate::verdict::{Alone, Rule};
use crate::world::World;

/// Columns and tables of a density clause.
struct Numbers {
    /// Columns whose values are dense, each in its table.
    numbered: BTreeSet<(TableId, ColumnIndex)>,
    /// The counter's columns.
    counters: BTreeSet<(TableId, ColumnIndex)>,
    /// Further tables that are counted.
    counted: BTreeSet<TableId>,
}

pub fn judge(
    world: &World<'_>,
    shape: &Shape<'_>,
    _clause: &Clause<'_>,
    atoms: &[(i64, Atom<'_>)],
    procedure: usize,
) -> Option<Outcome> {
    let touching: Vec<&Write> =
        world.effects[procedure].writes.iter().filter(|write| assertion::touches(shape, write)).collect();
    let Some(numbers) = numbers(shape, atoms) else {
        let because = "No rule knows this combination of largest and smallest values.";
        return Some(Outcome::undecided(assertion::operations(world, &touching), because));
    };
    let outcomes = touching.iter().filter_map(|write| of_write(world, &numbers, procedure, write)).collect();
    combine(outcomes)
}

fn numbers(shape: &Shape<'_>, atoms: &[(i64, Atom<'_>)]) -> Option<Numbers> {
    use weir_sql::bound::AggregateFunction::{Count, Maximum, Minimum};
    let mut numbers =
        Numbers { numbered: BTreeSet::new(), counters: BTreeSet::new(), counted: BTreeSet::new() };
    for (_, atom) in atoms {
        match atom {
            Atom::Column((relation, column)) => {
                numbers.counters.insert((shape.table(*relation)?, *column));
            }
            Atom::Aggregate(group) => {
                let &[(relation, table)] = group.tables.as_slice() else { return None };
                match (group.function, group.argument) {
                    (Some(Count), _) => {
                        numbers.counted.insert(table);
                    }
                    (Some(Maximum | Minimum), Some(argument)) => match uncast(argument).kind {
                        ExprKind::Column { relation: of, column } if of == relation => {
                            numbers.numbered.insert((table, column));
                        }
                        _ => return None,
                    },
                    _ => return None,
                }
            }
        }
    }
    Some(numbers)
}

fn of_write(world: &World<'_>, numbers: &Numbers, procedure: usize, write: &Write) -> Option<Outcome> {
    let operation = describe(world, write);
    let column = numbers.numbered.iter().find(|(table, _)| *table == write.table).map(|(_, column)| *column);
    if let (Operation::Insert { values, .. }, Some(column)) = (&write.operation, column) {
        return Some(insert(world, procedure, values[column], operation));
    }
    if let (Operation::Delete { row }, Some(column)) = (&write.operation, column) {
        return Some(delete(world, procedure, *row, column, operation));
    }
    for &(table, counter) in &numbers.counters {
        if write.table == table && write.update_of(counter).is_some() {
            return Some(count_up(world, numbers, procedure, write, counter, operation));
        }
    }
    let renumbers = column.is_some_and(|column| write.update_of(column).is_some());
    let counted = numbers.counted.contains(&write.table) && !write.updates().is_empty();
    if renumbers || counted {
        let because = "It changes the numbers, or which group they are in, after they were given.";
        return Some(Outcome::no(Rule::DenseInsert, procedure, operation, because));
    }
    if numbers.counters.iter().any(|(table, _)| *table == write.table) {
        let because = "It adds or removes a counter together with its numbers.";
        return Some(Outcome::yes(Rule::DensePrefix, operation, because));
    }
    None
}

fn insert(world: &World<'_>, procedure: usize, number: crate::effects::TermId, operation: String) -> Outcome {
    match world.counter(procedure, number) {
        Some(counter) => {
            let name = world.column_name(counter.table, counter.column);
            let because = format!(
                "Two branches read the same {name} and use the same number; if they were given different \
                 ones, the merge would have a gap until both have come."
            );
            let outcome = Outcome::no(Rule::DenseInsert, procedure, operation, because).alone(Alone::Proved);
            if counter.adds { outcome.guarded(sequence_guard(world, &counter)) } else { outcome }
        }
        None => {
            let because = "The number comes from no counter that the transaction increments; two branches may \
                           use the same one or leave a gap.";
            Outcome::no(Rule::DenseInsert, procedure, operation, because)
        }
    }
}

/// The number is the lowest of the rows that the delete could have chosen from.
fn delete(
    world: &World<'_>,
    procedure: usize,
    row: crate::effects::ReadId,
    column: ColumnIndex,
    operation: String,
) -> Outcome {
    let effects = &world.effects[procedure];
    let target = effects.read(row);
    let number = target.key.iter().find(|(bound, _)| *bound == column).map(|(_, term)| *term);
    let lowest = number.is_some_and(|number| match effects.terms.get(number) {
        crate::effects::Term::Field { row: chosen, column: of } => {
            let chosen = effects.read(*chosen);
            let same_group = chosen.key.iter().all(|pair| target.key.contains(pair));
            chosen.table == target.table && chosen.lowest == Some(*of) && *of == column && same_group
        }
        _ => false,
    });
    if lowest {
        let because = "It takes the lowest number of its group. Each branch takes a prefix; the union of two \
                       prefixes is the longer one.";
        return Outcome::yes(Rule::DensePrefix, operation, because).proved();
    }
    let because = "It takes a number out of the middle, or the branches take different ones.";
    Outcome::no(Rule::DenseInsert, procedure, operation, because)
}

/// A change of the counter: right if it adds, and rows that bear the number come with it.
fn count_up(
    world: &World<'_>,
    numbers: &Numbers,
    procedure: usize,
    write: &Write,
    column: ColumnIndex,
    operation: String,
) -> Outcome {
    let effects = &world.effects[procedure];
    let bears = effects.writes.iter().find_map(|other| {
        let Operation::Insert { values, .. } = &other.operation else { return None };
        let (_, number) = numbers.numbered.iter().find(|(table, _)| *table == other.table)?;
        let counter = world.counter(procedure, values[*number])?;
        (counter.table == write.table && counter.column == column).then_some(counter)
    });
    match (write.update_of(column), bears) {
        (Some(ColumnOperation::Add(_)), Some(counter)) => {
            let name = world.column_name(counter.table, counter.column);
            let because = format!("Two branches hand out the same next number of {name}.");
            Outcome::no(Rule::DenseInsert, procedure, operation, because)
                .alone(Alone::Proved)
                .guarded(sequence_guard(world, &counter))
        }
        _ => {
            let because = "It changes the counter without rows that bear the number, or overwrites it.";
            Outcome::no(Rule::DenseInsert, procedure, operation, because).alone(Alone::No)
        }
    }
}
