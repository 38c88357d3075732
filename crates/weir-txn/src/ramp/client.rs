//! A coordinator: many concurrent transactions and reads, each a small state machine, over ordered links to the shards.
//!
//! Tracks what shards need from it: the sequence below which all its transactions are settled, and the drain epoch up to which its reads
//! have ended (S10).

mod alone;
mod at_snapshot;
mod calls;
mod fetched;
mod in_order;
mod interactive_call;
mod look_up;
#[cfg(test)]
mod tests;
mod within;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_sql::is_block;
use weir_types::datetime::SessionZone;
use weir_types::interrupt::{Interrupts, StatementId};
use weir_types::{SqlError, Value};

use super::coordinator::{Action, Transaction, gave_up};
use super::interactive::{Interactive, deadlock};
use super::ordered_call::OrderedCall;
use super::reader::{Read, ReadAction, Within};
use super::trace::{Trace, Traces};
use super::waits::Waits;
use crate::exec::call::needs_interactive_call;
use crate::exec::gather::{Fetched, Gather};
use crate::exec::program::Program;
use crate::message::{
    AdvisoryKey, Age, Attempt, BY_KEY_MAX, Call, Callee, Definition, Output, Progress, Reply, Request,
    Setting, schema_has_changed,
};
pub use at_snapshot::OfSnapshot;
use at_snapshot::Snapshot;
pub use fetched::FetchedRead;
use interactive_call::InteractiveCall;
use look_up::{Asks, next_of_look_up};
use weir_core::clock::transaction_time;
use weir_core::flights::{Drains, Flights};
use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::machine::{self, Orders, Sent};

/// Number of withdrawals at guards after which a transaction without pauses gives up (40001). A transaction that pauses between attempts
/// is bounded by its client's time-out instead.
const RETRIES_MAX: u32 = 10_000;

/// Commit protocol of transactions over several shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Guarded RAMP-Fast.
    RampFast,
    /// No prepare and no atomic visibility (the paper's NWNR), on the same code.
    None,
}

impl Protocol {
    pub fn by_name(name: &str) -> Option<Protocol> {
        match name {
            "ramp-fast" => Some(Protocol::RampFast),
            "none" => Some(Protocol::None),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Protocol::RampFast => "ramp-fast",
            Protocol::None => "none",
        }
    }
}

/// An operation that a client begins.
#[derive(Debug)]
pub enum Begin {
    Call(Call),
    /// The query for these values.
    Read(Arc<Gather>, Vec<Value>),
    /// The same read, sent to every shard, so that each confirms the schema version that the query is bound to.
    Check(Arc<Gather>, Vec<Value>),
    /// Adopts the program of a changed schema for all that is begun later.
    Adopt(Arc<Program>),
    /// An order for the open transaction of that name; the first order begins the transaction. After a failed statement only its end is
    /// accepted.
    Within(u64, Order),
    /// An order for the snapshot of that name.
    Snapshot(u64, OfSnapshot),
}

/// An order for an open transaction.
#[derive(Debug)]
pub enum Order {
    Call(Call),
    Read(Arc<Gather>, Vec<Value>),
    /// A query that takes interval locks of what it reads, as every query of a serializable transaction does.
    LockingRead(Arc<Gather>, Vec<Value>),
    /// Keeps out all other writers to the end of the transaction.
    Exclude,
    /// Sets the lock time-out of its statements in milliseconds; none: no limit.
    LockTimeout(Option<u64>),
    /// Sets whether it is serializable, before its first statement.
    Serializable(bool),
    /// Defines a savepoint.
    Savepoint,
    /// Releases all savepoints but the first `usize`.
    Release(usize),
    /// Rolls back to the savepoint at that position, which remains defined.
    RollBackTo(usize),
    /// Changes the schema after the earlier statements. Carries the program of the new schema version, and the time zone of the session.
    Define(Arc<Definition>, Arc<Program>, SessionZone),
    /// Builds the index that the definition adds, while others write, before the definition; nothing, if it adds none by itself.
    Build(Arc<Definition>),
    /// Takes an advisory lock until the end of the transaction; without `waits` it may fail to get it.
    AdvisoryLock {
        key: AdvisoryKey,
        waits: bool,
    },
    /// Asks that shard for the state of its sequences.
    Sequences(ShardId),
    /// SET CONSTRAINTS.
    Constraints(Setting),
    Commit,
    RollBack,
}

/// A result that the client is notified of.
#[derive(Debug)]
pub enum Event {
    /// A call has its answer.
    Answered(Result<Output, SqlError>),
    /// A read has ended at the shards: what they have sent, and the number of rows fetched and examined for it.
    ReadDone { result: Result<FetchedRead, SqlError>, rounds: u32, fetched: usize, examined: usize },
}

/// A coordinator of SQL calls and reads.
pub struct Coordinator {
    id: CoordinatorId,
    program: Arc<Program>,
    protocol: Protocol,
    /// Requests are sent again until answered: messages may be lost, and shards may restart.
    resends: bool,
    flights: Flights<Flight>,
    /// Sessions under which this reader is registered, by shard.
    sessions: Vec<u64>,
    is_retired: bool,
    /// Sequences of reads in order; the first belongs to an active read that may ask shards for states.
    reads: VecDeque<u64>,
    drains: Drains,
    /// Sequences of open transactions, by name.
    open: BTreeMap<u64, u64>,
    /// Snapshots that have been taken, by name.
    snapshots: BTreeMap<u64, Snapshot>,
    waits: Waits,
    /// Interactive calls, by tag.
    interactive: BTreeMap<u64, InteractiveCall>,
    /// Calls that have withdrawn several times, each with the time at which it begins anew.
    resting: Vec<(u64, Resting)>,
    actions: Vec<Action>,
    read_actions: Vec<ReadAction>,
    traces: Traces,
    /// Interrupts for statements that this coordinator evaluates itself, by tag.
    interrupts: Arc<Interrupts>,
}

enum Flight {
    Transaction {
        tag: u64,
        machine: Transaction,
        age: Age,
        call: Option<Call>,
        retries: u32,
        sent: Sent,
        /// The transaction that it waits for at its shard, and since when.
        waits: Option<(TxnId, u64)>,
    },
    Read {
        tag: u64,
        machine: Read,
        gather: Arc<Gather>,
        values: Vec<Value>,
        within: Option<Within>,
        asks: Asks,
        /// Program of the schema version that the read is bound to.
        program: Arc<Program>,
        sent: Sent,
    },
    /// A snapshot is being taken.
    Snapshot { tag: u64, name: u64, machine: Read, program: Arc<Program>, sent: Sent },
    /// `tag` of the statement in progress.
    Open {
        tag: u64,
        name: u64,
        machine: Interactive,
        /// Programs of the schema versions that the transaction itself has made.
        programs: Vec<Arc<Program>>,
        /// The query that follows the statement in progress, which takes the locks for it.
        next: Option<(Arc<Gather>, Vec<Value>)>,
        entrance: Entrance,
        sent: Sent,
    },
    /// An ordered call.
    Ordered {
        tag: u64,
        machine: OrderedCall,
        /// Program of the schema version that it is bound to.
        program: Arc<Program>,
        /// Taken when it begins again as an interactive call.
        call: Option<Call>,
        attempt: (Age, u32),
        sent: Sent,
    },
    /// A call that may derive writes for other shards: a transaction of one statement.
    Alone {
        tag: u64,
        machine: Interactive,
        age: Age,
        /// Taken when it begins again.
        call: Option<Call>,
        retries: u32,
        sent: Sent,
    },
}

/// Whether an open transaction has a place in the order of ordered calls.
#[derive(Debug, Default)]
enum Entrance {
    #[default]
    Outside,
    /// It asks for its place; the order that follows.
    Enters(Box<Order>),
    Inside,
}

type EndedRead = (u64, Read, Arc<Gather>, Vec<Value>, Option<Within>, Arc<Program>, Asks);

/// Statement id of the coordinator's own evaluation for `tag`.
pub fn own_statement(tag: u64) -> StatementId {
    (0, tag, 0)
}

/// Returns whether the call is kept, and is of a procedure or a block.
fn is_procedure(call: Option<&Call>) -> bool {
    call.is_some_and(|call| match &call.callee {
        Callee::Procedure(_) => true,
        Callee::Text(text) => is_block(&text.sql),
        _ => false,
    })
}

/// A call that is begun again after a pause.
#[derive(Debug)]
struct Resting {
    tag: u64,
    call: Call,
    age: Age,
    retries: u32,
    /// When it has withdrawn.
    since_ms: u64,
}

/// Number of attempts without a pause for a call that meets a guard; later attempts pause, so that the holder can proceed.
const RETRIES_AT_ONCE: u32 = 8;

/// Shortest and longest pause.
const PAUSE_MS: [u64; 2] = [2, 64];

impl Coordinator {
    /// A coordinator for lossless links to shards that never restart.
    pub fn new(id: CoordinatorId, program: Arc<Program>, protocol: Protocol) -> Coordinator {
        Coordinator {
            id,
            sessions: vec![0; usize::from(program.shards)],
            program,
            protocol,
            resends: false,
            flights: Flights::from(0),
            is_retired: false,
            reads: VecDeque::new(),
            drains: Drains::default(),
            open: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            waits: Waits::default(),
            interactive: BTreeMap::new(),
            resting: Vec::new(),
            actions: Vec::new(),
            read_actions: Vec::new(),
            traces: Traces::default(),
            interrupts: Arc::default(),
        }
    }

    /// Sets the interrupts for statements that the coordinator evaluates itself, each named by [`own_statement`].
    pub fn interrupted_by(self, interrupts: Arc<Interrupts>) -> Coordinator {
        Coordinator { interrupts, ..self }
    }

    /// Records a [`trace`](super::trace) of the operation that is begun next under `tag`.
    pub fn trace(&mut self, tag: u64) {
        self.traces.begin(tag);
    }

    /// Statements that wait for a transaction, by tag; for each the name of that one, if it is an open one of this coordinator, and the
    /// time since when.
    pub fn waits(&mut self) -> Vec<(u64, Option<u64>, u64)> {
        let open: Vec<(TxnId, TxnId, u64)> = self.waits.all().collect();
        let call = |(_, flight): (u64, &mut Flight)| match flight {
            Flight::Transaction { tag, waits: Some((holder, since_ms)), .. } => {
                Some((*tag, *holder, *since_ms))
            }
            _ => None,
        };
        let mut all: Vec<(u64, TxnId, u64)> = self.flights.iter_mut().filter_map(call).collect();
        for (txn, holder, since_ms) in open {
            if let Some(Flight::Open { tag, .. } | Flight::Alone { tag, .. }) =
                self.flights.get_mut(txn.sequence)
            {
                all.push((*tag, holder, since_ms));
            }
        }
        let mut name = |txn: TxnId| match self.flights.get_mut(txn.sequence) {
            Some(Flight::Open { name, .. }) if txn.coordinator == self.id => Some(*name),
            _ => None,
        };
        let waiting = all.into_iter().map(|(tag, holder, since_ms)| (tag, name(holder), since_ms));
        // Calls over several shards withdraw instead, and are not told for whom.
        let resting = self.resting.iter().map(|(_, one)| (one.tag, None, one.since_ms));
        waiting.chain(resting).collect()
    }

    pub fn take_trace(&mut self, tag: u64) -> Option<Trace> {
        self.traces.take(tag)
    }

    /// A coordinator for lossy links and shards that restart: unanswered requests are sent again by [`machine::Coordinator::on_timer`].
    pub fn resending(id: CoordinatorId, program: Arc<Program>, protocol: Protocol) -> Coordinator {
        Coordinator { resends: true, ..Coordinator::new(id, program, protocol) }
    }

    /// Adopts a changed schema for all that is begun later. Operations in flight end under the schema version that they began with, or
    /// fail because it is gone.
    fn adopt(&mut self, program: Arc<Program>) {
        assert_eq!(program.shards, self.program.shards, "the shards of a cluster do not change");
        self.program = program;
    }

    /// Program of that schema version, which the open transaction may have made itself.
    fn program_of(&mut self, schema_version: u64, open: Option<u64>) -> Option<Arc<Program>> {
        if schema_version == self.program.schema_version {
            return Some(self.program.clone());
        }
        match self.flights.get_mut(open?) {
            Some(Flight::Open { programs, .. }) => {
                programs.iter().find(|program| program.schema_version == schema_version).cloned()
            }
            _ => None,
        }
    }

    /// Id of the unanswered call that was begun under `tag`.
    pub fn txn_of(&mut self, tag: u64) -> Option<TxnId> {
        self.flights.iter_mut().find_map(|(_, flight)| match flight {
            Flight::Transaction { tag: of, machine, .. } if *of == tag && machine.is_unanswered() => {
                Some(machine.txn())
            }
            Flight::Alone { tag: of, machine, .. } if *of == tag && machine.is_unanswered() => {
                Some(machine.txn())
            }
            Flight::Ordered { tag: of, machine, .. } if *of == tag && machine.is_unanswered() => {
                Some(machine.txn())
            }
            _ => None,
        })
    }

    fn machine_of(&mut self, tag: u64) -> Option<&mut Transaction> {
        self.flights.iter_mut().find_map(|(_, flight)| match flight {
            Flight::Transaction { tag: of, machine, .. } if *of == tag && machine.is_unanswered() => {
                Some(machine)
            }
            _ => None,
        })
    }

    /// Shards whose answers the operation under `tag` waits for; none: unknown.
    pub fn awaited(&mut self, tag: u64) -> Option<Vec<ShardId>> {
        if self.resting.iter().any(|(_, resting)| resting.tag == tag) {
            return Some(Vec::new());
        }
        self.flights.iter_mut().find_map(|(_, flight)| match flight {
            Flight::Transaction { tag: of, machine, .. } if *of == tag && machine.is_unanswered() => {
                Some(machine.awaited())
            }
            Flight::Open { tag: of, machine, .. } if *of == tag && machine.works() => Some(machine.awaited()),
            Flight::Alone { tag: of, machine, .. } if *of == tag && machine.is_unanswered() => {
                Some(machine.awaited())
            }
            Flight::Ordered { tag: of, machine, .. } if *of == tag && machine.is_unanswered() => {
                Some(machine.awaited())
            }
            _ => None,
        })
    }

    /// Abandons the operation under `tag`. Returns true if it certainly has no effect; otherwise it may still commit.
    pub fn give_up(&mut self, now_ms: u64, tag: u64, out: &mut Orders<Request, Event>) -> bool {
        if let Some(at) = self.resting.iter().position(|(_, resting)| resting.tag == tag) {
            self.resting.remove(at);
            return true;
        }
        if let Some(is_over) = self.give_up_interactive(now_ms, tag, out) {
            return is_over;
        }
        if let Some(ordered) = self.ordered_of(tag) {
            ordered.give_up();
            return false;
        }
        let of = |flight: &Flight| match flight {
            Flight::Open { tag: of, .. } => *of == tag,
            Flight::Alone { tag: of, machine, .. } => *of == tag && machine.is_unanswered(),
            _ => false,
        };
        let open = self.flights.iter_mut().find(|(_, flight)| of(flight)).map(|(sequence, _)| sequence);
        if let Some(sequence) = open
            && let Some(Flight::Open { machine, .. } | Flight::Alone { machine, .. }) =
                self.flights.get_mut(sequence)
        {
            let is_over = machine.give_up(&mut self.actions);
            self.perform_open(now_ms, sequence, out);
            return is_over;
        }
        let mut actions = Vec::new();
        let Some(machine) = self.machine_of(tag) else { return false };
        let (sequence, is_over) = (machine.txn().sequence, machine.give_up(&mut actions));
        self.actions = actions;
        self.perform(now_ms, sequence, out);
        is_over
    }

    /// Cancels the operation under `tag`. If it then has no effect, the client receives `error`.
    pub fn cancel(&mut self, now_ms: u64, tag: u64, error: SqlError, out: &mut Orders<Request, Event>) {
        let from = out.done.len();
        if !self.cancel_paused(now_ms, tag, &error, out) {
            self.cancel_one(now_ms, tag, error, out);
        }
        self.go_on(now_ms, from, out);
    }

    /// Cancels what is in flight under `tag`, which may be a statement of an interactive call.
    fn cancel_one(&mut self, now_ms: u64, tag: u64, error: SqlError, out: &mut Orders<Request, Event>) {
        if let Some(at) = self.resting.iter().position(|(_, resting)| resting.tag == tag) {
            self.resting.remove(at);
            return out.done.push((tag, Event::Answered(Err(error))));
        }
        if self.cancel_ordered(tag, &error, out) {
            return;
        }
        let is_meant = |flight: &Flight| match flight {
            Flight::Transaction { tag: of, machine, .. } => *of == tag && machine.is_unanswered(),
            Flight::Alone { tag: of, machine, .. } => *of == tag && machine.is_unanswered(),
            Flight::Read { tag: of, .. }
            | Flight::Open { tag: of, .. }
            | Flight::Snapshot { tag: of, .. } => *of == tag,
            Flight::Ordered { .. } => false,
        };
        let meant: Vec<u64> = self
            .flights
            .iter_mut()
            .filter(|(_, flight)| is_meant(flight))
            .map(|(sequence, _)| sequence)
            .collect();
        for sequence in meant {
            match self.flights.get_mut(sequence) {
                Some(Flight::Transaction { machine, .. }) => {
                    let TxnId { coordinator, sequence: of } = machine.txn();
                    out.interrupts.push(((coordinator, of, 0), error.clone()));
                    machine.cancel(error.clone(), &mut self.actions);
                    self.perform(now_ms, sequence, out);
                }
                Some(Flight::Open { machine, .. }) => {
                    // Otherwise it ends, and its last statement is over.
                    if machine.works() {
                        out.interrupts.push((machine.statement_id(), error.clone()));
                    }
                    machine.interrupt(error.clone(), &mut self.actions);
                    self.perform_open(now_ms, sequence, out);
                }
                Some(Flight::Alone { machine, .. }) => {
                    if machine.works() {
                        out.interrupts.push((machine.statement_id(), error.clone()));
                    }
                    machine.cancel(error.clone(), &mut self.actions);
                    self.perform_open(now_ms, sequence, out);
                }
                Some(Flight::Read { .. }) => {
                    out.interrupts.push(((self.id, sequence, 0), error.clone()));
                    self.give_up_read(sequence, &error, out);
                }
                Some(Flight::Snapshot { .. }) => {
                    out.interrupts.push(((self.id, sequence, 0), error.clone()));
                    self.give_up_snapshot(sequence, &error, out);
                }
                Some(Flight::Ordered { .. }) | None => {}
            }
        }
    }

    /// Begins a read of the query with these values; its answer is reported under `tag`.
    fn begin_read(
        &mut self,
        now_ms: u64,
        tag: u64,
        gather: Arc<Gather>,
        values: Vec<Value>,
        out: &mut Orders<Request, Event>,
    ) {
        self.begin_read_within(now_ms, tag, (gather, values, None), out);
    }

    fn begin_read_within(
        &mut self,
        now_ms: u64,
        tag: u64,
        read: (Arc<Gather>, Vec<Value>, Option<Within>),
        out: &mut Orders<Request, Event>,
    ) {
        // Contents of the system catalog depend on the schema version alone.
        if read.0.reads_schema() {
            return self.begin_read_of(now_ms, tag, read, Asks::All, out);
        }
        // Uncommitted entries and rows of the transaction are found at all shards where it has worked.
        let is_outside = read.2.as_ref().is_none_or(|(_, open)| open.is_empty());
        match is_outside {
            true => self.begin_look_up(now_ms, tag, read, out),
            false => self.begin_read_of(now_ms, tag, read, Asks::Rows, out),
        }
    }

    fn begin_read_of(
        &mut self,
        now_ms: u64,
        tag: u64,
        (gather, values, within): (Arc<Gather>, Vec<Value>, Option<Within>),
        asks: Asks,
        out: &mut Orders<Request, Event>,
    ) {
        let open = within.as_ref().map(|(txn, _)| txn.sequence);
        let Some(program) = self.program_of(gather.schema_version, open) else {
            let result = Err(schema_has_changed());
            return out.done.push((tag, Event::ReadDone { result, rounds: 0, fetched: 0, examined: 0 }));
        };
        let sequence = self.flights.next();
        let _watch = self.interrupts.watch(own_statement(tag));
        let queries = match self.queries_of(now_ms, (&gather, &values), &program, &asks) {
            Ok(queries) => queries,
            Err(error) => {
                let result = Err(error);
                return out.done.push((tag, Event::ReadDone { result, rounds: 0, fetched: 0, examined: 0 }));
            }
        };
        let session = |shard: ShardId| self.sessions[usize::from(shard)];
        let read = TxnId { coordinator: self.id, sequence };
        let machine = Read::begin(read, within.clone(), queries, session, &mut self.read_actions);
        let sent = Sent::at(now_ms);
        self.flights.begin(Flight::Read { tag, machine, gather, values, within, asks, program, sent });
        self.reads.push_back(sequence);
        self.perform_read(now_ms, sequence, out);
    }

    fn perform(&mut self, now_ms: u64, sequence: u64, out: &mut Orders<Request, Event>) {
        let (mut again, mut interactive, mut elsewhere) = (None, None, None);
        for action in std::mem::take(&mut self.actions) {
            let Some(Flight::Transaction { tag, age, call, retries, .. }) = self.flights.get_mut(sequence)
            else {
                unreachable!("the transaction is under way")
            };
            match action {
                Action::Send(shard, request) => {
                    self.traces.sent(*tag, shard);
                    out.sends.push((shard, request));
                }
                Action::Answer(Err(error))
                    if needs_interactive_call(&error) && is_procedure(call.as_ref()) =>
                {
                    interactive = call.take().map(|call| (*tag, call, (*age, *retries)));
                }
                Action::Answer(result) => {
                    out.done.push((*tag, Event::Answered(result.map(Output::unpacked))));
                }
                Action::Retry if *retries == RETRIES_MAX && !self.resends => {
                    out.done.push((*tag, Event::Answered(Err(gave_up()))))
                }
                Action::Retry => {
                    self.traces.retries(*tag);
                    let call = call.take().expect("a call that may meet a guard is kept");
                    again = Some((*tag, call, *age, retries.saturating_add(1)));
                }
                Action::BeginAgain(attempt) => {
                    let call = call.take().expect("a call of several shards is kept");
                    let (of, attempts) = (*tag, (*age, retries.saturating_add(1)));
                    match attempt {
                        Attempt::ByKey(home) if *retries < BY_KEY_MAX => {
                            elsewhere = Some((of, (call, home), attempts))
                        }
                        _ => again = Some((of, call, attempts.0, attempts.1)),
                    }
                }
                Action::Settled => {
                    self.flights.end(sequence);
                }
            }
        }
        if let Some((tag, call, attempt)) = elsewhere {
            self.begin_at_home(now_ms, tag, call, attempt, out);
        }
        if let Some((tag, call, attempt)) = interactive {
            self.begin_interactive(now_ms, tag, (call, self.program.clone(), None), attempt, out);
        }
        if let Some((tag, call, age, retries)) = again {
            match retries.checked_sub(RETRIES_AT_ONCE) {
                Some(more) if self.resends => {
                    self.rest(now_ms, Resting { tag, call, age, retries, since_ms: now_ms }, more);
                }
                _ => self.begin_aged(now_ms, tag, call, (age, retries), out),
            }
        }
    }

    /// Lets a call begin again after a pause, the longer the more `often` it has.
    fn rest(&mut self, now_ms: u64, resting: Resting, often: u32) {
        let pause_ms = (PAUSE_MS[0] << often.min(8)).min(PAUSE_MS[1]);
        self.resting.push((now_ms + pause_ms, resting));
    }

    fn perform_read(&mut self, now_ms: u64, sequence: u64, out: &mut Orders<Request, Event>) {
        for action in std::mem::take(&mut self.read_actions) {
            match action {
                ReadAction::Send(shard, request) => {
                    if let Some(Flight::Read { tag, .. }) = self.flights.get_mut(sequence) {
                        self.traces.sent(*tag, shard);
                    }
                    out.sends.push((shard, request));
                }
                ReadAction::Done(fetched) => self.finish_read(now_ms, sequence, fetched, out),
                ReadAction::Failed(error) => {
                    let (tag, machine, ..) = self.end_read(sequence);
                    let (result, rounds, examined) = (Err(error), machine.rounds, machine.examined);
                    out.done.push((tag, Event::ReadDone { result, rounds, fetched: 0, examined }));
                }
                ReadAction::Again => {
                    let (tag, _, gather, values, within, _, asks) = self.end_read(sequence);
                    self.traces.retries(tag);
                    self.begin_read_of(now_ms, tag, (gather, values, within), asks, out);
                    return;
                }
            }
        }
    }

    fn finish_read(
        &mut self,
        now_ms: u64,
        sequence: u64,
        mut found: Fetched,
        out: &mut Orders<Request, Event>,
    ) {
        let (tag, machine, gather, values, within, program, asks) = self.end_read(sequence);
        let mut queries = machine.queries();
        if let Some(next) = next_of_look_up(&asks, &mut queries, &mut found) {
            return self.begin_read_of(now_ms, tag, (gather, values, within), next, out);
        }
        let fetched = found.iter().flat_map(|(_, tables)| tables).map(Vec::len).sum();
        let (rounds, examined) = (machine.rounds, machine.examined);
        let read = FetchedRead {
            gather,
            values,
            queries,
            fetched: found,
            program,
            transaction_time: transaction_time(now_ms),
            seed: self.seed(sequence),
            statement: (self.interrupts.clone(), own_statement(tag)),
        };
        out.done.push((tag, Event::ReadDone { result: Ok(read), rounds, fetched, examined }));
    }

    /// Random seed of a read: differs for each read, because coordinator ids are random.
    fn seed(&self, sequence: u64) -> u64 {
        self.id ^ sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn end_read(&mut self, sequence: u64) -> EndedRead {
        let Some(Flight::Read { tag, machine, gather, values, within, program, asks, .. }) =
            self.flights.end(sequence)
        else {
            unreachable!("the read is under way")
        };
        self.pass_reads();
        (tag, machine, gather, values, within, program, asks)
    }

    /// Removes reads from the front of the queue that have ended, or ask no shard for a state any more (S10): a client may take the rows
    /// of such a read as slowly as it likes.
    fn pass_reads(&mut self) {
        while let Some(first) = self.reads.front() {
            match self.flights.get_mut(*first) {
                Some(Flight::Read { machine, .. }) if !machine.is_settled() => break,
                Some(Flight::Read { .. }) | None => drop(self.reads.pop_front()),
                Some(_) => break,
            }
        }
        self.drains.on_ended(self.oldest_read());
    }

    /// Ends a read with that error.
    fn give_up_read(&mut self, sequence: u64, error: &SqlError, out: &mut Orders<Request, Event>) {
        let (tag, machine, ..) = self.end_read(sequence);
        machine.end(&mut self.read_actions);
        out.sends.extend(self.read_actions.drain(..).filter_map(ReadAction::into_send));
        let (result, rounds, examined) = (Err(error.clone()), machine.rounds, machine.examined);
        out.done.push((tag, Event::ReadDone { result, rounds, fetched: 0, examined }));
    }

    fn oldest_read(&self) -> u64 {
        self.reads.front().copied().unwrap_or(u64::MAX)
    }

    /// Begins one operation, which may be a statement of an interactive call.
    fn begin_one(&mut self, now_ms: u64, tag: u64, what: Begin, out: &mut Orders<Request, Event>) {
        match what {
            Begin::Call(call) => self.begin_call(now_ms, tag, call, out),
            Begin::Read(gather, values) => self.begin_read(now_ms, tag, gather, values, out),
            Begin::Check(gather, values) => {
                self.begin_read_of(now_ms, tag, (gather, values, None), Asks::All, out);
            }
            Begin::Adopt(program) => {
                self.adopt(program);
                out.done.push((tag, Event::Answered(Ok(Output::default()))));
            }
            Begin::Within(name, order) => self.within(now_ms, tag, name, order, out),
            Begin::Snapshot(name, what) => self.of_snapshot(now_ms, tag, (name, what), out),
        }
    }

    /// Takes a reply, for the operation that it belongs to.
    fn take_reply(&mut self, now_ms: u64, reply: Reply, out: &mut Orders<Request, Event>) {
        let reply = reply.heard();
        match &reply {
            Reply::ReadAgain { shard, session, .. } => self.sessions[usize::from(*shard)] = *session,
            Reply::Retired { .. } => self.is_retired = true,
            _ => {}
        }
        let (txn, sequence) = (reply.txn(), reply.txn().sequence);
        match self.flights.get_mut(sequence) {
            Some(Flight::Transaction { tag, machine, sent, waits, .. }) => {
                *sent = Sent::at(now_ms);
                if let Reply::Waits { holder, .. } = reply {
                    let since_ms = waits.map_or(now_ms, |(_, since_ms)| since_ms);
                    *waits = Some((holder, since_ms));
                    return;
                }
                *waits = None;
                self.traces.heard(*tag);
                machine.on_reply(reply, &mut self.actions);
                self.perform(now_ms, sequence, out);
            }
            Some(Flight::Read { tag, machine, sent, .. }) => {
                self.traces.heard(*tag);
                // A shard that runs for long repeats what it has said, ever more seldom.
                if machine.on_reply(reply, &mut self.read_actions) {
                    *sent = Sent::at(now_ms);
                }
                let is_settled = machine.is_settled();
                self.perform_read(now_ms, sequence, out);
                if is_settled {
                    self.pass_reads();
                }
            }
            Some(Flight::Snapshot { machine, sent, .. }) => {
                *sent = Sent::at(now_ms);
                machine.on_reply(reply, &mut self.read_actions);
                self.perform_snapshot(now_ms, sequence, out);
            }
            Some(Flight::Open { tag, machine, sent, .. } | Flight::Alone { tag, machine, sent, .. }) => {
                *sent = Sent::at(now_ms);
                // A late report of a shard that has answered meanwhile would not be taken back.
                let waits_for = |shard| machine.works() && machine.awaited().contains(&shard);
                let youngest = match reply {
                    Reply::Waits { txn, shard, holder } => {
                        self.traces.waits(*tag);
                        Some(waits_for(shard).then(|| self.waits.note(now_ms, txn, shard, holder)))
                    }
                    Reply::WaitsBesides { txn, shard, ref holders } => {
                        Some(waits_for(shard).then(|| self.waits.note_besides(now_ms, txn, shard, holders)))
                    }
                    _ => None,
                };
                if let Some(youngest) = youngest {
                    if let Some(youngest) = youngest.flatten() {
                        self.interrupt(now_ms, youngest, deadlock(), out);
                    }
                    return;
                }
                self.traces.heard(*tag);
                if let Some(shard) = reply.worked_at() {
                    self.waits.end_at(txn, shard);
                }
                machine.set_time(now_ms);
                machine.on_reply(reply, &mut self.actions);
                let aborted = machine.aborted().cloned();
                self.perform_open(now_ms, sequence, out);
                if let Some(error) = aborted {
                    self.end_reads_of(txn, &error, out);
                }
            }
            Some(Flight::Ordered { .. }) => self.on_ordered_reply(now_ms, sequence, reply, out),
            // It has ended, or has been begun anew.
            None => {}
        }
    }

    /// Sends again what is late, and goes on with what has waited.
    fn repeat(&mut self, now_ms: u64, out: &mut Orders<Request, Event>) {
        for (_, flight) in self.flights.iter_mut() {
            match flight {
                Flight::Transaction { tag, machine, sent, .. } => {
                    if sent.repeats(now_ms) {
                        self.traces.repeats(*tag);
                        machine.set_time(now_ms);
                        machine.send(&mut self.actions);
                    }
                }
                Flight::Ordered { tag, machine, sent, .. } => {
                    if sent.repeats(now_ms) {
                        self.traces.repeats(*tag);
                        machine.send(&mut self.actions);
                    }
                }
                Flight::Read { tag, machine, sent, .. } | Flight::Snapshot { tag, machine, sent, .. } => {
                    if sent.repeats(now_ms) {
                        self.traces.repeats(*tag);
                        machine.send(&mut self.read_actions);
                    }
                }
                Flight::Open { tag, machine, sent, .. } | Flight::Alone { tag, machine, sent, .. } => {
                    if sent.repeats(now_ms) {
                        self.traces.repeats(*tag);
                        machine.set_time(now_ms);
                        machine.send(&mut self.actions);
                    }
                }
            }
        }
        let send = |action| match action {
            Action::Send(shard, request) => Some((shard, request)),
            _ => None,
        };
        out.sends.extend(self.actions.drain(..).filter_map(send));
        out.sends.extend(self.read_actions.drain(..).filter_map(ReadAction::into_send));
        self.keep_snapshots(now_ms, out);
        self.end_who_waits_for_others(now_ms, out);
        self.end_who_has_waited_too_long(now_ms, out);
        // A wall clock may have been set back.
        let is_due = |(at_ms, _): &mut (u64, Resting)| *at_ms <= now_ms || *at_ms > now_ms + PAUSE_MS[1];
        let due: Vec<(u64, Resting)> = self.resting.extract_if(.., is_due).collect();
        for (_, Resting { tag, call, age, retries, .. }) in due {
            self.begin_aged(now_ms, tag, call, (age, retries), out);
        }
    }
}

impl machine::Coordinator for Coordinator {
    type Request = Request;
    type Reply = Reply;
    type Progress = Progress;
    type Transaction = Begin;
    type Done = Event;

    fn id(&self) -> CoordinatorId {
        self.id
    }

    fn begin(&mut self, now_ms: u64, tag: u64, what: Begin, out: &mut Orders<Request, Event>) {
        let from = out.done.len();
        self.begin_one(now_ms, tag, what, out);
        self.go_on(now_ms, from, out);
    }

    fn on_reply(&mut self, now_ms: u64, reply: Reply, out: &mut Orders<Request, Event>) {
        let from = out.done.len();
        self.take_reply(now_ms, reply, out);
        self.go_on(now_ms, from, out);
        out.done[from..].iter().for_each(|(tag, _)| self.traces.answered(*tag));
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Orders<Request, Event>) {
        if !self.resends {
            return;
        }
        let from = out.done.len();
        self.repeat(now_ms, out);
        self.go_on_after_pause(now_ms, out);
        self.go_on(now_ms, from, out);
    }

    fn progress(&mut self, shard: ShardId) -> Progress {
        Progress { settled_below: self.flights.base(), drained: self.drains.drained(shard) }
    }

    fn on_epoch(&mut self, shard: ShardId, epoch: u64) {
        self.drains.on_epoch(shard, epoch, self.flights.next(), self.oldest_read());
    }

    fn is_idle(&self) -> bool {
        self.flights.is_empty() && self.resting.is_empty() && self.interactive.is_empty()
    }

    fn is_retired(&self) -> bool {
        self.is_retired
    }
}
