//! A counterexample as text: a valid state, two valid branches, and the merge that breaks an invariant
//! (coordination-avoidance.txt, Definition 7 and Figure 2).
//!
//! Only the record; `weir-search` finds it and replays it. Values stand as PostgreSQL writes them, so that a witness
//! can be kept in a file, read by a person and run again.

use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The name of the invariant that the merge breaks.
    pub invariant: String,
    pub initial: Vec<TableRows>,
    pub left: Vec<WitnessCall>,
    pub right: Vec<WitnessCall>,
    pub later: Side,
    pub merged: Vec<TableRows>,
    /// The row that breaks it, as the check of the invariants shows it; empty where the invariant is one condition.
    pub violates: Vec<Cell>,
    /// Names of the columns of `violates` that matter: keys, and what the invariant reads.
    pub shown: Vec<String>,
}

/// The branch whose operations have the later timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// A column's name and its value; `None` is NULL.
pub type Cell = (String, Option<String>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRows {
    pub table: String,
    pub columns: Vec<String>,
    /// Never empty.
    pub rows: Vec<Vec<Option<String>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessCall {
    pub procedure: String,
    /// The IN and INOUT parameters, in order.
    pub arguments: Vec<Cell>,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Side::Left => "left",
            Side::Right => "right",
        }
    }
}

impl WitnessCall {
    /// `new_order(1, 1, '{1}', NULL)`.
    pub fn text(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(|(_, value)| literal(value)).collect();
        format!("{}({})", self.procedure, arguments.join(", "))
    }

    pub fn to_json(&self) -> Value {
        let arguments: Map<String, Value> =
            self.arguments.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({"call": self.procedure, "arguments": arguments, "text": self.text()})
    }
}

impl TableRows {
    /// The cells of its rows.
    pub fn cells(&self) -> impl Iterator<Item = Vec<Cell>> + '_ {
        self.rows.iter().map(|row| self.columns.iter().cloned().zip(row.iter().cloned()).collect())
    }
}

impl Witness {
    /// The violating row in words: `c_id = 1, c_balance = 2.00`, or what is said of a condition.
    pub fn violation(&self) -> String {
        if self.violates.is_empty() {
            return "the condition is false".to_owned();
        }
        let shown = self.violates.iter().filter(|(name, _)| self.shown.contains(name));
        let cells: Vec<String> = shown.map(|(name, value)| format!("{name} = {}", literal(value))).collect();
        cells.join(", ")
    }

    /// A state row by row, with the columns that matter ([`lines`]).
    pub fn lines(&self, state: &[TableRows]) -> Vec<String> {
        lines(state, &self.shown)
    }

    /// Each step with its title, as a person reads it: the state before, both branches, and what is wrong with the merge.
    pub fn steps(&self) -> Vec<(&'static str, String)> {
        let calls =
            |calls: &[WitnessCall]| calls.iter().map(WitnessCall::text).collect::<Vec<_>>().join(", then ");
        let before = ("before", brief(&self.initial, &self.shown));
        let after = brief(&self.merged, &self.shown);
        let breaks = ("that breaks", format!("{}: {}", self.invariant, self.violation()));
        match self.right.is_empty() {
            true => vec![before, ("call", calls(&self.left)), ("after", after), breaks],
            false => {
                let branches = [("left", calls(&self.left)), ("right", calls(&self.right))];
                [before].into_iter().chain(branches).chain([("merged", after), breaks]).collect()
            }
        }
    }

    /// The steps, a line each.
    fn text(&self) -> String {
        let steps = self.steps();
        steps.iter().map(|(title, words)| format!("{title}: {words}")).collect::<Vec<_>>().join("\n")
    }

    /// As it stands in `weir analyze --format json` (interface.md).
    pub fn to_json(&self) -> Value {
        let calls = |calls: &[WitnessCall]| calls.iter().map(WitnessCall::to_json).collect::<Vec<_>>();
        json!({
            "initial": state(&self.initial),
            "left": calls(&self.left),
            "right": calls(&self.right),
            "later": self.later.name(),
            "merged": state(&self.merged),
            "text": self.text(),
            "violates": {
                "invariant": self.invariant,
                "row": row(&self.violates),
                "shown": self.shown,
                "text": self.violation(),
            },
        })
    }
}

/// A state row by row, with the columns that matter: `customer (c_id 1, c_balance 2.00)`. Of rows that are only
/// there for others to refer to, how many.
pub fn lines(state: &[TableRows], shown: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for table in state {
        if !table.columns.iter().any(|name| shown.contains(name)) {
            let rows = if table.rows.len() == 1 { "row" } else { "rows" };
            lines.push(format!("{} ({} {rows})", table.table, table.rows.len()));
            continue;
        }
        for cells in table.cells() {
            let cells = cells.iter().filter(|(name, _)| shown.contains(name));
            let cells: Vec<String> =
                cells.map(|(name, value)| format!("{name} {}", literal(value))).collect();
            lines.push(format!("{} ({})", table.table, cells.join(", ")));
        }
    }
    lines
}

/// More rows of a state are counted, not told.
const ROWS_MAX: usize = 6;

/// The state on one line.
pub(crate) fn brief(state: &[TableRows], shown: &[String]) -> String {
    let mut lines = lines(state, shown);
    if lines.is_empty() {
        return "no rows".to_owned();
    }
    if lines.len() > ROWS_MAX {
        let more = lines.len() - ROWS_MAX + 1;
        lines.truncate(ROWS_MAX - 1);
        lines.push(format!("and {more} more"));
    }
    lines.join(", ")
}

pub(crate) fn state(tables: &[TableRows]) -> Value {
    let rows = |table: &TableRows| Value::Array(table.cells().map(|cells| row(&cells)).collect());
    Value::Object(tables.iter().map(|table| (table.table.clone(), rows(table))).collect())
}

pub(crate) fn row(cells: &[Cell]) -> Value {
    Value::Object(cells.iter().map(|(name, value)| (name.clone(), json!(value))).collect())
}

/// A number as it is, anything else in quotes.
pub fn literal(value: &Option<String>) -> String {
    let Some(text) = value else { return "NULL".to_owned() };
    let number = !text.is_empty() && text.parse::<f64>().is_ok_and(f64::is_finite);
    let word = matches!(text.as_str(), "true" | "false");
    if number || word { text.clone() } else { format!("'{}'", text.replace('\'', "''")) }
}
