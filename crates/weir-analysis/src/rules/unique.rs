//! Uniqueness: choose a specific value, choose some value, count one up, take one.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{Expr, ExprKind};
use weir_sql::catalog::{ColumnIndex, Index, TableId};

use super::{GuardDraft, Outcome, claim_guard, combine, describe, sequence_guard, settled};
use crate::effects::{ColumnOperation, Operation, Term, Write};
use crate::invariant::{InvariantKind, column_list, columns_of_all};
use crate::plan::GuardKind;
use crate::verdict::{Alone, Rule};
use crate::world::{ClaimedRow, Counter, KeySource, World, is_positive};

pub fn judge(
    world: &World<'_>,
    table: TableId,
    columns: &[ColumnIndex],
    kind: InvariantKind,
    procedure: usize,
) -> Option<Outcome> {
    let index = match kind {
        InvariantKind::UniqueIndex(at) => world.table(table).indexes.get(at),
        _ => None,
    };
    let predicate = &index.and_then(|index| index.written_predicate().cloned());
    let held = index.and_then(|index| index.predicate.as_ref());
    // A change can bring a row under a partial index's condition, unless a column of the key says so.
    let conditions = columns_of_all(held);
    let watched: Vec<ColumnIndex> = columns.iter().chain(&conditions).copied().collect();
    let mut outcomes = Vec::new();
    for (_, write) in world.own_writes(procedure, table) {
        if goes(world, predicate, procedure, write) {
            let because = "The row is none of those that the index compares.";
            outcomes.push(Outcome::yes(Rule::UniqueDelete, describe(world, write), because).proved());
        } else if is_plain(world, table, kind)
            && inserts_null(world, columns, procedure, write)
            && !nulls_are_equal(world, table, columns)
        {
            let because = "A key with a NULL in it is like no other.";
            outcomes.push(Outcome::yes(Rule::UniqueDelete, describe(world, write), because).proved());
        } else if write.is_insert() {
            outcomes.push(match is_plain(world, table, kind) {
                true => insert(world, columns, kind, procedure, write),
                false => chosen(world, columns, procedure, write, describe(world, write)),
            });
        } else if write.is_delete() {
            let because = "Removing rows cannot introduce a duplicate.";
            outcomes.push(Outcome::yes(Rule::UniqueDelete, describe(world, write), because).proved());
        }
        if !goes(world, predicate, procedure, write)
            && watched.iter().any(|&column| write.update_of(column).is_some())
        {
            let nulls_differ = is_plain(world, table, kind) && !nulls_are_equal(world, table, columns);
            outcomes.push(if nulls_differ && becomes_null(world, columns, &watched, procedure, write) {
                let because = "A key with a NULL in it is like no other.";
                Outcome::yes(Rule::UniqueDelete, describe(world, write), because).proved()
            } else {
                update(world, columns, &watched, predicate, procedure, write)
            });
        }
    }
    combine(outcomes)
}

/// A key over expressions may be equal where its columns are not.
fn is_plain(world: &World<'_>, table: TableId, kind: InvariantKind) -> bool {
    match kind {
        InvariantKind::UniqueIndex(at) => world.table(table).indexes[at]
            .keys
            .iter()
            .all(|key| matches!(key.expr.kind, ExprKind::Column { .. })),
        _ => true,
    }
}

/// EXCLUDE is uniqueness under other operators than equality. What these say of two values is not known here, so every
/// two rows may exclude each other, and no claim on one value keeps that apart: only order does.
pub fn exclusion(
    world: &World<'_>,
    table: TableId,
    index: usize,
    columns: &[ColumnIndex],
    procedure: usize,
) -> Option<Outcome> {
    let mut outcomes = Vec::new();
    let exclusion = &world.table(table).exclusions[index];
    let elements = &exclusion.elements;
    let compared: Vec<ColumnIndex> = elements.iter().filter_map(|(expr, _)| plain_column(expr)).collect();
    for (_, write) in world.own_writes(procedure, table) {
        if becomes_null(world, &compared, columns, procedure, write) {
            let because = "A row with a NULL in what is compared excludes no other.";
            outcomes.push(Outcome::yes(Rule::UniqueDelete, describe(world, write), because).proved());
        } else if goes(world, &exclusion.predicate, procedure, write) {
            let because = "It takes the row out of what is compared, which cannot introduce a conflict.";
            outcomes.push(Outcome::yes(Rule::UniqueDelete, describe(world, write), because).proved());
        } else if write.is_insert() || columns.iter().any(|&column| write.update_of(column).is_some()) {
            let because =
                "Two branches may each write a row that excludes the other's; neither sees the other's row.";
            outcomes.push(Outcome::no(Rule::UniqueChosen, procedure, describe(world, write), because));
        } else if write.is_delete() {
            let because = "Removing rows cannot introduce a conflict.";
            outcomes.push(Outcome::yes(Rule::UniqueDelete, describe(world, write), because).proved());
        }
    }
    combine(outcomes)
}

/// The row is not under the condition, or not any more.
fn goes(world: &World<'_>, predicate: &Option<Expr>, procedure: usize, write: &Write) -> bool {
    predicate.as_ref().is_some_and(|it| settled::after(world, procedure, write, it) == Some(false))
}

fn plain_column(expr: &Expr) -> Option<ColumnIndex> {
    match expr.kind {
        ExprKind::Column { column, .. } => Some(column),
        _ => None,
    }
}

fn insert(
    world: &World<'_>,
    columns: &[ColumnIndex],
    kind: InvariantKind,
    procedure: usize,
    write: &Write,
) -> Outcome {
    let operation = describe(world, write);
    let names = column_list(world.table(write.table), columns);
    match world.key_source(procedure, write, columns) {
        KeySource::Generated => {
            let because =
                format!("The database chooses some value for {names}: shards draw from disjoint shares.");
            let outcome = Outcome::yes(Rule::UniqueGenerated, operation, because);
            match chooser(world, write.table, columns) {
                Some(other) => outcome.assuming(format!(
                    "{} chooses no value that the generator has yet to give",
                    world.name(other)
                )),
                None => outcome,
            }
        }
        KeySource::Counted(counter) => match disturber(world, write.table, columns, &counter) {
            Some((other, because)) => Outcome::no(Rule::UniqueChosen, other, operation, because),
            None => counted(world, operation, &names, &counter, procedure),
        },
        KeySource::Taken(claim) if !takes_as_all(world, write, columns, &claim) => {
            chosen(world, columns, procedure, write, operation)
        }
        KeySource::Taken(claim) => {
            let taken = &world.table(claim.table).name;
            let because = format!("{names} is that of a row of {taken} which it takes; nobody else has it.");
            Outcome::yes(Rule::UniqueTaken, operation, because)
                .assuming(format!("the claim on the row of {taken}"))
                .relying_on(claim_guard(world, &claim))
        }
        KeySource::Upsert
            if kind == InvariantKind::PrimaryKey && !is_inserted(world, write.table, columns) =>
        {
            let because = "Two upserts of one key are operations on one row: there is nothing to collide.";
            Outcome::yes(Rule::UniqueUpsert, operation, because).proved()
        }
        KeySource::Upsert | KeySource::Chosen => chosen(world, columns, procedure, write, operation),
    }
}

/// Returns whether every inserter of keys of this kind claims such a row, at the same position in the key: otherwise the claims do not
/// conflict.
fn takes_as_all(world: &World<'_>, write: &Write, columns: &[ColumnIndex], claim: &ClaimedRow) -> bool {
    let own = places(write, columns, claim);
    inserts(world, write.table).all(|(other, insert)| match world.key_source(other, insert, columns) {
        KeySource::Generated => true,
        KeySource::Taken(theirs) => {
            let places = places(insert, columns, &theirs);
            theirs.table == claim.table
                && places.keys().eq(own.keys())
                && places.iter().all(|(column, at)| !at.is_disjoint(&own[column]))
        }
        KeySource::Upsert | KeySource::Counted(_) | KeySource::Chosen => false,
    })
}

/// Where in the new key each column of the claimed row's key stands.
fn places(
    write: &Write,
    columns: &[ColumnIndex],
    claim: &ClaimedRow,
) -> BTreeMap<ColumnIndex, BTreeSet<ColumnIndex>> {
    let Operation::Insert { values, .. } = &write.operation else { return BTreeMap::new() };
    let of = |term| columns.iter().copied().filter(move |&column| values[column] == term).collect();
    claim.key.iter().map(|&(column, term)| (column, of(term))).collect()
}

fn inserts<'w, 'a>(world: &'w World<'a>, table: TableId) -> impl Iterator<Item = (usize, &'a Write)> + 'w {
    world.writes_of(table).filter(|(_, write)| write.is_insert())
}

/// A transaction that inserts a number that the counter has not handed out, or sets the counter.
fn disturber(
    world: &World<'_>,
    table: TableId,
    columns: &[ColumnIndex],
    counter: &Counter,
) -> Option<(usize, String)> {
    let names = column_list(world.table(table), columns);
    let from = world.column_name(counter.table, counter.column);
    let brings = inserts(world, table).find(|(other, insert)| {
        !matches!(world.key_source(*other, insert, columns), KeySource::Counted(_) | KeySource::Generated)
    });
    if let Some((other, _)) = brings {
        let because = format!(
            "{} chooses {names} itself: in the other branch it may choose the number that {from} hands out here.",
            world.name(other)
        );
        return Some((other, because));
    }
    let sets = world.writes_of(counter.table).find(|(other, write)| match write.update_of(counter.column) {
        None => false,
        Some(ColumnOperation::Add(delta)) => !is_positive(world.effects[*other].terms.sign(delta)),
        Some(_) => true,
    });
    let (other, _) = sets.filter(|_| counter.adds)?;
    let because = format!("{} may set {from} back: then it hands out a number twice.", world.name(other));
    Some((other, because))
}

/// The number comes from the transaction's own counter. Whatever hands it out once is enough.
fn counted(
    world: &World<'_>,
    operation: String,
    names: &str,
    counter: &Counter,
    procedure: usize,
) -> Outcome {
    let from = world.column_name(counter.table, counter.column);
    if !counter.adds {
        let because = format!(
            "Two branches read the same {from}, use it for {names} and write back the same successor. \
             Written as {from} = {from} + 1 … RETURNING it could be taken at commit."
        );
        return Outcome::no(Rule::UniqueChosen, procedure, operation, because);
    }
    let because = format!("The number in {names} is handed out by {from}, once.");
    Outcome::yes(Rule::UniqueCounted, operation, because)
        .assuming(format!("the commit-time number of {from}"))
        .relying_on(sequence_guard(world, counter))
}

fn chosen(
    world: &World<'_>,
    columns: &[ColumnIndex],
    procedure: usize,
    write: &Write,
    operation: String,
) -> Outcome {
    let names = column_list(world.table(write.table), columns);
    let because =
        format!("Two branches may each choose the same value for {names}; neither sees the other's row.");
    let why = format!("tests and sets the chosen value of {names} at its owner");
    Outcome::no(Rule::UniqueChosen, procedure, operation, because).guarded(GuardDraft {
        kind: GuardKind::Claim,
        table: write.table,
        columns: columns.to_vec(),
        shared: false,
        statement: write.span,
        why,
    })
}

/// `watched`: the key's columns, and those of a partial index's condition.
fn update(
    world: &World<'_>,
    columns: &[ColumnIndex],
    watched: &[ColumnIndex],
    predicate: &Option<Expr>,
    procedure: usize,
    write: &Write,
) -> Outcome {
    // Beside other columns it would be one of two who make a key together, and has claimed nothing.
    let mut changes = watched.iter().filter_map(|&column| Some((column, write.update_of(column)?)));
    let generated = changes.all(|(column, change)| match change {
        ColumnOperation::Assign(term) => world.is_generated(procedure, write.table, column, term),
        _ => false,
    });
    if generated {
        let because = "The database chooses some value: shards draw from disjoint shares.";
        return Outcome::yes(Rule::UniqueGenerated, describe(world, write), because).alone(Alone::Checked);
    }
    let stays = |other: usize, write: &Write| !goes(world, predicate, other, write);
    if let Some(with) = world.composer(write.table, watched, &stays) {
        if predicate.is_none() {
            return held(world, columns, procedure, write, with);
        }
        let because = format!(
            "Merged with what {} does, the key may be one that neither branch has seen, nor claimed.",
            world.name(with)
        );
        return Outcome { with: Some(with), ..Outcome::undecided(describe(world, write), because) };
    }
    chosen(world, columns, procedure, write, describe(world, write))
}

/// Checks a change of a part of the key. Every such change claims the key, and so locks the row (ON CONFLICT and a parent's actions
/// always do): the rest of the key does not change meanwhile, and the new key is known when it is claimed. For a partial index some
/// writers claim nothing: those that remove rows from it.
fn held(world: &World<'_>, columns: &[ColumnIndex], procedure: usize, write: &Write, with: usize) -> Outcome {
    let because = format!(
        "Merged with what {} does, the key might be one that neither branch has seen: so whoever changes a part of it \
         holds the row, and claims what the key becomes.",
        world.name(with)
    );
    let outcome = chosen(world, columns, procedure, write, describe(world, write));
    Outcome { with: Some(with), because, ..outcome }
}

/// One of the columns is NULL after it: ON DELETE SET NULL, and `SET email = NULL`. `watched`: all columns that decide.
fn becomes_null(
    world: &World<'_>,
    columns: &[ColumnIndex],
    watched: &[ColumnIndex],
    procedure: usize,
    write: &Write,
) -> bool {
    let terms = &world.effects[procedure].terms;
    let is_null = |change: ColumnOperation| match change {
        ColumnOperation::Assign(term) => matches!(terms.get(term), Term::Null),
        _ => false,
    };
    let is_set_to_null = columns.iter().any(|&column| write.update_of(column).is_some_and(is_null));
    // Another part of the key that it sets might come to stand beside what the other branch sets instead of the NULL.
    let sets_no_more =
        || watched.iter().all(|&column| write.update_of(column).is_none_or(is_null)) && !write.is_insert();
    is_set_to_null && (write.action.is_some() || sets_no_more())
}

/// A new row with a NULL in its key. What ON CONFLICT would change is another row's.
fn inserts_null(world: &World<'_>, columns: &[ColumnIndex], procedure: usize, write: &Write) -> bool {
    let terms = &world.effects[procedure].terms;
    match &write.operation {
        Operation::Insert { values, .. } => {
            columns.iter().any(|&column| matches!(terms.get(values[column]), Term::Null))
        }
        Operation::Update { .. } | Operation::Delete { .. } => false,
    }
}

fn nulls_are_equal(world: &World<'_>, table: TableId, columns: &[ColumnIndex]) -> bool {
    let table = world.table(table);
    let holds = |column: &ColumnIndex, index: &Index| {
        index.keys.iter().any(|key| plain_column(&key.expr) == Some(*column))
    };
    table.unique_keys.iter().any(|key| key.nulls_not_distinct && key.columns == columns)
        || table.indexes.iter().any(|index| {
            index.unique && index.nulls_not_distinct && columns.iter().all(|column| holds(column, index))
        })
}

/// Returns whether some procedure inserts a chosen key without ON CONFLICT: concurrently with an upsert of the same key that makes a
/// second row.
fn is_inserted(world: &World<'_>, table: TableId, columns: &[ColumnIndex]) -> bool {
    world.writes_of(table).any(|(procedure, write)| {
        write.is_insert() && matches!(world.key_source(procedure, write, columns), KeySource::Chosen)
    })
}

/// Another procedure that chooses the value itself.
fn chooser(world: &World<'_>, table: TableId, columns: &[ColumnIndex]) -> Option<usize> {
    world.inserters(table).find(|&procedure| {
        world.own_writes(procedure, table).any(|(_, write)| {
            write.is_insert()
                && matches!(
                    world.key_source(procedure, write, columns),
                    KeySource::Chosen | KeySource::Upsert
                )
        })
    })
}
