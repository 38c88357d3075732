//! How a call begins: at its participants; at the owner of the key that names its row, or where the row is; with the owners of the keys that
//! it inserts; as a transaction of its own; or statement by statement.

use weir_core::ids::{ShardId, TxnId};
use weir_core::machine::{Orders, Sent};

use super::{Coordinator, Event, Flight, Protocol, RETRIES_AT_ONCE, is_procedure};
use crate::exec::call_route::Route;
use crate::message::{Age, Attempt, Begun, Call, Callee, Request};
use crate::ramp::coordinator::Transaction;
use crate::ramp::own_statement;

impl Coordinator {
    /// Begins a call; its answer is reported under `tag`.
    pub(super) fn begin_call(&mut self, now_ms: u64, tag: u64, call: Call, out: &mut Orders<Request, Event>) {
        let age = Age { sequence: self.flights.next(), coordinator: self.id };
        self.begin_aged(now_ms, tag, call, (age, 0), out);
    }

    /// `age`: also tells how often the call has withdrawn.
    pub(super) fn begin_aged(
        &mut self,
        now_ms: u64,
        tag: u64,
        call: Call,
        attempt: (Age, u32),
        out: &mut Orders<Request, Event>,
    ) {
        let _watch = self.interrupts.watch(own_statement(tag));
        match self.program.route(&call) {
            // A row that was not where it was looked for is looked for at all shards.
            Ok(route) if attempt.1 > 0 => {
                let route = Route { owner: None, with_keys: None, ..route };
                self.begin_routed(now_ms, tag, (call, route), attempt, out);
            }
            Ok(route) => self.begin_routed(now_ms, tag, (call, route), attempt, out),
            Err(error) => out.done.push((tag, Event::Answered(Err(error)))),
        }
    }

    /// Begins a call again at that shard, which has the row that it names.
    pub(super) fn begin_at_home(
        &mut self,
        now_ms: u64,
        tag: u64,
        (call, home): (Call, ShardId),
        attempt: (Age, u32),
        out: &mut Orders<Request, Event>,
    ) {
        match self.program.route(&call) {
            Ok(route) => {
                self.begin_routed(now_ms, tag, (call, Route { owner: Some(home), ..route }), attempt, out);
            }
            Err(error) => out.done.push((tag, Event::Answered(Err(error)))),
        }
    }

    fn begin_routed(
        &mut self,
        now_ms: u64,
        tag: u64,
        (call, route): (Call, Route),
        (age, retries): (Age, u32),
        out: &mut Orders<Request, Event>,
    ) {
        let Route { mut participants, with_keys, owner, guarded, carries, ordered, interactive, .. } = route;
        // Without timers nobody begins an epoch: such a cluster orders by locks.
        let interactive = interactive || ordered && !self.resends;
        if ordered && self.resends {
            return self.begin_ordered(now_ms, tag, (call, participants), (age, retries), out);
        }
        // Parts of the comparator do not undo what they have done.
        let with_keys = with_keys.filter(|_| self.protocol == Protocol::RampFast);
        if interactive {
            return self.begin_interactive(
                now_ms,
                tag,
                (call, self.program.clone(), None),
                (age, retries),
                out,
            );
        }
        if carries && with_keys.is_none() {
            return self.begin_alone(now_ms, tag, (call, participants, owner), (age, retries), out);
        }
        // It withdraws from each holder that it meets, and others come again and again: a transaction waits.
        if retries >= RETRIES_AT_ONCE && participants.len() > 1 && self.resends && self.may_wait(&call) {
            return self.begin_alone(now_ms, tag, (call, participants, owner), (age, retries), out);
        }
        let sequence = self.flights.next();
        let txn = TxnId { coordinator: self.id, sequence };
        // Only guards, rows that are elsewhere, and keys that are held, make a call begin anew.
        let kept = (self.resends || participants.len() > 1 || guarded || carries).then(|| call.clone());
        let call = match (owner, with_keys) {
            (Some(owner), _) => {
                participants = vec![owner];
                Attempt::ByKey(owner).sent(call)
            }
            (None, Some(with_keys)) => {
                participants = with_keys;
                Attempt::WithKeys.sent(call)
            }
            (None, None) => call,
        };
        let atomic = self.protocol == Protocol::RampFast;
        let begun = Begun { age, at_ms: now_ms };
        let incarnation = |shard| self.drains.incarnation(shard);
        let machine = Transaction::begin(
            txn,
            begun,
            call,
            participants,
            incarnation,
            (atomic, self.resends),
            &mut self.actions,
        );
        self.flights.begin(Flight::Transaction {
            tag,
            machine,
            age,
            call: kept,
            retries,
            sent: Sent::at(now_ms),
            waits: None,
        });
        self.perform(now_ms, sequence, out);
    }

    /// Whether the call may be a transaction of one statement, though it derives nothing: a statement of a client.
    fn may_wait(&self, call: &Call) -> bool {
        self.protocol == Protocol::RampFast
            && matches!(call.callee, Callee::Text(_))
            && !is_procedure(Some(call))
    }
}
