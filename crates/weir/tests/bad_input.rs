//! Invalid input is reported once, with its position and a remedy; exit code 2, no stack trace.

use std::path::Path;
use std::process::{Command, Output};

use crate::directory::Directory;

const SCHEMA: &str = "\
CREATE TABLE department (
    id   integer PRIMARY KEY,
    name text NOT NULL
);
";

fn weir(arguments: &[&str], path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).arg(path).output().unwrap()
}

/// Runs `weir analyze` and `weir run` on these files; both refuse them in the same words.
#[track_caller]
fn check(name: &str, files: &[(&str, &str)], place: &str, expected: &[&str]) {
    let files: Vec<(&str, &[u8])> = files.iter().map(|(file, text)| (*file, text.as_bytes())).collect();
    let directory = Directory::with(name, &files);
    for command in ["analyze", "run"] {
        let output = weir(&[command], &directory.0);
        check_refusal(&output, &directory.0.join(place).display().to_string(), expected);
        let output = weir(&[command, "--format", "json"], &directory.0);
        check_document(&output, &directory.0.join(place).display().to_string(), expected);
    }
}

/// The same for scripts: one document on standard output, the words for people on standard error.
#[track_caller]
fn check_document(output: &Output, start: &str, expected: &[&str]) {
    assert_eq!(output.status.code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    let errors = document["errors"].as_array().expect("a list of errors");
    assert_eq!(errors.len(), 1, "{document}");
    let text = |of: &serde_json::Value| of.as_str().unwrap_or_default().to_owned();
    let source = &errors[0]["source"];
    let place = format!("{}:{}:{}: error: ", text(&source["file"]), source["line"], source["column"]);
    assert!(place.starts_with(start) || start.starts_with(&place), "{document}");
    assert!(!text(&errors[0]["hint"]).is_empty(), "{document}");
    let whole =
        format!("{}{}{}^", text(&errors[0]["message"]), text(&errors[0]["state"]), text(&errors[0]["hint"]));
    // The line itself is shown to people only.
    assert!(
        expected.iter().filter(|piece| whole.contains(**piece)).count() * 2 >= expected.len(),
        "{document}"
    );
}

#[track_caller]
fn check_refusal(output: &Output, start: &str, expected: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(output.stdout.is_empty(), "standard output: {}", String::from_utf8_lossy(&output.stdout));
    assert!(message.starts_with(start), "expected {start}…\n{message}");
    for piece in expected {
        assert!(message.contains(piece), "expected {piece}\n{message}");
    }
    for forbidden in ["panicked", "RUST_BACKTRACE", "stack backtrace", "\u{1b}["] {
        assert!(!message.contains(forbidden), "{forbidden}\n{message}");
    }
    assert_eq!(message.matches(": error: ").count(), 1, "one message\n{message}");
    assert!(message.contains("hint: "), "no remedy\n{message}");
}

#[test]
fn a_syntax_error() {
    check(
        "syntax",
        &[("schema.sql", "CREATE TABLE t (\n    id integer PRIMARY KEYS\n);\n")],
        "schema.sql:2:24: error: ",
        &["KEYS", "^", "did you mean KEY?"],
    );
    check(
        "tabel",
        &[("schema.sql", "CREATE TABLE t (id integer PRIMARY KEY);\nCREATE TABEL u (id integer)")],
        "schema.sql:2:8: error: ",
        &["TABEL", "^", "did you mean TABLE?"],
    );
}

#[test]
fn a_last_statement_that_is_not_finished() {
    check(
        "unfinished",
        &[("schema.sql", "CREATE TABLE t (id integer PRIMARY KEY);\n\nCREATE TABLE u (id integer\n")],
        "schema.sql:4:1: error: ",
        &["end of input", "what begins on line 3 is not finished"],
    );
    let procedures = "CREATE PROCEDURE p(which integer) LANGUAGE plpgsql AS $$\nBEGIN\n    DELETE FROM department WHERE id = which\nEND;\n$$;\n";
    check(
        "semicolon",
        &[("schema.sql", SCHEMA), ("procedures.sql", procedures)],
        "procedures.sql:",
        &["syntax error"],
    );
}

/// Ten thousand lines before the mistake are no matter.
#[test]
fn a_mistake_on_line_ten_thousand() {
    let mut schema: String = (0..2_500)
        .map(|n| format!("CREATE TABLE t{n} (\n    id integer PRIMARY KEY,\n    n integer\n);\n"))
        .collect();
    schema += "CREATE TABLE u (id integre);\n";
    check(
        "lines",
        &[("schema.sql", &schema)],
        "schema.sql:10001:20: error: ",
        &["integre", "^", "did you mean integer?"],
    );
}

/// `weir analyze` takes it for a function that may give anything, and says how to mend that; nothing can run it.
#[test]
fn a_function_that_does_not_exist() {
    let call = |what: &str| {
        format!("CREATE PROCEDURE p(which integer) LANGUAGE plpgsql AS $$\nBEGIN\n    {what}\nEND;\n$$;\n")
    };
    for (what, column, name) in [
        ("UPDATE department SET name = frob(which) WHERE id = which;", 34, "function frob(integer)"),
        ("PERFORM frob(which);", 13, "function frob(integer)"),
    ] {
        let procedures = call(what);
        let files = [("schema.sql", SCHEMA.as_bytes()), ("procedures.sql", procedures.as_bytes())];
        let directory = Directory::with("frob", &files);
        let place = format!("{}:3:{column}", directory.0.join("procedures.sql").display());
        check_refusal(&weir(&["run"], &directory.0), &format!("{place}: error: {name}"), &["42883"]);
        let text = weir(&["analyze"], &directory.0);
        let words = String::from_utf8_lossy(&text.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.status.code(), Some(0), "{words}");
        for piece in [&format!("{name} does not exist"), "give the file that creates it too", &place] {
            assert!(words.contains(piece), "{piece}: {words}");
        }
        let json = weir(&["analyze", "--format", "json"], &directory.0);
        let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        let finding = &document["diagnostics"][0];
        assert_eq!((&finding["id"], &finding["source"]["column"]), (&"WEIR-N02".into(), &column.into()));
        assert!(
            finding["message"].as_str().unwrap().contains("give the file that creates it too"),
            "{finding}"
        );
    }
    check(
        "frob-procedure",
        &[("schema.sql", SCHEMA), ("procedures.sql", &call("CALL frob(which);"))],
        "procedures.sql:3:10: error: procedure frob does not exist",
        &["42883", "create it in one of the files"],
    );
}

/// Small applications are answered for, and what they lack is said.
#[test]
fn the_smallest_applications() {
    let cases: [(&str, &str, &[&str]); 4] = [
        (
            "one table",
            "CREATE TABLE t (id integer PRIMARY KEY, n integer);",
            &["No procedures were given", "insert t"],
        ),
        ("no key", "CREATE TABLE t (n integer);", &["insert t", "no invariant is declared"]),
        (
            "no invariants",
            "CREATE TABLE t (a integer, b integer);
             CREATE PROCEDURE p(x integer) LANGUAGE sql AS $$ UPDATE t SET a = x WHERE b = 1 $$;",
            &["no invariant is declared, so there is nothing to keep", "WEIR-N05"],
        ),
        ("empty files beside it", "CREATE TABLE t (id integer PRIMARY KEY);", &["insert t", "delete t"]),
    ];
    for (name, schema, expected) in cases {
        let files: [(&str, &[u8]); 3] =
            [("schema.sql", schema.as_bytes()), ("procedures.sql", b""), ("invariants.sql", b"-- none\n")];
        let directory = Directory::with(&name.replace(' ', "-"), &files);
        let output = weir(&["analyze"], &directory.0);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for piece in expected {
            assert!(words.contains(piece), "{name}: {piece}\n{text}");
        }
        let json = weir(&["analyze", "--format", "json"], &directory.0);
        assert_eq!(json.status.code(), Some(0), "{name}");
        let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(document["version"], 1, "{name}");
    }
}

#[test]
fn an_unknown_column() {
    let procedures = "CREATE PROCEDURE rename(which integer) LANGUAGE plpgsql AS $$\nBEGIN\n    UPDATE department SET title = 'x' WHERE id = which;\nEND;\n$$;\n";
    check(
        "column",
        &[("schema.sql", SCHEMA), ("procedures.sql", procedures)],
        "procedures.sql:3:27: error: ",
        &["title", "^", "42703"],
    );
}

#[test]
fn procedures_without_their_schema() {
    let procedures = "CREATE FUNCTION seen(which integer) RETURNS TABLE (id integer) LANGUAGE sql AS $$\n    SELECT id FROM department WHERE id = which;\n$$;\n";
    check(
        "schemaless",
        &[("schema.sql", procedures)],
        "schema.sql:2:20: error: ",
        &["department", "42P01", "hint: no table is defined here"],
    );
}

#[test]
fn a_wrong_type() {
    let schema = "CREATE TABLE t (\n    id integer PRIMARY KEY,\n    CHECK (id > true)\n);\n";
    check("type", &[("schema.sql", schema)], "schema.sql:3:", &["integer", "boolean", "^"]);
}

#[test]
fn a_type_that_does_not_exist() {
    let schema = "CREATE TABLE t (\n    id integr PRIMARY KEY\n);\n";
    check(
        "typename",
        &[("schema.sql", schema)],
        "schema.sql:2:8: error: ",
        &["integr", "^", "did you mean integer?"],
    );
    let schema = "CREATE TABLE t (\n    id hologram PRIMARY KEY\n);\n";
    check(
        "hologram",
        &[("schema.sql", schema)],
        "schema.sql:2:8: error: ",
        &["hologram", "^", "types are integer"],
    );
}

#[test]
fn a_foreign_key_to_nowhere() {
    let schema =
        "CREATE TABLE t (\n    id integer PRIMARY KEY,\n    boss integer REFERENCES nowhere (id)\n);\n";
    check("nowhere", &[("schema.sql", schema)], "schema.sql:3:", &["nowhere", "^"]);
}

#[test]
fn an_unsupported_feature_in_a_procedure() {
    let procedures = b"CREATE PROCEDURE p() LANGUAGE plpgsql AS $$\nBEGIN\n    LISTEN news;\nEND;\n$$;\n";
    let files: [(&str, &[u8]); 2] = [("schema.sql", SCHEMA.as_bytes()), ("procedures.sql", procedures)];
    let directory = Directory::with("unsupported", &files);
    let start = directory.0.join("procedures.sql:3:5: error: ").display().to_string();
    check_refusal(&weir(&["run"], &directory.0), &start, &["LISTEN", "not supported", "hint: "]);
    // An analysis alone goes on without it, and says so.
    let output = weir(&["analyze"], &directory.0);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("LISTEN") && text.contains("procedures.sql:3:5"), "{text}");
}

#[test]
fn an_assertion_over_an_unknown_table() {
    let invariants = "CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1 FROM employee));\n";
    check(
        "assertion",
        &[("schema.sql", SCHEMA), ("invariants.sql", invariants)],
        "invariants.sql:1:53: error: ",
        &["employee", "^"],
    );
}

#[test]
fn an_empty_directory() {
    let directory = Directory::with::<&str>("empty", &[]);
    for command in ["analyze", "run"] {
        let start = format!("{}: error: the directory is empty", directory.0.display());
        check_refusal(&weir(&[command], &directory.0), &start, &["hint: ", "schema.sql"]);
    }
}

#[test]
fn a_directory_without_a_schema() {
    let directory = Directory::with("noschema", &[("readme.txt", b"hello")]);
    let start = format!("{}: error: there is no schema.sql", directory.0.display());
    check_refusal(&weir(&["analyze"], &directory.0), &start, &["hint: "]);
}

#[test]
fn a_path_that_is_not_there() {
    let path = std::env::temp_dir().join("weir-no-such-directory");
    let start = format!("{}: error: no such file", path.display());
    check_refusal(&weir(&["analyze"], &path), &start, &["hint: "]);
}

#[test]
fn bytes_that_are_no_text() {
    let directory = Directory::with("latin", &[("schema.sql", b"-- caf\xe9\nSELECT 1;\n")]);
    let start = format!("{}:1:7: error: byte 0xe9", directory.0.join("schema.sql").display());
    check_refusal(&weir(&["analyze"], &directory.0), &start, &["UTF-8", "hint: "]);
    let directory = Directory::with("zero", &[("schema.sql", b"SELECT\n \0;\n")]);
    let start = format!("{}:2:2: error: a zero byte", directory.0.join("schema.sql").display());
    check_refusal(&weir(&["analyze"], &directory.0), &start, &["hint: "]);
}

#[test]
fn a_file_with_nothing_in_it() {
    let directory = Directory::with("blank", &[("schema.sql", b"\n  \n")]);
    let start = format!("{}:1:1: error: there is no SQL", directory.0.join("schema.sql").display());
    check_refusal(&weir(&["analyze"], &directory.0), &start, &["hint: "]);
    for text in ["", "-- a comment\n/* and\n/* another */ */\n", "-- without its end"] {
        let directory = Directory::with("comments", &[("schema.sql", text.as_bytes())]);
        let start = format!("{}:1:1: error: there is no SQL", directory.0.join("schema.sql").display());
        for command in ["analyze", "run"] {
            check_refusal(&weir(&[command], &directory.0), &start, &["hint: "]);
            let json = weir(&[command, "--format", "json"], &directory.0);
            let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
            assert!(document["errors"][0]["message"].as_str().unwrap().starts_with(&start), "{document}");
            assert!(document["errors"][0]["hint"].is_string(), "{document}");
        }
    }
    let directory = Directory::with("settings", &[("schema.sql", b"SET search_path = public;\n")]);
    let start = format!("{}:1:1: error: there is no table", directory.0.join("schema.sql").display());
    check_refusal(&weir(&["analyze"], &directory.0), &start, &["hint: "]);
}

#[test]
fn a_run_without_procedures() {
    let directory = Directory::with("noprocedure", &[("schema.sql", SCHEMA.as_bytes())]);
    let start = format!("{}: error: there is no procedure", directory.0.display());
    check_refusal(&weir(&["run"], &directory.0), &start, &["hint: "]);
}

#[test]
fn an_assertion_that_the_initial_data_violates() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL);\nCOMMENT ON TABLE t IS 'weir: partition by (id)';\n";
    let procedures = "CREATE PROCEDURE p(which integer) LANGUAGE plpgsql AS $$\nBEGIN\n    UPDATE t SET n = n + 1 WHERE id = which;\nEND;\n$$;\n";
    let invariants = "\nCREATE ASSERTION n_is_small CHECK (NOT EXISTS (SELECT 1 FROM t WHERE n > 5));\n";
    let workload = "[load.t]\nfor = [\"i in 1..10\"]\nid = \"i\"\nn = \"i\"\n[mix]\np = 1\n[parameters.p]\nwhich = \"uniform(1, 10)\"\n";
    let files: [(&str, &[u8]); 4] = [
        ("schema.sql", schema.as_bytes()),
        ("procedures.sql", procedures.as_bytes()),
        ("invariants.sql", invariants.as_bytes()),
        ("workload.toml", workload.as_bytes()),
    ];
    let directory = Directory::with("initial", &files);
    let output = weir(&["run", "--format", "json", "--seconds", "1"], &directory.0);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let place = format!(
        "{}:2:18: error: the initial data violates n_is_small",
        directory.0.join("invariants.sql").display()
    );
    assert!(
        message.contains(&place) && message.contains("hint: ") && !message.contains("panicked"),
        "{message}"
    );
}

#[test]
fn usage_errors_have_exit_code_2_as_well() {
    for arguments in
        [&["run"][..], &["analyze"], &["run", ".", "--shards", "0"], &["run", ".", "--set", "x"], &["fly"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    // A number below zero is a wrong value, not an option that nobody knows.
    for (arguments, expected) in [
        (&["bench", "ycsb", "--shards", "-1"][..], "1..=256"),
        (&["bench", "ycsb", "--clients", "-1"], "1..=100000"),
        (&["bench", "ycsb", "--transactions", "-1"], "a number from 1 to 18446744073709551615"),
        (&["bench", "ycsb", "--seconds", "-1"], "a number of seconds above 0"),
        (&["bench", "ycsb", "--seed", "-1"], "a number from 0 to"),
        (&["bench", "ycsb", "--repeat", "-1"], "1..=1000"),
        (&["bench", "ycsb", "--sweep", "items=,"], "write NAME=V1,V2"),
        (&["sim", "items", "--seeds", "-1..5"], "write FROM..TO"),
        (&["sim", "items", "--seeds", "5..5"], "write FROM..TO"),
        (&["sim", "items", "--seeds", "0..99999999999999999999"], "write FROM..TO"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[track_caller]
fn check_arguments(arguments: &[&str], start: &str, expected: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap();
    check_refusal(&output, start, expected);
}

#[test]
fn a_benchmark_that_cannot_be() {
    let check = |arguments: &[&str], expected: &[&str]| {
        check_arguments(&[&["bench", "ycsb"], arguments].concat(), "weir bench ycsb: error: ", expected);
    };
    check(&["--protocol", "2pc"], &["no protocol `2pc`", "ramp-hybrid", "e-pci"]);
    check(&["--set", "items=3"], &["length=4 asks for more different items than there are: items=3"]);
    check(&["--sweep", "items=9,3"], &["items=3"]);
    check(&["--set", "size=3"], &["no setting `size`", "value_bytes"]);
    for wrong in ["items=0", "items=-5", "items=99999999999999999999", "read_share=nan", "theta=1", "keys=x"]
    {
        check(&["--set", wrong], &[&format!("`{wrong}` is wrong")]);
    }
    // Nothing has begun by then.
    check_arguments(&["bench", "ycbs"], "weir bench: error: `ycbs`", &["tpcc, ycsb"]);
    check_arguments(&["bench", "tpcc", "--protocol", "2pc"], "weir: error: ", &["`2pc`", "ramp-fast"]);
    check_arguments(&["bench", "tpcc", "--set", "x=1"], "examples/tpcc/workload.toml:", &["--set x=1"]);
}

/// Nothing is started before all of it is found right.
#[test]
fn a_benchmark_of_servers_that_cannot_be() {
    let here = env!("CARGO_BIN_EXE_weir");
    let tpcc = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tpcc");
    let cases: [(&[&str], &str, &[&str]); 16] = [
        (
            &["pgbench", "--target", "oracle"],
            "pgbench",
            &["`oracle` is no target", "weir:, postgres, baseline:PROGRAM"],
        ),
        (&["pgbench", "--target", "weir:cluster.toml"], "pgbench", &["is a cluster", "`weir:` alone"]),
        (&["copy", "--target", "postgres://me@there/db"], "copy", &["runs already", "`postgres` alone"]),
        (
            &["copy", "--target", "weir:,baseline:no-such-program"],
            "copy",
            &["is not there", "an earlier Weir"],
        ),
        (&["copy", "--target", "baseline:"], "copy", &["names no program"]),
        (&["copy", "--target", "weir:,weir"], "copy", &["named twice", "baseline:PROGRAM"]),
        (&[tpcc, "--target", "postgres"], tpcc, &["PostgreSQL alone", "--target weir:,postgres"]),
        (&[tpcc, "--target", "weir:", "--count", "new_ordre"], tpcc, &["new_ordre", "new_order, payment"]),
        (
            &[tpcc, "--target", "weir:", "--set", "warehouses=2"],
            tpcc,
            &["--set warehouses=2", "pgbench=PROCEDURE", "workload.toml"],
        ),
        // Of the files that the program has within it.
        (&["tpcc", "--target", "weir:", "--count", "new_ordre"], "tpcc", &["new_order, payment"]),
        (&["tpcc", "--count", "new_order"], "tpcc", &["--count", "--target weir:,postgres"]),
        (&["pgbench", "--set", "sclae=2"], "pgbench", &["no setting `sclae`", "scale"]),
        (&["pgbench", "--set", "scale=0"], "pgbench", &["`scale=0` is wrong"]),
        (&["pgbench", "--seconds", "0.5"], "pgbench", &["whole seconds"]),
        (&["copy", "--seconds", "5"], "copy", &["--seconds is not for copy", "--set rows=N"]),
        (&["pgbench", "--protocol", "none"], "pgbench", &["--protocol is not for pgbench"]),
    ];
    for (arguments, workload, expected) in cases {
        let start = format!("weir bench {workload}: error: ");
        check_arguments(&[&["bench"], arguments].concat(), &start, expected);
    }
    check_arguments(&["bench", "no-such", "--target", "weir:"], "weir bench: error: `no-such`", &["pgbench"]);
    check_arguments(
        &["beside", "pgbench"],
        "weir: error: ",
        &["`beside`", "weir bench pgbench --target weir:,postgres"],
    );
    for arguments in [&["bench", "pgbench", "--target", "weir:"][..], &["bench", "copy"]] {
        let output =
            Command::new(here).args(arguments).env("WEIR_POSTGRES_BIN", "/no/such/folder").output().unwrap();
        let start = format!("weir bench {}: error: PostgreSQL 15 is not installed", arguments[1]);
        check_refusal(&output, &start, &["apt-get install postgresql-15", "WEIR_POSTGRES_BIN"]);
    }
}

#[test]
fn a_benchmark_by_sql_that_cannot_be() {
    let cases: [(&[&str], &[&str]); 19] = [
        (&["ycsb", "--target", "oracle"], &["`oracle` is no target", "mysql://", "sqlite:FILE"]),
        (&["ycsb", "--target", "weir:cluster.toml,postgres"], &["`weir:cluster.toml` is no target"]),
        (&["cat", "--target", "weir:,weir"], &["named twice", "baseline:PROGRAM"]),
        (&["cat", "--start", "postgres", "--target", "postgres"], &["named twice"]),
        (&["smallbank", "--target", "mysql://"], &["names no server"]),
        (&["cat", "--set", "zpif=1"], &["no setting `zpif`", "keys, zipf, length, writers, write"]),
        (&["cat", "--set", "zipf=-1"], &["`zipf=-1` is wrong"]),
        (&["cat", "--set", "length=3"], &["`length=3` is wrong", "16"]),
        (&["cat", "--set", "keys=4"], &["8 operations over 4 keys"]),
        (&["ycsb-t", "--set", "kind=rmw"], &["`kind=rmw` is wrong", "srw, mrmw, crmw or closed-economy"]),
        (&["ycsb-t", "--set", "distributed=2"], &["`distributed=2` is wrong"]),
        (&["smallbank", "--set", "customers=1"], &["`customers=1` is wrong", "from 2"]),
        (&["tpcw", "--set", "mix=buying"], &["`mix=buying` is wrong", "shopping, browsing or ordering"]),
        (&["rubis", "--set", "item=5"], &["no setting `item`", "users, items, old_items, pieces, mix"]),
        (&["cat", "--clients", "2000"], &["`clients=2000` is wrong"]),
        (&["cat", "--sweep", "clients=1,0"], &["`clients=0` is wrong"]),
        (&["cat", "--protocol", "none"], &["--protocol is not for cat by SQL"]),
        (&["cat", "--transactions", "5"], &["--transactions is not for cat", "--seconds S"]),
        (&["pgbench", "--rate", "5"], &["--rate is not for this workload", "smallbank"]),
    ];
    for (arguments, expected) in cases {
        let start = format!("weir bench {}: error: ", arguments[0]);
        check_arguments(&[&["bench"], arguments].concat(), &start, expected);
    }
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["bench", "cat", "--isolation", "snapshot"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("serializable, repeatable-read, read-committed"), "{said}");
}

#[test]
fn a_simulation_that_cannot_be() {
    let check = |arguments: &[&str], expected: &[&str]| {
        check_arguments(&[&["sim"], arguments].concat(), "weir sim: error: ", expected);
    };
    check(&["itmes"], &["no workload `itmes`", "hint: write `items`"]);
    check(&["items", "--protocol", "lwlr"], &["no protocol `lwlr`", "ramp-hybrid"]);
    for faults in ["", "drop", "drop=2", "drop=-1", "drop=nan", "slow=1e12", "fire=1", "drop=0.1,,reorder=1"]
    {
        check(&["items", "--faults", faults], &[&format!("--faults {faults}: ")]);
    }
}

#[test]
fn a_history_that_is_none() {
    let line = r#"{"session":0,"begun_us":0,"ended_us":5,"aborted":false,"stamp":[1,0,1],"reads":[],"ranges":[],"writes":[["k","put","v"]]}"#;
    let half = format!("{line}\n{}", &line[..70]);
    let cases: [(&str, &[u8], &str); 7] = [
        ("empty", b"", "there is no transaction in it"),
        ("half", half.as_bytes(), "line 2, column 70: "),
        ("text", b"hello\n", "line 1, column 1: "),
        ("other", b"{\"a\":1}\n", "line 1: session"),
        ("negative", b"{\"session\":-1}\n", "line 1: session"),
        ("large", b"{\"session\":99999999999999999999}\n", "line 1: session"),
        ("bytes", b"\xff\n", "byte 0xff"),
    ];
    for (name, text, expected) in cases {
        let directory = Directory::with(name, &[("history.jsonl", text)]);
        let file = directory.0.join("history.jsonl").display().to_string();
        for command in [&["history", "check"][..], &["history", "export", "--elle"]] {
            check_arguments(&[command, &[&file]].concat(), &file, &[expected]);
        }
    }
    check_arguments(&["history", "check", "no-such-history"], "no-such-history: error: ", &["hint: "]);
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in ["analyze", "run", "bench", "explain", "sim", "history"] {
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args([command, "--help"]).output().unwrap();
        let help = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && help.contains("Example") && help.contains(&format!("weir {command} ")),
            "{help}"
        );
    }
}

#[test]
fn deep_nesting_is_refused_or_read_but_never_a_crash() {
    let deep = format!(
        "CREATE TABLE t (id integer PRIMARY KEY CHECK ({}1{} = 1));\n",
        "(".repeat(20_000),
        ")".repeat(20_000)
    );
    let directory = Directory::with("deep", &[("schema.sql", deep.as_bytes())]);
    let output = weir(&["analyze"], &directory.0);
    assert!(matches!(output.status.code(), Some(0 | 2)), "{:?}", output.status);
}
