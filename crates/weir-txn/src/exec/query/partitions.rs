//! Hash tables that exceed the working memory: rows whose key has no room go to temporary files, by the hash of the key, and each of these
//! partitions is worked through later, as a table of its own.

use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::vec::IntoIter;

use rustc_hash::FxBuildHasher;
use weir_types::{SqlError, Value};

use crate::exec::context::Flow;
use crate::storage::temporary::{Spool, SpooledRows, TemporaryFiles};

/// Number of partitions of a table.
const PARTITIONS: usize = 32;

/// A partition of a partition, and so on, is partitioned no more than so often. What has no room then has the same few keys, or the
/// working memory is tiny; it stays in memory.
pub const DEPTH_MAX: u32 = 4;

/// Rows by the hash of their key.
pub struct Partitions<'f> {
    spools: Vec<Spool<'f>>,
    depth: u32,
}

impl<'f> Partitions<'f> {
    /// `depth`: number of times that the rows have been partitioned before.
    pub fn new(files: &'f dyn TemporaryFiles, depth: u32) -> Partitions<'f> {
        Partitions { spools: (0..PARTITIONS).map(|_| Spool::new(files)).collect(), depth }
    }

    pub fn push(&mut self, key: &[Value], row: &[Value]) -> Result<(), SqlError> {
        // Each depth has a hash function of its own, and hash tables have another one.
        let hash = FxBuildHasher.hash_one((self.depth + 1, key));
        self.spools[(hash >> 32) as usize % PARTITIONS].push(row)
    }

    pub fn into_parts(self) -> impl Iterator<Item = SpooledRows<'f>> {
        self.spools.into_iter().map(Spool::into_rows)
    }
}

/// Room of one hash table, and the rows for which there is none.
pub struct Room<'f> {
    /// None: it has room for all.
    files: Option<&'f dyn TemporaryFiles>,
    /// Bytes that the table takes.
    taken: usize,
    depth: u32,
    partitions: Option<Partitions<'f>>,
}

impl<'f> Room<'f> {
    pub fn new(files: Option<&'f dyn TemporaryFiles>) -> Room<'f> {
        Room::at_depth(files, 0)
    }

    fn at_depth(files: Option<&'f dyn TemporaryFiles>, depth: u32) -> Room<'f> {
        Room { files: files.filter(|_| depth < DEPTH_MAX), taken: 0, depth, partitions: None }
    }

    /// Returns whether a new key may enter the table. Once there is no room, there is none for any new key.
    #[inline]
    pub fn has_any(&self) -> bool {
        self.files.is_none_or(|files| self.partitions.is_none() && self.taken <= files.memory().hash_bytes)
    }

    /// The table has grown by so many bytes; they are computed where they count.
    #[inline]
    pub fn take(&mut self, bytes: impl FnOnce() -> usize) {
        if self.files.is_some() {
            self.taken += bytes();
        }
    }

    /// Keeps a row for later. Only where there is no room.
    pub fn push(&mut self, key: &[Value], row: &[Value]) -> Result<(), SqlError> {
        let files = self.files.expect("without files there is room");
        self.partitions.get_or_insert_with(|| Partitions::new(files, self.depth)).push(key, row)
    }

    /// Calls `work` for each partition of what is kept, with the room of its table; what that keeps comes next. No key is in two partitions.
    /// `work` gives the room back, and says whether to go on.
    pub fn work_through(
        self,
        mut work: impl FnMut(SpooledRows<'f>, Room<'f>) -> Result<(ControlFlow<()>, Room<'f>), SqlError>,
    ) -> Flow {
        let files = self.files;
        let mut pending = vec![self.into_parts()];
        while let Some((depth, parts)) = pending.last_mut() {
            let Some(rows) = parts.next() else {
                pending.pop();
                continue;
            };
            let (flow, room) = work(rows, Room::at_depth(files, *depth))?;
            if flow.is_break() {
                return Ok(flow);
            }
            pending.push(room.into_parts());
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The partitions, and how often their rows have been partitioned.
    fn into_parts(self) -> (u32, IntoIter<SpooledRows<'f>>) {
        let parts = self.partitions.map(|partitions| partitions.into_parts().collect::<Vec<_>>());
        (self.depth + 1, parts.unwrap_or_default().into_iter())
    }
}

#[cfg(test)]
mod tests {
    use weir_types::memory::WorkingMemory;

    use super::*;
    use crate::exec::query::hash::ValueSet;
    use crate::storage::temporary::InMemory;

    /// Distinct numbers, with room for some of them at a time.
    fn distinct(numbers: impl Iterator<Item = i64>, hash_bytes: usize) -> (Vec<i64>, usize) {
        let memory = WorkingMemory { hash_bytes, sort_bytes: 0, ..WorkingMemory::default() };
        let files = InMemory::of(memory);
        let mut found = Vec::new();
        let mut offer = |row: &[Value], seen: &mut ValueSet, room: &mut Room<'_>| {
            if seen.contains(row) {
                return;
            }
            if !room.has_any() {
                return room.push(row, row).unwrap();
            }
            seen.insert(row);
            room.take(|| Value::row_bytes(row));
            let Value::Int(number) = row[0] else { panic!("{row:?}") };
            found.push(number);
        };
        let (mut seen, mut room) = (ValueSet::default(), Room::new(Some(&files)));
        numbers.for_each(|number| offer(&[Value::Int(number)], &mut seen, &mut room));
        let flow = room.work_through(|mut rows, mut room| {
            let mut seen = ValueSet::default();
            while let Some(row) = rows.next_row()? {
                offer(&row, &mut seen, &mut room);
            }
            Ok((ControlFlow::Continue(()), room))
        });
        assert!(flow.unwrap().is_continue());
        assert_eq!(files.bytes_now(), 0);
        found.sort_unstable();
        (found, files.files.get())
    }

    #[test]
    fn every_key_is_found_once_whatever_room_there_is() {
        let numbers = || (0..60_000_i64).map(|n| n * 7 % 20_000);
        let all: Vec<i64> = (0..20_000).collect();
        assert_eq!(distinct(numbers(), 1 << 30), (all.clone(), 0));
        for bytes in [500_000, 50_000, 0] {
            let (found, files) = distinct(numbers(), bytes);
            assert_eq!(found, all, "{bytes}");
            assert!(files >= PARTITIONS, "{bytes}: {files} files");
        }
    }
}
