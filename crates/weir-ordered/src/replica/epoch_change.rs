//! A new sequencer begins a new epoch, in which all replicas start with states that the failure coordinator gives (eris.txt §6.5).

use crate::application::Application;
use crate::faults::Faults;
use crate::message::{Message, Party};
use crate::packet::{Epoch, View};
use crate::replica::log::Log;
use crate::replica::records::Record;
use crate::replica::state_transfer::PendingStart;
use crate::replica::{EffectsOf, Replica, Status};

impl<A: Application, F: Faults> Replica<A, F> {
    /// Asks the failure coordinator for the start of an epoch that the replica has heard of.
    pub(super) fn ask_for_epoch(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        let epoch = self.epoch_seen.max(self.durable.epoch_promised);
        let resend_ms = self.cluster.timeouts.resend_ms;
        let is_due = self.epoch_asked_ms.is_none_or(|asked_ms| now_ms >= asked_ms + resend_ms);
        if epoch > self.durable.epoch && is_due {
            self.epoch_asked_ms = Some(now_ms);
            out.send(Party::FailureCoordinator, Message::EpochChangeRequest { epoch });
        }
    }

    /// Promises to do nothing in earlier epochs, and tells what it has of the last that has started.
    pub(super) fn on_epoch_state_request(&mut self, epoch: Epoch, out: &mut EffectsOf<A>) {
        let is_old = epoch <= self.durable.epoch || epoch < self.durable.epoch_promised;
        if is_old || self.status() == Status::Joining {
            return;
        }
        if epoch > self.durable.epoch_promised {
            self.note(Record::EpochPromised(epoch));
        }
        let (started, view, log) = (self.durable.epoch, self.durable.view, self.needed_log().epoch_part());
        let state = Message::EpochState { epoch, started, view, log };
        out.send_after(Party::FailureCoordinator, state, self.noted);
    }

    pub(super) fn on_start_epoch(
        &mut self,
        now_ms: u64,
        (epoch, view): (Epoch, View),
        log: Log<A::Operation>,
        out: &mut EffectsOf<A>,
    ) {
        let is_old = epoch < self.durable.epoch || epoch < self.durable.epoch_promised;
        if is_old || self.status() == Status::Joining {
            return;
        }
        if epoch > self.durable.epoch && log.base() > self.synchronized {
            self.want_state(log.base());
            self.pending_start = Some(PendingStart { epoch, view, log });
            return;
        }
        if epoch > self.durable.epoch {
            let log = self.log().prefix(self.synchronized).continued_by(&log);
            self.note(Record::EpochStarted(epoch, view, log));
            self.begin_normal(now_ms, out);
        }
        out.send_after(Party::FailureCoordinator, Message::EpochStarted { epoch }, self.noted);
    }
}
