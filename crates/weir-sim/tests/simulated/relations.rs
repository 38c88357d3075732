//! Indexes, foreign keys and views under faults: seeds that must pass, planted bugs that must be caught.

use weir_kv::Variant;
use weir_kv::faults::{PlantedBugs, RelationBugs};
use weir_sim::relations::run;

type Setup = weir_sim::relations::Setup<PlantedBugs, RelationBugs>;

use super::items::given_seeds;

const ALL: [Variant; 3] = [Variant::Fast, Variant::Small, Variant::HYBRID];
/// Interactive transactions behave the same with every variant, so one variant is run for longer.
const SEEDS: [u64; 3] = [100, 20, 20];
/// Every planted bug is caught within so many seeds.
const CAUGHT_WITHIN: u64 = 100;

#[test]
fn seeds() {
    let given = given_seeds();
    for (variant, usual) in ALL.into_iter().zip(SEEDS) {
        let mut totals = [0; 6];
        for seed in given.clone().unwrap_or(0..usual) {
            let report = run(&Setup::new(variant, seed));
            assert_eq!(report.failure, None, "seed {seed} {} {:?}", variant.name(), report.faults);
            let counts = report.counts;
            let of_seed = [counts.committed, counts.conflicts, counts.restarted];
            let seen = [counts.without_parent, counts.compared, counts.children];
            totals.iter_mut().zip(of_seed.into_iter().chain(seen)).for_each(|(total, one)| *total += one);
        }
        println!(
            "{}: committed, conflicts, restarted, without parent, compared, children: {totals:?}",
            variant.name()
        );
        assert!(!totals.contains(&0), "the seeds miss something: {totals:?}");
    }
}

#[test]
fn the_same_seed_goes_the_same_way() {
    let hashes = [0, 1].map(|_| run(&Setup::new(Variant::Fast, 3)).hash);
    assert_eq!(hashes[0], hashes[1]);
}

fn check_caught(name: &str, plant: impl Fn(&mut Setup)) {
    let caught = (0..CAUGHT_WITHIN).find_map(|seed| {
        let mut setup = Setup::new(Variant::Fast, seed);
        plant(&mut setup);
        Some((seed, run(&setup).failure?))
    });
    let (seed, failure) =
        caught.unwrap_or_else(|| panic!("{name} was not caught within {CAUGHT_WITHIN} seeds"));
    println!("{name}: seed {seed}, {}", failure.claim);
    assert_eq!(run(&Setup::new(Variant::Fast, seed)).failure, None, "seed {seed} without {name}");
}

#[test]
fn stale_delta() {
    check_caught("stale_delta", |setup| setup.shard_bugs.stale_delta = true);
}

#[test]
fn shows_stale_entries() {
    check_caught("shows_stale_entries", |setup| setup.bugs.shows_stale_entries = true);
}

#[test]
fn a_deletion_is_not_seen_before_its_cause() {
    // The seed at which an unguarded deletion of a stale entry was found.
    let report = run(&Setup::new(Variant::Fast, 901));
    assert_eq!(report.failure, None);
}

#[test]
fn shows_orphans() {
    check_caught("shows_orphans", |setup| setup.bugs.shows_orphans = true);
}
