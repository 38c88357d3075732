//! The coordinator's side of a transaction of several statements (docs/server.md, "Interactive transactions"): each statement is
//! worked by its shards, the last of them with the answers of the others; the end is that of a call of all the shards that have
//! worked.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_types::{SqlError, SqlState};

use super::coordinator::Action;
use super::message::{Answers, Begun, Call, Output, Reply, Request, ShardId, TxnId, Work};
use super::open::forgotten;
use crate::storage::Timestamp;

#[derive(Debug)]
pub struct Interactive {
    txn: TxnId,
    begun: Begun,
    /// Of the last statement.
    number: u32,
    /// Shards that have worked, in the order in which they were met first, and how often each had started then; the first decides.
    open: Vec<(ShardId, u64)>,
    phase: Phase,
    /// Why it has been aborted: whoever works in it must hear of it before it is forgotten.
    failed: Option<SqlError>,
    /// Whoever works in it has ended it.
    is_ended: bool,
}

/// Who has not answered.
type Shards = SmallVec<[ShardId; 8]>;

#[derive(Debug)]
enum Phase {
    /// Between statements.
    Idle,
    /// All participants of a statement but the last work.
    Parts {
        call: Arc<Call>,
        participants: Arc<[ShardId]>,
        waiting: Shards,
        answers: Vec<(ShardId, Answers)>,
        error: Option<SqlError>,
    },
    /// The last, or the only one.
    Last {
        call: Arc<Call>,
        participants: Arc<[ShardId]>,
        answers: Vec<(ShardId, Answers)>,
    },
    Binding {
        participants: Arc<[ShardId]>,
        waiting: Shards,
        above: Timestamp,
    },
    Finishing {
        participants: Arc<[ShardId]>,
        above: Timestamp,
    },
    Committing {
        waiting: Shards,
        timestamp: Timestamp,
    },
    Aborting {
        waiting: Shards,
    },
    Over,
}

impl Interactive {
    pub fn begin(txn: TxnId, begun: Begun) -> Interactive {
        Interactive {
            txn,
            begun,
            number: 0,
            open: Vec::new(),
            phase: Phase::Idle,
            failed: None,
            is_ended: false,
        }
    }

    pub fn txn(&self) -> TxnId {
        self.txn
    }

    fn is_between_statements(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// What the coordinator's clock shows when it is asked for something (S9).
    pub fn set_time(&mut self, now_ms: u64) {
        self.begun.at_ms = now_ms;
    }

    /// A statement is under way, which may wait for others.
    pub fn works(&self) -> bool {
        matches!(self.phase, Phase::Parts { .. } | Phase::Last { .. })
    }

    /// Where it has worked.
    pub fn open(&self) -> &[(ShardId, u64)] {
        &self.open
    }

    /// Why nothing but its end is to come.
    pub fn failed(&self) -> Option<&SqlError> {
        self.failed.as_ref()
    }

    /// `participants` in the order in which they are asked. At least one.
    pub fn statement(&mut self, call: Call, participants: Vec<ShardId>, out: &mut Vec<Action>) {
        assert!(self.is_between_statements(), "one statement after the other");
        self.number += 1;
        let (call, participants): (_, Arc<[ShardId]>) = (Arc::new(call), participants.into());
        let (_, others) = participants.split_last().expect("a statement has a participant");
        let (waiting, answers): (Shards, _) = (others.into(), Vec::new());
        self.phase = match waiting.is_empty() {
            true => Phase::Last { call, participants, answers },
            false => Phase::Parts { call, participants, waiting, answers, error: None },
        };
        self.send(out);
    }

    pub fn commit(&mut self, out: &mut Vec<Action>) {
        self.is_ended = true;
        if let Some(error) = &self.failed {
            out.push(Action::Answer(Err(error.clone())));
            return self.end_if_told(out);
        }
        assert!(self.is_between_statements(), "a statement is under way");
        let Some(&(decides, _)) = self.open.first() else {
            self.phase = Phase::Over;
            return out.extend([Action::Answer(Ok(Output::default())), Action::Settled]);
        };
        let waiting: Shards = self.open[1..].iter().map(|(shard, _)| *shard).collect();
        let above = Timestamp::default();
        self.phase = match waiting.is_empty() {
            true => Phase::Finishing { participants: Arc::new([]), above },
            false => {
                let participants = waiting.iter().copied().chain([decides]).collect();
                Phase::Binding { participants, waiting, above }
            }
        };
        self.send(out);
    }

    /// Whatever is under way, nothing of it happens; but a commit that has been sent to who decides may. Says whether it is sure.
    pub fn roll_back(&mut self, out: &mut Vec<Action>) -> bool {
        self.is_ended = true;
        match &self.phase {
            Phase::Finishing { .. } | Phase::Committing { .. } => false,
            Phase::Aborting { .. } | Phase::Over => {
                self.end_if_told(out);
                true
            }
            Phase::Idle | Phase::Parts { .. } | Phase::Last { .. } | Phase::Binding { .. } => {
                self.abort(out);
                true
            }
        }
    }

    /// Sends (again) what is not answered.
    pub fn send(&mut self, out: &mut Vec<Action>) {
        let txn = self.txn;
        let mut send = |shard, request| out.push(Action::Send(shard, request));
        match &self.phase {
            Phase::Parts { call, participants, waiting, .. } => {
                for &shard in waiting {
                    send(shard, self.work(shard, call, participants, &[]));
                }
            }
            Phase::Last { call, participants, answers } => {
                let last = *participants.last().expect("a statement has a participant");
                send(last, self.work(last, call, participants, answers));
            }
            Phase::Binding { participants, waiting, .. } => {
                for &(shard, opened) in self.open.iter().filter(|(shard, _)| waiting.contains(shard)) {
                    send(
                        shard,
                        Request::Bind { txn, begun: self.begun, participants: participants.clone(), opened },
                    );
                }
            }
            Phase::Finishing { participants, above } => {
                let (decides, opened) = *self.open.first().expect("some shard has worked");
                send(
                    decides,
                    Request::Finish {
                        txn,
                        begun: self.begun,
                        participants: participants.clone(),
                        above: *above,
                        opened,
                    },
                );
            }
            Phase::Committing { waiting, timestamp } => {
                waiting.iter().for_each(|&shard| send(shard, Request::Commit { txn, timestamp: *timestamp }));
            }
            Phase::Aborting { waiting } => {
                waiting.iter().for_each(|&shard| send(shard, Request::Abort { txn }))
            }
            Phase::Idle | Phase::Over => {}
        }
    }

    fn work(
        &self,
        shard: ShardId,
        call: &Arc<Call>,
        participants: &Arc<[ShardId]>,
        answers: &[(ShardId, Answers)],
    ) -> Request {
        let opened = self.open.iter().find(|(of, _)| *of == shard).map(|(_, opened)| *opened);
        let (call, participants) = (call.clone(), participants.clone());
        let work = Work { number: self.number, opened, call, participants, answers: answers.to_vec() };
        Request::Work { txn: self.txn, begun: self.begun, work: Box::new(work) }
    }

    /// What comes twice, or of a phase that is over, is nothing new.
    pub fn on_reply(&mut self, reply: Reply, out: &mut Vec<Action>) {
        match (reply, &mut self.phase) {
            (Reply::Worked { shard, number, incarnation, result, .. }, phase) if number == self.number => {
                let is_asked = match phase {
                    Phase::Parts { waiting, .. } => waiting.contains(&shard),
                    Phase::Last { participants, .. } => participants.last() == Some(&shard),
                    _ => false,
                };
                if is_asked {
                    self.note_open(shard, incarnation);
                    self.on_worked(shard, result, out);
                }
            }
            (Reply::Prepared { shard, timestamp, .. }, Phase::Binding { participants, waiting, above }) => {
                waiting.retain(|one| *one != shard);
                *above = (*above).max(timestamp);
                if waiting.is_empty() {
                    self.phase = Phase::Finishing { participants: participants.clone(), above: *above };
                    self.send(out);
                }
            }
            (Reply::Decided { timestamp, .. }, Phase::Finishing { .. }) => {
                let waiting: Shards = self.open[1..].iter().map(|(shard, _)| *shard).collect();
                out.push(Action::Answer(Ok(Output::default())));
                self.phase = Phase::Committing { waiting, timestamp };
                self.end_if_told(out);
                self.send(out);
            }
            (Reply::Committed { shard, .. }, Phase::Committing { waiting, .. })
            | (Reply::Aborted { shard, .. }, Phase::Aborting { waiting }) => {
                waiting.retain(|one| *one != shard);
                self.end_if_told(out);
            }
            // A shard has forgotten it, or refuses its end.
            (Reply::Refused { error, .. }, phase) if !is_ending(phase) => self.fail(error, out),
            (Reply::Busy { .. }, phase) if !is_ending(phase) => self.fail(forgotten(), out),
            _ => {}
        }
    }

    fn note_open(&mut self, shard: ShardId, incarnation: u64) {
        if !self.open.iter().any(|(of, _)| *of == shard) {
            self.open.push((shard, incarnation));
        }
    }

    fn on_worked(
        &mut self,
        shard: ShardId,
        result: Result<(Answers, Output), SqlError>,
        out: &mut Vec<Action>,
    ) {
        match (&mut self.phase, result) {
            (Phase::Parts { waiting, answers, error, call, participants }, result) => {
                waiting.retain(|one| *one != shard);
                match result {
                    Ok((answer, _)) => answers.push((shard, answer)),
                    Err(new) => *error = Some(new),
                }
                if waiting.is_empty() {
                    if let Some(error) = error.take() {
                        return self.fail(error, out);
                    }
                    let (call, participants) = (call.clone(), participants.clone());
                    self.phase = Phase::Last { call, participants, answers: std::mem::take(answers) };
                    self.send(out);
                }
            }
            (phase, Ok((_, output))) => {
                *phase = Phase::Idle;
                out.push(Action::Answer(Ok(output)));
            }
            // Others may have done their share of it.
            (_, Err(error)) => self.fail(error, out),
        }
    }

    /// Nobody waits any longer for what is under way. Says whether it is sure that nothing of the transaction happens; else it may.
    pub fn give_up(&mut self, out: &mut Vec<Action>) -> bool {
        if matches!(self.phase, Phase::Finishing { .. } | Phase::Committing { .. }) {
            return false;
        }
        let error = SqlError::new(SqlState::QUERY_CANCELED, "a statement of this transaction was given up");
        self.failed = Some(error.with_hint("Nothing of it has happened. Try it again."));
        self.abort(out);
        true
    }

    /// Ends it in the middle of a statement.
    pub fn interrupt(&mut self, error: SqlError, out: &mut Vec<Action>) {
        if self.works() {
            self.fail(error, out);
        }
    }

    /// It is over, and whoever waits is told why.
    fn fail(&mut self, error: SqlError, out: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Idle) {
            out.push(Action::Answer(Err(error.clone())));
        }
        self.failed = Some(error);
        self.abort(out);
    }

    fn abort(&mut self, out: &mut Vec<Action>) {
        // A shard that has been asked and has not answered may work yet.
        if let Phase::Parts { participants, .. } | Phase::Last { participants, .. } = &self.phase {
            let asked: Vec<ShardId> = participants.iter().copied().collect();
            asked.into_iter().for_each(|shard| self.note_open(shard, 0));
        }
        self.phase = Phase::Aborting { waiting: self.open.iter().map(|(shard, _)| *shard).collect() };
        self.send(out);
        self.end_if_told(out);
    }

    fn end_if_told(&mut self, out: &mut Vec<Action>) {
        if let Phase::Committing { waiting, .. } | Phase::Aborting { waiting } = &self.phase
            && waiting.is_empty()
        {
            self.phase = Phase::Over;
        }
        if self.is_ended && matches!(self.phase, Phase::Over) {
            out.push(Action::Settled);
        }
    }
}

fn is_ending(phase: &Phase) -> bool {
    matches!(phase, Phase::Committing { .. } | Phase::Aborting { .. } | Phase::Over)
}

/// Why the youngest of those that wait for each other ends.
pub fn deadlock() -> SqlError {
    SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
        .with_hint("Transactions wait for each other, and this one has begun last. Try it again.")
}
