//! Seeds without bugs: every invariant holds, and everything is answered.

use crate::world::World;
use crate::world::profile::Profile;

const SEEDS: std::ops::Range<u64> = 0..40;

/// Seeds of `WEIR_SEEDS`, for example `0..2000`.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("WEIR_SEEDS") else { return SEEDS };
    let bounds = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    bounds.map(|(from, to)| from..to).expect("WEIR_SEEDS is not FROM..TO")
}

#[test]
fn seeds_keep_all_invariants() {
    let mut total = crate::world::Counts::default();
    let mut broken = Vec::new();
    for seed in seeds() {
        match World::new(seed, Profile::of_seed(seed)).run() {
            Ok(counts) => {
                total.answered += counts.answered;
                total.messages += counts.messages;
                total.dropped += counts.dropped;
                total.found += counts.found;
                total.views += counts.views;
                total.epochs += counts.epochs;
            }
            Err(violation) => broken.push((seed, violation)),
        }
    }
    println!("{total:?}");
    for (seed, violation) in &broken {
        println!("seed {seed}: invariant {}: {}", violation.invariant, violation.text);
    }
    assert!(broken.is_empty(), "{} seeds", broken.len());
    assert!(total.dropped > 0 && total.found > 0 && total.views > 0 && total.epochs > 40, "no faults: {total:?}");
}
