//! The rows that a statement gave, one behind the other in one buffer that the next statement uses again.

use weir_types::Value;

#[derive(Debug, Default)]
pub(super) struct Returned {
    /// All rows have the same number of values.
    pub values: Vec<Value>,
    pub rows: usize,
}

impl Returned {
    pub fn clear(&mut self) {
        self.values.clear();
        self.rows = 0;
    }

    /// Takes all rows out.
    pub fn take_rows(&mut self) -> Vec<Vec<Value>> {
        let width = self.values.len().checked_div(self.rows).unwrap_or(0);
        let mut values = self.values.drain(..);
        let rows = (0..self.rows).map(|_| values.by_ref().take(width).collect()).collect();
        drop(values);
        self.rows = 0;
        rows
    }
}
