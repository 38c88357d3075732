//! The constants of a client's text as parameters of it.
//!
//! Clients that do not prepare write their values into every text. What differs in nothing else is one text then: it is judged and
//! compiled once.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::text::parse_text;
use weir_types::{SqlType, Value};

use crate::bound::{Expr, ExprKind, InsertSource, Statement};
use crate::catalog::Catalog;
use crate::lexer::{Lexer, TokenKind};
use crate::statement::{CLIENT, Text, bind_statement};
use crate::walk::{self, each_expr, each_statement_expr, parts};

/// A text with its constants as parameters.
#[derive(Clone, Debug)]
pub struct Parameterised {
    pub text: Text,
    /// Of the parameters that were constants.
    pub values: Vec<Value>,
    /// Which bytes of the text as it was they were, with their sign.
    pub places: Vec<(usize, usize)>,
}

/// The text with its constants as parameters behind those of these types. `None` where there are none, or where it would be another
/// statement.
pub fn lift_constants(
    catalog: &Catalog,
    sql: &str,
    statement: &Statement,
    types: &[SqlType],
) -> Option<Parameterised> {
    let mut has_operations = false;
    each_planned_expr(statement, &mut |expr| has_operations = has_operations || is_constant_operation(expr));
    if has_operations {
        // With its constants it may fail, or find nothing, before rows are looked at.
        return None;
    }
    // By where they begin.
    let mut found: BTreeMap<usize, (usize, Value, SqlType)> = BTreeMap::new();
    each_statement_expr(statement, &mut |expr| {
        if let Some((start, end, value)) = constant(sql, expr) {
            found.insert(start, (end, value, expr.ty.base()));
        }
    });
    if found.is_empty() {
        return None;
    }
    let mut lifted = Text { sql: String::with_capacity(sql.len()), types: types.to_vec() };
    let (mut values, mut places, mut copied) = (Vec::with_capacity(found.len()), Vec::new(), 0);
    let typed = after_names_of_types(sql);
    found.retain(|start, _| !typed.contains(start));
    for (start, (end, value, ty)) in found {
        lifted.types.push(ty);
        lifted.sql.push_str(sql.get(copied..start)?);
        lifted.sql.push_str(&format!("${}", lifted.types.len()));
        values.push(value);
        places.push((start, end));
        copied = end;
    }
    lifted.sql.push_str(sql.get(copied..)?);
    let (again, types) = bind_statement(catalog, &lifted.sql, Some(&lifted.types)).ok()?;
    (types == lifted.types && again.columns() == statement.columns()).then_some(Parameterised {
        text: lifted,
        values,
        places,
    })
}

/// Every expression of the statement whose constants are worked out before rows are looked at: not those of VALUES, of which each is worked
/// out in any case.
pub fn each_planned_expr<'a>(statement: &'a Statement, visit: &mut dyn FnMut(&'a Expr)) {
    match statement {
        Statement::Insert(insert) if matches!(insert.source, InsertSource::Values(_)) => {
            if let Some((assignments, filter)) =
                insert.on_conflict.as_ref().and_then(|conflict| conflict.update.as_ref())
            {
                assignments.iter().for_each(|(_, expr)| each_expr(expr, visit));
                filter.iter().for_each(|expr| each_expr(expr, visit));
            }
        }
        statement => each_statement_expr(statement, visit),
    }
}

/// An operation on constants alone that gives the same whenever and for whomever it is worked out: what PostgreSQL calls immutable.
pub fn is_constant_operation(expr: &Expr) -> bool {
    let may_be = match &expr.kind {
        ExprKind::Function { function, .. } => is_immutable(function.name) && is_plain(&expr.ty),
        ExprKind::Binary { .. } => true,
        ExprKind::Not(_)
        | ExprKind::IsNull { .. }
        | ExprKind::IsBool { .. }
        | ExprKind::IsDistinct { .. }
        | ExprKind::NullIf(..)
        | ExprKind::Greatest(_)
        | ExprKind::Least(_)
        | ExprKind::Like { .. }
        | ExprKind::InList { .. } => true,
        _ => false,
    };
    let dates_are_plain = matches!(expr.kind, ExprKind::Binary { .. });
    let is_known = |part: &&Expr| is_constant(part, dates_are_plain);
    may_be && (is_plain(&expr.ty) || dates_are_plain && is_span(&expr.ty)) && parts(expr).iter().all(is_known)
}

/// A constant, also under casts and with its sign.
fn is_constant(expr: &Expr, dates_are_plain: bool) -> bool {
    match &expr.kind {
        ExprKind::Literal(_) => is_plain(&expr.ty) || dates_are_plain && is_span(&expr.ty),
        ExprKind::Cast { operand, .. } => is_plain(&expr.ty) && is_constant(operand, false),
        ExprKind::Negate(operand) => is_constant(operand, dates_are_plain),
        _ => false,
    }
}

/// Neither settings nor zones have a say in what is read and written of the type.
fn is_plain(ty: &SqlType) -> bool {
    let ty = ty.base();
    ty.is_integer()
        || ty.is_string()
        || matches!(
            ty,
            SqlType::Bool
                | SqlType::Numeric(_)
                | SqlType::Float4
                | SqlType::Float8
                | SqlType::Uuid
                | SqlType::Bytea
        )
}

fn is_span(ty: &SqlType) -> bool {
    matches!(ty.base(), SqlType::Date | SqlType::Timestamp | SqlType::Interval)
}

/// Of functions over plain values: PostgreSQL calls these stable or volatile.
fn is_immutable(name: &str) -> bool {
    let begins = [
        "to_",
        "pg_",
        "has_",
        "obj_",
        "col_",
        "set_",
        "current",
        "json",
        "make_timestamptz",
        "gen_",
        "uuid_",
    ];
    let is = [
        "format",
        "concat",
        "concat_ws",
        "quote_literal",
        "quote_nullable",
        "now",
        "age",
        "timezone",
        "version",
    ];
    !begins.iter().any(|begin| name.starts_with(begin)) && !is.contains(&name)
}

/// Where strings begin that a type's name stands before, as in `DATE '2026-11-22'`: no parameter may stand there.
fn after_names_of_types(sql: &str) -> BTreeSet<usize> {
    const NAMES: [&str; 6] = ["date", "time", "timestamp", "timestamptz", "interval", "zone"];
    let tokens: Vec<_> = Lexer::new(sql, 0).collect();
    let pairs = tokens.windows(2);
    let typed = pairs.filter(|pair| {
        pair[1].kind == TokenKind::Text && NAMES.iter().any(|name| pair[0].is_word(sql, name))
    });
    typed.map(|pair| pair[1].start).collect()
}

/// A number or a string as it stands in the text, and its value.
fn constant(sql: &str, expr: &Expr) -> Option<(usize, usize, Value)> {
    let value = match (&expr.kind, walk::local_literal(expr)) {
        (ExprKind::Literal(value), _) => value.clone(),
        // The value that preparing the text yields.
        (_, Some(literal)) => parse_text(literal, &expr.ty.base()).ok()?,
        _ => return None,
    };
    let has_type =
        !matches!(expr.ty, SqlType::Unknown | SqlType::Record | SqlType::Void | SqlType::Opaque(_));
    if expr.span.file != CLIENT || value.is_null() || !has_type {
        return None;
    }
    let start = expr.span.start as usize;
    let mut tokens = Lexer::new(sql, start);
    let first = tokens.next().filter(|token| token.start == start)?;
    let written = sql.get(first.start..first.end)?;
    let end = match first.kind {
        TokenKind::Number => first.end,
        TokenKind::Text if written.starts_with('\'') => first.end,
        // The sign belongs to the number.
        TokenKind::Operator if written == "-" => {
            tokens.next().filter(|token| token.kind == TokenKind::Number)?.end
        }
        _ => return None,
    };
    Some((start, end, value))
}
