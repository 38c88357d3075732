//! Open transactions of a coordinator: statements, savepoints, end, and the waits between them.

use std::sync::Arc;

use weir_core::clock::transaction_time;
use weir_core::ids::TxnId;
use weir_core::machine::{Orders, Sent};

use super::{Coordinator, Entrance, Event, Flight, Order, Resting, is_procedure};
use crate::exec::call::needs_interactive_call;
use crate::exec::call_route::Route;
use crate::exec::gather::Gather;
use crate::exec::program::Program;
use crate::message::{
    Age, Begun, Call, Callee, Changed, Output, QueryReads, Request, Setting, schema_has_changed,
};
use crate::ramp::coordinator::Action;
use crate::ramp::interactive::{Interactive, Links, deadlock, lock_timeout};
use crate::ramp::own_statement;
use weir_types::datetime::TransactionTime;
use weir_types::memory::WorkingMemory;
use weir_types::{SqlError, SqlState, Value};

/// Wait after which a transaction that waits for one of another coordinator is treated as deadlocked.
const DEADLOCK_MS: u64 = 1_000;

impl Coordinator {
    /// Carries out an order for an open transaction.
    pub(super) fn within(
        &mut self,
        now_ms: u64,
        tag: u64,
        name: u64,
        order: Order,
        out: &mut Orders<Request, Event>,
    ) {
        let sequence = match self.open.get(&name) {
            Some(&sequence) => sequence,
            None => {
                let sequence = self.flights.next();
                let txn = TxnId { coordinator: self.id, sequence };
                let age = self.interactive_age(tag).unwrap_or(Age { sequence, coordinator: self.id });
                let begun = Begun { age, at_ms: now_ms };
                let machine = Interactive::begin(txn, begun, self.links());
                let (programs, next, sent) = (Vec::new(), None, Sent::at(now_ms));
                let entrance = Entrance::Outside;
                self.flights.begin(Flight::Open { tag, name, machine, programs, next, entrance, sent });
                self.open.insert(name, sequence);
                sequence
            }
        };
        let Some(Flight::Open { tag: of, machine, next, sent, .. }) = self.flights.get_mut(sequence) else {
            unreachable!("an open transaction is under way")
        };
        // A query that was given up does not follow.
        (*of, *next, *sent) = (tag, None, Sent::at(now_ms));
        machine.set_time(now_ms);
        let is_end = matches!(order, Order::Commit | Order::RollBack | Order::RollBackTo(_));
        if let Some(error) = machine.failed().filter(|_| !is_end) {
            return out.done.push((tag, Event::Answered(Err(error.clone()))));
        }
        if self.must_enter(sequence, &order) {
            return self.begin_to_enter(now_ms, sequence, order, out);
        }
        let Some(Flight::Open { machine, .. }) = self.flights.get_mut(sequence) else {
            unreachable!("an open transaction is under way")
        };
        match order {
            Order::Call(call) => {
                let program =
                    self.program_of(call.schema_version, Some(sequence)).ok_or_else(schema_has_changed);
                let is_serializable = self.open_machine(sequence).0.is_serializable();
                let routed = program.and_then(|program| {
                    let route = program.route_within(&call, is_serializable)?;
                    Ok((program, route))
                });
                match routed {
                    Ok((program, Route { interactive: true, .. })) => {
                        let attempt = (Age { sequence, coordinator: self.id }, 0);
                        return self.begin_interactive(
                            now_ms,
                            tag,
                            (call, program, Some(name)),
                            attempt,
                            out,
                        );
                    }
                    Ok((_, Route { participants, owner, locks, .. })) => {
                        let callee = match locks {
                            true => Callee::Serializable(Arc::new(call.callee)),
                            false => call.callee,
                        };
                        let (machine, actions) = self.open_machine(sequence);
                        machine.statement_by_key(Call { callee, ..call }, participants, owner, actions);
                    }
                    Err(error) => return out.done.push((tag, Event::Answered(Err(error)))),
                }
            }
            // The checks name assertions by their numbers, which a definition changes.
            Order::Define(..) if machine.has_checks() => {
                return out.done.push((tag, Event::Answered(Err(unchecked_assertions()))));
            }
            Order::Define(definition, next, zone) => {
                let call = Call {
                    schema_version: definition.upon,
                    memory: WorkingMemory::default(),
                    callee: Callee::Definition(definition),
                    args: Vec::new(),
                    transaction_time: TransactionTime { zone, ..transaction_time(now_ms) },
                };
                let shards = (0..self.program.shards).collect();
                if let Some(Flight::Open { programs, .. }) = self.flights.get_mut(sequence) {
                    programs.push(next);
                }
                let (machine, actions) = self.open_machine(sequence);
                machine.statement(call, shards, actions);
            }
            Order::Build(definition) => {
                let schema_version = definition.upon;
                let call = Call { schema_version, ..self.call_of(now_ms, Callee::Build(definition)) };
                let shards = (0..self.program.shards).collect();
                let (machine, actions) = self.open_machine(sequence);
                machine.statement(call, shards, actions);
            }
            Order::Exclude => {
                let call = self.call_of(now_ms, Callee::Barrier);
                let shards = (0..self.program.shards).collect();
                let (machine, actions) = self.open_machine(sequence);
                machine.statement(call, shards, actions);
            }
            Order::AdvisoryLock { key, waits } => {
                let call = self.call_of(now_ms, Callee::AdvisoryLock { key, waits });
                let home = key.home(self.program.shards);
                let (machine, actions) = self.open_machine(sequence);
                machine.statement(call, vec![home], actions);
            }
            Order::Sequences(shard) => {
                let call = self.call_of(now_ms, Callee::Sequences);
                let (machine, actions) = self.open_machine(sequence);
                machine.statement(call, vec![shard], actions);
            }
            Order::Constraints(setting) => {
                let call = self.constraints(now_ms, setting);
                let shards = (0..self.program.shards).collect();
                let (machine, actions) = self.open_machine(sequence);
                machine.statement(call, shards, actions);
            }
            Order::Read(gather, values) if machine.is_serializable() => {
                return self.within(now_ms, tag, name, Order::LockingRead(gather, values), out);
            }
            Order::LockingRead(gather, values) if gather.reads_tables() => {
                let gather = gather.timed(transaction_time(now_ms));
                if let Err(error) = self.lock_reads((now_ms, tag), sequence, (gather, values)) {
                    return out.done.push((tag, Event::Answered(Err(error))));
                }
            }
            Order::Read(gather, values) | Order::LockingRead(gather, values) => {
                let within = Some((machine.txn(), machine.open()));
                return self.begin_read_within(now_ms, tag, (gather, values, within), out);
            }
            Order::Serializable(is_serializable) => {
                machine.set_serializable(is_serializable);
                out.done.push((tag, Event::Answered(Ok(Output::default()))));
            }
            Order::LockTimeout(lock_timeout_ms) => {
                machine.set_lock_timeout(lock_timeout_ms);
                out.done.push((tag, Event::Answered(Ok(Output::default()))));
            }
            Order::Savepoint => {
                machine.savepoint();
                out.done.push((tag, Event::Answered(Ok(Output::default()))));
            }
            Order::Release(keep) => {
                machine.release(keep);
                out.done.push((tag, Event::Answered(Ok(Output::default()))));
            }
            Order::RollBackTo(at) => machine.roll_back_to(at, &mut self.actions),
            Order::Commit => {
                let changed = machine.take_changed();
                if machine.failed().is_none() && !changed.is_empty() {
                    return self.check_to_commit(now_ms, (tag, name, sequence), changed, out);
                }
                let look = self.defers(sequence).then(|| self.constraints(now_ms, Setting::end()));
                let (machine, actions) = self.open_machine(sequence);
                machine.commit(look, actions);
            }
            Order::RollBack => {
                let txn = machine.txn();
                machine.roll_back(&mut self.actions);
                out.done.push((tag, Event::Answered(Ok(Output::default()))));
                self.end_reads_of(txn, &rolled_back(), out);
            }
        }
        self.perform_open(now_ms, sequence, out);
    }

    /// Returns whether the order needs a place among ordered calls, and the transaction has none: it locks what they may read or write, or changes
    /// the schema.
    fn must_enter(&mut self, sequence: u64, order: &Order) -> bool {
        let program = self.latest_program(sequence);
        let (is_ordered, resends) = (program.is_ordered || self.program.is_ordered, self.resends);
        let Some(Flight::Open { machine, entrance: Entrance::Outside, .. }) = self.flights.get_mut(sequence)
        else {
            return false;
        };
        if !is_ordered || program.shards == 1 || !resends {
            return false;
        }
        let is_serializable = machine.is_serializable();
        match order {
            Order::Call(call) => {
                let is_in_order = || program.callee(&call.callee).is_ok_and(|callee| callee.in_order);
                is_serializable || call.callee.is_serializable() || is_in_order()
            }
            Order::Read(gather, _) => is_serializable && gather.reads_tables(),
            Order::LockingRead(gather, _) => gather.reads_tables(),
            // The lock of calls that begin again is taken inside.
            Order::AdvisoryLock { .. } => is_serializable,
            Order::Define(..) | Order::Exclude => true,
            _ => false,
        }
    }

    /// Asks for a place; the order follows.
    fn begin_to_enter(&mut self, now_ms: u64, sequence: u64, order: Order, out: &mut Orders<Request, Event>) {
        let call = self.call_of(now_ms, Callee::Enter);
        let shards = (0..self.program.shards).collect();
        if let Some(Flight::Open { entrance, .. }) = self.flights.get_mut(sequence) {
            *entrance = Entrance::Enters(Box::new(order));
        }
        let (machine, actions) = self.open_machine(sequence);
        machine.statement(call, shards, actions);
        self.perform_open(now_ms, sequence, out);
    }

    /// Returns whether an open transaction has that name.
    pub(super) fn has_open(&self, name: u64) -> bool {
        self.open.contains_key(&name)
    }

    /// Takes the interval locks for a query, which follows.
    fn lock_reads(
        &mut self,
        (now_ms, tag): (u64, u64),
        sequence: u64,
        (gather, values): (Arc<Gather>, Vec<Value>),
    ) -> Result<(), SqlError> {
        let program =
            self.program_of(gather.schema_version, Some(sequence)).ok_or_else(schema_has_changed)?;
        let now = transaction_time(now_ms);
        let _watch = self.interrupts.watch(own_statement(tag));
        let queries = gather.queries(&values, (&program, now))?;
        let call = QueryReads::call_of(&queries, gather.schema_version, now);
        let shards = queries.into_keys().collect();
        if let Some(Flight::Open { next, .. }) = self.flights.get_mut(sequence) {
            *next = Some((gather, values));
        }
        let (machine, actions) = self.open_machine(sequence);
        machine.statement(call, shards, actions);
        Ok(())
    }

    pub(super) fn links(&self) -> Links {
        Links { shards: self.program.shards, resends: self.resends }
    }

    pub(super) fn constraints(&self, now_ms: u64, setting: Setting) -> Call {
        self.call_of(now_ms, Callee::Constraints(setting))
    }

    /// A call without arguments.
    fn call_of(&self, now_ms: u64, callee: Callee) -> Call {
        Call {
            schema_version: self.program.schema_version,
            memory: WorkingMemory::default(),
            callee,
            args: Vec::new(),
            transaction_time: transaction_time(now_ms),
        }
    }

    /// The rows of the open transaction of that name for which assertions are to be checked.
    pub(super) fn take_changed(&mut self, name: u64) -> Changed {
        match self.open.get(&name).and_then(|sequence| self.flights.get_mut(*sequence)) {
            Some(Flight::Open { machine, .. }) => machine.take_changed(),
            _ => Changed::default(),
        }
    }

    /// Program of the schema version that the open transaction has made last, or of the one that it began with.
    pub(super) fn latest_program(&mut self, sequence: u64) -> Arc<Program> {
        match self.flights.get_mut(sequence) {
            Some(Flight::Open { programs, .. }) => programs.last().unwrap_or(&self.program).clone(),
            _ => self.program.clone(),
        }
    }

    /// Returns whether a schema version that the transaction uses has deferrable foreign keys.
    fn defers(&mut self, sequence: u64) -> bool {
        let of = |flight: &mut Flight| match flight {
            Flight::Open { programs, .. } => programs.iter().any(|program| program.defers),
            _ => false,
        };
        self.program.defers || self.flights.get_mut(sequence).is_some_and(of)
    }

    fn open_machine(&mut self, sequence: u64) -> (&mut Interactive, &mut Vec<Action>) {
        match self.flights.get_mut(sequence) {
            Some(Flight::Open { machine, .. }) => (machine, &mut self.actions),
            _ => unreachable!("an open transaction is under way"),
        }
    }

    /// Performs the actions of an open transaction, or of one of a single statement.
    pub(super) fn perform_open(&mut self, now_ms: u64, sequence: u64, out: &mut Orders<Request, Event>) {
        let (mut again, mut read, mut interactive) = (None, None, None);
        let is_alone = |flight: Option<&mut Flight>| match flight {
            Some(Flight::Alone { call, .. }) => is_procedure(call.as_ref()),
            _ => false,
        };
        let may_be_interactive = is_alone(self.flights.get_mut(sequence));
        let mut entered = None;
        for action in std::mem::take(&mut self.actions) {
            if let (Some(Flight::Open { tag, name, entrance, .. }), Action::Answer(result)) =
                (self.flights.get_mut(sequence), &action)
                && matches!(entrance, Entrance::Enters(_))
            {
                let now = if result.is_ok() { Entrance::Inside } else { Entrance::Outside };
                let then = std::mem::replace(entrance, now);
                if let (Entrance::Enters(order), Ok(_)) = (then, result) {
                    entered = Some((*tag, *name, *order));
                    continue;
                }
            }
            if let (Some(Flight::Open { tag, next, .. }), Action::Answer(result)) =
                (self.flights.get_mut(sequence), &action)
                && let Some(next) = next.take()
                && result.is_ok()
            {
                read = Some((*tag, next));
                continue;
            }
            let flight = self.flights.get_mut(sequence);
            let Some(Flight::Open { tag, sent, .. } | Flight::Alone { tag, sent, .. }) = flight else {
                break;
            };
            match action {
                Action::Send(shard, request) => {
                    *sent = Sent::at(now_ms);
                    self.traces.sent(*tag, shard);
                    out.sends.push((shard, request));
                }
                Action::Answer(Err(error)) if may_be_interactive && needs_interactive_call(&error) => {
                    interactive = self.take_alone(sequence);
                }
                Action::Answer(result) => {
                    out.done.push((*tag, Event::Answered(result.map(Output::unpacked))));
                }
                // Only calls that are no transactions begin again by an action.
                Action::Retry | Action::BeginAgain(_) => again = self.take_alone(sequence),
                Action::Settled => {
                    if let Some(Flight::Open { name, .. }) = self.flights.end(sequence) {
                        self.open.remove(&name);
                    }
                }
            }
        }
        let works = match self.flights.get_mut(sequence) {
            Some(Flight::Open { machine, .. } | Flight::Alone { machine, .. }) => machine.works(),
            _ => false,
        };
        if !works {
            self.waits.end(TxnId { coordinator: self.id, sequence });
        }
        if let Some((tag, call, (age, retries))) = again {
            // Those who wait for what it has released come first, or they would wait again for its next attempt.
            match self.resends && retries > 1 {
                true => self.rest(now_ms, Resting { tag, call, age, retries, since_ms: now_ms }, retries),
                false => self.begin_aged(now_ms, tag, call, (age, retries), out),
            }
        }
        if let Some((tag, call, (age, retries))) = interactive {
            // It was no attempt of an interactive call.
            self.begin_interactive(now_ms, tag, (call, self.program.clone(), None), (age, retries - 1), out);
        }
        if let Some((tag, name, order)) = entered {
            return self.within(now_ms, tag, name, order, out);
        }
        if let Some((tag, (gather, values))) = read {
            let (machine, _) = self.open_machine(sequence);
            let within = Some((machine.txn(), machine.open()));
            self.begin_read_within(now_ms, tag, (gather, values, within), out);
        }
    }

    /// Deadlocks over several coordinators: no coordinator sees the whole circle. In each circle some transaction waits for an older one
    /// and, transitively, for one of another coordinator; it ends after [`DEADLOCK_MS`].
    pub(super) fn end_who_waits_for_others(&mut self, now_ms: u64, out: &mut Orders<Request, Event>) {
        for txn in self.waits.may_be_on_circles(now_ms.saturating_sub(DEADLOCK_MS)) {
            self.interrupt(now_ms, txn, deadlock(), out);
        }
    }

    /// Ends statements that have waited longer than their lock time-out. A clock that was set back shortens no time-out.
    pub(super) fn end_who_has_waited_too_long(&mut self, now_ms: u64, out: &mut Orders<Request, Event>) {
        let longest: Vec<(TxnId, u64)> = self.waits.longest().collect();
        for (txn, since_ms) in longest {
            let may_wait_ms = match self.flights.get_mut(txn.sequence) {
                Some(Flight::Open { machine, .. }) => machine.lock_timeout_ms(),
                _ => None,
            };
            if may_wait_ms.is_some_and(|may_wait_ms| now_ms.saturating_sub(since_ms) >= may_wait_ms) {
                self.interrupt(now_ms, txn, lock_timeout(), out);
            }
        }
    }

    pub(super) fn interrupt(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        error: SqlError,
        out: &mut Orders<Request, Event>,
    ) {
        if let Some(Flight::Open { machine, .. } | Flight::Alone { machine, .. }) =
            self.flights.get_mut(txn.sequence)
        {
            machine.interrupt(error, &mut self.actions);
            self.perform_open(now_ms, txn.sequence, out);
        }
    }

    /// Ends the reads of an open transaction that is over, or about to be.
    pub(super) fn end_reads_of(&mut self, txn: TxnId, error: &SqlError, out: &mut Orders<Request, Event>) {
        let is_of =
            |flight: &Flight| matches!(flight, Flight::Read { within: Some((of, _)), .. } if *of == txn);
        let reads: Vec<u64> = self
            .flights
            .iter_mut()
            .filter(|(_, flight)| is_of(flight))
            .map(|(sequence, _)| sequence)
            .collect();
        for sequence in reads {
            self.give_up_read(sequence, error, out);
        }
    }
}

fn rolled_back() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement because its transaction is rolled back")
}

fn unchecked_assertions() -> SqlError {
    let message = "the schema cannot be changed while assertions are to be checked for earlier statements of the transaction";
    SqlError::new(SqlState::OBJECT_IN_USE, message).with_hint("COMMIT first.")
}
