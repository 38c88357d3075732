//! coordination-avoidance.txt, Table 2, as its body says it (§5.1–5.2): invariant × operation → confluent?
//!
//! Each case is a schema, a procedure `t` and perhaps others, and the verdict on one invariant for `t`. The
//! table's garbled rows are read as the text does: `>` is confluent under increment, not under decrement.

mod support;

use weir_analysis::{Analysis, GuardKind, InvariantId, Mechanism, analyze};
use weir_sql::Application;

struct Case {
    /// Row of Table 2.
    row: &'static str,
    schema: &'static str,
    /// The body of procedure `t(p integer, q integer)`, then bodies of `u`, `v`.
    bodies: &'static [&'static str],
    invariant: &'static str,
    confluent: bool,
    guard: Option<GuardKind>,
}

const ITEM: &str = "CREATE TABLE item (id integer PRIMARY KEY, n integer NOT NULL, m integer);
                    COMMENT ON TABLE item IS 'weir: partition by (id)';";

const CASES: &[Case] = &[
    Case {
        row: "equality, any",
        schema: ITEM,
        bodies: &["UPDATE item SET n = q WHERE id = p;"],
        invariant: "item.n not null",
        confluent: true,
        guard: None,
    },
    Case {
        row: "inequality, any",
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer CONSTRAINT c CHECK (n <> 7));",
        bodies: &["UPDATE item SET n = q WHERE id = p;"],
        invariant: "c",
        confluent: true,
        guard: None,
    },
    Case {
        row: "uniqueness, choose specific value",
        schema: ITEM,
        bodies: &["INSERT INTO item (id, n) VALUES (p, q);"],
        invariant: "item_pkey",
        confluent: false,
        guard: Some(GuardKind::Claim),
    },
    Case {
        row: "uniqueness, choose some value",
        schema: "CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer);",
        bodies: &["INSERT INTO item (n) VALUES (q);"],
        invariant: "item_pkey",
        confluent: true,
        guard: None,
    },
    Case {
        row: "uniqueness, choose some value (uuid)",
        schema: "CREATE TABLE item (id uuid DEFAULT gen_random_uuid() PRIMARY KEY, n integer);",
        bodies: &["INSERT INTO item (n) VALUES (q);"],
        invariant: "item_pkey",
        confluent: true,
        guard: None,
    },
    Case {
        row: "uniqueness, delete",
        schema: ITEM,
        bodies: &["DELETE FROM item WHERE id = p;", "INSERT INTO item (id, n) VALUES (p, q);"],
        invariant: "item_pkey",
        confluent: true,
        guard: None,
    },
    Case {
        row: "uniqueness, read",
        schema: ITEM,
        bodies: &["PERFORM n FROM item WHERE id = p;", "INSERT INTO item (id, n) VALUES (p, q);"],
        invariant: "item_pkey",
        confluent: true,
        guard: None,
    },
    Case {
        row: "AUTO_INCREMENT (dense), insert",
        schema: DENSE,
        bodies: &["UPDATE counter SET next = next + 1 WHERE c = p RETURNING next - 1 INTO x;
                   INSERT INTO bill (c, no) VALUES (p, x);"],
        invariant: "dense",
        confluent: false,
        guard: Some(GuardKind::Sequence),
    },
    Case {
        row: "AUTO_INCREMENT (unique only), insert",
        schema: "CREATE TABLE counter (c integer PRIMARY KEY, next integer NOT NULL);
                 CREATE TABLE bill (c integer, no integer, PRIMARY KEY (c, no));",
        bodies: &["UPDATE counter SET next = next + 1 WHERE c = p RETURNING next - 1 INTO x;
                   INSERT INTO bill (c, no) VALUES (p, x);"],
        invariant: "bill_pkey",
        confluent: false,
        guard: Some(GuardKind::Sequence),
    },
    Case {
        row: "AUTO_INCREMENT, number chosen by the caller",
        schema: DENSE,
        bodies: &["INSERT INTO bill (c, no) VALUES (p, q);"],
        invariant: "dense",
        confluent: false,
        guard: None,
    },
    Case {
        row: "foreign key, insert",
        schema: PARENT,
        bodies: &["INSERT INTO child (parent) VALUES (p);"],
        invariant: "has_parent",
        confluent: true,
        guard: None,
    },
    Case {
        row: "foreign key, insert beside delete",
        schema: PARENT,
        bodies: &["INSERT INTO child (parent) VALUES (p);", "DELETE FROM parent WHERE id = p;"],
        invariant: "has_parent",
        confluent: false,
        guard: Some(GuardKind::Claim),
    },
    Case {
        row: "foreign key, delete",
        schema: PARENT,
        bodies: &["DELETE FROM parent WHERE id = p;", "INSERT INTO child (parent) VALUES (p);"],
        invariant: "has_parent",
        confluent: false,
        guard: Some(GuardKind::Claim),
    },
    Case {
        row: "foreign key, cascading delete",
        schema: CASCADE,
        bodies: &["DELETE FROM parent WHERE id = p;", "INSERT INTO child (parent) VALUES (p);"],
        invariant: "has_parent",
        confluent: true,
        guard: None,
    },
    Case {
        row: "foreign key, insert beside cascading delete",
        schema: CASCADE,
        bodies: &["INSERT INTO child (parent) VALUES (p);", "DELETE FROM parent WHERE id = p;"],
        invariant: "has_parent",
        confluent: true,
        guard: None,
    },
    Case {
        row: "secondary indexing, update",
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer); CREATE INDEX item_n ON item (n);",
        bodies: &["UPDATE item SET n = q WHERE id = p;"],
        invariant: "item_n",
        confluent: true,
        guard: None,
    },
    Case {
        row: "materialized views, update",
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer);
                 CREATE MATERIALIZED VIEW total AS SELECT sum(n) AS n FROM item;",
        bodies: &["UPDATE item SET n = q WHERE id = p;"],
        invariant: "total",
        confluent: true,
        guard: None,
    },
    Case {
        row: "> under increment",
        bodies: &["UPDATE item SET n = n + 1 WHERE id = p;"],
        confluent: true,
        guard: None,
        ..ABOVE
    },
    Case { row: "> under decrement", bodies: &["UPDATE item SET n = n - 1 WHERE id = p;"], ..ABOVE },
    Case {
        row: "> under a delta of unknown sign",
        bodies: &["UPDATE item SET n = n + q WHERE id = p;"],
        ..ABOVE
    },
    Case {
        row: "> under a delta that is checked to be positive",
        bodies: &["IF q <= 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE item SET n = n + q WHERE id = p;"],
        confluent: true,
        guard: None,
        ..ABOVE
    },
    Case {
        row: "> under a delta that only one branch checks",
        bodies: &["IF p = 1 THEN IF q <= 0 THEN RAISE EXCEPTION 'no'; END IF; END IF;
                   UPDATE item SET n = n + q WHERE id = p;"],
        ..ABOVE
    },
    Case {
        row: "> under update",
        bodies: &["UPDATE item SET n = q WHERE id = p;"],
        confluent: true,
        guard: None,
        ..ABOVE
    },
    Case {
        row: "> under update beside decrement",
        bodies: &["UPDATE item SET n = q WHERE id = p;", "UPDATE item SET n = n - 1 WHERE id = p;"],
        ..ABOVE
    },
    Case {
        row: "< under decrement",
        bodies: &["UPDATE item SET n = n - 1 WHERE id = p;"],
        confluent: true,
        guard: None,
        ..BELOW
    },
    Case { row: "< under increment", bodies: &["UPDATE item SET n = n + 1 WHERE id = p;"], ..BELOW },
    Case {
        row: "counter, inequality",
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer CONSTRAINT c CHECK (n <> 7));",
        bodies: &["UPDATE item SET n = n + 1 WHERE id = p;"],
        invariant: "c",
        confluent: false,
        guard: None,
    },
    Case {
        row: "one row, two columns written apart",
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer, m integer, CONSTRAINT c CHECK (n <= m));",
        bodies: &["UPDATE item SET n = q WHERE id = p;", "UPDATE item SET m = q WHERE id = p;"],
        invariant: "c",
        confluent: false,
        guard: None,
    },
    Case {
        row: "one row, two columns written together",
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer, m integer, CONSTRAINT c CHECK (n <= m));",
        bodies: &["UPDATE item SET n = q, m = q WHERE id = p;"],
        invariant: "c",
        confluent: true,
        guard: None,
    },
];

const DENSE: &str = "
    CREATE TABLE counter (c integer PRIMARY KEY, next integer NOT NULL);
    CREATE TABLE bill (c integer, no integer, PRIMARY KEY (c, no));
    CREATE ASSERTION dense CHECK (NOT EXISTS (
        SELECT 1 FROM counter
         WHERE next - 1 <> (SELECT max(no) FROM bill WHERE bill.c = counter.c)));";
const PARENT: &str = "
    CREATE TABLE parent (id integer PRIMARY KEY);
    CREATE TABLE child (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent integer,
        CONSTRAINT has_parent FOREIGN KEY (parent) REFERENCES parent (id));";
const CASCADE: &str = "
    CREATE TABLE parent (id integer PRIMARY KEY);
    CREATE TABLE child (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent integer,
        CONSTRAINT has_parent FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE);";
const ABOVE: Case = Case {
    row: "",
    schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer CONSTRAINT c CHECK (n >= 0));",
    bodies: &[],
    invariant: "c",
    confluent: false,
    guard: Some(GuardKind::Escrow),
};
const BELOW: Case = Case {
    schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer CONSTRAINT c CHECK (n < 100));",
    ..ABOVE
};

fn load(case: &Case) -> Application {
    let mut procedures = String::new();
    for (name, body) in ["t", "u", "v"].iter().zip(case.bodies) {
        procedures.push_str(&format!(
            "CREATE PROCEDURE {name}(p integer, q integer) LANGUAGE plpgsql AS $$
             DECLARE x integer; BEGIN {body} END; $$;\n"
        ));
    }
    support::application(&[("schema.sql", case.schema), ("procedures.sql", &procedures)])
}

/// What is wrong with the analysis' verdict, if anything.
fn verdict_error(case: &Case, app: &Application, analysis: &Analysis) -> Option<String> {
    let at = analysis.invariants.iter().position(|invariant| invariant.name == case.invariant)?;
    let verdict = analysis.verdict(0, InvariantId(at as u32));
    assert_eq!(app.procedures[verdict.transaction].name, "t");
    if verdict.confluent != case.confluent {
        return Some(format!("confluent is {}: {}", verdict.confluent, verdict.because));
    }
    let guards: Vec<GuardKind> = analysis.plan.transactions[0]
        .guards
        .iter()
        .filter(|guard| guard.keeps.iter().any(|kept| kept.0 as usize == at))
        .map(|guard| guard.kind)
        .collect();
    let expected: Vec<GuardKind> = case.guard.into_iter().collect();
    if guards != expected {
        return Some(format!("guards are {guards:?}"));
    }
    let needs_order = !case.confluent && case.guard.is_none();
    let mechanism = analysis.plan.transactions[0].mechanism;
    let in_order = mechanism.is_ordered_family();
    (needs_order != in_order).then(|| format!("mechanism is {}", Mechanism::name(mechanism)))
}

#[test]
fn table_2() {
    let mut errors = Vec::new();
    for case in CASES {
        let app = load(case);
        let analysis = analyze(&app);
        assert!(
            analysis.invariants.iter().any(|i| i.name == case.invariant),
            "{}: no such invariant",
            case.row
        );
        errors.extend(verdict_error(case, &app, &analysis).map(|error| format!("{}: {error}", case.row)));
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

/// Negative control: a wrong verdict, either way, on any row, is seen.
#[test]
fn a_planted_wrong_verdict_is_caught() {
    for case in CASES {
        let app = load(case);
        let mut analysis = analyze(&app);
        let flipped = |at: usize| {
            let mut verdict = analysis.verdict(0, InvariantId(at as u32)).into_owned();
            verdict.confluent = !verdict.confluent;
            verdict
        };
        analysis.verdicts = (0..analysis.invariants.len()).map(flipped).collect();
        assert!(verdict_error(case, &app, &analysis).is_some(), "{}: not caught", case.row);
    }
}

/// Negative control: a plan that lost its guard is seen.
#[test]
fn a_plan_without_its_guard_is_caught() {
    for case in CASES.iter().filter(|case| case.guard.is_some()) {
        let app = load(case);
        let mut analysis = analyze(&app);
        analysis.plan.transactions[0].guards.clear();
        assert!(verdict_error(case, &app, &analysis).is_some(), "{}: not caught", case.row);
    }
}
