//! Tables, constraints, indexes, sequences, views and assertions, with the place of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_types::{EnumType, SqlState, SqlType};

use crate::bound::{Expr, ExprKind, Procedure, Query, RelationId, VariableId};
use crate::source::{Diagnostic, Span};
pub use crate::tables::Tables;

/// Index into [`Catalog::tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TableId(pub u32);

/// Index into [`Catalog::sequences`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SequenceId(pub u32);

/// Position of a column in its table.
pub type ColumnIndex = usize;

#[derive(Clone, Debug, Default)]
pub struct Catalog {
    pub tables: Tables,
    pub sequences: Vec<Sequence>,
    pub views: Vec<View>,
    /// Enumerations and domains, by name.
    pub types: BTreeMap<String, UserType>,
    /// In the order in which they are created; those of one table run in the order of their names.
    pub triggers: Vec<Trigger>,
    /// Partitions are folded into their table: the partition's name, and the table's.
    pub partitions: BTreeMap<String, String>,
    /// Schemas made by CREATE SCHEMA, besides `public`.
    pub schemas: BTreeSet<String>,
    /// By CREATE EXTENSION, `plpgsql` aside.
    pub extensions: BTreeSet<String>,
}

/// One of PostgreSQL's whose functions are built in.
#[derive(Debug)]
pub struct Extension {
    pub name: &'static str,
    pub version: &'static str,
    pub description: &'static str,
}

pub const EXTENSIONS: [Extension; 3] = [
    Extension { name: "plpgsql", version: "1.0", description: "PL/pgSQL procedural language" },
    Extension { name: "pgcrypto", version: "1.3", description: "cryptographic functions" },
    Extension {
        name: "uuid-ossp",
        version: "1.1",
        description: "generate universally unique identifiers (UUIDs)",
    },
];

/// `CREATE TYPE … AS ENUM` and `CREATE DOMAIN`.
#[derive(Clone, Debug)]
pub enum UserType {
    Enum(Arc<EnumType>),
    Domain(Domain),
    /// Any other type that the schema declares.
    Opaque,
}

/// A type with constraints. Columns of it have its base type, and its constraints as their own.
#[derive(Clone, Debug)]
pub struct Domain {
    pub name: String,
    pub base: SqlType,
    pub not_null: Option<Span>,
    pub default: Option<Expr>,
    /// `VALUE` is column 0 of relation 0. Those of a domain below it are here too.
    pub checks: Vec<Check>,
    /// The domains below it, whose constraints are its own too.
    pub below: Vec<String>,
}

impl Domain {
    /// Returns whether it is that domain, or is based on it.
    pub fn is_or_extends(&self, name: &str) -> bool {
        self.name == name || self.below.iter().any(|below| below == name)
    }
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
    pub exclusions: Vec<Exclusion>,
    /// Secondary indexes by `CREATE INDEX`; those that keys imply are not repeated here.
    pub indexes: Vec<Index>,
    /// `COMMENT ON TABLE … IS 'weir: partition by (…)'`.
    pub partition_by: Option<Vec<ColumnIndex>>,
    /// `PARTITION BY …` of PostgreSQL, as written; its partitions are folded into it.
    pub partitioned: Option<String>,
    /// `COMMENT ON TABLE … IS 'weir: replicated'`: a copy on every shard.
    pub replicated: bool,
    /// COMMENT ON, whole.
    pub comment: Option<String>,
    /// ROW LEVEL SECURITY is ENABLEd, and FORCEd. There are no policies, and the one role that there is passes them by.
    pub row_security: (bool, bool),
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub ty: SqlType,
    /// Modifier of a timestamp or an interval, as `atttypmod`: every written value is rounded to it.
    pub time_modifier: Option<i32>,
    pub not_null: bool,
    /// Where NOT NULL (or the PRIMARY KEY that implies it) is declared.
    pub not_null_span: Option<Span>,
    /// DEFAULT, or `nextval` for serial and identity columns. Refers to no column.
    pub default: Option<Expr>,
    /// `GENERATED ALWAYS AS IDENTITY`: an INSERT may not choose the value.
    pub generated_always: bool,
    /// `GENERATED … AS IDENTITY`, of either kind.
    pub is_identity: bool,
    /// `GENERATED ALWAYS AS (…) STORED`: columns of the row are of relation 0.
    pub generated: Option<Expr>,
    /// The domain that it is declared with.
    pub domain: Option<String>,
    /// `ALTER COLUMN … TYPE … USING`, of the last such statement: the value that a row of then has since, over the columns that the
    /// table had before that statement.
    pub retyped: Option<Expr>,
    /// Generated for a unique index over an expression, and invisible to statements.
    pub is_hidden: bool,
    pub comment: Option<String>,
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
    /// The domain that it comes from, with the column that it is about.
    pub domain: Option<(String, ColumnIndex)>,
    pub span: Span,
}

/// `EXCLUDE USING … (element WITH operator, …)`: no two rows for which every operator holds.
#[derive(Clone, Debug)]
pub struct Exclusion {
    pub name: String,
    pub elements: Vec<(Expr, String)>,
    /// Its WHERE; columns are of relation 0.
    pub predicate: Option<Expr>,
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
    pub deferral: Deferral,
    pub span: Span,
}

/// When a foreign key is looked at: as soon as a row is written, or when its transaction ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deferral {
    /// NOT DEFERRABLE.
    #[default]
    Never,
    /// DEFERRABLE, and at once unless SET CONSTRAINTS says otherwise.
    Immediate,
    /// DEFERRABLE INITIALLY DEFERRED.
    Deferred,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKeyAction {
    /// Refused, when the constraint is looked at.
    NoAction,
    /// Refused at once.
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

impl Table {
    /// Names of all its constraints that have one.
    pub fn constraint_names(&self) -> impl Iterator<Item = &str> {
        let keys = self.primary_key.iter().chain(&self.unique_keys).map(|key| key.name.as_str());
        let checks = self.checks.iter().map(|check| check.name.as_str());
        let exclusions = self.exclusions.iter().map(|exclusion| exclusion.name.as_str());
        keys.chain(checks).chain(exclusions).chain(self.foreign_keys.iter().map(|key| key.name.as_str()))
    }
}

impl ForeignKeyAction {
    /// The children stay as they are.
    pub fn refuses(self) -> bool {
        matches!(self, ForeignKeyAction::NoAction | ForeignKeyAction::Restrict)
    }
}

#[derive(Clone, Debug)]
pub struct Index {
    pub name: String,
    pub keys: Vec<IndexKey>,
    pub unique: bool,
    pub nulls_not_distinct: bool,
    /// A partial index's WHERE; columns are of relation 0.
    pub predicate: Option<Expr>,
    /// Original definition of an index whose keys are hidden columns.
    pub written: Option<Box<WrittenIndex>>,
    pub comment: Option<String>,
    pub span: Span,
}

/// A unique index over what is computed of a row.
#[derive(Clone, Debug)]
pub struct WrittenIndex {
    pub keys: Vec<IndexKey>,
    pub predicate: Option<Expr>,
}

#[derive(Clone, Debug)]
pub struct IndexKey {
    /// A plain column is `ExprKind::Column` of relation 0.
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub id: SequenceId,
    pub name: String,
    /// smallint, integer or bigint.
    pub ty: SqlType,
    /// The first value that it gives.
    pub start: i64,
    /// Start value at its creation; it may have been restarted with another one.
    pub declared_start: i64,
    pub increment: i64,
    pub minimum: i64,
    pub maximum: i64,
    pub cycle: bool,
    /// Number of restarts, each at `start`.
    pub restarts: u32,
    /// The serial or identity column that owns it.
    pub owner: Option<(TableId, ColumnIndex)>,
    pub comment: Option<String>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct View {
    pub name: String,
    pub query: Query,
    pub materialized: bool,
    pub comment: Option<String>,
    /// The table that a write to it goes to, where each of its rows is one row of one table.
    pub target: Option<ViewTarget>,
    /// The views that it reads, by the places of their declarations.
    pub below: Vec<Span>,
    pub span: Span,
}

/// A table, seen through a view.
#[derive(Clone, Debug)]
pub struct ViewTarget {
    /// The table with the view's column names; columns that the view omits have names that no text can contain.
    pub table: Table,
    /// The view's columns, as positions in the table.
    pub columns: Vec<ColumnIndex>,
    /// The view's WHERE, over whichever relation the table is there.
    pub filter: Option<Expr>,
}

/// `CREATE TRIGGER`, with its function bound for the trigger's own table.
#[derive(Clone, Debug)]
pub struct Trigger {
    pub name: String,
    pub table: TableId,
    pub timing: TriggerTiming,
    pub events: TriggerEvents,
    /// FOR EACH ROW, or once for the statement.
    pub each_row: bool,
    /// WHEN (…), over `body`'s variables of NEW and OLD.
    pub condition: Option<Expr>,
    /// The trigger function. It returns nothing; RETURN NEW, OLD and NULL end it.
    pub body: Procedure,
    /// By column of the table, the variables of `body` that hold the new row; for a statement's trigger too.
    pub new: Vec<VariableId>,
    /// And the old row.
    pub old: Vec<VariableId>,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerTiming {
    Before,
    After,
    InsteadOf,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerEvents {
    pub insert: bool,
    pub delete: bool,
    pub truncate: bool,
    pub update: bool,
    /// UPDATE OF …: only if one of these is assigned; empty for any.
    pub update_of: Vec<ColumnIndex>,
}

/// `CREATE ASSERTION name CHECK (…)`, SQL-92.
#[derive(Clone, Debug)]
pub struct Assertion {
    pub name: String,
    /// A boolean without free columns: its subqueries hold everything.
    pub expr: Expr,
    pub text: String,
    /// The table whose comment says it, by the place of its declaration; none: by CREATE ASSERTION.
    pub comment_on: Option<Span>,
    pub span: Span,
}

impl Catalog {
    pub fn table(&self, id: TableId) -> &Table {
        &self.tables[id.0 as usize]
    }

    pub fn table_by_name(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The table that is named at `place`.
    ///
    /// # Errors
    /// 42P01.
    pub fn table_named(&self, name: &str, place: Span) -> Result<&Table, Diagnostic> {
        self.table_by_name(name).ok_or_else(|| {
            let message = format!("relation \"{name}\" does not exist");
            Diagnostic::new(SqlState::UNDEFINED_TABLE, place, message)
        })
    }

    /// The partitioned table of a partition.
    pub fn table_of_partition(&self, name: &str) -> Option<&Table> {
        self.partitions.get(name).and_then(|table| self.table_by_name(table))
    }

    pub fn sequence(&self, id: SequenceId) -> &Sequence {
        &self.sequences[id.0 as usize]
    }
}

impl Column {
    /// Without constraints and default.
    pub fn plain(name: String, ty: SqlType, span: Span) -> Column {
        Column {
            name,
            ty,
            time_modifier: None,
            not_null: false,
            not_null_span: None,
            default: None,
            generated_always: false,
            is_identity: false,
            generated: None,
            domain: None,
            retyped: None,
            is_hidden: false,
            comment: None,
            span,
        }
    }

    /// Expression by which an `ALTER COLUMN … TYPE` since then converts the values.
    pub fn retyped_since(&self, was: &Column) -> Option<&Expr> {
        let place = |column: &Column| column.retyped.as_ref().map(|expr| expr.span);
        self.retyped.as_ref().filter(|_| place(was) != place(self))
    }

    /// NOT NULL, declared at `place` unless it was before.
    pub fn forbid_null(&mut self, place: Span) {
        self.not_null = true;
        self.not_null_span.get_or_insert(place);
    }
}

impl Index {
    /// As they were written.
    pub fn written_keys(&self) -> &[IndexKey] {
        self.written.as_ref().map_or(&self.keys, |written| &written.keys)
    }

    /// As it was written.
    pub fn written_predicate(&self) -> Option<&Expr> {
        self.written.as_ref().map_or(self.predicate.as_ref(), |written| written.predicate.as_ref())
    }

    /// The columns of its keys, if there is no expression among these.
    pub fn plain_columns(&self) -> Option<Vec<ColumnIndex>> {
        let columns = self.keys.iter().map(|key| match key.expr.kind {
            ExprKind::Column { column, .. } => Some(column),
            _ => None,
        });
        columns.collect()
    }
}

impl Table {
    /// Without columns and constraints.
    pub fn named(id: TableId, name: impl Into<String>, span: Span) -> Table {
        Table {
            id,
            name: name.into(),
            columns: Vec::new(),
            primary_key: None,
            unique_keys: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            exclusions: Vec::new(),
            indexes: Vec::new(),
            partition_by: None,
            partitioned: None,
            replicated: false,
            comment: None,
            row_security: (false, false),
            span,
        }
    }

    pub fn column_by_name(&self, name: &str) -> Option<ColumnIndex> {
        self.columns.iter().position(|column| column.name == name && !column.is_hidden)
    }

    /// No two rows have the same values of these columns, in any order: a foreign key may refer to them.
    pub fn has_key(&self, columns: &[ColumnIndex]) -> bool {
        let same = |key: &[ColumnIndex]| {
            key.len() == columns.len() && key.iter().all(|column| columns.contains(column))
        };
        let keys = self.primary_key.iter().chain(&self.unique_keys);
        let indexes = self.indexes.iter().filter(|index| index.unique && index.predicate.is_none());
        keys.map(|key| key.columns.clone())
            .chain(indexes.filter_map(Index::plain_columns))
            .any(|key| same(&key))
    }

    /// The column, in an expression over one row of the table.
    pub fn read(&self, column: ColumnIndex, span: Span) -> Expr {
        let kind = ExprKind::Column { relation: RelationId(0), column };
        Expr { kind, ty: self.columns[column].ty.clone(), span }
    }

    /// The column that is named at `place`.
    ///
    /// # Errors
    /// 42703.
    pub fn column_named(&self, name: &str, place: Span) -> Result<ColumnIndex, Diagnostic> {
        self.column_by_name(name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
            Diagnostic::new(SqlState::UNDEFINED_COLUMN, place, message)
        })
    }
}
