//! A small lexer: where tokens begin and end, nothing more.
//!
//! The grammar is PostgreSQL's (see [`crate::parse`]); this module only answers questions that the
//! parse tree does not: where a token ends, where a parenthesis closes, where a statement that the
//! grammar does not know (CREATE ASSERTION) stops. It accepts every input: broken text yields tokens
//! up to its end.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// An unquoted identifier or keyword.
    Word,
    /// `"name"`.
    QuotedName,
    /// Any kind of string constant, its quotes included.
    Text,
    Number,
    /// `$1`.
    Parameter,
    /// One of `( ) [ ] , ; .`
    Punctuation(u8),
    /// A run of operator characters, or `..`.
    Operator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
}

impl Token {
    pub fn is_word(&self, text: &str, word: &str) -> bool {
        self.kind == TokenKind::Word && text[self.start..self.end].eq_ignore_ascii_case(word)
    }

    /// The identifier as PostgreSQL folds it; `None` for what is none, or is not closed.
    pub fn name(&self, text: &str) -> Option<String> {
        let written = &text[self.start..self.end];
        match self.kind {
            TokenKind::Word => Some(written.to_lowercase()),
            TokenKind::QuotedName => {
                let inner = written.strip_prefix('"')?.strip_suffix('"')?;
                Some(inner.replace("\"\"", "\"")).filter(|name| !name.is_empty())
            }
            _ => None,
        }
    }

    pub fn is(&self, punctuation: u8) -> bool {
        self.kind == TokenKind::Punctuation(punctuation)
    }
}

/// Tokens of `text` from byte `at` on, which must be outside of strings and comments.
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str, at: usize) -> Lexer<'a> {
        Lexer { text, at: at.min(text.len()) }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_blank(&mut self) {
        loop {
            match (self.byte(0), self.byte(1)) {
                (b'-', b'-') => {
                    let rest = &self.text.as_bytes()[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                (b'/', b'*') => self.skip_block_comment(),
                (byte, _) if byte.is_ascii_whitespace() || byte == 0x0b => self.at += 1,
                _ => return,
            }
        }
    }

    /// Block comments nest.
    fn skip_block_comment(&mut self) {
        let mut depth = 0usize;
        while self.at < self.text.len() {
            match (self.byte(0), self.byte(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    /// Past the closing `quote`; a doubled quote stands for itself.
    fn skip_quoted(&mut self, quote: u8, backslash: bool) {
        self.at += 1;
        while self.at < self.text.len() {
            match self.byte(0) {
                b'\\' if backslash => self.at += 2,
                byte if byte == quote && self.byte(1) == quote => self.at += 2,
                byte if byte == quote => {
                    self.at += 1;
                    return;
                }
                _ => self.at += 1,
            }
        }
        self.at = self.text.len();
    }

    /// `$tag$ … $tag$`, if one begins here.
    fn skip_dollar_quoted(&mut self) -> bool {
        let bytes = &self.text.as_bytes()[self.at..];
        let tag_length = bytes[1..].iter().take_while(|&&byte| is_word_byte(byte) && byte != b'$').count();
        if bytes.get(1 + tag_length) != Some(&b'$') || bytes[1].is_ascii_digit() {
            return false;
        }
        let tag = &self.text[self.at..self.at + tag_length + 2];
        let body = self.at + tag.len();
        self.at = self.text[body..].find(tag).map_or(self.text.len(), |found| body + found + tag.len());
        true
    }

    fn skip_while(&mut self, accept: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at.min(self.text.len())..];
        self.at += rest.iter().position(|byte| !accept(*byte)).unwrap_or(rest.len());
    }

    fn skip_number(&mut self) {
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if self.byte(0) == b'.' && self.byte(1) != b'.' {
            self.at += 1;
            self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        }
        let exponent = self.text.as_bytes()[self.at - 1].eq_ignore_ascii_case(&b'e');
        if exponent && matches!(self.byte(0), b'+' | b'-') && self.byte(1).is_ascii_digit() {
            self.at += 1;
            self.skip_while(|byte| byte.is_ascii_digit());
        }
    }

    fn skip_operator(&mut self) {
        while is_operator_byte(self.byte(0)) {
            if self.text[self.at..].starts_with("--") || self.text[self.at..].starts_with("/*") {
                return;
            }
            self.at += 1;
        }
    }

    fn token_kind(&mut self) -> TokenKind {
        let (byte, next) = (self.byte(0), self.byte(1));
        match byte {
            b'\'' => {
                self.skip_quoted(b'\'', false);
                TokenKind::Text
            }
            b'e' | b'E' if next == b'\'' => {
                self.at += 1;
                self.skip_quoted(b'\'', true);
                TokenKind::Text
            }
            b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if next == b'\'' => {
                self.at += 1;
                self.skip_quoted(b'\'', false);
                TokenKind::Text
            }
            b'"' => {
                self.skip_quoted(b'"', false);
                TokenKind::QuotedName
            }
            b'$' if next.is_ascii_digit() => {
                self.at += 1;
                self.skip_while(|byte| byte.is_ascii_digit());
                TokenKind::Parameter
            }
            b'$' if self.skip_dollar_quoted() => TokenKind::Text,
            b'(' | b')' | b'[' | b']' | b',' | b';' => {
                self.at += 1;
                TokenKind::Punctuation(byte)
            }
            b'.' if next == b'.' => {
                self.at += 2;
                TokenKind::Operator
            }
            b'.' if !next.is_ascii_digit() => {
                self.at += 1;
                TokenKind::Punctuation(byte)
            }
            b'0'..=b'9' | b'.' => {
                self.skip_number();
                TokenKind::Number
            }
            _ if is_word_byte(byte) && byte != b'$' => {
                self.skip_while(is_word_byte);
                TokenKind::Word
            }
            _ if is_operator_byte(byte) => {
                self.skip_operator();
                TokenKind::Operator
            }
            _ => {
                self.at += 1;
                TokenKind::Operator
            }
        }
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        self.skip_blank();
        if self.at >= self.text.len() {
            return None;
        }
        let start = self.at;
        let kind = self.token_kind();
        while !self.text.is_char_boundary(self.at.min(self.text.len())) {
            self.at += 1;
        }
        self.at = self.at.min(self.text.len());
        Some(Token { kind, start, end: self.at })
    }
}

/// A statement is looked through each time it comes, and most of its bytes are asked this.
const WORD_BYTES: [bool; 256] = {
    let mut bytes = [false; 256];
    let mut at = 0;
    while at < 256 {
        bytes[at] = (at as u8).is_ascii_alphanumeric() || at as u8 == b'_' || at as u8 == b'$' || at >= 0x80;
        at += 1;
    }
    bytes
};

fn is_word_byte(byte: u8) -> bool {
    WORD_BYTES[usize::from(byte)]
}

fn is_operator_byte(byte: u8) -> bool {
    b"+-*/<>=~!@#%^&|`?:".contains(&byte)
}

/// The end of the token that begins at `at`; `at` itself at the end of the text.
pub fn token_end(text: &str, at: usize) -> usize {
    if !text.is_char_boundary(at.min(text.len())) {
        return at;
    }
    Lexer::new(text, at).next().map_or(at.min(text.len()), |token| token.end)
}

/// Past the bracket that closes the first one at or after `at`; the end of the text if none does.
pub fn closing_end(text: &str, at: usize) -> usize {
    let mut depth = 0usize;
    for token in Lexer::new(text, at) {
        match token.kind {
            TokenKind::Punctuation(b'(' | b'[') => depth += 1,
            TokenKind::Punctuation(b')' | b']') => {
                if depth <= 1 {
                    return token.end;
                }
                depth -= 1;
            }
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[&str]) {
        let tokens: Vec<&str> = Lexer::new(text, 0).map(|token| &text[token.start..token.end]).collect();
        assert_eq!(tokens, expect, "{text}");
    }

    #[test]
    fn tokens() {
        check("a.b >= 1.5e-3--x", &["a", ".", "b", ">=", "1.5e-3"]);
        check("'it''s' E'a\\'b' $$x;'$$ $f$ $$ $f$", &["'it''s'", "E'a\\'b'", "$$x;'$$", "$f$ $$ $f$"]);
        check("/* a /* b */ c */ \"q\"\"r\" $1;", &["\"q\"\"r\"", "$1", ";"]);
        check("'open", &["'open"]);
        check("für é€ 1..3", &["für", "é€", "1", "..", "3"]);
        check("$x", &["$", "x"]);
    }

    #[test]
    fn closing() {
        assert_eq!(closing_end("f(a, (b), ')') + 1", 1), 14);
        assert_eq!(closing_end("f(a", 1), 3);
    }
}
