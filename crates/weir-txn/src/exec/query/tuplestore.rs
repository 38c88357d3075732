//! Rows that are read more than once, in any order: in memory up to the working memory of a sort, then in a temporary file (PostgreSQL's
//! tuplestore).

use std::collections::VecDeque;
use std::fmt;

use weir_types::interrupt::check;
use weir_types::{SqlError, Value};

use crate::exec::context::Flow;
use crate::exec::query::node::CONTINUE;
use crate::storage::temporary::{RowFile, SpoolCursor, TemporaryFiles};

type Row = Vec<Value>;
/// The files of the statement; none: everything is in memory. They are the same in all calls for one store.
type Files<'f> = Option<&'f dyn TemporaryFiles>;

/// Rows by number, from 0. It does not refer to the files of its statement, so that a frame can keep it.
#[derive(Default)]
pub struct Tuplestore {
    /// The rows that are kept, unless they are in a file.
    rows: VecDeque<Row>,
    /// Of these rows.
    bytes: usize,
    /// Number of the first row that is kept.
    first: usize,
    /// Number of rows that have been pushed.
    count: usize,
    file: Option<IndexedFile>,
}

/// A file of rows, and where some of them begin.
struct IndexedFile {
    rows: RowFile,
    /// Numbers of rows and their positions: one in each chunk, the first kept row first.
    index: Vec<(usize, u64)>,
}

/// One reader of a store. It reads fastest in the order of the rows.
#[derive(Default)]
pub struct ReadPointer {
    cursor: SpoolCursor,
    /// Number of the row at the cursor.
    next: usize,
    /// The row that was read last from a file, and its number.
    row: Row,
    number: Option<usize>,
}

impl Tuplestore {
    /// Number of rows that have been pushed.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn push(&mut self, row: Row, files: Files<'_>) -> Result<(), SqlError> {
        let number = self.count;
        self.count += 1;
        let Some(files) = files else {
            self.rows.push_back(row);
            return Ok(());
        };
        if let Some(file) = &mut self.file {
            return file.push(number, &row, files);
        }
        self.bytes += Value::row_bytes(&row);
        self.rows.push_back(row);
        if self.bytes > files.memory().sort_bytes { self.write_out(files) } else { Ok(()) }
    }

    /// Moves the rows that are in memory to a file.
    fn write_out(&mut self, files: &dyn TemporaryFiles) -> Result<(), SqlError> {
        let file = self.file.insert(IndexedFile { rows: RowFile::new(files), index: Vec::new() });
        for (at, row) in std::mem::take(&mut self.rows).into_iter().enumerate() {
            check()?;
            file.push(self.first + at, &row, files)?;
        }
        Ok(())
    }

    /// Rows before that number are not read again. What a file has of them stays there.
    pub fn trim(&mut self, before: usize) {
        while self.first < before
            && let Some(row) = self.rows.pop_front()
        {
            self.forget(&row);
        }
    }

    /// The first kept row, which has left the memory.
    fn forget(&mut self, row: &[Value]) {
        self.first += 1;
        if self.bytes > 0 {
            self.bytes -= Value::row_bytes(row);
        }
    }

    /// The row of that number, which has not been trimmed; none: no such row has been pushed.
    ///
    /// # Errors
    /// 58030.
    pub fn row<'r>(
        &'r self,
        number: usize,
        pointer: &'r mut ReadPointer,
        files: Files<'_>,
    ) -> Result<Option<&'r [Value]>, SqlError> {
        if number >= self.count {
            return Ok(None);
        }
        let Some(file) = &self.file else { return Ok(Some(&self.rows[number - self.first])) };
        file.read(number, pointer, files.expect("a row is in a file"))?;
        Ok(Some(&pointer.row))
    }

    /// Takes the row of that number. Neither it nor a row before it is read again.
    ///
    /// # Errors
    /// 58030.
    pub fn take(
        &mut self,
        number: usize,
        pointer: &mut ReadPointer,
        files: Files<'_>,
    ) -> Result<Row, SqlError> {
        let Some(file) = &self.file else {
            self.trim(number);
            let row = self.rows.pop_front().expect("a row that was pushed");
            self.forget(&row);
            return Ok(row);
        };
        file.read(number, pointer, files.expect("a row is in a file"))?;
        pointer.number = None;
        Ok(std::mem::take(&mut pointer.row))
    }

    /// Calls `visit` with each row.
    pub fn each(&self, files: Files<'_>, visit: &mut dyn FnMut(&[Value]) -> Flow) -> Flow {
        let mut pointer = ReadPointer::default();
        for number in self.first..self.count {
            let row = self.row(number, &mut pointer, files)?.expect("a row that was pushed");
            let flow = visit(row)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        CONTINUE
    }
}

impl From<Vec<Row>> for Tuplestore {
    fn from(rows: Vec<Row>) -> Tuplestore {
        Tuplestore { count: rows.len(), rows: rows.into(), ..Tuplestore::default() }
    }
}

impl fmt::Debug for Tuplestore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tuplestore").field("count", &self.count).field("rows", &self.rows).finish()
    }
}

impl IndexedFile {
    fn push(&mut self, number: usize, row: &[Value], files: &dyn TemporaryFiles) -> Result<(), SqlError> {
        let (position, chunk) = (self.rows.end(), self.rows.chunk_bytes() as u64);
        if self.index.last().is_none_or(|(_, last)| position - last >= chunk) {
            self.index.push((number, position));
        }
        self.rows.push(row, files)
    }

    /// Reads the row of that number into the pointer.
    fn read(
        &self,
        number: usize,
        pointer: &mut ReadPointer,
        files: &dyn TemporaryFiles,
    ) -> Result<(), SqlError> {
        if pointer.number == Some(number) {
            return Ok(());
        }
        let ReadPointer { cursor, next, .. } = pointer;
        if *next != number {
            let (indexed, position) = self.index[self.index.partition_point(|(of, _)| *of <= number) - 1];
            if !(indexed..=number).contains(next) {
                cursor.seek(position);
                *next = indexed;
            }
        }
        cursor.extend_to(self.rows.end());
        while *next < number {
            cursor.skip_row(&self.rows, files)?;
            *next += 1;
        }
        pointer.row = cursor.next_row(&self.rows, files)?.expect("a row that was pushed");
        *next += 1;
        pointer.number = Some(number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use weir_types::SqlState;
    use weir_types::memory::WorkingMemory;

    use super::*;
    use crate::storage::temporary::InMemory;

    const ROWS: usize = 20_000;

    fn row(number: usize) -> Row {
        let text = "x".repeat(if number % 1_000 == 7 { 5_000 } else { number % 50 });
        vec![Value::Int(number as i64), Value::Null, Value::from(text.as_str())]
    }

    fn files_of(sort_bytes: usize) -> InMemory {
        InMemory::of(WorkingMemory { sort_bytes, ..WorkingMemory::default() })
    }

    /// Pointers that read forwards, backwards and here and there, while rows are pushed and behind that.
    #[test]
    fn every_pointer_reads_every_row_whatever_memory_there_is() {
        for (bytes, has_file) in [(1 << 30, false), (1 << 20, true), (64 << 10, true), (0, true)] {
            let files = files_of(bytes);
            let some: Files<'_> = Some(&files);
            let mut store = Tuplestore::default();
            let mut pointers: Vec<ReadPointer> = (0..4).map(|_| ReadPointer::default()).collect();
            let look = |store: &Tuplestore, number: usize, pointer: &mut ReadPointer| {
                assert_eq!(store.row(number, pointer, some).unwrap(), Some(&row(number)[..]), "{bytes}");
            };
            for number in 0..ROWS {
                assert_eq!(store.row(number, &mut pointers[0], some).unwrap(), None);
                store.push(row(number), some).unwrap();
                look(&store, number, &mut pointers[0]);
                look(&store, number / 2, &mut pointers[1]);
                look(&store, number - number % 7, &mut pointers[2]);
            }
            for number in 0..ROWS {
                look(&store, ROWS - 1 - number, &mut pointers[3]);
                look(&store, number * 7_919 % ROWS, &mut pointers[2]);
                look(&store, number, &mut pointers[1]);
            }
            assert_eq!(files.files.get(), usize::from(has_file), "{bytes}");
            let mut numbers = 0..;
            let flow = store.each(some, &mut |seen| {
                assert_eq!(seen, row(numbers.next().unwrap()));
                Ok(if seen[0] == Value::Int(15_000) { ControlFlow::Break(()) } else { CONTINUE? })
            });
            assert!(flow.unwrap().is_break());
            drop(store);
            assert_eq!(files.bytes_now(), 0, "the file is gone");
        }
    }

    /// A store that is trimmed needs room for what is between its readers alone.
    #[test]
    fn trimmed_rows_take_no_room() {
        let files = files_of(64 << 10);
        let some: Files<'_> = Some(&files);
        let (mut store, mut pointer) = (Tuplestore::default(), ReadPointer::default());
        for number in 0..ROWS {
            store.push(row(number), some).unwrap();
            let behind = number.saturating_sub(20);
            assert_eq!(store.row(behind, &mut pointer, some).unwrap(), Some(&row(behind)[..]));
            store.trim(behind);
        }
        assert_eq!(files.files.get(), 0);
        // From here on nothing is trimmed.
        for number in ROWS..2 * ROWS {
            store.push(row(number), some).unwrap();
        }
        assert_eq!(files.files.get(), 1);
        for number in ROWS - 21..2 * ROWS {
            assert_eq!(store.take(number, &mut pointer, some).unwrap(), row(number));
        }
    }

    #[test]
    fn a_store_without_files_holds_all_in_memory() {
        let mut store = Tuplestore::from((0..10).map(row).collect::<Vec<_>>());
        store.push(row(10), None).unwrap();
        let mut pointer = ReadPointer::default();
        assert_eq!((store.len(), store.row(11, &mut pointer, None).unwrap()), (11, None));
        for number in 0..11 {
            assert_eq!(store.take(number, &mut pointer, None).unwrap(), row(number));
        }
    }

    #[test]
    fn the_limit_of_files_ends_the_statement() {
        let memory =
            WorkingMemory { sort_bytes: 0, files_bytes_max: Some(100_000), ..WorkingMemory::default() };
        let files = InMemory::of(memory);
        let mut store = Tuplestore::default();
        let error = (0..ROWS).find_map(|number| store.push(row(number), Some(&files)).err()).unwrap();
        assert_eq!(error.state(), SqlState::CONFIGURATION_LIMIT_EXCEEDED);
    }
}
