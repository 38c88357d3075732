//! Access paths to the rows of one table: a unique key, a range of an index, several keys, the union of such paths, or a scan; then a
//! filter for the remaining conditions.

mod choose;
mod key;
pub(crate) mod order;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use weir_sql::bound::{Expr, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::interrupt::check;
use weir_types::{SqlError, Value};

use super::compiler::Compiler;
use super::context::{Cx, Flow};
use super::expr::CompiledExpr;
use super::slots::{ROW_IDENTITY, Slot, SlotAllocator};
use super::walk::Relations;
use crate::storage::{Cursor, IndexId, KeyBytes, KeyRange, RowRef};
pub(super) use key::push_keys;
use key::push_value;
pub use key::{pack_row, unpack_row};

/// Called once per matching row, with the row's columns in the frame.
pub type Sink<'a> = &'a mut dyn FnMut(&mut Cx<'_>) -> Flow;

/// One table in one statement.
#[derive(Debug)]
pub struct TableAccess {
    pub table: TableId,
    pub relation: RelationId,
    pub path: Path,
    /// Columns that the conditions equate with expressions independent of the table, whatever the path is. They determine the shard of a
    /// fragment.
    pub bound_columns: Vec<(ColumnIndex, CompiledExpr)>,
    /// Conditions that the path does not guarantee.
    filter: Vec<CompiledExpr>,
    /// Columns that the filter reads.
    filter_columns: Vec<(ColumnIndex, Slot)>,
    /// The other columns, loaded only for rows that pass the filter.
    other_columns: Vec<(ColumnIndex, Slot)>,
    row_slot: Option<Slot>,
}

#[derive(Debug)]
pub enum Path {
    /// A full unique key: at most one row.
    Get {
        index: IndexId,
        keys: Vec<CompiledExpr>,
    },
    Range(Range),
    /// Equality on the first key columns, and `IN` over the next one.
    Gets {
        index: IndexId,
        prefix: Vec<CompiledExpr>,
        list: ListKeys,
    },
    /// The rows of all these paths, each row once.
    Union(Vec<Path>),
    Scan,
}

#[derive(Debug)]
pub enum ListKeys {
    Each(Vec<CompiledExpr>),
    /// The elements of an array.
    Array(CompiledExpr),
}

impl Path {
    /// Visits the path itself or, of a union, its alternatives.
    fn each<'p>(&'p self, visit: &mut dyn FnMut(&'p Path)) {
        match self {
            Path::Union(paths) => paths.iter().for_each(|path| path.each(visit)),
            path => visit(path),
        }
    }

    /// The alternatives of a union, or the path itself.
    pub(super) fn alternatives(&self) -> Vec<&Path> {
        let mut paths = Vec::new();
        self.each(&mut |path| paths.push(path));
        paths
    }
}

/// Equality on the first key columns, and bounds on the next one.
#[derive(Debug)]
pub struct Range {
    pub index: IndexId,
    pub prefix: Vec<CompiledExpr>,
    pub lower: Option<Bound>,
    pub upper: Option<Bound>,
    pub reverse: bool,
}

#[derive(Debug)]
pub struct Bound {
    pub value: CompiledExpr,
    pub inclusive: bool,
}

impl TableAccess {
    /// Compiles the access to the rows of `relation` for which all conditions are true. `known`: relations whose columns are in the frame
    /// when the access runs (those of outer queries always are).
    pub fn compile(
        table: TableId,
        relation: RelationId,
        conditions: &[&Expr],
        compiler: &mut Compiler<'_>,
    ) -> Result<TableAccess, SqlError> {
        let choice = choose::choose(table, relation, conditions, &Relations::new(), compiler);
        choice.compile(conditions, compiler)
    }

    /// Like [`TableAccess::compile`], but keys may not depend on the `unknown` relations.
    pub(crate) fn choose(
        table: TableId,
        relation: RelationId,
        conditions: &[&Expr],
        unknown: &Relations,
        compiler: &Compiler<'_>,
    ) -> choose::Choice {
        choose::choose(table, relation, conditions, unknown, compiler)
    }

    /// Visits every matching row; `Break` ends the visit.
    pub fn for_each_match(
        &self,
        cx: &mut Cx<'_>,
        visit: &mut dyn FnMut(&mut Cx<'_>, RowRef) -> Flow,
    ) -> Flow {
        self.visit_path(&self.path, cx, visit)
    }

    fn visit_path(
        &self,
        path: &Path,
        cx: &mut Cx<'_>,
        visit: &mut dyn FnMut(&mut Cx<'_>, RowRef) -> Flow,
    ) -> Flow {
        match path {
            Path::Get { index, keys } => {
                let mut key = KeyBytes::new();
                if !push_keys(self.table, *index, 0, keys, &mut key, cx)? {
                    return Ok(ControlFlow::Continue(()));
                }
                match cx.rows.get(self.table, *index, &key) {
                    Some(row) => self.offer(row, cx, visit),
                    None => Ok(ControlFlow::Continue(())),
                }
            }
            Path::Gets { index, prefix, list } => self.for_each_get(*index, prefix, list, cx, visit),
            Path::Range(range) => {
                let Some(key_range) = self.key_range(range, cx)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                let rows = cx.rows;
                rows.range(self.table, range.index, &key_range, range.reverse, &mut |row| {
                    self.offer(row, cx, visit)
                })
            }
            Path::Union(paths) => {
                let mut seen = BTreeSet::new();
                for path in paths {
                    let flow = self.visit_path(path, cx, &mut |cx, row| match seen.insert(row) {
                        true => visit(cx, row),
                        false => Ok(ControlFlow::Continue(())),
                    });
                    if flow?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            Path::Scan => {
                let rows = cx.rows;
                rows.scan(self.table, &mut |row| self.offer(row, cx, visit))
            }
        }
    }

    /// Like [`TableAccess::for_each_match`] for keys that come in index order: starts where the last visit ended.
    pub(super) fn for_each_ahead(
        &self,
        cursor: &mut Cursor,
        cx: &mut Cx<'_>,
        visit: &mut dyn FnMut(&mut Cx<'_>, RowRef) -> Flow,
    ) -> Flow {
        let (index, keys) = match &self.path {
            Path::Get { index, keys } => (*index, keys),
            Path::Range(range) => (range.index, &range.prefix),
            Path::Gets { .. } | Path::Union(_) | Path::Scan => return self.for_each_match(cx, visit),
        };
        let mut key = KeyBytes::new();
        if !push_keys(self.table, index, 0, keys, &mut key, cx)? {
            return Ok(ControlFlow::Continue(()));
        }
        let rows = cx.rows;
        rows.range_ahead(self.table, index, &KeyRange::prefix(key), cursor, &mut |row| {
            self.offer(row, cx, visit)
        })
    }

    /// Column that the access loads into that slot.
    pub(super) fn column_in(&self, slot: Slot) -> Option<ColumnIndex> {
        let mut columns = self.filter_columns.iter().chain(&self.other_columns);
        columns.find(|(_, own)| *own == slot).map(|(column, _)| *column)
    }

    /// Collects all matching rows before anything is written. Afterwards the frame contains the columns of the last one.
    pub fn collect_matches(&self, cx: &mut Cx<'_>) -> Result<Vec<RowRef>, SqlError> {
        let mut matches = Vec::new();
        let _ = self.for_each_match(cx, &mut |_, row| {
            matches.push(row);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(matches)
    }

    /// Loads all needed columns of a row into the frame, as a visit does.
    pub fn load(&self, row: RowRef, cx: &mut Cx<'_>) {
        self.load_columns(&self.filter_columns, row, cx);
        self.load_columns(&self.other_columns, row, cx);
        if let Some(slot) = self.row_slot {
            cx.frame.set(slot, pack_row(row));
        }
    }

    /// Returns whether the row would pass the filter with these values. Leaves them in the frame.
    pub(super) fn passes_with(
        &self,
        row: RowRef,
        values: &[(ColumnIndex, &Value)],
        cx: &mut Cx<'_>,
    ) -> Result<bool, SqlError> {
        self.load_columns(&self.filter_columns, row, cx);
        for (column, slot) in &self.filter_columns {
            if let Some((_, value)) = values.iter().find(|(of, _)| of == column) {
                cx.frame.set(*slot, (*value).clone());
            }
        }
        for condition in &self.filter {
            if !condition.truth(cx)?.is_true() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Index of the unique key by which it looks for a row; `None`: it may find several.
    pub(super) fn index_of_single(&self) -> Option<IndexId> {
        match &self.path {
            Path::Get { index, .. } => Some(*index),
            _ => None,
        }
    }

    #[inline]
    fn load_columns(&self, columns: &[(ColumnIndex, Slot)], row: RowRef, cx: &mut Cx<'_>) {
        for &(column, slot) in columns {
            cx.frame.values[slot as usize] = cx.rows.value(self.table, row, column);
        }
    }

    /// Loads a row, filters it, and passes it on if it matches.
    #[inline]
    fn offer(
        &self,
        row: RowRef,
        cx: &mut Cx<'_>,
        visit: &mut dyn FnMut(&mut Cx<'_>, RowRef) -> Flow,
    ) -> Flow {
        check()?;
        if !self.filter.is_empty() {
            self.load_columns(&self.filter_columns, row, cx);
            for condition in &self.filter {
                if !condition.truth(cx)?.is_true() {
                    return Ok(ControlFlow::Continue(()));
                }
            }
        }
        self.load_columns(&self.other_columns, row, cx);
        if let Some(slot) = self.row_slot {
            cx.frame.set(slot, pack_row(row));
        }
        visit(cx, row)
    }

    /// The keys that a list gives, in their order, each once.
    fn keys_of_list(
        &self,
        index: IndexId,
        prefix: &[CompiledExpr],
        list: &ListKeys,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<KeyBytes>, SqlError> {
        let (mut start, mut keys) = (KeyBytes::new(), Vec::new());
        if !push_keys(self.table, index, 0, prefix, &mut start, cx)? {
            return Ok(keys);
        }
        let schema = &cx.rows.schema().table(self.table).indexes[index];
        match list {
            ListKeys::Each(list) => {
                for element in list {
                    let mut key = start.clone();
                    let element = std::slice::from_ref(element);
                    if push_keys(self.table, index, prefix.len(), element, &mut key, cx)? {
                        keys.push(key);
                    }
                }
            }
            ListKeys::Array(array) => {
                let array = array.eval(cx)?;
                let values = if let Value::Array(array) = &array { &array.values[..] } else { &[] };
                for value in values {
                    let mut key = start.clone();
                    if push_value(&schema.columns[prefix.len()], value, &mut key) {
                        keys.push(key);
                    }
                }
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    fn for_each_get(
        &self,
        index: IndexId,
        prefix: &[CompiledExpr],
        list: &ListKeys,
        cx: &mut Cx<'_>,
        visit: &mut dyn FnMut(&mut Cx<'_>, RowRef) -> Flow,
    ) -> Flow {
        let keys = self.keys_of_list(index, prefix, list, cx)?;
        let rows = cx.rows;
        let schema = &rows.schema().table(self.table).indexes[index];
        let whole_key = schema.unique && schema.columns.len() == prefix.len() + 1;
        for key in keys {
            let flow = match whole_key {
                true => match rows.get(self.table, index, &key) {
                    Some(row) => self.offer(row, cx, visit)?,
                    None => ControlFlow::Continue(()),
                },
                false => rows.range(self.table, index, &KeyRange::prefix(key), false, &mut |row| {
                    self.offer(row, cx, visit)
                })?,
            };
            if flow.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Compiles expressions that read the current row in place: a column is read only where it is needed, and copied once. Expressions
    /// with subqueries read the frame instead.
    pub(crate) fn compile_in_place<'e>(
        &mut self,
        exprs: impl IntoIterator<Item = &'e Expr>,
        compiler: &mut Compiler<'_>,
    ) -> Result<Vec<CompiledExpr>, SqlError> {
        let row = *self.row_slot.get_or_insert_with(|| compiler.slots.fresh());
        let place = (self.relation, self.table, row);
        let compile = |expr: &Expr| match super::walk::has_subquery(expr) {
            true => CompiledExpr::compile(expr, compiler),
            false => compiler.in_place(place, |compiler| CompiledExpr::compile(expr, compiler)),
        };
        exprs.into_iter().map(compile).collect()
    }

    /// Drops unused columns. Called when every expression of the statement has been compiled.
    pub(crate) fn prune(&mut self, slots: &SlotAllocator) {
        self.other_columns.retain(|&(_, slot)| slots.is_read(slot));
    }

    /// Returns whether at most one row can match.
    pub fn is_single(&self) -> bool {
        self.index_of_single().is_some()
    }

    /// The unique keys by which it looks for rows, but for those that no row can have. None if it looks for some rows otherwise.
    pub(super) fn unique_keys(&self, cx: &mut Cx<'_>) -> Result<Vec<(IndexId, KeyBytes)>, SqlError> {
        let mut found = Vec::new();
        for path in self.path.alternatives() {
            match path {
                Path::Get { index, keys } => {
                    let mut key = KeyBytes::new();
                    found.extend(
                        push_keys(self.table, *index, 0, keys, &mut key, cx)?.then_some((*index, key)),
                    );
                }
                Path::Gets { index, prefix, list } => {
                    let schema = &cx.rows.schema().table(self.table).indexes[*index];
                    if !schema.unique || schema.columns.len() != prefix.len() + 1 {
                        return Ok(Vec::new());
                    }
                    let keys = self.keys_of_list(*index, prefix, list, cx)?;
                    found.extend(keys.into_iter().map(|key| (*index, key)));
                }
                Path::Range(_) | Path::Scan | Path::Union(_) => return Ok(Vec::new()),
            }
        }
        Ok(found)
    }

    /// The unique key of a path that has one.
    pub(super) fn unique_key(&self, cx: &mut Cx<'_>) -> Result<Option<(IndexId, KeyBytes)>, SqlError> {
        match self.path {
            Path::Get { .. } => Ok(self.unique_keys(cx)?.pop()),
            _ => Ok(None),
        }
    }

    /// Returns whether it finds at most one row, by constants and slots only.
    pub(super) fn is_by_given_key(&self) -> bool {
        let is_given = |key: &CompiledExpr| matches!(key, CompiledExpr::Constant(_) | CompiledExpr::Slot(_));
        self.filter.is_empty() && matches!(&self.path, Path::Get { keys, .. } if keys.iter().all(is_given))
    }

    /// Slots of the columns that the statement needs, and of the row's identity.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let columns = self.filter_columns.iter().chain(&self.other_columns).map(|&(_, slot)| slot);
        columns.chain(self.row_slot)
    }
}

/// Columns of a table that a statement uses.
struct Columns {
    in_filter: Vec<(ColumnIndex, Slot)>,
    others: Vec<(ColumnIndex, Slot)>,
    row_slot: Option<Slot>,
}

/// Splits the used columns into those that the filter reads and the rest.
fn split_columns(relation: RelationId, filter: &[&Expr], compiler: &mut Compiler<'_>) -> Columns {
    let mut used = super::walk::UsedColumns::new();
    filter.iter().for_each(|condition| {
        super::walk::each_expr(condition, &mut |expr| super::walk::note_column(&mut used, expr));
    });
    let in_filter = used.remove(&relation).unwrap_or_default();
    let mut row_slot = None;
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for (column, slot) in compiler.slots.columns_of(relation) {
        if column == ROW_IDENTITY {
            row_slot = Some(slot);
        } else if in_filter.contains(&column) {
            first.push((column, slot));
        } else {
            rest.push((column, slot));
        }
    }
    Columns { in_filter: first, others: rest, row_slot }
}

/// Returns whether a value cannot occur as an index key, so that it matches no row.
pub(crate) fn is_no_key(value: &Value) -> bool {
    value.is_null() || value.is_deferred()
}
