//! Figures by what runs: how it commits, and the procedure or the kind of statement that it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use weir_observe::{Counter, Histogram, Page};
use weir_types::SqlState;

/// Figures of all statements with the same mechanism and name.
#[derive(Debug)]
pub struct KindFigures {
    mechanism: &'static str,
    name: String,
    /// Durations of successful statements.
    took: Histogram,
    pub rows: Counter,
    /// Failures are few.
    aborts: Mutex<BTreeMap<[u8; 5], u64>>,
}

impl KindFigures {
    pub fn add(&self, took: Duration, outcome: Result<u64, SqlState>) {
        match outcome {
            Ok(rows) => {
                self.took.add(took);
                self.rows.add(rows);
            }
            Err(state) => count(&self.aborts, state),
        }
    }
}

fn count(all: &Mutex<BTreeMap<[u8; 5], u64>>, state: SqlState) {
    *all.lock().unwrap_or_else(PoisonError::into_inner).entry(state.0).or_default() += 1;
}

type ByName = BTreeMap<(&'static str, String), Arc<KindFigures>>;

#[derive(Debug, Default)]
pub struct Kinds {
    all: RwLock<ByName>,
    /// Number of errors sent to clients, by SQLSTATE, including those before execution.
    errors: Mutex<BTreeMap<[u8; 5], u64>>,
}

impl Kinds {
    pub fn of(&self, mechanism: &'static str, name: &str) -> Arc<KindFigures> {
        let key = (mechanism, name.to_owned());
        let known = self.all.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            let new = KindFigures {
                mechanism,
                name: name.to_owned(),
                took: Histogram::default(),
                rows: Counter::default(),
                aborts: Mutex::default(),
            };
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            all.entry(key).or_insert_with(|| Arc::new(new)).clone()
        })
    }

    pub fn count_error(&self, state: SqlState) {
        count(&self.errors, state);
    }

    /// Rows that statements of that name have given or written.
    pub fn rows(&self, name: &str) -> u64 {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.values().filter(|kind| kind.name == name).map(|kind| kind.rows.get()).sum()
    }

    /// Errors with that state.
    pub fn errors(&self, state: SqlState) -> u64 {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.get(&state.0).copied().unwrap_or(0)
    }

    pub fn tell(&self, page: &mut Page) {
        let all: Vec<Arc<KindFigures>> =
            self.all.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for kind in all {
            let labels = [("mechanism", kind.mechanism), ("name", kind.name.as_str())];
            let help =
                "How long statements and calls took that have not failed, as the front end has seen it.";
            page.histogram("weir_statement_seconds", help, &labels, &kind.took.counts());
            let help = "Rows that were given or written.";
            page.counter("weir_statement_rows_total", help, &labels, kind.rows.get() as f64);
            let aborts = kind.aborts.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for (state, count) in aborts {
                let state = SqlState(state);
                let why = [("reason", reason(state)), ("sqlstate", state.as_str())];
                let labels = [&labels[..], &why].concat();
                let help = "Statements and calls that have failed.";
                page.counter("weir_aborts_total", help, &labels, count as f64);
            }
        }
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (state, count) in errors {
            let state = SqlState(state);
            let labels = [("reason", reason(state)), ("sqlstate", state.as_str())];
            let help = "Errors that clients were told, those of texts that could not run included.";
            page.counter("weir_errors_total", help, &labels, count as f64);
        }
    }
}

/// In a word.
fn reason(state: SqlState) -> &'static str {
    match state.as_str() {
        "40P01" => "deadlock",
        // A guard that could not be taken, or a shard that has started again.
        "40001" => "serialization",
        "40W01" => "schema",
        "55P03" => "lock_timeout",
        "57014" => "cancelled",
        "08007" => "unknown",
        "25P03" => "idle",
        "25P02" => "failed_before",
        state => match &state[..2] {
            "23" => "constraint",
            "P0" => "raised",
            "22" => "data",
            "42" => "statement",
            "0A" => "unsupported",
            "53" | "54" => "limit",
            "XX" => "internal",
            _ => "other",
        },
    }
}
