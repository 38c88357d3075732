//! PostgreSQL's own grammar: text in, parse tree out, with the place of each statement and error.
//!
//! The tree is `pg_query`'s; there is no other one. What the grammar does not know (CREATE ASSERTION)
//! is cut out before, by [`crate::assertion`]. Nothing here looks at what a statement means.

pub(crate) mod deparse;
mod grammar;
pub(crate) mod nodes;

use pg_query::ParserOptions;
use pg_query::protobuf::{Node, node};
use weir_types::SqlState;

use self::grammar::Failure;
use crate::lexer;
use crate::source::{Diagnostic, Span};

/// A stretch of a source file that is parsed by itself; byte `i` of `text` is byte `offset + i` of the file.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    pub file: u32,
    pub offset: u32,
    pub text: &'a str,
}

/// One parsed statement and the bytes of the file that it takes, without its semicolon.
#[derive(Debug)]
pub struct ParsedStatement {
    pub node: node::Node,
    pub span: Span,
}

impl<'a> Piece<'a> {
    pub fn new(file: u32, offset: u32, text: &'a str) -> Piece<'a> {
        Piece { file, offset, text }
    }

    /// The whole piece.
    pub fn span(&self) -> Span {
        self.range(0, self.text.len())
    }

    /// Bytes `start..end` of the piece, as a place in the file.
    pub fn range(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start: self.offset + start as u32, end: self.offset + end.max(start) as u32 }
    }

    /// Text at a position of the file; empty if the position is not in the piece.
    pub fn text_of(&self, span: Span) -> &'a str {
        let at = |place: u32| (place.saturating_sub(self.offset) as usize).min(self.text.len());
        self.text.get(at(span.start)..at(span.end)).unwrap_or("")
    }

    /// The token at a location of the parse tree; the whole piece where the tree has none (−1).
    pub fn token(&self, location: i32) -> Span {
        match usize::try_from(location) {
            Ok(start) if start <= self.text.len() => self.range(start, lexer::token_end(self.text, start)),
            _ => self.span(),
        }
    }

    /// From a location to the end of the bracket that opens at or after it.
    pub fn bracketed(&self, location: i32) -> Span {
        match usize::try_from(location) {
            Ok(start) if self.text.is_char_boundary(start) => {
                self.range(start, lexer::closing_end(self.text, start))
            }
            _ => self.token(location),
        }
    }
}

/// Statements separated by semicolons.
pub fn parse_statements(piece: Piece<'_>) -> Result<Vec<ParsedStatement>, Diagnostic> {
    let mut statements = Vec::new();
    for raw in parse_with(piece, ParserOptions::DEFAULT)? {
        let Some(node) = raw.stmt.and_then(|node| node.node) else { continue };
        let start = (raw.stmt_location.max(0) as usize).min(piece.text.len());
        let end = match raw.stmt_len {
            0 => piece.text.len(),
            length => (start + length.max(0) as usize).min(piece.text.len()),
        };
        // A statement's range begins with the blanks and comments before it.
        let start = lexer::Lexer::new(piece.text, start).next().map_or(start, |token| token.start);
        let end = start + piece.text.get(start..end).map_or(0, |text| text.trim_end().len());
        statements.push(ParsedStatement { node, span: piece.range(start, end) });
    }
    Ok(statements)
}

/// Splits a text into statements at semicolons.
pub(crate) fn split(text: &str) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    let mut start: Option<usize> = None;
    // Open brackets, and BEGIN ATOMIC or CASE without their END.
    let (mut brackets, mut blocks) = (0usize, 0usize);
    let mut begin = false;
    for token in lexer::Lexer::new(text, 0) {
        start.get_or_insert(token.start);
        let word = |word: &str| token.is_word(text, word);
        if token.is(b'(') || token.is(b'[') {
            brackets += 1;
        } else if token.is(b')') || token.is(b']') {
            brackets = brackets.saturating_sub(1);
        } else if begin && word("atomic") || blocks > 0 && word("case") {
            blocks += 1;
        } else if word("end") {
            blocks = blocks.saturating_sub(1);
        } else if token.is(b';') && brackets == 0 && blocks == 0 {
            places.extend(start.take().map(|start| (start, token.end)));
        }
        begin = word("begin");
    }
    places.extend(start.map(|start| (start, text.len())));
    places
}

/// Exactly one statement.
pub fn parse_statement(piece: Piece<'_>) -> Result<ParsedStatement, Diagnostic> {
    let mut statements = parse_statements(piece)?;
    match statements.len() {
        1 => Ok(statements.remove(0)),
        0 => Err(Diagnostic::new(SqlState::SYNTAX_ERROR, piece.span(), "there is no statement here")),
        _ => Err(Diagnostic::new(
            SqlState::SYNTAX_ERROR,
            statements[1].span,
            "cannot insert multiple commands into a prepared statement",
        )
        .with_hint("send one statement at a time")),
    }
}

/// An expression, or anything that may follow SELECT: a `SelectStmt` node, as PL/pgSQL reads it.
pub fn parse_expression(piece: Piece<'_>) -> Result<Node, Diagnostic> {
    let missing = || Diagnostic::new(SqlState::SYNTAX_ERROR, piece.span(), "an expression is missing here");
    if lexer::Lexer::new(piece.text, 0).next().is_none() {
        return Err(missing());
    }
    let statements = parse_with(piece, ParserOptions::PLPGSQL_EXPR)?;
    let node = statements.into_iter().next().and_then(|raw| raw.stmt).ok_or_else(missing)?;
    Ok(*node)
}

fn parse_with(
    piece: Piece<'_>,
    options: ParserOptions,
) -> Result<Vec<pg_query::protobuf::RawStmt>, Diagnostic> {
    if let Some(nul) = piece.text.find('\0') {
        return Err(Diagnostic::new(
            SqlState::SYNTAX_ERROR,
            piece.range(nul, nul + 1),
            "SQL text must not contain a NUL character",
        ));
    }
    grammar::parse(piece.text, options).map_err(|failure| match failure {
        Failure::TooDeep => too_deep(piece.token(first_token(piece.text))),
        Failure::Syntax { message, at } => syntax_error(piece, message, at),
    })
}

/// Error for a text that nests too deeply for the stack.
pub(crate) fn too_deep(place: Span) -> Diagnostic {
    Diagnostic::new(SqlState::STATEMENT_TOO_COMPLEX, place, "stack depth limit exceeded")
        .with_hint("split the statement: its operators, parentheses and subqueries nest too deeply")
}

/// There is nothing in it but blanks and comments.
pub fn is_blank(text: &str) -> bool {
    lexer::Lexer::new(text, 0).next().is_none()
}

/// Where the first token of a text begins.
pub(crate) fn first_token(text: &str) -> i32 {
    lexer::Lexer::new(text, 0).next().map_or(0, |token| token.start as i32)
}

fn syntax_error(piece: Piece<'_>, message: String, at: Option<usize>) -> Diagnostic {
    let span = match at {
        Some(at) => piece.range(at, lexer::token_end(piece.text, at)),
        None => piece.token(first_token(piece.text)),
    };
    // A string that is not closed runs to the end of the text: its first line is enough.
    let message = match message.split_once('\n') {
        Some((first, _)) => format!("{} …\"", first.trim_end()),
        None => message,
    };
    let feature = message.contains("not supported") || message.contains("not yet implemented");
    let state = if feature { SqlState::FEATURE_NOT_SUPPORTED } else { SqlState::SYNTAX_ERROR };
    Diagnostic::new(state, span, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let found = match parse_statements(Piece::new(0, 100, text)) {
            Ok(statements) => statements
                .iter()
                .map(|statement| format!("{}..{}", statement.span.start, statement.span.end))
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => {
                format!("{} {}..{} {}", error.state, error.span.start, error.span.end, error.message)
            }
        };
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn places() {
        check("select 1; -- x\n select 2 ;", "100..108 116..124");
        check("", "");
        check("select 'é' from t where", "42601 124..124 syntax error at end of input");
        check("select 'é', , 2", "42601 113..114 syntax error at or near \",\"");
        check("selec 1", "42601 100..105 syntax error at or near \"selec\"");
        check("select 'open", "42601 107..112 unterminated quoted string at or near \"'open\"");
        check("select \0", "42601 107..108 SQL text must not contain a NUL character");
    }

    #[test]
    fn depth_is_limited_by_the_stack_without_a_crash() {
        let of_a_thread_with = |kilobytes: usize, text: String| {
            let thread = std::thread::Builder::new().stack_size(kilobytes << 10);
            let parses =
                move || parse_statements(Piece::new(0, 0, &text)).map(drop).map_err(|error| error.state);
            thread.spawn(parses).unwrap().join().unwrap()
        };
        let sum = |terms: usize| format!("select 1{}", " + 1".repeat(terms));
        let too_deep = Err(SqlState::STATEMENT_TOO_COMPLEX);
        for kilobytes in [1 << 10, 2 << 10, 16 << 10, 64 << 10] {
            let parenthesised = format!("select {}1{}", "(".repeat(5000), ")".repeat(5000));
            assert_eq!(of_a_thread_with(kilobytes, parenthesised), Ok(()));
            assert_eq!(of_a_thread_with(kilobytes, sum(100)), Ok(()));
            assert_eq!(of_a_thread_with(kilobytes, sum(20_000)), too_deep);
            let negated = of_a_thread_with(kilobytes, format!("select {}1", "- - ".repeat(20_000)));
            assert_eq!(negated, Err(SqlState::SYNTAX_ERROR), "the grammar's own stack is exhausted");
            for terms in [300, 1_000, 3_000, 4_900, 5_100] {
                let told = of_a_thread_with(kilobytes, sum(terms));
                assert!(told == Ok(()) || told == too_deep, "{terms} terms with {kilobytes} kB: {told:?}");
            }
        }
        assert_eq!(of_a_thread_with(1 << 10, sum(1_500)), Ok(()));
    }
}
