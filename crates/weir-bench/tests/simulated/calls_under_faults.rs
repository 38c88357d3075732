//! TPC-C in virtual time with loss, partitions, crashes of shards and deaths of coordinators: seeds that must pass, and
//! planted bugs that must be caught.
//!
//! `WEIR_SEEDS=17..18 cargo test --workspace --test bench simulated::calls_under_faults::seeds` runs other seeds than the usual ones; one
//! that fails leaves a log of everything that happened in the directory for temporary files.

use crate::world::{self, World};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use weir_bench::simulate::{Check, Simulated};
use weir_sim::Faults;
use weir_sim::calls::{Report, Setup};
use weir_sql::Application;
use weir_txn::faults::PlantedBugs;

fn unchanged(_: &str, text: String) -> String {
    text
}

fn tpcc() -> World {
    let small = [
        ("warehouses", "4"),
        ("items", "20"),
        ("customers_per_district", "10"),
        ("remote_lines", "0.5"),
        ("remote_payments", "0.5"),
    ];
    World::example("tpcc", &small, &unchanged)
}

/// No money comes or goes; the first look says how much there is.
fn no_money_is_lost(application: &Application) -> Check {
    let (first, application) = (OnceLock::new(), application.clone());
    Arc::new(move |rows| {
        let sum = world::sum_of_balances(&application, rows);
        let before = *first.get_or_init(|| sum);
        (sum != before).then(|| format!("{before} became {sum}"))
    })
}

const SEEDS: Range<u64> = 0..8;

fn seeds() -> Range<u64> {
    world::seeds(SEEDS)
}

fn run(simulated: &mut Simulated<'_>, setup: &Setup<PlantedBugs>) -> Report {
    simulated.run(setup).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Runs it again with its log, and says how to do that by hand.
fn write_log(simulated: &mut Simulated<'_>, setup: &Setup<PlantedBugs>, report: &Report) -> String {
    let logged = run(simulated, &Setup { logged: true, ..setup.clone() });
    assert_eq!(logged.hash, report.hash, "the same seed goes the same way");
    let path = std::env::temp_dir().join(format!("weir-calls-{}.log", setup.seed));
    let wrote = std::fs::write(&path, format!("{}{report}\n", logged.log));
    let said = wrote.map_or_else(|error| error.to_string(), |()| path.display().to_string());
    let next = setup.seed + 1;
    format!(
        "WEIR_SEEDS={}..{next} cargo test --workspace --test bench simulated::calls_under_faults::seeds\nlog: {said}",
        setup.seed
    )
}

#[test]
fn seeds_hold() {
    let tpcc = tpcc();
    let mut simulated = tpcc.simulated();
    let (mut committed, mut finished, mut aborted, mut dead, mut restarts, mut second_rounds) =
        (0, 0, 0, 0, 0, 0);
    for seed in seeds() {
        let setup = Setup::new(seed);
        let report = run(&mut simulated, &setup);
        println!("seed {seed}: {report}");
        if report.failure.is_some() {
            panic!("seed {seed}: {report}\n{}", write_log(&mut simulated, &setup, &report));
        }
        committed += report.committed;
        finished += report.terminated.0;
        aborted += report.terminated.1;
        dead += report.dead;
        restarts += report.restarts;
        second_rounds += report.second_rounds;
    }
    println!(
        "{committed} calls committed, {finished} transactions committed and {aborted} aborted by termination, {dead} \
         coordinators dead, {restarts} restarts, {second_rounds} second rounds"
    );
}

#[test]
fn the_same_seed_goes_the_same_way() {
    let tpcc = tpcc();
    let mut simulated = tpcc.simulated();
    let hashes = [3, 3, 7].map(|seed| run(&mut simulated, &Setup::new(seed)).hash);
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
}

/// Each planted bug is caught within so many seeds.
const CAUGHT_WITHIN: u64 = 40;

/// Crashes and deaths all the while, with a log that loses its end.
fn hard() -> Faults {
    Faults {
        delay_us_max: 10_000,
        loss_per_mille: 100,
        duplicate_per_mille: 200,
        shard_down_us_max: 500_000,
        sync_us_max: 1_000,
        mishap_every_us: 50_000,
        coordinators_die: true,
        snapshot_every: 100,
        ..Faults::none()
    }
}

/// A wrong clock must meet a call over its shard and another one.
fn wrong_clocks() -> Faults {
    Faults {
        clock_step_ms_max: 700_000_000_000,
        delay_us_max: 300,
        mishap_every_us: 20_000,
        ..Faults::none()
    }
}

/// Payroll cannot be placed on several shards.
fn setup_for(name: &str, seed: u64) -> Setup<PlantedBugs> {
    let shards = (name == "recovery forgets sequences").then_some(1);
    let faults = if name == "any clock is accepted" { wrong_clocks() } else { hard() };
    // None of these bugs is one of long statements.
    Setup { faults: Some(faults), shards, step_budget: None, ..Setup::new(seed) }
}

/// Finds a seed whose run is wrong, and none that is without the bug among those before.
fn check_caught(
    name: &str,
    simulated: &mut Simulated<'_>,
    plant: impl Fn(&mut Setup<PlantedBugs>),
    is_wrong: fn(&Report) -> bool,
) {
    for seed in 0..CAUGHT_WITHIN {
        let sound = setup_for(name, seed);
        let mut planted = sound.clone();
        plant(&mut planted);
        let report = run(simulated, &planted);
        if is_wrong(&report) {
            println!("{name}: seed {seed}: {:?} {:?}", report.failure, report.aborted);
            let report = run(simulated, &sound);
            assert!(
                report.failure.is_none() && !is_wrong(&report),
                "{name}: seed {seed} without the bug: {report}"
            );
            return;
        }
    }
    panic!("{name} was not caught within {CAUGHT_WITHIN} seeds");
}

fn has_failed(report: &Report) -> bool {
    report
        .failure
        .as_ref()
        .is_some_and(|violation| violation.claim != "a shard that starts again is as it was")
}

/// An id has come twice, which its unique key has noticed.
fn has_given_twice(report: &Report) -> bool {
    report.aborted.keys().any(|reason| reason.starts_with("23505"))
}

type Plant = fn(&mut PlantedBugs);

#[test]
fn planted_bugs_are_caught() {
    let all: &[(&str, Plant)] = &[
        ("a repeated request takes effect again", |bugs| bugs.takes_effect_twice = true),
        ("what nobody knows has committed", |bugs| bugs.unknown_means_committed = true),
        ("recovery forgets what was prepared", |bugs| bugs.recovery_forgets_prepared = true),
        ("recovery forgets what was answered", |bugs| bugs.recovery_forgets_answers = true),
        ("any clock is accepted", |bugs| bugs.accepts_any_clock = true),
    ];
    let tpcc = tpcc();
    let mut simulated = tpcc.simulated();
    for (name, plant) in all {
        check_caught(name, &mut simulated, |setup| plant(&mut setup.bugs), has_failed);
    }
    let answers_early = |setup: &mut Setup<PlantedBugs>| {
        setup.answers_early = true;
        setup.bugs.writes_in_doubt = true;
    };
    check_caught("answers leave early", &mut simulated, answers_early, has_failed);
}

/// S3, S7: what was claimed stays claimed, what was refused stays refused.
#[test]
fn claims_and_refusals_survive_crashes() {
    let smallbank = World::smallbank();
    let mut simulated = smallbank.simulated().with_check(no_money_is_lost(&smallbank.application));
    for seed in 0..40 {
        let report = run(&mut simulated, &Setup { faults: Some(hard()), ..Setup::new(seed) });
        assert!(report.failure.is_none(), "seed {seed}: {report}");
    }
    let all: &[(&str, Plant)] = &[
        // A restarted shard lets nobody write until it knows how its prepared transactions end, which would hide it.
        ("recovery forgets claims", |bugs| {
            bugs.recovery_forgets_claims = true;
            bugs.writes_in_doubt = true;
        }),
        ("a refusal is not recorded", |bugs| bugs.refusal_is_not_recorded = true),
    ];
    for (name, plant) in all {
        check_caught(name, &mut simulated, |setup| plant(&mut setup.bugs), has_failed);
    }
}

/// No id comes twice, whoever crashes.
#[test]
fn sequences_survive_crashes() {
    let payroll = World::example("payroll", &[("employees", "100")], &unchanged);
    let mut simulated = payroll.simulated();
    let plant: Plant = |bugs| bugs.recovery_forgets_sequences = true;
    let plant = |setup: &mut Setup<PlantedBugs>| plant(&mut setup.bugs);
    check_caught("recovery forgets sequences", &mut simulated, plant, has_given_twice);
}

/// Two rows on two shards, which come and go together.
const FRIENDS: &str = "
CREATE TABLE friends (user_id integer, friend_id integer, PRIMARY KEY (user_id, friend_id));
COMMENT ON TABLE friends IS 'weir: partition by (user_id)';
CREATE ASSERTION friends_are_mutual CHECK (NOT EXISTS (SELECT 1 FROM friends AS one WHERE NOT EXISTS
    (SELECT 1 FROM friends AS other WHERE other.user_id = one.friend_id AND other.friend_id = one.user_id)));
CREATE PROCEDURE befriend(a integer, b integer) LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO friends VALUES (a, b) ON CONFLICT (user_id, friend_id) DO NOTHING;
    INSERT INTO friends VALUES (b, a) ON CONFLICT (user_id, friend_id) DO NOTHING;
END $$;
CREATE PROCEDURE meet(a integer, b integer) LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO friends VALUES (b, a);
    INSERT INTO friends VALUES (a, b);
END $$;
CREATE PROCEDURE unfriend(a integer, b integer) LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM friends WHERE user_id = b AND friend_id = a;
    DELETE FROM friends WHERE user_id = a AND friend_id = b;
END $$;
";

const FRIENDS_WORKLOAD: &str = "
[mix]
befriend = 2
meet = 1
unfriend = 2
[parameters.befriend]
a = \"uniform(1, 3)\"
b = \"uniform(4, 5)\"
[parameters.meet]
a = \"uniform(1, 3)\"
b = \"uniform(4, 5)\"
[parameters.unfriend]
a = \"uniform(1, 3)\"
b = \"uniform(4, 5)\"
";

/// S20: each part holds what it has found, so all shards run two calls in one order.
#[test]
fn rows_of_several_shards_come_and_go_together() {
    let friends = World::of(FRIENDS, FRIENDS_WORKLOAD);
    let mut simulated = friends.simulated();
    for seed in world::seeds(0..40) {
        let report = run(&mut simulated, &Setup { faults: Some(hard()), ..Setup::new(seed) });
        assert!(report.failure.is_none(), "seed {seed}: {report}");
    }
    let plant: Plant = |bugs| bugs.forgets_existence = true;
    check_caught("existence", &mut simulated, |setup| plant(&mut setup.bugs), has_failed);
}
