//! One shard as a state machine: takes requests, runs them to completion, hands out replies.
//!
//! No clock, no socket, no thread: the embedded cluster, the deterministic driver of the tests, and later
//! the server and the simulator all drive this same [`Node::step`].

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_sql::catalog::{SequenceId, TableId};
use weir_types::SqlError;

use crate::clock::HybridClock;
use crate::exec::call::{self, Fragment, Role, Stop};
use crate::exec::program::Program;
use crate::exec::sequences::Sequences;
use crate::machine::{self, CoordinatorId, Sender, Shard};
use crate::ramp::message::{
    Age, Call, Decision, Progress, ReadQuery, Reply, Request, ShardId, Sibling, TxnId,
};
use crate::ramp::participant::{Participant, Prepared, Unsettled, Write};
use crate::storage::{Position, Storage, Timestamp, Undone};

/// Deliberate bugs, one for each claim: the checks must catch every one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlantedBugs {
    /// A guarded statement reads in one step and writes in a later one, without its claim.
    pub no_guards: bool,
    /// Commits become visible shard by shard: readers are not told of siblings.
    pub no_siblings: bool,
    /// A row-local update is written back as the value that it had when it was prepared.
    pub overwrite: bool,
}

/// What a step wants sent.
pub type Effects = machine::Effects<Request, Reply>;

#[derive(Debug)]
pub struct Node {
    pub shard: ShardId,
    pub storage: Storage,
    program: Arc<Program>,
    clock: HybridClock,
    participant: Participant,
    /// Readers that have been answered here, and how far back in history they may need to go: to their
    /// position, and to the prepare of any transaction that was undecided when they came.
    readers: BTreeMap<TxnId, Position>,
    /// Requests that wait for the outcome of a transaction that holds their claim.
    waiting: BTreeMap<TxnId, Vec<Request>>,
    scratch: call::Scratch,
    sequences: Sequences,
    bugs: PlantedBugs,
}

impl Node {
    pub fn new(
        shard: ShardId,
        program: Arc<Program>,
        coordinators: impl IntoIterator<Item = CoordinatorId>,
        bugs: PlantedBugs,
    ) -> Node {
        Node {
            shard,
            storage: Storage::new(program.schema.clone()),
            clock: HybridClock::new(shard),
            participant: Participant::new(coordinators),
            readers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            scratch: call::Scratch::default(),
            sequences: Sequences::default(),
            program,
            bugs,
        }
    }
}

impl Shard for Node {
    type Request = Request;
    type Reply = Reply;
    type Progress = Progress;

    fn id(&self) -> ShardId {
        self.shard
    }

    fn epoch(&self) -> u64 {
        self.participant.epoch()
    }

    fn on_progress(&mut self, now_ms: u64, coordinator: CoordinatorId, progress: Progress) {
        self.participant.on_progress(now_ms, coordinator, progress.settled_below, progress.drained);
    }

    fn step(&mut self, now_ms: u64, _from: Sender, request: Request, out: &mut Effects) {
        match request {
            Request::Execute { txn, age, call } => self.on_execute(now_ms, txn, age, call, out),
            Request::Prepare { txn, age, call, participants } => {
                self.on_prepare(now_ms, txn, age, call, participants, out)
            }
            Request::Decide { txn, age, decision } => self.on_decide(now_ms, txn, age, decision, out),
            Request::Apply { txn, age, call } => self.on_apply(now_ms, txn, age, call, out),
            Request::Commit { txn, timestamp } => {
                self.commit(txn, timestamp);
                out.replies.push((txn.coordinator, Reply::Committed { txn, shard: self.shard }));
                self.wake(now_ms, txn, out);
            }
            Request::Abort { txn } => {
                if let Some(prepared) = self.participant.release(txn) {
                    self.unpin(&prepared.pins);
                    self.storage.discard(prepared.undone);
                }
                self.wake(now_ms, txn, out);
            }
            Request::Read { read, query } => self.on_read(read, &query, out),
            Request::ReadAt { read, query, position, including } => {
                self.on_read_at(read, &query, position, including, out)
            }
            Request::EndRead { read } => {
                self.readers.remove(&read);
            }
        }
        self.forget();
    }

    fn is_idle(&self) -> bool {
        self.participant.prepared.is_empty() && self.waiting.is_empty()
    }
}

impl Node {
    fn on_execute(&mut self, now_ms: u64, txn: TxnId, age: Age, call: Box<Call>, out: &mut Effects) {
        if self.bugs.no_guards && self.program.procedures[call.procedure].guarded {
            return self.on_prepare(now_ms, txn, age, Arc::new(*call), Arc::new([self.shard]), out);
        }
        let timestamp = self.clock.tick(now_ms);
        let begin = self.storage.position();
        match self.run(txn, &call, Role::Whole, timestamp, false) {
            Ok(ran) => out.replies.push((txn.coordinator, Reply::Executed { txn, result: Ok(ran.output) })),
            Err(Stop::Error(error)) => {
                self.storage.rollback(begin);
                out.replies.push((txn.coordinator, Reply::Executed { txn, result: Err(error) }));
            }
            Err(Stop::Held { holder }) => {
                self.storage.rollback(begin);
                self.wait_or_withdraw(holder, txn, age, Request::Execute { txn, age, call }, out);
            }
        }
    }

    fn on_prepare(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        age: Age,
        call: Arc<Call>,
        participants: Arc<[ShardId]>,
        out: &mut Effects,
    ) {
        let timestamp = self.clock.tick(now_ms);
        let begin = self.storage.position();
        let role = if participants.len() > 1 { Role::Part } else { Role::Unguarded };
        let ran = self.run(txn, &call, role, timestamp, true);
        // What was done in place was only to see what it gives; COMMIT makes it visible.
        let undone = self.storage.rewind(begin);
        match ran {
            Ok(ran) => {
                // A part that failed holds nothing: the last participant will refuse.
                match ran.answers.error {
                    None => self.hold(txn, age, ran.writes, undone, ran.claims, participants),
                    Some(_) => self.storage.discard(undone),
                }
                out.replies.push((
                    txn.coordinator,
                    Reply::Prepared { txn, shard: self.shard, answers: ran.answers, timestamp },
                ));
            }
            Err(Stop::Error(error)) => {
                self.storage.discard(undone);
                out.replies.push((txn.coordinator, Reply::Refused { txn, shard: self.shard, error }))
            }
            Err(Stop::Held { holder }) => {
                self.storage.discard(undone);
                self.wait_or_withdraw(
                    holder,
                    txn,
                    age,
                    Request::Prepare { txn, age, call, participants },
                    out,
                );
            }
        }
    }

    fn on_apply(&mut self, now_ms: u64, txn: TxnId, age: Age, call: Arc<Call>, out: &mut Effects) {
        let timestamp = self.clock.tick(now_ms);
        let begin = self.storage.position();
        match self.run(txn, &call, Role::Part, timestamp, false) {
            Ok(ran) => {
                if ran.answers.error.is_some() {
                    self.storage.rollback(begin);
                }
                out.replies.push((
                    txn.coordinator,
                    Reply::Prepared { txn, shard: self.shard, answers: ran.answers, timestamp },
                ));
            }
            Err(stop) => {
                self.storage.rollback(begin);
                match stop {
                    Stop::Error(error) => {
                        out.replies.push((txn.coordinator, Reply::Refused { txn, shard: self.shard, error }))
                    }
                    Stop::Held { holder } => {
                        self.wait_or_withdraw(holder, txn, age, Request::Apply { txn, age, call }, out)
                    }
                }
            }
        }
    }

    fn hold(
        &mut self,
        txn: TxnId,
        age: Age,
        writes: Vec<Write>,
        undone: Vec<Undone>,
        claims: Vec<crate::ramp::participant::Claim>,
        participants: Arc<[ShardId]>,
    ) {
        let mut rows: Vec<_> =
            writes.iter().filter_map(|write| write.row.map(|row| (write.table, row))).collect();
        rows.sort_unstable();
        rows.dedup();
        let pins = rows.into_iter().map(|(table, row)| (table, row, self.storage.pin(table, row))).collect();
        let at = self.storage.position();
        let prepared = Prepared { age, writes: writes.into(), undone, pins, claims, participants, at };
        self.participant.hold(txn, prepared);
    }

    fn on_decide(&mut self, now_ms: u64, txn: TxnId, age: Age, decision: Box<Decision>, out: &mut Effects) {
        self.clock.observe(decision.above);
        let timestamp = self.clock.tick(now_ms);
        let begin = self.storage.position();
        // Its operations are wanted only by readers that stand before it (S5).
        let keep = !self.readers.is_empty();
        match self.run(txn, &decision.call, Role::Last(&decision.answers), timestamp, keep) {
            Ok(ran) => {
                let position = self.storage.position();
                let writes = keep.then(|| ran.writes.into());
                if !decision.participants.is_empty() {
                    let participants = decision.participants;
                    self.participant.unsettled.insert(
                        txn,
                        Unsettled { timestamp, participants, position, prepared_at: begin, writes },
                    );
                }
                out.replies.push((txn.coordinator, Reply::Decided { txn, output: ran.output, timestamp }));
            }
            Err(Stop::Error(error)) => {
                self.storage.rollback(begin);
                out.replies.push((txn.coordinator, Reply::Refused { txn, shard: self.shard, error }));
            }
            Err(Stop::Held { holder }) => {
                self.storage.rollback(begin);
                self.wait_or_withdraw(holder, txn, age, Request::Decide { txn, age, decision }, out);
            }
        }
    }

    fn run(
        &mut self,
        txn: TxnId,
        call: &Call,
        role: Role<'_>,
        timestamp: Timestamp,
        keep_writes: bool,
    ) -> Result<call::Ran, Stop> {
        let fragment = Fragment {
            program: &self.program,
            storage: &mut self.storage,
            environment: self.sequences.environment(&self.program, self.shard, call.transaction_time),
            claims: &self.participant.claims,
            here: self.shard,
            txn,
            role,
            timestamp,
            keep_writes,
            bugs: self.bugs,
        };
        call::run(fragment, call, &mut self.scratch)
    }

    /// S7: only an older transaction waits, so nobody waits in a circle.
    fn wait_or_withdraw(&mut self, holder: TxnId, txn: TxnId, age: Age, request: Request, out: &mut Effects) {
        let older = self.participant.age_of(holder).is_some_and(|holder| age < holder);
        if older {
            self.waiting.entry(holder).or_default().push(request);
        } else {
            out.replies.push((txn.coordinator, Reply::Busy { txn, shard: self.shard }));
        }
    }

    fn wake(&mut self, now_ms: u64, over: TxnId, out: &mut Effects) {
        for request in self.waiting.remove(&over).unwrap_or_default() {
            self.step(now_ms, Sender::Coordinator(over.coordinator), request, out);
        }
    }

    /// Makes a prepared transaction's operations visible. Does nothing if a reader's second round has
    /// done so already.
    fn commit(&mut self, txn: TxnId, timestamp: Timestamp) {
        let Some(prepared) = self.participant.release(txn) else { return };
        self.clock.observe(timestamp);
        let touched: Vec<(TableId, u32)> = prepared
            .pins
            .iter()
            .filter(|&&(table, row, changes)| !self.storage.is_untouched(table, row, changes))
            .map(|&(table, row, _)| (table, row))
            .collect();
        self.unpin(&prepared.pins);
        if self.bugs.no_guards {
            // Without claims another transaction may have inserted the same key.
            self.storage.discard(prepared.undone);
            self.apply(&prepared.writes, timestamp, prepared.at);
        } else {
            self.storage.redo(prepared.undone, &touched, timestamp);
            let folded = |write: &&Write| write.row.is_some_and(|row| touched.contains(&(write.table, row)));
            for Write { table, row, operation } in prepared.writes.iter().filter(folded) {
                self.storage.apply(*table, *row, operation, timestamp, prepared.at);
            }
        }
        let writes = (!self.readers.is_empty()).then(|| prepared.writes.clone());
        let unsettled = Unsettled {
            timestamp,
            participants: prepared.participants,
            position: self.storage.position(),
            prepared_at: prepared.at,
            writes,
        };
        self.participant.unsettled.insert(txn, unsettled);
    }

    fn apply(&mut self, writes: &[Write], timestamp: Timestamp, prepared_at: Position) {
        for Write { table, row, operation } in writes {
            self.storage.apply(*table, *row, operation, timestamp, prepared_at);
        }
    }

    fn unpin(&mut self, pins: &[(TableId, u32, u32)]) {
        for &(table, row, _) in pins {
            self.storage.unpin(table, row);
        }
    }

    fn on_read(&mut self, read: TxnId, query: &Arc<ReadQuery>, out: &mut Effects) {
        let position = self.storage.position();
        let undecided = self.participant.oldest_prepare().unwrap_or(position);
        self.readers.insert(read, position.min(undecided));
        let (rows, examined) = crate::exec::fetch::fetch(&self.storage, query);
        let siblings = if self.bugs.no_siblings { Vec::new() } else { self.participant.siblings() };
        out.replies.push((
            read.coordinator,
            Reply::ReadRows { read, shard: self.shard, position, rows, examined, siblings },
        ));
    }

    /// S5: the state at `position` plus the named transactions, exactly; those not committed here yet are
    /// committed first.
    fn on_read_at(
        &mut self,
        read: TxnId,
        query: &Arc<ReadQuery>,
        position: Position,
        including: Vec<Sibling>,
        out: &mut Effects,
    ) {
        if !self.readers.contains_key(&read) || position < self.storage.history_begins() {
            out.replies.push((read.coordinator, Reply::ReadAgain { read, shard: self.shard }));
            return;
        }
        let mut missing = Vec::new();
        for sibling in including {
            self.commit(sibling.txn, sibling.timestamp);
            match self.participant.unsettled.get(&sibling.txn) {
                Some(unsettled) if unsettled.position > position => {
                    let writes = unsettled.writes.clone().expect("writes are kept while anybody reads here");
                    missing.push((writes, unsettled.timestamp, unsettled.prepared_at));
                }
                // Contained already, or settled before this read began.
                _ => {}
            }
        }
        missing.sort_by_key(|(_, timestamp, _)| *timestamp);
        let undone = self.storage.rewind(position);
        for (writes, timestamp, prepared_at) in &missing {
            self.apply(writes, *timestamp, (*prepared_at).min(position));
        }
        let (rows, examined) = crate::exec::fetch::fetch(&self.storage, query);
        self.storage.rollback(position);
        self.storage.replay(undone);
        out.replies.push((
            read.coordinator,
            Reply::ReadRows { read, shard: self.shard, position, rows, examined, siblings: Vec::new() },
        ));
    }

    /// History goes as far as no reader and no prepared transaction may need it.
    fn forget(&mut self) {
        let readers = self.readers.values().copied().min();
        let oldest = [readers, self.participant.oldest_prepare()].into_iter().flatten().min();
        self.storage.forget(oldest.unwrap_or(self.storage.position()));
    }

    /// Of a sequence no value comes that is not behind this one: rows of the initial population bear those before.
    pub fn go_beyond(&mut self, sequence: SequenceId, value: i64) {
        self.sequences.go_beyond(&self.program, self.shard, sequence, value);
    }

    /// Puts a row of the initial population where it belongs; checks keys but nothing else.
    pub fn load(&mut self, table: TableId, values: &[weir_types::Value]) -> Result<(), SqlError> {
        let timestamp = self.clock.tick(0);
        self.storage.insert(table, values, timestamp)?;
        self.storage.forget(self.storage.position());
        Ok(())
    }
}
