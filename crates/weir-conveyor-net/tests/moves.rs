//! Changes of the map of slots in real databases: rows travel with their slots, an operation under another map does nothing, and a server that
//! joins takes everything.

use std::collections::{BTreeMap, BTreeSet};

use postgres::types::ToSql;
use postgres::{Client, Error, IsolationLevel, Transaction};
use weir_conveyor::message::OperationId;
use weir_conveyor::routing::{MapChange, MapVersion, Routing, RoutingValue, Slot};
use weir_conveyor::schema;
use weir_conveyor::work::{License, Work};
use weir_conveyor_net::connection::Connection;
use weir_conveyor_net::map_change::{map_of, set_first_map};
use weir_conveyor_net::operation::{Job, MapJob, PlacedTable, SqlDone, SqlWork};
use weir_conveyor_net::sequences::rerouted;

use crate::transactions::{Pair, global};

const TABLES: &str = r#"
CREATE TABLE cart (key bigint, line int, made timestamptz NOT NULL DEFAULT now(), note text, twice bigint GENERATED ALWAYS AS (key * 2) STORED,
    PRIMARY KEY (key, line));
CREATE TABLE "Named ""things""" (name text PRIMARY KEY, v float8);
CREATE TABLE log (id bigint PRIMARY KEY, what text);
CREATE SEQUENCE ids MAXVALUE 1000;
"#;

const FIRST: License = License { epoch: 1, visit: 1 };

fn tables() -> Vec<PlacedTable> {
    let placed = |relation: &str, column: Option<&str>| PlacedTable {
        relation: relation.to_owned(),
        column: column.map(str::to_owned),
        is_by_hand: false,
    };
    vec![
        placed("\"public\".\"cart\"", Some("key")),
        placed("\"public\".\"Named \"\"things\"\"\"", Some("name")),
        placed("\"public\".\"log\"", None),
    ]
}

fn change(change: MapChange, (license, map): (License, u64)) -> SqlWork {
    let id = OperationId { agent: 0, start: 1, number: 1 };
    let operation =
        Job::Map(MapJob { change, tables: tables(), sequences: vec!["\"public\".\"ids\"".to_owned()] });
    Work::Execute { id, operation, license: Some(license), map }
}

/// Two servers of a deployment, the second of which is to have these members beside it.
fn pair(members: &[u16]) -> Pair {
    let mut pair = Pair::new(TABLES);
    for config in &pair.configs {
        set_first_map(config, &Routing::first(members)).unwrap();
    }
    let [first, second] = pair.connections;
    pair.connections = [first.of_server(0), second.of_server(1)];
    for connection in &mut pair.connections {
        connection.run(&Work::Adopt { epoch: 1 });
    }
    pair
}

fn rows(client: &mut Client, text: &str) -> Vec<String> {
    client.query(text, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

fn carts(pair: &Pair, index: usize) -> Vec<String> {
    rows(&mut pair.client(index), "SELECT c::text FROM cart c ORDER BY key, line")
}

fn apply(
    connection: &mut Connection,
    pair_outbox: std::sync::Arc<weir_conveyor::token::Visit<weir_conveyor_net::operation::StateUpdate>>,
) {
    let after = pair_outbox.number - 1;
    let done = connection.run(&Work::Apply { after, visit: pair_outbox });
    assert!(matches!(done, SqlDone::State(state) if state.applied == after + 1), "{done:?}");
}

#[test]
fn postgresql_computes_the_slots_of_agents() {
    let pair = Pair::new("");
    let mut client = pair.client(0);
    for number in [0, 1, 239, 240, -1, -240, -241, i64::MAX, i64::MIN] {
        let slot: i16 =
            client.query_one("SELECT weir_conveyor.slot_of($1::bigint)", &[&number]).unwrap().get(0);
        assert_eq!(slot as Slot, RoutingValue::Integer(number).slot(), "{number}");
    }
    for text in
        ["", "a", "Ada", "it's", "ünïcödé ✓", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", &"long ".repeat(999)]
    {
        let slot: i16 = client.query_one("SELECT weir_conveyor.slot_of($1::text)", &[&text]).unwrap().get(0);
        assert_eq!(slot as Slot, RoutingValue::Text(text.to_owned()).slot(), "{text}");
    }
    let nulls: Vec<i16> = ["bigint", "text"]
        .map(|ty| client.query_one(&format!("SELECT weir_conveyor.slot_of(NULL::{ty})"), &[]).unwrap().get(0))
        .into();
    assert_eq!(nulls, [0, 0]);
}

#[test]
fn slots_move_with_their_rows() {
    let mut pair = pair(&[0, 1]);
    pair.client(0)
        .batch_execute(
            r#"INSERT INTO cart (key, line, note) VALUES (2, 1, 'moves'), (2, 2, NULL), (242, 1, 'it''s "odd" \ {}'), (4, 1, 'stays');
               INSERT INTO "Named ""things""" VALUES ('a', 'NaN'), ('Ada', 0.1);
               INSERT INTO log VALUES (1, 'stays')"#,
        )
        .unwrap();
    // The new owner has had the slot before: what is gone since is to go there, too.
    pair.client(1)
        .batch_execute(
            "INSERT INTO cart (key, line, note) VALUES (2, 9, 'old'), (2, 1, 'old'), (1, 1, 'its own')",
        )
        .unwrap();
    let slot = RoutingValue::Text("a".into()).slot();
    let moves = BTreeMap::from([(2, 1), (slot, 1)]);
    let old = change(MapChange::Move(BTreeMap::from([(1, 0)])), (FIRST, 0));
    let SqlDone::Executed(Err(error)) = pair.connections[0].run(&old) else { panic!("not its slot") };
    assert!(error.message.contains("belongs to another server"), "{error:?}");
    let done = pair.connections[0].run(&change(MapChange::Move(moves.clone()), (FIRST, 0)));
    assert_eq!(done, SqlDone::Executed(Ok(Vec::new())));
    // The same change again, and any operation that was placed before it, do nothing.
    assert_eq!(pair.connections[0].run(&change(MapChange::Move(moves), (FIRST, 0))), SqlDone::WrongMap);
    assert_eq!(pair.connections[0].run(&global(&["DELETE FROM cart"], FIRST)), SqlDone::WrongMap);
    let visit = pair.outbox(1);
    assert_eq!(visit.updates.len(), 1);
    apply(&mut pair.connections[1], visit);
    let here = carts(&pair, 0);
    let mut expected: Vec<String> = here.iter().filter(|row| !row.contains("stays")).cloned().collect();
    let there: Vec<String> = carts(&pair, 1);
    let own = there.iter().find(|row| row.contains("its own")).unwrap().clone();
    expected.insert(0, own);
    assert_eq!(there, expected);
    let named = rows(&mut pair.client(1), r#"SELECT n::text FROM "Named ""things""" n"#);
    assert_eq!(named, ["(a,NaN)"]);
    assert!(rows(&mut pair.client(1), "SELECT what FROM log").is_empty());
    let maps = [0, 1].map(|index: usize| map_of(&pair.configs[index]).unwrap().unwrap());
    assert_eq!(maps[0], maps[1]);
    assert_eq!((maps[0].version, maps[0].owner(2), maps[0].owner(4), maps[0].owner(slot)), (1, 1, 0, 1));
}

/// Ids that the sequence gives there next.
fn draw(pair: &Pair, index: usize, count: i32) -> Vec<i64> {
    let text = "SELECT nextval('ids') FROM generate_series(1, $1)";
    pair.client(index).query(text, &[&count]).unwrap().iter().map(|row| row.get(0)).collect()
}

#[test]
fn sequences_give_ids_of_the_slots_that_their_server_has() {
    let mut pair = pair(&[0, 1]);
    let first = Routing::even(&[0, 1]);
    for (index, server) in [0, 1].into_iter().enumerate() {
        let ids = first.generated_ids(server).unwrap();
        let statement = rerouted(&mut pair.client(index), "public.ids", ids, 0).unwrap();
        pair.client(index).batch_execute(&statement.unwrap()).unwrap();
        assert_eq!(rerouted(&mut pair.client(index), "public.ids", ids, 0).unwrap(), None);
    }
    let mut given = draw(&pair, 0, 20);
    given.extend(draw(&pair, 1, 3));
    let moves = change(MapChange::Move((0..60).map(|slot| (2 * slot, 1)).collect()), (FIRST, 0));
    assert_eq!(pair.connections[0].run(&moves), SqlDone::Executed(Ok(Vec::new())));
    let visit = pair.outbox(1);
    apply(&mut pair.connections[1], visit);
    let map = map_of(&pair.configs[0]).unwrap().unwrap();
    for (index, server) in [0, 1].into_iter().enumerate() {
        let drawn = draw(&pair, index, 3);
        assert!(
            drawn.iter().all(|id| map.server(&RoutingValue::Integer(*id)) == server),
            "{server}: {drawn:?}"
        );
        given.extend(drawn);
    }
    let moves = map.spread(0, &[1]);
    let leave = change(MapChange::Leave { moves, heir: 1 }, (License { epoch: 1, visit: 2 }, 1));
    assert_eq!(pair.connections[0].run(&leave), SqlDone::Executed(Ok(Vec::new())));
    let visit = pair.outbox(2);
    apply(&mut pair.connections[1], visit);
    given.extend(draw(&pair, 1, 5));
    let different: BTreeSet<_> = given.iter().collect();
    assert_eq!(different.len(), given.len(), "an id was given twice: {given:?}");
}

#[test]
fn a_sequence_without_ids_of_its_server_gives_none() {
    let pair = pair(&[0, 1]);
    let mut client = pair.client(0);
    let ids = Routing::even(&[0, 1]).generated_ids(0).unwrap();
    let statement = rerouted(&mut client, "public.ids", ids, 999).unwrap().unwrap();
    assert_eq!(statement, "ALTER SEQUENCE public.ids INCREMENT BY 2 RESTART WITH 1000");
    let statement = rerouted(&mut client, "public.ids", ids, 1000).unwrap().unwrap();
    client.batch_execute(&statement).unwrap();
    let error = client.query("SELECT nextval('ids')", &[]).unwrap_err();
    assert_eq!(code(&error), "2200H");
    assert_eq!(rerouted(&mut client, "public.nothing", ids, 0).unwrap(), None);
}

#[test]
fn a_server_that_leaves_gives_everything_away() {
    let mut pair = pair(&[0, 1]);
    pair.client(0)
        .batch_execute("INSERT INTO cart VALUES (4, 1); INSERT INTO log VALUES (1, 'left'), (2, 'both')")
        .unwrap();
    pair.client(1).batch_execute("INSERT INTO log VALUES (2, 'kept'), (3, 'own')").unwrap();
    let moves = Routing::even(&[0, 1]).spread(0, &[1]);
    let leave = change(MapChange::Leave { moves, heir: 1 }, (FIRST, 0));
    assert_eq!(pair.connections[0].run(&leave), SqlDone::Executed(Ok(Vec::new())));
    let visit = pair.outbox(1);
    apply(&mut pair.connections[1], visit);
    assert_eq!(carts(&pair, 0), carts(&pair, 1));
    assert_eq!(rows(&mut pair.client(1), "SELECT what FROM log ORDER BY id"), ["left", "kept", "own"]);
    let SqlDone::State(state) = pair.connections[0].run(&Work::Load) else { panic!("no state") };
    assert!(state.absent.contains(0) && !state.absent.contains(1));
    // It comes back with a copy, once it was added: the map before that has it as a member, too.
    let source = pair.configs[1].clone();
    assert_eq!(pair.connections[0].copy(&source), SqlDone::WrongMap);
    let second = License { epoch: 1, visit: 2 };
    let add = change(MapChange::Add(0), (second, 1));
    assert_eq!(pair.connections[1].run(&add), SqlDone::Executed(Ok(Vec::new())));
    pair.client(1).batch_execute("UPDATE cart SET note = 'since'").unwrap();
    let SqlDone::State(state) = pair.connections[0].copy(&source) else { panic!("not copied") };
    assert_eq!((state.map, state.applied, state.absent.contains(0)), (2, 1, false));
    assert_eq!(carts(&pair, 0), carts(&pair, 1));
    assert_eq!(rows(&mut pair.client(0), "SELECT what FROM log ORDER BY id"), ["left", "kept", "own"]);
    // A second copy finds that everything is there.
    pair.client(0).batch_execute("UPDATE cart SET note = 'own'").unwrap();
    assert!(matches!(pair.connections[0].copy(&source), SqlDone::State(_)));
    assert!(carts(&pair, 0)[0].contains("own"));
}

#[test]
fn a_move_waits_for_operations_and_none_begins_beside_it() {
    let mut pair = pair(&[0, 1]);
    let mut client = pair.client(0);
    let mut running = client.transaction().unwrap();
    check_map(&mut running, 0).unwrap();
    let moves = change(MapChange::Move(BTreeMap::from([(2, 1)])), (FIRST, 0));
    let SqlDone::Executed(Err(error)) = pair.connections[0].run(&moves) else { panic!("it did not wait") };
    assert_eq!(error.sqlstate, "55P03");
    running.execute("INSERT INTO cart VALUES (2, 7)", &[]).unwrap();
    running.commit().unwrap();
    assert_eq!(pair.connections[0].run(&moves), SqlDone::Executed(Ok(Vec::new())));
    let visit = pair.outbox(1);
    apply(&mut pair.connections[1], visit);
    assert_eq!(carts(&pair, 1), carts(&pair, 0));
    let refused = check_map(&mut client.transaction().unwrap(), 0).unwrap_err();
    assert_eq!(code(&refused), schema::WRONG_MAP);
}

/// PostgreSQL does not see the conflicts of a SERIALIZABLE transaction that has its number before its snapshot.
#[test]
fn the_lock_of_a_move_gives_its_transaction_no_number() {
    let pair = pair(&[0, 1]);
    let mut client = pair.client(0);
    let mut running = client.transaction().unwrap();
    running.batch_execute(schema::LOCK_MAP).unwrap();
    let is_none: bool =
        running.query_one("SELECT pg_current_xact_id_if_assigned() IS NULL", &[]).unwrap().get(0);
    assert!(is_none);
}

/// A local operation checks the map first.
fn check_map(running: &mut Transaction<'_>, map: MapVersion) -> Result<(), Error> {
    running.execute(schema::CHECK_MAP, &[&(map as i64)]).map(drop)
}

/// A global operation locks the epoch row and checks the map first.
fn enter(
    running: &mut Transaction<'_>,
    License { epoch, visit }: License,
    map: MapVersion,
) -> Result<(), Error> {
    let numbers = [epoch, visit, map].map(|number| number as i64);
    let parameters = numbers.each_ref().map(|number| number as &(dyn ToSql + Sync));
    running.execute(schema::ENTER, &parameters).map(drop)
}

fn code(error: &Error) -> &str {
    error.code().map_or("", |code| code.code())
}

/// Waits until so many sessions wait for locks.
fn wait_for_waiting(client: &mut Client, count: i64) {
    let text = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while client.query_one(text, &[]).unwrap().get::<_, i64>(0) != count {
        std::thread::yield_now();
    }
}

/// An operation whose snapshot is older than the move, and which goes on behind it.
fn operation(
    client: &mut Client,
    license: Option<License>,
    map: MapVersion,
    statement: &str,
) -> Result<(), Error> {
    let mut running = client.build_transaction().isolation_level(IsolationLevel::Serializable).start()?;
    match license {
        Some(license) => enter(&mut running, license, map)?,
        None => check_map(&mut running, map)?,
    }
    running.batch_execute(statement)?;
    running.commit()
}

/// A move is stopped at each place where it can wait. Local and global operations begin beside it and wait for it, with snapshots from before its
/// commit: each comes before the move, which then sends what it has written, or does nothing.
#[test]
fn operations_that_have_waited_for_a_move_lose_nothing() {
    let mut pair = pair(&[0, 1]);
    let stops = [
        "UPDATE weir_conveyor.epoch SET epoch = epoch",
        "LOCK TABLE weir_conveyor.outbox IN SHARE MODE",
        "LOCK TABLE cart IN ACCESS EXCLUSIVE MODE",
    ];
    let writes = [
        "UPDATE cart SET note = 'late' WHERE key = $key",
        "INSERT INTO cart VALUES ($key, 9)",
        "DELETE FROM cart WHERE key = $key",
    ];
    let mut turn = 0;
    for (stop, write) in stops.iter().flat_map(|stop| writes.iter().map(move |write| (stop, write))) {
        for is_global in [false, true] {
            // Slots with even numbers are those of the first server.
            let (map, slot, license) = (turn, 2 * turn as Slot, License { epoch: 1, visit: turn + 1 });
            turn += 1;
            let [mut stopping, mut watching, mut client] = [(); 3].map(|()| pair.client(0));
            watching.execute("INSERT INTO cart VALUES ($1, 1)", &[&i64::from(slot)]).unwrap();
            let mut stopped = stopping.transaction().unwrap();
            stopped.batch_execute(stop).unwrap();
            let of_global = is_global.then_some(license);
            let statement = write.replace("$key", &slot.to_string());
            let moves = change(MapChange::Move(BTreeMap::from([(slot, 1)])), (license, map));
            let connection = &mut pair.connections[0];
            let (moved, operated) = std::thread::scope(|scope| {
                let moving = scope.spawn(|| connection.run(&moves));
                wait_for_waiting(&mut watching, 1);
                let operating = scope.spawn(|| operation(&mut client, of_global, map, &statement));
                wait_for_waiting(&mut watching, 2);
                stopped.rollback().unwrap();
                (moving.join().unwrap(), operating.join().unwrap())
            });
            assert_eq!(moved, SqlDone::Executed(Ok(Vec::new())), "{stop}, {statement}");
            if let Err(error) = operated {
                assert!(["40001", schema::WRONG_MAP].contains(&code(&error)), "{error:?}");
            }
            let visit = pair.outbox(license.visit);
            apply(&mut pair.connections[1], visit);
            let carts = format!("SELECT c::text FROM cart c WHERE key = {slot} ORDER BY line");
            let [here, there] = [0, 1].map(|index| rows(&mut pair.client(index), &carts));
            assert_eq!(here, there, "{stop}, {statement}, global: {is_global}");
        }
    }
}
