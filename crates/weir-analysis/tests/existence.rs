//! Assertions that demand a row somewhere, and those whose LIMIT or OFFSET makes them mean something else.

use crate::support;

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

/// The verdict on the assertion `claim` of an application of several transactions, of which the first is asked.
#[track_caller]
fn check_application(schema: &str, claim: &str, bodies: &[&str], expect: &str) {
    let mut text = format!("{schema} CREATE ASSERTION claim CHECK ({claim});\n");
    for (at, body) in bodies.iter().enumerate() {
        text += &format!(
            "CREATE PROCEDURE t{at}(IN p integer, IN q integer, IN m integer) LANGUAGE plpgsql AS $$
             DECLARE x integer; BEGIN {body} END; $$;\n"
        );
    }
    let app = support::application(&[("app.sql", &text)]);
    let analysis = analyze(&app);
    let mut invariants = analysis.invariants.iter();
    let at = invariants.position(|invariant| invariant.name == "claim").expect("the assertion");
    let verdict = analysis.verdict(0, InvariantId(at as u32));
    let confluent = if verdict.confluent { "yes" } else { "no" };
    assert_eq!(confluent, expect, "{claim} and {bodies:?}: {}", verdict.because);
}

const WARDS: &str = "CREATE TABLE ward (id integer PRIMARY KEY, name integer NOT NULL, flag integer);
    CREATE TABLE doctor (id integer PRIMARY KEY, ward integer NOT NULL REFERENCES ward (id), name integer NOT NULL,
        on_call boolean NOT NULL, boss integer, n integer NOT NULL DEFAULT 0);
    CREATE TABLE shift (id integer PRIMARY KEY, doctor integer NOT NULL);";

/// A fact may rest on several rows, of which each branch takes another.
#[test]
fn a_fact_that_rests_on_several_rows() {
    let of_ward = "SELECT 1 FROM doctor d WHERE d.ward = w.id";
    let someone = format!(
        "NOT EXISTS (SELECT 1 FROM ward w WHERE EXISTS ({of_ward}) AND NOT EXISTS ({of_ward} AND d.on_call))"
    );
    let go_off = "SELECT 1 INTO STRICT x FROM doctor d JOIN doctor o ON o.ward = d.ward WHERE d.id = p AND o.id = q AND o.on_call
                  AND o.id <> d.id; UPDATE doctor SET on_call = false WHERE id = p;";
    check_application(WARDS, &someone, &[go_off], "no");
    let same = format!(
        "NOT EXISTS (SELECT 1 FROM ward w WHERE EXISTS ({of_ward}) <> EXISTS ({of_ward} AND d.on_call))"
    );
    check_application(WARDS, &same, &[go_off], "no");
    check_application(WARDS, &same, &["UPDATE doctor SET ward = q WHERE id = p;"], "no");
    // Of one row at most there is none that the other branch could leave.
    let one = "NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag IS NULL AND NOT EXISTS (SELECT 1 FROM doctor d
        WHERE d.id = w.id AND d.on_call))";
    check_application(WARDS, one, &["UPDATE doctor SET on_call = false WHERE id = p;"], "yes");
}

/// One table on both sides: a row that comes has not brought the others with it.
#[test]
fn facts_of_one_table() {
    let alone = "NOT EXISTS (SELECT 1 FROM doctor d WHERE d.boss IS NULL AND EXISTS (SELECT 1 FROM doctor e
        WHERE e.ward = d.ward AND e.id <> d.id))";
    check_application(WARDS, alone, &["INSERT INTO doctor VALUES (p, q, 1, true);"], "no");
    let both =
        "NOT (EXISTS (SELECT 1 FROM doctor WHERE name = 1) AND EXISTS (SELECT 1 FROM doctor WHERE name = 2))";
    check_application(WARDS, both, &["INSERT INTO doctor VALUES (p, q, m, true);"], "no");
    // The rows come together, but are compared by other columns.
    let named = "NOT EXISTS (SELECT 1 FROM ward w WHERE (w.flag IS NULL) <> EXISTS (SELECT 1 FROM doctor d WHERE d.name = w.name))";
    let comes = "INSERT INTO ward VALUES (p, m, 1); INSERT INTO doctor VALUES (q, p, m, true);";
    check_application(WARDS, named, &[comes, "UPDATE ward SET flag = m WHERE id = p;"], "no");
}

/// A query within a fact's conditions belongs to the fact as well.
#[test]
fn a_fact_with_another_query_within() {
    let at_work =
        "NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag IS NULL AND NOT EXISTS (SELECT 1 FROM doctor d
        WHERE d.ward = w.id AND EXISTS (SELECT 1 FROM shift s WHERE s.doctor = d.id)))";
    check_application(WARDS, at_work, &["DELETE FROM shift WHERE id = p;"], "no");
    let many = "NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag IS NULL AND EXISTS (SELECT 1 FROM
        (SELECT ward, count(*) AS c FROM doctor GROUP BY ward) g WHERE g.ward = w.id AND g.c > 2))";
    check_application(WARDS, many, &["INSERT INTO doctor VALUES (p, q, 1, true);"], "no");
    let grouped = "NOT EXISTS (SELECT 1 FROM (SELECT doctor FROM shift GROUP BY doctor) g WHERE NOT EXISTS (SELECT 1 FROM doctor d
        WHERE d.id = g.doctor))";
    check_application(
        WARDS,
        grouped,
        &["DELETE FROM doctor WHERE id = p;", "INSERT INTO shift VALUES (p, q);"],
        "no",
    );
    let having = "NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag IS NULL AND EXISTS (SELECT ward FROM doctor
        WHERE ward = w.id GROUP BY ward, n HAVING n > 1))";
    check_application(WARDS, having, &["UPDATE doctor SET n = n + 1 WHERE id = p;"], "no");
    let joined =
        "NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag IS NULL AND NOT EXISTS (SELECT 1 FROM doctor d
        JOIN shift s ON s.doctor = d.id WHERE d.ward = w.id))";
    check_application(WARDS, joined, &["DELETE FROM doctor WHERE id = p;"], "no");
}

/// A condition that only the merge of two changes meets.
#[test]
fn a_condition_that_two_branches_meet_together() {
    let counterpart = "NOT EXISTS (SELECT 1 FROM doctor d WHERE d.n = 2 AND NOT EXISTS (SELECT 1 FROM shift s WHERE s.doctor = d.id))";
    check_application(WARDS, counterpart, &["UPDATE doctor SET n = n + 1 WHERE id = p;"], "no");
    let counted = "NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag IS NULL AND EXISTS (SELECT 1 FROM doctor d WHERE d.ward = w.id AND d.n = 2))";
    check_application(WARDS, counted, &["UPDATE doctor SET n = n + 1 WHERE id = p;"], "no");
    let of_two = "NOT EXISTS (SELECT 1 FROM ward w WHERE w.flag IS NULL AND EXISTS (SELECT 1 FROM doctor d
        WHERE d.ward = w.id AND d.n = 2 AND d.name = 2))";
    let bodies = ["UPDATE doctor SET n = m WHERE id = p;", "UPDATE doctor SET name = m WHERE id = p;"];
    check_application(WARDS, of_two, &bodies, "no");
}

/// An aggregate over no rows is NULL and compared with nothing: its first row may come of two branches, or meet a new owner.
#[test]
fn the_first_row_of_an_aggregate_comes_in_the_merge() {
    let joined = "NOT EXISTS (SELECT 1 FROM ward w WHERE (SELECT min(d.n) FROM doctor d JOIN shift s ON s.doctor = d.id
        WHERE d.ward = w.id) > 1)";
    let halves = ["INSERT INTO doctor VALUES (p, q, 1, true, NULL, m);", "INSERT INTO shift VALUES (p, q);"];
    check_application(WARDS, joined, &halves, "no");
    let by_name =
        "NOT EXISTS (SELECT 1 FROM ward w WHERE (SELECT min(d.n) FROM doctor d WHERE d.name = w.name) > 1)";
    let bodies = ["INSERT INTO doctor VALUES (p, q, m, true, NULL, m);", "INSERT INTO ward VALUES (p, m);"];
    check_application(WARDS, by_name, &bodies, "no");
    // A row that refers to its owner finds it there.
    let of_ward =
        "NOT EXISTS (SELECT 1 FROM ward w WHERE (SELECT min(d.n) FROM doctor d WHERE d.ward = w.id) > 1)";
    check_application(WARDS, of_ward, &["INSERT INTO doctor VALUES (p, q, 1, true, NULL, m);"], "yes");
}

/// Two branches upsert one row with different values: the merge has one of them beside what only the other was checked with.
#[test]
fn a_row_that_two_branches_upsert() {
    let claim = "NOT EXISTS (SELECT 1 FROM ward w, doctor d WHERE d.ward = w.id AND w.flag = 1 AND d.n > 1)";
    let bodies = [
        "INSERT INTO ward VALUES (p, 1, NULL) ON CONFLICT (id) DO NOTHING; INSERT INTO doctor VALUES (q, p, 1, true, NULL, m);",
        "INSERT INTO ward VALUES (p, 1, 1) ON CONFLICT (id) DO NOTHING;",
    ];
    check_application(WARDS, claim, &bodies, "no");
    let alike = [
        "INSERT INTO ward VALUES (p, 1, NULL) ON CONFLICT (id) DO NOTHING; INSERT INTO doctor VALUES (q, p, 1, true, NULL, m);",
    ];
    check_application(WARDS, claim, &alike, "yes");
}
