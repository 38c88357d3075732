//! Statements that name the row that they change or lock by a global key (docs/internals/global-keys.md, 3.18): they run at one shard, not at
//! all of them.
//!
//! Invariant: such a statement runs at a shard only if the row with that key is there, or if the shard owns the key and knows that no row has
//! it. The key is unique, so no other shard has the row then, and the statement changes what it would change at all shards.

use weir_core::ids::ShardId;
use weir_sql::bound::{RelationId, Statement, Step, StepKind};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlType, Value};

use super::call::{Run, Stop};
use super::program::value_of;
use super::routing::{Equalities, Origins, Route, Router, Source, equalities_of};
use super::walk;
use super::write::key_of;
use crate::faults::Faults;
use crate::message::{Attempt, GlobalKey};
use crate::placement::shard_of;
use crate::storage::{EntriesSchema, IndexId, IndexSchema, KeyBytes, Rows as _, Schema};

/// A row that a statement names by a global key.
#[derive(Debug)]
pub struct NamedRow {
    table: TableId,
    /// The unique index of the key.
    index: IndexId,
    /// Sources of the values of its columns.
    key: Vec<Source>,
}

impl NamedRow {
    /// The row of an ad-hoc statement that reads no other table. None: all shards may have rows for it.
    pub(super) fn of(
        router: &Router<'_>,
        schema: &Schema,
        origins: &Origins,
        steps: &[Step],
    ) -> Option<NamedRow> {
        let statement = steps.iter().find_map(|step| match &step.kind {
            StepKind::Sql { statement, .. } => Some(&**statement),
            _ => None,
        })?;
        let mut has_subquery = false;
        walk::each_statement_expr(statement, &mut |expr| has_subquery |= walk::subquery(expr).is_some());
        if has_subquery
            || matches!(statement, Statement::Insert(_))
            || !matches!(router.statement(statement), Route::Everywhere)
        {
            return None;
        }
        let equalities = equalities_of(statement);
        let [(relation, table)] = equalities.tables[..] else { return None };
        if !equalities.within.is_empty() {
            return None;
        }
        let (columns, all) = (&router.catalog.table(table).columns, schema.table(table));
        let source =
            |column: ColumnIndex| source_of(&equalities, (relation, column), &columns[column].ty, origins);
        all.entries.iter().find_map(|EntriesSchema { index, .. }| {
            let key = all.indexes[*index].columns.iter().map(|of| source(of.column?));
            Some(NamedRow { table, index: *index, key: key.collect::<Option<_>>()? })
        })
    }

    /// Values of its key. None: a column is NULL, which no row equals.
    fn key(&self, args: &[Value]) -> Option<Vec<Value>> {
        let value = |source| Some(value_of(source, args)).filter(|value| !value.is_null());
        self.key.iter().map(value).collect()
    }

    /// The owner of its key.
    pub(super) fn owner(&self, args: &[Value], shards: ShardId) -> Option<ShardId> {
        Some(shard_of(&self.key(args)?, shards))
    }
}

/// The source of what a column equals, if it is one, and equal values of the two types are the same key.
fn source_of(
    equalities: &Equalities<'_>,
    column: (RelationId, ColumnIndex),
    ty: &SqlType,
    origins: &Origins,
) -> Option<Source> {
    let class = equalities.find(*equalities.classes.get(&column)?);
    let value = equalities.known[class]?;
    if is_same_key(ty, &value.ty) { origins.only(value) } else { None }
}

/// Returns whether equal values of the two types are the same key.
pub(super) fn is_same_key(a: &SqlType, b: &SqlType) -> bool {
    let is_text = |ty: &SqlType| matches!(ty.base(), SqlType::Text | SqlType::Varchar(_));
    a.is_integer() && b.is_integer()
        || is_text(a) && is_text(b)
        || matches!((a.base(), b.base()), (SqlType::Uuid, SqlType::Uuid))
}

impl<F: Faults> Run<'_, F> {
    /// How the statement is to begin again, if it was sent here for a row that is elsewhere.
    pub(super) fn looks_for_its_row(&mut self, args: &[Value]) -> Result<Option<(TableId, Attempt)>, Stop> {
        let (Some(Attempt::ByKey(_)), Some(named)) = (self.fragment.attempt, &self.procedure.named_row)
        else {
            return Ok(None);
        };
        let (table, index) = (named.table, named.index);
        let at_all = Ok(Some((table, Attempt::AtHome)));
        let Some(values) = named.key(args) else { return at_all };
        let Some(key) = bytes_of(&self.fragment.program.schema.table(table).indexes[index], &values) else {
            return at_all;
        };
        if !self.fragment.bugs.trusts_held_keys() {
            self.wait_for_prepared_key(table, index, &key)?;
        }
        if let Some(row) = self.fragment.storage.get(table, index, &key) {
            // The row is about to go, perhaps to another shard.
            self.wait_for_prepared_removal(table, row.row)?;
            return Ok(None);
        }
        let owner = shard_of(&values, self.fragment.program.shards);
        if owner == self.fragment.here {
            return Ok(self
                .named_by_entry(GlobalKey { table, index }, &key)?
                .map(|attempt| (table, attempt)));
        }
        match self.fragment.bugs.trusts_named_home() {
            true => Ok(None),
            // The row has moved, or gone, since its owner was asked.
            false => Ok(Some((table, Attempt::ByKey(owner)))),
        }
    }

    /// At the owner of a key, which has no row with it: where to begin again. None: no row has the key.
    fn named_by_entry(&mut self, key: GlobalKey, bytes: &KeyBytes) -> Result<Option<Attempt>, Stop> {
        match self.home_by_entry(key, bytes)? {
            Some(home) => Ok(Some(Attempt::ByKey(home))),
            // Its absence would have to be locked, which only a statement at all shards does.
            None if self.is_serializable() => Ok(Some(Attempt::AtHome)),
            None => Ok(None),
        }
    }
}

fn bytes_of(index: &IndexSchema, values: &[Value]) -> Option<KeyBytes> {
    let value = |column: ColumnIndex| {
        let at = index.columns.iter().position(|of| of.column == Some(column));
        at.map_or(Value::Null, |at| values[at].clone())
    };
    key_of(index, &value)
}
