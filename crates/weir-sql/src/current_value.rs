//! `currval('s')` and `lastval()` in a client's statement: sequence values of its session, which shards do not know. The client's side
//! passes the values as additional parameters after the client's.

use weir_types::SqlType;

use crate::binder::relation_named;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::shape::{Constant, ConstantKind};
use crate::source::{Diagnostic, Span};
use crate::statement::{CLIENT, is_block};

/// A sequence value of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CurrentValue {
    /// currval of the sequence of that name, in the form of the catalog.
    Of(String),
    /// lastval(): of the sequence used last.
    Last,
}

/// A text in which each call has such a value as its argument.
#[derive(Clone, Debug, PartialEq)]
pub struct WithCurrentValues {
    pub sql: String,
    /// Types of the client's parameters, Unknown where it has given none, followed by those of the values.
    pub types: Vec<SqlType>,
    pub values: Vec<CurrentValue>,
}

/// One call: what it asks for, and the bytes between its parentheses.
struct Call {
    asks: CurrentValue,
    inside: (usize, usize),
}

/// `None`: the text has none. `takes`: the statement itself takes a value of that sequence, and knows which.
///
/// # Errors
/// A sequence whose name is computed.
pub fn with_current_values(
    sql: &str,
    types: &[SqlType],
    takes: &dyn Fn(&str) -> bool,
) -> Result<Option<WithCurrentValues>, Diagnostic> {
    if !mentions(sql) || is_block(sql) {
        return Ok(None);
    }
    let mut calls = calls(sql)?;
    calls.retain(|call| !matches!(&call.asks, CurrentValue::Of(name) if takes(name)));
    if calls.is_empty() {
        return Ok(None);
    }
    let mut types = types.to_vec();
    types.resize(types.len().max(parameters(sql)), SqlType::Unknown);
    let mut with = WithCurrentValues { sql: String::with_capacity(sql.len()), types, values: Vec::new() };
    let mut copied = 0;
    for Call { asks, inside: (start, end) } in calls {
        with.types.push(SqlType::Int8);
        with.sql.push_str(sql.get(copied..start).unwrap_or_default());
        // Places behind it stay what they are, as far as there is room.
        with.sql.push_str(&format!("{:1$}", format!("${}", with.types.len()), end - start));
        with.values.push(asks);
        copied = end;
    }
    with.sql.push_str(sql.get(copied..).unwrap_or_default());
    Ok(Some(with))
}

fn mentions(sql: &str) -> bool {
    const WORDS: [&[u8]; 2] = [b"currval", b"lastval"];
    sql.as_bytes().windows(7).any(|at| WORDS.iter().any(|word| at.eq_ignore_ascii_case(word)))
}

/// The highest number of a parameter.
fn parameters(sql: &str) -> usize {
    let number = |token: Token| sql.get(token.start + 1..token.end)?.parse().ok();
    let all = Lexer::new(sql, 0).filter(|token| token.kind == TokenKind::Parameter);
    all.filter_map(number).max().unwrap_or(0)
}

fn calls(sql: &str) -> Result<Vec<Call>, Diagnostic> {
    let tokens: Vec<Token> = Lexer::new(sql, 0).collect();
    let mut calls = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let is_current = token.is_word(sql, "currval");
        let is_qualified = at > 0 && tokens[at - 1].is(b'.');
        let is_own = !is_qualified || at > 1 && tokens[at - 2].is_word(sql, "pg_catalog");
        let opens = tokens.get(at + 1).is_some_and(|next| next.is(b'('));
        if !(is_current || token.is_word(sql, "lastval")) || !is_own || !opens {
            continue;
        }
        let inside = tokens[at + 2..].iter().take_while(|token| !token.is(b')')).collect::<Vec<_>>();
        let bytes =
            (tokens[at + 1].end, tokens.get(at + 2 + inside.len()).map_or(sql.len(), |end| end.start));
        let asks = match (&inside[..], is_current) {
            ([], false) => CurrentValue::Last,
            ([name, cast @ ..], true) if name.kind == TokenKind::Text && is_regclass(sql, cast) => {
                let (kind, start, end) = (ConstantKind::Text, name.start, name.end);
                CurrentValue::Of(relation_named(&Constant { kind, start, end }.written(sql)))
            }
            _ => {
                let span = Span { file: CLIENT, start: token.start as u32, end: bytes.1 as u32 };
                return Err(Diagnostic::unsupported(
                    span,
                    "currval of a sequence whose name is computed, beside anything else",
                    "write the name as a literal: currval('orders_id_seq'), or ask by itself: SELECT currval(…)",
                ));
            }
        };
        calls.push(Call { asks, inside: bytes });
    }
    Ok(calls)
}

/// `::regclass`, or nothing.
fn is_regclass(sql: &str, cast: &[&Token]) -> bool {
    match cast {
        [] => true,
        [colons, ty] => sql.get(colons.start..colons.end) == Some("::") && ty.is_word(sql, "regclass"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expect: &str) {
        let takes = |name: &str| name == "own";
        let found = match with_current_values(sql, &[SqlType::Text], &takes) {
            Ok(None) => "nothing".to_owned(),
            Ok(Some(with)) => format!("{} {:?} {:?}", with.sql, with.types, with.values),
            Err(wrong) => format!("{} at {}", wrong.state, wrong.span.start),
        };
        assert_eq!(found, expect, "{sql}");
    }

    #[test]
    fn current_values_are_parameters_behind_those_of_the_client() {
        check("INSERT INTO t VALUES (1)", "nothing");
        check(
            "INSERT INTO t VALUES (CurrVal('\"Orders\"'), $2)",
            "INSERT INTO t VALUES (CurrVal($3        ), $2) [Text, Unknown, Int8] [Of(\"Orders\")]",
        );
        check(
            "SELECT lastval(), pg_catalog.currval('public.s'::regclass) + currval('own')",
            "SELECT lastval($2), pg_catalog.currval($3                  ) + currval('own') [Text, Int8, Int8] \
             [Last, Of(\"s\")]",
        );
        check("SELECT my.currval('s'), 'currval(', currval", "nothing");
        check("SELECT 1 + currval('own')", "nothing");
        check("SELECT 1 + currval(name) FROM s", "0A000 at 11");
        check("SELECT 1 + currval($1)", "0A000 at 11");
    }
}
