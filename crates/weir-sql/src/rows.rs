//! The text of an INSERT of many rows, as that of one.

use crate::lexer::{Lexer, TokenKind};

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

#[cfg(test)]
mod tests {
    use super::of_one_row;

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
