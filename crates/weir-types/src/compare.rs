//! The total order of values, equality and hashing, as PostgreSQL's btree and hash operators have them.
//!
//! NULL sorts after everything (as `ORDER BY … ASC` has it) and equals itself here; three-valued logic is
//! the executor's. Numbers of different types compare by value.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::json;
use crate::numeric::Numeric;
use crate::value::{Interval, Value};

const MICROSECONDS_PER_DAY: i128 = 86_400_000_000;

impl Interval {
    /// Months as 30 days, days as 24 hours: what orders intervals.
    pub fn span_microseconds(&self) -> i128 {
        (i128::from(self.months) * 30 + i128::from(self.days)) * MICROSECONDS_PER_DAY
            + i128::from(self.microseconds)
    }
}

/// NaN is equal to itself and larger than everything else; -0 equals 0.
pub fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// Orders two values of one type. Values of unrelated types order by their kind, which no query sees.
#[inline]
pub fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Text(left), Value::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Value::Numeric(left), Value::Numeric(right)) => left.cmp(right),
        _ => compare_others(left, right),
    }
}

fn compare_others(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Date(left), Value::Date(right)) => left.cmp(right),
        (Value::Timestamp(left), Value::Timestamp(right)) => left.cmp(right),
        (Value::Interval(left), Value::Interval(right)) => {
            left.span_microseconds().cmp(&right.span_microseconds())
        }
        (Value::Uuid(left), Value::Uuid(right)) => left.cmp(right),
        (Value::Bytea(left), Value::Bytea(right)) => left.cmp(right),
        (Value::Jsonb(left), Value::Jsonb(right)) => json::compare(left, right),
        (Value::Array(left), Value::Array(right)) => compare_lists(&left.values, &right.values),
        (Value::Record(left), Value::Record(right)) => compare_lists(left, right),
        _ => match (number(left), number(right)) {
            (Some(left), Some(right)) => left.compare(&right),
            _ => kind(left).cmp(&kind(right)),
        },
    }
}

fn compare_lists(left: &[Value], right: &[Value]) -> Ordering {
    left.iter()
        .zip(right)
        .map(|(left, right)| compare(left, right))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

enum Number<'a> {
    Exact(std::borrow::Cow<'a, Numeric>),
    Float(f64),
}

impl Number<'_> {
    fn compare(&self, other: &Number<'_>) -> Ordering {
        match (self, other) {
            (Number::Exact(left), Number::Exact(right)) => left.cmp(right),
            (left, right) => compare_floats(left.to_f64(), right.to_f64()),
        }
    }

    fn to_f64(&self) -> f64 {
        match self {
            Number::Exact(numeric) => numeric.to_f64(),
            Number::Float(float) => *float,
        }
    }
}

fn number(value: &Value) -> Option<Number<'_>> {
    use std::borrow::Cow;
    match value {
        Value::Int(int) => Some(Number::Exact(Cow::Owned(Numeric::from_i64(*int)))),
        Value::Numeric(numeric) => Some(Number::Exact(Cow::Borrowed(numeric))),
        Value::Float4(float) => Some(Number::Float(f64::from(*float))),
        Value::Float8(float) => Some(Number::Float(*float)),
        _ => None,
    }
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Bool(_) => 1,
        Value::Int(_) | Value::Numeric(_) | Value::Float4(_) | Value::Float8(_) => 2,
        Value::Text(_) => 3,
        Value::Date(_) => 4,
        Value::Timestamp(_) => 5,
        Value::Interval(_) => 6,
        Value::Uuid(_) => 7,
        Value::Bytea(_) => 8,
        Value::Jsonb(_) => 9,
        Value::Array(_) => 10,
        Value::Record(_) => 11,
        Value::Null => 12,
        Value::Deferred => 13,
    }
}

#[inline]
pub fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => left == right,
        (Value::Text(left), Value::Text(right)) => left == right,
        _ => compare(left, right).is_eq(),
    }
}

/// Values that are [`equal`] hash equally, across integers and numerics of any scale (but a float hashes
/// as a number only if it is integral).
pub fn hash<H: Hasher>(value: &Value, state: &mut H) {
    state.write_u8(kind(value));
    match value {
        Value::Null | Value::Deferred => {}
        Value::Bool(bool) => bool.hash(state),
        Value::Int(int) => state.write_i64(*int),
        Value::Float4(float) => hash_float(f64::from(*float), state),
        Value::Float8(float) => hash_float(*float, state),
        Value::Numeric(numeric) => numeric.hash(state),
        Value::Text(text) => text.as_str().hash(state),
        Value::Date(days) => state.write_i32(*days),
        Value::Timestamp(microseconds) => state.write_i64(*microseconds),
        Value::Interval(interval) => interval.span_microseconds().hash(state),
        Value::Uuid(bytes) => bytes.hash(state),
        Value::Bytea(bytes) => bytes.hash(state),
        Value::Jsonb(json) => json::hash(json, state),
        Value::Array(array) => array.values.iter().for_each(|value| hash(value, state)),
        Value::Record(fields) => fields.iter().for_each(|value| hash(value, state)),
    }
}

fn hash_float<H: Hasher>(float: f64, state: &mut H) {
    if float.fract() == 0.0 && float.abs() < 9e18 {
        state.write_i64(float as i64);
    } else if float.is_nan() {
        state.write_u8(253);
    } else {
        state.write_u64(float.to_bits());
    }
}

/// Equality as in [`equal`]: NULL equals NULL here.
impl PartialEq for Value {
    #[inline]
    fn eq(&self, other: &Value) -> bool {
        equal(self, other)
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    #[inline]
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    #[inline]
    fn cmp(&self, other: &Value) -> Ordering {
        compare(self, other)
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(self, state);
    }
}
