//! `weir analyze --log`: what PostgreSQL 15 itself writes, in each of its formats, is read as the transactions
//! that were run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::eventually::until;
use postgres::{Client, NoTls};
use serde_json::Value;
use weir_bench::postgres::Server;

const SCHEMA: &str = "
    CREATE TABLE account (id bigint PRIMARY KEY, owner text NOT NULL, balance numeric(12,2) NOT NULL CHECK (balance >= 0));
    CREATE TABLE history (account_id bigint NOT NULL REFERENCES account, amount numeric(12,2) NOT NULL, at timestamptz NOT NULL);
    CREATE PROCEDURE deposit(whom bigint, amount numeric) LANGUAGE plpgsql AS $$
    BEGIN UPDATE account SET balance = balance + amount WHERE id = whom; END $$;
    CREATE PROCEDURE never(whom bigint) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM account WHERE id = whom; END $$;";

/// Work of an application, by both protocols.
fn work(client: &mut Client) {
    for id in 1..=20i64 {
        client
            .execute(
                "INSERT INTO account (id, owner, balance) VALUES ($1, $2, 100)",
                &[&id, &format!("o'{id}")],
            )
            .expect("an account");
    }
    for id in 1..=10i64 {
        let mut transfer = client.transaction().expect("BEGIN");
        let (from, amount) = (id + 1, f64::from(id as i32) + 0.5);
        transfer
            .execute(
                "UPDATE account SET balance = balance - $2::float8::numeric WHERE id = $1",
                &[&from, &amount],
            )
            .unwrap();
        transfer
            .execute(
                "UPDATE account SET balance = balance + $2::float8::numeric WHERE id = $1",
                &[&id, &amount],
            )
            .unwrap();
        transfer
            .execute("INSERT INTO history VALUES ($1, $2::float8::numeric, now())", &[&from, &amount])
            .unwrap();
        transfer.commit().unwrap();
        client.batch_execute(&format!("CALL deposit({id}, 5)")).unwrap();
        client.simple_query(&format!("SELECT balance,\n\towner FROM account WHERE id = {id}")).unwrap();
        assert!(client.batch_execute(&format!("UPDATE account SET balance = -1 WHERE id = {id}")).is_err());
        client
            .batch_execute(&format!("BEGIN; DELETE FROM history WHERE account_id = {id}; ROLLBACK"))
            .unwrap();
    }
}

/// Name without its digits and parameters of each transaction, then what was not understood.
fn transactions(schema: &Path, log: &Path) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["analyze", "--format", "json"])
        .arg(schema)
        .arg("--log")
        .arg(log)
        .output()
        .expect("weir starts");
    let remark = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{remark}");
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let shown = |one: &Value| {
        let name = one["name"].as_str().unwrap();
        let words = match name.rsplit_once('_') {
            Some((words, digits)) if digits.len() == 6 => words,
            _ => name,
        };
        let home: Vec<&str> = one["partitioning_parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        let parameters = one["parameters"].as_array().unwrap().len();
        format!("{words}/{parameters}: {} ({})", one["class"].as_str().unwrap(), home.join(" "))
    };
    let mut found: Vec<String> = plan["transactions"].as_array().unwrap().iter().map(shown).collect();
    found.sort();
    let notes = plan["diagnostics"].as_array().unwrap().iter();
    let not_understood =
        notes.filter(|one| one["message"].as_str().is_some_and(|message| message.contains("understood")));
    found.extend(not_understood.map(|one| one.to_string()));
    found.push(remark.trim().to_owned());
    found
}

/// `how`: the setting by which statements are logged; `off` is its other value.
#[track_caller]
fn check(name: &str, how: &str, off: &str, not_committed: u32) {
    let server = Server::start_with(&[
        "logging_collector=on",
        "log_destination=stderr,csvlog,jsonlog",
        "log_filename=all.log",
        "log_line_prefix=%m [%p] %q%u@%d ",
        how,
    ])
    .expect("PostgreSQL starts");
    let folder = std::env::temp_dir().join(format!("weir-from-log-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let schema = folder.join("schema.sql");
    std::fs::write(&schema, SCHEMA).expect("the schema");
    let mut client = Client::connect(&server.connection_string(), NoTls).expect("it accepts connections");
    client.batch_execute(&format!("SET {off}")).expect("a setting");
    client.batch_execute(&format!("{SCHEMA}; RESET ALL")).expect("it loads");
    work(&mut client);
    drop(client);
    let remark = format!(
        "weir: the log has 50 transactions of 4 kinds; {not_committed} that did not commit are left out"
    );
    let expected = [
        "deposit/2: global (whom)",
        "insert_account/2: global (p1)",
        "never/1: global (whom)",
        "select_account/1: local (p1)",
        "update_account_insert_history/3: global (p2)",
        &remark,
    ];
    for log in ["all.log", "all.csv", "all.json"].map(|name| server.data().join("log").join(name)) {
        // The collector is another process: it may be behind.
        until("the log is whole", || {
            std::fs::read_to_string(&log).is_ok_and(|text| text.matches("ROLLBACK").count() >= 10)
        });
        assert_eq!(transactions(&schema, &log), expected, "{}", log.display());
    }
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn statements_that_are_logged_before_they_run() {
    check("all", "log_statement=all", "log_statement=none", 20);
}

/// Those that fail are not there.
#[test]
fn statements_that_are_logged_with_their_durations() {
    check("durations", "log_min_duration_statement=0", "log_min_duration_statement=-1", 10);
}

#[test]
fn a_log_without_statements_is_told_how_to_have_some() {
    let folder = std::env::temp_dir().join(format!("weir-from-log-{}-empty", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (schema, log) = (folder.join("schema.sql"), folder.join("log"));
    std::fs::write(&schema, SCHEMA).expect("the schema");
    for text in
        [&b""[..], b"2026-01-31 12:00:00 UTC [1] LOG:  checkpoint starting: time\n\xff\0", b"{}", b"a,b,c"]
    {
        std::fs::write(&log, text).expect("the log");
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("analyze")
            .arg(&schema)
            .arg("--log")
            .arg(&log)
            .output()
            .expect("weir starts");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains("log_statement = 'all'"), "{message}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// Verdicts of the document on the invariants, by name.
fn verdicts(schema: &Path, log: &Path) -> (BTreeMap<String, BTreeSet<String>>, usize) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["analyze", "--format", "json"])
        .arg(schema)
        .arg("--log")
        .arg(log)
        .output()
        .expect("weir starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for verdict in plan["verdicts"].as_array().unwrap() {
        let [invariant, confluent] = ["invariant", "confluent"].map(|name| verdict[name].to_string());
        found.entry(invariant.trim_matches('"').to_owned()).or_default().insert(confluent);
    }
    let notes = plan["diagnostics"].as_array().unwrap().iter();
    let lost = notes
        .filter(|one| one["message"].as_str().is_some_and(|message| message.contains("is not understood")));
    (found, lost.count())
}

/// The grammar does not take a statement of the log: what it may touch is decided by nobody.
#[test]
fn statements_that_do_not_parse_are_not_taken_for_fine() {
    let folder = std::env::temp_dir().join(format!("weir-from-log-{}-broken", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (schema, log) = (folder.join("schema.sql"), folder.join("log"));
    let tables = "CREATE TABLE one (id int PRIMARY KEY, n int NOT NULL);
        CREATE TABLE two (id int PRIMARY KEY, n int NOT NULL);";
    std::fs::write(&schema, tables).expect("the schema");
    let told = |statements: &[&str]| {
        let line = |text: &&str| format!("2026-01-31 12:00:00 UTC [1] LOG:  statement: {text}\n");
        std::fs::write(&log, statements.iter().map(line).collect::<String>()).expect("the log");
        let (found, lost) = verdicts(&schema, &log);
        let of = |name: &str| {
            found.get(name).map(|all| all.iter().cloned().collect::<Vec<_>>().join(" ")).unwrap_or_default()
        };
        format!("{} | {} | {lost}", of("one_pkey"), of("two_pkey"))
    };
    let both = ["UPDATE one SET n = n + 1 WHERE id = 5", "UPDATE two SET n = n + 1 WHERE id = 5"];
    let with = |statement| told(&[both[0], both[1], statement]);
    let [fine, cut, unknown, transaction, replication] = [
        "SELECT n FROM one WHERE id = 5",
        "UPDATE two SET n = n - WHERE id",
        "UPD two SET n = 5",
        "BEGIN; DELETE FROM one WHERE id = 1; UPDATE ; COMMIT",
        "IDENTIFY_SYSTEM",
    ]
    .map(with);
    assert_eq!(fine, "true | true | 0");
    assert_eq!(cut, "true | false true | 1");
    assert_eq!(unknown, "false true | false true | 1");
    assert_eq!(transaction, "false true | false true | 1");
    assert_eq!(replication, "true | true | 0");
    let _ = std::fs::remove_dir_all(&folder);
}
