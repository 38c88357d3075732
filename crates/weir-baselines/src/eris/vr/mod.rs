//! Viewstamped Replication of a log (Liskov and Cowling, "Viewstamped Replication Revisited", 2012), with a durable state.
//!
//! The owner proposes entries at the leader, asks after each step up to which index the log is committed, and executes. What it tells others
//! waits for [`Vr::committed_lsn`]. No IO, no clock.

pub mod leader;
pub mod log;
mod view_change;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_core::lsn::Lsn;
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::message::Party;
use weir_ordered::packet::{Index, View};

use super::faults::Faults;
use super::machine::Effects;
use log::Log;

/// Entries of one message to a follower that lacks some, at most.
const ENTRIES_MAX: usize = 200;

/// Messages that a follower keeps because those before them are on their way, at most.
const EARLY_MAX: usize = 1_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message<E> {
    /// Leader to follower, also its heartbeat: the entries behind `after`. A majority has the log up to `commit`, all replicas up to `stable`.
    Prepare { view: View, after: Index, entries: Vec<E>, commit: Index, stable: Index, sent_ms: u64 },
    /// The follower's durable log is that of the leader up to `end`. `sent_ms`: of the message that it answers.
    PrepareOk { view: View, end: Index, sent_ms: u64 },
    /// Replica to its peers: join.
    StartViewChange { view: View },
    /// Replica to the leader of the view: it appends nothing in earlier views, and this is its log.
    DoViewChange { view: View, normal_view: View, log: Log<E>, commit: Index },
    /// Leader to follower.
    StartView { view: View, log: Log<E>, commit: Index },
}

/// A change of the durable state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Record<E> {
    Appended(E),
    /// Nothing is appended in earlier views.
    Promised(View),
    /// The view has started with that log.
    Started(View, Log<E>),
}

/// A replica of a log.
#[derive(Clone, Debug)]
pub struct Vr<E, F> {
    id: ReplicaId,
    cluster: Cluster,
    faults: F,
    /// Followers join no later view for so long after they have heard of their leader.
    lease_ms: Option<u64>,
    /// When the last message was sent that each follower has answered.
    answered_ms: BTreeMap<u16, u64>,
    view: View,
    /// The last view that has started here; never above `view`.
    normal_view: View,
    log: Log<E>,
    /// A majority has the log up to here, for good.
    commit: Index,
    records: Vec<Record<E>>,
    /// Position after the last record.
    noted: Lsn,
    /// The record with an entry is at the position of the origin, plus its distance from the index of the origin; before that it is durable.
    origin: (Lsn, Index),
    /// This replica led the view when it stopped. Its followers may have entries that its disk has lost, so it must not go on in it.
    must_resign: bool,
    /// Up to which index each follower's log is that of this leader; none: it has not started the view, as far as is known.
    acknowledged: BTreeMap<u16, Index>,
    /// Up to which index entries were sent to all followers.
    sent: Index,
    sent_ms: u64,
    /// When each follower's log last grew, or what it lacks was sent to it.
    progressed_ms: BTreeMap<u16, u64>,
    /// When the replica last heard from its leader; in a view change, when that began.
    heard_ms: u64,
    view_changes: BTreeMap<u16, (View, Log<E>, Index)>,
    view_change_sent_ms: u64,
    /// Views begun since something was committed.
    views_begun: u32,
    /// Entries that have come before those before them, by the index that they follow.
    early: BTreeMap<Index, Vec<E>>,
    /// Index behind which entries have been replaced since the owner last asked.
    replaced: Option<Index>,
    stable: Index,
}

impl<E: Clone, F: Faults> Vr<E, F> {
    /// A replica with its durable records. `start`: how often it has started, from 1.
    pub fn new(
        now_ms: u64,
        id: ReplicaId,
        cluster: Cluster,
        faults: F,
        start: u64,
        records: impl Iterator<Item = Record<E>>,
    ) -> Vr<E, F> {
        let mut vr = Vr {
            id,
            cluster,
            faults,
            lease_ms: None,
            answered_ms: BTreeMap::new(),
            view: 0,
            normal_view: 0,
            log: Log::default(),
            commit: 0,
            records: Vec::new(),
            noted: Lsn::START,
            origin: (Lsn::START, 0),
            must_resign: false,
            acknowledged: BTreeMap::new(),
            sent: 0,
            sent_ms: now_ms,
            progressed_ms: BTreeMap::new(),
            heard_ms: now_ms,
            view_changes: BTreeMap::new(),
            view_change_sent_ms: now_ms,
            views_begun: 0,
            early: BTreeMap::new(),
            replaced: None,
            stable: 0,
        };
        records.for_each(|record| vr.apply(record));
        vr.origin.1 = vr.log.end();
        vr.must_resign = start > 1 && vr.is_normal() && vr.leader() == id;
        if vr.view == 0 && start == 1 {
            // All replicas have started view 0.
            vr.acknowledged = vr.peers().map(|peer| (peer.number, 0)).collect();
        }
        vr
    }

    /// Gives the leader a lease: while it is valid, no other replica leads a later view. Clocks must run at about the same rate.
    pub fn with_lease(self, lease_ms: u64) -> Vr<E, F> {
        Vr { lease_ms: Some(lease_ms), ..self }
    }

    /// Returns whether no other replica can have begun to lead.
    pub fn has_lease(&self, now_ms: u64) -> bool {
        let Some(lease_ms) = self.lease_ms.filter(|_| self.is_leader()) else { return false };
        let is_valid = |answered_ms: &&u64| now_ms < **answered_ms + lease_ms;
        self.answered_ms.values().filter(is_valid).count() + 1 >= self.cluster.majority()
            || self.faults.ignores_leases()
    }

    /// Returns whether the replica has given its leader no lease that is valid yet.
    fn may_leave(&self, now_ms: u64) -> bool {
        let is_follower = self.is_normal() && self.leader() != self.id;
        !is_follower || self.lease_ms.is_none_or(|lease_ms| now_ms >= self.heard_ms + lease_ms)
    }

    pub fn view(&self) -> View {
        self.view
    }

    pub fn leader(&self) -> ReplicaId {
        self.cluster.learner(self.id.shard, self.view)
    }

    pub fn is_normal(&self) -> bool {
        self.view == self.normal_view
    }

    /// Returns whether entries may be proposed here.
    pub fn is_leader(&self) -> bool {
        self.is_normal() && self.leader() == self.id && !self.must_resign
    }

    pub fn log(&self) -> &Log<E> {
        &self.log
    }

    pub fn commit(&self) -> Index {
        self.commit
    }

    /// Length of the log, if the replica serves and the log is committed and executed as a whole.
    pub fn at_rest(&self, executed: Index) -> Option<Index> {
        let end = self.log.end();
        (self.is_normal() && self.commit == end && executed == end).then_some(end)
    }

    /// Messages that depend on the log up to that index leave once the own records are durable up to the position.
    pub fn lsn_of(&self, index: Index) -> Lsn {
        let (lsn, from) = self.origin;
        lsn.plus(index.saturating_sub(from) as usize)
    }

    pub fn take_records(&mut self) -> Vec<Record<E>> {
        std::mem::take(&mut self.records)
    }

    /// The index behind which entries have been replaced since the last call, if any were.
    pub fn take_replaced(&mut self) -> Option<Index> {
        self.replaced.take()
    }

    /// Forgets what all replicas have, up to the index that the owner has executed.
    pub fn forget(&mut self, executed: Index) {
        self.log.forget(self.stable.min(executed).min(self.commit));
    }

    fn peers(&self) -> impl Iterator<Item = ReplicaId> + use<E, F> {
        let own = self.id;
        self.cluster.group(own.shard).filter(move |peer| *peer != own)
    }

    fn note(&mut self, record: Record<E>) {
        self.apply(record.clone());
        self.records.push(record);
        self.noted = self.noted.plus(1);
    }

    fn apply(&mut self, record: Record<E>) {
        match record {
            Record::Appended(entry) => self.log.push(entry),
            Record::Promised(view) => self.view = view,
            Record::Started(view, log) => {
                (self.view, self.normal_view) = (view, view);
                self.log.adopt(&log);
            }
        }
    }

    /// Appends an entry at the leader, and returns its index. It leaves with [`Vr::flush`].
    pub fn propose(&mut self, entry: E) -> Index {
        assert!(self.is_leader(), "entries are proposed at the leader");
        self.note(Record::Appended(entry));
        self.log.end()
    }

    /// Sends the entries of a step to the followers.
    pub fn flush<M: From<Message<E>>>(&mut self, now_ms: u64, out: &mut Effects<M>) {
        if !self.is_leader() {
            return;
        }
        let (sent, end) = (self.sent.max(self.log.base()), self.log.end());
        if end > sent {
            for peer in self.peers() {
                let Some(acknowledged) = self.acknowledged.get(&peer.number) else { continue };
                if *acknowledged >= sent {
                    self.progressed_ms.insert(peer.number, now_ms);
                }
                let entries = self.log.behind(sent).to_vec();
                self.send_prepare(now_ms, peer, sent, entries, out);
            }
            (self.sent, self.sent_ms) = (end, now_ms);
        }
        self.update_commit();
    }

    fn send_prepare<M: From<Message<E>>>(
        &self,
        sent_ms: u64,
        to: ReplicaId,
        after: Index,
        entries: Vec<E>,
        out: &mut Effects<M>,
    ) {
        let (view, commit, stable) = (self.view, self.commit, self.stable);
        let prepare = Message::Prepare { view, after, entries, commit, stable, sent_ms };
        out.send_after(Party::Replica(to), prepare.into(), self.lsn_of(commit));
    }

    pub fn step<M: From<Message<E>>>(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        message: Message<E>,
        out: &mut Effects<M>,
    ) {
        if from.shard != self.id.shard || from == self.id {
            return;
        }
        match message {
            Message::Prepare { view, after, entries, commit, stable, sent_ms } if view == self.view => {
                self.on_prepare(now_ms, (from, sent_ms), (after, entries), (commit, stable), out);
            }
            Message::PrepareOk { view, end, sent_ms } if view == self.view && self.is_leader() => {
                let answered_ms = self.answered_ms.entry(from.number).or_default();
                *answered_ms = sent_ms.max(*answered_ms);
                self.on_prepare_ok(now_ms, from, end);
            }
            Message::StartViewChange { view } if view > self.view && self.may_leave(now_ms) => {
                self.begin_view_change(now_ms, view, out);
            }
            Message::DoViewChange { view, normal_view, log, commit } => {
                self.on_do_view_change(now_ms, from, view, (normal_view, log, commit), out);
            }
            Message::StartView { view, log, commit } => {
                self.on_start_view(now_ms, from, view, (log, commit), out);
            }
            _ => {}
        }
    }

    pub fn on_timer<M: From<Message<E>>>(&mut self, now_ms: u64, out: &mut Effects<M>) {
        if self.must_resign {
            self.begin_view_change(now_ms, self.view + 1, out);
        } else if !self.is_normal() {
            self.repeat_view_change(now_ms, out);
        } else if self.leader() != self.id {
            if now_ms >= self.heard_ms + self.cluster.timeouts.learner_ms {
                self.begin_view_change(now_ms, self.view + 1, out);
            }
        } else {
            self.heartbeat(now_ms, out);
        }
    }

    /// Sends followers what they lack, if they have made no progress for a while, and a heartbeat otherwise.
    fn heartbeat<M: From<Message<E>>>(&mut self, now_ms: u64, out: &mut Effects<M>) {
        let timeouts = self.cluster.timeouts;
        let is_due = now_ms >= self.sent_ms + timeouts.synchronize_ms;
        for peer in self.peers() {
            let progressed_ms = self.progressed_ms.get(&peer.number).copied().unwrap_or(0);
            let is_late = now_ms >= progressed_ms + timeouts.resend_ms;
            match self.acknowledged.get(&peer.number).copied() {
                None if is_late => {
                    self.progressed_ms.insert(peer.number, now_ms);
                    self.send_start_view(peer, out);
                }
                Some(end) if is_late && end < self.log.end() => {
                    self.progressed_ms.insert(peer.number, now_ms);
                    let after = end.max(self.log.base());
                    let entries = self.log.behind(after).iter().take(ENTRIES_MAX).cloned().collect();
                    self.send_prepare(now_ms, peer, after, entries, out);
                }
                Some(_) if is_due => self.send_prepare(now_ms, peer, self.log.end(), Vec::new(), out),
                _ => {}
            }
        }
        if is_due {
            self.sent_ms = now_ms;
        }
    }

    fn on_prepare<M: From<Message<E>>>(
        &mut self,
        now_ms: u64,
        (from, sent_ms): (ReplicaId, u64),
        (after, entries): (Index, Vec<E>),
        (commit, stable): (Index, Index),
        out: &mut Effects<M>,
    ) {
        if !self.is_normal() || from != self.leader() {
            return;
        }
        self.heard_ms = now_ms;
        let end = self.log.end();
        let is_new = after + entries.len() as Index > end;
        if after <= end || self.early.len() < EARLY_MAX {
            self.early.insert(after, entries);
        }
        self.append_early();
        let committed = commit.min(self.log.end());
        if committed > self.commit {
            (self.commit, self.views_begun) = (committed, 0);
        }
        self.stable = self.stable.max(stable);
        // A heartbeat is acknowledged only by whoever lacks something, or knows of nothing new: the leader then knows, too.
        let message = Message::PrepareOk { view: self.view, end: self.log.end(), sent_ms };
        let is_heartbeat = !is_new && after == self.log.end();
        if !is_heartbeat || self.stable < self.log.end() || self.lease_ms.is_some() {
            out.send_after(Party::Replica(from), message.into(), self.noted);
        }
    }

    /// Appends what follows the log.
    fn append_early(&mut self) {
        while let Some(early) = self.early.first_entry().filter(|early| *early.key() <= self.log.end()) {
            let (after, entries) = early.remove_entry();
            let known = (self.log.end() - after) as usize;
            entries.into_iter().skip(known).for_each(|entry| self.note(Record::Appended(entry)));
        }
    }

    fn on_prepare_ok(&mut self, now_ms: u64, from: ReplicaId, end: Index) {
        let acknowledged = self.acknowledged.entry(from.number).or_insert(0);
        if end > *acknowledged || end == self.log.end() {
            *acknowledged = end.max(*acknowledged);
            self.progressed_ms.insert(from.number, now_ms);
        }
        self.update_commit();
    }

    /// The leader's own log goes up to its end, and what depends on that waits for its disk.
    fn update_commit(&mut self) {
        let mut acknowledged: Vec<_> = self.acknowledged.values().copied().collect();
        acknowledged.sort_unstable_by(|a, b| b.cmp(a));
        let followers = self.cluster.majority() - 1;
        let committed = match followers.checked_sub(1) {
            None => self.log.end(),
            Some(last) => acknowledged.get(last).copied().unwrap_or(0),
        };
        if self.faults.commits_alone() {
            self.commit = self.log.end();
        }
        if committed > self.commit {
            (self.commit, self.views_begun) = (committed, 0);
        }
        if acknowledged.len() + 1 == usize::from(self.cluster.replicas) {
            let all = acknowledged.last().copied().unwrap_or(self.commit);
            self.stable = self.stable.max(all.min(self.commit));
        }
    }
}
