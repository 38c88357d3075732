//! RAMP over items under faults: seeds that must pass, planted bugs that must be caught.
//!
//! `WEIR_SEEDS=17..18 cargo test --workspace --test sim simulated::items::seeds` runs other seeds than the usual ones; each that
//! fails leaves a log of everything that happened in the directory for temporary files.

use std::ops::Range;

use weir_kv::Variant;
use weir_kv::faults::{ClientBugs, PlantedBugs};
use weir_sim::Faults;
use weir_sim::items::{Report, run};

type Setup = weir_sim::items::Setup<PlantedBugs, ClientBugs>;

const SEEDS: Range<u64> = 0..100;

fn seeds() -> Range<u64> {
    given_seeds().unwrap_or(SEEDS)
}

/// Seeds that `WEIR_SEEDS=FROM..TO` asks for.
pub fn given_seeds() -> Option<Range<u64>> {
    let given = std::env::var("WEIR_SEEDS").ok()?;
    let ends = given.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    Some(ends.expect("WEIR_SEEDS is FROM..TO"))
}

/// Runs it again with its log, and says how to do that by hand.
fn write_log(setup: &Setup, report: &Report) -> String {
    let logged = run(&Setup { logged: true, ..setup.clone() });
    assert_eq!(logged.hash, report.hash, "the same seed goes the same way");
    let (seed, variant) = (setup.seed, setup.variant.name());
    let path = std::env::temp_dir().join(format!("weir-items-{variant}-{seed}.log"));
    let wrote = std::fs::write(&path, format!("{}{report}\n", logged.log));
    let said = wrote.map_or_else(|error| error.to_string(), |()| path.display().to_string());
    let test = variant.replace('-', "_");
    format!(
        "WEIR_SEEDS={seed}..{} cargo test --workspace --test sim simulated::items::seeds_of_{test}\nlog: {said}",
        seed + 1
    )
}

fn check_seeds(variant: Variant) {
    let (mut second_rounds, mut committed_by_readers, mut readers_expired) = (0, 0, 0);
    let (mut statements, mut restarted) = (0, 0);
    let (mut claimed, mut not_claimed, mut number_max) = (0, 0, 0);
    let (mut finished, mut aborted, mut dead, mut clocks_refused) = (0, 0, 0, 0);
    for seed in seeds() {
        let setup = Setup::new(variant, seed);
        let report = run(&setup);
        if report.failure.is_some() {
            panic!("seed {seed}: {report}\n{}", write_log(&setup, &report));
        }
        second_rounds += report.second_rounds;
        committed_by_readers += report.committed_by_readers;
        statements += report.statements.0;
        restarted += report.statements.1;
        claimed += report.guarded.0;
        not_claimed += report.guarded.1;
        let numbers = report.history.records.iter().filter(|record| !record.aborted);
        number_max = numbers.flat_map(|record| record.numbers.values().copied()).fold(number_max, u64::max);
        readers_expired += report.readers_expired;
        finished += report.terminated.0;
        aborted += report.terminated.1;
        dead += report.dead;
        clocks_refused += report.clocks_refused;
    }
    println!(
        "{second_rounds} second rounds, {committed_by_readers} committed by readers, {readers_expired} let go, \
         {finished} committed and {aborted} aborted by termination, {dead} coordinators dead, {clocks_refused} \
         writes refused for their clocks, {statements} statements of transactions of several, {restarted} restarted, \
         {claimed} committed under guards, {not_claimed} aborted, {number_max} the highest number of a counter"
    );
    if seeds() == SEEDS {
        assert!(
            second_rounds > 0
                && committed_by_readers > 0
                && readers_expired > 0
                && finished > 0
                && aborted > 0
                && clocks_refused > 0
                && statements > 0
                && restarted > 0
                && claimed > 0
                && not_claimed > 0
                && number_max > 2,
            "the seeds miss something"
        );
    }
}

#[test]
fn seeds_of_ramp_fast() {
    check_seeds(Variant::Fast);
}

#[test]
fn seeds_of_ramp_small() {
    check_seeds(Variant::Small);
}

#[test]
fn seeds_of_ramp_hybrid() {
    check_seeds(Variant::HYBRID);
}

#[test]
fn the_same_seed_goes_the_same_way() {
    for seed in [3, 8] {
        let hashes = [0, 1].map(|_| run(&Setup::new(Variant::Fast, seed)).hash);
        assert_eq!(hashes[0], hashes[1], "seed {seed}");
    }
    assert_ne!(run(&Setup::new(Variant::Fast, 3)).hash, run(&Setup::new(Variant::Fast, 8)).hash);
}

/// Links on which an answer comes later than the first repetition, and often not at all.
#[test]
fn slow_links_hold_and_finish() {
    for seed in 0..12 {
        let slow = Faults { delay_us_max: 700_000, loss_per_mille: 150, ..Faults::none() };
        let setup = Setup { faults: Some(slow), ..Setup::new(ALL[seed as usize % 3], seed) };
        let report = run(&setup);
        assert!(report.failure.is_none(), "seed {seed}: {report}");
    }
}

#[test]
fn a_seed_that_fails_leaves_its_log_and_a_command() {
    let client_bugs = ClientBugs { reads_once: true, ..ClientBugs::default() };
    let failing = (0..CAUGHT_WITHIN).map(|seed| Setup { client_bugs, ..Setup::new(Variant::Fast, seed) });
    let found = failing.map(|setup| (run(&setup), setup)).find(|(report, _)| report.failure.is_some());
    let (report, setup) = found.expect("the bug is caught");
    let said = write_log(&setup, &report);
    assert!(said.starts_with(&format!("WEIR_SEEDS={}..", setup.seed)), "{said}");
    let (_, path) = said.split_once("log: ").expect("the log is named");
    let log = std::fs::read_to_string(path).expect("the log is there");
    assert!(log.contains("Prepare") && log.contains("violated: reads are atomic"), "{path}");
    std::fs::remove_file(path).expect("it is ours");
}

/// Some bugs need certain faults at the same time, which a draw rarely has.
fn faults_for(setup: &Setup) -> Option<Faults> {
    let shard = &setup.shard_bugs;
    // An older write must be held up while newer ones go all their way: short delays, many losses.
    let lossy = Faults { delay_us_max: 300, loss_per_mille: 250, ..Faults::none() };
    if shard.floor_ignores_prepared {
        return Some(lossy);
    }
    // A wrong clock must meet a transaction over its shard and another one.
    if shard.accepts_any_clock {
        let step = Faults { clock_step_ms_max: 700_000_000_000, delay_us_max: 300, ..Faults::none() };
        return Some(Faults { mishap_every_us: 20_000, ..step });
    }
    // Clocks must differ, and coordinators die when all have prepared and none has committed.
    if shard.own_stamp_at_termination {
        let faults = Faults { clock_offset_ms_max: 2_000, coordinators_die: true, ..lossy };
        return Some(Faults { mishap_every_us: 50_000, loss_per_mille: 600, ..faults });
    }
    // Coordinators must be silent for long, with some of their prepares lost, and shards must forget what they can.
    let silent = Faults {
        partition_us_max: 3_000_000,
        shard_down_us_max: 200_000,
        mishap_every_us: 200_000,
        ..lossy.clone()
    };
    if shard.promise_is_not_recorded || shard.recovery_forgets_promises || shard.looks_for_the_silent_once {
        return Some(silent);
    }
    None
}

/// Some bugs show only to many reads and writes of a certain kind.
fn needs_known_reads(setup: &Setup) -> bool {
    setup.shard_bugs.floor_ignores_prepared || setup.shard_bugs.tombstones_are_silent
}

/// Some bugs show only to clients that give up.
fn is_of_the_impatient(setup: &Setup) -> bool {
    setup.client_bugs.denies_what_goes_on
}

/// Some bugs are what one of the checkers is for.
fn claim_that_fails(setup: &Setup) -> &'static str {
    if setup.shard_bugs.stale_delta { "guards hold" } else { "" }
}

/// Every planted bug is caught within so many seeds.
const CAUGHT_WITHIN: u64 = 100;

fn check_caught(name: &str, variants: &[Variant], plant: impl Fn(&mut Setup)) {
    for variant in variants {
        let caught = (0..CAUGHT_WITHIN).find_map(|seed| {
            let mut setup = Setup::new(*variant, seed);
            plant(&mut setup);
            setup.faults = faults_for(&setup);
            setup.statements = !needs_known_reads(&setup);
            setup.impatient = is_of_the_impatient(&setup);
            Some((seed, run(&setup).failure?))
        });
        match caught {
            None => panic!("{name} was not caught with {} within {CAUGHT_WITHIN} seeds", variant.name()),
            Some((seed, failure)) => {
                println!("{name} {}: seed {seed}, {}", variant.name(), failure.claim);
                // It is the bug that fails, not the faults.
                let mut planted = Setup::new(*variant, seed);
                plant(&mut planted);
                assert!(failure.claim.starts_with(claim_that_fails(&planted)), "{name}: {failure:?}");
                let faults = faults_for(&planted);
                let statements = !needs_known_reads(&planted);
                let impatient = is_of_the_impatient(&planted);
                let sound = Setup { faults, statements, impatient, ..Setup::new(*variant, seed) };
                assert_eq!(run(&sound).failure, None, "seed {seed} without {name}");
            }
        }
    }
}

const ALL: [Variant; 3] = [Variant::Fast, Variant::Small, Variant::HYBRID];

macro_rules! planted {
    ($($name:ident: $side:ident, $variants:expr;)*) => {$(
        #[test]
        fn $name() {
            planted!(@$side $name, $variants);
        }
    )*};
    (@shard $name:ident, $variants:expr) => {
        check_caught(stringify!($name), &$variants, |setup| setup.shard_bugs.$name = true);
    };
    (@client $name:ident, $variants:expr) => {
        check_caught(stringify!($name), &$variants, |setup| setup.client_bugs.$name = true);
    };
    (@driver $name:ident, $variants:expr) => {
        check_caught(stringify!($name), &$variants, |setup| setup.$name = true);
    };
}

/// Clients that give up: what they are told of it is true (S3).
#[test]
fn clients_may_give_up() {
    let mut given_up = 0;
    for (variant, seed) in ALL.into_iter().flat_map(|variant| (0..40).map(move |seed| (variant, seed))) {
        let setup = Setup { impatient: true, ..Setup::new(variant, seed) };
        let report = run(&setup);
        if report.failure.is_some() {
            panic!("seed {seed}: {report}\n{}", write_log(&setup, &report));
        }
        given_up += report.given_up;
    }
    println!("{given_up} given up");
    assert!(given_up > 0);
}

planted! {
    metadata_goes_at_once: shard, [Variant::Fast, Variant::HYBRID];
    versions_go_at_once: shard, ALL;
    folds_while_read: shard, ALL;
    fresh_is_silent: shard, ALL;
    prepared_is_hidden: shard, ALL;
    takes_effect_twice: shard, ALL;
    tombstones_are_silent: shard, [Variant::Fast, Variant::HYBRID];
    round_two_reads_newest: shard, ALL;
    clock_ignores_commits: shard, ALL;
    floor_ignores_prepared: shard, ALL;
    stamps_by_client: client, ALL;
    reads_once: client, ALL;
    sketch_forgets_ranges: client, [Variant::Fast, Variant::HYBRID];
    resends_are_new: client, ALL;
    commits_early: client, ALL;
    forgets_own_writes: client, ALL;
    forgets_what_it_saw: client, ALL;
    cut_names_nothing: client, ALL;
    answers_early: driver, ALL;
    promise_is_not_recorded: shard, ALL;
    newer_means_committed: shard, ALL;
    looks_for_the_silent_once: shard, ALL;
    own_stamp_at_termination: shard, ALL;
    recovery_forgets_promises: shard, ALL;
    recovery_forgets_prepared: shard, ALL;
    aborts_after_prepared: client, ALL;
    denies_what_goes_on: client, ALL;
    accepts_any_clock: shard, ALL;
    stale_delta: shard, ALL;
}
