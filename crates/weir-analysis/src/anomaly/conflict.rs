//! Which reads of one transaction another one (or another call of it) would change: read-write dependencies.
//!
//! Rows may meet unless both sides name different constants. What a claim, a lock or the operation itself takes
//! care of is no dependency: `x = x + d` reads nothing.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::catalog::ColumnIndex;

use crate::effects::{ColumnOperation, Condition, Key, ProcedureEffects, ReadId, Term, TermId, Write};
use crate::world::{World, unique_part};

/// A read of one transaction, and the write (of another one) that it does not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub read: ReadId,
    /// Index into the writer's writes.
    pub write: usize,
    /// `None`: whether the row is there.
    pub column: Option<ColumnIndex>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The writer.
    pub with: usize,
    pub item: Item,
}

/// Dependencies of one transaction: items that it reads and some transaction writes.
#[derive(Debug, Default)]
pub struct Dependencies {
    /// In the order of its reads.
    pub list: Vec<Dependency>,
    /// By writer, indexes into the list, in order.
    by_writer: BTreeMap<usize, Vec<usize>>,
}

impl Dependencies {
    pub fn of(world: &World<'_>, procedure: usize) -> Dependencies {
        let list = dependencies(world, procedure);
        let mut by_writer: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, dependency) in list.iter().enumerate() {
            by_writer.entry(dependency.with).or_default().push(index);
        }
        Dependencies { list, by_writer }
    }

    /// Dependencies on one writer, from this index of the list on.
    pub fn on(&self, writer: usize, from: usize) -> impl Iterator<Item = &Dependency> {
        let of_writer = self.by_writer.get(&writer).map_or(&[][..], Vec::as_slice);
        let first = of_writer.partition_point(|&index| index < from);
        of_writer[first..].iter().map(|&index| &self.list[index])
    }
}

fn dependencies(world: &World<'_>, procedure: usize) -> Vec<Dependency> {
    let effects = &world.effects[procedure];
    let mut list = Vec::new();
    for index in 0..effects.reads.len() {
        let id = ReadId(index as u32);
        let read = effects.read(id);
        let held = read.locked || world.covering_claim(procedure, &read.key).is_some();
        if held {
            continue;
        }
        let columns = read_columns(world, procedure, id);
        let table = world.table(read.table);
        let unique = unique_part(table, &read.key).is_some();
        let mut writers: BTreeSet<usize> =
            columns.iter().flat_map(|&column| world.updaters(read.table, column)).collect();
        if !columns.is_empty() {
            writers.extend(world.deleters(read.table));
        }
        if !unique {
            writers.extend(world.inserters(read.table));
        }
        for with in writers {
            let writer = &world.effects[with];
            for (at, write) in world.own_writes(with, read.table) {
                let column = columns.iter().copied().find(|&column| write.update_of(column).is_some());
                let existence = write.is_delete() && !columns.is_empty() || write.is_insert() && !unique;
                let meets = may_meet(effects, &read.key, writer, &writer.key_of(write));
                if (column.is_some() || existence) && meets {
                    list.push(Dependency { with, item: Item { read: id, write: at, column } });
                }
            }
        }
    }
    list
}

/// The columns whose value matters: not those that a merged operation (`x = x + d`) only adds to, and not the
/// key of a row that is only written.
fn read_columns(world: &World<'_>, procedure: usize, id: ReadId) -> BTreeSet<ColumnIndex> {
    let effects = &world.effects[procedure];
    let read = effects.read(id);
    let mut columns = read.columns.clone();
    if let Some(write) = world.write_of_row(procedure, id) {
        let mut conditions = BTreeSet::new();
        read.conditions
            .iter()
            .for_each(|condition| condition_columns(effects, id, condition, &mut conditions));
        conditions.extend(read.key.iter().map(|(column, _)| *column));
        let name: BTreeSet<ColumnIndex> = unique_part(world.table(read.table), &read.key)
            .into_iter()
            .flatten()
            .map(|(column, _)| column)
            .collect();
        let merged = |column: &ColumnIndex| {
            write.update_of(*column).is_some_and(|operation| !matches!(operation, ColumnOperation::Assign(_)))
        };
        columns.retain(|column| !name.contains(column) && (conditions.contains(column) || !merged(column)));
    }
    columns
}

fn condition_columns(
    effects: &ProcedureEffects,
    row: ReadId,
    condition: &Condition,
    columns: &mut BTreeSet<ColumnIndex>,
) {
    let mut terms = |terms: &[TermId]| {
        for leaf in terms.iter().flat_map(|&term| effects.terms.leaves(term)) {
            match *effects.terms.get(leaf) {
                Term::Field { row: of, column } if of == row => {
                    columns.insert(column);
                }
                _ => {}
            }
        }
    };
    match condition {
        Condition::Compare { left, right, .. } => terms(&[*left, *right]),
        Condition::Null { operand, .. } => terms(&[*operand]),
        Condition::All(list) | Condition::Any(list) => {
            list.iter().for_each(|condition| condition_columns(effects, row, condition, columns));
        }
        Condition::Row(_) => {}
        // A condition of another form may look at every column that the statement reads.
        Condition::Unknown => columns.extend(&effects.read(row).columns),
    }
}

/// No column has to have two different constants.
pub(crate) fn may_meet(left: &ProcedureEffects, one: &Key, right: &ProcedureEffects, other: &Key) -> bool {
    one.iter().all(|(column, term)| {
        other.iter().filter(|(bound, _)| bound == column).all(|(_, with)| {
            match (left.terms.get(*term), right.terms.get(*with)) {
                (Term::Integer(a), Term::Integer(b)) => a == b,
                (Term::Literal(a, _), Term::Literal(b, _)) => a == b,
                (_, Term::Generated(_)) | (Term::Generated(_), _) => false,
                _ => true,
            }
        })
    })
}

/// The read of the column that a write of the same row overwrites, and whether the value comes from it; `None`
/// where it is held meanwhile.
pub fn read_before(
    world: &World<'_>,
    procedure: usize,
    write: usize,
    row: ReadId,
    column: ColumnIndex,
    term: TermId,
) -> Option<(ReadId, bool)> {
    let effects = &world.effects[procedure];
    let target = effects.read(row);
    let same_row = |id: ReadId| {
        let read = effects.read(id);
        read.table == target.table && (id == row || !read.key.is_empty() && read.key == target.key)
    };
    let held = |id: ReadId| effects.read(id).locked || world.covering_claim(procedure, &target.key).is_some();
    let from_itself = effects.terms.leaves(term).into_iter().find_map(|leaf| {
        let Term::Field { row: source, column: of } = *effects.terms.get(leaf) else { return None };
        (of == column && same_row(source)).then_some(source)
    });
    if let Some(source) = from_itself {
        return (!held(source)).then_some((source, true));
    }
    let order = effects.writes[write].moment.order;
    world
        .own_reads(procedure, target.table)
        .find(|&id| {
            let read = effects.read(id);
            let decides = match id == row {
                true => {
                    read_columns(world, procedure, id).contains(&column)
                        && !key_of_row(world, procedure, id, column)
                }
                false => read.columns.contains(&column) && read.moment.order <= order,
            };
            decides && same_row(id)
        })
        .filter(|&id| !held(id))
        .map(|id| (id, false))
}

/// The column only says which row it is.
fn key_of_row(world: &World<'_>, procedure: usize, id: ReadId, column: ColumnIndex) -> bool {
    let read = world.effects[procedure].read(id);
    unique_part(world.table(read.table), &read.key)
        .is_some_and(|key| key.iter().any(|(bound, _)| *bound == column))
}

/// Both write the same columns of the same row from what they read of it: that is a lost update.
pub fn same_write(world: &World<'_>, procedure: usize, out: &Dependency, back: &Dependency) -> bool {
    let (own, other) = (&world.effects[procedure], &world.effects[out.with]);
    let (theirs, ours) = (&other.writes[out.item.write], &own.writes[back.item.write]);
    let assigns = |write: &Write, column: Option<ColumnIndex>| {
        column.is_some_and(|column| matches!(write.update_of(column), Some(ColumnOperation::Assign(_))))
    };
    let unique = |effects: &ProcedureEffects, write: &Write, read: ReadId| {
        let key = effects.key_of(write);
        unique_part(world.table(write.table), &key).is_some() && effects.read(read).key == key
    };
    theirs.table == ours.table
        && out.item.column == back.item.column
        && (assigns(theirs, out.item.column) && assigns(ours, back.item.column) || theirs.is_delete())
        && unique(own, ours, out.item.read)
}

/// One statement of the writer writes several rows that the read may look at.
pub fn many_rows(world: &World<'_>, dependency: &Dependency) -> bool {
    let effects = &world.effects[dependency.with];
    let write = &effects.writes[dependency.item.write];
    let in_loop = write.context.iter().any(|frame| matches!(frame, crate::effects::Frame::Loop { .. }));
    in_loop || unique_part(world.table(write.table), &effects.key_of(write)).is_none() && !write.is_insert()
}

/// The read is not of one row.
pub fn reads_many_rows(world: &World<'_>, procedure: usize, read: ReadId) -> bool {
    let read = world.effects[procedure].read(read);
    unique_part(world.table(read.table), &read.key).is_none()
}

/// The second is about another row than the first.
pub fn other_row(world: &World<'_>, procedure: usize, one: &Dependency, other: &Dependency) -> bool {
    let effects = &world.effects[procedure];
    let (first, second) = (effects.read(one.item.read), effects.read(other.item.read));
    first.table != second.table || first.key != second.key
}
