//! Where the clauses of an UPDATE or a DELETE stand in its text.

use std::collections::BTreeSet;

use crate::lexer::{Lexer, Token, TokenKind, closing_end};

/// Bytes of a text.
pub(super) type Range = (usize, usize);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clauses {
    /// Where the statement begins, behind its WITH.
    pub verb: usize,
    /// The table with what it is called, and the name that qualifies its columns.
    pub target: Range,
    pub called: Range,
    /// The word that lists others, what it lists, and where that ends or would stand.
    pub lists: &'static str,
    pub sources: Option<Range>,
    pub listed: usize,
    /// The condition of WHERE.
    pub filter: Option<Range>,
    /// Where all of that ends: RETURNING comes behind.
    pub end: usize,
    /// RETURNING has all columns of all that is listed.
    pub gives_all: bool,
}

/// The tokens that stand in no brackets, up to a semicolon.
pub(super) fn outermost(sql: &str, from: usize) -> Vec<Token> {
    let mut depth = 0_usize;
    let mut tokens = Vec::new();
    for token in Lexer::new(sql, from) {
        match token.kind {
            TokenKind::Punctuation(b'(' | b'[') => depth += 1,
            TokenKind::Punctuation(b')' | b']') => depth = depth.saturating_sub(1),
            TokenKind::Punctuation(b';') if depth == 0 => break,
            _ if depth > 0 => continue,
            _ => {}
        }
        tokens.push(token);
    }
    tokens
}

impl Clauses {
    /// `None`: it is neither, or its target is not called by a name alone.
    pub fn of(sql: &str) -> Option<Clauses> {
        let tokens = outermost(sql, 0);
        let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is_word(sql, word));
        let find = |from: usize, words: &[&str]| {
            (from..tokens.len()).find(|&at| words.iter().any(|word| is(at, word)))
        };
        let verb = if is(0, "with") { find(1, &["update", "delete"])? } else { 0 };
        let is_update = is(verb, "update");
        let (first, ends): (usize, &[&str]) = match is_update {
            true => (verb + 1, &["set"]),
            false if is(verb, "delete") && is(verb + 1, "from") => {
                (verb + 2, &["using", "where", "returning"])
            }
            false => return None,
        };
        let behind = find(first, ends).unwrap_or(tokens.len());
        // Between two of the tokens, where blanks and comments are none.
        let range =
            |from: usize, to: usize| Some((tokens.get(from)?.start, tokens.get(to.checked_sub(1)?)?.end));
        let target = tokens.get(first..behind)?;
        let is_called = |token: &Token| token.name(sql).is_some() || token.is(b'.');
        if target.is_empty() || !target.iter().all(is_called) || is(first, "only") {
            return None;
        }
        let called = target.last().map(|token| (token.start, token.end))?;
        let end = find(behind, &["returning"]).unwrap_or(tokens.len());
        let filter = find(behind, &["where"]).filter(|at| *at < end);
        let listed = filter.unwrap_or(end);
        let sources = match is_update {
            true => (behind..listed).find(|&at| is(at, "from") && !is(at - 1, "distinct")),
            false => Some(behind).filter(|&at| is(at, "using")),
        };
        let is_all = |at: usize| {
            let before = is(at - 1, "returning") || tokens[at - 1].is(b',');
            before && sql.get(tokens[at].start..tokens[at].end) == Some("*")
        };
        Some(Clauses {
            verb: tokens[verb].start,
            target: range(first, behind)?,
            called,
            lists: if is_update { "FROM" } else { "USING" },
            listed: tokens.get(listed.checked_sub(1)?)?.end,
            gives_all: (end + 1..tokens.len()).any(is_all),
            sources: sources.and_then(|at| range(at + 1, listed)),
            filter: filter.and_then(|at| range(at + 1, end)),
            end: tokens.get(end.checked_sub(1)?)?.end,
        })
    }
}

/// The names that WITH gives to queries, anywhere in the text.
pub(super) fn names_of_with(sql: &str) -> BTreeSet<String> {
    let tokens: Vec<Token> = Lexer::new(sql, 0).collect();
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is_word(sql, word));
    let mut names = BTreeSet::new();
    for at in (1..tokens.len()).filter(|&at| is(at, "as")) {
        let behind = at + 1 + usize::from(is(at + 1, "not"));
        let behind = behind + usize::from(is(behind, "materialized"));
        if !tokens.get(behind).is_some_and(|token| token.is(b'(')) {
            continue;
        }
        // Behind the names of its columns, if it has any.
        let name = match tokens[at - 1].is(b')') {
            false => Some(at - 1),
            true => {
                let closes_here =
                    |token: &Token| token.is(b'(') && closing_end(sql, token.start) == tokens[at - 1].end;
                (0..at).rfind(|&open| closes_here(&tokens[open])).and_then(|open| open.checked_sub(1))
            }
        };
        names.extend(name.and_then(|name| tokens[name].name(sql)));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expect: Option<[&str; 5]>) {
        let of = |range: Range| &sql[range.0..range.1];
        let found = Clauses::of(sql).map(|found| {
            let or_none = |range: Option<Range>| range.map_or("", of);
            [
                of(found.target),
                of(found.called),
                or_none(found.sources),
                or_none(found.filter),
                &sql[found.verb..found.end],
            ]
        });
        assert_eq!(found, expect, "{sql}");
    }

    #[test]
    fn clauses_are_found_where_they_stand() {
        check(
            "UPDATE a.t AS x SET n = (SELECT 1 FROM u WHERE z) FROM s, (SELECT 1) q -- all\nWHERE x.a = s.a RETURNING x.a;",
            Some([
                "a.t AS x",
                "x",
                "s, (SELECT 1) q",
                "x.a = s.a",
                "UPDATE a.t AS x SET n = (SELECT 1 FROM u WHERE z) FROM s, (SELECT 1) q -- all\nWHERE x.a = s.a",
            ]),
        );
        check(
            "with p as (select 1) delete from t using s join u using (k) where true",
            Some([
                "t",
                "t",
                "s join u using (k)",
                "true",
                "delete from t using s join u using (k) where true",
            ]),
        );
        check(
            "UPDATE t SET b = a IS DISTINCT FROM c",
            Some(["t", "t", "", "", "UPDATE t SET b = a IS DISTINCT FROM c"]),
        );
        check("DELETE FROM t RETURNING *", Some(["t", "t", "", "", "DELETE FROM t"]));
        check("DELETE FROM ONLY t", None);
        check("UPDATE t * SET a = 1", None);
        check("INSERT INTO t VALUES (1)", None);
        check("UPDATE", None);
    }

    #[test]
    fn names_of_with_are_known() {
        let sql =
            "WITH a AS (SELECT 1), \"B\" (x, y) AS NOT MATERIALIZED (SELECT 1, (2) AS c) SELECT f(1) AS d";
        assert_eq!(names_of_with(sql).into_iter().collect::<Vec<_>>(), ["B", "a"]);
    }
}
