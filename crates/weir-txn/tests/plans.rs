//! Which access paths and join methods the executor chooses: the end of an index for `min`, `max` and
//! `ORDER BY … LIMIT`, keys where conditions bind them, hashing where nothing does.

use weir_sql::bound::Statement;
use weir_sql::{Catalog, Sources};
use weir_txn::exec::{CompiledQuery, SlotAllocator};
use weir_txn::storage::Schema;

const TABLES: &str = "
CREATE TABLE orders (
    w integer NOT NULL, d integer NOT NULL, id integer NOT NULL, customer integer NOT NULL, lines integer,
    PRIMARY KEY (w, d, id));
CREATE INDEX orders_customer ON orders (w, d, customer, id);
CREATE TABLE line (
    w integer NOT NULL, d integer NOT NULL, id integer NOT NULL, number integer NOT NULL, item integer,
    amount numeric(6,2), PRIMARY KEY (w, d, id, number));
CREATE TABLE plain (a integer, b integer);
";

fn catalog() -> Catalog {
    let mut sources = Sources::default();
    sources.add("tables.sql", TABLES);
    weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}")).catalog
}

fn plan(catalog: &Catalog, sql: &str) -> String {
    let (statement, _) = weir_sql::bind_statement(catalog, sql, None).expect(sql);
    let Statement::Query(query) = statement else { panic!("{sql} is no query") };
    let mut slots = SlotAllocator::new(8);
    slots.begin_query(&query);
    let compiled = CompiledQuery::compile(&query, &Schema::new(catalog), &mut slots).expect(sql);
    format!("{compiled:?}")
}

/// The plan has all of the first, and none of the second.
fn check(catalog: &Catalog, sql: &str, has: &[&str], has_not: &[&str]) {
    let plan = plan(catalog, sql);
    for part in has {
        assert!(plan.contains(part), "{sql}\nlacks {part}:\n{plan}");
    }
    for part in has_not {
        assert!(!plan.contains(part), "{sql}\nhas {part}:\n{plan}");
    }
}

#[test]
fn access_paths() {
    let catalog = catalog();
    let check = |sql, has: &[&str], has_not: &[&str]| check(&catalog, sql, has, has_not);
    check("SELECT lines FROM orders WHERE w = $1 AND d = $2 AND id = $3", &["Get { index: 0"], &["Scan"]);
    check("SELECT min(id) FROM orders WHERE w = 1 AND d = 2", &["first_value_decides: true"], &["Scan"]);
    check(
        "SELECT max(id) FROM orders WHERE w = 1 AND d = 2",
        &["first_value_decides: true", "reverse: true"],
        &["Scan"],
    );
    check(
        "SELECT id FROM orders WHERE w = 1 AND d = 2 AND customer = 3 ORDER BY id DESC LIMIT 1",
        &["index: 1", "reverse: true", "presorted: true"],
        &["Scan"],
    );
    check(
        "SELECT amount FROM line WHERE w = 1 AND d = 2 AND id >= 3 AND id < 23",
        &["Range", "lower: Some", "upper: Some"],
        &["Scan"],
    );
    check(
        "SELECT amount FROM line WHERE w = 1 AND d = 2 AND id = 3 AND number IN (1, 2)",
        &["Gets"],
        &["Scan"],
    );
    // A disjunction is looked up alternative by alternative, a list value by value; in an index that is not unique, too.
    for rows in [
        "(w, d, id) IN ((1, 2, 3), (1, 2, 4))",
        "(w = 1 AND d = 2 AND id = $1) OR (w = 1 AND d = $2 AND id = 4)",
        "w = 1 AND (d, id) IN ((2, 3), (2, $1))",
        "(w = 1 AND d = 2 AND id = 3) OR (w = 1 AND d = 2 AND customer = 5)",
        "lines > 3 AND ((w, d) IN ((1, 2), (3, 4)) OR (w = 1 AND d = 5 AND id = 6))",
    ] {
        let sql = format!("SELECT lines FROM orders WHERE {rows}");
        self::check(&catalog, &sql, &["Union(["], &["Scan"]);
    }
    check(
        "SELECT lines FROM orders WHERE w = 1 AND d = 2 AND customer IN (3, $1)",
        &["Gets { index: 1"],
        &["Scan"],
    );
    check(
        "SELECT lines FROM orders WHERE w = 1 AND d = 2 AND id = ANY ($1::integer[])",
        &["Array("],
        &["Scan"],
    );
    check("SELECT lines FROM orders WHERE w IN (1, 2) AND d = 3", &["Gets { index: 0"], &["Scan"]);
    check("SELECT lines FROM orders WHERE (w = 1 AND d = 2) OR lines = 3", &["Scan"], &["Union"]);
    check("SELECT lines FROM orders WHERE w = 1 AND d = 2 AND id = NULL::integer", &["Get"], &["Scan"]);
    check("SELECT a FROM plain WHERE a = 1", &["Scan"], &["Range"]);
    check("SELECT amount FROM line WHERE item = 5", &["Scan"], &["Range"]);
    check("SELECT w FROM orders WHERE w = w + 1", &["Scan"], &["Range"]);
}

#[test]
fn joins_and_subqueries() {
    let catalog = catalog();
    let check = |sql, has: &[&str], has_not: &[&str]| check(&catalog, sql, has, has_not);
    check(
        "SELECT l.amount FROM orders o JOIN line l ON l.w = o.w AND l.d = o.d AND l.id = o.id
         WHERE o.w = 1 AND o.d = 2 AND o.id = 3",
        &["Nested", "Get { index: 0", "Range"],
        &["Scan", "Hash"],
    );
    // A condition that all alternatives have in common joins.
    check(
        "SELECT 1 FROM orders o, line l
         WHERE (l.w = o.w AND l.d = o.d AND l.id = o.id AND o.lines < 5 AND l.amount > 3)
            OR (o.w = l.w AND l.id = o.id AND l.w = o.w AND l.d = o.d AND o.lines > 9 AND l.amount < 1)",
        &["Merge"],
        &["Nested", "Scan"],
    );
    // Both sides come in the order of an index, of this table's own or another one.
    check(
        "SELECT l.amount FROM orders o JOIN line l ON l.w = o.w AND l.d = o.d AND l.id = o.id",
        &["Merge", "null_slots: None"],
        &["Nested", "Hash", "Scan"],
    );
    check(
        "SELECT l.amount FROM orders o LEFT JOIN line l ON l.w = o.w AND l.d = o.d AND l.id = o.id WHERE o.w = 1",
        &["Merge", "null_slots: Some"],
        &["Nested", "Hash", "Scan"],
    );
    check(
        "SELECT l.amount FROM orders o JOIN line l ON l.w = o.w AND l.d = o.d AND l.id = o.customer",
        &["Merge", "index: 1"],
        &["Nested", "Hash", "Scan"],
    );
    check(
        "SELECT 1 FROM orders o JOIN line l ON l.w = o.w AND l.d = o.d AND l.id = o.id
         JOIN orders p ON p.w = o.w AND p.d = o.d AND p.id = o.id",
        &["Merge(MergeJoin { outer: Merge"],
        &["Nested", "Hash", "Scan"],
    );
    // Nothing gives the order, or there are few rows.
    check("SELECT 1 FROM plain p JOIN orders o ON o.w = p.a AND o.d = p.b", &["Hash"], &["Merge"]);
    check(
        "SELECT 1 FROM orders o JOIN line l ON l.w = o.w AND l.d = o.d AND l.id = o.id
         WHERE o.w = 1 AND o.d = 2 AND o.customer = 3",
        &["Nested"],
        &["Merge"],
    );
    // The side with fewer rows is kept.
    check(
        "SELECT 1 FROM (SELECT b FROM plain LIMIT 3) v JOIN plain p ON p.a = v.b",
        &["Hash", "inner: Rows", "outer: Table"],
        &["Nested"],
    );
    check("SELECT 1 FROM plain p JOIN plain q ON p.a = q.b", &["Hash"], &["Nested"]);
    check("SELECT 1 FROM plain p LEFT JOIN plain q ON p.a = q.b", &["kind: Left"], &["Nested"]);
    check("SELECT 1 FROM plain p FULL JOIN plain q ON p.a = q.b", &["kind: Full"], &["Nested"]);
    // An index serves the subquery, so it runs row by row; without one it is computed for all keys at once.
    check(
        "SELECT (SELECT sum(amount) FROM line l WHERE l.w = o.w AND l.d = o.d AND l.id = o.id) FROM orders o",
        &["decorrelated: None"],
        &["decorrelated: Some"],
    );
    check(
        "SELECT (SELECT sum(b) FROM plain p WHERE p.a = o.id) FROM orders o",
        &["decorrelated: Some"],
        &["decorrelated: None"],
    );
    check(
        "SELECT 1 FROM orders o WHERE NOT EXISTS (SELECT 1 FROM plain p WHERE p.a = o.id)",
        &["decorrelated: Some"],
        &[],
    );
}
