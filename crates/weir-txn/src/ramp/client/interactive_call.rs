//! Interactive calls: the coordinator runs the statements of a procedure, or an ad-hoc statement that needs locks or several parts, in one
//! transaction, or at one snapshot (docs/internals/interactive-calls.md).
//!
//! The statements are operations of this coordinator under the tag of the call. Their results are events as any others, which
//! [`Coordinator::go_on`] takes out before the client sees them.

use std::sync::Arc;

use weir_core::machine::Orders;
use weir_types::{SqlError, SqlState};

use super::{
    Begin, Coordinator, Event, OfSnapshot, Order, Output, PAUSE_MS, RETRIES_MAX, Resting, own_statement,
};
use crate::exec::call_steps::CallSteps;
use crate::exec::plpgsql::Isolation;
use crate::exec::plpgsql::interpreter::{Execution, Stopped};
use crate::exec::program::Program;
use crate::message::{AdvisoryKey, Age, Call, Callee, Changed, Request, Setting};
use crate::ramp::coordinator::gave_up;

/// Names of transactions and snapshots of interactive calls; clients' names are below.
const NAMES: u64 = 1 << 63;

/// Advisory lock of the calls that begin again. An application that takes it makes them wait.
const QUEUE: AdvisoryKey = AdvisoryKey::Two(i32::MIN, i32::MIN);

/// An interactive call that has no answer yet.
#[derive(Debug)]
pub(super) struct InteractiveCall {
    /// To begin it again.
    call: Call,
    attempt: (Age, u32),
    steps: CallSteps,
    surroundings: Surroundings,
    stage: Stage,
}

/// What the statements of a call run in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Surroundings {
    /// Name of the snapshot of its reads; none: they are reads of the transaction, or it is a single read.
    snapshot: Option<u64>,
    /// Name of the transaction of its writes; none: it only reads.
    transaction: Option<u64>,
    /// The transaction is the client's open one, which the client ends.
    is_clients: bool,
}

impl InteractiveCall {
    /// Returns whether it has been the victim of a deadlock. Two that read the same rows, and then change them, always wait for each other; one
    /// after the other they do not.
    fn queues(&self) -> bool {
        self.attempt.1 > 0 && self.surroundings.snapshot.is_none()
    }
}

#[derive(Debug)]
enum Stage {
    /// The snapshot is being taken, or the transaction is made serializable.
    Opens,
    /// It waits for its turn among those that begin again.
    Queues,
    /// A statement is in flight.
    Executes,
    /// It goes on at the next opportunity.
    Pauses,
    /// COMMIT or ROLLBACK is in flight; then this is the answer.
    Ends(Result<Output, SqlError>),
    /// ROLLBACK is in flight; then the call begins again.
    EndsToBeginAgain,
}

impl Coordinator {
    /// Begins an interactive call, within the client's open transaction of that name if there is one.
    pub(super) fn begin_interactive(
        &mut self,
        now_ms: u64,
        tag: u64,
        (call, program, within): (Call, Arc<Program>, Option<u64>),
        attempt: (Age, u32),
        out: &mut Orders<Request, Event>,
    ) {
        let sequence = self.flights.next();
        let steps = match CallSteps::new(program.clone(), &call, self.seed(sequence)) {
            Ok(steps) => steps,
            Err(error) => return out.done.push((tag, Event::Answered(Err(error)))),
        };
        let name = NAMES | sequence;
        let isolation = steps.isolation();
        let surroundings = match (within, isolation) {
            // The statements of a client's transaction see what it has written before.
            (Some(name), _) => Surroundings { snapshot: None, transaction: Some(name), is_clients: true },
            (None, Isolation::Snapshot) => Surroundings {
                snapshot: (!steps.is_one_query()).then_some(name),
                transaction: (!steps.reads_only()).then_some(name),
                is_clients: false,
            },
            (None, Isolation::Serializable | Isolation::ReadCommitted) => {
                Surroundings { snapshot: None, transaction: Some(name), is_clients: false }
            }
        };
        let stage = Stage::Opens;
        let one = InteractiveCall { call, attempt, steps, surroundings, stage };
        let begin = match surroundings {
            Surroundings { snapshot: Some(name), .. } => Begin::Snapshot(name, OfSnapshot::Take(program)),
            Surroundings { transaction: Some(name), is_clients: false, .. } => {
                Begin::Within(name, Order::Serializable(isolation == Isolation::Serializable))
            }
            Surroundings { .. } => return self.run_interactive(now_ms, tag, one, out),
        };
        self.interactive.insert(tag, one);
        self.begin_one(now_ms, tag, begin, out);
    }

    /// Checks assertions that the statements of an open transaction are not shown to keep, and commits it then. A violation ends it.
    pub(super) fn check_to_commit(
        &mut self,
        now_ms: u64,
        (tag, name, sequence): (u64, u64, u64),
        changed: Changed,
        out: &mut Orders<Request, Event>,
    ) {
        let program = self.latest_program(sequence);
        let call = self.constraints(now_ms, Setting::end());
        let call = Call { schema_version: program.schema_version, ..call };
        let steps = CallSteps::of_checks(program, &call, changed);
        let attempt = (Age { sequence: name, coordinator: self.id }, RETRIES_MAX);
        let surroundings = Surroundings { snapshot: None, transaction: Some(name), is_clients: false };
        let one = InteractiveCall { call, attempt, steps, surroundings, stage: Stage::Executes };
        self.run_interactive(now_ms, tag, one, out);
    }

    /// Runs the call to its next statement, which is begun.
    fn run_interactive(
        &mut self,
        now_ms: u64,
        tag: u64,
        mut one: InteractiveCall,
        out: &mut Orders<Request, Event>,
    ) {
        let stopped = loop {
            let _watch = self.interrupts.watch(own_statement(tag));
            match one.steps.run() {
                // Without timers nobody else waits for this coordinator.
                Ok(Stopped::Pauses) if !self.resends => {}
                stopped => break stopped,
            }
        };
        match stopped {
            Ok(Stopped::Executes(execution)) => {
                let begin = self.statement_of(&one, execution);
                one.stage = Stage::Executes;
                self.interactive.insert(tag, one);
                match begin {
                    Ok(begin) => self.begin_one(now_ms, tag, begin, out),
                    Err(error) => out.done.push((tag, Event::Answered(Err(error)))),
                }
            }
            Ok(Stopped::Pauses) => {
                one.stage = Stage::Pauses;
                self.interactive.insert(tag, one);
            }
            Ok(Stopped::Ends(output)) => self.end_interactive(now_ms, (tag, one), Ok(output), false, out),
            Err(error) => self.end_interactive(now_ms, (tag, one), Err(error), false, out),
        }
    }

    /// Takes the lock that calls hold which begin again: at most one of them runs at a time.
    fn queue(
        &mut self,
        now_ms: u64,
        (tag, mut one): (u64, InteractiveCall),
        name: u64,
        out: &mut Orders<Request, Event>,
    ) {
        one.stage = Stage::Queues;
        self.interactive.insert(tag, one);
        let lock = Order::AdvisoryLock { key: QUEUE, waits: true };
        self.begin_one(now_ms, tag, Begin::Within(name, lock), out);
    }

    /// The statement as an operation of this coordinator.
    fn statement_of(&self, one: &InteractiveCall, execution: Execution) -> Result<Begin, SqlError> {
        // In the client's transaction a call that has to be serializable locks what it reads.
        let is_locked = one.surroundings.is_clients && one.steps.isolation() == Isolation::Serializable;
        let within = |order| match one.surroundings.transaction {
            Some(name) => Ok(Begin::Within(name, order)),
            None => {
                let message = "a procedure that was taken to read only has a statement that writes";
                Err(SqlError::new(SqlState::INTERNAL_ERROR, message))
            }
        };
        let (text, args, locks) = match execution {
            Execution::Barrier => return within(Order::Exclude),
            Execution::Statement { text, args, locks } => {
                let callee = Callee::Text(text);
                let call = Call {
                    schema_version: one.call.schema_version,
                    memory: one.steps.memory,
                    callee: if locks || is_locked { Callee::Serializable(Arc::new(callee)) } else { callee },
                    args,
                    transaction_time: one.steps.transaction_time(),
                };
                return within(Order::Call(call));
            }
            Execution::Query { text, args, locks } => (text, args, locks || is_locked),
        };
        // Of the program that the call began with: in another one the name is that of another statement.
        let gather = one.steps.program().query(&text).map_err(|wrong| wrong.error)?;
        let gather = gather.at(one.steps.transaction_time(), one.steps.memory);
        Ok(match one.surroundings {
            Surroundings { snapshot: Some(name), .. } => {
                Begin::Snapshot(name, OfSnapshot::Read(gather, args))
            }
            Surroundings { transaction: Some(name), .. } => {
                let read = if locks { Order::LockingRead } else { Order::Read };
                Begin::Within(name, read(gather, args))
            }
            Surroundings { .. } => Begin::Read(gather, args),
        })
    }

    /// Ends what the call has begun; then it has this answer, or begins again if it may.
    fn end_interactive(
        &mut self,
        now_ms: u64,
        (tag, mut one): (u64, InteractiveCall),
        result: Result<Output, SqlError>,
        begins_again: bool,
        out: &mut Orders<Request, Event>,
    ) {
        if let Some(name) = one.surroundings.snapshot {
            self.end_snapshot(name, out);
        }
        let is_own = !one.surroundings.is_clients;
        let again = begins_again && is_own && one.attempt.1 < RETRIES_MAX;
        let own = one.surroundings.transaction.filter(|name| is_own && self.has_open(*name));
        let Some(name) = own else {
            return match again {
                true => self.begin_again(now_ms, tag, one, out),
                false => out.done.push((tag, Event::Answered(result))),
            };
        };
        let order = if result.is_ok() { Order::Commit } else { Order::RollBack };
        one.stage = match again {
            true => Stage::EndsToBeginAgain,
            false => Stage::Ends(result),
        };
        self.interactive.insert(tag, one);
        self.begin_one(now_ms, tag, Begin::Within(name, order), out);
    }

    /// Begins the call again under its age, behind a pause in which those before it can end: so it is once the oldest, which no circle ends.
    fn begin_again(&mut self, now_ms: u64, tag: u64, one: InteractiveCall, out: &mut Orders<Request, Event>) {
        let (age, retries) = (one.attempt.0, one.attempt.1 + 1);
        match self.resends {
            true => {
                let pause_ms = (PAUSE_MS[0] << retries.min(8)).min(PAUSE_MS[1]);
                let resting = Resting { tag, call: one.call, age, retries, since_ms: now_ms };
                self.resting.push((now_ms + pause_ms, resting));
            }
            false => self.begin_aged(now_ms, tag, one.call, (age, retries), out),
        }
    }

    /// Takes the events of interactive calls out of `out`, from position `from` on, and goes on with these calls.
    pub(super) fn go_on(&mut self, now_ms: u64, from: usize, out: &mut Orders<Request, Event>) {
        if self.interactive.is_empty() {
            return;
        }
        let mut at = from;
        while at < out.done.len() {
            match self.interactive.remove(&out.done[at].0) {
                Some(one) => {
                    let (tag, event) = out.done.remove(at);
                    self.on_event(now_ms, (tag, one), event, out);
                }
                None => at += 1,
            }
        }
    }

    fn on_event(
        &mut self,
        now_ms: u64,
        (tag, mut one): (u64, InteractiveCall),
        event: Event,
        out: &mut Orders<Request, Event>,
    ) {
        match std::mem::replace(&mut one.stage, Stage::Executes) {
            Stage::Opens => match event {
                Event::Answered(Ok(_)) => match one.surroundings.transaction.filter(|_| one.queues()) {
                    Some(name) => self.queue(now_ms, (tag, one), name, out),
                    None => self.run_interactive(now_ms, tag, one, out),
                },
                Event::Answered(Err(error)) | Event::ReadDone { result: Err(error), .. } => {
                    self.end_interactive(now_ms, (tag, one), Err(error), false, out);
                }
                Event::ReadDone { .. } => unreachable!("a snapshot is taken without a read"),
            },
            Stage::Queues => match event {
                Event::Answered(Err(error)) | Event::ReadDone { result: Err(error), .. } => {
                    let begins_again = is_of_concurrency(&error);
                    self.end_interactive(now_ms, (tag, one), Err(error), begins_again, out);
                }
                Event::Answered(Ok(_)) | Event::ReadDone { .. } => {
                    self.run_interactive(now_ms, tag, one, out)
                }
            },
            Stage::Executes | Stage::Pauses => {
                // An error that the procedure itself raises is its answer.
                let begins_again = may_succeed_again(&event);
                if let Some(name) = one.surroundings.transaction.filter(|_| !one.surroundings.is_clients) {
                    // Those of a client's transaction are checked when it commits, behind all its statements.
                    one.steps.note(self.take_changed(name));
                }
                let taken = match event {
                    Event::Answered(result) => result.and_then(|output| one.steps.take_output(output)),
                    Event::ReadDone { result, .. } => {
                        result.and_then(|read| read.rows()).and_then(|rows| one.steps.take_rows(rows))
                    }
                };
                match taken {
                    Ok(()) => self.run_interactive(now_ms, tag, one, out),
                    Err(error) => self.end_interactive(now_ms, (tag, one), Err(error), begins_again, out),
                }
            }
            Stage::Ends(result) => {
                // A COMMIT may fail; a ROLLBACK does not change the answer.
                let answer = match event {
                    Event::Answered(Err(error)) if result.is_ok() => Err(error),
                    _ => result,
                };
                out.done.push((tag, Event::Answered(answer)));
            }
            Stage::EndsToBeginAgain => self.begin_again(now_ms, tag, one, out),
        }
    }

    /// Abandons the interactive call under `tag`: nobody waits for its answer. Returns whether it certainly has no effect; `None`: there is
    /// no such call.
    pub(super) fn give_up_interactive(
        &mut self,
        now_ms: u64,
        tag: u64,
        out: &mut Orders<Request, Event>,
    ) -> Option<bool> {
        let one = self.interactive.get(&tag)?;
        let commits = matches!(one.stage, Stage::Ends(Ok(_)));
        let from = out.done.len();
        if !commits {
            self.cancel(now_ms, tag, gave_up(), out);
        }
        // An answer of the statement may still come, and then ends the call.
        out.done.extract_if(from.., |(of, _)| *of == tag).for_each(drop);
        Some(!commits)
    }

    /// Age of the call under that tag, if it is an interactive one.
    pub(super) fn interactive_age(&self, tag: u64) -> Option<Age> {
        self.interactive.get(&tag).map(|one| one.attempt.0)
    }

    /// Goes on with the calls that have paused.
    pub(super) fn go_on_after_pause(&mut self, now_ms: u64, out: &mut Orders<Request, Event>) {
        let has_paused = |one: &InteractiveCall| matches!(one.stage, Stage::Pauses);
        let paused: Vec<u64> =
            self.interactive.iter().filter(|(_, one)| has_paused(one)).map(|(tag, _)| *tag).collect();
        for tag in paused {
            if let Some(one) = self.interactive.remove(&tag) {
                self.run_interactive(now_ms, tag, one, out);
            }
        }
    }

    /// Ends a call that has paused with that error. Returns whether there was one.
    pub(super) fn cancel_paused(
        &mut self,
        now_ms: u64,
        tag: u64,
        error: &SqlError,
        out: &mut Orders<Request, Event>,
    ) -> bool {
        match self.interactive.remove(&tag) {
            Some(one) if matches!(one.stage, Stage::Pauses) => {
                self.end_interactive(now_ms, (tag, one), Err(error.clone()), false, out);
                true
            }
            other => {
                self.interactive.extend(other.map(|one| (tag, one)));
                false
            }
        }
    }
}

/// Returns whether a statement has failed because of concurrent transactions, so that its call may succeed when it begins again.
fn may_succeed_again(event: &Event) -> bool {
    let (Event::Answered(Err(error)) | Event::ReadDone { result: Err(error), .. }) = event else {
        return false;
    };
    is_of_concurrency(error)
}

fn is_of_concurrency(error: &SqlError) -> bool {
    [SqlState::DEADLOCK_DETECTED, SqlState::SERIALIZATION_FAILURE].contains(&error.state())
}
