//! Rows in the order of an index, so that nothing needs sorting and a LIMIT ends the visit early.

use weir_sql::bound::SortOrder;
use weir_sql::catalog::ColumnIndex;

use super::{Path, Range, TableAccess};
use crate::storage::{IndexColumn, Schema};

/// Sets the direction of the access (and, for a limited scan, its index); false if no index fits.
pub fn deliver_in_order(
    access: &mut TableAccess,
    order: &[(ColumnIndex, SortOrder)],
    limited: bool,
    ignore_nulls: bool,
    schema: &Schema,
) -> bool {
    // A column that is fixed by equality does not matter for the order.
    let fixed = |column: ColumnIndex| access.bound_columns.iter().any(|(bound, _)| *bound == column);
    let wanted: Vec<(ColumnIndex, SortOrder)> =
        order.iter().filter(|(column, _)| !fixed(*column)).copied().collect();
    if wanted.is_empty() {
        return true;
    }
    let indexes = &schema.table(access.table).indexes;
    match &mut access.path {
        Path::Get { .. } => true,
        Path::Gets { .. } | Path::Union(_) => false,
        Path::Range(range) => {
            let columns = &indexes[range.index].columns[range.prefix.len()..];
            match direction(columns, &wanted, ignore_nulls) {
                Some(reverse) => {
                    range.reverse = reverse;
                    true
                }
                None => false,
            }
        }
        Path::Scan if limited => {
            for (index, schema) in indexes.iter().enumerate() {
                if schema.predicate.is_none()
                    && let Some(reverse) = direction(&schema.columns, &wanted, ignore_nulls)
                {
                    access.path =
                        Path::Range(Range { index, prefix: Vec::new(), lower: None, upper: None, reverse });
                    return true;
                }
            }
            false
        }
        Path::Scan => false,
    }
}

/// Forwards or in reverse, if these index columns give the order at all.
fn direction(
    columns: &[IndexColumn],
    wanted: &[(ColumnIndex, SortOrder)],
    ignore_nulls: bool,
) -> Option<bool> {
    if columns.len() < wanted.len() {
        return None;
    }
    let fits = |reverse: bool| {
        columns.iter().zip(wanted).all(|(column, (wanted, order))| {
            column.column == Some(*wanted)
                && (column.descending != reverse) == order.descending
                && (ignore_nulls || !column.nullable || (column.nulls_first != reverse) == order.nulls_first)
        })
    };
    [false, true].into_iter().find(|&reverse| fits(reverse))
}
