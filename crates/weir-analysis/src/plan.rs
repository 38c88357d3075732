//! The plan: where rows live, and by which mechanism each transaction commits (design.md §4).
//!
//! Only the vocabulary; [`crate::planner`] fills it in.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_sql::Span;
use weir_sql::catalog::{ColumnIndex, TableId};

use crate::invariant::InvariantId;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// By [`TableId`].
    pub placement: Arc<[Placement]>,
    /// By procedure index.
    pub transactions: Vec<TransactionPlan>,
}

/// Where the rows of a table live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// On the shard that the values of these columns name. Never empty.
    Partitioned { columns: Arc<[ColumnIndex]> },
    /// A copy on every shard.
    Replicated,
}

impl Placement {
    /// The columns that name the shard of a row; none if every shard has a copy.
    pub fn columns(&self) -> Option<&[ColumnIndex]> {
        match self {
            Placement::Partitioned { columns } => Some(columns),
            Placement::Replicated => None,
        }
    }
}

/// Cheapest first: the ladder of design.md §4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mechanism {
    /// One shard, one message, no waiting.
    Merge,
    /// Prepare and commit on several shards, or a guard to take; no transaction blocks another.
    Ramp,
    /// Serializable and one-shot, and all shards decide alike (soundness S2).
    Ordered,
    /// Two ordered transactions with locks between.
    General,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Requirement {
    /// Keep the declared invariants.
    Invariants,
    /// Be serializable: `ALTER PROCEDURE … SET default_transaction_isolation = 'serializable'`.
    Serializable,
}

/// Operation Partitioning's class of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Class {
    Commutative,
    Local,
    Global,
    LocalOrGlobal,
}

/// The mechanism and routing of one procedure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionPlan {
    /// Index into the application's procedures.
    pub procedure: usize,
    pub read_only: bool,
    /// Every verdict on it is confluent without any guard.
    pub confluent: bool,
    pub mechanism: Mechanism,
    /// Guards that the prepare or the commit takes at an item's owner. Empty for merge and ordered; for general those that its locks do not replace.
    pub guards: Vec<Guard>,
    /// Number of message round trips until the client has its answer, without conflicts.
    pub round_trips: RoundTrips,
    pub requirement: Requirement,
    /// Reason for this mechanism.
    pub why: String,
    /// The procedure because of which this one has left the merge family (soundness S13).
    pub promoted_by: Option<usize>,
    /// Every statement names the same values for its table's partition columns, so one shard does it all.
    pub single_partition: bool,
    /// Parameters that name partitions, by index.
    pub partitioning_parameters: Vec<usize>,
    pub class: Class,
}

pub type RoundTrips = u32;

/// The engine's answer to the calls of one transaction. Only the record: who executes plans says it (`weir_txn::exec::admission`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    pub on_one_shard: bool,
    /// Every call runs on several shards, wherever its rows are.
    pub on_several: bool,
    /// On several shards, those calls run whose rows are on one of them.
    pub single_shard_calls: bool,
    /// Calls over several shards are interactive: each statement takes round trips of its own. The reason why they are no single message.
    pub interactive: Option<String>,
    /// Why not everywhere.
    pub refused: Option<Refused>,
    /// On several shards, calls that meet certain rows are refused so, and do nothing; those that meet none run.
    pub when_met: Vec<Refused>,
}

impl Runs {
    /// The rows that a call meets are all that it is refused by.
    pub fn is_refused_by_rows(&self) -> bool {
        self.on_one_shard && !self.on_several && self.refused.as_ref() == self.when_met.first()
    }
}

/// The error that a refused call gets, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The SQLSTATE.
    pub state: String,
    pub reason: String,
    pub instead: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GuardKind {
    /// A dense number, taken at the counter's owner at commit (soundness S4).
    Sequence,
    /// A share of what a bounded counter may still be lowered by (soundness S15).
    Escrow,
    /// A test-and-set on a value or a row at its owner (soundness S7, S12).
    Claim,
    /// An exclusive lock on each row that the statement writes, from the check of its values to the commit. Every writer respects it,
    /// those too that take no guard (soundness S14).
    Lock,
    /// The check of the assertion with this index among the application's, before the commit and under locks of all that was read: the
    /// transaction is not shown to keep it by itself.
    Check(u32),
}

/// A test-and-set on one item at that item's owner, carried by a message of the same RAMP write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    pub kind: GuardKind,
    /// Table of the counter (sequence, escrow), or of the row or value that is claimed; of a check without meaning.
    pub table: TableId,
    /// The counter's column; for a claim the columns that identify the row or value.
    pub columns: Vec<ColumnIndex>,
    /// A claim that others may hold too: an insert's claim on its parent row. False for all other guards.
    pub shared: bool,
    /// The statement that takes it.
    pub statement: Span,
    /// Invariants that would break without it.
    pub keeps: Vec<InvariantId>,
    pub why: String,
}

impl TransactionPlan {
    /// Returns whether it checks assertions before it commits.
    pub fn checks(&self) -> bool {
        self.guards.iter().any(|guard| matches!(guard.kind, GuardKind::Check(_)))
    }
}

impl Plan {
    pub fn placement(&self, table: TableId) -> &Placement {
        &self.placement[table.0 as usize]
    }
}

impl Mechanism {
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Merge => "merge",
            Mechanism::Ramp => "ramp",
            Mechanism::Ordered => "ordered",
            Mechanism::General => "general",
        }
    }

    /// Ordered and general transactions are serializable among each other, and only among each other.
    pub fn is_ordered_family(self) -> bool {
        matches!(self, Mechanism::Ordered | Mechanism::General)
    }
}

impl Requirement {
    pub fn name(self) -> &'static str {
        match self {
            Requirement::Invariants => "invariants",
            Requirement::Serializable => "serializable",
        }
    }
}

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Class::Commutative => "commutative",
            Class::Local => "local",
            Class::Global => "global",
            Class::LocalOrGlobal => "local/global",
        }
    }
}

impl GuardKind {
    pub fn name(self) -> &'static str {
        match self {
            GuardKind::Sequence => "sequence",
            GuardKind::Escrow => "escrow",
            GuardKind::Claim => "claim",
            GuardKind::Lock => "lock",
            GuardKind::Check(_) => "check",
        }
    }
}
