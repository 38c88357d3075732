//! Slots move, a server joins and another one leaves, while clients send statements of operations one by one: histories are serializable, and
//! nothing is lost, also if agents and servers are killed.

use crate::deployment::Deployment;
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
