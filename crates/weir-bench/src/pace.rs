//! Duration and end of a run, shared by all its closed loops.
//!
//! Knows threads and the clock; knows no workload and no protocol. Coordinators carry the clients; the
//! embedded cluster decides which thread carries which coordinator.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use weir_core::ids::CoordinatorId;
use weir_server::progress::{Listener, Progress};

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    Seconds(f64),
    Transactions(u64),
}

/// Coordinators that carry the clients: enough to keep the shards busy, few enough that messages travel in
/// batches.
pub const COORDINATORS: CoordinatorId = 2;

/// Share of a coordinator in that number of clients or items.
pub fn share(of: u64, coordinator: CoordinatorId) -> Range<u64> {
    let upto = |parts: CoordinatorId| (u128::from(of) * u128::from(parts) / u128::from(COORDINATORS)) as u64;
    upto(coordinator)..upto(coordinator + 1)
}

/// A run under way.
pub struct Pace {
    pub begun: Instant,
    limit: Limit,
    stop: AtomicBool,
    /// Set to end the run early.
    interrupted: Option<Arc<AtomicBool>>,
    /// Calls that may still begin.
    left: AtomicU64,
    answered: AtomicU64,
}

impl Pace {
    /// Begins now.
    pub fn new(limit: Limit) -> Pace {
        let left = match limit {
            Limit::Seconds(_) => u64::MAX,
            Limit::Transactions(calls) => calls,
        };
        Pace {
            begun: Instant::now(),
            limit,
            stop: AtomicBool::new(false),
            interrupted: None,
            left: AtomicU64::new(left),
            answered: AtomicU64::new(0),
        }
    }

    /// Sets the flag that ends the run early.
    pub fn interrupted_by(self, interrupted: Option<Arc<AtomicBool>>) -> Pace {
        Pace { interrupted, ..self }
    }

    /// Takes one of the calls that may still begin, if there is one.
    pub fn may_begin(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        !self.stop.load(Ordering::Relaxed)
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    pub fn note_answered(&self, calls: u64) {
        self.answered.fetch_add(calls, Ordering::Relaxed);
    }

    /// Stops the run at its limit and tells how it goes meanwhile.
    pub fn watch(&self, listener: &mut Listener<'_>, finished: impl Fn() -> bool) {
        let steps = match self.limit {
            Limit::Seconds(seconds) => (seconds * 10.0).ceil() as u64,
            Limit::Transactions(calls) => calls,
        };
        listener(Progress::Phase { name: "running", steps });
        while !finished() {
            let elapsed = self.begun.elapsed().as_secs_f64();
            let answered = self.answered.load(Ordering::Relaxed);
            if self.interrupted.as_ref().is_some_and(|interrupted| interrupted.load(Ordering::Relaxed)) {
                self.stop.store(true, Ordering::Relaxed);
            }
            let done = match self.limit {
                Limit::Seconds(seconds) => {
                    if elapsed >= seconds {
                        self.stop.store(true, Ordering::Relaxed);
                    }
                    (elapsed * 10.0) as u64
                }
                Limit::Transactions(_) => answered,
            };
            listener(Progress::Steps {
                done: done.min(steps),
                note: &format!("{:.0} calls/s", answered as f64 / elapsed.max(0.001)),
            });
            // A run that ends by itself is taken for a twentieth longer at the most.
            let left = match self.limit {
                Limit::Seconds(seconds) => (seconds - elapsed).clamp(0.001, 0.1),
                Limit::Transactions(_) => (elapsed / 20.0).clamp(0.000_1, 0.02),
            };
            std::thread::sleep(Duration::from_secs_f64(left));
        }
    }
}

/// Latencies in nanoseconds, to three digits.
///
/// It has bounds, which a histogram that grows by itself has not: a latency beyond them counts as the longest
/// instead of not at all.
pub fn latencies() -> Histogram<u64> {
    /// An hour: no call waits longer.
    const NANOSECONDS_MAX: u64 = 3_600_000_000_000;
    Histogram::new_with_bounds(1, NANOSECONDS_MAX, 3).expect("three digits")
}

/// Adds the latency of a call that is done now.
pub fn note_latency(latencies: &mut Histogram<u64>, begun: Instant, now: Instant) {
    let latency = now.duration_since(begun).as_nanos() as u64;
    latencies.saturating_record(latency.max(1));
}
