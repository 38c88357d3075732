//! Shapes: the common form of texts that differ only in constants, found without parsing them.
//!
//! Clients that do not prepare send the same few texts again and again, with other values. Once a text has been parsed, others of the
//! same shape need not be (see [`crate::lift_constants`]).

use std::borrow::Cow;

use crate::lexer::{Lexer, Token, TokenKind};

/// A text without its constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The text, each constant replaced by what kind of constant it is.
    pub key: String,
    /// In their order.
    pub constants: Vec<Constant>,
}

/// A constant that stands by itself; not its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    pub kind: ConstantKind,
    /// Bytes of the text.
    pub start: usize,
    pub end: usize,
}

/// As PostgreSQL tells types of constants apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantKind {
    Integer,
    Bigint,
    Numeric,
    /// In plain quotes.
    Text,
}

/// Stands for a constant in a key; no text that has a shape contains it.
const CONSTANT: char = '\u{1}';

/// No longer text has a shape: it is unlikely to come again.
const BYTES_MAX: usize = 8_192;

impl Shape {
    /// `None` for several statements, and for what had better be parsed.
    pub fn of(sql: &str) -> Option<Shape> {
        if sql.len() > BYTES_MAX || sql.contains(CONSTANT) {
            return None;
        }
        let mut shape = Shape { key: String::with_capacity(sql.len() + 8), constants: Vec::new() };
        let (mut copied, mut before) = (0, None::<Token>);
        for token in Lexer::new(sql, 0) {
            let is_text = |token: &Token| token.kind == TokenKind::Text;
            if before.is_some_and(|before| before.is(b';') || is_text(&before) && is_text(&token)) {
                return None;
            }
            if let Some(kind) = kind_of(sql, &token) {
                let mark = match kind {
                    ConstantKind::Integer => 'i',
                    ConstantKind::Bigint => 'l',
                    ConstantKind::Numeric => 'n',
                    ConstantKind::Text => 't',
                };
                shape.key.push_str(&sql[copied..token.start]);
                shape.key.extend([CONSTANT, mark]);
                shape.constants.push(Constant { kind, start: token.start, end: token.end });
                copied = token.end;
            }
            before = Some(token);
        }
        shape.key.push_str(&sql[copied..]);
        Some(shape)
    }
}

fn kind_of(sql: &str, token: &Token) -> Option<ConstantKind> {
    if !matches!(token.kind, TokenKind::Text | TokenKind::Number) {
        return None;
    }
    let written = &sql[token.start..token.end];
    match token.kind {
        TokenKind::Text => (written.len() > 1 && written.starts_with('\'') && written.ends_with('\''))
            .then_some(ConstantKind::Text),
        TokenKind::Number if written.bytes().all(|byte| byte.is_ascii_digit()) => {
            match written.parse::<i64>() {
                Ok(number) if i32::try_from(number).is_ok() => Some(ConstantKind::Integer),
                Ok(_) => Some(ConstantKind::Bigint),
                Err(_) => None,
            }
        }
        TokenKind::Number => {
            let is_plain = written.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            (is_plain && written.parse::<f64>().is_ok()).then_some(ConstantKind::Numeric)
        }
        _ => None,
    }
}

impl Constant {
    /// Text of the constant: digits, or a string without its quotes.
    pub fn written<'s>(&self, sql: &'s str) -> Cow<'s, str> {
        let written = &sql[self.start..self.end];
        if self.kind != ConstantKind::Text {
            return written.into();
        }
        let inside = &written[1..written.len() - 1];
        if inside.contains('\'') { inside.replace("''", "'").into() } else { inside.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, key: &str, constants: &[&str]) {
        let shape = Shape::of(sql).unwrap_or_else(|| panic!("{sql} has no shape"));
        assert_eq!(shape.key.replace(CONSTANT, "?"), key);
        let written: Vec<_> = shape.constants.iter().map(|one| one.written(sql)).collect();
        assert_eq!(written, constants, "{sql}");
    }

    #[test]
    fn texts_that_differ_in_constants_have_one_shape() {
        check("SELECT a FROM t WHERE id = 17;", "SELECT a FROM t WHERE id = ?i;", &["17"]);
        check(
            "UPDATE t SET a = a + -3.50, b = 'it''s' WHERE id=3000000000 -- 5",
            "UPDATE t SET a = a + -?n, b = ?t WHERE id=?l -- 5",
            &["3.50", "it's", "3000000000"],
        );
        check(
            "SELECT a1, $1, \"2\", E'x', '', 1e5 FROM t2",
            "SELECT a1, $1, \"2\", E'x', ?t, 1e5 FROM t2",
            &[""],
        );
        check("SELECT 99999999999999999999, '", "SELECT 99999999999999999999, '", &[]);
    }

    #[test]
    fn several_statements_have_none() {
        assert_eq!(Shape::of("SELECT 1; SELECT 2"), None);
        assert_eq!(Shape::of("SELECT 'a'\n'b'"), None);
        assert_eq!(Shape::of("SELECT '\u{1}i'"), None);
        assert!(Shape::of("SELECT 1 ; -- that is all\n").is_some());
        assert_eq!(Shape::of(&"x".repeat(BYTES_MAX + 1)), None);
    }
}
