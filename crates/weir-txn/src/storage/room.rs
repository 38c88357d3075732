//! What there is no room for is refused before it happens: reads go on, and what takes no room.

use weir_sql::catalog::TableId;
use weir_types::{SqlError, SqlState};

use super::Storage;

/// What keeps a shard from taking writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    /// There may be no room for what has to be written down.
    pub disk_is_full: bool,
    /// Rows and their indexes may take so many bytes.
    pub bytes_max: Option<usize>,
    /// What they took when that was looked at last, if it was too much.
    bytes_over: Option<usize>,
}

impl Storage {
    /// Looks at what rows and indexes take, if that is bounded, and so many bytes beside them. It is done every so often, for it is no work
    /// of a write.
    pub fn look_at_memory(&mut self, beside: usize) {
        let Some(most) = self.room.bytes_max else { return };
        let rows: usize = (0..self.tables.len() as u32).map(|at| self.about_bytes(TableId(at))).sum();
        let bytes = rows + beside;
        self.room.bytes_over = Some(bytes).filter(|bytes| *bytes >= most);
    }

    /// A write may be begun.
    ///
    /// # Errors
    /// 53100.
    pub fn check_disk(&self) -> Result<(), SqlError> {
        if self.room.disk_is_full { Err(disk_full()) } else { Ok(()) }
    }

    /// Rows may take more room than now.
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
