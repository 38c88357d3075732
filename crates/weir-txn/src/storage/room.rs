//! Limits of disk and memory. A write that would exceed them is rejected before it happens; reads and shrinking writes proceed.

use weir_sql::catalog::TableId;
use weir_types::{SqlError, SqlState};

use super::Storage;

/// Limits that make a shard reject writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    /// The disk may have no space for further log records.
    pub disk_is_full: bool,
    /// Limit of the bytes of rows and their indexes.
    pub bytes_max: Option<usize>,
    /// Bytes at the last measurement, if above the limit.
    bytes_over: Option<usize>,
}

impl Storage {
    /// Measures the bytes of rows and indexes, plus `beside` more, if a limit is set. Called periodically, because it is too slow for
    /// each write.
    pub fn look_at_memory(&mut self, beside: usize) {
        let Some(most) = self.room.bytes_max else { return };
        let rows: usize =
            (0..self.tables.of_tables().len() as u32).map(|at| self.about_bytes(TableId(at))).sum();
        let bytes = rows + beside;
        self.room.bytes_over = Some(bytes).filter(|bytes| *bytes >= most);
    }

    /// Checks that a write may begin.
    ///
    /// # Errors
    /// 53100.
    pub fn check_disk(&self) -> Result<(), SqlError> {
        if self.room.disk_is_full { Err(disk_full()) } else { Ok(()) }
    }

    /// Checks that rows may grow.
    ///
    /// # Errors
    /// 53200.
    pub(super) fn check_memory(&self) -> Result<(), SqlError> {
        let Some((bytes, most)) = self.room.bytes_over.zip(self.room.bytes_max) else { return Ok(()) };
        let message = format!("out of memory: the rows of a shard take {bytes} bytes, and may take {most}");
        Err(SqlError::new(SqlState::OUT_OF_MEMORY, message)
            .with_hint("Delete rows, or start the node with a larger --memory; reads and deletes go on."))
    }
}

pub fn disk_full() -> SqlError {
    SqlError::new(SqlState::DISK_FULL, "could not write to the log: no space left on device").with_hint(
        "Make room on the disk of --data; reads go on, and writes are taken again once there is room.",
    )
}
