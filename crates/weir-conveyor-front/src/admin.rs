//! The admin database: what an agent is doing, in tables, and its switches.

use std::sync::atomic::Ordering;

use bytes::BytesMut;
use weir_sql::normal::tokens;

use crate::figures::{count, read};
use crate::messages::{self, FrontError};
use crate::moves;
use crate::shared::{Mode, Shared};

/// The name of the database.
pub const DATABASE: &str = "conveyor";

const HELP: [(&str, &str); 12] = [
    ("SHOW TOKEN", "the epoch, the ring, where the token is, how long a round takes"),
    ("SHOW POOLS", "operations that wait and run"),
    ("SHOW SERVERS", "the servers of the deployment, how many slots each has, whether it is a member"),
    ("SHOW MOVES", "what has become of the changes of the map that this agent was told to make"),
    ("MOVE SLOTS n FROM server TO server", "slots and their rows get another owner"),
    ("REMOVE SERVER server", "its slots go to the others, and it is no member any more"),
    (
        "ADD SERVER server",
        "it takes everything of another one, and takes part: slots are moved to it afterwards",
    ),
    ("SHOW CLIENTS", "how many clients there are and have been"),
    ("SHOW STATS", "transactions by class, restarts, refusals"),
    ("SHOW OBSERVED", "how traffic classifies, if this process observes"),
    (
        "BYPASS ON | OFF",
        "all transactions go to the server beside this agent as they are: with several servers that is not serializable",
    ),
    ("MAINTENANCE ON | OFF", "definitions are allowed; they go to the server beside this agent only"),
];

/// Answers a text, without ReadyForQuery.
pub(crate) async fn answer(shared: &Shared, text: &str, out: &mut BytesMut) {
    let words: Vec<String> =
        tokens(text).iter().map(|token| token.to_lowercase()).filter(|word| word != ";").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => messages::bare(out, b'I'),
        ["show", "help"] => {
            let rows: Vec<_> =
                HELP.iter().map(|(name, what)| vec![(*name).to_owned(), (*what).to_owned()]).collect();
            table(out, &["command", "meaning"], &rows);
        }
        ["show", "token"] => table(out, &["name", "value"], &token(shared)),
        ["show", "pools"] => table(out, &["pool", "waiting", "running"], &pools(shared)),
        ["show", "servers"] => {
            table(out, &["server", "agent", "clients", "slots", "state"], &moves::servers(shared));
        }
        ["show", "moves"] => {
            let rows: Vec<_> = moves::of(shared).into_iter().map(|(text, state)| vec![text, state]).collect();
            table(out, &["change", "state"], &rows);
        }
        ["move", "slots", ..] | ["add" | "remove", "server", ..] => {
            let words: Vec<&str> = tokens(text).into_iter().filter(|word| *word != ";").collect();
            match moves::change(shared, &words).await {
                Ok(tag) => messages::complete(out, tag),
                Err(error) => {
                    count(&shared.figures.refused);
                    messages::error(out, "ERROR", &error);
                }
            }
        }
        ["show", "clients"] => table(out, &["name", "value"], &numbers(&clients(shared))),
        ["show", "stats"] => table(out, &["name", "value"], &numbers(&stats(shared))),
        ["show", "observed"] => {
            let row = |(class, names, count): (String, String, u64)| vec![class, names, count.to_string()];
            table(
                out,
                &["class", "transaction", "count"],
                &shared.figures.observed().into_iter().map(row).collect::<Vec<_>>(),
            );
        }
        ["bypass", switch @ ("on" | "off")] if shared.mode == Mode::Placed => {
            shared.bypasses.store(*switch == "on", Ordering::SeqCst);
            tracing::warn!("the bypass is {switch}");
            messages::complete(out, "BYPASS");
        }
        ["maintenance", switch @ ("on" | "off")] => {
            shared.is_maintained.store(*switch == "on", Ordering::SeqCst);
            tracing::warn!("the maintenance mode is {switch}");
            messages::complete(out, "MAINTENANCE");
        }
        _ => {
            count(&shared.figures.refused);
            let error = FrontError::new("42601", "there is no such command on the admin database");
            messages::error(out, "ERROR", &error.with_hint("SHOW HELP lists them"));
        }
    }
}

fn table(out: &mut BytesMut, columns: &[&str], rows: &[Vec<String>]) {
    messages::table(out, columns, rows);
    messages::complete(out, &format!("SELECT {}", rows.len()));
}

fn token(shared: &Shared) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let Some(view) = shared.executor.view() else {
        return vec![row("token", "this process observes: it has no agent".to_owned())];
    };
    let name = |server: &u16| match shared.servers.get(usize::from(*server)) {
        Some(server) => server.name.clone(),
        None => server.to_string(),
    };
    let ring: Vec<String> = view.ring.iter().map(name).collect();
    let round =
        view.round.map_or("unknown".to_owned(), |round| format!("{:.1}", round.as_secs_f64() * 1_000.0));
    let coordinator = match shared.executor.coordinator() {
        None => "no node here".to_owned(),
        Some(node) => match (node.leads, node.leader) {
            (true, _) => "leads".to_owned(),
            (false, Some(leader)) => format!("follows {}", name(&leader)),
            (false, None) => "knows no leader".to_owned(),
        },
    };
    vec![
        row("epoch", view.epoch.to_string()),
        row("ring", ring.join(" ")),
        row("here", view.visit.map_or("no".to_owned(), |visit| format!("visit {visit}"))),
        row("last_visit", view.last_visit.to_string()),
        row(
            "applied",
            view.applied.map_or("the database does not answer".to_owned(), |applied| applied.to_string()),
        ),
        row("round_ms", round),
        row("queue", view.queue.to_string()),
        row("coordinator", coordinator),
    ]
}

fn pools(shared: &Shared) -> Vec<Vec<String>> {
    let Some(view) = shared.executor.view() else { return Vec::new() };
    let row =
        |name: &str, waiting: usize, running: String| vec![name.to_owned(), waiting.to_string(), running];
    vec![
        row("global", view.queue, String::new()),
        row("local", view.waiting, view.running.to_string()),
        row("forwarded", view.forwarded, String::new()),
    ]
}

fn clients(shared: &Shared) -> Vec<(&'static str, u64)> {
    vec![("connected", read(&shared.figures.clients)), ("connections", read(&shared.figures.connections))]
}

fn stats(shared: &Shared) -> Vec<(&'static str, u64)> {
    let figures = &shared.figures;
    vec![
        ("transactions", read(&figures.transactions)),
        ("commutative", read(&figures.commutative)),
        ("local", read(&figures.local)),
        ("global", read(&figures.global)),
        ("relayed", read(&figures.relayed)),
        ("restarts", read(&figures.restarts)),
        ("contradictions", read(&figures.contradictions)),
        ("refused", read(&figures.refused)),
    ]
}

fn numbers(rows: &[(&str, u64)]) -> Vec<Vec<String>> {
    rows.iter().map(|(name, value)| vec![(*name).to_owned(), value.to_string()]).collect()
}

/// The report of what was observed.
pub(crate) fn report(shared: &Shared) -> String {
    let mut text = String::new();
    for (class, names, count) in shared.figures.observed() {
        text.push_str(&format!("{count:>10}  {class:<12} {names}\n"));
    }
    text
}
