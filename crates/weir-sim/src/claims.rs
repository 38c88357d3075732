//! Properties checked in every run of a cluster, whatever its protocol: no node panics, all pending work finishes, transactions of dead
//! coordinators are resolved in time, and no wrong clock moves the others.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_core::clock::{CLOCK_AHEAD_MS_MAX, ms_of};
use weir_core::ids::CoordinatorId;
use weir_core::machine::{Coordinator, CoordinatorOf, Exposed};
use weir_core::termination::Timeouts;

use crate::cluster::{Clients, Cluster, Mortal};
use crate::history::Violation;

/// Once faults have stopped, whatever is pending has finished after this: a few repetitions over the slowest
/// links, and a message that was held up before.
pub const LIVENESS_US_MAX: u64 = 15_000_000;

/// Simulated time between two checks.
pub const LOOK_US: u64 = 100_000;

/// A panic of a node is a failure like any other.
pub fn catch_panic<T>(run: impl FnOnce() -> Result<T, Violation>) -> Result<T, Violation> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| said.to_string()));
        Err(Violation { claim: "no node panics", seen: said.unwrap_or_default() })
    })
}

/// Runs until nothing is in flight and the clients are finished, with periodic checks.
pub fn finish<S, C, L>(
    cluster: &mut Cluster<S, C>,
    clients: &mut L,
    are_done: impl Fn(&L) -> bool,
    mut look: impl FnMut(&Cluster<S, C>, &mut L) -> Result<(), Violation>,
) -> Result<(), Violation>
where
    S: Exposed,
    S::Request: Clone + Debug,
    S::Reply: Clone + Debug,
    S::Progress: Clone + Debug,
    C: Mortal + CoordinatorOf<S>,
    L: Clients<<C as Coordinator>::Transaction, <C as Coordinator>::Done>,
{
    let until_us = cluster.now_us() + LIVENESS_US_MAX;
    while !(cluster.is_idle() && are_done(clients)) {
        if cluster.now_us() >= until_us {
            let idle: Vec<bool> = cluster.shards.iter().flatten().map(|shard| shard.is_idle()).collect();
            let seen = format!("{} sessions wait, idle shards {idle:?}", cluster.busy());
            return Err(Violation { claim: "what is pending finishes", seen });
        }
        cluster.run_until(cluster.now_us() + LOOK_US, clients);
        look(cluster, clients)?;
    }
    Ok(())
}

/// Coordinators that have died, or were retired.
pub fn dead<S: Exposed, C>(cluster: &Cluster<S, C>) -> impl Iterator<Item = CoordinatorId> {
    let dead = cluster.coordinators.iter().enumerate().filter(|(_, coordinator)| coordinator.is_none());
    dead.map(|(coordinator, _)| coordinator as CoordinatorId)
}

/// Checks that prepared transactions of a dead coordinator are resolved within two time-outs after its last message has arrived and the
/// shards can reach each other.
pub fn check_dead_are_resolved<S: Exposed, C>(
    cluster: &Cluster<S, C>,
    links_free_us: u64,
    timeouts: Timeouts,
) -> Result<(), Violation> {
    for coordinator in dead(cluster) {
        let heard_us = cluster.heard_us[coordinator as usize].max(links_free_us).max(cluster.restarted_us);
        if cluster.now_us() < heard_us + 2 * 1_000 * timeouts.terminate_ms {
            continue;
        }
        for shard in cluster.shards.iter().flatten() {
            let left = shard.undecided().filter(|of| *of == coordinator).count();
            if left > 0 {
                let seen = format!("shard {} has {left} prepared of coordinator {coordinator}", shard.id());
                return Err(Violation { claim: "what the dead have prepared is resolved in time", seen });
            }
        }
    }
    Ok(())
}

/// A clock that is far ahead does not carry others along: no shard is further ahead of what its own clock has
/// shown than twice the bound, once for each of the two clocks that a prepare compares (S9).
pub fn check_clocks<S: Exposed, C>(
    cluster: &Cluster<S, C>,
    last_clock: impl Fn(&S) -> u64,
) -> Result<(), Violation> {
    for (shard, highest_ms) in cluster.shards.iter().zip(&cluster.highest_ms) {
        let Some(shard) = shard else { continue };
        let given_ms = ms_of(last_clock(shard));
        if given_ms > highest_ms + 2 * CLOCK_AHEAD_MS_MAX {
            let seen = format!("shard {} gives {given_ms} ms, its clock showed {highest_ms}", shard.id());
            return Err(Violation { claim: "no clock carries others along", seen });
        }
    }
    Ok(())
}

/// A shard takes whatever a party of the protocol sends: over a network it would end the connection instead.
pub fn check_none_is_refused<S: Exposed, C>(cluster: &Cluster<S, C>) -> Result<(), Violation> {
    let refused =
        |seen: &String| Violation { claim: "no message of the protocol is refused", seen: seen.clone() };
    cluster.refused.as_ref().map_or(Ok(()), |seen| Err(refused(seen)))
}
