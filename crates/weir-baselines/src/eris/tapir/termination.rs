//! Cooperative termination: a replica that hears nothing of a client becomes the backup coordinator of its attempt (§5.2.3 of the paper).
//!
//! Backup coordinators propose nothing, so any number of them, and the client beside them, find the same outcome: what the votes of each
//! shard decide, or the view change that they ask for where votes decide nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::ShardId;
use weir_ordered::cluster::ReplicaId;
use weir_ordered::message::Party;
use weir_ordered::packet::View;

use super::super::application::{Application, OneShot};
use super::super::faults::Faults;
use super::server::{Out, Server};
use super::tally::Tally;
use super::{AttemptId, Message, Record, Request, Verdict, Vote};

/// An attempt whose client says nothing for so many intervals between repetitions is finished by its replicas, and outcomes that some replica
/// may lack are spread by a view change.
const SILENT_INTERVALS: u64 = 20;

/// A backup coordinator's view of an attempt.
#[derive(Clone, Debug)]
pub struct Termination<F, O: OneShot> {
    request: Arc<Request<O>>,
    tallies: BTreeMap<ShardId, Tally<F>>,
    due_ms: u64,
}

impl<F: Faults, A: Application> Server<F, A> {
    /// Looks for attempts that are not over, and for outcomes that only some replicas may have.
    pub(super) fn terminate(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        let resend_ms = self.cluster.timeouts.resend_ms;
        // Replicas do not begin at once: the first one finishes it for all.
        let silent_ms = resend_ms * (SILENT_INTERVALS + 2 * u64::from(self.id.number));
        let is_open = |outcome: Option<bool>, is_merged: bool| outcome.is_none() || !is_merged;
        let entries = self.state.entries().filter(|(_, entry)| is_open(entry.outcome, entry.is_merged));
        let open: BTreeMap<AttemptId, bool> =
            entries.map(|(id, entry)| (*id, entry.outcome.is_some())).collect();
        self.open_since.retain(|key, _| open.get(&key.0) == Some(&key.1));
        self.terminations.retain(|id, _| open.get(id) == Some(&false));
        let mut is_spread = true;
        for (id, has_outcome) in open {
            let since_ms = *self.open_since.entry((id, has_outcome)).or_insert(now_ms);
            if now_ms < since_ms + silent_ms {
                continue;
            }
            is_spread &= !has_outcome;
            if !has_outcome {
                self.coordinate(now_ms, id, out);
            }
        }
        if !is_spread && self.state.is_normal() {
            self.begin_view_change(now_ms, self.state.view + 1, out);
        }
    }

    /// Asks about the attempt, now and again.
    fn coordinate(&mut self, now_ms: u64, id: AttemptId, out: &mut Out<A::Operation>) {
        let Some(request) = self.state.entry(id).map(|entry| entry.request.clone()) else { return };
        if self.state.faults().aborts_alone() {
            return self.finish(&request, false, out);
        }
        let resend_ms = self.cluster.timeouts.resend_ms;
        let (quorums, faults) = (self.quorums, self.state.faults());
        let participants = request.operation.participants(self.placement);
        let termination = self.terminations.entry(id).or_insert_with(|| {
            let tally = |shard: &ShardId| (*shard, Tally::new(quorums, faults));
            let tallies = participants.iter().map(tally).collect();
            Termination { request: request.clone(), tallies, due_ms: now_ms }
        });
        if now_ms < termination.due_ms {
            return;
        }
        termination.due_ms = now_ms + resend_ms;
        let undecided = termination.tallies.iter().filter(|(_, tally)| tally.decided().is_none());
        for (shard, tally) in undecided {
            for replica in self.cluster.group(*shard) {
                let query = Message::Query { request: request.clone(), unclear_in: tally.unclear() };
                out.send(Party::Replica(replica), query);
            }
        }
    }

    /// A replica that has not voted refuses, so that no client gets the attempt prepared later.
    pub(super) fn on_query(
        &mut self,
        now_ms: u64,
        from: Party,
        request: &Arc<Request<A::Operation>>,
        unclear_in: Option<View>,
        out: &mut Out<A::Operation>,
    ) {
        if self.state.is_forgotten(request.id.txn) {
            return;
        }
        if self.state.outcome(request.id).is_none() && self.state.is_normal() {
            if self.state.entry(request.id).is_none() {
                self.note(Record::Voted(request.clone(), Verdict::REFUSED));
            }
            let is_final = self.state.entry(request.id).is_some_and(|entry| entry.is_final);
            if !is_final && unclear_in == Some(self.state.view) {
                return self.begin_view_change(now_ms, self.state.view + 1, out);
            }
        }
        self.tell(from, request, out);
    }

    pub(super) fn on_vote(
        &mut self,
        from: ReplicaId,
        id: AttemptId,
        vote: Vote,
        out: &mut Out<A::Operation>,
    ) {
        let Some(termination) = self.terminations.get_mut(&id) else { return };
        if let Some(tally) = termination.tallies.get_mut(&from.shard) {
            tally.note(from.number, vote);
        }
        let decided: Vec<_> = termination.tallies.values().map(Tally::decided).collect();
        let request = termination.request.clone();
        if self.state.outcome(id).is_some() {
            return;
        }
        if decided.contains(&Some(false)) {
            self.finish(&request, false, out);
        } else if decided.iter().all(|shard| *shard == Some(true)) {
            self.finish(&request, true, out);
        }
    }

    /// The outcome is known: tells it to all replicas of all participants, once. View changes spread what is lost of it.
    pub(super) fn finish(
        &mut self,
        request: &Arc<Request<A::Operation>>,
        commits: bool,
        out: &mut Out<A::Operation>,
    ) {
        self.note(Record::Decided(request.clone(), commits));
        self.terminations.remove(&request.id);
        let participants = request.operation.participants(self.placement).into_iter();
        for replica in participants.flat_map(|shard| self.cluster.group(shard)) {
            if replica != self.id {
                let decide = Message::Decide { request: request.clone(), commits };
                out.send_after(Party::Replica(replica), decide, self.noted);
            }
        }
    }
}
