//! Anomalies that no invariant forbids: which transactions have which, beside whom, and what mends them.

use crate::support;

use weir_analysis::analyze;

const SCHEMA: &str = "
    CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL, status text NOT NULL DEFAULT 'open', owner integer);
    CREATE TABLE duty (id integer PRIMARY KEY, shift integer NOT NULL, on_call boolean NOT NULL);
    CREATE TABLE booking (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, room integer NOT NULL, day date NOT NULL);
    CREATE TABLE note (id integer PRIMARY KEY, text text);
    COMMENT ON TABLE account IS 'weir: partition by (id)';
    COMMENT ON TABLE duty IS 'weir: partition by (id)';
    COMMENT ON TABLE booking IS 'weir: partition by (id)';
    COMMENT ON TABLE note IS 'weir: partition by (id)';";

/// Procedures `f`, `g`, … with parameters a, b, n (integers), t (text), d (date) and locals x, y.
/// Expected: `kind of f beside g: first remedy`, without long forks.
#[track_caller]
fn check(bodies: &[&str], expect: &[&str]) {
    let mut text = SCHEMA.to_string();
    for (body, name) in bodies.iter().zip(["f", "g", "h"]) {
        text += &format!(
            "CREATE PROCEDURE {name}(a integer, b integer, n integer, t text, d date) LANGUAGE plpgsql AS $$
             DECLARE x integer; y integer; BEGIN {body} END; $$;"
        );
    }
    let app = support::application(&[("bank.sql", &text)]);
    let analysis = analyze(&app);
    let name = |procedure: usize| &app.procedures[procedure].name;
    let found: Vec<String> = analysis
        .anomalies
        .iter()
        .filter(|anomaly| anomaly.kind.name() != "long_fork")
        .map(|anomaly| {
            let (kind, remedy) = (anomaly.kind.name(), &anomaly.remedies[0]);
            format!("{kind} of {} beside {}: {remedy}", name(anomaly.transaction), name(anomaly.with))
        })
        .collect();
    assert_eq!(found, expect);
}

#[test]
fn a_value_that_is_written_back() {
    check(
        &[
            "SELECT balance INTO x FROM account WHERE id = a; UPDATE account SET balance = x - n WHERE id = a;",
        ],
        &["lost_update of f beside f: balance = balance + … in the UPDATE keeps both"],
    );
    check(
        &[
            "SELECT balance INTO x FROM account WHERE id = a; UPDATE account SET balance = greatest(x, n) WHERE id = a;",
        ],
        &["lost_update of f beside f: balance = greatest(balance, …) in the UPDATE keeps both"],
    );
    check(
        &[
            "SELECT balance INTO x FROM account WHERE id = a; UPDATE account SET balance = x * 2 WHERE id = a;",
        ],
        &[
            "lost_update of f beside f: SELECT … FROM account … FOR UPDATE, before, makes the second wait and see",
        ],
    );
    check(&["UPDATE account SET balance = balance - n WHERE id = a;"], &[]);
    check(&["UPDATE account SET owner = n WHERE id = a;"], &[]);
    check(
        &[
            "SELECT balance INTO x FROM account WHERE id = a FOR UPDATE; UPDATE account SET balance = x - n WHERE id = a;",
        ],
        &[],
    );
}

#[test]
fn a_state_that_is_checked_and_overwritten() {
    // Both do the same to the row, and nothing else.
    check(&["UPDATE account SET status = 'closed' WHERE id = a AND status = 'open';"], &[]);
    check(
        &[
            "UPDATE account SET status = 'closed' WHERE id = a AND status = 'open';",
            "UPDATE account SET status = 'frozen' WHERE id = a AND status = 'open';",
        ],
        &[
            "lost_update of f beside g: SELECT … FROM account … FOR UPDATE, before, makes the second wait and see",
            "lost_update of g beside f: SELECT … FROM account … FOR UPDATE, before, makes the second wait and see",
        ],
    );
}

#[test]
fn two_that_each_read_what_the_other_writes() {
    let check_then_leave = "SELECT count(*) INTO x FROM duty WHERE shift = n AND on_call;
        IF x < 2 THEN RAISE EXCEPTION 'somebody must stay'; END IF;
        UPDATE duty SET on_call = false WHERE id = a;";
    let assertion = "CREATE ASSERTION of what must hold: then only what breaks it is coordinated";
    check(&[check_then_leave], &[&format!("write_skew of f beside f: {assertion}")]);
    // A phantom: neither sees the other's row.
    check(
        &["IF NOT EXISTS (SELECT 1 FROM booking WHERE room = a AND day = d) THEN
             INSERT INTO booking (room, day) VALUES (a, d); END IF;"],
        &[&format!("write_skew of f beside f: {assertion}")],
    );
    // In one row.
    check(
        &[
            "SELECT balance INTO x FROM account WHERE id = a; UPDATE account SET owner = x WHERE id = a;",
            "SELECT owner INTO x FROM account WHERE id = a; UPDATE account SET balance = x WHERE id = a;",
        ],
        &[
            &format!("write_skew of f beside g: {assertion}"),
            &format!("write_skew of g beside f: {assertion}"),
        ],
    );
    // Covered, and overdrawn.
    check(
        &["SELECT balance INTO x FROM account WHERE id = a; IF x < n THEN RAISE EXCEPTION 'no'; END IF;
           UPDATE account SET balance = balance - n WHERE id = a;"],
        &[
            "write_skew of f beside f: CHECK (…) on account.balance says which value must not be passed: escrow keeps a bound",
        ],
    );
    // One reads only.
    check(
        &[
            "SELECT balance INTO x FROM account WHERE id = a; INSERT INTO note (id, text) VALUES (n, x::text) ON CONFLICT (id) DO NOTHING;",
            "UPDATE account SET balance = balance + n WHERE id = a;",
        ],
        &[],
    );
}

#[test]
fn what_runs_in_order_has_none() {
    let text = format!(
        "{SCHEMA} CREATE PROCEDURE f(a integer, n integer) LANGUAGE plpgsql AS $$ DECLARE x integer; BEGIN
            SELECT balance INTO x FROM account WHERE id = a; UPDATE account SET balance = x - n WHERE id = a; END $$;
         ALTER PROCEDURE f SET default_transaction_isolation = 'serializable';"
    );
    let app = support::application(&[("bank.sql", &text)]);
    let analysis = analyze(&app);
    assert!(analysis.anomalies.is_empty());
    assert_eq!(analysis.prevented[0].kind.name(), "lost_update");
}

#[test]
fn ramp_shows_both_writes_or_none() {
    let text = format!(
        "{SCHEMA} CREATE PROCEDURE move(a integer, b integer, n integer) LANGUAGE plpgsql AS $$ BEGIN
            UPDATE account SET balance = balance - n WHERE id = a;
            UPDATE account SET balance = balance + n WHERE id = b; END $$;
         CREATE PROCEDURE see_both(a integer, b integer, OUT x integer, OUT y integer) LANGUAGE plpgsql AS $$ BEGIN
            SELECT balance INTO x FROM account WHERE id = a;
            SELECT balance INTO y FROM account WHERE id = b; END $$;"
    );
    let app = support::application(&[("bank.sql", &text)]);
    let analysis = analyze(&app);
    let kinds: Vec<&str> = analysis.anomalies.iter().map(|anomaly| anomaly.kind.name()).collect();
    assert_eq!(kinds, ["long_fork"]);
    assert_eq!(analysis.prevented[0].kind.name(), "fractured_read");
    assert!(analysis.prevented[0].by.contains("RAMP"), "{}", analysis.prevented[0].by);
}

#[test]
fn the_example_has_values() {
    let text = format!(
        "{SCHEMA} CREATE PROCEDURE pay(a integer, n integer) LANGUAGE plpgsql AS $$ DECLARE x integer; BEGIN
            SELECT balance INTO x FROM account WHERE id = a; UPDATE account SET balance = x - n WHERE id = a; END $$;"
    );
    let app = support::application(&[("bank.sql", &text)]);
    let analysis = analyze(&app);
    let example = &analysis.anomalies[0].example;
    assert_eq!(example.initial, "the account row with id = 1: account.balance = 10");
    assert_eq!(
        example.left,
        [
            "pay(a = 1, …) reads account.balance of the account row with id = 1: 10",
            "pay(a = 1, …) writes account.balance = 11 (10 and 1 more) there"
        ]
    );
    let json = weir_analysis::to_json(&app, &analysis);
    let anomaly = &json["transactions"][0]["anomalies"][0];
    assert_eq!(anomaly["id"], "WEIR-A01");
    assert_eq!(anomaly["example"]["outcome"], example.outcome.as_str());
}
