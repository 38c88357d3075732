//! The log of a shard of SQL calls, and recovery from it (docs/ramp.md; soundness S3, S4, S16).
//!
//! This module says which records must be durable; the driver writes and syncs them. Recovery runs no calls: it puts row images back into
//! their slots, so that the row numbers in prepared transactions stay valid.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::{CoordinatorId, Position, ShardId, Timestamp, TxnId};
use weir_core::lsn::Lsn;
use weir_core::machine::Durable;
use weir_core::participant::{self, Applied, Outcome, Participant, Participates as _, Transactions as _};
use weir_core::readers::OverOf;
use weir_core::termination::Timeouts;
use weir_sql::catalog::TableId;
use weir_types::{SqlError, SqlState, Value};

use super::definitions::Step;
use super::in_doubt::InDoubt;
use super::ordered::OrderedRecord;
use super::participant::{Prepared, Sql, Unsettled};
use crate::claims::{Claim, Claims};
use crate::exec::definition::Description;
use crate::exec::fetch::fetch;
use crate::exec::program::Program;
use crate::exec::sequences::Sequences;
use crate::faults::Faults;
use crate::message::{Age, Answers, ReadQuery, Reply, TableRead};
use crate::shard::node::Node;
use crate::storage::{Image, LoggedOperation, LoggedRow, Rows as _, Storage, Write};

/// One record of a shard's log.
pub type Record = participant::Record<Sql>;

/// Returns whether the record replaces all earlier ones.
pub fn is_whole(record: &Record) -> bool {
    match record {
        Record::Snapshot(_) => true,
        Record::Ordered(ordered) => {
            matches!(**ordered, OrderedRecord::Snapshot(_) | OrderedRecord::UndecidedSnapshot(_))
        }
        _ => false,
    }
}

/// A prepare: the transaction's operations, its claims and its coordinator's answer, kept until COMMIT.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prepare {
    pub(super) prepared: Box<LoggedPrepared>,
    pub(super) sequences: Option<Box<Sequences>>,
}

/// A commit with the resulting row images.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoggedCommit {
    txn: TxnId,
    timestamp: Timestamp,
    /// Participants of a multi-shard transaction that has not prepared here; else empty.
    participants: Arc<[ShardId]>,
    rows: Vec<LoggedRow>,
    reply: Option<Box<Reply>>,
    sequences: Option<Box<Sequences>>,
    /// Steps of a transaction that changes the schema and has not prepared here; replaces `rows`.
    steps: Vec<Step>,
}

/// Logged form of [`Prepared`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoggedPrepared {
    age: Age,
    writes: Vec<(TableId, Option<u32>, LoggedOperation)>,
    claims: Vec<Claim>,
    participants: Arc<[ShardId]>,
    answers: Answers,
    timestamp: Timestamp,
    holds_rows: bool,
    steps: Vec<Step>,
}

/// State of a shard, without the bookkeeping that only its current readers need.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    incarnation: u64,
    clock: u64,
    image: Image,
    /// Each with the number of changes in the image that were made before it prepared.
    prepared: Vec<(TxnId, Position, LoggedPrepared)>,
    unsettled: Vec<(TxnId, Timestamp, Arc<[ShardId]>, bool)>,
    over: Vec<(TxnId, Outcome<Option<Box<Reply>>>)>,
    below: Vec<OverOf>,
    retired: Vec<CoordinatorId>,
    sequences: Sequences,
    /// Present if the schema has been changed.
    description: Option<Box<Description>>,
}

impl LoggedCommit {
    /// The commit of a prepared transaction, with the answer to a repetition.
    pub(super) fn answered(self, reply: Box<Reply>) -> LoggedCommit {
        LoggedCommit { reply: Some(reply), ..self }
    }
}

impl LoggedPrepared {
    fn of(prepared: &Prepared) -> LoggedPrepared {
        let write = |write: &Write| (write.table, write.row, LoggedOperation::of(&write.operation));
        let (answers, timestamp) = prepared.answer.as_deref().cloned().unwrap_or_default();
        LoggedPrepared {
            age: prepared.age,
            writes: prepared.writes.iter().map(write).collect(),
            claims: prepared.claims.clone(),
            participants: prepared.participants.clone(),
            answers,
            timestamp,
            holds_rows: prepared.holds_rows,
            steps: prepared
                .definitions
                .as_ref()
                .map_or_else(Vec::new, |definitions| definitions.steps.clone()),
        }
    }
}

/// Returns whether the outcome is that of a transaction which has changed nothing: it is not logged.
fn is_unchanged(outcome: &Outcome<Option<Box<Reply>>>) -> bool {
    let answer = outcome.answer.as_deref();
    outcome.clock.is_none()
        && matches!(answer, Some(Reply::Executed { result: Ok(_), .. } | Reply::Decided { .. }))
}

impl<F: Faults> Durable for Node<F> {
    type Record = Record;

    fn is_small(record: &Record) -> bool {
        match record {
            Record::Committed(commit) => commit.steps.is_empty() && LoggedRow::are_small(&commit.rows),
            Record::Prepared { .. }
            | Record::Snapshot(_)
            | Record::Part(_)
            | Record::Rows { .. }
            | Record::Ordered(_) => false,
            Record::Started { .. } | Record::Refused { .. } | Record::Retired { .. } => true,
        }
    }

    fn take_records(&mut self) -> Vec<Record> {
        self.participant.log.take().unwrap_or_else(|| vec![self.snapshot()])
    }

    fn on_durable(&mut self, up_to: Lsn) {
        self.storage.on_durable(up_to);
        self.go_on_if_durable();
    }

    fn may_snapshot(&self) -> bool {
        // It would replace rows whose commit follows.
        self.large.is_empty()
    }

    fn snapshot(&mut self) -> Record {
        self.snapshot_with(true)
    }

    fn snapshot_part(&mut self, is_first: bool, bytes: usize) -> Option<(Record, bool)> {
        if is_first {
            self.snapshot_is_void = false;
            let defines = |prepared: &Prepared| prepared.definitions.is_some();
            if self.participant.prepared().values().any(defines) {
                // Definitions of open transactions are replayed on these rows when the log is read.
                return Some((self.snapshot(), false));
            }
            let head = self.snapshot_with(false);
            self.storage.begin_saving();
            return Some((head, self.storage.is_saving()));
        }
        if std::mem::take(&mut self.snapshot_is_void) {
            return None;
        }
        let rows = self.storage.saved_rows(bytes)?;
        Some((Record::Part(Box::new(rows)), self.storage.is_saving()))
    }

    fn end_snapshot(&mut self) {
        self.storage.end_saving();
    }

    const REFUSES_WHEN_FULL: bool = true;

    fn set_disk_full(&mut self, is_full: bool) {
        self.storage.room.disk_is_full = is_full;
    }

    fn last_clock(&self) -> u64 {
        self.clock.last()
    }

    fn restore_clock(&mut self, clock: u64) {
        self.clock.restore(clock);
    }

    fn set_memory_max(&mut self, bytes: Option<usize>) {
        self.storage.room.bytes_max = bytes;
    }
}

impl<F: Faults> Node<F> {
    /// Everything that must survive a restart, with or without rows.
    fn snapshot_with(&self, rows: bool) -> Record {
        let of = &self.participant;
        let mut since: BTreeMap<(TableId, u32), Position> = BTreeMap::new();
        let mut in_order: Vec<(&TxnId, &Prepared)> = of.prepared().iter().collect();
        in_order.sort_by_key(|(txn, prepared)| (prepared.at, **txn));
        for (_, prepared) in &in_order {
            for (table, row, _) in &prepared.pins {
                since.entry((*table, *row)).or_insert(prepared.at);
            }
        }
        let (image, positions) = self.storage.image(&since, rows);
        let before = |at| positions.partition_point(|position| *position < at) as Position;
        let prepared =
            |(txn, prepared): (&TxnId, &Prepared)| (*txn, before(prepared.at), LoggedPrepared::of(prepared));
        let unsettled =
            |(txn, one): (&TxnId, &Unsettled)| (*txn, one.timestamp, one.participants.clone(), one.settled);
        self.with_ordering(Box::new(Snapshot {
            incarnation: of.incarnation,
            clock: self.clock.last(),
            image,
            prepared: in_order.into_iter().map(prepared).collect(),
            unsettled: of.committed().iter().map(unsettled).collect(),
            over: of.outcomes.iter().map(|(txn, outcome)| (txn, outcome.clone())).collect(),
            below: of.readers.over(),
            retired: of.outcomes.retired().collect(),
            sequences: self.sequences.clone(),
            description: self.changed_description().map(|description| Box::new((*description).clone())),
        }))
    }
}

impl<F: Faults> Node<F> {
    /// Starts a shard with a log: empty without records, else recovered from the durable ones. Committed, prepared and promised state and
    /// the recorded answers are restored; only readers begin anew.
    ///
    /// # Panics
    /// As [`Node::try_recover`] errs.
    pub fn recover(
        shard: ShardId,
        program: Arc<Program>,
        bugs: F,
        timeouts: Timeouts,
        records: impl IntoIterator<Item = Record>,
    ) -> Node<F> {
        Node::try_recover(shard, program, bugs, timeouts, records)
            .expect("definitions in a log are read by who wrote them")
    }

    /// Recovers from a log that another build may have written.
    ///
    /// # Errors
    /// A definition in the log cannot be applied again.
    pub fn try_recover(
        shard: ShardId,
        program: Arc<Program>,
        bugs: F,
        timeouts: Timeouts,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<Node<F>, SqlError> {
        let mut node = Node::new(shard, program, bugs);
        node.participant = Participant::remembering(timeouts);
        for record in records {
            node.replay(record)?;
            node.forget();
        }
        if bugs.recovery_forgets_prepared() {
            let prepared: Vec<TxnId> = node.participant.prepared().keys().copied().collect();
            for txn in prepared {
                let released = node.release(txn);
                released.iter().for_each(|one| node.unpin(&one.pins));
            }
        }
        if bugs.recovery_forgets_claims() {
            *node.claims = Claims::default();
        }
        if bugs.recovery_forgets_amounts() {
            node.claims.forget_amounts();
        }
        node.drop_rows(None);
        node.storage.end_replay();
        node.check_homes()?;
        if bugs.recovery_forgets_answers() {
            node.participant.outcomes.lose(|_| true);
        }
        node.participant.start();
        node.order_again();
        node.in_doubt = InDoubt::of(&node.participant);
        node.forget();
        node.has_new_description = true;
        Ok(node)
    }

    /// Rejects tables whose rows this build would look for on another shard.
    fn check_homes(&self) -> Result<(), SqlError> {
        for table in self.program.placed_anew().filter(|_| self.program.shards > 1) {
            let all = TableRead { table, equals: Vec::new(), joined: None };
            let query =
                ReadQuery { tables: vec![all], parts: None, schema_version: self.program.schema_version };
            let (rows, _) = fetch(&*self.storage, &query)?;
            let is_stray = |row: &&Vec<Value>| {
                self.program.home(table, &|column| row[column].clone()) != Some(self.shard)
            };
            let strays = rows.iter().flatten().filter(is_stray).count();
            if strays > 0 {
                let name = &self.program.schema.table(table).name;
                let message = format!(
                    "{strays} rows of {name} are on shard {}, and this build looks for them on others",
                    self.shard
                );
                return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                    .with_hint("Write the database out with the build that it was written by (weir dump), and read it in with this one."));
            }
        }
        Ok(())
    }

    /// Names a difference between this shard and the one recovered from its log; none if they agree. Bookkeeping of current readers, and
    /// what coordinators send again, is not compared.
    pub fn lost_by(&self, recovered: &Node) -> Option<String> {
        let tables = (0..self.program.placement.len() as u32).map(TableId);
        let tables = tables.chain(self.program.schema.all_entries());
        let print = |storage: &Storage, table| (storage.fingerprint(table), storage.row_count(table));
        for table in tables {
            if print(&self.storage, table) != print(&recovered.storage, table) {
                return Some(format!("rows of {}", self.program.schema.table(table).name));
            }
        }
        let (own, other) = (&self.participant, &recovered.participant);
        if own.prepared().keys().ne(other.prepared().keys()) {
            return Some(format!("prepared {:?}", own.prepared().keys().collect::<Vec<_>>()));
        }
        for (prepared, again) in own.prepared().values().zip(other.prepared().values()) {
            let [one, two] = [prepared, again].map(|one| format!("{:?}", LoggedPrepared::of(one)));
            if one != two {
                return Some(format!("what is prepared: {one} became {two}"));
            }
        }
        // Claims of open transactions are lost with them.
        let is_volatile = |txn| self.open.contains_key(&txn) || self.workers.calls(txn);
        let claims = self.claims.of(|txn| own.prepared().contains_key(&txn) || !is_volatile(txn));
        if claims != *recovered.claims {
            return Some(format!("claims {claims:?}"));
        }
        if let Some(txn) = own.committed().keys().find(|txn| !other.committed().contains_key(txn)) {
            return Some(format!("that {txn:?} may not be everywhere"));
        }
        let is_same = |(txn, outcome): &(TxnId, &Outcome<Option<Box<Reply>>>)| {
            is_unchanged(outcome)
                || other.outcomes.get(*txn).is_some_and(|again| {
                    again.clock == outcome.clock && again.answer.is_some() == outcome.answer.is_some()
                })
        };
        if let Some((txn, outcome)) = own.outcomes.iter().find(|one| !is_same(one)) {
            return Some(format!("that {txn:?} is {outcome:?}"));
        }
        (!self.sequences.gave_no_more_than(&recovered.sequences)).then(|| "what sequences gave".to_string())
    }

    /// Turns logging off: a restart loses everything, but repetitions are still answered, and transactions of silent coordinators still
    /// terminated.
    pub fn without_log(mut self) -> Node<F> {
        self.participant.log.stop();
        self
    }

    pub(super) fn take_over(&mut self, sequences: Option<Box<Sequences>>) {
        if let Some(sequences) = sequences
            && !self.bugs.recovery_forgets_sequences()
        {
            *self.sequences = *sequences;
        }
    }

    /// Rebuilds a transaction that was prepared at that position.
    pub(super) fn prepared_again(
        &mut self,
        txn: TxnId,
        at: Position,
        logged: LoggedPrepared,
    ) -> Result<Prepared, SqlError> {
        let LoggedPrepared { age, writes, claims, participants, answers, timestamp, holds_rows, steps } =
            logged;
        self.clock.restore(timestamp.clock);
        let write = |(table, row, operation): &(TableId, Option<u32>, LoggedOperation)| Write {
            table: *table,
            row: *row,
            operation: operation.to_operation(&*self.program),
        };
        let writes: Arc<[Write]> = writes.iter().map(write).collect();
        let pins = self.pin(&writes);
        let answer = Some(Box::new((answers, timestamp)));
        let definitions = match steps.is_empty() {
            true => None,
            false => {
                self.raise_barrier(txn, age);
                Some(Box::new(self.prepare_again(steps)?))
            }
        };
        Ok(Prepared {
            age,
            writes,
            own: None,
            pins,
            claims,
            participants,
            at,
            answer,
            holds_rows,
            definitions,
        })
    }

    pub(super) fn commit_again(&mut self, commit: LoggedCommit) -> Result<(), SqlError> {
        let LoggedCommit { txn, timestamp, participants, mut rows, reply, sequences, steps } = commit;
        if let Some(ahead) = self.unfinished.remove(&txn)
            && !self.bugs.recovery_forgets_rows()
        {
            rows.splice(..0, ahead);
        }
        self.clock.restore(timestamp.clock);
        let mut prepared = self.release(txn);
        if let Some(prepared) = &prepared {
            self.unpin(&prepared.pins);
        }
        let bound = prepared.as_mut().and_then(|prepared| prepared.definitions.take());
        self.lower_barrier(txn);
        self.replay_steps(bound.map_or(steps, |bound| bound.steps), timestamp)?;
        self.take_over(sequences);
        let program = self.program.clone();
        let begin = self.storage.position();
        self.storage.replay_logged(rows, timestamp, &*program);
        let participants = prepared.map_or(participants, |prepared| prepared.participants);
        let position = self.storage.position();
        let is_alone = participants.len() < 2;
        let unsettled = || Unsettled::new(timestamp, participants, position, begin, None);
        let committed = (!is_alone).then(unsettled);
        self.participant.note_commit((txn, timestamp.clock), reply, Applied { committed, record: None });
        Ok(())
    }

    pub(super) fn restore(&mut self, snapshot: Snapshot) -> Result<(), SqlError> {
        let Snapshot {
            incarnation, clock, image, prepared, unsettled, over, below, retired, sequences, ..
        } = snapshot;
        let timeouts = self.participant.timeouts;
        let program = match snapshot.description {
            Some(description) => Arc::new(description.compile(self.program.shards)?),
            None => self.program.clone(),
        };
        *self = Node::new(self.shard, program, self.bugs);
        self.participant = Participant::remembering(timeouts);
        self.participant.incarnation = incarnation;
        self.participant.restore(below, over, retired);
        self.clock.restore(clock);
        self.take_over(Some(Box::new(sequences)));
        let program = self.program.clone();
        *self.storage = Storage::new(program.schema.clone());
        self.storage.restore(image, &*program);
        for (txn, at, logged) in prepared {
            self.participant.readers.know(txn.coordinator);
            let prepared = self.prepared_again(txn, at, logged)?;
            self.hold(txn, prepared);
        }
        let position = self.storage.position();
        for (txn, timestamp, participants, settled) in unsettled {
            let one = Unsettled::new(timestamp, participants, position, position, None);
            self.participant.committed_mut().insert(txn, Unsettled { settled, ..one });
        }
        Ok(())
    }

    /// Deliberate bug: rows count without their commit.
    pub(super) fn count_unfinished(&mut self) {
        let program = self.program.clone();
        for rows in std::mem::take(&mut self.unfinished).into_values() {
            self.storage.replay_logged(rows, Timestamp::default(), &*program);
        }
    }

    /// Record of a commit; none without a log. `begin`: position of the shard before it. `steps`: of a transaction that has changed the
    /// schema. `unprepared`: if it has other participants, and has not prepared here.
    pub(crate) fn logged_commit(
        &mut self,
        (txn, timestamp): (TxnId, Timestamp),
        (begin, steps): (Position, Vec<Step>),
        unprepared: Option<&Unsettled>,
        reply: Option<&Reply>,
    ) -> Option<Box<LoggedCommit>> {
        if !self.participant.log.is_on() {
            return None;
        }
        let (rows, record) = (self.storage.logged_since(begin), self.participant.log.next());
        match steps.is_empty() {
            true => self.storage.note_unsynced(begin, record),
            false => self.storage.note_all_unsynced(record),
        }
        let participants = unprepared.map_or_else(|| Arc::new([]) as _, |one| one.participants.clone());
        let sequences = self.take_changed_sequences();
        let reply = reply.cloned().map(Box::new);
        Some(Box::new(LoggedCommit { txn, timestamp, participants, rows, reply, sequences, steps }))
    }

    /// The sequences, if they have handed out values, for the record that is noted next.
    fn take_changed_sequences(&mut self) -> Option<Box<Sequences>> {
        let changed = self.sequences.take_changed();
        if changed.is_some() {
            self.sequences_noted = self.participant.log.next();
        }
        changed
    }

    /// Remembers the answer of a transaction of this shard alone that has changed nothing: it must not run again in this incarnation. There
    /// is no record of it, so the answer waits only for what the transaction has read.
    pub(crate) fn note_unchanged(&mut self, txn: TxnId, reply: Reply) {
        self.has_done.commits += 1;
        self.participant.note_unchanged(txn, Some(Box::new(reply)));
    }

    /// Logs the commit of a transaction that has not prepared here, and remembers the answer for repetitions. `committed`: if it has other
    /// participants.
    pub(crate) fn note_commit(
        &mut self,
        (txn, timestamp): (TxnId, Timestamp),
        (begin, steps): (Position, Vec<Step>),
        committed: Option<Unsettled>,
        reply: &Reply,
    ) {
        let record = self.logged_commit((txn, timestamp), (begin, steps), committed.as_ref(), Some(reply));
        let answer = self.participant.remembers.then(|| Box::new(reply.clone()));
        self.participant.note_commit((txn, timestamp.clock), answer, Applied { committed, record });
    }

    /// Logs that a transaction has not committed and never will. Returns the position that the reply depends on.
    pub(crate) fn note_refusal(&mut self, txn: TxnId, reply: Option<&Reply>) -> Lsn {
        self.drop_open(txn);
        if !self.participant.remembers {
            return Lsn::START;
        }
        // A refusal because the disk is full is not logged: its client does not repeat the request, and there is no room for the record.
        let needs_room = matches!(reply, Some(Reply::Executed { .. })) && self.storage.room.disk_is_full;
        let is_logged = !needs_room && self.records_refusals();
        self.participant.note_refusal(txn, reply.cloned().map(Box::new), is_logged);
        // Records that wait for disk space need not be waited for: such a reply depends only on what it has read.
        if needs_room { self.read_dependency() } else { self.noted() }
    }

    pub(crate) fn note_prepared(&mut self, txn: TxnId) {
        if let Some(prepared) = self.logged_prepare(txn) {
            self.participant.log.push(Record::Prepared { txn, prepared });
        }
    }

    /// A transaction that is prepared from now on, for its record, if there is a log.
    pub(super) fn logged_prepare(&mut self, txn: TxnId) -> Option<Prepare> {
        if !self.participant.remembers {
            return None;
        }
        self.participant.readers.know(txn.coordinator);
        if !self.participant.log.is_on() {
            return None;
        }
        let prepared = Box::new(LoggedPrepared::of(&self.participant.prepared()[&txn]));
        Some(Prepare { prepared, sequences: self.take_changed_sequences() })
    }
}
