//! The coordinator's side of an interactive transaction (docs/internals/server.md, "Interactive transactions"): the shards of each statement work
//! in order, the last one with the answers of the others; then others carry out what these have derived for them. The transaction ends like
//! a call over all shards that have worked.

mod again;
mod alone;
mod deriving;
mod failing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::{ShardId, Timestamp, TxnId};
use weir_core::round::{Ending, Waiting};
use weir_types::interrupt::StatementId;
use weir_types::{SqlError, SqlState};

use super::coordinator::{Action, gave_up, outcome};
use crate::message::{
    Answers, Attempt, Begun, Call, Callee, Changed, Derived, Output, Reply, Request, Work, forgotten,
};

pub(super) use alone::Alone;

#[derive(Debug)]
pub struct Interactive {
    txn: TxnId,
    begun: Begun,
    /// Number of the last step.
    number: u32,
    /// Shards that have worked, in the order of their first statement, each with its incarnation then; the first one decides. No
    /// incarnation: the shard was asked, and the client abandoned that statement before its answer came.
    open: Vec<(ShardId, Option<u64>)>,
    phase: Phase,
    /// The statement in progress, or the last one.
    statement: Option<again::Statement>,
    /// The number of the last step before each savepoint, the innermost at the end.
    savepoints: Vec<u32>,
    /// Error after which only the end, or a rollback to a savepoint, is accepted. The client must receive it before it is cleared.
    failed: Option<Failed>,
    /// The client has ended the transaction.
    is_ended: bool,
    /// COMMIT follows as soon as the statement in progress has succeeded.
    commits_next: bool,
    /// Lock time-out of its statements.
    lock_timeout_ms: Option<u64>,
    /// Its statements take interval locks of what they read.
    is_serializable: bool,
    links: Links,
    /// Writes for other shards that participants of the statement in progress have derived, and that nobody carries yet.
    derived: Vec<Derived>,
    /// Rows that its statements have changed, for which assertions are to be checked before it commits. A roll-back to a savepoint forgets
    /// none: then more is checked than has to be.
    changed: Changed,
    /// Output of the statement in progress, while other shards carry out what it has derived; of a transaction of one statement, until it has
    /// committed.
    kept: Option<Output>,
    /// A shard has withdrawn from the statement in progress.
    is_withdrawn: bool,
    /// Set for a transaction of one statement.
    alone: Option<Alone>,
}

/// The shards of a cluster, and the links to them.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    pub shards: ShardId,
    /// Messages may be lost: requests are sent again until answered, and shards acknowledge ABORT.
    pub resends: bool,
}

#[derive(Debug)]
struct Failed {
    error: SqlError,
    /// The work before the innermost savepoint is intact, so a rollback to it is possible.
    can_go_back: bool,
}

#[derive(Debug)]
enum Phase {
    /// Between statements.
    Idle,
    /// All participants of a statement but the last are working.
    Parts {
        call: Arc<Call>,
        participants: Arc<[ShardId]>,
        waiting: Waiting,
        answers: Vec<(ShardId, Answers)>,
        error: Option<SqlError>,
    },
    /// The last, or only, participant is working.
    Last {
        call: Arc<Call>,
        participants: Arc<[ShardId]>,
        answers: Vec<(ShardId, Answers)>,
    },
    /// Shards carry out, in a step of its own, what the statement has derived for them.
    Deriving {
        waiting: Waiting,
        calls: BTreeMap<ShardId, Arc<Call>>,
        /// Error for the lowest constraint so far.
        error: Option<deriving::Ranked>,
    },
    /// Rolling back to the state after step `after`.
    RollingBack {
        after: u32,
        waiting: Waiting,
        then: RolledBack,
    },
    Binding {
        participants: Arc<[ShardId]>,
        waiting: Waiting,
        above: Timestamp,
        /// The last writes that the statement has derived: these shards carry them out before they prepare. None if all are done.
        calls: BTreeMap<ShardId, Arc<Call>>,
        /// As in `Deriving`.
        error: Option<deriving::Ranked>,
    },
    Finishing {
        participants: Arc<[ShardId]>,
        above: Timestamp,
    },
    Ending(Ending<Timestamp>),
}

/// The step that follows a roll-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RolledBack {
    /// A failed statement has caused it.
    Idle,
    /// The client waits for it.
    Answer,
    /// The statement in progress begins again.
    BeginsAgain(Attempt),
}

impl Interactive {
    pub fn begin(txn: TxnId, begun: Begun, links: Links) -> Interactive {
        Interactive {
            txn,
            begun,
            number: 0,
            open: Vec::new(),
            phase: Phase::Idle,
            statement: None,
            savepoints: Vec::new(),
            failed: None,
            is_ended: false,
            commits_next: false,
            lock_timeout_ms: None,
            is_serializable: false,
            links,
            derived: Vec::new(),
            changed: Changed::default(),
            kept: None,
            is_withdrawn: false,
            alone: None,
        }
    }

    pub fn txn(&self) -> TxnId {
        self.txn
    }

    /// Identity of the statement in progress, or of the last one, at the shards.
    pub fn statement_id(&self) -> StatementId {
        (self.txn.coordinator, self.txn.sequence, self.number)
    }

    fn is_between_statements(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Sets the coordinator's clock, which later requests carry (S9).
    pub fn set_time(&mut self, now_ms: u64) {
        self.begun.at_ms = now_ms;
    }

    pub fn lock_timeout_ms(&self) -> Option<u64> {
        self.lock_timeout_ms
    }

    /// Sets the lock time-out; none: no limit.
    pub fn set_lock_timeout(&mut self, lock_timeout_ms: Option<u64>) {
        self.lock_timeout_ms = lock_timeout_ms;
    }

    /// Returns whether assertions are to be checked before it commits.
    pub(crate) fn has_checks(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The rows for which assertions are to be checked.
    pub(crate) fn take_changed(&mut self) -> Changed {
        std::mem::take(&mut self.changed)
    }

    pub fn is_serializable(&self) -> bool {
        self.is_serializable
    }

    /// Sets whether its later statements take interval locks of what they read.
    pub fn set_serializable(&mut self, is_serializable: bool) {
        self.is_serializable = is_serializable;
    }

    /// Returns whether a statement is in progress, which may wait for other transactions.
    pub fn works(&self) -> bool {
        match &self.phase {
            Phase::Parts { .. } | Phase::Last { .. } | Phase::Deriving { .. } => true,
            Phase::Binding { calls, .. } => !calls.is_empty(),
            Phase::RollingBack { then, .. } => matches!(then, RolledBack::BeginsAgain(_)),
            _ => false,
        }
    }

    /// Shards that have worked in it, with their incarnations.
    pub fn open(&self) -> Vec<(ShardId, u64)> {
        self.open.iter().filter_map(|(shard, opened)| Some((*shard, (*opened)?))).collect()
    }

    /// Error for which no statement is accepted.
    pub fn failed(&self) -> Option<&SqlError> {
        self.failed.as_ref().map(|failed| &failed.error)
    }

    /// Error for which only the end is accepted.
    pub fn aborted(&self) -> Option<&SqlError> {
        self.failed.as_ref().filter(|failed| !failed.can_go_back).map(|failed| &failed.error)
    }

    /// Begins a statement. `participants` in the order in which they are asked; at least one.
    pub fn statement(&mut self, call: Call, participants: Vec<ShardId>, out: &mut Vec<Action>) {
        self.statement_by_key(call, participants, None, out);
    }

    /// As [`Interactive::statement`]. `owner`: of the global key that names the row of the statement, which is asked first.
    pub fn statement_by_key(
        &mut self,
        mut call: Call,
        participants: Vec<ShardId>,
        owner: Option<ShardId>,
        out: &mut Vec<Action>,
    ) {
        assert!(self.is_between_statements(), "one statement after the other");
        if self.is_serializable && matches!(call.callee, Callee::Procedure(_) | Callee::Text(_)) {
            call.callee = Callee::Serializable(Arc::new(call.callee));
        }
        self.begin_statement(Arc::new(call), participants.into(), owner, out);
    }

    /// Sends the statement to its participants.
    fn attempt(&mut self, call: Arc<Call>, participants: Arc<[ShardId]>, out: &mut Vec<Action>) {
        self.number += 1;
        (self.derived, self.is_withdrawn) = (Vec::new(), false);
        let (waiting, answers) = (Waiting::from(asked_first(&call, &participants)), Vec::new());
        self.phase = match waiting.is_over() {
            true => Phase::Last { call, participants, answers },
            false => Phase::Parts { call, participants, waiting, answers, error: None },
        };
        self.send(out);
    }

    /// Defines a savepoint.
    pub fn savepoint(&mut self) {
        assert!(self.is_between_statements(), "a statement is under way");
        self.savepoints.push(self.number);
    }

    /// Releases all savepoints but the first `keep`; their changes remain.
    pub fn release(&mut self, keep: usize) {
        self.savepoints.truncate(keep);
    }

    /// Rolls back to the savepoint at that position, which remains defined.
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
            // The failed statement has started this rollback already.
            Phase::RollingBack { then, .. } if at == innermost => *then = RolledBack::Answer,
            Phase::Idle if self.number == after => {
                self.failed = None;
                out.push(Action::Answer(Ok(Output::default())));
            }
            Phase::Idle | Phase::RollingBack { .. } => {
                self.begin_to_roll_back(after, RolledBack::Answer, out);
            }
            _ => out.push(Action::Answer(Err(no_savepoint()))),
        }
    }

    fn begin_to_roll_back(&mut self, after: u32, then: RolledBack, out: &mut Vec<Action>) {
        self.note_asked();
        self.number += 1;
        let waiting = self.open.iter().map(|(shard, _)| *shard).collect();
        self.phase = Phase::RollingBack { after, waiting, then };
        self.send(out);
        self.end_roll_back_if_told(out);
    }

    fn end_roll_back_if_told(&mut self, out: &mut Vec<Action>) {
        let Phase::RollingBack { waiting, then, .. } = &self.phase else { return };
        if !waiting.is_over() {
            return;
        }
        match *then {
            RolledBack::BeginsAgain(attempt) => return self.begin_attempt(attempt, out),
            RolledBack::Answer => {
                self.failed = None;
                out.push(Action::Answer(Ok(Output::default())));
            }
            RolledBack::Idle => {}
        }
        self.phase = Phase::Idle;
        // No shard keeps anything of the steps in between.
        if let Some(innermost) = self.savepoints.last_mut() {
            *innermost = self.number;
        }
    }

    /// Commits. `look`: deferred checks, run first on every shard that has worked, unless the transaction has failed; if they fail, it
    /// aborts.
    pub fn commit(&mut self, look: Option<Call>, out: &mut Vec<Action>) {
        self.is_ended = true;
        if let Some(Failed { error, can_go_back }) = &self.failed {
            out.push(Action::Answer(Err(error.clone())));
            return if *can_go_back { self.abort(out) } else { self.end_if_told(out) };
        }
        assert!(self.is_between_statements(), "a statement is under way");
        if self.open.is_empty() {
            self.phase = Phase::Ending(Ending::over());
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
        self.bind(BTreeMap::new(), out);
    }

    /// Prepares all participants but the one that decides, or lets the only one commit. `calls`: these carry out writes before they prepare;
    /// the one that decides is none of them.
    fn bind(&mut self, calls: BTreeMap<ShardId, Arc<Call>>, out: &mut Vec<Action>) {
        let (decides, _) = *self.open.first().expect("some shard has worked");
        let waiting: Waiting = self.open[1..].iter().map(|(shard, _)| *shard).collect();
        let above = Timestamp::default();
        self.phase = match waiting.is_over() {
            true => Phase::Finishing { participants: Arc::new([]), above },
            false => {
                let participants = waiting.iter().chain([decides]).collect();
                Phase::Binding { participants, waiting, above, calls, error: None }
            }
        };
        self.send(out);
    }

    /// Rolls back, also in the middle of a statement. Returns false if a COMMIT has been sent to the deciding shard: it may still commit.
    pub fn roll_back(&mut self, out: &mut Vec<Action>) -> bool {
        self.is_ended = true;
        match &self.phase {
            Phase::Finishing { .. } => false,
            Phase::Ending(ending) if ending.is_committing() => false,
            Phase::Ending(_) => {
                self.end_if_told(out);
                true
            }
            Phase::Idle
            | Phase::Parts { .. }
            | Phase::Last { .. }
            | Phase::Deriving { .. }
            | Phase::RollingBack { .. }
            | Phase::Binding { .. } => {
                self.abort(out);
                true
            }
        }
    }

    /// Sends all unanswered requests (again).
    pub fn send(&mut self, out: &mut Vec<Action>) {
        let txn = self.txn;
        let mut send = |shard, request| out.push(Action::Send(shard, request));
        match &self.phase {
            Phase::Parts { call, participants, waiting, .. } => {
                for shard in waiting.iter() {
                    send(shard, self.work(shard, call, participants, &[]));
                }
            }
            Phase::Last { call, participants, answers } => {
                let last = *participants.last().expect("a statement has a participant");
                send(last, self.work(last, call, participants, answers));
            }
            Phase::Deriving { waiting, calls, .. } => {
                for (&shard, call) in calls.iter().filter(|(shard, _)| waiting.contains(**shard)) {
                    send(shard, self.work(shard, call, &[shard].into(), &[]));
                }
            }
            Phase::RollingBack { after, waiting, .. } => {
                for &(shard, opened) in self.open.iter().filter(|(shard, _)| waiting.contains(*shard)) {
                    let (age, number, after) = (self.begun.age, self.number, *after);
                    send(shard, Request::RollBackTo { txn, age, number, after, opened });
                }
            }
            Phase::Binding { participants, waiting, calls, .. } => {
                let (begun, is_awaited) = (self.begun, |shard: &ShardId| waiting.contains(*shard));
                for (&shard, call) in calls.iter().filter(|(shard, _)| is_awaited(shard)) {
                    let (work, participants) =
                        (self.work_of(shard, call, &[shard].into(), &[]), participants.clone());
                    send(shard, Request::WorkAndBind { txn, begun, work, participants });
                }
                let binds = |shard: &ShardId| is_awaited(shard) && !calls.contains_key(shard);
                for (shard, opened) in self.open().into_iter().filter(|(shard, _)| binds(shard)) {
                    let participants = participants.clone();
                    send(shard, Request::Bind { txn, begun, participants, opened });
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
            Phase::Ending(ending) => {
                ending.untold().for_each(|(shard, committed)| send(shard, outcome(txn, committed)));
            }
            Phase::Idle => {}
        }
    }

    fn work(
        &self,
        shard: ShardId,
        call: &Arc<Call>,
        participants: &Arc<[ShardId]>,
        answers: &[(ShardId, Answers)],
    ) -> Request {
        let work = self.work_of(shard, call, participants, answers);
        Request::Work { txn: self.txn, begun: self.begun, work }
    }

    fn work_of(
        &self,
        shard: ShardId,
        call: &Arc<Call>,
        participants: &Arc<[ShardId]>,
        answers: &[(ShardId, Answers)],
    ) -> Box<Work> {
        let opened = self.open.iter().find(|(of, _)| *of == shard).and_then(|(_, opened)| *opened);
        let (call, participants) = (call.clone(), participants.clone());
        Box::new(Work { number: self.number, opened, call, participants, answers: answers.to_vec() })
    }

    /// Handles a reply. Repetitions, and replies to an earlier phase, are ignored.
    pub fn on_reply(&mut self, reply: Reply, out: &mut Vec<Action>) {
        let (changed, reply) = reply.without_changed();
        let (derived, reply) = reply.without_derived();
        match (reply, &mut self.phase) {
            (Reply::Worked { shard, number, incarnation, result, .. }, phase) if number == self.number => {
                let is_asked = match phase {
                    Phase::Parts { waiting, .. } | Phase::Deriving { waiting, .. } => waiting.contains(shard),
                    Phase::Last { participants, .. } => participants.last() == Some(&shard),
                    Phase::Binding { waiting, calls, .. } => {
                        waiting.contains(shard) && calls.contains_key(&shard)
                    }
                    _ => false,
                };
                if is_asked {
                    self.changed.extend(changed);
                    self.note_open(shard, incarnation);
                    self.on_worked(shard, result, derived, out);
                }
            }
            (Reply::RolledBack { shard, number, incarnation, .. }, Phase::RollingBack { waiting, .. })
                if number == self.number && waiting.contains(shard) =>
            {
                waiting.answer(shard);
                self.note_open(shard, incarnation);
                self.end_roll_back_if_told(out);
            }
            (Reply::Prepared { shard, timestamp, .. }, Phase::Binding { waiting, above, .. }) => {
                waiting.answer(shard);
                *above = (*above).max(timestamp);
                self.end_round(out);
            }
            (Reply::Decided { timestamp, .. }, Phase::Finishing { .. }) => {
                let rest = self.open[1..].iter().map(|(shard, _)| *shard);
                out.push(Action::Answer(Ok(self.kept.take().unwrap_or_default())));
                self.phase = Phase::Ending(Ending::commit(rest, timestamp));
                self.end_if_told(out);
                self.send(out);
            }
            (Reply::Committed { shard, .. }, Phase::Ending(ending)) => {
                let is_last = ending.on_committed(shard);
                if is_last {
                    self.end_if_told(out);
                }
            }
            (Reply::Aborted { shard, .. }, Phase::Ending(ending)) => {
                let is_last = ending.on_aborted(shard);
                if is_last {
                    self.end_if_told(out);
                }
            }
            // A shard has forgotten the transaction, or refuses to end it.
            (Reply::Refused { error, .. }, phase) if !is_ending(phase) => self.fail_for_good(error, out),
            (Reply::Busy { shard, .. }, phase) if !is_ending(phase) => self.on_busy(shard, out),
            _ => {}
        }
    }

    fn note_open(&mut self, shard: ShardId, incarnation: u64) {
        match self.open.iter_mut().find(|(of, _)| *of == shard) {
            Some((_, opened)) => *opened = opened.or(Some(incarnation)),
            None => self.open.push((shard, Some(incarnation))),
        }
    }

    /// Adds the shards that were asked and have not answered: they may still work.
    fn note_asked(&mut self) {
        let asked = match &self.phase {
            Phase::Parts { call, participants, .. } => asked_first(call, participants).to_vec(),
            Phase::Last { participants, .. } => participants.to_vec(),
            Phase::Deriving { calls, .. } => calls.keys().copied().collect(),
            _ => return,
        };
        for shard in asked {
            if !self.open.iter().any(|(of, _)| *of == shard) {
                self.open.push((shard, None));
            }
        }
    }

    fn on_worked(
        &mut self,
        shard: ShardId,
        result: Result<(Answers, Output), SqlError>,
        derived: Vec<Derived>,
        out: &mut Vec<Action>,
    ) {
        match (&mut self.phase, result) {
            (Phase::Parts { waiting, answers, error, .. }, result) => {
                waiting.answer(shard);
                match result {
                    Ok((answer, _)) => {
                        answers.push((shard, answer));
                        self.derived.extend(derived);
                    }
                    Err(new) => *error = Some(new),
                }
                self.end_round(out);
            }
            (Phase::Deriving { waiting, calls, error }, result) => {
                waiting.answer(shard);
                match result {
                    Ok(_) => self.derived.extend(derived),
                    Err(new) => deriving::keep_lowest(error, &calls[&shard], new),
                }
                self.end_round(out);
            }
            (Phase::Binding { waiting, calls, error, .. }, result) => {
                waiting.answer(shard);
                match result {
                    // It has done its work and has not prepared, for there is more to do.
                    Ok(_) => self.is_withdrawn = true,
                    Err(new) => deriving::keep_lowest(error, &calls[&shard], new),
                }
                self.end_round(out);
            }
            (Phase::Last { call, .. }, Ok((_, output))) => {
                let call = call.clone();
                if !self.commits_next {
                    self.kept = Some(output);
                }
                self.derived.extend(derived);
                self.carry(&call, out);
            }
            (_, Ok(_)) => {}
            // Other shards may have done their share of the statement.
            (_, Err(error)) => self.fail(error, out),
        }
    }

    /// Goes on once all shards that were asked at the same time have answered.
    fn end_round(&mut self, out: &mut Vec<Action>) {
        let error = match &mut self.phase {
            Phase::Parts { waiting, error, .. } if waiting.is_over() => error.take(),
            Phase::Deriving { waiting, error, .. } | Phase::Binding { waiting, error, .. }
                if waiting.is_over() =>
            {
                error.take().map(|(_, _, error)| error)
            }
            _ => return,
        };
        // A row that is not inserted violates nothing.
        let is_opposed = matches!(self.next_attempt(), Some(Attempt::AtConflict(_)));
        if let Some(error) = error.filter(|_| !is_opposed) {
            // Only one shard that has forgotten the transaction makes another one say so.
            let is_forgotten = matches!(self.phase, Phase::Deriving { .. } | Phase::Binding { .. })
                && error.state() == SqlState::SERIALIZATION_FAILURE;
            return if is_forgotten { self.fail_for_good(error, out) } else { self.fail(error, out) };
        }
        if self.is_withdrawn {
            return self.fail_for_good(gave_up(), out);
        }
        match &mut self.phase {
            Phase::Parts { call, .. } if has_no_last(call) => self.end_statement(out),
            Phase::Parts { call, participants, answers, .. } => {
                let (call, participants) = (call.clone(), participants.clone());
                self.phase = Phase::Last { call, participants, answers: std::mem::take(answers) };
                self.send(out);
            }
            Phase::Deriving { calls, .. } => {
                let (_, call) = calls.pop_first().expect("a round has a target");
                self.carry(&call, out);
            }
            Phase::Binding { participants, above, .. } => {
                self.phase = Phase::Finishing { participants: participants.clone(), above: *above };
                self.send(out);
            }
            _ => {}
        }
    }

    /// The statement has succeeded, and all that it has derived is done.
    fn end_statement(&mut self, out: &mut Vec<Action>) {
        self.phase = Phase::Idle;
        if self.commits_next {
            return self.begin_to_commit(out);
        }
        match &mut self.alone {
            Some(Alone { look, .. }) => {
                let look = look.take();
                self.commit(look, out);
            }
            None => out.push(Action::Answer(Ok(self.kept.take().unwrap_or_default()))),
        }
    }

    /// A shard has withdrawn from a statement, or has refused the transaction without a record of why.
    fn on_busy(&mut self, shard: ShardId, out: &mut Vec<Action>) {
        match &mut self.phase {
            // Older builds are answered for so.
            Phase::Last { call, .. } if call.callee.is_by_key() => self.begin_attempt(Attempt::AtHome, out),
            // Its ABORT must not overtake requests that other shards have not answered: nothing would end what these begin.
            Phase::Parts { waiting, .. }
            | Phase::Deriving { waiting, .. }
            | Phase::Binding { waiting, .. }
                if !self.links.resends =>
            {
                self.is_withdrawn |= waiting.answer(shard);
                self.end_round(out);
            }
            _ if self.links.resends => self.fail_for_good(forgotten(), out),
            _ => self.fail_for_good(gave_up(), out),
        }
    }

    /// Shards whose answers the statement, or the end of the transaction, waits for.
    pub fn awaited(&self) -> Vec<ShardId> {
        match &self.phase {
            Phase::Parts { waiting, .. }
            | Phase::Deriving { waiting, .. }
            | Phase::Binding { waiting, .. } => waiting.iter().collect(),
            Phase::Last { participants, .. } => participants.last().copied().into_iter().collect(),
            Phase::Finishing { .. } => self.open().first().map(|(decides, _)| *decides).into_iter().collect(),
            Phase::Idle | Phase::RollingBack { .. } | Phase::Ending(_) => Vec::new(),
        }
    }
}

/// Returns whether no participant needs the answers of the others. A transaction that enters has its place at all shards at once, so all must
/// hear of its end.
fn has_no_last(call: &Call) -> bool {
    call.callee.reads().is_some() || matches!(call.callee, Callee::Enter)
}

/// Participants that are asked at the same time: all, or all but the last, which is sent their answers.
fn asked_first<'p>(call: &Call, participants: &'p [ShardId]) -> &'p [ShardId] {
    let (_, others) = participants.split_last().expect("a statement has a participant");
    if has_no_last(call) { participants } else { others }
}

fn is_ending(phase: &Phase) -> bool {
    matches!(phase, Phase::Ending(_))
}

fn no_savepoint() -> SqlError {
    SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, "savepoint does not exist")
}

/// Error of a statement that has waited for a lock longer than its time-out.
pub fn lock_timeout() -> SqlError {
    SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
}

/// Error of the youngest of serializable transactions that wait for each other; clients try these again.
pub fn serialization_failure() -> SqlError {
    let message = "could not serialize access due to read/write dependencies among transactions";
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message)
        .with_hint("The transaction might succeed if retried.")
}

/// Error of the youngest transaction of a deadlock.
pub fn deadlock() -> SqlError {
    SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
        .with_hint("Transactions wait for each other, and this one has begun last. Try it again.")
}
