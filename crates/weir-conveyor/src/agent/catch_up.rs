//! Applying the visits of other servers, one in each transaction, in order; and reading from their outboxes what no token has brought.

use std::sync::Arc;

use super::{Agent, Pending};
use crate::epochs::{ServerId, VisitNumber};
use crate::faults::AgentFaults;
use crate::message::Effects;
use crate::token::Visit;
use crate::work::{Done, Work};

/// Outboxes that are read at once.
const READS_MAX: usize = 4;

impl<O: Clone, R: Clone, U: Clone, F: AgentFaults> Agent<O, R, U, F> {
    /// The position of the database. Empty visits behind it count once a later one moves it.
    pub(super) fn applied(&self) -> VisitNumber {
        self.database.map_or(0, |database| database.applied)
    }

    pub(super) fn learn_applied(&mut self, applied: VisitNumber) {
        let Some(database) = &mut self.database else { return };
        database.applied = database.applied.max(applied);
        let applied = database.applied;
        self.received = self.received.split_off(&(applied + 1));
        self.learn_ended(applied);
    }

    pub(super) fn learn_ended(&mut self, ended: VisitNumber) {
        self.ended = self.ended.max(ended);
    }

    /// Takes the contents of visits that have ended.
    pub(super) fn receive(&mut self, visits: impl IntoIterator<Item = Arc<Visit<U>>>) {
        let applied = self.applied();
        let news = visits.into_iter().filter(|visit| visit.number > applied);
        self.received.extend(news.map(|visit| (visit.number, visit)));
    }

    /// The visit up to which the database has everything: own visits, and empty ones, need not be applied.
    pub(super) fn reached(&self) -> VisitNumber {
        let mut reached = self.applied();
        while reached < self.ended && self.needs_nothing(reached + 1) {
            reached += 1;
        }
        reached
    }

    fn needs_nothing(&self, visit: VisitNumber) -> bool {
        let is_empty = |visit: &Arc<Visit<U>>| visit.updates.is_empty();
        self.epochs.holder(visit) == Some(self.server) || self.received.get(&visit).is_some_and(is_empty)
    }

    /// Applies the next visit that has ended, or reads what is missing.
    pub(super) fn catch_up(&mut self, now_ms: u64, out: &mut Effects<O, R, U>) {
        let reached = self.reached();
        // Outboxes are not kept for a server that has left: if it comes back, it begins with a copy of everything.
        if reached >= self.ended || self.is_absent() {
            return;
        }
        if let Some(visit) = self.received.get(&(reached + 1)).cloned() {
            if !self.is_pending(Pending::Apply) && !self.is_closing() {
                let after = self.applied();
                self.work(Pending::Apply, Work::Apply { after, visit }, out);
            }
            return;
        }
        // A server of the ring gets visits with the token. What that does not bring is read once it is here.
        let is_member = self.epochs.ring().contains(&self.server);
        if now_ms >= self.retry_ms && (self.visiting.is_some() || !is_member) {
            self.read_missing(reached, out);
        }
    }

    fn read_missing(&mut self, reached: VisitNumber, out: &mut Effects<O, R, U>) {
        let until = self.ended.min(reached + READS_MAX as u64);
        for visit in reached + 1..=until {
            let Some(server) = self.epochs.holder(visit) else { return };
            let pending = Pending::Read(server, visit);
            let is_here = server == self.server || self.received.contains_key(&visit);
            if !is_here && !self.is_pending(pending) {
                self.work(pending, Work::Read { server, visit }, out);
            }
        }
    }

    pub(super) fn on_read(
        &mut self,
        (server, visit): (ServerId, VisitNumber),
        done: Done<R, U>,
        out: &mut Effects<O, R, U>,
    ) {
        match done {
            Done::Contents(contents) => {
                assert!(contents.number == visit, "an outbox has the visit that was asked for");
                match server == self.server {
                    true => self.end_visit(contents, out),
                    false => self.receive([contents]),
                }
            }
            Done::Lost if server == self.server => self.database = None,
            _ => {}
        }
    }
}
