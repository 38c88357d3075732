//! From bound expressions to compiled ones.

use weir_sql::bound::{Expr, ExprKind};
use weir_types::datetime::SessionZone;
use weir_types::operator::{self, BinaryOp, Comparison};
use weir_types::pattern::LikePattern;
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::{ArrayCompare, Binary, BinaryTest, Call, Cast, Compare, CompiledExpr, Like, Slice, Switch};
use crate::exec::aggregate::CompiledAggregate;
use crate::exec::compiler::Compiler;
use crate::exec::query::subquery::{ArraySubquery, ExistsSubquery, QuantifiedSubquery, ScalarSubquery};
use crate::exec::query::window::WindowSort;
use crate::exec::slots::Slot;

impl CompiledExpr {
    /// The columns that it uses must have been noted with the allocator, as `begin_statement` does.
    pub fn compile(expr: &Expr, compiler: &mut Compiler<'_>) -> Result<CompiledExpr, SqlError> {
        let compiled = compile_kind(expr, compiler)?;
        Ok(compiled)
    }
}

fn boxed(expr: &Expr, compiler: &mut Compiler<'_>) -> Result<Box<CompiledExpr>, SqlError> {
    CompiledExpr::compile(expr, compiler).map(Box::new)
}

/// Compiles several.
pub fn compile_list(list: &[Expr], compiler: &mut Compiler<'_>) -> Result<Vec<CompiledExpr>, SqlError> {
    list.iter().map(|expr| CompiledExpr::compile(expr, compiler)).collect()
}

fn pair(
    left: &Expr,
    right: &Expr,
    compiler: &mut Compiler<'_>,
) -> Result<Box<(CompiledExpr, CompiledExpr)>, SqlError> {
    Ok(Box::new((CompiledExpr::compile(left, compiler)?, CompiledExpr::compile(right, compiler)?)))
}

fn compile_kind(expr: &Expr, compiler: &mut Compiler<'_>) -> Result<CompiledExpr, SqlError> {
    Ok(match &expr.kind {
        ExprKind::Literal(value) => CompiledExpr::Constant(value.clone()),
        ExprKind::Column { relation, column } => compiler.column(*relation, *column),
        ExprKind::Variable(variable) => CompiledExpr::Slot(variable.0),
        ExprKind::Binary { op, left, right } => binary(*op, left, right, &expr.ty, compiler)?,
        ExprKind::Negate(operand) => match (&operand.kind, CompiledExpr::compile(operand, compiler)?) {
            (ExprKind::Literal(_), CompiledExpr::Constant(value)) if !value.is_null() => {
                match operator::negate(&value, &operand.ty) {
                    Ok(value) => CompiledExpr::Constant(value),
                    // The error belongs to the execution.
                    Err(_) => {
                        CompiledExpr::Negate(Box::new(CompiledExpr::Constant(value)), operand.ty.clone())
                    }
                }
            }
            (_, compiled) => CompiledExpr::Negate(Box::new(compiled), operand.ty.clone()),
        },
        ExprKind::And(list) => CompiledExpr::And(compile_list(list, compiler)?),
        ExprKind::Or(list) => CompiledExpr::Or(compile_list(list, compiler)?),
        ExprKind::Not(operand) => CompiledExpr::Not(boxed(operand, compiler)?),
        ExprKind::IsNull { operand, negated } => {
            CompiledExpr::IsNull { operand: boxed(operand, compiler)?, negated: *negated }
        }
        ExprKind::IsBool { operand, value, negated } => {
            CompiledExpr::IsBool { operand: boxed(operand, compiler)?, value: *value, negated: *negated }
        }
        ExprKind::IsDistinct { left, right, negated } => {
            CompiledExpr::IsDistinct { operands: pair(left, right, compiler)?, negated: *negated }
        }
        ExprKind::Function { function, args } => CompiledExpr::Call(Box::new(Call {
            function,
            args: match function.name {
                "octet_length" | "bit_length" => args
                    .iter()
                    .map(|arg| padded(under_implicit_cast(arg), compiler))
                    .collect::<Result<_, _>>()?,
                _ => compile_list(args, compiler)?,
            },
            arg_types: args.iter().map(|arg| arg.ty.clone()).collect(),
            result: expr.ty.clone(),
        })),
        ExprKind::Cast { operand, explicit } => cast(operand, &expr.ty, *explicit, compiler)?,
        ExprKind::Case { whens, otherwise } => case(whens, otherwise.as_deref(), compiler)?,
        ExprKind::Coalesce(list) => CompiledExpr::Coalesce(compile_list(list, compiler)?),
        ExprKind::NullIf(left, right) => CompiledExpr::NullIf(pair(left, right, compiler)?),
        ExprKind::Greatest(list) => {
            CompiledExpr::Extremum { list: compile_list(list, compiler)?, greatest: true }
        }
        ExprKind::Least(list) => {
            CompiledExpr::Extremum { list: compile_list(list, compiler)?, greatest: false }
        }
        ExprKind::Like { operand, pattern, escape: None, insensitive: false, negated }
            if known_text(pattern).is_some() =>
        {
            CompiledExpr::LikeKnown {
                operand: Box::new(padded(operand, compiler)?),
                pattern: Box::new(LikePattern::new(known_text(pattern).unwrap_or_default())),
                negated: *negated,
            }
        }
        ExprKind::Like { operand, pattern, escape, insensitive, negated } => {
            CompiledExpr::Like(Box::new(Like {
                operand: padded(operand, compiler)?,
                pattern: CompiledExpr::compile(pattern, compiler)?,
                escape: escape.as_ref().map(|e| CompiledExpr::compile(e, compiler)).transpose()?,
                insensitive: *insensitive,
                negated: *negated,
            }))
        }
        ExprKind::InList { operand, list, negated } => CompiledExpr::InList {
            operand: boxed(operand, compiler)?,
            list: compile_list(list, compiler)?,
            negated: *negated,
        },
        ExprKind::ArrayCompare { op, left, array, all } => {
            CompiledExpr::ArrayCompare(Box::new(ArrayCompare {
                test: binary_test(*op, &left.ty, &element_type(&array.ty))?,
                left: CompiledExpr::compile(left, compiler)?,
                array: CompiledExpr::compile(array, compiler)?,
                all: *all,
            }))
        }
        ExprKind::Array(list) => {
            CompiledExpr::Array { element: element_type(&expr.ty), values: compile_list(list, compiler)? }
        }
        ExprKind::Subscript { array, index } => match pair(array, index, compiler)? {
            slots if matches!(*slots, (CompiledExpr::Slot(_), CompiledExpr::Slot(_))) => {
                let (CompiledExpr::Slot(array), CompiledExpr::Slot(index)) = *slots else { unreachable!() };
                CompiledExpr::Element { array, index }
            }
            operands => CompiledExpr::Subscript(operands),
        },
        ExprKind::Slice { array, lower, upper } => CompiledExpr::Slice(Box::new(Slice {
            array: CompiledExpr::compile(array, compiler)?,
            lower: lower.as_ref().map(|bound| CompiledExpr::compile(bound, compiler)).transpose()?,
            upper: upper.as_ref().map(|bound| CompiledExpr::compile(bound, compiler)).transpose()?,
        })),
        ExprKind::Row(fields) => CompiledExpr::Row(compile_list(fields, compiler)?),
        ExprKind::ScalarSubquery(query) => {
            CompiledExpr::Scalar(Box::new(ScalarSubquery::compile(query, compiler)?))
        }
        ExprKind::Exists { query, negated } => {
            CompiledExpr::Exists(Box::new(ExistsSubquery::compile(query, *negated, compiler)?))
        }
        ExprKind::QuantifiedSubquery { op, left, query, all } => {
            CompiledExpr::Quantified(Box::new(QuantifiedSubquery::compile(*op, left, query, *all, compiler)?))
        }
        ExprKind::ArraySubquery(query) => CompiledExpr::ArraySubquery(Box::new(ArraySubquery::compile(
            query,
            element_type(&expr.ty),
            compiler,
        )?)),
        ExprKind::Aggregate(aggregate) => {
            let compiled = CompiledAggregate::compile(aggregate, &expr.ty, compiler)?;
            let slot = compiled.output;
            let Some(aggregates) = compiler.aggregates.last_mut() else {
                return Err(SqlError::new(
                    SqlState::GROUPING_ERROR,
                    "aggregate functions are not allowed here",
                ));
            };
            aggregates.push(compiled);
            CompiledExpr::Slot(slot)
        }
        ExprKind::Window(call) => {
            let (sort, slot) = WindowSort::compile(call, &expr.ty, compiler)?;
            let Some(sorts) = compiler.windows.last_mut() else {
                let message = "window functions are not allowed here";
                return Err(SqlError::new(SqlState::WINDOWING_ERROR, message));
            };
            sort.add_to(sorts);
            CompiledExpr::Slot(slot)
        }
        ExprKind::NextValue(sequence) => CompiledExpr::NextValue(*sequence),
        ExprKind::CurrentValue(sequence) => CompiledExpr::CurrentValue(*sequence),
        ExprKind::TransactionTime if expr.ty == SqlType::Date => CompiledExpr::TransactionDate,
        ExprKind::TransactionTime if expr.ty == SqlType::Timestamp => CompiledExpr::TransactionLocalTime,
        ExprKind::TransactionTime => CompiledExpr::TransactionTime,
        ExprKind::Volatile(function) => CompiledExpr::Volatile(*function),
        ExprKind::Opaque(_) => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "this expression was read to be analysed only and cannot run",
            ));
        }
    })
}

fn known_text(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Literal(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// `char(n)` becomes text as an argument, but some functions of PostgreSQL take it as it is.
fn under_implicit_cast(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Cast { operand, explicit: false } if matches!(operand.ty, SqlType::Char(_)) => operand,
        _ => expr,
    }
}

/// An operand whose padding counts.
fn padded(expr: &Expr, compiler: &mut Compiler<'_>) -> Result<CompiledExpr, SqlError> {
    let compiled = CompiledExpr::compile(expr, compiler)?;
    Ok(match expr.ty {
        SqlType::Char(width) => CompiledExpr::Padded(Box::new(compiled), width),
        _ => compiled,
    })
}

fn binary(
    op: BinaryOp,
    left: &Expr,
    right: &Expr,
    result: &SqlType,
    compiler: &mut Compiler<'_>,
) -> Result<CompiledExpr, SqlError> {
    let compiled_left = CompiledExpr::compile(left, compiler)?;
    let compiled_right = CompiledExpr::compile(right, compiler)?;
    let comparable = !matches!((&left.kind, &right.kind), (ExprKind::Row(_), _) | (_, ExprKind::Row(_)));
    if let (Some(test), true) = (Comparison::of(op), comparable) {
        return Ok(CompiledExpr::Compare(Box::new(Compare {
            test,
            left: compiled_left,
            right: compiled_right,
        })));
    }
    Ok(CompiledExpr::Binary(Box::new(Binary {
        name: op,
        apply: operator::specialise(op, &left.ty, &right.ty),
        integer_limit: integer_limit(op, left, right, result),
        left: compiled_left,
        right: compiled_right,
    })))
}

/// See [`Binary::integer_limit`].
fn integer_limit(op: BinaryOp, left: &Expr, right: &Expr, result: &SqlType) -> Option<i64> {
    let simple = matches!(op, BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply)
        && left.ty.is_integer()
        && right.ty.is_integer();
    match result {
        _ if !simple => None,
        SqlType::Int2 => Some(i64::from(i16::MAX)),
        SqlType::Int4 => Some(i64::from(i32::MAX)),
        SqlType::Int8 => Some(i64::MAX),
        _ => None,
    }
}

/// A boolean operator as ANY and ALL use it.
pub fn binary_test(op: BinaryOp, left: &SqlType, right: &SqlType) -> Result<BinaryTest, SqlError> {
    Ok(match Comparison::of(op) {
        Some(test) => BinaryTest::Compare(test),
        None => BinaryTest::Other(operator::specialise(op, left, right)),
    })
}

fn element_type(array: &SqlType) -> SqlType {
    match array {
        SqlType::Array(element) => (**element).clone(),
        other => other.clone(),
    }
}

fn case(
    whens: &[(Expr, Expr)],
    otherwise: Option<&Expr>,
    compiler: &mut Compiler<'_>,
) -> Result<CompiledExpr, SqlError> {
    let mut compiled = Vec::with_capacity(whens.len());
    for (condition, value) in whens {
        compiled.push((CompiledExpr::compile(condition, compiler)?, CompiledExpr::compile(value, compiler)?));
    }
    let otherwise = otherwise.map(|value| CompiledExpr::compile(value, compiler)).transpose()?;
    if let Some(operand) = switched(&compiled) {
        let arms = compiled.into_iter().filter_map(|(condition, value)| Some((arm(&condition)?.1, value)));
        return Ok(CompiledExpr::Switch(Box::new(Switch { operand, arms: arms.collect(), otherwise })));
    }
    Ok(CompiledExpr::Case { whens: compiled, otherwise: otherwise.map(Box::new) })
}

/// The variable that all conditions compare with integers.
fn switched(whens: &[(CompiledExpr, CompiledExpr)]) -> Option<Slot> {
    let (first, _) = arm(&whens.first()?.0)?;
    whens.iter().all(|(condition, _)| arm(condition).is_some_and(|(slot, _)| slot == first)).then_some(first)
}

/// `variable = integer`.
fn arm(condition: &CompiledExpr) -> Option<(Slot, i64)> {
    let CompiledExpr::Compare(compare) = condition else { return None };
    match (compare.test, &compare.left, &compare.right) {
        (Comparison::Equal, CompiledExpr::Slot(slot), CompiledExpr::Constant(Value::Int(value))) => {
            Some((*slot, *value))
        }
        _ => None,
    }
}

fn cast(
    operand: &Expr,
    to: &SqlType,
    explicit: bool,
    compiler: &mut Compiler<'_>,
) -> Result<CompiledExpr, SqlError> {
    let compiled = CompiledExpr::compile(operand, compiler)?;
    if weir_types::cast::is_identity(&operand.ty, to) {
        return Ok(compiled);
    }
    if matches!(compiled, CompiledExpr::Constant(Value::Null)) {
        return Ok(compiled);
    }
    let cast = Cast { operand: compiled, from: operand.ty.clone(), to: to.clone(), explicit };
    if let CompiledExpr::Constant(value) = &cast.operand {
        // An error belongs to the execution, so it is only folded where it succeeds; what depends on the session's zone does, too.
        if let (Ok(value), false) = SessionZone::is_asked(|| super::scalar::cast(value, &cast)) {
            return Ok(CompiledExpr::Constant(value));
        }
    }
    Ok(CompiledExpr::Cast(Box::new(cast)))
}
