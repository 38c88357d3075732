//! Constraints that writes check: CHECK, and both sides of foreign keys.

use weir_sql::catalog::{ColumnIndex, Deferral, ForeignKeyAction, TableId};

use crate::exec::expr::CompiledExpr;
use crate::exec::slots::Slot;
use crate::storage::IndexId;

/// Constraints on every row of a table.
#[derive(Debug, Default)]
pub struct TableRules {
    pub checks: Vec<CheckRule>,
    pub foreign_keys: Vec<ForeignKeyRule>,
    /// Foreign keys of other tables that reference this one.
    pub referenced_by: Vec<Reference>,
}

#[derive(Debug)]
pub struct CheckRule {
    pub name: String,
    pub expr: CompiledExpr,
    pub columns: Vec<(ColumnIndex, Slot)>,
    pub slots: usize,
    pub cells: usize,
}

#[derive(Debug)]
pub struct ForeignKeyRule {
    pub name: String,
    pub parent: TableId,
    /// The parent's unique index; `key_columns` are the child's columns in its order.
    pub parent_index: IndexId,
    pub key_columns: Vec<ColumnIndex>,
    /// Positions in `key_columns` of the columns in the order in which they were declared.
    pub declared: Vec<usize>,
    /// Child columns whose values name the shard where the parent is found; `None`: the parent table is replicated.
    pub parent_partition: Option<Vec<ColumnIndex>>,
    /// They are those of the parent's key, which is global: the parent is found at the owner of the key, as a row or as an entry.
    pub by_key: bool,
    /// Parent and child always live on the same shard.
    pub together: bool,
    /// The parent's key is global, and the child lives at its owner, where the parent is found.
    pub beside_key: bool,
    /// Some procedure deletes parents, so a child must lock its parent (S12).
    pub parent_may_go: bool,
    pub deferral: Deferral,
}

impl ForeignKeyRule {
    /// Over several shards a parent may be found at another one than the rows that refer to it.
    pub fn is_distant(&self) -> bool {
        !self.together && !self.beside_key && self.parent_partition.is_some()
    }

    /// The parents of the rows of VALUES are looked up by their shards, which run the statement, too: what places them is among the values.
    pub fn is_looked_up_with_values(&self) -> bool {
        !self.by_key && self.deferral == Deferral::Never
    }
}

#[derive(Debug)]
pub struct Reference {
    pub child: TableId,
    pub name: String,
    pub columns: Vec<ColumnIndex>,
    pub parent_columns: Vec<ColumnIndex>,
    pub on_delete: ForeignKeyAction,
    pub on_update: ForeignKeyAction,
    /// Defaults of the columns, for SET DEFAULT.
    pub defaults: Vec<CompiledExpr>,
    /// An index of the child that begins with the columns, in their order.
    pub child_index: Option<IndexId>,
    pub together: bool,
    pub children: Children,
    /// The parent's key is global ([`ForeignKeyRule::by_key`]).
    pub by_key: bool,
    pub deferral: Deferral,
    /// Number of the same foreign key among the child's.
    pub rule: usize,
}

/// Shards where the children of a row may live, if not [`Reference::together`] with it.
#[derive(Debug)]
pub enum Children {
    /// The one that the key says: positions in [`Reference::columns`] of what places the child.
    OnOne(Vec<usize>),
    OnAny,
    /// Every shard has a copy.
    Copied,
}
