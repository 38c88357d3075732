//! Votes: an ordered call of which one participant alone may refuse its part (docs/internals/ordered-calls.md, "Votes").
//!
//! When its turn comes, each participant prepares its part and tells all others whether it could. Who hears that all could commits; who hears
//! that one could not rolls back. Nothing behind it in the order is executed meanwhile. A vote is in the log before it is told, and nobody
//! waits for a lock before voting: so each participant whose turn comes votes, and all decide alike.
//!
//! If the last participant needs what the statements of the others have given, their votes to it bring that. It executes its part when all
//! have voted, and its own vote is the decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::{ShardId, Timestamp, TxnId};
use weir_core::lsn::Lsn;
use weir_core::participant::{Applied, Participates as _, Transactions as _};
use weir_ordered::packet::Index;

use super::OrderedRecord;
use crate::exec::call::{Ran, Role, Stop, meets_lock, refused_elsewhere};
use crate::faults::Faults;
use crate::message::{Answers, Call, Operation, Ordered, OrderedMessage, Reply, Request, schema_has_changed};
use crate::shard::log::Record;
use crate::shard::node::{Effects, Node, Target};
use crate::storage::WriteSet;

/// What has become of the votes at a shard.
#[derive(Debug, Default)]
pub(super) struct Votes {
    /// The call that this shard has voted for and whose decision it has not told its coordinator. It is prepared, unless a reader has seen it
    /// committed at another participant: then it is committed here, too.
    undecided: Option<Undecided>,
    /// What others have voted on calls that are not decided here: those of `undecided`, and of calls whose turn has yet to come.
    told: BTreeMap<TxnId, BTreeMap<ShardId, Vote>>,
}

/// The vote of a participant on its part of a call. It never changes.
#[derive(Debug)]
struct Vote {
    commits: bool,
    /// The results of its statements; only in a vote for the participant that decides.
    answers: Option<Box<Answers>>,
}

impl Vote {
    fn of(answers: Box<Answers>) -> Vote {
        Vote { commits: answers.error.is_none(), answers: Some(answers) }
    }
}

#[derive(Debug)]
struct Undecided {
    txn: TxnId,
    participants: Arc<[ShardId]>,
    /// What its statements have given.
    answers: Answers,
}

impl Votes {
    pub(super) fn undecided(&self) -> Option<TxnId> {
        self.undecided.as_ref().map(|one| one.txn)
    }

    /// Returns whether the call commits, if that is decided.
    fn decided(&self, own: ShardId) -> Option<bool> {
        let Undecided { txn, participants, .. } = self.undecided.as_ref()?;
        let told = self.told.get(txn);
        let vote = |shard: &ShardId| told.and_then(|told| told.get(shard)).map(|vote| vote.commits);
        let mut others = participants.iter().filter(|shard| **shard != own);
        if others.clone().any(|shard| vote(shard) == Some(false)) {
            return Some(false);
        }
        others.all(|shard| vote(shard) == Some(true)).then_some(true)
    }

    /// Participants whose votes on the undecided call are missing.
    fn missing(&self, own: ShardId) -> Vec<(ShardId, TxnId)> {
        let Some(Undecided { txn, participants, .. }) = &self.undecided else { return Vec::new() };
        let told = self.told.get(txn);
        let is_told = |shard: &ShardId| told.is_some_and(|told| told.contains_key(shard));
        let missing = participants.iter().filter(|shard| **shard != own && !is_told(shard));
        missing.map(|shard| (*shard, *txn)).collect()
    }

    /// Participants of a call that this one decides which have not told what their statements have given.
    fn unanswered(&self, txn: TxnId, others: &[ShardId]) -> Vec<ShardId> {
        let answers = |shard: &ShardId| self.told.get(&txn)?.get(shard)?.answers.as_ref();
        others.iter().copied().filter(|shard| answers(shard).is_none()).collect()
    }
}

impl<F: Faults> Node<F> {
    /// Returns whether this shard decides the call and has yet to hear from another participant.
    pub(super) fn lacks_answers(&self, operation: &Operation) -> bool {
        self.unanswered(operation).is_some_and(|unanswered| !unanswered.is_empty())
    }

    /// Participants that have not told their answers on a call that this shard decides; none: it does not decide it, or has.
    fn unanswered(&self, operation: &Operation) -> Option<Vec<ShardId>> {
        let others = self.decides(&operation.what)?;
        if self.participant.outcomes.get(operation.txn).is_some() {
            return None;
        }
        Some(self.ordering.as_ref()?.votes.unanswered(operation.txn, others))
    }

    /// The other participants of a call that this shard decides.
    fn decides<'o>(&self, what: &'o Ordered) -> Option<&'o [ShardId]> {
        match what {
            Ordered::Decided { participants, .. } => {
                participants.split_last().filter(|(last, _)| **last == self.shard).map(|(_, others)| others)
            }
            _ => None,
        }
    }

    /// Takes part in the agreement on a call whose turn has come.
    pub(super) fn agree(
        &mut self,
        now_ms: u64,
        (index, operation): (Index, &Operation),
        of: (&Arc<Call>, &Arc<[ShardId]>),
        out: &mut Effects,
    ) {
        let txn = operation.txn;
        if self.participant.outcomes.get(txn).is_some() {
            self.forget_votes(txn);
        } else if self.decides(&operation.what).is_some() {
            self.decide(now_ms, (index, txn), of, out);
        } else {
            self.vote(now_ms, (index, operation), of, out);
        }
    }

    fn forget_votes(&mut self, txn: TxnId) -> BTreeMap<ShardId, Vote> {
        let votes = self.ordering.as_mut().map(|ordering| &mut ordering.votes);
        votes.and_then(|votes| votes.told.remove(&txn)).unwrap_or_default()
    }

    /// Executes the part of the last participant, with the answers of all others, and so decides the call.
    fn decide(
        &mut self,
        now_ms: u64,
        (index, txn): (Index, TxnId),
        (call, participants): (&Arc<Call>, &Arc<[ShardId]>),
        out: &mut Effects,
    ) {
        let told = self.forget_votes(txn);
        let answers: Vec<(ShardId, Answers)> =
            told.into_iter().filter_map(|(shard, vote)| Some((shard, *vote.answers?))).collect();
        let is_done =
            self.run_in_order(now_ms, (Some(index), txn), (call, participants), Role::Last(&answers), out);
        debug_assert!(is_done, "a participant that decides waits for nobody");
        let commits = self.participant.outcomes.get(txn).is_some_and(|outcome| outcome.clock.is_some());
        self.tell_vote((txn, commits), (participants, None), out);
    }

    /// Prepares the part of this shard, and votes for the call, or against it.
    fn vote(
        &mut self,
        now_ms: u64,
        (index, operation): (Index, &Operation),
        (call, participants): (&Arc<Call>, &Arc<[ShardId]>),
        out: &mut Effects,
    ) {
        let txn = operation.txn;
        let decides = match operation.what {
            Ordered::Decided { .. } => participants.last().copied(),
            _ => None,
        };
        let role = if decides.is_some() { Role::Part } else { Role::Vote };
        let timestamp = self.clock.tick(now_ms);
        let mut own = WriteSet::default();
        let target = Target::WriteSet(&mut own, None);
        let (mut ran, error) = match self.run_unbounded(txn, call, role, timestamp, true, target) {
            Ok(mut ran) => {
                let error = ran.answers.error.take();
                (ran, error)
            }
            Err(Stop::Error(error)) => (Ran::default(), Some(error)),
            Err(Stop::Held(_) | Stop::Pinned { .. }) => (Ran::default(), Some(meets_lock())),
            Err(Stop::Long | Stop::Elsewhere { .. }) => (Ran::default(), Some(schema_has_changed())),
        };
        match error {
            None => {
                let answers = std::mem::take(&mut ran.answers);
                let answer = Some(Box::new((answers.clone(), timestamp)));
                self.hold_run((txn, operation.begun.age), participants.clone(), (ran, own), answer);
                if let Some(prepared) = self.logged_prepare(txn) {
                    // One record: what is prepared has passed its place.
                    let voted = OrderedRecord::Voted { index, txn, prepared };
                    self.participant.log.push(Record::Ordered(Box::new(voted)));
                }
                let with_answers = decides.map(|shard| (shard, &answers));
                self.tell_vote((txn, true), (participants, with_answers), out);
                if let Some(ordering) = &mut self.ordering {
                    let participants = participants.clone();
                    ordering.votes.undecided = Some(Undecided { txn, participants, answers });
                }
            }
            Some(error) => {
                self.storage.discard_write_set(own);
                let answers = Answers { error: Some(error), ..ran.answers };
                self.refuse_part((index, txn), answers.clone(), out);
                let with_answers = decides.map(|shard| (shard, &answers));
                self.tell_vote((txn, false), (participants, with_answers), out);
            }
        }
    }

    /// This shard cannot do its part of the call, which is over here.
    fn refuse_part(&mut self, (index, txn): (Index, TxnId), answers: Answers, out: &mut Effects) {
        let reply = Box::new(Reply::InOrder { txn, shard: self.shard, answers });
        self.participant.note_unchanged(txn, Some(reply.clone()));
        let record = OrderedRecord::Unchanged { index, txn, reply: reply.clone() };
        self.participant.log.push(Record::Ordered(Box::new(record)));
        self.forget_votes(txn);
        self.reply(txn, reply.spoken(), out);
    }

    /// Tells all other participants the vote of this shard, and the one that decides also what its statements have given.
    fn tell_vote(
        &self,
        (txn, commits): (TxnId, bool),
        (participants, with_answers): (&[ShardId], Option<(ShardId, &Answers)>),
        out: &mut Effects,
    ) {
        let after = if self.bugs.votes_before_record() { Lsn::START } else { self.noted() };
        for &shard in participants.iter().filter(|shard| **shard != self.shard) {
            let message = match with_answers {
                Some((decides, answers)) if decides == shard => {
                    OrderedMessage::VoteWithAnswers { txn, answers: Box::new(answers.clone()) }
                }
                _ => OrderedMessage::Vote { txn, commits },
            };
            out.ask(shard, Request::Ordered(Box::new(message)), after);
        }
    }

    pub(super) fn on_vote(&mut self, peer: ShardId, txn: TxnId, commits: bool) {
        self.hear_vote(peer, txn, Vote { commits, answers: None });
    }

    pub(super) fn on_answers(&mut self, peer: ShardId, txn: TxnId, answers: Box<Answers>) {
        self.hear_vote(peer, txn, Vote::of(answers));
    }

    fn hear_vote(&mut self, peer: ShardId, txn: TxnId, vote: Vote) {
        let is_decided = self.participant.outcomes.get(txn).is_some()
            || self.participant.committed().contains_key(&txn)
            || self.is_over(txn);
        if let Some(ordering) = &mut self.ordering
            && !is_decided
        {
            let told = ordering.votes.told.entry(txn).or_default();
            if vote.answers.is_some() || !told.contains_key(&peer) {
                told.insert(peer, vote);
            }
        }
    }

    /// Tells a participant that asks the vote of this shard, if it has voted.
    pub(super) fn on_ask_vote(&mut self, peer: ShardId, txn: TxnId, out: &mut Effects) {
        let Some(commits) = self.has_voted(txn) else { return };
        let message = match self.answers_again(txn) {
            Some(answers) => OrderedMessage::VoteWithAnswers { txn, answers },
            None => OrderedMessage::Vote { txn, commits },
        };
        out.ask(peer, Request::Ordered(Box::new(message)), self.noted());
    }

    /// The results of this shard's statements in a call that is not decided, or that it has refused.
    fn answers_again(&self, txn: TxnId) -> Option<Box<Answers>> {
        let undecided = self.ordering.as_ref().and_then(|ordering| ordering.votes.undecided.as_ref());
        if let Some(undecided) = undecided.filter(|undecided| undecided.txn == txn) {
            return Some(Box::new(undecided.answers.clone()));
        }
        match self.participant.outcomes.get(txn).map(|outcome| outcome.answer.as_deref()) {
            Some(Some(Reply::InOrder { answers, .. })) => Some(Box::new(answers.clone())),
            Some(_) => None,
            // It is over and forgotten.
            None => {
                let refused = Answers { error: Some(refused_elsewhere()), ..Answers::default() };
                let is_refused = self.is_over(txn) && !self.participant.committed().contains_key(&txn);
                is_refused.then(|| Box::new(refused))
            }
        }
    }

    /// The vote of this shard; none: its turn has yet to come, also if the coordinator is retired. A call that is over and forgotten is one
    /// that it has refused: one that it has committed is kept until all participants have committed it.
    fn has_voted(&self, txn: TxnId) -> Option<bool> {
        if self.has_voted_for(txn) || self.participant.committed().contains_key(&txn) {
            return Some(true);
        }
        let outcome = self.participant.outcomes.get(txn).map(|outcome| outcome.clock.is_some());
        outcome.or_else(|| self.is_over(txn).then_some(false))
    }

    pub(super) fn ask_for_votes(&self, out: &mut Effects) {
        let Some(ordering) = &self.ordering else { return };
        let mut missing = ordering.votes.missing(self.shard);
        if let Some((_, next)) = ordering.next().filter(|_| missing.is_empty()) {
            let unanswered = self.unanswered(&next).unwrap_or_default();
            missing.extend(unanswered.into_iter().map(|shard| (shard, next.txn)));
        }
        for (shard, txn) in missing {
            out.ask(shard, Request::Ordered(Box::new(OrderedMessage::AskVote { txn })), Lsn::START);
        }
    }

    /// Decides the call that this shard has voted for, if the votes or a reader do. Returns whether they did.
    pub(super) fn decide_by_votes(&mut self, now_ms: u64, out: &mut Effects) -> bool {
        let own = self.shard;
        let Some(ordering) = &mut self.ordering else { return false };
        let Some(txn) = ordering.votes.undecided() else { return false };
        let is_committed = !self.participant.prepared().contains_key(&txn);
        let decided = match is_committed || self.bugs.commits_on_own_vote() {
            true => Some(true),
            false => ordering.votes.decided(own),
        };
        let Some(commits) = decided else { return false };
        if commits && !is_committed {
            let timestamp = self.clock.tick(now_ms);
            self.commit_voted(txn, timestamp);
        }
        let Some(reply) = self.end_vote(commits) else { return false };
        if !commits {
            if let Some(prepared) = self.release(txn) {
                self.discard(txn, prepared);
            }
            self.refuse(txn, Some(reply.clone()));
        }
        self.reply(txn, reply.spoken(), out);
        true
    }

    /// The vote is over. Returns the answer to the coordinator.
    fn end_vote(&mut self, commits: bool) -> Option<Box<Reply>> {
        let shard = self.shard;
        let votes = &mut self.ordering.as_mut()?.votes;
        let Undecided { txn, answers, .. } = votes.undecided.take()?;
        votes.told.remove(&txn);
        let error = (!commits).then(refused_elsewhere);
        Some(Box::new(Reply::InOrder { txn, shard, answers: Answers { error, ..answers } }))
    }

    /// Commits the call that this shard has voted for: all participants have, or a reader has seen it committed at another one.
    pub(in crate::shard) fn commit_voted(&mut self, txn: TxnId, timestamp: Timestamp) {
        let votes = self.ordering.as_ref().map(|ordering| &ordering.votes);
        let Some(undecided) = votes.and_then(|votes| votes.undecided.as_ref()) else { return };
        let (shard, answers) = (self.shard, undecided.answers.clone());
        let reply = Box::new(Reply::InOrder { txn, shard, answers });
        let Some(prepared) = self.release(txn) else { return };
        let Applied { committed, record } = self.apply(txn, prepared, timestamp);
        let committed = committed.map(|mut one| {
            one.is_in_order = true;
            one
        });
        if let Some(commit) = record {
            let commit = Box::new(commit.answered(reply.clone()));
            self.participant.log.push(Record::Ordered(Box::new(OrderedRecord::Accepted { txn, commit })));
        }
        let applied = Applied { committed, record: None };
        self.participant.note_commit((txn, timestamp.clock), Some(reply), applied);
    }

    /// Returns whether the transaction is a call that this shard has voted for and that is not decided.
    pub(in crate::shard) fn has_voted_for(&self, txn: TxnId) -> bool {
        self.ordering.as_ref().is_some_and(|ordering| ordering.votes.undecided() == Some(txn))
    }

    /// Waits again for the votes on a call that is prepared: `txn` is in the log.
    pub(super) fn vote_again(&mut self, txn: TxnId) {
        let Some(prepared) = self.participant.prepared().get(&txn) else { return };
        let participants = prepared.participants.clone();
        let answers = prepared.answer.as_deref().map(|(answers, _)| answers.clone()).unwrap_or_default();
        if let Some(ordering) = &mut self.ordering {
            ordering.votes.undecided = Some(Undecided { txn, participants, answers });
        }
    }
}
