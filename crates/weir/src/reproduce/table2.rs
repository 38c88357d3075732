//! Table 2 of coordination-avoidance.txt: each row as a small application, and what the analysis says of it.
//!
//! The rows of the table that are garbled in its text are read as the body of §5.2 has them (docs/papers/confluence.md).

use serde_json::json;
use weir_analysis::InvariantId;
use weir_harness::figure::{Claim, Figure, Kind, Verdict};
use weir_harness::plot::{Axis, Panel, Series};
use weir_sql::Sources;

use crate::application::Loaded;
use crate::output::Failure;

pub const ID: &str = "confluence-table2";

/// A row of the table.
struct Row {
    invariant: &'static str,
    operation: &'static str,
    is_confluent: bool,
    schema: &'static str,
    /// Name of the invariant in the schema.
    named: &'static str,
    /// The operation, as the body of a procedure, then what runs beside it.
    bodies: &'static [&'static str],
}

const fn row(
    (invariant, operation, is_confluent): (&'static str, &'static str, bool),
    (schema, named): (&'static str, &'static str),
    bodies: &'static [&'static str],
) -> Row {
    Row { invariant, operation, is_confluent, schema, named, bodies }
}

const SET: &[&str] = &["UPDATE item SET n = q WHERE id = p;"];
const MORE: &[&str] = &["UPDATE item SET n = n + 1 WHERE id = p;"];
const LESS: &[&str] = &["UPDATE item SET n = n - 1 WHERE id = p;"];
const APPEND: &[&str] = &["UPDATE list SET items = array_append(items, q) WHERE id = p;"];
const DELETE_PARENT: &[&str] =
    &["DELETE FROM parent WHERE id = p;", "INSERT INTO child (parent) VALUES (p);"];
const ABOVE: (&str, &str) =
    ("CREATE TABLE item (id integer PRIMARY KEY, n integer CONSTRAINT c CHECK (n >= 0));", "c");
const BELOW: (&str, &str) =
    ("CREATE TABLE item (id integer PRIMARY KEY, n integer CONSTRAINT c CHECK (n <= 9));", "c");
const PARENT: (&str, &str) = (
    "CREATE TABLE parent (id integer PRIMARY KEY);
     CREATE TABLE child (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent integer,
         CONSTRAINT has_parent FOREIGN KEY (parent) REFERENCES parent (id));",
    "has_parent",
);

const ROWS: [Row; 16] = [
    row(
        ("Equality", "Any", true),
        ("CREATE TABLE item (id integer PRIMARY KEY, n integer CONSTRAINT c CHECK (n = 7));", "c"),
        SET,
    ),
    row(
        ("Inequality", "Any", true),
        ("CREATE TABLE item (id integer PRIMARY KEY, n integer CONSTRAINT c CHECK (n <> 7));", "c"),
        SET,
    ),
    row(
        ("Uniqueness", "Choose specific value", false),
        ("CREATE TABLE item (id integer PRIMARY KEY, n integer);", "item_pkey"),
        &["INSERT INTO item (id, n) VALUES (p, q);"],
    ),
    row(
        ("Uniqueness", "Choose some value", true),
        ("CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer);", "item_pkey"),
        &["INSERT INTO item (n) VALUES (q);"],
    ),
    row(
        ("AUTO_INCREMENT", "Insert", false),
        (
            "CREATE TABLE counter (c integer PRIMARY KEY, next integer NOT NULL);
             CREATE TABLE bill (c integer, no integer, PRIMARY KEY (c, no));
             CREATE ASSERTION dense CHECK (NOT EXISTS (SELECT 1 FROM counter
                 WHERE next - 1 <> (SELECT max(no) FROM bill WHERE bill.c = counter.c)));",
            "dense",
        ),
        &["UPDATE counter SET next = next + 1 WHERE c = p RETURNING next - 1 INTO x;
           INSERT INTO bill (c, no) VALUES (p, x);"],
    ),
    row(("Foreign Key", "Insert", true), PARENT, &["INSERT INTO child (parent) VALUES (p);"]),
    row(("Foreign Key", "Delete", false), PARENT, DELETE_PARENT),
    row(
        ("Foreign Key", "Cascading Delete", true),
        (
            "CREATE TABLE parent (id integer PRIMARY KEY);
             CREATE TABLE child (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent integer,
                 CONSTRAINT has_parent FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE);",
            "has_parent",
        ),
        DELETE_PARENT,
    ),
    row(
        ("Secondary Indexing", "Update", true),
        ("CREATE TABLE item (id integer PRIMARY KEY, n integer); CREATE INDEX item_n ON item (n);", "item_n"),
        SET,
    ),
    row(
        ("Materialized Views", "Update", true),
        (
            "CREATE TABLE item (id integer PRIMARY KEY, n integer);
             CREATE MATERIALIZED VIEW total AS SELECT sum(n) AS n FROM item;",
            "total",
        ),
        SET,
    ),
    row((">", "Increment [Counter]", true), ABOVE, MORE),
    row((">", "Decrement [Counter]", false), ABOVE, LESS),
    row(("<", "Decrement [Counter]", true), BELOW, LESS),
    row(("<", "Increment [Counter]", false), BELOW, MORE),
    row(
        ("[NOT] CONTAINS", "Any [Set, List, Map]", true),
        (
            "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL, CONSTRAINT c CHECK (13 <> ALL (items)));",
            "c",
        ),
        APPEND,
    ),
    row(
        ("HEAD=, TAIL=, length=", "Mutation [List]", false),
        (
            "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL, CONSTRAINT c CHECK (cardinality(items) = 3));",
            "c",
        ),
        APPEND,
    ),
];

impl Row {
    /// Whether the analysis finds the operation confluent, and why.
    fn judged(&self) -> Result<(bool, String), Failure> {
        let mut text = self.schema.to_owned();
        for (name, body) in ["t", "u"].iter().zip(self.bodies) {
            text.push_str(&format!(
                "\nCREATE PROCEDURE {name}(p integer, q integer) LANGUAGE plpgsql AS $$ DECLARE x integer; BEGIN {body} END $$;"
            ));
        }
        let mut sources = Sources::default();
        sources.add("table2.sql", &text);
        let loaded = Loaded::from_sources(sources, weir_sql::Reading::Strict)?;
        let at = loaded.analysis.invariants.iter().position(|invariant| invariant.name == self.named);
        let missing =
            || Failure::input(format!("weir reproduce {ID}: error: there is no invariant `{}`", self.named));
        let verdict = loaded.analysis.verdict(0, InvariantId(at.ok_or_else(missing)? as u32));
        Ok((verdict.confluent, verdict.because.clone()))
    }
}

/// The table by the analysis.
///
/// # Errors
/// A row is not read, which is a bug.
pub fn figure() -> Result<Figure, Failure> {
    let yes = |is_confluent: bool| if is_confluent { "Yes" } else { "No" };
    let (mut data, mut claims) = (Vec::new(), Vec::new());
    let mut bars = Vec::new();
    for (number, row) in ROWS.iter().enumerate() {
        let (is_confluent, because) = row.judged()?;
        data.push(json!({
            "invariant": row.invariant, "operation": row.operation, "confluent": is_confluent, "published": row.is_confluent, "because": because,
        }));
        bars.push((number as f64 + 1.0, f64::from(u8::from(is_confluent))));
        claims.push(Claim::new(
            format!("{}, {}: confluent?", row.invariant, row.operation),
            yes(row.is_confluent),
            format!("{}: {because}", yes(is_confluent)),
            Verdict::of(is_confluent == row.is_confluent),
        ));
    }
    Ok(Figure {
        id: ID.to_owned(),
        paper: "coordination-avoidance.txt",
        title: "Table 2: confluence of invariants under operations".to_owned(),
        kind: Kind::Calculated,
        notes: vec![
            "Each row is a small application that the analysis judges now. The table's rows for < and > are garbled in its text; they are read as §5.2 has them."
                .to_owned(),
        ],
        panels: vec![Panel {
            title: "rows that are confluent".to_owned(),
            x: Axis::linear("row of the table"),
            y: Axis::linear("1: confluent"),
            series: vec![Series { name: "the analysis".to_owned(), points: bars }],
        }],
        data,
        claims,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_papers() {
        let figure = figure().map_err(|_| "a row is not read").expect("each row is an application");
        let wrong: Vec<&Claim> =
            figure.claims.iter().filter(|claim| claim.verdict != Verdict::Reproduced).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
