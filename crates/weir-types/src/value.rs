//! A value of any SQL type, in 16 bytes.

use std::sync::Arc;

use arcstr::ArcStr;
use serde::{Deserialize, Serialize};

use crate::numeric::Numeric;
use crate::sql_type::SqlType;

/// The three integer types share `Int`: the static type decides where overflow lies.
#[derive(Debug, Default, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub microseconds: i64,
}

/// A one-dimensional array (lower bound 1).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Array {
    pub element: SqlType,
    pub values: Vec<Value>,
}

/// jsonb: object keys are unique and ordered as PostgreSQL orders them (by length, then bytes).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Json {
    Null,
    Bool(bool),
    Number(Numeric),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// About how many bytes it takes.
    fn bytes(&self) -> usize {
        let content = match self {
            Json::String(text) => text.len(),
            Json::Array(members) => members.iter().map(Json::bytes).sum(),
            Json::Object(members) => members.iter().map(|(name, member)| name.len() + member.bytes()).sum(),
            Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        };
        size_of::<Json>() + content
    }
}

/// By hand, because a derived clone is not inlined into other crates and this is the executor's most
/// frequent operation.
impl Clone for Value {
    #[inline]
    fn clone(&self) -> Value {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(*value),
            Value::Int(value) => Value::Int(*value),
            Value::Numeric(Numeric::Small { scale, mantissa }) => {
                Value::Numeric(Numeric::Small { scale: *scale, mantissa: *mantissa })
            }
            Value::Text(value) => Value::Text(value.clone()),
            Value::Timestamp(value) => Value::Timestamp(*value),
            Value::Deferred => Value::Deferred,
            rarer => rarer.clone_rarer(),
        }
    }
}

impl Value {
    fn clone_rarer(&self) -> Value {
        match self {
            Value::Float4(value) => Value::Float4(*value),
            Value::Float8(value) => Value::Float8(*value),
            Value::Date(value) => Value::Date(*value),
            Value::Numeric(value) => Value::Numeric(value.clone()),
            Value::Interval(value) => Value::Interval(value.clone()),
            Value::Uuid(value) => Value::Uuid(value.clone()),
            Value::Bytea(value) => Value::Bytea(value.clone()),
            Value::Jsonb(value) => Value::Jsonb(value.clone()),
            Value::Array(value) => Value::Array(value.clone()),
            Value::Record(value) => Value::Record(value.clone()),
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Text(_)
            | Value::Timestamp(_)
            | Value::Deferred => unreachable!("clone takes these itself"),
        }
    }

    /// A copy that shares no array with this one: threads that count the references of the same array wait for
    /// each other.
    pub fn unshared(&self) -> Value {
        match self {
            Value::Array(array) => Value::Array(Arc::new((**array).clone())),
            other => other.clone(),
        }
    }

    /// Owns nothing on the heap, so that forgetting it is dropping it.
    #[inline]
    pub fn is_plain(&self) -> bool {
        matches!(
            self,
            Value::Null
                | Value::Bool(_)
                | Value::Int(_)
                | Value::Float4(_)
                | Value::Float8(_)
                | Value::Date(_)
                | Value::Timestamp(_)
                | Value::Deferred
                | Value::Numeric(Numeric::Small { .. })
        )
    }

    /// Assigns; spares plain values the call of their destructor.
    #[inline]
    pub fn put(&mut self, value: Value) {
        let old = std::mem::replace(self, value);
        if old.is_plain() {
            std::mem::forget(old);
        }
    }

    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    #[inline]
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

    /// About how many bytes its text, members and so on take, beside the value itself.
    pub fn content_bytes(&self) -> usize {
        let all =
            |values: &[Value]| values.iter().map(|value| size_of::<Value>() + value.content_bytes()).sum();
        match self {
            Value::Text(text) => text.len(),
            Value::Bytea(bytes) => bytes.len(),
            Value::Jsonb(json) => json.bytes(),
            Value::Array(array) => all(&array.values),
            Value::Record(values) => all(values),
            _ => 0,
        }
    }

    /// About how many bytes a row of these values takes in memory.
    pub fn row_bytes(row: &[Value]) -> usize {
        let content: usize = row.iter().map(Value::content_bytes).sum();
        size_of::<Vec<Value>>() + size_of_val(row) + content
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

macro_rules! from {
    ($($type:ty => $value:expr,)*) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Value {
                $value(value)
            }
        })*
    };
}

from! {
    bool => Value::Bool,
    i32 => |value| Value::Int(i64::from(value)),
    i64 => Value::Int,
    f64 => Value::Float8,
    Numeric => Value::Numeric,
    &str => |value: &str| Value::Text(value.into()),
    String => |value: String| Value::Text(value.into()),
}

/// None is NULL.
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_value_takes_sixteen_bytes() {
        assert_eq!(std::mem::size_of::<super::Value>(), 16);
    }
}
