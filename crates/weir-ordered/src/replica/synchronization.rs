//! Synchronization: followers learn up to which index their logs are alike, and execute them (eris.txt §6.6).

use crate::application::Application;
use crate::cluster::ReplicaId;
use crate::faults::Faults;
use crate::message::{Message, Party};
use crate::packet::{Index, Slot, View};
use crate::replica::{EffectsOf, MessageOf, Replica, Status};
use weir_core::lsn::Lsn;

/// Entries after which a learner synchronizes.
const SYNCHRONIZE_ENTRIES: Index = 128;

impl<A: Application, F: Faults> Replica<A, F> {
    /// The learner tells its followers how long its log is, and which entries are NO-OPs. This is its heartbeat, too.
    pub(super) fn synchronize(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        let interval_ms = self.cluster.timeouts.synchronize_ms;
        let is_due = self.synchronized_ms.is_none_or(|at_ms| now_ms >= at_ms + interval_ms);
        if !self.is_learner() || !is_due {
            return;
        }
        self.synchronized_ms = Some(now_ms);
        self.prepare(out);
        let (epoch, view) = (self.durable.epoch, self.durable.view);
        let commit = Message::SyncCommit { epoch, view, index: self.synchronized };
        out.send_to_all(self.peers(), &commit, Lsn::START);
    }

    /// The learner does not wait for the time of the next synchronization once it has that many entries since the last one. So there is little
    /// that can be undone, and whoever frees it finds it in the caches.
    pub(super) fn synchronize_entries(&mut self, out: &mut EffectsOf<A>) {
        let is_due = self.log().end() >= self.prepared + SYNCHRONIZE_ENTRIES;
        if is_due && self.is_learner() && self.status() == Status::Normal {
            self.prepare(out);
        }
    }

    /// Asks the followers what they have of the log.
    pub(super) fn prepare(&mut self, out: &mut EffectsOf<A>) {
        self.prepared = self.log().end();
        if self.cluster.majority() == 1 {
            // The learner alone is a majority, once its log is durable.
            self.acknowledge(self.id, self.prepared, out);
        }
        for peer in self.peers() {
            out.send_after(Party::Replica(peer), self.sync_prepare(peer), self.noted);
        }
    }

    /// Tells a follower the NO-OPs that it may not have: those behind the start of the view which it has not acknowledged.
    fn sync_prepare(&self, peer: ReplicaId) -> MessageOf<A> {
        let log = self.log();
        let acknowledged = self.acknowledged.get(&peer.number).copied().unwrap_or(0);
        let from = acknowledged.max(self.durable.view_start);
        let no_ops = log.behind(from).filter(|(_, entry)| entry.packet().is_none());
        let slot = |index| Slot { sequence: log.sequence_of(index), ..self.next_slot() };
        Message::SyncPrepare {
            epoch: self.durable.epoch,
            view: self.durable.view,
            index: log.end(),
            no_ops: no_ops.map(|(index, _)| slot(index)).collect(),
            complete_from: if from < log.base() { log.base() } else { 0 },
        }
    }

    pub(super) fn on_sync_prepare(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        (view, index): (View, Index),
        (no_ops, complete_from): (&[Slot], Index),
        out: &mut EffectsOf<A>,
    ) {
        if view > self.durable.view {
            self.begin_view_change(now_ms, view, out);
        }
        if view < self.durable.view || self.status() != Status::Normal || self.is_learner() {
            return;
        }
        self.heard_ms = now_ms;
        self.longest_end = self.longest_end.max(index);
        if !self.faults.synchronizes_blindly() {
            no_ops.iter().for_each(|slot| self.on_dropped(now_ms, *slot, out));
        }
        if self.aligned < complete_from {
            self.want_state(complete_from);
        } else if self.log().end() >= index {
            self.acknowledge(from, index, out);
        } else {
            self.asked_for = Some((view, index));
        }
    }

    /// The log is that of the learner up to the index.
    fn acknowledge(&mut self, learner: ReplicaId, index: Index, out: &mut EffectsOf<A>) {
        self.aligned = self.aligned.max(index);
        let (epoch, view, end) = (self.durable.epoch, self.durable.view, self.log().end());
        out.send_after(Party::Replica(learner), Message::SyncAck { epoch, view, index, end }, self.noted);
    }

    /// Acknowledges what the learner has asked for in this view, once the entries that this follower lacked have come.
    pub(super) fn acknowledge_late(&mut self, out: &mut EffectsOf<A>) {
        let Some((view, index)) = self.asked_for.filter(|(_, index)| self.log().end() >= *index) else {
            return;
        };
        self.asked_for = None;
        if view == self.durable.view && self.status() == Status::Normal {
            self.acknowledge(self.cluster.learner(self.id.shard, view), index, out);
        }
    }

    pub(super) fn on_sync_ack(
        &mut self,
        from: ReplicaId,
        view: View,
        (index, end): (Index, Index),
        out: &mut EffectsOf<A>,
    ) {
        if view != self.durable.view || self.status() != Status::Normal || !self.is_learner() {
            return;
        }
        self.longest_end = self.longest_end.max(end);
        let acknowledged = self.acknowledged.entry(from.number).or_default();
        *acknowledged = index.max(*acknowledged);
        let synchronized = self.acknowledged_by_majority();
        if synchronized == self.log().end() {
            self.views_begun = 0;
        }
        if synchronized > self.synchronized {
            self.synchronized = synchronized;
            self.views_begun = 0;
            self.settle(out);
            self.execution.forget(synchronized);
            let message = Message::SyncCommit { epoch: self.durable.epoch, view, index: synchronized };
            out.send_to_all(self.peers(), &message, Lsn::START);
        }
    }

    /// Highest index that f followers have acknowledged; with the learner, whose log goes that far, they are a majority. Without followers the
    /// learner acknowledges to itself.
    fn acknowledged_by_majority(&self) -> Index {
        let mut acknowledged: Vec<_> = self.acknowledged.values().copied().collect();
        acknowledged.sort_unstable_by(|a, b| b.cmp(a));
        acknowledged.get(self.cluster.majority().saturating_sub(2)).copied().unwrap_or(0)
    }

    pub(super) fn on_sync_commit(&mut self, view: View, index: Index) {
        if view == self.durable.view && self.status() == Status::Normal && !self.is_learner() {
            let synchronized = index.min(self.aligned);
            if synchronized > self.synchronized || synchronized == self.log().end() {
                self.views_begun = 0;
            }
            self.synchronized = self.synchronized.max(synchronized);
            self.execute();
            self.execution.forget(self.synchronized);
        }
    }
}
