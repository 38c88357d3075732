//! General transactions at a replica: answers that come later than their entries, aborts of what nobody concludes, reads without order
//! (eris.txt §7).

use std::sync::Arc;

use weir_core::ids::CoordinatorId;

use crate::application::Application;
use crate::client::RESEND_INTERVALS_MAX;
use crate::cluster::Timeouts;
use crate::faults::Faults;
use crate::message::{Message, Party, SequencerId};
use crate::packet::{Epoch, Index, Part, Transaction};
use crate::replica::{EffectsOf, Replica, Status};

/// The longest time between two aborts of a general transaction, in those before the first.
const ABORT_INTERVALS_MAX: u64 = 4;

/// When a general transaction is aborted, or aborted again.
#[derive(Clone, Copy, Debug)]
pub(super) struct AbortAt {
    at_ms: u64,
    /// Doubles with each abort, up to a limit: a shard that cannot execute its log must not drown in aborts.
    interval_ms: u64,
}

impl<A: Application, F: Faults> Replica<A, F> {
    /// The sequencer that has given the counters of the current epoch. Aborts go to it.
    pub(super) fn note_sequencer(&mut self, epoch: Epoch, sequencer: SequencerId) {
        if self.is_current(epoch) {
            self.sequencer = Some(sequencer);
        }
    }

    /// Tells the answers of transactions that had waited, as far as a majority has the entries that they follow from.
    pub(super) fn settle(&mut self, out: &mut EffectsOf<A>) {
        if self.execution.last_late().is_none() || !self.is_learner() || self.status() != Status::Normal {
            return;
        }
        for (txn, outcome) in self.execution.take_late(self.settled()) {
            let settled = Message::Settled { txn, outcome };
            out.send_after(Party::Client(txn.coordinator), settled, self.noted);
        }
    }

    /// Up to this index a majority has the log, once what this replica has noted is durable.
    pub(super) fn settled(&self) -> Index {
        let is_alone = self.cluster.majority() == 1;
        if is_alone || self.faults.settles_early() { Index::MAX } else { self.synchronized }
    }

    /// Asks the followers at once for what answers wait for.
    pub(super) fn hurry(&mut self, out: &mut EffectsOf<A>) {
        self.settle(out);
        let is_missing = self.execution.last_late().is_some_and(|index| index > self.prepared);
        if is_missing && self.is_learner() && self.status() == Status::Normal {
            self.prepare(out);
        }
    }

    /// Aborts general transactions whose clients are silent: they hold locks for long, or wait and are not sent again. A learner is the first to
    /// do so.
    pub(super) fn abort_abandoned(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        let patience = if self.is_learner() { 1 } else { 2 };
        let Timeouts { general_ms, resend_ms, .. } = self.cluster.timeouts;
        let locks = self.execution.locks();
        let held = locks.held().map(|transaction| (transaction, true));
        let waiting = locks.waiting_preliminaries().map(|transaction| (transaction, false));
        let mut abort_at_ms = std::mem::take(&mut self.abort_at_ms);
        for (transaction, holds) in held.chain(waiting) {
            let repeats_ms = if holds { 0 } else { RESEND_INTERVALS_MAX * resend_ms };
            let wait_ms = patience * (general_ms + repeats_ms);
            let known = abort_at_ms.remove(&(transaction.id, holds));
            let mut next = known.unwrap_or(AbortAt { at_ms: now_ms + wait_ms, interval_ms: wait_ms });
            if let Some(sequencer) = self.sequencer.filter(|_| now_ms >= next.at_ms) {
                let abort = Transaction { part: Part::ReplicaAbort, ..(**transaction).clone() };
                out.send(Party::Sequencer(sequencer), Message::Submit(Arc::new(abort)));
                let interval_ms = (2 * next.interval_ms).min(ABORT_INTERVALS_MAX * wait_ms);
                next = AbortAt { at_ms: now_ms + interval_ms, interval_ms };
            }
            self.abort_at_ms.insert((transaction.id, holds), next);
        }
    }

    /// A preliminary part that waits has come again: its client lives.
    pub(super) fn note_repeated(&mut self, transaction: &Transaction<A::Operation>) {
        if transaction.part == Part::Preliminary {
            self.abort_at_ms.remove(&(transaction.id, false));
        }
    }

    /// Reads what is executed, for a client that does not know yet what it will lock.
    pub(super) fn on_reconnaissance(
        &self,
        from: CoordinatorId,
        (number, operation): (u64, &A::Operation),
        out: &mut EffectsOf<A>,
    ) {
        if self.status() == Status::Normal {
            let answer = self.application().reconnoitre(operation);
            out.send(Party::Client(from), Message::Reconnoitred { number, answer });
        }
    }
}
