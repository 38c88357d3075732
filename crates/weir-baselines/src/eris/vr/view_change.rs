//! The leader is replaced: the log of a majority becomes that of the new view.

use weir_ordered::cluster::ReplicaId;
use weir_ordered::message::Party;
use weir_ordered::packet::{Index, View};

use super::super::faults::Faults;
use super::super::machine::Effects;
use super::log::Log;
use super::{Message, Record, Vr};

/// How often the time that a replica waits for a view may double.
const DOUBLINGS_MAX: u32 = 4;

impl<E: Clone, F: Faults> Vr<E, F> {
    /// Promises to append nothing in earlier views, and tells the new leader what it has.
    pub(super) fn begin_view_change<M: From<Message<E>>>(
        &mut self,
        now_ms: u64,
        view: View,
        out: &mut Effects<M>,
    ) {
        self.note(Record::Promised(view));
        self.must_resign = false;
        self.views_begun = self.views_begun.saturating_add(1);
        self.view_changes.clear();
        self.acknowledged.clear();
        self.answered_ms.clear();
        self.heard_ms = now_ms;
        self.send_view_change(now_ms, out);
        self.try_start_view(now_ms, out);
    }

    /// Repeats what it has told, and gives the view up for the next one if it does not start in time.
    pub(super) fn repeat_view_change<M: From<Message<E>>>(&mut self, now_ms: u64, out: &mut Effects<M>) {
        let timeouts = self.cluster.timeouts;
        let patience = 1 << self.views_begun.saturating_sub(1).min(DOUBLINGS_MAX);
        if now_ms >= self.heard_ms + timeouts.view_ms * patience {
            self.begin_view_change(now_ms, self.view + 1, out);
        } else if now_ms >= self.view_change_sent_ms + timeouts.resend_ms {
            self.send_view_change(now_ms, out);
        }
    }

    fn send_view_change<M: From<Message<E>>>(&mut self, now_ms: u64, out: &mut Effects<M>) {
        self.view_change_sent_ms = now_ms;
        let (view, normal_view, commit) = (self.view, self.normal_view, self.commit);
        for peer in self.peers() {
            let message = if peer == self.leader() {
                Message::DoViewChange { view, normal_view, log: self.log.clone(), commit }
            } else {
                Message::StartViewChange { view }
            };
            out.send_after(Party::Replica(peer), message.into(), self.noted);
        }
    }

    pub(super) fn on_do_view_change<M: From<Message<E>>>(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        view: View,
        state: (View, Log<E>, Index),
        out: &mut Effects<M>,
    ) {
        if view > self.view && self.may_leave(now_ms) {
            self.begin_view_change(now_ms, view, out);
        }
        if view != self.view || self.leader() != self.id {
            return;
        }
        if self.is_normal() {
            if !self.must_resign {
                self.send_start_view(from, out);
            }
            return;
        }
        self.view_changes.insert(from.number, state);
        self.try_start_view(now_ms, out);
    }

    /// Starts the view if this is its leader and a majority has sent its log.
    fn try_start_view<M: From<Message<E>>>(&mut self, now_ms: u64, out: &mut Effects<M>) {
        if self.leader() != self.id || self.view_changes.len() + 1 < self.cluster.majority() {
            return;
        }
        let own = (self.normal_view, self.log.clone(), self.commit);
        let states = self.view_changes.values().chain(std::iter::once(&own));
        let commit = states.clone().map(|(.., commit)| *commit).max().unwrap_or(0);
        let rank = |(normal_view, log, _): &&(View, Log<E>, Index)| (*normal_view, log.end());
        let chosen = if self.faults.starts_with_own_log() { Some(&own) } else { states.max_by_key(rank) };
        let Some((_, log, _)) = chosen.cloned() else { return };
        self.start_view(now_ms, self.view, &log, commit);
        self.sent = self.log.end();
        self.sent_ms = now_ms;
        for peer in self.peers() {
            self.progressed_ms.insert(peer.number, now_ms);
            self.send_start_view(peer, out);
        }
        if self.cluster.majority() == 1 {
            self.commit = self.log.end();
        }
    }

    pub(super) fn send_start_view<M: From<Message<E>>>(&self, to: ReplicaId, out: &mut Effects<M>) {
        let message = Message::StartView { view: self.view, log: self.log.clone(), commit: self.commit };
        out.send_after(Party::Replica(to), message.into(), self.noted);
    }

    pub(super) fn on_start_view<M: From<Message<E>>>(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        view: View,
        (log, commit): (Log<E>, Index),
        out: &mut Effects<M>,
    ) {
        if view > self.view || view == self.view && !self.is_normal() {
            self.start_view(now_ms, view, &log, commit);
        }
        if view == self.view && self.is_normal() {
            self.heard_ms = now_ms;
            let end = self.log.end();
            out.send_after(
                Party::Replica(from),
                Message::PrepareOk { view, end, sent_ms: 0 }.into(),
                self.noted,
            );
        }
    }

    /// Takes the log of a view that starts. What is committed is the same in both logs.
    fn start_view(&mut self, now_ms: u64, view: View, log: &Log<E>, commit: Index) {
        self.note(Record::Started(view, log.clone()));
        self.must_resign = false;
        self.origin = (self.noted, self.log.end());
        self.replaced = Some(self.replaced.unwrap_or(self.commit).min(self.commit));
        self.commit = self.commit.max(commit.min(self.log.end()));
        self.heard_ms = now_ms;
        self.early.clear();
        self.view_changes.clear();
        self.acknowledged.clear();
        self.answered_ms.clear();
        self.progressed_ms.clear();
    }
}
