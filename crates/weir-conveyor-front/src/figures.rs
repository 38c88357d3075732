//! Counters of the front, also of transactions that it only observes: for the admin database, the metrics, and the report of `--observe`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use weir_conveyor::epochs::ServerId;
use weir_conveyor::message::Placement;
use weir_pg::Contention;

/// Texts of statements that nothing covers. More are counted, and not kept.
const UNCOVERED_MAX: usize = 100;

/// Counters of one process.
#[derive(Debug, Default)]
pub struct Figures {
    /// Clients that are connected now.
    pub clients: AtomicU64,
    pub connections: AtomicU64,
    pub transactions: AtomicU64,
    pub commutative: AtomicU64,
    pub local: AtomicU64,
    pub global: AtomicU64,
    /// Transactions that ran at another server.
    pub relayed: AtomicU64,
    /// Transactions that were begun again at another place.
    pub restarts: AtomicU64,
    /// Transactions that could not be, and were refused with 40001.
    pub contradictions: AtomicU64,
    /// Statements that were refused.
    pub refused: AtomicU64,
    /// Contention of the transactions, whether they are carried or observed.
    pub contention: Contention,
    observed: Mutex<Observed>,
}

#[derive(Clone, Debug, Default)]
struct Observed {
    /// By class and transaction: how often.
    classes: BTreeMap<(String, String), u64>,
    /// Forms of statements that nothing covers.
    uncovered: BTreeMap<String, u64>,
}

pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Figures {
    pub fn place(&self, placement: Placement, here: ServerId) {
        count(match placement {
            Placement::Commutative => &self.commutative,
            Placement::Local(_) => &self.local,
            Placement::Global(_) => &self.global,
        });
        if placement.server().is_some_and(|server| server != here) {
            count(&self.relayed);
        }
    }

    /// Notes how a transaction classifies. `names`: the transactions that cover it.
    pub fn observe(&self, class: &str, names: &str) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        *observed.classes.entry((class.to_owned(), names.to_owned())).or_default() += 1;
    }

    /// Notes a statement that nothing covers.
    pub fn observe_uncovered(&self, form: &str) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = observed.uncovered.contains_key(form);
        if is_known || observed.uncovered.len() < UNCOVERED_MAX {
            *observed.uncovered.entry(form.to_owned()).or_default() += 1;
        }
    }

    /// Rows of class, what covers, how often; most frequent first.
    pub fn observed(&self) -> Vec<(String, String, u64)> {
        let observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut rows: Vec<_> =
            observed.classes.into_iter().map(|((class, names), count)| (class, names, count)).collect();
        rows.extend(
            observed.uncovered.into_iter().map(|(form, count)| ("uncovered".to_owned(), form, count)),
        );
        rows.sort_by_key(|row| std::cmp::Reverse(row.2));
        rows
    }
}
