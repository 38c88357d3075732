//! Approximate row counts of tables for join order, as last reported by a shard.
//!
//! Only ad-hoc queries are planned with them, and planned again when a table's size has changed. Procedures and writing statements are
//! compiled once, possibly while their tables are empty.

use std::sync::atomic::{AtomicUsize, Ordering};

use weir_sql::catalog::TableId;

/// Assumed size of a table without a count.
pub const TABLE_ROWS: f64 = 100_000.0;

/// Smaller tables are planned as if they had this many rows: they may grow before the next count.
const ROWS_MIN: usize = 1_000;

/// Factor by which a count must change before queries are planned again.
const STEP: usize = 4;

/// By table; 0 if not counted.
#[derive(Debug)]
pub struct RowCounts(Vec<AtomicUsize>);

impl RowCounts {
    pub fn new(tables: usize) -> RowCounts {
        RowCounts((0..tables).map(|_| AtomicUsize::new(0)).collect())
    }

    pub fn of(&self, table: TableId) -> Option<f64> {
        let told = self.0.get(table.0 as usize)?.load(Ordering::Relaxed);
        (told > 0).then_some(told as f64)
    }

    /// Reports new counts; returns whether plans may change.
    pub fn tell(&self, counts: impl Iterator<Item = usize>) -> bool {
        let mut has_changed = false;
        for (told, now) in self.0.iter().zip(counts) {
            let (before, now) = (told.load(Ordering::Relaxed), now.max(ROWS_MIN));
            if before == 0 || now >= STEP.saturating_mul(before) || before >= STEP * now {
                told.store(now, Ordering::Relaxed);
                has_changed = true;
            }
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_are_passed_over() {
        let counts = RowCounts::new(2);
        assert_eq!(counts.of(TableId(0)), None);
        assert!(counts.tell([0, 5_000].into_iter()));
        assert_eq!((counts.of(TableId(0)), counts.of(TableId(1))), (Some(1_000.0), Some(5_000.0)));
        assert!(!counts.tell([3_999, 1_251].into_iter()));
        assert!(counts.tell([4_000, 1_250].into_iter()));
        assert_eq!((counts.of(TableId(0)), counts.of(TableId(1))), (Some(4_000.0), Some(1_250.0)));
        assert_eq!(counts.of(TableId(2)), None);
    }
}
