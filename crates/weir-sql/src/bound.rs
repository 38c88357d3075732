//! Bound statements and procedures: names resolved, types inferred, casts explicit.
//!
//! This is what the analysis reads and what the executor compiles. Two conventions make both simple:
//! * every relation of a statement (table in FROM, subquery, DML target …) has its own [`RelationId`],
//!   unique in the whole statement, subqueries included; so a correlated column is an ordinary
//!   [`ExprKind::Column`] whose relation belongs to an outer query;
//! * every operand has exactly the type that its operator wants: the binder has inserted the casts.

use serde::{Deserialize, Serialize};
pub use weir_types::operator::BinaryOp;
use weir_types::{CatalogType, Severity, SqlState, SqlType, Value};

use crate::catalog::{ColumnIndex, SequenceId, TableId};
use crate::source::Span;
use crate::walk;

/// A relation of one statement. In a CHECK, index or generated expression the table itself is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelationId(pub u32);

/// A parameter, a local variable or an implicit variable of a procedure; index into
/// [`Procedure::variables`]. In an ad-hoc statement, `$n` is variable n − 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub ty: SqlType,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    Literal(Value),
    Column {
        relation: RelationId,
        column: ColumnIndex,
    },
    Variable(VariableId),
    /// Both operands have the same type but for date/time arithmetic, shifts, `||` with arrays, and jsonb
    /// access, where the pair decides the meaning.
    Binary {
        op: BinaryOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    Negate(Box<Expr>),
    /// Three-valued; at least two operands.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull {
        operand: Box<Expr>,
        negated: bool,
    },
    /// `IS [NOT] TRUE/FALSE` (UNKNOWN is `IsNull`).
    IsBool {
        operand: Box<Expr>,
        value: bool,
        negated: bool,
    },
    IsDistinct {
        left: Box<Expr>,
        right: Box<Expr>,
        negated: bool,
    },
    /// A scalar function by PostgreSQL's name; `function` carries its implementation.
    Function {
        function: &'static weir_types::function::Function,
        args: Vec<Expr>,
    },
    /// To `Expr::ty`. `explicit` casts truncate where implicit and assignment casts raise.
    Cast {
        operand: Box<Expr>,
        explicit: bool,
    },
    /// Searched form; `CASE x WHEN` is rewritten to it.
    Case {
        whens: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Coalesce(Vec<Expr>),
    NullIf(Box<Expr>, Box<Expr>),
    Greatest(Vec<Expr>),
    Least(Vec<Expr>),
    Like {
        operand: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<Box<Expr>>,
        insensitive: bool,
        negated: bool,
    },
    /// `x IN (a, b, …)` and `NOT IN`.
    InList {
        operand: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
    /// `x op ANY/ALL (array)`.
    ArrayCompare {
        op: BinaryOp,
        left: Box<Expr>,
        array: Box<Expr>,
        all: bool,
    },
    Array(Vec<Expr>),
    Subscript {
        array: Box<Expr>,
        index: Box<Expr>,
    },
    /// `a[lower:upper]`.
    Slice {
        array: Box<Expr>,
        lower: Option<Box<Expr>>,
        upper: Option<Box<Expr>>,
    },
    /// `(a, b, …)`; comparisons of rows are rewritten to columns where both sides are rows.
    Row(Vec<Expr>),
    /// The value of a one-column, at-most-one-row query; more rows are an error (21000).
    ScalarSubquery(Box<Query>),
    Exists {
        query: Box<Query>,
        negated: bool,
    },
    /// `(a, b) op ANY/ALL (SELECT …)`; `IN` is `= ANY`, `NOT IN` is `<> ALL`.
    QuantifiedSubquery {
        op: BinaryOp,
        left: Vec<Expr>,
        query: Box<Query>,
        all: bool,
    },
    /// `ARRAY(SELECT …)`.
    ArraySubquery(Box<Query>),
    /// Only in the outputs, HAVING and ORDER BY of an aggregating [`Select`].
    Aggregate(Box<Aggregate>),
    /// Only in the outputs and ORDER BY of a [`Select`], evaluated after grouping.
    Window(Box<WindowCall>),
    NextValue(SequenceId),
    CurrentValue(SequenceId),
    /// `now()`, `current_timestamp`, `current_date`, `localtimestamp`: the transaction's time, as `ty`.
    TransactionTime,
    /// `clock_timestamp()`, `random()`, `gen_random_uuid()`: another value at every call.
    Volatile(VolatileFunction),
    /// Something that Weir cannot compute, of these values; only where an application is read to be
    /// analysed ([`crate::Reading::Tolerant`]), never in one that runs.
    Opaque(Vec<Expr>),
}

impl ExprKind {
    /// Whether working it out again in the same transaction could give another value, or has an effect.
    pub fn is_volatile(&self) -> bool {
        matches!(self, ExprKind::Volatile(_) | ExprKind::NextValue(_) | ExprKind::CurrentValue(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolatileFunction {
    ClockTimestamp,
    Random,
    GenRandomUuid,
    /// In RETURNING of ON CONFLICT DO UPDATE: 1 of a row that was updated, 0 of one that was inserted.
    ConflictUpdated,
}

#[derive(Clone, Debug)]
pub struct Aggregate {
    pub function: AggregateFunction,
    /// Empty for `count(*)`.
    pub args: Vec<Expr>,
    pub distinct: bool,
    pub filter: Option<Expr>,
    /// `array_agg(x ORDER BY y)`.
    pub order_by: Vec<(Expr, SortOrder)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    Count,
    Sum,
    Average,
    Minimum,
    Maximum,
    BoolAnd,
    BoolOr,
    ArrayAgg,
    StringAgg,
    JsonbAgg,
    /// Aggregates pairs of a key and a value.
    JsonbObjectAgg,
    BitAnd,
    BitOr,
    BitXor,
    VariancePopulation,
    VarianceSample,
    DeviationPopulation,
    DeviationSample,
    /// Two columns of double precision, as for `regr_…`: the dependent one first.
    Regression(Regression),
    /// `mode() WITHIN GROUP (ORDER BY x)`: its argument is what it is ordered by.
    Mode,
    /// The fraction, then what it is ordered by.
    PercentileContinuous,
    PercentileDiscrete,
}

impl AggregateFunction {
    /// `WITHIN GROUP` says what it is of.
    pub fn is_ordered_set(self) -> bool {
        use AggregateFunction::*;
        matches!(self, Mode | PercentileContinuous | PercentileDiscrete)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regression {
    Count,
    AverageX,
    AverageY,
    SumOfSquaresX,
    SumOfSquaresY,
    SumOfProducts,
    Slope,
    Intercept,
    Determination,
    Correlation,
    CovariancePopulation,
    CovarianceSample,
}

/// `function(args) FILTER (WHERE …) OVER (PARTITION BY … ORDER BY … frame)`.
#[derive(Clone, Debug)]
pub struct WindowCall {
    pub function: WindowFunction,
    pub args: Vec<Expr>,
    pub filter: Option<Expr>,
    pub partition_by: Vec<Expr>,
    pub order_by: Vec<(Expr, SortOrder)>,
    pub frame: Frame,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    /// `lag` and `lead` with all three arguments.
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
    Aggregate(AggregateFunction),
}

/// Which rows of a partition an aggregate or `first_value` sees from a row.
#[derive(Clone, Debug)]
pub struct Frame {
    pub unit: FrameUnit,
    pub start: FrameBound,
    pub end: FrameBound,
    pub exclusion: FrameExclusion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    Rows,
    Range,
    Groups,
}

#[derive(Clone, Debug)]
pub enum FrameBound {
    UnboundedPreceding,
    /// For rows and groups a bigint; for a range the amount subtracted from the sort key.
    Preceding(Box<Expr>),
    CurrentRow,
    Following(Box<Expr>),
    UnboundedFollowing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameExclusion {
    Nothing,
    CurrentRow,
    Group,
    Ties,
}

impl FrameBound {
    pub fn offset(&self) -> Option<&Expr> {
        match self {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset),
            _ => None,
        }
    }

    pub fn offset_mut(&mut self) -> Option<&mut Expr> {
        match self {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortOrder {
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Debug)]
pub struct Query {
    pub ctes: Vec<Cte>,
    pub body: QueryBody,
    /// Over the body's outputs, hidden ones included.
    pub order_by: Vec<OrderBy>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// `FETCH FIRST … WITH TIES`: whatever sorts like the last row comes, too.
    pub with_ties: bool,
    /// `FOR UPDATE` and weaker: whose rows are held.
    pub locks: Vec<RowLock>,
    /// Result columns of the query. The body may have further, hidden outputs after them, for ORDER BY.
    pub columns: Vec<OutputColumn>,
    pub span: Span,
}

/// The rows of one table in FROM are held until the transaction ends, as if they were written.
#[derive(Clone, Copy, Debug)]
pub struct RowLock {
    pub relation: RelationId,
    pub table: TableId,
    pub strength: LockStrength,
    pub wait: LockWait,
}

/// PostgreSQL's row-level lock modes, the weakest first. Of several clauses the strongest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockStrength {
    /// The row and its keys stay. Checks of foreign keys hold their parents so.
    KeyShare,
    /// The row stays as it is.
    Share,
    /// An UPDATE that leaves the row's keys as they are.
    NoKeyUpdate,
    /// A DELETE, or an UPDATE of a key.
    Update,
}

impl LockStrength {
    /// Two transactions cannot hold a row so at a time.
    pub fn conflicts_with(self, other: LockStrength) -> bool {
        use LockStrength::{KeyShare, NoKeyUpdate, Share, Update};
        match (self.min(other), self.max(other)) {
            (_, Update) => true,
            (KeyShare, _) => false,
            (Share, other) => other == NoKeyUpdate,
            (NoKeyUpdate, _) => true,
            (Update, _) => unreachable!("the greater one is Update, too"),
        }
    }

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            LockStrength::KeyShare => "FOR KEY SHARE",
            LockStrength::Share => "FOR SHARE",
            LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
            LockStrength::Update => "FOR UPDATE",
        }
    }
}

/// Action on a row locked by another transaction. If several clauses apply to a row, the greatest in this order wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockWait {
    Block,
    /// `SKIP LOCKED`.
    Skip,
    /// `NOWAIT`.
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    pub name: String,
    pub ty: SqlType,
    /// Type reported to clients instead of `ty`, for a column of the system catalog.
    pub catalog: Option<CatalogType>,
}

impl OutputColumn {
    pub fn new(name: String, ty: SqlType) -> OutputColumn {
        OutputColumn { name, ty, catalog: None }
    }

    pub fn told_as(self, catalog: Option<CatalogType>) -> OutputColumn {
        OutputColumn { catalog, ..self }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct OrderBy {
    /// Index of one of the body's outputs.
    pub output: usize,
    pub order: SortOrder,
}

/// `WITH name AS (…)`, referred to by [`FromItem::Cte`] by its position.
#[derive(Clone, Debug)]
pub struct Cte {
    pub name: String,
    pub query: Query,
    /// The query is a UNION whose right side refers to the CTE itself: to the rows that came last.
    pub recursive: bool,
}

#[derive(Clone, Debug)]
pub enum QueryBody {
    Select(Box<Select>),
    SetOperation { op: SetOperator, all: bool, left: Box<Query>, right: Box<Query> },
    Values(Vec<Vec<Expr>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperator {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug)]
pub struct Select {
    pub distinct: Distinct,
    pub outputs: Vec<Expr>,
    /// Comma-separated items; none for `SELECT 1`.
    pub from: Vec<FromItem>,
    pub filter: Option<Expr>,
    pub group_by: Vec<Expr>,
    pub having: Option<Expr>,
    /// There is a GROUP BY, a HAVING or an aggregate in the outputs.
    pub aggregates: bool,
}

impl Select {
    /// `SELECT outputs FROM from WHERE filter`.
    pub fn plain(outputs: Vec<Expr>, from: Vec<FromItem>, filter: Option<Expr>) -> Select {
        Select {
            distinct: Distinct::All,
            outputs,
            from,
            filter,
            group_by: Vec::new(),
            having: None,
            aggregates: false,
        }
    }
}

impl Query {
    /// That SELECT and nothing else.
    pub fn of_select(select: Select, columns: Vec<OutputColumn>, span: Span) -> Query {
        Query {
            ctes: Vec::new(),
            body: QueryBody::Select(Box::new(select)),
            order_by: Vec::new(),
            limit: None,
            offset: None,
            with_ties: false,
            locks: Vec::new(),
            columns,
            span,
        }
    }

    /// It gives values of sequences, which it does not give again.
    pub fn takes_values(&self) -> bool {
        let mut takes = false;
        walk::each_expr_of_query(self, &mut |expr| takes |= matches!(expr.kind, ExprKind::NextValue(_)));
        takes
    }

    /// Returns whether it has effects in addition to its rows.
    pub fn has_effects(&self) -> bool {
        self.takes_values() || !self.held_tables().is_empty()
    }

    /// The tables whose rows it holds, or a query within it.
    pub fn held_tables(&self) -> Vec<TableId> {
        let mut held = Vec::new();
        walk::each_part(walk::Part::Query(self), &mut |part| {
            if let walk::Part::Query(query) = part {
                held.extend(query.locks.iter().map(|lock| lock.table));
            }
        });
        held
    }
}

#[derive(Clone, Debug)]
pub enum Distinct {
    All,
    Rows,
    /// `DISTINCT ON`: indexes of outputs.
    On(Vec<usize>),
}

#[derive(Clone, Debug)]
pub enum FromItem {
    Table {
        relation: RelationId,
        table: TableId,
        alias: String,
        span: Span,
    },
    /// A derived table or a view.
    Subquery {
        relation: RelationId,
        query: Box<Query>,
        lateral: bool,
    },
    /// A CTE of this query or of one around it, by its level outwards (0 is this query) and position.
    Cte {
        relation: RelationId,
        level: usize,
        index: usize,
    },
    Function {
        relation: RelationId,
        /// Side by side, as `ROWS FROM` has them: those that have given all theirs give NULL.
        calls: Vec<TableCall>,
        with_ordinality: bool,
        columns: Vec<OutputColumn>,
    },
    Values {
        relation: RelationId,
        rows: Vec<Vec<Expr>>,
        columns: Vec<OutputColumn>,
    },
    /// USING and NATURAL have become ON; their merged columns are the left side's (or `coalesce`).
    Join {
        kind: JoinKind,
        left: Box<FromItem>,
        right: Box<FromItem>,
        on: Option<Expr>,
    },
}

/// One function in FROM.
#[derive(Clone, Debug)]
pub struct TableCall {
    pub function: TableFunction,
    pub args: Vec<Expr>,
    /// How many columns it gives.
    pub width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFunction {
    GenerateSeries,
    Unnest,
    /// The argument is the result of an ordinary function, which forms one row.
    Scalar,
    GenerateSubscripts,
    JsonbArrayElements,
    JsonbArrayElementsText,
    JsonbEach,
    JsonbEachText,
    JsonbObjectKeys,
    RegexpMatches,
    RegexpSplitToTable,
    StringToTable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Cross,
}

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

#[derive(Clone, Debug)]
pub struct Procedure {
    pub name: String,
    pub kind: ProcedureKind,
    /// In declaration order; each is a variable too.
    pub parameters: Vec<Parameter>,
    /// Parameters first, then everything that is declared or implied, inner blocks included.
    pub variables: Vec<Variable>,
    /// The `FOUND` variable.
    pub found: VariableId,
    pub body: Vec<Step>,
    /// `SET default_transaction_isolation = 'serializable'` on the procedure.
    pub serializable: bool,
    /// Generated, to stand for what any application does with a table.
    pub synthesised: bool,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ProcedureKind {
    Procedure,
    /// `Void` and OUT-parameter functions included.
    Function {
        returns: SqlType,
    },
    SetReturningFunction {
        columns: Vec<(String, SqlType)>,
    },
}

#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: String,
    pub ty: SqlType,
    pub mode: ParameterMode,
    pub default: Option<Expr>,
    pub variable: VariableId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterMode {
    In,
    Out,
    InOut,
}

/// A RECORD or %ROWTYPE variable has become one variable per field, named `r.field`.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub ty: SqlType,
    /// DECLARE … NOT NULL: assigning NULL is 22004.
    pub not_null: bool,
    pub constant: bool,
}

/// One PL/pgSQL statement.
#[derive(Clone, Debug)]
pub struct Step {
    pub kind: StepKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum StepKind {
    /// Already cast to the variable's type. DECLARE's initial values are such steps at the block's start.
    Assign {
        variable: VariableId,
        value: Expr,
    },
    /// `a[i] := value`.
    AssignElement {
        variable: VariableId,
        index: Expr,
        value: Expr,
    },
    /// SELECT … INTO, PERFORM (a query without `into`), and DML.
    Sql {
        statement: Box<Statement>,
        into: Option<Into>,
    },
    If {
        branches: Vec<(Expr, Vec<Step>)>,
        otherwise: Vec<Step>,
    },
    /// Bounds are of type integer; the variable is implicit.
    ForRange {
        variable: VariableId,
        from: Expr,
        to: Expr,
        by: Option<Expr>,
        reverse: bool,
        label: LoopLabel,
        body: Vec<Step>,
    },
    ForQuery {
        targets: Vec<IntoTarget>,
        query: Box<Query>,
        label: LoopLabel,
        body: Vec<Step>,
    },
    ForEach {
        variable: VariableId,
        array: Expr,
        label: LoopLabel,
        body: Vec<Step>,
    },
    While {
        condition: Expr,
        label: LoopLabel,
        body: Vec<Step>,
    },
    Loop {
        label: LoopLabel,
        body: Vec<Step>,
    },
    /// A labelled or plain BEGIN … END block, without its declarations.
    Block {
        label: LoopLabel,
        body: Vec<Step>,
    },
    /// Leaves the loop or block with that label.
    Exit {
        label: LoopLabel,
        when: Option<Expr>,
    },
    Continue {
        label: LoopLabel,
        when: Option<Expr>,
    },
    Raise(Raise),
    /// Ends a procedure, or a function whose result (if any) is in `value`.
    Return {
        value: Option<Expr>,
    },
    ReturnNext {
        values: Vec<Expr>,
    },
    ReturnQuery {
        query: Box<Query>,
    },
    /// `GET DIAGNOSTICS variable = ROW_COUNT`.
    GetRowCount {
        variable: VariableId,
    },
    /// CALL of another procedure; OUT arguments are assigned to the targets.
    Call {
        procedure: usize,
        args: Vec<Expr>,
        targets: Vec<IntoTarget>,
    },
    Assert {
        condition: Expr,
        message: Option<Expr>,
    },
    Null,
    /// A statement that could not be bound; only in an application that is analysed, never in one that runs.
    Opaque(OpaqueStep),
}

/// Possible effects of a statement that is not understood: everything that its text may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpaqueStep {
    /// Tables whose every row and column it may read.
    pub reads: Vec<TableId>,
    /// Tables in which it may insert, update and delete anything.
    pub writes: Vec<TableId>,
    /// Variables that may have any value behind it.
    pub assigns: Vec<VariableId>,
    /// It may end the procedure, or leave the loop around it.
    pub leaves: bool,
    /// Unknown names that it writes to: their dependents are unknown.
    pub unseen: Vec<String>,
    /// Sequences that it may set, so that they may repeat a number.
    pub resets: Vec<SequenceId>,
}

/// Unique within the procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoopLabel(pub u32);

#[derive(Clone, Debug)]
pub struct Into {
    pub targets: Vec<IntoTarget>,
    pub strict: bool,
}

/// The i-th output goes to the i-th target, cast to the variable's type (an assignment cast).
#[derive(Clone, Debug)]
pub struct IntoTarget {
    pub variable: VariableId,
}

#[derive(Clone, Debug)]
pub struct Raise {
    /// Only `Exception` ends the transaction.
    pub level: RaiseLevel,
    /// The format with its `%`, and the arguments cast to text.
    pub format: String,
    pub args: Vec<Expr>,
    pub state: SqlState,
    pub message: Option<Expr>,
    pub detail: Option<Expr>,
    pub hint: Option<Expr>,
}

impl Raise {
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.args.iter().chain(&self.message).chain(&self.detail).chain(&self.hint)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaiseLevel {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Exception,
}

impl RaiseLevel {
    /// None: what it raises is an error.
    pub fn severity(self) -> Option<Severity> {
        match self {
            RaiseLevel::Debug => Some(Severity::Debug),
            RaiseLevel::Log => Some(Severity::Log),
            RaiseLevel::Info => Some(Severity::Info),
            RaiseLevel::Notice => Some(Severity::Notice),
            RaiseLevel::Warning => Some(Severity::Warning),
            RaiseLevel::Exception => None,
        }
    }
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
