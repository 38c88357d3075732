//! Cases that z3 decides where the rules do not, and the output where z3 is missing.

use std::process::Command;

use crate::directory::Directory;
use serde_json::Value;

struct Case {
    what: &'static str,
    /// Columns and CHECK of the table `t` with primary key `id`, or a whole schema; the CHECK or assertion is named `c`.
    table: &'static str,
    /// Bodies of procedures `p0(k, a, b, n)`, `p1` …; the verdict on the first is looked at.
    bodies: &'static [&'static str],
    /// `no`, or `yes` and what decides it.
    expect: &'static str,
}

const CASES: &[Case] = &[
    Case {
        what: "two adders below a common bound use up what is left",
        table: "x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK (x + y <= 100)",
        bodies: &["UPDATE t SET x = x + a WHERE id = k;", "UPDATE t SET y = y + a WHERE id = k;"],
        expect: "no",
    },
    Case {
        what: "guarded: what is added to one column is at most what is taken from the other",
        table: "x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK (x + y <= 100)",
        bodies: &[
            "IF a > b THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET x = x + a, y = y - b WHERE id = k;",
        ],
        expect: "yes proof",
    },
    Case {
        what: "the same with the guard the wrong way round",
        table: "x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK (x + y <= 100)",
        bodies: &[
            "IF a < b THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET x = x + a, y = y - b WHERE id = k;",
        ],
        expect: "no",
    },
    Case {
        what: "a guard on the old value says nothing in a merge",
        table: "x int NOT NULL, CONSTRAINT c CHECK (x >= 0)",
        bodies: &["SELECT x INTO n FROM t WHERE id = k; IF n < a THEN RAISE EXCEPTION 'no'; END IF; \
             UPDATE t SET x = x - a WHERE id = k;"],
        expect: "no",
    },
    Case {
        what: "within an IF",
        table: "x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK (x + y <= 100)",
        bodies: &["IF a <= b THEN UPDATE t SET x = x + a, y = y - b WHERE id = k; END IF;"],
        expect: "yes proof",
    },
    Case {
        what: "halves of a record that two transactions set may not fit",
        table: "x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK (x <= y)",
        bodies: &["UPDATE t SET x = a WHERE id = k;", "UPDATE t SET y = b WHERE id = k;"],
        expect: "no",
    },
    Case {
        what: "they fit where the one is always below ten and the other above",
        table: "x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK (x <= y)",
        bodies: &[
            "IF a > 10 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET x = a WHERE id = k;",
            "IF b < 10 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET y = b WHERE id = k;",
        ],
        expect: "yes proof",
    },
    Case {
        what: "constants that fit",
        table: "x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK (x <> y)",
        bodies: &["UPDATE t SET x = 1 WHERE id = k;", "UPDATE t SET y = 2 WHERE id = k;"],
        expect: "yes proof",
    },
    Case {
        what: "constants that do not",
        table: "x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK (x + y <> 3)",
        bodies: &["UPDATE t SET x = 1 WHERE id = k;", "UPDATE t SET y = 2 WHERE id = k;"],
        expect: "no",
    },
    Case {
        what: "an alternative that moves away from both bounds",
        table: "x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK (x >= 0 OR y >= 0)",
        bodies: &[
            "IF a <= 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET x = x + a, y = y + a WHERE id = k;",
        ],
        expect: "yes proof",
    },
    Case {
        what: "an alternative that each branch keeps by another half",
        table: "x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK (x >= 0 OR y >= 0)",
        bodies: &["UPDATE t SET x = x - 1 WHERE id = k;", "UPDATE t SET y = y - 1 WHERE id = k;"],
        expect: "no",
    },
    Case {
        what: "numeric columns: only the sign of a numeric amount is known, and it is enough",
        table: "x numeric(12,2) NOT NULL, y numeric(12,2) NOT NULL, CONSTRAINT c CHECK (x >= 0 OR y >= 0)",
        bodies: &["IF m <= 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET x = x + m WHERE id = k;"],
        expect: "yes proof",
    },
    Case {
        what: "floats are never proved",
        table: "x float8 NOT NULL, y float8 NOT NULL, CONSTRAINT c CHECK (x >= 0 OR y >= 0)",
        bodies: &["IF a <= 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET x = x + a WHERE id = k;"],
        expect: "no",
    },
    Case {
        what: "nor is a numeric that may be infinite",
        table: "x numeric NOT NULL, y numeric NOT NULL, CONSTRAINT c CHECK (x >= 0 OR y >= 0)",
        bodies: &["IF a <= 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET x = x + a WHERE id = k;"],
        expect: "no",
    },
    Case {
        what: "nor a column that may be NULL",
        table: "x int, y int NOT NULL, CONSTRAINT c CHECK (x >= 0 OR y >= 0)",
        bodies: &["IF a <= 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET x = x + a WHERE id = k;"],
        expect: "no",
    },
    Case {
        what: "a column that nobody changes is the same in every state",
        table: "x int NOT NULL, top int NOT NULL, kind text NOT NULL, \
                CONSTRAINT c CHECK (kind = 'free' OR x <= top OR x <= 100)",
        bodies: &["IF a > 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET x = x + a WHERE id = k;"],
        expect: "yes proof",
    },
    Case {
        what: "the highest of several values below a bound",
        table: "x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK (x <= 100 OR y <= 100)",
        bodies: &["UPDATE t SET x = greatest(x, a) WHERE id = k;"],
        expect: "yes rule",
    },
    Case {
        what: "a guard whose value may be NULL says nothing",
        table: "x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK (x + y <= 100)",
        bodies: &[
            "IF a > 0 OR n > 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET x = x + n, y = y - n WHERE id = k; \
             UPDATE t SET x = x + b WHERE id = k;",
        ],
        expect: "no",
    },
    Case {
        what: "a line and what it may cost come together",
        table: LINES,
        bodies: &["UPDATE bill SET most = most + a WHERE id = k; INSERT INTO line (bill, cost) VALUES (k, a);"],
        expect: "yes proof",
    },
    Case {
        what: "a line that costs less than what is added to the most it may",
        table: LINES,
        bodies: &[
            "IF a > b THEN RAISE EXCEPTION 'no'; END IF; UPDATE bill SET most = most + b WHERE id = k;
             INSERT INTO line (bill, cost) VALUES (k, a);",
            "INSERT INTO line (bill, cost) VALUES (k, a);",
        ],
        expect: "yes proof",
    },
    Case {
        what: "a line that costs more",
        table: LINES,
        bodies: &["IF a < b THEN RAISE EXCEPTION 'no'; END IF; UPDATE bill SET most = most + b WHERE id = k;
                   INSERT INTO line (bill, cost) VALUES (k, a);"],
        expect: "no",
    },
    Case {
        what: "what it may cost is added to another bill",
        table: LINES,
        bodies: &["UPDATE bill SET most = most + a WHERE id = n; INSERT INTO line (bill, cost) VALUES (k, a);"],
        expect: "no",
    },
    Case {
        what: "only on one of two paths",
        table: LINES,
        bodies: &["IF b > 0 THEN UPDATE bill SET most = most + a WHERE id = k; END IF;
                   INSERT INTO line (bill, cost) VALUES (k, a);"],
        expect: "no",
    },
    Case {
        what: "on both of two paths",
        table: LINES,
        bodies: &["IF b > 0 THEN UPDATE bill SET most = most + a WHERE id = k;
                   ELSE UPDATE bill SET most = most + a + 1 WHERE id = k; END IF;
                   INSERT INTO line (bill, cost) VALUES (k, a);"],
        expect: "yes proof",
    },
    Case {
        what: "only where the bill is still open",
        table: LINES,
        bodies: &["UPDATE bill SET most = most + a WHERE id = k AND open;
                   INSERT INTO line (bill, cost) VALUES (k, a);"],
        expect: "no",
    },
    Case {
        what: "lines in a loop, each with what it may cost",
        table: LINES,
        bodies: &["FOR i IN 1..n LOOP UPDATE bill SET most = most + a WHERE id = k;
                   INSERT INTO line (bill, cost) VALUES (k, a); END LOOP;"],
        expect: "yes proof",
    },
    Case {
        what: "lines in a loop, and only once what one may cost",
        table: LINES,
        bodies: &["UPDATE bill SET most = most + a WHERE id = k;
                   FOR i IN 1..n LOOP INSERT INTO line (bill, cost) VALUES (k, a); END LOOP;"],
        expect: "no",
    },
    Case {
        what: "beside a transaction that sets what a bill may cost",
        table: LINES,
        bodies: &[
            "UPDATE bill SET most = most + a WHERE id = k; INSERT INTO line (bill, cost) VALUES (k, a);",
            "UPDATE bill SET most = b WHERE id = k;",
        ],
        expect: "no",
    },
    Case {
        what: "without a foreign key the bill may come in the other branch",
        table: "CREATE TABLE bill (id bigint PRIMARY KEY, most int NOT NULL);
                CREATE TABLE line (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, bill bigint NOT NULL, cost int NOT NULL);
                CREATE ASSERTION c CHECK (NOT EXISTS (SELECT 1 FROM bill
                    WHERE (SELECT coalesce(sum(cost), 0) FROM line WHERE line.bill = bill.id) > most));",
        bodies: &[
            "UPDATE bill SET most = most + a WHERE id = k; INSERT INTO line (bill, cost) VALUES (k, a);",
            "INSERT INTO bill (id, most) VALUES (k, a);",
        ],
        expect: "no",
    },
    Case {
        what: "a line is moved, which takes the row that has the amount",
        table: LINES,
        bodies: &["DELETE FROM line WHERE id = k; UPDATE bill SET most = most - a WHERE id = n;"],
        expect: "no",
    },
    Case {
        what: "places that are made as they are taken",
        table: "CREATE TABLE event (id bigint PRIMARY KEY, places int NOT NULL);
                CREATE TABLE guest (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                                    event bigint NOT NULL REFERENCES event);
                CREATE ASSERTION c CHECK (NOT EXISTS (SELECT 1 FROM event
                    WHERE (SELECT count(*) FROM guest WHERE guest.event = event.id) > places));",
        bodies: &[
            "UPDATE event SET places = places + 2 WHERE id = k; INSERT INTO guest (event) VALUES (k);
             INSERT INTO guest (event) VALUES (k);",
            "INSERT INTO guest (event) VALUES (k);",
        ],
        expect: "yes proof",
    },
    Case {
        what: "a total of two kinds of row",
        table: "CREATE TABLE paid (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int NOT NULL);
                CREATE TABLE owed (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int NOT NULL);
                CREATE ASSERTION c CHECK ((SELECT coalesce(sum(amount), 0) FROM owed)
                                          <= 3 * (SELECT coalesce(sum(amount), 0) FROM paid));",
        bodies: &["IF a < 0 OR b > 2 * a THEN RAISE EXCEPTION 'no'; END IF; INSERT INTO paid (amount) VALUES (a);
                   INSERT INTO owed (amount) VALUES (b);"],
        expect: "yes proof",
    },
    Case {
        what: "a total of two kinds of row, NULL without any",
        table: "CREATE TABLE paid (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int NOT NULL);
                CREATE TABLE owed (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int NOT NULL);
                CREATE ASSERTION c CHECK ((SELECT sum(amount) FROM owed) <= 3 * (SELECT sum(amount) FROM paid));",
        bodies: &["IF a < 0 OR b > 2 * a THEN RAISE EXCEPTION 'no'; END IF; INSERT INTO paid (amount) VALUES (a);
                   INSERT INTO owed (amount) VALUES (b);"],
        expect: "no",
    },
];

const LINES: &str = "
    CREATE TABLE bill (id bigint PRIMARY KEY, most int NOT NULL, open boolean NOT NULL);
    CREATE TABLE line (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, bill bigint NOT NULL REFERENCES bill,
                       cost int NOT NULL);
    CREATE ASSERTION c CHECK (NOT EXISTS (SELECT 1 FROM bill
        WHERE (SELECT coalesce(sum(cost), 0) FROM line WHERE line.bill = bill.id) > most));";

fn plan(case: &Case, at: usize, z3: Option<&str>) -> Value {
    let mut text = match case.table.contains("CREATE TABLE") {
        true => case.table.to_owned(),
        false => format!("CREATE TABLE t (id bigint PRIMARY KEY, {});\n", case.table),
    };
    for (index, body) in case.bodies.iter().enumerate() {
        text += &format!(
            "CREATE PROCEDURE p{index}(k bigint, a int, b int, n int, m numeric) LANGUAGE plpgsql AS $$\n\
             BEGIN {body} END; $$;\n"
        );
    }
    let directory = Directory::with(&format!("{at}-{}", z3.is_some()), &[("schema.sql", text)]);
    let file = directory.0.join("schema.sql");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["analyze", "--format", "json"]).arg(&file);
    if let Some(z3) = z3 {
        command.env("WEIR_Z3", z3);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {}", case.what, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn first(plan: &Value) -> &Value {
    let is = |verdict: &&Value| verdict["invariant"] == "c" && verdict["transaction"] == "p0";
    plan["verdicts"].as_array().unwrap().iter().find(is).expect("the verdict")
}

fn verdict(plan: &Value) -> String {
    let verdict = first(plan);
    // Which of a rule and the search says no is not at stake here.
    match verdict["confluent"].as_bool().unwrap() {
        true => format!("yes {}", verdict["decided_by"].as_str().unwrap()),
        false => "no".to_owned(),
    }
}

#[test]
fn cases() {
    if Command::new("z3").arg("--version").output().is_err() {
        eprintln!("z3 is not installed (ci/install.sh test installs it): nothing is proved");
        return;
    }
    let mut wrong = Vec::new();
    for (at, case) in CASES.iter().enumerate() {
        let found = verdict(&plan(case, at, None));
        if found != case.expect {
            wrong.push(format!("{}: {found}, not {}", case.what, case.expect));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The other half of Theorem 1: what a transaction adds to both sides of an equality comes to the same.
#[test]
fn alone() {
    const TOTALS: &str = "
        CREATE TABLE bill (id bigint PRIMARY KEY, total int NOT NULL);
        CREATE TABLE line (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, bill bigint NOT NULL REFERENCES bill,
                           cost int NOT NULL);
        CREATE ASSERTION c CHECK (NOT EXISTS (SELECT 1 FROM bill
            WHERE (SELECT coalesce(sum(cost), 0) FROM line WHERE line.bill = bill.id) <> total));";
    let cases: [(&'static [&'static str], &str); 7] = [
        (&["UPDATE bill SET total = total + a WHERE id = k; INSERT INTO line (bill, cost) VALUES (k, a);"], "proved"),
        (&["UPDATE bill SET total = total + (a + b) WHERE id = k; INSERT INTO line (bill, cost) VALUES (k, a);
             INSERT INTO line (bill, cost) VALUES (k, b);"], "proved"),
        (&["UPDATE bill SET total = total + 3 * a - b WHERE id = k; INSERT INTO line (bill, cost) VALUES (k, 2 * a);
             INSERT INTO line (bill, cost) VALUES (k, a - b);"], "proved"),
        (&["IF a <> b THEN RAISE EXCEPTION 'no'; END IF; UPDATE bill SET total = total + a WHERE id = k;
             INSERT INTO line (bill, cost) VALUES (k, b);"], "proved"),
        (&["UPDATE bill SET total = total + (a + b) WHERE id = k; INSERT INTO line (bill, cost) VALUES (k, a);
             INSERT INTO line (bill, cost) VALUES (n, b);"], "no"),
        (&["UPDATE bill SET total = total + (a + b) WHERE id = k; INSERT INTO line (bill, cost) VALUES (k, a);
             IF b > 0 THEN INSERT INTO line (bill, cost) VALUES (k, b); END IF;"], "no"),
        (&["UPDATE bill SET total = total + (a + b) WHERE id = k; INSERT INTO line (bill, cost) VALUES (k, a);
             INSERT INTO line (bill, cost) VALUES (k, b + 1);"], "no"),
    ];
    for (at, (bodies, expect)) in cases.iter().enumerate() {
        let case = Case { what: "alone", table: TOTALS, bodies, expect: "" };
        let plan = plan(&case, 1000 + at, None);
        assert_eq!(first(&plan)["alone"], *expect, "{bodies:?}");
    }
}

/// Nothing is proved, and a diagnostic says so; what the rules decide stays. The search then looks for counterexamples to
/// what the solver would have proved, beside the transaction itself and whoever else is confluent: there are none.
#[test]
fn without_a_solver() {
    for (at, case) in CASES.iter().enumerate() {
        let plan = plan(case, at, Some("/nowhere/z3"));
        assert!(!verdict(&plan).ends_with("proof"), "{}", case.what);
        let told = plan["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .any(|finding| finding["message"].as_str().unwrap().starts_with("/nowhere/z3 not found"));
        assert!(told || !case.expect.ends_with("proof"), "{}: not told", case.what);
        let refuted = !first(&plan)["witness"].is_null() && first(&plan)["with"] == "p0";
        assert!(
            !refuted || !case.expect.ends_with("proof"),
            "{}: the search has a counterexample",
            case.what
        );
    }
}
