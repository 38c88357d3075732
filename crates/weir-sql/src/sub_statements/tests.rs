//! The pieces of statements that write in WITH, as texts with what their parameters are.

use super::*;

fn parsed(sql: &str) -> ParsedText<'_> {
    ParsedText::of(sql).unwrap_or_else(|wrong| panic!("{sql}: {wrong:?}"))
}

/// A text as the library writes it.
fn written(sql: &str) -> String {
    parsed(sql).sql().unwrap_or_else(|wrong| panic!("{sql}: {wrong:?}"))
}

fn kept_columns(pieces: &SubStatements<'_>) -> Vec<Vec<KeptColumn>> {
    let column = |(name, cast): (&str, Option<&str>)| KeptColumn {
        name: name.to_owned(),
        cast: cast.map(str::to_owned),
    };
    // The element n has no RETURNING.
    let columns = |name: &str| match name {
        "n" => Vec::new(),
        name => [("a", None), ("b", (name == "z").then_some("text[]"))].map(column).to_vec(),
    };
    pieces.writers().map(|(name, _)| columns(name)).collect()
}

/// `expect`: each piece, with its parameters behind it.
fn check(sql: &str, expect: &[(&str, &str)]) {
    let found = SubStatements::of(&parsed(sql)).map(|pieces| {
        let columns = kept_columns(&pieces);
        let text = |at| {
            pieces.piece(at, &columns).map_or_else(
                |wrong| (format!("{wrong:?}"), String::new()),
                |piece| {
                    let parameter = |one: &PieceParameter| match one {
                        PieceParameter::Client(at) => format!("${}", at + 1),
                        PieceParameter::Column { piece, column } => format!("{piece}.{column}"),
                    };
                    let parameters: Vec<String> = piece.parameters.iter().map(parameter).collect();
                    (piece.statement.sql().unwrap(), parameters.join(" "))
                },
            )
        };
        (0..=columns.len()).map(text).collect::<Vec<_>>()
    });
    let expect = expect.iter().map(|(sql, parameters)| {
        let is_why = ["HasWith", "GivesNothing", "GivenTwice"].iter().any(|why| sql.starts_with(why));
        (if is_why { (*sql).to_owned() } else { written(sql) }, (*parameters).to_owned())
    });
    assert_eq!(found.unwrap_or_default(), expect.collect::<Vec<_>>(), "{sql}");
}

#[test]
fn queries_that_lock_rows_or_give_values_are_apart() {
    let pieces = |sql: &str| {
        let parsed = parsed(sql);
        let apart = SubStatements::of_queries(&parsed)?;
        let id = vec![KeptColumn { name: "id".to_owned(), cast: None }];
        let columns: Vec<Vec<KeptColumn>> = apart.writers().map(|_| id.clone()).collect();
        let text = |at| apart.piece(at, &columns).unwrap().statement.sql().unwrap();
        Some((0..=columns.len()).map(text).collect::<Vec<_>>())
    };
    let lock = "SELECT id FROM job WHERE kind = $1 LIMIT 1 FOR UPDATE SKIP LOCKED";
    let rows = "SELECT * FROM ROWS FROM (unnest($1)) AS kept (id)";
    let cases = [
        (
            format!("DELETE FROM job WHERE id = ({lock}) RETURNING id"),
            format!(
                "WITH \"query 1\" AS ({rows}) DELETE FROM job WHERE id = (SELECT * FROM \"query 1\") RETURNING id"
            ),
        ),
        (
            format!("WITH j AS ({lock}) SELECT id FROM j FOR UPDATE"),
            format!(
                "WITH \"query 1\" AS ({rows}), j AS (SELECT * FROM \"query 1\") SELECT id FROM j FOR UPDATE"
            ),
        ),
    ];
    for (sql, main) in cases {
        assert_eq!(pieces(&sql), Some(vec![written(lock), written(&main)]), "{sql}");
    }
    assert_eq!(pieces(lock), None);
    let value = "SELECT date FROM ctl WHERE k = $1";
    let rows = "SELECT * FROM ROWS FROM (unnest($1)) AS kept (id)";
    let insert =
        format!("WITH \"query 1\" AS ({rows}) INSERT INTO t VALUES (1, (SELECT * FROM \"query 1\"))");
    let found = pieces(&format!("INSERT INTO t VALUES (1, ({value}))"));
    assert_eq!(found, Some(vec![written(value), written(&insert)]));
}

#[test]
fn arms_of_a_union_see_what_was_before() {
    let sql = "WITH k AS (SELECT 1), w AS (INSERT INTO t VALUES ($1) RETURNING a, b) \
               SELECT a FROM w UNION ALL SELECT a FROM t WHERE b = $1 UNION SELECT a, (1) FROM k LIMIT 1";
    let apart = SubStatements::of(&parsed(sql)).unwrap().with_readers_apart().unwrap();
    let names: Vec<&str> = apart.elements.iter().map(Element::name).collect();
    assert_eq!(names, ["arm 2", "k", "arm 3", "w"]);
    assert_eq!(
        apart.whole.rewritten(apart.main.clone()).sql().unwrap(),
        written("SELECT a FROM w UNION ALL SELECT * FROM \"arm 2\"  UNION SELECT * FROM \"arm 3\"  LIMIT 1")
    );
    assert_eq!(
        apart.piece(0, &[]).unwrap().statement.sql().unwrap(),
        written("SELECT a FROM t WHERE b = $1")
    );
    for sql in [
        "WITH a AS (DELETE FROM t RETURNING a) SELECT a FROM a",
        "WITH a AS (DELETE FROM t) SELECT 1 EXCEPT SELECT 2",
    ] {
        assert!(SubStatements::of(&parsed(sql)).unwrap().with_readers_apart().is_none(), "{sql}");
    }
}

#[test]
fn what_writes_is_a_statement_of_its_own() {
    check(
        "WITH moved AS (DELETE FROM t WHERE x = $2 RETURNING *) INSERT INTO u SELECT *, $1 FROM moved",
        &[
            ("DELETE FROM t WHERE x = $1 RETURNING *", "$2"),
            (
                "INSERT INTO u WITH moved AS (SELECT * FROM ROWS FROM (unnest($1), unnest($2)) AS kept (a, b)) \
                 SELECT *, $3 FROM moved",
                "0.0 0.1 $1",
            ),
        ],
    );
    check(
        "with p (n) as materialized (select 1), q as not materialized (update t set a = (select n from p) returning a, b), \
         r as (select ')' from q) select * from r",
        &[
            ("WITH p (n) AS MATERIALIZED (select 1) update t set a = (select n from p) returning a, b", ""),
            (
                "WITH q AS (SELECT * FROM ROWS FROM (unnest($1), unnest($2)) AS kept (a, b)) , r  AS (select ')' from q) \
                 select * from r",
                "0.0 0.1",
            ),
        ],
    );
    check(
        "WITH a AS (DELETE FROM t RETURNING a, b), c AS (WITH x AS (SELECT * FROM a) SELECT * FROM x), d AS (INSERT INTO t SELECT 1) \
         SELECT 1",
        &[("DELETE FROM t RETURNING a, b", ""), ("INSERT INTO t SELECT 1", ""), ("SELECT 1", "")],
    );
    check(
        "WITH z AS (DELETE FROM t RETURNING a, b) SELECT b FROM z",
        &[
            ("DELETE FROM t RETURNING a, b", ""),
            (
                "WITH z AS (SELECT k0 AS a, CAST(k1 AS text[]) AS b FROM ROWS FROM (unnest($1), unnest($2)) AS kept (k0, k1)) \
                 SELECT b FROM z",
                "0.0 0.1",
            ),
        ],
    );
    check("WITH a AS (SELECT 1) SELECT * FROM a", &[]);
    check("SELECT 1", &[]);
    let twice = ("GivenTwice(\"a\")", "");
    check("WITH a AS (DELETE FROM t), a AS (SELECT 1) SELECT 1", &[twice, twice]);
}

/// Names, strings and comments that look like what they are not.
#[test]
fn what_a_piece_reads_stands_in_its_tree() {
    let rows = "(SELECT * FROM ROWS FROM (unnest($1), unnest($2)) AS kept (a, b))";
    check(
        "WITH n AS (DELETE FROM t) SELECT x.n, 'FROM n', \"n\".a FROM x, y AS n -- FROM n",
        &[("DELETE FROM t", ""), ("SELECT x.n, 'FROM n', \"n\".a FROM x, y AS n", "")],
    );
    check(
        "WITH n AS (DELETE FROM t) SELECT * FROM public.n",
        &[("DELETE FROM t", ""), ("SELECT * FROM public.n", "")],
    );
    check("WITH n AS (DELETE FROM t) SELECT * FROM n", &[("DELETE FROM t", ""), ("GivesNothing(\"n\")", "")]);
    check(
        "WITH \"select\" /* AS ( */ AS (DELETE FROM t WHERE a = '$7)' OR b = $$($8$$ RETURNING a, b) SELECT '$1', $2 FROM \"select\"",
        &[
            ("DELETE FROM t WHERE a = '$7)' OR b = '($8' RETURNING a, b", ""),
            (&format!("WITH \"select\" AS {rows} SELECT '$1', $3 FROM \"select\""), "0.0 0.1 $2"),
        ],
    );
    check(
        "WITH \"A, (\" AS (DELETE FROM t RETURNING a, b) SELECT ((((SELECT count(*) FROM \"A, (\"))))",
        &[
            ("DELETE FROM t RETURNING a, b", ""),
            (&format!("WITH \"A, (\" AS {rows} SELECT (SELECT count(*) FROM \"A, (\")"), "0.0 0.1"),
        ],
    );
}

#[test]
fn a_with_within_is_one_with_that_around_it() {
    let rows = "(SELECT * FROM ROWS FROM (unnest($1), unnest($2)) AS kept (a, b))";
    let with = |inner: &str| format!("WITH a AS (DELETE FROM t RETURNING a, b), c AS ({inner}) SELECT 1");
    let delete = ("DELETE FROM t RETURNING a, b", "");
    check(
        &with("WITH x AS (SELECT * FROM a) INSERT INTO u SELECT * FROM x"),
        &[
            delete,
            (&format!("WITH a AS {rows}, x AS (SELECT * FROM a) INSERT INTO u SELECT * FROM x"), "0.0 0.1"),
            ("SELECT 1", ""),
        ],
    );
    check(
        &with("INSERT INTO u WITH x AS (SELECT * FROM a) SELECT * FROM x"),
        &[
            delete,
            (&format!("INSERT INTO u WITH a AS {rows}, x AS (SELECT * FROM a) SELECT * FROM x"), "0.0 0.1"),
            ("SELECT 1", ""),
        ],
    );
    check(
        &with("INSERT INTO u SELECT 1 RETURNING (SELECT max(b) FROM a)"),
        &[
            delete,
            (&format!("WITH a AS {rows} INSERT INTO u SELECT 1 RETURNING (SELECT max(b) FROM a)"), "0.0 0.1"),
            ("SELECT 1", ""),
        ],
    );
    check(
        &with("WITH a AS (SELECT 2) INSERT INTO u SELECT * FROM a"),
        &[delete, ("WITH a AS (SELECT 2) INSERT INTO u SELECT * FROM a", ""), ("SELECT 1", "")],
    );
    for refused in [
        "WITH a AS (SELECT * FROM a) INSERT INTO u SELECT * FROM a",
        "WITH RECURSIVE x AS (SELECT * FROM a) INSERT INTO u SELECT * FROM x",
    ] {
        check(&with(refused), &[delete, ("HasWith", ""), ("SELECT 1", "")]);
    }
}
