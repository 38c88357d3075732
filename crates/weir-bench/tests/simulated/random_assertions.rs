//! Random assertions and random changes: whether a transaction is refused by its checks, which look at what its changes concern, is whether
//! the whole assertion is false behind it. A twin without the assertion does the same, and asks the whole of it before each COMMIT.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_sim::Simulation;
use weir_sql::{Application, Sources};
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::Callee;
use weir_txn::ramp::client::Order;
use weir_txn::ramp::{Begin, Event, FetchedRead};
use weir_types::SqlError;

use crate::world;

const TABLES: &str = "
CREATE TABLE a (id integer PRIMARY KEY, k integer, v integer NOT NULL);
CREATE TABLE b (id integer PRIMARY KEY, k integer, v integer NOT NULL, a integer);
CREATE TABLE c (a integer, no integer, k integer, v integer, PRIMARY KEY (a, no));
COMMENT ON TABLE a IS 'weir: partition by (id)';
COMMENT ON TABLE b IS 'weir: partition by (id)';
COMMENT ON TABLE c IS 'weir: partition by (a)';
";

/// Name and integer columns of each table.
const COLUMNS: [(&str, &[&str]); 3] =
    [("a", &["id", "k", "v"]), ("b", &["id", "k", "v", "a"]), ("c", &["a", "no", "k", "v"])];

/// Transactions of one run.
const TRANSACTIONS: usize = 40;

struct Chance {
    random: Xoshiro256PlusPlus,
    /// Number of aliases that have been given.
    aliases: usize,
}

/// A row that a condition may refer to: its alias, and the number of its table.
type Scope = Vec<(String, usize)>;

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        (self.random.next_u64() % most as u64) as usize
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }

    fn table(&mut self) -> usize {
        self.below(COLUMNS.len())
    }

    fn column_of(&mut self, row: &(String, usize)) -> String {
        format!("{}.{}", row.0, self.one(COLUMNS[row.1].1))
    }

    /// A column of one of the rows, the innermost more often.
    fn column(&mut self, scope: &Scope) -> String {
        let at = if self.below(3) == 0 { self.below(scope.len()) } else { scope.len() - 1 };
        self.column_of(&scope[at])
    }

    fn comparison(&mut self) -> &'static str {
        self.one(&["=", "<>", "<", ">", "<=", ">="])
    }

    fn number(&mut self) -> usize {
        self.below(6)
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("t{}", self.aliases)
    }

    /// FROM and WHERE of a query over one table or two, with the innermost scope of its conditions.
    fn source(&mut self, scope: &Scope, depth: usize) -> (String, Scope) {
        let mut inner = scope.clone();
        let first = (self.alias(), self.table());
        let mut text = format!("FROM {} {}", COLUMNS[first.1].0, first.0);
        inner.push(first.clone());
        if self.below(4) == 0 {
            let second = (self.alias(), self.table());
            let on = format!("{} = {}", self.column_of(&second), self.column_of(&first));
            text = format!("{text} JOIN {} {} ON {on}", COLUMNS[second.1].0, second.0);
            inner.push(second);
        }
        let mut conditions = Vec::new();
        if !scope.is_empty() && self.below(5) > 0 {
            let outer = self.below(scope.len());
            conditions.push(format!("{} = {}", self.column_of(&first), self.column_of(&scope[outer])));
        }
        if conditions.is_empty() || self.below(2) == 0 {
            conditions.push(self.condition(&inner, depth));
        }
        (format!("{text} WHERE {}", conditions.join(" AND ")), inner)
    }

    fn condition(&mut self, scope: &Scope, depth: usize) -> String {
        let simple = |chance: &mut Chance| match chance.below(4) {
            0 => format!("{} {} {}", chance.column(scope), chance.comparison(), chance.column(scope)),
            1 => format!("{} IS {}NULL", chance.column(scope), chance.one(&["", "NOT "])),
            _ => format!("{} {} {}", chance.column(scope), chance.comparison(), chance.number()),
        };
        if depth == 0 {
            return simple(self);
        }
        match self.below(9) {
            0 | 1 => simple(self),
            2 => format!("({} AND {})", self.condition(scope, depth - 1), self.condition(scope, depth - 1)),
            3 => format!("({} OR {})", self.condition(scope, depth - 1), self.condition(scope, depth - 1)),
            4 => format!("NOT ({})", self.condition(scope, depth - 1)),
            5 | 6 => {
                let not = self.one(&["", "NOT "]);
                format!("{not}EXISTS (SELECT 1 {})", self.source(scope, depth - 1).0)
            }
            7 => {
                let (column, comparison) = (self.column(scope), self.comparison());
                format!("{column} {comparison} {}", self.aggregate(scope, depth - 1))
            }
            _ => {
                let (column, not) = (self.column(scope), self.one(&["", "NOT "]));
                let (source, inner) = self.source(scope, depth - 1);
                let other = self.column_of(&inner[scope.len()]);
                format!("{column} {not}IN (SELECT {other} {source})")
            }
        }
    }

    fn aggregate(&mut self, scope: &Scope, depth: usize) -> String {
        let (source, inner) = self.source(scope, depth);
        let of = self.column_of(&inner[scope.len()]);
        let value = match self.below(5) {
            0 => "count(*)".to_owned(),
            1 => format!("coalesce(sum({of}), 0)"),
            2 => format!("max({of})"),
            3 => format!("min({of})"),
            _ => format!("count(DISTINCT {of})"),
        };
        format!("(SELECT {value} {source})")
    }

    fn assertion(&mut self) -> String {
        match self.below(8) {
            0 => format!("{} <= {}", self.aggregate(&Vec::new(), 1), 1 + self.number()),
            1 => {
                let (source, inner) = self.source(&Vec::new(), 1);
                let by = self.column_of(&inner[0]);
                let most = 1 + self.below(2);
                format!("NOT EXISTS (SELECT {by} {source} GROUP BY {by} HAVING count(*) > {most})")
            }
            _ => format!("NOT EXISTS (SELECT 1 {})", self.source(&Vec::new(), 2).0),
        }
    }

    /// A statement that writes.
    fn change(&mut self) -> String {
        let (table, columns) = COLUMNS[self.table()];
        let (id, other) = (self.number(), self.number());
        let values = |chance: &mut Chance| {
            let value = |chance: &mut Chance, column: &&str| match (*column, chance.below(6)) {
                ("k", 0) => "NULL".to_owned(),
                _ => chance.number().to_string(),
            };
            columns.iter().map(|column| value(chance, column)).collect::<Vec<_>>().join(", ")
        };
        let key = columns[0];
        let set = columns
            [1 + usize::from(table == "c") + self.below(columns.len() - 1 - usize::from(table == "c"))];
        match self.below(9) {
            0..=3 => {
                let row = values(self);
                format!("INSERT INTO {table} VALUES ({row}) ON CONFLICT DO NOTHING")
            }
            4 | 5 => format!("UPDATE {table} SET {set} = {other} WHERE {key} = {id}"),
            6 => format!("UPDATE {table} SET v = v + 1 WHERE v < {other}"),
            7 => format!("DELETE FROM {table} WHERE v = {other}"),
            _ => format!("DELETE FROM {table} WHERE {key} = {id}"),
        }
    }
}

struct Database {
    application: Application,
    program: Arc<Program>,
    simulation: Simulation<PlantedBugs>,
    transactions: u64,
}

impl Database {
    fn open(schema: &str, shards: u16, bugs: PlantedBugs) -> Option<Database> {
        let mut sources = Sources::default();
        sources.add("schema.sql", schema);
        let application = weir_sql::load(sources).ok()?;
        let plan = weir_analysis::analyze(&application).plan;
        let program = Program::compile(&application, &plan, shards).expect("the tables compile");
        let program = Arc::new(program.with_texts(&application, &plan));
        let simulation = Simulation::new(&program, 1, 1, 1, bugs);
        Some(Database { application, program, simulation, transactions: 1 })
    }

    fn ask(&mut self, order: Order) -> Result<(), SqlError> {
        match self.simulation.ask(Begin::Within(self.transactions, order)) {
            Event::Answered(result) => result.map(drop),
            other => panic!("an answer to something else: {other:?}"),
        }
    }

    /// Runs the statement in the transaction.
    fn run(&mut self, sql: &str) -> Result<(), SqlError> {
        self.ask(Order::Call(world::call(Callee::Text(world::text(sql, 0)), &[])))
    }

    fn end(&mut self, order: Order) -> Result<(), SqlError> {
        let ended = self.ask(order);
        self.transactions += 1;
        ended
    }

    /// Whether the transaction sees that the condition is false.
    fn is_false(&mut self, condition: &str) -> bool {
        let sql = format!("SELECT 1 AS violated WHERE NOT ({condition})");
        let gather = world::query(&self.application, &self.program, &sql);
        let read = Begin::Within(self.transactions, Order::Read(gather, Vec::new()));
        match self.simulation.ask(read) {
            Event::ReadDone { result, .. } => !result
                .and_then(FetchedRead::rows)
                .unwrap_or_else(|wrong| panic!("{sql}: {wrong}"))
                .is_empty(),
            other => panic!("an answer to something else: {other:?}"),
        }
    }

    /// Number of checks of the statement.
    fn checks(&self, sql: &str) -> usize {
        let compiled = self.program.text(&world::text(sql, 0));
        let locking = compiled.ok().and_then(|text| text.procedure.admission.locking().cloned());
        locking.map_or(0, |locking| locking.checks.len())
    }
}

#[derive(Debug, Default)]
struct Counts {
    committed: usize,
    violated: usize,
    /// Transactions whose statements are all shown to keep the assertion.
    unchecked: usize,
    refused: usize,
}

/// Runs one assertion. Says in which the checks and the whole assertion differ.
fn run(seed: u64, bugs: PlantedBugs, counts: &mut Counts) -> Option<String> {
    let mut chance = Chance { random: Xoshiro256PlusPlus::seed_from_u64(seed), aliases: 0 };
    let shards = [1, 3][chance.below(2)];
    let condition = chance.assertion();
    let schema = format!("{TABLES}CREATE ASSERTION it CHECK ({condition});");
    // Some that are made by chance are refused, as any that Weir does not understand.
    let mut checked = Database::open(&schema, shards, bugs)?;
    let mut twin = Database::open(TABLES, shards, PlantedBugs::default()).expect("the tables");
    let mut log = vec![format!("{shards} shards: {condition}")];
    for _ in 0..TRANSACTIONS {
        let (mut failed, mut checks) = (false, 0);
        for _ in 0..1 + chance.below(3) {
            let sql = chance.change();
            checks += checked.checks(&sql);
            let answers = (twin.run(&sql), checked.run(&sql));
            log.push(format!("{sql}: {answers:?}"));
            match answers {
                (Ok(()), Ok(())) => {}
                (Err(one), Err(other)) if one.state() == other.state() => failed = true,
                _ => return Some(log.join("\n")),
            }
            if failed {
                break;
            }
        }
        if failed || chance.below(8) == 0 {
            counts.refused += usize::from(failed);
            log.push("ROLLBACK".to_owned());
            drop((twin.end(Order::RollBack), checked.end(Order::RollBack)));
            continue;
        }
        let is_violated = twin.is_false(&condition);
        let ended = checked.end(Order::Commit);
        log.push(format!("COMMIT, violated: {is_violated}: {ended:?}"));
        let agrees = match &ended {
            Ok(()) => !is_violated,
            Err(error) => is_violated && error.state().as_str() == "23514",
        };
        if !agrees {
            return Some(log.join("\n"));
        }
        let end = if is_violated { Order::RollBack } else { Order::Commit };
        twin.end(end).unwrap_or_else(|wrong| panic!("{wrong}"));
        counts.violated += usize::from(is_violated);
        counts.committed += usize::from(!is_violated);
        counts.unchecked += usize::from(checks == 0);
    }
    None
}

#[test]
fn checks_of_changes_say_what_the_whole_assertion_says() {
    let mut counts = Counts::default();
    for seed in world::seeds(0..60) {
        let wrong = run(seed, PlantedBugs::default(), &mut counts);
        assert!(wrong.is_none(), "seed {seed}: {}", wrong.unwrap_or_default());
    }
    println!("{counts:?}");
    let is_enough = counts.committed > 500 && counts.violated > 100 && counts.unchecked > 50;
    world::check_reached(is_enough, &counts);
}

#[test]
fn checks_of_new_values_alone_are_caught() {
    let bugs = PlantedBugs { checks_new_values_alone: true, ..PlantedBugs::default() };
    world::check_caught("checks_new_values_alone", 60, |seed| run(seed, bugs, &mut Counts::default()));
}
