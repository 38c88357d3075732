//! Two-phase commit over real servers that each have a part of the rows: PREPARE TRANSACTION for what crosses
//! (docs/internals/conveyor-bench.md, "Targets over real servers").
//!
//! [`spread`] says at how many servers an operation reads and writes. Its home runs the operation as it is, over whole tables; each other
//! participant runs a statement on one row. So what an operation costs beyond a statement is not divided, as the simulation does it, and a
//! comparison with it is not the last word; messages, phases, locks that are held over them, and waits for the disk are real.

use std::io;

use futures::future::join_all;
use tokio::runtime::Runtime;
use weir_conveyor_net::raw::{Ran, RawConnection};

use crate::spread::Spread;
use crate::target::End;

/// Rows of a participant, which the operations of all clients share.
const ROWS: u64 = 1_000;
/// The rows of a participant.
pub const PARTS: &str = "CREATE TABLE weir_bench.part (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO weir_bench.part SELECT id, 0 FROM generate_series(0, 999) id;";
/// Settings that a server needs.
pub const SETTINGS: [&str; 1] = ["max_prepared_transactions=64"];

const BEGIN: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";
const ATTEMPTS_MAX: u32 = 20;

/// A client, which coordinates its transactions, with a connection to each server.
pub struct TwoPhase {
    client: u64,
    /// Number of its last transaction.
    number: u64,
    connections: Vec<RawConnection>,
    runtime: Runtime,
}

/// What a participant does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Nothing,
    Reads,
    Writes,
}

/// Participants by their place, the home first: those that write come before those that only read.
fn parts(spread: Spread, servers: usize) -> Vec<Part> {
    let others = if spread.all { servers } else { spread.others as usize + 1 };
    let part = |place: usize| match place {
        _ if place < spread.writes_at as usize => Part::Writes,
        _ if place < others => Part::Reads,
        _ => Part::Nothing,
    };
    (0..servers).map(part).collect()
}

/// Why an attempt has not committed.
enum Failed {
    Sql(String),
    Lost,
}

impl From<io::Error> for Failed {
    fn from(_: io::Error) -> Failed {
        Failed::Lost
    }
}

impl TwoPhase {
    /// # Errors
    /// The servers'.
    pub fn open(client: u64, configs: &[String]) -> Result<TwoPhase, String> {
        let said = |error: io::Error| error.to_string();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(said)?;
        let opened = runtime.block_on(async {
            let mut connections = Vec::new();
            for config in configs {
                connections.push(RawConnection::open(config, false).await?);
            }
            Ok(connections)
        });
        Ok(TwoPhase { client, number: 0, connections: opened.map_err(said)?, runtime })
    }

    /// Runs an operation whose home is that server. `text`: its statements at the home.
    pub fn call(&mut self, home: usize, text: &str, spread: Spread) -> End {
        let parts = parts(spread, self.connections.len());
        for _ in 0..ATTEMPTS_MAX {
            self.number += 1;
            let name = format!("weir_bench_{}_{}", self.client, self.number);
            let row = (self.client * 7919 + self.number) % ROWS;
            let attempt = Attempt { connections: &mut self.connections, home, parts: &parts, name, row };
            match self.runtime.block_on(attempt.run(text)) {
                Ok(()) => return End::Answered(None),
                Err(Failed::Sql(state)) if matches!(state.as_str(), "40001" | "40P01") => {}
                Err(Failed::Sql(state)) => return End::Refused(state),
                Err(Failed::Lost) => return End::Unknown,
            }
        }
        End::Starved
    }
}

struct Attempt<'a> {
    connections: &'a mut [RawConnection],
    home: usize,
    parts: &'a [Part],
    name: String,
    row: u64,
}

impl Attempt<'_> {
    async fn run(mut self, text: &str) -> Result<(), Failed> {
        let row = self.row;
        let work = |place: usize, part: Part| match (place, part) {
            (_, Part::Nothing) => None,
            (0, _) => Some(format!("{BEGIN}; {text}")),
            (_, Part::Reads) => Some(format!("{BEGIN}; SELECT n FROM weir_bench.part WHERE id = {row}")),
            (_, Part::Writes) => {
                Some(format!("{BEGIN}; UPDATE weir_bench.part SET n = n + 1 WHERE id = {row}"))
            }
        };
        if let Err(failed) = self.all(work).await {
            self.all(|_, part| (part != Part::Nothing).then(|| "ROLLBACK".to_owned())).await?;
            return Err(failed);
        }
        let writers = self.parts.iter().filter(|part| **part == Part::Writes).count();
        let (name, two) = (self.name.clone(), writers > 1);
        let first = |_, part| match part {
            Part::Nothing => None,
            Part::Writes if two => Some(format!("PREPARE TRANSACTION '{name}'")),
            Part::Reads | Part::Writes => Some("COMMIT".to_owned()),
        };
        let prepared = self.all(first).await;
        if !two {
            return prepared;
        }
        if let Err(failed) = prepared {
            // A participant that has failed has nothing that is prepared.
            let undone =
                self.all(|_, part| (part == Part::Writes).then(|| format!("ROLLBACK PREPARED '{name}'")));
            return match undone.await {
                Err(Failed::Lost) => Err(Failed::Lost),
                _ => Err(failed),
            };
        }
        self.all(|_, part| (part == Part::Writes).then(|| format!("COMMIT PREPARED '{name}'"))).await
    }

    /// Says something to participants at once, and waits for all. Returns the first error.
    async fn all(&mut self, text: impl Fn(usize, Part) -> Option<String>) -> Result<(), Failed> {
        let (home, servers) = (self.home, self.connections.len());
        let said = self.connections.iter_mut().enumerate().filter_map(|(server, connection)| {
            let place = (server + servers - home) % servers;
            let text = text(place, self.parts[place])?;
            Some(async move { connection.run(&text).await })
        });
        for ran in join_all(said).await {
            let Ran { error, .. } = ran?;
            if let Some(error) = error {
                return Err(Failed::Sql(error.field(b'C').unwrap_or("XX000").to_owned()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spread;

    #[test]
    fn participants_are_as_many_as_the_spread_says() {
        let of = |name: &str| parts(spread::of("tpcw", name).unwrap(), 3);
        assert_eq!(of("get_name"), [Part::Reads, Part::Nothing, Part::Nothing]);
        assert_eq!(of("search_by_title"), [Part::Reads; 3]);
        assert_eq!(of("change_cart"), [Part::Writes, Part::Reads, Part::Nothing]);
        assert_eq!(of("confirm_purchase"), [Part::Writes; 3]);
    }
}
