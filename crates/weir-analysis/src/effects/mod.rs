//! Possible effects of each procedure, by abstract interpretation of its bound form.
//!
//! Every statement that might run is recorded once, with the loops and branches around it and with a
//! symbolic [`Term`] for each value: loops and branches are covered, calls are followed, and a value keeps
//! its provenance (parameter, constant, column of a row read, generated …). Over-approximates: an effect
//! that cannot happen may be listed; one that can is never missing.

mod action;
mod condition;
mod dml;
mod expression;
mod interpret;
mod join;
mod query;
mod scope;
pub mod term;
mod trigger;

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::Span;
use weir_sql::catalog::{ColumnIndex, SequenceId, TableId};

pub use condition::Condition;
pub use expression::{OPAQUE, checked_sign, integer};
pub(crate) use interpret::effects as of_one;
pub use interpret::of_all;
pub use term::{Sign, Term, TermId, Terms};

/// A row (or rows) that one statement looks at; index into [`ProcedureEffects::reads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub u32);

/// Columns that a statement binds by equality, each to one value.
pub type Key = Vec<(ColumnIndex, TermId)>;

#[derive(Clone, Debug, Default)]
pub struct ProcedureEffects {
    /// Index into the application's procedures.
    pub procedure: usize,
    pub terms: Terms,
    pub reads: Vec<Read>,
    pub writes: Vec<Write>,
    /// Sequences that it draws numbers from.
    pub sequences: BTreeSet<SequenceId>,
    /// The sequence of each [`Term::Generated`]; `None` for UUIDs.
    pub generated: BTreeMap<u32, Option<SequenceId>>,
    /// Conditions on values that the text has tested.
    pub tested: Vec<Tested>,
    /// Positions of `RAISE EXCEPTION` and ASSERT.
    pub raises: Vec<Span>,
    /// It may stop between two related writes without an error.
    pub irregular: bool,
    /// Bodies that could not be followed on each path (recursion), and where.
    /// Proofs that add up what each path does say nothing of such a transaction.
    pub unknown: Vec<(String, Span)>,
    /// Tables that it writes to and that the schema does not have, and where.
    pub unseen: Vec<(String, Span)>,
    /// Sequences that it may set, so that they give a number once more.
    pub resets: BTreeSet<SequenceId>,
}

/// The outcome of an IF: it holds of every later write within the context.
#[derive(Clone, Debug)]
pub struct Tested {
    pub condition: Condition,
    /// The condition was not true and is therefore false, but only if nothing in it is NULL.
    pub unless_null: bool,
    pub context: Context,
    /// [`Moment::order`] from which on.
    pub order: usize,
}

impl Tested {
    pub fn holds_at(&self, write: &Write) -> bool {
        self.order <= write.moment.order && write.context.starts_with(&self.context)
    }
}

/// One table reference of one statement.
#[derive(Clone, Debug)]
pub struct Read {
    pub table: TableId,
    /// Columns whose value matters, those of conditions included.
    pub columns: BTreeSet<ColumnIndex>,
    /// Columns among them whose value is used for more than a condition.
    pub returned: BTreeSet<ColumnIndex>,
    pub key: Key,
    /// Further conditions on rows that matter to the statement.
    pub conditions: Vec<Condition>,
    /// Only the row with the lowest value of this column among those of the key (ORDER BY … LIMIT 1, min()).
    pub lowest: Option<ColumnIndex>,
    /// FOR UPDATE.
    pub locked: bool,
    /// Target of an UPDATE or DELETE without conditions besides the key.
    pub by_key_alone: bool,
    /// INTO STRICT: without a row the transaction ends.
    pub certain: bool,
    /// It is there for a foreign key's ON DELETE or ON UPDATE, not for a statement of its own.
    pub action: Option<Action>,
    pub context: Context,
    pub moment: Moment,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Write {
    pub table: TableId,
    pub operation: Operation,
    pub context: Context,
    pub moment: Moment,
    /// The statement; of an action the one that sets it off.
    pub span: Span,
    /// The foreign key that does it; `None` where a statement does.
    pub action: Option<Action>,
}

/// A foreign key's ON DELETE or ON UPDATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Action {
    /// The child.
    pub table: TableId,
    /// Index into its foreign keys.
    pub key: usize,
}

#[derive(Clone, Debug)]
pub enum Operation {
    Insert {
        /// One term for each column of the table.
        values: Vec<TermId>,
        on_conflict: Option<Conflict>,
    },
    Update {
        row: ReadId,
        columns: Vec<(ColumnIndex, ColumnOperation)>,
    },
    Delete {
        row: ReadId,
    },
}

/// ON CONFLICT.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The key that arbitrates; `None` is any.
    pub columns: Option<Vec<ColumnIndex>>,
    /// Empty for DO NOTHING.
    pub update: Vec<(ColumnIndex, ColumnOperation)>,
    /// Columns among them that the statement increments by amounts, which the engine merges as sums.
    pub adds: Vec<ColumnIndex>,
}

/// The change of one column of an existing row (design.md §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnOperation {
    Assign(TermId),
    /// By the term's value.
    Add(TermId),
    Max(TermId),
    Min(TermId),
    /// Another expression over the same row.
    Apply(TermId),
}

/// When a statement comes, in the order of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub order: usize,
    /// Number of places before it that may have left a loop, a block or a body.
    pub departures: u32,
}

/// The loops and branches around a statement, outermost first.
pub type Context = Vec<Frame>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Frame {
    /// Branch `branch` of the `branches` of an IF, a missing ELSE counted.
    Branch { site: u32, branch: u32, branches: u32 },
    /// Runs `count` times, where that is known.
    Loop { site: u32, count: Option<TermId> },
}

impl ProcedureEffects {
    pub fn read(&self, id: ReadId) -> &Read {
        &self.reads[id.0 as usize]
    }

    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty()
    }

    /// The columns that a write finds its rows by; for an insert, all of them.
    pub fn key_of(&self, write: &Write) -> Key {
        match &write.operation {
            Operation::Insert { values, .. } => values.iter().copied().enumerate().collect(),
            Operation::Update { row, .. } | Operation::Delete { row } => self.read(*row).key.clone(),
        }
    }
}

impl Write {
    pub fn is_insert(&self) -> bool {
        matches!(self.operation, Operation::Insert { .. })
    }

    pub fn is_delete(&self) -> bool {
        matches!(self.operation, Operation::Delete { .. })
    }

    /// Changes of existing rows, those of ON CONFLICT DO UPDATE included.
    pub fn updates(&self) -> &[(ColumnIndex, ColumnOperation)] {
        match &self.operation {
            Operation::Update { columns, .. } => columns,
            Operation::Insert { on_conflict: Some(conflict), .. } => &conflict.update,
            Operation::Insert { .. } | Operation::Delete { .. } => &[],
        }
    }

    /// A column to which it adds, as its text has it.
    pub fn adds_to(&self) -> Option<ColumnIndex> {
        let added = self.updates().iter().find(|(_, change)| matches!(change, ColumnOperation::Add(_)));
        match (&self.operation, added) {
            (_, Some((column, _))) => Some(*column),
            (Operation::Insert { on_conflict: Some(conflict), .. }, None) => conflict.adds.first().copied(),
            _ => None,
        }
    }

    pub fn update_of(&self, column: ColumnIndex) -> Option<ColumnOperation> {
        self.updates().iter().find(|(updated, _)| *updated == column).map(|(_, operation)| *operation)
    }
}

impl ColumnOperation {
    pub fn term(self) -> TermId {
        match self {
            ColumnOperation::Assign(term)
            | ColumnOperation::Add(term)
            | ColumnOperation::Max(term)
            | ColumnOperation::Min(term)
            | ColumnOperation::Apply(term) => term,
        }
    }
}
