//! Operation Partitioning (operation-partitioning.txt §3): by which parameters to route each transaction's calls,
//! so that as few conflicts as possible remain between servers, and what class that gives each transaction.
//!
//! Static: statements only, never data; docs/partitioning.md has the definitions and what goes beyond the paper.
//! Read and write sets ([`sets`]) meet in conflicts ([`conflict`], [`satisfiable`]); the array of partitioning
//! parameters of least cost is searched for ([`search`]); classes follow from what remains ([`classes`]).

mod atoms;
mod classes;
mod columns;
pub mod conflict;
mod form;
mod order;
mod reason;
mod satisfiable;
pub mod search;
pub mod sets;

use std::collections::BTreeMap;

use weir_sql::Application;
use weir_sql::catalog::{ColumnIndex, TableId};

use crate::effects::ProcedureEffects;
use crate::plan::Class;

pub use conflict::{Clause, Conflict};
pub use reason::{reason, reason_rows, where_clause};
pub use search::Method;
pub use sets::{Definition, Entry, Sets};

/// Steps of a search; a few seconds at most.
const STEPS_MAX: u64 = 100_000_000;

/// A key by which calls can be routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Ids that its server generates, so that the call is routed to where it runs (§6).
    Own,
    /// The value of a parameter, by index.
    Parameter(usize),
}

/// A set of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Keys(u64);

impl Keys {
    /// Keys of every call: its own generated ids, and these parameters' values.
    pub fn new(parameters: impl IntoIterator<Item = usize>) -> Keys {
        Keys(parameters.into_iter().fold(1, |bits, index| bits | Keys::bit(Key::Parameter(index))))
    }

    pub fn contains(self, key: Key) -> bool {
        self.0 & Keys::bit(key) != 0
    }

    /// Parameters beyond the sixty-third do not route.
    fn bit(key: Key) -> u64 {
        match key {
            Key::Own => 1,
            Key::Parameter(index) => 1u64.checked_shl(index as u32 + 1).unwrap_or(0),
        }
    }
}

/// Frequency of each transaction, relative to the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    /// By procedure name; 1 where it is missing.
    pub by_name: BTreeMap<String, f64>,
}

impl Weights {
    /// In thousandths; never zero, so that nothing is free.
    fn of(&self, name: &str) -> u64 {
        let weight = self.by_name.get(name).copied().unwrap_or(1.0);
        (weight * 1000.0).round().clamp(1.0, 1e9) as u64
    }
}

/// The outcome for one application.
#[derive(Clone, Debug)]
pub struct Partitioning {
    /// By procedure index.
    pub transactions: Vec<Routing>,
    /// By procedure index: how often it is called, relative to the others.
    pub weights: Vec<f64>,
    pub conflicts: Vec<Conflict>,
    pub sets: Sets,
    /// Algorithm 1's cost of the array, in units of weight.
    pub cost: f64,
    /// No array costs less than this.
    pub bound: f64,
    pub method: Method,
    /// By table: the column that most calls find its rows by, with a value that routes the call.
    pub columns: Vec<Option<ColumnIndex>>,
}

/// The routing of the calls of one transaction, and its consequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    pub class: Class,
    /// The partitioning parameter, by index. `None`: any server will do.
    pub home: Option<usize>,
    /// Local/global: further parameters; where all route to one server the call is local, else it is global
    /// and runs at the server of `home`.
    pub others: Vec<usize>,
    /// Why it is global, or is where its parameters disagree.
    pub because: Option<Because>,
}

/// A clause that is not local: what a call elsewhere depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Because {
    /// Index into [`Partitioning::conflicts`], and into its clauses.
    pub conflict: usize,
    pub clause: usize,
    /// The left transaction of the conflict is the one explained.
    pub left: bool,
}

impl Routing {
    /// All partitioning parameters, `home` first.
    pub fn parameters(&self) -> Vec<usize> {
        self.home.iter().chain(&self.others).copied().collect()
    }

    /// Keys that route the call whether its parameters agree or not.
    pub fn home_keys(&self) -> Keys {
        Keys::new(self.home)
    }
}

impl Partitioning {
    /// Bound of the distance of the cost from the least one; 0 if it is the least.
    pub fn gap(&self) -> f64 {
        if self.cost > 0.0 { (self.cost - self.bound) / self.cost } else { 0.0 }
    }

    /// The partition columns that the array gives a table.
    pub fn column(&self, table: TableId) -> Option<ColumnIndex> {
        self.columns.get(table.0 as usize).copied().flatten()
    }

    /// The columns of an access's rows that are equal to a key of its call, whichever alternative of its condition holds.
    pub fn routed_columns(
        &self,
        app: &Application,
        effects: &ProcedureEffects,
        procedure: usize,
        entry: &Entry,
    ) -> Vec<(ColumnIndex, Key)> {
        satisfiable::routed_columns(app, &self.sets, procedure, effects, entry)
    }

    /// No call at another server can take part in the conflict, whatever the modes of both.
    pub fn is_local(&self, conflict: &Conflict) -> bool {
        let keys = |procedure: usize| self.transactions[procedure].home_keys();
        conflict.is_local(keys(conflict.left), keys(conflict.right))
    }
}

/// Partitions the operations of an application.
pub fn partition(app: &Application, effects: &[ProcedureEffects], weights: &Weights) -> Partitioning {
    partition_as(app, effects, weights, Definition::Complete)
}

/// Partitions with the sets as the paper defines them, which miss conflicts: for comparison only.
pub fn partition_as(
    app: &Application,
    effects: &[ProcedureEffects],
    weights: &Weights,
    definition: Definition,
) -> Partitioning {
    let sets = Sets::new(&app.catalog, effects, definition);
    let conflicts = conflict::conflicts(app, effects, &sets);
    let weights: Vec<u64> = app.procedures.iter().map(|procedure| weights.of(&procedure.name)).collect();
    let declared = columns::declared(app, effects, &sets);
    let array = classes::array(&conflicts, &weights, &declared);
    let columns = columns::columns(app, effects, &sets, &array.transactions, &weights);
    Partitioning {
        transactions: array.transactions,
        weights: weights.into_iter().map(|weight| weight as f64 / 1000.0).collect(),
        conflicts,
        sets,
        cost: array.cost as f64 / 1000.0,
        bound: array.bound as f64 / 1000.0,
        method: array.method,
        columns,
    }
}
