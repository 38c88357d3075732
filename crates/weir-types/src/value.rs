//! A value of any SQL type, in 16 bytes.

use std::sync::Arc;

use arcstr::ArcStr;

use crate::numeric::Numeric;
use crate::sql_type::SqlType;

/// The three integer types share `Int`: the static type decides where overflow lies.
#[derive(Clone, Debug, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float4(f32),
    Float8(f64),
    Numeric(Numeric),
    /// text, varchar and char(n); the latter without its padding.
    Text(ArcStr),
    /// Days since 2000-01-01; `i32::MAX`/`MIN` are ±infinity.
    Date(i32),
    /// timestamp and timestamptz: microseconds since 2000-01-01 00:00:00 (UTC); `i64::MAX`/`MIN` are
    /// ±infinity.
    Timestamp(i64),
    Interval(Arc<Interval>),
    Uuid(Arc<[u8; 16]>),
    Bytea(Arc<Vec<u8>>),
    Jsonb(Arc<Json>),
    Array(Arc<Array>),
    Record(Arc<Vec<Value>>),
}

/// PostgreSQL's three independent parts of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub microseconds: i64,
}

/// A one-dimensional array (lower bound 1).
#[derive(Clone, Debug)]
pub struct Array {
    pub element: SqlType,
    pub values: Vec<Value>,
}

/// jsonb: object keys are unique and ordered as PostgreSQL orders them (by length, then bytes).
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(Numeric),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Value {
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub fn text(text: impl Into<ArcStr>) -> Value {
        Value::Text(text.into())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_value_takes_sixteen_bytes() {
        assert_eq!(std::mem::size_of::<super::Value>(), 16);
    }
}
