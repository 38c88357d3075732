//! Interactive calls while messages are lost and shards and coordinators die: a procedure whose statements read over all shards sees one
//! moment, and what it writes is there as a whole or not at all (docs/internals/interactive-calls.md).

use std::collections::BTreeMap;

use crate::world::{self, World};
use weir_bench::simulate::Simulated;
use weir_sim::calls::{Report, Setup};
use weir_txn::exec::admission::Admission;
use weir_txn::faults::PlantedBugs;

/// The sum of all balances is always 800. `audit` and `record` add up one half after the other, in loops, expressions and nested calls.
const SCHEMA: &str = "
CREATE TABLE account (id integer PRIMARY KEY, side integer NOT NULL, balance integer NOT NULL);
COMMENT ON TABLE account IS 'weir: partition by (id)';
CREATE TABLE record (id integer PRIMARY KEY, total integer NOT NULL);
COMMENT ON TABLE record IS 'weir: partition by (id)';
CREATE PROCEDURE transfer(a integer, b integer, amount integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - amount WHERE id = a;
    UPDATE account SET balance = balance + amount WHERE id = b;
END $$;
CREATE PROCEDURE half(which integer, OUT total integer) LANGUAGE plpgsql AS $$
DECLARE
    one record;
BEGIN
    total := 0;
    FOR one IN SELECT balance FROM account WHERE side = which LOOP
        total := total + one.balance;
    END LOOP;
END $$;
CREATE PROCEDURE audit(OUT total integer) LANGUAGE plpgsql AS $$
DECLARE
    other integer;
BEGIN
    CALL half(0, total);
    CALL half(1, other);
    total := total + other;
    IF total <> 800 THEN
        RAISE EXCEPTION 'the halves are of two moments: %', total;
    END IF;
END $$;
CREATE PROCEDURE record_sum(at integer) LANGUAGE plpgsql AS $$
DECLARE
    low integer;
BEGIN
    SELECT sum(balance) INTO low FROM account WHERE side = 0;
    IF low + (SELECT sum(balance) FROM account WHERE side = 1) <> 800 THEN
        RAISE EXCEPTION 'the halves are of two moments';
    END IF;
    INSERT INTO record VALUES (at, 800) ON CONFLICT (id) DO NOTHING;
    INSERT INTO record VALUES (-at, 800) ON CONFLICT (id) DO NOTHING;
END $$;
CREATE TABLE pot (id integer PRIMARY KEY, coins integer NOT NULL);
COMMENT ON TABLE pot IS 'weir: partition by (id)';
CREATE PROCEDURE take_coin(i integer) LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT sum(coins) FROM pot) > 0 THEN
        UPDATE pot SET coins = coins - 1 WHERE id = i;
    END IF;
END $$;
CREATE PROCEDURE put_coin(i integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pot SET coins = coins + 1 WHERE id = i;
END $$;
CREATE ASSERTION there_is_no_debt CHECK ((SELECT sum(coins) FROM pot) >= 0);
CREATE ASSERTION records_come_in_pairs CHECK (NOT EXISTS (
    SELECT 1 FROM record AS one WHERE NOT EXISTS (SELECT 1 FROM record AS other WHERE other.id = -one.id)));
";

const WORKLOAD: &str = "
[load.account]
for = [\"a in 1..8\"]
id = \"a\"
side = \"a % 2\"
balance = \"100\"
[load.pot]
for = [\"p in 1..4\"]
id = \"p\"
coins = \"1\"
[mix]
take_coin = 6
put_coin = 3
transfer = 6
audit = 3
record_sum = 2
[parameters.transfer]
a = \"uniform(1, 8)\"
b = \"uniform(1, 8)\"
amount = \"uniform(1, 9)\"
[parameters.take_coin]
i = \"uniform(1, 4)\"
[parameters.put_coin]
i = \"uniform(1, 4)\"
[parameters.record_sum]
at = \"uniform(1, 40)\"
";

fn bank() -> World {
    World::of(SCHEMA, WORKLOAD)
}

fn run(simulated: &mut Simulated<'_>, setup: &Setup<PlantedBugs>) -> Report {
    simulated.run(setup).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Errors of the procedures themselves, which a correct run does not have.
fn raised(report: &Report) -> Option<String> {
    let is_raised = |reason: &&String| reason.starts_with("P0001") || reason.starts_with("XX000");
    report.failure.as_ref().map(|failure| format!("{failure:?}")).or(report
        .aborted
        .keys()
        .find(is_raised)
        .cloned())
}

#[test]
fn what_reads_over_all_shards_is_interactive() {
    let program = bank().program(3);
    let admission = |name: &str| {
        let of = program.procedure_by_name(name).map(|at| &program.procedures[at].admission);
        of.is_some_and(|admission| matches!(admission, Admission::Interactive(_)))
    };
    let interactive: Vec<&str> = ["transfer", "half", "audit", "record_sum", "take_coin", "put_coin"]
        .into_iter()
        .filter(|name| admission(name))
        .collect();
    assert_eq!(interactive, ["half", "audit", "record_sum", "take_coin"]);
}

#[test]
fn seeds_hold() {
    let bank = bank();
    let mut simulated = bank.simulated();
    let (mut committed, mut aborted) = (0, BTreeMap::<String, usize>::new());
    for seed in world::seeds(0..8) {
        let report = run(&mut simulated, &Setup::new(seed));
        println!("seed {seed}: {report} {:?}", report.aborted);
        assert_eq!(raised(&report), None, "seed {seed}: {report}");
        committed += report.committed;
        report
            .aborted
            .iter()
            .for_each(|(reason, count)| *aborted.entry(reason.clone()).or_default() += count);
    }
    println!("{committed} committed, {aborted:?}");
    world::check_reached(committed > 300, &committed);
}

/// Commits that become visible shard by shard would be seen by halves.
#[test]
fn halves_of_two_moments_are_caught() {
    let bank = bank();
    world::check_caught("no_siblings", 40, |seed| {
        let bugs = PlantedBugs { no_siblings: true, ..PlantedBugs::default() };
        raised(&run(&mut bank.simulated(), &Setup { bugs, shards: Some(3), ..Setup::new(seed) }))
    });
}

/// All reads of a call are of one snapshot, in which no shard may be late.
#[test]
fn snapshots_of_which_one_shard_is_stale_are_caught() {
    let bank = bank();
    world::check_caught("cut_is_stale", 40, |seed| {
        let bugs = PlantedBugs { cut_is_stale: true, ..PlantedBugs::default() };
        raised(&run(&mut bank.simulated(), &Setup { bugs, shards: Some(3), ..Setup::new(seed) }))
    });
}

/// Two that take the last coin at different shards would make a debt.
#[test]
fn decisions_on_what_is_not_locked_are_caught() {
    let bank = bank();
    world::check_caught("forgets_intervals", 40, |seed| {
        let bugs = PlantedBugs { forgets_intervals: true, ..PlantedBugs::default() };
        raised(&run(&mut bank.simulated(), &Setup { bugs, shards: Some(3), ..Setup::new(seed) }))
    });
}
