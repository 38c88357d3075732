//! Statements that differ in their constants alone, as one.

use crate::lexer::{Lexer, TokenKind};

/// The same for texts that differ only in constants, blanks, comments and the case of words; the same everywhere and for ever.
pub fn fingerprint(text: &str) -> u64 {
    // FNV-1a.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    for token in Lexer::new(text, 0) {
        match token.kind {
            TokenKind::Text | TokenKind::Number | TokenKind::Parameter => add(b'$'),
            TokenKind::Word => {
                text[token.start..token.end].bytes().for_each(|byte| add(byte.to_ascii_lowercase()));
            }
            TokenKind::Punctuation(b';') => continue,
            _ => text[token.start..token.end].bytes().for_each(&mut add),
        }
        add(b' ');
    }
    hash
}

/// The tokens of a text as they stand in it; blanks and comments are none.
pub fn tokens(text: &str) -> Vec<&str> {
    Lexer::new(text, 0).map(|token| &text[token.start..token.end]).collect()
}

/// The text with parameters for its constants, numbered behind its own.
pub fn normalised(text: &str) -> String {
    let own = Lexer::new(text, 0).filter(|token| token.kind == TokenKind::Parameter);
    let own = own.filter_map(|token| text[token.start + 1..token.end].parse::<u32>().ok()).max();
    let mut last = own.unwrap_or(0);
    let (mut normal, mut taken) = (String::with_capacity(text.len()), 0);
    for token in Lexer::new(text, 0) {
        if matches!(token.kind, TokenKind::Text | TokenKind::Number) {
            last = last.saturating_add(1);
            normal.push_str(&text[taken..token.start]);
            normal.push_str(&format!("${last}"));
            taken = token.end;
        }
    }
    normal.push_str(&text[taken..]);
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_do_not_matter() {
        let one = fingerprint("SELECT a FROM t WHERE b = 5 AND c = 'x'");
        for same in [
            "select a\n from t where b = $1 and c = $2;",
            "SELECT a FROM t WHERE b = 1.5e3 /* some */ AND c = $$y$$ -- end",
        ] {
            assert_eq!(fingerprint(same), one, "{same}");
        }
        for other in
            ["SELECT a FROM t WHERE b = 5 AND d = 'x'", "SELECT \"A\" FROM t", "SELECT ab", "SELECT a b"]
        {
            assert_ne!(fingerprint(other), one, "{other}");
        }
        assert_ne!(fingerprint("SELECT ab"), fingerprint("SELECT a b"));
    }

    #[test]
    fn constants_become_parameters() {
        let check = |text: &str, expect: &str| assert_eq!(normalised(text), expect);
        check("SELECT 1, 'a''b', x + -2.5", "SELECT $1, $2, x + -$3");
        check("UPDATE t SET a = $2 WHERE b = 7", "UPDATE t SET a = $2 WHERE b = $3");
        check("SELECT $99999999999999999999, 'open", "SELECT $99999999999999999999, $1");
        check("", "");
    }
}
