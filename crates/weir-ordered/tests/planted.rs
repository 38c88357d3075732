//! Bugs that the checks must catch: each in a world that is hard where the bug is.

use weir_ordered::faults::{ClientBugs, PlantedBugs};

use crate::world::World;
use crate::world::profile::Profile;

/// Seeds that a bug may need until it is caught.
const SEEDS: u64 = 300;

/// Packets are late and lost, and replicas crash.
fn hard() -> Profile {
    Profile {
        lost: 30,
        doubled: 50,
        late: 60,
        lost_to_shard: 80,
        lost_to_all: 30,
        late_to_all: 120,
        patchy: 100,
        crash_ms: 150,
        learner_crash_ms: 200,
        partition_ms: 250,
        down_ms: 60,
        disk_ms: 20,
        transactions: 25,
        clients: 4,
        ..Profile::calm()
    }
}

fn with_epochs() -> Profile {
    Profile { sequencer_ms: 200, late_to_all: 200, ..hard() }
}

/// The worlds in which bugs are caught hold all invariants without bugs.
#[test]
fn without_a_bug_nothing_is_caught() {
    for profile in [hard(), with_epochs(), ragged(), islands(), Profile { replicas: 5, ..hard() }] {
        crate::seeds::run(0..8, |_| profile);
    }
}

/// Runs seeds until one breaks an invariant, which must be one of these.
fn caught(invariants: &[&str], profile: Profile) {
    for seed in 0..SEEDS {
        if let Err(violation) = World::new(seed, profile).run() {
            println!("seed {seed}: invariant {}: {}", violation.invariant, violation.text);
            assert!(invariants.contains(&violation.invariant), "{violation:?}");
            return;
        }
    }
    panic!("not caught in {SEEDS} seeds");
}

macro_rules! replica_bugs {
    ($($name:ident: $invariants:expr, $profile:expr;)*) => {
        $(#[test] fn $name() {
            caught(&$invariants, Profile { bugs: PlantedBugs { $name: true, ..Default::default() }, ..$profile });
        })*
    };
}

macro_rules! client_bugs {
    ($($name:ident: $invariants:expr, $profile:expr;)*) => {
        $(#[test] fn $name() {
            let client_bugs = ClientBugs { $name: true, ..Default::default() };
            caught(&$invariants, Profile { client_bugs, ..$profile });
        })*
    };
}

/// Replicas differ in what they have and in what they hear, and learners die.
fn ragged() -> Profile {
    Profile { lost: 150, patchy: 300, learner_crash_ms: 80, down_ms: 300, ..hard() }
}

/// Learners are cut off, with packets that nobody else has.
fn islands() -> Profile {
    let calm = Profile { crash_ms: 0, learner_crash_ms: 0, ..hard() };
    Profile { shards: 1, patchy: 400, partition_ms: 100, ..calm }
}

replica_bugs! {
    skips_temporary_drops: ["2", "3", "6"], hard();
    delivers_across_epochs: ["1", "2", "3", "4", "6"], with_epochs();
    forgets_undrops: ["liveness"], hard();
    forgets_promises: ["2", "3", "6"], hard();
    answers_early: ["2", "3"], hard();
    keeps_executed: ["5", "6"], islands();
    executes_twice: ["5"], hard();
    merges_no_drops: ["2", "3", "5", "6"], ragged();
    ignores_epoch_promise: ["2", "3", "5", "6"], with_epochs();
    synchronizes_blindly: ["5", "6"], hard();
}

client_bugs! {
    learns_before_quorum: ["2", "5"], hard();
    quorum_without_learner: ["5"], Profile { replicas: 5, ..hard() };
    mixes_views: ["2", "5"], ragged();
}
