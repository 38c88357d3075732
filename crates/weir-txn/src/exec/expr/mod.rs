//! Compiled expressions: slots instead of names, functions resolved, constants folded.
//!
//! An expression reads the frame and nothing else, but for its subqueries. It never sees SQL text and
//! never looks anything up by name.

pub(crate) mod compile;
pub(crate) mod eval;
mod scalar;
mod truth;

use weir_sql::bound::VolatileFunction;
use weir_sql::catalog::{ColumnIndex, SequenceId, TableId};
use weir_types::operator::Comparison;
use weir_types::{SqlError, SqlType, Value};

pub use compile::compile_list;
pub use truth::Truth;

use super::query::subquery::{ArraySubquery, ExistsSubquery, QuantifiedSubquery, ScalarSubquery};
use super::slots::Slot;

/// Function of two values that are neither NULL nor deferred.
pub type BinaryFunction = fn(&Value, &Value) -> Result<Value, SqlError>;

#[derive(Debug)]
pub enum CompiledExpr {
    Constant(Value),
    Slot(Slot),
    /// A column read from the row itself when it is asked for, not loaded into the frame beforehand.
    Field(Field),
    Compare(Box<Compare>),
    Binary(Box<Binary>),
    Negate(Box<CompiledExpr>, SqlType),
    And(Vec<CompiledExpr>),
    Or(Vec<CompiledExpr>),
    Not(Box<CompiledExpr>),
    IsNull {
        operand: Box<CompiledExpr>,
        negated: bool,
    },
    IsBool {
        operand: Box<CompiledExpr>,
        value: bool,
        negated: bool,
    },
    IsDistinct {
        operands: Box<(CompiledExpr, CompiledExpr)>,
        negated: bool,
    },
    Call(Box<Call>),
    Cast(Box<Cast>),
    Case {
        whens: Vec<(CompiledExpr, CompiledExpr)>,
        otherwise: Option<Box<CompiledExpr>>,
    },
    /// CASE of a variable over integers, as a table.
    Switch(Box<Switch>),
    Coalesce(Vec<CompiledExpr>),
    NullIf(Box<(CompiledExpr, CompiledExpr)>),
    Extremum {
        list: Vec<CompiledExpr>,
        greatest: bool,
    },
    Like(Box<Like>),
    /// LIKE with a constant pattern.
    LikeKnown {
        operand: Box<CompiledExpr>,
        pattern: Box<weir_types::pattern::LikePattern>,
        negated: bool,
    },
    InList {
        operand: Box<CompiledExpr>,
        list: Vec<CompiledExpr>,
        negated: bool,
    },
    ArrayCompare(Box<ArrayCompare>),
    Array {
        element: SqlType,
        values: Vec<CompiledExpr>,
    },
    Subscript(Box<(CompiledExpr, CompiledExpr)>),
    /// A subscript of a variable by a variable, which is borrowed where it lies.
    Element {
        array: Slot,
        index: Slot,
    },
    Slice(Box<Slice>),
    Row(Vec<CompiledExpr>),
    /// A char(n) as LIKE and the length in bytes see it: with its padding.
    Padded(Box<CompiledExpr>, u32),
    Scalar(Box<ScalarSubquery>),
    Exists(Box<ExistsSubquery>),
    Quantified(Box<QuantifiedSubquery>),
    ArraySubquery(Box<ArraySubquery>),
    NextValue(SequenceId),
    CurrentValue(SequenceId),
    TransactionTime,
    /// Transaction time as local time in the session's time zone.
    TransactionLocalTime,
    TransactionDate,
    Volatile(VolatileFunction),
}

/// A column of the row whose identity is in a slot.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub table: TableId,
    pub row: Slot,
    pub column: ColumnIndex,
}

#[derive(Debug)]
pub struct Switch {
    pub operand: Slot,
    /// The first arm with the operand's value counts.
    pub arms: Vec<(i64, CompiledExpr)>,
    pub otherwise: Option<CompiledExpr>,
}

#[derive(Debug)]
pub struct Compare {
    pub test: Comparison,
    pub left: CompiledExpr,
    pub right: CompiledExpr,
}

pub struct Binary {
    pub name: weir_types::operator::BinaryOp,
    pub apply: BinaryFunction,
    /// `+`, `-` or `*` of integers, and the largest result of its type.
    pub integer_limit: Option<i64>,
    pub left: CompiledExpr,
    pub right: CompiledExpr,
}

pub struct Call {
    pub function: &'static weir_types::function::Function,
    pub args: Vec<CompiledExpr>,
    pub arg_types: Vec<SqlType>,
    pub result: SqlType,
}

#[derive(Debug)]
pub struct Cast {
    pub operand: CompiledExpr,
    pub from: SqlType,
    pub to: SqlType,
    pub explicit: bool,
}

#[derive(Debug)]
pub struct Like {
    pub operand: CompiledExpr,
    pub pattern: CompiledExpr,
    pub escape: Option<CompiledExpr>,
    pub insensitive: bool,
    pub negated: bool,
}

/// `left op ANY/ALL (array)`.
pub struct ArrayCompare {
    pub test: BinaryTest,
    pub left: CompiledExpr,
    pub array: CompiledExpr,
    pub all: bool,
}

/// A binary operator with a boolean result, of non-null operands.
#[derive(Clone, Copy)]
pub enum BinaryTest {
    Compare(Comparison),
    Other(BinaryFunction),
}

#[derive(Debug)]
pub struct Slice {
    pub array: CompiledExpr,
    pub lower: Option<CompiledExpr>,
    pub upper: Option<CompiledExpr>,
}

impl BinaryTest {
    #[inline]
    pub fn holds(self, left: &Value, right: &Value) -> Result<Truth, SqlError> {
        match self {
            BinaryTest::Compare(test) => {
                Ok(Truth::from(test.accepts(weir_types::compare::compare(left, right))))
            }
            BinaryTest::Other(apply) => Ok(Truth::of(&apply(left, right)?)),
        }
    }
}

impl std::fmt::Debug for Binary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Binary").field(&self.name).field(&self.left).field(&self.right).finish()
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple(self.function.name).field(&self.args).finish()
    }
}

impl std::fmt::Debug for ArrayCompare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quantifier = if self.all { "All" } else { "Any" };
        f.debug_tuple(quantifier).field(&self.left).field(&self.array).finish()
    }
}
