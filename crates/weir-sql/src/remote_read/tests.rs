//! Rewritten texts: the query, the statement, and the statement's parameters.

use super::RemoteRead;
use crate::statement::{BoundText, ParsedText, bind_text};
use crate::sub_statements::PieceParameter;
use crate::{Sources, load};

const TABLES: &str = "
CREATE TABLE t (id integer PRIMARY KEY, a text, n integer);
CREATE TABLE pair (k integer, l integer, n integer, PRIMARY KEY (k, l));
CREATE TABLE s (id integer PRIMARY KEY, \"Name\" varchar(5), tags text[]);
CREATE TABLE every (id integer PRIMARY KEY, n integer);
CREATE TABLE bare (n integer);
CREATE VIEW v AS SELECT id FROM s;
";

fn apart(sql: &str) -> Option<RemoteRead> {
    let mut sources = Sources::default();
    sources.add("schema.sql", TABLES);
    let application = load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
    let catalog = &application.catalog;
    let every = catalog.table_by_name("every").map(|table| table.id);
    let (bound, types) = bind_text(catalog, &[], sql, &[]).unwrap_or_else(|wrong| panic!("{sql}: {wrong:?}"));
    let BoundText::Statement(statement) = bound else { panic!("{sql}: a call") };
    let parsed = ParsedText::of(sql).unwrap_or_else(|wrong| panic!("{sql}: {wrong:?}"));
    let apart = RemoteRead::of(catalog, &parsed, (&statement, &types), &|table| Some(table) != every)?;
    let types: Vec<_> = apart.parameters.iter().map(|(_, ty)| ty.clone()).collect();
    for (text, types) in [(&apart.read, &[][..]), (&apart.write, &types[..])] {
        bind_text(catalog, &[], text, types).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
    }
    Some(apart)
}

/// A text as the library writes it.
fn written(sql: &str) -> String {
    ParsedText::of(sql).and_then(|parsed| parsed.sql()).unwrap_or_else(|wrong| panic!("{sql}: {wrong:?}"))
}

fn check(sql: &str, read: &str, write: &str, columns: &[usize]) {
    let apart = apart(sql).unwrap_or_else(|| panic!("{sql}: it cannot be read apart"));
    assert_eq!(apart.read, written(read), "{sql}");
    assert_eq!(apart.write, written(write), "{sql}");
    let column = |parameter: PieceParameter| match parameter {
        PieceParameter::Client(_) => None,
        PieceParameter::Column { column, .. } => Some(column),
    };
    let found: Vec<usize> = apart.parameters.iter().filter_map(|(one, _)| column(*one)).collect();
    assert_eq!(found, columns, "{sql}");
}

#[test]
fn tables_are_read_with_the_keys_of_the_rows_that_go_with_them() {
    check(
        "UPDATE t SET a = \"Name\" || $1 FROM s WHERE t.n = s.id OR t.a IS NULL RETURNING t.id;",
        "SELECT 0, t.\"id\", \"s\".\"id\", \"s\".\"Name\" FROM t, s WHERE t.n = s.id OR t.a IS NULL",
        "UPDATE t SET a = \"Name\" || $1 FROM (SELECT DISTINCT c2 AS \"id\", CAST(c3 AS character varying(5)) AS \"Name\", CAST(NULL AS text[]) \
         AS \"tags\" FROM ROWS FROM (unnest($2), unnest($3), unnest($4)) AS given (c0, c2, c3) WHERE c0 = 0) AS \"s\", \
         (SELECT DISTINCT c1 AS \"key 1\" FROM ROWS FROM (unnest($2), unnest($5)) AS given (c0, c1) WHERE c0 = 0) AS \"found by weir\" \
         WHERE (t.n = s.id OR t.a IS NULL) AND t.\"id\" = \"found by weir\".\"key 1\" RETURNING t.id;",
        &[0, 2, 3, 1],
    );
    check(
        "DELETE FROM pair AS p USING every, s AS x RETURNING p.k, *",
        "SELECT 0, p.\"k\", p.\"l\", \"x\".\"id\", \"x\".\"Name\", \"x\".\"tags\" FROM pair AS p, every, s AS x",
        "DELETE FROM pair AS p USING every, (SELECT DISTINCT c3 AS \"id\", CAST(c4 AS character varying(5)) AS \"Name\", \
         CAST(c5 AS text[]) AS \"tags\" FROM ROWS FROM (unnest($1), unnest($2), unnest($3), unnest($4)) AS given (c0, c3, c4, c5) \
         WHERE c0 = 0) AS x WHERE (p.\"k\", p.\"l\") IN \
         (SELECT c1, c2 FROM ROWS FROM (unnest($1), unnest($5), unnest($6)) AS given (c0, c1, c2) WHERE c0 = 0) RETURNING p.k, *",
        &[0, 3, 4, 5, 1, 2],
    );
    check(
        "DELETE FROM pair AS p USING s AS x",
        "SELECT 0, p.\"k\", p.\"l\" FROM pair AS p, s AS x",
        "DELETE FROM pair AS p USING (SELECT DISTINCT CAST(NULL AS integer) AS \"id\", CAST(NULL AS character varying(5)) AS \"Name\", \
         CAST(NULL AS text[]) AS \"tags\" FROM ROWS FROM (unnest($1)) AS given (c0) WHERE c0 = 0) AS x, \
         (SELECT DISTINCT c1 AS \"key 1\", c2 AS \"key 2\" FROM ROWS FROM (unnest($1), unnest($2), unnest($3)) AS given (c0, c1, c2) \
         WHERE c0 = 0) AS \"found by weir\" WHERE p.\"k\" = \"found by weir\".\"key 1\" AND p.\"l\" = \"found by weir\".\"key 2\"",
        &[0, 1, 2],
    );
}

#[test]
fn queries_that_stand_by_themselves_are_read_as_they_are() {
    check(
        "WITH q AS (SELECT tags FROM s) UPDATE t SET a = tags[1], n = (SELECT max(n) FROM pair) FROM q WHERE t.id > $1",
        "WITH q AS (SELECT tags FROM s) SELECT 0, t.\"id\", CAST(NULL AS text[]), CAST(NULL AS integer) FROM t, q WHERE t.id > $1 \
         UNION ALL SELECT 1, CAST(NULL AS integer), q.c0, CAST(NULL AS integer) FROM (SELECT tags FROM s) AS q (c0) \
         UNION ALL SELECT 2, CAST(NULL AS integer), CAST(NULL AS text[]), q.c0 FROM (SELECT max(n) FROM pair) AS q (c0)",
        "WITH q AS (SELECT CAST(c2 AS text[]) AS \"tags\" FROM ROWS FROM (unnest($2), unnest($3)) AS given (c0, c2) WHERE c0 = 1) \
         UPDATE t SET a = tags[1], n = (SELECT c3 AS \"max\" FROM ROWS FROM (unnest($2), unnest($4)) AS given (c0, c3) WHERE c0 = 2) FROM q, \
         (SELECT DISTINCT c1 AS \"key 1\" FROM ROWS FROM (unnest($2), unnest($5)) AS given (c0, c1) WHERE c0 = 0) AS \"found by weir\" \
         WHERE (t.id > $1) AND t.\"id\" = \"found by weir\".\"key 1\"",
        &[0, 2, 3, 1],
    );
    // A subquery that refers to the rows around it is not: its tables are.
    check(
        "DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM s AS x (key) WHERE x.key = t.n)",
        "SELECT 0, t.\"id\", CAST(NULL AS integer) FROM t WHERE NOT EXISTS (SELECT 1 FROM s AS x (key) WHERE x.key = t.n) \
         UNION ALL SELECT 1, CAST(NULL AS integer), \"id\" FROM s",
        "DELETE FROM t USING (SELECT DISTINCT c1 AS \"key 1\" FROM ROWS FROM (unnest($1), unnest($3)) AS given (c0, c1) WHERE c0 = 0) \
         AS \"found by weir\" WHERE (NOT EXISTS (SELECT 1 FROM (SELECT c2 AS \"id\", CAST(NULL AS character varying(5)) AS \"Name\", CAST(NULL AS \
         text[]) AS \"tags\" FROM ROWS FROM (unnest($1), unnest($2)) AS given (c0, c2) WHERE c0 = 1) AS x (key) WHERE x.key = t.n)) \
         AND t.\"id\" = \"found by weir\".\"key 1\"",
        &[0, 2, 1],
    );
}

#[test]
fn the_side_of_a_join_that_may_be_missing_is_read_whole() {
    let read = apart("UPDATE t SET n = b.n FROM s LEFT JOIN pair b ON b.k = s.id WHERE s.id = t.n")
        .map(|apart| apart.read);
    assert_eq!(
        read,
        Some(written(
            "SELECT 0, t.\"id\", \"s\".\"id\", CAST(NULL AS integer), CAST(NULL AS integer) FROM t, s LEFT JOIN pair b ON b.k = s.id WHERE \
             s.id = t.n UNION ALL SELECT 1, CAST(NULL AS integer), CAST(NULL AS integer), \"k\", \"n\" FROM pair"
        ))
    );
}

#[test]
fn what_cannot_be_read_apart_is_left_as_it_is() {
    for sql in [
        "UPDATE t SET n = 1",
        "UPDATE t SET n = every.n FROM every WHERE every.id = t.id",
        "UPDATE t SET n = s.id FROM s WHERE random() < 0.5",
        "UPDATE bare SET n = s.id FROM s WHERE s.id = bare.n",
        "UPDATE ONLY t SET n = s.id FROM s WHERE s.id = t.n",
        "UPDATE t SET n = s.id FROM ONLY s WHERE s.id = t.n",
        "UPDATE t SET n = 1 FROM v WHERE v.id = t.n",
        "UPDATE t SET n = 1 WHERE n IN (SELECT id FROM s FOR UPDATE)",
        "UPDATE t SET a = (ARRAY(SELECT \"Name\" FROM s ORDER BY 1))[1]",
        "INSERT INTO t SELECT id FROM s",
    ] {
        assert_eq!(apart(sql), None, "{sql}");
    }
}

/// Names, strings and comments that look like what they are not.
#[test]
fn clauses_are_those_of_the_tree() {
    let given = "FROM ROWS FROM (unnest($1), unnest($2)) AS given (c0, c1) WHERE c0 = 0";
    check(
        "UPDATE \"t\" AS \"from (\" SET a = 'FROM s WHERE $1' /* FROM nothing */, n = (CASE WHEN a IS DISTINCT FROM $$ WHERE $$ THEN 1 END) \
         FROM s AS \"where\" -- RETURNING *\n WHERE ((\"where\".id = \"from (\".n)) RETURNING \"from (\".a AS \"*\"",
        "SELECT 0, \"from (\".id, \"where\".id FROM t \"from (\", s \"where\" WHERE \"where\".id = \"from (\".n",
        "UPDATE t \"from (\" SET a = 'FROM s WHERE $1', n = CASE WHEN a IS DISTINCT FROM ' WHERE ' THEN 1 END \
         FROM (SELECT DISTINCT c2 AS id, CAST(NULL AS varchar(5)) AS \"Name\", CAST(NULL AS text[]) AS tags \
         FROM ROWS FROM (unnest($1), unnest($2)) AS given (c0, c2) WHERE c0 = 0) \"where\", \
         (SELECT DISTINCT c1 AS \"key 1\" FROM ROWS FROM (unnest($1), unnest($3)) AS given (c0, c1) WHERE c0 = 0) \"found by weir\" \
         WHERE \"where\".id = \"from (\".n AND \"from (\".id = \"found by weir\".\"key 1\" RETURNING \"from (\".a AS \"*\"",
        &[0, 2, 1],
    );
    check(
        "WITH \"select\" AS (SELECT 1 AS id) DELETE FROM t USING s, \"select\" WHERE s.id = t.n AND t.id IN (WITH s AS (SELECT 2 AS id) TABLE s) RETURNING 1",
        "WITH \"select\" AS (SELECT 1 AS id) SELECT 0, t.id, s.id FROM t, s, \"select\" WHERE s.id = t.n AND t.id IN (WITH s AS (SELECT 2 AS id) TABLE s)",
        &format!(
            "WITH \"select\" AS (SELECT 1 AS id) DELETE FROM t USING (SELECT DISTINCT c2 AS id, CAST(NULL AS varchar(5)) AS \"Name\", \
             CAST(NULL AS text[]) AS tags {}) s, \"select\", (SELECT DISTINCT c1 AS \"key 1\" {}) \"found by weir\" \
             WHERE s.id = t.n AND t.id IN (WITH s AS (SELECT 2 AS id) TABLE s) AND t.id = \"found by weir\".\"key 1\" RETURNING 1",
            given.replace("c1", "c2"),
            given.replace("$2", "$3"),
        ),
        &[0, 2, 1],
    );
}
