//! A query over several shards, by fetching the rows that it can want and running it on those.
//!
//! Which rows: for every table of the query, those whose columns have the values that the query's
//! equalities fix. Where they fix the partition column one shard is asked, else all.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use weir_sql::bound::{Expr, ExprKind, Query, VariableId};
use weir_sql::catalog::{Catalog, ColumnIndex, TableId};
use weir_types::{SqlError, Value};

use super::context::{Cx, Frame};
use super::program::Program;
use super::query::CompiledQuery;
use super::routing::{known_columns, shard_of};
use super::sequences::Sequences;
use super::slots::SlotAllocator;
use crate::ramp::message::{ReadQuery, ShardId, TableRead};
use crate::storage::{Schema, Storage, Timestamp};

/// A query with variables, ready to be asked again and again.
#[derive(Debug)]
pub struct Gather {
    compiled: CompiledQuery,
    slots: usize,
    cells: usize,
    tables: Vec<GatherTable>,
    rows_max: usize,
    /// Of the schema that it was bound to.
    pub edition: u64,
    /// Tables that no shard has.
    system: Option<Arc<Virtual>>,
}

/// Tables whose rows whoever asks knows: what a schema says of itself.
#[derive(Debug)]
pub struct Virtual {
    /// Those of the shards, and behind them these.
    schema: Arc<Schema>,
    /// The first of these.
    first: TableId,
    /// Of each of them.
    rows: Vec<Vec<Vec<Value>>>,
}

impl Virtual {
    /// `catalog` has them from `first` on, behind those of the shards.
    pub fn new(catalog: &Catalog, first: TableId, rows: Vec<Vec<Vec<Value>>>) -> Virtual {
        Virtual { schema: Arc::new(Schema::new(catalog)), first, rows }
    }

    fn rows_of(&self, table: TableId) -> Option<&[Vec<Value>]> {
        let at = table.0.checked_sub(self.first.0)?;
        self.rows.get(at as usize).map(Vec::as_slice)
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

/// What shards answered, by shard and then by table of the query.
pub type Fetched = Vec<(ShardId, Vec<Vec<Vec<Value>>>)>;

impl Gather {
    /// `variables`: how many the query uses, from 0.
    pub fn compile(query: &Query, variables: usize, program: &Program) -> Result<Gather, SqlError> {
        Gather::compile_over(query, variables, program, None)
    }

    /// Of a query that was bound to the virtual tables, too.
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
        Ok(Gather { compiled, slots, cells, tables, rows_max: usize::MAX, edition: program.edition, system })
    }

    /// Whoever asks wants no more rows than these.
    pub fn at_most(self, rows_max: usize) -> Gather {
        Gather { rows_max, ..self }
    }

    /// Of a table that no shard has.
    fn system_rows(&self, table: TableId) -> Option<&[Vec<Value>]> {
        self.system.as_ref()?.rows_of(table)
    }

    /// What to ask of each shard.
    pub fn queries(&self, values: &[Value], program: &Program) -> BTreeMap<ShardId, Arc<ReadQuery>> {
        let mut by_shard: BTreeMap<ShardId, Vec<TableRead>> = BTreeMap::new();
        // Where each table is read: the shard and its position there, if it is one shard only.
        let mut places: Vec<Option<(ShardId, usize)>> = Vec::with_capacity(self.tables.len());
        for table in &self.tables {
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
            // A join on one shard narrows what is fetched to the rows that it can use.
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
            .map(|(shard, tables)| (shard, Arc::new(ReadQuery { tables, edition: self.edition })))
            .collect()
    }

    /// Which of its tables are read on that shard, in their order.
    pub(super) fn places_on(&self, shard: ShardId, values: &[Value], program: &Program) -> Vec<usize> {
        let is_there = |table: &GatherTable| {
            self.system_rows(table.table).is_none()
                && shards_of(table.table, &table.equals(values), program).contains(&shard)
        };
        self.tables.iter().enumerate().filter(|(_, table)| is_there(table)).map(|(at, _)| at).collect()
    }

    /// Runs the query on what was fetched. `transaction_time`: what `now()` is, in microseconds since 2000.
    pub fn rows(
        &self,
        values: &[Value],
        queries: &BTreeMap<ShardId, Arc<ReadQuery>>,
        fetched: Fetched,
        (program, transaction_time): (&Program, i64),
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let schema = self.system.as_ref().map_or(&program.schema, |system| &system.schema);
        let mut storage = Storage::new(schema.clone());
        let known: BTreeSet<TableId> = self.tables.iter().map(|table| table.table).collect();
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
                    // A copy is one row wherever it was read.
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
        let mut sequences = Sequences::default();
        let mut environment = sequences.environment(program, 0, 0);
        let mut cx =
            Cx { frame: &mut frame, rows: &storage, transaction_time, environment: &mut environment };
        self.compiled.run(&mut cx, &mut |_, row| {
            found.push(row.to_vec());
            Ok(if found.len() < self.rows_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(found)
    }
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
