//! Statements of the admin database that change the map of slots: slots move, a server is added or removed
//! (docs/internals/conveyor.md, "Moving slots").

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use weir_conveyor::epochs::ServerId;
use weir_conveyor::message::Outcome;
use weir_conveyor::routing::{MapChange, Routing, Slot};
use weir_conveyor_net::operation::{Answer, MapJob, PlacedTable};

use crate::messages::FrontError;
use crate::shared::Shared;

/// Attempts at a change that meets another one, or operations that do not let it in.
const ATTEMPTS_MAX: usize = 20;
const AGAIN: Duration = Duration::from_millis(200);
/// Changes that are remembered.
const REMEMBERED_MAX: usize = 100;

/// A change, with the server that makes it.
struct Change {
    by: ServerId,
    change: MapChange,
}

/// Rows of SHOW SERVERS.
pub(crate) fn servers(shared: &Shared) -> Vec<Vec<String>> {
    let (routing, view) = (shared.executor.routing(), shared.executor.view());
    let needed = view.map(|view| view.needed).unwrap_or_default();
    let row = |(number, server): (ServerId, &weir_conveyor_net::config::Server)| {
        let (slots, state) = match &routing {
            None => (String::new(), "observed"),
            Some(map) => (map.slots_of(number).count().to_string(), state_of(map, number, &needed)),
        };
        let (agent, listen) = (server.agent.to_string(), server.listen.to_string());
        vec![server.name.clone(), agent, listen, slots, state.to_owned()]
    };
    (0..).zip(&shared.servers).map(row).collect()
}

fn state_of(map: &Routing, server: ServerId, needed: &[ServerId]) -> &'static str {
    match (map.absent.contains(server), map.joining.contains(server)) {
        (true, _) if needed.contains(&server) => "no member, but others still read its visits",
        (true, _) => "no member",
        (false, true) => "joining",
        (false, false) => "member",
    }
}

/// Rows of SHOW MOVES.
pub(crate) fn of(shared: &Shared) -> Vec<(String, String)> {
    shared.moves.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn note(shared: &Shared, text: &str, state: String) {
    let mut moves = shared.moves.lock().unwrap_or_else(PoisonError::into_inner);
    match moves.iter_mut().rev().find(|(of, _)| of == text) {
        Some((_, noted)) => *noted = state,
        None => moves.push((text.to_owned(), state)),
    }
    let excess = moves.len().saturating_sub(REMEMBERED_MAX);
    moves.drain(..excess);
}

/// Makes the change that the words say. Returns the tag of the statement once the map has changed.
pub(crate) async fn change(shared: &Shared, words: &[&str]) -> Result<&'static str, FrontError> {
    let text = words.join(" ");
    let mut last = FrontError::new("55000", "the map of slots changes all the time");
    for _ in 0..ATTEMPTS_MAX {
        note(shared, &text, "under way".to_owned());
        let (tag, Change { by, change }) = read(shared, words)?;
        match submit(shared, by, change).await {
            Outcome::Answered(Ok(_)) => {
                note(shared, &text, "done".to_owned());
                return Ok(tag);
            }
            // Operations did not let it in: 55P03 is a lock that was not free in time.
            Outcome::Answered(Err(error)) if error.sqlstate == "55P03" => {
                last = FrontError::new("55P03", "operations that are under way keep the map of slots");
            }
            Outcome::Answered(Err(error)) => {
                note(shared, &text, error.message.clone());
                return Err(FrontError::new(&error.sqlstate, error.message));
            }
            Outcome::WrongMap | Outcome::Starved => {}
            Outcome::TooLong | Outcome::NotBegun(_) => {
                let message = "the change did not come to its turn, or took longer than operation_ms";
                last = FrontError::new("57P03", message)
                    .with_hint("it has changed nothing: move fewer slots, or raise operation_ms");
                break;
            }
            Outcome::Unknown => {
                last =
                    FrontError::new("08007", "the agent that makes the change was lost: it is made or not")
                        .with_hint("SHOW SERVERS says which; say it again if it is not");
                break;
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
    note(shared, &text, last.message.clone());
    Err(last)
}

async fn submit(shared: &Shared, by: ServerId, change: MapChange) -> Outcome<Answer> {
    let application = shared.application();
    let tables = application.placed().map(<[PlacedTable]>::to_vec).unwrap_or_default();
    let job = MapJob { change, tables, sequences: application.drawn() };
    let (sender, outcome) = tokio::sync::oneshot::channel();
    let reply = Box::new(move |outcome| drop(sender.send(outcome)));
    if !shared.executor.change_map(by, job, reply) {
        return Outcome::Unknown;
    }
    outcome.await.unwrap_or(Outcome::Unknown)
}

/// The change that the words say, by the map as it is now, and the tag of the statement.
fn read(shared: &Shared, words: &[&str]) -> Result<(&'static str, Change), FrontError> {
    let Some(map) = shared.executor.routing() else {
        return Err(FrontError::new("0A000", "this process observes: it has no agent"));
    };
    if map.absent.contains(shared.server) {
        let message = "the server of this agent is no member, so it does not know the map as it is";
        return Err(FrontError::new("57P03", message).with_hint("say it to the agent of a member"));
    }
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    match lower.as_slice() {
        ["add", "server", _] => {
            let server = number(shared, words[2])?;
            Ok(("ADD SERVER", Change { by: shared.server, change: MapChange::Add(server) }))
        }
        ["remove", "server", _] => {
            check_placed(shared)?;
            let server = number(shared, words[2])?;
            Ok(("REMOVE SERVER", Change { by: server, change: leave(shared, &map, server)? }))
        }
        ["move", "slots", count, "from", _, "to", _] => {
            check_placed(shared)?;
            let (by, to) = (number(shared, words[4])?, number(shared, words[6])?);
            let slots: Vec<Slot> = map.slots_of(by).collect();
            let count = count.parse::<usize>().ok().filter(|count| (1..=slots.len()).contains(count));
            let Some(count) = count else {
                let message = format!("server `{}` has {} slots", words[4], slots.len());
                return Err(
                    FrontError::new("22023", message).with_hint("move one of them, or more, up to all")
                );
            };
            let moves: BTreeMap<Slot, ServerId> =
                slots.into_iter().take(count).map(|slot| (slot, to)).collect();
            Ok(("MOVE SLOTS", Change { by, change: MapChange::Move(moves) }))
        }
        _ => {
            let hint = "MOVE SLOTS n FROM server TO server, ADD SERVER server, REMOVE SERVER server";
            Err(FrontError::new("42601", "a change of the map reads otherwise").with_hint(hint))
        }
    }
}

fn leave(shared: &Shared, map: &Routing, server: ServerId) -> Result<MapChange, FrontError> {
    let all: Vec<ServerId> = (0..).zip(&shared.servers).map(|(number, _)| number).collect();
    let heir = all.iter().copied().find(|other| *other != server && map.has_joined(*other));
    let Some(heir) = heir else {
        let message = "a server that is removed leaves its slots to another member, and there is none";
        return Err(FrontError::new("55000", message));
    };
    Ok(MapChange::Leave { moves: map.spread(server, &all), heir })
}

fn check_placed(shared: &Shared) -> Result<(), FrontError> {
    let hint = "Name the tables that commutative and local transactions write, each with the column that routes it, in placement.toml in the folder of the application, and restart the agents.";
    match shared.application().placed() {
        Ok(_) => Ok(()),
        Err(why) => Err(FrontError::new("55000", why).with_hint(hint)),
    }
}

fn number(shared: &Shared, name: &str) -> Result<ServerId, FrontError> {
    let place = shared.servers.iter().position(|server| server.name == name);
    place.map(|place| place as ServerId).ok_or_else(|| {
        let names: Vec<&str> = shared.servers.iter().map(|server| server.name.as_str()).collect();
        let hint = format!("it may be {}", names.join(", "));
        FrontError::new("42704", format!("there is no server `{name}`")).with_hint(hint)
    })
}
