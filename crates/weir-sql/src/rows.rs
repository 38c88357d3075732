//! The text of an INSERT of many rows, as that of one.

use crate::lexer::{Lexer, Token, TokenKind};

/// The text with one row of so many parameters instead of its rows. `None`: it has parameters elsewhere, too.
pub fn of_one_row(text: &str, width: usize) -> Option<String> {
    let (mut depth, mut rows, mut is_over) = (0_usize, None, false);
    for token in Lexer::new(text, 0) {
        match token.kind {
            TokenKind::Punctuation(b'(') => {
                if let (0, Some(rows), false) = (depth, &mut rows, is_over) {
                    let (begin, _): &mut (Option<usize>, usize) = rows;
                    begin.get_or_insert(token.start);
                }
                depth += 1;
            }
            TokenKind::Punctuation(b')') => {
                depth = depth.checked_sub(1)?;
                if let (0, Some((Some(_), end)), false) = (depth, &mut rows, is_over) {
                    *end = token.end;
                }
            }
            TokenKind::Punctuation(b',') => {}
            _ if depth > 0 && (rows.is_some() && !is_over) => {}
            TokenKind::Parameter => return None,
            _ if depth > 0 => {}
            _ if rows.is_some() => is_over = true,
            _ if token.is_word(text, "values") => rows = Some((None, 0)),
            _ => {}
        }
    }
    let (Some(begin), end) = rows? else { return None };
    let parameters: Vec<String> = (1..=width).map(|at| format!("${at}")).collect();
    Some(format!("{}({}){}", text.get(..begin)?, parameters.join(", "), text.get(end..)?))
}

/// The text of an INSERT of a query as that of one row of so many parameters, and the query. `None`: it has parameters outside of the
/// query, or a WITH before it.
pub fn of_rows_of_query(text: &str, width: usize) -> Option<(String, &str)> {
    let tokens: Vec<Token> = Lexer::new(text, 0).collect();
    let begin = source(text, &tokens)?;
    let (mut end, mut depth) = (tokens.len(), 0_usize);
    for (at, token) in tokens.iter().enumerate().skip(begin) {
        match token.kind {
            TokenKind::Punctuation(b'(') => depth += 1,
            TokenKind::Punctuation(b')') => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            TokenKind::Punctuation(b';') => end = end.min(at),
            _ => {
                let conflicts = token.is_word(text, "on")
                    && tokens.get(at + 1).is_some_and(|next| next.is_word(text, "conflict"));
                if conflicts || token.is_word(text, "returning") {
                    end = end.min(at);
                }
            }
        }
    }
    if tokens[end..].iter().any(|token| token.kind == TokenKind::Parameter) {
        return None;
    }
    let (from, to) = (tokens[begin].start, tokens.get(end.checked_sub(1)?)?.end);
    let parameters: Vec<String> = (1..=width).map(|at| format!("${at}")).collect();
    let one = format!("{}VALUES ({}){}", text.get(..from)?, parameters.join(", "), text.get(to..)?);
    Some((one, text.get(from..to)?))
}

/// Where the query of an INSERT begins, or its VALUES: which of the tokens.
fn source(text: &str, tokens: &[Token]) -> Option<usize> {
    let is_query = |at: usize| {
        let words = ["select", "with", "table", "values"];
        tokens.get(at).is_some_and(|token| words.iter().any(|word| token.is_word(text, word)))
    };
    if !(tokens.first()?.is_word(text, "insert") && tokens.get(1)?.is_word(text, "into")) {
        return None;
    }
    // Behind the name of the table, what it is called, and its columns.
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(2) {
        if depth == 0 && (is_query(at) || token.is(b'(') && is_query(at + 1)) {
            return Some(at);
        }
        match token.kind {
            TokenKind::Parameter => return None,
            TokenKind::Punctuation(b'(') => depth += 1,
            TokenKind::Punctuation(b')') => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// The text of an INSERT of a query, cut where a WITH may stand that is the query's own.
pub(crate) fn before_query(text: &str) -> Option<(&str, &str)> {
    let tokens: Vec<Token> = Lexer::new(text, 0).collect();
    let begin = tokens.get(source(text, &tokens)?)?;
    (!begin.is_word(text, "values")).then(|| text.split_at(begin.start))
}

#[cfg(test)]
mod tests {
    use super::{of_one_row, of_rows_of_query};

    #[test]
    fn a_query_becomes_one_row() {
        let of = |text| of_rows_of_query(text, 2);
        let one = "INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let text = "INSERT INTO t (a, b) SELECT x, $1 FROM (SELECT 1 AS x) s ON CONFLICT DO NOTHING";
        assert_eq!(of(text), Some((one.to_owned(), "SELECT x, $1 FROM (SELECT 1 AS x) s")));
        let one = "INSERT INTO t VALUES ($1, $2) RETURNING a";
        let text = "INSERT INTO t (SELECT 1, 2) RETURNING a";
        assert_eq!(of(text), Some((one.to_owned(), "(SELECT 1, 2)")));
        let text = "INSERT INTO t WITH w AS (SELECT 1) SELECT *, 2 FROM w;";
        let one = "INSERT INTO t VALUES ($1, $2);";
        assert_eq!(of(text), Some((one.to_owned(), "WITH w AS (SELECT 1) SELECT *, 2 FROM w")));
        assert_eq!(of("INSERT INTO t SELECT 1, 2 RETURNING a + $1"), None);
        assert_eq!(of("WITH w AS (SELECT 1) INSERT INTO t SELECT * FROM w"), None);
    }

    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(of_one_row(text, 2).as_deref(), expect, "{text}");
    }

    #[test]
    fn rows_become_one() {
        check("INSERT INTO t VALUES (1, 'a)'), (2, 'b')", Some("INSERT INTO t VALUES ($1, $2)"));
        check(
            "insert into t (a, b) values (1, f(2)),\n ($1, $2) on conflict (a) do update set b = excluded.b returning a, b",
            Some(
                "insert into t (a, b) values ($1, $2) on conflict (a) do update set b = excluded.b returning a, b",
            ),
        );
        check("INSERT INTO t VALUES (1, 2), (3, 4) RETURNING a + $1", None);
        check("INSERT INTO t SELECT 1, 2", None);
        check("INSERT INTO t VALUES", None);
    }
}
