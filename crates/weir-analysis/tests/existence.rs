//! Assertions that demand a row somewhere, and those whose LIMIT or OFFSET makes them mean something else.

mod support;

use weir_analysis::{DecidedBy, InvariantId, analyze};

const INSERT: &str = "INSERT INTO t (n) VALUES (a);";
const DELETE: &str = "DELETE FROM t WHERE id = a;";
const CHANGE: &str = "UPDATE t SET n = a WHERE id = b;";

/// The verdict on the assertion: confluent or not, by a rule or undecided.
#[track_caller]
fn check(assertion: &str, body: &str, expect: &str) {
    let text = format!(
        "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer NOT NULL);
         CREATE PROCEDURE p(a integer, b integer) LANGUAGE plpgsql AS $$ BEGIN {body} END; $$;
         CREATE ASSERTION claim CHECK ({assertion});"
    );
    let app = support::application(&[("app.sql", &text)]);
    let analysis = analyze(&app);
    let is_claim = |name: &str| name == "claim";
    let at =
        analysis.invariants.iter().position(|invariant| is_claim(&invariant.name)).expect("the assertion");
    let verdict = analysis.verdict(0, InvariantId(at as u32));
    let confluent = if verdict.confluent { "yes" } else { "no" };
    let undecided = if verdict.decided_by == DecidedBy::Assumption { ", undecided" } else { "" };
    assert_eq!(format!("{confluent}{undecided}"), expect, "{assertion} and {body}: {}", verdict.because);
}

#[test]
fn there_is_a_row() {
    let some = "EXISTS (SELECT 1 FROM t)";
    check(some, INSERT, "yes");
    check(some, DELETE, "no");
    check(some, CHANGE, "yes");
    check("NOT (NOT EXISTS (SELECT 1 FROM t))", INSERT, "yes");
    let seven = "EXISTS (SELECT 1 FROM t WHERE n = 7)";
    check(seven, INSERT, "yes");
    check(seven, DELETE, "no");
    check(seven, CHANGE, "no");
    check("EXISTS (SELECT n FROM t GROUP BY n)", INSERT, "no, undecided");
}

/// `NOT EXISTS (… OFFSET 2)` is "at most two rows": two branches may each add the second.
#[test]
fn a_query_cut_off_says_something_else() {
    check("NOT EXISTS (SELECT 1 FROM t WHERE n < 0)", INSERT, "yes");
    check("NOT EXISTS (SELECT 1 FROM t WHERE n < 0 OFFSET 2)", INSERT, "no, undecided");
    check(
        "NOT EXISTS (SELECT 1 FROM (SELECT n FROM t ORDER BY id LIMIT 3) AS first WHERE n < 0)",
        INSERT,
        "no, undecided",
    );
    check(
        "(SELECT sum(n) FROM (SELECT n FROM t ORDER BY n DESC LIMIT 3) AS top) <= 100",
        INSERT,
        "no, undecided",
    );
    check("EXISTS (SELECT 1 FROM t OFFSET 2)", INSERT, "no, undecided");
}

/// Sums and counts over rows that are not the tables' own: what changes them no rule sees.
#[test]
fn rows_of_other_queries() {
    let highest = "(SELECT max(n) AS n FROM t GROUP BY id)";
    check(&format!("(SELECT sum(n) FROM {highest} AS s) <= 100"), INSERT, "no, undecided");
    check(&format!("(SELECT count(*) FROM {highest} AS s) <= 100"), INSERT, "no, undecided");
    check("(SELECT count(*) FROM (SELECT DISTINCT n FROM t) AS s) >= 1", CHANGE, "no, undecided");
    check("(SELECT count(*) FROM (SELECT n FROM t UNION SELECT 1) AS s) <= 9", INSERT, "no, undecided");
    check("(SELECT count(*) FROM t, generate_series(1, 3)) <= 9", INSERT, "no, undecided");
    check(&format!("NOT EXISTS (SELECT 1 FROM {highest} AS s HAVING sum(n) > 9)"), INSERT, "no, undecided");
    check("(SELECT count(*) FROM (SELECT n FROM t WHERE n > 0) AS s) <= 9", INSERT, "no");
}
