//! Transactions of several statements at a shard, from their first statement to their end (docs/server.md, "Interactive
//! transactions").
//!
//! What an open transaction has written is not there for anybody else: its changes are done again for each of its
//! statements, and taken back at once. That is exact, for it holds every row that it has written and every key that it has
//! inserted. It is volatile: a shard that starts again has forgotten it, and says so.

use std::sync::Arc;

use weir_sql::catalog::TableId;
use weir_types::{SqlError, SqlState};

use super::message::{Age, Answers, Begun, Output, Reply, Request, ShardId, TxnId, Work};
use super::participant::{Claim, Prepared, Unsettled, Write};
use crate::exec::call::{Role, Stop};
use crate::machine::CoordinatorId;
use crate::node::{Effects, Node};
use crate::storage::{Operation, Timestamp, Undone};

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
}

/// What one statement has done, taken back.
#[derive(Debug)]
struct Done {
    number: u32,
    /// Those that it was the first to take.
    claims: Vec<Claim>,
    undone: Vec<Undone>,
    writes: Vec<Write>,
    /// Rows, and which of the writes each is.
    inserted: Vec<(TableId, u32, usize)>,
}

impl Node {
    /// Does all of the transaction's changes again, gives what `then` gives, and takes them back.
    pub(crate) fn within<T>(&mut self, txn: Option<TxnId>, then: impl FnOnce(&mut Node) -> T) -> T {
        let Some(mut open) = txn.and_then(|txn| self.open.remove(&txn)) else { return then(self) };
        let begins = self.replay_open(&mut open);
        let given = then(self);
        self.take_back_open(&mut open, begins);
        self.open.extend(txn.map(|txn| (txn, open)));
        given
    }

    /// Gives where each statement began.
    fn replay_open(&mut self, open: &mut Open) -> Vec<u64> {
        let replay = |done: &mut Done| {
            let begin = self.storage.position();
            self.storage.replay_for_now(std::mem::take(&mut done.undone));
            begin
        };
        open.done.iter_mut().map(replay).collect()
    }

    fn take_back_open(&mut self, open: &mut Open, begins: Vec<u64>) {
        for (done, begin) in open.done.iter_mut().zip(begins).rev() {
            done.undone = self.storage.rewind(begin);
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
        let timestamp = self.clock.tick(now_ms);
        let mut open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, shard, begun.age));
        let begins = self.replay_open(&mut open);
        let before: Vec<(TableId, u32)> =
            open.done.iter().flat_map(|done| &done.inserted).map(|(table, row, _)| (*table, *row)).collect();
        let role = match (work.participants.split_last(), &work.answers[..]) {
            (Some((last, others)), answers) if *last == shard && !others.is_empty() => Role::Last(answers),
            (Some((last, _)), _) if *last == shard => Role::Whole,
            _ => Role::Part,
        };
        let begin = self.storage.position();
        let ran = self.run(txn, &work.call, role, timestamp, true, Some(&before));
        let undone = self.storage.rewind(begin);
        self.take_back_open(&mut open, begins);
        let result = match ran {
            Ok(ran) if ran.answers.error.is_none() => {
                let mut claims = ran.claims;
                claims.retain(|claim| self.participant.claims.insert(claim.clone(), txn).is_none());
                let (writes, inserted) = (ran.writes, ran.inserted);
                open.done.push(Done { number, claims, undone, writes, inserted });
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
            Err(stop @ (Stop::Held { .. } | Stop::Pinned { .. })) => {
                self.storage.discard(undone);
                if open.answered.0 > 0 {
                    self.open.insert(txn, open);
                }
                let holder = self.holder(&stop);
                self.waiting.entry(holder).or_default().push(Request::Work { txn, begun, work });
                out.replies.push((txn.coordinator, Reply::Waits { txn, shard, holder }));
                return;
            }
        };
        let reply = Reply::Worked { txn, shard, number, incarnation: self.incarnation(), result };
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
        self.open.insert(txn, open);
        let claims = self.discard_open(gone);
        self.release_open(txn, claims);
        out.replies.push((txn.coordinator, reply));
    }

    /// Gives the claims of what is gone.
    fn discard_open(&mut self, gone: Vec<Done>) -> Vec<Claim> {
        let mut claims = Vec::new();
        // The last first: a slot is free when nothing is to come back to it.
        for done in gone.into_iter().rev() {
            self.storage.discard(done.undone);
            claims.extend(done.claims);
        }
        claims
    }

    /// Who holds what a run has stopped at.
    pub(crate) fn holder(&self, stop: &Stop) -> TxnId {
        match *stop {
            Stop::Held { holder } => holder,
            Stop::Pinned { table, row } => {
                let has =
                    |prepared: &Prepared| prepared.pins.iter().any(|pin| (pin.0, pin.1) == (table, row));
                let mut prepared = self.participant.prepared.iter();
                *prepared.find(|(_, prepared)| has(prepared)).expect("a pinned row has whoever pinned it").0
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
        let timestamp = self.clock.tick(now_ms);
        let begin = self.storage.position();
        self.replay_open(&mut open);
        let writes: Arc<[Write]> = self.final_writes(&mut open).into();
        let undone = Some(self.storage.rewind(begin));
        let (pins, at) = (self.pin(&writes), self.storage.position());
        let answer = self.ledger.is_some().then(|| Box::new((Answers::default(), timestamp)));
        let (age, claims) = (open.age, open.into_claims());
        self.participant.hold(
            txn,
            Prepared { age, writes, undone, pins, claims, participants, at, answer, holds_rows: true },
        );
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
        self.clock.observe(above);
        let timestamp = self.clock.tick(now_ms);
        let begin = self.storage.position();
        for done in &mut open.done {
            self.storage.redo(std::mem::take(&mut done.undone), &[], timestamp);
        }
        let position = self.storage.position();
        let is_read = !self.readers.is_empty() && !participants.is_empty();
        let writes = is_read.then(|| self.final_writes(&mut open).into());
        let reply = Reply::Decided { txn, output: Output::default(), timestamp };
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
        let Some(open) = self.open.remove(&txn) else { return false };
        let claims = self.discard_open(open.done);
        self.release_open(txn, claims);
        true
    }

    fn release_open(&mut self, txn: TxnId, claims: Vec<Claim>) {
        for claim in claims {
            self.participant.claims.remove(&claim);
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

/// What a transaction is told that a shard no longer knows.
pub fn forgotten() -> SqlError {
    SqlError::new(
        SqlState::SERIALIZATION_FAILURE,
        "a shard has forgotten this transaction: it has started again, or has not heard of its coordinator",
    )
    .with_hint("Nothing of it has happened. Try it again.")
}
