//! Workloads: tables, rows, transactions and what must hold after a run, for every database alike.

mod draws;
mod keys;
mod rubis;
mod settings;
mod smallbank;
mod statements;
mod tpcc;
mod tpcw;
mod ycsb_t;

use std::collections::BTreeMap;

use serde_json::Value as Json;
use weir_cat::chance::Chance;

use crate::connection::{Connection, Refused, Value};
use crate::schema::Change;

pub use keys::{Flavour, Keys};
pub use rubis::Rubis;
pub use settings::{Settings, Wrong};
pub use smallbank::SmallBank;
pub use tpcc::Tpcc;
pub use tpcw::Tpcw;
pub use ycsb_t::YcsbT;

/// The way in which a transaction reaches the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// BEGIN, a statement for each operation, COMMIT.
    Statements,
    /// One call of a procedure, in PostgreSQL's language.
    Calls,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Way::Statements => "statements",
            Way::Calls => "calls",
        }
    }
}

/// A transaction to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Place in the workload's kinds.
    pub kind: usize,
    pub values: Vec<Value>,
    /// An object for each operation.
    pub accesses: Vec<u64>,
    /// Objects whose count of writes grows by one with its commit.
    pub written: Vec<u64>,
    pub is_writer: bool,
    /// When a recorded transaction began, since the recording's begin.
    pub recorded_ns: Option<u64>,
}

impl Planned {
    /// A transaction whose values are numbers.
    fn of_numbers(
        kind: usize,
        (values, accesses): (Vec<u64>, Vec<u64>),
        written: Vec<u64>,
        is_writer: bool,
    ) -> Planned {
        let values = values.into_iter().map(|value| Value::Integer(value as i64)).collect();
        Planned { kind, values, accesses, written, is_writer, recorded_ns: None }
    }
}

/// The transactions of one client.
pub trait Plans: Send {
    /// None: there are no more.
    fn plan(&mut self) -> Option<Planned>;
}

/// Tables and procedures.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Definition {
    /// Name and CREATE TABLE.
    pub tables: Vec<(&'static str, String)>,
    /// CREATE INDEX for what no key finds.
    pub indexes: Vec<String>,
    /// Heads of the procedures, as DROP names them. Only databases with PostgreSQL's language have them.
    pub routines: Vec<String>,
    /// A text that makes all of them.
    pub procedures: String,
}

/// Acknowledged work of a run.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged {
    /// Committed writes of each object.
    pub writes: BTreeMap<u64, u64>,
    /// Sum of the values that the committed transactions have returned.
    pub sum: i64,
}

/// Rows of each query of [`Workload::state`].
pub type State = Vec<Vec<Vec<i64>>>;

/// A workload.
pub trait Workload: Send + Sync {
    fn name(&self) -> &'static str;

    fn settings(&self) -> Vec<(&'static str, Json)>;

    /// Names of the transactions.
    fn kinds(&self) -> &[&'static str];

    /// The procedure that a kind of transaction is, where it is called; None: it is a statement.
    fn procedure(&self, _kind: &str) -> Option<String> {
        None
    }

    /// Its transactions are procedures, too; those of others are statement by statement everywhere.
    fn has_calls(&self) -> bool {
        true
    }

    fn definition(&self) -> Definition;

    /// Statements that fill empty tables.
    fn rows(&self) -> Vec<String>;

    /// Its statements, each with `$1` for the first parameter.
    fn statements(&self, way: Way) -> Vec<String>;

    /// The same seed and number give the same transactions.
    fn plans(&self, seed: u64, number: u64) -> Box<dyn Plans>;

    /// Runs a transaction once; what it returns is added up if it commits.
    ///
    /// # Errors
    /// It was not committed.
    fn attempt(&self, way: Way, connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused>;

    /// Queries of the data, for the check.
    fn state(&self) -> Vec<String>;

    /// Checks the data before and after a run: no acknowledged write is lost, and none is there that was not acknowledged.
    ///
    /// # Errors
    /// It does not; in words.
    fn check(&self, before: &State, after: &State, acknowledged: &Acknowledged) -> Result<(), String>;

    /// It changes more than its own tables say: a started server is begun anew for each run.
    fn wants_a_fresh_server(&self) -> bool {
        false
    }

    /// The same work without common objects, as far as chance allows; None: nobody knows what that would be.
    fn spread(&self) -> Option<Box<dyn Workload>>;
}

/// Workloads whose common rows are not drawn by a law spread over so many times as many of them.
const SPREAD: u64 = 10;

/// Names of the workloads.
pub const NAMES: [&str; 7] = ["cat", "ycsb", "ycsb-t", "smallbank", "tpcc", "tpcw", "rubis"];

/// A workload by its name, with settings that differ from its own.
///
/// # Errors
/// A setting is wrong, or there is no such workload: what, and what would be right.
pub fn of(name: &str, settings: &[(String, String)]) -> Result<Box<dyn Workload>, Wrong> {
    let settings = Settings::new(name, settings);
    match name {
        "cat" => Keys::of(Flavour::Cat, settings).map(|one| Box::new(one) as _),
        "ycsb" => Keys::of(Flavour::Ycsb, settings).map(|one| Box::new(one) as _),
        "ycsb-t" => YcsbT::of(settings).map(|one| Box::new(one) as _),
        "smallbank" => SmallBank::of(settings).map(|one| Box::new(one) as _),
        "tpcc" => Tpcc::of(settings).map(|one| Box::new(one) as _),
        "tpcw" => Tpcw::of(settings).map(|one| Box::new(one) as _),
        "rubis" => Rubis::of(settings).map(|one| Box::new(one) as _),
        _ => Err(Wrong::new(
            format!("`{name}` is no workload"),
            format!("the workloads are: {}", NAMES.join(", ")),
        )),
    }
}

/// Draws a kind of transaction by the shares of all.
fn draw_kind(chance: &mut Chance, mix: &[u64]) -> usize {
    let mut at = chance.below(mix.iter().sum());
    let place = mix.iter().position(|share| {
        let is_here = at < *share;
        at = at.saturating_sub(*share);
        is_here
    });
    place.unwrap_or_default()
}

/// The chance of a client with that number.
fn chance_of(seed: u64, number: u64) -> Chance {
    Chance::from_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number))
}

/// Runs statements between BEGIN and COMMIT.
fn within(
    connection: &mut dyn Connection,
    is_writer: bool,
    body: impl FnOnce(&mut dyn Connection) -> Result<i64, Refused>,
) -> Result<i64, Refused> {
    connection.begin(is_writer)?;
    let returned = body(connection)?;
    connection.commit()?;
    Ok(returned)
}

/// Texts of statements or queries.
fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

/// A table of a definition.
fn table(name: &'static str, columns: &str) -> (&'static str, String) {
    (name, format!("CREATE TABLE {name} ({columns})"))
}

/// INSERTs of many rows, some hundred each.
fn inserts(table: &str, rows: impl Iterator<Item = String>) -> Vec<String> {
    const TOGETHER: usize = 500;
    let rows: Vec<String> = rows.collect();
    rows.chunks(TOGETHER).map(|rows| format!("INSERT INTO {table} VALUES {}", rows.join(", "))).collect()
}

/// New rows: as many as there were acknowledged writes of an object.
fn check_new(
    what: &str,
    (before, after): (usize, usize),
    acknowledged: &Acknowledged,
    object: u64,
) -> Result<(), String> {
    let found = after as i64 - before as i64;
    let expected = acknowledged.writes.get(&object).copied().unwrap_or(0) as i64;
    match found == expected {
        true => Ok(()),
        false => Err(format!("there are {found} new {what}, and {expected} were acknowledged")),
    }
}

/// Writes of each key: the number that a column counts grew by as many as were acknowledged, and the value, where there is a rule, follows.
fn check_counts(
    (before, after): (&[Vec<i64>], &[Vec<i64>]),
    acknowledged: &Acknowledged,
    counted: usize,
) -> Result<(), String> {
    if before.len() != after.len() {
        return Err(format!("there are {} rows of {}", after.len(), before.len()));
    }
    for (before, after) in before.iter().zip(after) {
        let key = before[0];
        let expected = acknowledged.writes.get(&(key as u64)).copied().unwrap_or(0) as i64;
        let found = after[counted] - before[counted];
        if found != expected {
            return Err(format!(
                "key {key} has {found} writes of {expected} that were acknowledged: writes were lost or invented"
            ));
        }
    }
    Ok(())
}

/// As [`check_counts`], of values that follow from the number of writes.
fn check_values(
    (before, after): (&[Vec<i64>], &[Vec<i64>]),
    acknowledged: &Acknowledged,
    change: Change,
) -> Result<(), String> {
    if before.len() != after.len() {
        return Err(format!("there are {} rows of {}", after.len(), before.len()));
    }
    for (before, after) in before.iter().zip(after) {
        let (key, value) = (before[0], after[1]);
        let writes = acknowledged.writes.get(&(key as u64)).copied().unwrap_or(0);
        let expected = change.applied(before[1], writes);
        if value != expected {
            return Err(format!(
                "key {key} is {value} after {writes} acknowledged writes, which make {expected}: writes were lost or invented"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each write once, of key 7.
    fn seven() -> Acknowledged {
        Acknowledged { writes: [(7, 2)].into(), sum: 0 }
    }

    #[test]
    fn a_lost_or_invented_write_is_found() {
        let rows = |value: i64| vec![vec![7, value], vec![8, 0]];
        let check = |change, after| check_values((&rows(1), &rows(after)), &seven(), change);
        assert_eq!(check(Change::Increment, 3), Ok(()));
        assert!(check(Change::Increment, 2).is_err_and(|why| why.contains("key 7 is 2 after 2")));
        assert!(check(Change::Increment, 4).is_err());
        assert_eq!(check(Change::Modify, 13), Ok(()));
        assert!(check(Change::Modify, 4).is_err());
        let counts = |after| check_counts((&rows(1), &rows(after)), &seven(), 1);
        assert_eq!(counts(3), Ok(()));
        assert!(counts(1).is_err_and(|why| why.contains("0 writes of 2")));
        assert!(check_counts((&rows(1), &rows(3)[..1]), &seven(), 1).is_err());
    }

    #[test]
    fn each_workload_is_there_by_its_name() {
        for name in NAMES {
            let workload = of(name, &[]).unwrap_or_else(|wrong| panic!("{wrong}"));
            assert_eq!(workload.name(), name);
            for way in [Way::Statements, Way::Calls] {
                assert!(!workload.statements(way).is_empty());
            }
            let (mut plans, mut again) = (workload.plans(1, 3), workload.plans(1, 3));
            for _ in 0..50 {
                let planned = plans.plan().expect("they do not end");
                assert_eq!(Some(planned.clone()), again.plan());
                assert!(planned.kind < workload.kinds().len() && !planned.accesses.is_empty());
                assert!(planned.is_writer || planned.written.is_empty());
            }
        }
        let wrong = of("tpch", &[]).err().expect("there is none");
        assert!(wrong.to_string().contains("cat, ycsb, ycsb-t, smallbank, tpcc, tpcw, rubis"), "{wrong}");
        let settings = [("zpif".to_owned(), "1".to_owned())];
        let wrong = of("ycsb-t", &settings).err().expect("no setting");
        assert!(wrong.hint.contains("distributed") && wrong.what.contains("zpif"), "{wrong}");
    }
}
