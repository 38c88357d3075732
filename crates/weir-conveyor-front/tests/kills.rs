//! Agents and servers that are killed: what was answered is there, once, everywhere.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use postgres::{Client, NoTls};

use crate::deployment::Deployment;

const CLIENTS: u64 = 6;
const OPERATIONS: u64 = 40;

/// Purchases of a client, each under a number of its own; the client goes to another agent when its connection is lost.
fn buy(addresses: &[String], client: u64, answered: &Mutex<BTreeSet<i64>>, done: &AtomicU64) {
    let mut connection: Option<Client> = None;
    for turn in 0..OPERATIONS {
        let (id, item) = ((client * OPERATIONS + turn) as i64, (1 + turn % 5) as i32);
        let address = &addresses[((client + turn) % addresses.len() as u64) as usize];
        let mut open = match connection.take() {
            Some(open) => open,
            None => match Client::connect(address, NoTls) {
                Ok(open) => open,
                Err(_) => {
                    done.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
            },
        };
        if purchase(&mut open, (client as i32, item, id)).is_ok() {
            answered.lock().unwrap().insert(id);
        }
        connection = (!open.is_closed()).then_some(open);
        done.fetch_add(1, Ordering::SeqCst);
    }
}

fn purchase(client: &mut Client, (key, item, id): (i32, i32, i64)) -> Result<(), postgres::Error> {
    let mut transaction = client.transaction()?;
    transaction.query("SELECT item, n FROM cart WHERE key = $1 ORDER BY item", &[&key])?;
    transaction.execute("UPDATE stock SET n = n - $1 WHERE id = $2", &[&1, &item])?;
    transaction.execute("INSERT INTO log VALUES ($1, $2)", &[&id, &"bought"])?;
    transaction.commit()
}

#[test]
fn killed_agents_and_servers_lose_nothing_that_was_answered() {
    let mut deployment = Deployment::start(3);
    let addresses: Vec<String> = deployment
        .agents
        .iter()
        .map(|agent| format!("host=127.0.0.1 port={} user=me dbname=shop", agent.address.port()))
        .collect();
    let (answered, done) = (Arc::new(Mutex::new(BTreeSet::new())), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (addresses, answered, done) = (addresses.clone(), answered.clone(), done.clone());
            std::thread::spawn(move || buy(&addresses, client, &answered, &done))
        })
        .collect();
    // Something fails after every twenty purchases; each agent has a node of the coordinator, so its leader is among them.
    for turn in 0..CLIENTS * OPERATIONS / 20 {
        while done.load(Ordering::SeqCst) < turn * 20 {
            std::thread::yield_now();
        }
        let place = (turn % 3) as usize;
        match turn % 4 {
            1 => deployment.servers[place].crash().unwrap(),
            3 => {
                deployment.agents[place].kill();
                deployment.restart(place);
            }
            _ => {}
        }
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
    let answered = answered.lock().unwrap().clone();
    println!("{} of {} purchases answered", answered.len(), CLIENTS * OPERATIONS);
    assert!(answered.len() > 50);
    settle(&deployment);
    check(&deployment, &answered);
}

/// Global operations at each agent, until each has answered one: connections that are lost are found out by then.
fn settle(deployment: &Deployment) {
    for place in (0..3).chain(0..3) {
        loop {
            let restocked =
                deployment.try_client(place).and_then(|mut client| client.execute("CALL restock(1, 0)", &[]));
            if restocked.is_ok() {
                break;
            }
            std::thread::yield_now();
        }
    }
    wait_until_applied(deployment);
}

/// All servers have applied every visit that any has closed now, and the one that may be open after it: an operation is answered
/// while its visit is open.
pub fn wait_until_applied(deployment: &Deployment) {
    wait_until_all_applied(deployment, &[0, 1, 2]);
}

/// The same for the servers at these places.
pub fn wait_until_all_applied(deployment: &Deployment, places: &[usize]) {
    let read = |place: usize, column: &str| -> i64 {
        let text = format!("SELECT {column} FROM weir_conveyor.epoch, weir_conveyor.position");
        deployment.direct(place).query_one(&text, &[]).unwrap().get(0)
    };
    let closed = places.iter().map(|place| read(*place, "closed")).max().unwrap();
    for place in places.iter().copied() {
        while read(place, "applied") <= closed {
            std::thread::yield_now();
        }
    }
}

/// Every server has the same purchases, those that were answered among them, and the stock that follows from them.
fn check(deployment: &Deployment, answered: &BTreeSet<i64>) {
    let mut logs = Vec::new();
    for place in 0..3 {
        let mut client = deployment.direct(place);
        let log: BTreeSet<i64> =
            client.query("SELECT id FROM log", &[]).unwrap().iter().map(|row| row.get(0)).collect();
        let stock: i64 = client.query_one("SELECT sum(n) FROM stock", &[]).unwrap().get(0);
        assert_eq!(stock, 500 - log.len() as i64, "each purchase has taken one, once");
        let lost: Vec<_> = answered.difference(&log).collect();
        assert!(lost.is_empty(), "answered, and gone at server {place}: {lost:?}");
        logs.push(log);
    }
    assert!(logs.windows(2).all(|pair| pair[0] == pair[1]), "servers differ");
}

#[test]
fn an_agent_that_stands_still_is_fenced_and_comes_back() {
    let deployment = Deployment::start(3);
    settle(&deployment);
    deployment.agents[1].signal("STOP");
    // The token is lost with it, sooner or later: others fence it, and go on without it.
    for _ in 0..3 {
        let mut client = deployment.client(0);
        while client.execute("CALL restock(1, 1)", &[]).is_err() {
            client = deployment.client(0);
        }
    }
    let ring = || deployment.psql(0, "conveyor", &["SHOW TOKEN"]).unwrap();
    while ring().contains("ring|")
        && ring().lines().any(|line| line.starts_with("ring|") && line.contains('b'))
    {
        std::thread::yield_now();
    }
    deployment.agents[1].signal("CONT");
    // Its database does not license what the agent takes itself to be licensed for.
    settle(&deployment);
    let stock = |place: usize| -> i32 {
        deployment.direct(place).query_one("SELECT n FROM stock WHERE id = 1", &[]).unwrap().get(0)
    };
    assert!(stock(0) >= 103);
    assert_eq!([stock(0), stock(1), stock(2)], [stock(0); 3]);
}
