//! Groups in virtual time (docs/internals/replica-groups.md): what was told stays, the committed log is one, reads are not outdated; and
//! the planted bugs, each of which some seed catches.
//!
//! `WEIR_SEEDS=A..B` runs other seeds.

mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_raft::{MemberBugs, MemberFaults, NoFaults};
use world::{World, Wrong};

/// Seeds of continuous integration.
const SEEDS: std::ops::Range<u64> = 0..60;
/// A planted bug is caught within so many.
const SEEDS_FOR_BUGS: std::ops::Range<u64> = 0..600;

fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("WEIR_SEEDS").ok();
    let bounds = given.as_deref().and_then(|text| text.split_once(".."));
    bounds.map_or(SEEDS, |(from, to)| from.parse().unwrap()..to.parse().unwrap())
}

/// A failed assertion of a member is a finding, too.
fn run<F: MemberFaults>(seed: u64, faults: F) -> Result<World<F>, Wrong> {
    let run = || {
        let mut world = World::new(seed, faults);
        world.run().map(|()| world)
    };
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(Wrong::Unsafe("an assertion has failed".into())))
}

mod simulated {
    use super::*;

    #[test]
    fn what_was_told_stays_and_no_read_is_outdated() {
        let (mut told, mut reads, mut leads, mut emptied) = (0, 0, 0, 0);
        for seed in seeds() {
            let world = run(seed, NoFaults).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong:?}"));
            told += world.checks.told.len();
            reads += world.checks.reads;
            leads += world.leads;
            emptied += world.emptied;
        }
        println!("{told} writes and {reads} reads under {leads} leaders, {emptied} disks emptied");
        assert!(leads > 2 * seeds().count() && emptied > 0, "the world is too quiet");
    }

    #[test]
    fn the_same_seed_does_the_same() {
        for seed in 0..4 {
            let prints = [(); 2].map(|()| run(seed, NoFaults).map(|world| world.print()));
            assert_eq!(prints[0], prints[1]);
        }
    }

    fn is_caught(faults: MemberBugs) {
        // What is late shows no bug of these: all of them break a promise.
        let is_broken = |seed| match run(seed, faults) {
            Err(Wrong::Unsafe(wrong)) => Some((seed, wrong)),
            Ok(_) | Err(Wrong::Late(_)) => None,
        };
        let found = SEEDS_FOR_BUGS.into_iter().find_map(is_broken);
        let (seed, wrong) = found.unwrap_or_else(|| panic!("nobody has noticed {faults:?}"));
        println!("seed {seed}: {}", wrong.chars().take(200).collect::<String>());
    }

    macro_rules! planted {
        ($($name:ident,)*) => {
            $(#[test] fn $name() { is_caught(MemberBugs { $name: true, ..MemberBugs::default() }); })*
        };
    }

    mod planted_bugs {
        use super::*;

        planted! {
            acknowledges_before_disk,
            counts_itself_twice,
            serves_after_lease,
            truncates_committed,
            forgets_vote,
            votes_after_start,
            keeps_identity,
            starts_before_first_entry,
        }
    }
}
