//! Rows of set-returning functions other than series, computed all at once.

use weir_sql::bound::TableFunction;
use weir_types::function::{self, CallTypes};
use weir_types::value::Json;
use weir_types::{SqlError, SqlState, SqlType, Value};

/// Rows of the function for these arguments, each of one or two columns.
pub fn rows(of: TableFunction, args: &[Value]) -> Result<Vec<Vec<Value>>, SqlError> {
    if args.iter().any(Value::is_deferred) {
        let message = "a set of what another shard computes in the same statement";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let one = |values: Vec<Value>| values.into_iter().map(|value| vec![value]).collect();
    Ok(match (of, args) {
        (TableFunction::Scalar, [value]) => one(vec![value.clone()]),
        (TableFunction::Unnest, [Value::Array(array)]) => one(array.values.clone()),
        (TableFunction::StringToTable, args) => one(elements(by_name("string_to_array", args)?)),
        (_, args) if args.iter().any(Value::is_null) => Vec::new(),
        (TableFunction::GenerateSubscripts, [Value::Array(array), Value::Int(1)]) => {
            one((1..=array.values.len() as i64).map(Value::Int).collect())
        }
        (TableFunction::RegexpSplitToTable, args) => one(elements(by_name("regexp_split_to_array", args)?)),
        (TableFunction::RegexpMatches, args) => one(function::regexp_matches(args)?),
        (_, [Value::Jsonb(json)]) => of_json(of, json)?,
        _ => Vec::new(),
    })
}

fn by_name(name: &str, args: &[Value]) -> Result<Value, SqlError> {
    let types = vec![SqlType::Text; args.len()];
    let types = CallTypes { args: &types, result: &SqlType::Text };
    match function::overloads(name).first() {
        Some(function) => function.call(args, &types),
        None => Ok(Value::Null),
    }
}

fn elements(array: Value) -> Vec<Value> {
    match array {
        Value::Array(array) => array.values.clone(),
        _ => Vec::new(),
    }
}

fn of_json(of: TableFunction, json: &Json) -> Result<Vec<Vec<Value>>, SqlError> {
    let whole = |json: &Json| Value::jsonb(json.clone());
    let bare = |json: &Json| json.to_bare_text().map_or(Value::Null, Value::text);
    let wrong = |what: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what.to_owned()));
    match (of, json) {
        (TableFunction::JsonbArrayElements, Json::Array(items)) => {
            Ok(items.iter().map(|item| vec![whole(item)]).collect())
        }
        (TableFunction::JsonbArrayElementsText, Json::Array(items)) => {
            Ok(items.iter().map(|item| vec![bare(item)]).collect())
        }
        (TableFunction::JsonbArrayElements | TableFunction::JsonbArrayElementsText, Json::Object(_)) => {
            wrong("cannot extract elements from an object")
        }
        (TableFunction::JsonbArrayElements | TableFunction::JsonbArrayElementsText, _) => {
            wrong("cannot extract elements from a scalar")
        }
        (TableFunction::JsonbEach, Json::Object(members)) => {
            Ok(members.iter().map(|(key, member)| vec![Value::text(key.as_str()), whole(member)]).collect())
        }
        (TableFunction::JsonbEachText, Json::Object(members)) => {
            Ok(members.iter().map(|(key, member)| vec![Value::text(key.as_str()), bare(member)]).collect())
        }
        (TableFunction::JsonbObjectKeys, Json::Object(members)) => {
            Ok(members.iter().map(|(key, _)| vec![Value::text(key.as_str())]).collect())
        }
        (TableFunction::JsonbObjectKeys, Json::Array(_)) => {
            wrong("cannot call jsonb_object_keys on an array")
        }
        (TableFunction::JsonbObjectKeys, _) => wrong("cannot call jsonb_object_keys on a scalar"),
        _ => wrong("cannot call this function on a non-object"),
    }
}
