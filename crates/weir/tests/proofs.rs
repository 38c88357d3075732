//! What z3 decides where the rules do not, case by case; and what is said where there is no z3.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

struct Case {
    what: &'static str,
    /// Columns and CHECK of the table `t` with primary key `id`; the CHECK is named `c`.
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
];

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn plan(case: &Case, at: usize, z3: Option<&str>) -> Value {
    let path = std::env::temp_dir().join(format!("weir-proofs-{}-{at}-{}", std::process::id(), z3.is_some()));
    let directory = Directory(path);
    std::fs::create_dir_all(&directory.0).unwrap();
    let mut text = format!("CREATE TABLE t (id bigint PRIMARY KEY, {});\n", case.table);
    for (index, body) in case.bodies.iter().enumerate() {
        text += &format!(
            "CREATE PROCEDURE p{index}(k bigint, a int, b int, n int, m numeric) LANGUAGE plpgsql AS $$\n\
             BEGIN {body} END; $$;\n"
        );
    }
    let file = directory.0.join("schema.sql");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["analyze", "--format", "json"]).arg(&file);
    if let Some(z3) = z3 {
        command.env("WEIR_Z3", z3);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {}", case.what, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn verdict(plan: &Value) -> String {
    let is = |verdict: &&Value| verdict["invariant"] == "c" && verdict["transaction"] == "p0";
    let verdict = plan["verdicts"].as_array().unwrap().iter().find(is).expect("the verdict");
    // What says no, a rule, the search or nobody, is not at stake here.
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

/// Nothing is proved, and a diagnostic says so; what the rules decide stays.
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
    }
}
