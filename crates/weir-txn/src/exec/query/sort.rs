//! Orders of rows: ORDER BY's directions and places of NULL.

use std::cmp::Ordering;

use weir_sql::bound::SortOrder;
use weir_types::compare::compare;
use weir_types::interrupt::check;
use weir_types::{SqlError, Value};

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

    pub fn push(&mut self, row: Vec<Value>) -> Result<(), SqlError> {
        self.rows.push(row);
        if let Some(keep) = self.keep
            && self.rows.len() >= keep.saturating_mul(2).max(1024)
        {
            self.sort()?;
            self.rows.truncate(keep);
        }
        Ok(())
    }

    fn sort(&mut self) -> Result<(), SqlError> {
        let order = self.order;
        sort_by(&mut self.rows, |left, right| {
            order
                .iter()
                .map(|&(column, order)| compare_one(&left[column], &right[column], order))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        })
    }

    pub fn finish(mut self) -> Result<Vec<Vec<Value>>, SqlError> {
        self.sort()?;
        Ok(self.rows)
    }
}

/// Items that are sorted without a look at interrupts.
const RUN_LENGTH: usize = 4_096;

/// A stable sort that an interrupt ends; the items are in no order then, and some may be missing.
///
/// # Errors
/// The interrupt's.
pub fn sort_by<T: Default>(items: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) -> Result<(), SqlError> {
    let mut length = RUN_LENGTH;
    for run in items.chunks_mut(length) {
        check()?;
        run.sort_by(&compare);
    }
    let mut merged: Vec<T> = Vec::new();
    while length < items.len() {
        merged.reserve(items.len());
        for pair in items.chunks_mut(2 * length) {
            let (left, right) = pair.split_at_mut(length.min(pair.len()));
            let (mut at, mut other) = (0, 0);
            while at < left.len() || other < right.len() {
                check()?;
                let takes_left =
                    other == right.len() || at < left.len() && compare(&left[at], &right[other]).is_le();
                let (from, next) = if takes_left { (&mut *left, &mut at) } else { (&mut *right, &mut other) };
                merged.push(std::mem::take(&mut from[*next]));
                *next += 1;
            }
        }
        std::mem::swap(items, &mut merged);
        merged.clear();
        length *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sort_is_stable_as_a_short_one() {
        let mut items: Vec<(u32, u32)> =
            (0..30_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24, n)).collect();
        let mut expected = items.clone();
        expected.sort_by_key(|item| item.0);
        sort_by(&mut items, |left, right| left.0.cmp(&right.0)).unwrap();
        assert_eq!(items, expected);
    }
}
