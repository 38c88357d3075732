//! What coordinators and participants of guarded RAMP say to each other (ramp.txt, Algorithm 1, with
//! what SQL needs: calls instead of values, guards, answers of round one).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_sql::Text;
use weir_sql::catalog::{ColumnIndex, SequenceId, TableId};
use weir_types::datetime::{SessionZone, TransactionTime};
use weir_types::interrupt::StatementId;
use weir_types::{Notice, SqlError, Value};

use crate::exec::deferred::Setting;
use crate::exec::definition::Definition;
use crate::exec::routing::shard_of_integer;
use crate::exec::sequences::SequenceValue;
use crate::machine::CoordinatorId;
use crate::storage::{Position, Timestamp};
use crate::termination::Fate;

/// Number of a shard of the cluster, from 0.
pub type ShardId = u16;

/// Names a transaction; orders nothing (S9). Sequences of one coordinator ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TxnId {
    pub coordinator: CoordinatorId,
    pub sequence: u64,
}

/// Who waits for whom at a guard (S7): the older transaction waits, the younger withdraws. A transaction
/// that withdrew comes back under a new id and its old age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Age {
    pub sequence: u64,
    pub coordinator: CoordinatorId,
}

/// Since when a transaction wants what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    pub age: Age,
    /// What the coordinator's clock showed (S9).
    pub at_ms: u64,
}

/// What a call runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Callee {
    /// A procedure of the program, by its index.
    Procedure(usize),
    /// A statement by itself.
    Text(Arc<Text>),
    /// A change of the schema, on all shards; only in a transaction of several statements.
    Definition(Arc<Definition>),
    /// Holds what its users have agreed to mean by the key, on the shard of that; only in a transaction of several statements.
    /// Gives whether it does: one that does not wait may not.
    AdvisoryLock { key: AdvisoryKey, waits: bool },
    /// SET CONSTRAINTS, and the look that comes before COMMIT; only in a transaction of several statements.
    Constraints(Setting),
    /// Asks a shard where its sequences stand; only in a transaction of several statements. Gives three values for each that has given
    /// one: its number, the last value, and how many it has given.
    Sequences,
    /// setval, at one shard: its share of the sequence goes on from that value, or behind it if it has been given. Takes effect at once,
    /// whatever becomes of the transaction that it is said in.
    SetSequence { shard: ShardId, sequence: SequenceId, value: i64, is_given: bool },
}

impl Callee {
    pub(crate) fn setting(&self) -> Option<&Setting> {
        match self {
            Callee::Constraints(setting) => Some(setting),
            _ => None,
        }
    }
}

/// What is locked by pg_advisory_lock. The two kinds have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AdvisoryKey {
    One(i64),
    Two(i32, i32),
}

impl AdvisoryKey {
    /// The shard that knows who holds it.
    pub fn home(self, shards: ShardId) -> ShardId {
        match self {
            AdvisoryKey::One(key) => shard_of_integer(key, shards),
            AdvisoryKey::Two(first, second) => {
                shard_of_integer(i64::from(first) << 32 | i64::from(second as u32), shards)
            }
        }
    }
}

/// One call of a procedure, or of a statement by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    pub callee: Callee,
    /// Of a statement by itself that inserts one row, there may be those of many rows, one after the other (docs/internals/server.md, "Many
    /// rows at once").
    pub args: Vec<Value>,
    /// What `now()` says, and the zone of the session.
    pub transaction_time: TransactionTime,
    /// Of the schema that it was bound to ([`crate::exec::definition`]).
    pub schema_version: u64,
}

/// What a fragment's statements gave, in the order of execution: what the statements of the last
/// participant may need (round one of the design). A statement gives FOUND, its row count and its INTO
/// values; a loop over a query the number of rows, then their values.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answers {
    pub values: Vec<Value>,
    /// The statement after those failed. The last participant fails with it when it comes to that
    /// statement, and not if it fails earlier: the error is the one of a serial execution.
    pub error: Option<SqlError>,
}

/// What the client gets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Output {
    /// OUT and INOUT parameters, or a function's value.
    pub values: Vec<Value>,
    /// Rows of a set-returning function.
    pub rows: Vec<Vec<Value>>,
    /// What sequences have given, the last at the end. In a message it is a record behind `values` ([`SequenceValue::record`]).
    #[serde(skip)]
    pub given: Vec<SequenceValue>,
    /// What it has said. It travels beside its reply ([`Reply::Raised`]), and is not written down.
    #[serde(skip)]
    pub notices: Vec<Notice>,
}

impl Output {
    /// As it comes out of a message.
    pub(super) fn unpacked(mut self) -> Output {
        if let Some(given) = self.values.last().and_then(SequenceValue::of_record) {
            self.given = given;
            self.values.pop();
        }
        self
    }
}

/// What the last participant is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Decision {
    pub call: Arc<Call>,
    /// All of them, itself last; none where nobody is to be told of siblings (the comparator `none`).
    pub participants: Arc<[ShardId]>,
    pub answers: Vec<(ShardId, Answers)>,
    /// Its timestamp must exceed this.
    pub above: Timestamp,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Prepare and commit in one message: the only participant.
    Execute {
        txn: TxnId,
        begun: Begun,
        call: Box<Call>,
    },
    /// Run this shard's part and keep its operations until COMMIT.
    Prepare {
        txn: TxnId,
        begun: Begun,
        call: Arc<Call>,
        participants: Arc<[ShardId]>,
    },
    /// The last participant: all others have prepared, so this one decides by running its part.
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
    /// Round one of a read: `query` of the program's reads, with its arguments. `session`: what the reader knew when it
    /// began.
    Read {
        read: TxnId,
        session: u64,
        query: Arc<ReadQuery>,
        /// The open transaction that asks, and sees what it has written; see [`Work::opened`].
        within: Option<(TxnId, u64)>,
    },
    /// Round two (S5): exactly the state at `position` plus the named transactions.
    ReadAt {
        read: TxnId,
        session: u64,
        query: Arc<ReadQuery>,
        position: Position,
        including: Vec<Sibling>,
        within: Option<(TxnId, u64)>,
    },
    /// The read is over: its position may be forgotten.
    EndRead {
        read: TxnId,
    },
    /// One participant asks another what has become of a transaction whose coordinator is silent, and says what
    /// it knows itself (termination).
    Ask {
        txn: TxnId,
        fate: Fate,
    },
    /// The answer.
    Tell {
        txn: TxnId,
        fate: Fate,
    },
    /// This shard's share of a statement of a transaction that stays open (interactive): what it writes is seen by the
    /// transaction alone, and held until its end.
    Work {
        txn: TxnId,
        begun: Begun,
        work: Box<Work>,
    },
    /// Ends an open transaction of several participants, for all but the last: from here on it is prepared.
    Bind {
        txn: TxnId,
        begun: Begun,
        participants: Arc<[ShardId]>,
        opened: u64,
    },
    /// Ends an open transaction: its only participant commits, or the last one, when all others have prepared.
    Finish {
        txn: TxnId,
        begun: Begun,
        /// As in [`Decision`]; none where nobody else takes part.
        participants: Arc<[ShardId]>,
        above: Timestamp,
        opened: u64,
    },
    /// Forgets what an open transaction has done here after that step of it, with the locks that it has taken since, and what it
    /// waits with. It is a step itself.
    RollBackTo {
        txn: TxnId,
        age: Age,
        number: u32,
        after: u32,
        /// As in [`Work`]; none: whether it has worked here is not known.
        opened: Option<u64>,
    },
    /// First round of a snapshot (docs/internals/snapshots.md): the shard's position, which is told as of a read without rows. From then
    /// on the shard holds its messages back. `session`: as in `Read`.
    OpenSnapshot {
        read: TxnId,
        session: u64,
        /// Of the schema.
        schema_version: u64,
    },
    /// Second round: the state at that position plus the named transactions stays to be read, under the name of `read`.
    KeepSnapshot {
        read: TxnId,
        session: u64,
        position: Position,
        including: Vec<Sibling>,
    },
    /// A read of that snapshot.
    ReadSnapshot {
        read: TxnId,
        snapshot: TxnId,
        query: Arc<ReadQuery>,
    },
    /// The snapshot must not be forgotten.
    SnapshotIsRead {
        snapshot: TxnId,
    },
    /// Nobody reads the snapshot any more, or its cut is over.
    EndSnapshot {
        snapshot: TxnId,
    },
}

/// One shard's share of one statement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    /// Of the step in its transaction, from 1: a statement, or a roll-back to a savepoint.
    pub number: u32,
    /// The transaction has worked here before, as the shard had started so often. One that has started again since has forgotten it;
    /// what comes late of its first statement must not begin it anew.
    pub opened: Option<u64>,
    pub call: Arc<Call>,
    /// Of the statement, in the order in which they are asked.
    pub participants: Arc<[ShardId]>,
    /// What the others have said, for the last.
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
            | Request::Finish { txn, .. } => *txn,
        }
    }

    /// In which it is evaluated.
    pub fn zone(&self) -> SessionZone {
        let time = match self {
            Request::Execute { call, .. } => Some(call.transaction_time),
            Request::Prepare { call, .. } | Request::Apply { call, .. } => Some(call.transaction_time),
            Request::Decide { decision, .. } => Some(decision.call.transaction_time),
            Request::Work { work, .. } => Some(work.call.transaction_time),
            Request::Read { query, .. }
            | Request::ReadAt { query, .. }
            | Request::ReadSnapshot { query, .. } => query.parts.as_ref().map(|parts| parts.transaction_time),
            _ => None,
        };
        time.map_or(SessionZone::UTC, |time| time.zone)
    }

    /// It is of a read.
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

    /// What may be interrupted: a statement of an open transaction has a number there.
    pub fn statement(&self) -> StatementId {
        let TxnId { coordinator, sequence } = self.txn();
        let number = if let Request::Work { work, .. } = self { work.number } else { 0 };
        (coordinator, sequence, number)
    }

    /// When its transaction began; none: it does not give the transaction a timestamp.
    pub fn begun_ms(&self) -> Option<u64> {
        match self {
            Request::Execute { begun, .. }
            | Request::Prepare { begun, .. }
            | Request::Decide { begun, .. }
            | Request::Apply { begun, .. }
            | Request::Work { begun, .. }
            | Request::Bind { begun, .. }
            | Request::Finish { begun, .. } => Some(begun.at_ms),
            _ => None,
        }
    }
}

/// Which rows a read wants of one shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadQuery {
    pub tables: Vec<TableRead>,
    /// Instead of tables.
    pub parts: Option<Box<PartsRead>>,
    /// Of the schema that it was bound to.
    pub schema_version: u64,
}

/// Parts of a query that the shard knows by its text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartsRead {
    pub text: Arc<Text>,
    /// Of its parameters.
    pub values: Vec<Value>,
    pub parts: Vec<u16>,
    pub transaction_time: TransactionTime,
}

/// Rows of one table whose named columns have the given values; all rows where there are none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableRead {
    pub table: TableId,
    pub equals: Vec<(ColumnIndex, Value)>,
    /// Only rows that match one of an earlier table of the same query: its position, and the pairs of own
    /// and its columns that are equal. The second statement of a read then sees what the first one saw.
    pub joined: Option<(usize, Vec<(ColumnIndex, ColumnIndex)>)>,
}

/// A transaction that a reader has seen at one shard and must see at its other participants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sibling {
    pub txn: TxnId,
    pub timestamp: Timestamp,
    pub participants: Arc<[ShardId]>,
}

/// What each batch of requests says of its coordinator: all its transactions below `settled_below` are over
/// everywhere, and all its reads that were active when it saw drain epoch `drained` have ended.
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
    /// Withdraw and retry under the old age (S7).
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
    /// `siblings`: transactions that the state contains and that may not be everywhere yet; `examined`: how
    /// many rows were looked at.
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
    /// The position is forgotten, or the shard does not know this reader: begin again, with this session (the paper's
    /// rule; never a null).
    ReadAgain {
        read: TxnId,
        shard: ShardId,
        session: u64,
    },
    /// The coordinator was silent for so long that its shards have forgotten it: it must not write any more, and what
    /// it has under way may have committed or not. Whoever drives it begins a new one, under a new id.
    Retired {
        txn: TxnId,
        shard: ShardId,
    },
    /// What it was to be answered is more than a message carries. A call has committed then, at that timestamp.
    TooLarge {
        txn: TxnId,
        shard: ShardId,
        committed: Option<Timestamp>,
    },
    /// The word of the abort has come. Said where it may be lost.
    Aborted {
        txn: TxnId,
        shard: ShardId,
    },
    /// What a shard's share of a statement has given; if it failed, nothing of it is left.
    Worked {
        txn: TxnId,
        shard: ShardId,
        number: u32,
        /// How often the shard has started.
        incarnation: u64,
        result: Result<(Answers, Output), SqlError>,
    },
    /// A statement waits there for what another transaction holds.
    Waits {
        txn: TxnId,
        shard: ShardId,
        holder: TxnId,
    },
    /// What was done after a savepoint is not there any more.
    RolledBack {
        txn: TxnId,
        shard: ShardId,
        number: u32,
        incarnation: u64,
    },
    /// What the call has said until it ended, well or not, and what is answered.
    Raised {
        notices: Vec<Notice>,
        reply: Box<Reply>,
    },
    /// Whom else a statement waits for beside whoever was told last.
    WaitsBesides {
        txn: TxnId,
        shard: ShardId,
        holders: Vec<TxnId>,
    },
}

impl Reply {
    /// As it is sent: with what was said, which is no part of what is kept.
    pub(crate) fn spoken(mut self) -> Reply {
        match self.notices_mut().map(std::mem::take) {
            Some(notices) if !notices.is_empty() => Reply::Raised { notices, reply: Box::new(self) },
            _ => self,
        }
    }

    /// As it was before it was sent.
    pub(super) fn heard(self) -> Reply {
        let Reply::Raised { notices, mut reply } = self else { return self };
        if let Some(place) = reply.notices_mut() {
            *place = notices;
        }
        *reply
    }

    fn notices_mut(&mut self) -> Option<&mut Vec<Notice>> {
        match self {
            Reply::Executed { result: Ok(output), .. }
            | Reply::Decided { output, .. }
            | Reply::Worked { result: Ok((_, output)), .. } => Some(&mut output.notices),
            Reply::Executed { result: Err(error), .. }
            | Reply::Refused { error, .. }
            | Reply::Worked { result: Err(error), .. } => Some(error.notices_mut()),
            _ => None,
        }
    }

    /// The transaction or read that it belongs to.
    pub fn txn(&self) -> TxnId {
        match self {
            Reply::Executed { txn, .. }
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
            | Reply::ReadAgain { read: txn, .. } => *txn,
            Reply::Raised { reply, .. } => reply.txn(),
        }
    }
}
