//! Session settings that may stand in schema files, and the one that matters to a procedure.

use pg_query::protobuf::{Node, SelectStmt, VariableSetKind, VariableSetStmt, a_const, node};

use crate::binder::expr_strings;
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

/// Harmless with any value: they change how PostgreSQL loads a dump, not what the dump means.
const ANY_VALUE: &[&str] = &[
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "transaction_timeout",
    "check_function_bodies",
    "xmloption",
    "client_min_messages",
    "row_security",
    "default_tablespace",
    "default_table_access_method",
    "default_with_oids",
    "on_error_stop",
];

/// Harmless with the value that Weir works with anyway.
const THIS_VALUE: &[(&str, &[&str])] = &[
    ("client_encoding", &["utf8", "utf-8", "unicode"]),
    ("standard_conforming_strings", &["on", "true", "1"]),
    ("search_path", &["", "public", "public, pg_catalog"]),
    ("timezone", &["utc", "gmt", "etc/utc"]),
    ("datestyle", &["iso", "iso, mdy"]),
    ("intervalstyle", &["postgres"]),
];

/// Schemas of a search_path in which names are found as they are without it.
const NO_OTHER: [&str; 6] = ["", "public", "pg_catalog", "pg_temp", "$user", "information_schema"];

pub(crate) fn constant(node: &Node) -> String {
    match &node.node {
        Some(node::Node::AConst(constant)) => match &constant.val {
            Some(a_const::Val::Sval(string)) => string.sval.clone(),
            Some(a_const::Val::Ival(number)) => number.ival.to_string(),
            Some(a_const::Val::Fval(number)) => number.fval.clone(),
            Some(a_const::Val::Boolval(boolean)) => boolean.boolval.to_string(),
            _ => "0".to_owned(),
        },
        Some(node::Node::TypeCast(cast)) => cast.arg.as_deref().map(constant).unwrap_or_default(),
        _ => "?".to_owned(),
    }
}

fn accept(name: &str, value: &str, span: Span) -> Result<(), Diagnostic> {
    let name = name.to_ascii_lowercase();
    if ANY_VALUE.contains(&name.as_str()) {
        return Ok(());
    }
    let value = value.to_ascii_lowercase();
    match THIS_VALUE.iter().find(|(known, _)| *known == name) {
        Some((_, values)) if values.contains(&value.as_str()) => Ok(()),
        Some((_, values)) => Err(Diagnostic::unsupported(
            span,
            format!("{name} = '{value}'"),
            format!("leave it away, or set it to '{}'", values[0]),
        )),
        None => Err(Diagnostic::unsupported(
            span,
            format!("SET {name} in a schema file"),
            "leave it away; Weir's settings are on the command line",
        )),
    }
}

pub(super) fn accept_set(_piece: Piece<'_>, set: &VariableSetStmt, span: Span) -> Result<(), Diagnostic> {
    let values: Vec<String> = set.args.iter().map(constant).collect();
    match VariableSetKind::try_from(set.kind) {
        Ok(VariableSetKind::VarSetValue) => accept(&set.name, &values.join(", "), span),
        Ok(VariableSetKind::VarSetDefault | VariableSetKind::VarReset | VariableSetKind::VarResetAll) => {
            Ok(())
        }
        _ => Err(Diagnostic::unsupported(
            span,
            format!("SET {} in a schema file", set.name),
            "ALTER PROCEDURE … SET default_transaction_isolation = 'serializable' marks one procedure",
        )),
    }
}

/// `SELECT pg_catalog.set_config('search_path', '', false)` is all that pg_dump selects.
pub(super) fn accept_select(piece: Piece<'_>, select: &SelectStmt, span: Span) -> Result<(), Diagnostic> {
    let refused = || {
        Diagnostic::unsupported(
            span,
            "a query in a schema file",
            "send it to the running server, or make it a view or a procedure",
        )
    };
    let [Node { node: Some(node::Node::ResTarget(target)) }] = select.target_list.as_slice() else {
        return Err(refused());
    };
    match target.val.as_deref().and_then(|value| value.node.as_ref()) {
        Some(node::Node::FuncCall(call)) if select.from_clause.is_empty() => {
            match (expr_strings(&call.funcname).last(), call.args.as_slice()) {
                (Some(&"set_config"), [name, value, _]) => {
                    accept(&constant(name), &constant(value), piece.token(call.location))
                }
                _ => Err(refused()),
            }
        }
        _ => Err(refused()),
    }
}

/// Whether a `SET …` clause of a procedure asks for serializable isolation.
pub(crate) fn serializable(set: &VariableSetStmt, span: Span) -> Result<bool, Diagnostic> {
    let value = set.args.first().map(constant).unwrap_or_default().to_ascii_lowercase();
    match (set.name.as_str(), value.as_str()) {
        ("default_transaction_isolation" | "transaction_isolation", "serializable") => Ok(true),
        ("default_transaction_isolation" | "transaction_isolation", _) => Ok(false),
        ("search_path", _) if set.args.iter().all(|schema| NO_OTHER.contains(&constant(schema).as_str())) => {
            Ok(false)
        }
        ("search_path", _) => Err(Diagnostic::unsupported(
            span,
            "a search_path with other schemas than public on a procedure",
            "write the schema before the names in its body",
        )),
        (name, _) => Err(Diagnostic::unsupported(
            span,
            format!("SET {name} on a procedure"),
            "default_transaction_isolation is",
        )),
    }
}
