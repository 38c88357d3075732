//! Foreign keys: inserts see their parent, deletes may orphan (soundness S12).

use weir_sql::catalog::{ColumnIndex, ForeignKey, ForeignKeyAction, TableId};

use super::{GuardDraft, Outcome, combine, describe};
use crate::effects::{ColumnOperation, Operation, Term, TermId, Write};
use crate::plan::GuardKind;
use crate::verdict::Rule;
use crate::world::World;

pub fn judge(world: &World<'_>, table: TableId, index: usize, procedure: usize) -> Option<Outcome> {
    let key = &world.table(table).foreign_keys[index];
    let mut outcomes = Vec::new();
    // In the order in which they are made: the first of equal outcomes is the one that is told.
    let parents = world.own_writes(procedure, key.parent).filter(|_| key.parent != table);
    let mut writes: Vec<(usize, &Write)> = world.own_writes(procedure, table).chain(parents).collect();
    writes.sort_by_key(|(at, _)| *at);
    for (_, write) in writes {
        if write.table == table && names_nobody(world, procedure, write, key) {
            let because = "A NULL in the reference names no parent.";
            outcomes.push(Outcome::yes(Rule::ForeignKeyInsert, describe(world, write), because).proved());
        } else if makes_child(world, procedure, write, table, key) {
            outcomes.push(child(world, key, procedure, write));
        } else if write.table == table && write.is_delete() {
            let because = "A child that goes leaves nobody behind.";
            outcomes.push(Outcome::yes(Rule::ForeignKeyInsert, describe(world, write), because).proved());
        }
        if removes_parent(write, key) {
            outcomes.push(parent(world, table, key, write));
        }
    }
    combine(outcomes)
}

/// The reference that it writes is NULL.
fn names_nobody(world: &World<'_>, procedure: usize, write: &Write, key: &ForeignKey) -> bool {
    let terms = &world.effects[procedure].terms;
    let is_null = |term: TermId| matches!(terms.get(term), Term::Null);
    match &write.operation {
        Operation::Insert { values, on_conflict: None } => {
            key.columns.iter().any(|&column| is_null(values[column]))
        }
        Operation::Update { .. } => key.columns.iter().any(
            |&column| matches!(write.update_of(column), Some(ColumnOperation::Assign(term)) if is_null(term)),
        ),
        Operation::Insert { .. } | Operation::Delete { .. } => false,
    }
}

fn makes_child(world: &World<'_>, procedure: usize, write: &Write, table: TableId, key: &ForeignKey) -> bool {
    // An action of the key itself on its children is right by definition, but for a default that must exist.
    let own = write.action.is_some_and(|action| {
        let acting = &world.table(action.table).foreign_keys[action.key];
        action.table == table && acting.name == key.name
    });
    let set_default = [key.on_delete, key.on_update].contains(&ForeignKeyAction::SetDefault);
    write.table == table
        && (!own || set_default)
        && !names_nobody(world, procedure, write, key)
        && (write.is_insert() || key.columns.iter().any(|&column| write.update_of(column).is_some()))
}

fn removes_parent(write: &Write, key: &ForeignKey) -> bool {
    write.table == key.parent
        && (write.is_delete() || key.parent_columns.iter().any(|&column| write.update_of(column).is_some()))
}

fn cascades(write: &Write, key: &ForeignKey) -> bool {
    let action = if write.is_delete() { key.on_delete } else { key.on_update };
    action == ForeignKeyAction::Cascade
}

fn child(world: &World<'_>, key: &ForeignKey, procedure: usize, write: &Write) -> Outcome {
    let operation = describe(world, write);
    let parent = &world.table(key.parent).name;
    if !write.is_insert()
        && let Some(with) = world.composer(write.table, &key.columns, &|_, _| true)
    {
        let because = format!(
            "Merged with what {} does, the reference may be one that neither branch has looked up in {parent}.",
            world.name(with)
        );
        return Outcome { with: Some(with), ..Outcome::undecided(operation, because) };
    }
    let remover =
        world.writes_of(key.parent).find(|(_, other)| removes_parent(other, key) && !cascades(other, key));
    let Some((with, _)) = remover else {
        let cascading = world.writes_of(key.parent).any(|(_, other)| removes_parent(other, key));
        let outcome = if cascading {
            let because =
                format!("When its row of {parent} is deleted elsewhere, the merge deletes this one too.");
            Outcome::yes(Rule::ForeignKeyCascade, operation, because)
        } else {
            let because =
                format!("It sees its row of {parent}, nobody deletes those, and union makes none disappear.");
            Outcome::yes(Rule::ForeignKeyInsert, operation, because)
        };
        return if inserts_parent(world, key, procedure, write) { outcome.proved() } else { outcome };
    };
    let because = format!(
        "{} may remove the row of {parent} in the other branch; the merge has an orphan.",
        world.name(with)
    );
    Outcome::no(Rule::ForeignKeyDelete, with, operation, because).guarded(GuardDraft {
        kind: GuardKind::Claim,
        table: key.parent,
        columns: key.parent_columns.clone(),
        shared: true,
        statement: write.span,
        why: format!("holds its row of {parent} while the child comes to be"),
    })
}

fn parent(world: &World<'_>, table: TableId, key: &ForeignKey, write: &Write) -> Outcome {
    let operation = describe(world, write);
    let child = &world.table(table).name;
    if cascades(write, key) {
        let because = format!("Rows of {child} that come to be elsewhere go with their parent on merge.");
        return Outcome::yes(Rule::ForeignKeyCascade, operation, because).proved();
    }
    let makes = |(maker, other): &(usize, &Write)| makes_child(world, *maker, other, table, key);
    let Some((with, _)) = world.writes_of(table).find(makes) else {
        let because =
            format!("No transaction makes rows of {child}, so those that it sees are all there are.");
        return Outcome::yes(Rule::ForeignKeyChildOnly, operation, because);
    };
    let because = format!(
        "{} may insert into {child} in the other branch, for the row that goes here.",
        world.name(with)
    );
    Outcome::no(Rule::ForeignKeyDelete, with, operation, because).guarded(GuardDraft {
        kind: GuardKind::Claim,
        table: key.parent,
        columns: key.parent_columns.clone(),
        shared: false,
        statement: write.span,
        why: format!("nobody may make a row of {child} for it meanwhile"),
    })
}

/// The parent is inserted by the same transaction with the same values.
fn inserts_parent(world: &World<'_>, key: &ForeignKey, procedure: usize, write: &Write) -> bool {
    let Operation::Insert { values, .. } = &write.operation else { return false };
    let matches = |parent: &[crate::effects::TermId]| {
        let pairs = key.columns.iter().zip(&key.parent_columns);
        pairs
            .into_iter()
            .all(|(&child, &column): (&ColumnIndex, &ColumnIndex)| values[child] == parent[column])
    };
    world.own_writes(procedure, key.parent).any(|(_, other)| match &other.operation {
        Operation::Insert { values, .. } => matches(values),
        _ => false,
    })
}
