//! EXPLAIN and its options. PostgreSQL's grammar reads it but for EXPLAIN of CALL, which is Weir's: that is blanked in a text before the
//! grammar reads it, and CALL stays where it stands.

use std::borrow::Cow;
use std::iter::Peekable;

use pg_query::protobuf::{DefElem, Node, node};
use weir_types::SqlState;

use crate::lexer::{Lexer, Token};
use crate::parse::{self, Piece};
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

/// EXPLAIN of a CALL in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub explain: Explain,
    /// Where the CALL begins.
    pub body: u32,
}

const WORD: &str = "explain";

/// The text with blanks for every EXPLAIN of a CALL.
///
/// # Errors
/// As [`Explain::of`].
pub(crate) fn cut_out(text: &str) -> Result<(Cow<'_, str>, Vec<Cut>), Diagnostic> {
    let has_word =
        text.as_bytes().windows(WORD.len()).any(|bytes| bytes.eq_ignore_ascii_case(WORD.as_bytes()));
    if !has_word {
        return Ok((Cow::Borrowed(text), Vec::new()));
    }
    let mut cuts = Vec::new();
    let mut blanked = text.as_bytes().to_vec();
    let mut begins = true;
    let mut tokens = Lexer::new(text, 0).peekable();
    while let Some(token) = tokens.next() {
        if begins
            && token.is_word(text, WORD)
            && let Some(call) = call_behind(text, &mut tokens)
        {
            let explain = of_call(text, token.start, call.start)?;
            blanked[token.start..call.start].fill(b' ');
            cuts.push(Cut { explain, body: call.start as u32 });
        }
        begins = token.is(b';');
    }
    let blanked = String::from_utf8(blanked).expect("whole tokens are blanked, and what is between them");
    Ok((Cow::Owned(blanked), cuts))
}

/// The word CALL, if nothing but options stands before it.
fn call_behind(text: &str, tokens: &mut Peekable<Lexer<'_>>) -> Option<Token> {
    let is = |token: &Token, words: &[&str]| words.iter().any(|word| token.is_word(text, word));
    if tokens.next_if(|token| token.is(b'(')).is_some() {
        tokens.find(|token| token.is(b')'))?;
    } else {
        tokens.next_if(|token| is(token, &["analyze", "analyse"]));
        tokens.next_if(|token| is(token, &["verbose"]));
    }
    tokens.peek().filter(|token| is(token, &["call"])).copied()
}

/// The options of the grammar's EXPLAIN of another statement.
fn of_call(text: &str, start: usize, call: usize) -> Result<Explain, Diagnostic> {
    let of_query = format!("{}SELECT", &text[start..call]);
    let piece = Piece::new(0, start as u32, &of_query);
    let parsed = parse::parse_statement(piece)?;
    match &parsed.node {
        node::Node::ExplainStmt(stmt) => Explain::of(piece, &stmt.options, parsed.span),
        _ => Ok(Explain::default()),
    }
}

impl Explain {
    /// # Errors
    /// An option that there is not (42601), or a value that it may not have.
    pub(crate) fn of(piece: Piece<'_>, options: &[Node], span: Span) -> Result<Explain, Diagnostic> {
        let mut explain = Explain::default();
        // Option that requires a run.
        let mut of_run = None;
        for option in options {
            let Some(node::Node::DefElem(option)) = &option.node else { continue };
            let at = if option.location >= 0 { piece.token(option.location) } else { span };
            let is_on = set(&mut explain, &option.defname, value(option).as_deref(), at)?;
            if matches!(option.defname.as_str(), "timing" | "wal") && is_on {
                of_run = Some((option.defname.to_uppercase(), at));
            }
        }
        match of_run.filter(|_| !explain.analyze) {
            Some((option, at)) => {
                let message = format!("EXPLAIN option {option} requires ANALYZE");
                Err(Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, at, message))
            }
            None => Ok(explain),
        }
    }
}

fn value(option: &DefElem) -> Option<String> {
    Some(match option.arg.as_deref()?.node.as_ref()? {
        node::Node::String(text) => text.sval.to_lowercase(),
        node::Node::Integer(number) => number.ival.to_string(),
        node::Node::Float(number) => number.fval.clone(),
        _ => return None,
    })
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
    use crate::session::{Command, statements};

    fn explained(text: &str) -> Result<Vec<Option<Explain>>, String> {
        let said = statements(text).map_err(|wrong| format!("{} {}", wrong.state, wrong.message))?;
        let of = |what: &Command| match what {
            Command::Explain(explain, _) => Some(*explain),
            _ => None,
        };
        Ok(said.iter().map(|one| of(&one.what)).collect())
    }

    #[test]
    fn options_are_read() {
        let check = |text: &str, expected: &[Option<Explain>]| {
            assert_eq!(explained(text).as_deref(), Ok(expected), "{text}");
        };
        let plain = Explain::default();
        let run = Explain { analyze: true, ..plain };
        let told = Explain { coordination: true, json: true, ..plain };
        check("SELECT 'explain'", &[None]);
        check("EXPLAIN SELECT 1", &[Some(plain)]);
        check("explain analyze verbose SELECT 1", &[Some(run)]);
        check("explain /* ( */ analyse call p()", &[Some(run)]);
        check("EXPLAIN (SELECT 1)", &[Some(plain)]);
        check("EXPLAIN (coordination, FORMAT json) CALL p()", &[Some(told)]);
        check("EXPLAIN (coordination, FORMAT 'JSON') SELECT 1", &[Some(told)]);
        check(
            "SELECT 1; explain (analyze off, COSTS 0)INSERT INTO t VALUES (1); SELECT explain FROM t",
            &[None, Some(plain), None],
        );
        let timed = Explain { timing: Some(false), summary: Some(true), ..run };
        check("EXPLAIN (TIMING off, ANALYZE, SUMMARY) SELECT 1", &[Some(timed)]);
    }

    #[test]
    fn a_call_stays_in_its_place() {
        let (blanked, cuts) = cut_out("SELECT 1; EXPLAIN (ANALYZE) CALL p(1); EXPLAIN SELECT 2").unwrap();
        assert_eq!(blanked, "SELECT 1;                   CALL p(1); EXPLAIN SELECT 2");
        assert_eq!(cuts, [Cut { explain: Explain { analyze: true, ..Explain::default() }, body: 28 }]);
    }

    #[test]
    fn options_that_there_are_not_are_refused() {
        for (text, expected) in [
            ("EXPLAIN (nothing) SELECT 1", "42601 unrecognized EXPLAIN option \"nothing\""),
            ("EXPLAIN (nothing) CALL p()", "42601 unrecognized EXPLAIN option \"nothing\""),
            ("EXPLAIN (ANALYZE maybe) SELECT 1", "42601 analyze requires a Boolean value"),
            (
                "EXPLAIN (FORMAT tree) SELECT 1",
                "22023 unrecognized value for EXPLAIN option \"format\": \"tree\"",
            ),
            ("EXPLAIN (FORMAT xml) SELECT 1", "0A000"),
            ("EXPLAIN (TIMING) SELECT 1", "22023 EXPLAIN option TIMING requires ANALYZE"),
            ("EXPLAIN (ANALYZE", "42601"),
            ("EXPLAIN ()", "42601 syntax error at or near \")\""),
            ("EXPLAIN () CALL p()", "42601 syntax error at or near \")\""),
            ("EXPLAIN (,", "42601"),
            ("EXPLAIN", "42601"),
            ("EXPLAIN ANALYZE;", "42601"),
            ("EXPLAIN VACUUM", "42601"),
            ("EXPLAIN CREATE TABLE t AS SELECT 1", "0A000 EXPLAIN of this statement is not supported"),
        ] {
            let found = explained(text).expect_err(text);
            assert!(found.starts_with(expected), "{text}: {found}");
        }
    }
}
