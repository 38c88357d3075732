//! Binary operators: which operand types each takes, and what it computes.

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
