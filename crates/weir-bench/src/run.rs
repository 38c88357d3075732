//! The main job: load an application on an embedded cluster, run its workload, check every invariant.
//!
//! Knows no application. Clients are closed loops: each has one call under way. A few coordinators carry all
//! of them, so that messages travel in batches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_analysis::Analysis;
use weir_analysis::plan::Plan;
use weir_client::ClusterFile;
use weir_client::carrier::{Carrier, new_id};
use weir_client::export::export;
use weir_core::machine::{Durable, Shard};
use weir_net::handshake::Terms;
use weir_server::embedded::Cluster;
use weir_server::progress::{Listener, Progress};
use weir_server::report::{InvariantReport, Memory, RunReport, Setup};
use weir_sql::Application;
use weir_sql::bound::ExprKind;
use weir_sql::catalog::{ColumnIndex, SequenceId, TableId};
use weir_txn::exec::GeneratedColumns;
use weir_txn::exec::program::{CompileError, Program};
use weir_txn::faults::NoFaults;
use weir_txn::ramp::Protocol;
use weir_txn::shard::Node;
use weir_txn::storage::Storage;
use weir_txn::storage::view::WholeView;
use weir_types::{SqlError, SqlState, Value};

use crate::check::Invariants;
use crate::client::{Audits, Callers, Tally};
use crate::pace::{COORDINATORS, Limit, Pace, share};
use crate::tally;
use crate::workload::Workload;

#[derive(Clone, Debug)]
pub struct RunOptions {
    pub shards: u16,
    /// Calls under way at once.
    pub clients: u32,
    pub limit: Limit,
    pub seed: u64,
    pub protocol: Protocol,
    /// One call in so many is followed by a read-atomic check of an assertion for one row, while the run
    /// goes on; `None`: never.
    pub audit_every: Option<u64>,
    /// Messages may be lost and shards start again: what is not answered is asked again.
    pub resends: bool,
    /// The way in which ad-hoc statements are enabled.
    pub with_texts: fn(Program, &Application, &Plan) -> Program,
    /// A procedure of the mix that the engine refuses is an error before anything is loaded.
    pub refuses: bool,
    /// The run ends early once this is so, and reports what there is.
    pub interrupted: Option<Arc<AtomicBool>>,
}

impl RunOptions {
    /// For an application that is loaded and then driven by something else.
    pub fn new(shards: u16) -> RunOptions {
        RunOptions {
            shards,
            clients: 1,
            limit: Limit::Transactions(0),
            seed: 1,
            protocol: Protocol::RampFast,
            audit_every: None,
            resends: false,
            with_texts: Program::with_texts,
            refuses: false,
            interrupted: None,
        }
    }
}

#[derive(Debug)]
pub enum RunError {
    /// A statement that the executor cannot run, with its place.
    Compile(CompileError),
    /// Procedures of the mix, by number, that the engine refuses whatever their arguments.
    Refused(Vec<(usize, SqlError)>),
    /// Loading or checking failed.
    Sql(String, SqlError),
    /// A cluster cannot be reached, or does not have what it should.
    Network(String),
    /// The initial data violates invariants: nothing was run.
    InitialViolation(Vec<InvariantReport>),
}

impl From<CompileError> for RunError {
    fn from(error: CompileError) -> RunError {
        RunError::Compile(error)
    }
}

/// Time limit for the settlement of a coordinator's transactions, which takes two time-outs of a second each.
const SETTLED_MAX: Duration = Duration::from_secs(10);
/// Time limit for a shard to send all its rows.
const FETCHED_MAX: Duration = Duration::from_secs(60);

/// Number of keys of a table that the audits choose from.
const AUDIT_KEYS_MAX: usize = 4096;

/// An application that is loaded and checked, ready to run once.
pub struct Loaded {
    pub program: Arc<Program>,
    nodes: Vec<Node>,
    invariants: Invariants,
    audit_keys: BTreeMap<TableId, Vec<Vec<Value>>>,
    rows: u64,
    load_seconds: f64,
    options: RunOptions,
}

/// Compiles and loads. `check_initial`: also that every invariant holds before anything runs.
pub fn load(
    application: &Application,
    analysis: &Analysis,
    workload: &Workload,
    options: &RunOptions,
    check_initial: bool,
    listener: &mut Listener<'_>,
) -> Result<Loaded, RunError> {
    let program = Program::compile(application, &analysis.plan, options.shards)?;
    if options.refuses {
        let is_called = |(procedure, _): &(usize, &SqlError)| workload.weights()[*procedure] > 0;
        let refused = program.refused().filter(is_called).map(|(at, error)| (at, error.clone()));
        let refused: Vec<(usize, SqlError)> = refused.collect();
        if !refused.is_empty() {
            return Err(RunError::Refused(refused));
        }
    }
    let program = Arc::new((options.with_texts)(program, application, &analysis.plan));
    let invariants = Invariants::compile(application, analysis, &program)?;
    let begin = Instant::now();
    let audited = invariants.audited();
    let (nodes, loaded) = populate(application, &program, workload, options, &audited, listener)?;
    let load_seconds = begin.elapsed().as_secs_f64();
    let loaded = Loaded {
        program,
        nodes,
        invariants,
        audit_keys: loaded.audit_keys,
        rows: loaded.rows,
        load_seconds,
        options: options.clone(),
    };
    if check_initial {
        let reports = loaded.check(listener)?;
        if reports.iter().any(|report| !report.holds) {
            return Err(RunError::InitialViolation(reports));
        }
    }
    Ok(loaded)
}

/// Only the program and the shards, loaded and unchecked.
pub(crate) fn nodes(
    application: &Application,
    analysis: &Analysis,
    workload: &Workload,
    options: &RunOptions,
    listener: &mut Listener<'_>,
) -> Result<(Arc<Program>, Vec<Node>), RunError> {
    let program = Arc::new(Program::compile(application, &analysis.plan, options.shards)?);
    let audited = BTreeMap::new();
    let (nodes, _) = populate(application, &program, workload, options, &audited, listener)?;
    Ok((program, nodes))
}

/// Makes the shards and puts every row where it belongs.
fn populate(
    application: &Application,
    program: &Arc<Program>,
    workload: &Workload,
    options: &RunOptions,
    audited: &BTreeMap<TableId, Vec<ColumnIndex>>,
    listener: &mut Listener<'_>,
) -> Result<(Vec<Node>, Population), RunError> {
    let mut nodes: Vec<Node> =
        (0..options.shards).map(|shard| Node::new(shard, program.clone(), NoFaults)).collect();
    let mut loaded = Population { rows: 0, audit_keys: BTreeMap::new(), ids: BTreeMap::new() };
    let total = total_rows(workload, options.seed)?;
    listener(Progress::Phase { name: "loading", steps: total });
    for &table in workload.load_order() {
        let name = &application.catalog.table(table).name;
        let place = |error| RunError::Sql(format!("loading {name}"), error);
        let numbered = numbered_columns(application, table);
        let computed = GeneratedColumns::compile(application.catalog.table(table), program);
        let mut computed = computed.map_err(place)?;
        let mut sink = |mut values: Vec<Value>| {
            computed.fill(&mut values)?;
            loaded.note(table, &values, audited.get(&table).map(Vec::as_slice));
            loaded.note_ids(application, &numbered, &values);
            if loaded.rows.is_multiple_of(65_536) {
                listener(Progress::Steps { done: loaded.rows, note: name });
            }
            Node::load_row(&mut nodes, program, table, &values)
        };
        workload.load_rows(options.seed, table, &mut sink).map_err(place)?;
    }
    for (&sequence, &id) in &loaded.ids {
        nodes.iter_mut().for_each(|node| node.go_beyond(sequence, id));
    }
    Ok((nodes, loaded))
}

fn total_rows(workload: &Workload, seed: u64) -> Result<u64, RunError> {
    workload.rows(seed).map_err(|error| RunError::Sql("counting the rows to load".to_string(), error))
}

struct Population {
    rows: u64,
    audit_keys: BTreeMap<TableId, Vec<Vec<Value>>>,
    /// By sequence, the last id in its direction that a loaded row bears.
    ids: BTreeMap<SequenceId, i64>,
}

/// Columns whose default values come from a sequence.
fn numbered_columns(application: &Application, table: TableId) -> Vec<(ColumnIndex, SequenceId)> {
    let columns = application.catalog.table(table).columns.iter().enumerate();
    columns
        .filter_map(|(at, column)| match column.default.as_ref()?.kind {
            ExprKind::NextValue(sequence) => Some((at, sequence)),
            _ => None,
        })
        .collect()
}

impl Population {
    /// New rows must not get ids of loaded ones, which would go unnoticed on another shard.
    fn note_ids(
        &mut self,
        application: &Application,
        numbered: &[(ColumnIndex, SequenceId)],
        values: &[Value],
    ) {
        for &(column, sequence) in numbered {
            let Value::Int(id) = values[column] else { continue };
            let ascends = application.catalog.sequences[sequence.0 as usize].increment > 0;
            let last = self.ids.entry(sequence).or_insert(id);
            *last = if ascends { id.max(*last) } else { id.min(*last) };
        }
    }

    fn note(&mut self, table: TableId, values: &[Value], key: Option<&[usize]>) {
        self.rows += 1;
        let Some(key) = key else { return };
        let keys = self.audit_keys.entry(table).or_default();
        let row = || key.iter().map(|&column| values[column].clone()).collect();
        if keys.len() < AUDIT_KEYS_MAX {
            keys.push(row());
        } else if self.rows.is_multiple_of(61) {
            // A spread over the table is enough; the audits draw from it by chance.
            let at = (self.rows / 61) as usize % AUDIT_KEYS_MAX;
            keys[at] = row();
        }
    }
}

/// Rows by the columns of their keys, for audits to choose from.
pub type AuditKeys = BTreeMap<TableId, Vec<Vec<Value>>>;

impl Loaded {
    /// Shards before the run, and the rows that audits may ask for: for other drivers of the shards.
    pub fn into_snapshots(mut self) -> (Arc<Program>, Vec<weir_txn::shard::Record>, AuditKeys) {
        (self.program, self.nodes.iter_mut().map(Durable::snapshot).collect(), self.audit_keys)
    }

    /// Every invariant, with all shards at rest.
    fn check(&self, listener: &mut Listener<'_>) -> Result<Vec<InvariantReport>, RunError> {
        let replicated = self.program.replicated();
        let storages: Vec<&Storage> = self.nodes.iter().map(|node| &*node.storage).collect();
        let entries = self.program.check_entries(&storages);
        entries.map_err(|wrong| {
            let error = SqlError::new(SqlState::INTERNAL_ERROR, wrong);
            RunError::Sql("checking the entries of unique keys".to_owned(), error)
        })?;
        let view = WholeView::new(storages, replicated);
        self.invariants.check(&view, &self.program, listener)
    }

    /// Runs the workload to its limit on threads of this process, then checks every invariant.
    pub fn run(
        mut self,
        workload: &Arc<Workload>,
        listener: &mut Listener<'_>,
    ) -> Result<RunReport, RunError> {
        let pace = Arc::new(Pace::new(self.options.limit).interrupted_by(self.options.interrupted.clone()));
        let audits = self.audits();
        let clients = (0..COORDINATORS).map(|id| {
            let clients = share(u64::from(self.options.clients), id);
            Callers::new(id, &self.program, &self.options, workload, audits.clone(), pace.clone(), clients)
        });
        let clients = clients.collect();
        let cluster = Cluster::start(std::mem::take(&mut self.nodes), clients);
        pace.watch(listener, || cluster.is_finished());
        let (nodes, clients) = cluster.join();
        let seconds = pace.begun.elapsed().as_secs_f64();
        self.nodes = nodes;
        self.report(workload, clients, seconds, listener)
    }

    /// Runs the workload on a cluster that carries this application; then fetches its shards and checks every
    /// invariant on what they have.
    pub fn run_at(
        mut self,
        cluster: &ClusterFile,
        terms: &Terms,
        workload: &Arc<Workload>,
        listener: &mut Listener<'_>,
    ) -> Result<RunReport, RunError> {
        let unreachable = |error: std::io::Error| RunError::Network(error.to_string());
        // Unreachable nodes are reported now.
        self.nodes = self.fetch(cluster, terms)?;
        let pace = Arc::new(Pace::new(self.options.limit).interrupted_by(self.options.interrupted.clone()));
        let clients = 0..u64::from(self.options.clients);
        let id = new_id().map_err(unreachable)?;
        let options = RunOptions { resends: true, ..self.options.clone() };
        let audits = self.audits();
        let callers = Callers::new(id, &self.program, &options, workload, audits, pace.clone(), clients);
        let carrier = Carrier::<Node, Callers>::with_terms(cluster.clone(), terms.clone(), callers);
        let carrier = carrier.map_err(unreachable)?;
        let carried = std::thread::spawn(move || carrier.run());
        pace.watch(listener, || carried.is_finished());
        let callers = carried.join().expect("an assertion failed; see above");
        let seconds = pace.begun.elapsed().as_secs_f64();
        // Shards settle among themselves what the coordinator has left.
        let settled = Instant::now() + SETTLED_MAX;
        self.nodes = loop {
            let nodes = self.fetch(cluster, terms)?;
            if nodes.iter().all(Node::is_idle) || Instant::now() > settled {
                break nodes;
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        self.report(workload, vec![callers], seconds, listener)
    }

    /// The shards of a cluster, as they stand.
    fn fetch(&self, cluster: &ClusterFile, terms: &Terms) -> Result<Vec<Node>, RunError> {
        let fetch = |shard| {
            let record = export(cluster, terms, shard, FETCHED_MAX)
                .map_err(|error| RunError::Network(error.to_string()))?;
            Ok(Node::recover(shard, self.program.clone(), NoFaults, Default::default(), [record]))
        };
        (0..self.options.shards).map(fetch).collect()
    }

    fn audits(&mut self) -> Arc<Audits> {
        Arc::new(Audits {
            assertions: self.invariants.take_audits(),
            keys: std::mem::take(&mut self.audit_keys),
            every: self.options.audit_every,
        })
    }

    fn report(
        self,
        workload: &Arc<Workload>,
        clients: Vec<Callers>,
        seconds: f64,
        listener: &mut Listener<'_>,
    ) -> Result<RunReport, RunError> {
        let options = &self.options;
        let tallies: Vec<Tally> = clients.into_iter().map(Callers::into_tally).collect();
        let invariants = self.check(listener)?;
        let mut report = tally::report(&self.program, tallies, seconds);
        report.invariants = self.invariants.with_audits(invariants, std::mem::take(&mut report.invariants));
        report.converged = self.converged();
        report.setup = Setup {
            protocol: options.protocol.name().to_string(),
            shards: usize::from(options.shards),
            clients: options.clients as usize,
            seed: options.seed,
            parameters: workload
                .settings()
                .iter()
                .map(|(name, value)| (name.clone(), setting(value)))
                .collect(),
            rows_loaded: self.rows,
            load_seconds: self.load_seconds,
        };
        report.memory = Some(self.memory());
        report.interrupted = options.interrupted.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
        Ok(report)
    }

    /// Nothing is half done, and copies of replicated tables are the same everywhere.
    fn converged(&self) -> bool {
        let same = |table: usize| {
            let mut prints = self.nodes.iter().map(|node| node.storage.fingerprint(TableId(table as u32)));
            let first = prints.next();
            prints.all(|print| Some(print) == first)
        };
        let copied = |table: &usize| self.program.placement[*table].columns().is_none();
        self.nodes.iter().all(Node::is_idle) && (0..self.program.placement.len()).filter(copied).all(same)
    }

    fn memory(&self) -> Memory {
        let partitioned = (0..self.program.placement.len())
            .filter(|&table| self.program.placement[table].columns().is_some());
        let mut raw = 0;
        let mut stored = 0;
        for table in partitioned.map(|table| TableId(table as u32)) {
            for node in &self.nodes {
                stored += node.storage.memory_bytes(table) as u64;
                raw += node.storage.raw_bytes(table) as u64;
            }
        }
        Memory { raw_row_bytes: raw, stored_bytes: stored, resident_bytes: resident_bytes() }
    }
}

fn setting(value: &str) -> serde_json::Value {
    serde_json::from_str(value).unwrap_or_else(|_| serde_json::Value::String(value.to_string()))
}

/// The process's resident set, where the system tells it.
fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE_BYTES
}
