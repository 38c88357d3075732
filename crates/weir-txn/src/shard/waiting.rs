//! Requests that wait at a shard until the transactions end that hold their rows and keys.

use weir_core::ids::{CoordinatorId, TxnId};
use weir_sql::catalog::TableId;

use super::hand_over::Again;
use super::node::{Effects, Node};
use crate::claims::{Claim, Holders};
use crate::faults::Faults;
use crate::message::{Age, Reply, Request, Work};

/// A request that waits for the end of a transaction.
#[derive(Debug)]
pub(crate) struct Waiting {
    request: Request,
    /// The claim for which it stopped; none: it has to run again to know whether it still has to wait.
    wants: Option<Claim>,
    /// Number of times that it has run and stopped at this shard.
    stops: u32,
    /// The table at which it stopped last.
    table: Option<TableId>,
    /// It stopped on a worker.
    was_beside: bool,
}

impl From<Request> for Waiting {
    fn from(request: Request) -> Waiting {
        Waiting { request, wants: None, stops: 0, table: None, was_beside: false }
    }
}

impl Waiting {
    fn txn(&self) -> TxnId {
        self.request.txn()
    }

    fn age_of_call(&self) -> Option<Age> {
        age_of_call(&self.request)
    }

    /// Returns whether it waits on without a run if another transaction has what it needs. A statement that runs within a step looks again
    /// whether it still needs it. One that runs on a worker would meet the holder later than those that come meanwhile, and queue behind them.
    fn keeps_its_place(&self) -> bool {
        self.was_beside || !matches!(self.request, Request::Work { .. })
    }
}

/// Age of a call; none: of a statement in an open transaction, which goes on in the order in which it came.
pub(super) fn age_of_call(request: &Request) -> Option<Age> {
    match request {
        Request::Execute { begun, .. } | Request::Prepare { begun, .. } | Request::Decide { begun, .. } => {
            Some(begun.age)
        }
        _ => None,
    }
}

/// Returns whether the request is of a call that holds nothing on any shard while it waits: so nobody waits for it, and it may wait for
/// anybody. With two participants the other one is asked when this one has prepared.
pub(super) fn is_first_of_call(request: &Request) -> bool {
    match request {
        Request::Execute { .. } => true,
        Request::Prepare { participants, .. } => participants.len() <= 2,
        _ => false,
    }
}

/// Returns whether the statement is the first request of its transaction, which holds nothing at other shards: nobody waits for it there.
fn is_first_of_transaction(work: &Work) -> bool {
    // The shards of a query's reads take its locks at the same time.
    let asked_first = if work.call.callee.reads().is_some() { 1 } else { 2 };
    work.number == 1 && work.answers.is_empty() && work.participants.len() <= asked_first
}

impl<F: Faults> Node<F> {
    pub(crate) fn stop_waiting(&mut self, txn: TxnId) {
        self.waiting.values_mut().for_each(|requests| requests.retain(|one| one.txn() != txn));
        self.waits_besides.remove(&txn);
        self.chosen.remove(&txn);
        self.stop_entering(txn);
    }

    /// A read waits until the ordered call is executed here.
    pub(super) fn wait_for_execution(&mut self, call: TxnId, request: Request) {
        let waiting = self.waiting.entry(call).or_default();
        if waiting.iter().all(|one| one.txn() != request.txn()) {
            waiting.push(request.into());
        }
    }

    /// Retries the requests that waited for transactions which have ended: calls in the order of their age. One that needs a claim which
    /// another one has taken meanwhile is not run for that: it waits on, or withdraws ([`Waiting::keeps_its_place`]).
    pub(super) fn wake(&mut self, now_ms: u64, out: &mut Effects) {
        loop {
            let Some(txn) = self.ended.pop() else {
                if self.ends_starvation() || self.execute_in_order(now_ms, out) {
                    continue;
                }
                break;
            };
            self.execute_behind(now_ms, txn, out);
            let mut woken = self.waiting.remove(&txn).unwrap_or_default();
            if woken.iter().all(|waiting| waiting.age_of_call().is_some()) {
                woken.sort_by_key(Waiting::age_of_call);
            }
            for waiting in woken {
                self.waits_besides.remove(&waiting.txn());
                if let Some(waiting) = self.wait_on(waiting, out) {
                    let (txn, Waiting { request, wants, stops, .. }) = (waiting.txn(), waiting);
                    self.again = Some(Again { txn, stops, wanted: wants, was_beside: false });
                    self.retry(now_ms, request, out);
                    self.again = None;
                }
            }
        }
    }

    fn retry(&mut self, now_ms: u64, request: Request, out: &mut Effects) {
        self.statement = request.statement();
        // The clock check is skipped: a request may have waited for hours since it was begun.
        if !self.participant.remembers || !self.is_repeated(&request, out) {
            self.on_admitted(now_ms, request, out);
        }
    }

    /// Queues the request again, or withdraws it, if another transaction has the claim that it needs. Otherwise gives it back.
    fn wait_on(&mut self, waiting: Waiting, out: &mut Effects) -> Option<Waiting> {
        let wants = waiting.wants.as_ref().filter(|_| waiting.keeps_its_place());
        let holders = wants.map_or_else(Holders::new, |wants| self.claims.against(wants, waiting.txn()));
        if holders.is_empty() {
            return Some(waiting);
        }
        match &waiting.request {
            Request::Work { txn, work, begun } if self.withdraws((*txn, begun.age), work, &holders) => {
                self.withdraw(waiting.txn(), out);
            }
            Request::Work { .. } => self.wait_with_work(holders, waiting, out),
            request if self.may_wait(request, &holders) => self.queue_call(holders[0], waiting),
            _ => self.withdraw(waiting.txn(), out),
        }
        None
    }

    /// Queues a statement of an open transaction until the first of its holders has ended.
    pub(crate) fn wait_with_work(
        &mut self,
        mut holders: Holders,
        waiting: impl Into<Waiting>,
        out: &mut Effects,
    ) {
        let waiting = waiting.into();
        let (txn, holder) = (waiting.txn(), holders.remove(0));
        self.waits_besides.remove(&txn);
        if !holders.is_empty() {
            self.waits_besides.insert(txn, holders);
        }
        self.waiting.entry(holder).or_default().push(waiting);
        self.tell_whom_it_waits_for(txn, holder, out);
    }

    pub(super) fn tell_whom_it_waits_for(&self, txn: TxnId, holder: TxnId, out: &mut Effects) {
        let shard = self.shard;
        self.reply(txn, Reply::Waits { txn, shard, holder }, out);
        if let Some(holders) = self.waits_besides.get(&txn) {
            let holders = holders.to_vec();
            self.reply(txn, Reply::WaitsBesides { txn, shard, holders }, out);
        }
    }

    /// Transaction that a queued request of `txn` waits for.
    pub(super) fn waits_for(&self, txn: TxnId) -> Option<TxnId> {
        let has = |requests: &[Waiting]| requests.iter().any(|request| request.txn() == txn);
        self.waiting.iter().find(|(_, requests)| has(requests)).map(|(holder, _)| *holder)
    }

    /// Queues a request of a call until its holder has ended. A coordinator over a network is told of it, for pg_stat_activity and pg_locks.
    pub(crate) fn wait_with_call(&mut self, holder: TxnId, waiting: Waiting, out: &mut Effects) {
        let (txn, tells) = (waiting.txn(), is_first_of_call(&waiting.request));
        self.queue_call(holder, waiting);
        if tells && self.participant.remembers {
            self.tell_whom_it_waits_for(txn, holder, out);
        }
    }

    fn queue_call(&mut self, holder: TxnId, waiting: Waiting) {
        if let Some(age) = waiting.age_of_call() {
            self.note_wait((age, waiting.txn()), (waiting.stops, waiting.table), holder);
        }
        self.waiting.entry(holder).or_default().push(waiting);
    }

    /// Queues a call or statement that needs the end of the holders, or answers that it is withdrawn.
    pub(super) fn wait_for(&mut self, holders: Holders, request: Request, out: &mut Effects) {
        let (wants, table) = (self.scratch.met.take(), self.scratch.stopped_at.take());
        let again = self.take_again(request.txn());
        let (stops, was_beside) = again.map_or((1, false), |again| (again.stops + 1, again.was_beside));
        let waiting = |request| Waiting { request, wants, stops, table, was_beside };
        match request {
            Request::Work { txn, begun, ref work } if self.withdraws((txn, begun.age), work, &holders) => {
                self.withdraw(txn, out);
            }
            Request::Work { .. } => {
                self.has_done.waits += 1;
                self.wait_with_work(holders, waiting(request), out);
            }
            Request::WorkAndBind { .. } if self.bugs.waits_while_prepared() => {
                self.wait_with_call(holders[0], request.into(), out);
            }
            request => self.wait_or_withdraw(&holders, waiting(request), out),
        }
    }

    fn wait_or_withdraw(&mut self, holders: &Holders, waiting: Waiting, out: &mut Effects) {
        match self.may_wait(&waiting.request, holders) {
            true => {
                self.has_done.waits += 1;
                self.wait_with_call(holders[0], waiting, out);
            }
            false => self.withdraw(waiting.txn(), out),
        }
    }

    /// S7: a call that holds nothing waits for anybody. Any other one waits only if it is older than all holders, so calls never wait in a
    /// circle; and not for open transactions, which may take arbitrarily long.
    fn may_wait(&self, request: &Request, holders: &Holders) -> bool {
        // A worker may have met a holder that has ended meanwhile: nobody would be woken by its end.
        let is_there = |holder: &TxnId| {
            self.open.contains_key(holder)
                || self.workers.calls(*holder)
                || self.participant.prepared().contains_key(holder)
                || self.starvation.is_for(*holder)
        };
        if holders.is_empty() || !holders.iter().all(is_there) {
            return false;
        }
        if is_first_of_call(request) {
            return true;
        }
        let age = request.begun().map(|begun| begun.age);
        let is_younger = |holder: &TxnId| {
            let prepared = self.participant.prepared().get(holder);
            prepared.is_some_and(|prepared| age.is_some_and(|age| age < prepared.age))
        };
        holders.iter().all(is_younger)
    }

    pub(super) fn withdraw(&mut self, txn: TxnId, out: &mut Effects) {
        self.has_done.withdrawals += 1;
        self.chosen.remove(&txn);
        self.answer(txn, Reply::Busy { txn, shard: self.shard }, out);
    }

    /// Returns whether a statement of that age withdraws instead of waiting for older open transactions: where no timer runs, nobody ends
    /// circles of transactions of several coordinators. Calls withdraw from open transactions, so no prepared one waits for any of these.
    fn withdraws(&self, (txn, age): (TxnId, Age), work: &Work, holders: &Holders) -> bool {
        // What it has taken while it waited is held, too.
        let holds_nothing =
            || is_first_of_transaction(work) && self.open.get(&txn).is_none_or(|open| !open.has_worked());
        if self.participant.remembers || self.bugs.waits_in_circles() || holds_nothing() {
            return false;
        }
        holders.iter().any(|holder| self.open.get(holder).is_some_and(|open| open.age < age))
    }

    /// Drops queued requests of silent coordinators: they must not be prepared later, when no client waits for them.
    pub(super) fn withdraw_what_waits_of(&mut self, silent: &[CoordinatorId], out: &mut Effects) {
        let of_them = |waiting: &mut Waiting| silent.contains(&waiting.txn().coordinator);
        let withdrawn: Vec<Waiting> =
            self.waiting.values_mut().flat_map(|requests| requests.extract_if(.., of_them)).collect();
        self.waiting.retain(|_, requests| !requests.is_empty());
        for waiting in withdrawn {
            let txn = waiting.txn();
            // A coordinator that lives reads again.
            if waiting.request.reads() {
                continue;
            }
            self.chosen.remove(&txn);
            self.answer(txn, Reply::Busy { txn, shard: self.shard }, out);
        }
    }
}
