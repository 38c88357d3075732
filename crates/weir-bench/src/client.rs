//! Clients of one coordinator: closed loops of calls, and audits between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use hdrhistogram::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_core::ids::CoordinatorId;
use weir_core::machine::{Clients, Coordinator as _, Orders};
use weir_net::clock::{now_ms, transaction_time};
use weir_sql::catalog::TableId;
use weir_txn::exec::gather::Gather;
use weir_txn::exec::program::Program;
use weir_txn::message::{Call, Callee, Request};
use weir_txn::ramp::{Begin, Coordinator, Event, FetchedRead, Protocol};
use weir_txn::shard::Node;
use weir_types::memory::WorkingMemory;
use weir_types::{SqlError, Value};

use crate::pace::{Pace, latencies, note_latency};
use crate::run::RunOptions;
use crate::tally::{REASONS_MAX, reason};
use crate::workload::{CallGenerator, Workload};

/// Assertions that are checked for single rows while the workload runs.
pub struct Audits {
    /// Name, table, and the query for the row that violates it.
    pub assertions: Vec<(String, TableId, Arc<Gather>)>,
    pub keys: BTreeMap<TableId, Vec<Vec<Value>>>,
    pub every: Option<u64>,
}

/// Measurements of the clients of one coordinator.
pub struct Tally {
    pub by_procedure: Vec<ProcedureTally>,
    /// By second of the run: committed calls by procedure, and aborted ones.
    pub seconds: Vec<(Vec<u64>, u64)>,
    /// Assertions that a concurrent reader saw violated, with the key of the first such row.
    pub audit_violations: BTreeMap<String, String>,
    pub audits: u64,
}

pub struct ProcedureTally {
    pub committed: u64,
    pub aborted: BTreeMap<String, u64>,
    /// Nanoseconds of the committed calls.
    pub latency: Histogram<u64>,
}

pub struct Callers {
    coordinator: Coordinator,
    generators: Vec<Client>,
    audits: Arc<Audits>,
    pace: Arc<Pace>,
    chance: Xoshiro256PlusPlus,
    tally: Tally,
    procedures: usize,
    /// Calls still to be answered before the next audit.
    until_audit: u64,
    /// Assertion and row of the audit in progress.
    audit: Option<(usize, Vec<Value>)>,
    /// Answers of the current turn; kept for its allocation.
    finished: Vec<(u64, Event)>,
    /// System clock, read once a batch.
    now_ms: u64,
    /// Assertions whose audits need too many rows: they are only checked at rest.
    too_large: BTreeSet<usize>,
}

struct Client {
    generator: CallGenerator,
    procedure: usize,
    begun: Instant,
    busy: bool,
}

/// An assertion whose check for one row fetches more than this is not audited again.
const AUDIT_ROWS_MAX: usize = 1_000;

/// Audits look at no more rows than this per call of the workload, so that an assertion without an index
/// is audited more rarely instead of slowing the run down.
const AUDIT_ROWS_PER_CALL: u64 = 4;

/// The tag of reads; calls have their client's number.
const AUDIT: u64 = u64::MAX;

impl Clients<Node> for Callers {
    type Coordinator = Coordinator;

    fn coordinator(&mut self) -> &mut Coordinator {
        &mut self.coordinator
    }

    fn begin(&mut self, orders: &mut Orders<Request, Event>) {
        self.now_ms = now_ms();
        let now = Instant::now();
        for client in 0..self.generators.len() {
            self.begin_call(client, now, orders);
        }
    }

    fn go_on(&mut self, orders: &mut Orders<Request, Event>) {
        self.now_ms = now_ms();
        let now = Instant::now();
        let mut finished = std::mem::take(&mut self.finished);
        std::mem::swap(&mut orders.done, &mut finished);
        for (tag, event) in finished.drain(..) {
            self.on_event(tag, event, now, orders);
        }
        self.finished = finished;
    }
}

impl Callers {
    pub fn new(
        id: CoordinatorId,
        program: &Arc<Program>,
        options: &RunOptions,
        workload: &Arc<Workload>,
        audits: Arc<Audits>,
        pace: Arc<Pace>,
        clients: std::ops::Range<u64>,
    ) -> Callers {
        let protocol: Protocol = options.protocol;
        let procedures = program.procedures.len();
        let tally = || ProcedureTally { committed: 0, aborted: BTreeMap::new(), latency: latencies() };
        Callers {
            coordinator: match options.resends {
                true => Coordinator::resending(id, program.clone(), protocol),
                false => Coordinator::new(id, program.clone(), protocol),
            },
            generators: clients
                .map(|client| {
                    let generator = CallGenerator::new(workload, options.seed, client);
                    Client { generator, procedure: 0, begun: pace.begun, busy: false }
                })
                .collect(),
            audits,
            pace,
            chance: Xoshiro256PlusPlus::seed_from_u64(options.seed ^ (id << 32)),
            tally: Tally {
                by_procedure: (0..procedures).map(|_| tally()).collect(),
                seconds: Vec::new(),
                audit_violations: BTreeMap::new(),
                audits: 0,
            },
            procedures,
            until_audit: 0,
            audit: None,
            finished: Vec::new(),
            now_ms: 0,
            too_large: BTreeSet::new(),
        }
    }

    /// Measurements of its clients.
    pub fn into_tally(self) -> Tally {
        self.tally
    }

    fn begin_call(&mut self, client: usize, now: Instant, orders: &mut Orders<Request, Event>) {
        let one = &mut self.generators[client];
        one.busy = self.pace.may_begin();
        if !one.busy {
            return;
        }
        match one.generator.next_call() {
            Ok(call) => {
                one.procedure = call.procedure;
                one.begun = now;
                let call = Call {
                    callee: Callee::Procedure(call.procedure),
                    args: call.args,
                    transaction_time: transaction_time(self.now_ms),
                    schema_version: 0,
                    memory: WorkingMemory::default(),
                };
                self.coordinator.begin(self.now_ms, client as u64, Begin::Call(call), orders);
            }
            Err(error) => {
                one.busy = false;
                self.note_abort(0, &error);
            }
        }
    }

    fn on_event(&mut self, tag: u64, event: Event, now: Instant, orders: &mut Orders<Request, Event>) {
        match event {
            Event::Answered(result) => {
                let client = tag as usize;
                let (procedure, begun) = (self.generators[client].procedure, self.generators[client].begun);
                let procedures = self.procedures;
                let second = now.duration_since(self.pace.begun).as_secs() as usize;
                if self.tally.seconds.len() <= second {
                    self.tally.seconds.resize_with(second + 1, || (vec![0; procedures], 0));
                }
                match result {
                    Ok(_) => {
                        let tally = &mut self.tally.by_procedure[procedure];
                        tally.committed += 1;
                        note_latency(&mut tally.latency, begun, now);
                        self.tally.seconds[second].0[procedure] += 1;
                    }
                    Err(error) => {
                        self.tally.seconds[second].1 += 1;
                        self.note_abort(procedure, &error);
                    }
                }
                self.pace.note_answered(1);
                self.begin_call(client, now, orders);
                self.maybe_audit(orders);
            }
            Event::ReadDone { result, fetched, examined, .. } => {
                self.on_audit(result.and_then(FetchedRead::rows), fetched, examined);
            }
        }
    }

    fn note_abort(&mut self, procedure: usize, error: &SqlError) {
        let aborted = &mut self.tally.by_procedure[procedure].aborted;
        let mut reason = reason(&error.state().to_string(), error.message());
        if aborted.len() >= REASONS_MAX && !aborted.contains_key(&reason) {
            reason = format!("{} with other messages", error.state());
        }
        *aborted.entry(reason).or_default() += 1;
    }

    fn maybe_audit(&mut self, orders: &mut Orders<Request, Event>) {
        let Some(every) = self.audits.every else { return };
        self.until_audit = self.until_audit.saturating_sub(1);
        let stopping = !self.generators.iter().any(|client| client.busy);
        let exhausted = self.too_large.len() == self.audits.assertions.len();
        if self.until_audit > 0
            || exhausted
            || self.audit.is_some()
            || self.audits.assertions.is_empty()
            || stopping
        {
            return;
        }
        self.until_audit = every;
        let which = self.chance.next_u64() as usize % self.audits.assertions.len();
        if self.too_large.contains(&which) {
            return;
        }
        let (_, table, gather) = &self.audits.assertions[which];
        let Some(keys) = self.audits.keys.get(table).filter(|keys| !keys.is_empty()) else { return };
        let key = keys[self.chance.next_u64() as usize % keys.len()].clone();
        self.audit = Some((which, key.clone()));
        let read = Begin::Read(gather.clone(), key);
        self.coordinator.begin(self.now_ms, AUDIT, read, orders);
    }

    fn on_audit(&mut self, result: Result<Vec<Vec<Value>>, SqlError>, fetched: usize, examined: usize) {
        let (which, key) = self.audit.take().expect("an audit is under way");
        if fetched > AUDIT_ROWS_MAX {
            self.too_large.insert(which);
        }
        self.until_audit = self.until_audit.max(examined as u64 / AUDIT_ROWS_PER_CALL);
        self.tally.audits += 1;
        let name = &self.audits.assertions[which].0;
        let said = match result {
            Ok(rows) => match rows.first() {
                Some(row) => format!("a concurrent reader saw it violated for key {key:?}: {row:?}"),
                None => return,
            },
            Err(error) => format!("a concurrent reader failed for key {key:?}: {error}"),
        };
        self.tally.audit_violations.entry(name.clone()).or_insert(said);
    }
}
