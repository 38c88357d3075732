//! Figures of each statement, those that differ in their constants alone as one: what pg_stat_statements tells.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use weir_observe::Counter;
use weir_sql::normal::{fingerprint, normalised};

use super::kinds::KindFigures;
use crate::statement::{Done, Failure};

/// Largest number of statements kept; those with the fewest calls are evicted.
const KEPT: usize = 5_000;

/// A statement of one schema version.
#[derive(Debug)]
pub struct StatementFigures {
    pub calls: Arc<Calls>,
    kind: Arc<KindFigures>,
    schema_version: u64,
}

#[derive(Debug)]
pub struct Calls {
    /// Query identifier.
    pub number: u64,
    /// Text with parameters in place of constants.
    pub text: String,
    pub count: Counter,
    pub rows: Counter,
    total_ns: AtomicU64,
    min_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Calls {
    fn new(number: u64, text: &str) -> Calls {
        Calls {
            number,
            text: normalised(text),
            count: Counter::default(),
            rows: Counter::default(),
            total_ns: AtomicU64::new(0),
            min_ns: AtomicU64::new(u64::MAX),
            max_ns: AtomicU64::new(0),
        }
    }

    /// In milliseconds: all together, the least, the most.
    pub fn times_ms(&self) -> [f64; 3] {
        let ms = |ns: &AtomicU64| ns.load(Relaxed) as f64 / 1e6;
        [ms(&self.total_ns), ms(&self.min_ns), ms(&self.max_ns)]
    }
}

impl StatementFigures {
    pub fn add(&self, took: Duration, result: &Result<Done, Failure>) {
        let rows = match result {
            Ok(done) => done.count.or(done.sent).unwrap_or(done.rows.len() as u64),
            // As in PostgreSQL, what has failed is no call.
            Err(failure) => return self.kind.add(took, Err(failure.error.state())),
        };
        self.kind.add(took, Ok(rows));
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.calls.total_ns.fetch_add(ns, Relaxed);
        self.calls.min_ns.fetch_min(ns, Relaxed);
        self.calls.max_ns.fetch_max(ns, Relaxed);
        self.calls.rows.add(rows);
        self.calls.count.add(1);
    }
}

#[derive(Debug, Default)]
pub struct Statements(RwLock<HashMap<u64, Arc<StatementFigures>>>);

impl Statements {
    /// Figures of the text, bound to that schema version. `kind` is called at its first occurrence.
    pub fn of(
        &self,
        text: &str,
        schema_version: u64,
        kind: impl FnOnce() -> Arc<KindFigures>,
    ) -> Arc<StatementFigures> {
        let number = fingerprint(text);
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.schema_version == schema_version) {
            return known.clone();
        }
        // The mechanism may differ in another schema version.
        let calls = known.map_or_else(|| Arc::new(Calls::new(number, text)), |known| known.calls.clone());
        let new = Arc::new(StatementFigures { calls, kind: kind(), schema_version });
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEPT {
            let mut counts: Vec<u64> = all.values().map(|one| one.calls.count.get()).collect();
            let (_, least, _) = counts.select_nth_unstable(KEPT / 20);
            let least = *least;
            let mut room = KEPT / 20;
            all.retain(|_, one| {
                let goes = room > 0 && one.calls.count.get() <= least;
                room -= usize::from(goes);
                !goes
            });
        }
        all.insert(number, new.clone());
        new
    }

    pub fn all(&self) -> Vec<Arc<Calls>> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.values().map(|one| one.calls.clone()).collect()
    }
}
