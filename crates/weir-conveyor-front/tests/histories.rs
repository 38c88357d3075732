//! Histories of clients that send statements one by one: they are serializable, also if agents and servers are killed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use postgres::error::DbError;
use postgres::types::{ToSql, Type};
use postgres::{Client, NoTls};
use weir_conveyor::message::Placement;
use weir_conveyor::schema::Sql;

use crate::chance::Chance;
use crate::deployment::Deployment;
use crate::kills::wait_until_applied;
use crate::shop;

pub const CLIENTS: u64 = 6;
pub const OPERATIONS: u64 = 40;

/// Ends the statements of global operations, so that no template of a local one covers them.
const GLOBAL: &str = " RETURNING step";

/// The statements of the shop as those of a template: $1 is the key, $2 the operation; steps, lines and stock are anything.
pub fn transactions() -> String {
    let mut chance = Chance::from_seed(7);
    let mut texts = BTreeSet::new();
    for op in 1..200 {
        let (_, operation) = shop::operation(op, 3, &mut chance);
        texts.extend(operation.statements.into_iter().map(|sql| sql.text));
    }
    assert_eq!(texts.len(), 4, "a statement for each kind of access");
    let of_template = |text: &String| {
        let key = if text.contains("'cart '") { "$1" } else { "$0" };
        let (mut template, mut rest) = (String::new(), text.as_str());
        while let Some((before, after)) = rest.split_once('$') {
            template.push_str(before);
            template.push_str(match &after[..1] {
                "1" => "$2",
                "3" => key,
                _ => "$0",
            });
            rest = &after[1..];
        }
        template + rest
    };
    let templates: Vec<String> = texts.iter().map(of_template).collect();
    let quoted =
        |end: &str| templates.iter().map(|text| format!("{:?}", format!("{text}{end}"))).collect::<Vec<_>>();
    format!(
        "[[transaction]]\nname = \"local\"\nclass = \"local\"\nhome = 1\nstatements = [{}]\n\
         [[transaction]]\nname = \"global\"\nclass = \"global\"\nhome = 1\nstatements = [{}]\n\
         [[transaction]]\nname = \"restock\"\nclass = \"global\"\nstatements = [\"UPDATE stock SET value = value WHERE id = $1\"]\n",
        quoted("").join(", "),
        quoted(GLOBAL).join(", ")
    )
}

fn ask(client: &mut Client, is_global: bool, statements: &[Sql]) -> Result<(), postgres::Error> {
    let mut transaction = client.transaction()?;
    for sql in statements {
        let text = format!("{}{}", sql.text, if is_global { GLOBAL } else { "" });
        let parameters: Vec<(&(dyn ToSql + Sync), Type)> =
            sql.parameters.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT)).collect();
        transaction.query_typed(&text, &parameters)?;
    }
    transaction.commit()
}

/// Operations with their outcomes.
#[derive(Default)]
pub struct Seen {
    pub answered: BTreeSet<u64>,
    pub global: BTreeSet<u64>,
    pub failed: u64,
    /// The complaints of servers and agents.
    pub errors: BTreeSet<String>,
}

fn run_client(addresses: &[String], client: u64, seen: &Mutex<Seen>, done: &AtomicU64) {
    let mut chance = Chance::from_seed(1_000 + client);
    let mut connection: Option<Client> = None;
    for turn in 0..OPERATIONS {
        let op = 1 + client + turn * CLIENTS;
        let (place, operation) = shop::operation(op, 3, &mut chance);
        let is_global = matches!(place, Placement::Global(_));
        let address = &addresses[chance.below(addresses.len() as u64) as usize];
        let opened = connection.take().map_or_else(|| Client::connect(address, NoTls), Ok);
        let asked = opened.and_then(|mut open| {
            let asked = ask(&mut open, is_global, &operation.statements);
            connection = (!open.is_closed() && !chance.per_mille(100)).then_some(open);
            asked
        });
        let mut seen = seen.lock().unwrap();
        if is_global {
            seen.global.insert(op);
        }
        match asked {
            Ok(()) => drop(seen.answered.insert(op)),
            Err(error) => {
                seen.failed += 1;
                seen.errors.insert(format!("{error}: {:?}", error.as_db_error().map(DbError::message)));
            }
        }
        drop(seen);
        done.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs all clients over these agents. After every twenty operations something happens to the deployment.
pub fn run_clients(
    deployment: &mut Deployment,
    agents: usize,
    mut between: impl FnMut(&mut Deployment, u64),
) -> Seen {
    let address = |port| format!("host=127.0.0.1 port={port} user=me dbname=shop");
    let addresses: Vec<String> =
        deployment.agents[..agents].iter().map(|agent| address(agent.address.port())).collect();
    let (seen, done) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (addresses, seen, done) = (addresses.clone(), seen.clone(), done.clone());
            std::thread::spawn(move || run_client(&addresses, client, &seen, &done))
        })
        .collect();
    for turn in 0..CLIENTS * OPERATIONS / 20 {
        while done.load(Ordering::SeqCst) < turn * 20 {
            std::thread::yield_now();
        }
        between(deployment, turn);
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
    Arc::into_inner(seen).unwrap().into_inner().unwrap()
}

pub const RESTOCK: &str = "UPDATE stock SET value = value WHERE id = 0";

/// Two global operations at each of these agents: the visits before them are passed on.
pub fn restock_twice(deployment: &Deployment, places: &[usize]) {
    for place in places.iter().chain(places) {
        while deployment.try_client(*place).and_then(|mut client| client.execute(RESTOCK, &[])).is_err() {
            std::thread::yield_now();
        }
    }
}

/// Checks the history on what the databases of these servers have, once all agents have ended.
pub fn check(mut deployment: Deployment, places: &[usize], seen: Seen) -> Seen {
    let configs: Vec<String> =
        places.iter().map(|place| deployment.servers[*place].connection_string()).collect();
    deployment.agents.clear();
    let committed = shop::check(&configs, &seen.global, &seen.answered);
    println!(
        "{} answered, {} failed, {committed} committed: {:#?}",
        seen.answered.len(),
        seen.failed,
        seen.errors
    );
    seen
}

/// One server crashes or one agent is killed in two of three turns.
pub fn kill_in_turn(deployment: &mut Deployment, turn: u64) {
    let place = turn as usize % deployment.servers.len();
    match turn % 3 {
        1 => deployment.servers[place].crash().unwrap(),
        2 => {
            deployment.agents[place].kill();
            deployment.restart(place);
        }
        _ => {}
    }
}

fn run(fault: impl FnMut(&mut Deployment, u64)) -> Seen {
    let mut deployment = Deployment::start_of(3, (shop::TABLES, &transactions()), ("placed", 20_000));
    let seen = run_clients(&mut deployment, 3, fault);
    restock_twice(&deployment, &[0, 1, 2]);
    wait_until_applied(&deployment);
    check(deployment, &[0, 1, 2], seen)
}

#[test]
fn clients_of_any_agent_see_serializable_histories() {
    let seen = run(|_, _| ());
    assert!(seen.answered.len() as u64 > CLIENTS * OPERATIONS * 9 / 10, "{} failed", seen.failed);
    assert!(seen.global.len() as u64 > CLIENTS * OPERATIONS / 4);
}

#[test]
fn histories_stay_serializable_while_agents_and_servers_are_killed() {
    let seen = run(kill_in_turn);
    assert!(seen.answered.len() > 50, "{} answered", seen.answered.len());
}
