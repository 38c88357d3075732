//! Operators of jsonb: concatenation, deletion and access by key or position.

use std::collections::HashSet;

use super::evaluate::others;
use crate::error::{SqlError, SqlState};
use crate::json;
use crate::value::{Json, Value};

pub(super) fn json_concat(left: &Value, right: &Value) -> Result<Value, SqlError> {
    let (Value::Jsonb(left_json), Value::Jsonb(right_json)) = (left, right) else {
        return others(left, right);
    };
    let elements = |json: &Json| match json {
        Json::Array(elements) => elements.clone(),
        other => vec![other.clone()],
    };
    Ok(Value::jsonb(match (&**left_json, &**right_json) {
        (Json::Object(left), Json::Object(right)) => {
            json::object(left.iter().chain(right).cloned().collect())
        }
        (left, right) => {
            let mut joined = elements(left);
            joined.extend(elements(right));
            Json::Array(joined)
        }
    }))
}

pub(super) fn json_delete(left: &Value, right: &Value) -> Result<Value, SqlError> {
    let Value::Jsonb(json) = left else { return others(left, right) };
    let scalar = || Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "cannot delete from scalar"));
    let named = match right {
        Value::Array(keys) => &keys.values[..],
        one => std::slice::from_ref(one),
    };
    let keys: HashSet<&str> = named
        .iter()
        .filter_map(|key| match key {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let is_key = |key: &str| keys.contains(key);
    Ok(Value::jsonb(match (&**json, right) {
        (_, Value::Null | Value::Deferred) => return others(left, right),
        (Json::Object(_), Value::Int(_)) => {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "cannot delete from object using integer index",
            ));
        }
        (Json::Array(elements), Value::Int(index)) => {
            let mut elements = elements.clone();
            if let Some(at) = json::position(*index, elements.len()) {
                elements.remove(at);
            }
            Json::Array(elements)
        }
        (Json::Object(members), _) => {
            Json::Object(members.iter().filter(|member| !is_key(&member.0)).cloned().collect())
        }
        (Json::Array(elements), _) => Json::Array(
            elements
                .iter()
                .filter(|element| !matches!(element, Json::String(text) if is_key(text)))
                .cloned()
                .collect(),
        ),
        _ => return scalar(),
    }))
}

fn json_member<'a>(left: &'a Value, right: &Value) -> Result<Option<&'a Json>, Value> {
    match (left, right) {
        (Value::Jsonb(json), Value::Text(key)) => Ok(json.get(key)),
        // A scalar is taken for an array of itself.
        (Value::Jsonb(json), Value::Int(0 | -1)) if !matches!(**json, Json::Array(_) | Json::Object(_)) => {
            Ok(Some(json))
        }
        (Value::Jsonb(json), Value::Int(index)) => Ok(json.at(*index)),
        (Value::Deferred, _) | (_, Value::Deferred) => Err(Value::Deferred),
        _ => Err(Value::Null),
    }
}

pub(super) fn json_get(left: &Value, right: &Value) -> Result<Value, SqlError> {
    Ok(match json_member(left, right) {
        Ok(member) => member.cloned().map_or(Value::Null, Value::jsonb),
        Err(other) => other,
    })
}

pub(super) fn json_get_text(left: &Value, right: &Value) -> Result<Value, SqlError> {
    Ok(match json_member(left, right) {
        Ok(member) => member.and_then(Json::to_bare_text).map_or(Value::Null, Value::text),
        Err(other) => other,
    })
}

pub(super) fn json_exists(left: &Value, right: &Value) -> Result<Value, SqlError> {
    match (left, right) {
        (Value::Jsonb(json), Value::Text(key)) => Ok(Value::Bool(json.has_key(key))),
        _ => others(left, right),
    }
}
