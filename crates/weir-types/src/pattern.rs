//! LIKE, and whether a regular expression matches ([`crate::regexp`]).

use crate::error::{SqlError, SqlState};
use crate::interrupt::check;
use crate::regexp::{self, Flags};

/// Characters that are compared in the time of one check.
const STEPS_PER_CHECK: u32 = 32;

/// One element of a LIKE pattern.
#[derive(Clone, Copy, PartialEq)]
enum Token {
    Any,
    One,
    Exactly(char),
    /// The pattern ends with its escape: an error, but only if the text gets so far.
    LoneEscape,
}

/// `text LIKE pattern ESCAPE escape`; the default escape is `\`, an empty one is none. 22025 for a
/// pattern that ends with its escape, or an escape of more than one character.
pub fn like(text: &str, pattern: &str, escape: Option<&str>, insensitive: bool) -> Result<bool, SqlError> {
    let escape = match escape {
        None => Some('\\'),
        Some(escape) => {
            let mut chars = escape.chars();
            let first = chars.next();
            if chars.next().is_some() {
                return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
                    .with_hint("Escape string must be empty or one character."));
            }
            first
        }
    };
    // Most patterns have their wildcards at the ends only; the others take the general way.
    let fold = |c: char| if insensitive { c.to_lowercase().next().unwrap_or(c) } else { c };
    let mut tokens = Vec::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            _ if Some(c) == escape => match chars.next() {
                Some(c) => Token::Exactly(fold(c)),
                None => Token::LoneEscape,
            },
            '%' => Token::Any,
            '_' => Token::One,
            c => Token::Exactly(fold(c)),
        });
    }
    matches(&text.chars().map(fold).collect::<Vec<_>>(), &tokens)
}

/// A LIKE pattern that is known before the texts are. Where its wildcards stand at the ends only, as in
/// most, a text is searched as bytes.
#[derive(Debug)]
pub enum LikePattern {
    Exact(String),
    Prefix(String),
    Suffix(String),
    Contains(Box<memchr::memmem::Finder<'static>>),
    /// The rest, by [`like`].
    General(String),
}

impl LikePattern {
    /// The default escape, `\`, and letters as they are.
    pub fn new(pattern: &str) -> LikePattern {
        let literal = pattern.trim_matches('%');
        if literal.is_empty() || literal.contains(['%', '_', '\\']) {
            return LikePattern::General(pattern.to_owned());
        }
        match (pattern.starts_with('%'), pattern.ends_with('%')) {
            (false, false) => LikePattern::Exact(literal.to_owned()),
            (false, true) => LikePattern::Prefix(literal.to_owned()),
            (true, false) => LikePattern::Suffix(literal.to_owned()),
            (true, true) => {
                LikePattern::Contains(Box::new(memchr::memmem::Finder::new(literal.as_bytes()).into_owned()))
            }
        }
    }

    /// `text LIKE pattern`; 22025 as in [`like`].
    pub fn matches(&self, text: &str) -> Result<bool, SqlError> {
        match self {
            LikePattern::Exact(pattern) => Ok(text == pattern),
            LikePattern::Prefix(pattern) => Ok(text.starts_with(pattern.as_str())),
            LikePattern::Suffix(pattern) => Ok(text.ends_with(pattern.as_str())),
            LikePattern::Contains(finder) => Ok(finder.find(text.as_bytes()).is_some()),
            LikePattern::General(pattern) => like(text, pattern, None, false),
        }
    }
}

/// Greedy matching that goes back to the last `%` only: linear in practice, quadratic at worst.
fn matches(text: &[char], tokens: &[Token]) -> Result<bool, SqlError> {
    let (mut at, mut token) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    let mut steps = 0_u32;
    loop {
        steps = steps.wrapping_add(1);
        if steps.is_multiple_of(STEPS_PER_CHECK) {
            check()?;
        }
        match tokens.get(token) {
            Some(Token::Any) => {
                token += 1;
                retry = Some((at, token));
                continue;
            }
            Some(Token::One) if at < text.len() => {
                at += 1;
                token += 1;
                continue;
            }
            Some(Token::Exactly(c)) if text.get(at) == Some(c) => {
                at += 1;
                token += 1;
                continue;
            }
            Some(Token::LoneEscape) if at < text.len() => {
                return Err(SqlError::new(
                    SqlState::INVALID_ESCAPE_SEQUENCE,
                    "LIKE pattern must not end with escape character",
                ));
            }
            None if at == text.len() => return Ok(true),
            _ => {}
        }
        match &mut retry {
            Some((start, after)) if *start < text.len() => {
                *start += 1;
                at = *start;
                token = *after;
            }
            _ => return Ok(false),
        }
    }
}

/// `~` and `~*`.
pub fn regex_is_match(text: &str, pattern: &str, insensitive: bool) -> Result<bool, SqlError> {
    let flags = Flags::of_case(insensitive);
    regexp::compile(pattern, flags)?.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_pattern_matches_what_like_matches() {
        let patterns = [
            "", "%", "a", "%a", "a%", "%a%", "%ab%", "a%b", "_", "a_", "%%a", "a%%", "%\\%%", "\\", "é%",
            "%é%",
        ];
        let texts = ["", "a", "b", "ab", "ba", "aab", "a%b", "%", "é", "aéb", "\\", "abab"];
        for pattern in patterns {
            for text in texts {
                let known = LikePattern::new(pattern).matches(text);
                assert_eq!(known.ok(), like(text, pattern, None, false).ok(), "{text:?} LIKE {pattern:?}");
            }
        }
    }
}
