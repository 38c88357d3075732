//! Secondary indexes, materialized views and sequences: functions of the data, or of who asks.

use weir_sql::bound::FromItem;
use weir_sql::catalog::{ColumnIndex, SequenceId, TableId};
use weir_sql::walk::{Part, each_part};

use super::Outcome;
use crate::verdict::Rule;
use crate::world::World;

/// Writes of the procedure to that table: any insert or delete, updates of these columns.
fn touches(world: &World<'_>, procedure: usize, table: TableId, columns: Option<&[ColumnIndex]>) -> bool {
    world.own_writes(procedure, table).any(|(_, write)| {
        let updates = |column: &ColumnIndex| write.update_of(*column).is_some();
        write.is_insert() || write.is_delete() || columns.is_none_or(|list| list.iter().any(updates))
    })
}

pub fn index(
    world: &World<'_>,
    table: TableId,
    columns: &[ColumnIndex],
    procedure: usize,
) -> Option<Outcome> {
    touches(world, procedure, table, Some(columns)).then(|| {
        let because = "An index is a function of the rows and is updated with them, atomically.";
        Outcome::yes(Rule::SecondaryIndex, "changes indexed rows", because).proved()
    })
}

pub fn view(world: &World<'_>, view: usize, procedure: usize) -> Option<Outcome> {
    let mut tables = Vec::new();
    each_part(Part::Query(&world.app.catalog.views[view].query), &mut |part| {
        if let Part::From(FromItem::Table { table, .. }) = part {
            tables.push(*table);
        }
    });
    tables.into_iter().any(|table| touches(world, procedure, table, None)).then(|| {
        let because = "A view is a function of the primary data; its changes are installed with the data's.";
        Outcome::yes(Rule::MaterializedView, "changes what the view reads", because).proved()
    })
}

pub fn sequence(world: &World<'_>, sequence: SequenceId, procedure: usize) -> Option<Outcome> {
    world.effects[procedure].sequences.contains(&sequence).then(|| {
        let because = "Its numbers must differ, not be dense: each shard hands out its own share.";
        Outcome::yes(Rule::SequenceShare, "draws a number", because).proved()
    })
}
