//! PostgreSQL's protocol in front of a cluster: what a driver is told, and who is turned away.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::bank::Bank;
use crate::eventually::eventually;
use postgres::error::SqlState;
use postgres::{Client as Driver, NoTls, SimpleQueryMessage};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_postgres_rustls::MakeRustlsConnect;
use weir_pg::{Door, Settings};

#[test]
fn a_driver_queries_and_calls() {
    let bank = Bank::open(|_| ());
    let mut driver = bank.driver();
    let row = driver
        .query_one("SELECT id, owner, balance::float8, opened, tags FROM account WHERE id = $1", &[&7])
        .unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1), row.get::<_, f64>(2)), (7, "owner 7", 10.0));
    assert!(row.get::<_, Option<Vec<String>>>(4).is_none());
    assert_eq!(row.columns()[2].type_().name(), "float8");
    let count: i64 = driver.query_one("SELECT count(*) FROM account", &[]).unwrap().get(0);
    assert_eq!(count, 9);
    driver.execute("CALL deposit($1, $2::text::numeric)", &[&7, &"2.50"]).unwrap();
    let prepared = driver.prepare("SELECT balance_of($1)::text").err();
    assert!(prepared.is_some(), "a call within an expression is none");
    let said = driver.simple_query("CALL look(7, NULL, NULL); ").unwrap();
    let SimpleQueryMessage::Row(row) = &said[1] else { panic!("{said:?}") };
    assert_eq!((row.get("who"), row.get("balance")), (Some("owner 7"), Some("12.50")));
    // Several statements of one text, a portal that is asked for some rows at a time, arrays to and fro.
    let said = driver
        .simple_query("SET application_name = 'x'; SHOW application_name; SELECT 1 AS one, NULL AS none;")
        .unwrap();
    let rows: Vec<Option<&str>> = said
        .iter()
        .filter_map(|one| if let SimpleQueryMessage::Row(row) = one { Some(row.get(0)) } else { None })
        .collect();
    assert_eq!(rows, [Some("x"), Some("1")]);
    let found =
        driver.query("SELECT id FROM account WHERE id = ANY($1) ORDER BY id", &[&vec![3, 1]]).unwrap();
    assert_eq!(found.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1, 3]);
    let row = driver.query_one("SELECT balance_of(7)::text AS b FROM account WHERE id = 7", &[]);
    assert!(row.is_err(), "a call within a query is none");
    let row = driver.query_one("SELECT balance_of(7) AS b", &[]).unwrap();
    assert_eq!(row.columns()[0].name(), "b");
    assert!(matches!(driver.simple_query(";").unwrap()[..], [SimpleQueryMessage::CommandComplete(0)]));
}

#[test]
fn a_driver_writes() {
    let bank = Bank::open(|_| ());
    let mut driver = bank.driver();
    let text =
        "INSERT INTO account (id, owner, opened) VALUES ($1, $2, now()) RETURNING owner, id, balance::text";
    let row = driver.query_one(text, &[&50, &"Eve"]).unwrap();
    assert_eq!((row.get(0), row.get(1), row.get(2)), ("Eve", 50, "0.00"));
    // Rows on three shards, in one transaction; constants of all kinds.
    let text = "INSERT INTO account (id, owner, balance, tags) VALUES (51, 'it''s', 1.5, '{x,y}'), (52, 'b', -2, NULL), (53, 'c', 0, '{}')";
    assert_eq!(driver.execute(text, &[]).unwrap(), 3);
    let rows =
        driver.query("SELECT owner, balance::float8, tags FROM account WHERE id > 50 ORDER BY id", &[]);
    let rows: Vec<(String, f64, Option<Vec<String>>)> =
        rows.unwrap().iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let (x, y) = ("x".to_owned(), "y".to_owned());
    assert_eq!(rows[0], ("it's".to_owned(), 1.5, Some(vec![x, y])));
    assert_eq!((rows[1].1, &rows[2].2), (-2.0, &Some(Vec::new())));
    assert_eq!(
        driver
            .execute("UPDATE account SET balance = balance + $1::integer WHERE id IN (51, 52, 99)", &[&10])
            .unwrap(),
        2
    );
    let mut changed: Vec<i32> = driver
        .query("UPDATE account SET owner = upper(owner) WHERE id > $1 RETURNING id", &[&49])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    changed.sort_unstable();
    assert_eq!(changed, [50, 51, 52, 53]);
    let upsert = "INSERT INTO account (id, owner) VALUES ($1, 'new') ON CONFLICT (id) DO UPDATE SET owner = EXCLUDED.owner || '!'";
    assert_eq!([60, 53].map(|id: i32| driver.execute(upsert, &[&id]).unwrap()), [1, 1]);
    let nothing = "INSERT INTO account (id, owner) VALUES (53, 'x') ON CONFLICT DO NOTHING";
    assert_eq!(driver.execute(nothing, &[]).unwrap(), 0);
    let said = driver.simple_query("DELETE FROM account WHERE id >= 52 RETURNING owner").unwrap();
    let mut gone: Vec<&str> = said
        .iter()
        .filter_map(|one| if let SimpleQueryMessage::Row(row) = one { row.get(0) } else { None })
        .collect();
    gone.sort_unstable();
    assert_eq!(gone, ["B", "new", "new!"]);
    assert!(matches!(
        driver.simple_query("DELETE FROM account WHERE id = 77").unwrap()[..],
        [SimpleQueryMessage::CommandComplete(0)]
    ));
    assert!(matches!(
        driver.simple_query("DELETE FROM account WHERE id = 51").unwrap()[..],
        [SimpleQueryMessage::CommandComplete(1)]
    ));
}

/// The balance of an account as that session sees it.
fn balance(driver: &mut Driver, id: i32) -> f64 {
    driver.query_one("SELECT balance::float8 FROM account WHERE id = $1", &[&id]).unwrap().get(0)
}

#[test]
fn a_transaction_is_seen_by_itself_alone_until_it_ends() {
    let bank = Bank::open(|_| ());
    let (mut ann, mut bob) = (bank.driver(), bank.driver());
    // Over several shards; the driver's own BEGIN and COMMIT.
    let mut transaction = ann.transaction().unwrap();
    assert_eq!(transaction.execute("UPDATE account SET balance = balance - 4 WHERE id = 1", &[]).unwrap(), 1);
    assert_eq!(transaction.execute("UPDATE account SET balance = balance + 4 WHERE id = 2", &[]).unwrap(), 1);
    let text =
        "INSERT INTO account (id, owner, balance) VALUES (70, 'new', 1), (71, 'too', 2), (72, 'also', 3)";
    assert_eq!(transaction.execute(text, &[]).unwrap(), 3);
    assert_eq!(
        transaction.execute("UPDATE account SET balance = balance + 18 WHERE id >= 71", &[]).unwrap(),
        2
    );
    assert_eq!(transaction.execute("DELETE FROM account WHERE id = 72", &[]).unwrap(), 1);
    transaction.execute("CALL deposit(2, 1)", &[]).unwrap();
    let row = transaction
        .query_one("SELECT sum(balance)::float8, count(*) FROM account WHERE id IN (1, 2) OR id >= 70", &[]);
    let row = row.unwrap();
    assert_eq!((row.get::<_, f64>(0), row.get::<_, i64>(1)), (42.0, 4), "it sees what it has written");
    assert_eq!((balance(&mut bob, 1), balance(&mut bob, 2)), (10.0, 10.0), "nobody else does");
    transaction.commit().unwrap();
    assert_eq!((balance(&mut bob, 1), balance(&mut bob, 2), balance(&mut bob, 71)), (6.0, 15.0, 20.0));
    // Rolled back by word, by an error, and by the end of the connection.
    let mut transaction = bob.transaction().unwrap();
    transaction.execute("DELETE FROM account WHERE id < 5", &[]).unwrap();
    transaction.rollback().unwrap();
    let mut transaction = bob.transaction().unwrap();
    transaction.execute("UPDATE account SET balance = 0 WHERE id < 5", &[]).unwrap();
    let wrong = transaction.execute("INSERT INTO account (id, owner) VALUES (1, 'again')", &[]).unwrap_err();
    assert_eq!(wrong.code(), Some(&SqlState::UNIQUE_VIOLATION));
    let after = transaction.query("SELECT 1", &[]).unwrap_err();
    assert_eq!(after.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    transaction.commit().unwrap();
    let mut gone = bank.driver();
    gone.simple_query("BEGIN; UPDATE account SET balance = 0 WHERE id < 9").unwrap();
    drop(gone);
    bob.execute("UPDATE account SET balance = balance + 1 WHERE id = 1", &[]).unwrap();
    assert_eq!((balance(&mut ann, 1), balance(&mut ann, 2)), (7.0, 15.0));
    // Several statements of one text are one transaction.
    assert!(ann.simple_query("UPDATE account SET balance = 0 WHERE id = 1; SELECT 1 / 0; SELECT 2").is_err());
    assert_eq!(balance(&mut bob, 1), 7.0);
    ann.simple_query(
        "UPDATE account SET balance = 8 WHERE id = 1; UPDATE account SET balance = 9 WHERE id = 2",
    )
    .unwrap();
    assert_eq!((balance(&mut bob, 1), balance(&mut bob, 2)), (8.0, 9.0));
}

#[test]
fn writers_of_a_row_wait_and_one_of_a_circle_ends() {
    let bank = Bank::open(|_| ());
    let (mut ann, mut bob, mut eve) = (bank.driver(), bank.driver(), bank.driver());
    ann.simple_query("BEGIN; UPDATE account SET balance = balance + 1 WHERE id = 1").unwrap();
    bob.simple_query("BEGIN; UPDATE account SET balance = balance + 1 WHERE id = 2").unwrap();
    // A call and a statement by itself wait; a reader does not.
    let waiting = std::thread::spawn(move || {
        eve.execute("UPDATE account SET balance = balance + 100 WHERE id = 1", &[])
    });
    let reader = balance(&mut bank.driver(), 1);
    assert_eq!(reader, 10.0);
    let crossed = std::thread::spawn(move || {
        let result = ann.execute("UPDATE account SET balance = balance + 1 WHERE id = 2", &[]);
        ann.simple_query("COMMIT").unwrap();
        result.map_err(|error| error.code().cloned())
    });
    let own = bob.execute("UPDATE account SET balance = balance + 1 WHERE id = 1", &[]);
    bob.simple_query("COMMIT").unwrap();
    let ended = [own.map_err(|error| error.code().cloned()), crossed.join().unwrap()];
    let deadlock = Err(Some(SqlState::T_R_DEADLOCK_DETECTED));
    assert!(ended.contains(&Ok(1)) && ended.contains(&deadlock), "{ended:?}");
    assert_eq!(waiting.join().unwrap().unwrap(), 1);
    let mut driver = bank.driver();
    assert_eq!(
        (balance(&mut driver, 1), balance(&mut driver, 2)),
        (111.0, 11.0),
        "one of them, and who waited"
    );
}

#[test]
fn errors_have_their_state_and_place_and_the_session_goes_on() {
    let bank = Bank::open(|_| ());
    let mut driver = bank.driver();
    let check = |driver: &mut Driver, text: &str, state: &str, position: Option<u32>, words: &str| {
        for simple in [false, true] {
            let error = match simple {
                true => driver.simple_query(text).map(drop).unwrap_err(),
                false => driver.query(text, &[]).map(drop).unwrap_err(),
            };
            let error = error.as_db_error().unwrap_or_else(|| panic!("{text}: {error:?}"));
            let place = error.position().map(|place| match place {
                postgres::error::ErrorPosition::Original(at) => *at,
                other => panic!("{other:?}"),
            });
            assert_eq!((error.code().code(), place), (state, position), "{text}: {error:?}");
            let told = format!("{} {}", error.message(), error.hint().unwrap_or_default());
            assert!(told.contains(words), "{text}: {told}");
        }
        let one: i32 = driver.query_one("SELECT 1", &[]).unwrap().get(0);
        assert_eq!(one, 1);
    };
    check(&mut driver, "SELECT balanse FROM account", "42703", Some(8), "balance");
    check(&mut driver, "SELEC 1", "42601", Some(1), "SELEC");
    check(&mut driver, "SELECT * FROM nowhere", "42P01", Some(15), "nowhere");
    check(&mut driver, "CALL deposit(99, 1)", "P0002", None, "open one");
    check(&mut driver, "CALL deposit(1, -2000)", "23514", None, "account_balance_check");
    check(&mut driver, "SELECT 1 / (id - id) FROM account", "22012", None, "division by zero");
    check(&mut driver, "SAVEPOINT s", "25P01", None, "transaction blocks");
    check(&mut driver, "INSERT INTO account VALUES (1, 'x')", "23505", None, "account_pkey");
    check(&mut driver, "INSERT INTO account (id) VALUES (100)", "23502", None, "owner");
    check(&mut driver, "UPDATE account SET balance = balance - 5000 WHERE id = 1", "23514", None, "check");
    check(&mut driver, "UPDATE account SET balanse = 1", "42703", Some(20), "balanse");
    check(&mut driver, "DELETE FROM account WHERE id = 'x'", "22P02", Some(32), "integer");
    check(&mut driver, "CREATE TABLE account (a int)", "42P07", Some(14), "already exists");
    check(&mut driver, "SET TimeZone = 'Europe/Paree'", "22023", None, "TimeZone");
    check(&mut driver, "SHOW nothing", "42704", None, "nothing");
    check(&mut driver, "SELECT * FROM balance_of(1) OFFSET 1", "0A000", Some(15), "balance_of");
    check(&mut driver, "LISTEN x", "0A000", None, "not supported yet: LISTEN x");
    let balance: f64 =
        driver.query_one("SELECT balance::float8 FROM account WHERE id = 1", &[]).unwrap().get(0);
    assert_eq!(balance, 10.0, "none of these has had an effect");
}

#[test]
fn who_may_not_come_in_is_told_why() {
    let bank = Bank::open(|settings| settings.password = Some("sesame".to_owned()));
    let refused = |url: &str| {
        let error = Driver::connect(url, NoTls).map(drop).unwrap_err();
        error.code().cloned().unwrap_or_else(|| panic!("{url}: {error:?}"))
    };
    assert!(Driver::connect(&bank.url("password=sesame"), NoTls).is_ok());
    assert_eq!(refused(&bank.url("password=wrong")), SqlState::INVALID_PASSWORD);
    let elsewhere = bank.url("password=sesame").replace("dbname=weir", "dbname=postgres");
    assert_eq!(refused(&elsewhere), SqlState::INVALID_CATALOG_NAME);
    // Garbage, half a packet, a packet that says it is huge, and nothing at all.
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0, 0, 9, 0], &[0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0], b""]
    {
        let mut socket = TcpStream::connect(bank.server.address()).unwrap();
        socket.write_all(bytes).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = socket.read_to_end(&mut Vec::new());
    }
    assert!(Driver::connect(&bank.url("password=sesame"), NoTls).is_ok(), "nobody else has noticed");
}

#[test]
fn there_are_no_more_connections_than_there_may_be() {
    let bank = Bank::open(|settings| settings.connections_max = 40);
    let mut idle: Vec<Driver> = (0..40).map(|_| bank.driver()).collect();
    let error = Driver::connect(&bank.url(""), NoTls).map(drop).unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::TOO_MANY_CONNECTIONS));
    idle.pop();
    let _one = eventually("one has gone, so one may come", || Driver::connect(&bank.url(""), NoTls).ok());
    assert_eq!(idle[0].query_one("SELECT 1", &[]).unwrap().get::<_, i32>(0), 1);
}

/// A certificate of its own for `localhost`, as files.
fn certificate(place: &Path) -> (PathBuf, PathBuf) {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (place.join("certificate.pem"), place.join("key.pem"));
    std::fs::write(&certificate, signed.cert.pem()).unwrap();
    std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

/// Trusts the authority in that file and nobody else.
fn trusting(authority: &Path) -> MakeRustlsConnect {
    let mut roots = rustls::RootCertStore::empty();
    for one in CertificateDer::pem_file_iter(authority).unwrap() {
        roots.add(one.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    MakeRustlsConnect::new(config.unwrap().with_root_certificates(roots).with_no_client_auth())
}

#[test]
fn a_driver_speaks_tls_with_the_server_that_it_means() {
    let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = certificate(place.path());
    let authority = files.0.clone();
    let bank = Bank::open(|settings| {
        settings.certificate = Some(files);
        settings.password = Some("sesame".to_owned());
    });
    let url = bank.url("password=sesame hostaddr=127.0.0.1 sslmode=require");
    let url = url.replace("host=127.0.0.1", "host=localhost");
    let mut driver = Driver::connect(&url, trusting(&authority)).unwrap();
    assert_eq!(driver.query_one("SELECT count(*) FROM account", &[]).unwrap().get::<_, i64>(0), 9);
    let other = certificate(elsewhere.path()).0;
    assert!(Driver::connect(&url, trusting(&other)).is_err(), "another server's certificate");
    // From this machine the password may come in the clear.
    assert!(Driver::connect(&bank.url("password=sesame"), NoTls).is_ok());
    let refused =
        Driver::connect(&url.replace("sesame", "wrong"), trusting(&authority)).map(drop).unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::INVALID_PASSWORD));
}

#[test]
fn strangers_are_kept_out() {
    let place = tempfile::tempdir().unwrap();
    let check = |password: Option<&str>, certificate: Option<(PathBuf, PathBuf)>, words: &str| {
        let settings = Settings {
            password: password.map(str::to_owned),
            certificate,
            ..Settings::new("0.0.0.0:0".parse().unwrap())
        };
        match Door::new(settings) {
            Ok(_) => assert_eq!(words, ""),
            Err(why) => assert!(why.0.contains(words) && why.1.contains("FILE"), "{why:?}"),
        }
    };
    let files = certificate(place.path());
    check(None, None, "without TLS and a password");
    check(Some("sesame"), None, "without TLS");
    check(None, Some(files.clone()), "without a password");
    check(Some("sesame"), Some((files.1.clone(), files.0.clone())), "key.pem: no certificate in PEM");
    check(Some("sesame"), Some((files.0.clone(), files.0.clone())), "certificate.pem: no private key in PEM");
    check(Some("sesame"), Some(files), "");
}

/// Where psql is installed.
#[test]
fn psql_prints_what_it_prints_of_postgresql() {
    let bank = Bank::open(|_| ());
    let psql = |text: &str| {
        let port = bank.port().to_string();
        let arguments = ["-X", "-h", "127.0.0.1", "-p", &port, "-U", "ann", "-d", "weir", "-c", text];
        let output = Command::new("psql").args(arguments).output().ok()?;
        Some(format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))
    };
    let Some(told) = psql("SELECT id, owner, balance FROM account WHERE id < 3 ORDER BY id DESC") else {
        return println!("there is no psql here");
    };
    assert_eq!(
        told,
        " id |  owner  | balance \n----+---------+---------\n  2 | owner 2 |   10.00\n  1 | owner 1 |   10.00\n(2 rows)\n\n"
    );
    let told = psql("SELECT balanse\nFROM account").unwrap();
    assert!(told.contains("LINE 1: SELECT balanse\n               ^"), "{told}");
    assert_eq!(psql("CALL deposit(1, 5)").unwrap(), "CALL\n");
}
