//! pg_catalog and information_schema: tables that are nowhere stored, whose rows say what the schema is.
//!
//! [`System`] is built from an application: its catalog followed by the tables of `tables.sql`, and their rows. Views and functions are
//! SQL over those ([`templates`]). Pure: session facts are in [`Facts`], and the executor of a query reads the rows.

pub(crate) mod column_types;
mod deparse;
mod numbers;
mod relations;
mod routines;
pub(crate) mod templates;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use weir_types::Value;

use crate::Application;
use crate::bound::{Expr, ExprKind};
use crate::catalog::{Catalog, TableId};
use crate::load::load;
use crate::source::Sources;
use numbers::Numbers;

/// Facts about the session and the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub user: String,
    pub database: String,
    /// Process number reported to the session.
    pub process: i32,
    /// Settings of the session, if the text reads them.
    pub settings: BTreeMap<String, String>,
}

/// A row of a virtual table.
pub type Row = Vec<Value>;

/// The schema, with the tables of the system catalog.
#[derive(Debug)]
pub struct System {
    /// The application's, and behind its tables the virtual ones.
    pub catalog: Catalog,
    /// The first of them.
    pub first: TableId,
    /// Rows of each table, in order.
    pub rows: Vec<Vec<Row>>,
}

/// The virtual tables by themselves.
fn tables() -> &'static Catalog {
    static TABLES: OnceLock<Catalog> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut sources = Sources::default();
        sources.add("tables.sql", include_str!("tables.sql"));
        match load(sources) {
            Ok(app) => {
                let mut catalog = app.catalog;
                for table in &mut catalog.tables {
                    table.name = format!("pg_catalog.{}", table.name);
                }
                catalog
            }
            Err((_, wrong)) => panic!("the tables of the system catalog: {wrong:?}"),
        }
    })
}

/// Tables whose rows say what the server does that is asked: it gives them when it is, made by [`volatile_row`].
pub const VOLATILE: [&str; 6] = [
    "pg_stat_activity",
    "pg_stat_statements",
    "pg_stat_database",
    "pg_locks",
    "weir_sequence_values",
    "weir_placement",
];

/// A row of one of these; what is not given has its default.
pub fn volatile_row(table: &str, given: &[(&str, Value)]) -> Row {
    row(table, given).1
}

/// With the place of its table.
fn row(table: &str, given: &[(&str, Value)]) -> (usize, Row) {
    let all = tables();
    let known = all.tables.iter().position(|one| one.name.strip_prefix("pg_catalog.") == Some(table));
    let at = known.unwrap_or_else(|| panic!("there is no table {table}"));
    for (name, _) in given {
        assert!(all.tables[at].column_by_name(name).is_some(), "{table} has no column {name}");
    }
    let value = |column: &crate::catalog::Column| {
        // The last words.
        let given = given.iter().rfind(|(name, _)| *name == column.name);
        given.map_or_else(|| constant(column.default.as_ref()), |(_, value)| value.clone())
    };
    (at, all.tables[at].columns.iter().map(value).collect())
}

impl System {
    /// The table of that name, which is virtual.
    pub fn table(&self, name: &str) -> Option<TableId> {
        let of = |table: &&crate::catalog::Table| table.name.strip_prefix("pg_catalog.") == Some(name);
        self.catalog.tables.iter().skip(self.first.0 as usize).find(of).map(|table| table.id)
    }

    pub fn of(app: &Application) -> System {
        let first = TableId(app.catalog.tables.len() as u32);
        let mut rows =
            Rows { app, numbers: Numbers::default(), rows: vec![Vec::new(); tables().tables.len()] };
        rows.namespaces();
        rows.types();
        rows.operator_classes();
        rows.relations();
        rows.assertions();
        rows.routines();
        let mut catalog = app.catalog.clone();
        for (table, id) in tables().tables.iter().zip(first.0..) {
            catalog.tables.push(crate::catalog::Table { id: TableId(id), ..table.clone() });
        }
        System { catalog, first, rows: rows.rows }
    }
}

/// The number of a relation, as `tableoid` shows it.
pub fn class_number(table: &str) -> i64 {
    Numbers::default().relation(table)
}

/// `schema.name` as it is known: what is in `public` has no schema.
fn split(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or(("public", name))
}

fn text(text: &str) -> Value {
    Value::text(text)
}

/// The rows, while they are made.
struct Rows<'a> {
    app: &'a Application,
    numbers: Numbers,
    rows: Vec<Vec<Row>>,
}

impl Rows<'_> {
    /// Adds a row; what is not given has its default.
    fn add(&mut self, table: &str, given: &[(&str, Value)]) {
        let (at, row) = row(table, given);
        self.rows[at].push(row);
    }

    fn namespaces(&mut self) {
        let catalog = &self.app.catalog;
        let names = catalog.tables.iter().map(|table| &table.name);
        let names = names.chain(catalog.views.iter().map(|view| &view.name));
        let names = names.chain(catalog.sequences.iter().map(|sequence| &sequence.name));
        let names = names
            .chain(self.app.procedures.iter().map(|procedure| &procedure.name))
            .chain(catalog.types.keys());
        let mut schemas: Vec<&str> = names.map(|name| split(name).0).collect();
        schemas.extend(catalog.schemas.iter().map(String::as_str));
        schemas.extend(["pg_catalog", "public", "information_schema"]);
        schemas.sort_unstable();
        schemas.dedup();
        for schema in schemas {
            let number = self.numbers.namespace(schema);
            // pg_database_owner has it, as in PostgreSQL.
            let owner = if schema == "public" { 6171 } else { 10 };
            let given =
                [("oid", Value::Int(number)), ("nspname", text(schema)), ("nspowner", Value::Int(owner))];
            self.add("pg_namespace", &given);
            let described = match schema {
                "public" => "standard public schema",
                "pg_catalog" => "system catalog schema",
                _ => continue,
            };
            let given = [
                ("objoid", Value::Int(number)),
                ("classoid", Value::Int(2615)),
                ("objsubid", Value::Int(0)),
                ("description", text(described)),
            ];
            self.add("pg_description", &given);
        }
    }
}

/// A default of `tables.sql`, which is a constant.
fn constant(default: Option<&Expr>) -> Value {
    match default.map(|expr| &expr.kind) {
        None => Value::Null,
        Some(ExprKind::Literal(value)) => value.clone(),
        Some(ExprKind::Cast { operand, .. }) => constant(Some(operand)),
        Some(ExprKind::Negate(operand)) => match constant(Some(operand)) {
            Value::Int(int) => Value::Int(-int),
            other => other,
        },
        Some(other) => panic!("a default of the system catalog is no constant: {other:?}"),
    }
}
