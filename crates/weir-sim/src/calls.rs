//! SQL calls of an application in virtual time: one run from a seed, faults first, then calm, then the checks.
//!
//! Knows no application: rows, calls and what must hold of the end are handed in. Whatever the faults, every declared
//! invariant holds of the shards together, what a client was told to be done is done once, and readers that audit
//! assertions all the while see no violation.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHasher;
use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::machine::{Durable as _, Shard as _};
use weir_core::termination::Timeouts;
use weir_sql::catalog::TableId;
use weir_txn::exec::definition::Description;
use weir_txn::exec::program::Program;
use weir_txn::faults::{Faults as ShardFaults, NoFaults};
use weir_txn::message::{Call, Callee, Output};
use weir_txn::ramp::{Begin, Coordinator, Event, FetchedRead, Protocol};
use weir_txn::shard::{Node, Record, is_whole};
use weir_txn::storage::view::WholeView;
use weir_txn::storage::{Rows, Storage};
use weir_types::SqlError;
use weir_types::interrupt::Budget;

use crate::Audit;
use crate::chance::Chance;
use crate::claims::{
    LOOK_US, catch_panic, check_clocks, check_dead_are_resolved, check_none_is_refused, dead, finish,
};
use crate::cluster::{Clients, Cluster, Mortal, Starts};
use crate::history::Violation;
use crate::network::Faults;

/// Faults go on for no longer than this.
const SAFETY_US_MAX: u64 = 20_000_000;

/// After that much quiet, shards have forgotten what only readers and coordinators needed.
const QUIET_US: u64 = 14_000_000;

/// An application on that number of shards, with its initial rows.
pub struct Job {
    pub program: Arc<Program>,
    /// By shard: a snapshot of the rows that it starts with.
    pub population: Vec<Record>,
    pub audits: Vec<Audit>,
    pub counted: Vec<Counted>,
    /// The invariants that do not hold, and what violates them.
    pub violated: Violated,
}

/// Says by name which invariants do not hold of all rows, and what violates them.
pub type Violated = Box<dyn Fn(&(dyn Rows + Sync)) -> Vec<(String, String)> + Send + Sync>;

/// A table without deletes, and the procedure that inserts exactly one row into it at each call.
#[derive(Clone, Debug)]
pub struct Counted {
    pub table: TableId,
    pub callees: Vec<Callee>,
}

/// Configuration of one run.
#[derive(Clone, Debug)]
pub struct Setup<F = NoFaults> {
    pub seed: u64,
    /// None: 1 to 4, drawn from the seed.
    pub shards: Option<ShardId>,
    /// None: drawn from the seed.
    pub faults: Option<Faults>,
    /// Number of calls to begin.
    pub calls: usize,
    /// Budget of a read within a step: what exceeds it runs on a worker, which pauses at every row. None: all reads run within their step.
    pub step_budget: Option<Budget>,
    pub bugs: F,
    /// Deliberate bug of the driver: answers leave before what they depend on is durable (S16).
    pub answers_early: bool,
    /// Keep a line for everything that happens.
    pub logged: bool,
}

impl<F: ShardFaults> Setup<F> {
    pub fn new(seed: u64) -> Setup<F> {
        let bugs = F::default();
        // A third of the seeds has long reads.
        let step_budget = seed.is_multiple_of(3).then_some(Budget(0));
        Setup {
            seed,
            shards: None,
            faults: None,
            calls: 120,
            step_budget,
            bugs,
            answers_early: false,
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
    pub failure: Option<Violation>,
    pub committed: usize,
    /// By reason.
    pub aborted: BTreeMap<String, usize>,
    /// Calls with unknown outcome: their coordinator has died.
    pub unknown: usize,
    pub audits: usize,
    pub second_rounds: usize,
    /// Transactions committed, and aborted, by termination; of shards as they are in the end.
    pub terminated: (u64, u64),
    /// Coordinators that have died or were retired.
    pub dead: usize,
    pub restarts: u64,
    /// Reads that workers have run.
    pub long_reads: u64,
    /// The schema of the end, where it may be changed.
    pub schema: Option<Arc<Description>>,
    pub log: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            None => write!(
                f,
                "{} calls committed, {} aborted, {} unknown, {} audits, {:?} committed and aborted by termination, \
                 {} coordinators dead, {} restarts, {} long reads",
                self.committed,
                self.aborted.values().sum::<usize>(),
                self.unknown,
                self.audits,
                self.terminated,
                self.dead,
                self.restarts,
                self.long_reads
            ),
            Some(Violation { claim, seen }) => {
                write!(f, "violated: {claim}: {seen}\nfaults: {:?}", self.faults)
            }
        }
    }
}

type Calls<F> = Cluster<Node<F>, Coordinator>;

impl Mortal for Coordinator {
    fn txn_of(&mut self, tag: u64) -> Option<TxnId> {
        Coordinator::txn_of(self, tag)
    }
}

/// Runs the setup to its end. A panic of a node is a failure like any other. `next_call`: of that session.
pub fn run<F: ShardFaults>(
    job: &Arc<Job>,
    setup: &Setup<F>,
    next_call: &mut dyn FnMut(usize) -> Call,
) -> Report {
    run_script(job, setup, next_call)
}

/// Program of the sessions.
pub trait Script {
    /// Next action of an idle session. `is_last`: it must end its open transaction; none: it has none.
    fn next(&mut self, session: usize, is_last: bool) -> Option<Begin>;
    /// The session has received its answer.
    fn told(&mut self, _session: usize, _result: &Result<Output, SqlError>) {}
    /// The outcome of the session's open transaction, or operation in flight, will never be known.
    fn lost(&mut self, _session: usize) {}
}

impl Script for &mut dyn FnMut(usize) -> Call {
    fn next(&mut self, session: usize, is_last: bool) -> Option<Begin> {
        (!is_last).then(|| Begin::Call(self(session)))
    }
}

/// One run of sessions that do other things than calls.
pub fn run_script<F: ShardFaults>(job: &Arc<Job>, setup: &Setup<F>, mut script: impl Script) -> Report {
    let mut chance = Chance::from_seed(setup.seed);
    let faults = setup.faults.clone().unwrap_or_else(|| Faults::draw(&mut chance));
    let coordinators: CoordinatorId = chance.between(2, 4);
    let sessions = coordinators as usize * chance.between(1, 3) as usize;
    let timeouts = Timeouts { retire_ms: chance.pick(&[2_500, 10_000, 60_000]), ..Timeouts::default() };
    let nodes = (job.program.shards, coordinators);
    let starts = starts(job, (setup.bugs, setup.step_budget), timeouts);
    let mut cluster = Calls::new(starts, nodes, sessions, faults.clone(), setup.seed, setup.logged);
    cluster.answers_early = setup.answers_early;
    let mut clients = Sessions {
        script: &mut script,
        audits: &job.audits,
        in_flight: vec![None; sessions],
        left: setup.calls,
        told: Told::default(),
        violated: None,
    };
    let failure = catch_panic(|| live(job, &mut cluster, &mut clients, timeouts)).err();
    let mut hash = FxHasher::default();
    cluster.hash().hash(&mut hash);
    let tables = (0..job.program.placement.len() as u32).map(TableId);
    for (node, table) in
        cluster.shards.iter().flatten().flat_map(|node| tables.clone().map(move |table| (node, table)))
    {
        node.storage.fingerprint(table).hash(&mut hash);
    }
    let Told { committed, aborted, unknown, audits, second_rounds } = clients.told;
    Report {
        faults,
        hash: hash.finish(),
        failure,
        committed: committed.values().sum(),
        aborted,
        unknown: unknown.values().sum(),
        audits,
        second_rounds,
        terminated: cluster
            .shards
            .iter()
            .flatten()
            .map(Node::terminated_by_asking)
            .fold((0, 0), |(commits, aborts), one| (commits + one.0, aborts + one.1)),
        dead: dead(&cluster).count(),
        restarts: cluster.crashes(),
        long_reads: cluster.worked,
        schema: cluster.shards.iter().flatten().next().and_then(Node::description),
        log: cluster.log().to_owned(),
    }
}

/// A shard that would start again now would be as it is: from its log, and from a snapshot alone.
fn check_recovery<F: ShardFaults>(job: &Job, cluster: &mut Calls<F>) -> Result<(), Violation> {
    let snapshots: Vec<Record> = cluster.shards.iter_mut().flatten().map(Node::snapshot).collect();
    for (shard, snapshot) in cluster.shards.iter().flatten().zip(snapshots) {
        let logs = [cluster.durable_log(shard.id()), Some(vec![snapshot])];
        for log in logs.into_iter().flatten() {
            let log = written_and_read(&log)?;
            let again = start(job, shard.id(), log, NoFaults, Timeouts::default());
            if let Some(lost) = shard.lost_by(&again) {
                let seen = format!("shard {} forgets {lost}", shard.id());
                return Err(Violation { claim: "a shard that starts again is as it was", seen });
            }
        }
    }
    Ok(())
}

/// The records as a disk gives them back.
fn written_and_read(log: &[Record]) -> Result<Vec<Record>, Violation> {
    let bytes = postcard::to_allocvec(log);
    let read = bytes.and_then(|bytes| postcard::from_bytes(&bytes));
    read.map_err(|error| Violation { claim: "records can be written and read", seen: error.to_string() })
}

/// From the records of its log, or for the first time with the rows that it starts with.
fn start<F: ShardFaults>(
    job: &Job,
    shard: ShardId,
    records: Vec<Record>,
    bugs: F,
    timeouts: Timeouts,
) -> Node<F> {
    // A log that begins with a snapshot has everything.
    let has_all = records.first().is_some_and(is_whole);
    let loaded = (!has_all).then(|| job.population[usize::from(shard)].clone());
    Node::recover(shard, job.program.clone(), bugs, timeouts, loaded.into_iter().chain(records))
}

fn starts<F: ShardFaults>(
    job: &Arc<Job>,
    (bugs, step_budget): (F, Option<Budget>),
    timeouts: Timeouts,
) -> Starts<Node<F>, Coordinator> {
    let (program, job) = (job.program.clone(), job.clone());
    Starts {
        shard: Box::new(move |shard, records| {
            let mut node = start(&job, shard, records, bugs, timeouts);
            if let Some(budget) = step_budget {
                node.set_step_budget(budget);
            }
            node
        }),
        coordinator: Box::new(move |id| Coordinator::resending(id, program.clone(), Protocol::RampFast)),
    }
}

/// Both phases, then the checks of the end.
fn live<F: ShardFaults>(
    job: &Job,
    cluster: &mut Calls<F>,
    clients: &mut Sessions<'_>,
    timeouts: Timeouts,
) -> Result<(), Violation> {
    while cluster.now_us() < SAFETY_US_MAX && !(clients.left == 0 && cluster.busy() == 0) {
        cluster.run_until(cluster.now_us() + LOOK_US, clients);
        clients.check()?;
        check_clocks(cluster, Node::last_clock)?;
        check_none_is_refused(cluster)?;
    }
    clients.left = 0;
    check_recovery(job, cluster)?;
    let links_free_us = cluster.calm();
    let look = |cluster: &Calls<F>, clients: &mut Sessions<'_>| {
        clients.check()?;
        check_dead_are_resolved(cluster, links_free_us, timeouts)
    };
    finish(cluster, clients, |_| true, look)?;
    cluster.run_until(cluster.now_us() + QUIET_US, clients);
    clients.check()?;
    check_clocks(cluster, Node::last_clock)?;
    check_none_is_refused(cluster)?;
    check_forgotten(cluster)?;
    check_recovery(job, cluster)?;
    check_end(job, cluster, &clients.told)
}

/// Checks that nothing is kept for readers and coordinators that is not needed.
fn check_forgotten<F: ShardFaults>(cluster: &Calls<F>) -> Result<(), Violation> {
    for shard in cluster.shards.iter().flatten() {
        for (coordinator, one) in cluster.coordinators.iter().enumerate() {
            let left = shard.left_of(coordinator as CoordinatorId);
            if left.prepared + left.committed > 0 || (one.is_some() && left.outcomes > 0) {
                let seen = format!("shard {} has {left:?} of coordinator {coordinator}", shard.id());
                return Err(Violation { claim: "what nobody needs is forgotten", seen });
            }
        }
    }
    Ok(())
}

fn check_end<F: ShardFaults>(job: &Job, cluster: &Calls<F>, told: &Told) -> Result<(), Violation> {
    let nodes: Vec<&Node<F>> = cluster.shards.iter().flatten().collect();
    let replicated: Vec<bool> = job.program.replicated();
    for table in (0..replicated.len() as u32).map(TableId).filter(|table| replicated[table.0 as usize]) {
        let prints: Vec<u64> = nodes.iter().map(|node| node.storage.fingerprint(table)).collect();
        if prints.iter().any(|print| *print != prints[0]) {
            let seen = format!("{}: {prints:?}", job.program.schema.table(table).name);
            return Err(Violation { claim: "copies of a table agree", seen });
        }
    }
    let schema_versions: Vec<u64> = nodes.iter().map(|node| node.schema_version()).collect();
    if schema_versions.iter().any(|schema_version| *schema_version != schema_versions[0]) {
        return Err(Violation { claim: "all shards have one schema", seen: format!("{schema_versions:?}") });
    }
    let storages: Vec<&Storage> = nodes.iter().map(|node| &*node.storage).collect();
    if let Err(seen) = nodes[0].program().check_entries(&storages) {
        return Err(Violation { claim: "every row has its entries, and every entry its row", seen });
    }
    let view = WholeView::new(storages.clone(), replicated);
    if let Some((invariant, row)) = (job.violated)(&view).into_iter().next() {
        return Err(Violation {
            claim: "every invariant holds in the end",
            seen: format!("{invariant}: {row}"),
        });
    }
    let started = population_counts(job);
    for counted in &job.counted {
        let of = |by: &HashMap<Callee, usize>| -> usize {
            counted.callees.iter().filter_map(|callee| by.get(callee)).sum()
        };
        let at = counted.table.0 as usize;
        let added = view.row_count(counted.table) as i64 - started[at] as i64;
        let (least, most) = (of(&told.committed) as i64, (of(&told.committed) + of(&told.unknown)) as i64);
        if !(least..=most).contains(&added) {
            let name = &job.program.schema.table(counted.table).name;
            let seen =
                format!("{added} rows came to {name}; {least} calls were acknowledged, at most {most} done");
            return Err(Violation { claim: "what is acknowledged is done once", seen });
        }
    }
    let keys = nodes[0].program().check_keys(&storages);
    keys.map_err(|seen| Violation { claim: "an index has every row, and a unique one no key twice", seen })
}

/// Rows by table, as the shards start.
fn population_counts(job: &Job) -> Vec<usize> {
    let nodes: Vec<Node> = (0..job.program.shards)
        .map(|shard| start(job, shard, Vec::new(), NoFaults, Timeouts::default()))
        .collect();
    let replicated = job.program.replicated();
    let view = WholeView::new(nodes.iter().map(|node| &*node.storage).collect(), replicated);
    (0..job.program.placement.len() as u32).map(|table| view.row_count(TableId(table))).collect()
}

/// Results received by clients.
#[derive(Debug, Default)]
struct Told {
    committed: HashMap<Callee, usize>,
    unknown: HashMap<Callee, usize>,
    aborted: BTreeMap<String, usize>,
    audits: usize,
    second_rounds: usize,
}

#[derive(Clone, Debug)]
enum InFlight {
    Call {
        callee: Callee,
    },
    /// Something of an open transaction.
    Order,
    Audit(usize),
}

/// Closed loops of calls, with an audit now and then.
struct Sessions<'a> {
    script: &'a mut dyn Script,
    audits: &'a [Audit],
    in_flight: Vec<Option<InFlight>>,
    /// Calls to be begun.
    left: usize,
    told: Told,
    /// First violation that the audits have found.
    violated: Option<String>,
}

impl Sessions<'_> {
    fn note_aborted<T>(&mut self, result: Result<T, SqlError>) {
        if let Err(error) = result {
            *self.told.aborted.entry(format!("{} {}", error.state(), error.message())).or_default() += 1;
        }
    }

    fn check(&mut self) -> Result<(), Violation> {
        match self.violated.take() {
            None => Ok(()),
            Some(seen) => Err(Violation { claim: "every reader sees every invariant hold", seen }),
        }
    }
}

impl Clients<Begin, Event> for Sessions<'_> {
    fn next(&mut self, session: usize, _now_us: u64, chance: &mut Chance) -> Option<Begin> {
        let Some(left) = self.left.checked_sub(1) else {
            let begin = self.script.next(session, true)?;
            self.in_flight[session] = Some(InFlight::Order);
            return Some(begin);
        };
        self.left = left;
        if !self.audits.is_empty() && chance.per_mille(200) {
            let which = chance.below(self.audits.len() as u64) as usize;
            self.in_flight[session] = Some(InFlight::Audit(which));
            let Audit { gather, keys, .. } = &self.audits[which];
            let key = keys[chance.below(keys.len() as u64) as usize].clone();
            return Some(Begin::Read(gather.clone(), key));
        }
        let begin = self.script.next(session, false)?;
        self.in_flight[session] = Some(match &begin {
            Begin::Call(call) => InFlight::Call { callee: call.callee.clone() },
            Begin::Read(..)
            | Begin::Check(..)
            | Begin::Within(..)
            | Begin::Snapshot(..)
            | Begin::Adopt(_) => InFlight::Order,
        });
        Some(begin)
    }

    fn done(&mut self, session: usize, _now_us: u64, event: Event) {
        let what = self.in_flight[session].take().expect("it was begun");
        match (what, event) {
            (InFlight::Order, Event::Answered(result)) => {
                self.script.told(session, &result);
                self.note_aborted(result);
            }
            (InFlight::Order, Event::ReadDone { result, .. }) => {
                let rows = result.and_then(FetchedRead::rows);
                self.script.told(session, &rows.map(|rows| Output { rows, ..Output::default() }));
            }
            (InFlight::Call { callee }, Event::Answered(result)) => {
                self.script.told(session, &result);
                match result {
                    Ok(_) => *self.told.committed.entry(callee).or_default() += 1,
                    aborted => self.note_aborted(aborted),
                }
            }
            (InFlight::Audit(which), Event::ReadDone { result, rounds, .. }) => {
                self.told.audits += 1;
                self.told.second_rounds += usize::from(rounds > 1);
                let saw = match result.and_then(FetchedRead::rows) {
                    Ok(rows) => match rows.first() {
                        Some(row) => format!("{row:?}"),
                        None => return,
                    },
                    Err(error) => error.to_string(),
                };
                self.violated.get_or_insert(format!("{}: {saw}", self.audits[which].name));
            }
            (what, event) => unreachable!("{what:?} was answered {event:?}"),
        }
    }

    fn moved(&mut self, session: usize) {
        // Its open transactions are gone with its coordinator.
        self.script.lost(session);
    }

    fn lost(&mut self, session: usize, _txn: Option<TxnId>) {
        self.script.lost(session);
        if let Some(InFlight::Call { callee }) = self.in_flight[session].take() {
            *self.told.unknown.entry(callee).or_default() += 1;
        }
    }
}
