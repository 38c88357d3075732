//! Orders of rows: ORDER BY's directions and places of NULL.

use std::cmp::Ordering;

use weir_sql::bound::SortOrder;
use weir_types::Value;
use weir_types::compare::compare;

/// One column's order.
#[inline]
pub fn compare_one(left: &Value, right: &Value, order: SortOrder) -> Ordering {
    match (left.is_null(), right.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if order.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if order.nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if order.descending => compare(right, left),
        (false, false) => compare(left, right),
    }
}

/// Key rows, column by column.
pub fn compare_by(left: &[Value], right: &[Value], orders: &[SortOrder]) -> Ordering {
    left.iter()
        .zip(right)
        .zip(orders)
        .map(|((left, right), order)| compare_one(left, right, *order))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Rows collected for ORDER BY; with a limit it never holds many more than the limit.
pub struct Sorter<'a> {
    rows: Vec<Vec<Value>>,
    order: &'a [(usize, SortOrder)],
    keep: Option<usize>,
}

impl<'a> Sorter<'a> {
    /// `keep`: only the first so many rows are wanted.
    pub fn new(order: &'a [(usize, SortOrder)], keep: Option<usize>) -> Sorter<'a> {
        Sorter { rows: Vec::new(), order, keep }
    }

    pub fn push(&mut self, row: Vec<Value>) {
        self.rows.push(row);
        if let Some(keep) = self.keep
            && self.rows.len() >= keep.saturating_mul(2).max(1024)
        {
            self.sort();
            self.rows.truncate(keep);
        }
    }

    fn sort(&mut self) {
        let order = self.order;
        self.rows.sort_by(|left, right| {
            order
                .iter()
                .map(|&(column, order)| compare_one(&left[column], &right[column], order))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        });
    }

    pub fn finish(mut self) -> Vec<Vec<Value>> {
        self.sort();
        self.rows
    }
}
