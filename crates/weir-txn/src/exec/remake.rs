//! Converts the rows of one schema version into those of the next: which tables are rebuilt, with which values, and whether they satisfy
//! new constraints (docs/internals/server.md, "Definitions").
//!
//! The caller chooses the time: a shard does this while no other transaction writes.

use std::sync::Arc;

use weir_core::ids::ShardId;
use weir_sql::bound::{Expr, RelationId};
use weir_sql::catalog::{Catalog, Column, ColumnIndex, Table, TableId};
use weir_sql::{Application, Matching};
use weir_types::cast::{CastContext, cast};
use weir_types::datetime::TransactionTime;
use weir_types::{EnumType, SqlError, SqlState, SqlType, Value};

use super::compiler::Compiler;
use super::constraint::{Constraint, check};
use super::context::{Cx, Environment, Frame};
use super::expr::CompiledExpr;
use super::program::Program;
use super::slots::{Slot, SlotAllocator};
use super::write::operation::NoEnvironment;
use crate::entries::entries_id;
use crate::storage::{
    AddedIndex, Building, EntriesSchema, IndexColumn, IndexId, IndexSchema, MergedRows, NoRows, Remade,
    Remake, Rows as _, Schema, TableSchema,
};

/// Conversion of the tables of one program's schema to another's.
pub struct Remaking<'a> {
    pub before: &'a Application,
    pub after: &'a Application,
    pub program: &'a Program,
    pub here: ShardId,
    pub matching: &'a Matching,
}

impl Remaking<'_> {
    /// Builds the tables of the next schema version. They are not in place until [`Storage::exchange`]. `built`: an index that one of them
    /// gets.
    ///
    /// # Errors
    /// A value does not fit its new type, or two rows have the same key.
    pub fn remake(
        &self,
        rows: MergedRows<'_>,
        environment: &mut dyn Environment,
        transaction_time: TransactionTime,
        mut built: Option<Building>,
    ) -> Result<Remade, SqlError> {
        let schema = self.program.schema.clone();
        let mut remade = Remade::new(schema.clone());
        for table in &self.after.catalog.tables {
            let at = table.id.0 as usize;
            let (now, Some(was)) = (schema.table(table.id), self.matching.tables[at]) else {
                remade.push(Remake::Empty);
                continue;
            };
            // A table that the catalogs share differs in its indexes at most: foreign keys may have come that look them up.
            let is_shared = self.matching.changed.binary_search(&table.id).is_err();
            if is_shared && std::ptr::eq(rows.schema().table(was), now) {
                remade.push(Remake::Same(was));
                continue;
            }
            let sources = self.sources(table, was)?;
            if is_alike(rows.schema().table(was), now, &sources) {
                remade.push(Remake::Same(was));
                continue;
            }
            let entries = self.entries(rows.schema(), table, (was, &sources));
            if let Some(added) = added_index((rows.schema(), was), now, &sources, &entries)
                && !has_written(rows, was)
            {
                remade
                    .push_indexed(rows.base, added, built.take())
                    .map_err(|error| duplicated(error, now))?;
                continue;
            }
            // Rows whose partition columns do not change stay on their shard.
            let places = self.program.partition(table.id).filter(|_| self.program.shards > 1);
            let moves = places
                .is_some_and(|columns| columns.iter().any(|at| !matches!(sources[*at], Source::Column(_))));
            let mut row = RowMaker { sources, frame: Frame::default(), transaction_time };
            let mut make = |old: &[Value]| {
                let made = row.make(old, environment)?;
                let home = self.program.home(table.id, &|at| made[at].clone()).filter(|_| moves);
                match home.is_some_and(|home| home != self.here) {
                    true => Err(has_to_move(table)),
                    false => Ok(made),
                }
            };
            remade.push_rows(rows, (was, &entries), &mut make).map_err(|error| duplicated(error, now))?;
        }
        Ok(remade)
    }

    /// Of each global key of a table, its entries before; none of a key that is new. The entries of such a key follow, once all shards have
    /// the definition ([`Derived::Entries`](crate::message::Derived)).
    fn entries(
        &self,
        before: &Schema,
        table: &Table,
        (was, sources): (TableId, &[Source]),
    ) -> Vec<Option<TableId>> {
        let (old, now) = (before.table(was), self.program.schema.table(table.id));
        let key_before = |index: IndexId| -> Option<Vec<ColumnIndex>> {
            let column = |of: &IndexColumn| match sources[of.column?] {
                Source::Column(from) => Some(from),
                _ => None,
            };
            now.indexes[index].columns.iter().map(column).collect()
        };
        let key_of = |index: IndexId| -> Option<Vec<ColumnIndex>> {
            old.indexes[index].columns.iter().map(|of| of.column).collect()
        };
        let entries_before = |index: IndexId| {
            let is_same = |before: &EntriesSchema| {
                key_of(before.index) == key_before(index)
                    && old.indexes[before.index].nulls_not_distinct == now.indexes[index].nulls_not_distinct
            };
            old.entries.iter().position(is_same).map(|at| entries_id(was, at))
        };
        now.entries.iter().map(|entries| entries_before(entries.index)).collect()
    }

    /// The only index that the definition adds to a table which it leaves as it is otherwise. `before`: the schema before it.
    ///
    /// # Errors
    /// A default is not supported.
    pub fn added(&self, before: &Schema) -> Result<Option<AddedIndex>, SqlError> {
        let mut all = Vec::new();
        for table in self.matching.changed.iter().map(|table| self.after.catalog.table(*table)) {
            let now = self.program.schema.table(table.id);
            let Some(was) = self.matching.tables[table.id.0 as usize] else { continue };
            let sources = self.sources(table, was)?;
            let entries = self.entries(before, table, (was, &sources));
            all.extend(added_index((before, was), now, &sources, &entries));
        }
        Ok(all.pop().filter(|_| all.is_empty()))
    }

    fn sources(&self, table: &Table, was: TableId) -> Result<Vec<Source>, SqlError> {
        let old = self.before.catalog.table(was);
        let source = |(at, column): (ColumnIndex, &Column)| {
            let from = self.matching.old_column(table.id, at);
            if let Some(expr) = from.and_then(|from| column.retyped_since(&old.columns[from])) {
                return Ok(Source::Retyped(Computed::compile(expr, &self.program.schema)?));
            }
            Ok(match from {
                Some(from) if old.columns[from].ty == column.ty => Source::Column(from),
                Some(from) => match (&old.columns[from].ty, &column.ty) {
                    (SqlType::Enum(was), SqlType::Enum(now)) if was.labels.len() == now.labels.len() => {
                        Source::Relabelled(from, was.clone(), now.clone())
                    }
                    (was, now) => Source::Cast(from, was.clone(), now.clone()),
                },
                None => match column.default.as_ref().or(column.generated.as_ref()) {
                    Some(expr) => Source::Computed(Computed::compile(expr, &self.program.schema)?),
                    None => Source::Null,
                },
            })
        };
        table.columns.iter().enumerate().map(source).collect()
    }

    /// Checks the rows in place against the constraints that are new.
    ///
    /// # Errors
    /// The first violated constraint; the error names a violating row.
    pub fn check(&self, rows: MergedRows<'_>) -> Result<(), SqlError> {
        // A table that the catalogs share has the constraints that it had.
        for table in self.matching.changed.iter().map(|table| self.after.catalog.table(*table)) {
            if rows.row_count(table.id) == 0 {
                continue;
            }
            let was = self.matching.tables[table.id.0 as usize];
            let old = was.map(|was| self.before.catalog.table(was));
            for (constraint, name, say) in self.new_constraints(table, old) {
                let verdict = check(&constraint, &rows, self.program)?;
                if let Some(row) = verdict.violation.filter(|_| !verdict.holds) {
                    let values: Vec<&str> = row.iter().map(|(_, value)| value.as_str()).collect();
                    let error = say.error(table, &name, &row);
                    return Err(match say {
                        Say::Parent { .. } => error,
                        _ => error.with_detail(format!("Failing row contains ({}).", values.join(", "))),
                    });
                }
            }
        }
        Ok(())
    }

    fn new_constraints(&self, table: &Table, old: Option<&Table>) -> Vec<(Constraint, String, Say)> {
        let mut all = Vec::new();
        let was_of = |at: ColumnIndex| self.matching.old_column(table.id, at);
        for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| column.not_null) {
            let was = was_of(at).and_then(|from| old.map(|old| &old.columns[from]));
            if was.is_none_or(|was| !was.not_null) {
                all.push((Constraint::NotNull(table.id, at), column.name.clone(), Say::Null));
            }
        }
        let has_new_types = old.is_some_and(|old| {
            let of = |(at, column): (usize, &Column)| {
                was_of(at).is_some_and(|from| old.columns[from].ty != column.ty)
            };
            table.columns.iter().enumerate().any(of)
        });
        for (at, constraint) in table.checks.iter().enumerate() {
            let had = old.is_some_and(|old| old.checks.iter().any(|was| was.span == constraint.span));
            if !had || has_new_types {
                all.push((Constraint::Check(table.id, at), constraint.name.clone(), Say::Check));
            }
        }
        for (at, key) in table.foreign_keys.iter().enumerate() {
            let had = old.is_some_and(|old| old.foreign_keys.iter().any(|was| was.span == key.span));
            // Parents that may live on other shards are checked by the coordinator of the definition, on all shards.
            if (!had || has_new_types) && !self.program.asks_other_shards(table.id, at) {
                let parent = self.after.catalog.table(key.parent);
                let names = |table: &Table, columns: &[ColumnIndex]| -> Vec<String> {
                    columns.iter().map(|column| table.columns[*column].name.clone()).collect()
                };
                let say = Say::Parent { columns: names(table, &key.columns), parent: parent.name.clone() };
                all.push((Constraint::ForeignKey(table.id, at), key.name.clone(), say));
            }
        }
        all
    }

    /// Partitions are stored in their parent table, so attaching a table or dropping a partition would have to move its rows.
    ///
    /// # Errors
    /// 0A000.
    pub fn refuse_partitions_with_rows(&self, rows: MergedRows<'_>) -> Result<(), SqlError> {
        let (before, after) = (&self.before.catalog, &self.after.catalog);
        for name in after.partitions.keys().filter(|name| !before.partitions.contains_key(*name)) {
            if before.table_by_name(name).is_some_and(|table| rows.row_count(table.id) > 0) {
                let what = format!("attaching {name}, which has rows");
                return Err(not_supported(
                    &what,
                    "INSERT its rows into the partitioned table, and empty it first.",
                ));
            }
        }
        if before.partitions == after.partitions {
            return Ok(());
        }
        for table in &after.tables {
            let Some(was) = self.matching.tables[table.id.0 as usize] else { continue };
            let count =
                |catalog: &Catalog, name: &str| catalog.partitions.values().filter(|of| *of == name).count();
            let fewer = count(after, &table.name) < count(before, &before.table(was).name);
            if fewer && rows.row_count(was) > 0 {
                let what = format!("dropping a partition of {}, which has rows", table.name);
                return Err(not_supported(&what, "DELETE its rows from the partitioned table by their key."));
            }
        }
        Ok(())
    }

    /// Rejects a definition under which a row would belong on another shard.
    ///
    /// # Errors
    /// 0A000.
    pub fn refuse_moves(&self, rows: MergedRows<'_>, before: &Program) -> Result<(), SqlError> {
        if self.program.shards == 1 {
            return Ok(());
        }
        for table in &self.after.catalog.tables {
            let at = table.id.0 as usize;
            let Some(was) = self.matching.tables[at].filter(|was| rows.row_count(*was) > 0) else {
                continue;
            };
            let old: Option<Vec<ColumnIndex>> = before.partition(was).map(<[_]>::to_vec);
            let now = self.program.partition(table.id);
            let from = |column: &ColumnIndex| self.matching.old_column(table.id, *column);
            let moved: Option<Option<Vec<ColumnIndex>>> = now.map(|now| now.iter().map(from).collect());
            if moved != old.map(Some) {
                let what = format!("placing {} anew, which has rows, on several shards", table.name);
                return Err(not_supported(&what, "Empty it first, or make a new table of its rows."));
            }
        }
        Ok(())
    }
}

fn has_to_move(table: &Table) -> SqlError {
    let what = format!("other values of what says on which shard a row of {} lives", table.name);
    not_supported(&what, "Make a new table, INSERT INTO it what is SELECTed of this one, and rename it.")
}

fn not_supported(what: &str, hint: &str) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("not supported: {what}")).with_hint(hint)
}

/// Wording of a violation.
enum Say {
    Null,
    Check,
    Parent { columns: Vec<String>, parent: String },
}

impl Say {
    fn error(&self, table: &Table, name: &str, row: &[(String, String)]) -> SqlError {
        match self {
            Say::Null => SqlError::new(
                SqlState::NOT_NULL_VIOLATION,
                format!("column \"{name}\" of relation \"{}\" contains null values", table.name),
            ),
            Say::Check => SqlError::new(
                SqlState::CHECK_VIOLATION,
                format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name),
            )
            .with_constraint(name.to_owned()),
            Say::Parent { columns, parent } => {
                let value =
                    |name: &String| row.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str());
                let values: Vec<&str> = columns.iter().filter_map(value).collect();
                SqlError::new(
                    SqlState::FOREIGN_KEY_VIOLATION,
                    format!(
                        "insert or update on table \"{}\" violates foreign key constraint \"{name}\"",
                        table.name
                    ),
                )
                .with_detail(format!(
                    "Key ({})=({}) is not present in table \"{parent}\".",
                    columns.join(", "),
                    values.join(", ")
                ))
                .with_constraint(name.to_owned())
            }
        }
    }
}

/// PostgreSQL words the error differently if the index is created after the rows.
pub(crate) fn duplicated(error: SqlError, table: &TableSchema) -> SqlError {
    let name = error.fields().constraint.clone().unwrap_or_default();
    if error.state() != SqlState::UNIQUE_VIOLATION || !table.indexes.iter().any(|index| index.name == name) {
        return error;
    }
    let detail =
        error.fields().detail.clone().unwrap_or_default().replace("already exists.", "is duplicated.");
    SqlError::new(SqlState::UNIQUE_VIOLATION, format!("could not create unique index \"{name}\""))
        .with_detail(detail)
        .with_constraint(name)
}

/// Source of a column's value.
enum Source {
    Column(ColumnIndex),
    Cast(ColumnIndex, SqlType, SqlType),
    /// `ALTER TYPE … RENAME VALUE`.
    Relabelled(ColumnIndex, Arc<EnumType>, Arc<EnumType>),
    Computed(Computed),
    /// An expression over the old row.
    Retyped(Computed),
    Null,
}

/// An expression over the row's other columns.
struct Computed {
    expr: CompiledExpr,
    reads: Vec<(ColumnIndex, Slot)>,
    slots: usize,
    cells: usize,
}

impl Computed {
    fn compile(expr: &Expr, schema: &Schema) -> Result<Computed, SqlError> {
        let mut slots = SlotAllocator::new(0);
        slots.begin_expr(expr);
        let compiled = CompiledExpr::compile(expr, &mut Compiler::new(schema, &mut slots))?;
        let reads = slots.columns_of(RelationId(0));
        Ok(Computed { expr: compiled, reads, slots: slots.slots_max(), cells: slots.cells_max() })
    }

    fn eval(
        &self,
        row: &[Value],
        frame: &mut Frame,
        transaction_time: TransactionTime,
        environment: &mut dyn Environment,
    ) -> Result<Value, SqlError> {
        frame.grow(self.slots, self.cells);
        frame.begin_statement();
        for (column, slot) in &self.reads {
            frame.set(*slot, row[*column].clone());
        }
        self.expr.eval(&mut Cx { frame, rows: &NoRows, transaction_time, environment })
    }
}

/// Generated columns of a table, for rows that are not written by INSERT.
pub struct GeneratedColumns {
    columns: Vec<(ColumnIndex, Computed)>,
    frame: Frame,
}

impl GeneratedColumns {
    /// # Errors
    /// An expression is not supported.
    pub fn compile(table: &Table, program: &Program) -> Result<GeneratedColumns, SqlError> {
        let generated = table.columns.iter().enumerate();
        let generated = generated.filter_map(|(at, column)| Some((at, column.generated.as_ref()?)));
        let compiled = generated.map(|(at, expr)| Ok((at, Computed::compile(expr, &program.schema)?)));
        let columns = compiled.collect::<Result<_, SqlError>>()?;
        Ok(GeneratedColumns { columns, frame: Frame::default() })
    }

    /// # Errors
    /// A value cannot be computed.
    pub fn fill(&mut self, row: &mut [Value]) -> Result<(), SqlError> {
        for (at, computed) in &self.columns {
            row[*at] = computed.eval(row, &mut self.frame, 0.into(), &mut NoEnvironment)?;
        }
        Ok(())
    }
}

struct RowMaker {
    sources: Vec<Source>,
    frame: Frame,
    transaction_time: TransactionTime,
}

impl RowMaker {
    fn make(&mut self, old: &[Value], environment: &mut dyn Environment) -> Result<Vec<Value>, SqlError> {
        let RowMaker { sources, frame, transaction_time } = self;
        let mut row = Vec::with_capacity(sources.len());
        for source in &*sources {
            row.push(match source {
                Source::Column(from) => old[*from].clone(),
                Source::Cast(from, was, now) => cast(&old[*from], was, now, CastContext::Explicit)?,
                Source::Relabelled(from, was, now) => relabelled(&old[*from], was, now),
                Source::Retyped(computed) => computed.eval(old, frame, *transaction_time, environment)?,
                Source::Computed(_) | Source::Null => Value::Null,
            });
        }
        for (at, source) in sources.iter().enumerate() {
            let Source::Computed(computed) = source else { continue };
            row[at] = computed.eval(&row, frame, *transaction_time, environment)?;
        }
        Ok(row)
    }
}

fn relabelled(value: &Value, was: &EnumType, now: &EnumType) -> Value {
    let Value::Text(label) = value else { return value.clone() };
    match was.labels.iter().position(|one| **one == **label) {
        Some(at) => Value::Text(now.labels[at].as_str().into()),
        None => value.clone(),
    }
}

/// Returns whether the table need not be rebuilt: names and rules may differ, bytes and keys do not.
fn is_alike(was: &TableSchema, now: &TableSchema, sources: &[Source]) -> bool {
    let global =
        |schema: &TableSchema| schema.entries.iter().map(|entries| entries.index).collect::<Vec<_>>();
    have_same_bytes(was, now, sources) && are_alike(&was.indexes, &now.indexes) && global(was) == global(now)
}

fn have_same_bytes(was: &TableSchema, now: &TableSchema, sources: &[Source]) -> bool {
    let same = |(at, source): (usize, &Source)| matches!(source, Source::Column(from) if *from == at);
    was.types == now.types && sources.iter().enumerate().all(same)
}

/// Returns whether the indexes have the same keys, whatever their names.
fn are_alike(was: &[IndexSchema], now: &[IndexSchema]) -> bool {
    was.len() == now.len() && was.iter().zip(now).all(|(was, now)| is_alike_index(was, now))
}

fn is_alike_index(was: &IndexSchema, now: &IndexSchema) -> bool {
    let same = |(was, now): (&IndexColumn, &IndexColumn)| {
        (was.column, &was.ty, was.nullable, was.descending, was.nulls_first)
            == (now.column, &now.ty, now.nullable, now.descending, now.nulls_first)
    };
    was.columns.len() == now.columns.len()
        && was.columns.iter().zip(&now.columns).all(same)
        && (was.unique, was.nulls_not_distinct, was.looked_up)
            == (now.unique, now.nulls_not_distinct, now.looked_up)
}

/// The index by which the table differs from what it was, if it differs by nothing else. `entries`: for each of its global keys the old
/// entries.
fn added_index(
    (before, was): (&Schema, TableId),
    now: &TableSchema,
    sources: &[Source],
    entries: &[Option<TableId>],
) -> Option<AddedIndex> {
    let old = before.table(was);
    if !have_same_bytes(old, now, sources) || now.indexes.len() != old.indexes.len() + 1 {
        return None;
    }
    let same = old.indexes.iter().zip(&now.indexes).take_while(|(was, now)| is_alike_index(was, now));
    let index = same.count();
    if !are_alike(&old.indexes[index..], &now.indexes[index + 1..]) {
        return None;
    }
    let at = now.entries.iter().position(|one| one.index == index);
    let mut kept = entries.to_vec();
    if let Some(at) = at
        && kept.remove(at).is_some()
    {
        return None;
    }
    let all = (0..old.entries.len()).map(|at| Some(entries_id(was, at)));
    kept.into_iter().eq(all).then_some(AddedIndex { was, table: now.id, index, entries: at })
}

/// Returns whether the definition's transaction has written the table, or entries of its keys.
fn has_written(rows: MergedRows<'_>, was: TableId) -> bool {
    let entries = (0..rows.schema().table(was).entries.len()).map(|at| entries_id(was, at));
    [was].into_iter().chain(entries).any(|table| rows.own.has_written(table))
}
