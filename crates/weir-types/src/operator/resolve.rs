//! Operator resolution: PostgreSQL's rules for the operators and types that Weir has.

use super::BinaryOp;
use crate::cast::{CastContext, can_cast};
use crate::error::{SqlError, SqlState};
use crate::sql_type::SqlType;

/// Types that the operands must be cast to (explicitly, where they differ), and the type of the result. Integers of different widths, and
/// strings in comparisons, keep their types: their values need no cast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinarySignature {
    pub left: SqlType,
    pub right: SqlType,
    pub result: SqlType,
}

fn signature(left: SqlType, right: SqlType, result: SqlType) -> Option<BinarySignature> {
    Some(BinarySignature { left, right, result })
}

fn same(ty: SqlType) -> Option<BinarySignature> {
    signature(ty.clone(), ty.clone(), ty)
}

const NO_MATCH: &str =
    "No operator matches the given name and argument types. You might need to add explicit type casts.";

/// Which operator `left op right` is (42883 if none, 42725 if two unknown literals leave it open).
pub fn resolve_binary(op: BinaryOp, left: &SqlType, right: &SqlType) -> Result<BinarySignature, SqlError> {
    let found = match (left, right) {
        // A number of days, an interval or a time: PostgreSQL does not choose either.
        (SqlType::Unknown, SqlType::Date) | (SqlType::Date, SqlType::Unknown) if op == BinaryOp::Add => {
            return Err(not_unique(op, left, right));
        }
        (SqlType::Unknown, SqlType::Unknown) => return both_unknown(op),
        (SqlType::Unknown, _) => unknown_left(op, right),
        (_, SqlType::Unknown) => unknown_right(op, left),
        _ => known(op, left, right),
    };
    found.ok_or_else(|| {
        SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("operator does not exist: {} {} {}", left.name(), op.symbol(), right.name()),
        )
        .with_hint(NO_MATCH)
    })
}

/// The type of `-operand` (42883, or 42725 for an unknown literal).
pub fn resolve_negate(operand: &SqlType) -> Result<SqlType, SqlError> {
    match operand {
        SqlType::Unknown => Err(SqlError::new(
            SqlState::AMBIGUOUS_FUNCTION,
            "operator is not unique: - unknown",
        )
        .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts.")),
        SqlType::Interval => Ok(SqlType::Interval),
        _ if operand.is_number() => Ok(operand.base()),
        _ => Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("operator does not exist: - {}", operand.name()),
        )
        .with_hint(
            "No operator matches the given name and argument type. You might need to add an explicit type cast.",
        )),
    }
}

fn both_unknown(op: BinaryOp) -> Result<BinarySignature, SqlError> {
    let text = SqlType::Text;
    if op.is_comparison() || matches!(op, BinaryOp::RegexMatch | BinaryOp::RegexMatchInsensitive) {
        return Ok(BinarySignature { left: text.clone(), right: text, result: SqlType::Bool });
    }
    if op == BinaryOp::Concat {
        return Ok(BinarySignature { left: text.clone(), right: text.clone(), result: text });
    }
    Err(not_unique(op, &SqlType::Unknown, &SqlType::Unknown))
}

fn not_unique(op: BinaryOp, left: &SqlType, right: &SqlType) -> SqlError {
    SqlError::new(
        SqlState::AMBIGUOUS_FUNCTION,
        format!("operator is not unique: {} {} {}", left.name(), op.symbol(), right.name()),
    )
    .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts.")
}

/// The type that an unknown literal takes for the sake of the other operand.
fn as_literal(ty: &SqlType) -> SqlType {
    match ty {
        SqlType::Char(_) => SqlType::Char(0),
        other => other.base(),
    }
}

fn unknown_right(op: BinaryOp, left: &SqlType) -> Option<BinarySignature> {
    use BinaryOp::*;
    // First of all the literal is assumed to have the other operand's type.
    if let Some(found) = known(op, left, &as_literal(left)) {
        return Some(found);
    }
    let right = match (op, left) {
        (Add | Subtract, SqlType::Timestamp | SqlType::Timestamptz) => SqlType::Interval,
        (Multiply | Divide, SqlType::Interval) => SqlType::Float8,
        (ShiftLeft | ShiftRight, SqlType::Int8 | SqlType::Int2) => SqlType::Int4,
        (_, _) => SqlType::Text,
    };
    known(op, left, &right)
}

fn unknown_left(op: BinaryOp, right: &SqlType) -> Option<BinarySignature> {
    use BinaryOp::*;
    if let Some(found) = known(op, &as_literal(right), right) {
        return Some(found);
    }
    let left = match (op, right) {
        (Add, SqlType::Timestamp | SqlType::Timestamptz) => SqlType::Interval,
        (Multiply, SqlType::Interval) => SqlType::Float8,
        (JsonGet | JsonGetText | JsonExists, _) => SqlType::Jsonb,
        (_, _) => SqlType::Text,
    };
    known(op, &left, right)
}

fn known(op: BinaryOp, left: &SqlType, right: &SqlType) -> Option<BinarySignature> {
    use BinaryOp::*;
    match op {
        _ if op.is_comparison() => comparison(left, right),
        Add | Subtract | Multiply | Divide | Modulo | Power => arithmetic(op, left, right)
            .or_else(|| on_times(op, left, right))
            .or_else(|| on_json(op, left, right)),
        BitAnd | BitOr | BitXor => {
            let (left, right) = (left.is_integer().then_some(left)?, right.is_integer().then_some(right)?);
            signature(left.clone(), right.clone(), wider(left, right))
        }
        ShiftLeft | ShiftRight => {
            let fits = left.is_integer() && matches!(right, SqlType::Int2 | SqlType::Int4);
            if fits { signature(left.clone(), SqlType::Int4, left.clone()) } else { None }
        }
        Concat => concat(left, right),
        JsonGet | JsonGetText | JsonExists => on_json(op, left, right),
        Contains | ContainedBy | Overlaps => match (left, right) {
            (SqlType::Jsonb, SqlType::Jsonb) if op != Overlaps => {
                signature(SqlType::Jsonb, SqlType::Jsonb, SqlType::Bool)
            }
            (SqlType::Array(_), SqlType::Array(_)) if left.base() == right.base() => {
                signature(left.base(), right.base(), SqlType::Bool)
            }
            _ => None,
        },
        RegexMatch | RegexMatchInsensitive => (left.is_string() && right.is_string())
            .then_some(BinarySignature { left: SqlType::Text, right: SqlType::Text, result: SqlType::Bool }),
        _ => None,
    }
}

fn wider(left: &SqlType, right: &SqlType) -> SqlType {
    let rank = |ty: &SqlType| match ty {
        SqlType::Int2 => 1,
        SqlType::Int4 => 2,
        _ => 3,
    };
    if rank(left) >= rank(right) { left.clone() } else { right.clone() }
}

/// The type that both numbers are computed in; `None` for integers.
fn inexact(left: &SqlType, right: &SqlType) -> Option<SqlType> {
    match (left, right) {
        _ if left.is_integer() && right.is_integer() => None,
        (SqlType::Float4, SqlType::Float4) => Some(SqlType::Float4),
        (SqlType::Float4 | SqlType::Float8, _) | (_, SqlType::Float4 | SqlType::Float8) => {
            Some(SqlType::Float8)
        }
        _ => Some(SqlType::Numeric(None)),
    }
}

fn comparison(left: &SqlType, right: &SqlType) -> Option<BinarySignature> {
    let boolean = |left: &SqlType, right: &SqlType| signature(left.clone(), right.clone(), SqlType::Bool);
    if left.is_number() && right.is_number() {
        return match inexact(left, right) {
            None => boolean(left, right),
            Some(ty) => boolean(&ty, &ty),
        };
    }
    if left.is_string() && right.is_string() {
        return boolean(left, right);
    }
    if left.is_instant() && right.is_instant() {
        let common = later(left, right);
        return boolean(&common, &common);
    }
    match (left, right) {
        (SqlType::Void, _) => None,
        (SqlType::Array(_), SqlType::Array(_)) => {
            (left.base() == right.base()).then(|| boolean(left, right)).flatten()
        }
        _ if left.base() == right.base() => boolean(left, right),
        _ => None,
    }
}

/// The common type of two of date, timestamp and timestamptz.
fn later(left: &SqlType, right: &SqlType) -> SqlType {
    let rank = |ty: &SqlType| match ty {
        SqlType::Date => 1,
        SqlType::Timestamp => 2,
        _ => 3,
    };
    if rank(left) >= rank(right) { left.clone() } else { right.clone() }
}

fn arithmetic(op: BinaryOp, left: &SqlType, right: &SqlType) -> Option<BinarySignature> {
    if !(left.is_number() && right.is_number()) {
        return None;
    }
    let exact_or_float = inexact(left, right);
    match (op, exact_or_float) {
        (BinaryOp::Power, None | Some(SqlType::Float4)) => same(SqlType::Float8),
        (BinaryOp::Modulo, Some(SqlType::Float4 | SqlType::Float8)) => None,
        (_, Some(ty)) => same(ty),
        (_, None) => signature(left.clone(), right.clone(), wider(left, right)),
    }
}

fn on_times(op: BinaryOp, left: &SqlType, right: &SqlType) -> Option<BinarySignature> {
    use BinaryOp::*;
    use SqlType::*;
    let plain = |result: SqlType| signature(left.clone(), right.clone(), result);
    match (op, left, right) {
        (Add | Subtract, Date, Int2 | Int4) => signature(Date, Int4, Date),
        (Add, Int2 | Int4, Date) => signature(Int4, Date, Date),
        (Subtract, Date, Date) => plain(Int4),
        (Subtract, _, _) if left.is_instant() && right.is_instant() => {
            let common = later(left, right);
            signature(common.clone(), common, Interval)
        }
        (Add | Subtract, Date | Timestamp, Interval) | (Add, Interval, Date | Timestamp) => plain(Timestamp),
        (Add | Subtract, Timestamptz, Interval) | (Add, Interval, Timestamptz) => plain(Timestamptz),
        (Add | Subtract, Interval, Interval) => plain(Interval),
        (Multiply | Divide, Interval, number) if number.is_number() => signature(Interval, Float8, Interval),
        (Multiply, number, Interval) if number.is_number() => signature(Float8, Interval, Interval),
        _ => None,
    }
}

fn on_json(op: BinaryOp, left: &SqlType, right: &SqlType) -> Option<BinarySignature> {
    use BinaryOp::*;
    if *left != SqlType::Jsonb {
        return None;
    }
    let key = match right {
        SqlType::Int2 | SqlType::Int4 => SqlType::Int4,
        SqlType::Array(element) if element.is_string() => SqlType::array_of(SqlType::Text),
        _ if right.is_string() => SqlType::Text,
        _ => return None,
    };
    let result = match (op, &key) {
        (JsonGet, SqlType::Int4 | SqlType::Text) | (Subtract, _) => SqlType::Jsonb,
        (JsonGetText, SqlType::Int4 | SqlType::Text) => SqlType::Text,
        (JsonExists, SqlType::Text) => SqlType::Bool,
        _ => return None,
    };
    signature(SqlType::Jsonb, key, result)
}

fn common_element(left: &SqlType, right: &SqlType) -> Option<SqlType> {
    if can_cast(right, left, CastContext::Implicit) {
        Some(left.base())
    } else if can_cast(left, right, CastContext::Implicit) {
        Some(right.base())
    } else {
        None
    }
}

fn common_array(left: &SqlType, right: &SqlType) -> Option<SqlType> {
    match (left, right) {
        (SqlType::Array(left), SqlType::Array(right)) => common_element(left, right).map(SqlType::array_of),
        _ => None,
    }
}

fn concat(left: &SqlType, right: &SqlType) -> Option<BinarySignature> {
    match (left, right) {
        (SqlType::Array(_), SqlType::Array(_)) => same(common_array(left, right)?),
        (SqlType::Array(of), element) => {
            let element = common_element(of, element)?;
            let array = SqlType::array_of(element.clone());
            signature(array.clone(), element, array)
        }
        (element, SqlType::Array(of)) => {
            let element = common_element(of, element)?;
            let array = SqlType::array_of(element.clone());
            signature(element, array.clone(), array)
        }
        (SqlType::Jsonb, SqlType::Jsonb) => same(SqlType::Jsonb),
        (SqlType::Bytea, SqlType::Bytea) => same(SqlType::Bytea),
        (SqlType::Void, _) | (_, SqlType::Void) => None,
        _ if left.is_string() || right.is_string() => same(SqlType::Text),
        _ => None,
    }
}
