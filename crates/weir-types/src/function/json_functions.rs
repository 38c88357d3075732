//! Functions on jsonb, and other values as jsonb.

use super::arguments::{array, boolean, jsonb, text};
use super::{Arg, CallTypes, Function};
use crate::arrays::type_of;
use crate::cast::{self, CastContext};
use crate::datetime::print;
use crate::error::{SqlError, SqlState};
use crate::json::{self, position};
use crate::numeric::Numeric as Decimal;
use crate::sql_type::SqlType;
use crate::text::to_text;
use crate::value::{Json, Value};

use Arg::*;

type Evaluated = Result<Value, SqlError>;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("to_jsonb", &[Any], Jsonb, |a, types| Ok(Value::jsonb(to_json(&a[0], &types.args[0])?))),
    Function::new("jsonb_build_object", &[Any], Jsonb, build_object).variadic().accepts_null(),
    Function::new("jsonb_build_array", &[Any], Jsonb, build_array).variadic().accepts_null(),
    Function::new("jsonb_object", &[TextArray], Jsonb, object_of_pairs),
    Function::new("jsonb_object", &[TextArray, TextArray], Jsonb, object_of_lists),
    Function::new("jsonb_array_length", &[Jsonb], Int4, array_length),
    Function::new("jsonb_typeof", &[Jsonb], Text, |a, _| Ok(Value::text(type_name(jsonb(&a[0])?)))),
    Function::new("jsonb_extract_path", &[Jsonb, Text], Jsonb, |a, _| {
        Ok(extract_path(a)?.cloned().map_or(Value::Null, Value::jsonb))
    })
    .variadic(),
    Function::new("jsonb_extract_path_text", &[Jsonb, Text], Text, |a, _| {
        Ok(extract_path(a)?.and_then(Json::to_bare_text).map_or(Value::Null, Value::text))
    })
    .variadic(),
    Function::new("jsonb #>", &[Jsonb, TextArray], Jsonb, |a, _| {
        Ok(at_path(a)?.cloned().map_or(Value::Null, Value::jsonb))
    }),
    Function::new("jsonb #>>", &[Jsonb, TextArray], Text, |a, _| {
        Ok(at_path(a)?.and_then(Json::to_bare_text).map_or(Value::Null, Value::text))
    }),
    Function::new("jsonb_exists_any", &[Jsonb, TextArray], Bool, |a, _| {
        let json = jsonb(&a[0])?;
        Ok(Value::Bool(keys(&a[1])?.any(|key| json.has_key(key))))
    }),
    Function::new("jsonb_exists_all", &[Jsonb, TextArray], Bool, |a, _| {
        let json = jsonb(&a[0])?;
        Ok(Value::Bool(keys(&a[1])?.all(|key| json.has_key(key))))
    }),
    Function::new("jsonb_delete_path", &[Jsonb, TextArray], Jsonb, |a, _| {
        let path: Vec<&str> = keys(&a[1])?.collect();
        if !matches!(jsonb(&a[0])?, Json::Array(_) | Json::Object(_)) {
            let message = "cannot delete path in scalar";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        Ok(Value::jsonb(without_path(jsonb(&a[0])?, &path)))
    }),
    Function::new("jsonb_set", &[Jsonb, TextArray, Jsonb, Bool], Jsonb, set).optional(1),
    Function::new("jsonb_insert", &[Jsonb, TextArray, Jsonb, Bool], Jsonb, insert).optional(1),
    Function::new("jsonb_strip_nulls", &[Jsonb], Jsonb, |a, _| Ok(Value::jsonb(strip_nulls(jsonb(&a[0])?)))),
    Function::new("jsonb_pretty", &[Jsonb], Text, |a, _| Ok(Value::text(json::pretty(jsonb(&a[0])?)))),
    Function::new("jsonb_exists", &[Jsonb, Text], Bool, |a, _| {
        Ok(Value::Bool(jsonb(&a[0])?.has_key(text(&a[1])?)))
    }),
];

/// Any value as JSON: numbers and booleans as themselves, the rest as strings of their text.
pub fn to_json(value: &Value, ty: &SqlType) -> Result<Json, SqlError> {
    Ok(match value {
        Value::Null | Value::Deferred => Json::Null,
        Value::Bool(bool) => Json::Bool(*bool),
        Value::Int(int) => Json::Number(Decimal::from_i64(*int)),
        Value::Numeric(numeric) if numeric.is_finite() => Json::Number(numeric.clone()),
        Value::Float8(float) if float.is_finite() => Json::Number(to_text(value, ty).parse()?),
        Value::Float4(float) if float.is_finite() => Json::Number(to_text(value, ty).parse()?),
        Value::Date(days) => Json::String(print::date(*days)),
        Value::Timestamp(timestamp) => {
            Json::String(print::timestamp_in_json(*timestamp, *ty == SqlType::Timestamptz))
        }
        Value::Jsonb(json) => (**json).clone(),
        Value::Array(array) => {
            let element = match ty {
                SqlType::Array(element) => element,
                _ => &array.element,
            };
            let elements = array.values.iter().map(|value| to_json(value, element));
            Json::Array(elements.collect::<Result<_, _>>()?)
        }
        Value::Record(fields) => json::object(
            fields
                .iter()
                .enumerate()
                .map(|(i, field)| Ok((format!("f{}", i + 1), to_json(field, &type_of(field))?)))
                .collect::<Result<_, SqlError>>()?,
        ),
        other => Json::String(to_text(other, ty)),
    })
}

/// The texts of an array that are not NULL.
fn keys(value: &Value) -> Result<impl Iterator<Item = &str>, SqlError> {
    Ok(array(value)?.values.iter().filter_map(|key| match key {
        Value::Text(key) => Some(key.as_str()),
        _ => None,
    }))
}

/// Value at a path of keys and positions.
fn at_path(args: &[Value]) -> Result<Option<&Json>, SqlError> {
    let mut at = jsonb(&args[0])?;
    for key in &array(&args[1])?.values {
        let Value::Text(key) = key else { return Ok(None) };
        let next = match at {
            Json::Object(_) => at.get(key),
            Json::Array(_) => key.parse().ok().and_then(|index| at.at(index)),
            _ => None,
        };
        let Some(next) = next else { return Ok(None) };
        at = next;
    }
    Ok(Some(at))
}

fn without_path(json: &Json, path: &[&str]) -> Json {
    let Some((key, rest)) = path.split_first() else { return json.clone() };
    match json {
        Json::Object(members) => {
            let kept = members.iter().filter(|(name, _)| !rest.is_empty() || name != key);
            let member = |(name, member): &(String, Json)| match name == key {
                true => (name.clone(), without_path(member, rest)),
                false => (name.clone(), member.clone()),
            };
            Json::Object(kept.map(member).collect())
        }
        Json::Array(items) => {
            let at = key.parse().ok().and_then(|index: i64| position(index, items.len()));
            let kept = items.iter().enumerate().filter(|(index, _)| !rest.is_empty() || Some(*index) != at);
            let item = |(index, item): (usize, &Json)| match Some(index) == at {
                true => without_path(item, rest),
                false => item.clone(),
            };
            Json::Array(kept.map(item).collect())
        }
        other => other.clone(),
    }
}

fn key_text(value: &Value, ty: &SqlType) -> Result<String, SqlError> {
    if let Value::Timestamp(timestamp) = value {
        return Ok(print::timestamp_in_json(*timestamp, *ty == SqlType::Timestamptz));
    }
    match cast::cast(value, ty, &SqlType::Text, CastContext::Explicit)? {
        Value::Text(text) => Ok(text.to_string()),
        _ => Ok(String::new()),
    }
}

fn build_object(args: &[Value], types: &CallTypes<'_>) -> Evaluated {
    if !args.len().is_multiple_of(2) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "argument list must have even number of elements",
        )
        .with_hint("The arguments of jsonb_build_object() must consist of alternating keys and values."));
    }
    let mut members = Vec::with_capacity(args.len() / 2);
    for (i, pair) in args.chunks(2).enumerate() {
        if pair[0].is_null() {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("argument {}: key must not be null", i * 2 + 1),
            ));
        }
        let key = key_text(&pair[0], &types.args[i * 2])?;
        members.push((key, to_json(&pair[1], &types.args[i * 2 + 1])?));
    }
    Ok(Value::jsonb(json::object(members)))
}

fn build_array(args: &[Value], types: &CallTypes<'_>) -> Evaluated {
    let elements = args.iter().zip(types.args).map(|(value, ty)| to_json(value, ty));
    Ok(Value::jsonb(Json::Array(elements.collect::<Result<_, _>>()?)))
}

fn member(key: &Value, value: &Value) -> Result<(String, Json), SqlError> {
    if key.is_null() {
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key"));
    }
    Ok((text(key)?.to_owned(), to_json(value, &SqlType::Text)?))
}

fn object_of_pairs(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let values = &array(&args[0])?.values;
    if values.len() % 2 != 0 {
        return Err(SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "array must have even number of elements",
        ));
    }
    let members = values.chunks(2).map(|pair| member(&pair[0], &pair[1]));
    Ok(Value::jsonb(json::object(members.collect::<Result<_, _>>()?)))
}

fn object_of_lists(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (keys, values) = (&array(&args[0])?.values, &array(&args[1])?.values);
    if keys.len() != values.len() {
        return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "mismatched array dimensions"));
    }
    let members = keys.iter().zip(values).map(|(key, value)| member(key, value));
    Ok(Value::jsonb(json::object(members.collect::<Result<_, _>>()?)))
}

fn array_length(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let refuse = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    match jsonb(&args[0])? {
        Json::Array(elements) => Ok(Value::Int(elements.len() as i64)),
        Json::Object(_) => refuse("cannot get array length of a non-array"),
        _ => refuse("cannot get array length of a scalar"),
    }
}

fn type_name(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

fn extract_path(args: &[Value]) -> Result<Option<&Json>, SqlError> {
    let mut found = jsonb(&args[0])?;
    for step in &args[1..] {
        let step = text(step)?;
        let next = match found {
            Json::Object(_) => found.get(step),
            _ => step.parse().ok().and_then(|index| found.at(index)),
        };
        match next {
            Some(next) => found = next,
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

fn strip_nulls(json: &Json) -> Json {
    match json {
        Json::Object(members) => Json::Object(
            members
                .iter()
                .filter(|(_, value)| *value != Json::Null)
                .map(|(key, value)| (key.clone(), strip_nulls(value)))
                .collect(),
        ),
        Json::Array(elements) => Json::Array(elements.iter().map(strip_nulls).collect()),
        other => other.clone(),
    }
}

/// Change at the end of a path.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Set { create: bool },
    Insert { after: bool },
}

fn set(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let create = args.get(3).map_or(Ok(true), boolean)?;
    change(args, Change::Set { create })
}

fn insert(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let after = args.get(3).map_or(Ok(false), boolean)?;
    change(args, Change::Insert { after })
}

fn change(args: &[Value], change: Change) -> Evaluated {
    let (json, path, new) = (jsonb(&args[0])?, array(&args[1])?, jsonb(&args[2])?);
    if !matches!(json, Json::Object(_) | Json::Array(_)) {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "cannot set path in scalar"));
    }
    let mut steps = Vec::with_capacity(path.values.len());
    for (i, step) in path.values.iter().enumerate() {
        match step {
            Value::Text(text) => steps.push(text.as_str()),
            _ => {
                return Err(SqlError::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    format!("path element at position {} is null", i + 1),
                ));
            }
        }
    }
    let mut json = json.clone();
    change_at(&mut json, &steps, 1, new, change)?;
    Ok(Value::jsonb(json))
}

fn change_at(
    json: &mut Json,
    path: &[&str],
    depth: usize,
    new: &Json,
    change: Change,
) -> Result<(), SqlError> {
    let Some((step, rest)) = path.split_first() else { return Ok(()) };
    match json {
        Json::Object(members) => {
            let at = members.iter().position(|member| member.0 == *step);
            match (at, rest.is_empty(), change) {
                (Some(at), false, _) => change_at(&mut members[at].1, rest, depth + 1, new, change)?,
                (Some(at), true, Change::Set { .. }) => members[at].1 = new.clone(),
                (Some(_), true, Change::Insert { .. }) => {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        "cannot replace existing key",
                    )
                    .with_hint("Try using the function jsonb_set to replace key value."));
                }
                (None, true, Change::Set { create: true } | Change::Insert { .. }) => {
                    let mut all = std::mem::take(members);
                    all.push(((*step).to_owned(), new.clone()));
                    *json = json::object(all);
                }
                (None, ..) => {}
            }
        }
        Json::Array(elements) => {
            let index: i64 = step.parse().map_err(|_| {
                SqlError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    format!("path element at position {depth} is not an integer: \"{step}\""),
                )
            })?;
            let at = position(index, elements.len());
            match (at, rest.is_empty(), change) {
                (Some(at), false, _) => change_at(&mut elements[at], rest, depth + 1, new, change)?,
                (Some(at), true, Change::Set { .. }) => elements[at] = new.clone(),
                (Some(at), true, Change::Insert { after }) => {
                    elements.insert(at + usize::from(after), new.clone());
                }
                (None, true, Change::Set { create: true } | Change::Insert { .. }) => {
                    // Beyond an end, the new element becomes the first or the last.
                    elements.insert(if index < 0 { 0 } else { elements.len() }, new.clone());
                }
                (None, ..) => {}
            }
        }
        _ => {}
    }
    Ok(())
}
