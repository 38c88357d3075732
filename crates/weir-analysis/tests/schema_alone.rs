//! A schema without procedures: insert, update and delete of every table are answered for.

use crate::support;

use weir_analysis::{Analysis, analyze, to_json, to_text};
use weir_sql::Application;

/// `name: mechanism + guard, …; broken invariants`, one line a transaction.
fn lines(app: &Application, analysis: &Analysis) -> String {
    let mut text = String::new();
    for plan in &analysis.plan.transactions {
        let mut mechanism = plan.mechanism.name().to_string();
        for guard in &plan.guards {
            mechanism += &format!(" + {}", guard.kind.name());
        }
        let broken: Vec<&str> = analysis
            .verdicts
            .iter()
            .filter(|verdict| verdict.transaction == plan.procedure && !verdict.confluent)
            .map(|verdict| analysis.invariants[verdict.invariant.0 as usize].name.as_str())
            .collect();
        let name = &app.procedures[plan.procedure].name;
        text += format!("{name}: {mechanism}; {}", broken.join(", ")).trim_end_matches([';', ' ']);
        text.push('\n');
    }
    text
}

#[track_caller]
fn check(schema: &str, expect: &[&str]) {
    let app = support::read_to_analyze(schema);
    let analysis = analyze(&app);
    assert_eq!(lines(&app, &analysis).lines().collect::<Vec<_>>(), expect);
}

#[test]
fn every_table_and_column_group() {
    check(
        "CREATE TABLE customer (id bigserial PRIMARY KEY, mail text UNIQUE, name text NOT NULL, note text);
         CREATE TABLE orders (id bigserial PRIMARY KEY, customer bigint NOT NULL REFERENCES customer (id),
             starts date, ends date, total numeric(12,2) CHECK (total >= 0), CHECK (starts <= ends));",
        &[
            "insert customer: ramp + claim; customer_mail_key",
            "update customer (mail): ramp + claim; customer_mail_key",
            "update customer (name, note): merge",
            "delete customer: ramp + claim; orders_customer_fkey",
            "insert orders: ramp + claim; orders_customer_fkey",
            "update orders (customer): ramp + claim; orders_customer_fkey",
            "update orders (starts, ends): merge",
            "update orders (total): ramp + escrow; orders_total_check",
            "increment orders (total): merge",
            "decrement orders (total): ramp + escrow; orders_total_check",
            "delete orders: merge",
        ],
    );
    // Columns that are set and columns that are added to are answered differently; a level or a grade is only set.
    check(
        "CREATE TABLE item (id uuid DEFAULT gen_random_uuid() PRIMARY KEY, stock numeric(9,2) NOT NULL CHECK (stock >= 0),
             grade integer CHECK (grade BETWEEN 1 AND 5), likes integer);",
        &[
            "insert item: merge",
            "update item (stock): ramp + escrow; item_stock_check",
            "increment item (stock): merge",
            "decrement item (stock): ramp + escrow; item_stock_check",
            "update item (grade): merge",
            "update item (likes): merge",
            "delete item: merge",
        ],
    );
}

#[test]
fn keys_that_the_caller_chooses_and_tables_without_keys() {
    check(
        "CREATE TABLE tag (name text PRIMARY KEY);
         CREATE TABLE note (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), text text, length int GENERATED ALWAYS AS (length(text)) STORED);
         CREATE TABLE log (at timestamptz DEFAULT now(), line text);",
        &[
            "insert tag: ramp + claim; tag_pkey",
            "delete tag: merge",
            "insert note: merge",
            "update note (text): merge",
            "delete note: merge",
            "insert log: merge",
            "update log (at, line): merge",
            "delete log: merge",
        ],
    );
}

#[test]
fn functions_that_only_compute_are_no_transactions() {
    let app = support::read_to_analyze(
        "CREATE TABLE t (a int PRIMARY KEY);
         CREATE FUNCTION twice(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 2 * n; END $$;",
    );
    let names: Vec<&str> = app.procedures.iter().map(|procedure| procedure.name.as_str()).collect();
    assert_eq!(names, ["twice", "insert t", "delete t"]);
    let app = support::read_to_analyze(
        "CREATE TABLE t (a int PRIMARY KEY);
         CREATE FUNCTION add(n int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (n); END $$;",
    );
    assert!(!app.synthesised);
}

#[test]
fn a_dump_with_its_procedures_taken_away() {
    let text = std::fs::read_to_string(support::root().join("testdata/dumps/shop.sql")).expect("the dump");
    let mut app = support::read_to_analyze(&text);
    assert!(!app.synthesised, "it has procedures of its own");
    app.procedures.clear();
    weir_sql::synthesise(&mut app);
    let analysis = analyze(&app);
    support::golden("testdata/analysis/shop-alone.txt", &lines(&app, &analysis));
    let text = to_text(&app, &analysis, weir_analysis::TextStyle::default());
    assert!(text.contains("No procedures were given"), "{text}");
    let json = to_json(&app, &analysis);
    assert_eq!(json["transactions"][0]["synthesised"], true);
}
