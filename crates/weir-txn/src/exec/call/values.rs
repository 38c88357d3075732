//! Assignments to variables and array elements; RAISE and ASSERT.

use weir_types::cast::{CastContext, can_cast, cast};
use weir_types::text::{parse_text, to_text};
use weir_types::value::Array;
use weir_types::{SqlError, SqlState, Value};

use super::{Role, Run, Stop};
use crate::exec::expr::{CompiledExpr, Truth};
use crate::exec::program::{CompiledRaise, Target};
use crate::faults::Faults;

/// Converts a value to the type of the assigned variable.
#[inline]
pub(in crate::exec) fn assigned(target: &Target, value: Value) -> Result<Value, SqlError> {
    let value = match (&target.from, value) {
        (_, Value::Deferred) => Value::Deferred,
        (Some(from), value) if !value.is_null() => {
            if can_cast(from, &target.ty, CastContext::Assignment) {
                cast(&value, from, &target.ty, CastContext::Assignment)?
            } else {
                // As in PL/pgSQL: where SQL has no cast, the value is converted through its text.
                parse_text(&to_text(&value, from), &target.ty)?
            }
        }
        (_, value) => value,
    };
    if target.not_null && value.is_null() {
        return Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            format!("null value cannot be assigned to variable \"{}\" declared NOT NULL", target.name),
        ));
    }
    Ok(value)
}

impl<F: Faults> Run<'_, F> {
    pub(super) fn assign(&mut self, target: &Target, value: Value) -> Result<(), SqlError> {
        let value = assigned(target, value)?;
        self.frame.set(target.slot, value);
        Ok(())
    }

    pub(super) fn raise(&mut self, raise: &CompiledRaise) -> Result<(), Stop> {
        let severity = raise.level.severity();
        // Only the deciding shard raises it.
        if severity.is_some() && matches!(self.fragment.role, Role::Part | Role::Vote) {
            return Ok(());
        }
        let said = raised(raise, &mut |expr| self.eval(expr))?;
        let Some(severity) = severity else { return Err(Stop::Error(said)) };
        self.notices.get_or_insert_default().add(severity, said);
        Ok(())
    }

    pub(super) fn assert(
        &mut self,
        condition: &CompiledExpr,
        message: Option<&CompiledExpr>,
    ) -> Result<(), Stop> {
        match self.truth(condition)? {
            Truth::True | Truth::Deferred => Ok(()),
            Truth::False | Truth::Unknown => {
                Err(assert_failure(message, &mut |expr| self.eval(expr))?.into())
            }
        }
    }
}

/// Evaluates an expression of a procedure.
pub(in crate::exec) type Eval<'a> = dyn FnMut(&CompiledExpr) -> Result<Value, SqlError> + 'a;

/// The error or notice of a RAISE.
pub(in crate::exec) fn raised(raise: &CompiledRaise, eval: &mut Eval<'_>) -> Result<SqlError, SqlError> {
    let mut message = String::new();
    let mut args = raise.args.iter();
    let mut chars = raise.format.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '%' if chars.peek() == Some(&'%') => {
                chars.next();
                message.push('%');
            }
            '%' => match args.next() {
                Some(arg) => message.push_str(&shown(eval(arg)?)),
                None => message.push('%'),
            },
            other => message.push(other),
        }
    }
    if let Some(given) = &raise.message {
        message = option(given, eval)?;
    }
    let mut error = SqlError::new(raise.state, message);
    if let Some(detail) = &raise.detail {
        error = error.with_detail(option(detail, eval)?);
    }
    if let Some(hint) = &raise.hint {
        error = error.with_hint(option(hint, eval)?);
    }
    Ok(error)
}

/// Value of an option after USING.
fn option(expr: &CompiledExpr, eval: &mut Eval<'_>) -> Result<String, SqlError> {
    match eval(expr)? {
        Value::Null => {
            let message = "RAISE statement option cannot be null";
            Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message))
        }
        value => Ok(shown(value)),
    }
}

/// The error of an ASSERT that does not hold.
pub(in crate::exec) fn assert_failure(
    message: Option<&CompiledExpr>,
    eval: &mut Eval<'_>,
) -> Result<SqlError, SqlError> {
    let message = match message {
        Some(message) => shown(eval(message)?),
        None => "assertion failed".to_owned(),
    };
    Ok(SqlError::new(SqlState::ASSERT_FAILURE, message))
}

fn shown(value: Value) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::Null => "<NULL>".to_string(),
        other => format!("{other:?}"),
    }
}

/// Assigns `a[i] := v`; an array is extended with NULLs to its new end.
pub(in crate::exec) fn assign_element(
    array: &mut Value,
    element: &weir_types::SqlType,
    index: Value,
    value: Value,
) -> Result<(), SqlError> {
    const ELEMENTS_MAX: i64 = 134_217_727;
    const FIRST_ROOM: usize = 16;
    let at = match index {
        Value::Int(at) if (1..=ELEMENTS_MAX).contains(&at) => at as usize,
        Value::Int(at) if at < 1 => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("an array subscript below 1 ({at}) is not supported"),
            )
            .with_hint("Arrays begin at 1 here."));
        }
        Value::Int(_) => {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "array size exceeds the maximum allowed (134217727)",
            ));
        }
        _ => {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "array subscript in assignment must not be null",
            ));
        }
    };
    if let Value::Deferred = array {
        return Ok(());
    }
    if array.is_null() {
        *array = Value::Array(std::sync::Arc::new(Array { element: element.clone(), values: Vec::new() }));
    }
    let Value::Array(array) = array else { unreachable!("the binder checked that it is an array") };
    let array = std::sync::Arc::make_mut(array);
    match array.values.get_mut(at - 1) {
        Some(element) => element.put(value),
        None => {
            // Reserves space: arrays are mostly built element by element.
            if array.values.is_empty() {
                array.values.reserve(at.max(FIRST_ROOM));
            }
            if array.values.len() < at - 1 {
                array.values.resize(at - 1, Value::Null);
            }
            array.values.push(value);
        }
    }
    Ok(())
}
