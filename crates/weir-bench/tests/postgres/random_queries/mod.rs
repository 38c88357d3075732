//! Random queries, beside PostgreSQL 15 and on one shard and three: rows, names and types of columns, counts, SQLSTATEs.
//!
//! A seed gives the rows of the tables ([`tables`]) and fifty scripts over them: a query ([`queries`], [`relations`], [`expressions`], [`windows`]), or a
//! transaction of writes and queries ([`writes`]) that is rolled back. A difference is told with its seed, and shrunk ([`shrink`]).
//!
//! `WEIR_RANDOM_QUERIES=100000` compares so many statements; `WEIR_SEEDS=17..18` takes the scripts of those seeds.

mod choices;
mod compare;
mod expressions;
mod queries;
mod relations;
mod shrink;
mod tables;
mod templates;
mod windows;
mod writes;

use std::collections::BTreeMap;
use std::ops::Range;

use self::choices::Choices;
use self::compare::{Verdict, verdict};
use self::expressions::Generator;
use self::queries::Order;
use super::corpus::OnPostgres;
use crate::on_shards::{Answer, OnShards};

/// Number of scripts over the rows of one seed.
const SCRIPTS: u64 = 50;

/// Seeds without `WEIR_RANDOM_QUERIES` and `WEIR_SEEDS`.
const SEEDS: Range<u64> = 0..8;

/// A test ends after so many differences.
const DIFFERENCES_MAX: usize = 20;

/// PostgreSQL ends a query that takes longer, and nobody compares it.
const LIMIT: &str = "SET statement_timeout = '20s'";
const NO_LIMIT: &str = "SET statement_timeout = 0";

/// Number of messages that the report lists, each with a statement.
const TOLD_MAX: usize = 15;

/// A statement, and the order in which the rows of its answer are compared.
pub struct Step {
    pub sql: String,
    pub order: Order,
    pub is_write: bool,
}

/// A query by itself, or a transaction that is rolled back.
pub struct Script {
    pub steps: Vec<Step>,
    pub is_transaction: bool,
}

impl Script {
    fn of(choices: &mut Choices, sizes: [usize; 4]) -> Script {
        let (with, combinations) = (Vec::new(), 1);
        let mut generator = Generator { choices, sizes, with, named: 0, nesting: 0, combinations };
        if generator.choices.below(10) < 8 {
            return Script { steps: vec![generator.query_step()], is_transaction: false };
        }
        let mut steps = Vec::new();
        for _ in 0..=generator.choices.below(3) {
            if steps.is_empty() || generator.choices.below(3) > 0 {
                steps.extend(generator.write_steps());
            } else {
                steps.push(generator.query_step());
            }
        }
        Script { steps, is_transaction: true }
    }
}

impl Generator<'_> {
    fn query_step(&mut self) -> Step {
        (self.with, self.combinations) = (Vec::new(), 1);
        let query = self.statement();
        Step { sql: query.sql, order: query.order, is_write: false }
    }

    /// A write, and all rows of its table.
    fn write_steps(&mut self) -> [Step; 2] {
        (self.with, self.combinations) = (Vec::new(), 25);
        let write = self.write();
        let look = format!("SELECT * FROM {}", write.table);
        [
            Step { sql: write.sql, order: Order::Any, is_write: true },
            Step { sql: look, order: Order::Any, is_write: false },
        ]
    }
}

/// The same rows on PostgreSQL and on Weir.
struct Both<'p> {
    postgres: &'p mut OnPostgres,
    /// On one shard and on three.
    weir: Vec<(u16, OnShards)>,
    sizes: [usize; 4],
}

/// A difference.
struct Difference {
    step: usize,
    shards: u16,
    expected: Answer,
    found: Answer,
}

/// A number of shards, and the verdict on each step with the difference that it tells of.
type Judged = (u16, Vec<(Verdict, Option<Difference>)>);

impl<'p> Both<'p> {
    fn with_rows(seed: u64, pauses: bool, postgres: &'p mut OnPostgres) -> Both<'p> {
        let (rows, sizes) = tables::rows(seed);
        let load = format!("{NO_LIMIT}; TRUNCATE item, part, event, rate; {rows}; {LIMIT}");
        postgres.client.batch_execute(&load).unwrap_or_else(|error| panic!("seed {seed}: {error:?}: {rows}"));
        let weir = [1, 3].map(|shards| {
            let mut weir = OnShards::start(tables::SCHEMA, shards, &mut postgres.client);
            if pauses {
                weir.pause_at_rows();
            }
            (shards, weir)
        });
        Both { postgres, weir: weir.into(), sizes }
    }

    /// Answers of PostgreSQL to the steps, up to the first error.
    fn ask_postgres(&mut self, script: &Script) -> Vec<Answer> {
        if script.is_transaction {
            self.postgres.client.batch_execute("BEGIN").expect("a transaction begins");
        }
        let mut answers = Vec::new();
        for step in &script.steps {
            answers.push(self.postgres.run(&step.sql));
            if matches!(answers.last(), Some(Answer::Error(..))) {
                break;
            }
        }
        if script.is_transaction {
            self.postgres.client.batch_execute("ROLLBACK").expect("it ends");
        }
        answers
    }

    /// Verdicts on the steps on each number of shards, up to the first that is not alike.
    fn run(&mut self, script: &Script) -> Vec<Judged> {
        let expected = self.ask_postgres(script);
        let mut all = Vec::new();
        for (shards, weir) in &mut self.weir {
            all.push((*shards, judge(script, &expected, *shards, weir)));
        }
        all
    }

    fn difference(&mut self, script: &Script) -> Option<Difference> {
        let verdicts = self.run(script).into_iter().flat_map(|(_, verdicts)| verdicts);
        verdicts.filter_map(|(_, difference)| difference).next()
    }
}

fn judge(
    script: &Script,
    expected: &[Answer],
    shards: u16,
    weir: &mut OnShards,
) -> Vec<(Verdict, Option<Difference>)> {
    let mut verdicts = Vec::new();
    if script.is_transaction {
        weir.begin();
    }
    for (at, (step, expected)) in script.steps.iter().zip(expected).enumerate() {
        let (found, _) = weir.run(&step.sql);
        let verdict = verdict(step, expected, &found);
        let goes_on = matches!(verdict, Verdict::Alike) && matches!(found, Answer::Rows { .. });
        let difference = matches!(verdict, Verdict::Different).then(|| Difference {
            step: at,
            shards,
            expected: expected.clone(),
            found,
        });
        verdicts.push((verdict, difference));
        if !goes_on {
            break;
        }
    }
    if script.is_transaction {
        weir.roll_back().expect("a transaction is rolled back");
    }
    verdicts
}

/// Counts of the verdicts on all statements.
#[derive(Default)]
struct Tally {
    /// Statements that were compared on both numbers of shards.
    compared: u64,
    /// Of those, that both have refused with the same SQLSTATE.
    failed: BTreeMap<String, u64>,
    /// Messages of those that Weir does not support, each with a statement.
    refused: BTreeMap<String, (u64, String)>,
    /// Reasons to pass over a difference, each with a statement.
    tolerated: BTreeMap<String, (u64, String)>,
}

impl Tally {
    fn add(&mut self, verdicts: &[Judged], script: &Script) {
        let count = |of: &mut BTreeMap<String, (u64, String)>, name: String, sql: &str| {
            let (count, _) = of.entry(name).or_insert_with(|| (0, sql.to_owned()));
            *count += 1;
        };
        let mut compared = script.steps.len();
        for (shards, steps) in verdicts {
            let mut alike = steps.len();
            for ((verdict, _), Step { sql, .. }) in steps.iter().zip(&script.steps) {
                match verdict {
                    Verdict::BothFail(state) if *shards == 1 => {
                        *self.failed.entry(state.clone()).or_default() += 1;
                    }
                    Verdict::Refused(why) => {
                        alike -= 1;
                        count(&mut self.refused, format!("{why} ({shards} shards)"), sql);
                    }
                    Verdict::Tolerated(why) => {
                        alike -= 1;
                        count(&mut self.tolerated, (*why).to_owned(), sql);
                    }
                    _ => {}
                }
            }
            compared = compared.min(alike);
        }
        self.compared += compared as u64;
    }

    fn say(&self) {
        let sum = |of: &BTreeMap<String, (u64, String)>| of.values().map(|(count, _)| count).sum::<u64>();
        println!(
            "{} queries compared, {} of them with the same error; {} refused by name, {} passed over",
            self.compared,
            self.failed.values().sum::<u64>(),
            sum(&self.refused),
            sum(&self.tolerated)
        );
        println!("  errors: {:?}", self.failed);
        for (what, of) in [("passed over", &self.tolerated), ("refused", &self.refused)] {
            let mut most: Vec<_> = of.iter().collect();
            most.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
            for (name, (count, sql)) in most.iter().take(TOLD_MAX) {
                println!("  {what}: {count} {name}: {sql}");
            }
        }
    }
}

/// How many statements, and by which seeds.
fn effort() -> (u64, Range<u64>) {
    let many = std::env::var("WEIR_RANDOM_QUERIES").ok();
    let many = many.map(|many| many.parse().expect("WEIR_RANDOM_QUERIES is a number"));
    let seeds = crate::world::seeds(if many.is_some() { 0..u64::MAX } else { SEEDS });
    (many.unwrap_or(u64::MAX), seeds)
}

fn check_all(pauses: bool) {
    let (many, seeds) = effort();
    let mut postgres = OnPostgres::with_cases(tables::SCHEMA);
    let settings = "SET jit = off; SET max_parallel_workers_per_gather = 0";
    postgres.client.batch_execute(settings).expect("it takes settings");
    let (mut tally, mut told) = (Tally::default(), Vec::new());
    let mut paused = 0;
    for seed in seeds {
        if tally.compared >= many || told.len() >= DIFFERENCES_MAX {
            break;
        }
        let mut both = Both::with_rows(seed, pauses, &mut postgres);
        for at in 0..SCRIPTS {
            let mut choices = Choices::from_seed(seed * SCRIPTS + at);
            let script = Script::of(&mut choices, both.sizes);
            let verdicts = both.run(&script);
            tally.add(&verdicts, &script);
            if verdicts.iter().flat_map(|(_, steps)| steps).any(|(_, difference)| difference.is_some()) {
                told.push(format!("seed {seed}, script {at}: {}", shrink::report(&mut both, choices)));
                println!("{}", told.last().expect("it was pushed"));
            }
        }
        paused += both.weir.iter().map(|(_, weir)| weir.paused()).sum::<u64>();
    }
    tally.say();
    assert!(!pauses || paused > 0, "no statement has paused at a row");
    assert!(told.is_empty(), "{} differ:\n{}", told.len(), told.join("\n"));
}

#[test]
fn random_queries_are_answered_as_by_postgresql() {
    check_all(false);
}

#[test]
fn random_queries_that_pause_at_rows_are_answered_as_by_postgresql() {
    check_all(true);
}

/// Features that the generator has to make often, since only then they are compared.
#[test]
fn queries_have_windows_and_with_queries_that_are_read_twice() {
    let (mut windows, mut ranges, mut twice) = (0, 0, 0);
    for seed in SEEDS {
        let (_, sizes) = tables::rows(seed);
        for at in 0..SCRIPTS {
            let script = Script::of(&mut Choices::from_seed(seed * SCRIPTS + at), sizes);
            for Step { sql, .. } in script.steps {
                windows += usize::from(sql.contains(" OVER ("));
                ranges += usize::from(sql.contains(" RANGE BETWEEN "));
                let is_read_twice = |name: String| sql.matches(&format!(" {name} AS t")).count() > 1;
                twice += usize::from((1..100).map(|number| format!("w{number}")).any(is_read_twice));
            }
        }
    }
    assert!(windows > 40 && ranges > 10 && twice > 10, "{windows}, {ranges}, {twice}");
}
