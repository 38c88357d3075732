//! Parse trees as text, and parts of trees from templates: how a statement is rewritten. No text of a client's is cut.

use pg_query::DeparseOptions;
use pg_query::protobuf::{Node, ParseResult, RawStmt, SelectStmt, node};
use weir_types::SqlState;

use super::nodes::is_deeper;
use super::{Piece, parse_statement, too_deep};
use crate::source::{Diagnostic, Span};

/// Trees of more levels are not rewritten: copying and encoding them descends without a look at the stack.
const LEVELS_MAX: usize = 250;

/// Returns whether a tree has few enough levels to be rewritten.
pub(crate) fn can_be_rewritten(statement: &node::Node) -> bool {
    !is_deeper(statement, LEVELS_MAX)
}

/// The text of a statement.
///
/// # Errors
/// The library has no text for it.
pub(crate) fn deparse(statement: &node::Node) -> Result<String, Diagnostic> {
    // Rewriting has put few levels into it.
    if is_deeper(statement, 2 * LEVELS_MAX) {
        return Err(too_deep(Span::default()));
    }
    let node = Node { node: Some(statement.clone()) };
    let raw = RawStmt { stmt: Some(Box::new(node)), stmt_location: 0, stmt_len: 0 };
    let whole = ParseResult { version: 0, stmts: vec![raw] };
    let text = pg_query::deparse(&whole, DeparseOptions::default());
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree without the places of its nodes.
    fn without_places(tree: &node::Node) -> String {
        const PLACES: [&str; 3] = ["location: ", "list_start: ", "list_end: "];
        let tree = format!("{tree:?}");
        let (mut without, mut rest) = (String::new(), tree.as_str());
        while let Some(at) = PLACES.iter().filter_map(|word| Some(rest.find(word)? + word.len())).min() {
            without.push_str(&rest[..at]);
            rest = rest[at..].trim_start_matches(|c: char| c == '-' || c.is_ascii_digit());
        }
        without + rest
    }

    /// All SQL of the repository that could be rewritten is the same when it has been written and read again.
    #[test]
    fn what_is_written_is_read_as_the_same() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let mut left = ["examples", "testdata", "crates/weir-bench/tests"]
            .map(|one| std::path::PathBuf::from(format!("{folder}/{one}")))
            .to_vec();
        let mut count = 0;
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let is_sql = path.extension().is_some_and(|ending| ending == "sql");
            let Some(text) = is_sql.then(|| std::fs::read_to_string(path).ok()).flatten() else { continue };
            for sql in pg_query::split_with_scanner(&text).unwrap_or_default() {
                let Ok(tree) = template(sql) else { continue };
                let is_rewritten = matches!(
                    tree,
                    node::Node::SelectStmt(_)
                        | node::Node::InsertStmt(_)
                        | node::Node::UpdateStmt(_)
                        | node::Node::DeleteStmt(_)
                );
                if is_rewritten {
                    let written = deparse(&tree).unwrap_or_else(|wrong| panic!("{sql}: {wrong:?}"));
                    let again = template(&written).unwrap_or_else(|wrong| panic!("{written}: {wrong:?}"));
                    assert_eq!(without_places(&again), without_places(&tree), "{sql}\n{written}");
                    count += 1;
                }
            }
        }
        assert!(count > 1_000, "{count}");
    }

    #[test]
    fn deep_trees_are_left_as_they_are() {
        let of_small_stack = |step: fn()| {
            std::thread::Builder::new().stack_size(1 << 20).spawn(step).unwrap().join().unwrap();
        };
        of_small_stack(|| {
            let sql = format!("SELECT 1{}", " + 1".repeat(LEVELS_MAX - 10));
            let tree = template(&sql).unwrap();
            assert!(can_be_rewritten(&tree));
            assert_eq!(deparse(&tree).unwrap(), sql);
        });
        of_small_stack(|| {
            for deep in [" + 1".repeat(1_400), " UNION SELECT 1".repeat(300)] {
                let tree = template(&format!("SELECT 1{deep}")).unwrap();
                assert!(!can_be_rewritten(&tree));
            }
            let tree = template(&format!("SELECT 1{}", " + 1".repeat(1_400))).unwrap();
            assert_eq!(deparse(&tree).unwrap_err().state, SqlState::STATEMENT_TOO_COMPLEX);
        });
    }
}
