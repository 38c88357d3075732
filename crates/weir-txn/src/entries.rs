//! Numbers of the entries of global keys (docs/internals/global-keys.md), which messages and the storage share with those of tables.

use weir_sql::catalog::TableId;

/// Number of the entries of a table's global key among all tables. It has the highest bit set, which no table of a catalog has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntriesId {
    pub table: TableId,
    /// Position in `TableSchema::entries`.
    pub at: usize,
}

/// Number of a table's global keys, at most.
pub const GLOBAL_KEYS_MAX: usize = 1 << 7;

const ENTRIES: u32 = 1 << 31;
const TABLE_BITS: u32 = 24;

pub fn entries_id(table: TableId, at: usize) -> TableId {
    debug_assert!(at < GLOBAL_KEYS_MAX && table.0 < 1 << TABLE_BITS, "a number for each global key");
    TableId(ENTRIES | (at as u32) << TABLE_BITS | table.0)
}

impl EntriesId {
    /// None: the number of a table.
    #[inline]
    pub fn of(id: TableId) -> Option<EntriesId> {
        if id.0 & ENTRIES == 0 {
            return None;
        }
        let table = TableId(id.0 & ((1 << TABLE_BITS) - 1));
        Some(EntriesId { table, at: ((id.0 & !ENTRIES) >> TABLE_BITS) as usize })
    }
}
