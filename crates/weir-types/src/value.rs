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
    /// A value that another shard knows. Never stored, only seen while a fragment runs: every strict
    /// operation on it yields `Deferred` again.
    Deferred,
}

/// PostgreSQL's three independent parts of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    pub fn is_deferred(&self) -> bool {
        matches!(self, Value::Deferred)
    }

    pub fn text(text: impl Into<ArcStr>) -> Value {
        Value::Text(text.into())
    }

    pub fn array(element: SqlType, values: Vec<Value>) -> Value {
        Value::Array(Arc::new(Array { element, values }))
    }

    pub fn interval(interval: Interval) -> Value {
        Value::Interval(Arc::new(interval))
    }

    pub fn bytea(bytes: Vec<u8>) -> Value {
        Value::Bytea(Arc::new(bytes))
    }

    pub fn jsonb(json: Json) -> Value {
        Value::Jsonb(Arc::new(json))
    }

    pub fn record(fields: Vec<Value>) -> Value {
        Value::Record(Arc::new(fields))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_value_takes_sixteen_bytes() {
        assert_eq!(std::mem::size_of::<super::Value>(), 16);
    }
}
