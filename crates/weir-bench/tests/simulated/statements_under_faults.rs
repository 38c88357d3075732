//! Statements that are none of the application's procedures, beside them and by themselves, while messages are lost and shards
//! and coordinators die: every invariant holds in the end (soundness S1); and where statements are trusted, it does not.

use crate::world;

use std::sync::Arc;

use crate::world::World;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::simulate::Simulated;
use weir_sim::calls::Setup;
use weir_sql::Text;
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::Callee;

const SCHEMA: &str = "
CREATE TABLE department (id integer PRIMARY KEY, budget integer NOT NULL CHECK (budget >= 0));
CREATE TABLE employee (
    id integer NOT NULL,
    department integer NOT NULL REFERENCES department (id),
    salary integer NOT NULL CHECK (salary BETWEEN 0 AND 1000),
    seat integer,
    PRIMARY KEY (department, id),
    UNIQUE (department, seat)
);
COMMENT ON TABLE employee IS 'weir: partition by (department)';
CREATE PROCEDURE hire(e integer, d integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO employee VALUES (e, d, 10); END $$;
CREATE PROCEDURE hire_for_two(e integer, d integer, f integer) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO employee VALUES (e, d, 10);
    INSERT INTO employee VALUES (e, f, 10);
END $$;
CREATE PROCEDURE rise(e integer, d integer) LANGUAGE plpgsql AS $$
BEGIN UPDATE employee SET salary = salary + 1 WHERE id = e AND department = d; END $$;
CREATE PROCEDURE spend(d integer, amount integer) LANGUAGE plpgsql AS $$
BEGIN UPDATE department SET budget = budget - amount WHERE id = d; END $$;
CREATE PROCEDURE found(d integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO department VALUES (d, 100); END $$;
";

/// With parents on other shards.
const BADGES: &str = "
CREATE TABLE badge (id integer PRIMARY KEY, department integer NOT NULL REFERENCES department (id));
COMMENT ON TABLE badge IS 'weir: partition by (id)';
CREATE PROCEDURE give(b integer, d integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO badge VALUES (b, d); END $$;
";

/// With this one, others reckon with departments that go.
const CLOSE: &str = "
CREATE PROCEDURE close(d integer) LANGUAGE plpgsql AS $$
BEGIN DELETE FROM department WHERE id = d; END $$;
";

const WORKLOAD: &str = "
[load.department]
for = [\"d in 1..6\"]
id = \"d\"
budget = \"100\"
[load.employee]
for = [\"e in 1..6\"]
id = \"e\"
department = \"e\"
salary = \"10\"
[mix]
hire = 1
[parameters.hire]
e = \"uniform(1, 12)\"
d = \"uniform(1, 6)\"
";

/// All take two small numbers.
const STATEMENTS: [&str; 17] = [
    "DELETE FROM department WHERE id = $1 AND $2 > 0",
    "INSERT INTO department VALUES ($1, $2)",
    "INSERT INTO employee VALUES ($1, $2, 5)",
    "INSERT INTO employee VALUES ($1, $2, 5), ($1 + 1, $2 + 1, 7), ($1 + 2, 1, 7) ON CONFLICT DO NOTHING",
    "UPDATE department SET budget = budget - $2 WHERE id = $1 RETURNING budget",
    "UPDATE employee SET salary = salary + $2 WHERE salary > $1",
    "UPDATE employee SET department = $2 WHERE id = $1",
    "DELETE FROM employee WHERE department = $1 AND id > $2",
    "DELETE FROM employee WHERE id = $1 OR id = $2 RETURNING id, salary",
    "UPDATE employee SET salary = salary * 2 WHERE id = $1 AND department = $2",
    "INSERT INTO employee SELECT $1, $2, 9 WHERE NOT EXISTS (SELECT 1 FROM employee WHERE department = $2 AND id = $1)",
    "UPDATE department SET budget = budget - $2 WHERE budget > $1",
    "UPDATE employee SET seat = $1 WHERE id = $2",
    "INSERT INTO department VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET budget = EXCLUDED.budget RETURNING budget",
    "UPDATE employee e SET salary = e.salary + d.budget % $2 FROM department d WHERE d.id = e.department AND d.budget > $1 RETURNING e.id, d.budget",
    "DELETE FROM employee USING department d WHERE d.id = department AND d.budget BETWEEN $1 AND $2",
    "UPDATE department SET budget = budget - given.n FROM ROWS FROM (unnest(ARRAY[$1, 3, 5]), unnest(ARRAY[$2, 1, 40])) AS given (d, n) \
     WHERE given.d = department.id AND budget > 0 AND department.id = ANY (ARRAY[$1, 3])",
];

/// With the statements that are sent.
struct Sent {
    world: World,
    statements: Vec<Arc<Text>>,
}

fn text(sql: &str) -> Arc<Text> {
    world::text(sql, 2)
}

impl Sent {
    fn to(schema: &str) -> Sent {
        Sent { world: World::of(schema, WORKLOAD), statements: STATEMENTS.map(text).into() }
    }

    /// These statements, all of which are taken; none of the seeds fails.
    fn kept(schema: &str, workload: &str, statements: &[&str], seeds: std::ops::Range<u64>) -> Sent {
        let statements: Vec<Arc<Text>> = statements.iter().map(|sql| text(sql)).collect();
        let sent = Sent { world: World::of(schema, workload), statements };
        assert_eq!(taken(&sent).len(), sent.statements.len());
        assert_eq!(sent.failure(&sent.statements, seeds, PlantedBugs::default()), None);
        sent
    }

    fn program(&self, shards: u16) -> Program {
        self.world.program(shards)
    }

    /// The first failure of these seeds, whose sessions call procedures and send these statements.
    fn failure(
        &self,
        statements: &[Arc<Text>],
        seeds: std::ops::Range<u64>,
        bugs: PlantedBugs,
    ) -> Option<String> {
        // Planted bugs break other claims, too.
        let is_planted = bugs != PlantedBugs::default();
        let counts = if is_planted { |claim: &str| claim.contains("invariant") } else { |_: &str| true };
        self.failure_of(statements, seeds, bugs, counts)
    }

    /// The same, of claims that count.
    fn failure_of(
        &self,
        statements: &[Arc<Text>],
        seeds: std::ops::Range<u64>,
        bugs: PlantedBugs,
        counts: fn(&str) -> bool,
    ) -> Option<String> {
        let mut simulated =
            Simulated::new(&self.world.application, &self.world.analysis, &self.world.workload);
        for seed in seeds {
            let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
            let procedures = self.world.application.procedures.len();
            let mut next_call = |_: usize| {
                let mut small = |most: u64| (chance.next_u64() % most) as i64;
                let which = small((procedures + 2 * statements.len()) as u64) as usize;
                let callee = match which.checked_sub(procedures) {
                    None => Callee::Procedure(which),
                    Some(at) => Callee::Text(statements[at % statements.len()].clone()),
                };
                let arguments = match &callee {
                    Callee::Procedure(at) => self.world.application.procedures[*at].parameters.len(),
                    Callee::Text(_)
                    | Callee::Definition(_)
                    | Callee::AdvisoryLock { .. }
                    | Callee::Sequences
                    | Callee::SetSequence { .. }
                    | Callee::Constraints(_)
                    | Callee::Derived(_)
                    | Callee::Serializable(_)
                    | Callee::Attempt(..)
                    | Callee::Reads(_)
                    | Callee::Build(_)
                    | Callee::Enter
                    | Callee::Barrier => 2,
                };
                let args: Vec<i64> = (0..arguments).map(|_| 1 + small(9)).collect();
                world::call(callee, &args)
            };
            let mut setup = Setup { bugs, ..Setup::new(seed) };
            if bugs.no_guards {
                // A worker claims whole tables, which hides the bug.
                setup.step_budget = None;
            }
            let report =
                simulated.run_calls(&setup, &mut next_call).unwrap_or_else(|error| panic!("{error:?}"));
            println!("seed {seed}: {report}");
            let failure = report.failure.as_ref().filter(|one| counts(one.claim));
            if let Some(failure) = failure {
                return Some(format!("seed {seed}: {failure:?}"));
            }
        }
        None
    }
}

/// S1's example: procedures only hire, so hiring has no guard. A statement that closes a department keeps out those over several shards.
#[test]
fn a_statement_that_endangers_a_procedure_keeps_it_out() {
    let world = Sent::to(SCHEMA);
    let endangers = world.program(4).text(&world.statements[0]).expect("it runs by itself");
    let locking = endangers.procedure.admission.locking().expect("it endangers hire");
    assert!(locking.excludes && locking.why.contains("department"), "{locking:?}");
    let with_close = Sent::to(&format!("{SCHEMA}{CLOSE}"));
    let admitted = with_close.program(4).text(&with_close.statements[0]).expect("hire reckons with it");
    assert!(!admitted.plan.guards.is_empty(), "{:?}", admitted.plan);
}

/// A statement that would be invalid, or needs rows of other shards, is refused with the reason; one that may break an assertion checks it.
#[test]
fn what_cannot_run_is_refused() {
    let assertions = "
CREATE TABLE fine (id integer PRIMARY KEY, amount integer NOT NULL);
CREATE ASSERTION fines_are_small CHECK (NOT EXISTS (SELECT 1 FROM fine WHERE amount > 500));
CREATE PROCEDURE fines(f integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fine VALUES (f, 100); END $$;";
    let world = Sent::to(&format!("{SCHEMA}{BADGES}{assertions}"));
    let program = world.program(4);
    let check = |sql: &str, words: &str| {
        // Both when it is judged, and, where one shard could run it, when it needs several.
        let call = world::call(Callee::Text(text(sql)), &[7, 5]);
        let told = match program.text(&text(sql)) {
            Err(wrong) => wrong.error,
            Ok(_) => program.participants(&call).expect_err(sql),
        };
        assert!(told.message().contains(words), "{sql}: {}", told.message());
    };
    let checks = program.text(&text("INSERT INTO fine VALUES ($1, $2 * 100)")).expect("it is checked");
    let locking = checks.procedure.admission.locking().expect("it may break an assertion");
    assert!(locking.why.contains("fines_are_small") && locking.checks == [0], "{locking:?}");
    check(
        "DELETE FROM badge WHERE id > $1 + $2 AND id NOT IN (SELECT seat FROM employee)",
        "asks for other rows",
    );
    check(
        "DELETE FROM badge WHERE NOT EXISTS (SELECT 1 FROM employee e WHERE e.id = badge.id AND e.department = $1 + $2)",
        "asks for other rows",
    );
    check(
        "UPDATE department SET budget = (SELECT count(*) FROM badge WHERE department < $2) WHERE id = $1",
        "asks for other rows",
    );
    check("INSERT INTO department SELECT $1 + $2, count(*) FROM badge", "asks for other rows");
    let long = format!("DELETE FROM badge WHERE id = $1 + $2 AND '{}' = ''", "x".repeat(2 << 20));
    check(&long, "bytes");
}

/// Those of the usual ones that are taken.
fn taken(world: &Sent) -> Vec<Arc<Text>> {
    let program = world.program(4);
    let taken = |text: &&Arc<Text>| match program.text(text) {
        Ok(_) => true,
        Err(wrong) => {
            println!("{}: {}", text.sql, wrong.error.message());
            false
        }
    };
    world.statements.iter().filter(taken).cloned().collect()
}

#[test]
fn invariants_hold_whatever_is_sent() {
    let mut closed = Sent::to(&format!("{SCHEMA}{BADGES}"));
    closed.statements.extend(
        ["INSERT INTO badge VALUES ($1, $2)", "DELETE FROM badge WHERE id <> $1 AND id < $2"].map(text),
    );
    assert_eq!(taken(&closed).len(), 19, "all, also the one that endangers a procedure");
    assert_eq!(closed.failure(&taken(&closed), world::seeds(0..12), PlantedBugs::default()), None);
    let with_close = Sent::to(&format!("{SCHEMA}{CLOSE}"));
    assert_eq!(taken(&with_close).len(), 17, "all");
    assert_eq!(with_close.failure(&taken(&with_close), world::seeds(0..12), PlantedBugs::default()), None);
}

/// Two halves of a unique key, which statements change one by one on all shards at once.
const HALVES: &str = "
CREATE TABLE pair (
    home integer NOT NULL,
    id integer NOT NULL,
    a integer NOT NULL,
    b integer NOT NULL,
    PRIMARY KEY (home, id),
    UNIQUE (home, a, b)
);
COMMENT ON TABLE pair IS 'weir: partition by (home)';
CREATE PROCEDURE put(h integer, i integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO pair VALUES (h, 10 + i, 10 + i, 0); END $$;
";

const HALVES_LOADED: &str = "
[load.pair]
for = [\"h in 1..4\", \"i in 1..9\"]
home = \"h\"
id = \"i\"
a = \"i\"
b = \"i\"
[mix]
put = 1
[parameters.put]
h = \"uniform(1, 4)\"
i = \"uniform(1, 9)\"
";

/// Both halves of one row may be changed at once by two statements; who holds the row is first.
#[test]
fn halves_of_a_key_are_changed_one_after_the_other() {
    let statements = [
        "UPDATE pair SET a = $1 % 3 WHERE id = $2",
        "UPDATE pair SET b = $1 % 3 WHERE id = $2",
        "UPDATE pair SET a = a + 1 WHERE home = $1 AND id = $2",
        "UPDATE pair SET a = $1 % 3, b = $2 % 3 WHERE id = $1",
        "INSERT INTO pair VALUES ($1, $2, 7, 7) ON CONFLICT (home, id) DO UPDATE SET a = 1, b = EXCLUDED.id % 3",
        "DELETE FROM pair WHERE home = $1 AND id = $2",
    ];
    let sent = Sent::kept(HALVES, HALVES_LOADED, &statements, 0..12);
    let careless = PlantedBugs { no_guards: true, ..PlantedBugs::default() };
    let failure =
        sent.failure_of(&sent.statements, 0..CAUGHT_WITHIN, careless, |_| true).expect("it is caught");
    assert!(failure.contains("a claimed key is free"), "{failure}");
}

/// Rows with conditions that only the row itself decides.
const SPANS: &str = "
CREATE TABLE span (
    id integer PRIMARY KEY,
    low integer NOT NULL,
    high integer NOT NULL,
    kind text NOT NULL DEFAULT 'open',
    stock integer NOT NULL DEFAULT 5 CHECK (stock >= 0),
    CHECK (low <= high),
    CHECK (high <> 7)
);
CREATE PROCEDURE put(i integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO span VALUES (i, 5, 10); END $$;
";

const SPANS_LOADED: &str = "
[load.span]
for = [\"i in 1..9\"]
id = \"i\"
low = \"i\"
high = \"20\"
kind = \"'open'\"
stock = \"5\"
[mix]
put = 1
[parameters.put]
i = \"uniform(1, 12)\"
";

/// No rule says that these changes of one row keep its conditions together: each locks the rows that it changes (S14).
#[test]
fn conditions_on_a_row_hold_whoever_changes_it() {
    let statements = [
        "UPDATE span SET low = $2 WHERE id >= $1",
        "UPDATE span SET high = $2 WHERE id <= $1",
        "UPDATE span SET high = 30 - high WHERE id <> $1 AND id > $2 - 20",
        "UPDATE span SET low = low * 2 - $2 WHERE id = $1",
        "UPDATE span SET low = high - low, high = greatest(high, $2) WHERE id > $1",
        "UPDATE span SET kind = CASE WHEN low < $1 THEN 'low' WHEN high < $2 THEN NULL ELSE kind END WHERE id > $1",
        "UPDATE span SET high = high + 1 WHERE id > $1 - $2",
        "UPDATE span SET low = low - 1, kind = 'open' WHERE id > $1 - $2",
        "INSERT INTO span VALUES ($1, 1, 8), ($2, 2, 9), ($1 + 1, $1, $2) ON CONFLICT (id) DO UPDATE SET low = EXCLUDED.high - 3",
        "DELETE FROM span WHERE id = $1 AND low > $2",
        "UPDATE span SET stock = 10 - stock WHERE id > $1 - $2",
        // It takes no guard, and passes claims, but no lock.
        "UPDATE span SET stock = stock + 6 WHERE id IN ($1, $2)",
    ];
    let sent = Sent::kept(SPANS, SPANS_LOADED, &statements, world::seeds(0..20));
    let careless = PlantedBugs { locks_by_claims: true, ..PlantedBugs::default() };
    let failure = sent.failure(&sent.statements, 0..CAUGHT_WITHIN, careless).expect("it is caught");
    assert!(failure.contains("span"), "{failure}");
}

/// It takes no lock: among procedures nobody changes the other half of its condition.
const SINK: &str = "
CREATE PROCEDURE sink(i integer, l integer) LANGUAGE plpgsql AS $$
BEGIN UPDATE span SET low = l WHERE id = i OR id = l; END $$;
";

/// The lock of the statement orders it and the procedure; a statement that changes the other half without a lock is refused.
#[test]
fn locks_of_statements_keep_what_procedures_check_without_them() {
    let statements = [
        "UPDATE span SET high = $2 WHERE id = $1 OR id = $2",
        "UPDATE span SET high = greatest(low, 12 - high) WHERE id <= $1 AND id > $2 - 20",
        "UPDATE span SET low = high - low, high = greatest(high, $2) WHERE id > $1",
    ];
    let schema = format!("{SPANS}{SINK}");
    let sent = Sent::kept(&schema, SPANS_LOADED, &statements, world::seeds(0..20));
    let careless = PlantedBugs { locks_by_claims: true, ..PlantedBugs::default() };
    let failure = sent.failure(&sent.statements, 0..CAUGHT_WITHIN, careless).expect("it is caught");
    assert!(failure.contains("span"), "{failure}");
}

/// Every planted bug is caught within so many seeds. Some take many: calls that wait in the order of their age meet seldom between a prepare
/// and its commit.
const CAUGHT_WITHIN: u64 = 1000;

#[test]
fn trusted_statements_break_what_procedures_keep() {
    let world = Sent::to(SCHEMA);
    let trusting = PlantedBugs { trusts_statements: true, ..PlantedBugs::default() };
    // Departments that have been emptied go while people are hired for two.
    let statements = [
        "DELETE FROM department WHERE id = $1 AND $2 > 0",
        "DELETE FROM employee WHERE department = $1 AND id > 0 * $2",
    ];
    let failure = world.failure(&statements.map(text), 0..CAUGHT_WITHIN, trusting).expect("it is caught");
    println!("{failure}");
    assert!(failure.contains("fkey"), "{failure}");
}

#[test]
fn statements_without_guards_break_each_others() {
    let world = Sent::to(&format!("{SCHEMA}{CLOSE}"));
    let careless = PlantedBugs { no_guards: true, ..PlantedBugs::default() };
    let failure = world.failure(&world.statements, 0..CAUGHT_WITHIN, careless).expect("it is caught");
    println!("{failure}");
}
