//! Assertions that nothing is shown to keep, beside statements and procedures, while messages are lost and shards and coordinators die: each
//! transaction is checked before it commits, and every assertion holds in the end (docs/internals/admission.md).

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_analysis::open_world::plan_anew;
use weir_sim::calls::{Report, Setup};
use weir_sql::Text;
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::Callee;

use crate::world::{self, World};

/// An account's balance is the sum of its entries, of which there are at most four; no two accounts of an owner are in debt.
const SCHEMA: &str = "
CREATE TABLE account (id integer PRIMARY KEY, owner integer NOT NULL, balance integer NOT NULL);
CREATE TABLE entry (id integer PRIMARY KEY, account integer NOT NULL, amount integer NOT NULL);
COMMENT ON TABLE account IS 'weir: partition by (id)';
COMMENT ON TABLE entry IS 'weir: partition by (id)';
CREATE ASSERTION balanced CHECK (NOT EXISTS (SELECT 1 FROM account a
    WHERE a.balance <> (SELECT coalesce(sum(e.amount), 0) FROM entry e WHERE e.account = a.id)));
CREATE ASSERTION few CHECK (NOT EXISTS (SELECT 1 FROM account a
    WHERE (SELECT count(*) FROM entry e WHERE e.account = a.id) > 4));
CREATE ASSERTION one_debt CHECK (NOT EXISTS (SELECT 1 FROM account a JOIN account b ON b.owner = a.owner AND b.id > a.id
    WHERE a.balance < 0 AND b.balance < 0));
CREATE PROCEDURE book(e integer, a integer, n integer) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO entry VALUES (e, a, n);
    UPDATE account SET balance = balance + n WHERE id = a;
END $$;
CREATE PROCEDURE cancel(e integer) LANGUAGE plpgsql AS $$
DECLARE
    a integer;
    n integer;
BEGIN
    SELECT account, amount INTO a, n FROM entry WHERE id = e;
    DELETE FROM entry WHERE id = e;
    UPDATE account SET balance = balance - n WHERE id = a;
END $$;
";

const WORKLOAD: &str = "
[load.account]
for = [\"a in 1..6\"]
id = \"a\"
owner = \"a % 2\"
balance = \"0\"
[mix]
cancel = 1
[parameters.cancel]
e = \"uniform(1, 20)\"
";

/// All take two small numbers.
const STATEMENTS: [&str; 7] = [
    "INSERT INTO entry VALUES ($1, $2, 0) ON CONFLICT DO NOTHING",
    "UPDATE entry SET account = $2 WHERE id = $1",
    "DELETE FROM entry WHERE id = $1 AND $2 > 0",
    "UPDATE entry SET amount = 0 WHERE id = $1 AND $2 > 0",
    "UPDATE account SET owner = $2 % 2 WHERE id = $1",
    "UPDATE account SET balance = $2 - 5 WHERE id = $1",
    "DELETE FROM account WHERE id = $1 AND $2 > 7",
];

/// The application as a server has it that has been told of its assertions and procedures while it ran: it checks what is not proved.
fn books() -> World {
    let mut books = World::of(SCHEMA, WORKLOAD);
    let stays = books.analysis.plan.placement.iter().cloned().map(Some).collect();
    books.analysis.plan = plan_anew(&books.application, stays, 0);
    books
}

fn run(books: &World, seed: u64, bugs: PlantedBugs) -> Report {
    let statements: Vec<Arc<Text>> = STATEMENTS.iter().map(|sql| world::text(sql, 2)).collect();
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut small = move |most: u64| 1 + (chance.next_u64() % most) as i64;
    let mut next_call = |_: usize| match small(10) {
        1..=5 => world::call(Callee::Procedure(0), &[small(20), small(6), small(9) - 5]),
        6..=7 => world::call(Callee::Procedure(1), &[small(20)]),
        _ => {
            let text = statements[small(statements.len() as u64) as usize - 1].clone();
            let first = if text.sql.contains("entry") { small(20) } else { small(6) };
            world::call(Callee::Text(text), &[first, small(8)])
        }
    };
    let setup = Setup { bugs, ..Setup::new(seed) };
    books.simulated().run_calls(&setup, &mut next_call).unwrap_or_else(|error| panic!("{error:?}"))
}

fn failed(report: &Report) -> Option<String> {
    let is_internal = |reason: &&String| reason.starts_with("XX000") || reason.starts_with("0A000");
    let failure = report.failure.as_ref().map(|failure| format!("{failure:?}"));
    failure.or(report.aborted.keys().find(is_internal).cloned())
}

#[test]
fn all_of_it_is_checked() {
    let books = books();
    for shards in [1, 3] {
        let program: Program = books.program(shards);
        let checks = |callee: &Callee| {
            let runs = program.callee(callee).unwrap();
            runs.admission.locking().map_or(0, |locking| locking.checks.len())
        };
        assert!(checks(&Callee::Procedure(0)) > 0 && checks(&Callee::Procedure(1)) > 0);
        for sql in &STATEMENTS[1..] {
            assert!(checks(&Callee::Text(world::text(sql, 2))) > 0, "{sql}");
        }
    }
}

#[test]
fn seeds_hold() {
    let books = books();
    let (mut committed, mut violated) = (0, 0);
    for seed in world::seeds(0..8) {
        let report = run(&books, seed, PlantedBugs::default());
        println!("seed {seed}: {report} {:?}", report.aborted);
        assert_eq!(failed(&report), None, "seed {seed}: {report}");
        committed += report.committed;
        let is_violation = |(reason, count): (&String, &usize)| reason.starts_with("23514").then_some(*count);
        violated += report.aborted.iter().filter_map(is_violation).sum::<usize>();
    }
    println!("{committed} committed, {violated} would have violated one");
    world::check_reached(committed > 200 && violated > 20, &[committed, violated]);
}

fn check_caught(name: &str, bugs: PlantedBugs) {
    let books = books();
    world::check_caught(name, 300, |seed| failed(&run(&books, seed, bugs)));
}

#[test]
fn a_check_of_new_values_alone_is_caught() {
    check_caught(
        "checks_new_values_alone",
        PlantedBugs { checks_new_values_alone: true, ..PlantedBugs::default() },
    );
}

/// The check reads ranges of entries, into which others write.
#[test]
fn a_check_that_locks_nothing_is_caught() {
    check_caught("forgets_intervals", PlantedBugs { forgets_intervals: true, ..PlantedBugs::default() });
}
