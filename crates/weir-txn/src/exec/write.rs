//! INSERT, UPDATE and DELETE: rows are found first and written after; constraints are checked row by row; and each write is also recorded
//! as an operation where it may have to be folded.

pub mod changed;
mod check;
mod children;
mod claim;
mod copies;
mod deferred;
mod distant;
mod escrow;
mod global;
mod moves;
pub(super) mod operation;
mod proposed;
mod readers;
mod rules;

use std::ops::ControlFlow;
use std::sync::Arc;

use smallvec::SmallVec;
use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::interrupt::check;
use weir_types::{SqlError, SqlState, Value};

pub(super) use self::claim::key_of;
pub use self::escrow::Escrow;
pub use self::rules::{CheckRule, Children, ForeignKeyRule, Reference, TableRules};
use super::access::{TableAccess, unpack_row};
use super::call::{Place, Run, Stop};
use super::expr::CompiledExpr;
use super::query::CompiledQuery;
use super::slots::{ROW_IDENTITY, Slot, SlotAllocator};
use crate::claims::Interval;
use crate::faults::Faults;
use crate::message::Attempt;
use crate::storage::layout::Packed;
use crate::storage::{ColumnChange, ColumnOperation, IndexId, Operation, RowRef, Rows, UpdateName, Write};

#[derive(Debug)]
pub struct CompiledInsert {
    pub table: TableId,
    pub columns: Vec<ColumnIndex>,
    pub source: CompiledSource,
    pub defaults: Vec<(ColumnIndex, CompiledExpr)>,
    pub on_conflict: Option<CompiledConflict>,
    /// It is a statement of one row by itself, so it may begin again at the shard of a row that it conflicts with.
    pub may_begin_again: bool,
    pub returning: Vec<CompiledExpr>,
    /// Its rows belong to the same command as the preceding INSERT.
    pub continues: bool,
    /// Slots through which RETURNING and DO UPDATE read the row.
    pub row_slots: Vec<(ColumnIndex, Slot)>,
    pub excluded_slots: Vec<(ColumnIndex, Slot)>,
    /// Foreign keys satisfied by every row, because the call has read the parents.
    pub parents_seen: Vec<usize>,
    /// For foreign keys whose parent may live elsewhere: the values of the rule's columns, by row.
    pub distant_parents: Vec<DistantParent>,
    /// Some row of VALUES asks what is in a table. All rows are worked out before the first is inserted: none sees those before it.
    pub asks: bool,
    /// Partition key of each row of VALUES. Every shard runs the statement and inserts its own rows. Empty: all rows live where the
    /// statement runs.
    pub spread: Vec<Vec<CompiledExpr>>,
}

#[derive(Debug)]
pub struct DistantParent {
    /// Index into the table's foreign keys.
    pub rule: usize,
    /// By row of VALUES: the parent's partition key, and its key in the index's order.
    pub rows: Vec<(Vec<CompiledExpr>, Vec<CompiledExpr>)>,
}

#[derive(Debug)]
pub enum CompiledSource {
    Values(Vec<Vec<CompiledExpr>>),
    Query(Box<CompiledQuery>),
}

impl CompiledUpdate {
    /// Returns whether its answer reveals only that the row exists, not the new values.
    fn asks_existence(&self, access: &TableAccess) -> bool {
        let tells_nothing = self.returning.is_empty() && !self.checked && !self.assignments.is_empty();
        tells_nothing && access.is_by_given_key()
    }
}

#[derive(Debug)]
pub struct CompiledConflict {
    /// The arbiter index; `None` is any.
    pub index: Option<IndexId>,
    /// `None` is DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// DO UPDATE SET … WHERE …
#[derive(Debug)]
pub struct ConflictUpdate {
    pub assignments: Vec<(ColumnIndex, CompiledExpr)>,
    pub filter: Option<CompiledExpr>,
    pub hold: Hold,
}

/// How a statement holds the rows that it changes, outside of interactive transactions, which lock all rows that they write.
/// A later one asks for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// Not at all: its operations are merged with those of others.
    Merges,
    /// Against other statements that claim the row, but not against others' amounts: all of them together keep its bounds.
    Escrow,
    /// Against other statements that claim the row.
    Claims,
    /// Against every writer.
    Locks,
}

impl Hold {
    /// The same of a statement that has no [`Escrow`].
    pub fn without_escrow(self) -> Hold {
        if self == Hold::Escrow { Hold::Claims } else { self }
    }
}

#[derive(Debug)]
pub struct CompiledUpdate {
    pub name: UpdateName,
    pub table: TableId,
    pub rows: Matches,
    pub assignments: Vec<Assignment>,
    pub returning: Vec<CompiledExpr>,
    /// Slots through which RETURNING reads the row, if not in place.
    pub row_slots: Vec<(ColumnIndex, Slot)>,
    pub hold: Hold,
    /// Set if it is held by [`Hold::Escrow`].
    pub escrow: Option<Box<Escrow>>,
    /// Variables that the assignments read, if they depend on nothing else but the row.
    pub captures: Option<Vec<Slot>>,
    /// Some assigned column has constraints other than its type.
    pub checked: bool,
    /// The new values of one row may depend on what the statement has done to another one: they are worked out before the first is written.
    pub sees_writes: bool,
    pub slots: usize,
    pub cells: usize,
}

#[derive(Debug)]
pub struct CompiledDelete {
    pub table: TableId,
    pub rows: Matches,
    pub returning: Vec<CompiledExpr>,
    pub row_slots: Vec<(ColumnIndex, Slot)>,
    pub guarded: bool,
}

/// The access to the rows that are written.
#[derive(Debug)]
pub enum Matches {
    Access(TableAccess),
    /// With FROM or USING: a query whose only output is the row's identity.
    Join(CompiledQuery),
}

impl Matches {
    /// Drops unused columns. Called when every expression of the statement has been compiled.
    pub(super) fn prune(&mut self, slots: &SlotAllocator) {
        match self {
            Matches::Access(access) => access.prune(slots),
            Matches::Join(query) => query.prune(slots),
        }
    }
}

#[derive(Debug)]
pub struct Assignment {
    pub column: ColumnIndex,
    pub value: Arc<CompiledExpr>,
    pub kind: AssignmentKind,
}

/// Kind of operation of the assignment (design: "the operation kind is inferred from the SQL").
#[derive(Debug)]
pub enum AssignmentKind {
    Assign,
    /// The addend.
    Add(CompiledExpr),
    Max(CompiledExpr),
    Min(CompiledExpr),
    /// Another expression over this row, with the columns and variables that it reads.
    Apply {
        columns: Arc<[(ColumnIndex, Slot)]>,
        variables: Vec<Slot>,
    },
}

/// What an UPDATE assigns to one row.
struct NewValues {
    /// Held by [`Hold::Escrow`].
    escrow: bool,
    changes: SmallVec<[(ColumnIndex, Value); 6]>,
}

#[cold]
fn affected_twice() -> SqlError {
    let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    SqlError::new(SqlState::CARDINALITY_VIOLATION, message).with_hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
}

impl<F: Faults> Run<'_, F> {
    pub(super) fn insert(&mut self, insert: &CompiledInsert) -> Result<u64, Stop> {
        let goes_on = insert.continues || self.is_one_insert && self.depth == 0;
        if !self.upserted.is_empty() && !goes_on && !self.is_batch() {
            self.upserted.clear();
        }
        self.insert_all(insert)
    }

    fn insert_all(&mut self, insert: &CompiledInsert) -> Result<u64, Stop> {
        let rows = match &insert.source {
            CompiledSource::Values(rows) => {
                let mut count = 0;
                let mut waiting = Vec::new();
                for (at, row) in rows.iter().enumerate() {
                    check()?;
                    if let Some(key) = insert.spread.get(at)
                        && self.place_of(key)? != Place::Here
                    {
                        continue;
                    }
                    self.blank_row(insert)?;
                    for (&column, expr) in insert.columns.iter().zip(row) {
                        let value = self.eval(expr)?;
                        self.new_row[column].put(value);
                    }
                    if insert.asks {
                        waiting.push(self.new_row.clone());
                    } else {
                        count += self.insert_new_row(insert)?;
                    }
                }
                for row in waiting {
                    check()?;
                    count += self.insert_row(insert, &row)?;
                }
                return Ok(count);
            }
            CompiledSource::Query(query) => self.with_cx(|cx| {
                let mut rows = Vec::new();
                cx.frame.begin_statement();
                query.run(cx, &mut |_, row| {
                    check()?;
                    rows.push(row.to_vec());
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok::<_, SqlError>(rows)
            })?,
        };
        let mut count = 0;
        for row in rows {
            check()?;
            self.blank_row(insert)?;
            for (&column, value) in insert.columns.iter().zip(row) {
                self.new_row[column].put(value);
            }
            count += self.insert_new_row(insert)?;
        }
        Ok(count)
    }

    /// Starts a new row with its default values.
    fn blank_row(&mut self, insert: &CompiledInsert) -> Result<(), SqlError> {
        self.new_row.resize(self.fragment.program.schema.table(insert.table).types.len(), Value::Null);
        self.new_row.iter_mut().for_each(|value| value.put(Value::Null));
        for (column, expr) in &insert.defaults {
            let value = self.eval(expr)?;
            self.new_row[*column].put(value);
        }
        Ok(())
    }

    fn insert_new_row(&mut self, insert: &CompiledInsert) -> Result<u64, Stop> {
        let values = std::mem::take(&mut self.new_row);
        let inserted = self.insert_row(insert, &values);
        self.new_row = values;
        inserted
    }

    fn insert_row(&mut self, insert: &CompiledInsert, values: &[Value]) -> Result<u64, Stop> {
        let table = insert.table;
        self.claim_table(table)?;
        if values.iter().any(|value| matches!(value, Value::Deferred)) {
            return Err(Stop::Error(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "a row that needs another shard's data before it can be prepared is not supported",
            )));
        }
        if !self.is_at_conflict() {
            self.check_home(table, values)?;
        }
        let unseen = self.check_row(table, values, &|_| true, Some(insert))?;
        self.check_arbiter(insert)?;
        if let Some(conflict) = &insert.on_conflict
            && let Some(row) = self.conflicting(table, conflict.index, values)?
        {
            return match &conflict.update {
                None => {
                    self.wait_for_key(table, row)?;
                    self.hold_existing(table, row).map(|()| 0)
                }
                Some(_) if self.upserted.contains(&(table, row)) => Err(Stop::Error(affected_twice())),
                Some(update) => self.update_conflicting(insert, row, values, update),
            };
        }
        if self.is_at_conflict() {
            return self.return_home(insert, values).map(|()| 0);
        }
        self.claim_keys(table, values)?;
        self.check_readers(table, None, Some(&|column| values[column].clone()))?;
        if let Some(home) = self.derive_new(insert, values)? {
            self.begin_again(table, Attempt::AtConflict(home));
            return Ok(0);
        }
        self.note_change(table, None, Some(&|column| values[column].clone()));
        let row = self.put_row(table, values)?;
        if self.is_copied(table) {
            self.derive_copy(table, None, Some(values.to_vec()));
        }
        self.upserts(insert, row);
        self.look_later(table, row, &unseen);
        if self.fragment.keep_writes && self.fragment.storage.is_in_place() {
            self.inserted.push((table, row, self.ran.writes.len()));
            // The final row is filled in at the end of the run.
            self.ran.writes.push(Write { table, row: None, operation: Operation::Delete });
        }
        if !insert.returning.is_empty() {
            for &(column, slot) in &insert.row_slots {
                self.frame.set(slot, values[column].clone());
            }
            self.fragment.environment.has_updated = false;
            self.return_row(&insert.returning)?;
        }
        Ok(1)
    }

    /// Records a row written by INSERT … ON CONFLICT DO UPDATE.
    fn upserts(&mut self, insert: &CompiledInsert, row: u32) {
        if insert.on_conflict.as_ref().is_some_and(|conflict| conflict.update.is_some()) {
            self.upserted.insert((insert.table, row));
        }
    }

    /// Replaces the writes of inserted rows by their final state: an insert that was updated or deleted later is one operation.
    pub(super) fn final_inserts(&mut self) {
        if self.fragment.keep_writes {
            let insert = |packed: &Packed| Operation::Insert(packed.clone());
            let (storage, writes) = (&self.fragment.storage, &mut self.ran.writes);
            storage.with_own(|own| {
                writes.extend(own.inserted().map(|(table, _, packed)| Write {
                    table,
                    row: None,
                    operation: insert(packed),
                }));
            });
        }
        let mut gone = Vec::new();
        for &(table, row, at) in &self.inserted {
            match self.fragment.storage.packed_in_place(table, row) {
                Some(packed) => self.ran.writes[at].operation = Operation::Insert(packed.into()),
                None => gone.push(at),
            }
        }
        gone.sort_unstable();
        for at in gone.into_iter().rev() {
            self.ran.writes.remove(at);
        }
    }

    /// Returns whether the transaction has inserted the row.
    fn is_own(&self, table: TableId, row: u32) -> bool {
        self.fragment.storage.is_new(table, row)
            || self.inserted.iter().any(|&(of, at, _)| of == table && at == row)
    }

    /// Finds the existing row that conflicts with an INSERT … ON CONFLICT.
    fn conflicting(
        &mut self,
        table: TableId,
        index: Option<IndexId>,
        values: &[Value],
    ) -> Result<Option<u32>, Stop> {
        let program = self.fragment.program;
        for (at, schema) in program.schema.table(table).indexes.iter().enumerate() {
            if !schema.unique || index.is_some_and(|index| index != at) {
                continue;
            }
            let Some(key) = key_of(schema, &|column| values[column].clone()) else { continue };
            self.note_read(table, || Interval::Key(at, key.clone()));
            if let Some(found) = self.fragment.storage.get(table, at, &key) {
                return Ok(Some(found.row));
            }
        }
        Ok(None)
    }

    fn update_conflicting(
        &mut self,
        insert: &CompiledInsert,
        row: u32,
        values: &[Value],
        update: &ConflictUpdate,
    ) -> Result<u64, Stop> {
        self.hold_row(insert.table, row, update.hold)?;
        for &(column, slot) in &insert.row_slots {
            let old = self.fragment.storage.value(insert.table, RowRef { shard: 0, row }, column);
            self.frame.set(slot, old);
        }
        for &(column, slot) in &insert.excluded_slots {
            self.frame.set(slot, values[column].clone());
        }
        if let Some(filter) = &update.filter
            && !self.with_cx(|cx| filter.truth(cx))?.is_true()
        {
            return Ok(0);
        }
        let mut changes = Vec::with_capacity(update.assignments.len());
        for (column, expr) in &update.assignments {
            changes.push((*column, self.eval(expr)?));
        }
        let columns = changes.iter().map(|(column, value)| ColumnOperation {
            column: *column,
            change: ColumnChange::Assign(value.clone()),
        });
        let operation = Operation::Update(columns.collect());
        self.write_update(insert.table, row, &changes, Some(operation), true)?;
        self.upserts(insert, row);
        if !insert.returning.is_empty() {
            self.set_changed(&insert.row_slots, &changes);
            self.fragment.environment.has_updated = true;
            self.return_row(&insert.returning)?;
        }
        Ok(1)
    }

    pub(super) fn update(&mut self, update: &Arc<CompiledUpdate>) -> Result<u64, Stop> {
        self.frame.begin_statement();
        match &update.rows {
            Matches::Access(access) if access.is_single() => {
                let mut found = None;
                self.fragment.storage.ask_existence(update.asks_existence(access));
                let looked = self.with_cx(|cx| {
                    access.for_each_match(cx, &mut |_, row| {
                        found = Some(row.row);
                        Ok(ControlFlow::Continue(()))
                    })
                });
                self.fragment.storage.ask_existence(false);
                let _ = looked?;
                let found = found.filter(|row| self.fragment.environment.is_chosen(update.table, *row));
                if found.is_none() {
                    self.wait_for_absent(access, &[])?;
                }
                if let Some(row) = found {
                    let updated = self.update_row(update, row);
                    self.choosing_to_write(updated, update.table, [row].into_iter())?;
                }
                Ok(u64::from(found.is_some()))
            }
            Matches::Access(access) => {
                let mut rows = self.with_cx(|cx| access.collect_matches(cx))?;
                rows.retain(|row| self.fragment.environment.is_chosen(update.table, row.row));
                self.wait_for_absent_of_list(access, rows.iter().map(|row| row.row))?;
                if update.sees_writes && rows.len() > 1 {
                    let count = rows.len() as u64;
                    let rows = rows.into_iter().map(|row| (row.row, None)).collect();
                    return self.update_when_all_are_known(update, rows).map(|()| count);
                }
                // The frame contains the row examined last, whether it matched or not.
                for &row in &rows {
                    check()?;
                    self.with_cx(|cx| access.load(row, cx));
                    let updated = self.update_row(update, row.row);
                    self.choosing_to_write(updated, update.table, rows.iter().map(|row| row.row))?;
                }
                Ok(rows.len() as u64)
            }
            Matches::Join(query) => {
                let rows = self.join_matches(update.table, query)?;
                if update.sees_writes && rows.len() > 1 {
                    let count = rows.len() as u64;
                    let rows = rows.into_iter().map(|(row, frame)| (row, Some(frame))).collect();
                    return self.update_when_all_are_known(update, rows).map(|()| count);
                }
                for (row, frame) in &rows {
                    check()?;
                    self.frame.values.clone_from(frame);
                    let updated = self.update_row(update, *row);
                    self.choosing_to_write(updated, update.table, rows.iter().map(|(row, _)| *row))?;
                }
                Ok(rows.len() as u64)
            }
        }
    }

    /// Matching rows, each once, with the frame of its first match (in PostgreSQL any one of them, unspecified which).
    fn join_matches(
        &mut self,
        table: TableId,
        query: &CompiledQuery,
    ) -> Result<Vec<(u32, Vec<Value>)>, SqlError> {
        let mut rows = self.all_join_matches(query)?;
        rows.retain(|(row, _)| self.fragment.environment.is_chosen(table, *row));
        Ok(rows)
    }

    fn all_join_matches(&mut self, query: &CompiledQuery) -> Result<Vec<(u32, Vec<Value>)>, SqlError> {
        self.with_cx(|cx| {
            let mut seen = std::collections::BTreeSet::new();
            let mut rows = Vec::new();
            cx.frame.begin_statement();
            query.run(cx, &mut |cx, row| {
                if let Some(row) = row.first().and_then(unpack_row)
                    && seen.insert(row)
                {
                    rows.push((row.row, cx.frame.values.clone()));
                }
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(rows)
        })
    }

    /// Updates rows when the new values of all are known. `rows`: with the frame of a join, or none, and then the row is loaded.
    fn update_when_all_are_known(
        &mut self,
        update: &Arc<CompiledUpdate>,
        rows: Vec<(u32, Option<Vec<Value>>)>,
    ) -> Result<(), Stop> {
        let all: Vec<u32> = rows.iter().map(|(row, _)| *row).collect();
        let mut known = Vec::with_capacity(rows.len());
        for (row, frame) in rows {
            check()?;
            match (frame, &update.rows) {
                (Some(frame), _) => self.frame.values = frame,
                (None, Matches::Access(access)) => {
                    self.with_cx(|cx| access.load(RowRef { shard: 0, row }, cx));
                }
                (None, Matches::Join(_)) => {}
            }
            let held = self.new_values(update, row);
            let new = self.choosing_to_write(held, update.table, all.iter().copied())?;
            known.push((row, new, self.frame.values.clone()));
        }
        for (row, new, frame) in known {
            check()?;
            if let Matches::Access(access) = &update.rows {
                self.with_cx(|cx| access.load(RowRef { shard: 0, row }, cx));
            }
            self.frame.values = frame;
            let updated = self.put_new_values(update, row, new);
            self.choosing_to_write(updated, update.table, all.iter().copied())?;
        }
        Ok(())
    }

    /// Updates a row whose columns are in the frame.
    fn update_row(&mut self, update: &Arc<CompiledUpdate>, row: u32) -> Result<(), Stop> {
        let new = self.new_values(update, row)?;
        self.put_new_values(update, row, new)
    }

    /// Holds the row, and works out its new values.
    fn new_values(&mut self, update: &CompiledUpdate, row: u32) -> Result<NewValues, Stop> {
        let escrow = self.hold_for_update(update, row)?;
        let mut changes: SmallVec<[(ColumnIndex, Value); 6]> = SmallVec::new();
        for assignment in &update.assignments {
            changes.push((assignment.column, self.eval(&assignment.value)?));
        }
        Ok(NewValues { escrow, changes })
    }

    fn put_new_values(
        &mut self,
        update: &Arc<CompiledUpdate>,
        row: u32,
        NewValues { escrow, changes }: NewValues,
    ) -> Result<(), Stop> {
        let wanted = self.fragment.keep_writes || self.fragment.storage.wants_operation(update.table, row);
        let operation = if wanted { Some(self.operation(update, &changes)?) } else { None };
        self.write_update(update.table, row, &changes, operation, update.checked)?;
        if escrow {
            self.check_with_amounts(update.table, row)?;
        }
        if !update.returning.is_empty() {
            self.set_changed(&update.row_slots, &changes);
            self.return_row(&update.returning)?;
        }
        Ok(())
    }

    /// Checks and writes an update of one row; `operation` if it must be recorded as one.
    fn write_update(
        &mut self,
        table: TableId,
        row: u32,
        changes: &[(ColumnIndex, Value)],
        operation: Option<Operation>,
        checked: bool,
    ) -> Result<(), Stop> {
        self.claim_table(table)?;
        let schema = self.fragment.program.schema.table(table);
        for (column, value) in changes {
            if value.is_null() && schema.not_null[*column] {
                return Err(self
                    .not_null_violation(table, *column, &|at| self.changed(table, row, changes, at))
                    .into());
            }
        }
        if checked {
            let touched = |column: ColumnIndex| changes.iter().any(|(changed, _)| *changed == column);
            let mut new = Vec::with_capacity(schema.types.len());
            for column in 0..schema.types.len() {
                new.push(self.changed(table, row, changes, column));
            }
            // Its new home checks a row that moves.
            if !self.note_move(table, row, &new)? {
                let mut unseen = self.check_row(table, &new, &touched, None)?;
                // An unchanged foreign key need not be checked again.
                let rules = &self.fragment.program.rules[table.0 as usize].foreign_keys;
                let old = |column| self.fragment.storage.value(table, RowRef { shard: 0, row }, column);
                unseen.retain(|at| rules[at].key_columns.iter().any(|&column| old(column) != new[column]));
                self.look_later(table, row, &unseen);
            }
            self.on_parent_change(table, row, Some(&new))?;
        }
        self.claim_keys_of_row(table, row, changes)?;
        self.claim_changed_keys(table, row, changes)?;
        self.check_readers(table, Some(row), Some(&|column| self.changed(table, row, changes, column)))?;
        self.derive_change(table, row, Some(changes))?;
        if self.fragment.procedure.watched.is_some() {
            let new: Vec<Value> =
                (0..schema.types.len()).map(|column| self.changed(table, row, changes, column)).collect();
            self.note_change(table, Some(row), Some(&|column| new[column].clone()));
        }
        if self.fragment.keep_writes
            && !self.is_own(table, row)
            && let Some(operation) = &operation
        {
            self.ran.writes.push(Write { table, row: Some(row), operation: operation.clone() });
        }
        let copied = self.copied_row(table, row);
        let updated = self.fragment.storage.update(table, row, changes, self.fragment.timestamp, operation);
        if let Err(error) = &updated
            && error.state() == SqlState::UNIQUE_VIOLATION
        {
            self.wait_for_keys(table, &|column| self.changed(table, row, changes, column))?;
        }
        updated?;
        if copied.is_some() {
            let new = self.row_values(table, row);
            self.derive_copy(table, copied, Some(new));
        }
        Ok(())
    }

    fn changed(
        &self,
        table: TableId,
        row: u32,
        changes: &[(ColumnIndex, Value)],
        column: ColumnIndex,
    ) -> Value {
        match changes.iter().find(|(changed, _)| *changed == column) {
            Some((_, value)) => value.clone(),
            None => self.fragment.storage.value(table, RowRef { shard: 0, row }, column),
        }
    }

    fn set_changed(&mut self, slots: &[(ColumnIndex, Slot)], changes: &[(ColumnIndex, Value)]) {
        for (column, value) in changes {
            if let Some((_, slot)) = slots.iter().find(|(of, _)| of == column) {
                self.frame.set(*slot, value.clone());
            }
        }
    }

    pub(super) fn delete(&mut self, delete: &CompiledDelete) -> Result<u64, Stop> {
        // RETURNING reads the columns that the row was joined with.
        let mut frames: Vec<Vec<Value>> = Vec::new();
        let rows: Vec<u32> = match &delete.rows {
            Matches::Access(access) => {
                let found = self.with_cx(|cx| {
                    cx.frame.begin_statement();
                    access.collect_matches(cx)
                })?;
                let found = found.into_iter().map(|row| row.row);
                found.filter(|row| self.fragment.environment.is_chosen(delete.table, *row)).collect()
            }
            Matches::Join(query) => {
                let (rows, joined) = self.join_matches(delete.table, query)?.into_iter().unzip();
                frames = joined;
                rows
            }
        };
        if !delete.returning.is_empty() {
            for (at, &row) in rows.iter().enumerate() {
                if let Some(frame) = frames.get(at) {
                    self.frame.values.clone_from(frame);
                }
                for &(column, slot) in delete.row_slots.iter().filter(|(column, _)| *column != ROW_IDENTITY) {
                    let value = self.fragment.storage.value(delete.table, RowRef { shard: 0, row }, column);
                    self.frame.set(slot, value);
                }
                self.return_row(&delete.returning)?;
            }
        }
        if let Matches::Access(access) = &delete.rows {
            self.wait_for_absent_of_list(access, rows.iter().copied())?;
            if rows.is_empty() {
                self.hold_absent(access)?;
            }
        }
        for &row in &rows {
            check()?;
            // A cascade from an earlier row of this statement may have deleted it.
            if !self.fragment.storage.exists(delete.table, row) {
                continue;
            }
            let claims = delete.guarded || self.holds_rows();
            let held = self.hold_to_delete(delete.table, row, claims);
            let deleted = held.and_then(|()| self.delete_row(delete.table, row));
            self.choosing_to_write(deleted, delete.table, rows.iter().copied())?;
        }
        Ok(rows.len() as u64)
    }

    pub(super) fn hold_to_delete(&mut self, table: TableId, row: u32, claims: bool) -> Result<(), Stop> {
        self.wait_to_write(table)?;
        match claims {
            true => self.claim_row(table, row, LockStrength::Update),
            false => self.hold_going(table, row),
        }
    }

    /// Deletes a row, and the rows that go with it.
    fn delete_row(&mut self, table: TableId, row: u32) -> Result<(), Stop> {
        self.delete_one(table, row)?;
        self.delete_cascaded()
    }

    /// Deletes the children of rows that have gone, and theirs, one after the other: the chain may be long, or a circle.
    fn delete_cascaded(&mut self) -> Result<(), Stop> {
        while let Some((table, row)) = self.cascaded.pop() {
            check()?;
            if self.fragment.storage.exists(table, row) {
                self.delete_one(table, row)?;
            }
        }
        Ok(())
    }

    /// Deletes a row. Its children that go with it are noted.
    fn delete_one(&mut self, table: TableId, row: u32) -> Result<(), Stop> {
        self.fragment.storage.check_disk()?;
        self.claim_table(table)?;
        self.check_readers(table, Some(row), None)?;
        self.on_parent_change(table, row, None)?;
        self.derive_change(table, row, None)?;
        self.note_change(table, Some(row), None);
        if let copied @ Some(_) = self.copied_row(table, row) {
            self.derive_copy(table, copied, None);
        }
        self.remove_row(table, row)
    }

    fn remove_row(&mut self, table: TableId, row: u32) -> Result<(), Stop> {
        if self.fragment.keep_writes && !self.is_own(table, row) {
            self.ran.writes.push(Write { table, row: Some(row), operation: Operation::Delete });
        }
        Ok(self.fragment.storage.delete(table, row, self.fragment.timestamp)?)
    }

    fn return_row(&mut self, returning: &[CompiledExpr]) -> Result<(), SqlError> {
        self.returned.rows += 1;
        for expr in returning {
            let value = self.eval(expr)?;
            self.returned.values.push(value);
        }
        Ok(())
    }
}
