//! Operations: where they run, when, and what becomes of them.

use std::collections::VecDeque;

use super::{Agent, Pending};
use crate::epochs::ServerId;
use crate::faults::AgentFaults;
use crate::message::{AgentMessage, Effects, Lacks, OperationId, Outcome, Placement, Request};
use crate::routing::MapVersion;
use crate::work::{Done, License, Work, WorkId};

/// An operation that runs.
#[derive(Clone, Debug)]
pub(super) struct Running<O> {
    request: Request<O>,
    work: WorkId,
    license: Option<License>,
    attempts: u32,
    since_ms: u64,
    is_aborted: bool,
}

impl<O: Clone, R: Clone, U: Clone, F: AgentFaults> Agent<O, R, U, F> {
    /// Takes an operation of a client, and where it runs under which map of slots. Its name comes back with its outcome.
    pub fn on_request(
        &mut self,
        now_ms: u64,
        (placement, map): (Placement, MapVersion),
        operation: O,
        out: &mut Effects<O, R, U>,
    ) -> OperationId {
        let id = OperationId { agent: self.server, start: self.start, number: self.next_operation };
        self.next_operation += 1;
        let request = Request { id, placement, map, operation };
        match placement.server() {
            Some(server) if server != self.server && !self.faults.executes_anywhere() => {
                self.forward(now_ms, server, request, out);
            }
            _ => self.enqueue(now_ms, request, out),
        }
        self.advance(now_ms, out);
        id
    }

    /// An operation that runs here waits for the token, or for a connection. One that was placed under an older map than that of the database is
    /// to be placed again: no token may ever come here.
    pub(super) fn enqueue(&mut self, now_ms: u64, request: Request<O>, out: &mut Effects<O, R, U>) {
        if self.is_outdated(&request) {
            self.finish(request.id, Outcome::WrongMap, out);
            return;
        }
        self.since_ms.insert(request.id, now_ms);
        if matches!(request.placement, Placement::Global(_)) {
            self.queue.push_back(request);
            if self.queue.len() == 1 {
                self.want_token(now_ms, out);
            }
        } else {
            self.waiting.push_back(request);
        }
    }

    fn is_outdated(&self, request: &Request<O>) -> bool {
        self.database.is_some_and(|database| request.map < database.map)
    }

    /// Refuses the global operations that wait under an older map than that of the database.
    pub(super) fn refuse_outdated(&mut self, out: &mut Effects<O, R, U>) {
        let map = self.database.map_or(0, |database| database.map);
        if map == self.swept {
            return;
        }
        self.swept = map;
        let (outdated, waiting) =
            std::mem::take(&mut self.queue).into_iter().partition(|request| self.is_outdated(request));
        self.queue = waiting;
        let outdated: VecDeque<Request<O>> = outdated;
        outdated.into_iter().for_each(|request| self.finish(request.id, Outcome::WrongMap, out));
    }

    /// A token that idles is sent on, if an operation waits for it here.
    pub(super) fn want_token(&mut self, now_ms: u64, out: &mut Effects<O, R, U>) {
        if self.queue.is_empty() || !self.was_idle || self.visiting.is_some() {
            return;
        }
        self.wanted_ms = now_ms;
        let others = self.epochs.ring().iter().filter(|server| **server != self.server);
        let wanted = |server: &ServerId| (*server, AgentMessage::Wanted { epoch: self.epochs.epoch() });
        out.messages.extend(others.map(wanted));
    }

    /// Runs operations that need no token, as far as there are connections.
    pub(super) fn run_waiting(&mut self, now_ms: u64, out: &mut Effects<O, R, U>) {
        if self.faults.executes_without_token() {
            self.waiting.extend(std::mem::take(&mut self.queue));
        }
        let mut running = self.running.values().filter(|running| running.license.is_none()).count();
        while running < self.settings.local_max
            && let Some(request) = self.waiting.pop_front()
        {
            self.execute(now_ms, request, None, 1, out);
            running += 1;
        }
    }

    pub(super) fn execute(
        &mut self,
        now_ms: u64,
        request: Request<O>,
        license: Option<License>,
        attempts: u32,
        out: &mut Effects<O, R, U>,
    ) {
        let id = request.id;
        let operation = request.operation.clone();
        let work =
            self.work(Pending::Execute(id), Work::Execute { id, operation, license, map: request.map }, out);
        let running = Running { request, work, license, attempts, since_ms: now_ms, is_aborted: false };
        let before = self.running.insert(id, running);
        assert!(before.is_none() || self.faults.forgets_forwarded(), "an operation runs once at a time");
    }

    /// Operations of a visit that run.
    pub(super) fn running_of(&self, license: License) -> usize {
        self.running.values().filter(|running| running.license == Some(license)).count()
    }

    pub(super) fn on_executed(&mut self, id: OperationId, done: Done<R, U>, out: &mut Effects<O, R, U>) {
        let Some(running) = self.running.remove(&id) else { return };
        match done {
            Done::Executed(answer) => self.finish(id, Outcome::Answered(answer), out),
            Done::SerializationFailure => self.try_again(running, out),
            // The visit is over. The operation waits for another one.
            Done::NotLicensed => self.queue.push_front(running.request),
            Done::WrongMap => self.finish(id, Outcome::WrongMap, out),
            Done::Cancelled => self.finish(id, Outcome::TooLong, out),
            _ => {
                self.database = None;
                self.finish(id, Outcome::Unknown, out);
            }
        }
    }

    fn try_again(&mut self, running: Running<O>, out: &mut Effects<O, R, U>) {
        let Running { request, license, attempts, since_ms, is_aborted, .. } = running;
        if is_aborted {
            self.finish(request.id, Outcome::TooLong, out);
        } else if attempts < self.settings.attempts_max {
            self.execute(since_ms, request, license, attempts + 1, out);
        } else if license.is_some() {
            self.queue.push_back(request);
        } else {
            self.finish(request.id, Outcome::Starved, out);
        }
    }

    /// A global operation whose client idles, or that takes too long for other reasons, is aborted: it keeps the token here.
    pub(super) fn abort_late(&mut self, now_ms: u64, out: &mut Effects<O, R, U>) {
        let late_ms = now_ms.saturating_sub(self.settings.operation_ms);
        let is_late = |running: &&mut Running<O>| {
            running.license.is_some() && !running.is_aborted && running.since_ms < late_ms
        };
        for running in self.running.values_mut().filter(is_late) {
            running.is_aborted = true;
            out.aborts.push(running.work);
        }
    }

    /// Operations that have waited for too long are not begun any more. The oldest are in front.
    pub(super) fn give_up_waiting(&mut self, now_ms: u64, out: &mut Effects<O, R, U>) {
        let late_ms = now_ms.saturating_sub(self.settings.wait_ms);
        let has_database = self.database.is_some();
        for (is_global, lacked) in [(true, Lacks::Token), (false, Lacks::Connection)] {
            let lacks = if has_database { lacked } else { Lacks::Database };
            loop {
                let queue = if is_global { &mut self.queue } else { &mut self.waiting };
                let since_ms = queue.front().and_then(|request| self.since_ms.get(&request.id));
                if since_ms.is_none_or(|since_ms| *since_ms >= late_ms) {
                    break;
                }
                let Some(request) = queue.pop_front() else { break };
                self.finish(request.id, Outcome::NotBegun(lacks), out);
            }
        }
    }

    /// Tells the outcome to whoever has sent the operation.
    pub(super) fn finish(&mut self, id: OperationId, outcome: Outcome<R>, out: &mut Effects<O, R, U>) {
        self.since_ms.remove(&id);
        if id.agent == self.server && id.start == self.start {
            out.answers.push((id, outcome));
        } else {
            self.answer_forwarded(id, outcome, out);
        }
    }
}
