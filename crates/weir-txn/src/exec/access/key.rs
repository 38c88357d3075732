//! Keys and key ranges computed from the values of one execution.

use weir_sql::catalog::TableId;
use weir_types::{SqlError, SqlType, Value};

use super::{Range, TableAccess, is_no_key};
use crate::exec::context::Cx;
use crate::exec::expr::CompiledExpr;
use crate::storage::key::push_key;
use crate::storage::{Boundary, IndexColumn, IndexId, KeyBytes, KeyRange, RowRef};

/// Encodes a row's identity as a value.
pub fn pack_row(row: RowRef) -> Value {
    Value::Int(i64::from(row.shard) << 32 | i64::from(row.row))
}

/// Inverse of [`pack_row`].
pub fn unpack_row(value: &Value) -> Option<RowRef> {
    match value {
        Value::Int(packed) => Some(RowRef { shard: (packed >> 32) as u16, row: *packed as u32 }),
        _ => None,
    }
}

/// Position of an integer relative to a column's range.
enum Fit {
    Fits,
    Below,
    Above,
}

#[inline]
fn fit(value: &Value, ty: &SqlType) -> Fit {
    let Value::Int(value) = value else { return Fit::Fits };
    let (minimum, maximum) = match ty {
        SqlType::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        SqlType::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => return Fit::Fits,
    };
    match value {
        value if *value < minimum => Fit::Below,
        value if *value > maximum => Fit::Above,
        _ => Fit::Fits,
    }
}

/// Pushes the byte that precedes every non-null value of a nullable column, as `push_key` does.
fn push_present(key: &mut KeyBytes, column: &IndexColumn) {
    if column.nullable {
        key.push(if column.descending { !1 } else { 1 });
    }
}

/// Appends the key columns from `first` on; false if a value cannot match any row.
pub fn push_keys(
    table: TableId,
    index: IndexId,
    first: usize,
    keys: &[CompiledExpr],
    key: &mut KeyBytes,
    cx: &mut Cx<'_>,
) -> Result<bool, SqlError> {
    let rows = cx.rows;
    let columns = &rows.schema().table(table).indexes[index].columns[first..];
    for (expr, column) in keys.iter().zip(columns) {
        let computed;
        let value = match expr.peek(cx.frame) {
            Some(value) => value,
            None => {
                computed = expr.eval(cx)?;
                &computed
            }
        };
        if !push_value(column, value, key) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Appends one key column; false if the value cannot match any row.
pub(super) fn push_value(column: &IndexColumn, value: &Value, key: &mut KeyBytes) -> bool {
    let matches = !is_no_key(value) && matches!(fit(value, &column.ty), Fit::Fits);
    if matches {
        push_key(key, value, column);
    }
    matches
}

impl TableAccess {
    /// The range in bytes; `None` if no row can match.
    pub(super) fn key_range(&self, range: &Range, cx: &mut Cx<'_>) -> Result<Option<KeyRange>, SqlError> {
        let mut prefix = KeyBytes::new();
        if !push_keys(self.table, range.index, 0, &range.prefix, &mut prefix, cx)? {
            return Ok(None);
        }
        if range.lower.is_none() && range.upper.is_none() {
            return Ok(Some(KeyRange::prefix(prefix)));
        }
        let rows = cx.rows;
        let column = &rows.schema().table(self.table).indexes[range.index].columns[range.prefix.len()];
        let mut present = prefix;
        push_present(&mut present, column);
        let mut ends = KeyRange::prefix(present.clone());
        for (bound, is_lower) in [(&range.lower, true), (&range.upper, false)] {
            let Some(bound) = bound else { continue };
            let value = bound.value.eval(cx)?;
            if is_no_key(&value) {
                return Ok(None);
            }
            match (fit(&value, &column.ty), is_lower) {
                (Fit::Fits, _) => {}
                (Fit::Below, true) | (Fit::Above, false) => continue,
                (Fit::Below, false) | (Fit::Above, true) => return Ok(None),
            }
            let mut bytes = present.clone();
            if column.nullable {
                bytes.pop();
            }
            push_key(&mut bytes, &value, column);
            // In a descending column the smaller value has the larger key.
            if is_lower != column.descending {
                ends.lower = Boundary { bytes, after: !bound.inclusive };
            } else {
                ends.upper = Boundary { bytes, after: bound.inclusive };
            }
        }
        Ok(Some(ends))
    }
}
