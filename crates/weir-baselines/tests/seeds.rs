//! Seeds without bugs: every invariant holds, and everything is answered.

use std::ops::Range;

use weir_baselines::eris::faults::NoFaults;
use weir_baselines::eris::granola::Granola;
use weir_baselines::eris::lock_store::LockStore;
use weir_baselines::eris::operation::Empty;
use weir_baselines::eris::ordered::Ordered;
use weir_baselines::eris::tapir::Tapir;

use crate::world::profile::Profile;
use crate::world::{Checked, Counts, World};

/// Seeds of `WEIR_SEEDS`, for example `0..2000`; without it, those given.
fn seeds(few: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("WEIR_SEEDS") else { return few };
    let bounds = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    bounds.map(|(from, to)| from..to).expect("WEIR_SEEDS is not FROM..TO")
}

/// Runs the worlds of all seeds, which must hold all invariants.
pub fn run<P: Checked>(protocol: P, few: Range<u64>, profile: impl Fn(u64) -> Profile) -> Counts {
    let mut total = Counts::default();
    let mut broken = 0;
    for seed in seeds(few) {
        match World::new(protocol, seed, profile(seed)).run() {
            Ok(counts) => total.add(&counts),
            Err(violation) => {
                println!(
                    "{} seed {seed}: invariant {}: {}",
                    protocol.name(),
                    violation.invariant,
                    violation.text
                );
                broken += 1;
            }
        }
    }
    println!("{} {total:?}", protocol.name());
    assert_eq!(broken, 0, "worlds of {} with a broken invariant", protocol.name());
    total
}

/// A comparator holds in calm, in hard and in mixed worlds; a seed gives the same world again. `change`: what it cannot do is left out.
fn hold<P: Checked>(protocol: P, change: impl Fn(Profile) -> Profile) {
    let calm = run(protocol, 0..5, |_| change(Profile::calm()));
    assert_eq!(calm.answered, 90 * seeds(0..5).count() as u64);
    let hard = run(protocol, 0..20, |_| change(Profile::hard()));
    let mixed = run(protocol, 0..100, |seed| change(Profile::of_seed(seed)));
    assert!(hard.crashes > 100 && hard.replaced > 20 && mixed.crashes > 100, "no faults: {hard:?} {mixed:?}");
    let again =
        |seed| World::new(protocol, seed, change(Profile::hard())).run().map_err(|violation| violation.text);
    assert_eq!(again(1), again(1));
}

#[test]
fn seeds_of_lock_store_hold() {
    hold(LockStore { faults: NoFaults, origin: Empty }, |profile| profile);
}

#[test]
fn seeds_of_granola_hold() {
    hold(Granola { faults: NoFaults, origin: Empty }, |profile| profile);
}

/// Granola's timestamps are of clocks. If they differ, it is serializable, and as strict as they are.
#[test]
fn granola_is_serializable_whatever_clocks_say() {
    run(Granola { faults: NoFaults, origin: Empty }, 0..40, |seed| Profile {
        skew_ms: 100,
        ..Profile::of_seed(seed)
    });
}

#[test]
fn seeds_of_tapir_hold() {
    hold(Tapir { faults: NoFaults, origin: Empty }, |profile| profile);
}

/// TAPIR's timestamps are of clients' clocks. If they differ, it is serializable, and as strict as they are.
#[test]
fn tapir_is_serializable_whatever_clocks_say() {
    run(Tapir { faults: NoFaults, origin: Empty }, 0..40, |seed| Profile {
        skew_ms: 100,
        ..Profile::of_seed(seed)
    });
}

#[test]
fn seeds_of_ordered_and_ordered_global_hold() {
    hold(Ordered { is_global: false, origin: Empty }, |profile| profile);
    hold(Ordered { is_global: true, origin: Empty }, |profile| profile);
}
