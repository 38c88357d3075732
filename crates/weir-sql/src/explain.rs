//! EXPLAIN, which the grammar knows of fewer statements than Weir explains (CALL), and with fewer options (COORDINATION): it is cut
//! out of a text before that is parsed, and what it is of stays where it stands.

use std::borrow::Cow;
use std::iter::Peekable;

use weir_types::SqlState;

use crate::lexer::{Lexer, Token};
use crate::source::{Diagnostic, Span};

/// EXPLAIN and its options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explain {
    /// Run the statement and measure it.
    pub analyze: bool,
    /// Show how it commits, and why.
    pub coordination: bool,
    pub json: bool,
    /// Whether times are shown, if it is run.
    pub timing: Option<bool>,
    pub summary: Option<bool>,
}

/// One EXPLAIN of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub explain: Explain,
    pub span: Span,
    /// Where what it is of begins.
    pub body: u32,
}

const WORD: &str = "explain";

/// The text with blanks for every EXPLAIN and its options.
///
/// # Errors
/// An option that there is not (42601), or a value that it may not have.
pub(crate) fn cut_out(text: &str) -> Result<(Cow<'_, str>, Vec<Cut>), Diagnostic> {
    let has_word =
        text.as_bytes().windows(WORD.len()).any(|bytes| bytes.eq_ignore_ascii_case(WORD.as_bytes()));
    if !has_word {
        return Ok((Cow::Borrowed(text), Vec::new()));
    }
    let mut cuts = Vec::new();
    let mut begins = true;
    let mut tokens = Tokens { text, lexer: Lexer::new(text, 0).peekable() };
    while let Some(token) = tokens.lexer.next() {
        if begins && token.is_word(text, WORD) {
            cuts.push(tokens.explain(token)?);
        }
        begins = token.is(b';');
    }
    let mut blanked = text.as_bytes().to_vec();
    for cut in &cuts {
        blanked[cut.span.start as usize..cut.body as usize].fill(b' ');
    }
    let blanked = String::from_utf8(blanked).expect("whole tokens are blanked, and what is between them");
    Ok((Cow::Owned(blanked), cuts))
}

struct Tokens<'t> {
    text: &'t str,
    lexer: Peekable<Lexer<'t>>,
}

impl Tokens<'_> {
    fn takes_word(&mut self, word: &str) -> bool {
        self.lexer.next_if(|token| token.is_word(self.text, word)).is_some()
    }

    fn explain(&mut self, first: Token) -> Result<Cut, Diagnostic> {
        let mut explain = Explain::default();
        match self.lexer.peek().filter(|token| token.is(b'(')).copied() {
            Some(open) if self.are_options(open) => {
                self.lexer.next();
                self.options(&mut explain, open)?;
            }
            _ => {
                explain.analyze = self.takes_word("analyze") || self.takes_word("analyse");
                self.takes_word("verbose");
            }
        }
        let body = self.lexer.peek().filter(|token| !token.is(b';'));
        let Some(body) = body.map(|token| token.start as u32) else {
            let message = "syntax error: EXPLAIN of nothing";
            let wrong = Diagnostic::new(SqlState::SYNTAX_ERROR, span_of(first), message);
            return Err(wrong.with_hint("say what is to be explained"));
        };
        Ok(Cut { explain, span: span_of(first), body })
    }

    /// Distinguishes options from a parenthesised query.
    fn are_options(&self, open: Token) -> bool {
        let inside = Lexer::new(self.text, open.end).next();
        let begins = |token: &Token| {
            token.is(b'(')
                || ["select", "with", "values", "table"].iter().any(|word| token.is_word(self.text, word))
        };
        !inside.as_ref().is_some_and(begins)
    }

    fn options(&mut self, explain: &mut Explain, open: Token) -> Result<(), Diagnostic> {
        let text = self.text;
        let wrong = |token: Option<Token>| {
            let token = token.unwrap_or(open);
            let message = format!("syntax error at or near \"{}\"", &text[token.start..token.end]);
            Diagnostic::new(SqlState::SYNTAX_ERROR, span_of(token), message)
        };
        // Option that requires a run.
        let mut of_run = None;
        loop {
            let name = self.lexer.next();
            let Some((at, option)) = name.and_then(|token| Some((token, token.name(text)?))) else {
                return Err(wrong(name));
            };
            let value = self.lexer.next_if(|token| !token.is(b',') && !token.is(b')'));
            let value = value.map(|token| text[token.start..token.end].trim_matches('\'').to_lowercase());
            let is_on = set(explain, &option, value.as_deref(), span_of(at))?;
            if matches!(option.as_str(), "timing" | "wal") && is_on {
                of_run = Some((option.to_uppercase(), at));
            }
            match self.lexer.next() {
                Some(token) if token.is(b',') => {}
                Some(token) if token.is(b')') => break,
                other => return Err(wrong(other)),
            }
        }
        match of_run.filter(|_| !explain.analyze) {
            Some((option, at)) => {
                let message = format!("EXPLAIN option {option} requires ANALYZE");
                Err(Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, span_of(at), message))
            }
            None => Ok(()),
        }
    }
}

fn span_of(token: Token) -> Span {
    Span { file: 0, start: token.start as u32, end: token.end as u32 }
}

/// Says whether it is on.
fn set(explain: &mut Explain, option: &str, value: Option<&str>, at: Span) -> Result<bool, Diagnostic> {
    if option == "format" {
        explain.json = match value {
            Some("text") => false,
            Some("json") => true,
            Some(format @ ("xml" | "yaml")) => {
                let what = format!("EXPLAIN (FORMAT {})", format.to_uppercase());
                return Err(Diagnostic::unsupported(at, what, "FORMAT may be TEXT or JSON"));
            }
            other => {
                let value = other.unwrap_or_default();
                let message = format!("unrecognized value for EXPLAIN option \"format\": \"{value}\"");
                return Err(Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, at, message));
            }
        };
        return Ok(true);
    }
    let is_on = match value {
        None | Some("true" | "on" | "1") => Some(true),
        Some("false" | "off" | "0") => Some(false),
        Some(_) => None,
    };
    let not_boolean = || {
        let message = format!("{option} requires a Boolean value");
        Diagnostic::new(SqlState::SYNTAX_ERROR, at, message)
    };
    let on = || is_on.ok_or_else(not_boolean);
    match option {
        "analyze" => explain.analyze = on()?,
        "coordination" => explain.coordination = on()?,
        "timing" => explain.timing = Some(on()?),
        "summary" => explain.summary = Some(on()?),
        // There is nothing of the kind to tell.
        "verbose" | "costs" | "settings" | "buffers" | "wal" => {}
        _ => {
            let message = format!("unrecognized EXPLAIN option \"{option}\"");
            let hint = "it may be ANALYZE, COORDINATION, FORMAT, TIMING or SUMMARY";
            return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, at, message).with_hint(hint));
        }
    }
    on()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Result<(String, Vec<Explain>), String> {
        let cut = cut_out(text).map_err(|wrong| format!("{} {}", wrong.state, wrong.message))?;
        Ok((cut.0.into_owned(), cut.1.iter().map(|cut| cut.explain).collect()))
    }

    #[test]
    fn what_is_explained_stays_in_its_place() {
        let check = |text: &str, body: &str, expected: &[Explain]| {
            let (blanked, found) = cut(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
            assert_eq!(
                (blanked.trim_start(), blanked.len(), found),
                (body, text.len(), expected.to_vec()),
                "{text}"
            );
        };
        let plain = Explain::default();
        let run = Explain { analyze: true, ..plain };
        let told = Explain { coordination: true, json: true, ..plain };
        check("SELECT 'explain'", "SELECT 'explain'", &[]);
        check("EXPLAIN SELECT 1", "SELECT 1", &[plain]);
        check("explain analyze verbose SELECT 1", "SELECT 1", &[run]);
        check("EXPLAIN (SELECT 1)", "(SELECT 1)", &[plain]);
        check("EXPLAIN (coordination, FORMAT json) CALL p()", "CALL p()", &[told]);
        check(
            "SELECT 1; explain (analyze off, COSTS 0)INSERT INTO t VALUES (1); SELECT explain FROM t",
            "SELECT 1;                               INSERT INTO t VALUES (1); SELECT explain FROM t",
            &[plain],
        );
        let timed = Explain { timing: Some(false), summary: Some(true), ..run };
        check("EXPLAIN (TIMING off, ANALYZE, SUMMARY) SELECT 1", "SELECT 1", &[timed]);
    }

    #[test]
    fn options_that_there_are_not_are_refused() {
        for (text, expected) in [
            ("EXPLAIN (nothing) SELECT 1", "42601 unrecognized EXPLAIN option \"nothing\""),
            ("EXPLAIN (ANALYZE maybe) SELECT 1", "42601 analyze requires a Boolean value"),
            (
                "EXPLAIN (FORMAT tree) SELECT 1",
                "22023 unrecognized value for EXPLAIN option \"format\": \"tree\"",
            ),
            ("EXPLAIN (FORMAT xml) SELECT 1", "0A000"),
            ("EXPLAIN (TIMING) SELECT 1", "22023 EXPLAIN option TIMING requires ANALYZE"),
            ("EXPLAIN (ANALYZE", "42601"),
            ("EXPLAIN ()", "42601 syntax error at or near \")\""),
            ("EXPLAIN (,", "42601"),
            ("EXPLAIN", "42601"),
            ("EXPLAIN ANALYZE;", "42601"),
        ] {
            let found = cut(text).expect_err(text);
            assert!(found.starts_with(expected), "{text}: {found}");
        }
    }
}
