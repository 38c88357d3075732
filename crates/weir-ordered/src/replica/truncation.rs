//! Truncation: the entries up to a stable cut are forgotten in memory, where the executed state takes their place.
//!
//! Each replica tells the failure coordinator up to where it is synchronized. Once a majority of each shard is, up to some cut, no replica of
//! any shard will need a packet or a decision before that cut: it can have a checkpoint of its peers. A checkpoint is made when it is needed: for a
//! peer, or for the disk. The records keep what memory has forgotten until a complete one takes their place.

use crate::application::Application;
use crate::faults::Faults;
use crate::message::{Message, Party};
use crate::packet::{Cut, Epoch};
use crate::replica::locks::Locks;
use crate::replica::log::Log;
use crate::replica::records::Record;
use crate::replica::{CheckpointOf, EffectsOf, Replica, Status};

impl<A: Application, F: Faults> Replica<A, F> {
    /// Tells the failure coordinator what is synchronized for good, as long as there is something that may be forgotten.
    pub(super) fn report_synchronized(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        let resend_ms = self.cluster.timeouts.resend_ms;
        let is_due = self.reported_ms.is_none_or(|reported_ms| now_ms >= reported_ms + resend_ms);
        let log = self.log();
        let is_of_epoch = self.synchronized >= log.epoch_start();
        if !is_due || !is_of_epoch || log.end() == log.base() {
            return;
        }
        self.reported_ms = Some(now_ms);
        if self.synchronized > self.durable.synchronized {
            self.note(Record::Synchronized(self.synchronized));
        }
        let sequence = self.log().sequence_of(self.synchronized);
        let report = Message::Synchronized { epoch: self.durable.epoch, sequence };
        out.send_after(Party::FailureCoordinator, report, self.noted);
    }

    /// Forgets what no shard needs any more. A replica that waits for something that is stable everywhere gets a state of its peers.
    pub(super) fn on_stable(&mut self, epoch: Epoch, cut: &Cut) {
        if !self.is_current(epoch) {
            return;
        }
        let to = self.log().index_of(cut.at(self.id.shard));
        self.stable = self.stable.max(to);
        if self.synchronized >= to {
            if to >= self.log().base().saturating_add(self.cluster.truncate_entries) {
                let to = if self.faults.forgets_synchronized() { self.synchronized } else { to };
                self.durable.forget(to, cut);
            }
        } else if self.waits_for_coordinator() && self.log().end() < to || self.status() == Status::ViewChange
        {
            self.want_state(to);
        }
    }

    /// The log as it would be if it were truncated now. Others are told no more of it.
    pub(super) fn needed_log(&self) -> Log<A::Operation> {
        let stable = if self.synchronized >= self.stable { self.stable } else { 0 };
        self.log().suffix(stable.max(self.log().base()))
    }

    /// The state after everything that is synchronized.
    pub(super) fn new_checkpoint(&self) -> CheckpointOf<A> {
        let mut checkpoint = self.execution.checkpoint(self.synchronized);
        if self.faults.snapshots_executed() {
            checkpoint.application = self.execution.checkpoint(self.executed()).application;
        }
        if self.faults.snapshots_without_clients() {
            checkpoint.clients.clear();
        }
        if self.faults.snapshots_without_locks() {
            checkpoint.locks = Locks::default();
        }
        checkpoint
    }
}
