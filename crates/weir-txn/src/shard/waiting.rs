//! Requests that wait at a shard until the transactions end that hold their rows and keys.

use weir_core::ids::{CoordinatorId, TxnId};

use super::node::{Effects, Node};
use crate::claims::Holders;
use crate::faults::Faults;
use crate::message::{Age, Reply, Request, Work};

/// Returns whether the statement is the first request of its transaction, which holds nothing yet: nobody waits for it.
fn holds_nothing(work: &Work) -> bool {
    // The shards of a query's reads take its locks at the same time.
    let asked_first = if work.call.callee.reads().is_some() { 1 } else { 2 };
    work.number == 1 && work.answers.is_empty() && work.participants.len() <= asked_first
}

impl<F: Faults> Node<F> {
    pub(crate) fn stop_waiting(&mut self, txn: TxnId) {
        self.waiting.values_mut().for_each(|requests| requests.retain(|one| one.txn() != txn));
        self.waits_besides.remove(&txn);
        self.chosen.remove(&txn);
    }

    /// Retries the requests that waited for transactions which have ended.
    pub(super) fn wake(&mut self, now_ms: u64, out: &mut Effects) {
        while let Some(txn) = self.ended.pop() {
            for request in self.waiting.remove(&txn).unwrap_or_default() {
                self.waits_besides.remove(&request.txn());
                self.statement = request.statement();
                // The clock check is skipped: a request may have waited for hours since it was begun.
                if !self.participant.remembers || !self.is_repeated(&request, out) {
                    self.on_admitted(now_ms, request, out);
                }
            }
        }
    }

    /// Queues a statement of an open transaction until the first of its holders has ended.
    pub(crate) fn wait_with_work(&mut self, mut holders: Holders, request: Request, out: &mut Effects) {
        let (txn, holder) = (request.txn(), holders.remove(0));
        self.waits_besides.remove(&txn);
        if !holders.is_empty() {
            self.waits_besides.insert(txn, holders);
        }
        self.waiting.entry(holder).or_default().push(request);
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
        let has = |requests: &[Request]| requests.iter().any(|request| request.txn() == txn);
        self.waiting.iter().find(|(_, requests)| has(requests)).map(|(holder, _)| *holder)
    }

    /// Queues a request of a call until its holder has ended. A coordinator over a network is told of it, for pg_stat_activity and pg_locks.
    pub(crate) fn wait_with_call(&mut self, holder: TxnId, request: Request, out: &mut Effects) {
        let (txn, is_alone) = (request.txn(), matches!(request, Request::Execute { .. }));
        self.waiting.entry(holder).or_default().push(request);
        if is_alone && self.participant.remembers {
            self.tell_whom_it_waits_for(txn, holder, out);
        }
    }

    /// Queues a call or statement that needs the end of the holders, or answers that it is withdrawn.
    pub(super) fn wait_for(&mut self, holders: Holders, request: Request, out: &mut Effects) {
        match request {
            Request::Work { txn, begun, ref work } if self.withdraws(work, &holders, begun.age) => {
                self.withdraw(txn, out);
            }
            Request::Work { .. } => {
                self.has_done.waits += 1;
                self.wait_with_work(holders, request, out);
            }
            Request::WorkAndBind { .. } if self.bugs.waits_while_prepared() => {
                self.wait_with_call(holders[0], request, out);
            }
            request => self.wait_or_withdraw(&holders, request, out),
        }
    }

    /// S7: only an older transaction waits for a younger one, so calls never wait in a circle. Only a request that holds nothing on other
    /// shards waits for an open transaction, which may take arbitrarily long.
    fn wait_or_withdraw(&mut self, holders: &Holders, request: Request, out: &mut Effects) {
        let txn = request.txn();
        let age = request.begun().map(|begun| begun.age);
        let is_open = |holder: &TxnId| self.open.contains_key(holder) || self.workers.calls(*holder);
        let is_older = |holder: &TxnId| match is_open(holder) {
            true => matches!(request, Request::Execute { .. }),
            false => {
                let holder = self.participant.prepared().get(holder);
                holder.is_some_and(|holder| age.is_some_and(|age| age < holder.age))
            }
        };
        if holders.iter().all(is_older) {
            self.has_done.waits += 1;
            self.wait_with_call(holders[0], request, out);
        } else {
            self.withdraw(txn, out);
        }
    }

    pub(super) fn withdraw(&mut self, txn: TxnId, out: &mut Effects) {
        self.has_done.withdrawals += 1;
        self.chosen.remove(&txn);
        self.answer(txn, Reply::Busy { txn, shard: self.shard }, out);
    }

    /// Returns whether a statement of that age withdraws instead of waiting for older open transactions: where no timer runs, nobody ends
    /// circles of transactions of several coordinators. Calls withdraw from open transactions, so no prepared one waits for any of these.
    fn withdraws(&self, work: &Work, holders: &Holders, age: Age) -> bool {
        if self.participant.remembers || self.bugs.waits_in_circles() || holds_nothing(work) {
            return false;
        }
        holders.iter().any(|holder| self.open.get(holder).is_some_and(|open| open.age < age))
    }

    /// Drops queued requests of silent coordinators: they must not be prepared later, when no client waits for them.
    pub(super) fn withdraw_what_waits_of(&mut self, silent: &[CoordinatorId], out: &mut Effects) {
        let of_them = |request: &mut Request| silent.contains(&request.txn().coordinator);
        let withdrawn: Vec<Request> =
            self.waiting.values_mut().flat_map(|requests| requests.extract_if(.., of_them)).collect();
        self.waiting.retain(|_, requests| !requests.is_empty());
        for request in withdrawn {
            let txn = request.txn();
            self.chosen.remove(&txn);
            self.answer(txn, Reply::Busy { txn, shard: self.shard }, out);
        }
    }
}
