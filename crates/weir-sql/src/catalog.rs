//! Tables, constraints, indexes, sequences, views and assertions, with the place of each.

use weir_types::SqlType;

use crate::bound::{Expr, Query};
use crate::source::Span;

/// Index into [`Catalog::tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// Index into [`Catalog::sequences`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u32);

/// Position of a column in its table.
pub type ColumnIndex = usize;

#[derive(Clone, Debug, Default)]
pub struct Catalog {
    pub tables: Vec<Table>,
    pub sequences: Vec<Sequence>,
    pub views: Vec<View>,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub id: TableId,
    pub name: String,
    pub columns: Vec<Column>,
    pub primary_key: Option<UniqueKey>,
    pub unique_keys: Vec<UniqueKey>,
    pub checks: Vec<Check>,
    pub foreign_keys: Vec<ForeignKey>,
    /// Secondary indexes by `CREATE INDEX`; those that keys imply are not repeated here.
    pub indexes: Vec<Index>,
    /// `COMMENT ON TABLE … IS 'weir: partition by (…)'`.
    pub partition_by: Option<Vec<ColumnIndex>>,
    /// `COMMENT ON TABLE … IS 'weir: replicated'`: a copy on every shard.
    pub replicated: bool,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub ty: SqlType,
    pub not_null: bool,
    /// Where NOT NULL (or the PRIMARY KEY that implies it) is declared.
    pub not_null_span: Option<Span>,
    /// DEFAULT, or `nextval` for serial and identity columns. Refers to no column.
    pub default: Option<Expr>,
    /// `GENERATED ALWAYS AS IDENTITY`: an INSERT may not choose the value.
    pub generated_always: bool,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct UniqueKey {
    /// As PostgreSQL would name it where the DDL does not: `orders_pkey`, `users_email_key`.
    pub name: String,
    pub columns: Vec<ColumnIndex>,
    pub nulls_not_distinct: bool,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Check {
    pub name: String,
    /// Columns appear as [`crate::bound::ExprKind::Column`] of relation 0.
    pub expr: Expr,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct ForeignKey {
    pub name: String,
    pub columns: Vec<ColumnIndex>,
    pub parent: TableId,
    pub parent_columns: Vec<ColumnIndex>,
    pub on_delete: ForeignKeyAction,
    pub on_update: ForeignKeyAction,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKeyAction {
    /// NO ACTION; RESTRICT differs only for deferred constraints, which are refused.
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

#[derive(Clone, Debug)]
pub struct Index {
    pub name: String,
    pub keys: Vec<IndexKey>,
    pub unique: bool,
    pub nulls_not_distinct: bool,
    /// A partial index's WHERE; columns are of relation 0.
    pub predicate: Option<Expr>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct IndexKey {
    /// A plain column is `ExprKind::Column` of relation 0.
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Debug)]
pub struct Sequence {
    pub id: SequenceId,
    pub name: String,
    pub start: i64,
    pub increment: i64,
    pub minimum: i64,
    pub maximum: i64,
    pub cycle: bool,
    /// The serial or identity column that owns it.
    pub owner: Option<(TableId, ColumnIndex)>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct View {
    pub name: String,
    pub query: Query,
    pub materialized: bool,
    pub span: Span,
}

/// `CREATE ASSERTION name CHECK (…)`, SQL-92.
#[derive(Clone, Debug)]
pub struct Assertion {
    pub name: String,
    /// A boolean without free columns: its subqueries hold everything.
    pub expr: Expr,
    pub text: String,
    pub span: Span,
}

impl Catalog {
    pub fn table(&self, id: TableId) -> &Table {
        &self.tables[id.0 as usize]
    }

    pub fn table_by_name(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    pub fn sequence(&self, id: SequenceId) -> &Sequence {
        &self.sequences[id.0 as usize]
    }
}

impl Table {
    pub fn column_by_name(&self, name: &str) -> Option<ColumnIndex> {
        self.columns.iter().position(|column| column.name == name)
    }
}
