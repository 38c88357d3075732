//! RAMP over items in virtual time: one run from a seed, faults first, then calm, then the checks.
//!
//! The safety phase has the faults; the liveness phase has none, and there everything that is pending must
//! finish within a stated time, and what shards remember for readers must go.

mod workload;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustc_hash::FxHasher;
use weir_txn::items::{self, Bytes, Coordinator, Key, Options, Partition, ReadSet, Transaction, Variant};

use crate::chance::Chance;
use crate::cluster::{Clients, Cluster};
use crate::history::{History, Violation};
use crate::network::Faults;
use workload::Sessions;

/// Faults go on for no longer than this.
const SAFETY_US_MAX: u64 = 20_000_000;

/// Once faults have stopped, whatever is pending has finished after this: a few repetitions over the slowest
/// links, and a message that was held up before.
pub const LIVENESS_US_MAX: u64 = 15_000_000;

/// After that much quiet, shards have forgotten what only readers needed.
const QUIET_US: u64 = 8_000_000;

/// A word of settled transactions that is lost is made up for when the window of sequences moves on: up to
/// one word of it for each coordinator may stay.
const REMEMBERED_MAX: usize = 64;

/// What one run is about.
#[derive(Clone, Debug)]
pub struct Setup {
    pub variant: Variant,
    pub seed: u64,
    /// None: drawn from the seed.
    pub faults: Option<Faults>,
    pub shard_bugs: items::PlantedBugs,
    pub client_bugs: items::coordinator::PlantedBugs,
    /// Keep a line for everything that happens.
    pub logged: bool,
}

impl Setup {
    pub fn new(variant: Variant, seed: u64) -> Setup {
        Setup {
            variant,
            seed,
            faults: None,
            shard_bugs: items::PlantedBugs::default(),
            client_bugs: items::coordinator::PlantedBugs::default(),
            logged: false,
        }
    }
}

/// What one run gave.
#[derive(Debug)]
pub struct Report {
    pub faults: Faults,
    /// Of everything that happened and of the end state: the same for the same setup.
    pub hash: u64,
    pub history: History,
    pub failure: Option<Violation>,
    pub second_rounds: usize,
    pub committed_by_readers: u64,
    pub readers_expired: u64,
    pub log: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transactions = self.history.records.len();
        let (second, readers) = (self.second_rounds, self.committed_by_readers);
        match &self.failure {
            None => write!(
                f,
                "{transactions} transactions, {second} reads with a second round, {readers} committed by readers"
            ),
            Some(Violation { claim, seen }) => {
                write!(f, "violated: {claim}: {seen}\nfaults: {:?}", self.faults)
            }
        }
    }
}

type Items = Cluster<Partition, Coordinator>;

/// Runs the setup to its end. A panic of a node is a failure like any other.
pub fn run(setup: &Setup) -> Report {
    let mut chance = Chance::from_seed(setup.seed);
    let faults = setup.faults.clone().unwrap_or_else(|| Faults::draw(&mut chance));
    let shards = chance.between(1, 5) as u16;
    let options = Options {
        variant: setup.variant,
        shards,
        links_keep_order: faults.links_keep_order,
        one_phase: setup.seed % 2 == 1,
        bugs: setup.client_bugs,
    };
    let coordinators = chance.between(2, 4) as u16;
    let sessions = usize::from(coordinators) * chance.between(1, 3) as usize;
    let mut cluster = Items::new(
        (0..shards).map(|shard| Partition::new(shard, setup.shard_bugs)).collect(),
        (0..coordinators).map(|id| Coordinator::new(id, 1, options)).collect(),
        sessions,
        faults.clone(),
        setup.seed,
        setup.logged,
    );
    let mut clients = Sessions::new(sessions, &mut chance);
    let outcome = catch_unwind(AssertUnwindSafe(|| live(&mut cluster, &mut clients)));
    let outcome = outcome.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| said.to_string()));
        Err(Violation { claim: "no node panics", seen: said.unwrap_or_default() })
    });
    let history = History::new(clients.records);
    let failure =
        outcome.and_then(|last| history.check().and_then(|()| history.check_nothing_lost(&last))).err();
    let counts = cluster.shards.iter().flatten().map(|shard| shard.counts);
    let mut hash = FxHasher::default();
    cluster.hash().hash(&mut hash);
    format!("{:?}{failure:?}", history.records).hash(&mut hash);
    Report {
        faults,
        hash: hash.finish(),
        failure,
        second_rounds: clients.second_rounds,
        committed_by_readers: counts.clone().map(|counts| counts.committed_by_readers).sum(),
        readers_expired: counts.map(|counts| counts.readers_expired).sum(),
        log: cluster.log().to_owned(),
        history,
    }
}

/// Both phases. Gives the items as they are in the end.
fn live(cluster: &mut Items, clients: &mut Sessions) -> Result<BTreeMap<Key, Option<Bytes>>, Violation> {
    while cluster.now_us() < SAFETY_US_MAX && !(clients.have_had_enough() && cluster.busy() == 0) {
        cluster.run_until(cluster.now_us() + 100_000, clients);
    }
    clients.stop();
    cluster.calm();
    let until_us = cluster.now_us() + LIVENESS_US_MAX;
    while !cluster.is_idle() {
        if cluster.now_us() >= until_us {
            let seen = format!("{} sessions wait, idle shards {:?}", cluster.busy(), idle_shards(cluster));
            return Err(Violation { claim: "what is pending finishes", seen });
        }
        cluster.run_until(cluster.now_us() + 100_000, clients);
    }
    cluster.run_until(cluster.now_us() + QUIET_US, clients);
    let coordinators = cluster.coordinators.len();
    for shard in cluster.shards.iter().flatten() {
        let (prepared, committed, tombstones) = shard.remembered();
        if prepared > 0 || committed.max(tombstones) > coordinators * REMEMBERED_MAX {
            let seen =
                format!("shard {:?} remembers {:?}", weir_txn::machine::Shard::id(shard), shard.remembered());
            return Err(Violation { claim: "what readers needed is forgotten", seen });
        }
    }
    let mut audits = Audits { keys: clients.keys(), begun: 0, told: Vec::new() };
    while audits.told.len() < 2 && cluster.now_us() < until_us + 2 * QUIET_US {
        cluster.run_until(cluster.now_us() + 100_000, &mut audits);
    }
    match &audits.told[..] {
        [one, other] if one == other => Ok(one.clone()),
        told => Err(Violation { claim: "all coordinators agree in the end", seen: format!("{told:?}") }),
    }
}

fn idle_shards(cluster: &Items) -> Vec<bool> {
    cluster.shards.iter().flatten().map(weir_txn::machine::Shard::is_idle).collect()
}

/// Two coordinators read everything.
struct Audits {
    keys: Vec<Key>,
    begun: usize,
    told: Vec<BTreeMap<Key, Option<Bytes>>>,
}

impl Clients<Transaction, items::Done> for Audits {
    fn next(&mut self, session: usize, _now_us: u64, _chance: &mut Chance) -> Option<Transaction> {
        // Session 0 is at the first coordinator, session 1 at the second.
        if session > 1 || self.begun > 1 || session != self.begun {
            return None;
        }
        self.begun += 1;
        Some(Transaction { reads: self.keys.clone(), ..Transaction::default() })
    }

    fn done(&mut self, _session: usize, _now_us: u64, done: items::Done) {
        let read = match done {
            items::Done::Committed { read, .. } => read,
            items::Done::Aborted => ReadSet::default(),
        };
        let values = read.items.into_iter().map(|item| item.value);
        self.told.push(self.keys.iter().cloned().zip(values).collect());
    }
}
