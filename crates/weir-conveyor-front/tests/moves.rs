//! Slots move, a server joins and another one leaves, while clients send statements of operations one by one: histories are serializable, and
//! nothing is lost, also if agents and servers are killed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use postgres::{Client, NoTls};
use weir_conveyor::epochs::ServerId;
use weir_conveyor::routing::RoutingValue;
use weir_conveyor_net::map_change::map_of;

use crate::deployment::{AT_EACH_SERVER, Deployment};
use crate::histories::{
    CLIENTS, OPERATIONS, RESTOCK, Seen, check, kill_in_turn, restock_twice, run_clients, transactions,
};
use crate::kills::wait_until_all_applied;
use crate::shop;

/// Carts belong to the slot of their key. Notes are read by nobody.
const PLACEMENT: &str = "[[table]]\nname = \"cart\"\ncolumn = \"key\"\n[[table]]\nname = \"note\"\n";

fn start() -> Deployment {
    Deployment::start_spare((4, 1), (shop::TABLES, &transactions()), ("placed", 20_000), |folder| {
        std::fs::write(folder.join("placement.toml"), PLACEMENT).unwrap();
        [String::new(), String::new()]
    })
}

/// Says it on the admin database of the agent at that place, until it is done: whoever was killed has started again.
fn say(deployment: &Deployment, place: usize, statement: &str) {
    loop {
        match deployment.psql(place, "conveyor", &[statement]) {
            Ok(_) => return,
            Err(why) => {
                println!("{statement}: {why}");
                // The change was made before its answer was lost.
                if why.contains("is a member already") || why.contains("no member, or has not joined") {
                    return;
                }
            }
        }
    }
}

/// The number of slots and the state of a server, as the agent at that place knows them.
fn server(deployment: &Deployment, place: usize, name: &str) -> Option<(u32, String)> {
    let shown = deployment.psql(place, "conveyor", &["SHOW SERVERS"]).ok()?;
    let line = shown.lines().find(|line| line.starts_with(&format!("{name}|")))?;
    let mut columns = line.split('|').skip(3);
    Some((columns.next()?.parse().ok()?, columns.next()?.to_owned()))
}

fn wait_for(deployment: &Deployment, place: usize, name: &str, state: &str) {
    while server(deployment, place, name).is_none_or(|(_, found)| found != state) {
        std::thread::yield_now();
    }
}

/// One change after every second batch of twenty operations.
fn change(deployment: &Deployment, turn: u64) {
    match turn {
        1 => say(deployment, 0, "MOVE SLOTS 20 FROM a TO b"),
        3 => say(deployment, 1, "ADD SERVER d"),
        4 => say(deployment, 2, "MOVE SLOTS 30 FROM b TO c"),
        6 => {
            wait_for(deployment, 1, "d", "member");
            say(deployment, 1, "MOVE SLOTS 60 FROM c TO d");
        }
        8 => say(deployment, 1, "REMOVE SERVER a"),
        _ => {}
    }
}

fn run(mut fault: impl FnMut(&mut Deployment, u64)) -> Seen {
    let mut deployment = start();
    let seen = run_clients(&mut deployment, 3, |deployment, turn| {
        fault(deployment, turn);
        change(deployment, turn);
    });
    let members = [1, 2, 3];
    restock_twice(&deployment, &members);
    wait_until_all_applied(&deployment, &members);
    assert_eq!(server(&deployment, 1, "a").unwrap().0, 0);
    let slots: u32 = ["b", "c", "d"].iter().map(|name| server(&deployment, 1, name).unwrap().0).sum();
    assert_eq!(slots, 240);
    wait_for(&deployment, 1, "a", "no member");
    let refused = deployment.try_client(0).unwrap().execute(RESTOCK, &[]).unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "57P03", "{refused:?}");
    check(deployment, &members, seen)
}

#[test]
fn histories_stay_serializable_while_slots_move_and_servers_join_and_leave() {
    let seen = run(|_, _| ());
    // Clients of the server that has left are refused.
    assert!(seen.answered.len() as u64 > CLIENTS * OPERATIONS / 2, "{} failed", seen.failed);
}

#[test]
fn moves_lose_nothing_while_agents_and_servers_are_killed() {
    let seen = run(kill_in_turn);
    assert!(seen.answered.len() > 50, "{} answered", seen.answered.len());
}

const CARTS: &str = "
CREATE SEQUENCE cart_ids;
CREATE TABLE cart (id bigint PRIMARY KEY DEFAULT nextval('cart_ids'), n bigint NOT NULL);
";
const OF_CARTS: &str = "\
-- transaction: create_cart(n)
INSERT INTO cart (n) VALUES (:n) RETURNING id;

-- transaction: change_cart(id, n)
UPDATE cart SET n = n + :n WHERE id = :id;

-- transaction: show_cart(id)
SELECT n FROM cart WHERE id = :id;
";

/// Makes carts, and adds one to each cart that it has made, until it is told to end. Returns what each cart has to have.
fn shop(address: &str, is_over: &AtomicBool) -> BTreeMap<i64, i64> {
    let mut carts: BTreeMap<i64, i64> = BTreeMap::new();
    let mut client: Option<Client> = None;
    while !is_over.load(Ordering::Acquire) {
        let Some(open) = client.as_mut().filter(|client| !client.is_closed()) else {
            client = Client::connect(address, NoTls).ok();
            continue;
        };
        // Servers that have left refuse: 57P03. Carts that move: 40001.
        if let Ok(rows) = open.query("INSERT INTO cart (n) VALUES (7) RETURNING id", &[]) {
            carts.insert(rows[0].get::<_, i64>(0), 7);
        }
        for (id, n) in &mut carts {
            if let Ok(1) = open.execute("UPDATE cart SET n = n + 1 WHERE id = $1", &[id]) {
                *n += 1;
            }
        }
    }
    carts
}

/// Each id is given once, and its row is at the owner of its slot.
#[test]
fn ids_route_back_to_their_servers_while_slots_move() {
    let schema = format!(
        "{CARTS}{AT_EACH_SERVER}\nALTER SEQUENCE cart_ids INCREMENT BY 3; SELECT setval('cart_ids', 3 + $server, false);"
    );
    let deployment = Deployment::start_spare((4, 1), (&schema, OF_CARTS), ("placed", 20_000), |_| {
        [String::new(), String::new()]
    });
    let is_over = AtomicBool::new(false);
    let address = |place: usize| {
        format!("host=127.0.0.1 port={} user=me dbname=shop", deployment.agents[place].address.port())
    };
    let carts: Vec<BTreeMap<i64, i64>> = std::thread::scope(|scope| {
        let shop = |place| {
            scope.spawn({
                let (address, is_over) = (address(place), &is_over);
                move || shop(&address, is_over)
            })
        };
        let shops: Vec<_> = (0..3).map(shop).collect();
        say(&deployment, 0, "MOVE SLOTS 30 FROM a TO b");
        say(&deployment, 1, "ADD SERVER d");
        wait_for(&deployment, 1, "d", "member");
        // It has no slots yet, so what it makes belongs to another server.
        let mut client = deployment.try_client(3).unwrap();
        let id: i64 = client.query_one("INSERT INTO cart (n) VALUES (7) RETURNING id", &[]).unwrap().get(0);
        say(&deployment, 1, "MOVE SLOTS 50 FROM b TO d");
        say(&deployment, 1, "REMOVE SERVER a");
        is_over.store(true, Ordering::Release);
        let mut carts: Vec<_> = shops.into_iter().map(|shop| shop.join().unwrap()).collect();
        carts.push(BTreeMap::from([(id, 7)]));
        carts
    });
    let members = [1, 2, 3];
    wait_until_all_applied(&deployment, &members);
    let map = map_of(&deployment.servers[1].connection_string()).unwrap().unwrap();
    let mut there = BTreeMap::new();
    for place in members {
        let mut client = Client::connect(&deployment.servers[place].connection_string(), NoTls).unwrap();
        for row in client.query("SELECT id, n FROM cart", &[]).unwrap() {
            let (id, n): (i64, i64) = (row.get(0), row.get(1));
            // Copies stay behind where a slot has been.
            if map.server(&RoutingValue::Integer(id)) == place as ServerId {
                there.insert(id, n);
            }
        }
    }
    let made: usize = carts.iter().map(BTreeMap::len).sum();
    let carts: BTreeMap<i64, i64> = carts.into_iter().flatten().collect();
    assert_eq!(carts.len(), made, "an id was given twice");
    for (id, n) in &carts {
        assert_eq!(there.get(id), Some(n), "cart {id}");
    }
    println!("{made} carts");
}

#[test]
fn a_change_that_cannot_be_made_is_refused_with_its_reason() {
    let deployment = Deployment::start(2);
    let said = |statement: &str| deployment.psql(0, "conveyor", &[statement]).unwrap_err();
    assert!(said("REMOVE SERVER a").contains("placement.toml"), "{}", said("REMOVE SERVER a"));
    assert!(said("ADD SERVER b").contains("is a member already"), "{}", said("ADD SERVER b"));
    assert!(said("ADD SERVER x").contains("it may be a, b"), "{}", said("ADD SERVER x"));
    assert!(said("MOVE SLOTS some FROM a").contains("MOVE SLOTS n FROM server TO server"));
    let shown = deployment.psql(0, "conveyor", &["SHOW MOVES"]).unwrap();
    assert!(shown.contains("ADD SERVER b|the server is a member already"), "{shown}");
}
