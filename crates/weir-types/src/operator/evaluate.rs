//! Evaluation of operators. [`specialise`] picks a function once, for the executor to call per row.

use super::BinaryOp;
use super::on_json::{json_concat, json_delete, json_exists, json_get, json_get_text};
use crate::arrays;
use crate::cast::{float_overflow, float_underflow, out_of_range};
use crate::compare::{compare, compare_floats};
use crate::datetime;
use crate::error::{SqlError, SqlState};
use crate::interrupt::room_for;
use crate::numeric::{Numeric, division_by_zero};
use crate::pattern;
use crate::sql_type::SqlType;
use crate::value::Value;

/// An operator for operands of certain types. Called with a NULL or Deferred operand it returns that.
pub type BinaryFn = fn(&Value, &Value) -> Result<Value, SqlError>;

/// Operands that are not what the operator was specialised for: NULL, Deferred, or a bug of the binder.
#[cold]
pub(super) fn others(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::Deferred, _) | (_, Value::Deferred) => Ok(Value::Deferred),
        _ => Err(SqlError::new(
            SqlState::INTERNAL_ERROR,
            format!(
                "operands of types {} and {} do not fit the operator",
                arrays::type_of(left),
                arrays::type_of(right)
            ),
        )),
    }
}

#[inline]
fn integer<const WIDTH: u8>(result: Option<i64>) -> Result<Value, SqlError> {
    let fits = |value: i64| match WIDTH {
        2 => value as i16 as i64 == value,
        4 => value as i32 as i64 == value,
        _ => true,
    };
    match result {
        Some(value) if fits(value) => Ok(Value::Int(value)),
        _ => Err(out_of_range(match WIDTH {
            2 => "smallint",
            4 => "integer",
            _ => "bigint",
        })),
    }
}

macro_rules! integer_operators {
    ($($name:ident: |$left:ident, $right:ident| $result:expr;)*) => {
        $(fn $name<const WIDTH: u8>(left: &Value, right: &Value) -> Result<Value, SqlError> {
            match (left, right) {
                (Value::Int($left), Value::Int($right)) => integer::<WIDTH>($result),
                _ => others(left, right),
            }
        })*
    };
}

integer_operators! {
    integer_add: |a, b| a.checked_add(*b);
    integer_subtract: |a, b| a.checked_sub(*b);
    integer_multiply: |a, b| a.checked_mul(*b);
    integer_divide: |a, b| if *b == 0 { return Err(division_by_zero()) } else { a.checked_div(*b) };
    integer_modulo: |a, b| if *b == 0 { return Err(division_by_zero()) } else { Some(a.wrapping_rem(*b)) };
    integer_and: |a, b| Some(a & b);
    integer_or: |a, b| Some(a | b);
    integer_xor: |a, b| Some(a ^ b);
    integer_shift_left: |a, b| Some(match WIDTH {
        2 => i64::from((*a as i32).wrapping_shl(*b as u32) as i16),
        4 => i64::from((*a as i32).wrapping_shl(*b as u32)),
        _ => a.wrapping_shl(*b as u32),
    });
    integer_shift_right: |a, b| Some(match WIDTH {
        2 | 4 => i64::from((*a as i32).wrapping_shr(*b as u32)),
        _ => a.wrapping_shr(*b as u32),
    });
}

macro_rules! numeric_operators {
    ($($name:ident: $method:ident;)*) => {
        $(fn $name(left: &Value, right: &Value) -> Result<Value, SqlError> {
            match (left, right) {
                (Value::Numeric(left), Value::Numeric(right)) => left.$method(right).map(Value::Numeric),
                _ => numeric_others(left, right, Numeric::$method),
            }
        })*
    };
}

numeric_operators! {
    numeric_add: add;
    numeric_subtract: sub;
    numeric_multiply: mul;
    numeric_divide: div;
    numeric_modulo: rem;
    numeric_power: power;
}

/// Integer operands without a cast are treated as numeric.
#[cold]
fn numeric_others(
    left: &Value,
    right: &Value,
    apply: fn(&Numeric, &Numeric) -> Result<Numeric, SqlError>,
) -> Result<Value, SqlError> {
    let number = |value: &Value| match value {
        Value::Numeric(numeric) => Some(numeric.clone()),
        Value::Int(int) => Some(Numeric::from_i64(*int)),
        _ => None,
    };
    match (number(left), number(right)) {
        (Some(left), Some(right)) => apply(&left, &right).map(Value::Numeric),
        _ => others(left, right),
    }
}

/// Overflow is an error unless an operand was infinite already.
fn checked_float(result: f64, left: f64, right: f64, may_underflow: bool) -> Result<f64, SqlError> {
    if result.is_infinite() && left.is_finite() && right.is_finite() {
        return Err(float_overflow());
    }
    if may_underflow && result == 0.0 && left != 0.0 && right.is_finite() {
        return Err(float_underflow());
    }
    Ok(result)
}

fn add_floats(left: f64, right: f64) -> Result<f64, SqlError> {
    checked_float(left + right, left, right, false)
}

fn subtract_floats(left: f64, right: f64) -> Result<f64, SqlError> {
    checked_float(left - right, left, right, false)
}

fn multiply_floats(left: f64, right: f64) -> Result<f64, SqlError> {
    checked_float(left * right, left, right, right != 0.0)
}

fn divide_floats(left: f64, right: f64) -> Result<f64, SqlError> {
    if right == 0.0 && !left.is_nan() {
        return Err(division_by_zero());
    }
    checked_float(left / right, left, right, true)
}

/// `^` and `power` of doubles.
pub(crate) fn power_floats(left: f64, right: f64) -> Result<f64, SqlError> {
    let undefined =
        |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message));
    if left == 0.0 && right < 0.0 {
        return undefined("zero raised to a negative power is undefined");
    }
    if left < 0.0 && right.is_finite() && right.fract() != 0.0 {
        return undefined("a negative number raised to a non-integer power yields a complex result");
    }
    checked_float(left.powf(right), left, right, true)
}

macro_rules! float_operators {
    ($($double:ident, $single:ident: $function:ident;)*) => {
        $(fn $double(left: &Value, right: &Value) -> Result<Value, SqlError> {
            match (left, right) {
                (Value::Float8(left), Value::Float8(right)) => $function(*left, *right).map(Value::Float8),
                _ => others(left, right),
            }
        }
        fn $single(left: &Value, right: &Value) -> Result<Value, SqlError> {
            match (left, right) {
                (Value::Float4(left), Value::Float4(right)) => {
                    let wide = $function(f64::from(*left), f64::from(*right))?;
                    // Rounding the double once more gives the correctly rounded real.
                    let narrow = wide as f32;
                    if narrow.is_infinite() && wide.is_finite() {
                        return Err(float_overflow());
                    }
                    if narrow == 0.0 && wide != 0.0 {
                        return Err(float_underflow());
                    }
                    Ok(Value::Float4(narrow))
                }
                _ => others(left, right),
            }
        })*
    };
}

float_operators! {
    double_add, real_add: add_floats;
    double_subtract, real_subtract: subtract_floats;
    double_multiply, real_multiply: multiply_floats;
    double_divide, real_divide: divide_floats;
    double_power, real_power: power_floats;
}

const EQUAL: u8 = 0;
const NOT_EQUAL: u8 = 1;
const LESS: u8 = 2;
const LESS_OR_EQUAL: u8 = 3;
const GREATER: u8 = 4;
const GREATER_OR_EQUAL: u8 = 5;

#[inline]
fn decide<const OP: u8>(order: std::cmp::Ordering) -> Result<Value, SqlError> {
    Ok(Value::Bool(match OP {
        EQUAL => order.is_eq(),
        NOT_EQUAL => order.is_ne(),
        LESS => order.is_lt(),
        LESS_OR_EQUAL => order.is_le(),
        GREATER => order.is_gt(),
        _ => order.is_ge(),
    }))
}

macro_rules! comparisons {
    ($($name:ident: $variant:ident;)*) => {
        $(fn $name<const OP: u8>(left: &Value, right: &Value) -> Result<Value, SqlError> {
            match (left, right) {
                (Value::$variant(left), Value::$variant(right)) => decide::<OP>(left.cmp(right)),
                _ => compare_any::<OP>(left, right),
            }
        })*
    };
}

comparisons! {
    compare_integers: Int;
    compare_numerics: Numeric;
    compare_timestamps: Timestamp;
    compare_dates: Date;
    compare_booleans: Bool;
}

fn compare_texts<const OP: u8>(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        // Equality need not find out which is less: different lengths decide it.
        (Value::Text(left), Value::Text(right)) => match OP {
            EQUAL => Ok(Value::Bool(left.as_bytes() == right.as_bytes())),
            NOT_EQUAL => Ok(Value::Bool(left.as_bytes() != right.as_bytes())),
            _ => decide::<OP>(left.as_bytes().cmp(right.as_bytes())),
        },
        _ => compare_any::<OP>(left, right),
    }
}

fn compare_doubles<const OP: u8>(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Float8(left), Value::Float8(right)) => decide::<OP>(compare_floats(*left, *right)),
        _ => compare_any::<OP>(left, right),
    }
}

fn compare_any<const OP: u8>(left: &Value, right: &Value) -> Result<Value, SqlError> {
    if left.is_null() || right.is_null() || left.is_deferred() || right.is_deferred() {
        return others(left, right);
    }
    decide::<OP>(compare(left, right))
}

macro_rules! by_comparison {
    ($op:expr, $function:ident) => {
        match $op {
            BinaryOp::Equal => $function::<EQUAL>,
            BinaryOp::NotEqual => $function::<NOT_EQUAL>,
            BinaryOp::Less => $function::<LESS>,
            BinaryOp::LessOrEqual => $function::<LESS_OR_EQUAL>,
            BinaryOp::Greater => $function::<GREATER>,
            _ => $function::<GREATER_OR_EQUAL>,
        }
    };
}

fn comparison(op: BinaryOp, left: &SqlType) -> BinaryFn {
    match left {
        SqlType::Bool => by_comparison!(op, compare_booleans),
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => by_comparison!(op, compare_integers),
        SqlType::Numeric(_) => by_comparison!(op, compare_numerics),
        SqlType::Float8 => by_comparison!(op, compare_doubles),
        SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Unknown => {
            by_comparison!(op, compare_texts)
        }
        SqlType::Date => by_comparison!(op, compare_dates),
        SqlType::Timestamp | SqlType::Timestamptz => by_comparison!(op, compare_timestamps),
        _ => by_comparison!(op, compare_any),
    }
}

macro_rules! by_width {
    ($left:expr, $right:expr, $function:ident) => {
        match ($left, $right) {
            (SqlType::Int8, _) | (_, SqlType::Int8) => $function::<8>,
            (SqlType::Int4, _) | (_, SqlType::Int4) => $function::<4>,
            _ => $function::<2>,
        }
    };
}

/// The function for an operator that [`super::resolve_binary`] has found, and operands of the types that
/// its signature names.
pub fn specialise(op: BinaryOp, left: &SqlType, right: &SqlType) -> BinaryFn {
    use BinaryOp::*;
    if op.is_comparison() {
        return comparison(op, left);
    }
    match (left, right) {
        _ if left.is_integer() && right.is_integer() => return integer_function(op, left, right),
        (SqlType::Numeric(_), _) | (_, SqlType::Numeric(_)) => match op {
            Add => return numeric_add,
            Subtract => return numeric_subtract,
            Multiply => return numeric_multiply,
            Divide => return numeric_divide,
            Modulo => return numeric_modulo,
            Power => return numeric_power,
            _ => {}
        },
        (SqlType::Float8, SqlType::Float8) => match op {
            Add => return double_add,
            Subtract => return double_subtract,
            Multiply => return double_multiply,
            Divide => return double_divide,
            Power => return double_power,
            _ => {}
        },
        (SqlType::Float4, SqlType::Float4) => match op {
            Add => return real_add,
            Subtract => return real_subtract,
            Multiply => return real_multiply,
            Divide => return real_divide,
            Power => return real_power,
            _ => {}
        },
        _ => {}
    }
    if [left, right].contains(&&SqlType::Timestamptz) && [left, right].contains(&&SqlType::Interval) {
        return if op == Add { instants_add } else { instants_subtract };
    }
    match op {
        Add => times_add,
        Subtract if *left == SqlType::Jsonb => json_delete,
        Subtract => times_subtract,
        Multiply => interval_multiply,
        Divide => interval_divide,
        Concat => match (left, right) {
            (SqlType::Array(_), SqlType::Array(_)) => array_concat,
            (SqlType::Array(_), _) => array_append,
            (_, SqlType::Array(_)) => array_prepend,
            (SqlType::Jsonb, _) => json_concat,
            (SqlType::Bytea, _) => bytea_concat,
            _ => text_concat,
        },
        JsonGet => json_get,
        JsonGetText => json_get_text,
        JsonExists => json_exists,
        Contains => contains,
        ContainedBy => contained_by,
        Overlaps => overlaps,
        RegexMatch => regex_match,
        RegexMatchInsensitive => regex_match_insensitive,
        _ => others,
    }
}

fn integer_function(op: BinaryOp, left: &SqlType, right: &SqlType) -> BinaryFn {
    use BinaryOp::*;
    match op {
        Add => by_width!(left, right, integer_add),
        Subtract => by_width!(left, right, integer_subtract),
        Multiply => by_width!(left, right, integer_multiply),
        Divide => by_width!(left, right, integer_divide),
        Modulo => by_width!(left, right, integer_modulo),
        BitAnd => by_width!(left, right, integer_and),
        BitOr => by_width!(left, right, integer_or),
        BitXor => by_width!(left, right, integer_xor),
        // The left operand's width alone decides.
        ShiftLeft => by_width!(left, left, integer_shift_left),
        ShiftRight => by_width!(left, left, integer_shift_right),
        _ => others,
    }
}

/// Computes `left op right` for operands of a resolved operator's types.
pub fn binary(
    op: BinaryOp,
    left_type: &SqlType,
    right_type: &SqlType,
    _result_type: &SqlType,
    left: &Value,
    right: &Value,
) -> Result<Value, SqlError> {
    specialise(op, left_type, right_type)(left, right)
}

/// `-value`, for a value of type `ty`.
pub fn negate(value: &Value, ty: &SqlType) -> Result<Value, SqlError> {
    match value {
        Value::Int(int) => match (ty, int.checked_neg()) {
            (SqlType::Int2, result) => integer::<2>(result),
            (SqlType::Int4, result) => integer::<4>(result),
            (_, result) => integer::<8>(result),
        },
        Value::Numeric(numeric) => Ok(Value::Numeric(numeric.neg())),
        Value::Float8(float) => Ok(Value::Float8(-float)),
        Value::Float4(float) => Ok(Value::Float4(-float)),
        Value::Interval(interval) => interval.checked_neg().map(Value::interval),
        _ => others(value, value),
    }
}

fn timestamp_of(value: &Value) -> Option<Result<i64, SqlError>> {
    match value {
        Value::Timestamp(timestamp) => Some(Ok(*timestamp)),
        Value::Date(days) => Some(datetime::timestamp_from_date(*days)),
        _ => None,
    }
}

fn move_date(days: i32, by: Option<i64>) -> Result<Value, SqlError> {
    if datetime::is_infinite_date(days) {
        return Ok(Value::Date(days));
    }
    by.and_then(|by| i64::from(days).checked_add(by))
        .and_then(datetime::date_from_days)
        .map(Value::Date)
        .ok_or_else(datetime::date_out_of_range)
}

fn times_add(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Interval(left), Value::Interval(right)) => left.checked_add(right).map(Value::interval),
        (Value::Date(days), Value::Int(by)) | (Value::Int(by), Value::Date(days)) => {
            move_date(*days, Some(*by))
        }
        (time, Value::Interval(interval)) | (Value::Interval(interval), time) => match timestamp_of(time) {
            Some(timestamp) => datetime::add_interval(timestamp?, interval).map(Value::Timestamp),
            None => others(left, right),
        },
        _ => others(left, right),
    }
}

fn instants_add(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Timestamp(instant), Value::Interval(interval))
        | (Value::Interval(interval), Value::Timestamp(instant)) => {
            datetime::add_interval_to_instant(*instant, interval).map(Value::Timestamp)
        }
        _ => others(left, right),
    }
}

fn instants_subtract(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Timestamp(instant), Value::Interval(interval)) => {
            datetime::add_interval_to_instant(*instant, &interval.checked_neg()?).map(Value::Timestamp)
        }
        _ => others(left, right),
    }
}

fn times_subtract(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Interval(left), Value::Interval(right)) => left.checked_sub(right).map(Value::interval),
        (Value::Date(days), Value::Int(by)) => move_date(*days, by.checked_neg()),
        (Value::Date(left), Value::Date(right)) => {
            if datetime::is_infinite_date(*left) || datetime::is_infinite_date(*right) {
                return Err(SqlError::new(
                    SqlState::DATETIME_FIELD_OVERFLOW,
                    "cannot subtract infinite dates",
                ));
            }
            Ok(Value::Int(i64::from(*left) - i64::from(*right)))
        }
        (Value::Timestamp(left), Value::Timestamp(right)) => {
            datetime::subtract_timestamps(*left, *right).map(Value::interval)
        }
        (time, Value::Interval(interval)) => match timestamp_of(time) {
            Some(timestamp) => {
                datetime::add_interval(timestamp?, &interval.checked_neg()?).map(Value::Timestamp)
            }
            None => others(left, right),
        },
        _ => others(left, right),
    }
}

fn interval_multiply(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Interval(interval), Value::Float8(factor))
        | (Value::Float8(factor), Value::Interval(interval)) => {
            interval.multiply(*factor).map(Value::interval)
        }
        _ => others(left, right),
    }
}

fn interval_divide(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Interval(interval), Value::Float8(divisor)) => interval.divide(*divisor).map(Value::interval),
        _ => others(left, right),
    }
}

fn text_concat(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            room_for(left.len() + right.len())?;
            let mut joined = String::with_capacity(left.len() + right.len());
            joined.push_str(left);
            joined.push_str(right);
            Ok(Value::text(joined))
        }
        _ => others(left, right),
    }
}

fn bytea_concat(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Bytea(left), Value::Bytea(right)) => {
            room_for(left.len() + right.len())?;
            Ok(Value::bytea([&left[..], &right[..]].concat()))
        }
        _ => others(left, right),
    }
}

/// Array concatenation is not strict in PostgreSQL: NULL is an empty array, or a NULL element.
fn array_concat(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            let values = left.values.iter().chain(&right.values).cloned().collect();
            Ok(Value::array(left.element.clone(), values))
        }
        (Value::Array(_), Value::Null) => Ok(left.clone()),
        (Value::Null, Value::Array(_)) => Ok(right.clone()),
        _ => others(left, right),
    }
}

pub(crate) fn array_append(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Deferred, _) | (_, Value::Deferred) => Ok(Value::Deferred),
        (Value::Array(array), element) => {
            let values = array.values.iter().chain([element]).cloned().collect();
            Ok(Value::array(array.element.clone(), values))
        }
        (Value::Null, element) => Ok(Value::array(arrays::type_of(element), vec![element.clone()])),
        _ => others(left, right),
    }
}

pub(crate) fn array_prepend(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Deferred, _) | (_, Value::Deferred) => Ok(Value::Deferred),
        (element, Value::Array(array)) => {
            let values = [element].into_iter().chain(&array.values).cloned().collect();
            Ok(Value::array(array.element.clone(), values))
        }
        (element, Value::Null) => Ok(Value::array(arrays::type_of(element), vec![element.clone()])),
        _ => others(left, right),
    }
}

fn contains(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Jsonb(left), Value::Jsonb(right)) => left.contains(right).map(Value::Bool),
        (Value::Array(left), Value::Array(right)) => arrays::contains(left, right).map(Value::Bool),
        _ => others(left, right),
    }
}

fn contained_by(left: &Value, right: &Value) -> Result<Value, SqlError> {
    contains(right, left)
}

fn overlaps(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => arrays::overlaps(left, right).map(Value::Bool),
        _ => others(left, right),
    }
}

fn regex_match(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Text(text), Value::Text(regex)) => {
            pattern::regex_is_match(text, regex, false).map(Value::Bool)
        }
        _ => others(left, right),
    }
}

fn regex_match_insensitive(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Text(text), Value::Text(regex)) => {
            pattern::regex_is_match(text, regex, true).map(Value::Bool)
        }
        _ => others(left, right),
    }
}
