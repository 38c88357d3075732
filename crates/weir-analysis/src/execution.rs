//! Two calls that were run, and what they show: an anomaly that no invariant forbids, or what multi-master
//! replication makes of them.
//!
//! Only the record, like [`crate::witness`]; `weir-search` runs the calls with the engine's own executor. What no
//! execution within its bounds has shown is said to be so, and stays what the rule says of it.

use serde_json::{Value, json};

use crate::witness::{Cell, Side, TableRows, WitnessCall, brief, literal, row, state};

/// Result of running the example of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Executed {
    /// The example has not been run.
    #[default]
    NotTried,
    Shown(Box<Execution>),
    /// Reason why it is not shown: the engine does not run a transaction, or the search within the bounds has failed.
    NotShown(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// A valid state.
    pub initial: Vec<TableRows>,
    pub left: WitnessCall,
    pub right: WitnessCall,
    /// Where both only write: the call that reads, once for each of the two readers.
    pub reader: Option<WitnessCall>,
    /// The side that commits later.
    pub later: Side,
    /// Result of each call alone.
    pub alone: Vec<Outcome>,
    /// Results of the calls in each serial order.
    pub serial: Vec<Outcome>,
    /// Result of the concurrent execution.
    pub together: Vec<Outcome>,
    pub shows: Shows,
    /// Names of the columns to show.
    pub shown: Vec<String>,
}

/// One run, and where it has led.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// `left, then right`; of one call alone, the call.
    pub run: String,
    /// The tables that matter.
    pub state: Vec<TableRows>,
    /// Answer to a reader.
    pub answer: Option<String>,
    /// Error of a call that fails.
    pub error: Option<String>,
}

/// Why it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shows {
    /// The rows are as no order of the two calls leaves them.
    NoOrder,
    /// An invariant that holds on either side does not hold of both.
    Violates { invariant: String, row: Vec<Cell> },
    /// Neither node can apply the other's row under this key.
    Stops { key: String },
    /// A reader gets an answer that no serial order gives.
    Answers,
}

impl Shows {
    fn name(&self) -> &'static str {
        match self {
            Shows::NoOrder => "no_order",
            Shows::Violates { .. } => "violates",
            Shows::Stops { .. } => "stops",
            Shows::Answers => "answers",
        }
    }
}

impl Executed {
    pub fn execution(&self) -> Option<&Execution> {
        match self {
            Executed::Shown(execution) => Some(execution),
            _ => None,
        }
    }

    /// `execution` of the JSON document; null where there is none.
    pub fn to_json(&self) -> Value {
        self.execution().map_or(Value::Null, Execution::to_json)
    }

    /// Reason why nothing was shown, if it was tried.
    pub fn why_not(&self) -> Option<&str> {
        match self {
            Executed::NotShown(why) => Some(why),
            _ => None,
        }
    }
}

impl Execution {
    /// Each step with its title, as a person reads it.
    pub fn steps(&self) -> Vec<(&'static str, String)> {
        let mut steps = vec![("before", brief(&self.initial, &self.shown))];
        let told = |title: &'static str, outcomes: &[Outcome]| {
            outcomes.iter().map(|outcome| (title, self.outcome(outcome))).collect::<Vec<_>>()
        };
        for (at, (title, call)) in [("left", &self.left), ("right", &self.right)].into_iter().enumerate() {
            let alone = self.alone.get(at);
            steps.push((title, alone.map_or_else(|| call.text(), |outcome| self.outcome(outcome))));
        }
        steps.extend(self.reader.iter().map(|reader| ("reader", reader.text())));
        steps.extend(told("together", &self.together));
        // A stopped replication has been described already.
        if !matches!(self.shows, Shows::Stops { .. }) {
            steps.push(("that is", self.verdict()));
        }
        steps.extend(told("in order", &self.serial));
        steps
    }

    fn outcome(&self, outcome: &Outcome) -> String {
        let mut parts = Vec::new();
        parts.extend(outcome.error.clone());
        parts.extend(outcome.answer.clone());
        if outcome.error.is_none() && outcome.answer.is_none() || !outcome.state.is_empty() {
            parts.push(brief(&outcome.state, &self.shown));
        }
        format!("{} → {}", outcome.run, parts.join("; "))
    }

    /// Description of the violation.
    pub fn verdict(&self) -> String {
        match &self.shows {
            Shows::NoOrder => "what no order of the two leads to".to_owned(),
            Shows::Answers => "what no order of the calls tells".to_owned(),
            Shows::Stops { key } => {
                format!(
                    "two rows of one key under {key}: neither node can apply the other's, the replication stops"
                )
            }
            Shows::Violates { invariant, row } => {
                let shown = row.iter().filter(|(name, _)| self.shown.contains(name));
                let cells: Vec<String> =
                    shown.map(|(name, value)| format!("{name} = {}", literal(value))).collect();
                match cells.is_empty() {
                    true => format!("{invariant} does not hold"),
                    false => format!("{invariant} does not hold: {}", cells.join(", ")),
                }
            }
        }
    }

    pub fn to_json(&self) -> Value {
        let outcomes = |outcomes: &[Outcome]| -> Vec<Value> {
            let one = |outcome: &Outcome| {
                json!({
                    "run": outcome.run,
                    "state": state(&outcome.state),
                    "answer": outcome.answer,
                    "error": outcome.error,
                    "text": self.outcome(outcome),
                })
            };
            outcomes.iter().map(one).collect()
        };
        let (invariant, violating) = match &self.shows {
            Shows::Violates { invariant, row: cells } => (Some(invariant), Some(row(cells))),
            _ => (None, None),
        };
        let key = match &self.shows {
            Shows::Stops { key } => Some(key),
            _ => None,
        };
        json!({
            "initial": state(&self.initial),
            "left": [self.left.to_json()],
            "right": [self.right.to_json()],
            "reader": self.reader.as_ref().map(WitnessCall::to_json),
            "later": self.later.name(),
            "alone": outcomes(&self.alone),
            "serial": outcomes(&self.serial),
            "together": outcomes(&self.together),
            "shows": self.shows.name(),
            "invariant": invariant,
            "row": violating,
            "key": key,
            "shown": self.shown,
            "text": self.verdict(),
        })
    }
}
