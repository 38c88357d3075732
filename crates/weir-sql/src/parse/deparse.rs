//! Parse trees as text, and parts of trees from templates: how a statement is rewritten. No text of a client's is cut.

use pg_query::DeparseOptions;
use pg_query::protobuf::{Node, ParseResult, RawStmt, SelectStmt, node};
use weir_types::SqlState;

use super::{Piece, parse_statement};
use crate::source::{Diagnostic, Span};

/// The library's C code and the encoder descend without a check; a tree that was parsed is no deeper than this allows.
const STACK_BYTES: usize = 64 << 20;
/// Statements whose trees are not deep need no stack of their own.
const STACK_LEFT_BYTES_MIN: usize = 1 << 20;

/// The text of a statement.
///
/// # Errors
/// The library has no text for it.
pub(crate) fn deparse(statement: &node::Node) -> Result<String, Diagnostic> {
    let node = Node { node: Some(statement.clone()) };
    let raw = RawStmt { stmt: Some(Box::new(node)), stmt_location: 0, stmt_len: 0 };
    let whole = ParseResult { version: 0, stmts: vec![raw] };
    let text = stacker::maybe_grow(STACK_LEFT_BYTES_MIN, STACK_BYTES, || {
        pg_query::deparse(&whole, DeparseOptions::default())
    });
    text.map_err(|wrong| {
        let message = format!("the statement cannot be rewritten: {wrong}");
        Diagnostic::new(SqlState::FEATURE_NOT_SUPPORTED, Span::default(), message)
    })
}

/// The tree of a text of ours, in which names are quoted.
///
/// # Errors
/// A name in it is none.
pub(crate) fn template(text: &str) -> Result<node::Node, Diagnostic> {
    Ok(parse_statement(Piece::new(0, 0, text))?.node)
}

/// The same, of a query.
pub(crate) fn query_template(text: &str) -> Result<Box<SelectStmt>, Diagnostic> {
    match template(text)? {
        node::Node::SelectStmt(select) => Ok(select),
        _ => Err(Diagnostic::new(SqlState::INTERNAL_ERROR, Span::default(), "a template is no query")),
    }
}

/// A node of its own.
pub(crate) fn boxed(node: node::Node) -> Option<Box<Node>> {
    Some(Box::new(Node { node: Some(node) }))
}
