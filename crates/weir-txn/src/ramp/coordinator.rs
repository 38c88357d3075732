//! The coordinator's side of one transaction: PREPARE everywhere but at the last participant, let that
//! one decide, then COMMIT at the rest.
//!
//! The last participant commits without preparing: once all others have prepared, its own commit is the moment at which "all prepared"
//! becomes true (S3), and it is the owner that S4 wants first. This saves one message of ramp.txt's Algorithm 1 and keeps its guarantee:
//! no participant commits before all others have prepared.

use std::sync::Arc;

use weir_core::ids::{ShardId, Timestamp, TxnId};
use weir_core::round::{Ending, Waiting};
use weir_types::memory::WorkingMemory;
use weir_types::{SqlError, SqlState};

use crate::message::{
    Answers, Attempt, Begun, Call, Callee, Decision, Derived, Output, Reply, Request, too_large,
};

/// An effect of the coordinator's state machine.
#[derive(Debug)]
pub enum Action {
    Send(ShardId, Request),
    /// Answers the client; COMMITs of the transaction may still be in flight.
    Answer(Result<Output, SqlError>),
    /// A guard asked for a retry: begin again under a new id and the same age.
    Retry,
    /// The row that the statement names is elsewhere: begin again so, under a new id and the same age.
    BeginAgain(Attempt),
    /// Every participant has committed or aborted: nothing is in flight any more.
    Settled,
}

#[derive(Debug)]
pub struct Transaction {
    txn: TxnId,
    begun: Begun,
    call: Arc<Call>,
    /// In the order in which they are asked; the last one decides.
    participants: Arc<[ShardId]>,
    phase: Phase,
    /// No prepare and no atomic visibility: the comparator `none` (NWNR), which keeps the counter.
    atomic: bool,
    /// Unanswered requests may have to be sent again.
    resends: bool,
    /// Error of a transaction that the client has cancelled or abandoned before the decision was known.
    cancelled: Option<SqlError>,
}

#[derive(Debug)]
enum Phase {
    Executing {
        /// Kept if it may have to be sent again.
        call: Option<Box<Call>>,
        /// It was sent once, to one incarnation of the shard: [`Reply::Unchanged`] is its answer.
        sent_once: bool,
    },
    Preparing {
        waiting: Waiting,
        answers: Vec<(ShardId, Answers)>,
        above: Timestamp,
        failure: Option<Failure>,
    },
    /// With the decision, if it may have to be sent again.
    Deciding(Option<Box<Decision>>),
    /// The client has its answer, or a new attempt has begun. Participants that have prepared hold their claims until they are told the
    /// outcome.
    Ending(Ending<Timestamp>),
}

/// The request that tells a participant the outcome.
pub(super) fn outcome(txn: TxnId, committed: Option<Timestamp>) -> Request {
    match committed {
        Some(timestamp) => Request::Commit { txn, timestamp },
        None => Request::Abort { txn },
    }
}

/// Limit on the answers of all parts: they travel with the call in one message to the deciding shard.
const ANSWERS_BYTES_MAX: usize = 8 << 20;

/// Approximate size of the answers in a message, in bytes.
fn bytes_of(answers: &Answers) -> usize {
    answers.values.iter().map(|value| 16 + value.content_bytes()).sum()
}

#[derive(Debug)]
enum Failure {
    Error(SqlError),
    Busy,
}

impl Transaction {
    /// `participants` in the order in which they are asked; the last decides. At least one. `incarnation` of a shard, if it is known.
    pub fn begin(
        txn: TxnId,
        begun: Begun,
        call: Call,
        participants: Vec<ShardId>,
        incarnation: impl FnOnce(ShardId) -> Option<u64>,
        (atomic, resends): (bool, bool),
        out: &mut Vec<Action>,
    ) -> Transaction {
        let participants: Arc<[ShardId]> = participants.into();
        let (&last, first) = participants.split_last().expect("a transaction has a participant");
        if first.is_empty() {
            // A retry repeats the call from the client's copy, so the call is kept only for resending.
            let kept = resends.then(|| Box::new(call.clone()));
            let incarnation = incarnation(last).filter(|_| resends);
            let sent_once = incarnation.is_some();
            out.push(Action::Send(last, Request::Execute { txn, begun, call: Box::new(call), incarnation }));
            let callee = Callee::Procedure(0);
            let call = Arc::new(Call {
                callee,
                args: Vec::new(),
                transaction_time: 0.into(),
                schema_version: 0,
                memory: WorkingMemory::default(),
            });
            return Transaction {
                txn,
                begun,
                call,
                participants,
                phase: Phase::Executing { call: kept, sent_once },
                atomic,
                resends,
                cancelled: None,
            };
        }
        let phase = Phase::Preparing {
            waiting: first.into(),
            answers: Vec::with_capacity(first.len()),
            above: Timestamp::default(),
            failure: None,
        };
        let call = Arc::new(call);
        let cancelled = None;
        let mut transaction =
            Transaction { txn, begun, call, participants, phase, atomic, resends, cancelled };
        transaction.send(out);
        transaction
    }

    pub fn txn(&self) -> TxnId {
        self.txn
    }

    /// Sets the time that later requests carry: shards check their clocks against it.
    pub fn set_time(&mut self, now_ms: u64) {
        self.begun.at_ms = now_ms;
    }

    /// Returns whether the client still waits for an answer.
    pub fn is_unanswered(&self) -> bool {
        !matches!(self.phase, Phase::Ending(_))
    }

    /// Sends all unanswered requests (again).
    pub fn send(&mut self, out: &mut Vec<Action>) {
        let (txn, begun) = (self.txn, self.begun);
        let last = *self.participants.last().expect("a transaction has a participant");
        match &mut self.phase {
            // The deciding shard answers whether it has committed or aborted.
            Phase::Executing { .. } | Phase::Deciding(_) if self.cancelled.is_some() => {
                out.push(Action::Send(last, Request::Abort { txn }));
            }
            Phase::Executing { call: Some(call), sent_once } => {
                *sent_once = false;
                let request = Request::Execute { txn, begun, call: call.clone(), incarnation: None };
                out.push(Action::Send(last, request));
            }
            Phase::Preparing { waiting, .. } => {
                for shard in waiting.iter() {
                    let (call, participants) = (self.call.clone(), self.participants.clone());
                    let request = if self.atomic {
                        Request::Prepare { txn, begun, call, participants }
                    } else {
                        Request::Apply { txn, begun, call }
                    };
                    out.push(Action::Send(shard, request));
                }
            }
            Phase::Deciding(Some(decision)) => {
                let decision = decision.clone();
                out.push(Action::Send(last, Request::Decide { txn, begun, decision }));
            }
            Phase::Ending(ending) => {
                let tell = |(shard, committed)| Action::Send(shard, outcome(txn, committed));
                out.extend(ending.untold().map(tell));
            }
            Phase::Executing { call: None, .. } | Phase::Deciding(None) => {}
        }
    }

    /// Handles a reply. Repetitions, and replies to an earlier phase, are ignored.
    pub fn on_reply(&mut self, reply: Reply, out: &mut Vec<Action>) {
        match reply {
            Reply::Executed { result, .. } if matches!(self.phase, Phase::Executing { .. }) => {
                self.finish(result, out)
            }
            Reply::Unchanged { output, .. } => match self.phase {
                Phase::Executing { sent_once: true, .. } => self.finish(Ok(output), out),
                // The incarnation that has sent this answers again from its memory; a later one may have run the call anew.
                Phase::Executing { .. } => self.send(out),
                _ => {}
            },
            // The row that its statement names is elsewhere: nothing has happened.
            Reply::Derived { derived, .. } if matches!(self.phase, Phase::Executing { .. }) => {
                if let Some(error) = self.cancelled.take() {
                    return self.finish(Err(error), out);
                }
                let attempt = derived.iter().find_map(Derived::attempt).unwrap_or(Attempt::AtHome);
                self.phase = Phase::Ending(Ending::over());
                out.extend([Action::BeginAgain(attempt), Action::Settled]);
            }
            // Only the planted bug "no guards" prepares the only participant.
            Reply::Prepared { shard, timestamp, .. } if matches!(self.phase, Phase::Executing { .. }) => {
                self.phase = Phase::Ending(Ending::commit([shard], timestamp));
                self.send(out);
                out.push(Action::Answer(Ok(Output::default())));
            }
            Reply::Prepared { shard, answers, timestamp, .. } => {
                self.on_prepared(shard, Ok((answers, timestamp)), out)
            }
            Reply::Refused { shard, error, .. } => self.on_failure(shard, Failure::Error(error), out),
            Reply::Busy { shard, .. } => self.on_failure(shard, Failure::Busy, out),
            Reply::TooLarge { committed: Some(timestamp), .. }
                if matches!(self.phase, Phase::Deciding(_)) =>
            {
                self.on_decided(Err(too_large(true)), timestamp, out)
            }
            Reply::Decided { output, timestamp, .. } if matches!(self.phase, Phase::Deciding(_)) => {
                self.on_decided(Ok(output), timestamp, out)
            }
            Reply::Committed { shard, .. } => {
                if let Phase::Ending(ending) = &mut self.phase
                    && ending.on_committed(shard)
                {
                    out.push(Action::Settled);
                }
            }
            Reply::Aborted { .. } if matches!(self.phase, Phase::Executing { .. }) => {
                if let Some(error) = self.cancelled.take() {
                    self.finish(Err(error), out);
                }
            }
            Reply::Aborted { shard, .. } if matches!(self.phase, Phase::Deciding(_)) => {
                if Some(&shard) == self.participants.last()
                    && let Some(error) = self.cancelled.take()
                {
                    self.on_undecided(Failure::Error(error), out);
                }
            }
            Reply::Aborted { shard, .. } => {
                if let Phase::Ending(ending) = &mut self.phase
                    && ending.on_aborted(shard)
                {
                    out.push(Action::Settled);
                }
            }
            Reply::Executed { .. }
            | Reply::Decided { .. }
            | Reply::Retired { .. }
            | Reply::TooLarge { .. } => {}
            Reply::Worked { .. }
            | Reply::RolledBack { .. }
            | Reply::Waits { .. }
            | Reply::WaitsBesides { .. }
            | Reply::Raised { .. }
            | Reply::Derived { .. }
            | Reply::InOrder { .. }
            | Reply::DecidedInOrder { .. }
            | Reply::Changed { .. } => {}
            Reply::ReadRows { .. } | Reply::ReadStreams { .. } | Reply::ReadAgain { .. } => {
                unreachable!("a transaction that writes sends no READ")
            }
        }
    }

    fn on_failure(&mut self, shard: ShardId, failure: Failure, out: &mut Vec<Action>) {
        let last = *self.participants.last().expect("a transaction has a participant");
        match self.phase {
            Phase::Preparing { .. } => self.on_prepared(shard, Err(failure), out),
            Phase::Executing { .. } | Phase::Deciding(_) if shard == last => self.on_undecided(failure, out),
            _ => {}
        }
    }

    fn on_prepared(
        &mut self,
        shard: ShardId,
        answer: Result<(Answers, Timestamp), Failure>,
        out: &mut Vec<Action>,
    ) {
        let Phase::Preparing { waiting, answers: all, above, failure } = &mut self.phase else { return };
        if !waiting.answer(shard) {
            return;
        }
        match answer {
            Ok((values, timestamp)) => {
                all.push((shard, values));
                *above = (*above).max(timestamp);
            }
            // A user's error outranks Busy: retrying would only meet it again.
            Err(Failure::Busy) if failure.is_some() => {}
            Err(new) => *failure = Some(new),
        }
        if !waiting.is_over() {
            return;
        }
        if let Some(failure) = failure.take() {
            let prepared: Vec<ShardId> = all.iter().map(|(shard, _)| *shard).collect();
            return self.abort(&prepared, failure, out);
        }
        if all.iter().map(|(_, answers)| bytes_of(answers)).sum::<usize>() > ANSWERS_BYTES_MAX {
            let prepared: Vec<ShardId> = all.iter().map(|(shard, _)| *shard).collect();
            return self.abort(&prepared, Failure::Error(too_large(false)), out);
        }
        let (answers, above) = (std::mem::take(all), *above);
        let last = *self.participants.last().expect("a transaction has a participant");
        // Without a list of participants no sibling is reported to readers.
        let participants = if self.atomic { self.participants.clone() } else { Arc::new([]) };
        let call = self.call.clone();
        let decision = Box::new(Decision { call, participants, answers, above });
        self.phase = Phase::Deciding(self.resends.then(|| decision.clone()));
        out.push(Action::Send(last, Request::Decide { txn: self.txn, begun: self.begun, decision }));
    }

    /// Handles the refusal of the last, or only, participant.
    fn on_undecided(&mut self, failure: Failure, out: &mut Vec<Action>) {
        let failure = self.cancelled.take().map_or(failure, Failure::Error);
        let prepared = self.participants[..self.participants.len() - 1].to_vec();
        self.abort(&prepared, failure, out);
    }

    fn abort(&mut self, prepared: &[ShardId], failure: Failure, out: &mut Vec<Action>) {
        // The comparator `none` cannot undo applied parts.
        let prepared = if self.atomic { prepared } else { &[] };
        self.phase = Phase::Ending(Ending::abort(prepared.iter().copied()));
        self.send(out);
        match failure {
            Failure::Error(error) => out.push(Action::Answer(Err(error))),
            Failure::Busy => out.push(Action::Retry),
        }
        // Without resending the ABORTs cannot be lost.
        if prepared.is_empty() || !self.resends {
            self.phase = Phase::Ending(Ending::over());
            out.push(Action::Settled);
        }
    }

    fn on_decided(&mut self, result: Result<Output, SqlError>, timestamp: Timestamp, out: &mut Vec<Action>) {
        let rest = &self.participants[..self.participants.len() - 1];
        if self.atomic {
            self.phase = Phase::Ending(Ending::commit(rest.iter().copied(), timestamp));
            self.send(out);
            out.push(Action::Answer(result));
        } else {
            self.finish(result, out);
        }
    }

    /// Abandons the transaction; the client waits no longer. Before the last participant has been asked to decide, the prepared ones are
    /// sent ABORT, and the result is true: it certainly does not commit. Later, or with a single participant, the outcome is unknown: the
    /// deciding shard is asked to abort if it has not decided, and the result is false.
    pub fn give_up(&mut self, out: &mut Vec<Action>) -> bool {
        if !matches!(self.phase, Phase::Preparing { .. }) {
            let error = SqlError::new(SqlState::QUERY_CANCELED, "nobody waits for it any longer");
            self.forbid(error, out);
            return false;
        }
        let asked = &self.participants[..self.participants.len() - 1];
        self.phase = Phase::Ending(Ending::abort(asked.iter().copied()));
        self.send(out);
        true
    }

    /// Cancels the transaction; the client receives `error` if it does not commit. Once the decision has been requested, the deciding
    /// shard's answer tells which.
    pub fn cancel(&mut self, error: SqlError, out: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Preparing { .. }) {
            self.give_up(out);
            out.push(Action::Answer(Err(error)));
        } else {
            self.forbid(error, out);
        }
    }

    /// Asks the deciding shard to abort if it has not decided yet: it may be waiting for claims without a bound.
    fn forbid(&mut self, error: SqlError, out: &mut Vec<Action>) {
        if self.resends && matches!(self.phase, Phase::Executing { .. } | Phase::Deciding(_)) {
            self.cancelled = Some(error);
            self.send(out);
        }
    }

    /// Shards whose answers it waits for.
    pub fn awaited(&self) -> Vec<ShardId> {
        match &self.phase {
            Phase::Executing { .. } | Phase::Deciding(_) => {
                self.participants.last().copied().into_iter().collect()
            }
            Phase::Preparing { waiting, .. } => waiting.iter().collect(),
            Phase::Ending(ending) => ending.untold().map(|(shard, _)| shard).collect(),
        }
    }

    fn finish(&mut self, result: Result<Output, SqlError>, out: &mut Vec<Action>) {
        self.phase = Phase::Ending(Ending::over());
        out.push(Action::Answer(result));
        out.push(Action::Settled);
    }
}

/// Error of a call that withdrew at a guard until its deadline (S7).
pub fn gave_up() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not take a guard before the deadline")
        .with_hint("Other transactions hold the same value or row; try again.")
}
