//! A naive table store for the executor: vectors of rows, and a map per index.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use weir_sql::bound::RelationId;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_txn::exec::{CompiledExpr, Compiler, Cx, Environment, Frame, SlotAllocator};
use weir_txn::storage::key::push_key;
use weir_txn::storage::rows::Visit;
use weir_txn::storage::{IndexId, KeyBytes, KeyRange, RowRef, Rows, Schema};
use weir_types::{SqlError, SqlState, Value};

pub struct MemoryRows {
    schema: Schema,
    rows: Vec<Vec<Vec<Value>>>,
    /// By table and index: the key, then the row's number so that equal keys stay apart.
    indexes: Vec<Vec<BTreeMap<(KeyBytes, u32), ()>>>,
}

/// Statements of the tests ask for no sequence and no chance.
pub struct NoEnvironment;

impl Environment for NoEnvironment {
    fn next_value(&mut self, _: weir_sql::catalog::SequenceId) -> Result<Value, SqlError> {
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "nextval"))
    }

    fn current_value(&mut self, _: weir_sql::catalog::SequenceId) -> Result<Value, SqlError> {
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "currval"))
    }

    fn volatile(&mut self, _: weir_sql::bound::VolatileFunction) -> Result<Value, SqlError> {
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "volatile function"))
    }
}

impl MemoryRows {
    pub fn new(schema: Schema) -> MemoryRows {
        let rows = schema.tables.iter().map(|_| Vec::new()).collect();
        let indexes = schema.tables.iter().map(|table| vec![BTreeMap::new(); table.indexes.len()]).collect();
        MemoryRows { schema, rows, indexes }
    }

    pub fn insert(&mut self, table: TableId, row: Vec<Value>) {
        let number = self.rows[table.0 as usize].len() as u32;
        let schema = self.schema.clone();
        for (index, index_schema) in schema.table(table).indexes.iter().enumerate() {
            let mut key = KeyBytes::new();
            for column in &index_schema.columns {
                let value = self.evaluate(&column.expr, &row);
                push_key(&mut key, &value, column);
            }
            self.indexes[table.0 as usize][index].insert((key, number), ());
        }
        self.rows[table.0 as usize].push(row);
    }

    fn evaluate(&self, expr: &weir_sql::bound::Expr, row: &[Value]) -> Value {
        let mut slots = SlotAllocator::new(0);
        slots.begin_expr(expr);
        let compiled = CompiledExpr::compile(expr, &mut Compiler::new(&self.schema, &mut slots));
        let compiled = compiled.expect("an index expression compiles");
        let mut frame = Frame::new(&slots);
        for (column, slot) in slots.columns_of(RelationId(0)) {
            frame.set(slot, row[column].clone());
        }
        let mut environment = NoEnvironment;
        let mut cx =
            Cx { frame: &mut frame, rows: self, transaction_time: 0.into(), environment: &mut environment };
        compiled.eval(&mut cx).expect("an index expression has a value")
    }

    fn in_range(key: &KeyBytes, range: &KeyRange) -> bool {
        let above = match range.lower.after {
            false => key[..] >= range.lower.bytes[..],
            true => key[..] > range.lower.bytes[..] && !key.starts_with(&range.lower.bytes),
        };
        let below = match range.upper.after {
            false => key[..] < range.upper.bytes[..],
            true => key[..] < range.upper.bytes[..] || key.starts_with(&range.upper.bytes),
        };
        above && below
    }
}

impl Rows for MemoryRows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn get(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef> {
        let entries = &self.indexes[table.0 as usize][index];
        let found = entries.keys().find(|(entry, _)| entry[..] == key[..]);
        found.map(|&(_, row)| RowRef { shard: 0, row })
    }

    fn range(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let entries = self.indexes[table.0 as usize][index].keys();
        let mut rows: Vec<u32> =
            entries.filter(|(key, _)| Self::in_range(key, range)).map(|&(_, row)| row).collect();
        if reverse {
            rows.reverse();
        }
        for row in rows {
            if visit(RowRef { shard: 0, row })?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn scan(&self, table: TableId, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        for row in 0..self.rows[table.0 as usize].len() as u32 {
            if visit(RowRef { shard: 0, row })?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn value(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Value {
        self.rows[table.0 as usize][row.row as usize][column].clone()
    }

    fn row_count(&self, table: TableId) -> usize {
        self.rows[table.0 as usize].len()
    }
}
