//! Bound statements and procedures: names resolved, types inferred, casts explicit.
//!
//! This is what the analysis reads and what the executor compiles. Two conventions make both simple:
//! * every relation of a statement (table in FROM, subquery, DML target …) has its own [`RelationId`],
//!   unique in the whole statement, subqueries included; so a correlated column is an ordinary
//!   [`ExprKind::Column`] whose relation belongs to an outer query;
//! * every operand has exactly the type that its operator wants: the binder has inserted the casts.

mod expr;
mod procedure;
mod query;

pub use weir_types::operator::BinaryOp;

pub use self::expr::{
    Aggregate, AggregateFunction, Expr, ExprKind, Frame, FrameBound, FrameExclusion, FrameUnit, Regression,
    SortOrder, VolatileFunction, WindowCall, WindowFunction,
};
pub use self::procedure::{
    Into, IntoTarget, LoopLabel, OpaqueStep, Parameter, ParameterMode, Procedure, ProcedureKind, Raise,
    RaiseLevel, Step, StepKind, Variable,
};
pub use self::query::{
    Cte, Distinct, FromItem, JoinKind, LockStrength, LockWait, OrderBy, OutputColumn, Query, QueryBody,
    RowLock, Select, SetOperator, TableCall, TableFunction,
};
use crate::catalog::{ColumnIndex, TableId};
use crate::source::Span;

/// A relation of one statement. In a CHECK, index or generated expression the table itself is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelationId(pub u32);

/// A parameter, a local variable or an implicit variable of a procedure; index into
/// [`Procedure::variables`]. In an ad-hoc statement, `$n` is variable n − 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);

#[derive(Clone, Debug)]
pub enum Statement {
    Query(Query),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
}

#[derive(Clone, Debug)]
pub struct Insert {
    pub table: TableId,
    /// The new row, in RETURNING; in DO UPDATE the existing row.
    pub relation: RelationId,
    /// `excluded` in DO UPDATE.
    pub excluded: RelationId,
    /// Where the source's outputs go; already cast to the columns' types.
    pub columns: Vec<ColumnIndex>,
    pub source: InsertSource,
    /// Defaults of the columns that `columns` leaves out, NULL included.
    pub defaults: Vec<(ColumnIndex, Expr)>,
    pub on_conflict: Option<OnConflict>,
    pub returning: Vec<(OutputColumn, Expr)>,
    /// Its rows belong to the command of the INSERT before it, which has been taken apart.
    pub continues: bool,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum InsertSource {
    /// `VALUES`, the common case; `DEFAULT` inside is already replaced. One empty row for DEFAULT VALUES.
    Values(Vec<Vec<Expr>>),
    Query(Box<Query>),
}

#[derive(Clone, Debug)]
pub struct OnConflict {
    /// The key that arbitrates; `None` is any (DO NOTHING only).
    pub columns: Option<Vec<ColumnIndex>>,
    /// `None` is DO NOTHING; otherwise the assignments and their WHERE.
    #[allow(clippy::type_complexity)]
    pub update: Option<(Vec<(ColumnIndex, Expr)>, Option<Expr>)>,
}

#[derive(Clone, Debug)]
pub struct Update {
    pub table: TableId,
    pub relation: RelationId,
    /// Right sides see the old row; already cast to the columns' types.
    pub assignments: Vec<(ColumnIndex, Expr)>,
    pub from: Vec<FromItem>,
    pub filter: Option<Expr>,
    /// RETURNING sees the new row as `relation`.
    pub returning: Vec<(OutputColumn, Expr)>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Delete {
    pub table: TableId,
    pub relation: RelationId,
    pub using: Vec<FromItem>,
    pub filter: Option<Expr>,
    pub returning: Vec<(OutputColumn, Expr)>,
    pub span: Span,
}

/// Output columns of a statement, empty where it returns nothing.
impl Statement {
    pub fn span(&self) -> Span {
        match self {
            Statement::Query(query) => query.span,
            Statement::Insert(insert) => insert.span,
            Statement::Update(update) => update.span,
            Statement::Delete(delete) => delete.span,
        }
    }

    pub fn columns(&self) -> Vec<OutputColumn> {
        let returning =
            |list: &[(OutputColumn, Expr)]| list.iter().map(|(column, _)| column.clone()).collect();
        match self {
            Statement::Query(query) => query.columns.clone(),
            Statement::Insert(insert) => returning(&insert.returning),
            Statement::Update(update) => returning(&update.returning),
            Statement::Delete(delete) => returning(&delete.returning),
        }
    }
}
