//! One run of the CAT experiment: the load generator over a target's server, whose rows are made anew.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_cat::history::Transaction;
use weir_cat::workload::Shape;

use crate::load::{self, Loop, Recorded, Use};
use crate::servers::Servers;
use crate::target::Target;
use crate::workload::Keys;

pub use crate::load::Times;

/// Workload of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    pub clients: usize,
    pub shape: Shape,
    pub seed: u64,
}

/// Figures of a run. An attempt that is aborted is tried again at once, with the same keys, until it commits; each is counted.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub attempts: u64,
    pub aborts: u64,
    /// By SQLSTATE.
    pub aborts_by_state: BTreeMap<String, u64>,
    /// Commits a second.
    pub throughput: f64,
    /// By the attempts that ran, of which each access counts (cat-theorem.txt §3).
    pub contention_level: f64,
    /// From the first attempt to the commit, in milliseconds.
    pub latency_p50_ms: f64,
    pub latency_p99_ms: f64,
}

impl Outcome {
    /// Share of the attempts that were aborted; 0 without attempts.
    pub fn abort_rate(&self) -> f64 {
        self.aborts as f64 / self.attempts.max(1) as f64
    }
}

impl From<load::Outcome> for Outcome {
    fn from(outcome: load::Outcome) -> Outcome {
        let all = outcome.all;
        Outcome {
            attempts: all.attempts,
            aborts: all.aborted,
            aborts_by_state: outcome.aborts_by_state,
            throughput: all.throughput,
            contention_level: all.contention_level,
            latency_p50_ms: all.latency_us.p50 / 1e3,
            latency_p99_ms: all.latency_us.p99 / 1e3,
        }
    }
}

/// Runs clients against a target whose rows are made anew, and checks afterwards that each row has all writes that were acknowledged.
///
/// # Errors
/// A server's or the shape's, or writes were lost.
pub fn run(servers: &mut Servers, target: Target, load: Load, times: Times) -> Result<Outcome, String> {
    Ok(clients(servers, target, load, times)?.outcome.into())
}

/// As [`run`]: all attempts of the clients, with their times.
///
/// # Errors
/// As [`run`].
pub fn recorded(
    servers: &mut Servers,
    target: Target,
    load: Load,
    times: Times,
) -> Result<Vec<Transaction>, String> {
    Ok(clients(servers, target, load, times)?.history)
}

fn clients(servers: &mut Servers, target: Target, load: Load, times: Times) -> Result<Recorded, String> {
    let workload = Keys::cat(load.shape, target.change())?;
    let address = servers.address(target)?;
    servers.fill(target, &workload)?;
    let using = Use { address, way: target.way(), level: target.level() };
    let load =
        load::Load { clients: load.clients, seed: load.seed, times, pace: Loop::Closed, is_recorded: false };
    let recorded = load::run(&workload, &using, load).map_err(|why| format!("{target}: {why}"))?;
    match &recorded.violation {
        None => Ok(recorded),
        Some(why) => Err(format!("{target}: {why}")),
    }
}
