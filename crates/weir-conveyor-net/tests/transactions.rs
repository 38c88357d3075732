//! Single transactions: what triggers capture is what the others apply, and fences hold against sessions that run.

use std::sync::Arc;

use postgres::{Client, NoTls};
use weir_conveyor::message::OperationId;
use weir_conveyor::schema::Sql;
use weir_conveyor::token::Visit;
use weir_conveyor::work::{License, Work};
use weir_conveyor_net::check::{Finding, check};
use weir_conveyor_net::connection::{Connection, install};
use weir_conveyor_net::operation::{Job, Operation, SqlDone, SqlWork, StateUpdate};

use weir_harness::postgres::Server;

const TABLES: &str = r#"
CREATE DOMAIN money AS numeric(12,2) CHECK (VALUE >= 0);
CREATE TYPE mood AS ENUM ('sad', 'it''s "ok"');
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE "Odd ""table""" (
    a int, "b'\c" text, f double precision, t timestamptz, i interval, y bytea, j jsonb, l text[], m money, e mood,
    n numeric, b boolean, u uuid, r int4range, p int REFERENCES parent, twice int GENERATED ALWAYS AS (a * 2) STORED,
    id int GENERATED ALWAYS AS IDENTITY, PRIMARY KEY ("b'\c", a));
"#;

/// Every row of the odd table, as text.
const ALL: &str =
    r#"SELECT coalesce(string_agg(o::text, E'\n' ORDER BY o::text), '') FROM "Odd ""table""" o"#;

/// Two servers, with a connection to each.
pub struct Pair {
    _servers: [Server; 2],
    pub configs: [String; 2],
    pub connections: [Connection; 2],
}

impl Pair {
    pub fn new(tables: &str) -> Pair {
        let servers = [(); 2].map(|()| Server::start().unwrap());
        let configs = [0, 1].map(|index: usize| servers[index].connection_string());
        let connections = [0, 1].map(|index: usize| {
            let mut client = Client::connect(&configs[index], NoTls).unwrap();
            let data: String = client.query_one("SHOW data_directory", &[]).unwrap().get(0);
            assert_eq!(data, servers[index].data().display().to_string(), "a stranger's server");
            client.batch_execute(tables).unwrap();
            let tables = install(&configs[index]).unwrap();
            Connection::open(&configs[index], Arc::new(tables)).unwrap()
        });
        Pair { _servers: servers, configs, connections }
    }

    pub fn client(&self, index: usize) -> Client {
        Client::connect(&self.configs[index], NoTls).unwrap()
    }

    fn all(&self, index: usize) -> String {
        self.client(index).query_one(ALL, &[]).unwrap().get(0)
    }

    pub fn outbox(&mut self, visit: u64) -> Arc<Visit<StateUpdate>> {
        match self.connections[0].run(&Work::Read { server: 0, visit }) {
            SqlDone::Contents(contents) => contents,
            other => panic!("{other:?}"),
        }
    }
}

pub fn global(statements: &[&str], license: License) -> SqlWork {
    let statements =
        statements.iter().map(|text| Sql { text: (*text).into(), parameters: Vec::new() }).collect();
    let id = OperationId { agent: 0, start: 1, number: 1 };
    Work::Execute { id, operation: Job::Statements(Operation { statements }), license: Some(license), map: 0 }
}

#[test]
fn what_is_captured_is_applied() {
    let mut pair = Pair::new(TABLES);
    let license = License { epoch: 1, visit: 1 };
    pair.connections[0].run(&Work::Adopt { epoch: 1 });
    let insert = r#"INSERT INTO "Odd ""table""" VALUES
        (1, E'x\'\\y', 0.1::float8 + 0.2::float8, '2026-03-29 01:59:59.123456+02', '1 mon -3 days 04:05', '\x00ff', '{"a": [1, null]}',
         ARRAY['a,b', NULL, '"', '{}'], 1.10, 'it''s "ok"', 'NaN', true, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '[1,5)', 7),
        (2, '', '-Infinity', '-infinity', '-1 year', '', 'null', '{}', NULL, NULL, 12345678901234567890.5, NULL, NULL, 'empty', NULL)"#;
    let done = pair.connections[0].run(&global(&["INSERT INTO parent VALUES (7), (8)", insert], license));
    assert!(matches!(done, SqlDone::Executed(Ok(_))), "{done:?}");
    let change = r#"UPDATE "Odd ""table""" SET a = a + 10, t = NULL, l = l || 'more'::text WHERE a = 1"#;
    let no_change = r#"UPDATE "Odd ""table""" SET b = b"#;
    let done = pair.connections[0].run(&global(&[change, no_change], license));
    assert!(matches!(done, SqlDone::Executed(Ok(_))), "{done:?}");
    let visit = pair.outbox(1);
    assert_eq!(visit.updates.iter().map(|update| update.rows.len()).collect::<Vec<_>>(), [4, 1]);
    // The other server lacks the parent: foreign keys do not act.
    pair.client(1).batch_execute("DELETE FROM parent").unwrap();
    let without_parent = |update: &StateUpdate| {
        let rows = update.rows.iter().filter(|(relation, _)| !relation.contains("parent"));
        StateUpdate { rows: rows.cloned().collect() }
    };
    let updates = visit.updates.iter().map(without_parent).collect();
    let apply = Work::Apply { after: 0, visit: Arc::new(Visit { number: 1, updates }) };
    let done = pair.connections[1].run(&apply);
    assert!(
        matches!(done, SqlDone::State(state) if state.applied == 1),
        "{done:?} {:?}",
        pair.connections[1].last_error()
    );
    assert_eq!(pair.all(0), pair.all(1));
    // Applied at the other, it is not captured there; and it is not applied again.
    let mut client = pair.client(1);
    let count: i64 = client.query_one("SELECT count(*) FROM weir_conveyor.outbox", &[]).unwrap().get(0);
    assert_eq!(count, 0);
    client.batch_execute(r#"DELETE FROM "Odd ""table""" WHERE a = 2"#).unwrap();
    pair.connections[1].run(&apply);
    let rows: i64 = client.query_one(r#"SELECT count(*) FROM "Odd ""table""""#, &[]).unwrap().get(0);
    assert_eq!(rows, 1);
}

/// Of each type: a value, and one that differs from it, if only by its text.
const CHANGES: [(&str, &str, &str); 21] = [
    ("smallint", "1", "2"),
    ("bigint", "-1", "9007199254740993"),
    ("numeric", "1.0", "1.00"),
    ("numeric(12,3)", "1", "1.001"),
    ("real", "1e-3", "0.1"),
    ("double precision", "0", "-0"),
    ("float8[]", "{0.1}", "{0.30000000000000004}"),
    ("boolean", "t", "f"),
    ("text", "a", "A"),
    ("text COLLATE no_case", "a", "A"),
    ("varchar(3)", "a", "a "),
    ("char(3)", "a", "b"),
    ("date", "2026-02-03", "2026-03-02"),
    ("timestamp", "2026-02-03 04:05:06.7", "infinity"),
    ("timestamp(0) with time zone", "2026-02-03 04:05:06+07", "2026-03-29 01:59:59+02"),
    ("timestamptz", "2026-02-03 04:05:06.789+07", "-infinity"),
    ("daterange", "[2026-02-03,2026-03-02)", "[2026-02-03,2026-02-04)"),
    ("interval", "1 mon", "30 days"),
    ("bytea", r"\x00", r"\x5c00ff"),
    ("jsonb", r#"{"a": 1.0}"#, r#"{"a": 1.00}"#),
    ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"),
];

/// A session that prints everything in another way.
const ODD_SETTINGS: &str = "\
SET datestyle = 'SQL, DMY'; SET intervalstyle = 'sql_standard'; SET extra_float_digits = -10; \
SET bytea_output = 'escape'; SET timezone = 'Asia/Tokyo'";

/// Each type in a table of its own, since the function of a table fixes only the settings that its types need.
#[test]
fn values_travel_whatever_settings_a_session_prints_with() {
    let mut tables =
        "CREATE COLLATION no_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
            .to_owned();
    let (mut inserts, mut updates) = (Vec::new(), Vec::new());
    for (number, (ty, first, second)) in CHANGES.iter().enumerate() {
        tables += &format!("CREATE TABLE t{number} (id int PRIMARY KEY, v {ty});");
        inserts.push(format!("INSERT INTO t{number} VALUES (1, '{first}')"));
        updates.push(format!("UPDATE t{number} SET v = '{second}'"));
    }
    let mut pair = Pair::new(&tables);
    pair.connections[0].run(&Work::Adopt { epoch: 1 });
    let mut session = pair.client(0);
    session.batch_execute(ODD_SETTINGS).unwrap();
    for (visit, statements) in [(1_i64, inserts), (2, updates)] {
        session.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE").unwrap();
        session.query(weir_conveyor::schema::ENTER, &[&1_i64, &visit, &0_i64]).unwrap();
        statements.iter().for_each(|statement| session.batch_execute(statement).unwrap());
        session.batch_execute("COMMIT").unwrap();
        let visit = pair.outbox(visit as u64);
        assert_eq!(visit.updates[0].rows.len(), CHANGES.len(), "{:?}", visit.updates);
        let done = pair.connections[1].run(&Work::Apply { after: visit.number - 1, visit });
        assert!(matches!(done, SqlDone::State(_)), "{done:?}");
        for (number, (ty, ..)) in CHANGES.iter().enumerate() {
            let value = |index: usize| -> String {
                let text = format!("SELECT v::text FROM t{number}");
                pair.client(index).query_one(&text, &[]).unwrap().get(0)
            };
            assert_eq!(value(0), value(1), "{ty}");
        }
    }
}

/// PostgreSQL compiles what it expects to be costly, which takes longer than any step does.
#[test]
fn statements_of_the_protocol_are_expected_to_be_cheap() {
    use weir_conveyor::schema;
    let pair = Pair::new(TABLES);
    let mut client = pair.client(0);
    let statements = [
        (schema::READ_STATE, 0),
        (schema::READ_MAP, 0),
        (schema::NEXT_START, 0),
        (schema::ADOPT, 1),
        (schema::CHECK_MAP, 1),
        (schema::READ_OUTBOX, 1),
        (schema::DELETE_OUTBOX, 1),
        (schema::CLOSE, 2),
        (schema::FENCE, 2),
        (schema::ENTER, 3),
        (schema::MOVE_POSITION, 2),
    ];
    client.batch_execute("SET plan_cache_mode = force_generic_plan").unwrap();
    for (text, parameters) in statements {
        client.batch_execute(&format!("PREPARE step AS {text}")).unwrap();
        let values = ["", "(1)", "(1, 1)", "(1, 1, 1)"][parameters];
        let plan: String = client.query(&format!("EXPLAIN EXECUTE step{values}"), &[]).unwrap()[0].get(0);
        let cost = plan.split_once("..").and_then(|(_, rest)| rest.split_once(' '));
        let cost: f64 = cost.and_then(|(cost, _)| cost.parse().ok()).unwrap();
        assert!(cost < 1_000.0, "{text}: {plan}");
        client.batch_execute("DEALLOCATE step").unwrap();
    }
}

#[test]
fn a_missing_row_is_passed_over_and_local_operations_are_not_captured() {
    let mut pair = Pair::new(TABLES);
    let license = License { epoch: 1, visit: 1 };
    pair.connections[0].run(&Work::Adopt { epoch: 1 });
    let insert = r#"INSERT INTO "Odd ""table""" (a, "b'\c") VALUES (1, 'x'), (2, 'x')"#;
    pair.client(0).batch_execute(insert).unwrap();
    let statements =
        [r#"UPDATE "Odd ""table""" SET b = true WHERE a = 1"#, r#"DELETE FROM "Odd ""table""" WHERE a = 2"#];
    pair.connections[0].run(&global(&statements, license));
    let visit = pair.outbox(1);
    assert_eq!(visit.updates.iter().map(|update| update.rows.len()).sum::<usize>(), 2);
    let done = pair.connections[1].run(&Work::Apply { after: 0, visit });
    assert!(matches!(done, SqlDone::State(state) if state.applied == 1), "{done:?}");
    assert_eq!(pair.all(1), "");
    let truncate = pair.connections[0].run(&global(&[r#"TRUNCATE "Odd ""table""""#], license));
    assert!(matches!(&truncate, SqlDone::Executed(Err(error)) if error.sqlstate == "0A000"), "{truncate:?}");
}

/// No other server could set the column to that value.
#[test]
fn a_global_operation_sets_no_identity_column_to_default() {
    let mut pair =
        Pair::new("CREATE TABLE kept (id int PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY, a int)");
    let license = License { epoch: 1, visit: 1 };
    pair.connections[0].run(&Work::Adopt { epoch: 1 });
    let insert = "INSERT INTO kept (id, a) VALUES (1, 1)";
    let done = pair.connections[0].run(&global(&[insert, "UPDATE kept SET a = 2"], license));
    assert!(matches!(done, SqlDone::Executed(Ok(_))), "{done:?}");
    let done = pair.connections[0].run(&global(&["UPDATE kept SET n = DEFAULT"], license));
    let SqlDone::Executed(Err(error)) = done else { panic!("{done:?}") };
    assert_eq!(error.sqlstate, "0A000");
    assert!(error.message.contains("cannot set n, which is GENERATED ALWAYS AS IDENTITY"), "{error:?}");
}

#[test]
fn an_operation_without_a_license_does_nothing() {
    let mut pair = Pair::new(TABLES);
    let (old, new) = (License { epoch: 1, visit: 3 }, License { epoch: 2, visit: 5 });
    pair.connections[0].run(&Work::Adopt { epoch: 1 });
    let insert = ["INSERT INTO parent VALUES (1)"];
    let fenced = pair.connections[0].run(&Work::Fence { server: 0, epoch: 2, visit: 4 });
    assert!(matches!(fenced, SqlDone::Row(row) if row.is_closed_in(2, 4)), "{fenced:?}");
    assert_eq!(pair.connections[0].run(&global(&insert, old)), SqlDone::NotLicensed);
    let executed = pair.connections[0].run(&global(&insert, new));
    assert_eq!(executed, SqlDone::Executed(Ok(vec![Vec::new()])));
    let ended = pair.connections[0].run(&Work::End { license: new, after: 0 });
    assert!(
        matches!(ended, SqlDone::State(state) if state.row.closed == 5 && state.applied == 5),
        "{ended:?}"
    );
    assert_eq!(pair.connections[0].run(&global(&insert, new)), SqlDone::NotLicensed);
    let again = pair.connections[0].run(&Work::Fence { server: 0, epoch: 3, visit: 5 });
    assert!(matches!(again, SqlDone::Row(row) if row.epoch == 3 && !row.is_closed_in(3, 5)), "{again:?}");
}

/// S19: a session that holds FOR SHARE commits before the fence does, and its update is in the outbox that is read behind the fence.
#[test]
fn a_fence_waits_for_a_session_that_has_locked_the_epoch_row() {
    let mut pair = Pair::new(TABLES);
    pair.connections[0].run(&Work::Adopt { epoch: 1 });
    let mut session = pair.client(0);
    session.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE").unwrap();
    session.query(weir_conveyor::schema::ENTER, &[&1_i64, &1_i64, &0_i64]).unwrap();
    session.batch_execute("INSERT INTO parent VALUES (1)").unwrap();
    let [mut first, second] = pair.connections;
    let fence = std::thread::spawn(move || {
        let fenced = first.run(&Work::Fence { server: 0, epoch: 2, visit: 1 });
        (first, fenced)
    });
    let mut watcher = Client::connect(&pair.configs[0], NoTls).unwrap();
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while watcher.query_one(waits, &[]).unwrap().get::<_, i64>(0) == 0 {
        std::thread::yield_now();
    }
    session.batch_execute("COMMIT").unwrap();
    let (first, fenced) = fence.join().unwrap();
    assert!(matches!(fenced, SqlDone::Row(row) if row.is_closed_in(2, 1)), "{fenced:?}");
    let mut pair = Pair { connections: [first, second], ..pair };
    assert_eq!(pair.outbox(1).updates.len(), 1);
}

#[test]
fn a_database_that_does_not_fit_is_found_out() {
    let pair =
        Pair::new("CREATE TABLE plain (id int); CREATE TABLE kept (id int PRIMARY KEY, mail text UNIQUE);");
    let findings = check(&pair.configs[0], |table| table != "ignored").unwrap();
    let plain = Finding::NoPrimaryKey { table: "plain".into() };
    let kept = Finding::UniqueKey { table: "kept".into(), index: "kept_mail_key".into() };
    assert_eq!(findings.into_iter().collect::<Vec<_>>(), [plain, kept]);
}
