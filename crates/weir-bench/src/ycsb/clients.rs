//! The clients of one coordinator: those that load the items, and closed loops.

use std::sync::Arc;
use std::time::Instant;

use hdrhistogram::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use weir_core::machine::{Clients, Coordinator, Orders, Shard};
use weir_kv::{Done, ItemCoordinator, Transaction};
use weir_server::embedded::now_ms;

use super::generator::Generator;
use crate::pace::{Pace, latencies, note_latency};

/// Number of items loaded in one transaction.
const LOADED_AT_ONCE: u64 = 64;
/// Number of concurrent loading transactions.
const LOADS_UNDER_WAY: u64 = 8;

pub struct Loader<C> {
    coordinator: C,
    generator: Arc<Generator>,
    items: std::ops::Range<u64>,
}

impl<C> Loader<C> {
    pub fn new(coordinator: C, generator: Arc<Generator>, items: std::ops::Range<u64>) -> Loader<C> {
        Loader { coordinator, generator, items }
    }

    pub fn into_coordinator(self) -> C {
        self.coordinator
    }
}

impl<S, C> Clients<S> for Loader<C>
where
    S: Shard,
    C: ItemCoordinator<S>,
{
    type Coordinator = C;

    fn coordinator(&mut self) -> &mut C {
        &mut self.coordinator
    }

    fn begin(&mut self, orders: &mut Orders<S::Request, Done>) {
        for _ in 0..LOADS_UNDER_WAY {
            self.load_more(orders);
        }
    }

    fn go_on(&mut self, orders: &mut Orders<S::Request, Done>) {
        for _ in std::mem::take(&mut orders.done) {
            self.load_more(orders);
        }
    }
}

impl<C: Coordinator<Transaction = Transaction, Done = Done>> Loader<C> {
    fn load_more(&mut self, orders: &mut Orders<C::Request, Done>) {
        let from = self.items.start;
        let to = self.items.end.min(from + LOADED_AT_ONCE);
        self.items.start = to;
        if from < to {
            self.coordinator.begin(now_ms(), 0, self.generator.load(from..to), orders);
        }
    }
}

/// Measurements of the clients.
pub struct Tally {
    pub reads: u64,
    pub writes: u64,
    pub aborted: u64,
    pub read_rounds: u64,
    pub write_rounds: u64,
    /// Latencies in nanoseconds.
    pub latency: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { reads: 0, writes: 0, aborted: 0, read_rounds: 0, write_rounds: 0, latency: latencies() }
    }
}

impl Tally {
    /// Counts it, but for its latency; says whether it has committed.
    pub fn note(&mut self, done: &Done) -> bool {
        let Done::Committed { stamp, rounds, .. } = done else {
            self.aborted += 1;
            return false;
        };
        match stamp {
            None => self.reads += 1,
            Some(_) => self.writes += 1,
        }
        self.read_rounds += u64::from(rounds.0);
        self.write_rounds += u64::from(rounds.1);
        true
    }

    pub fn add(&mut self, other: Tally) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.aborted += other.aborted;
        self.read_rounds += other.read_rounds;
        self.write_rounds += other.write_rounds;
        self.latency.add(other.latency).expect("the bounds are the same");
    }
}

pub struct ClosedLoops<C> {
    coordinator: C,
    generator: Arc<Generator>,
    pace: Arc<Pace>,
    chance: Xoshiro256PlusPlus,
    /// By client, when its transaction began.
    begun: Vec<Instant>,
    finished: Vec<(u64, Done)>,
    tally: Tally,
}

impl<C> ClosedLoops<C> {
    pub fn new(
        coordinator: C,
        generator: Arc<Generator>,
        pace: Arc<Pace>,
        seed: u64,
        clients: u64,
    ) -> ClosedLoops<C> {
        ClosedLoops {
            coordinator,
            generator,
            pace,
            chance: Xoshiro256PlusPlus::seed_from_u64(seed),
            begun: vec![Instant::now(); clients as usize],
            finished: Vec::new(),
            tally: Tally::default(),
        }
    }

    pub fn into_tally(self) -> Tally {
        self.tally
    }

    fn note(&mut self, now: Instant, client: u64, done: &Done) {
        if self.tally.note(done) {
            note_latency(&mut self.tally.latency, self.begun[client as usize], now);
        }
    }
}

impl<C: Coordinator<Transaction = Transaction, Done = Done>> ClosedLoops<C> {
    fn begin_one(&mut self, now: Instant, now_ms: u64, client: u64, orders: &mut Orders<C::Request, Done>) {
        if !self.pace.may_begin() {
            return;
        }
        self.begun[client as usize] = now;
        let transaction = self.generator.next(&mut self.chance);
        self.coordinator.begin(now_ms, client, transaction, orders);
    }
}

impl<S, C> Clients<S> for ClosedLoops<C>
where
    S: Shard,
    C: ItemCoordinator<S>,
{
    type Coordinator = C;

    fn coordinator(&mut self) -> &mut C {
        &mut self.coordinator
    }

    fn begin(&mut self, orders: &mut Orders<S::Request, Done>) {
        let (now, now_ms) = (Instant::now(), now_ms());
        for client in 0..self.begun.len() as u64 {
            self.begin_one(now, now_ms, client, orders);
        }
    }

    fn go_on(&mut self, orders: &mut Orders<S::Request, Done>) {
        let (now, now_ms) = (Instant::now(), now_ms());
        let mut finished = std::mem::take(&mut self.finished);
        std::mem::swap(&mut orders.done, &mut finished);
        self.pace.note_answered(finished.len() as u64);
        for (client, done) in finished.drain(..) {
            self.note(now, client, &done);
            self.begin_one(now, now_ms, client, orders);
        }
        self.finished = finished;
    }
}
