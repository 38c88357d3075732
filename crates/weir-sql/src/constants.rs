//! The constants of a client's text as parameters of it.
//!
//! Clients that do not prepare write their values into every text. What differs in nothing else is one text then: it is judged and
//! compiled once.

use std::collections::{BTreeMap, BTreeSet};

use pg_query::protobuf::{ParamRef, node};
use weir_types::text::parse_text;
use weir_types::{SqlType, Value};

use crate::bound::{Expr, ExprKind, InsertSource, Statement};
use crate::catalog::Catalog;
use crate::lexer::{Lexer, TokenKind};
use crate::parse::nodes::{each_node, each_node_mut};
use crate::statement::{CLIENT, ParsedText, Text, bind_statement};
use crate::walk::{self, each_expr, each_statement_expr, parts};

/// A text with its constants as parameters.
#[derive(Clone, Debug)]
pub struct Parameterised {
    pub text: Text,
    /// Of the parameters that were constants.
    pub values: Vec<Value>,
    /// Where they stood in the text as it was, with their sign.
    pub places: Vec<(usize, usize)>,
}

/// The statement with its constants as parameters behind those of these types. `None` where there are none, or where it would be another
/// statement.
pub fn lift_constants(
    catalog: &Catalog,
    parsed: &ParsedText<'_>,
    statement: &Statement,
    types: &[SqlType],
) -> Option<Parameterised> {
    let mut has_operations = false;
    each_planned_expr(statement, &mut |expr| has_operations = has_operations || is_constant_operation(expr));
    if has_operations || !parsed.can_be_rewritten() {
        // With its constants it may fail, or find nothing, before rows are looked at.
        return None;
    }
    if has_grouping_sets(parsed.node()) {
        // Keys that are equal would not be once one of them has a parameter, and sets of them would be other sets.
        return None;
    }
    // By where they begin.
    let mut found: BTreeMap<i32, (usize, Value, SqlType)> = BTreeMap::new();
    each_statement_expr(statement, &mut |expr| {
        if let Some((start, end, value)) = constant(parsed.text(), expr)
            && let Ok(start) = i32::try_from(start)
        {
            found.insert(start, (end, value, expr.ty.base()));
        }
    });
    if found.is_empty() {
        return None;
    }
    let mut node = parsed.node().clone();
    leave_typed(&node, &mut found);
    let mut types = types.to_vec();
    let (mut values, mut places) = (Vec::with_capacity(found.len()), Vec::new());
    let mut parameters = BTreeMap::new();
    for (start, (end, value, ty)) in found {
        types.push(ty);
        parameters.insert(start, i32::try_from(types.len()).ok()?);
        values.push(value);
        places.push((usize::try_from(start).ok()?, end));
    }
    let mut replaced = BTreeSet::new();
    each_node_mut(&mut node, &mut |node| {
        if let node::Node::AConst(constant) = node
            && let Some(&number) = parameters.get(&constant.location)
        {
            replaced.insert(number);
            *node = node::Node::ParamRef(ParamRef { number, location: constant.location });
        }
        true
    });
    if replaced.len() < parameters.len() {
        return None;
    }
    let lifted = Text { sql: parsed.rewritten(node).sql().ok()?, types };
    let (again, types) = bind_statement(catalog, &lifted.sql, Some(&lifted.types)).ok()?;
    (types == lifted.types && again.columns() == statement.columns()).then_some(Parameterised {
        text: lifted,
        values,
        places,
    })
}

fn has_grouping_sets(node: &node::Node) -> bool {
    let mut has = false;
    each_node(node, &mut |node| {
        has |= matches!(node, node::Node::GroupingSet(_));
        true
    });
    has
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

/// Without strings that a type's name stands before, as in `DATE '2026-11-22'`: they say what type it is.
fn leave_typed(node: &node::Node, found: &mut BTreeMap<i32, (usize, Value, SqlType)>) {
    each_node(node, &mut |node| {
        if let node::Node::TypeCast(cast) = node
            // The library has places for the other kinds of casts alone.
            && cast.location < 0
            && let Some(node::Node::AConst(constant)) = cast.arg.as_ref().and_then(|arg| arg.node.as_ref())
        {
            found.remove(&constant.location);
        }
        true
    });
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
