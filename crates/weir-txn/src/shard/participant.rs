//! SQL calls as a payload of the transaction core (docs/internals/transaction-core.md): what is prepared, what is kept of a commit, and how a
//! shard claims, applies and discards it.
//!
//! The commit of the last participant is the decision (docs/decisions/0003), so a prepared participant asks it, and the others, who may
//! have received COMMIT; S3, S4.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::draining;
use weir_core::ids::{CoordinatorId, Position, ShardId, Timestamp, TxnId};
use weir_core::participant::{
    Applied, Committed, Left, Participant, Participates, Payload, Prepared as _, READER_DELAY_MS_MAX,
};
use weir_core::termination::{Fate, says_words};
use weir_sql::catalog::TableId;
use weir_types::SqlError;

use super::definitions::Definitions;
use super::log::{LoggedCommit, Prepare, Snapshot};
use super::ordered::OrderedRecord;
use crate::claims::Claim;
use crate::faults::Faults;
use crate::message::{Age, Answers, Reply, Request, Sibling};
use crate::shard::node::Node;
use crate::storage::{LoggedRow, RowChanges, SavedRows, Write, WriteSet};

/// Transactions of SQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sql;

impl Payload for Sql {
    type Stamp = Timestamp;
    type Prepared = Prepared;
    type Committed = Unsettled;
    /// Ordered, so that equal shards do the same in the same order.
    type PreparedMap = BTreeMap<TxnId, Prepared>;
    type CommittedMap = BTreeMap<TxnId, Unsettled>;
    /// Reply to a repetition of the transaction's last request.
    type Answer = Option<Box<Reply>>;
    type LoggedPrepared = Prepare;
    type LoggedCommit = Box<LoggedCommit>;
    type Snapshot = Snapshot;
    type SnapshotPart = Box<SavedRows>;
    type LoggedRows = Vec<LoggedRow>;
    type Ordered = Box<OrderedRecord>;

    /// The answer of a call is its result, which only the table has.
    const REMEMBERS_COMMITS: bool = true;

    fn clock_of(timestamp: Timestamp) -> u64 {
        timestamp.clock
    }
}

says_words!(Request);

#[derive(Debug)]
pub struct Prepared {
    pub age: Age,
    pub writes: Arc<[Write]>,
    /// Row changes, applied at COMMIT. Rows of `pins` that were changed meanwhile are folded instead: the operations are redone on the
    /// current row. None after a restart of the shard: then all operations are redone.
    pub own: Option<WriteSet>,
    /// The rows that it will write, each once, with the result of [`crate::storage::Storage::pin`].
    pub pins: Vec<(TableId, u32, u32)>,
    pub claims: Vec<Claim>,
    pub participants: Arc<[ShardId]>,
    /// Position of the shard at the prepare: everything before it has lower timestamps.
    pub at: Position,
    /// Answer to its coordinator, kept where requests may be repeated.
    pub answer: Option<Box<(Answers, Timestamp)>>,
    /// It was an open transaction: no other transaction writes its rows (S14).
    pub holds_rows: bool,
    /// Set if it changes the schema; then it contains all changes of the transaction.
    pub definitions: Option<Box<Definitions>>,
}

impl weir_core::participant::Prepared for Prepared {
    fn since(&self) -> u64 {
        self.at
    }

    fn clock(&self) -> u64 {
        self.answer.as_deref().map_or(0, |(_, timestamp)| timestamp.clock)
    }

    fn participants(&self) -> &[ShardId] {
        &self.participants
    }
}

/// A committed transaction with other participants, kept until no reader needs it as a sibling.
#[derive(Debug)]
pub struct Unsettled {
    pub timestamp: Timestamp,
    pub participants: Arc<[ShardId]>,
    /// Position of the shard after the commit.
    pub position: Position,
    pub prepared_at: Position,
    /// Kept while a reader may ask for an older state plus this transaction (S5).
    pub writes: Option<Arc<[Write]>>,
    /// All participants have committed it.
    pub settled: bool,
    /// It is an ordered call: another participant that does not know it has yet to execute it.
    pub is_in_order: bool,
}

impl Unsettled {
    pub fn new(
        timestamp: Timestamp,
        participants: Arc<[ShardId]>,
        position: Position,
        prepared_at: Position,
        writes: Option<Arc<[Write]>>,
    ) -> Unsettled {
        let (settled, is_in_order) = (false, false);
        Unsettled { timestamp, participants, position, prepared_at, writes, settled, is_in_order }
    }
}

impl draining::Committed for Unsettled {
    fn settled(&mut self) -> &mut bool {
        &mut self.settled
    }
}

impl Committed for Unsettled {
    fn clock(&self) -> u64 {
        self.timestamp.clock
    }

    fn participants(&self) -> &[ShardId] {
        &self.participants
    }

    fn is_settled(&self) -> bool {
        self.settled
    }
}

impl<F: Faults> Participates for Node<F> {
    type Payload = Sql;
    type Unreadable = SqlError;

    fn own_id(&self) -> ShardId {
        self.shard
    }

    fn participant(&self) -> &Participant<Sql> {
        &self.participant
    }

    fn participant_mut(&mut self) -> &mut Participant<Sql> {
        &mut self.participant
    }

    /// The last participant has decided.
    fn stamp_at(&self, _txn: TxnId, prepared: &Prepared, clock: u64) -> Timestamp {
        let node = *prepared.participants().last().expect("a transaction has a participant");
        Timestamp { clock, node }
    }

    /// The last participant never prepares: until it has committed, there is no decision.
    fn clock_of_all_prepared(&self, _prepared: &Prepared, _others: &[u64]) -> Option<u64> {
        None
    }

    fn claim(&mut self, txn: TxnId, prepared: &Prepared) {
        for claim in &prepared.claims {
            self.claims.take(claim, txn);
        }
        self.hold_rows += usize::from(prepared.holds_rows);
    }

    fn unclaim(&mut self, txn: TxnId, prepared: &Prepared) {
        self.hold_rows -= usize::from(prepared.holds_rows);
        for claim in &prepared.claims {
            self.claims.release(claim, txn);
        }
    }

    fn apply(&mut self, txn: TxnId, mut prepared: Prepared, timestamp: Timestamp) -> Applied<Sql> {
        self.has_done.commits += 1;
        self.clock.observe(timestamp);
        if let Some(definitions) = prepared.definitions.take() {
            self.commit_definitions(definitions.versions, timestamp);
        }
        self.lower_barrier(txn);
        let unlogged = self.apply_prepared(txn, &mut prepared, timestamp);
        let record = self.logged_commit((txn, timestamp), (unlogged, Vec::new()), None, None);
        let writes = (!self.readers.is_empty()).then_some(prepared.writes);
        let (participants, position) = (prepared.participants, self.storage.position());
        self.ended.push(txn);
        let unsettled = Unsettled::new(timestamp, participants, position, prepared.at, writes);
        Applied { committed: Some(unsettled), record }
    }

    fn discard(&mut self, txn: TxnId, prepared: Prepared) {
        self.undo_large(txn);
        self.unpin(&prepared.pins);
        self.storage.discard_write_set(prepared.own.unwrap_or_default());
        if let Some(definitions) = prepared.definitions {
            self.discard_versions(definitions.versions);
        }
        self.lower_barrier(txn);
        self.ended.push(txn);
    }

    fn drop_unprepared(&mut self, txn: TxnId) -> bool {
        self.drop_open(txn)
    }

    fn restore_prepared(&mut self, txn: TxnId, logged: Prepare) -> Result<Prepared, SqlError> {
        let Prepare { prepared, sequences } = logged;
        self.take_over(sequences);
        let at = self.storage.position();
        self.prepared_again(txn, at, *prepared)
    }

    fn restore_commit(&mut self, commit: Box<LoggedCommit>) -> Result<(), SqlError> {
        self.commit_again(*commit)
    }

    fn restore_snapshot(&mut self, snapshot: Snapshot) -> Result<(), SqlError> {
        self.restore(snapshot)
    }

    fn restore_part(&mut self, rows: Box<SavedRows>) {
        self.storage.restore_saved(*rows);
    }

    fn restore_rows(&mut self, txn: TxnId, rows: Vec<LoggedRow>) {
        self.unfinished.entry(txn).or_default().extend(rows);
    }

    fn drop_rows(&mut self, txn: Option<TxnId>) {
        if self.bugs.recovery_counts_unfinished() {
            return self.count_unfinished();
        }
        match txn {
            Some(txn) => drop(self.unfinished.remove(&txn)),
            None => self.unfinished.clear(),
        }
    }

    fn restore_ordered(&mut self, record: Box<OrderedRecord>) -> Result<(), SqlError> {
        self.replay_ordered(*record)
    }

    fn settles_itself(&self, txn: TxnId) -> bool {
        self.participant.committed().get(&txn).is_some_and(|one| one.is_in_order) || self.has_voted_for(txn)
    }

    fn fate_for(&self, txn: TxnId, asked: Fate) -> Option<Fate> {
        match (self.participant.fate(txn), asked) {
            (None, Fate::Prepared { clock }) if self.bugs.unknown_means_committed() => {
                Some(Fate::Committed { clock })
            }
            (fate, _) => fate,
        }
    }

    fn records_refusals(&self) -> bool {
        !self.bugs.refusal_is_not_recorded()
    }
}

impl<F: Faults> Node<F> {
    /// Makes a prepared transaction's operations visible. Returns the position behind which are the changes that are not in the log.
    fn apply_prepared(&mut self, txn: TxnId, prepared: &mut Prepared, timestamp: Timestamp) -> Position {
        let begin = self.storage.position();
        let large = if self.large.is_empty() { None } else { self.take_large(txn) };
        let touched: Vec<(TableId, u32)> = prepared
            .pins
            .iter()
            .filter(|&&(table, row, changes)| !self.storage.is_untouched(table, row, changes))
            .map(|&(table, row, _)| (table, row))
            .collect();
        self.unpin(&prepared.pins);
        match prepared.own.take() {
            Some(own) if !self.bugs.no_guards() => {
                let unlogged = self.apply_committed(own, large, &touched, timestamp);
                let folded =
                    |write: &&Write| write.row.is_some_and(|row| touched.contains(&(write.table, row)));
                let mut changes = RowChanges::since(prepared.at);
                for Write { table, row, operation } in prepared.writes.iter().filter(folded) {
                    self.storage.apply(*table, *row, operation, timestamp, &mut changes);
                }
                unlogged
            }
            own => {
                // A transaction without claims may have lost a key to another one, and after a restart only its operations are known:
                // they are applied one by one.
                self.storage.discard_write_set(own.unwrap_or_default());
                self.replay_writes(&prepared.writes, timestamp, prepared.at);
                begin
            }
        }
    }

    /// A transaction that has committed here, and is to commit elsewhere; none: it has no other participants.
    pub(crate) fn unsettled(
        &self,
        timestamp: Timestamp,
        participants: Arc<[ShardId]>,
        (begin, writes): (Position, Option<Arc<[Write]>>),
    ) -> Option<Unsettled> {
        let is_alone = participants.is_empty();
        let unsettled = || Unsettled::new(timestamp, participants, self.storage.position(), begin, writes);
        (!is_alone).then(unsettled)
    }

    /// Siblings for a reader that stands at the current position.
    pub(crate) fn siblings(&self) -> Vec<Sibling> {
        let sibling = |(txn, unsettled): (&TxnId, &Unsettled)| Sibling {
            txn: *txn,
            timestamp: unsettled.timestamp,
            participants: unsettled.participants.clone(),
        };
        self.participant.committed().iter().map(sibling).collect()
    }

    /// Drops what all readers have drained, and begins a new drain epoch if more is left.
    pub(crate) fn drain(&mut self, now_ms: u64) {
        let drained = self.participant.readers.drained();
        while self.participant.next_drained(drained).is_some() {}
        self.participant.advance(now_ms);
    }

    /// Drops readers that have delayed garbage collection for longer than the bound.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        if self.participant.is_draining() {
            self.participant.readers.expire(now_ms, READER_DELAY_MS_MAX);
            self.drain(now_ms);
        }
    }

    /// Pins the rows that will be written, each row once.
    pub(crate) fn pin(&mut self, writes: &[Write]) -> Vec<(TableId, u32, u32)> {
        let program = self.program.clone();
        let written = |write: &Write| {
            let in_keys = &program.schema.table(write.table).in_keys;
            Some((write.table, write.row?, !write.operation.takes(&|column| in_keys[column])))
        };
        let mut rows: Vec<(TableId, u32, bool)> = writes.iter().filter_map(written).collect();
        rows.sort_unstable();
        rows.dedup_by_key(|(table, row, _)| (*table, *row));
        let pin = |(table, row, leaves_key): (TableId, u32, bool)| {
            (table, row, self.storage.pin(table, row, !leaves_key))
        };
        rows.into_iter().map(pin).collect()
    }

    pub(crate) fn unpin(&mut self, pins: &[(TableId, u32, u32)]) {
        for &(table, row, _) in pins {
            self.storage.unpin(table, row);
        }
    }

    /// Applies operations to the tables as they are now.
    pub(crate) fn replay_writes(&mut self, writes: &[Write], timestamp: Timestamp, prepared_at: Position) {
        let mut changes = RowChanges::since(prepared_at);
        for Write { table, row, operation } in writes {
            self.storage.apply(*table, *row, operation, timestamp, &mut changes);
        }
    }

    /// Number of transactions that this shard has committed, and aborted, by asking the other participants.
    pub fn terminated_by_asking(&self) -> (u64, u64) {
        self.participant.terminated()
    }

    /// State left of that coordinator's transactions.
    pub fn left_of(&self, coordinator: CoordinatorId) -> Left {
        self.participant.left_of(coordinator)
    }
}
