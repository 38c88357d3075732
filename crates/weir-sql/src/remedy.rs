//! Adds a remedy to diagnostics that have none.
//!
//! It looks at the words around the place. It never changes what a message says, nor where.

use weir_types::SqlState;

use crate::source::{Diagnostic, Severity, Sources};

/// Keywords of SQL and PL/pgSQL that are often misspelt, and long enough to be distinguished from names.
const WORDS: [&str; 94] = [
    "ALTER",
    "ALWAYS",
    "ASSERTION",
    "BEGIN",
    "BETWEEN",
    "CALL",
    "CASCADE",
    "CASE",
    "CHECK",
    "COLUMN",
    "COMMENT",
    "COMMIT",
    "CONFLICT",
    "CONSTRAINT",
    "CREATE",
    "CROSS",
    "CURRENT",
    "DECLARE",
    "DEFAULT",
    "DEFERRABLE",
    "DELETE",
    "DISTINCT",
    "DOMAIN",
    "DROP",
    "ELSE",
    "ELSIF",
    "ENUM",
    "EXCEPTION",
    "EXCLUDE",
    "EXECUTE",
    "EXISTS",
    "FALSE",
    "FOREACH",
    "FOREIGN",
    "FROM",
    "FUNCTION",
    "GENERATED",
    "GRANT",
    "GROUP",
    "HAVING",
    "IDENTITY",
    "INDEX",
    "INNER",
    "INSERT",
    "INTERVAL",
    "INTO",
    "JOIN",
    "KEY",
    "LANGUAGE",
    "LEFT",
    "LIMIT",
    "LOOP",
    "MATERIALIZED",
    "NATURAL",
    "NOTHING",
    "NOTICE",
    "NULL",
    "NULLS",
    "OFFSET",
    "ORDER",
    "OUTER",
    "OVER",
    "PERFORM",
    "PRIMARY",
    "PROCEDURE",
    "RAISE",
    "REFERENCES",
    "REPLACE",
    "RESTRICT",
    "RETURN",
    "RETURNING",
    "RETURNS",
    "RIGHT",
    "SELECT",
    "SEQUENCE",
    "STABLE",
    "STORED",
    "TABLE",
    "THEN",
    "TRIGGER",
    "TRUE",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USING",
    "VALUES",
    "VIEW",
    "VOLATILE",
    "WHEN",
    "WHERE",
    "WHILE",
    "WINDOW",
    "WITH",
    "WITHOUT",
];

const TYPES: [&str; 18] = [
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "decimal",
    "real",
    "double",
    "float",
    "text",
    "varchar",
    "char",
    "boolean",
    "date",
    "timestamp",
    "timestamptz",
    "uuid",
    "jsonb",
    "bytea",
];

/// Gives the message a hint if it has none and one is known.
pub fn complete(sources: &Sources, message: &mut Diagnostic) {
    // Of a function that need not be known, PostgreSQL's hint on casts leads nowhere.
    let goes_on = message.severity != Severity::Error && message.state == SqlState::UNDEFINED_FUNCTION;
    if message.hint.is_none() || goes_on {
        message.hint = remedy(sources, message);
    }
}

fn remedy(sources: &Sources, message: &Diagnostic) -> Option<String> {
    let goes_on = message.severity != Severity::Error;
    Some(match message.state {
        SqlState::SYNTAX_ERROR => syntax(sources, message),
        SqlState::UNDEFINED_OBJECT if message.message.starts_with("type ") => {
            let known = "types are integer, bigint, numeric, text, boolean, date, timestamp, uuid, jsonb, arrays of them, and \
                         what CREATE TYPE or CREATE DOMAIN has made before";
            nearest(quoted(&message.message), &TYPES).unwrap_or_else(|| known.to_owned())
        }
        SqlState::UNDEFINED_FUNCTION if goes_on => "what it reads and writes is not known: give the file that creates \
                                                    it too, or correct its name and the types of its arguments"
            .to_owned(),
        SqlState::UNDEFINED_FUNCTION => {
            "create it in one of the files, or correct its name and the types of its arguments".to_owned()
        }
        SqlState::UNDEFINED_TABLE => "create it before it is mentioned, or correct its name".to_owned(),
        SqlState::UNDEFINED_COLUMN => "correct its name, or add the column to the table".to_owned(),
        SqlState::UNDEFINED_OBJECT => "create it before it is mentioned, or correct its name".to_owned(),
        SqlState::DATATYPE_MISMATCH => "give it a value of the type that is wanted, or CAST (… AS …)".to_owned(),
        _ => return None,
    })
}

fn syntax(sources: &Sources, message: &Diagnostic) -> String {
    let span = message.span;
    let text = sources.files.get(span.file as usize).map_or("", |file| file.text.as_str());
    let word = sources.text(span);
    if message.message.starts_with("unterminated") {
        return "close the quotes, the comment or the $$ that begin here".to_owned();
    }
    if message.message.ends_with("end of input") || word.trim().is_empty() {
        let before = text.get(..span.start as usize).unwrap_or(text);
        let begin = before.trim_end().rfind(';').map_or(0, |at| at + 1);
        let begin = begin + before[begin..].len() - before[begin..].trim_start().len();
        let line = text[..begin].matches('\n').count() + 1;
        return format!(
            "what begins on line {line} is not finished: a closing bracket, an END or a semicolon is missing"
        );
    }
    nearest(word, &WORDS).unwrap_or_else(|| {
        "look at the word before it, too: a comma, a bracket, a semicolon or a keyword is missing there, or one too many"
            .to_owned()
    })
}

/// Text in double quotes, or nothing.
fn quoted(text: &str) -> &str {
    text.split('"').nth(1).unwrap_or("")
}

/// The only word that is one letter away, or has two letters exchanged.
fn nearest(word: &str, known: &[&str]) -> Option<String> {
    let word = word.to_lowercase();
    let is_near = |other: &&&str| {
        let other = other.to_lowercase();
        other != word && other.len() > 2 && is_one_step(&word, &other)
    };
    let mut near = known.iter().filter(is_near);
    let found = near.next()?;
    near.next().is_none().then(|| format!("did you mean {found}?"))
}

/// Whether one letter is missing, is too many or is another one, or two that are neighbours have changed places.
fn is_one_step(left: &str, right: &str) -> bool {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let same = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    let (rest, other) = (&left[same..], &right[same..]);
    match (rest, other) {
        ([_, rest @ ..], other) if rest == other => true,
        (rest, [_, other @ ..]) if rest == other => true,
        ([_, rest @ ..], [_, other @ ..]) if rest == other => true,
        ([a, b, rest @ ..], [c, d, other @ ..]) => a == d && b == c && rest == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Span;

    #[track_caller]
    fn check(state: SqlState, text: &str, marked: &str, message: &str, expect: &str) {
        let mut sources = Sources::default();
        let file = sources.add("a.sql", text);
        let start =
            if marked.is_empty() { text.len() } else { text.find(marked).expect("it is there") } as u32;
        let span = Span { file, start, end: start + marked.len() as u32 };
        let mut diagnostic = Diagnostic::new(state, span, message);
        complete(&sources, &mut diagnostic);
        let hint = diagnostic.hint.unwrap_or_default();
        assert!(hint.starts_with(expect), "{text}: {hint}");
    }

    #[test]
    fn remedies() {
        let near = |text: &str, marked: &str, expect: &str| {
            check(
                SqlState::SYNTAX_ERROR,
                text,
                marked,
                &format!("syntax error at or near \"{marked}\""),
                expect,
            );
        };
        near("CREATE TABEL t (id int)", "TABEL", "did you mean TABLE?");
        near("CREATE TABLE t (id int PRIMARY KEYS)", "KEYS", "did you mean KEY?");
        near("creat table t (id int)", "creat", "did you mean CREATE?");
        near("CREATE TABLE t (id int b int)", "b int", "look at the word before it");
        let end = "syntax error at end of input";
        check(
            SqlState::SYNTAX_ERROR,
            "SELECT 1;\n\nSELECT (2\n",
            "",
            end,
            "what begins on line 3 is not finished",
        );
        check(SqlState::SYNTAX_ERROR, "SELECT ö", "", end, "what begins on line 1 is not finished");
        check(SqlState::SYNTAX_ERROR, "", "", end, "what begins on line 1 is not finished");
        let ty = |name: &str, expect: &str| {
            let message = format!("type \"{name}\" does not exist");
            check(SqlState::UNDEFINED_OBJECT, "CREATE", "CREATE", &message, expect);
        };
        ty("integr", "did you mean integer?");
        ty("hologram", "types are integer");
        check(SqlState::DIVISION_BY_ZERO, "SELECT 1", "1", "division by zero", "");
    }
}
