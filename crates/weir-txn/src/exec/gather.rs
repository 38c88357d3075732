//! A query over several shards. If shards know it by its text, each runs parts of it ([`super::split`]), and the results are merged here.
//! Otherwise, or if the query finds its rows by keys, the rows are fetched and the query runs on them here.
//!
//! Fetched rows: for every table of the query, those with the column values that the query's equalities fix. If these fix the partition
//! column, one shard is asked; if they fix a global key, its owner and the shard that this one names; else all.

pub(crate) mod by_key;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use weir_core::ids::{ShardId, Timestamp};
use weir_sql::Text;
use weir_sql::bound::{Expr, ExprKind, Query, SortOrder, VariableId};
use weir_sql::catalog::{Catalog, ColumnIndex, TableId};
use weir_types::datetime::TransactionTime;
use weir_types::interrupt::check;
use weir_types::memory::WorkingMemory;
use weir_types::{SqlError, SqlState, Value};

use super::access::{TableAccess, unpack_row};
use super::compiler::Compiler;
use super::context::{Cx, Frame};
use super::expr::CompiledExpr;
use super::expr::compile::compile_list;
use super::gathered::CompiledMerge;
use super::program::Program;
use super::query::sort::compare_rows;
use super::query::{CompiledQuery, row_count};
use super::routing::{Homes, Route, Router, known_columns};
use super::sequences::Sequences;
use super::slots::SlotAllocator;
use super::split::{Assembly, Feeds, split};
use super::walk;
use crate::exec::counts::RowCounts;
use crate::message::{PartsRead, ReadQuery, TableRead};
use crate::placement::shard_of;
use crate::storage::rows::NoRows;
use crate::storage::{Rows, Schema, Storage};
use crate::stream::{Compare, MergeOrder, Row, RowQueue, RowStream};

/// A prepared query with variables.
#[derive(Clone, Debug)]
pub struct Gather {
    compiled: Arc<CompiledQuery>,
    slots: usize,
    cells: usize,
    tables: Arc<[GatherTable]>,
    rows_max: usize,
    /// Schema version that it was bound to.
    pub schema_version: u64,
    /// Virtual tables that no shard stores.
    system: Option<Arc<Virtual>>,
    /// Virtual tables whose rows the client has given.
    given: BTreeSet<TableId>,
    parts: Option<Arc<Parts>>,
    /// One shard runs it, and it reads at most one row of each table.
    is_of_one_shard: bool,
    /// The query uses the current time.
    asks_time: bool,
    /// The query calls a volatile function.
    is_volatile: bool,
    /// Value of `now()`, if the client has set it; else the time of the execution.
    time: Option<TransactionTime>,
    /// Of the session.
    memory: WorkingMemory,
    /// Where a worker puts the rows.
    stream: Option<Arc<RowStream>>,
}

/// Division of a query into parts that shards run.
#[derive(Debug)]
struct Parts {
    text: Arc<Text>,
    /// The merging query; each part's rows are one of its CTEs.
    whole: CompiledMerge,
    parts: Vec<QueryPart>,
    assembly: Assembly,
    merged: Option<Merged>,
}

/// How the rows of the only part are merged ([`Assembly::Merged`]).
#[derive(Debug)]
struct Merged {
    order: Arc<[(usize, SortOrder)]>,
    /// Number of columns of the result.
    width: usize,
    offset: Option<CompiledExpr>,
    limit: Option<CompiledExpr>,
}

#[derive(Debug)]
struct QueryPart {
    query: CompiledQuery,
    slots: usize,
    cells: usize,
    asked: Asked,
    feeds: Feeds,
}

/// Shards that run a part.
#[derive(Debug)]
enum Asked {
    Any,
    All,
    By(Vec<CompiledExpr>),
    /// Shards of any of these keys.
    Several(Vec<Vec<CompiledExpr>>),
    /// Shards of the elements of an array.
    Elements(CompiledExpr),
}

/// Tables whose rows the coordinator itself has: the system catalog.
#[derive(Clone, Debug)]
pub struct Virtual {
    /// Tables of the shards, followed by the virtual ones.
    schema: Arc<Schema>,
    /// The first virtual table.
    first: TableId,
    /// Rows of each virtual table.
    rows: Vec<Arc<[Vec<Value>]>>,
}

impl Virtual {
    /// `catalog` contains the virtual tables from `first` on, after those of the shards.
    pub fn new(catalog: &Catalog, first: TableId, rows: Vec<Vec<Vec<Value>>>) -> Virtual {
        Virtual {
            schema: Arc::new(Schema::new(catalog)),
            first,
            rows: rows.into_iter().map(Arc::from).collect(),
        }
    }

    fn rows_of(&self, table: TableId) -> Option<&[Vec<Value>]> {
        let at = table.0.checked_sub(self.first.0)?;
        self.rows.get(at as usize).map(|rows| &**rows)
    }
}

#[derive(Debug)]
struct GatherTable {
    table: TableId,
    equals: Vec<(ColumnIndex, Known)>,
    /// Own column, position of an earlier table, its column.
    joined: Vec<(ColumnIndex, usize, ColumnIndex)>,
}

#[derive(Debug)]
enum Known {
    Variable(VariableId),
    Literal(Value),
}

impl GatherTable {
    fn equals(&self, values: &[Value]) -> Vec<(ColumnIndex, Value)> {
        let value = |known: &Known| match known {
            Known::Variable(variable) => values[variable.0 as usize].clone(),
            Known::Literal(value) => value.clone(),
        };
        self.equals.iter().map(|(column, known)| (*column, value(known))).collect()
    }
}

/// Answers of shards, by shard and then by table of the query.
pub type Fetched = Vec<(ShardId, Vec<Vec<Vec<Value>>>)>;

impl Gather {
    /// `variables`: number of variables of the query, from 0.
    pub fn compile(query: &Query, variables: usize, program: &Program) -> Result<Gather, SqlError> {
        Gather::compile_over(query, variables, program, None)
    }

    /// Compiles a query that may also read virtual tables.
    pub fn compile_over(
        query: &Query,
        variables: usize,
        program: &Program,
        system: Option<Arc<Virtual>>,
    ) -> Result<Gather, SqlError> {
        let schema = system.as_ref().map_or(&program.schema, |system| &system.schema);
        let mut slots = SlotAllocator::new(variables);
        slots.begin_query(query);
        let compiled = CompiledQuery::compile(query, schema, &mut slots)?;
        let known = |expr: &Expr| match &expr.kind {
            ExprKind::Variable(variable) => Some(Known::Variable(*variable)),
            ExprKind::Literal(value) => Some(Known::Literal(value.clone())),
            _ => None,
        };
        let tables = known_columns(query)
            .into_iter()
            .map(|of| GatherTable {
                table: of.table,
                equals: of
                    .fixed
                    .into_iter()
                    .filter_map(|(column, expr)| Some((column, known(expr)?)))
                    .collect(),
                joined: of.joined,
            })
            .collect();
        let (slots, cells) = (slots.slots_max(), slots.cells_max());
        let mut asks_time = false;
        walk::each_expr_of_query(query, &mut |part| {
            asks_time |= matches!(part.kind, ExprKind::TransactionTime);
        });
        let is_volatile = walk::query_is_volatile(query);
        let (compiled, schema_version) = (Arc::new(compiled), program.schema_version);
        let (rows_max, parts, time, stream) = (usize::MAX, None, None, None);
        Ok(Gather {
            compiled,
            slots,
            cells,
            tables,
            rows_max,
            schema_version,
            system,
            given: BTreeSet::new(),
            parts,
            is_of_one_shard: false,
            asks_time,
            is_volatile,
            time,
            memory: WorkingMemory::default(),
            stream,
        })
    }

    /// Compiles a query that shards know by its text. If keys find its few rows, and not all of them certainly at one shard, those are
    /// fetched instead.
    pub(super) fn compile_text(
        query: &Query,
        text: &Text,
        router: Router<'_>,
        program: &Program,
        counts: &RowCounts,
    ) -> Result<Gather, SqlError> {
        let variables = text.types.len();
        let gather = Gather::compile(query, variables, program)?;
        let is_look_up = gather.is_look_up(&program.schema);
        let split = split(query, router, &program.schema, program.shards == 1);
        let mut slots = SlotAllocator::new(variables);
        let given = split.parts.len();
        let whole = CompiledMerge::compile(&split.whole, given, &program.schema, &mut slots)?;
        let mut parts = Vec::with_capacity(split.parts.len());
        let mut merged = None;
        for part in split.parts {
            let mut slots = SlotAllocator::new(variables);
            slots.begin_query(&part.query);
            let query =
                CompiledQuery::compile_counted(&part.query, (&program.schema, Some(counts)), &mut slots)?;
            let asked = match part.route {
                Route::Anywhere => Asked::Any,
                _ if program.shards == 1 => Asked::Any,
                Route::By(keys) => {
                    let mut compiler = Compiler::new(&program.schema, &mut slots);
                    Asked::By(compile_list(&keys, &mut compiler)?)
                }
                Route::Own | Route::Everywhere => {
                    let mut compiler = Compiler::new(&program.schema, &mut slots);
                    match router.homes(&part.query) {
                        Some(Homes::Keys(keys)) => {
                            let lists = keys.iter().map(|keys| compile_list(keys, &mut compiler));
                            Asked::Several(lists.collect::<Result<_, _>>()?)
                        }
                        Some(Homes::Elements(array)) => {
                            Asked::Elements(CompiledExpr::compile(&array, &mut compiler)?)
                        }
                        None => Asked::All,
                    }
                }
            };
            if split.assembly == Assembly::Merged {
                merged =
                    Some(Merged::compile(&split.whole, &mut Compiler::new(&program.schema, &mut slots))?);
            }
            let (slots, cells) = (slots.slots_max(), slots.cells_max());
            parts.push(QueryPart { query, slots, cells, asked, feeds: part.feeds });
        }
        let runs_at_one = split.assembly == Assembly::Concatenated
            && parts.iter().all(|part| matches!(part.asked, Asked::Any | Asked::By(_)));
        if is_look_up && !runs_at_one {
            return Ok(gather);
        }
        let (slots, cells) = (slots.slots_max(), slots.cells_max());
        let (text, assembly) = (Arc::new(text.clone()), split.assembly);
        let parts = Some(Arc::new(Parts { text, whole, parts, assembly, merged }));
        Ok(Gather { parts, is_of_one_shard: is_look_up, slots, cells, ..gather })
    }

    /// Returns whether it reads at most one row of each table, by a key.
    pub fn is_look_up(&self, schema: &Schema) -> bool {
        self.tables.iter().all(|of| {
            let indexes = &schema.table(of.table).indexes;
            let is_fixed = |column: ColumnIndex| of.equals.iter().any(|(fixed, _)| *fixed == column);
            indexes.iter().any(|index| {
                index.unique && index.columns.iter().all(|column| column.column.is_some_and(is_fixed))
            })
        })
    }

    /// Returns whether one shard runs it, and it reads at most one row of each table.
    pub fn is_of_one_shard(&self) -> bool {
        self.is_of_one_shard
    }

    /// On the only shard of a cluster: the rows of a query of one shard.
    ///
    /// # Errors
    /// The query's.
    pub fn look_up(
        &self,
        values: &[Value],
        now: TransactionTime,
        (program, rows): (&Program, &dyn Rows),
    ) -> Result<Vec<Row>, SqlError> {
        let of = (program, self.time.unwrap_or(now));
        self.run_part(0, values, rows, of).unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Returns whether it reads that table.
    pub fn reads(&self, table: TableId) -> bool {
        self.tables.iter().any(|one| one.table == table)
    }

    /// The same query with these rows of virtual tables.
    pub fn with_rows(&self, given: impl IntoIterator<Item = (TableId, Vec<Vec<Value>>)>) -> Gather {
        let (mut system, mut tables) = (self.system.as_deref().cloned(), self.given.clone());
        for (table, rows) in given {
            tables.insert(table);
            let Some(system) = &mut system else { break };
            if let Some(at) = table.0.checked_sub(system.first.0).map(|at| at as usize)
                && let Some(of) = system.rows.get_mut(at)
            {
                *of = rows.into();
            }
        }
        Gather { system: system.map(Arc::new), given: tables, ..self.clone() }
    }

    /// The same query with that value of `now()`, and with the time zone and the working memory of the session.
    pub fn at(self: &Arc<Gather>, time: TransactionTime, memory: WorkingMemory) -> Arc<Gather> {
        match self.asks_time || !time.zone.is_utc() || self.memory != memory {
            true => Arc::new(Gather { time: Some(time), ..(**self).clone() }.with_memory(memory)),
            false => self.clone(),
        }
    }

    /// The same query, whose value of `now()` is that one unless it has been set.
    pub(crate) fn timed(self: &Arc<Gather>, now: TransactionTime) -> Arc<Gather> {
        match self.asks_time && self.time.is_none() {
            true => Arc::new(Gather { time: Some(now), ..(**self).clone() }),
            false => self.clone(),
        }
    }

    /// Returns whether the query calls a volatile function: two runs of it may read other rows.
    pub(crate) fn is_volatile(&self) -> bool {
        self.is_volatile
    }

    /// Tables that the query reads at shards.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        let stored = self.tables.iter().filter(|table| self.system_rows(table.table).is_none());
        stored.map(|table| table.table)
    }

    /// The same query with the working memory of the session.
    pub fn with_memory(self, memory: WorkingMemory) -> Gather {
        Gather { memory, ..self }
    }

    /// Returns whether a long run may put its rows into a stream. A look-up is never long.
    pub fn may_stream(&self) -> bool {
        let assembly = self.parts.as_ref().map_or(Assembly::Computed, |parts| parts.assembly);
        self.rows_max == usize::MAX && assembly != Assembly::Computed && !self.is_of_one_shard
    }

    /// The same query; a long run puts its rows into that stream, and its result has none.
    pub fn streaming(&self, stream: Arc<RowStream>) -> Gather {
        Gather { stream: Some(stream), ..self.clone() }
    }

    /// Limits the number of rows that the client accepts.
    pub fn at_most(self, rows_max: usize) -> Gather {
        Gather { rows_max, ..self }
    }

    /// Returns whether it reads tables of the shards.
    pub fn reads_tables(&self) -> bool {
        self.tables.iter().any(|table| self.system_rows(table.table).is_none())
    }

    /// Rows of a virtual table.
    fn system_rows(&self, table: TableId) -> Option<&[Vec<Value>]> {
        self.system.as_ref()?.rows_of(table)
    }

    /// Request for each shard.
    ///
    /// # Errors
    /// The value of a partition column cannot be computed.
    pub fn queries(
        &self,
        values: &[Value],
        (program, now): (&Program, TransactionTime),
    ) -> Result<BTreeMap<ShardId, Arc<ReadQuery>>, SqlError> {
        let transaction_time = self.time.unwrap_or(now);
        let _zone = transaction_time.zone.enter();
        match &self.parts {
            Some(parts) => self.parts_queries(parts, values, (program, transaction_time)),
            None => Ok(self.table_queries(values, program)),
        }
    }

    fn parts_queries(
        &self,
        of: &Parts,
        values: &[Value],
        (program, transaction_time): (&Program, TransactionTime),
    ) -> Result<BTreeMap<ShardId, Arc<ReadQuery>>, SqlError> {
        let mut by_shard: BTreeMap<ShardId, Vec<u16>> = BTreeMap::new();
        for (at, part) in of.parts.iter().enumerate() {
            let shards = part.shards(values, (program, transaction_time))?;
            shards.into_iter().for_each(|shard| by_shard.entry(shard).or_default().push(at as u16));
        }
        if let (Some(stream), Some(merged), [part]) = (&self.stream, &of.merged, &of.parts[..]) {
            stream.merge(part.run(values, &NoRows, (program, transaction_time), &mut |cx| merged.order(cx))?);
        }
        let memory = self.memory;
        let query = |shard: ShardId, parts: Vec<u16>| {
            let (text, values) = (of.text.clone(), values.to_vec());
            let stream = self.stream.as_ref().map(|stream| RowQueue::new(stream.clone(), shard));
            let parts = Some(Box::new(PartsRead { text, values, parts, transaction_time, memory, stream }));
            Arc::new(ReadQuery { tables: Vec::new(), parts, schema_version: self.schema_version })
        };
        Ok(by_shard.into_iter().map(|(shard, parts)| (shard, query(shard, parts))).collect())
    }

    pub(super) fn table_queries(
        &self,
        values: &[Value],
        program: &Program,
    ) -> BTreeMap<ShardId, Arc<ReadQuery>> {
        let mut by_shard: BTreeMap<ShardId, Vec<TableRead>> = BTreeMap::new();
        // For each table: shard and position there, if a single shard is asked.
        let mut places: Vec<Option<(ShardId, usize)>> = Vec::with_capacity(self.tables.len());
        for table in self.tables.iter() {
            if self.system_rows(table.table).is_some() {
                places.push(None);
                continue;
            }
            let equals = table.equals(values);
            let shards = shards_of(table.table, &equals, program);
            let single = match shards[..] {
                [shard] => Some(shard),
                _ => None,
            };
            // On one shard a join restricts the fetched rows to those that match.
            let joined = single.and_then(|shard| {
                let earlier = table
                    .joined
                    .iter()
                    .map(|(_, earlier, _)| *earlier)
                    .find(|&earlier| places[earlier].is_some_and(|(of, _)| of == shard))?;
                let pairs = table
                    .joined
                    .iter()
                    .filter(|(_, of, _)| *of == earlier)
                    .map(|&(own, _, theirs)| (own, theirs))
                    .collect();
                Some((places[earlier]?.1, pairs))
            });
            for &shard in &shards {
                by_shard.entry(shard).or_default().push(TableRead {
                    table: table.table,
                    equals: equals.clone(),
                    joined: joined.clone(),
                });
            }
            places.push(single.map(|shard| (shard, by_shard[&shard].len() - 1)));
        }
        by_shard
            .into_iter()
            .map(|(shard, tables)| {
                (shard, Arc::new(ReadQuery { tables, parts: None, schema_version: self.schema_version }))
            })
            .collect()
    }

    /// Positions of the query's tables that are read on that shard, in order.
    pub(super) fn places_on(&self, shard: ShardId, values: &[Value], program: &Program) -> Vec<usize> {
        let is_there = |table: &GatherTable| {
            self.system_rows(table.table).is_none()
                && shards_of(table.table, &table.equals(values), program).contains(&shard)
        };
        self.tables.iter().enumerate().filter(|(_, table)| is_there(table)).map(|(at, _)| at).collect()
    }

    /// Returns whether the coordinator can run it without asking a shard.
    pub fn reads_no_table(&self) -> bool {
        self.tables.is_empty() && self.parts.is_none() && self.system.is_none()
    }

    /// Returns whether its result depends on the schema itself: it reads the system catalog, and not only rows that the client has given.
    pub fn reads_schema(&self) -> bool {
        let is_given = |table: &GatherTable| self.given.contains(&table.table);
        self.system.is_some() && (self.tables.is_empty() || !self.tables.iter().all(is_given))
    }

    /// Runs the query on the fetched rows. `now`: clock in microseconds since 2000; `seed`: for random functions.
    pub fn rows(
        &self,
        values: &[Value],
        queries: &BTreeMap<ShardId, Arc<ReadQuery>>,
        fetched: Fetched,
        (program, now, seed): (&Program, TransactionTime, u64),
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        match &self.parts {
            Some(parts) if parts.assembly == Assembly::Concatenated => {
                return Ok(fetched.into_iter().flat_map(|(_, parts)| parts).flatten().collect());
            }
            Some(parts) => return self.whole_of(parts, values, queries, fetched, (program, now, seed)),
            None => {}
        }
        let transaction_time = self.time.unwrap_or(now);
        let _zone = transaction_time.zone.enter();
        let schema = self.system.as_ref().map_or(&program.schema, |system| &system.schema);
        let known: BTreeSet<TableId> = self.tables.iter().map(|table| table.table).collect();
        let mut storage = Storage::of(schema.clone(), |table| known.contains(&table));
        for table in known {
            for row in self.system_rows(table).unwrap_or_default() {
                storage.insert(table, row, Timestamp::default())?;
            }
        }
        let mut seen = BTreeSet::new();
        for (shard, tables) in fetched {
            for (read, rows) in queries[&shard].tables.iter().zip(tables) {
                let replicated = program.partition(read.table).is_none();
                for row in rows {
                    let (Value::Int(number), columns) = (&row[0], &row[1..]) else { continue };
                    // A row of a replicated table counts once, wherever it was read.
                    if seen.insert((read.table, if replicated { 0 } else { shard }, *number)) {
                        storage.insert(read.table, columns, Timestamp::default())?;
                    }
                }
            }
        }
        let mut frame = Frame::default();
        frame.grow(self.slots, self.cells);
        frame.values[..values.len()].clone_from_slice(values);
        let mut found = Vec::new();
        let mut sequences = Sequences::seeded(seed);
        let mut environment = sequences.environment(program, 0, now);
        let mut cx =
            Cx { frame: &mut frame, rows: &storage, transaction_time, environment: &mut environment };
        self.compiled.run(&mut cx, &mut |_, row| {
            found.push(row.to_vec());
            Ok(if found.len() < self.rows_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(found)
    }

    /// Merges the results of the parts.
    fn whole_of(
        &self,
        of: &Parts,
        values: &[Value],
        queries: &BTreeMap<ShardId, Arc<ReadQuery>>,
        fetched: Fetched,
        (program, now, seed): (&Program, TransactionTime, u64),
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let transaction_time = self.time.unwrap_or(now);
        let _zone = transaction_time.zone.enter();
        let mut given: Vec<Vec<Vec<Value>>> = vec![Vec::new(); of.parts.len()];
        let mut storage = None;
        let mut seen = BTreeSet::new();
        for (shard, parts) in fetched {
            let asked = queries.get(&shard).and_then(|query| query.parts.as_ref());
            for (&at, rows) in asked.iter().flat_map(|asked| &asked.parts).zip(parts) {
                let Feeds::Table { table, columns } = &of.parts[usize::from(at)].feeds else {
                    given[usize::from(at)].extend(rows);
                    continue;
                };
                let storage = storage.get_or_insert_with(|| Storage::new(program.schema.clone()));
                let width = program.schema.table(*table).types.len();
                let shard = if program.partition(*table).is_none() { 0 } else { shard };
                for row in rows {
                    let Some(number) = row.first().and_then(unpack_row) else { continue };
                    if !seen.insert((*table, shard, number)) {
                        continue;
                    }
                    let mut whole = vec![Value::Null; width];
                    for (&column, value) in columns.iter().zip(row.into_iter().skip(1)) {
                        whole[column] = value;
                    }
                    storage.insert(*table, &whole, Timestamp::default())?;
                }
            }
        }
        let has_tables = of.parts.iter().any(|part| matches!(part.feeds, Feeds::Table { .. }));
        let storage = match storage {
            None if has_tables => Some(Storage::new(program.schema.clone())),
            storage => storage,
        };
        let rows: &dyn Rows = storage.as_ref().map_or(&NoRows, |storage| storage);
        let mut frame = frame_of(self.slots, self.cells, values);
        let mut sequences = Sequences::seeded(seed);
        let mut environment = sequences.environment(program, 0, now);
        of.whole
            .of(given, &mut Cx { frame: &mut frame, rows, transaction_time, environment: &mut environment })
    }

    /// Table accesses of each part. `None`: the query reads whole tables.
    pub(super) fn tables_of_parts(&self) -> Option<Vec<Vec<&TableAccess>>> {
        Some(self.parts.as_ref()?.parts.iter().map(|part| part.query.tables()).collect())
    }

    pub(crate) fn has_part(&self, at: u16) -> bool {
        self.parts.as_ref().is_some_and(|of| usize::from(at) < of.parts.len())
    }

    /// On a shard: the rows of one part. `None`: there is no such part.
    pub(crate) fn run_part(
        &self,
        at: u16,
        values: &[Value],
        rows: &dyn Rows,
        (program, transaction_time): (&Program, TransactionTime),
    ) -> Option<Result<Vec<Vec<Value>>, SqlError>> {
        let mut found = Vec::new();
        let mut take = |row: &mut Row| {
            found.push(std::mem::take(row));
            Ok(())
        };
        let ran = self.run_part_into(at, values, rows, (program, transaction_time), &mut take)?;
        Some(ran.map(|()| found))
    }

    /// On a shard: gives each row of one part to `take`. `None`: there is no such part.
    pub(crate) fn run_part_into(
        &self,
        at: u16,
        values: &[Value],
        rows: &dyn Rows,
        (program, transaction_time): (&Program, TransactionTime),
        take: &mut TakeRow<'_>,
    ) -> Option<Result<(), SqlError>> {
        let part = self.parts.as_ref()?.parts.get(usize::from(at))?;
        Some(part.run(values, rows, (program, transaction_time), &mut |cx| {
            cx.frame.begin_statement();
            let _ = part.query.execute(cx, &mut |_, row| {
                check()?;
                take(row)?;
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(())
        }))
    }
}

impl Merged {
    fn compile(whole: &Query, compiler: &mut Compiler<'_>) -> Result<Merged, SqlError> {
        let mut count =
            |expr: &Option<Expr>| expr.as_ref().map(|expr| CompiledExpr::compile(expr, compiler)).transpose();
        Ok(Merged {
            order: whole.order_by.iter().map(|order| (order.output, order.order)).collect(),
            width: whole.columns.len(),
            offset: count(&whole.offset)?,
            limit: count(&whole.limit)?,
        })
    }

    /// # Errors
    /// OFFSET or LIMIT cannot be computed, or is negative.
    fn order(&self, cx: &mut Cx<'_>) -> Result<MergeOrder, SqlError> {
        let Merged { order, width, offset, limit } = self;
        let skip = row_count(offset.as_ref(), "OFFSET", SqlState::INVALID_ROW_COUNT_IN_OFFSET, cx)?;
        let most = row_count(limit.as_ref(), "LIMIT", SqlState::INVALID_ROW_COUNT_IN_LIMIT, cx)?;
        let order = order.clone();
        let compare: Compare = Arc::new(move |left, right| compare_rows(left, right, &order));
        let (skip, most) = (skip.unwrap_or(0), most.unwrap_or(usize::MAX));
        Ok(MergeOrder { compare, width: *width, skip, most })
    }
}

/// Takes the values of the rows of a query one by one, and may leave another row for the next values.
pub(crate) type TakeRow<'a> = dyn FnMut(&mut Row) -> Result<(), SqlError> + 'a;

impl QueryPart {
    /// Shards that run it; at least one, since an aggregate over no rows is a row too.
    fn shards(
        &self,
        values: &[Value],
        (program, transaction_time): (&Program, TransactionTime),
    ) -> Result<BTreeSet<ShardId>, SqlError> {
        let mut keys: Vec<Vec<Value>> = Vec::new();
        match &self.asked {
            Asked::Any => return Ok(BTreeSet::from([0])),
            Asked::All => return Ok((0..program.shards).collect()),
            Asked::By(list) => keys.push(self.values_of(list, values, (program, transaction_time))?),
            Asked::Several(lists) => {
                for list in lists {
                    keys.push(self.values_of(list, values, (program, transaction_time))?);
                }
            }
            Asked::Elements(array) => {
                let array = std::slice::from_ref(array);
                let array = self.values_of(array, values, (program, transaction_time))?;
                if let [Value::Array(array)] = &array[..] {
                    keys.extend(array.values.iter().map(|value| vec![value.clone()]));
                }
            }
        }
        let mut shards: BTreeSet<ShardId> = keys.iter().map(|keys| shard_of(keys, program.shards)).collect();
        if shards.is_empty() {
            shards.insert(0);
        }
        Ok(shards)
    }

    fn values_of(
        &self,
        list: &[CompiledExpr],
        values: &[Value],
        of: (&Program, TransactionTime),
    ) -> Result<Vec<Value>, SqlError> {
        self.run(values, &NoRows, of, &mut |cx| list.iter().map(|key| key.eval(cx)).collect())
    }

    fn run<T>(
        &self,
        values: &[Value],
        rows: &dyn Rows,
        (program, transaction_time): (&Program, TransactionTime),
        run: &mut dyn FnMut(&mut Cx<'_>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let mut frame = frame_of(self.slots, self.cells, values);
        let mut sequences = Sequences::default();
        let mut environment = sequences.environment(program, 0, transaction_time);
        let _zone = transaction_time.zone.enter();
        run(&mut Cx { frame: &mut frame, rows, transaction_time, environment: &mut environment })
    }
}

fn frame_of(slots: usize, cells: usize, values: &[Value]) -> Frame {
    let mut frame = Frame::default();
    frame.grow(slots.max(values.len()), cells);
    frame.values[..values.len()].clone_from_slice(values);
    frame
}

fn shards_of(table: TableId, equals: &[(ColumnIndex, Value)], program: &Program) -> Vec<ShardId> {
    let Some(partition) = program.partition(table) else { return vec![0] };
    let value =
        |column: &ColumnIndex| equals.iter().find(|(of, _)| of == column).map(|(_, value)| value.clone());
    match partition.iter().map(value).collect::<Option<Vec<Value>>>() {
        Some(values) => vec![shard_of(&values, program.shards)],
        None => (0..program.shards).collect(),
    }
}
