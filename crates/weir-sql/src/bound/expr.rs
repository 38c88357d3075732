//! Bound expressions: operators, aggregates, calls of window functions.

use weir_types::{SqlType, Value};

use super::{BinaryOp, Query, RelationId, VariableId};
use crate::catalog::{ColumnIndex, SequenceId};
use crate::source::Span;

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

impl SortOrder {
    /// That of an ORDER BY which says nothing else.
    pub const ASCENDING: SortOrder = SortOrder { descending: false, nulls_first: false };
}
