//! Multi-master replication with last-update-wins rows: which transactions are unsafe there, and how.

use crate::support;

use weir_analysis::{active_active, analyze};

const SCHEMA: &str = "
    CREATE TABLE item (id uuid DEFAULT gen_random_uuid() PRIMARY KEY, stock integer NOT NULL, name text, code text UNIQUE);
    CREATE TABLE mark (id bigserial PRIMARY KEY, item uuid REFERENCES item (id), text text);
    CREATE TABLE tag (name text PRIMARY KEY, color text);";

/// `kind of f beside g` of procedures f, g, h with parameters u (uuid), n (integer) and t, s (text).
#[track_caller]
fn check(bodies: &[&str], expect: &[&str]) {
    let mut text = SCHEMA.to_string();
    for (body, name) in bodies.iter().zip(["f", "g", "h"]) {
        text += &format!(
            "CREATE PROCEDURE {name}(u uuid, n integer, t text, s text) LANGUAGE plpgsql AS $$
             DECLARE x integer; BEGIN {body} END; $$;"
        );
    }
    let app = support::application(&[("app.sql", &text)]);
    let found: Vec<String> = active_active::conflicts(&app, &analyze(&app))
        .iter()
        .inspect(|one| assert!(!one.left.is_empty() && !one.right.is_empty() && !one.remedy.is_empty()))
        .map(|one| {
            let name = |procedure: usize| &app.procedures[procedure].name;
            format!("{} of {} beside {}", one.kind, name(one.transaction), name(one.with))
        })
        .collect();
    assert_eq!(found, expect);
}

#[test]
fn a_row_replaces_a_row() {
    // Deltas are not merged.
    check(&["UPDATE item SET stock = stock + n WHERE id = u;"], &["row-overwritten of f beside f"]);
    // One column each, and the row goes as a whole.
    check(
        &["UPDATE item SET name = t WHERE id = u;", "UPDATE item SET stock = n WHERE id = u;"],
        &["row-overwritten of f beside g", "row-overwritten of g beside f"],
    );
    // The later of two values of one column: as if the other had come first.
    check(&["UPDATE item SET name = t WHERE id = u;"], &[]);
    // But not where the value comes from what was there.
    check(
        &["SELECT stock INTO x FROM item WHERE id = u; UPDATE item SET stock = x + n WHERE id = u;"],
        &["row-overwritten of f beside f"],
    );
}

#[test]
fn keys_on_two_nodes() {
    check(&["INSERT INTO item (stock, name) VALUES (n, t);"], &["unique-collision of f beside f"]);
    check(&["INSERT INTO mark (text) VALUES (t);"], &["sequence-collision of f beside f"]);
    check(&["INSERT INTO tag (name) VALUES (t);"], &["same-key-inserted of f beside f"]);
}

#[test]
fn rows_that_go() {
    check(
        &["INSERT INTO mark (item) VALUES (u);", "DELETE FROM item WHERE id = u;"],
        &["sequence-collision of f beside f", "orphaned-child of f beside g", "orphaned-child of g beside f"],
    );
    check(
        &["UPDATE item SET name = t WHERE id = u;", "DELETE FROM item WHERE id = u;"],
        &["update-meets-delete of f beside g"],
    );
}

#[test]
fn readers_are_safe() {
    check(&["SELECT stock INTO x FROM item WHERE id = u;", "UPDATE item SET name = t WHERE id = u;"], &[]);
}

/// Last-update-wins violates conditions that Weir's merge keeps without coordination.
#[test]
fn sums_that_rely_on_both_amounts() {
    let app = support::example("payroll", |_, text| text);
    let analysis = analyze(&app);
    let found = active_active::conflicts(&app, &analysis);
    let hire = app.procedures.iter().position(|procedure| procedure.name == "hire").expect("hire");
    let apart =
        found.iter().find(|one| one.transaction == hire && one.kind == "rows-apart").expect("its head count");
    assert_eq!(apart.invariant.as_deref(), Some("headcount_is_right"));
}
