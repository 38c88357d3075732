//! PostgreSQL's scanner once more, for the paths where it costs too much: where tokens begin and end, nothing more.
//!
//! The grammar is PostgreSQL's (see [`crate::parse`]), and what a statement means stands in its tree; this module only answers what the
//! tree does not: the shape of a text that comes again and again, where a token ends, where a parenthesis closes, where a statement that
//! the grammar does not know (CREATE ASSERTION) stops. Its tokens are those of PostgreSQL's scanner (`tokens_are_postgresqls` below), but
//! that a string which goes on in another line is several. It accepts every input: broken text yields tokens up to its end.

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

    /// An operator of several characters ends in `+` or `-` only if it has one of `~!@#^&|?%` or a backtick.
    fn skip_operator(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        let run = rest.iter().position(|byte| !is_operator_byte(*byte)).unwrap_or(rest.len());
        let is_comment = |at: &usize| matches!(rest.get(*at..at + 2), Some(b"--" | b"/*"));
        let mut end = (1..run).find(is_comment).unwrap_or(run);
        let ends_in_sign = |end: usize| matches!(rest[end - 1], b'+' | b'-');
        while end > 1 && ends_in_sign(end) && !rest[..end - 1].iter().any(|byte| b"~!@#^&|`?%".contains(byte))
        {
            end -= 1;
        }
        self.at += end;
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
            b'b' | b'B' | b'x' | b'X' if next == b'\'' => {
                self.at += 1;
                self.skip_quoted(b'\'', false);
                TokenKind::Text
            }
            b'u' | b'U' if next == b'&' && matches!(self.byte(2), b'\'' | b'"') => {
                self.at += 2;
                let quote = self.byte(0);
                self.skip_quoted(quote, false);
                if quote == b'"' { TokenKind::QuotedName } else { TokenKind::Text }
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
            b':' => {
                self.at += 1 + usize::from(matches!(next, b':' | b'='));
                TokenKind::Operator
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
    b"+-*/<>=~!@#%^&|`?".contains(&byte)
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

    /// PostgreSQL's scanner, without comments.
    fn scanned(text: &str) -> Option<Vec<(usize, usize)>> {
        use pg_query::protobuf::Token::{CComment, SqlComment};
        let is_comment = |token: i32| token == SqlComment as i32 || token == CComment as i32;
        let scanned = pg_query::scan(text).ok()?;
        let tokens = scanned.tokens.iter().filter(|token| !is_comment(token.token));
        Some(tokens.map(|token| (token.start as usize, token.end as usize)).collect())
    }

    /// The same of this lexer, strings that go on in another line as one.
    fn lexed(text: &str) -> Vec<(usize, usize)> {
        let mut tokens: Vec<(usize, usize)> = Vec::new();
        let mut before = None;
        for token in Lexer::new(text, 0) {
            let goes_on = |last: &(usize, usize)| {
                before == Some(TokenKind::Text)
                    && token.kind == TokenKind::Text
                    && text[token.start..].starts_with('\'')
                    && text[last.1..token.start].contains('\n')
            };
            match tokens.last_mut() {
                Some(last) if goes_on(last) => last.1 = token.end,
                _ => tokens.push((token.start, token.end)),
            }
            before = Some(token.kind);
        }
        tokens
    }

    #[test]
    fn tokens_are_postgresqls() {
        let written = [
            "a.b >= 1.5e-3--x\n+ .5 * 7. - 0x1F + 1_000",
            "'it''s' E'a\\'b' e'\\\\' $$x;'$$ $f$ $$ $f$ $ü$ $u$ $ü$ B'01' x'ff' N'n' U&'\\0041' U&\"d\\0061t\" \"q\"\"r\"",
            "/* a /* b */ c */ \"q\"\"r\" $1; $12 -- end",
            "'a'\n  'b' 'c' -- x\n'd'",
            "a::int[1:2], b:=c, d=>e, x[:y], 1..3",
            "1*-2 a=-1 b<-c d<>-e f@-g h->>'i' j#>-k l||-m n%-o p--q\n !=-r |/+s a*/**/b a<--c\nd",
            "für é€ _x$1 a$b$c \u{a0}",
            "",
        ];
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let files = ["examples", "testdata", "crates/weir-bench/tests"].map(|one| format!("{folder}/{one}"));
        let mut texts: Vec<String> = written.map(str::to_owned).into();
        let mut left: Vec<std::path::PathBuf> = files.map(Into::into).into();
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|ending| ending == "sql") {
                texts.extend(std::fs::read_to_string(path));
            }
        }
        assert!(texts.len() > 50, "{}", texts.len());
        for text in texts {
            // A command of psql is no SQL.
            let Some(expected) = scanned(&text) else { continue };
            let found = lexed(&text);
            let different = found.iter().zip(&expected).find(|(found, expected)| found != expected);
            let of = |range: &(usize, usize)| text[range.0..range.1].to_owned();
            assert_eq!(different.map(|(found, expected)| (of(found), of(expected))), None, "{text:.300}");
            assert_eq!(found.len(), expected.len(), "{text:.300}");
        }
        for text in written {
            assert!(scanned(text).is_some(), "{text}");
        }
    }

    #[test]
    fn closing() {
        assert_eq!(closing_end("f(a, (b), ')') + 1", 1), 14);
        assert_eq!(closing_end("f(a", 1), 3);
    }
}
