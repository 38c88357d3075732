//! In words: how the rows of a query's or statement's tables are found, and on which shards. For EXPLAIN; runs nothing.

use std::collections::BTreeMap;

use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::Value;

use super::access::{Path, TableAccess};
use super::fetch::best_index;
use super::gather::Gather;
use super::program::{CompiledProcedure, CompiledStepKind, Program};
use super::write::Matches;
use crate::ramp::message::{ReadQuery, ShardId};
use crate::storage::TableSchema;

/// How the rows of one table are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub table: String,
    /// None: all rows are looked at.
    pub index: Option<String>,
    /// Columns whose values are known when the index is asked, or the rows are looked at.
    pub columns: Vec<String>,
    /// Where; none: wherever the statement runs.
    pub shards: Option<Vec<ShardId>>,
}

impl Access {
    pub fn in_words(&self) -> String {
        let columns = match &self.columns[..] {
            [] => String::new(),
            columns => format!(" ({})", columns.join(", ")),
        };
        match &self.index {
            Some(index) => format!("{}: by index {index}{columns}", self.table),
            None if columns.is_empty() => format!("{}: all rows", self.table),
            None => {
                format!("{}: all rows, of which those are taken that have the given{columns}", self.table)
            }
        }
    }
}

fn names(table: &TableSchema, columns: impl IntoIterator<Item = ColumnIndex>) -> Vec<String> {
    columns.into_iter().map(|column| table.column_names[column].clone()).collect()
}

impl Gather {
    /// Of the query with these values.
    pub fn accesses(&self, values: &[Value], program: &Program) -> Vec<Access> {
        // What cannot be computed is told when it is run.
        let Ok(queries) = self.queries(values, (program, 0)) else { return Vec::new() };
        if let Some(parts) = self.tables_of_parts() {
            let shards_of = |at: usize| {
                let runs = |query: &ReadQuery| {
                    query.parts.as_ref().is_some_and(|read| read.parts.contains(&(at as u16)))
                };
                queries.iter().filter(|(_, query)| runs(query)).map(|(shard, _)| *shard).collect()
            };
            let described = |(at, tables): (usize, Vec<&TableAccess>)| {
                let shards: Vec<ShardId> = shards_of(at);
                let of = move |access: &TableAccess| Access {
                    shards: Some(shards.clone()),
                    ..access.described(program)
                };
                tables.into_iter().map(of).collect::<Vec<_>>()
            };
            return parts.into_iter().enumerate().flat_map(described).collect();
        }
        let mut by_table: BTreeMap<usize, Access> = BTreeMap::new();
        for (shard, query) in queries {
            let places = self.places_on(shard, values, program);
            for (at, read) in places.into_iter().zip(&query.tables) {
                let table = program.schema.table(read.table);
                let joined = read.joined.iter().flat_map(|(_, pairs)| pairs.iter().map(|(own, _)| *own));
                let known: Vec<ColumnIndex> =
                    read.equals.iter().map(|(column, _)| *column).chain(joined).collect();
                let access = by_table.entry(at).or_insert_with(|| {
                    let best = best_index(table, |column| known.contains(&column));
                    let columns = match best {
                        Some((index, covered)) => {
                            let of_index = table.indexes[index].columns[..covered].iter();
                            names(table, of_index.filter_map(|column| column.column))
                        }
                        None => names(table, known),
                    };
                    let index = best.map(|(index, _)| table.indexes[index].name.clone());
                    Access { table: table.name.clone(), index, columns, shards: Some(Vec::new()) }
                });
                access.shards.get_or_insert_default().push(shard);
            }
        }
        by_table.into_values().collect()
    }
}

impl CompiledProcedure {
    /// Of the rows that its own statements write, in their order.
    pub fn accesses(&self, program: &Program) -> Vec<Access> {
        let found = |table: TableId, rows: &Matches| match rows {
            Matches::Access(access) => access.described(program),
            Matches::Join(_) => {
                let table = program.schema.table(table).name.clone();
                Access { table, index: None, columns: Vec::new(), shards: None }
            }
        };
        let of = |kind: &CompiledStepKind| match kind {
            CompiledStepKind::Update { update, .. } => Some(found(update.table, &update.rows)),
            CompiledStepKind::Delete { delete, .. } => Some(found(delete.table, &delete.rows)),
            _ => None,
        };
        self.body.iter().filter_map(|step| of(&step.kind)).collect()
    }
}

impl TableAccess {
    fn described(&self, program: &Program) -> Access {
        let table = program.schema.table(self.table);
        let (index, known) = match &self.path {
            Path::Get { index, keys } => (Some(*index), keys.len()),
            Path::Gets { index, prefix, .. } => (Some(*index), prefix.len() + 1),
            Path::Range(range) => {
                let bounded = range.lower.is_some() || range.upper.is_some();
                (Some(range.index), range.prefix.len() + usize::from(bounded))
            }
            Path::Scan => (None, 0),
        };
        let columns = match index {
            Some(index) => {
                let of_index = table.indexes[index].columns.iter().take(known);
                names(table, of_index.filter_map(|column| column.column))
            }
            None => names(table, self.bound_columns.iter().map(|(column, _)| *column)),
        };
        let index = index.map(|index| table.indexes[index].name.clone());
        Access { table: table.name.clone(), index, columns, shards: None }
    }
}
