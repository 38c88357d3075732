//! Bugs that the checks must catch: each in a world that is hard where the bug is.

use weir_baselines::eris::faults::{NoFaults, PlantedBugs};
use weir_baselines::eris::granola::Granola;
use weir_baselines::eris::lock_store::LockStore;
use weir_baselines::eris::operation::Empty;
use weir_baselines::eris::tapir::Tapir;

use crate::seeds::run;
use crate::world::profile::Profile;
use crate::world::{Checked, World};

/// Invariants of which a bug may break any first.
const SAFETY: [&str; 5] = ["2", "3", "4", "5", "6"];

/// Seeds that a bug may need until it is caught.
const SEEDS: u64 = 300;

/// Runs seeds until one breaks an invariant of safety. Some bugs stop a world before they break one.
pub fn caught<P: Checked>(protocol: P, profile: Profile) {
    for seed in 0..SEEDS {
        let Err(violation) = World::new(protocol, seed, profile).run() else { continue };
        println!("seed {seed}: invariant {}: {}", violation.invariant, violation.text);
        if SAFETY.contains(&violation.invariant) {
            return;
        }
    }
    panic!("not caught in {SEEDS} seeds");
}

/// Leaders die all the time.
fn leaderless() -> Profile {
    Profile { leader_crash_ms: 60, crash_ms: 100, down_ms: 300, client_crash_ms: 0, ..Profile::hard() }
}

/// Messages are lost, so that replicas differ in what they have, and leaders die.
fn ragged() -> Profile {
    Profile { lost: 200, disk_ms: 5, ..leaderless() }
}

/// Leaders are cut off, and clients still reach them.
fn islands() -> Profile {
    Profile { partition_ms: 80, crash_ms: 0, leader_crash_ms: 0, client_crash_ms: 0, ..Profile::hard() }
}

macro_rules! bugs {
    ($protocol:ident: $($name:ident: $profile:expr;)*) => {
        $(#[test] fn $name() {
            caught($protocol { faults: PlantedBugs { $name: true, ..Default::default() }, origin: Empty }, $profile);
        })*
    };
}

bugs! {
    LockStore:
    commits_alone: leaderless();
    starts_with_own_log: ragged();
    releases_at_prepare: Profile::calm();
    forgets_prepared: leaderless();
    terminates_alone: Profile::hard();
}

bugs! {
    Granola:
    ignores_leases: Profile { skew_ms: 100, ..islands() };
    executes_before_votes: Profile::calm();
    votes_early: ragged();
}

/// Clients die, and much of what they have sent is lost.
fn clientless() -> Profile {
    Profile { lost: 250, client_crash_ms: 40, clients: 6, keys: 4, ..Profile::hard() }
}

/// Many clients write the same keys.
fn crowded() -> Profile {
    Profile { clients: 5, keys: 4, ..Profile::hard() }
}

bugs! {
    Tapir:
    fast_path_by_majority: clientless();
    refuses_beside_fast_quorum: Profile { replicas: 5, ..clientless() };
    mixes_record_views: clientless();
    ignores_prepared: Profile::calm();
    skips_read_validation: Profile::calm();
    forgets_committed_reads: crowded();
    merges_without_results: clientless();
    votes_before_record: Profile { disk_ms: 40, ..leaderless() };
    aborts_alone: Profile::hard();
}

/// Without bugs these worlds hold, so it is the bug that is caught in each.
#[test]
fn worlds_of_tapir_s_bugs_hold_without_them() {
    for profile in [crowded(), Profile { disk_ms: 40, ..leaderless() }, clientless()] {
        run(Tapir { faults: NoFaults, origin: Empty }, 0..3, |_| profile);
    }
}
