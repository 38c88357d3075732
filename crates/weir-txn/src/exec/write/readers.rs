//! Writes respect what serializable transactions have read (docs/internals/serializable.md).

use smallvec::SmallVec;
use weir_sql::catalog::TableId;

use crate::claims::Claims;
use crate::exec::call::{Run, Stop};
use crate::exec::global::Columns;
use crate::exec::worker::ClaimsOf;
use crate::faults::Faults;
use crate::storage::{IndexId, IndexSchema, KeyBytes, RowRef, Rows as _, key::push_key};

/// Key of a row in an index, without the row's number.
fn index_key(schema: &IndexSchema, value: Columns<'_>) -> KeyBytes {
    let mut key = KeyBytes::new();
    for column in &schema.columns {
        let at = column.column.expect("expression indexes are refused by the schema");
        push_key(&mut key, &value(at), column);
    }
    key
}

impl<F: Faults> Run<'_, F> {
    /// Stops at other transactions that hold an interval which contains the row as it is (`old`) or as it will be (`new`). A worker has
    /// claimed the table, of which nobody else holds an interval since.
    #[inline]
    pub(super) fn check_readers(
        &self,
        table: TableId,
        old: Option<u32>,
        new: Option<Columns<'_>>,
    ) -> Result<(), Stop> {
        match self.fragment.claims {
            ClaimsOf::Step(claims) if claims.has_intervals() => {
                self.wait_for_readers(claims, table, old, new)
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn wait_for_readers(
        &self,
        claims: &Claims,
        table: TableId,
        old: Option<u32>,
        new: Option<Columns<'_>>,
    ) -> Result<(), Stop> {
        if self.fragment.bugs.calls_pass_intervals() && self.fragment.open.is_none() {
            return Ok(());
        }
        let schema = self.fragment.program.schema.table(table);
        let keys = |index: IndexId| -> SmallVec<[KeyBytes; 2]> {
            let schema = &schema.indexes[index];
            let storage = &self.fragment.storage;
            let before = old.map(|row| {
                index_key(schema, &|column| storage.value(table, RowRef { shard: 0, row }, column))
            });
            before.into_iter().chain(new.map(|new| index_key(schema, new))).collect()
        };
        let readers = claims.readers_of(table, self.fragment.txn, &keys);
        if readers.is_empty() { Ok(()) } else { Err(Stop::Held(readers)) }
    }
}
