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
use weir_core::readers::OverOf;
use weir_core::termination::Timeouts;
use weir_sql::catalog::TableId;
use weir_types::{SqlError, SqlState, Value};

use super::definitions::Step;
use super::outcomes::{OutcomeTable, Over};
use super::participant::{Prepared, Unsettled};
use crate::claims::{Claim, Claims};
use crate::exec::definition::Description;
use crate::exec::fetch::fetch;
use crate::exec::program::Program;
use crate::exec::sequences::Sequences;
use crate::faults::Faults;
use crate::message::{Age, Answers, ReadQuery, Reply, TableRead};
use crate::shard::node::Node;
use crate::storage::{Image, LoggedOperation, LoggedRow, Rows as _, SavedRows, Storage, Write};

/// One record of a shard's log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Record {
    /// The shard has started, for the `incarnation`-th time.
    Started { incarnation: u64 },
    /// The transaction has prepared: its operations, its claims and its coordinator's answer, kept until COMMIT.
    Prepared { txn: TxnId, prepared: Box<LoggedPrepared>, sequences: Option<Box<Sequences>> },
    /// The transaction has committed, with the resulting row images, whether it had prepared or not.
    Committed(Box<LoggedCommit>),
    /// The transaction has not committed here and never will.
    Refused { txn: TxnId, reply: Option<Box<Reply>> },
    /// Nothing of this coordinator is accepted any more.
    Retired { coordinator: CoordinatorId },
    /// Replaces all earlier records.
    Snapshot(Box<Snapshot>),
    /// Rows of the preceding snapshot, which was written without rows.
    Rows(Box<SavedRows>),
}

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
    over: Vec<(TxnId, Over)>,
    below: Vec<OverOf>,
    retired: Vec<CoordinatorId>,
    sequences: Sequences,
    /// Present if the schema has been changed.
    description: Option<Box<Description>>,
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

impl<F: Faults> Durable for Node<F> {
    type Record = Record;

    fn take_records(&mut self) -> Vec<Record> {
        let Some(outcomes) = &mut self.outcomes else { return Vec::new() };
        outcomes.take().unwrap_or_else(|| vec![self.snapshot()])
    }

    fn on_durable(&mut self, up_to: Lsn) {
        self.storage.on_durable(up_to);
    }

    fn snapshot(&mut self) -> Record {
        self.snapshot_with(true)
    }

    fn snapshot_part(&mut self, is_first: bool, bytes: usize) -> Option<(Record, bool)> {
        if is_first {
            self.snapshot_is_void = false;
            let defines = |prepared: &Prepared| prepared.definitions.is_some();
            if self.participant.prepared.values().any(defines) {
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
        Some((Record::Rows(Box::new(rows)), self.storage.is_saving()))
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
        let nothing = OutcomeTable::default();
        let outcomes = self.outcomes.as_deref().unwrap_or(&nothing);
        let mut since: BTreeMap<(TableId, u32), Position> = BTreeMap::new();
        let mut in_order: Vec<(&TxnId, &Prepared)> = self.participant.prepared.iter().collect();
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
        Record::Snapshot(Box::new(Snapshot {
            incarnation: outcomes.incarnation,
            clock: self.clock.last(),
            image,
            prepared: in_order.into_iter().map(prepared).collect(),
            unsettled: self.participant.unsettled.iter().map(unsettled).collect(),
            over: outcomes.over.iter().map(|(txn, over)| (*txn, over.clone())).collect(),
            below: self.participant.readers.over(),
            retired: outcomes.retired.iter().copied().collect(),
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
        node.outcomes = Some(Box::new(OutcomeTable { is_logged: true, timeouts, ..OutcomeTable::default() }));
        records.into_iter().try_for_each(|record| node.replay(record))?;
        if bugs.recovery_forgets_prepared() {
            let prepared: Vec<TxnId> = node.participant.prepared.keys().copied().collect();
            prepared.into_iter().for_each(|txn| drop(node.release(txn)));
        }
        if bugs.recovery_forgets_claims() {
            node.participant.claims = Claims::default();
        }
        node.storage.end_replay();
        node.check_homes()?;
        let outcomes = node.outcomes.as_deref_mut().expect("it has just got one");
        if bugs.recovery_forgets_answers() {
            outcomes.over.clear();
        }
        outcomes.incarnation += 1;
        outcomes.log.push(Record::Started { incarnation: outcomes.incarnation });
        node.participant.restart(outcomes.incarnation);
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
            let (rows, _) = fetch(&self.storage, &query);
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
        let print = |storage: &Storage, table| (storage.fingerprint(table), storage.row_count(table));
        for table in tables {
            if print(&self.storage, table) != print(&recovered.storage, table) {
                return Some(format!("rows of {}", self.program.schema.table(table).name));
            }
        }
        let (own, other) = (&self.participant, &recovered.participant);
        if own.prepared.keys().ne(other.prepared.keys()) {
            return Some(format!("prepared {:?}", own.prepared.keys().collect::<Vec<_>>()));
        }
        for (prepared, again) in own.prepared.values().zip(other.prepared.values()) {
            let [one, two] = [prepared, again].map(|one| format!("{:?}", LoggedPrepared::of(one)));
            if one != two {
                return Some(format!("what is prepared: {one} became {two}"));
            }
        }
        // Claims of open transactions are lost with them.
        let claims = own.claims.of(|txn| !self.open.contains_key(&txn));
        if claims != other.claims {
            return Some(format!("claims {claims:?}"));
        }
        if let Some(txn) = own.unsettled.keys().find(|txn| !other.unsettled.contains_key(txn)) {
            return Some(format!("that {txn:?} may not be everywhere"));
        }
        let nothing = OutcomeTable::default();
        let [own, other] =
            [&self.outcomes, &recovered.outcomes].map(|one| one.as_deref().unwrap_or(&nothing));
        let is_same = |(txn, over): &(&TxnId, &Over)| {
            other.over.get(txn).is_some_and(|again| {
                again.clock == over.clock && again.reply.is_some() == over.reply.is_some()
            })
        };
        if let Some((txn, over)) = own.over.iter().find(|one| !is_same(one)) {
            return Some(format!("that {txn:?} is {over:?}"));
        }
        (!self.sequences.gave_no_more_than(&recovered.sequences)).then(|| "what sequences gave".to_string())
    }

    fn replay(&mut self, record: Record) -> Result<(), SqlError> {
        match record {
            Record::Started { incarnation } => self.outcomes_mut().incarnation = incarnation,
            Record::Prepared { txn, prepared, sequences } => {
                self.take_over(sequences);
                let at = self.storage.position();
                self.hold_again(txn, at, *prepared)?;
            }
            Record::Committed(commit) => self.commit_again(*commit)?,
            Record::Refused { txn, reply } => {
                self.participant.readers.know(txn.coordinator);
                self.release(txn);
                self.lower_barrier(txn);
                // The preceding snapshot may have been written after the coordinator reported the transaction as over.
                if !self.participant.readers.is_below(txn.coordinator, txn.sequence) {
                    self.outcomes_mut().over.insert(txn, Over { clock: None, reply });
                }
            }
            Record::Retired { coordinator } => {
                // The coordinator has no unfinished transactions, so its commits were settled.
                self.participant.forget_coordinator(coordinator);
                self.outcomes_mut().forget_coordinator(coordinator);
            }
            Record::Snapshot(snapshot) => self.restore(*snapshot)?,
            Record::Rows(rows) => self.storage.restore_saved(*rows),
        }
        self.forget();
        Ok(())
    }

    /// Turns logging off: a restart loses everything, but repetitions are still answered, and transactions of silent coordinators still
    /// terminated.
    pub fn without_log(mut self) -> Node<F> {
        let outcomes = self.outcomes_mut();
        (outcomes.is_logged, outcomes.log) = (false, Vec::new());
        self
    }

    fn outcomes_mut(&mut self) -> &mut OutcomeTable {
        self.outcomes.as_deref_mut().expect("only a shard with a log reads one")
    }

    fn take_over(&mut self, sequences: Option<Box<Sequences>>) {
        if let Some(sequences) = sequences
            && !self.bugs.recovery_forgets_sequences()
        {
            self.sequences = *sequences;
        }
    }

    fn hold_again(&mut self, txn: TxnId, at: Position, logged: LoggedPrepared) -> Result<(), SqlError> {
        let LoggedPrepared { age, writes, claims, participants, answers, timestamp, holds_rows, steps } =
            logged;
        self.clock.restore(timestamp.clock);
        self.participant.readers.know(txn.coordinator);
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
        let prepared = Prepared {
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
        };
        self.participant.hold(txn, prepared);
        Ok(())
    }

    fn commit_again(&mut self, commit: LoggedCommit) -> Result<(), SqlError> {
        let LoggedCommit { txn, timestamp, participants, rows, reply, sequences, steps } = commit;
        self.clock.restore(timestamp.clock);
        self.participant.readers.know(txn.coordinator);
        let mut prepared = self.release(txn);
        let bound = prepared.as_mut().and_then(|prepared| prepared.definitions.take());
        self.lower_barrier(txn);
        self.replay_steps(bound.map_or(steps, |bound| bound.steps), timestamp)?;
        self.take_over(sequences);
        let program = self.program.clone();
        let begin = self.storage.position();
        self.storage.replay_logged(rows, timestamp, &*program);
        let participants = prepared.map_or(participants, |prepared| prepared.participants);
        if participants.len() > 1 {
            let unsettled = Unsettled::new(timestamp, participants, self.storage.position(), begin, None);
            self.participant.unsettled.insert(txn, unsettled);
        }
        self.outcomes_mut().over.insert(txn, Over { clock: Some(timestamp.clock), reply });
        Ok(())
    }

    fn restore(&mut self, snapshot: Snapshot) -> Result<(), SqlError> {
        let Snapshot {
            incarnation, clock, image, prepared, unsettled, over, below, retired, sequences, ..
        } = snapshot;
        let timeouts = self.outcomes_mut().timeouts;
        let program = match snapshot.description {
            Some(description) => Arc::new(description.compile(self.program.shards)?),
            None => self.program.clone(),
        };
        *self = Node::new(self.shard, program, self.bugs);
        let over = over.into_iter().collect();
        let retired = retired.into_iter().collect();
        self.outcomes = Some(Box::new(OutcomeTable {
            is_logged: true,
            incarnation,
            timeouts,
            over,
            retired,
            ..OutcomeTable::default()
        }));
        self.clock.restore(clock);
        self.take_over(Some(Box::new(sequences)));
        let program = self.program.clone();
        self.storage = Storage::new(program.schema.clone());
        self.storage.restore(image, &*program);
        self.participant.readers.restore(below);
        for (txn, at, logged) in prepared {
            self.hold_again(txn, at, logged)?;
        }
        let position = self.storage.position();
        for (txn, timestamp, participants, settled) in unsettled {
            let one = Unsettled::new(timestamp, participants, position, position, None);
            self.participant.unsettled.insert(txn, Unsettled { settled, ..one });
        }
        Ok(())
    }

    /// Logs a commit, and remembers the answer for repetitions.
    pub(crate) fn note_commit(
        &mut self,
        txn: TxnId,
        timestamp: Timestamp,
        begin: Position,
        participants: &[ShardId],
        reply: Option<&Reply>,
    ) {
        self.note_commit_of(txn, timestamp, (begin, Vec::new()), participants, reply);
    }

    /// Logs the commit of a transaction that has changed the schema in these steps.
    pub(crate) fn note_commit_of(
        &mut self,
        txn: TxnId,
        timestamp: Timestamp,
        (begin, steps): (Position, Vec<Step>),
        participants: &[ShardId],
        reply: Option<&Reply>,
    ) {
        let Some(outcomes) = &mut self.outcomes else { return };
        let reply = reply.cloned().map(Box::new);
        self.participant.readers.know(txn.coordinator);
        outcomes.over.insert(txn, Over { clock: Some(timestamp.clock), reply: reply.clone() });
        if !outcomes.is_logged {
            return;
        }
        let (rows, record) = (self.storage.logged_since(begin), outcomes.next());
        match steps.is_empty() {
            true => self.storage.note_unsynced(begin, record),
            false => self.storage.note_all_unsynced(record),
        }
        let (participants, sequences) = (participants.into(), self.sequences.take_changed());
        let commit = LoggedCommit { txn, timestamp, participants, rows, reply, sequences, steps };
        outcomes.log.push(Record::Committed(Box::new(commit)));
    }

    /// Logs that a transaction has not committed and never will. Returns the position that the reply depends on.
    pub(crate) fn note_refusal(&mut self, txn: TxnId, reply: Option<&Reply>) -> Lsn {
        self.drop_open(txn);
        let read_dependency = self.read_dependency();
        let Some(outcomes) = &mut self.outcomes else { return Lsn::START };
        let reply = reply.cloned().map(Box::new);
        self.participant.readers.know(txn.coordinator);
        // Outcomes that the coordinator knows already need not be remembered.
        if !self.participant.readers.is_below(txn.coordinator, txn.sequence) {
            outcomes.over.insert(txn, Over { clock: None, reply: reply.clone() });
        }
        // A refusal because the disk is full is not logged: its client does not repeat the request, and there is no room for the record.
        let needs_room =
            matches!(reply.as_deref(), Some(Reply::Executed { .. })) && self.storage.room.disk_is_full;
        if needs_room {
            // The reply depends only on what it has read; records that wait for disk space need not be waited for.
            return read_dependency;
        }
        if outcomes.is_logged && !self.bugs.refusal_is_not_recorded() {
            outcomes.log.push(Record::Refused { txn, reply });
        }
        outcomes.noted()
    }

    pub(crate) fn note_prepared(&mut self, txn: TxnId) {
        let Some(outcomes) = &mut self.outcomes else { return };
        self.participant.readers.know(txn.coordinator);
        if !outcomes.is_logged {
            return;
        }
        let prepared = Box::new(LoggedPrepared::of(&self.participant.prepared[&txn]));
        let sequences = self.sequences.take_changed();
        outcomes.log.push(Record::Prepared { txn, prepared, sequences });
    }
}
