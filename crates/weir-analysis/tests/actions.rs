//! ON DELETE and ON UPDATE: what a foreign key does to children is an effect of who deletes or changes the parent.

use crate::support;

use weir_analysis::effects::{ColumnOperation, Operation, Term};
use weir_analysis::{Alone, Analysis, InvariantId, Mechanism, analyze};
use weir_sql::Application;

fn load(schema: &str, body: &str) -> (Application, Analysis) {
    let procedures =
        format!("CREATE PROCEDURE t(IN a bigint, IN b bigint) LANGUAGE plpgsql AS $$ BEGIN {body} END; $$;");
    let app = support::application(&[("schema.sql", schema), ("procedures.sql", &procedures)]);
    let analysis = analyze(&app);
    (app, analysis)
}

/// The effects of the procedure's writes, each as `verb table (columns) where key`.
#[track_caller]
fn check(schema: &str, body: &str, expect: &[&str]) {
    let (app, analysis) = load(schema, body);
    let effects = &analysis.effects[0];
    let describe = |write: &weir_analysis::effects::Write| {
        let table = app.catalog.table(write.table);
        let value = |operation: ColumnOperation| match effects.terms.get(operation.term()) {
            Term::Null => "null",
            Term::Parameter(_) => "parameter",
            Term::Integer(_) | Term::Literal(..) => "constant",
            _ => "?",
        };
        let (verb, row) = match &write.operation {
            Operation::Insert { .. } => ("insert".to_string(), None),
            Operation::Delete { row } => ("delete".to_string(), Some(row)),
            Operation::Update { row, columns } => {
                let set = columns.iter().map(|(column, operation)| {
                    format!("{} = {}", table.columns[*column].name, value(*operation))
                });
                (format!("set {} in", set.collect::<Vec<_>>().join(", ")), Some(row))
            }
        };
        let key = row.map(|row| {
            let names = effects.read(*row).key.iter().map(|(column, _)| table.columns[*column].name.as_str());
            names.collect::<Vec<_>>().join(", ")
        });
        format!("{verb} {} by ({})", table.name, key.unwrap_or_default())
    };
    let found: Vec<String> = effects.writes.iter().map(describe).collect();
    assert_eq!(found, expect, "{schema}\n{body}");
}

const FAMILY: &str = "
    CREATE TABLE grand (id bigint PRIMARY KEY);
    CREATE TABLE parent (id bigint PRIMARY KEY, grand_id bigint NOT NULL REFERENCES grand (id) ON DELETE CASCADE);
    CREATE TABLE child (id bigint PRIMARY KEY, parent_id bigint REFERENCES parent (id) ACTION);";

fn family(action: &str) -> String {
    FAMILY.replace("ACTION", action)
}

#[test]
fn effects_of_actions() {
    let cascade = ["delete grand by (id)", "delete parent by (grand_id)"];
    let with = |more: &[&'static str]| [cascade.as_slice(), more].concat();
    let body = "DELETE FROM grand WHERE id = a;";
    check(&family(""), body, &cascade);
    check(&family("ON DELETE CASCADE"), body, &with(&["delete child by (parent_id)"]));
    check(&family("ON DELETE SET NULL"), body, &with(&["set parent_id = null in child by (parent_id)"]));
    let defaulted = family("ON DELETE SET DEFAULT").replace("parent_id bigint", "parent_id bigint DEFAULT 7");
    check(&defaulted, body, &with(&["set parent_id = constant in child by (parent_id)"]));
    check(
        &family("ON UPDATE CASCADE"),
        "UPDATE parent SET id = b WHERE id = a;",
        &["set id = parameter in parent by (id)", "set parent_id = parameter in child by (parent_id)"],
    );
    check(
        &family("ON UPDATE SET NULL"),
        "UPDATE parent SET id = b WHERE id = a;",
        &["set id = parameter in parent by (id)", "set parent_id = null in child by (parent_id)"],
    );
    check(
        &family("ON UPDATE CASCADE"),
        "UPDATE parent SET grand_id = b WHERE id = a;",
        &["set grand_id = parameter in parent by (id)"],
    );
}

/// A row's descendants go as well; of those below the second generation nothing is known but the table.
#[test]
fn a_table_that_refers_to_itself() {
    let schema =
        "CREATE TABLE node (id bigint PRIMARY KEY, up bigint REFERENCES node (id) ON DELETE CASCADE);";
    check(
        schema,
        "DELETE FROM node WHERE id = a;",
        &["delete node by (id)", "delete node by (up)", "delete node by ()"],
    );
}

/// A trigger of the children runs for those that go.
#[test]
fn triggers_of_children_run() {
    let schema = "
        CREATE TABLE parent (id bigint PRIMARY KEY);
        CREATE TABLE child (id bigint PRIMARY KEY, parent_id bigint REFERENCES parent (id) ON DELETE CASCADE);
        CREATE TABLE gone (id bigint);
        CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO gone (id) VALUES (OLD.id); RETURN NULL; END; $$;
        CREATE TRIGGER noted AFTER DELETE ON child FOR EACH ROW EXECUTE FUNCTION note();
        CREATE PROCEDURE t(IN a bigint) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM parent WHERE id = a; END; $$;";
    let app = support::read_to_analyze(schema);
    let analysis = analyze(&app);
    let tables = analysis.effects[0].writes.iter().map(|write| app.catalog.table(write.table).name.as_str());
    assert_eq!(tables.collect::<Vec<_>>(), ["parent", "child", "gone"]);
}

/// `name confluent alone` of one invariant and the first procedure.
#[track_caller]
fn check_verdict(schema: &str, body: &str, invariant: &str, expect: &str) {
    let (_, analysis) = load(schema, body);
    let at = analysis.invariants.iter().position(|other| other.name == invariant).expect("the invariant");
    let verdict = analysis.verdict(0, InvariantId(at as u32));
    let found = format!("{} {}", if verdict.confluent { "yes" } else { "no" }, verdict.alone.name());
    assert_eq!(found, expect, "{body}: {}", verdict.because);
}

const ORDERS: &str = "
    CREATE TABLE customer (id bigint PRIMARY KEY, spent bigint NOT NULL);
    CREATE TABLE orders (id bigint PRIMARY KEY, customer_id bigint NOT NULL);
    CREATE TABLE line (
        id bigint PRIMARY KEY,
        order_id bigint NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
        customer_id bigint NOT NULL,
        amount bigint NOT NULL
    );
    CREATE TABLE note (id bigint PRIMARY KEY, line_id bigint REFERENCES line (id));
    CREATE ASSERTION spent_is_the_sum CHECK (NOT EXISTS (
        SELECT 1 FROM customer WHERE customer.spent <>
            (SELECT coalesce(sum(line.amount), 0) FROM line WHERE line.customer_id = customer.id)));
    CREATE ASSERTION some_lines CHECK ((SELECT count(*) FROM line) >= 10);";

#[test]
fn assertions_about_children() {
    // The lines go, and nobody takes their amounts off: neither alone nor in a merge does the sum hold.
    check_verdict(ORDERS, "DELETE FROM orders WHERE id = a;", "spent_is_the_sum", "no no");
    check_verdict(ORDERS, "DELETE FROM orders WHERE id = a;", "some_lines", "no no");
    check_verdict(ORDERS, "INSERT INTO orders VALUES (a, b);", "spent_is_the_sum", "yes proved");
    check_verdict(
        ORDERS,
        "UPDATE orders SET customer_id = b WHERE id = a;",
        "spent_is_the_sum",
        "yes proved",
    );
}

/// A key below the one that acts: rows of `note` may come to be while their line goes with its order.
#[test]
fn foreign_keys_below() {
    let body = "DELETE FROM orders WHERE id = a; INSERT INTO note VALUES (a, b);";
    check_verdict(ORDERS, body, "note_line_id_fkey", "no checked");
    check_verdict(ORDERS, "INSERT INTO note VALUES (a, b);", "note_line_id_fkey", "yes checked");
    check_verdict(ORDERS, body, "line_order_id_fkey", "yes proved");
}

/// A reference that an action sets to NULL is a column that changes.
#[test]
fn set_null_and_checks() {
    let schema = "
        CREATE TABLE owner (id bigint PRIMARY KEY);
        CREATE TABLE pet (id bigint PRIMARY KEY, stray boolean NOT NULL, chip bigint UNIQUE,
            owner_id bigint UNIQUE REFERENCES owner (id) ON DELETE SET NULL,
            CONSTRAINT of_somebody CHECK (stray OR owner_id IS NOT NULL));";
    let skewed = "DELETE FROM owner WHERE id = a; UPDATE pet SET stray = false WHERE id = b;";
    check_verdict(schema, skewed, "of_somebody", "no checked");
    check_verdict(schema, "DELETE FROM owner WHERE id = a;", "of_somebody", "yes checked");
    check_verdict(schema, "DELETE FROM owner WHERE id = a;", "pet_owner_id_key", "yes proved");
    check_verdict(schema, "DELETE FROM owner WHERE id = a;", "pet_chip_key", "yes proved");
}

/// A table from which only an action deletes is not copied to every shard.
#[test]
fn children_are_written() {
    let (app, analysis) = load(&family("ON DELETE CASCADE"), "DELETE FROM grand WHERE id = a;");
    for table in &app.catalog.tables {
        let placement = analysis.plan.placement(table.id);
        assert!(matches!(placement, weir_analysis::Placement::Partitioned { .. }), "{}", table.name);
    }
    assert_eq!(analysis.plan.transactions[0].mechanism, Mechanism::Ramp);
    assert!(analysis.verdicts.iter().all(|verdict| verdict.alone != Alone::No));
}

/// A row with a NULL reference needs no parent, and keeps no parent from being deleted.
#[test]
fn a_reference_that_is_null_names_nobody() {
    let schema = "CREATE TABLE parent (id bigint PRIMARY KEY);
        CREATE TABLE child (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n bigint,
                            parent bigint CONSTRAINT refers REFERENCES parent (id));
        CREATE PROCEDURE close(a bigint) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM parent WHERE id = a; END; $$;";
    let confluent = |body: &str| {
        let (_, analysis) = load(schema, body);
        let at = analysis.invariants.iter().position(|invariant| invariant.name == "refers").unwrap();
        [0, 1].map(|procedure| analysis.verdict(procedure, InvariantId(at as u32)).confluent)
    };
    for body in [
        "INSERT INTO child (n) VALUES (a);",
        "INSERT INTO child (n, parent) VALUES (a, NULL);",
        "UPDATE child SET parent = NULL WHERE id = a;",
    ] {
        assert_eq!(confluent(body), [true, true], "{body}");
    }
    for body in [
        "INSERT INTO child (n, parent) VALUES (a, b);",
        "UPDATE child SET parent = b WHERE id = a;",
        "INSERT INTO child (n) VALUES (a); UPDATE child SET parent = b WHERE n = a;",
        "IF a > 0 THEN INSERT INTO child (n) VALUES (a); ELSE INSERT INTO child (n, parent) VALUES (a, b); END IF;",
    ] {
        assert_eq!(confluent(body), [false, false], "{body}");
    }
}
