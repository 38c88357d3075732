//! IR's view change: the records of a majority are merged into one, which decides every operation that was under way (§3.2.2 of the paper,
//! TAPIR-MERGE and TAPIR-SYNC of §5.2.3).

use std::collections::BTreeMap;

use weir_ordered::cluster::ReplicaId;
use weir_ordered::message::Party;
use weir_ordered::packet::View;

use super::super::application::{Application, OneShot};
use super::super::faults::Faults;
use super::super::operation::Placement;
use super::operations::Entry;
use super::server::{Out, Server};
use super::store::Store;
use super::tally::Quorums;
use super::{AttemptId, Message, Record, Verdict};

/// How often the time that a replica waits for a view may double.
const DOUBLINGS_MAX: u32 = 4;

/// A replica's part in view changes. Nothing of it is durable.
#[derive(Clone, Debug)]
pub struct ViewChange<O: OneShot> {
    /// Records of peers for the view that begins, with the last views that have started there.
    records: BTreeMap<u16, (View, Vec<Entry<O>>)>,
    begun_ms: u64,
    sent_ms: u64,
    /// Views begun since one has started.
    views_begun: u32,
    /// Peers that have started the view that this replica leads.
    started: Vec<u16>,
}

impl<O: OneShot> ViewChange<O> {
    pub fn new(now_ms: u64) -> Self {
        ViewChange {
            records: BTreeMap::new(),
            begun_ms: now_ms,
            sent_ms: now_ms,
            views_begun: 0,
            started: Vec::new(),
        }
    }
}

impl<F: Faults, A: Application> Server<F, A> {
    pub(super) fn leader(&self) -> ReplicaId {
        self.cluster.learner(self.id.shard, self.state.view)
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = ReplicaId> + use<F, A> {
        let own = self.id;
        self.cluster.group(own.shard).filter(move |peer| *peer != own)
    }

    /// Promises to vote in no earlier view, and sends its record to the leader of the view.
    pub(super) fn begin_view_change(&mut self, now_ms: u64, view: View, out: &mut Out<A::Operation>) {
        self.note(Record::Promised(view));
        self.view_change.records.clear();
        self.view_change.begun_ms = now_ms;
        self.view_change.views_begun = self.view_change.views_begun.saturating_add(1);
        self.send_view_change(now_ms, out);
        self.try_start_view(now_ms, out);
    }

    fn send_view_change(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        self.view_change.sent_ms = now_ms;
        let (view, normal_view) = (self.state.view, self.state.normal_view);
        for peer in self.peers() {
            let message = if peer == self.leader() {
                let entries = self.state.entries().map(|(_, entry)| entry.clone()).collect();
                Message::DoViewChange { view, normal_view, entries }
            } else {
                Message::StartViewChange { view }
            };
            out.send_after(Party::Replica(peer), message, self.noted);
        }
    }

    pub(super) fn on_start_view_change(&mut self, now_ms: u64, view: View, out: &mut Out<A::Operation>) {
        if view > self.state.view {
            self.begin_view_change(now_ms, view, out);
        }
    }

    pub(super) fn on_do_view_change(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        view: View,
        record: (View, Vec<Entry<A::Operation>>),
        out: &mut Out<A::Operation>,
    ) {
        self.on_start_view_change(now_ms, view, out);
        if view != self.state.view || self.leader() != self.id {
            return;
        }
        if self.state.is_normal() {
            return self.send_start_view(from, out);
        }
        self.view_change.records.insert(from.number, record);
        self.try_start_view(now_ms, out);
    }

    /// Starts the view if this is its leader and has the records of a majority.
    fn try_start_view(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        if self.leader() != self.id || self.view_change.records.len() + 1 < self.quorums.majority() {
            return;
        }
        let mut records: Vec<_> = std::mem::take(&mut self.view_change.records).into_values().collect();
        records
            .push((self.state.normal_view, self.state.entries().map(|(_, entry)| entry.clone()).collect()));
        let merged = merge(records, self.quorums, self.id, self.placement, self.state.faults());
        self.start_view(now_ms, self.state.view, merged);
        self.view_change.sent_ms = now_ms;
        self.peers().for_each(|peer| self.send_start_view(peer, out));
    }

    fn send_start_view(&self, to: ReplicaId, out: &mut Out<A::Operation>) {
        let message = Message::StartView { view: self.state.view, entries: self.state.settled() };
        out.send_after(Party::Replica(to), message, self.noted);
    }

    pub(super) fn on_start_view(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        view: View,
        entries: Vec<Entry<A::Operation>>,
        out: &mut Out<A::Operation>,
    ) {
        if view > self.state.view || view == self.state.view && !self.state.is_normal() {
            self.start_view(now_ms, view, entries);
        }
        if view == self.state.view && self.state.is_normal() {
            out.send_after(Party::Replica(from), Message::ViewStarted { view }, self.noted);
        }
    }

    fn start_view(&mut self, now_ms: u64, view: View, entries: Vec<Entry<A::Operation>>) {
        self.note(Record::Started(view, entries));
        self.view_change = ViewChange::new(now_ms);
    }

    pub(super) fn on_view_started(&mut self, from: ReplicaId, view: View) {
        if view == self.state.view && !self.view_change.started.contains(&from.number) {
            self.view_change.started.push(from.number);
        }
    }

    /// Repeats what is not answered, and gives a view up that does not start in time.
    pub(super) fn repeat_view_change(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        let timeouts = self.cluster.timeouts;
        let patience = 1 << self.view_change.views_begun.saturating_sub(1).min(DOUBLINGS_MAX);
        let is_due = now_ms >= self.view_change.sent_ms + timeouts.resend_ms;
        if self.state.is_normal() {
            // All replicas have started view 0.
            if is_due && self.leader() == self.id && self.state.view > 0 {
                self.view_change.sent_ms = now_ms;
                let peers = self.peers().filter(|peer| !self.view_change.started.contains(&peer.number));
                peers.for_each(|peer| self.send_start_view(peer, out));
            }
        } else if now_ms >= self.view_change.begun_ms + timeouts.view_ms * patience {
            self.begin_view_change(now_ms, self.state.view + 1, out);
        } else if is_due {
            self.send_view_change(now_ms, out);
        }
    }
}

/// An operation as the records of a majority have it.
#[derive(Clone, Debug)]
struct Known<O: OneShot> {
    entry: Entry<O>,
    /// How many of the latest view have it as prepared.
    prepared: usize,
}

/// TAPIR-MERGE. Only records of the latest view that has started count for verdicts: that view began with whatever earlier ones had decided.
/// Outcomes count whoever has them.
fn merge<F: Faults, O: OneShot>(
    records: Vec<(View, Vec<Entry<O>>)>,
    quorums: Quorums,
    id: ReplicaId,
    placement: Placement,
    faults: F,
) -> Vec<Entry<O>> {
    let latest = records.iter().map(|(view, _)| *view).max();
    let mut merged: BTreeMap<AttemptId, Known<O>> = BTreeMap::new();
    for (view, entries) in records {
        for entry in entries {
            if Some(view) != latest && entry.outcome.is_none() {
                continue;
            }
            let is_prepared = Some(view) == latest && entry.verdict.is_prepared();
            let known = merged
                .entry(entry.request.id)
                .or_insert_with(|| Known { entry: Entry { is_final: false, ..entry.clone() }, prepared: 0 });
            known.prepared += usize::from(is_prepared);
            known.entry.outcome = known.entry.outcome.or(entry.outcome);
            if entry.is_final && Some(view) == latest {
                (known.entry.is_final, known.entry.verdict) = (true, entry.verdict);
            }
        }
    }
    // Versions that all records have forgotten are at all replicas, which therefore count nothing that conflicts with them as prepared.
    let mut store = Store::new(id.shard, placement, faults);
    for Known { entry, .. } in merged.values() {
        if entry.outcome == Some(true)
            || entry.outcome.is_none() && entry.is_final && entry.verdict.is_prepared()
        {
            store.prepare(&entry.request);
        }
    }
    for Known { entry, prepared } in merged.values_mut().filter(|known| !known.entry.is_final) {
        let is_possible = *prepared >= quorums.possible() && !faults.merges_without_results();
        let is_prepared = is_possible && store.conflicting(&entry.request).is_empty();
        entry.verdict = if is_prepared { Verdict::Prepared } else { Verdict::REFUSED };
        entry.is_final = true;
    }
    merged.into_values().map(|known| known.entry).collect()
}
