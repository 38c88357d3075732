//! Messages between coordinators and participants of guarded RAMP (ramp.txt, Algorithm 1, with the additions for SQL: calls instead of
//! values, guards, answers of round one).

mod attachment;
mod attempt;
mod changed;
mod definition;
mod derived;
mod keys;
mod ordered;
mod query_reads;
mod refusal;
mod sequence_value;
mod setting;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::{CoordinatorId, Position, ShardId, Timestamp, TxnId};
use weir_core::termination::Fate;
use weir_sql::Text;
use weir_sql::catalog::{ColumnIndex, SequenceId, TableId};
use weir_types::datetime::{SessionZone, TransactionTime};
use weir_types::interrupt::StatementId;
use weir_types::memory::WorkingMemory;
use weir_types::{Notice, SqlError, Value};

use crate::entries::EntriesId;
use crate::placement::shard_of_integer;
use crate::stream::RowQueue;

pub use attachment::Attachment;
pub use attempt::Attempt;
pub(crate) use attempt::BY_KEY_MAX;
pub use changed::{Changed, Check};
pub use definition::{Change, Definition, PlanOf};
pub use derived::{Derived, GlobalKey, ParentChange, WhyParent};
pub use keys::{DuplicateKey, KeyChange};
pub use ordered::{HOME, Operation, Ordered, OrderedMessage, Pending, Protocol};
pub use query_reads::QueryReads;
pub use refusal::{forgotten, forgotten_snapshot, schema_has_changed};
pub(crate) use refusal::{too_large, too_much_derived};
pub use sequence_value::SequenceValue;
pub use setting::Setting;

/// Interval of a coordinator's keep-alives for a snapshot.
pub(crate) const STILL_READ_MS: u64 = 10_000;

/// Priority at a guard (S7): the older transaction waits, the younger one withdraws. A transaction that withdrew is retried under a new
/// id and its old age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Age {
    pub sequence: u64,
    pub coordinator: CoordinatorId,
}

/// Age of a transaction, and the time when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    pub age: Age,
    /// Clock of the coordinator (S9), in milliseconds.
    pub at_ms: u64,
}

/// The code that a call runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Callee {
    /// A procedure of the program, by its index.
    Procedure(usize),
    /// An ad-hoc statement.
    Text(Arc<Text>),
    /// A change of the schema, on all shards; only in an interactive transaction.
    Definition(Arc<Definition>),
    /// An advisory lock, taken on the home shard of its key; only in an interactive transaction. Returns whether the lock is held:
    /// without `waits` it may not be.
    AdvisoryLock { key: AdvisoryKey, waits: bool },
    /// SET CONSTRAINTS, or the deferred checks before COMMIT; only in an interactive transaction.
    Constraints(Setting),
    /// Asks a shard for the state of its sequences; only in an interactive transaction. Returns three values for each sequence used
    /// there: its number, its last value, and how many values it has handed out.
    Sequences,
    /// setval at one shard: its share of the sequence continues from `value`, or after it if `is_given`. Takes effect at once, also if
    /// the surrounding transaction rolls back.
    SetSequence { shard: ShardId, sequence: SequenceId, value: i64, is_given: bool },
    /// Writes that other shards have derived for this one; only in an interactive transaction, which carries them.
    Derived(Arc<[Derived]>),
    /// A procedure or an ad-hoc statement of a serializable transaction: it takes interval locks of what it reads.
    Serializable(Arc<Callee>),
    /// Takes the interval locks for a query of a serializable transaction, whose rows are read after it. All its shards do so at the same
    /// time, and nothing is returned.
    Reads(Arc<QueryReads>),
    /// Keeps out all other writers, on all shards, from here to the end of the transaction; only in an interactive transaction. It waits for
    /// those that have begun.
    Barrier,
    /// An ad-hoc statement that begins again; only in an interactive transaction.
    Attempt(Arc<Callee>, Attempt),
    /// Builds, on all shards, the index that the definition adds, while others write; only in an interactive transaction, before the
    /// definition.
    Build(Arc<Definition>),
    /// Takes the transaction's place in the order of ordered calls, on all shards: those behind it wait until it has ended; only in an
    /// interactive transaction.
    Enter,
}

impl Callee {
    pub(crate) fn setting(&self) -> Option<&Setting> {
        match self {
            Callee::Constraints(setting) => Some(setting),
            _ => None,
        }
    }

    pub(crate) fn derived(&self) -> Option<&Arc<[Derived]>> {
        match self {
            Callee::Derived(derived) => Some(derived),
            _ => None,
        }
    }

    /// Returns whether it is of an index that is built while others write.
    pub(crate) fn is_of_build(&self) -> bool {
        let derived = || self.derived().is_some_and(|all| all.iter().any(Derived::is_of_build));
        matches!(self, Callee::Build(_)) || derived()
    }

    pub(crate) fn is_serializable(&self) -> bool {
        matches!(self, Callee::Serializable(_))
    }

    /// Which attempt it is; none: the first.
    pub(crate) fn attempt(&self) -> Option<Attempt> {
        match self {
            Callee::Attempt(_, attempt) => Some(*attempt),
            Callee::Serializable(callee) => callee.attempt(),
            _ => None,
        }
    }

    /// Returns whether it is sent to the shard where the row is that it names by a key.
    pub(crate) fn is_by_key(&self) -> bool {
        matches!(self.attempt(), Some(Attempt::ByKey(_)))
    }

    /// Returns whether builds that do not know [`Attempt::ByKey`] cannot run it.
    pub(crate) fn is_as_new_as_by_key(&self) -> bool {
        self.is_by_key() || self.is_with_keys()
    }

    pub(crate) fn is_with_keys(&self) -> bool {
        self.attempt().is_some_and(Attempt::is_with_keys)
    }

    /// Returns whether builds that do not know [`Attempt`] cannot run it.
    pub(crate) fn is_as_new_as_attempts(&self) -> bool {
        let derived = || self.derived().is_some_and(|all| all.iter().any(Derived::is_as_new_as_attempts));
        self.attempt().is_some() || derived()
    }

    pub(crate) fn reads(&self) -> Option<&Arc<QueryReads>> {
        match self {
            Callee::Reads(reads) => Some(reads),
            _ => None,
        }
    }
}

/// Key of an advisory lock. Keys of the two kinds never conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AdvisoryKey {
    One(i64),
    Two(i32, i32),
}

impl AdvisoryKey {
    /// Shard that holds the locks of this key.
    pub fn home(self, shards: ShardId) -> ShardId {
        match self {
            AdvisoryKey::One(key) => shard_of_integer(key, shards),
            AdvisoryKey::Two(first, second) => {
                shard_of_integer(i64::from(first) << 32 | i64::from(second as u32), shards)
            }
        }
    }
}

/// One call of a procedure, or one ad-hoc statement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    pub callee: Callee,
    /// Arguments. For an ad-hoc statement that inserts one row, the arguments of many rows may follow each other (docs/internals/server.md, "Many
    /// rows at once").
    pub args: Vec<Value>,
    /// Value of `now()`, and the time zone of the session.
    pub transaction_time: TransactionTime,
    /// Schema version that it was bound to ([`crate::exec::definition`]).
    pub schema_version: u64,
    /// Of the session. To another process it travels in the [`Attachment`].
    #[serde(skip)]
    pub memory: WorkingMemory,
}

/// Results of the statements of a fragment in execution order, as far as statements of the last participant may need them (round one of
/// the design). A statement yields FOUND, its row count and its INTO values; a loop over a query yields the number of rows, then their
/// values.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answers {
    pub values: Vec<Value>,
    /// Error of the statement that follows the answers. The last participant raises it when it reaches that statement, unless it fails
    /// earlier: so the client gets the error of a serial execution.
    pub error: Option<SqlError>,
}

/// Result of a call for the client.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Output {
    /// OUT and INOUT parameters, or a function's value.
    pub values: Vec<Value>,
    /// Rows of a set-returning function.
    pub rows: Vec<Vec<Value>>,
    /// Values handed out by sequences, the latest last. In a message they are one record after `values` ([`SequenceValue::record`]).
    #[serde(skip)]
    pub given: Vec<SequenceValue>,
    /// Notices raised by the call. They travel in [`Reply::Raised`] and are not logged.
    #[serde(skip)]
    pub notices: Vec<Notice>,
}

impl Output {
    /// Restores the output from its form in a message.
    pub(crate) fn unpacked(mut self) -> Output {
        if let Some(given) = self.values.last().and_then(SequenceValue::of_record) {
            self.given = given;
            self.values.pop();
        }
        self
    }
}

/// Request to the last participant to decide.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Decision {
    pub call: Arc<Call>,
    /// All participants, itself last; none if siblings are not reported to readers (the comparator `none`).
    pub participants: Arc<[ShardId]>,
    pub answers: Vec<(ShardId, Answers)>,
    /// Lower bound, exclusive, of its timestamp.
    pub above: Timestamp,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Prepare and commit in one message: the only participant.
    Execute {
        txn: TxnId,
        begun: Begun,
        call: Box<Call>,
        /// Incarnation of the shard that this request is for. An earlier one may have answered it with [`Reply::Unchanged`] and have no
        /// record of it, so a later one ignores it. None: any may run it; it is always answered from the log. To another
        /// process it travels in the [`Attachment`].
        #[serde(skip)]
        incarnation: Option<u64>,
    },
    /// Run this shard's part and keep its operations until COMMIT.
    Prepare {
        txn: TxnId,
        begun: Begun,
        call: Arc<Call>,
        participants: Arc<[ShardId]>,
    },
    /// To the last participant, when all others have prepared: it decides by running its part.
    Decide {
        txn: TxnId,
        begun: Begun,
        decision: Box<Decision>,
    },
    /// Run this shard's part and make it visible at once (the comparator `none`).
    Apply {
        txn: TxnId,
        begun: Begun,
        call: Arc<Call>,
    },
    Commit {
        txn: TxnId,
        timestamp: Timestamp,
    },
    Abort {
        txn: TxnId,
    },
    /// Round one of a read: one of the program's queries, with its arguments. `session`: as which the reader is registered.
    Read {
        read: TxnId,
        session: u64,
        query: Arc<ReadQuery>,
        /// Open transaction whose uncommitted writes the read sees; see [`Work::opened`].
        within: Option<(TxnId, u64)>,
    },
    /// Round two (S5): reads exactly the state at `position` plus the named transactions.
    ReadAt {
        read: TxnId,
        session: u64,
        query: Arc<ReadQuery>,
        position: Position,
        including: Vec<Sibling>,
        within: Option<(TxnId, u64)>,
    },
    /// The read is over: the history at its position may be dropped.
    EndRead {
        read: TxnId,
    },
    /// A participant asks another one for the outcome of a transaction whose coordinator is silent, and reports its own state
    /// (termination).
    Ask {
        txn: TxnId,
        fate: Fate,
    },
    /// Reply to `Ask`.
    Tell {
        txn: TxnId,
        fate: Fate,
    },
    /// This shard's share of a statement of an interactive transaction. Its writes are visible to the transaction alone, and its locks
    /// are held until the end.
    Work {
        txn: TxnId,
        begun: Begun,
        work: Box<Work>,
    },
    /// Prepares an open transaction of several participants, on all shards but the last.
    Bind {
        txn: TxnId,
        begun: Begun,
        participants: Arc<[ShardId]>,
        opened: u64,
    },
    /// Commits an open transaction: on its only participant, or on the last one when all others have prepared.
    Finish {
        txn: TxnId,
        begun: Begun,
        /// As in [`Decision`]; none if there are no other participants.
        participants: Arc<[ShardId]>,
        above: Timestamp,
        opened: u64,
    },
    /// Undoes the work of an open transaction on this shard after that step, releases the locks taken since, and cancels its waiting
    /// request. Counts as a step.
    RollBackTo {
        txn: TxnId,
        age: Age,
        number: u32,
        after: u32,
        /// As in [`Work`]; none: it is not known whether the transaction has worked here.
        opened: Option<u64>,
    },
    /// Round one of a snapshot (docs/internals/snapshots.md): the shard replies with its position, as to a read without rows, and holds
    /// back its messages from then on. `session`: as in `Read`.
    OpenSnapshot {
        read: TxnId,
        session: u64,
        /// Schema version that the snapshot is taken of.
        schema_version: u64,
    },
    /// Round two: keeps the state at `position` plus the named transactions readable, under the id `read`.
    KeepSnapshot {
        read: TxnId,
        session: u64,
        position: Position,
        including: Vec<Sibling>,
    },
    /// Reads from that snapshot.
    ReadSnapshot {
        read: TxnId,
        snapshot: TxnId,
        query: Arc<ReadQuery>,
    },
    /// Keep-alive of a snapshot.
    SnapshotIsRead {
        snapshot: TxnId,
    },
    /// Ends a snapshot, or its cut.
    EndSnapshot {
        snapshot: TxnId,
    },
    /// `Work` that nothing follows, and `Bind` in one: the last writes that other shards have derived. The shard is prepared then; else its
    /// answer is [`Reply::Worked`] or [`Reply::Busy`], and the transaction aborts.
    WorkAndBind {
        txn: TxnId,
        begun: Begun,
        work: Box<Work>,
        /// Of the transaction, as in `Bind`.
        participants: Arc<[ShardId]>,
    },
    /// Of ordered calls.
    Ordered(Box<OrderedMessage>),
}

/// One shard's share of one statement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    /// Number of the step in its transaction, from 1. Steps are statements and rollbacks to savepoints.
    pub number: u32,
    /// Incarnation of the shard when the transaction first worked here; none before that. A shard that has restarted since has lost the
    /// transaction, and must not begin it anew on a late first statement.
    pub opened: Option<u64>,
    pub call: Arc<Call>,
    /// Participants of the statement, in the order in which they are asked.
    pub participants: Arc<[ShardId]>,
    /// Answers of the other participants; only for the last one.
    pub answers: Vec<(ShardId, Answers)>,
}

impl Request {
    /// The transaction or read that it belongs to.
    pub fn txn(&self) -> TxnId {
        match self {
            Request::Execute { txn, .. }
            | Request::Prepare { txn, .. }
            | Request::Decide { txn, .. }
            | Request::Apply { txn, .. }
            | Request::Commit { txn, .. }
            | Request::Abort { txn }
            | Request::Read { read: txn, .. }
            | Request::ReadAt { read: txn, .. }
            | Request::EndRead { read: txn }
            | Request::OpenSnapshot { read: txn, .. }
            | Request::KeepSnapshot { read: txn, .. }
            | Request::ReadSnapshot { read: txn, .. }
            | Request::SnapshotIsRead { snapshot: txn }
            | Request::EndSnapshot { snapshot: txn }
            | Request::Ask { txn, .. }
            | Request::Tell { txn, .. }
            | Request::Work { txn, .. }
            | Request::RollBackTo { txn, .. }
            | Request::Bind { txn, .. }
            | Request::WorkAndBind { txn, .. }
            | Request::Finish { txn, .. } => *txn,
            Request::Ordered(message) => message.txn(),
        }
    }

    /// Time zone in which it is evaluated.
    pub fn zone(&self) -> SessionZone {
        let of_call = self.call().map(|call| call.transaction_time);
        let time = of_call.or_else(|| Some(self.parts()?.transaction_time));
        time.map_or(SessionZone::UTC, |time| time.zone)
    }

    /// The call that it runs.
    pub(crate) fn call(&self) -> Option<&Call> {
        match self {
            Request::Execute { call, .. } => Some(call),
            Request::Prepare { call, .. } | Request::Apply { call, .. } => Some(call),
            Request::Decide { decision, .. } => Some(&decision.call),
            Request::Work { work, .. } | Request::WorkAndBind { work, .. } => Some(&work.call),
            Request::Ordered(message) => message.call().map(|(call, _)| call),
            _ => None,
        }
    }

    /// The parts of a query that it reads.
    fn parts(&self) -> Option<&PartsRead> {
        match self {
            Request::Read { query, .. }
            | Request::ReadAt { query, .. }
            | Request::ReadSnapshot { query, .. } => query.parts.as_deref(),
            _ => None,
        }
    }

    /// Returns whether the request belongs to a read.
    pub fn reads(&self) -> bool {
        matches!(
            self,
            Request::Read { .. }
                | Request::ReadAt { .. }
                | Request::EndRead { .. }
                | Request::OpenSnapshot { .. }
                | Request::KeepSnapshot { .. }
                | Request::ReadSnapshot { .. }
        )
    }

    /// Identity for interrupts; a statement of an open transaction includes its number.
    pub fn statement(&self) -> StatementId {
        let TxnId { coordinator, sequence } = self.txn();
        let number = match self {
            Request::Work { work, .. } | Request::WorkAndBind { work, .. } => work.number,
            _ => 0,
        };
        (coordinator, sequence, number)
    }

    /// When its transaction began; none if the request does not assign a timestamp.
    pub fn begun_ms(&self) -> Option<u64> {
        self.begun().map(|begun| begun.at_ms)
    }

    /// The beginning of its transaction, which a request that assigns a timestamp carries.
    pub fn begun(&self) -> Option<Begun> {
        match self {
            Request::Execute { begun, .. }
            | Request::Prepare { begun, .. }
            | Request::Decide { begun, .. }
            | Request::Apply { begun, .. }
            | Request::Work { begun, .. }
            | Request::Bind { begun, .. }
            | Request::WorkAndBind { begun, .. }
            | Request::Finish { begun, .. } => Some(*begun),
            _ => None,
        }
    }
}

/// Rows that a read asks of one shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadQuery {
    pub tables: Vec<TableRead>,
    /// Reads parts of a query instead of whole tables.
    pub parts: Option<Box<PartsRead>>,
    /// Schema version that it was bound to.
    pub schema_version: u64,
}

impl ReadQuery {
    /// Returns whether it reads entries of a global key.
    pub(crate) fn reads_entries(&self) -> bool {
        self.tables.iter().any(|asked| EntriesId::of(asked.table).is_some())
    }

    /// Where a worker puts the rows.
    pub fn queue(&self) -> Option<&RowQueue> {
        self.parts.as_deref()?.stream.as_ref()
    }
}

/// Parts of a query, which the shard compiles from the query's text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartsRead {
    pub text: Arc<Text>,
    /// Values of the query's parameters.
    pub values: Vec<Value>,
    pub parts: Vec<u16>,
    pub transaction_time: TransactionTime,
    /// Of the session. To another process it travels in the [`Attachment`].
    #[serde(skip)]
    pub memory: WorkingMemory,
    /// A worker of the same process puts the rows of the only part here, and replies without them.
    #[serde(skip)]
    pub stream: Option<RowQueue>,
}

/// Rows of one table whose named columns equal the given values; all rows if no column is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableRead {
    pub table: TableId,
    pub equals: Vec<(ColumnIndex, Value)>,
    /// Restricts to rows that match a row of an earlier table of the same query: position of that table, and pairs of own and its columns
    /// that must be equal. Thus the second statement of a read depends on the rows of the first.
    pub joined: Option<(usize, Vec<(ColumnIndex, ColumnIndex)>)>,
}

/// A transaction that a reader has seen at one shard and must see at the other participants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sibling {
    pub txn: TxnId,
    pub timestamp: Timestamp,
    pub participants: Arc<[ShardId]>,
}

/// Progress of a coordinator, sent with each batch of requests: its transactions below `settled_below` are over everywhere, and its reads
/// that were active when it saw drain epoch `drained` have ended.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Progress {
    pub settled_below: u64,
    pub drained: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    Executed {
        txn: TxnId,
        result: Result<Output, SqlError>,
    },
    Prepared {
        txn: TxnId,
        shard: ShardId,
        answers: Answers,
        timestamp: Timestamp,
    },
    /// A check or a guard failed: abort everywhere and tell the client.
    Refused {
        txn: TxnId,
        shard: ShardId,
        error: SqlError,
    },
    /// The transaction must withdraw and retry under its old age (S7).
    Busy {
        txn: TxnId,
        shard: ShardId,
    },
    Decided {
        txn: TxnId,
        output: Output,
        timestamp: Timestamp,
    },
    Committed {
        txn: TxnId,
        shard: ShardId,
    },
    /// `siblings`: transactions contained in the state that may not have reached all participants yet; `examined`: number of rows
    /// examined.
    ReadRows {
        read: TxnId,
        shard: ShardId,
        /// 1 for an answer to `Read`, 2 to `ReadAt`.
        round: u32,
        position: Position,
        rows: Vec<Vec<Vec<Value>>>,
        examined: usize,
        siblings: Vec<Sibling>,
    },
    /// The history at that position is gone, or the reader is not registered: it must begin again under this session (the paper's rule;
    /// never a null).
    ReadAgain {
        read: TxnId,
        shard: ShardId,
        session: u64,
    },
    /// The coordinator was silent for so long that the shards have forgotten it: its writes are rejected, and the outcome of its
    /// transactions in flight is unknown. Its driver begins a new coordinator under a new id.
    Retired {
        txn: TxnId,
        shard: ShardId,
    },
    /// The answer exceeds the size of a message. `committed`: timestamp of a call that has committed nevertheless.
    TooLarge {
        txn: TxnId,
        shard: ShardId,
        committed: Option<Timestamp>,
    },
    /// Acknowledges ABORT; sent only where messages may be lost.
    Aborted {
        txn: TxnId,
        shard: ShardId,
    },
    /// Result of a shard's share of a statement; after an error nothing of that share remains.
    Worked {
        txn: TxnId,
        shard: ShardId,
        number: u32,
        /// Incarnation of the shard: how often it has started.
        incarnation: u64,
        result: Result<(Answers, Output), SqlError>,
    },
    /// A statement waits on the shard for a claim of another transaction.
    Waits {
        txn: TxnId,
        shard: ShardId,
        holder: TxnId,
    },
    /// Acknowledges a rollback to a savepoint.
    RolledBack {
        txn: TxnId,
        shard: ShardId,
        number: u32,
        incarnation: u64,
    },
    /// Notices that the call raised until it ended, in success or failure, and the actual reply.
    Raised {
        notices: Vec<Notice>,
        reply: Box<Reply>,
    },
    /// Further holders that a statement waits for, in addition to the one reported last.
    WaitsBesides {
        txn: TxnId,
        shard: ShardId,
        holders: Vec<TxnId>,
    },
    /// Result of a call that names the shard's incarnation and has changed nothing: it waits for no record of its own, and a restarted
    /// shard knows nothing of it. A coordinator that has sent its request again ignores it, for a later incarnation may have run it.
    Unchanged {
        txn: TxnId,
        output: Output,
    },
    /// A round of a read runs, and its rows come through a queue of the same process: said when it begins, and when it ends. Never between
    /// processes.
    ReadStreams {
        read: TxnId,
        shard: ShardId,
        round: u32,
        position: Position,
        siblings: Vec<Sibling>,
        /// Number of rows, once all are in the queue.
        ended: Option<usize>,
    },
    /// Writes that the shard's share of a statement has derived for other shards, and the actual reply, which is [`Reply::Worked`]. The
    /// coordinator carries them within the same transaction.
    Derived {
        derived: Vec<Derived>,
        reply: Box<Reply>,
    },
    /// Rows that the shard's share of a statement has changed and for which assertions are to be checked before the transaction commits, and
    /// the actual reply, which is [`Reply::Worked`] or [`Reply::Derived`].
    Changed {
        changed: Changed,
        reply: Box<Reply>,
    },
    /// What a participant of an ordered call has executed: what its statements gave, or the error that each participant comes to by itself.
    InOrder {
        txn: TxnId,
        shard: ShardId,
        answers: Answers,
    },
    /// The last participant of an ordered call has decided it: the result of the whole call.
    DecidedInOrder {
        txn: TxnId,
        shard: ShardId,
        result: Result<Output, SqlError>,
    },
}

impl Reply {
    /// Form for sending: notices, which are not part of a kept reply, move to [`Reply::Raised`].
    pub(crate) fn spoken(mut self) -> Reply {
        match self.notices_mut().map(std::mem::take) {
            Some(notices) if !notices.is_empty() => Reply::Raised { notices, reply: Box::new(self) },
            _ => self,
        }
    }

    /// Inverse of [`Reply::spoken`].
    pub(crate) fn heard(self) -> Reply {
        let Reply::Raised { notices, mut reply } = self else { return self };
        if let Some(place) = reply.notices_mut() {
            *place = notices;
        }
        *reply
    }

    fn notices_mut(&mut self) -> Option<&mut Vec<Notice>> {
        match self {
            Reply::Executed { result: Ok(output), .. }
            | Reply::Unchanged { output, .. }
            | Reply::Decided { output, .. }
            | Reply::Worked { result: Ok((_, output)), .. } => Some(&mut output.notices),
            Reply::Executed { result: Err(error), .. }
            | Reply::Refused { error, .. }
            | Reply::Worked { result: Err(error), .. } => Some(error.notices_mut()),
            Reply::Derived { reply, .. } | Reply::Changed { reply, .. } => reply.notices_mut(),
            _ => None,
        }
    }

    /// Adds the writes that are derived for other shards.
    pub(crate) fn with_derived(self, derived: Vec<Derived>) -> Reply {
        match derived.is_empty() {
            true => self,
            false => Reply::Derived { derived, reply: Box::new(self) },
        }
    }

    /// Inverse of [`Reply::with_derived`].
    pub(crate) fn without_derived(self) -> (Vec<Derived>, Reply) {
        match self {
            Reply::Derived { derived, reply } => (derived, *reply),
            reply => (Vec::new(), reply),
        }
    }

    /// Adds the rows for which assertions are to be checked.
    pub(crate) fn with_changed(self, changed: Changed) -> Reply {
        match changed.is_empty() {
            true => self,
            false => Reply::Changed { changed, reply: Box::new(self) },
        }
    }

    /// Inverse of [`Reply::with_changed`].
    pub(crate) fn without_changed(self) -> (Changed, Reply) {
        match self {
            Reply::Changed { changed, reply } => (changed, *reply),
            reply => (Changed::default(), reply),
        }
    }

    /// The shard that has worked on a statement, and is done with it.
    pub(crate) fn worked_at(&self) -> Option<ShardId> {
        match self {
            Reply::Worked { shard, .. } => Some(*shard),
            Reply::Derived { reply, .. } | Reply::Changed { reply, .. } => reply.worked_at(),
            _ => None,
        }
    }

    /// The transaction or read that it belongs to.
    pub fn txn(&self) -> TxnId {
        match self {
            Reply::Executed { txn, .. }
            | Reply::Unchanged { txn, .. }
            | Reply::Prepared { txn, .. }
            | Reply::Refused { txn, .. }
            | Reply::Busy { txn, .. }
            | Reply::Decided { txn, .. }
            | Reply::Committed { txn, .. }
            | Reply::Retired { txn, .. }
            | Reply::TooLarge { txn, .. }
            | Reply::Aborted { txn, .. }
            | Reply::Worked { txn, .. }
            | Reply::RolledBack { txn, .. }
            | Reply::Waits { txn, .. }
            | Reply::WaitsBesides { txn, .. }
            | Reply::ReadRows { read: txn, .. }
            | Reply::ReadStreams { read: txn, .. }
            | Reply::InOrder { txn, .. }
            | Reply::DecidedInOrder { txn, .. }
            | Reply::ReadAgain { read: txn, .. } => *txn,
            Reply::Raised { reply, .. } | Reply::Derived { reply, .. } | Reply::Changed { reply, .. } => {
                reply.txn()
            }
        }
    }
}
