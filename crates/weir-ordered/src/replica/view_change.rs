//! The designated learner is replaced: a majority's states become that of the new view (eris.txt §6.4).

use crate::application::Application;
use crate::cluster::ReplicaId;
use crate::faults::Faults;
use crate::message::{Message, Party};
use crate::packet::{Index, View};
use crate::replica::records::{Record, Shared};
use crate::replica::{EffectsOf, Replica, Status};

/// How often the time that a replica waits for a view may double.
const DOUBLINGS_MAX: u32 = 4;

impl<A: Application, F: Faults> Replica<A, F> {
    /// How many times longer than at first the replica waits for a view. If a view cannot start in the time that replicas wait for it, because logs are long
    /// or disks slow, no later one could.
    fn patience(&self) -> u64 {
        1 << self.views_begun.saturating_sub(1).min(DOUBLINGS_MAX)
    }

    /// A follower whose learner is silent changes to the next view.
    pub(super) fn suspect_learner(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        if !self.is_learner() && now_ms >= self.heard_ms + self.cluster.timeouts.learner_ms {
            self.begin_view_change(now_ms, self.durable.view + 1, out);
        }
    }

    /// Promises to log nothing in earlier views, and tells its peers what it has.
    pub(super) fn begin_view_change(&mut self, now_ms: u64, view: View, out: &mut EffectsOf<A>) {
        self.note(Record::ViewPromised(view));
        self.views_begun = self.views_begun.saturating_add(1);
        self.view_changes.clear();
        self.heard_ms = now_ms;
        self.send_view_change(now_ms, out);
        self.try_start_view(now_ms, out);
    }

    /// Repeats the state until the view starts, and changes to the next view if it does not.
    pub(super) fn repeat_view_change(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        let timeouts = self.cluster.timeouts;
        if now_ms >= self.heard_ms + timeouts.view_ms * self.patience() && !self.waits_for_decision() {
            self.begin_view_change(now_ms, self.durable.view + 1, out);
        } else if self.view_change_sent_ms.is_none_or(|sent_ms| now_ms >= sent_ms + timeouts.resend_ms) {
            self.send_view_change(now_ms, out);
            self.try_start_view(now_ms, out);
        }
    }

    /// The state without what no replica needs any more.
    fn needed_state(&self) -> Shared<A::Operation> {
        Shared { log: self.needed_log(), drops: self.drops().clone() }
    }

    fn send_view_change(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        self.view_change_sent_ms = Some(now_ms);
        let state = Box::new(self.needed_state());
        let message = Message::ViewChange { epoch: self.durable.epoch, view: self.durable.view, state };
        out.send_to_all(self.peers(), &message, self.noted);
    }

    /// A peer of the current epoch has changed to that view.
    pub(super) fn on_view_change(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        view: View,
        state: Shared<A::Operation>,
        out: &mut EffectsOf<A>,
    ) {
        if view > self.durable.view {
            self.begin_view_change(now_ms, view, out);
        }
        if self.status() == Status::Normal && self.is_learner() {
            self.send_start_view(std::iter::once(from), out);
        } else if self.status() == Status::ViewChange && view == self.durable.view {
            self.view_changes.insert(from.number, state);
            self.try_start_view(now_ms, out);
        }
    }

    /// The state that a majority has, once this replica knows it: everything that was committed or promised in earlier views. The replica
    /// must know its log to be right up to where the others have forgotten theirs.
    fn merged(&self) -> Option<Shared<A::Operation>> {
        let is_majority = self.view_changes.len() + 1 >= self.cluster.majority();
        if !is_majority || self.base_of_peers() > self.synchronized {
            return None;
        }
        let mut merged = self.durable.shared.clone();
        for state in self.view_changes.values() {
            merged.merge(state, self.synchronized, !self.faults.merges_no_drops());
        }
        Some(merged)
    }

    fn base_of_peers(&self) -> Index {
        self.view_changes.values().map(|state| state.log.base()).max().unwrap_or(0)
    }

    /// Returns whether this learner of a view to come has a majority, and waits for the failure coordinator.
    fn waits_for_decision(&self) -> bool {
        self.is_learner() && self.merged().is_some()
    }

    /// Starts the view if this is its learner, a majority has sent its state, and no packet in it waits for the failure coordinator.
    pub(super) fn try_start_view(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        if self.status() != Status::ViewChange || !self.is_learner() {
            return;
        }
        let base = self.base_of_peers();
        if base > self.synchronized {
            self.want_state(base);
        }
        let Some(merged) = self.merged() else { return };
        let undecided = self.undecided_packets(&merged);
        if undecided.is_empty() {
            self.adopt(now_ms, self.durable.view, merged, out);
            self.send_start_view(self.peers(), out);
            return;
        }
        for packet in undecided {
            out.send(Party::FailureCoordinator, Message::HasTxn(packet));
        }
    }

    fn send_start_view(&self, to: impl Iterator<Item = ReplicaId>, out: &mut EffectsOf<A>) {
        let state = Box::new(self.needed_state());
        let message = Message::StartView { epoch: self.durable.epoch, view: self.durable.view, state };
        out.send_to_all(to, &message, self.noted);
    }

    pub(super) fn on_start_view(
        &mut self,
        now_ms: u64,
        view: View,
        state: Shared<A::Operation>,
        out: &mut EffectsOf<A>,
    ) {
        let is_new =
            view > self.durable.view || view == self.durable.view && self.status() == Status::ViewChange;
        if is_new && state.log.base() <= self.synchronized {
            self.adopt(now_ms, view, state, out);
        } else if is_new {
            self.want_state(state.log.base());
        }
    }

    /// Starts a view with that state. Packets that the replica had logged and the state lacks were committed nowhere; they are kept aside.
    fn adopt(&mut self, now_ms: u64, view: View, state: Shared<A::Operation>, out: &mut EffectsOf<A>) {
        let epoch = self.durable.epoch;
        let beyond: Vec<_> = self.log().packets_behind(state.log.end(), epoch).cloned().collect();
        for packet in beyond {
            if let Some(sequence) = packet.stamp.sequence_at(self.id.shard) {
                self.keep_aside((epoch, sequence), packet);
            }
        }
        let log = self.log().prefix(self.synchronized).continued_by(&state.log);
        self.note(Record::ViewStarted(view, Shared { log, ..state }));
        self.begin_normal(now_ms, out);
    }

    /// Logs packets from here on: a view or an epoch has started.
    pub(super) fn begin_normal(&mut self, now_ms: u64, out: &mut EffectsOf<A>) {
        let next = self.next_slot();
        self.aside = self.aside.split_off(&(next.epoch, next.sequence));
        self.view_changes.clear();
        self.acknowledged.clear();
        self.wanted = None;
        self.heard_ms = now_ms;
        self.synchronized_ms = None;
        self.aligned = self.log().end();
        self.longest_end = 0;
        (self.prepared, self.asked_for) = (0, None);
        self.execute();
        self.advance(out);
    }
}
