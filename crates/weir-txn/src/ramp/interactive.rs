//! The coordinator's side of a transaction of several statements (docs/internals/server.md, "Interactive transactions"): each statement is
//! worked by its shards, the last of them with the answers of the others; the end is that of a call of all the shards that have
//! worked.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_types::interrupt::StatementId;
use weir_types::{SqlError, SqlState};

use super::coordinator::Action;
use super::message::{Answers, Begun, Call, Output, Reply, Request, ShardId, TxnId, Work};
use super::open::forgotten;
use crate::storage::Timestamp;

#[derive(Debug)]
pub struct Interactive {
    txn: TxnId,
    begun: Begun,
    /// Of the last step.
    number: u32,
    /// Shards that have worked, in the order in which they were met first, and how often each had started then; the first decides.
    /// None: it has been asked, and whoever works in it does not wait for the answer any more.
    open: Vec<(ShardId, Option<u64>)>,
    phase: Phase,
    /// The number of the last step before each savepoint, the innermost at the end.
    savepoints: Vec<u32>,
    /// Why it has been aborted, or nothing is taken but its end and a roll-back to a savepoint: whoever works in it must hear of it
    /// before it is forgotten.
    failed: Option<Failed>,
    /// Whoever works in it has ended it.
    is_ended: bool,
    /// It commits when the statement under way has ended well.
    commits_next: bool,
    /// How long a statement waits for another transaction.
    lock_timeout_ms: Option<u64>,
}

#[derive(Debug)]
struct Failed {
    error: SqlError,
    /// What was done before the innermost savepoint stands.
    can_go_back: bool,
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
    /// Back to the state after that step.
    RollingBack {
        after: u32,
        waiting: Shards,
        /// Whoever works in it waits for that; else a statement has failed.
        is_awaited: bool,
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
            savepoints: Vec::new(),
            failed: None,
            is_ended: false,
            commits_next: false,
            lock_timeout_ms: None,
        }
    }

    pub fn txn(&self) -> TxnId {
        self.txn
    }

    /// The statement under way, or the last one, as shards name it.
    pub fn statement_id(&self) -> StatementId {
        (self.txn.coordinator, self.txn.sequence, self.number)
    }

    fn is_between_statements(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// What the coordinator's clock shows when it is asked for something (S9).
    pub fn set_time(&mut self, now_ms: u64) {
        self.begun.at_ms = now_ms;
    }

    pub fn lock_timeout_ms(&self) -> Option<u64> {
        self.lock_timeout_ms
    }

    /// None: as long as it takes.
    pub fn set_lock_timeout(&mut self, lock_timeout_ms: Option<u64>) {
        self.lock_timeout_ms = lock_timeout_ms;
    }

    /// A statement is under way, which may wait for others.
    pub fn works(&self) -> bool {
        matches!(self.phase, Phase::Parts { .. } | Phase::Last { .. })
    }

    /// Where it has worked.
    pub fn open(&self) -> Vec<(ShardId, u64)> {
        self.open.iter().filter_map(|(shard, opened)| Some((*shard, (*opened)?))).collect()
    }

    /// Why no statement is taken.
    pub fn failed(&self) -> Option<&SqlError> {
        self.failed.as_ref().map(|failed| &failed.error)
    }

    /// Why nothing but its end is to come.
    pub fn aborted(&self) -> Option<&SqlError> {
        self.failed.as_ref().filter(|failed| !failed.can_go_back).map(|failed| &failed.error)
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

    /// What is done from here on can be taken back without the rest.
    pub fn savepoint(&mut self) {
        assert!(self.is_between_statements(), "a statement is under way");
        self.savepoints.push(self.number);
    }

    /// The savepoints behind the first so many are forgotten; what was done since stays.
    pub fn release(&mut self, keep: usize) {
        self.savepoints.truncate(keep);
    }

    /// Takes back what was done after the savepoint of that place, which stays.
    pub fn roll_back_to(&mut self, at: usize, out: &mut Vec<Action>) {
        if let Some(error) = self.aborted() {
            return out.push(Action::Answer(Err(error.clone())));
        }
        let Some(&after) = self.savepoints.get(at) else {
            return out.push(Action::Answer(Err(no_savepoint())));
        };
        let innermost = self.savepoints.len() - 1;
        self.savepoints.truncate(at + 1);
        match &mut self.phase {
            // It was begun when the statement failed.
            Phase::RollingBack { is_awaited, .. } if at == innermost => *is_awaited = true,
            Phase::Idle if self.number == after => {
                self.failed = None;
                out.push(Action::Answer(Ok(Output::default())));
            }
            Phase::Idle | Phase::RollingBack { .. } => self.begin_to_roll_back(after, true, out),
            _ => out.push(Action::Answer(Err(no_savepoint()))),
        }
    }

    fn begin_to_roll_back(&mut self, after: u32, is_awaited: bool, out: &mut Vec<Action>) {
        self.note_asked();
        self.number += 1;
        let waiting = self.open.iter().map(|(shard, _)| *shard).collect();
        self.phase = Phase::RollingBack { after, waiting, is_awaited };
        self.send(out);
        self.end_roll_back_if_told(out);
    }

    fn end_roll_back_if_told(&mut self, out: &mut Vec<Action>) {
        let Phase::RollingBack { waiting, is_awaited, .. } = &self.phase else { return };
        if !waiting.is_empty() {
            return;
        }
        if *is_awaited {
            self.failed = None;
            out.push(Action::Answer(Ok(Output::default())));
        }
        self.phase = Phase::Idle;
        // Nothing that was done between the two is left anywhere.
        if let Some(innermost) = self.savepoints.last_mut() {
            *innermost = self.number;
        }
    }

    /// `look`: what is to be run first wherever it has worked, unless it has failed; if that fails, the transaction has.
    pub fn commit(&mut self, look: Option<Call>, out: &mut Vec<Action>) {
        self.is_ended = true;
        if let Some(Failed { error, can_go_back }) = &self.failed {
            out.push(Action::Answer(Err(error.clone())));
            return if *can_go_back { self.abort(out) } else { self.end_if_told(out) };
        }
        assert!(self.is_between_statements(), "a statement is under way");
        if self.open.is_empty() {
            self.phase = Phase::Over;
            return out.extend([Action::Answer(Ok(Output::default())), Action::Settled]);
        }
        match look {
            Some(look) => {
                self.commits_next = true;
                let participants = self.open.iter().map(|(shard, _)| *shard).collect();
                self.statement(look, participants, out);
            }
            None => self.begin_to_commit(out),
        }
    }

    fn begin_to_commit(&mut self, out: &mut Vec<Action>) {
        let (decides, _) = *self.open.first().expect("some shard has worked");
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
            Phase::Idle
            | Phase::Parts { .. }
            | Phase::Last { .. }
            | Phase::RollingBack { .. }
            | Phase::Binding { .. } => {
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
            Phase::RollingBack { after, waiting, .. } => {
                for &(shard, opened) in self.open.iter().filter(|(shard, _)| waiting.contains(shard)) {
                    let (age, number, after) = (self.begun.age, self.number, *after);
                    send(shard, Request::RollBackTo { txn, age, number, after, opened });
                }
            }
            Phase::Binding { participants, waiting, .. } => {
                for (shard, opened) in self.open().into_iter().filter(|(shard, _)| waiting.contains(shard)) {
                    send(
                        shard,
                        Request::Bind { txn, begun: self.begun, participants: participants.clone(), opened },
                    );
                }
            }
            Phase::Finishing { participants, above } => {
                let (decides, opened) = *self.open().first().expect("some shard has worked");
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
        let opened = self.open.iter().find(|(of, _)| *of == shard).and_then(|(_, opened)| *opened);
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
            (Reply::RolledBack { shard, number, incarnation, .. }, Phase::RollingBack { waiting, .. })
                if number == self.number && waiting.contains(&shard) =>
            {
                waiting.retain(|one| *one != shard);
                self.note_open(shard, incarnation);
                self.end_roll_back_if_told(out);
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
            (Reply::Refused { error, .. }, phase) if !is_ending(phase) => self.fail_for_good(error, out),
            (Reply::Busy { .. }, phase) if !is_ending(phase) => self.fail_for_good(forgotten(), out),
            _ => {}
        }
    }

    fn note_open(&mut self, shard: ShardId, incarnation: u64) {
        match self.open.iter_mut().find(|(of, _)| *of == shard) {
            Some((_, opened)) => *opened = opened.or(Some(incarnation)),
            None => self.open.push((shard, Some(incarnation))),
        }
    }

    /// A shard that has been asked and has not answered may work yet.
    fn note_asked(&mut self) {
        let asked = match &self.phase {
            Phase::Parts { participants, .. } => &participants[..participants.len() - 1],
            Phase::Last { participants, .. } => &participants[..],
            _ => return,
        };
        for &shard in asked {
            if !self.open.iter().any(|(of, _)| *of == shard) {
                self.open.push((shard, None));
            }
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
            (phase, Ok(_)) if self.commits_next => {
                *phase = Phase::Idle;
                self.begin_to_commit(out);
            }
            (phase, Ok((_, output))) => {
                *phase = Phase::Idle;
                out.push(Action::Answer(Ok(output)));
            }
            // Others may have done their share of it.
            (_, Err(error)) => self.fail(error, out),
        }
    }

    /// The shards whose answers its statement waits for.
    pub fn awaited(&self) -> Vec<ShardId> {
        match &self.phase {
            Phase::Parts { waiting, .. } => waiting.to_vec(),
            Phase::Last { participants, .. } => participants.last().copied().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Nobody waits any longer for what is under way. Says whether it is sure that nothing of it happens; else it may.
    pub fn give_up(&mut self, out: &mut Vec<Action>) -> bool {
        let error = SqlError::new(SqlState::QUERY_CANCELED, "a statement of this transaction was given up")
            .with_hint("Nothing of it has happened. Try it again.");
        match &mut self.phase {
            Phase::Finishing { .. } | Phase::Committing { .. } => return false,
            Phase::Parts { .. } | Phase::Last { .. } => self.fail_quietly(error, out),
            Phase::RollingBack { is_awaited, .. } => {
                *is_awaited = false;
                self.failed.get_or_insert(Failed { error, can_go_back: true });
            }
            Phase::Idle | Phase::Binding { .. } | Phase::Aborting { .. } | Phase::Over => {
                self.failed = Some(Failed { error, can_go_back: false });
                self.abort(out);
            }
        }
        true
    }

    /// Ends what it does, in the middle of a statement.
    pub fn interrupt(&mut self, error: SqlError, out: &mut Vec<Action>) {
        if self.works() {
            self.fail(error, out);
        }
    }

    /// A statement has failed, and whoever waits is told why.
    fn fail(&mut self, error: SqlError, out: &mut Vec<Action>) {
        out.push(Action::Answer(Err(error.clone())));
        self.fail_quietly(error, out);
    }

    /// What was done since the innermost savepoint is taken back at once, with its locks, as PostgreSQL does; without one, everything.
    fn fail_quietly(&mut self, mut error: SqlError, out: &mut Vec<Action>) {
        // It has been heard.
        error.notices_mut().clear();
        // A COMMIT that fails is the end.
        let innermost = self.savepoints.last().copied().filter(|_| !self.commits_next);
        self.failed = Some(Failed { error, can_go_back: innermost.is_some() });
        match innermost {
            Some(after) => self.begin_to_roll_back(after, false, out),
            None => self.abort(out),
        }
    }

    /// It is over, and whoever waits is told why.
    fn fail_for_good(&mut self, error: SqlError, out: &mut Vec<Action>) {
        let is_awaited = match &self.phase {
            Phase::Idle => false,
            Phase::RollingBack { is_awaited, .. } => *is_awaited,
            _ => true,
        };
        if is_awaited {
            out.push(Action::Answer(Err(error.clone())));
        }
        self.failed = Some(Failed { error, can_go_back: false });
        self.abort(out);
    }

    fn abort(&mut self, out: &mut Vec<Action>) {
        self.note_asked();
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

fn no_savepoint() -> SqlError {
    SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, "savepoint does not exist")
}

/// What a statement has become that has waited for a lock for as long as it may.
pub fn lock_timeout() -> SqlError {
    SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
}

/// Why the youngest of those that wait for each other ends.
pub fn deadlock() -> SqlError {
    SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
        .with_hint("Transactions wait for each other, and this one has begun last. Try it again.")
}
