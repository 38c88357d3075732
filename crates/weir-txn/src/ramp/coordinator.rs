//! The coordinator's side of one transaction: PREPARE everywhere but at the last participant, let that
//! one decide, then COMMIT at the rest.
//!
//! The last participant commits without preparing: once all others have prepared, its own commit is the
//! moment at which "all prepared" becomes true (S3), and it is the owner that S4 wants first. It saves
//! one message of ramp.txt's Algorithm 1 and keeps its promise: nobody commits before everybody else has
//! prepared.

use std::sync::Arc;

use weir_types::{SqlError, SqlState};

use super::message::{Age, Answers, Call, Decision, Output, Reply, Request, ShardId, TxnId};
use crate::storage::Timestamp;

/// What the coordinator wants done.
#[derive(Debug)]
pub enum Action {
    Send(ShardId, Request),
    /// The client may have its answer; the transaction itself may still have COMMITs under way.
    Answer(Result<Output, SqlError>),
    /// A guard asked for a retry: begin again under a new id and the same age.
    Retry,
    /// Committed (or aborted) at every participant: nothing is under way any more.
    Settled,
}

#[derive(Debug)]
pub struct Transaction {
    txn: TxnId,
    age: Age,
    call: Arc<Call>,
    /// The last one decides.
    participants: Arc<[ShardId]>,
    phase: Phase,
    /// No prepare and no atomic visibility: the comparator `none` (NWNR), which keeps the counter.
    atomic: bool,
}

#[derive(Debug)]
enum Phase {
    Executing,
    Preparing { waiting: usize, answers: Vec<(ShardId, Answers)>, above: Timestamp, failure: Option<Failure> },
    Deciding,
    Committing { waiting: usize },
    Over,
}

#[derive(Debug)]
enum Failure {
    Error(SqlError),
    Busy,
}

impl Transaction {
    /// `participants` in the order in which they are asked; the last decides. At least one.
    pub fn begin(
        txn: TxnId,
        age: Age,
        call: Call,
        participants: Vec<ShardId>,
        atomic: bool,
        out: &mut Vec<Action>,
    ) -> Transaction {
        let participants: Arc<[ShardId]> = participants.into();
        let (&last, first) = participants.split_last().expect("a transaction has a participant");
        if first.is_empty() {
            // The call is not needed again unless a guard asks for a retry, which the client repeats.
            out.push(Action::Send(last, Request::Execute { txn, age, call: Box::new(call) }));
            let call = Arc::new(Call { procedure: 0, args: Vec::new(), transaction_time: 0 });
            return Transaction { txn, age, call, participants, phase: Phase::Executing, atomic };
        }
        let call = Arc::new(call);
        for &shard in first {
            let (call, participants) = (call.clone(), participants.clone());
            let request = if atomic {
                Request::Prepare { txn, age, call, participants }
            } else {
                Request::Apply { txn, age, call }
            };
            out.push(Action::Send(shard, request));
        }
        let phase = Phase::Preparing {
            waiting: first.len(),
            answers: Vec::with_capacity(first.len()),
            above: Timestamp::default(),
            failure: None,
        };
        Transaction { txn, age, call, participants, phase, atomic }
    }

    pub fn txn(&self) -> TxnId {
        self.txn
    }

    pub fn on_reply(&mut self, reply: Reply, out: &mut Vec<Action>) {
        match reply {
            Reply::Executed { result, .. } => self.finish(result, out),
            // Only the planted bug "no guards" prepares the only participant.
            Reply::Prepared { shard, timestamp, .. } if matches!(self.phase, Phase::Executing) => {
                self.phase = Phase::Committing { waiting: 1 };
                out.push(Action::Send(shard, Request::Commit { txn: self.txn, timestamp }));
                out.push(Action::Answer(Ok(Output::default())));
            }
            Reply::Prepared { shard, answers, timestamp, .. } => {
                self.on_prepared(Ok((shard, answers, timestamp)), out)
            }
            Reply::Refused { error, .. } => match self.phase {
                Phase::Preparing { .. } => self.on_prepared(Err(Failure::Error(error)), out),
                _ => self.on_undecided(Failure::Error(error), out),
            },
            Reply::Busy { .. } => match self.phase {
                Phase::Preparing { .. } => self.on_prepared(Err(Failure::Busy), out),
                _ => self.on_undecided(Failure::Busy, out),
            },
            Reply::Decided { output, timestamp, .. } => self.on_decided(output, timestamp, out),
            Reply::Committed { .. } => {
                let Phase::Committing { waiting } = &mut self.phase else { unreachable!("COMMIT was sent") };
                *waiting -= 1;
                if *waiting == 0 {
                    self.phase = Phase::Over;
                    out.push(Action::Settled);
                }
            }
            Reply::ReadRows { .. } | Reply::ReadAgain { .. } => {
                unreachable!("a transaction that writes sends no READ")
            }
        }
    }

    fn on_prepared(&mut self, answer: Result<(ShardId, Answers, Timestamp), Failure>, out: &mut Vec<Action>) {
        let Phase::Preparing { waiting, answers, above, failure } = &mut self.phase else {
            unreachable!("PREPARE was sent")
        };
        *waiting -= 1;
        match answer {
            Ok((shard, values, timestamp)) => {
                answers.push((shard, values));
                *above = (*above).max(timestamp);
            }
            // A user's error outranks Busy: retrying would only meet it again.
            Err(Failure::Busy) if failure.is_some() => {}
            Err(new) => *failure = Some(new),
        }
        if *waiting > 0 {
            return;
        }
        if let Some(failure) = failure.take() {
            let prepared: Vec<ShardId> = answers.iter().map(|(shard, _)| *shard).collect();
            return self.abort(&prepared, failure, out);
        }
        let (answers, above) = (std::mem::take(answers), *above);
        self.phase = Phase::Deciding;
        let last = *self.participants.last().expect("a transaction has a participant");
        // Without participants nobody is told of siblings.
        let participants = if self.atomic { self.participants.clone() } else { Arc::new([]) };
        let call = self.call.clone();
        let decision = Decision { call, participants, answers, above };
        out.push(Action::Send(
            last,
            Request::Decide { txn: self.txn, age: self.age, decision: Box::new(decision) },
        ));
    }

    /// The last participant, or the only one, did not commit.
    fn on_undecided(&mut self, failure: Failure, out: &mut Vec<Action>) {
        let prepared = self.participants[..self.participants.len() - 1].to_vec();
        self.abort(&prepared, failure, out);
    }

    fn abort(&mut self, prepared: &[ShardId], failure: Failure, out: &mut Vec<Action>) {
        // What `none` has applied stays applied.
        let prepared = if self.atomic { prepared } else { &[] };
        for &shard in prepared {
            out.push(Action::Send(shard, Request::Abort { txn: self.txn }));
        }
        self.phase = Phase::Over;
        match failure {
            Failure::Error(error) => out.push(Action::Answer(Err(error))),
            Failure::Busy => out.push(Action::Retry),
        }
        out.push(Action::Settled);
    }

    fn on_decided(&mut self, output: Output, timestamp: Timestamp, out: &mut Vec<Action>) {
        let rest = &self.participants[..self.participants.len() - 1];
        if self.atomic {
            for &shard in rest {
                out.push(Action::Send(shard, Request::Commit { txn: self.txn, timestamp }));
            }
            self.phase = Phase::Committing { waiting: rest.len() };
            out.push(Action::Answer(Ok(output)));
        } else {
            self.finish(Ok(output), out);
        }
    }

    fn finish(&mut self, result: Result<Output, SqlError>, out: &mut Vec<Action>) {
        self.phase = Phase::Over;
        out.push(Action::Answer(result));
        out.push(Action::Settled);
    }
}

/// What a transaction becomes that met a guard again and again until its deadline (S7).
pub fn gave_up() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not take a guard before the deadline")
        .with_hint("Other transactions hold the same value or row; try again.")
}
