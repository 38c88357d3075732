//! Result of a run: the document that `weir run --format json` prints.
//!
//! Plain data. The field names are the JSON's and are a promise to scripts: fields are added, never
//! renamed. This module measures nothing and prints nothing.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The outcome of one run of an application on a cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// Version of this document's format.
    pub version: u32,
    /// Measured wall time of the load phase; population and checking are not in it.
    pub seconds: f64,
    pub committed: u64,
    /// Committed transactions a second.
    pub throughput: f64,
    /// Count by reason: a SQLSTATE's name or the text of the procedure's own RAISE.
    pub aborted: BTreeMap<String, u64>,
    pub latency_us: Latency,
    pub by_transaction: BTreeMap<String, TransactionReport>,
    pub invariants: Vec<InvariantReport>,
    /// Every copy of the same data holds the same rows once the run has ended.
    pub converged: bool,
    /// As `weir analyze --format json` prints it.
    pub plan: serde_json::Value,
    /// Configuration of the run.
    #[serde(default)]
    pub setup: Setup,
    /// Whole seconds from the start of the load phase.
    #[serde(default)]
    pub series: Vec<Second>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Transactions of the mix that were called and have never committed: the run has failed. Their aborts are in `by_transaction`.
    #[serde(default)]
    pub never_committed: Vec<String>,
    /// Its end came before its limit; the figures are of what was until then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// Configuration that the figures of a run depend on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Setup {
    pub protocol: String,
    pub shards: usize,
    pub clients: usize,
    pub seed: u64,
    /// The workload's settings by name (`warehouses`, `remote_lines`, …).
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Rows that the load phase began with, over all tables; copies are counted once.
    pub rows_loaded: u64,
    pub load_seconds: f64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TransactionReport {
    pub committed: u64,
    pub aborted: u64,
    /// Committed calls of this transaction a second.
    pub throughput: f64,
    /// Latency of the committed calls.
    pub latency_us: Latency,
    /// Aborts by reason, as in [`RunReport::aborted`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub abort_reasons: BTreeMap<String, u64>,
}

/// A distribution of latencies, in microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
    /// For plots: ascending upper bounds, one per logarithmic step that has calls in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<LatencyBucket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyBucket {
    pub below_us: f64,
    pub calls: u64,
}

impl Latency {
    /// Condenses a histogram that was recorded in nanoseconds.
    pub fn from_nanoseconds(histogram: &Histogram<u64>) -> Latency {
        if histogram.is_empty() {
            return Latency::default();
        }
        let at = |quantile| round_us(histogram.value_at_quantile(quantile));
        // Eight steps to a doubling is as fine as a plot shows.
        let bound = 2f64.powf(1.0 / 8.0);
        let mut buckets: BTreeMap<i64, u64> = BTreeMap::new();
        for recorded in histogram.iter_recorded() {
            let nanoseconds = recorded.value_iterated_to().max(1) as f64;
            *buckets.entry((nanoseconds.ln() / bound.ln()).floor() as i64 + 1).or_default() +=
                recorded.count_since_last_iteration();
        }
        Latency {
            p50: at(0.50),
            p95: at(0.95),
            p99: at(0.99),
            max: round_us(histogram.max()),
            histogram: buckets
                .into_iter()
                .map(|(step, calls)| LatencyBucket { below_us: bound.powi(step as i32) / 1_000.0, calls })
                .collect(),
        }
    }
}

/// Microseconds to one decimal: what a clock on a busy machine can honestly tell.
fn round_us(nanoseconds: u64) -> f64 {
    (nanoseconds as f64 / 100.0).round() / 10.0
}

/// One invariant, evaluated over the whole state after the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InvariantReport {
    /// As in the plan's list of invariants.
    pub id: String,
    pub holds: bool,
    pub rows_checked: u64,
    /// The rows that break it and what was expected of them.
    pub violation: Option<serde_json::Value>,
}

/// Commits during one second of the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Second {
    /// The n-th second of the load phase, from 0.
    pub second: u64,
    /// Length of this sample in seconds; the last one may be shorter than 1.
    pub length: f64,
    pub committed: BTreeMap<String, u64>,
    pub aborted: u64,
}

/// Bytes at the end of the run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Memory {
    /// The rows as text or bytes would hold them, each row once: what the data is worth.
    pub raw_row_bytes: u64,
    /// Bytes held by storage: rows, versions, indexes; without copies of immutable tables.
    pub stored_bytes: u64,
    /// The process's resident set.
    pub resident_bytes: u64,
}

impl RunReport {
    /// True if every invariant held, all copies agree and every transaction has committed: what the exit code says.
    pub fn is_good(&self) -> bool {
        self.converged
            && self.never_committed.is_empty()
            && self.invariants.iter().all(|invariant| invariant.holds)
    }

    pub fn aborted_total(&self) -> u64 {
        self.aborted.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_keeps_every_call_and_its_order() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for nanoseconds in [900, 1_500, 20_000, 20_100, 5_000_000] {
            histogram.record(nanoseconds).unwrap();
        }
        let latency = Latency::from_nanoseconds(&histogram);
        assert_eq!(latency.histogram.iter().map(|bucket| bucket.calls).sum::<u64>(), 5);
        assert!(latency.histogram.windows(2).all(|pair| pair[0].below_us < pair[1].below_us));
        assert!(latency.p50 <= latency.p95 && latency.p95 <= latency.p99 && latency.p99 <= latency.max);
        assert!((4_990.0..5_010.0).contains(&latency.max));
    }

    #[test]
    fn an_empty_histogram_is_all_zero() {
        let latency = Latency::from_nanoseconds(&Histogram::new(3).unwrap());
        assert_eq!((latency.p50, latency.max, latency.histogram.len()), (0.0, 0.0, 0));
    }
}
