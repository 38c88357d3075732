//! A replica without records joins its shard: for the first time, or again after it has lost its disk.
//!
//! A replica that has lost its disk has forgotten its promises, so it takes no part in any epoch in which it can have made one. It fills its
//! disk from its peers, then the failure coordinator begins an epoch for it, whose start does not count on it.

use crate::application::Application;
use crate::faults::Faults;
use crate::message::{Message, Party};
use crate::packet::{Epoch, Index};
use crate::replica::records::Record;
use crate::replica::{EffectsOf, Replica, Status};

impl<A: Application, F: Faults> Replica<A, F> {
    /// Asks the failure coordinator from which epoch on it takes part.
    pub(super) fn ask_to_join(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        let resend_ms = self.cluster.timeouts.resend_ms;
        if self.join_asked_ms.is_some_and(|asked_ms| now_ms < asked_ms + resend_ms) {
            return;
        }
        self.join_asked_ms = Some(now_ms);
        if self.durable.disk != self.disk {
            self.note(Record::Disk(self.disk));
        }
        let request = Message::JoinRequest { disk: self.disk, synchronized: self.synchronized };
        out.send_after(Party::FailureCoordinator, request, self.noted);
    }

    /// The disk must be filled up to that index first.
    pub(super) fn on_behind(&mut self, disk: u64, index: Index) {
        if self.status() == Status::Joining && disk == self.disk {
            self.want_state(index);
        }
    }

    pub(super) fn on_joined(&mut self, disk: u64, epoch: Epoch) {
        if self.status() == Status::Joining && disk == self.disk {
            self.note(Record::Joined(epoch));
        }
    }
}
