//! Clients of a deployment: psql, and a driver that speaks the extended protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use postgres::error::SqlState;

use crate::deployment::{Deployment, NAMES, SCHEMA, TRANSACTIONS};

/// Reads a value at every server, until all agree on the expected one.
fn wait_until_all_have(deployment: &Deployment, text: &str, expected: i32) {
    for place in 0..deployment.servers.len() {
        let mut client = deployment.direct(place);
        while client.query_one(text, &[]).unwrap().get::<_, i32>(0) != expected {
            std::thread::yield_now();
        }
    }
}

#[test]
fn operations_run_where_they_belong_and_global_ones_reach_every_server() {
    let deployment = Deployment::start(3);
    // Key 4 belongs to the second server; any agent takes it.
    for place in 0..3 {
        let added = deployment.psql(place, "shop", &["SELECT add_item(4, 1, 1)"]).unwrap();
        assert_eq!(added, (place + 1).to_string());
    }
    let carts: Vec<i64> = (0..3)
        .map(|place| deployment.direct(place).query_one("SELECT count(*) FROM cart", &[]).unwrap().get(0))
        .collect();
    assert_eq!(carts, [0, 1, 0]);
    assert_eq!(deployment.psql(0, "shop", &["SELECT take(1, 3)"]).unwrap(), "97");
    deployment.psql(2, "shop", &["CALL restock(1, 1)"]).unwrap();
    wait_until_all_have(&deployment, "SELECT n FROM stock WHERE id = 1", 98);
    let buying = [
        "BEGIN",
        "SELECT item, n FROM cart WHERE key = 4 ORDER BY item",
        "UPDATE stock SET n = n - 2 WHERE id = 1",
        "SELECT n FROM stock WHERE id = 1",
        "INSERT INTO log VALUES (7, 'bought')",
        "COMMIT",
    ];
    assert_eq!(deployment.psql(0, "shop", &buying).unwrap(), "1|3\n96");
    wait_until_all_have(&deployment, "SELECT n FROM stock WHERE id = 1", 96);
    wait_until_all_have(&deployment, "SELECT count(*)::int FROM log", 1);
    admin_tables_say_what_happens(&deployment);
}

fn admin_tables_say_what_happens(deployment: &Deployment) {
    let token = deployment.psql(0, "conveyor", &["SHOW TOKEN"]).unwrap();
    assert!(token.contains("epoch|") && token.contains("coordinator|"), "{token}");
    let stats = deployment.psql(0, "conveyor", &["SHOW STATS;"]).unwrap();
    assert!(stats.contains("relayed|2"), "add_item and the purchase: {stats}");
    let servers = deployment.psql(0, "conveyor", &["SHOW SERVERS"]).unwrap();
    assert!(NAMES[..3].iter().all(|name| servers.contains(&format!("{name}|"))), "{servers}");
    assert!(deployment.psql(0, "conveyor", &["SHOW POOLS"]).unwrap().contains("global|"));
    let wrong = deployment.psql(0, "conveyor", &["SHOW TABLES"]).unwrap_err();
    assert!(wrong.contains("SHOW HELP lists them"), "{wrong}");
}

#[test]
fn a_driver_of_the_extended_protocol_works() {
    let deployment = Deployment::start(3);
    let mut client = deployment.client(0);
    let add = client.prepare("SELECT add_item($1, $2, $3)").unwrap();
    for turn in 1..=3 {
        let row = client.query_one(&add, &[&5, &1, &2]).unwrap();
        assert_eq!(row.get::<_, i32>(0), 2 * turn);
    }
    // A transaction whose statements come one by one, and whose place is another server than that of its client.
    let mut transaction = client.transaction().unwrap();
    let rows = transaction.query("SELECT item, n FROM cart WHERE key = $1 ORDER BY item", &[&5]).unwrap();
    assert_eq!(rows[0].get::<_, i32>(1), 6);
    transaction.execute("INSERT INTO cart VALUES ($1, $2, $3)", &[&5, &2, &1]).unwrap();
    let failed = transaction.execute("INSERT INTO cart VALUES ($1, $2, $3)", &[&5, &2, &1]).unwrap_err();
    assert_eq!(failed.code(), Some(&SqlState::UNIQUE_VIOLATION));
    let aborted =
        transaction.query("SELECT item, n FROM cart WHERE key = $1 ORDER BY item", &[&5]).unwrap_err();
    assert_eq!(aborted.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    drop(transaction);
    let rows = client.query("SELECT item, n FROM cart WHERE key = $1 ORDER BY item", &[&5]).unwrap();
    assert_eq!(rows.len(), 1);
    // Catalogs are read where the client is.
    let version: String = client.query_one("SELECT version()", &[]).unwrap().get(0);
    assert!(version.starts_with("PostgreSQL"));
}

#[test]
fn what_cannot_be_carried_is_refused_by_name() {
    let deployment = Deployment::start(1);
    for (text, expected) in [
        ("LISTEN news", "LISTEN and NOTIFY"),
        ("NOTIFY news", "LISTEN and NOTIFY"),
        ("CREATE TEMP TABLE t (a int)", "temporary tables"),
        ("CREATE TEMPORARY TABLE t AS SELECT 1", "temporary tables"),
        ("SELECT 1 AS a INTO TEMP t", "temporary tables"),
        ("SELECT 1 AS a INTO t", "maintenance mode"),
        ("SELECT pg_advisory_lock(1)", "session advisory locks"),
        ("SELECT pg_try_advisory_lock(1) WHERE true", "session advisory locks"),
        ("LOCK TABLE stock", "LOCK TABLE"),
        ("PREPARE p AS SELECT 1", "PREPARE and EXECUTE as statements"),
        ("BEGIN; PREPARE TRANSACTION 'x'", "two-phase commit"),
        ("SET ROLE postgres", "SET ROLE"),
        ("SET session_replication_role = replica", "SET session_replication_role"),
        ("CREATE INDEX ON stock (n)", "maintenance mode"),
        ("DROP TABLE stock", "maintenance mode"),
        ("TRUNCATE log", "maintenance mode"),
        ("GRANT SELECT ON stock TO public", "maintenance mode"),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", "cursors WITH HOLD"),
        ("ALTER TABLE stock ADD c int", "maintenance mode"),
        ("COPY stock FROM STDIN; SELECT 1", "COPY FROM STDIN only as a statement by itself"),
        ("DELETE FROM stock", "no transaction of the application covers this statement"),
    ] {
        let said = deployment.psql(0, "shop", &[text]).unwrap_err();
        assert!(said.contains(expected), "{text}: {said}");
    }
    let said = deployment.psql(0, "elsewhere", &["SELECT 1"]).unwrap_err();
    assert!(said.contains("the database here is \"shop\""), "{said}");
    deployment.psql(0, "conveyor", &["MAINTENANCE ON"]).unwrap();
    deployment.psql(0, "shop", &["ALTER TABLE stock ADD c int"]).unwrap();
    deployment.psql(0, "conveyor", &["MAINTENANCE OFF"]).unwrap();
    assert!(deployment.psql(0, "shop", &["ALTER TABLE stock DROP c"]).is_err());
}

#[test]
fn a_transaction_that_waits_for_too_long_is_not_begun() {
    let deployment = Deployment::start_for(1, (SCHEMA, TRANSACTIONS), ("placed", 600_000), |_| {
        [String::new(), "wait_ms = 300\n".to_owned()]
    });
    let mut holders: Vec<_> = (0..4).map(|_| deployment.client(0)).collect();
    for (key, holder) in (10..).zip(&mut holders) {
        holder.batch_execute(&format!("BEGIN; SELECT add_item({key}, 1, 1)")).unwrap();
    }
    let mut client = deployment.client(0);
    let failed = client.batch_execute("SELECT add_item(1, 1, 1)").unwrap_err();
    assert_eq!(failed.code(), Some(&SqlState::CANNOT_CONNECT_NOW));
    let said = |error: &postgres::Error| error.as_db_error().unwrap().message().to_owned();
    assert!(said(&failed).contains("all connections for operations that need no token"), "{failed:?}");
    holders.iter_mut().for_each(|holder| holder.batch_execute("ROLLBACK").unwrap());
    // A global transaction keeps its visit here; another one that comes meanwhile waits for the next.
    holders[0].batch_execute("BEGIN; SELECT n FROM stock WHERE id = 1").unwrap();
    let failed = client.batch_execute("CALL restock(1, 1)").unwrap_err();
    assert_eq!(failed.code(), Some(&SqlState::CANNOT_CONNECT_NOW));
    assert!(said(&failed).contains("the token has not come for wait_ms"), "{failed:?}");
    holders[0].batch_execute("ROLLBACK").unwrap();
    // On a busy machine the token may need longer than wait_ms even so.
    while let Err(failed) = client.batch_execute("CALL restock(1, 1)") {
        assert_eq!(failed.code(), Some(&SqlState::CANNOT_CONNECT_NOW), "{failed:?}");
    }
    let n: i32 = deployment.direct(0).query_one("SELECT n FROM stock WHERE id = 1", &[]).unwrap().get(0);
    assert_eq!(n, 101, "what was not begun has changed nothing");
}

#[test]
fn clients_speak_tls_with_an_agent() {
    let signed = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = signed.cert.pem();
    let deployment = Deployment::start_for(1, (SCHEMA, TRANSACTIONS), ("placed", 20_000), |folder: &Path| {
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
        std::fs::write(&cert, &certificate).unwrap();
        std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
        [format!("tls_certificate = {cert:?}\ntls_key = {key:?}\n"), String::new()]
    });
    let root = deployment.file().with_file_name("cert.pem").display().to_string();
    let verified = [("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", root.as_str())];
    let added = deployment.psql_with(&verified, (0, "shop"), &["SELECT add_item(1, 1, 1)"]);
    assert_eq!(added.unwrap(), "1");
    let plain = deployment.psql_with(&[("PGSSLMODE", "disable")], (0, "shop"), &["SELECT add_item(1, 1, 1)"]);
    assert_eq!(plain.unwrap(), "2", "on loopback a client may do without");
}

#[test]
fn settings_stay_with_their_session() {
    let deployment = Deployment::start(1);
    let shown =
        deployment.psql(0, "shop", &["SET statement_timeout TO '7s'", "SHOW statement_timeout"]).unwrap();
    assert_eq!(shown, "7s");
    // The next session gets the same connection of the pool.
    assert_eq!(deployment.psql(0, "shop", &["SHOW statement_timeout"]).unwrap(), "0");
    let level = deployment.psql(
        0,
        "shop",
        &["BEGIN ISOLATION LEVEL READ COMMITTED", "SHOW transaction_isolation", "COMMIT"],
    );
    assert_eq!(level.unwrap(), "serializable");
}

#[test]
fn serialization_failures_are_not_seen_by_clients() {
    let deployment = Deployment::start(1);
    let clients: Vec<_> = (0..6)
        .map(|_| {
            let mut client = deployment.client(0);
            std::thread::spawn(move || {
                for _ in 0..20 {
                    client.query_one("SELECT add_item(1, 1, 1)", &[]).unwrap();
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let n: i32 = deployment.direct(0).query_one("SELECT n FROM cart", &[]).unwrap().get(0);
    assert_eq!(n, 120);
}

#[test]
fn a_statement_is_cancelled() {
    let deployment = Deployment::start(1);
    let mut client = deployment.client(0);
    let token = client.cancel_token();
    let waiting = std::thread::spawn(move || client.query("SELECT pg_sleep(1000)", &[]).unwrap_err());
    let mut direct = deployment.direct(0);
    let runs =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'";
    while direct.query_one(runs, &[]).unwrap().get::<_, i64>(0) == 0 {
        std::thread::yield_now();
    }
    // The statement may be prepared and not run yet, so a request may come too early.
    while !waiting.is_finished() {
        token.cancel_query(postgres::NoTls).unwrap();
        std::thread::yield_now();
    }
    assert_eq!(waiting.join().unwrap().code(), Some(&SqlState::QUERY_CANCELED));
}

#[test]
fn a_transaction_that_waits_for_the_token_is_cancelled() {
    let deployment = Deployment::start_with(1, "placed", 600_000);
    let mut holder = deployment.client(0);
    holder.batch_execute("BEGIN; SELECT n FROM stock WHERE id = 1").unwrap();
    let mut client = deployment.client(0);
    let token = client.cancel_token();
    let waiting = std::thread::spawn(move || client.batch_execute("CALL restock(1, 1)").unwrap_err());
    while !deployment.psql(0, "conveyor", &["SHOW POOLS"]).unwrap().contains("global|1") {
        std::thread::yield_now();
    }
    token.cancel_query(postgres::NoTls).unwrap();
    assert_eq!(waiting.join().unwrap().code(), Some(&SqlState::QUERY_CANCELED));
    holder.batch_execute("ROLLBACK").unwrap();
}

#[test]
fn many_clients_share_few_connections() {
    const CLIENTS: usize = 1_000;
    let mut deployment = Deployment::start(1);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| deployment.client(0)).collect();
    for client in &mut clients {
        client.simple_query("SELECT 1").unwrap();
    }
    let shown = deployment.psql(0, "conveyor", &["SHOW CLIENTS"]).unwrap();
    assert!(shown.contains(&format!("connected|{}", CLIENTS + 1)), "{shown}");
    let count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
    let connections: i64 = deployment.direct(0).query_one(count, &[]).unwrap().get(0);
    // Four for local operations, four for global ones, those of the protocol, and this one.
    assert!(connections <= 4 + 4 + 4 * 2 + 1, "{connections} connections");
    // An agent that ends tells its clients.
    deployment.agents[0].stop();
    let ended = clients[0].simple_query("SELECT 1").unwrap_err();
    assert!(ended.is_closed() || ended.code() == Some(&SqlState::ADMIN_SHUTDOWN), "{ended}");
}

#[test]
fn a_relayed_transaction_that_is_given_up_disturbs_no_other() {
    let deployment = Deployment::start(3);
    let mut steady = deployment.client(0);
    for turn in 1..=10 {
        // Key 4 belongs to the second server. The connection is lost within the transaction.
        let mut leaving = deployment.client(0);
        let mut transaction = leaving.transaction().unwrap();
        transaction.execute("INSERT INTO cart VALUES ($1, $2, $3)", &[&4, &7, &1]).unwrap();
        std::mem::forget(transaction);
        drop(leaving);
        let row = steady.query_one("SELECT add_item(4, 1, 1)", &[]).unwrap();
        assert_eq!(row.get::<_, i32>(0), turn);
    }
    let rows = steady.query("SELECT item, n FROM cart WHERE key = $1 ORDER BY item", &[&4]).unwrap();
    assert_eq!(rows.len(), 1, "what was given up has changed nothing");
}

#[test]
fn the_bypass_sends_everything_to_the_own_server() {
    let deployment = Deployment::start(2);
    deployment.psql(0, "conveyor", &["BYPASS ON"]).unwrap();
    deployment.psql(0, "shop", &["DELETE FROM log", "SELECT add_item(1, 1, 1)"]).unwrap();
    let count = |place: usize| -> i64 {
        deployment.direct(place).query_one("SELECT count(*) FROM cart", &[]).unwrap().get(0)
    };
    assert_eq!((count(0), count(1)), (1, 0), "key 1 would belong to the second server");
    deployment.psql(0, "conveyor", &["BYPASS OFF"]).unwrap();
    assert!(deployment.psql(0, "shop", &["DELETE FROM log"]).is_err());
    deployment.psql(0, "shop", &["SELECT add_item(1, 1, 1)"]).unwrap();
    assert_eq!((count(0), count(1)), (1, 1));
}

#[test]
fn a_client_that_idles_within_a_global_transaction_loses_it() {
    let deployment = Deployment::start_with(1, "placed", 2_000);
    let mut client = deployment.client(0);
    client.batch_execute("BEGIN; SELECT n FROM stock WHERE id = 1").unwrap();
    // operation_ms is over once another one has run: it waits for the visit to end.
    assert_eq!(deployment.psql(0, "shop", &["SELECT take(1, 1)"]).unwrap(), "99");
    let ended = client.batch_execute("SELECT n FROM stock WHERE id = 1").unwrap_err();
    assert_eq!(ended.code(), Some(&SqlState::QUERY_CANCELED), "{ended}");
    let failed = client.batch_execute("SELECT n FROM stock WHERE id = 1").unwrap_err();
    assert_eq!(failed.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    client.batch_execute("ROLLBACK; SELECT n FROM stock WHERE id = 1").unwrap();
}

/// A client that says messages as they are.
struct Raw(TcpStream);

fn message(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [kind, &length, body].concat()
}

impl Raw {
    fn connect(deployment: &Deployment, place: usize) -> Raw {
        let mut raw = Raw(TcpStream::connect(deployment.agents[place].address).unwrap());
        raw.say(&message(b"", b"\0\x03\0\0user\0me\0database\0shop\0\0"));
        raw.until(b'Z');
        raw
    }

    fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Kinds of the messages up to one of that kind.
    fn until(&mut self, kind: u8) -> String {
        let mut kinds = String::new();
        loop {
            let mut header = [0; 5];
            self.0.read_exact(&mut header).unwrap();
            let length = u32::from_be_bytes(header[1..].try_into().unwrap()) as usize;
            self.0.read_exact(&mut vec![0; length - 4]).unwrap();
            kinds.push(char::from(header[0]));
            if header[0] == kind {
                return kinds;
            }
        }
    }
}

/// Messages that prepare and run a statement without parameters.
fn asked(text: &str) -> Vec<u8> {
    let parse = message(b"P", &[b"\0", text.as_bytes(), b"\0\0\0"].concat());
    [parse, message(b"B", b"\0\0\0\0\0\0\0\0"), message(b"E", b"\0\0\0\0\0")].concat()
}

#[test]
fn an_error_takes_back_what_came_since_the_last_sync() {
    let deployment = Deployment::start(2);
    let count = |place: usize| -> i64 {
        deployment.direct(place).query_one("SELECT count(*) FROM cart", &[]).unwrap().get(0)
    };
    let mut raw = Raw::connect(&deployment, 0);
    let (flush, sync) = (message(b"H", b""), message(b"S", b""));
    // Key 1 belongs to the second server. The second statement is refused by the agent, and the server has heard of no error.
    raw.say(&[asked("SELECT add_item(1, 1, 1)"), flush.clone()].concat());
    assert_eq!(raw.until(b'C'), "12DC");
    raw.say(&[asked("LISTEN news"), sync.clone()].concat());
    assert_eq!(raw.until(b'Z'), "EZ");
    // A transaction of its own that moves: it has run here first, and is run again there alone.
    raw.say(&[asked("SELECT 1"), flush].concat());
    assert_eq!(raw.until(b'C'), "12DC");
    raw.say(&[asked("SELECT add_item(1, 2, 1)"), sync].concat());
    assert_eq!(raw.until(b'Z'), "12DCZ");
    raw.say(&message(b"Q", b"SELECT add_item(1, 2, 1)\0"));
    assert_eq!(raw.until(b'Z'), "TDCZ");
    assert_eq!((count(0), count(1)), (0, 1));
    let n: i32 = deployment.direct(1).query_one("SELECT n FROM cart", &[]).unwrap().get(0);
    assert_eq!(n, 2);
}

/// The driver sends Bind, Execute and Sync, then the rows, and another Sync.
#[test]
fn rows_are_copied_in_the_extended_protocol() {
    let load = "[[transaction]]\nname = \"load\"\nclass = \"global\"\nstatements = [\"COPY log (id, what) FROM STDIN\"]\n";
    let deployment = Deployment::start_of(2, (SCHEMA, &format!("{TRANSACTIONS}{load}")), ("placed", 20_000));
    const COPY: &str = "COPY log (id, what) FROM STDIN";
    let mut client = deployment.client(0);
    let mut rows = client.copy_in(COPY).unwrap();
    rows.write_all(b"1\tone\n2\ttwo\n").unwrap();
    assert_eq!(rows.finish().unwrap(), 2);
    let mut rows = client.copy_in(COPY).unwrap();
    rows.write_all(b"3\tthree\n2\tagain\n").unwrap();
    assert_eq!(rows.finish().unwrap_err().code().unwrap().code(), "23505");
    // A copy that is dropped fails, and so does the block that it is in.
    let mut block = client.transaction().unwrap();
    drop(block.copy_in(COPY).unwrap());
    let error = block.execute("UPDATE stock SET n = n - 1 WHERE id = 1", &[]).unwrap_err();
    assert_eq!(error.code().unwrap().code(), "25P02");
    block.rollback().unwrap();
    let mut block = client.transaction().unwrap();
    let mut rows = block.copy_in(COPY).unwrap();
    rows.write_all(b"4\tfour\n").unwrap();
    rows.finish().unwrap();
    block.commit().unwrap();
    let ids: Vec<i64> = deployment
        .direct(0)
        .query("SELECT id FROM log ORDER BY id", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(ids, [1, 2, 4]);
}
