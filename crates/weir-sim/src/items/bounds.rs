//! Bounds on the state of shards while a cluster runs at full speed for a long time (design.md §5: garbage).
//!
//! Clients are closed loops that never wait, links are slow and lossy, and now and then a node is cut off or a coordinator
//! dies with all that it has under way. Nothing is checked but how much is kept; no history is, or it would be what grows.

use weir_core::ids::TxnId;
use weir_kv::faults::{Faults as ShardFaults, NoFaults};
use weir_kv::{
    Bytes, Coordinator, Done, Isolation, Key, KeyRange, Options, Partition, Sizes, Transaction, Variant,
    Write,
};

use super::calls::{Call, Caller, Statement};
use crate::chance::Chance;
use crate::cluster::{Clients, Cluster, Starts};
use crate::network::Faults;

/// Configuration of one run.
#[derive(Clone, Debug)]
pub struct Pace<F = NoFaults> {
    pub variant: Variant,
    pub seed: u64,
    pub shards: u16,
    pub coordinators: u64,
    pub sessions: usize,
    pub items: u64,
    pub virtual_s: u64,
    pub sample_s: u64,
    /// Between one mishap and the next.
    pub mishap_every_s: u64,
    pub bugs: F,
}

impl<F: ShardFaults> Pace<F> {
    /// An hour, or a minute.
    pub fn new(variant: Variant, virtual_s: u64) -> Pace<F> {
        Pace {
            variant,
            seed: 1,
            shards: 4,
            coordinators: 4,
            sessions: 16,
            items: 10_000,
            virtual_s,
            sample_s: (virtual_s / 180).max(1),
            mishap_every_s: 20,
            bugs: F::default(),
        }
    }
}

/// The most that all shards and coordinators together kept at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub at_s: u64,
    /// Since the beginning.
    pub transactions: u64,
    /// Writes of items that were asked for.
    pub writes: u64,
    pub kept: Sizes,
    /// Transactions and reads in flight at coordinators, and settled transactions that have not been reported.
    pub in_flight: usize,
    pub unsettled: usize,
}

/// Runs for that long, in virtual time.
pub fn run_for<F: ShardFaults>(pace: &Pace<F>) -> Vec<Sample> {
    let options = Options {
        variant: pace.variant,
        shards: pace.shards,
        links_keep_order: false,
        one_phase: true,
        bugs: NoFaults,
    };
    let bugs = pace.bugs;
    let starts = Starts::<Partition<F>, Caller> {
        shard: Box::new(move |shard, _| Partition::new(shard, bugs)),
        coordinator: Box::new(move |id| Caller(Coordinator::new(id, 1, options))),
    };
    let faults = Faults {
        loss_per_mille: 5,
        duplicate_per_mille: 5,
        partition_us_max: 3_000_000,
        slow_factor: 20,
        clock_offset_ms_max: 50,
        clock_drift_ppm_max: 100,
        mishap_every_us: pace.mishap_every_s * 1_000_000,
        coordinators_die: true,
        ..Faults::none()
    };
    let nodes = (pace.shards, pace.coordinators);
    let mut cluster = Cluster::new(starts, nodes, pace.sessions, faults, pace.seed, false);
    let mut load =
        Load { items: pace.items, transactions: 0, writes: 0, written: 0, several: vec![0; pace.sessions] };
    let mut samples = Vec::new();
    for at_s in (0..=pace.virtual_s).step_by(pace.sample_s.max(1) as usize).skip(1) {
        cluster.run_until(at_s * 1_000_000, &mut load);
        let shards = cluster.shards.iter().flatten();
        let coordinators = cluster.coordinators.iter().flatten().map(|caller| caller.0.kept());
        let (in_flight, unsettled) =
            coordinators.fold((0, 0), |(flights, settled), one| (flights + one.0, settled + one.1));
        let kept = shards.map(Partition::sizes).fold(Sizes::default(), Sizes::and);
        let (transactions, writes) = (load.transactions, load.writes);
        samples.push(Sample { at_s, transactions, writes, kept, in_flight, unsettled });
    }
    samples
}

/// Longest time for which a shard keeps garbage. A dead coordinator's transactions are settled within two time-outs: two seconds. A slow
/// or dead reader delays an epoch by five seconds; a transaction that settles in such an epoch waits for the next one too. Reporting
/// takes up to two seconds.
pub const KEPT_S_MAX: u64 = 14;

/// The first moment at which more was kept than the writes of [`KEPT_S_MAX`] leave, or more items than there are.
pub fn first_excess<F>(pace: &Pace<F>, samples: &[Sample]) -> Option<Sample> {
    let last = samples.last()?;
    // A transaction is on no more shards than it writes items.
    let max = (KEPT_S_MAX * last.writes / last.at_s.max(1)) as usize;
    let more = |sample: &&Sample| {
        let Sample { kept, in_flight, unsettled, .. } = sample;
        let of_readers = kept.versions.max(kept.committed).max(kept.tombstones);
        let of_writers = kept.prepared + kept.promises_and_outcomes + kept.inquiries + unsettled;
        of_readers.max(of_writers).max(*in_flight) > max || kept.items > pace.items as usize
    };
    samples.iter().find(more).copied()
}

/// Closed loops without think time of their own.
struct Load {
    items: u64,
    transactions: u64,
    writes: u64,
    written: u64,
    /// By session: statements that are left of a transaction of several.
    several: Vec<u64>,
}

impl Load {
    fn key(&self, chance: &mut Chance) -> Key {
        // Half of all goes to a hundredth of the items.
        let hot = chance.per_mille(500);
        let at = chance.below(if hot { (self.items / 100).max(1) } else { self.items });
        // One item in ten is a counter.
        let kind = if at.is_multiple_of(10) { 'c' } else { 'r' };
        Key::from(format!("{kind}{at:06}").as_str())
    }

    fn keys(&self, chance: &mut Chance) -> Vec<Key> {
        let mut keys: Vec<Key> = (0..4).map(|_| self.key(chance)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn writes(&mut self, chance: &mut Chance) -> Vec<(Key, Write)> {
        self.written += 1;
        let value = Bytes::from(format!("{:020}", self.written).as_str());
        let write = |key: &Key| match key[0] {
            b'c' => Write::Add(1),
            _ if self.written.is_multiple_of(10) => Write::Delete,
            _ => Write::Put(value.clone()),
        };
        let writes: Vec<(Key, Write)> =
            self.keys(chance).into_iter().map(|key| (key.clone(), write(&key))).collect();
        self.writes += writes.len() as u64;
        writes
    }

    fn statement(&mut self, opens: bool, last: bool, chance: &mut Chance) -> Call {
        let opens = opens.then_some(Isolation::ReadAtomic);
        let writes = if last { self.writes(chance) } else { Vec::new() };
        let read = (!last).then(|| (self.keys(chance), Vec::new()));
        Call::Statement(Statement { opens, writes, read, guards: Vec::new() })
    }
}

impl Clients<Call, Done> for Load {
    fn next(&mut self, session: usize, _now_us: u64, chance: &mut Chance) -> Option<Call> {
        if self.several[session] > 0 {
            self.several[session] -= 1;
            return Some(self.statement(false, self.several[session] == 0, chance));
        }
        let mut transaction = Transaction::default();
        match chance.below(100) {
            0..45 => transaction.reads = self.keys(chance),
            45..50 => {
                let from = self.key(chance);
                let to = Key::new(&[&from[..], b"~"].concat());
                transaction.ranges = vec![KeyRange { from, to }];
            }
            50..90 => transaction.writes = self.writes(chance),
            _ => {
                self.several[session] = 3;
                return Some(self.statement(true, false, chance));
            }
        }
        Some(Call::Whole(transaction))
    }

    fn done(&mut self, session: usize, _now_us: u64, done: Done) {
        match done {
            Done::Read { .. } => {}
            _ => {
                self.several[session] = 0;
                self.transactions += 1;
            }
        }
    }

    fn lost(&mut self, session: usize, _txn: Option<TxnId>) {
        self.moved(session);
    }

    fn moved(&mut self, session: usize) {
        self.several[session] = 0;
    }
}
