//! The constants of a client's text as parameters of it.
//!
//! Clients that do not prepare write their values into every text. What differs in nothing else is one text then: it is judged and
//! compiled once.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::text::parse_text;
use weir_types::{SqlType, Value};

use crate::bound::{Expr, ExprKind, Statement};
use crate::catalog::Catalog;
use crate::lexer::{Lexer, TokenKind};
use crate::statement::{CLIENT, Text, bind_statement};
use crate::walk::{self, each_statement_expr};

/// A text with its constants as parameters.
#[derive(Clone, Debug)]
pub struct Lifted {
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
) -> Option<Lifted> {
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
    (types == lifted.types && again.columns() == statement.columns()).then_some(Lifted {
        text: lifted,
        values,
        places,
    })
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
        // As whoever prepares the text has it.
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
