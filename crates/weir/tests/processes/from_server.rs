//! `weir analyze --from`: a running PostgreSQL 15 that holds an example is analysed as the example's files are.

use std::path::PathBuf;
use std::process::{Command, Output};

use postgres::{Client, NoTls};
use serde_json::Value;
use weir_bench::postgres::Server;

fn examples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["analyze", "--format", "json"])
        .args(arguments)
        .env("PGPASSWORD", "none")
        .output()
        .expect("weir starts")
}

#[track_caller]
fn plan(arguments: &[&str]) -> Value {
    let output = weir(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the plan is JSON")
}

/// A new database with these files in it, and its address.
fn database(server: &Server, name: &str, texts: &[String]) -> String {
    let mut client = Client::connect(&server.connection_string(), NoTls).expect("it accepts connections");
    client.batch_execute(&format!("CREATE DATABASE {name}")).expect("a new database");
    let address = server.connection_string().replace("dbname=postgres", &format!("dbname={name}"));
    let mut client = Client::connect(&address, NoTls).expect("it accepts connections");
    for text in texts {
        client.batch_execute(text).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
    address
}

/// Decisions of the plan, without positions and texts, which PostgreSQL prints in its own way.
fn decided(plan: &Value) -> Vec<Value> {
    let mut decided = Vec::new();
    let mut take = |part: &str, fields: &[&str]| {
        let mut found: Vec<Value> = plan[part]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| fields.iter().map(|&field| (field.to_owned(), without_places(&one[field]))).collect())
            .collect();
        found.sort_by_key(Value::to_string);
        decided.extend(found);
    };
    take("tables", &["name", "partition_columns", "replicated"]);
    take("invariants", &["id", "kind", "table", "columns"]);
    let of_transaction = ["name", "parameters", "read_only", "confluent", "class", "partitioning_parameters"];
    take(
        "transactions",
        &[&of_transaction[..], &["mechanism", "requirement", "guards", "round_trips"]].concat(),
    );
    take("verdicts", &["invariant", "transaction", "confluent", "alone", "decided_by"]);
    decided
}

fn without_places(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(without_places).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| *name != "source");
            fields.map(|(name, value)| (name.clone(), without_places(value))).collect()
        }
        other => other.clone(),
    }
}

#[test]
fn every_example_is_analysed_as_from_its_files() {
    let server = Server::start().expect("PostgreSQL starts");
    let mut names: Vec<String> = std::fs::read_dir(examples())
        .expect("the examples")
        .map(|entry| entry.expect("an example").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    for name in names {
        let folder = examples().join(&name);
        let file = |file: &str| folder.join(file).display().to_string();
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).expect("a file of the example");
        let texts = [read("schema.sql"), read("procedures.sql")];
        let address = database(&server, &name.replace('-', "_"), &texts);
        let from_files = plan(&[&folder.display().to_string()]);
        let mut arguments = vec!["--from".to_owned(), address, file("invariants.sql")];
        // The frequencies of the transactions stand beside the files.
        if folder.join("workload.toml").is_file() {
            arguments.extend(["--weights".to_owned(), file("workload.toml")]);
        }
        let from_server = plan(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let (server, files) = (decided(&from_server), decided(&from_files));
        let of_one = |these: &[Value], others: &[Value]| {
            let lines = these.iter().filter(|one| !others.contains(one)).map(Value::to_string);
            lines.collect::<Vec<_>>().join("\n")
        };
        assert!(
            server == files,
            "{name}, from the server only:\n{}\nfrom the files only:\n{}",
            of_one(&server, &files),
            of_one(&files, &server)
        );
    }
}

/// Kinds of objects that no example has, and a comment that is an assertion.
#[test]
fn other_objects_are_read_too() {
    let server = Server::start().expect("PostgreSQL starts");
    let text = "
        CREATE SCHEMA sales;
        CREATE TYPE sales.mood AS ENUM ('sad', 'it''s glad');
        CREATE DOMAIN sales.positive AS numeric(12,2) DEFAULT 1 NOT NULL CONSTRAINT above CHECK (VALUE > 0);
        CREATE TYPE pair AS (a integer, b text);
        CREATE SEQUENCE tickets AS integer START 5 INCREMENT 5 CYCLE;
        CREATE TABLE sales.\"Order\" (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, number serial UNIQUE,
            mood sales.mood NOT NULL DEFAULT 'sad', price sales.positive, doubled numeric GENERATED ALWAYS AS (price * 2) STORED,
            \"from\" date, till date CHECK (till > \"from\"), EXCLUDE USING btree (number WITH =));
        CREATE UNIQUE INDEX one_glad ON sales.\"Order\" (abs(number)) WHERE till IS NULL;
        CREATE TABLE event (at date NOT NULL, place text, PRIMARY KEY (at, place)) PARTITION BY RANGE (at);
        CREATE TABLE event_old PARTITION OF event FOR VALUES FROM (MINVALUE) TO ('2020-01-01');
        CREATE TABLE event_rest PARTITION OF event DEFAULT;
        CREATE TABLE line (order_id bigint REFERENCES sales.\"Order\" ON DELETE CASCADE, n integer, PRIMARY KEY (order_id, n));
        CREATE TABLE more (extra text) INHERITS (line);
        CREATE VIEW second AS SELECT n FROM line;
        CREATE VIEW first AS SELECT n + 1 AS m FROM second;
        CREATE OR REPLACE VIEW second AS SELECT n FROM line WHERE n > 0;
        CREATE MATERIALIZED VIEW totals AS SELECT order_id, count(*) AS lines FROM line GROUP BY order_id;
        CREATE UNIQUE INDEX ON totals (order_id);
        CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := NEW.n + 1; RETURN NEW; END $$;
        CREATE TRIGGER touching BEFORE INSERT ON line FOR EACH ROW EXECUTE FUNCTION touch();
        CREATE PROCEDURE add_line(o bigint, number integer) LANGUAGE sql BEGIN ATOMIC INSERT INTO line VALUES (o, number); END;
        CREATE AGGREGATE product(integer) (SFUNC = int4mul, STYPE = integer);
        ALTER TABLE line ENABLE ROW LEVEL SECURITY;
        COMMENT ON TABLE sales.\"Order\" IS 'weir: assert some_price check (NOT EXISTS (SELECT 1 FROM sales.\"Order\" WHERE price > 1000))';
        COMMENT ON TABLE line IS 'for people';
        CREATE ROLE reader LOGIN;";
    let address = database(&server, "kinds", &[text.to_owned()]);
    let address = address.replace("user=postgres", "user=reader");
    let plan = plan(&["--from", &address]);
    let list = |part: &str, field: &str| {
        let mut names: Vec<&str> = plan[part]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| one[field].as_str().expect("a name"))
            .collect();
        names.sort_unstable();
        names.join(" ")
    };
    assert_eq!(list("tables", "name"), "event line more sales.Order");
    assert_eq!(list("transactions", "name"), "add_line");
    let invariants = "Order_check Order_number_excl Order_number_key Order_pkey Order_price_above event.at not null event.place \
        not null event_pkey line.n not null line.order_id not null line_order_id_fkey line_pkey more.n not null \
        more.order_id not null one_glad sales.Order.id not null sales.Order.mood not null sales.Order.mood \
        sales.mood sales.Order.number not null sales.Order.price not null sales.Order_id_seq \
        sales.Order_number_seq some_price tickets totals";
    assert_eq!(list("invariants", "id"), invariants);
    let said: Vec<String> = plan["diagnostics"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|one| one["id"] == "WEIR-N02")
        .map(|one| {
            let object = one["source"]["file"].as_str().and_then(|file| file.split_once('#'));
            let (_, object) = object.expect("the place names an object");
            format!("{object}: {}", one["message"].as_str().expect("a message"))
        })
        .collect();
    assert_eq!(
        said,
        [
            "public.pair (type): CREATE TYPE is analysed, but weir run refuses it",
            "public.more (table): INHERITS is not supported",
            "\"Order_number_excl\" on sales.\"Order\" (constraint): EXCLUDE is analysed, but weir run refuses it",
            "touching on public.line (trigger): CREATE TRIGGER is analysed, but weir run refuses it",
        ]
    );
}

#[test]
fn what_goes_wrong_is_told_with_a_remedy() {
    let server = Server::start().expect("PostgreSQL starts");
    let right = server.connection_string();
    let locked = database(&server, "locked", &["CREATE TABLE t (id integer)".to_owned()]);
    let mut holder = Client::connect(&locked, NoTls).expect("it accepts connections");
    holder.batch_execute("BEGIN; LOCK TABLE pg_catalog.pg_description").expect("it can be locked");
    for (arguments, said) in [
        (vec!["--from", "postgres://me@127.0.0.1:1/db"], "is the server running"),
        (vec!["--from", "mysql://me@127.0.0.1/db"], "postgres://user@host"),
        (vec!["--from", &right.replace("dbname=postgres", "dbname=nothing")], "psql -l"),
        (vec!["--from", &right.replace("user=postgres", "user=nobody")], "hint: "),
        (vec!["--from", &locked, "--timeout", "0.2"], "--timeout 1"),
        (vec!["--from", &right], "psql -l"),
        (vec!["--from", &right, "--timeout", "0"], "--timeout"),
        (vec!["--timeout", "3", "examples"], "--from"),
    ] {
        let output = weir(&arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(said) && message.contains("error"), "{arguments:?}: {message}");
    }
}
