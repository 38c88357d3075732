//! `Client::call` against nodes that are processes: what comes back, what is refused with which words, and what becomes of calls while
//! nodes are killed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::eventually::until;
use crate::nodes::{LOOKS, Nodes};
use weir_client::{Client, ClusterFile, Error, Settings, SqlState, Value};
use weir_types::datetime::SessionZone;

const SQL: &str = "
CREATE TABLE account (id integer PRIMARY KEY, owner text NOT NULL, balance numeric NOT NULL DEFAULT 0);
CREATE PROCEDURE open_account(a integer, who text) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO account (id, owner) VALUES (a, who); END $$;
CREATE PROCEDURE deposit(a integer, amount numeric) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance + amount WHERE id = a;
    IF NOT FOUND THEN RAISE EXCEPTION 'there is no account %', a USING ERRCODE = 'P0002'; END IF;
END $$;
CREATE PROCEDURE transfer(a integer, b integer, amount numeric) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - amount WHERE id = a;
    UPDATE account SET balance = balance + amount WHERE id = b;
END $$;
CREATE PROCEDURE transfer_aloud(a integer, b integer, amount numeric) LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE '% from % to %', amount, a, b;
    UPDATE account SET balance = balance - amount WHERE id = a;
    UPDATE account SET balance = balance + amount WHERE id = b;
    IF NOT FOUND THEN RAISE EXCEPTION 'there is no account %', b; END IF;
    RAISE WARNING 'done' USING HINT = 'rest';
END $$;
CREATE FUNCTION accounts_of(a integer) RETURNS TABLE (who text, amount numeric) LANGUAGE plpgsql AS $$
BEGIN RETURN QUERY SELECT owner, balance FROM account WHERE id = a; END $$;
";

const ACCOUNTS: i64 = 24;

/// Nodes of two shards each, with `ACCOUNTS` empty accounts.
fn bank(nodes: usize) -> Nodes {
    let load = format!(
        "[load.account]\nfor = [\"a in 1..{ACCOUNTS}\"]\nid = \"a\"\nowner = \"concat('account ', a)\"\nbalance = \"0\"\n\
         [mix]\nbalance_of = 1\n[parameters.balance_of]\na = \"uniform(1, {ACCOUNTS})\"\n"
    );
    Nodes::of(&format!("{SQL}{LOOKS}"), &load, nodes, 2, true)
}

fn connect(nodes: &Nodes, settings: Settings) -> Client {
    Client::connect_with(&ClusterFile::read(&nodes.file()).unwrap(), settings).unwrap()
}

fn balance(client: &Client, account: i64) -> i64 {
    let result = client.call("balance_of", [account.into()]).unwrap();
    let Value::Numeric(balance) = &result.values[0] else { panic!("{result:?}") };
    balance.to_string().parse().unwrap()
}

#[test]
fn a_call_gives_what_the_procedure_gives_or_says_why_not() {
    let nodes = bank(2);
    let client = connect(&nodes, Settings::default());
    client.call("open_account", [100.into(), "Ann".into()]).unwrap();
    client.call("deposit", [100.into(), "12.50".into()]).unwrap();
    client.call("transfer", [100.into(), 7.into(), Value::Float8(2.5)]).unwrap();
    let look = client.call("look", [100.into()]).unwrap();
    assert_eq!(format!("{:?}", look.get("who")), "Some(Text(\"Ann\"))");
    let Some(Value::Numeric(balance)) = look.get("balance") else { panic!("{look:?}") };
    assert_eq!(balance.to_string(), "10.00");
    let rows = client.call("accounts_of", [100.into()]).unwrap();
    assert_eq!((&rows.names[..], rows.rows.len()), (&["who".to_owned(), "amount".to_owned()][..], 1));
    let none = client.call("accounts_of", [101.into()]).unwrap();
    assert!(none.rows.is_empty());

    let check = |name: &str, arguments: Vec<Value>, state: SqlState, expected: &str| {
        let error = client.call(name, arguments).unwrap_err();
        let Error::Sql(of) = &error else { panic!("{error:?}") };
        assert!(of.state() == state && error.to_string().contains(expected), "{error}");
    };
    check("depose", vec![], SqlState::UNDEFINED_FUNCTION, "the application has open_account, deposit");
    check("deposit", vec![1.into()], SqlState::UNDEFINED_FUNCTION, "deposit(a integer, amount numeric)");
    check(
        "deposit",
        vec!["x".into(), 1.into()],
        SqlState::INVALID_TEXT_REPRESENTATION,
        "argument 1 of deposit",
    );
    check("deposit", vec![true.into(), 1.into()], SqlState::DATATYPE_MISMATCH, "give integer");
    check("deposit", vec![(1_i64 << 40).into(), 1.into()], SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer");
    check("open_account", vec![101.into(), Value::Null], SqlState::NOT_NULL_VIOLATION, "owner");
    check("open_account", vec![Value::Null, "Bob".into()], SqlState::NOT_NULL_VIOLATION, "id");
    check("open_account", vec![100.into(), "Eve".into()], SqlState::UNIQUE_VIOLATION, "account_pkey");
    check("deposit", vec![999.into(), 1.into()], SqlState::NO_DATA_FOUND, "there is no account 999");
    // Nothing of these has harmed anybody.
    assert_eq!(client.call("accounts_of", [101.into()]).unwrap().rows.len(), 0);
    let items = client.get_all(["a"]).unwrap_err().to_string();
    assert!(items.contains("call its procedures"), "{items}");
}

/// With its answer or its error, of one shard and of two. Who speaks an older version hears the answer alone.
#[test]
fn what_a_procedure_says_comes_beside_its_answer() {
    let nodes = bank(2);
    for (versions, speaks) in [(1..=3, true), (1..=2, false)] {
        let client = connect(&nodes, Settings { versions, ..Settings::default() });
        for other in 2..=ACCOUNTS {
            let result = client.call("transfer_aloud", [1.into(), other.into(), 3.into()]).unwrap();
            let said: Vec<String> =
                result.notices.iter().map(|one| format!("{} {}", one.severity.name(), one.said)).collect();
            let notice = format!("NOTICE 3 from 1 to {other} (SQLSTATE 00000)");
            let expected = [notice, "WARNING done (SQLSTATE 01000)".to_owned()];
            assert_eq!(said, if speaks { &expected[..] } else { &[] });
        }
        for account in [1, 2, 3, 4, 5] {
            let failed = client.call("transfer_aloud", [account.into(), 0.into(), 3.into()]).unwrap_err();
            let Error::Sql(error) = failed else { panic!("{failed:?}") };
            assert_eq!(error.message(), "there is no account 0");
            let said = error.fields().notices.iter().map(|one| one.said.message());
            let expected = [format!("3 from {account} to 0")];
            assert!(said.eq(expected.iter().filter(|_| speaks)), "{error:?}");
        }
    }
}

/// The zone of a session goes to nodes with its statements; one of an older build is not asked.
#[test]
fn nodes_compute_in_the_zone_of_the_session_that_asks() {
    let nodes = bank(2);
    let asked = "SELECT id, timestamptz '2024-07-01 12:00'::text || owner FROM account WHERE owner <> 'x' ORDER BY id LIMIT 1";
    let write = "UPDATE account SET owner = to_char(timestamptz '2024-01-01 00:00+00' + $1::interval, 'HH24:MI TZ') WHERE id = 1";
    for (versions, speaks) in [(1..=5, true), (1..=4, false)] {
        let client = connect(&nodes, Settings { versions, ..Settings::default() });
        for zone in ["UTC", "Asia/Tokyo"] {
            let zone = SessionZone::named(zone).unwrap();
            let _zone = zone.enter();
            let wrote = client.prepare(write, &[]).unwrap();
            let wrote = client.begin_prepared(&wrote, &["0".into()]).wait();
            let read = client.query(asked).map(|done| done.rows[0][1].clone());
            if speaks || zone.is_utc() {
                wrote.unwrap();
                let expected = if zone.is_utc() { "+0000:00 UTC" } else { "+0909:00 JST" };
                assert_eq!(read.unwrap(), Value::text(format!("2024-07-01 12:00:00{expected}")));
            } else {
                for refused in [wrote.map(drop).unwrap_err(), read.map(drop).unwrap_err()] {
                    let Error::Sql(error) = refused else { panic!("{refused:?}") };
                    assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED, "{error}");
                }
            }
        }
    }
}

#[test]
fn a_text_is_bound_once_and_run_with_values_or_refused_with_its_place() {
    let nodes = bank(2);
    let client = connect(&nodes, Settings::default());
    let run = |text: &str, values: &[Value]| {
        let prepared = client.prepare(text, &[]).map_err(|wrong| (wrong.position, wrong.error.to_string()));
        prepared.and_then(|prepared| {
            let done =
                client.begin_prepared(&prepared, values).wait().map_err(|error| (0, error.to_string()))?;
            Ok(format!("{:?} {:?} {:?}", done.names, done.values, done.rows))
        })
    };
    let check = |text: &str, values: &[Value], expected: &str| match run(text, values) {
        Ok(seen) => assert_eq!(seen, expected, "{text}"),
        Err(why) => panic!("{text}: {why:?}"),
    };
    let refused = |text: &str, values: &[Value], position: usize, expected: &str| {
        let (at, why) = run(text, values).unwrap_err();
        assert!(at == position && why.contains(expected), "{text}: {at} {why}");
    };
    check("CALL deposit($1, $2 * 2.0)", &[3.into(), "6.25".into()], "[] [] []");
    check(
        "CALL look(3, NULL, NULL)",
        &[],
        "[\"who\", \"balance\"] [Text(\"account 3\"), Numeric(Small { scale: 3, mantissa: 12500 })] []",
    );
    check(
        "SELECT balance_of($1 + 1)",
        &[2.into()],
        "[\"balance_of\"] [Numeric(Small { scale: 3, mantissa: 12500 })] []",
    );
    check(
        "SELECT * FROM accounts_of(3)",
        &[],
        "[\"who\", \"amount\"] [] [[Text(\"account 3\"), Numeric(Small { scale: 3, mantissa: 12500 })]]",
    );
    check("SELECT 1 AS one, $1::text", &["x".into()], "[\"one\", \"text\"] [] [[Int(1), Text(\"x\")]]");
    check(
        "SELECT id, owner FROM account WHERE id IN ($1, 4) ORDER BY id DESC",
        &[3.into()],
        "[\"id\", \"owner\"] [] [[Int(4), Text(\"account 4\")], [Int(3), Text(\"account 3\")]]",
    );
    check(
        "SELECT a.id FROM account a JOIN account b ON b.balance = a.balance AND b.id <> a.id WHERE a.id < 3 GROUP BY a.id ORDER BY 1",
        &[],
        "[\"id\"] [] [[Int(1)], [Int(2)]]",
    );
    // A condition within a query that must find nothing says nothing of the rows around it.
    check(
        "SELECT id FROM account a WHERE id < 4 AND NOT EXISTS (SELECT 1 FROM account b WHERE b.id = a.id AND b.id = $1) ORDER BY id",
        &[2.into()],
        "[\"id\"] [] [[Int(1)], [Int(3)]]",
    );
    check(
        "SELECT id FROM account a WHERE id < 4 AND (id = 1 OR EXISTS (SELECT 1 FROM account b WHERE b.id = a.id AND b.id = $1)) ORDER BY id",
        &[2.into()],
        "[\"id\"] [] [[Int(1)], [Int(2)]]",
    );
    check("UPDATE account SET owner = 'x' WHERE id = $1", &[24.into()], "[] [Int(1)] []");
    check("DELETE FROM account WHERE id > $1 RETURNING id", &[23.into()], "[\"id\"] [Int(1)] [[Int(24)]]");
    refused("SELECT count(*) FROM account FOR UPDATE", &[], 8, "0A000");
    refused("SELECT balanse FROM account", &[], 8, "42703");
    refused("SELECT 'ä', nowhere.x FROM account", &[], 13, "42P01");
    refused("SELECT * FORM account", &[], 10, "42601");
    refused("SELECT id FROM account WHERE id = $1", &[], 0, "0 values for 1 parameters");
    refused("SELECT id FROM account WHERE id = $1", &["x".into()], 0, "22P02");
    refused("SELECT 1 / (id - 3) FROM account", &[], 0, "22012");
    refused("INSERT INTO account (id, owner) VALUES (1, 'x')", &[], 0, "23505");
    refused("CALL depose(1)", &[], 6, "42883");
    refused("CALL open_account(1)", &[], 6, "who");
}

#[test]
fn a_query_sees_of_each_call_all_or_nothing() {
    let nodes = bank(2);
    let client = connect(&nodes, Settings::default());
    let sums = client.prepare("SELECT count(*), sum(balance), max(abs(balance)) FROM account", &[]).unwrap();
    std::thread::scope(|scope| {
        let transfers = scope.spawn(|| {
            for round in 0..300 {
                let (from, to) = (round % ACCOUNTS + 1, (round * 7 + 3) % ACCOUNTS + 1);
                client.call("transfer", [from.into(), to.into(), 5.into()]).unwrap();
            }
        });
        while !transfers.is_finished() {
            let seen = client.begin_prepared(&sums, &[]).wait().unwrap();
            let [Value::Int(ACCOUNTS), Value::Numeric(sum), _] = &seen.rows[0][..] else {
                panic!("{seen:?}")
            };
            assert!(sum.is_zero(), "half a transfer: {sum}");
        }
    });
}

#[test]
fn without_an_application_there_is_nothing_to_call() {
    let nodes = Nodes::start(1, 1, "", false);
    let error = connect(&nodes, Settings::default()).call("deposit", []).unwrap_err();
    assert!(error.to_string().contains("name one in [application] of the cluster file"), "{error}");
    // A file that says that there is one.
    let place = nodes.place.path();
    let text = std::fs::read_to_string(nodes.file()).unwrap();
    std::fs::write(place.join("other.toml"), format!("[application]\npath = \"nowhere\"\n{text}")).unwrap();
    let other = ClusterFile::read(&place.join("other.toml")).unwrap();
    let error = Client::connect(&other).map(drop).unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("carries items")), "{error}");
}

#[test]
fn what_a_node_that_is_down_keeps_from_happening_has_not_happened() {
    let mut nodes = bank(2);
    let patient = connect(&nodes, Settings::default());
    let hasty = connect(&nodes, Settings { deadline: Duration::from_millis(600), ..Settings::default() });
    nodes.kill(1);
    let mut unknown = 0;
    for from in 1..=8 {
        match hasty.call("transfer", [from.into(), (from % ACCOUNTS + 1).into(), 1.into()]) {
            // Both accounts are on the other node, or the call may yet happen.
            Ok(_) => {}
            Err(Error::Deadline(why)) => assert!(why.contains("shard"), "{why}"),
            Err(Error::Unknown(_)) => unknown += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(unknown < 8, "of all that nobody could prepare nothing is unknown");
    nodes.start_again(1);
    // A call with an unknown outcome may happen now, while one account after the other is looked at; half of it would stay.
    let total = || (1..=ACCOUNTS).map(|account| balance(&patient, account)).sum::<i64>();
    assert!((0..50).any(|_| total() == 0), "half a transfer");
}

#[test]
fn what_takes_longer_than_the_deadline_is_waited_for_where_that_is_wished() {
    let nodes = bank(1);
    let deadline = Duration::from_millis(300);
    let holder = connect(&nodes, Settings::default());
    let hasty = connect(&nodes, Settings { deadline, ..Settings::default() });
    let patient = connect(&nodes, Settings { deadline, waits_for_busy: true, ..Settings::default() });
    let told_later = connect(&nodes, Settings { deadline, ..Settings::default() });
    told_later.wait_for_busy();
    let update = |client: &Client| {
        client.prepare("UPDATE account SET balance = balance + 1 WHERE id = 1", &[]).expect("a statement")
    };
    let (name, held) = (holder.new_transaction(), update(&holder));
    holder.begin_within(name, &held, &[]).wait().unwrap();
    let given_up = update(&hasty);
    let waits = [&patient, &told_later].map(|client| client.begin_prepared(&update(client), &[]));
    let error = hasty.begin_prepared(&given_up, &[]).wait().unwrap_err();
    assert!(matches!(error, Error::Deadline(_)), "{error}");
    holder.end_transaction(name, true).wait().unwrap();
    for one in waits {
        one.wait().unwrap();
    }
    // A call that was given up has not happened, and does not.
    assert_eq!(balance(&holder, 1), 3);
}

#[test]
fn calls_of_many_threads_happen_once_while_nodes_are_killed() {
    let mut nodes = bank(2);
    let client = connect(&nodes, Settings { deadline: Duration::from_secs(60), ..Settings::default() });
    let (committed, unknown) = (AtomicU64::new(0), AtomicU64::new(0));
    let threads = 6;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (client, committed, unknown) = (&client, &committed, &unknown);
            scope.spawn(move || {
                for round in 0..40 {
                    // Several under way at once, each over one shard or two.
                    let account = (thread * 5 + round) % ACCOUNTS + 1;
                    let calls = [
                        client.begin_call("deposit", [account.into(), 1.into()]),
                        client.begin_call(
                            "transfer",
                            [account.into(), (account % ACCOUNTS + 1).into(), 3.into()],
                        ),
                    ];
                    let [deposit, transfer] = calls.map(|call| call.wait());
                    match deposit {
                        Ok(_) => committed.fetch_add(1, Ordering::Relaxed),
                        Err(Error::Unknown(_)) => unknown.fetch_add(1, Ordering::Relaxed),
                        Err(error) => panic!("{error}"),
                    };
                    assert!(matches!(transfer, Ok(_) | Err(Error::Unknown(_))), "{transfer:?}");
                }
            });
        }
        for kill in 0..3 {
            let before = committed.load(Ordering::Relaxed);
            until("calls commit", || committed.load(Ordering::Relaxed) > before + 30);
            nodes.kill_and_start_again(kill % 2);
        }
    });
    let total: i64 = (1..=ACCOUNTS).map(|account| balance(&client, account)).sum();
    let (committed, unknown) = (committed.into_inner() as i64, unknown.into_inner() as i64);
    println!("{committed} deposits, {unknown} unknown, {total} in all accounts");
    assert!(total >= committed && total <= committed + unknown, "{total}, {committed}, {unknown}");
}
