//! Operations that reach another agent than that of their server: forwarded, and executed at most once.
//!
//! The receiver knows what it has taken as long as it lives. So an operation is sent to one start of the receiver: if that has ended, nobody
//! knows whether the operation has committed.

use std::collections::BTreeMap;

use super::Agent;
use crate::epochs::{ServerId, StartNumber};
use crate::faults::AgentFaults;
use crate::message::{AgentMessage, Effects, OperationId, Outcome, Request};

/// A start that no agent has: the sender does not know the start of the receiver.
const NO_START: StartNumber = 0;

/// Operations that other agents run for this one, and those that it runs for others.
#[derive(Debug)]
pub(super) struct Forwarding<O, R> {
    sent: BTreeMap<OperationId, Sent<O>>,
    /// The last start of each agent that is known.
    starts: BTreeMap<ServerId, StartNumber>,
    /// Operations taken from others; their outcome, once they have one.
    taken: BTreeMap<OperationId, Option<Outcome<R>>>,
    /// By agent and start: operations with lower numbers were answered, and never come again.
    answered_below: BTreeMap<(ServerId, StartNumber), u64>,
}

#[derive(Debug)]
struct Sent<O> {
    to: ServerId,
    to_start: StartNumber,
    request: Request<O>,
    sent_ms: u64,
}

impl<O, R> Default for Forwarding<O, R> {
    fn default() -> Self {
        Forwarding {
            sent: BTreeMap::new(),
            starts: BTreeMap::new(),
            taken: BTreeMap::new(),
            answered_below: BTreeMap::new(),
        }
    }
}

impl<O, R> Forwarding<O, R> {
    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }
}

impl<O: Clone, R: Clone, U: Clone, F: AgentFaults> Agent<O, R, U, F> {
    pub(super) fn forward(
        &mut self,
        now_ms: u64,
        to: ServerId,
        request: Request<O>,
        out: &mut Effects<O, R, U>,
    ) {
        let id = request.id;
        let to_start = self.forwarding.starts.get(&to).copied().unwrap_or(NO_START);
        self.forwarding.sent.insert(id, Sent { to, to_start, request, sent_ms: now_ms });
        self.send_forward(now_ms, id, out);
    }

    fn send_forward(&mut self, now_ms: u64, id: OperationId, out: &mut Effects<O, R, U>) {
        let answered_below = self.forwarding.sent.keys().next().map_or(0, |id| id.number);
        let Some(sent) = self.forwarding.sent.get_mut(&id) else { return };
        sent.sent_ms = now_ms;
        let (to_start, request) = (sent.to_start, sent.request.clone());
        out.messages.push((sent.to, AgentMessage::Forward { to_start, request, answered_below }));
    }

    pub(super) fn resend_forwards(&mut self, now_ms: u64, out: &mut Effects<O, R, U>) {
        let resend_ms = self.settings.resend_ms;
        let is_due = |sent: &Sent<O>| now_ms >= sent.sent_ms + resend_ms;
        let due = self.forwarding.sent.iter().filter(|(_, sent)| is_due(sent));
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.send_forward(now_ms, id, out);
        }
    }

    pub(super) fn on_forward(
        &mut self,
        now_ms: u64,
        from: ServerId,
        (to_start, request, answered_below): (StartNumber, Request<O>, u64),
        out: &mut Effects<O, R, U>,
    ) {
        let id = request.id;
        let placement = request.placement.server();
        if id.agent != from || placement.is_some_and(|server| server != self.server) {
            return;
        }
        if to_start != self.start && !self.faults.ignores_starts() {
            let start = self.start;
            out.messages.push((from, AgentMessage::WrongStart { id, tried: to_start, start }));
            return;
        }
        self.forget_answered(id, answered_below);
        let floor = self.forwarding.answered_below.get(&(id.agent, id.start)).copied();
        if floor.is_some_and(|floor| id.number < floor) {
            return;
        }
        let taken = self.forwarding.taken.get(&id).filter(|_| !self.faults.forgets_forwarded());
        match taken {
            Some(Some(outcome)) => {
                let outcome = outcome.clone();
                out.messages.push((from, AgentMessage::Answer { id, outcome }));
            }
            Some(None) => {}
            None => {
                self.forwarding.taken.insert(id, None);
                self.enqueue(now_ms, request, out);
            }
        }
    }

    fn forget_answered(&mut self, id: OperationId, below: u64) {
        let floor = self.forwarding.answered_below.entry((id.agent, id.start)).or_default();
        *floor = below.max(*floor);
        let floor = *floor;
        let is_of_start = |each: &OperationId| (each.agent, each.start) == (id.agent, id.start);
        self.forwarding.taken.retain(|each, _| !is_of_start(each) || each.number >= floor);
    }

    pub(super) fn on_wrong_start(
        &mut self,
        now_ms: u64,
        from: ServerId,
        (id, tried, start): (OperationId, StartNumber, StartNumber),
        out: &mut Effects<O, R, U>,
    ) {
        let known = self.forwarding.starts.entry(from).or_default();
        *known = start.max(*known);
        let Some(sent) = self.forwarding.sent.get_mut(&id) else { return };
        if sent.to != from || sent.to_start != tried {
            return;
        }
        if tried == NO_START {
            sent.to_start = start;
            self.send_forward(now_ms, id, out);
        } else {
            self.on_answer(id, Outcome::Unknown, out);
        }
    }

    pub(super) fn on_answer(&mut self, id: OperationId, outcome: Outcome<R>, out: &mut Effects<O, R, U>) {
        if self.forwarding.sent.remove(&id).is_some() {
            out.answers.push((id, outcome));
        }
    }

    /// Tells another agent the outcome of its operation; again, if it asks again.
    pub(super) fn answer_forwarded(
        &mut self,
        id: OperationId,
        outcome: Outcome<R>,
        out: &mut Effects<O, R, U>,
    ) {
        if let Some(taken) = self.forwarding.taken.get_mut(&id) {
            *taken = Some(outcome.clone());
        }
        out.messages.push((id.agent, AgentMessage::Answer { id, outcome }));
    }
}
