//! One write of a transaction, as it is prepared, logged and applied.

use weir_sql::catalog::TableId;

use super::operation::Operation;

/// One write of a prepared transaction. `row` is the slot that was found; none for an insert.
#[derive(Clone, Debug)]
pub struct Write {
    pub table: TableId,
    pub row: Option<u32>,
    pub operation: Operation,
}
