//! Bugs that the checks must catch: each in a world that is hard where the bug is.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_ordered::faults::{ClientBugs, CoordinatorBugs, PlantedBugs};

use crate::world::World;
use crate::world::profile::Profile;

/// Invariants of which a bug may break any first.
const SAFETY: [&str; 6] = ["1", "2", "3", "4", "5", "6"];

/// Seeds that a bug may need until it is caught.
const SEEDS: u64 = 1_000;

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
    Profile { sequencer_ms: 200, late_to_all: 200, client_crash_ms: 300, client_ms: 400, ..hard() }
}

/// The worlds in which bugs are caught hold all invariants without bugs.
#[test]
fn without_a_bug_nothing_is_caught() {
    let of_five = Profile { replicas: 5, ..hard() };
    for profile in [
        hard(),
        with_epochs(),
        ragged(),
        islands(),
        without_coordinator(),
        replaced_leaders(),
        worst(),
        wiped(),
        of_five,
        general(),
    ] {
        crate::seeds::run(0..4, |_| profile);
    }
}

/// Runs seeds until one breaks an invariant, which must be one of these.
fn caught(invariants: &[&str], profile: Profile) {
    for seed in 0..SEEDS {
        let Ok(ran) = catch_unwind(AssertUnwindSafe(|| World::new(seed, profile).run())) else {
            // A machine has met what its own assertions rule out.
            println!("seed {seed}: an assertion of a machine");
            return;
        };
        if let Err(violation) = ran {
            println!("seed {seed}: invariant {}: {}", violation.invariant, violation.text);
            assert!(invariants.contains(&violation.invariant), "{violation:?}");
            return;
        }
    }
    panic!("not caught in {SEEDS} seeds");
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

/// The failure coordinator crashes, too.
fn without_coordinator() -> Profile {
    Profile { coordinator_crash_ms: 40, patchy: 300, ..hard() }
}

/// Three nodes run the failure coordinator, and are cut off from each other while lost packets and dead sequencers give them something to
/// decide.
fn replaced_leaders() -> Profile {
    let calm = Profile { crash_ms: 0, learner_crash_ms: 0, late_to_all: 50, ..hard() };
    Profile { coordinators: 3, entries_max: 8, partition_ms: 350, sequencer_ms: 100, patchy: 300, ..calm }
}

/// Everything fails, often and at once.
fn worst() -> Profile {
    Profile { shards: 3, coordinator_crash_ms: 100, sequencer_ms: 150, partition_ms: 120, ..ragged() }
}

/// Replicas lose their disks.
fn wiped() -> Profile {
    Profile { wiped: 500, patchy: 300, aside_max: 8, ..with_epochs() }
}

/// Many transactions are general, and clients die between their parts.
fn general() -> Profile {
    Profile { general: 500, client_crash_ms: 150, client_ms: 400, general_ms: 100, ..hard() }
}

macro_rules! bugs {
    ($field:ident: $bugs:ident; $($name:ident: $invariants:expr, $profile:expr;)*) => {
        $(#[test] fn $name() {
            let $field = $bugs { $name: true, ..Default::default() };
            caught(&$invariants, Profile { $field, ..$profile });
        })*
    };
}

bugs! {
    bugs: PlantedBugs;
    skips_temporary_drops: SAFETY, hard();
    delivers_across_epochs: ["1", "2", "3", "4", "5", "6", "liveness"], with_epochs();
    forgets_undrops: ["liveness"], hard();
    forgets_promises: SAFETY, hard();
    answers_early: ["2"], hard();
    keeps_executed: ["5", "6"], islands();
    executes_twice: ["5"], hard();
    merges_no_drops: SAFETY, ragged();
    ignores_epoch_promise: SAFETY, with_epochs();
    synchronizes_blindly: SAFETY, hard();
    votes_at_once: SAFETY, wiped();
    forgets_clients: ["5"], hard();
    snapshots_without_clients: ["5", "6"], hard();
    forgets_synchronized: ["3", "liveness"], with_epochs();
    snapshots_executed: ["5", "6"], Profile { truncate_entries: 1, ..hard() };
    lets_go_early: ["5"], general();
    passes_locks: ["5"], general();
    passes_waiting: ["4", "5"], general();
    commits_aborted: ["5"], Profile { think_ms: 200, ..general() };
    snapshots_without_locks: ["5", "6", "liveness"], general();
    settles_early: ["2", "5"], Profile { general: 700, ..ragged() };
}

bugs! {
    coordinator_bugs: CoordinatorBugs;
    tells_before_record: SAFETY, replaced_leaders();
    asks_one_shard: SAFETY, hard();
    counts_empty_disks: SAFETY, wiped();
    truncates_early: ["3", "liveness"], hard();
    drops_without_learner: SAFETY, islands();
    starts_shards_apart: SAFETY, with_epochs();
    answers_after_lead: ["3", "5", "6", "liveness"], replaced_leaders();
    starts_before_first_entry: SAFETY, replaced_leaders();
}

bugs! {
    client_bugs: ClientBugs;
    learns_before_quorum: ["2"], hard();
    quorum_without_learner: ["5"], Profile { replicas: 5, ..hard() };
    mixes_views: ["2", "5"], ragged();
}
