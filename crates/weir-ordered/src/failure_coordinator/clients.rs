//! Clients: each is registered under a number, and those that are silent are retired.
//!
//! Replicas keep the last answers of each client. The floor of registrations says which clients are gone: the sequencer stamps nothing of
//! theirs any more, and each packet that it stamps has the floor, so that all replicas forget a client at the same place of their orders.

use weir_core::ids::CoordinatorId;

use crate::failure_coordinator::{FailureCoordinator, Record};
use crate::faults::CoordinatorFaults;
use crate::message::{Effects, Message, Party, Registration};

impl<O: Clone, F: CoordinatorFaults> FailureCoordinator<O, F> {
    /// A client lives, and asks who the sequencer is. `registration`: 0 if it has none yet.
    pub(super) fn on_sequencer_request<R: Clone, S: Clone>(
        &mut self,
        now_ms: u64,
        client: CoordinatorId,
        registration: Registration,
        out: &mut Effects<O, R, S>,
    ) {
        if registration == 0 {
            let registration = self.durable.last_registration + 1;
            self.note(Record::Registered(registration));
            self.clients_heard_ms.insert(registration, now_ms);
            out.send_after(Party::Client(client), Message::Registered { registration }, self.noted);
        } else {
            self.clients_heard_ms.insert(registration, now_ms);
        }
        self.tell_sequencer(Party::Client(client), out);
    }

    /// Raises the floor to the first client that lives. A new process first hears for a while who does.
    pub(super) fn retire_clients(&mut self, now_ms: u64) {
        let silent_ms = self.cluster.timeouts.client_ms;
        if now_ms < self.begun_ms + silent_ms {
            return;
        }
        self.clients_heard_ms.retain(|_, heard_ms| now_ms < *heard_ms + silent_ms);
        let first = self.clients_heard_ms.keys().next().copied();
        let floor = first.unwrap_or(self.durable.last_registration + 1);
        if floor > self.durable.client_floor {
            self.note(Record::ClientFloor(floor));
        }
    }
}
