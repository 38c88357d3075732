//! RAMP over items in virtual time: one run from a seed, faults first, then calm, then the checks.
//!
//! The safety phase has the faults; the liveness phase has none, and there everything that is pending must
//! finish within a stated time, and what shards remember for readers must go.

pub mod bounds;
mod calls;
mod statements;
mod workload;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use weir_core::ids::{CoordinatorId, TxnId};
use weir_core::machine::{CoordinatorOf, Shard as _};
use weir_kv::faults::{ClientFaults, Faults as ShardFaults, NoFaults};
use weir_kv::{
    Bytes, Coordinator, Key, Options, Partition, ReadSet, Record, Stamp, Timeouts, Transaction, Variant,
};

use crate::chance::Chance;
use crate::claims::{
    LIVENESS_US_MAX, LOOK_US, catch_panic, check_clocks, check_dead_are_resolved, check_none_is_refused,
    dead, finish,
};
use crate::cluster::{Clients, Cluster, Mortal, Starts};
use crate::history::{History, Violation};
use crate::network::Faults;
use calls::{Call, Caller};
use workload::Sessions;

/// Faults go on for no longer than this.
const SAFETY_US_MAX: u64 = 20_000_000;

/// After that much quiet, shards have forgotten what only readers needed.
const QUIET_US: u64 = 14_000_000;

/// Runs last long enough to see dead coordinators retired after this, and after no more.
const RETIRE_MS_MAX: u64 = 10_000;

/// A word of settled transactions that is lost is made up for when the window of sequences moves on: up to
/// one word of it for each coordinator may stay.
const REMEMBERED_MAX: usize = 64;

/// Configuration of one run.
#[derive(Clone, Debug)]
pub struct Setup<F = NoFaults, C = NoFaults> {
    pub variant: Variant,
    pub seed: u64,
    /// None: drawn from the seed.
    pub faults: Option<Faults>,
    pub shard_bugs: F,
    pub client_bugs: C,
    /// Deliberate bug of the driver: answers leave before what they depend on is durable (S16).
    pub answers_early: bool,
    /// Some clients run transactions of several statements; else all know beforehand what they read.
    pub statements: bool,
    /// Clients give up what is not answered soon.
    pub impatient: bool,
    /// Keep a line for everything that happens.
    pub logged: bool,
}

impl<F: ShardFaults, C: ClientFaults> Setup<F, C> {
    pub fn new(variant: Variant, seed: u64) -> Setup<F, C> {
        Setup {
            variant,
            seed,
            faults: None,
            shard_bugs: F::default(),
            client_bugs: C::default(),
            answers_early: false,
            statements: true,
            impatient: seed % 4 == 3,
            logged: false,
        }
    }
}

/// Result of one run.
#[derive(Debug)]
pub struct Report {
    pub faults: Faults,
    /// Hash of all events and of the end state: equal for equal setups.
    pub hash: u64,
    pub history: History,
    pub failure: Option<Violation>,
    pub second_rounds: usize,
    /// Statements of interactive transactions, and number of these that were told to restart.
    pub statements: (usize, usize),
    /// Transactions that wrote under guards: committed, and aborted.
    pub guarded: (usize, usize),
    pub committed_by_readers: u64,
    pub readers_expired: u64,
    /// Transactions committed, and aborted, by termination; of shards as they are in the end.
    pub terminated: (u64, u64),
    /// Coordinators that have died or were retired.
    pub dead: usize,
    /// Number of times that clients have given up.
    pub given_up: u64,
    pub clocks_refused: u64,
    pub log: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transactions = self.history.records.len();
        let (second, readers) = (self.second_rounds, self.committed_by_readers);
        match &self.failure {
            None => write!(
                f,
                "{transactions} transactions, {second} reads with a second round, {readers} committed by readers, \
                 {:?} committed and aborted by termination, {:?} under guards, {} coordinators dead",
                self.terminated, self.guarded, self.dead
            ),
            Some(Violation { claim, seen }) => {
                write!(f, "violated: {claim}: {seen}\nfaults: {:?}", self.faults)
            }
        }
    }
}

type Items<F, C> = Cluster<Partition<F>, Caller<C>>;

/// Runs the setup to its end. A panic of a node is a failure like any other.
pub fn run<F: ShardFaults, C: ClientFaults>(setup: &Setup<F, C>) -> Report {
    let mut chance = Chance::from_seed(setup.seed);
    let faults = setup.faults.clone().unwrap_or_else(|| Faults::draw(&mut chance));
    let shards = chance.between(1, 5) as u16;
    let options = Options {
        variant: setup.variant,
        shards,
        // A message that arrives at a shard that is down is lost, whatever the links do.
        links_keep_order: faults.links_keep_order && faults.shard_down_us_max == 0,
        one_phase: setup.seed % 2 == 1,
        bugs: setup.client_bugs,
    };
    let coordinators = chance.between(2, 4);
    let sessions = coordinators as usize * chance.between(1, 3) as usize;
    let timeouts = Timeouts { retire_ms: chance.pick(&[2_500, 10_000, 60_000]), ..Timeouts::default() };
    let bugs = setup.shard_bugs;
    let starts = Starts::<Partition<F>, Caller<C>> {
        shard: Box::new(move |shard, records| Partition::recover(shard, bugs, timeouts, records)),
        coordinator: Box::new(move |id| Caller(Coordinator::new(id, 1, options))),
    };
    let nodes = (shards, coordinators);
    let mut cluster = Items::new(starts, nodes, sessions, faults.clone(), setup.seed, setup.logged);
    cluster.answers_early = setup.answers_early;
    let mut clients = Sessions::new(sessions, setup.statements, &mut chance);
    clients.impatient = setup.impatient;
    let outcome = catch_panic(|| live(&mut cluster, &mut clients, timeouts));
    clients.learn(&stamps(&cluster));
    let outcome = outcome.and_then(|last| clients.wrong.take().map_or(Ok(last), Err));
    let history = History::new(clients.records);
    let failure =
        outcome.and_then(|last| history.check().and_then(|()| history.check_nothing_lost(&last))).err();
    let guarded = || history.records.iter().filter(|record| !record.guards.is_empty());
    let guarded_aborted = guarded().filter(|record| record.aborted).count();
    let guarded = (guarded().count() - guarded_aborted, guarded_aborted);
    let counts = cluster.shards.iter().flatten().map(|shard| shard.counts);
    let terminated = cluster.shards.iter().flatten().map(Partition::terminated);
    let mut hash = FxHasher::default();
    cluster.hash().hash(&mut hash);
    format!("{:?}{failure:?}", history.records).hash(&mut hash);
    Report {
        faults,
        hash: hash.finish(),
        failure,
        second_rounds: clients.second_rounds,
        statements: clients.statements,
        guarded,
        committed_by_readers: counts.clone().map(|counts| counts.committed_by_readers).sum(),
        readers_expired: counts.clone().map(|counts| counts.readers_expired).sum(),
        terminated: terminated.fold((0, 0), |(commits, aborts), one| (commits + one.0, aborts + one.1)),
        clocks_refused: counts.map(|counts| counts.clocks_refused).sum(),
        dead: dead(&cluster).count(),
        given_up: cluster.given_up,
        log: cluster.log().to_owned(),
        history,
    }
}

/// Stamps of all transactions that have committed on some shard, according to the logs of the shards.
pub(crate) fn stamps<F: ShardFaults, C: Mortal + CoordinatorOf<Partition<F>>>(
    cluster: &Cluster<Partition<F>, C>,
) -> BTreeMap<TxnId, Stamp> {
    let shards = 0..cluster.shards.len() as u16;
    let records = shards.flat_map(|shard| cluster.durable(shard));
    let stamp = |record: &Record| match record {
        Record::Committed { stamp } | Record::Written { stamp, .. } => Some((stamp.txn, *stamp)),
        _ => None,
    };
    records.filter_map(stamp).collect()
}

/// Both phases. Gives the items as they are in the end.
fn live<F: ShardFaults, C: ClientFaults>(
    cluster: &mut Items<F, C>,
    clients: &mut Sessions,
    timeouts: Timeouts,
) -> Result<BTreeMap<Key, Option<Bytes>>, Violation> {
    while cluster.now_us() < SAFETY_US_MAX && !(clients.have_had_enough() && cluster.busy() == 0) {
        cluster.run_until(cluster.now_us() + LOOK_US, clients);
        check_clocks(cluster, Partition::last_clock)?;
        check_none_is_refused(cluster)?;
    }
    clients.stop();
    let links_free_us = cluster.calm();
    finish(
        cluster,
        clients,
        |_| true,
        |cluster, _| check_dead_are_resolved(cluster, links_free_us, timeouts),
    )?;
    // Until those are retired who may be; a reader that has died holds others up for a while.
    let retired_us = if timeouts.retire_ms <= RETIRE_MS_MAX { 2_000 * timeouts.retire_ms } else { 0 };
    cluster.run_until(cluster.now_us() + QUIET_US + retired_us, clients);
    check_clocks(cluster, Partition::last_clock)?;
    check_none_is_refused(cluster)?;
    check_forgotten(cluster, timeouts)?;
    let mut audits = Audits { keys: clients.keys(), begun: 0, told: Vec::new() };
    let until_us = cluster.now_us() + LIVENESS_US_MAX;
    while audits.told.len() < 2 && cluster.now_us() < until_us {
        cluster.run_until(cluster.now_us() + LOOK_US, &mut audits);
    }
    match &audits.told[..] {
        [one, other] if one == other => Ok(one.clone()),
        told => Err(Violation { claim: "all coordinators agree in the end", seen: format!("{told:?}") }),
    }
}

/// Checks that nothing is kept for readers and coordinators, alive or dead, that is not needed.
fn check_forgotten<F: ShardFaults, C: ClientFaults>(
    cluster: &Items<F, C>,
    timeouts: Timeouts,
) -> Result<(), Violation> {
    let living = cluster.coordinators.len() - dead(cluster).count();
    for shard in cluster.shards.iter().flatten() {
        let (prepared, committed, tombstones) = shard.remembered();
        if prepared > 0 || committed.max(tombstones) > living * REMEMBERED_MAX {
            let seen = format!("shard {} remembers {:?}", shard.id(), shard.remembered());
            return Err(Violation { claim: "what readers needed is forgotten", seen });
        }
        for coordinator in 0..cluster.coordinators.len() as CoordinatorId {
            let is_dead = cluster.coordinators[coordinator as usize].is_none();
            let left = shard.left_of(coordinator);
            let may_stay = is_dead && timeouts.retire_ms > RETIRE_MS_MAX;
            if (is_dead && left.committed > 0) || (left.outcomes > 0 && !may_stay) {
                let seen = format!("shard {} has {left:?} of coordinator {coordinator}", shard.id());
                return Err(Violation { claim: "promises and outcomes are forgotten", seen });
            }
        }
    }
    Ok(())
}

/// Two coordinators read everything.
struct Audits {
    keys: Vec<Key>,
    begun: usize,
    told: Vec<BTreeMap<Key, Option<Bytes>>>,
}

impl Clients<Call, weir_kv::Done> for Audits {
    fn next(&mut self, session: usize, _now_us: u64, _chance: &mut Chance) -> Option<Call> {
        // Session 0 is at the first coordinator, session 1 at the second.
        if session > 1 || self.begun > 1 || session != self.begun {
            return None;
        }
        self.begun += 1;
        Some(Call::Whole(Transaction { reads: self.keys.clone(), ..Transaction::default() }))
    }

    fn done(&mut self, _session: usize, _now_us: u64, done: weir_kv::Done) {
        let read = match done {
            weir_kv::Done::Committed { read, .. } => read,
            _ => ReadSet::default(),
        };
        let values = read.items.into_iter().map(|item| item.value);
        self.told.push(self.keys.iter().cloned().zip(values).collect());
    }
    fn lost(&mut self, _session: usize, _txn: Option<TxnId>) {
        self.told.push(BTreeMap::new());
    }
}
