//! Functions on arrays. Arrays have one dimension with lower bound 1.

use super::arguments::{array, int};
use super::{Arg, CallTypes, Function};
use crate::error::{SqlError, SqlState};
use crate::operator::{BinaryOp, array_append, array_prepend, specialise};
use crate::sql_type::SqlType;
use crate::value::Value;

use Arg::*;

type Evaluated = Result<Value, SqlError>;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("array_length", &[AnyArray, Int4], Int4, array_upper),
    Function::new("array_upper", &[AnyArray, Int4], Int4, array_upper),
    Function::new("array_lower", &[AnyArray, Int4], Int4, |a, types| {
        Ok(match array_upper(a, types)? {
            Value::Null => Value::Null,
            _ => Value::Int(1),
        })
    }),
    Function::new("array_ndims", &[AnyArray], Int4, |a, _| {
        Ok(if array(&a[0])?.values.is_empty() { Value::Null } else { Value::Int(1) })
    }),
    Function::new("array_dims", &[AnyArray], Text, |a, _| {
        Ok(match array(&a[0])?.values.len() {
            0 => Value::Null,
            len => Value::text(format!("[1:{len}]")),
        })
    }),
    Function::new("num_nulls", &[Any], Int4, |a, _| {
        Ok(Value::Int(a.iter().filter(|value| value.is_null()).count() as i64))
    })
    .variadic()
    .accepts_null(),
    Function::new("num_nonnulls", &[Any], Int4, |a, _| {
        Ok(Value::Int(a.iter().filter(|value| !value.is_null()).count() as i64))
    })
    .variadic()
    .accepts_null(),
    Function::new("cardinality", &[AnyArray], Int4, |a, _| Ok(Value::Int(array(&a[0])?.values.len() as i64))),
    Function::new("array_append", &[AnyArray, AnyElement], AnyArray, |a, types| {
        array_append(&or_empty(&a[0], types), &a[1])
    })
    .accepts_null(),
    Function::new("array_prepend", &[AnyElement, AnyArray], AnyArray, |a, types| {
        array_prepend(&a[0], &or_empty(&a[1], types))
    })
    .accepts_null(),
    Function::new("array_cat", &[AnyArray, AnyArray], AnyArray, |a, types| {
        specialise(BinaryOp::Concat, types.result, types.result)(&a[0], &a[1])
    })
    .accepts_null(),
    Function::new("array_position", &[AnyArray, AnyElement, Int4], Int4, array_position)
        .optional(1)
        .accepts_null(),
    Function::new("array_positions", &[AnyArray, AnyElement], Int4Array, array_positions).accepts_null(),
    Function::new("array_remove", &[AnyArray, AnyElement], AnyArray, array_remove).accepts_null(),
    Function::new("array_replace", &[AnyArray, AnyElement, AnyElement], AnyArray, array_replace)
        .accepts_null(),
    Function::new("trim_array", &[AnyArray, Int4], AnyArray, trim_array),
];

/// A NULL array is an empty one where elements are added.
fn or_empty(value: &Value, types: &CallTypes<'_>) -> Value {
    match (value, types.result) {
        (Value::Null, SqlType::Array(element)) => Value::array((**element).clone(), Vec::new()),
        _ => value.clone(),
    }
}

fn array_upper(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (array, dimension) = (array(&args[0])?, int(&args[1])?);
    let exists = dimension == 1 && !array.values.is_empty();
    Ok(if exists { Value::Int(array.values.len() as i64) } else { Value::Null })
}

fn array_position(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let start = match args.get(2) {
        None => 1,
        Some(Value::Null) => {
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "initial position must not be null"));
        }
        Some(start) => int(start)?,
    };
    let skipped = (start - 1).max(0) as usize;
    // Values compare with NULL equal to NULL, which is what array_position wants.
    let found = array(&args[0])?.values.iter().skip(skipped).position(|value| *value == args[1]);
    Ok(found.map_or(Value::Null, |at| Value::Int((at + skipped) as i64 + 1)))
}

fn array_positions(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let values = array(&args[0])?.values.iter().enumerate();
    let places = values.filter(|(_, value)| **value == args[1]).map(|(at, _)| Value::Int(at as i64 + 1));
    Ok(Value::array(SqlType::Int4, places.collect()))
}

fn array_remove(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let array = array(&args[0])?;
    let kept = array.values.iter().filter(|value| **value != args[1]).cloned();
    Ok(Value::array(array.element.clone(), kept.collect()))
}

fn array_replace(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let array = array(&args[0])?;
    let replaced = array.values.iter().map(|value| if *value == args[1] { &args[2] } else { value }.clone());
    Ok(Value::array(array.element.clone(), replaced.collect()))
}

fn trim_array(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (array, count) = (array(&args[0])?, int(&args[1])?);
    let len = array.values.len() as i64;
    if !(0..=len).contains(&count) {
        return Err(SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            format!("number of elements to trim must be between 0 and {len}"),
        ));
    }
    Ok(Value::array(array.element.clone(), array.values[..(len - count) as usize].to_vec()))
}
