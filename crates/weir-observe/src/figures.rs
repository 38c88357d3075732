//! Counters that any thread adds to without waiting for another.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// In microseconds, what a time is at most that is counted in a bucket: 1, 2.5 and 5 of each power of ten.
pub const BOUNDS_US: [u64; 19] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// Durations of something, by how often they occurred.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The last is of what took longer than all bounds.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    pub buckets: [u64; BOUNDS_US.len() + 1],
    pub sum_seconds: f64,
}

impl Histogram {
    pub fn add(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| bound * 1_000 < ns);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(ns, Relaxed);
    }

    /// Concurrent additions may be included partially.
    pub fn counts(&self) -> Counts {
        Counts {
            buckets: std::array::from_fn(|at| self.buckets[at].load(Relaxed)),
            sum_seconds: self.sum_ns.load(Relaxed) as f64 / 1e9,
        }
    }
}

impl Counts {
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::default();
        for us in [0, 10, 11, 10_000_000, 10_000_001] {
            histogram.add(Duration::from_micros(us));
        }
        let counts = histogram.counts();
        assert_eq!((counts.buckets[0], counts.buckets[1], counts.count()), (2, 1, 5));
        assert_eq!(counts.buckets[BOUNDS_US.len() - 1..], [1, 1]);
        assert!((counts.sum_seconds - 20.000_022).abs() < 1e-9);
    }
}
