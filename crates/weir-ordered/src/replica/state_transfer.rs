//! State transfer: a replica that lacks entries which its peers have forgotten gets a checkpoint of one of them.

use std::sync::Arc;

use crate::application::Application;
use crate::cluster::ReplicaId;
use crate::faults::Faults;
use crate::message::{Message, Party};
use crate::packet::{Epoch, Index, View};
use crate::replica::log::Log;
use crate::replica::records::Record;
use crate::replica::{CheckpointOf, DurableOf, EffectsOf, Replica, Status};

/// A state that the replica lacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedState {
    /// It must be that after this index, or after a later one.
    index: Index,
    asked_ms: Option<u64>,
    /// How many peers have been asked.
    asked: u16,
}

/// The start of an epoch that the replica cannot begin before it has the entries up to the base of the log.
#[derive(Clone, Debug)]
pub(super) struct PendingStart<O> {
    pub epoch: Epoch,
    pub view: View,
    pub log: Log<O>,
}

impl<A: Application, F: Faults> Replica<A, F> {
    /// The replica asks for the state after that index until it has it.
    pub(super) fn want_state(&mut self, index: Index) {
        let before = self.wanted_state.unwrap_or(WantedState { index, asked_ms: None, asked: 0 });
        self.wanted_state = Some(WantedState { index: index.max(before.index), ..before });
    }

    /// Asks one peer after the other.
    pub(super) fn ask_for_state(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        let Some(wanted) = &mut self.wanted_state else { return };
        let resend_ms = self.cluster.timeouts.resend_ms;
        if self.synchronized >= wanted.index {
            self.wanted_state = None;
        } else if wanted.asked_ms.is_none_or(|asked_ms| now_ms >= asked_ms + resend_ms) {
            let number = (self.id.number + 1 + wanted.asked % (self.cluster.replicas - 1).max(1))
                % self.cluster.replicas;
            (wanted.asked_ms, wanted.asked) = (Some(now_ms), wanted.asked.wrapping_add(1));
            let peer = ReplicaId { number, ..self.id };
            out.send(Party::Replica(peer), Message::StateRequest { index: wanted.index });
        }
    }

    /// Any replica may answer, whatever its status: what is synchronized is so for good.
    pub(super) fn on_state_request(&mut self, from: ReplicaId, index: Index, out: &mut EffectsOf<A>) {
        if self.synchronized < index {
            return;
        }
        let least = index.max(self.log().base());
        let durable = self.durable.checkpoint.as_ref().filter(|checkpoint| checkpoint.index >= least);
        let checkpoint = durable.cloned().unwrap_or_else(|| Arc::new(self.new_checkpoint()));
        let log = self.log().prefix(checkpoint.index);
        out.send(Party::Replica(from), Message::State { epoch: self.durable.epoch, checkpoint, log });
    }

    /// Takes the state of a peer if it is of the epoch of this replica, of an earlier one, or of the one that waits for it.
    pub(super) fn on_state(
        &mut self,
        now_ms: u64,
        epoch: Epoch,
        (checkpoint, log): (Arc<CheckpointOf<A>>, Log<A::Operation>),
        out: &mut EffectsOf<A>,
    ) {
        self.epoch_seen = self.epoch_seen.max(epoch);
        let index = checkpoint.index;
        if index <= self.synchronized {
            return;
        }
        let mut durable =
            DurableOf::<A> { checkpoint: Some(checkpoint), synchronized: index, ..self.durable.clone() };
        let earliest = self.durable.epoch_promised.max(self.durable.epoch + 1);
        let is_usable = |start: &PendingStart<_>| {
            start.epoch >= earliest && epoch <= start.epoch && index >= start.log.base()
        };
        let start = self.pending_start.take_if(|start| is_usable(start));
        if let Some(start) = start {
            durable.start_epoch(start.epoch, start.view, log.continued_by(&start.log));
            self.install(durable);
            self.begin_normal(now_ms, out);
            let started = Message::EpochStarted { epoch: start.epoch };
            out.send_after(Party::FailureCoordinator, started, self.noted);
        } else if self.status() == Status::Joining {
            durable.shared.log = log;
            self.install(durable);
        } else if epoch <= self.durable.epoch {
            durable.shared.log = log.continued_by(self.log());
            self.install(durable);
            self.go_on(now_ms, out);
        }
    }

    /// Takes a state whose checkpoint is not that of this replica.
    fn install(&mut self, durable: DurableOf<A>) {
        if let Some(checkpoint) = &durable.checkpoint {
            self.execution.restore(checkpoint);
        }
        self.synchronized = durable.synchronized;
        self.aligned = self.aligned.max(durable.synchronized);
        self.note(Record::State(Box::new(durable)));
        self.wanted = None;
    }

    /// Goes on with what has waited for the state.
    fn go_on(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        let next = self.next_slot();
        self.aside = self.aside.split_off(&(next.epoch, next.sequence));
        self.execute();
        match self.status() {
            Status::Normal => self.advance(out),
            Status::ViewChange => self.try_start_view(now_ms, out),
            Status::EpochChange | Status::Joining => {}
        }
    }
}
