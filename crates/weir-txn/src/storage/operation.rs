//! Operations on one row, and the fold that turns a set of them into the row (design: "a bag of operations, merged by union").
//!
//! Every operation is total (S8): on an absent row, or where its arithmetic fails, it changes nothing. So the fold of a set of operations
//! in timestamp order has the same result wherever and whenever it is computed, and merging is commutative, associative and idempotent.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::Timestamp;
use weir_sql::Text;
use weir_sql::catalog::ColumnIndex;
use weir_types::compare::compare;
use weir_types::datetime::TransactionTime;
use weir_types::operator::{BinaryOp, binary};
use weir_types::{SqlError, SqlType, Value};

use super::layout::{Layout, Packed};

#[derive(Clone, Debug)]
pub enum Operation {
    Insert(Packed),
    Update(Arc<[ColumnOperation]>),
    /// An update whose column values are computed only if the operation is folded.
    Statement(Arc<dyn RowStatement>),
    Delete,
}

#[derive(Clone, Debug)]
pub struct ColumnOperation {
    pub column: ColumnIndex,
    pub change: ColumnChange,
}

#[derive(Clone, Debug)]
pub enum ColumnChange {
    Assign(Value),
    Add(Value),
    Max(Value),
    Min(Value),
    /// Any other expression over the same row, with the values captured from the transaction.
    Apply(Arc<dyn RowFunction>),
}

/// Identifies an UPDATE, so that it can be compiled again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum UpdateName {
    /// Its number in the program.
    Program(u32),
    /// An UPDATE of an ad-hoc statement, with its number there.
    Text(Arc<Text>, u32),
}

/// An UPDATE and the values that an execution captured: enough to rebuild its functions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowName {
    pub update: UpdateName,
    pub captured: Vec<Value>,
    /// Transaction time and zone with which it is always evaluated.
    pub transaction_time: TransactionTime,
}

/// Resolves functions by their names; implemented by the program.
pub trait Functions {
    fn statement(&self, name: &RowName) -> Arc<dyn RowStatement>;
    fn function(&self, assignment: u32, name: &RowName) -> Arc<dyn RowFunction>;
}

/// An UPDATE of one row, with the values captured from the transaction.
pub trait RowStatement: fmt::Debug + Send + Sync {
    fn name(&self) -> RowName;
    fn columns(&self) -> Result<Vec<ColumnOperation>, SqlError>;
    /// Returns whether it assigns one of the columns for which `is_meant` holds.
    fn assigns(&self, is_meant: &dyn Fn(ColumnIndex) -> bool) -> bool;
}

impl Operation {
    /// Returns whether it deletes the row, or assigns one of the columns for which `is_meant` holds.
    pub fn takes(&self, is_meant: &dyn Fn(ColumnIndex) -> bool) -> bool {
        match self {
            Operation::Insert(_) | Operation::Delete => true,
            Operation::Update(columns) => columns.iter().any(|column| is_meant(column.column)),
            Operation::Statement(statement) => statement.assigns(is_meant),
        }
    }
}

/// A pure function of one row.
pub trait RowFunction: fmt::Debug + Send + Sync {
    /// Number of the assignment in its statement, and the statement's name.
    fn name(&self) -> (u32, RowName);
    fn evaluate(&self, read: &dyn Fn(ColumnIndex) -> Value) -> Result<Value, SqlError>;
}

/// Applies one operation to a row. `types`: the table's column types.
pub fn fold(
    layout: &Layout,
    types: &[SqlType],
    row: Option<Packed>,
    operation: &Operation,
    timestamp: Timestamp,
) -> Option<Packed> {
    match (operation, row) {
        (Operation::Insert(packed), _) => {
            let mut packed = packed.clone();
            Layout::set_timestamp(&mut packed, timestamp.clock);
            Some(packed)
        }
        (Operation::Delete, _) | (Operation::Update(_) | Operation::Statement(_), None) => None,
        // Total (S8): an error leaves the row unchanged.
        (Operation::Statement(statement), Some(row)) => match statement.columns() {
            Ok(columns) => Some(update(layout, types, row, &columns, timestamp)),
            Err(_) => Some(row),
        },
        (Operation::Update(columns), Some(row)) => Some(update(layout, types, row, columns, timestamp)),
    }
}

fn update(
    layout: &Layout,
    types: &[SqlType],
    row: Packed,
    columns: &[ColumnOperation],
    timestamp: Timestamp,
) -> Packed {
    let changes = evaluate(layout, types, &row, columns);
    layout.changed(&row, timestamp.clock, &changes)
}

/// Assignments that an update makes on this row. Columns whose arithmetic fails keep their values.
pub fn evaluate(
    layout: &Layout,
    types: &[SqlType],
    row: &[u8],
    columns: &[ColumnOperation],
) -> Vec<(ColumnIndex, Value)> {
    let mut changes = Vec::with_capacity(columns.len());
    for ColumnOperation { column, change } in columns {
        let current = || layout.read(row, *column);
        let ty = &types[*column];
        let value = match change {
            ColumnChange::Assign(value) => Some(value.clone()),
            ColumnChange::Add(delta) => add(ty, &current(), delta),
            ColumnChange::Max(value) => Some(extreme(&current(), value, std::cmp::Ordering::Less)),
            ColumnChange::Min(value) => Some(extreme(&current(), value, std::cmp::Ordering::Greater)),
            ColumnChange::Apply(function) => function.evaluate(&|column| layout.read(row, column)).ok(),
        };
        if let Some(value) = value {
            changes.push((*column, value));
        }
    }
    changes
}

/// The sum as the column has it; none: it overflows.
pub(crate) fn add(ty: &SqlType, current: &Value, delta: &Value) -> Option<Value> {
    if current.is_null() || delta.is_null() {
        return Some(Value::Null);
    }
    let base = ty.base();
    let sum = binary(BinaryOp::Add, &base, &base, &base, current, delta).ok()?;
    weir_types::cast::cast(&sum, &base, ty, weir_types::cast::CastContext::Assignment).ok()
}

/// `greatest`/`least`: NULLs are ignored.
fn extreme(current: &Value, value: &Value, replace_when: std::cmp::Ordering) -> Value {
    let replace = current.is_null() || (!value.is_null() && compare(current, value) == replace_when);
    if replace { value.clone() } else { current.clone() }
}
