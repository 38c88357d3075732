//! Executions beside findings: of anomalies and of active-active replication, over all examples, compared with
//! `testdata/executions`. `WEIR_UPDATE=1` rewrites the files.

use crate::support;

use std::fmt::Write as _;

use weir_analysis::{Executed, active_active, registry};
use weir_search::{ShowLimits, show};
use weir_sql::Application;

/// Every finding of the application with its execution, or why there is none.
fn told(app: &Application) -> (String, usize, usize) {
    let mut analysis = weir_analysis::analyze(app);
    let anomalies = show::anomalies(app, &mut analysis, ShowLimits::default());
    let mut conflicts = active_active::conflicts(app, &analysis);
    let replicated = show::conflicts(app, &analysis, &mut conflicts, ShowLimits::default());
    let mut text = String::new();
    let name = |procedure: usize| app.procedures[procedure].name.as_str();
    for anomaly in &analysis.anomalies {
        let id = registry::id_of(anomaly.kind.finding());
        let _ = writeln!(text, "{id} {} beside {}", name(anomaly.transaction), name(anomaly.with));
        describe(&anomaly.executed, &mut text);
    }
    for conflict in &conflicts {
        let id = registry::id_of(conflict.kind);
        let what = conflict.invariant.clone();
        let what = what.or(conflict.table.map(|table| app.catalog.table(table).name.clone()));
        let (one, other) = (name(conflict.transaction), name(conflict.with));
        let _ = writeln!(text, "{id} {one} beside {other}: {}", what.unwrap_or_default());
        describe(&conflict.executed, &mut text);
    }
    (text, anomalies.asked - anomalies.shown, replicated.asked - replicated.shown)
}

fn describe(executed: &Executed, text: &mut String) {
    match executed {
        Executed::Shown(execution) => {
            for (title, words) in execution.steps() {
                let _ = writeln!(text, "  {title}: {words}");
            }
        }
        Executed::NotShown(why) => {
            let _ = writeln!(text, "  not shown: {why}");
        }
        Executed::NotTried => panic!("nobody has tried:\n{text}"),
    }
}

/// All but so many anomalies, and so many conflicts, are shown.
#[track_caller]
fn check(example: &str, anomalies_without: usize, conflicts_without: usize) {
    let (text, anomalies, conflicts) = told(&support::example(example));
    support::golden(&format!("testdata/executions/{example}.txt"), &text);
    assert_eq!((anomalies, conflicts), (anomalies_without, conflicts_without), "{text}");
}

#[test]
fn payroll() {
    check("payroll", 0, 1);
}

#[test]
fn tpcc() {
    check("tpcc", 0, 7);
}

#[test]
fn smallbank() {
    check("smallbank", 2, 0);
}

#[test]
fn escrow_tickets() {
    check("escrow-tickets", 0, 0);
}

#[test]
fn social() {
    check("social", 2, 1);
}

#[test]
fn auction() {
    check("auction", 0, 1);
}

#[test]
fn rubis() {
    check("rubis", 2, 0);
}

#[test]
fn tpcw() {
    check("tpcw", 9, 5);
}

const SCHEMA: &str = "
    CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL, owner integer NOT NULL, email text UNIQUE);
    CREATE TABLE entry (id bigserial PRIMARY KEY, account integer NOT NULL REFERENCES account (id), amount integer NOT NULL);
    CREATE TABLE duty (person integer PRIMARY KEY, on_call boolean NOT NULL);
    CREATE TABLE note (id integer PRIMARY KEY, text text NOT NULL, length integer NOT NULL);
    COMMENT ON TABLE account IS 'weir: partition by (id)';
    COMMENT ON TABLE duty IS 'weir: partition by (person)';";

/// Functions f and g with parameters a, b, n (integers) and t (text), and the finding whose execution is told.
const CASES: &[(&str, &[&str])] = &[
    (
        "WEIR-A01",
        &[
            "SELECT balance INTO x FROM account WHERE id = a; UPDATE account SET balance = x - n WHERE id = a;",
        ],
    ),
    // Somebody has to stay on call (Cahill et al.).
    (
        "WEIR-A02",
        &["SELECT count(*) INTO x FROM duty WHERE on_call;
           IF x < 2 THEN RAISE EXCEPTION 'somebody has to stay'; END IF;
           UPDATE duty SET on_call = false WHERE person = a;"],
    ),
    (
        "WEIR-A03",
        &[
            "SELECT owner INTO x FROM account WHERE id = a; SELECT balance INTO y FROM account WHERE id = x;",
            "UPDATE account SET owner = b WHERE id = a; UPDATE account SET balance = n WHERE id = b; y := 0;",
        ],
    ),
    (
        "WEIR-A04",
        &[
            "SELECT sum(balance * id) INTO y FROM account;",
            "UPDATE account SET balance = balance + n WHERE id = a;",
        ],
    ),
    ("WEIR-M01", &["UPDATE account SET balance = balance + n WHERE id = a;"]),
    // One column each, and the row goes as a whole.
    ("WEIR-M01", &["UPDATE note SET text = t WHERE id = a;", "UPDATE note SET length = n WHERE id = a;"]),
    ("WEIR-M02", &["INSERT INTO note VALUES (a, t, n);"]),
    ("WEIR-M03", &["INSERT INTO account VALUES (a, n, b, t);"]),
    ("WEIR-M04", &["UPDATE note SET text = t WHERE id = a;", "DELETE FROM note WHERE id = a;"]),
    (
        "WEIR-M05",
        &["INSERT INTO entry (account, amount) VALUES (a, n);", "DELETE FROM account WHERE id = a;"],
    ),
    ("WEIR-M06", &["INSERT INTO entry (account, amount) VALUES (a, n);"]),
    // Cases that the engine does not run, and cases that are as if the other had come first.
    ("WEIR-M01", &["LOOP UPDATE note SET length = length + n WHERE id = a; EXIT; END LOOP;"]),
    ("WEIR-M02", &["INSERT INTO note VALUES (a, t, n) ON CONFLICT (id) DO NOTHING;"]),
];

#[test]
fn small_cases() {
    let mut text = String::new();
    for (id, bodies) in CASES {
        let mut schema = SCHEMA.to_owned();
        for (body, name) in bodies.iter().zip(["f", "g"]) {
            schema += &format!(
                "CREATE FUNCTION {name}(a integer, b integer, n integer, t text) RETURNS integer LANGUAGE plpgsql AS $$
                 DECLARE x integer; y integer; BEGIN {body} RETURN y; END; $$;"
            );
            let words: Vec<&str> = body.split_whitespace().collect();
            let _ = writeln!(text, "{name}: {}", words.join(" "));
        }
        let (all, _, _) = told(&support::application(&[("bank.sql".to_owned(), schema)]));
        let from = all.find(id).unwrap_or_else(|| panic!("there is no {id}:\n{all}"));
        let mut lines = all[from..].lines();
        let title = lines.next().unwrap_or_default();
        let _ = writeln!(text, "{title}");
        lines.take_while(|line| line.starts_with(' ')).for_each(|line| text += &format!("{line}\n"));
        text.push('\n');
    }
    support::golden("testdata/executions/cases.txt", &text);
}

/// The same input gives the same executions.
#[test]
fn executions_are_deterministic() {
    let app = support::example("payroll");
    assert_eq!(told(&app), told(&app));
}
