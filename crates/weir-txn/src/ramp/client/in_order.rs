//! Ordered calls of a coordinator.

use weir_core::ids::{ShardId, TxnId};
use weir_core::machine::{Orders, Sent};
use weir_types::{SqlError, SqlState};

use super::{Coordinator, Event, Flight};
use crate::exec::call::needs_interactive_call;
use crate::message::{Age, Begun, Call, Output, Reply, Request};
use crate::ramp::coordinator::Action;
use crate::ramp::ordered_call::OrderedCall;

impl Coordinator {
    pub(super) fn begin_ordered(
        &mut self,
        now_ms: u64,
        tag: u64,
        (call, participants): (Call, Vec<ShardId>),
        (age, retries): (Age, u32),
        out: &mut Orders<Request, Event>,
    ) {
        let sequence = self.flights.next();
        let txn = TxnId { coordinator: self.id, sequence };
        let begun = Begun { age, at_ms: now_ms };
        let of = (txn, begun, self.flights.base());
        let agreement = self.program.agreement_on(&call);
        let machine = OrderedCall::begin(of, call.clone(), (participants, agreement), &mut self.actions);
        let (program, sent) = (self.program.clone(), Sent::at(now_ms));
        let attempt = (age, retries);
        self.flights.begin(Flight::Ordered { tag, machine, program, call: Some(call), attempt, sent });
        self.perform_ordered(now_ms, sequence, out);
    }

    pub(super) fn on_ordered_reply(
        &mut self,
        now_ms: u64,
        sequence: u64,
        reply: Reply,
        out: &mut Orders<Request, Event>,
    ) {
        let Some(Flight::Ordered { tag, machine, program, sent, .. }) = self.flights.get_mut(sequence) else {
            return;
        };
        *sent = Sent::at(now_ms);
        self.traces.heard(*tag);
        machine.on_reply(program, reply, &mut self.actions);
        self.perform_ordered(now_ms, sequence, out);
    }

    fn perform_ordered(&mut self, now_ms: u64, sequence: u64, out: &mut Orders<Request, Event>) {
        let mut interactive = None;
        for action in std::mem::take(&mut self.actions) {
            let Some(Flight::Ordered { tag, program, call, attempt, .. }) = self.flights.get_mut(sequence)
            else {
                return;
            };
            match action {
                Action::Send(shard, request) => {
                    self.traces.sent(*tag, shard);
                    out.sends.push((shard, request));
                }
                // It has changed nothing: it only reads, or a participant has refused it because it met a lock.
                Action::Answer(Err(error)) if needs_interactive_call(&error) => {
                    let (tag, program, attempt) = (*tag, program.clone(), *attempt);
                    interactive = call.take().map(|call| (tag, call, program, attempt));
                }
                Action::Answer(result) => {
                    out.done.push((*tag, Event::Answered(result.map(Output::unpacked))));
                }
                Action::Settled => drop(self.flights.end(sequence)),
                Action::Retry | Action::BeginAgain(_) => {}
            }
        }
        if let Some((tag, call, program, attempt)) = interactive {
            self.begin_interactive(now_ms, tag, (call, program, None), attempt, out);
        }
    }

    /// The ordered call under that tag, if somebody waits for it.
    pub(super) fn ordered_of(&mut self, tag: u64) -> Option<&mut OrderedCall> {
        self.flights.iter_mut().find_map(|(_, flight)| match flight {
            Flight::Ordered { tag: of, machine, .. } if *of == tag && machine.is_unanswered() => {
                Some(machine)
            }
            _ => None,
        })
    }

    /// Cancels an ordered call. Returns whether there was one under that tag.
    pub(super) fn cancel_ordered(
        &mut self,
        tag: u64,
        error: &SqlError,
        out: &mut Orders<Request, Event>,
    ) -> bool {
        let Some(machine) = self.ordered_of(tag) else { return false };
        machine.give_up();
        out.done.push((tag, Event::Answered(Err(in_order_already(error)))));
        true
    }
}

/// Error of an ordered call that is cancelled: it has its place in the order, or will have.
fn in_order_already(error: &SqlError) -> SqlError {
    let message = format!("{}; the call is in order, and will be executed", error.message());
    SqlError::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, message)
}
