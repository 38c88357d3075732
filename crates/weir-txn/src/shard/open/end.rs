//! How transactions of several statements end at a shard.

use std::sync::Arc;

use weir_core::ids::{ShardId, Timestamp, TxnId};
use weir_core::participant::Transactions as _;
use weir_types::{SqlError, SqlState};

use super::Open;
use crate::claims::Claim;
use crate::exec::call::{Role, Stop};
use crate::faults::Faults;
use crate::message::{Answers, Begun, Output, Reply, Request, Work, forgotten};
use crate::shard::building::Build;
use crate::shard::large_commits::{Kind, LargeCommit};
use crate::shard::node::{Effects, Node};
use crate::shard::participant::Prepared;
use crate::storage::room::disk_full;
use crate::storage::{Operation, Write};

impl Open {
    /// Its operations: a row that it has inserted is one, as it is now, and comes behind all that was there before.
    fn take_writes(&mut self) -> Vec<Write> {
        let mut all: Vec<Write> =
            self.done.iter_mut().flat_map(|done| std::mem::take(&mut done.writes)).collect();
        all.extend(self.own.inserted().map(|(table, _, packed)| Write {
            table,
            row: None,
            operation: Operation::Insert(packed.clone()),
        }));
        all
    }

    fn take_claims(&mut self) -> Vec<Claim> {
        let done = self.done.iter_mut().flat_map(|done| std::mem::take(&mut done.claims));
        let done = done.chain(std::mem::take(&mut self.waiting_claims));
        done.chain(std::mem::take(&mut self.intervals)).collect()
    }
}

impl<F: Faults> Node<F> {
    /// The open transaction, if it may commit here; else it is told why it may not.
    fn take_open_to_end(
        &mut self,
        txn: TxnId,
        (participants, opened): (&[ShardId], u64),
        out: &mut Effects,
    ) -> Option<Open> {
        let shard = self.shard;
        if !self.has_open(txn, opened) {
            self.answer(txn, Reply::Refused { txn, shard, error: forgotten() }, out);
            return None;
        }
        let open = self.open.remove(&txn)?;
        let Some(error) = self.refuses_end(&open, participants) else { return Some(open) };
        self.open.insert(txn, open);
        self.answer(txn, Reply::Refused { txn, shard, error }, out);
        None
    }

    /// Error if the transaction cannot commit here. The coordinator has run the deferred checks before, and has carried the derived
    /// writes to their shards, which are participants since.
    fn refuses_end(&self, open: &Open, participants: &[ShardId]) -> Option<SqlError> {
        if self.storage.room.disk_is_full {
            return Some(disk_full());
        }
        let internal = |message| Some(SqlError::new(SqlState::INTERNAL_ERROR, message));
        if open.has_pending(&self.program) && !self.bugs.forgets_deferred() {
            return internal("a transaction ends whose deferred constraints have not been checked");
        }
        let mut targets = open.done.iter().flat_map(|done| &done.targets);
        if targets.any(|target| !participants.contains(target)) && !self.bugs.ends_without_carrying() {
            return internal("a transaction ends whose writes at other shards nobody has carried to them");
        }
        if open.defines() && open.build().is_some_and(Build::is_unsettled) {
            return internal("a transaction ends whose entries of a new key are not in place");
        }
        None
    }

    /// Prepares it. What it has made of rows stays in its write set until the outcome.
    pub(crate) fn on_bind(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        (participants, opened): (Arc<[ShardId]>, u64),
        out: &mut Effects,
    ) {
        let shard = self.shard;
        let Some(mut open) = self.take_open_to_end(txn, (&participants, opened), out) else { return };
        self.end_build(txn, &mut open);
        let timestamp = self.clock.tick(now_ms);
        let mut claims = open.take_claims();
        let holds_rows = !self.bugs.releases_at_prepare();
        if !holds_rows {
            self.release_claims(txn, std::mem::take(&mut claims));
        }
        // The tables of one that changes the schema may be new, and its barrier keeps others out.
        if self.end_loading(txn) && !open.defines() {
            // From now on others ask for claims alone, and so does a shard that starts again.
            let keys = open.own.inserted_keys(&self.storage).into_iter();
            claims.extend(keys.map(|(table, index, key)| Claim::Key(table, index, key)));
        }
        let defines = open.defines();
        let writes: Arc<[Write]> = if defines { Arc::new([]) } else { open.take_writes().into() };
        let (pins, at) = (self.pin(&writes), self.storage.position());
        let answer = self.participant.remembers.then(|| Box::new((Answers::default(), timestamp)));
        let age = open.age;
        let (own, definitions) = match defines {
            true => (None, Some(Box::new(open.into_definitions(timestamp)))),
            false => (Some(open.own), None),
        };
        let prepared =
            Prepared { age, writes, own, pins, claims, participants, at, answer, holds_rows, definitions };
        self.hold(txn, prepared);
        self.note_prepared(txn);
        let answers = Answers::default();
        self.reply(txn, Reply::Prepared { txn, shard, answers, timestamp }, out);
    }

    /// Does the last work of a transaction here, and prepares it. It may be prepared at other shards already. So it waits as the part of a
    /// call does (S7), and not as a statement does: a call that waits for it there may hold what it would wait for here.
    pub(crate) fn on_work_and_bind(
        &mut self,
        now_ms: u64,
        (txn, begun): (TxnId, Begun),
        work: Box<Work>,
        participants: Arc<[ShardId]>,
        out: &mut Effects,
    ) {
        let (shard, number) = (self.shard, work.number);
        if self.is_old_step(txn, number, work.opened, out) {
            return;
        }
        let timestamp = self.clock.tick(now_ms);
        let mut open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, shard, begun.age));
        match self.do_step(&mut open, (txn, &work, Role::Whole), timestamp) {
            Ok(done) if done.is_complete() => {
                self.open.insert(txn, open);
                self.on_bind(now_ms, txn, (participants, self.incarnation()), out);
            }
            Ok(done) => self.worked(txn, open, (number, Ok(done)), out),
            Err(Stop::Error(error)) => self.worked(txn, open, (number, Err(error)), out),
            Err(stop) => {
                if open.has_worked() {
                    self.open.insert(txn, open);
                }
                match stop {
                    Stop::Long => self.withdraw(txn, out),
                    stop => {
                        let holders = self.holders(stop);
                        self.wait_for(holders, Request::WorkAndBind { txn, begun, work, participants }, out);
                    }
                }
            }
        }
    }

    /// Commits it.
    pub(crate) fn on_finish(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        (participants, opened): (Arc<[ShardId]>, u64),
        above: Timestamp,
        out: &mut Effects,
    ) {
        let Some(mut open) = self.take_open_to_end(txn, (&participants, opened), out) else { return };
        self.end_build(txn, &mut open);
        if participants.is_empty() && self.has_changed_nothing(&open) {
            return self.end_unchanged(now_ms, txn, open, out);
        }
        self.clock.observe(above);
        let timestamp = self.clock.tick(now_ms);
        if self.is_large(&open.own) && !open.defines() {
            if self.bugs.releases_ahead() {
                let claims = open.take_claims();
                self.release_open(txn, claims);
            }
            self.open.insert(txn, open);
            return self.begin_large(txn, timestamp, Kind::Open { participants });
        }
        self.end_open((txn, open), participants, timestamp, None, out);
    }

    /// Commits it. `large`: its write set is in the tables.
    pub(in crate::shard) fn end_open(
        &mut self,
        (txn, mut open): (TxnId, Open),
        participants: Arc<[ShardId]>,
        timestamp: Timestamp,
        large: Option<LargeCommit>,
        out: &mut Effects,
    ) {
        self.has_done.commits += 1;
        let reply = Reply::Decided { txn, output: Output::default(), timestamp };
        let (begin, claims) = (self.storage.position(), open.take_claims());
        if open.defines() {
            let definitions = open.into_definitions(timestamp);
            let steps = definitions.steps.clone();
            self.commit_definitions(definitions.versions, timestamp);
            let end = self.storage.position();
            let committed = self.unsettled(timestamp, participants, (end, None));
            self.note_commit((txn, timestamp), (end, steps), committed, &reply);
        } else {
            let is_read = !self.readers.is_empty() && !participants.is_empty();
            let writes = is_read.then(|| open.take_writes().into());
            let is_large = large.is_some();
            let unlogged = self.apply_committed(open.own, large, &[], timestamp);
            if is_large {
                self.workers.drop_beside(open.done);
            }
            let committed = self.unsettled(timestamp, participants, (begin, writes));
            self.note_commit((txn, timestamp), (unlogged, Vec::new()), committed, &reply);
        }
        self.lower_barrier(txn);
        self.release_open(txn, claims);
        self.reply(txn, reply, out);
    }

    /// Returns whether there is nothing of the transaction to be logged.
    fn has_changed_nothing(&self, open: &Open) -> bool {
        let is_logged = self.participant.remembers && self.participant.log.is_on();
        is_logged && !open.defines() && open.own.is_empty() && !self.sequences.has_changed()
    }

    /// Commits a transaction that has changed nothing. A later incarnation refuses its request, which names this one.
    fn end_unchanged(&mut self, now_ms: u64, txn: TxnId, mut open: Open, out: &mut Effects) {
        let timestamp = self.clock.tick(now_ms);
        let reply = Reply::Decided { txn, output: Output::default(), timestamp };
        self.note_unchanged(txn, reply.clone());
        let claims = open.take_claims();
        self.lower_barrier(txn);
        self.release_open(txn, claims);
        // It may have been given values of sequences that another transaction has logged.
        out.reply(txn.coordinator, reply, self.sequences_noted);
    }

    /// Forgets an open transaction; says whether there was one.
    pub(crate) fn drop_open(&mut self, txn: TxnId) -> bool {
        self.lower_barrier(txn);
        self.undo_large(txn);
        let Some(mut open) = self.open.remove(&txn) else { return false };
        self.end_build(txn, &mut open);
        let claims = match open.defines() {
            // A statement of such a transaction never runs on a worker.
            true => {
                let mut claims = self.roll_back_done(&mut open, 0);
                claims.append(&mut open.intervals);
                claims
            }
            false => {
                self.storage.discard_write_set(std::mem::take(&mut open.own));
                open.take_claims()
            }
        };
        self.release_open(txn, claims);
        true
    }

    fn release_open(&mut self, txn: TxnId, claims: Vec<Claim>) {
        self.end_loading(txn);
        self.release_claims(txn, claims);
    }

    /// Others no longer look for keys in its write set; says whether they did.
    fn end_loading(&mut self, txn: TxnId) -> bool {
        let before = self.claims.loading.len();
        self.claims.loading.retain(|one| *one != txn);
        self.claims.loading.len() < before
    }
}
