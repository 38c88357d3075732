//! How many rows tables have, for the order of joins: what a shard has seen of late, in steps.
//!
//! Only plans of queries by themselves are made with it, and made again when a table has changed its size; procedures and statements
//! that write are compiled once, when their tables may be empty yet.

use std::sync::atomic::{AtomicUsize, Ordering};

use weir_sql::catalog::TableId;

/// What a table is assumed to hold that nobody has counted.
pub const TABLE_ROWS: f64 = 100_000.0;

/// Smaller tables are planned for as if they had so many: they may grow before anybody looks again.
const ROWS_MIN: usize = 1_000;

/// Less of a change makes no other plan worth its while.
const STEP: usize = 4;

/// By table; 0 of those that nobody has counted.
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

    /// Says whether plans may be others now.
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
