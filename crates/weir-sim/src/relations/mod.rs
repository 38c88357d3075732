//! Rows over items in virtual time: one run from a seed, faults first, then calm. Whatever a transaction is told of indexes, foreign
//! keys and views is held against a scan of the rows in the same transaction.

mod workload;

use std::fmt;
use std::sync::Arc;

use weir_core::ids::TxnId;
use weir_kv::faults::{Faults as ShardFaults, NoFaults, RelationFaults};
use weir_kv::relations::Relations;
use weir_kv::{Coordinator, Options, Partition, Timeouts, Variant};

use crate::chance::Chance;
use crate::claims::{LOOK_US, catch_panic, finish};
use crate::cluster::{Cluster, Mortal, Starts};
use crate::history::Violation;
use crate::items::stamps;
use crate::network::Faults;
use workload::Sessions;

/// Faults go on for no longer than this.
const SAFETY_US_MAX: u64 = 15_000_000;

/// After that much quiet, whatever a row's next writer waits for is over.
const QUIET_US: u64 = 8_000_000;

/// Configuration of one run.
#[derive(Clone, Debug)]
pub struct Setup<F = NoFaults, R = NoFaults> {
    pub variant: Variant,
    pub seed: u64,
    /// None: drawn from the seed.
    pub faults: Option<Faults>,
    pub shard_bugs: F,
    pub bugs: R,
    /// Keep a line for everything that happens.
    pub logged: bool,
}

impl<F: ShardFaults, R: RelationFaults> Setup<F, R> {
    pub fn new(variant: Variant, seed: u64) -> Setup<F, R> {
        let (shard_bugs, bugs) = Default::default();
        Setup { variant, seed, faults: None, shard_bugs, bugs, logged: false }
    }
}

/// Counters of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub committed: usize,
    /// Writers that were told to retry because a row had changed.
    pub conflicts: usize,
    pub restarted: usize,
    /// Children whose parents could not be seen when they were written.
    pub without_parent: usize,
    /// Number of comparisons with the rows: look-ups, sums, selections, and visible children.
    pub compared: usize,
    pub children: usize,
}

/// Result of one run.
#[derive(Debug)]
pub struct Report {
    pub faults: Faults,
    /// Hash of all events.
    pub hash: u64,
    pub failure: Option<Violation>,
    pub counts: Counts,
    pub log: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { committed, conflicts, restarted, compared, .. } = self.counts;
        match &self.failure {
            None => write!(
                f,
                "{committed} transactions, {conflicts} conflicts, {restarted} restarted, {compared} answers compared"
            ),
            Some(Violation { claim, seen }) => {
                write!(f, "violated: {claim}: {seen}\nfaults: {:?}", self.faults)
            }
        }
    }
}

impl<R: RelationFaults> Mortal for Relations<R> {
    fn txn_of(&mut self, tag: u64) -> Option<TxnId> {
        Relations::txn_of(self, tag)
    }
}

type Rows<F, R> = Cluster<Partition<F>, Relations<R>>;

/// Runs the setup to its end. A panic of a node is a failure like any other.
pub fn run<F: ShardFaults, R: RelationFaults>(setup: &Setup<F, R>) -> Report {
    let mut chance = Chance::from_seed(setup.seed);
    let faults = setup.faults.clone().unwrap_or_else(|| Faults::draw(&mut chance));
    let shards = chance.between(1, 5) as u16;
    let options = Options {
        variant: setup.variant,
        shards,
        links_keep_order: faults.links_keep_order && faults.shard_down_us_max == 0,
        one_phase: setup.seed % 2 == 1,
        bugs: NoFaults,
    };
    let (shard_bugs, bugs) = (setup.shard_bugs, setup.bugs);
    let schema = Arc::new(workload::schema());
    let starts = Starts::<Partition<F>, Relations<R>> {
        shard: Box::new(move |shard, records| {
            Partition::recover(shard, shard_bugs, Timeouts::default(), records)
        }),
        coordinator: Box::new(move |id| {
            Relations::new(Coordinator::new(id, 1, options), schema.clone(), bugs)
        }),
    };
    let coordinators = chance.between(2, 4);
    let sessions = coordinators as usize * chance.between(1, 2) as usize;
    let nodes = (shards, coordinators);
    let mut cluster = Rows::new(starts, nodes, sessions, faults.clone(), setup.seed, setup.logged);
    let mut clients = Sessions::new(sessions, &mut chance);
    let outcome = catch_panic(|| live(&mut cluster, &mut clients));
    let failure = outcome.and_then(|()| clients.check_last(&stamps(&cluster))).err();
    let (hash, log) = (cluster.hash(), cluster.log().to_owned());
    Report { faults, hash, failure, counts: clients.counts, log }
}

/// Both phases, then everything is looked at once more.
fn live<F: ShardFaults, R: RelationFaults>(
    cluster: &mut Rows<F, R>,
    clients: &mut Sessions,
) -> Result<(), Violation> {
    while cluster.now_us() < SAFETY_US_MAX && !(clients.have_had_enough() && cluster.busy() == 0) {
        cluster.run_until(cluster.now_us() + LOOK_US, clients);
        clients.wrong.take().map_or(Ok(()), Err)?;
    }
    clients.stop();
    cluster.calm();
    settle(cluster, clients)?;
    cluster.run_until(cluster.now_us() + QUIET_US, clients);
    clients.look_at_all();
    settle(cluster, clients)
}

fn settle<F: ShardFaults, R: RelationFaults>(
    cluster: &mut Rows<F, R>,
    clients: &mut Sessions,
) -> Result<(), Violation> {
    finish(cluster, clients, Sessions::are_done, |_, clients| clients.wrong.take().map_or(Ok(()), Err))
}
