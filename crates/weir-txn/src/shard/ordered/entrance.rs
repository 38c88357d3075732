//! Transactions that run under locks beside ordered calls. Each takes a place in the order of every shard before it locks anything:
//! calls behind that place wait until it has ended at their shard.
//!
//! Who holds nothing yet may wait for its place. Who holds something already is refused where the next call waits (40001): that call may wait
//! for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::lsn::Lsn;
use weir_ordered::message::{Message, Party};
use weir_ordered::packet::{Part, Transaction};
use weir_types::{SqlError, SqlState};

use super::{OrderedRecord, REGISTRATION};
use crate::faults::Faults;
use crate::message::{Begun, HOME, Operation, Ordered, OrderedMessage, Request, Work};
use crate::shard::log::Record;
use crate::shard::node::{Effects, Node};
use crate::shard::open::{Open, StepResult};

/// Client under whose name a shard asks for places. No coordinator has such an id.
fn client_of(shard: ShardId) -> CoordinatorId {
    CoordinatorId::MAX - CoordinatorId::from(shard)
}

impl<F: Faults> Node<F> {
    /// A transaction asks to enter.
    pub(in crate::shard) fn on_enter(
        &mut self,
        now_ms: u64,
        (txn, begun): (TxnId, Begun),
        work: Box<Work>,
        out: &mut Effects,
    ) {
        self.begin_ordering();
        let request = Request::Work { txn, begun, work };
        let Some(ordering) = &mut self.ordering else {
            // A program that this shard does not have yet: its statements are refused.
            return self.admit(request, out);
        };
        if ordering.entered.contains_key(&txn) || self.bugs.enters_at_once() {
            return self.admit(request, out);
        }
        if is_late(&self.open, &request) && ordering.next().is_some() {
            return self.refuse_entrance(request, out);
        }
        // A shard that has restarted, or was thought to be late, asks for a place itself.
        let is_repeated = ordering.entering.insert(txn, request).is_some();
        if self.shard == HOME || is_repeated {
            self.ask_for_place(now_ms, (txn, begun), out);
        }
    }

    /// Asks the sequencer for a place in the orders of all shards. A second one does no harm.
    fn ask_for_place(&mut self, now_ms: u64, (txn, begun): (TxnId, Begun), out: &mut Effects) {
        let Some(ordering) = &mut self.ordering else { return };
        ordering.asked += 1;
        let sequence = (self.participant.incarnation << 32) + ordering.asked;
        let transaction = Transaction {
            id: TxnId { coordinator: client_of(self.shard), sequence },
            floor: sequence,
            registration: REGISTRATION,
            destinations: (0..self.program.shards).collect(),
            part: Part::Independent,
            operation: Operation { txn, begun, what: Ordered::Enter },
        };
        let message = Message::Submit(Arc::new(transaction));
        let (from, to) = (Party::Client(client_of(self.shard)), Party::Sequencer(0));
        match self.shard == HOME {
            true => self.hand(now_ms, (from, to, message), out),
            false => {
                let message = OrderedMessage::Protocol { from, to, message };
                out.ask(HOME, Request::Ordered(Box::new(message)), Lsn::START);
            }
        }
    }

    /// The turn of a transaction has come.
    pub(super) fn enter(&mut self, txn: TxnId, out: &mut Effects) {
        // A retired coordinator begins nothing here any more.
        if self.is_over(txn) || self.participant.outcomes.is_retired(txn.coordinator) {
            return;
        }
        // A shard that has restarted may come to the place of what it has prepared before.
        let has_worked = self.participant.prepared().contains_key(&txn);
        let Some(ordering) = &mut self.ordering else { return };
        if !ordering.entered.contains_key(&txn) {
            self.participant.log.push(Record::Ordered(Box::new(OrderedRecord::Entered(txn))));
        }
        *ordering.entered.entry(txn).or_default() |= has_worked;
        if let Some(request) = ordering.entering.remove(&txn) {
            self.admit(request, out);
        }
    }

    /// The transaction is open here from now on, and so ends here with all its participants.
    fn admit(&mut self, request: Request, out: &mut Effects) {
        let Request::Work { txn, begun, work } = request else { return };
        if let Some(ordering) = &mut self.ordering {
            ordering.entered.insert(txn, true);
        }
        let mut open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, self.shard, begun.age));
        open.has_entered = true;
        self.worked(txn, open, (work.number, Ok(StepResult::default())), out);
    }

    /// Notices the silence of coordinators whose operations wait for their turn, though the shard may never have heard of them. Were it only
    /// noticed at their turn, each dead one would hold up all behind it for that time.
    pub(super) fn know_who_waits(&mut self) {
        let Some(ordering) = &self.ordering else { return };
        let of = &mut self.participant;
        let waiting = ordering.replica.application().pending().chain(ordering.entered.keys().copied());
        for TxnId { coordinator, .. } in waiting {
            if !of.outcomes.is_retired(coordinator) {
                of.readers.know(coordinator);
            }
        }
    }

    fn refuse_entrance(&mut self, request: Request, out: &mut Effects) {
        let Request::Work { txn, begun, work } = request else { return };
        let open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, self.shard, begun.age));
        self.worked(txn, open, (work.number, Err(out_of_order())), out);
    }

    /// The next call waits: it may wait for one of those that have worked before they ask for their places.
    pub(super) fn refuse_late_entrances(&mut self, out: &mut Effects) {
        let (Some(ordering), open) = (&mut self.ordering, &self.open) else { return };
        let late: Vec<(TxnId, Request)> =
            ordering.entering.extract_if(.., |_, one| is_late(open, one)).collect();
        late.into_iter().for_each(|(_, request)| self.refuse_entrance(request, out));
    }

    /// Forgets those that have ended, here or before they have entered: a repeated request may have been refused for its clock.
    pub(super) fn forget_entered(&mut self) {
        let Some(ordering) = &mut self.ordering else { return };
        if ordering.entered.is_empty() && ordering.entering.is_empty() {
            return;
        }
        let (mut entered, mut entering) =
            (std::mem::take(&mut ordering.entered), std::mem::take(&mut ordering.entering));
        let has_left = |txn: &TxnId, has_worked: &mut bool| match has_worked {
            true => !self.open.contains_key(txn) && !self.participant.prepared().contains_key(txn),
            false => self.is_over(*txn) || self.participant.outcomes.is_retired(txn.coordinator),
        };
        let left: Vec<TxnId> = entered.extract_if(.., has_left).map(|(txn, _)| txn).collect();
        entering.retain(|txn, _| !self.is_over(*txn));
        if let Some(ordering) = &mut self.ordering {
            (ordering.entered, ordering.entering) = (entered, entering);
        }
        if !left.is_empty() {
            self.participant.log.push(Record::Ordered(Box::new(OrderedRecord::Left(left))));
        }
    }

    /// Its request to enter is withdrawn.
    pub(in crate::shard) fn stop_entering(&mut self, txn: TxnId) {
        if let Some(ordering) = &mut self.ordering {
            ordering.entering.remove(&txn);
        }
    }

    /// Coordinators that are silent open nothing any more.
    pub(in crate::shard) fn drop_entrances_of(&mut self, silent: &[CoordinatorId]) {
        let Some(ordering) = &mut self.ordering else { return };
        let is_of_them = |txn: &TxnId| silent.contains(&txn.coordinator);
        ordering.entering.retain(|txn, _| !is_of_them(txn));
        let unheard: Vec<TxnId> = ordering
            .entered
            .iter()
            .filter(|(txn, has_worked)| is_of_them(txn) && !**has_worked)
            .map(|(txn, _)| *txn)
            .collect();
        // At once: the refusal is forgotten as soon as the coordinator is retired.
        ordering.entered.retain(|txn, _| !unheard.contains(txn));
        for txn in unheard {
            self.note_refusal(txn, None);
        }
    }
}

/// Returns whether the transaction has worked before, and may hold something. One that builds an index holds nothing.
fn is_late(open: &BTreeMap<TxnId, Open>, request: &Request) -> bool {
    let Request::Work { txn, work, .. } = request else { return false };
    work.number > 1 && open.get(txn).is_none_or(|open| open.build().is_none())
}

fn out_of_order() -> SqlError {
    let message = "could not serialize access: a transaction that holds locks meets ordered calls that wait";
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message)
        .with_hint("The transaction might succeed if retried. One that begins at SERIALIZABLE waits for its turn instead.")
}
