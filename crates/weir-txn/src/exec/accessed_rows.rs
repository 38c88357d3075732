//! Rows that statements name by their primary keys, found from arguments alone: what contention is measured by (docs/internals/cat.md).
//!
//! Nothing that runs depends on it. Rows that are inserted, or found in another way, are not among them.

use std::hash::{Hash as _, Hasher as _};

use rustc_hash::FxHasher;
use weir_sql::Catalog;
use weir_sql::bound::{Statement, Step};
use weir_sql::catalog::TableId;
use weir_types::Value;

use super::by_key::is_same_key;
use super::compile::each_statement;
use super::gather::Gather;
use super::program::{CompiledProcedure, Program, each_key};
use super::routing::{Origins, Source, equalities_of};

/// A row, while its statement's arguments are known.
#[derive(Clone, Copy, Debug)]
pub struct AccessedRow<'a> {
    pub table: TableId,
    /// Of the primary key, in its order.
    pub values: &'a [Value],
}

impl AccessedRow<'_> {
    /// Equal keys have equal numbers. Those of different tables may, too.
    pub fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        for value in self.values {
            match value {
                Value::Int(value) => value.hash(&mut hasher),
                Value::Text(text) => text.as_bytes().hash(&mut hasher),
                value => format!("{value:?}").hash(&mut hasher),
            }
        }
        // Fx leaves the low bits of a small number as they are; objects are compared whole, so that is enough.
        hasher.finish()
    }
}

/// Primary keys that the statements of a procedure name: for each row the sources of each column.
#[derive(Debug, Default)]
pub struct AccessedRows(Vec<(TableId, Vec<Vec<Source>>)>);

impl AccessedRows {
    pub(super) fn of(catalog: &Catalog, origins: &Origins, steps: &[Step]) -> AccessedRows {
        let mut rows = Vec::new();
        each_statement(steps, &mut |statement, _| rows.extend(named(catalog, origins, statement)));
        AccessedRows(rows)
    }
}

fn named<'a>(
    catalog: &'a Catalog,
    origins: &'a Origins,
    statement: &'a Statement,
) -> impl Iterator<Item = (TableId, Vec<Vec<Source>>)> + 'a {
    let equalities = equalities_of(statement);
    let tables = equalities.tables.clone();
    tables.into_iter().filter_map(move |(relation, table)| {
        let of = catalog.table(table);
        let key = of.primary_key.as_ref()?;
        let sources = |column: &usize| {
            let class = equalities.find(*equalities.classes.get(&(relation, *column))?);
            let value = equalities.known[class]?;
            let sources = origins.expr(value).filter(|_| is_same_key(&of.columns[*column].ty, &value.ty))?;
            (!sources.contains(&Source::Own)).then_some(sources)
        };
        let columns: Vec<Vec<Source>> = key.columns.iter().map(sources).collect::<Option<_>>()?;
        // Elements of two arrays go together, one of each; all with all would be too many.
        let is_single = |sources: &&Vec<Source>| matches!(&sources[..], [one] if !one.is_elements());
        let several = columns.len() - columns.iter().filter(is_single).count();
        (several <= 1).then_some((table, columns))
    })
}

impl CompiledProcedure {
    /// Rows that a call with these arguments names, each as often as it is named. A branch that is not taken counts as if it were.
    pub fn each_accessed_row(&self, args: &[Value], visit: &mut dyn FnMut(AccessedRow<'_>)) {
        for (table, sources) in &self.accessed_rows.0 {
            each_key(sources, args, &mut Vec::with_capacity(sources.len()), &mut |values| {
                if !values.iter().any(Value::is_null) {
                    visit(AccessedRow { table: *table, values });
                }
            });
        }
    }
}

impl Gather {
    /// Rows that the query names with these values.
    pub fn each_accessed_row(
        &self,
        values: &[Value],
        program: &Program,
        visit: &mut dyn FnMut(AccessedRow<'_>),
    ) {
        let queries = self.table_queries(values, program);
        let mut seen = Vec::new();
        for read in queries.values().flat_map(|query| &query.tables) {
            let schema = program.schema.table(read.table);
            let Some(primary) = schema.indexes.first().filter(|_| schema.has_primary_key) else { continue };
            let value = |column: Option<usize>| {
                read.equals.iter().find(|(of, _)| Some(*of) == column).map(|(_, value)| value.clone())
            };
            let key: Option<Vec<Value>> = primary.columns.iter().map(|column| value(column.column)).collect();
            // Several shards may be asked for the same row.
            if let Some(key) = key.filter(|key| !seen.contains(&(read.table, key.clone()))) {
                visit(AccessedRow { table: read.table, values: &key });
                seen.push((read.table, key));
            }
        }
    }
}
