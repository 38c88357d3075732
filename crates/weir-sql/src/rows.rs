//! An INSERT of many rows as that of one row of parameters, and the query that gives the rows.

use pg_query::protobuf::{InsertStmt, List, Node, ParamRef, SelectStmt, WithClause, node};

use crate::parse::nodes::{each_node, reads};
use crate::statement::ParsedText;

/// The statement with one row of so many parameters instead of its rows. `None`: it has parameters elsewhere, too.
pub fn of_one_row(parsed: &ParsedText<'_>, width: usize) -> Option<String> {
    let (insert, select) = parts(parsed)?;
    let is_limited = select.limit_count.is_some() || select.limit_offset.is_some();
    let has_more = is_limited || select.with_clause.is_some() || !select.sort_clause.is_empty();
    if select.values_lists.is_empty() || has_more {
        return None;
    }
    let mut one = without_query(insert);
    one.with_clause = insert.with_clause.clone();
    with_row(parsed, one, width)
}

/// The INSERT of a query as that of one row of so many parameters, and the query. `None`: it has parameters outside of the query, or
/// something outside of the query reads its WITH.
pub fn of_rows_of_query(parsed: &ParsedText<'_>, width: usize) -> Option<(String, String)> {
    let (insert, select) = parts(parsed)?;
    let mut query = select.clone();
    let one = without_query(insert);
    if let Some(with) = &insert.with_clause {
        let own = node::Node::InsertStmt(Box::new(one.clone()));
        let names = names(with);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if query.with_clause.is_some() || !reads(&own, &names).is_empty() {
            return None;
        }
        query.with_clause = Some(with.clone());
    }
    let query = parsed.rewritten(node::Node::SelectStmt(Box::new(query))).sql().ok()?;
    Some((with_row(parsed, one, width)?, query))
}

fn parts<'p>(parsed: &'p ParsedText<'_>) -> Option<(&'p InsertStmt, &'p SelectStmt)> {
    let node::Node::InsertStmt(insert) = parsed.node() else { return None };
    if !parsed.can_be_rewritten() {
        return None;
    }
    match insert.select_stmt.as_ref()?.node.as_ref()? {
        node::Node::SelectStmt(select) => Some((insert, select)),
        _ => None,
    }
}

/// A SELECT with no clause: callers add theirs.
fn plain() -> SelectStmt {
    use pg_query::protobuf::{LimitOption, SetOperation};
    SelectStmt {
        limit_option: LimitOption::Default as i32,
        op: SetOperation::SetopNone as i32,
        ..SelectStmt::default()
    }
}

/// All but the rows and the WITH, which may be long.
fn without_query(insert: &InsertStmt) -> InsertStmt {
    InsertStmt {
        relation: insert.relation.clone(),
        cols: insert.cols.clone(),
        select_stmt: None,
        on_conflict_clause: insert.on_conflict_clause.clone(),
        returning_clause: insert.returning_clause.clone(),
        with_clause: None,
        r#override: insert.r#override,
    }
}

fn with_row(parsed: &ParsedText<'_>, mut insert: InsertStmt, width: usize) -> Option<String> {
    let mut has_parameters = false;
    each_node(&node::Node::InsertStmt(Box::new(insert.clone())), &mut |node| {
        has_parameters |= matches!(node, node::Node::ParamRef(_));
        !has_parameters
    });
    if has_parameters {
        return None;
    }
    let parameter = |number| Node { node: Some(node::Node::ParamRef(ParamRef { number, location: -1 })) };
    let items = (1..=i32::try_from(width).ok()?).map(parameter).collect();
    let row = Node { node: Some(node::Node::List(List { items })) };
    let values = SelectStmt { values_lists: vec![row], ..plain() };
    insert.select_stmt = Some(Box::new(Node { node: Some(node::Node::SelectStmt(Box::new(values))) }));
    parsed.rewritten(node::Node::InsertStmt(Box::new(insert))).sql().ok()
}

/// The names of a WITH.
pub(crate) fn names(with: &WithClause) -> Vec<String> {
    let name = |cte: &Node| match &cte.node {
        Some(node::Node::CommonTableExpr(element)) => Some(element.ctename.clone()),
        _ => None,
    };
    with.ctes.iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> ParsedText<'_> {
        ParsedText::of(text).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"))
    }

    #[test]
    fn a_query_becomes_one_row() {
        let of = |text| of_rows_of_query(&parsed(text), 2);
        let some = |one: &str, query: &str| Some((one.to_owned(), query.to_owned()));
        assert_eq!(
            of("INSERT INTO t (a, b) SELECT x, $1 FROM (SELECT 1 AS x) s ON CONFLICT DO NOTHING"),
            some(
                "INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                "SELECT x, $1 FROM (SELECT 1 AS x) s"
            )
        );
        assert_eq!(
            of("INSERT INTO t (SELECT 1, 2) RETURNING a"),
            some("INSERT INTO t VALUES ($1, $2) RETURNING a", "SELECT 1, 2")
        );
        assert_eq!(
            of("INSERT INTO t WITH w AS (SELECT 1) SELECT *, 2 FROM w;"),
            some("INSERT INTO t VALUES ($1, $2)", "WITH w AS (SELECT 1) SELECT *, 2 FROM w")
        );
        assert_eq!(
            of("WITH w AS (SELECT 1) INSERT INTO t SELECT *, 2 FROM w"),
            some("INSERT INTO t VALUES ($1, $2)", "WITH w AS (SELECT 1) SELECT *, 2 FROM w")
        );
        assert_eq!(
            of(
                "INSERT INTO \"select\" AS x (\"a(\", b) /* VALUES ( */ TABLE \"on conflict\" RETURNING 'ON $1 CONFLICT'"
            ),
            some(
                "INSERT INTO \"select\" AS x (\"a(\", b) VALUES ($1, $2) RETURNING 'ON $1 CONFLICT'",
                "SELECT * FROM \"on conflict\""
            )
        );
        assert_eq!(of("INSERT INTO t SELECT 1, 2 RETURNING a + $1"), None);
        assert_eq!(of("WITH w AS (SELECT 1) INSERT INTO t SELECT 1, 2 RETURNING (SELECT * FROM w)"), None);
    }

    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(of_one_row(&parsed(text), 2).as_deref(), expect, "{text}");
    }

    #[test]
    fn rows_become_one() {
        check("INSERT INTO t VALUES (1, 'a)'), (2, 'b')", Some("INSERT INTO t VALUES ($1, $2)"));
        check(
            "insert into t (a, b) values (1, f(2)),\n ($1, $2) on conflict (a) do update set b = excluded.b returning a, b",
            Some(
                "INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING a, b",
            ),
        );
        check(
            "INSERT INTO values (values, \"b(\") OVERRIDING SYSTEM VALUE VALUES (1, $$)$$) /* ( */, (2, ('$1')) RETURNING '$1'",
            Some(
                "INSERT INTO \"values\" (\"values\", \"b(\") OVERRIDING SYSTEM VALUE VALUES ($1, $2) RETURNING '$1'",
            ),
        );
        check("INSERT INTO t VALUES (1, 2), (3, 4) RETURNING a + $1", None);
        check("INSERT INTO t VALUES (1, 2), (3, 4) LIMIT 1", None);
        check("INSERT INTO t SELECT 1, 2", None);
        check("INSERT INTO t DEFAULT VALUES", None);
    }
}
