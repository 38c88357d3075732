//! Seeds without bugs: every invariant holds, and everything is answered.

use std::ops::Range;

use crate::world::profile::Profile;
use crate::world::{Counts, World};

/// Seeds of `WEIR_SEEDS`, for example `0..2000`; without it, those given.
fn seeds(few: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("WEIR_SEEDS") else { return few };
    let bounds = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    bounds.map(|(from, to)| from..to).expect("WEIR_SEEDS is not FROM..TO")
}

/// Runs the worlds of all seeds, which must hold all invariants.
pub fn run(few: Range<u64>, profile: impl Fn(u64) -> Profile) -> Counts {
    let mut total = Counts::default();
    let mut broken = 0;
    for seed in seeds(few) {
        match World::new(seed, profile(seed)).run() {
            Ok(counts) => total.add(&counts),
            Err(violation) => {
                println!("seed {seed}: invariant {}: {}", violation.invariant, violation.text);
                broken += 1;
            }
        }
    }
    println!("{total:?}");
    assert_eq!(broken, 0, "worlds with a broken invariant");
    total
}

#[test]
fn seeds_keep_all_invariants() {
    let total = run(0..60, Profile::of_seed);
    assert!(
        total.dropped > 0 && total.found > 0 && total.views > 0 && total.epochs > 60,
        "no faults: {total:?}"
    );
    assert!(
        total.checkpoints > 0 && total.transfers > 0 && total.wiped > 0 && total.retired > 0,
        "nothing is truncated: {total:?}"
    );
    assert!(
        total.leaders > 60 && total.snapshots > 0,
        "no node of the failure coordinator is replaced: {total:?}"
    );
    assert!(
        total.committed > 0 && total.aborted > 0 && total.settled > 0 && total.aborts > 0,
        "no general transactions: {total:?}"
    );
}

#[test]
fn a_seed_gives_the_same_world_again() {
    for seed in 0..3 {
        let run = || World::new(seed, Profile::of_seed(seed)).run().map_err(|violation| violation.text);
        assert_eq!(run(), run());
    }
}

/// A view takes longer to start than replicas wait for at first.
#[test]
fn slow_disks_make_views_slow_and_no_more() {
    let slow = |_| Profile { disk_ms: 300, learner_crash_ms: 300, down_ms: 400, ..Profile::calm() };
    let total = run(0..20, slow);
    assert!(total.views > 20, "{total:?}");
}

#[test]
fn groups_of_one_replica_keep_all_invariants() {
    run(0..20, |seed| Profile { replicas: 1, ..Profile::of_seed(seed) });
}

/// Nodes of the failure coordinator crash often, mostly the one that leads, and their logs are short.
#[test]
fn failure_coordinators_of_three_nodes_keep_all_invariants() {
    let total = run(0..60, |seed| {
        let coordinator_crash_ms = 100 + seed % 5 * 100;
        Profile { coordinators: 3, coordinator_crash_ms, entries_max: 8, ..Profile::of_seed(seed) }
    });
    assert!(total.leaders > 150 && total.snapshots > 150, "{total:?}");
}

#[test]
fn failure_coordinators_of_one_node_keep_all_invariants() {
    run(0..20, |seed| Profile { coordinators: 1, coordinator_crash_ms: 300, ..Profile::of_seed(seed) });
}

/// Replicas can keep few packets aside, and the failure coordinator takes its time to drop those that nobody has. Clients repeat meanwhile what waits for
/// a lock, so as many packets come as are dropped: those that are kept must be the next ones, or a shard never gets out of it.
#[test]
fn shards_that_drop_much_catch_up() {
    let slow =
        Profile { coordinators: 3, coordinator_crash_ms: 300, entries_max: 8, ..Profile::of_seed(242) };
    assert!(slow.aside_max == 8 && slow.disk_ms == 30 && slow.general > 0, "{slow:?}");
    let total = run(230..250, |_| slow);
    assert!(total.dropped > 1_000, "{total:?}");
}
