//! PostgreSQL's own tokens of a body, and a cursor over them.
//!
//! PL/pgSQL's keywords are ordinary words to the scanner; whether a word is a keyword depends on where
//! it stands, so words are compared by their text. Every token, and every error, has its place.

use pg_query::protobuf::{KeywordKind, ScanToken, Token as Scanned};
use weir_types::SqlState;

use super::structure::{Name, Path};
use crate::parse::{Piece, parse_expression};
use crate::source::{Diagnostic, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// Unquoted: a keyword of SQL, one of PL/pgSQL, or a name.
    Word,
    QuotedName,
    Text,
    Parameter,
    /// Numbers, operators, punctuation.
    Other,
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
}

pub(super) struct Tokens<'a> {
    text: &'a str,
    file: u32,
    base: u32,
    tokens: Vec<Token>,
    at: usize,
}

impl<'a> Tokens<'a> {
    /// `base` is the offset of `text` in its file.
    pub fn scan(file: u32, base: u32, text: &'a str) -> Result<Tokens<'a>, Diagnostic> {
        let mut tokens = Tokens { text, file, base, tokens: Vec::new(), at: 0 };
        match pg_query::scan(text) {
            Ok(result) => {
                tokens.tokens = result.tokens.iter().filter_map(|token| tokens.convert(token)).collect();
                Ok(tokens)
            }
            Err(pg_query::Error::Scan(message)) => {
                // The library drops the place, but the message quotes the text from there on.
                let near = message.split_once("at or near \"").map(|(_, near)| near.trim_end_matches('"'));
                let at = near.and_then(|near| text.rfind(near)).unwrap_or(0);
                Err(Diagnostic::new(
                    SqlState::SYNTAX_ERROR,
                    tokens.range(at, text.len()),
                    first_line(&message),
                ))
            }
            Err(error) => {
                let at = text.find('\0').unwrap_or(0);
                Err(Diagnostic::new(SqlState::SYNTAX_ERROR, tokens.range(at, at + 1), error.to_string()))
            }
        }
    }

    fn convert(&self, token: &ScanToken) -> Option<Token> {
        let (start, end) = (token.start.max(0) as usize, token.end.max(0) as usize);
        let text = self.text.get(start..end)?;
        let kind = match token.token() {
            Scanned::SqlComment | Scanned::CComment | Scanned::Nul => return None,
            Scanned::Ident | Scanned::Uident if text.contains('"') => TokenKind::QuotedName,
            Scanned::Ident => TokenKind::Word,
            Scanned::Sconst | Scanned::Usconst => TokenKind::Text,
            Scanned::Param => TokenKind::Parameter,
            _ if token.keyword_kind() != KeywordKind::NoKeyword => TokenKind::Word,
            _ => TokenKind::Other,
        };
        Some(Token { kind, start, end })
    }

    fn range(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start: self.base + start as u32, end: self.base + end as u32 }
    }

    pub fn peek(&self) -> Token {
        self.peek_at(0)
    }

    /// Past the end there is only `End`, an empty token behind the last character.
    pub fn peek_at(&self, ahead: usize) -> Token {
        self.tokens.get(self.at + ahead).copied().unwrap_or(Token {
            kind: TokenKind::End,
            start: self.text.len(),
            end: self.text.len(),
        })
    }

    pub fn advance(&mut self) -> Token {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len());
        token
    }

    pub fn position(&self) -> usize {
        self.at
    }

    /// From that position to the semicolon that ends its statement.
    pub fn skip_statement(&mut self, from: usize) {
        self.at = from;
        let mut depth = 0i32;
        while self.peek().kind != TokenKind::End && !(depth <= 0 && self.at(";")) {
            let token = self.advance();
            match (token.kind, self.text_of(token)) {
                (TokenKind::Other, "(" | "[") => depth += 1,
                (TokenKind::Other, ")" | "]") => depth -= 1,
                _ => {}
            }
        }
    }

    pub fn text_of(&self, token: Token) -> &'a str {
        self.text.get(token.start..token.end).unwrap_or("")
    }

    /// Words compare without case; quoted names never match a word.
    pub fn matches(&self, token: Token, what: &str) -> bool {
        match token.kind {
            TokenKind::Word => self.text_of(token).eq_ignore_ascii_case(what),
            TokenKind::Other => self.text_of(token) == what,
            _ => false,
        }
    }

    pub fn at(&self, what: &str) -> bool {
        self.matches(self.peek(), what)
    }

    pub fn at_any(&self, what: &[&str]) -> bool {
        what.iter().any(|what| self.at(what))
    }

    pub fn accept(&mut self, what: &str) -> bool {
        let found = self.at(what);
        if found {
            self.advance();
        }
        found
    }

    pub fn expect(&mut self, what: &str) -> Result<Token, Diagnostic> {
        if self.at(what) { Ok(self.advance()) } else { Err(self.unexpected(&what.to_uppercase())) }
    }

    /// The next token is not what the grammar wants.
    pub fn unexpected(&self, wanted: &str) -> Diagnostic {
        let token = self.peek();
        let message = match token.kind {
            TokenKind::End => "syntax error at end of input".to_string(),
            _ => format!("syntax error at or near \"{}\"", first_line(self.text_of(token))),
        };
        Diagnostic::new(SqlState::SYNTAX_ERROR, self.span(token), message)
            .with_hint(format!("expected {wanted}"))
    }

    pub fn span(&self, token: Token) -> Span {
        self.range(token.start, token.end)
    }

    /// From `start` to the last token that was read.
    pub fn span_from(&self, start: Token) -> Span {
        let end = match self.at.checked_sub(1).and_then(|last| self.tokens.get(last)) {
            Some(last) => last.end.max(start.start),
            None => start.end,
        };
        self.range(start.start, end)
    }

    pub fn at_name(&self) -> bool {
        matches!(self.peek().kind, TokenKind::Word | TokenKind::QuotedName | TokenKind::Parameter)
    }

    pub fn name(&mut self, wanted: &str) -> Result<Name, Diagnostic> {
        let token = self.peek();
        let written = self.text_of(token);
        let text = match token.kind {
            TokenKind::Word => written.to_ascii_lowercase(),
            TokenKind::Parameter => written.to_string(),
            TokenKind::QuotedName if written.starts_with('"') && written.len() >= 2 => {
                written[1..written.len() - 1].replace("\"\"", "\"")
            }
            TokenKind::QuotedName => {
                return Err(Diagnostic::unsupported(
                    self.span(token),
                    "a name with Unicode escapes (U&\"…\")",
                    "write the characters themselves",
                ));
            }
            _ => return Err(self.unexpected(wanted)),
        };
        self.advance();
        Ok(Name { text, span: self.span(token) })
    }

    pub fn path(&mut self, wanted: &str) -> Result<Path, Diagnostic> {
        let start = self.peek();
        let mut names = vec![self.name(wanted)?];
        while self.accept(".") {
            names.push(self.name("a name")?);
        }
        Ok(Path { names, span: self.span_from(start) })
    }

    /// Reads until one of `ends` at bracket depth 0 and leaves it to be read; what was read must not be
    /// empty.
    pub fn code_until(&mut self, ends: &[&str], wanted: &str) -> Result<Span, Diagnostic> {
        let start = self.peek();
        let mut depth = 0i32;
        loop {
            let token = self.peek();
            let bracket = (token.kind == TokenKind::Other).then(|| self.text_of(token));
            if depth == 0 && ends.iter().any(|end| self.matches(token, end)) {
                break;
            }
            match bracket {
                Some("(" | "[") => depth += 1,
                Some(")" | "]") if depth == 0 => {
                    return Err(self.unexpected(&quoted_list(ends)));
                }
                Some(")" | "]") => depth -= 1,
                Some(";") => {
                    return Err(if depth > 0 {
                        Diagnostic::new(
                            SqlState::SYNTAX_ERROR,
                            self.span(token),
                            "mismatched parentheses at or near \";\"",
                        )
                        .with_hint("expected )")
                    } else {
                        self.unexpected(&quoted_list(ends))
                    });
                }
                _ if token.kind == TokenKind::End => return Err(self.unexpected(&quoted_list(ends))),
                _ => {}
            }
            self.advance();
        }
        if self.peek().start == start.start {
            return Err(self.unexpected(wanted));
        }
        Ok(self.span_from(start))
    }

    /// The value of the string constant that comes next.
    pub fn string(&mut self, wanted: &str) -> Result<(String, Span), Diagnostic> {
        let token = self.peek();
        if token.kind != TokenKind::Text {
            return Err(self.unexpected(wanted));
        }
        let value = string_value(self.text_of(token)).ok_or_else(|| self.unexpected(wanted))?;
        self.advance();
        Ok((value, self.span(token)))
    }
}

fn quoted_list(ends: &[&str]) -> String {
    ends.iter().map(|end| end.to_uppercase()).collect::<Vec<_>>().join(" or ")
}

/// A message that quotes the rest of the text is cut where the line ends.
fn first_line(text: &str) -> String {
    match text.split_once('\n') {
        Some((line, _)) if line.matches('"').count() % 2 == 1 => format!("{line}\""),
        Some((line, _)) => line.to_string(),
        None => text.to_string(),
    }
}

/// Decodes a string constant of any kind by asking the grammar.
fn string_value(constant: &str) -> Option<String> {
    use pg_query::protobuf::{a_const::Val, node::Node};
    let parsed = parse_expression(Piece::new(0, 0, constant)).ok()?;
    let Node::SelectStmt(select) = parsed.node.as_ref()? else { return None };
    let Node::ResTarget(target) = select.target_list.first()?.node.as_ref()? else { return None };
    let Node::AConst(value) = target.val.as_ref()?.node.as_ref()? else { return None };
    match value.val.as_ref()? {
        Val::Sval(text) => Some(text.sval.clone()),
        _ => None,
    }
}
