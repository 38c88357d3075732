//! Binary operators: which operand types each takes, and what it computes.
//!
//! Every operator is strict: the executor answers NULL for a NULL operand before it calls. The functions
//! here return NULL (or Deferred) for such operands nevertheless, so that a missed check is harmless.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// `||` of strings, arrays, bytea or jsonb.
    Concat,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    /// jsonb `->`, `->>`, `@>`, `<@`, `?`; the last three also for arrays.
    JsonGet,
    JsonGetText,
    Contains,
    ContainedBy,
    JsonExists,
    /// `&&` of arrays.
    Overlaps,
    /// `~`, `~*`; negations are wrapped in Not.
    RegexMatch,
    RegexMatchInsensitive,
}

mod comparison;
mod evaluate;
mod on_json;
mod resolve;

pub use comparison::Comparison;
pub use evaluate::{BinaryFn, binary, negate, specialise};
pub(crate) use evaluate::{array_append, array_prepend, power_floats};
pub use resolve::{BinarySignature, resolve_binary, resolve_negate};

impl BinaryOp {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Subtract => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::Modulo => "%",
            BinaryOp::Power => "^",
            BinaryOp::Equal => "=",
            BinaryOp::NotEqual => "<>",
            BinaryOp::Less => "<",
            BinaryOp::LessOrEqual => "<=",
            BinaryOp::Greater => ">",
            BinaryOp::GreaterOrEqual => ">=",
            BinaryOp::Concat => "||",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "#",
            BinaryOp::ShiftLeft => "<<",
            BinaryOp::ShiftRight => ">>",
            BinaryOp::JsonGet => "->",
            BinaryOp::JsonGetText => "->>",
            BinaryOp::Contains => "@>",
            BinaryOp::ContainedBy => "<@",
            BinaryOp::JsonExists => "?",
            BinaryOp::Overlaps => "&&",
            BinaryOp::RegexMatch => "~",
            BinaryOp::RegexMatchInsensitive => "~*",
        }
    }

    /// `<`, `<=`, `>` and `>=`.
    pub fn is_ordering(self) -> bool {
        Comparison::of(self).is_some_and(|comparison| !comparison.is_of_equality())
    }

    pub fn is_comparison(self) -> bool {
        Comparison::of(self).is_some()
    }
}
