//! PL/pgSQL at the coordinator: procedures whose statements cannot run as one message (docs/internals/interactive-calls.md).
//!
//! Such a procedure is compiled to flat code ([`code`]). The coordinator interprets it ([`interpreter`]) and sends each SQL statement to the
//! shards as a statement of one transaction, with the variables as its parameters.

pub mod code;
pub mod interpreter;

/// First character of a name of a procedure's statement. No SQL text contains it, so no client can send such a name as a statement.
const MARK: char = '\u{1}';

/// Name of the statement with this number of the procedure with this index. The name stands where ad-hoc statements have their text. Together with
/// the schema version it is the same statement for every process, which has the application.
pub(super) fn statement_name(procedure: usize, statement: usize) -> String {
    format!("{MARK}{procedure}.{statement}")
}

/// Inverse of [`statement_name`]; `None`: the text is SQL.
pub(super) fn named_statement(text: &str) -> Option<(usize, usize)> {
    let (procedure, statement) = text.strip_prefix(MARK)?.split_once('.')?;
    Some((procedure.parse().ok()?, statement.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_statements_are_told_from_sql() {
        assert_eq!(named_statement(&statement_name(17, 4)), Some((17, 4)));
        for text in ["SELECT 1", "", "\u{1}", "\u{1}17", "\u{1}a.1", "17.4"] {
            assert_eq!(named_statement(text), None, "{text:?}");
        }
    }
}
