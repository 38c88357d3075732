//! In words: how the rows of a query's or statement's tables are found, and on which shards. For EXPLAIN; runs nothing.

use std::collections::BTreeMap;

use weir_core::ids::ShardId;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::Value;

use super::access::{Path, TableAccess};
use super::fetch::best_index;
use super::gather::Gather;
use super::program::{CompiledProcedure, CompiledStepKind, Program};
use super::write::Matches;
use crate::message::ReadQuery;
use crate::storage::{IndexId, TableSchema};

/// The access to the rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub table: String,
    /// None: all rows are looked at.
    pub index: Option<String>,
    /// Columns whose values are known when the index is asked, or the rows are looked at.
    pub columns: Vec<String>,
    /// Further indexes that find rows of a disjunction, with their columns.
    pub others: Vec<(String, Vec<String>)>,
    /// No row is looked at: a constant condition is not true.
    pub is_never: bool,
    /// Where; none: wherever the statement runs.
    pub shards: Option<Vec<ShardId>>,
}

impl Access {
    pub fn in_words(&self) -> String {
        let listed = |columns: &[String]| match columns {
            [] => String::new(),
            columns => format!(" ({})", columns.join(", ")),
        };
        let columns = listed(&self.columns);
        let others: String =
            self.others.iter().map(|(index, columns)| format!(", or {index}{}", listed(columns))).collect();
        match &self.index {
            _ if self.is_never => format!("{}: no rows, for the condition is never true", self.table),
            Some(index) => format!("{}: by index {index}{columns}{others}", self.table),
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
    /// Accesses of the query with these values.
    pub fn accesses(&self, values: &[Value], program: &Program) -> Vec<Access> {
        // A value that cannot be computed is an error when the statement runs.
        let Ok(queries) = self.queries(values, (program, 0.into())) else { return Vec::new() };
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
                    let (table, others, shards) = (table.name.clone(), Vec::new(), Some(Vec::new()));
                    Access { table, index, columns, others, is_never: false, shards }
                });
                access.shards.get_or_insert_default().push(shard);
            }
        }
        by_table.into_values().collect()
    }
}

impl CompiledProcedure {
    /// Accesses to the rows that its own statements write, in order.
    pub fn accesses(&self, program: &Program) -> Vec<Access> {
        let found = |table: TableId, rows: &Matches| match rows {
            Matches::Access(access) => access.described(program),
            Matches::Join(_) => {
                let table = program.schema.table(table).name.clone();
                let (columns, others) = (Vec::new(), Vec::new());
                Access { table, index: None, columns, others, is_never: false, shards: None }
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

impl CompiledProcedure {
    /// Tables that its own statements write.
    pub fn written_tables(&self) -> impl Iterator<Item = TableId> {
        self.body.iter().filter_map(|step| match &step.kind {
            CompiledStepKind::Insert { insert, .. } => Some(insert.table),
            CompiledStepKind::Update { update, .. } => Some(update.table),
            CompiledStepKind::Delete { delete, .. } => Some(delete.table),
            _ => None,
        })
    }
}

impl TableAccess {
    fn described(&self, program: &Program) -> Access {
        let table = program.schema.table(self.table);
        let of_path = |path: &Path| match path {
            Path::Get { index, keys } => Some((*index, keys.len())),
            Path::Gets { index, prefix, .. } => Some((*index, prefix.len() + 1)),
            Path::Range(range) => {
                let bounded = range.lower.is_some() || range.upper.is_some();
                Some((range.index, range.prefix.len() + usize::from(bounded)))
            }
            Path::Union(_) | Path::Scan => None,
        };
        let mut by_index: Vec<(IndexId, usize)> = Vec::new();
        for one in self.path.alternatives().into_iter().filter_map(of_path) {
            if !by_index.contains(&one) {
                by_index.push(one);
            }
        }
        let of_index = |(index, known): (IndexId, usize)| {
            let index = &table.indexes[index];
            let columns = index.columns.iter().take(known).filter_map(|column| column.column);
            (index.name.clone(), names(table, columns))
        };
        let mut ways = by_index.into_iter().map(of_index);
        let (index, columns) = match ways.next() {
            Some((index, columns)) => (Some(index), columns),
            None => (None, names(table, self.bound_columns.iter().map(|(column, _)| *column))),
        };
        let (table, others) = (table.name.clone(), ways.collect());
        let is_never = matches!(&self.path, Path::Union(paths) if paths.is_empty());
        Access { table, index, columns, others, is_never, shards: None }
    }
}
