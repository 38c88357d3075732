//! Seeds without bugs: every history is serializable, and everything is answered.

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
                println!("seed {seed}: {}: {}", violation.invariant, violation.text);
                broken += 1;
            }
        }
    }
    println!("{total:?}");
    assert_eq!(broken, 0, "worlds with a broken invariant");
    total
}

#[test]
fn calm_seeds_are_serializable_without_a_fence() {
    let total = run(0..10, |_| Profile::calm());
    assert!(total.global > 500 && total.applies > 100 && total.serialization_failures > 0, "{total:?}");
    assert_eq!((total.unknown, total.fences, total.epochs), (0, 0, 10), "{total:?}");
}

#[test]
fn seeds_keep_all_invariants() {
    let total = run(0..60, Profile::of_seed);
    assert!(total.fences > 60 && total.promises > 60 && total.epochs > 120, "no new epochs: {total:?}");
    assert!(total.agent_crashes > 60 && total.database_crashes > 60, "no crashes: {total:?}");
    assert!(total.unlicensed > 0 && total.serialization_failures > 0 && total.unknown > 0, "{total:?}");
    assert!(total.not_begun > 0, "nobody waits for too long: {total:?}");
    assert!(total.truncations > 60, "nothing is truncated: {total:?}");
    assert!(total.map_changes > 60 && total.moved_rows > 60 && total.placed_again > 60, "{total:?}");
    assert!(total.joined > 5 && total.left > 5, "no server joins or leaves: {total:?}");
    assert!(total.checkpoints > 60 && total.forgotten > 60, "the coordinator's log grows: {total:?}");
}

#[test]
fn a_seed_gives_the_same_world_again() {
    for seed in 0..3 {
        let run = || World::new(seed, Profile::of_seed(seed)).run().map_err(|violation| violation.text);
        assert_eq!(run(), run());
    }
}
