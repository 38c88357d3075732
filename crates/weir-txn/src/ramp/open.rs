//! Transactions of several statements at a shard, from their first statement to their end (docs/server.md, "Interactive
//! transactions").
//!
//! What an open transaction has written is not there for anybody else: its changes are done again for each of its
//! statements, and taken back at once. That is exact, for it holds every row that it has written and every key that it has
//! inserted. It is volatile: a shard that starts again has forgotten it, and says so.

mod advisory;
mod stays;

use std::sync::Arc;

use smallvec::smallvec;
use weir_sql::catalog::TableId;
use weir_types::{SqlError, SqlState};

use super::definitions::{Defined, Definitions, definition_of};
use super::message::{Age, Answers, Begun, Call, Callee, Output, Reply, Request, ShardId, TxnId, Work};
use super::participant::{Claim, Holders, Prepared, Unsettled, Write};
use crate::exec::call::{Ran, Role, Stop};
use crate::exec::deferred::{Later, Setting, pending};
use crate::exec::program::Program;
use crate::machine::CoordinatorId;
use crate::node::{Effects, Node};
use crate::storage::room::disk_full;
use crate::storage::{Operation, Timestamp, Undone};

pub(crate) use stays::Stays;

/// A transaction that has worked here and has not been asked to end.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) age: Age,
    /// In their order.
    done: Vec<Done>,
    /// The last step's number, and what it was answered.
    answered: (u32, Reply),
}

impl Open {
    fn new(txn: TxnId, shard: ShardId, age: Age) -> Open {
        Open { age, done: Vec::new(), answered: (0, Reply::Aborted { txn, shard }) }
    }

    fn into_claims(self) -> Vec<Claim> {
        self.done.into_iter().flat_map(|done| done.claims).collect()
    }

    /// What its statements have left to be looked at; with a setting, what that is about.
    fn pending(&self, last: Option<&Setting>, program: &Program) -> Vec<Later> {
        pending(self.done.iter().map(|done| (done.setting.as_ref(), &done.later[..])), last, program)
    }

    /// Something that it has done has not been looked at.
    fn has_pending(&self, program: &Program) -> bool {
        self.done.iter().any(|done| !done.later.is_empty()) && !self.pending(None, program).is_empty()
    }

    /// It changes the schema.
    pub(crate) fn defines(&self) -> bool {
        self.done.iter().any(|done| done.defined.is_some())
    }

    /// Those that it has made.
    pub(crate) fn editions(&self) -> impl Iterator<Item = &Arc<Program>> {
        self.done.iter().filter_map(|done| done.defined.as_ref()).map(|defined| defined.program())
    }
}

/// What one statement has done, taken back.
#[derive(Debug, Default)]
pub(crate) struct Done {
    number: u32,
    /// Those that it was the first to take.
    claims: Vec<Claim>,
    pub(super) undone: Vec<Undone>,
    writes: Vec<Write>,
    /// Rows, and which of the writes each is.
    inserted: Vec<(TableId, u32, usize)>,
    /// It has inserted rows into that table, and nothing else.
    loads: Option<TableId>,
    /// It has changed the schema, and nothing else.
    pub(super) defined: Option<Box<Defined>>,
    /// What it has said of constraints, and nothing else.
    setting: Option<Setting>,
    /// What it has left to be looked at.
    later: Vec<Later>,
}

/// What an open transaction has inserted before a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRows<'a> {
    pub inserted: &'a [(TableId, u32)],
    /// It is not in place, nor among `inserted`.
    pub are_hidden: bool,
    /// All of it is in place, though it is not among `inserted`, and nobody else is here.
    pub is_alone: bool,
    /// What it has said of constraints.
    pub said: &'a [&'a Setting],
    /// What the statement is to look at, if that is what it is for.
    pub later: &'a [Later],
}

impl Done {
    pub(super) fn of(number: u32, defined: Defined) -> Done {
        Done { number, defined: Some(Box::new(defined)), ..Done::default() }
    }
}

impl Node {
    /// Does all of the transaction's changes again, gives what `then` gives, and takes them back.
    pub(crate) fn within<T>(&mut self, txn: Option<TxnId>, then: impl FnOnce(&mut Node) -> T) -> T {
        let Some(mut open) = txn.and_then(|txn| self.open.remove(&txn)) else { return then(self) };
        let begins = self.replay_open(&mut open);
        let given = then(self);
        self.take_back(&mut open.done, begins);
        self.open.extend(txn.map(|txn| (txn, open)));
        given
    }

    /// Gives where each statement began.
    fn replay_open(&mut self, open: &mut Open) -> Vec<u64> {
        open.done.iter_mut().map(|done| self.replay_done(done)).collect()
    }

    pub(crate) fn replay_done(&mut self, done: &mut Done) -> u64 {
        let begin = self.storage.position();
        match &mut done.defined {
            Some(defined) => self.exchange(defined),
            None => {
                self.has_done.redone += done.undone.len() as u64;
                self.storage.replay_for_now(std::mem::take(&mut done.undone))
            }
        }
        begin
    }

    pub(crate) fn take_back(&mut self, all: &mut [Done], begins: Vec<u64>) {
        for (done, begin) in all.iter_mut().zip(begins).rev() {
            match &mut done.defined {
                Some(defined) => self.exchange(defined),
                None => done.undone = self.storage.rewind(begin),
            }
        }
    }

    /// The step has been done, or must not be done any more: then it is answered here.
    fn is_old_step(&mut self, txn: TxnId, number: u32, opened: Option<u64>, out: &mut Effects) -> bool {
        let is_of_this_start = opened.is_none_or(|opened| opened == self.incarnation());
        if let Some(open) = self.open.get(&txn).filter(|open| open.answered.0 >= number && is_of_this_start) {
            let again = (open.answered.0 == number).then(|| open.answered.1.clone());
            out.replies.extend(again.map(|reply| (txn.coordinator, reply)));
            return true;
        }
        let is_forgotten = opened.is_some_and(|opened| !self.has_open(txn, opened));
        if is_forgotten {
            self.refuse_forgotten(txn, out);
        }
        is_forgotten
    }

    /// The table that the call inserts given rows into, if it does nothing else.
    fn loads(&self, call: &Call) -> Option<TableId> {
        let callee = self.program.callee(&call.callee).ok()?;
        callee.loads(&self.program)
    }

    pub(crate) fn on_work(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        begun: Begun,
        work: Box<Work>,
        out: &mut Effects,
    ) {
        let (shard, number) = (self.shard, work.number);
        if self.is_old_step(txn, number, work.opened, out) {
            return;
        }
        if let Callee::AdvisoryLock { key, waits } = work.call.callee {
            return self.on_advisory_lock((txn, begun), work, key, waits, out);
        }
        if let Callee::Sequences = work.call.callee {
            let values = self.sequences.standing(&self.program, shard);
            let open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, shard, begun.age));
            let output = Output { values, ..Output::default() };
            return self.worked(txn, open, (number, Ok((Answers::default(), output))), out);
        }
        let defines = definition_of(&work.call.callee).cloned();
        if defines.is_some()
            && let Some(holder) = self.raise_barrier(txn, begun.age)
        {
            let request = Request::Work { txn, begun, work };
            return self.wait_with_work(smallvec![holder], request, out);
        }
        let timestamp = self.clock.tick(now_ms);
        let mut open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, shard, begun.age));
        let role = match (work.participants.split_last(), &work.answers[..]) {
            (Some((last, others)), answers) if *last == shard && !others.is_empty() => Role::Last(answers),
            (Some((last, _)), _) if *last == shard => Role::Whole,
            _ => Role::Part,
        };
        if defines.is_some() && open.has_pending(&self.program) {
            return self.worked(txn, open, (number, Err(pending_checks())), out);
        }
        if let Some(definition) = defines {
            let begins = self.replay_open(&mut open);
            let defined = self.define(&definition, work.call.transaction_time).map(|mut defined| {
                self.exchange(&mut defined);
                defined
            });
            self.take_back(&mut open.done, begins);
            let result = defined.map(|defined| {
                open.done.push(Done::of(number, defined));
                Default::default()
            });
            return self.worked(txn, open, (number, result), out);
        }
        let loads = self.loads(&work.call);
        // What only inserts rows needs nothing of the rows that were inserted so before it but their keys, and those are claimed.
        let seen = match loads {
            Some(_) => open.done.iter().rposition(|done| done.loads != loads).map_or(0, |last| last + 1),
            None => open.done.len(),
        };
        let stays = self.may_stay(txn, &open, loads.is_some());
        let mut tried = match stays {
            true => self.try_in_place((txn, &work, role), timestamp),
            false => self.try_work(&mut open, (txn, &work, role), timestamp, seen),
        };
        if let (Err(Stop::Error(error)), _) = &tried
            && !stays
            && (1..open.done.len()).contains(&seen)
            && error.state() == SqlState::UNIQUE_VIOLATION
        {
            // It may have claimed the key of a row that it has deleted since.
            self.storage.discard(tried.1);
            let all = open.done.len();
            tried = self.try_work(&mut open, (txn, &work, role), timestamp, all);
        }
        let (ran, undone) = tried;
        let result = match ran {
            Ok(ran) if ran.answers.error.is_none() => {
                let mut claims = ran.claims;
                claims.retain(|claim| self.participant.claims.take(claim, txn));
                let (writes, inserted) = (ran.writes, ran.inserted);
                let (setting, later) = (work.call.callee.setting().cloned(), ran.later);
                let of = Done { number, claims, undone, writes, inserted, loads, ..Done::default() };
                open.done.push(Done { setting, later, ..of });
                Ok((ran.answers, ran.output))
            }
            Ok(ran) => {
                self.storage.discard(undone);
                Ok((ran.answers, ran.output))
            }
            Err(Stop::Error(error)) => {
                self.storage.discard(undone);
                Err(error)
            }
            Err(stop @ (Stop::Held(_) | Stop::Pinned { .. })) => {
                self.storage.discard(undone);
                if open.answered.0 > 0 {
                    self.open.insert(txn, open);
                }
                let holders = self.holders(stop);
                self.has_done.waits += 1;
                return self.wait_with_work(holders, Request::Work { txn, begun, work }, out);
            }
        };
        self.worked(txn, open, (number, result), out);
    }

    /// Runs a statement on top of the first so many that the transaction has done here, and takes all of it back.
    fn try_work(
        &mut self,
        open: &mut Open,
        (txn, work, role): (TxnId, &Work, Role<'_>),
        timestamp: Timestamp,
        seen: usize,
    ) -> (Result<Ran, Stop>, Vec<Undone>) {
        let are_hidden = seen < open.done.len();
        let begins: Vec<u64> = open.done[..seen].iter_mut().map(|done| self.replay_done(done)).collect();
        let inserted = open.done[..seen].iter().flat_map(|done| &done.inserted);
        let before: Vec<(TableId, u32)> = inserted.map(|(table, row, _)| (*table, *row)).collect();
        let begin = self.storage.position();
        let said: Vec<&Setting> = open.done.iter().filter_map(|done| done.setting.as_ref()).collect();
        let setting = work.call.callee.setting();
        let later = setting.map_or_else(Vec::new, |setting| open.pending(Some(setting), &self.program));
        let rows = OpenRows { inserted: &before, are_hidden, is_alone: false, said: &said, later: &later };
        let ran = self.run(txn, &work.call, role, timestamp, true, Some(rows));
        let undone = self.storage.rewind(begin);
        self.take_back(&mut open.done[..seen], begins);
        (ran, undone)
    }

    /// Answers a statement, and keeps the answer for repetitions.
    fn worked(
        &mut self,
        txn: TxnId,
        mut open: Open,
        (number, result): (u32, Result<(Answers, Output), SqlError>),
        out: &mut Effects,
    ) {
        let (shard, incarnation) = (self.shard, self.incarnation());
        // An error may be of more than rows, and so is what a transaction does that has changed the schema.
        self.told_rows += usize::from(result.is_ok() && !open.defines());
        let reply = Reply::Worked { txn, shard, number, incarnation, result }.spoken();
        open.answered = (number, reply.clone());
        self.open.insert(txn, open);
        out.replies.push((txn.coordinator, reply));
    }

    /// `step`: its own number, and that of the last one that stays. A transaction that has not worked here is open from now on, so that
    /// what comes late of its statements does nothing.
    pub(crate) fn on_roll_back_to(
        &mut self,
        txn: TxnId,
        age: Age,
        (number, after): (u32, u32),
        opened: Option<u64>,
        out: &mut Effects,
    ) {
        let shard = self.shard;
        if self.is_old_step(txn, number, opened, out) {
            return;
        }
        self.stop_waiting(txn);
        let mut open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, shard, age));
        let stays = open.done.partition_point(|done| done.number <= after);
        let gone = match self.bugs.keeps_what_is_rolled_back {
            true => Vec::new(),
            false => open.done.split_off(stays),
        };
        let reply = Reply::RolledBack { txn, shard, number, incarnation: self.incarnation() };
        open.answered = (if self.bugs.rolled_back_comes_again { after } else { number }, reply.clone());
        let claims = self.discard_open(&open.done, gone);
        if self.barrier.is_some_and(|barrier| barrier.txn == txn) && !open.defines() {
            // What it kept others out for is taken back, or has not been made. Slots of its rows that stay are not free.
            let begins = self.replay_open(&mut open);
            self.take_back(&mut open.done, begins);
            self.lower_barrier(txn);
        }
        self.open.insert(txn, open);
        self.release_open(txn, claims);
        if self.waits_besides.values().any(|holders| holders.contains(&txn)) {
            // It is there and does not hold what they wait for: their coordinators must hear that.
            self.ended.extend(self.waiting.keys());
        }
        out.replies.push((txn.coordinator, reply));
    }

    /// Gives the claims of what is gone.
    fn discard_open(&mut self, stays: &[Done], gone: Vec<Done>) -> Vec<Claim> {
        let defines = |done: &[Done]| done.iter().any(|one| one.defined.is_some());
        let (defined, stays_defined) = (defines(&gone), defines(stays));
        let mut claims = Vec::new();
        // The last first: a slot is free when nothing is to come back to it.
        for done in gone.into_iter().rev() {
            // What comes after a definition tells slots of tables that are not in place.
            if !defined && !stays_defined {
                self.storage.discard(done.undone);
            }
            claims.extend(done.claims);
        }
        if defined && !stays_defined {
            // Nobody else has any.
            self.storage.end_replay();
        }
        claims
    }

    /// Who holds what a run has stopped at. At least one.
    pub(crate) fn holders(&self, stop: Stop) -> Holders {
        match stop {
            Stop::Held(holders) => holders,
            Stop::Pinned { table, row } => {
                let has =
                    |prepared: &Prepared| prepared.pins.iter().any(|pin| (pin.0, pin.1) == (table, row));
                let mut prepared = self.participant.prepared.iter();
                let (holder, _) =
                    prepared.find(|(_, prepared)| has(prepared)).expect("a pinned row has whoever pinned it");
                smallvec![*holder]
            }
            Stop::Error(_) => unreachable!("nobody holds an error"),
        }
    }

    /// The transaction is open as it was when it was told so: the shard has not started again since.
    pub(crate) fn has_open(&self, txn: TxnId, opened: u64) -> bool {
        (opened == self.incarnation() || self.bugs.opens_again) && self.open.contains_key(&txn)
    }

    fn incarnation(&self) -> u64 {
        self.ledger.as_deref().map_or(0, |ledger| ledger.incarnation)
    }

    fn refuse_forgotten(&mut self, txn: TxnId, out: &mut Effects) {
        self.answer(txn, Reply::Refused { txn, shard: self.shard, error: forgotten() }, out)
    }

    /// Why it cannot commit here. Whoever ends it has had everything looked at before.
    fn refuses_end(&self, open: &Open) -> Option<SqlError> {
        let is_unseen = || open.has_pending(&self.program) && !self.bugs.forgets_deferred;
        match self.storage.room.disk_is_full {
            true => Some(disk_full()),
            false => is_unseen().then(|| {
                let message = "a transaction ends whose deferred constraints have not been checked";
                SqlError::new(SqlState::INTERNAL_ERROR, message)
            }),
        }
    }

    pub(crate) fn on_bind(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        (participants, opened): (Arc<[ShardId]>, u64),
        out: &mut Effects,
    ) {
        let shard = self.shard;
        let Some(mut open) = self.has_open(txn, opened).then(|| self.open.remove(&txn)).flatten() else {
            return self.refuse_forgotten(txn, out);
        };
        if let Some(error) = self.refuses_end(&open) {
            self.open.insert(txn, open);
            return self.answer(txn, Reply::Refused { txn, shard, error }, out);
        }
        let timestamp = self.clock.tick(now_ms);
        let begin = self.storage.position();
        let defines = open.defines();
        let (writes, undone): (Arc<[Write]>, _) = match defines {
            true => (Arc::new([]), None),
            false => {
                self.replay_open(&mut open);
                let writes = self.final_writes(&mut open).into();
                (writes, Some(self.storage.rewind(begin)))
            }
        };
        let (pins, at) = (self.pin(&writes), self.storage.position());
        let answer = self.ledger.is_some().then(|| Box::new((Answers::default(), timestamp)));
        let definitions = defines.then(|| {
            let steps = self.steps_of(&mut open.done);
            let defined = |done: &mut Done| {
                std::mem::replace(done, Done { claims: done.claims.clone(), ..Done::default() })
            };
            Box::new(Definitions { steps, done: open.done.iter_mut().map(defined).collect() })
        });
        let (age, claims) = (open.age, open.into_claims());
        let prepared = Prepared {
            age,
            writes,
            undone,
            pins,
            claims,
            participants,
            at,
            answer,
            holds_rows: true,
            definitions,
        };
        self.participant.hold(txn, prepared);
        self.note_prepared(txn);
        let answers = Answers::default();
        out.replies.push((txn.coordinator, Reply::Prepared { txn, shard, answers, timestamp }));
    }

    pub(crate) fn on_finish(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        (participants, opened): (Arc<[ShardId]>, u64),
        above: Timestamp,
        out: &mut Effects,
    ) {
        let Some(mut open) = self.has_open(txn, opened).then(|| self.open.remove(&txn)).flatten() else {
            return self.refuse_forgotten(txn, out);
        };
        if let Some(error) = self.refuses_end(&open) {
            self.open.insert(txn, open);
            return self.answer(txn, Reply::Refused { txn, shard: self.shard, error }, out);
        }
        self.has_done.commits += 1;
        self.clock.observe(above);
        let timestamp = self.clock.tick(now_ms);
        let reply = Reply::Decided { txn, output: Output::default(), timestamp };
        if open.defines() {
            let steps = self.steps_of(&mut open.done);
            let claims = open.done.iter().flat_map(|done| done.claims.clone()).collect();
            self.commit_definitions(std::mem::take(&mut open.done), timestamp);
            let end = self.storage.position();
            self.note_commit_of(txn, timestamp, (end, steps), &participants, Some(&reply));
            if !participants.is_empty() {
                let unsettled = Unsettled::new(timestamp, participants, end, end, None);
                self.participant.unsettled.insert(txn, unsettled);
            }
            self.lower_barrier(txn);
            self.release_open(txn, claims);
            return out.replies.push((txn.coordinator, reply));
        }
        let begin = match self.end_stay(txn) {
            Some(begin) => {
                self.storage.date(begin, timestamp);
                begin
            }
            None => {
                let begin = self.storage.position();
                for done in &mut open.done {
                    self.storage.redo(std::mem::take(&mut done.undone), &[], timestamp);
                }
                begin
            }
        };
        let position = self.storage.position();
        let is_read = !self.readers.is_empty() && !participants.is_empty();
        let writes = is_read.then(|| self.final_writes(&mut open).into());
        self.note_commit(txn, timestamp, begin, &participants, Some(&reply));
        if !participants.is_empty() {
            let unsettled = Unsettled::new(timestamp, participants, position, begin, writes);
            self.participant.unsettled.insert(txn, unsettled);
        }
        self.release_open(txn, open.into_claims());
        out.replies.push((txn.coordinator, reply));
    }

    /// Its operations, while its changes are in place: a row that it inserted is one, as it is now.
    fn final_writes(&self, open: &mut Open) -> Vec<Write> {
        let mut all = Vec::new();
        for done in &mut open.done {
            let mut writes: Vec<Option<Write>> =
                std::mem::take(&mut done.writes).into_iter().map(Some).collect();
            for &(table, row, at) in &done.inserted {
                let now = self.storage.packed(table, row).map(|packed| Operation::Insert(packed.into()));
                writes[at] = now.map(|operation| Write { table, row: None, operation });
            }
            all.extend(writes.into_iter().flatten());
        }
        all
    }

    /// Forgets an open transaction; says whether there was one.
    pub(crate) fn drop_open(&mut self, txn: TxnId) -> bool {
        self.lower_barrier(txn);
        self.set_aside_of(txn);
        let Some(open) = self.open.remove(&txn) else { return false };
        let claims = self.discard_open(&[], open.done);
        self.release_open(txn, claims);
        true
    }

    fn release_open(&mut self, txn: TxnId, claims: Vec<Claim>) {
        for claim in claims {
            self.participant.claims.release(&claim, txn);
        }
        self.ended.push(txn);
    }

    /// What silent coordinators have open nobody will end.
    pub(crate) fn drop_open_of(&mut self, silent: &[CoordinatorId]) {
        let of_them = |txn: &&TxnId| silent.contains(&txn.coordinator);
        let left: Vec<TxnId> = self.open.keys().filter(of_them).copied().collect();
        left.into_iter().for_each(|txn| self.note_refusal(txn, None));
    }
}

/// A transaction has left constraints to be looked at, and goes on as if it had not.
fn pending_checks() -> SqlError {
    SqlError::new(
        SqlState::OBJECT_IN_USE,
        "the schema cannot be changed while deferred constraints are to be checked",
    )
    .with_hint("Say SET CONSTRAINTS ALL IMMEDIATE first.")
}

/// What a transaction is told that a shard no longer knows.
pub fn forgotten() -> SqlError {
    SqlError::new(
        SqlState::SERIALIZATION_FAILURE,
        "a shard has forgotten this transaction: it has started again, or has not heard of its coordinator",
    )
    .with_hint("Nothing of it has happened. Try it again.")
}
