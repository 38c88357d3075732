//! A visit of the token, from its arrival until it has left.
//!
//! ```text
//! comes ─▶ preparing ─────────────▶ open ───────────────────▶ closing ──────────▶ reading ─▶ passes
//!          the epoch is adopted,    one batch of the queue,   the epoch row says  the outbox, which
//!          all visits before it     or nothing for a while    that it has ended   no longer changes
//!          are applied
//! ```
//!
//! The epoch row decides: a visit that it has closed is read and passed, whoever has closed it in this epoch; a token of an earlier
//! epoch is dropped.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Agent, Pending};
use crate::epochs::{Epoch, ServerId, VisitNumber};
use crate::faults::AgentFaults;
use crate::message::{AgentMessage, Effects, Request};
use crate::token::{Token, Visit};
use crate::work::{License, Work};

/// The token, while it is here.
#[derive(Clone, Debug)]
pub(super) struct Visiting<O, U> {
    pub(super) token: Token<U>,
    /// All visits before it are applied.
    is_open: bool,
    /// When the visit opened.
    open_ms: u64,
    /// The batch was taken from the queue. There is one for each visit, so that the token is not kept for ever.
    has_batch: bool,
    /// Operations of the batch that wait for a connection.
    batch: VecDeque<Request<O>>,
}

impl<O, U> Visiting<O, U> {
    fn new(token: Token<U>) -> Self {
        Visiting { token, is_open: false, open_ms: 0, has_batch: false, batch: VecDeque::new() }
    }

    fn license(&self) -> License {
        License { epoch: self.token.epoch, visit: self.token.visit }
    }
}

/// The token on its way.
#[derive(Clone, Debug)]
pub(super) struct Passing<U> {
    to: ServerId,
    token: Token<U>,
    sent_ms: Option<u64>,
}

impl<O: Clone, R: Clone, U: Clone, F: AgentFaults> Agent<O, R, U, F> {
    /// The first server of an epoch makes its token, unless the first visit is over.
    pub(super) fn create_token(&mut self) {
        let (Some(start), Some(database)) = (self.epochs.last(), self.database) else { return };
        let is_begun = self.visiting.is_some() || self.passing.is_some() || self.promised.is_some();
        let row = database.row;
        // A visit that an earlier start of this agent has closed may not have been passed on.
        let is_open = row.closed < start.first || row.is_closed_in(start.epoch, start.first);
        let is_over = self.ended >= start.first || row.epoch > start.epoch || !is_open;
        if start.ring[0] == self.server && !is_begun && !is_over {
            self.visiting = Some(Visiting::new(Token::new(start.epoch, start.first)));
        }
    }

    pub(super) fn on_token(&mut self, from: ServerId, token: Token<U>, out: &mut Effects<O, R, U>) {
        let Token { epoch, visit, .. } = token;
        if self.database.is_none() {
            return;
        }
        if epoch != self.epochs.epoch() || self.epochs.holder(visit) != Some(self.server) {
            return;
        }
        out.messages.push((from, AgentMessage::TokenReceived { epoch, visit }));
        let is_here = self.visiting.as_ref().is_some_and(|visiting| visiting.token.visit >= visit);
        if is_here || self.ended >= visit {
            return;
        }
        self.drop_token();
        self.learn_ended(visit - 1);
        self.receive(token.carried.iter().cloned());
        self.was_idle = token.idle > 0;
        self.visiting = Some(Visiting::new(token));
    }

    pub(super) fn on_token_received(&mut self, epoch: Epoch, visit: VisitNumber) {
        self.passing.take_if(|passing| (passing.token.epoch, passing.token.visit) == (epoch, visit));
    }

    pub(super) fn resend_token(&mut self, now_ms: u64, out: &mut Effects<O, R, U>) {
        let resend_ms = self.settings.resend_ms;
        if let Some(passing) = &mut self.passing
            && passing.sent_ms.is_none_or(|sent_ms| now_ms >= sent_ms + resend_ms)
        {
            passing.sent_ms = Some(now_ms);
            out.messages.push((passing.to, AgentMessage::Token(passing.token.clone())));
        }
    }

    /// The token is no longer valid here. Operations that wait in its batch wait for the next one.
    pub(super) fn drop_token(&mut self) {
        let Some(visiting) = self.visiting.take() else { return };
        visiting.batch.into_iter().rev().for_each(|request| self.queue.push_front(request));
    }

    /// Returns whether a visit is being closed.
    pub(super) fn is_closing(&self) -> bool {
        self.works.values().any(|pending| matches!(pending, Pending::End(_)))
    }

    pub(super) fn advance_visit(&mut self, now_ms: u64, out: &mut Effects<O, R, U>) {
        let (Some(visiting), Some(database)) = (&self.visiting, self.database) else { return };
        let (license, row) = (visiting.license(), database.row);
        if row.is_closed_in(license.epoch, license.visit) {
            self.read_own(license.visit, out);
        } else if row.epoch > license.epoch || row.closed >= license.visit {
            self.drop_token();
        } else if row.epoch < license.epoch {
            if !self.is_pending(Pending::Adopt) {
                self.work(Pending::Adopt, Work::Adopt { epoch: license.epoch }, out);
            }
        } else if visiting.is_open {
            self.advance_batch(now_ms, license, out);
        } else if self.reached() + 1 >= license.visit || self.faults.executes_before_applying() {
            self.open(now_ms);
            self.advance_batch(now_ms, license, out);
        }
    }

    fn open(&mut self, now_ms: u64) {
        let Some(visiting) = &mut self.visiting else { return };
        (visiting.is_open, visiting.open_ms) = (true, now_ms);
    }

    /// Runs the batch. Once nothing of it runs, the visit is closed.
    fn advance_batch(&mut self, now_ms: u64, license: License, out: &mut Effects<O, R, U>) {
        self.take_batch();
        self.run_batch(now_ms, license, out);
        if self.faults.passes_early() && self.visiting.as_ref().is_some_and(|visiting| visiting.has_batch) {
            self.read_own(license.visit, out);
            return;
        }
        let is_done = self.running_of(license) == 0 && !self.waits(now_ms);
        if is_done && !self.is_closing() && !self.is_pending(Pending::Apply) {
            let after = self.applied();
            self.work(Pending::End(license), Work::End { license, after }, out);
        }
    }

    /// Takes what waits, once in a visit: what comes later waits for the next one (Algorithm 2, line 16).
    fn take_batch(&mut self) {
        let closing = self.is_closing();
        let Some(visiting) = &mut self.visiting else { return };
        if !visiting.has_batch && !self.queue.is_empty() && !closing {
            let length = self.queue.len().min(self.settings.batch_max);
            visiting.batch = self.queue.drain(..length).collect();
            visiting.has_batch = true;
        }
    }

    fn run_batch(&mut self, now_ms: u64, license: License, out: &mut Effects<O, R, U>) {
        let mut running = self.running_of(license);
        while running < self.settings.global_max {
            let next = self.visiting.as_mut().and_then(|visiting| visiting.batch.pop_front());
            let Some(request) = next else { return };
            self.execute(now_ms, request, Some(license), 1, out);
            running += 1;
        }
    }

    /// A token that has found nothing to do for a whole round waits at each server.
    fn waits(&self, now_ms: u64) -> bool {
        let Some(visiting) = &self.visiting else { return false };
        let stay_ms = self.settings.stay_ms(visiting.token.idle, self.epochs.ring().len());
        !visiting.has_batch && !self.holds && !self.is_wanted && now_ms < visiting.open_ms + stay_ms
    }

    fn read_own(&mut self, visit: VisitNumber, out: &mut Effects<O, R, U>) {
        let pending = Pending::Read(self.server, visit);
        if !self.is_pending(pending) {
            self.work(pending, Work::Read { server: self.server, visit }, out);
        }
    }

    /// The own visit has ended, with these contents: the token goes on.
    pub(super) fn end_visit(&mut self, contents: Arc<Visit<U>>, out: &mut Effects<O, R, U>) {
        if self.visit() != Some(contents.number) {
            return;
        }
        let Some(Visiting { mut token, batch, .. }) = self.visiting.take() else { return };
        batch.into_iter().rev().for_each(|request| self.queue.push_front(request));
        let found_nothing = contents.updates.is_empty() && self.queue.is_empty() && !self.is_wanted;
        token.idle = if found_nothing { token.idle.saturating_add(1) } else { 0 };
        (self.is_wanted, self.was_idle) = (false, token.idle > 0);
        self.learn_ended(contents.number);
        self.tell_ended(&contents, out);
        token.end_visit(self.server, contents, self.epochs.ring(), self.settings.carried_max);
        self.truncate(&token, out);
        // A server that has left in this visit applies nothing any more, so another ring begins.
        if self.holds || self.is_absent() {
            self.promised = Some(token.visit);
        }
        if let Some(to) = self.epochs.holder(token.visit)
            && (self.promised.is_none() || self.faults.passes_unpassed())
        {
            self.passing = Some(Passing { to, token, sent_ms: None });
        }
    }

    /// The servers of the ring get the visit at once, but for the next one, which has it with the token. So the token waits for one visit to be
    /// applied at each server, and not for all of a round.
    fn tell_ended(&self, contents: &Arc<Visit<U>>, out: &mut Effects<O, R, U>) {
        let next = self.epochs.holder(contents.number + 1);
        let others = self.epochs.ring().iter().copied().filter(|to| *to != self.server && Some(*to) != next);
        out.messages.extend(others.map(|to| (to, AgentMessage::Ended(contents.clone()))));
    }

    /// Its outbox no longer changes, so that it is the same in every epoch.
    pub(super) fn on_ended(&mut self, visit: Arc<Visit<U>>) {
        if self.database.is_some() {
            self.learn_ended(visit.number);
            self.receive([visit]);
        }
    }

    /// Deletes the outboxes that every member has applied, of the ring or not.
    fn truncate(&mut self, token: &Token<U>, out: &mut Effects<O, R, U>) {
        let absent = self.database.map(|database| database.absent).unwrap_or_default();
        let members = self.servers.iter().copied().filter(|server| !absent.contains(*server));
        let up_to = token.applied_by_all(members);
        if up_to > self.truncated && !self.is_pending(Pending::Truncate) {
            self.truncated = up_to;
            self.work(Pending::Truncate, Work::Truncate { up_to }, out);
        }
    }
}
