//! Rows in temporary files: what a long statement does not hold in memory (docs/internals/steps.md, "Memory").
//!
//! Only a worker has temporary files: it may wait for a disk, a step of a shard may not.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_core::machine::TemporaryFile;
use weir_types::memory::WorkingMemory;
use weir_types::{SqlError, SqlState, Value};

/// Bytes that are written to a file and read from it at once, at most.
const CHUNK_BYTES_MAX: usize = 64 << 10;
/// The same for statements with little working memory.
const CHUNK_BYTES_MIN: usize = 4 << 10;
/// A sort holds at least so many chunks in its working memory.
const CHUNKS_IN_MEMORY: usize = 64;

/// The temporary files of one statement.
pub trait TemporaryFiles {
    fn memory(&self) -> WorkingMemory;

    /// # Errors
    /// Those of the file system.
    fn create(&self) -> io::Result<Box<dyn TemporaryFile>>;

    /// Bytes that all files of the statement take now.
    fn bytes(&self) -> &Arc<AtomicU64>;

    /// Reads or writes, while others may use the rows. No borrow of the rows is alive.
    ///
    /// # Errors
    /// Those of the transfer.
    fn transfer(&self, transfer: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;
}

fn failed(error: &io::Error) -> SqlError {
    let state = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SqlState::DISK_FULL,
        _ => SqlState::IO_ERROR,
    };
    SqlError::new(state, format!("could not use a temporary file: {error}"))
        .with_hint("the temporary files of statements are in the server's data directory: see work_mem")
}

fn over_limit(most: u64) -> SqlError {
    let message = format!("temporary file size exceeds temp_file_limit ({}kB)", most >> 10);
    SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
}

/// Rows in the order in which they were pushed. The last ones are in memory; no file exists before a chunk is full.
///
/// It does not refer to its statement's files, which are an argument, so that a frame can keep it.
pub struct RowFile {
    file: Option<Box<dyn TemporaryFile>>,
    /// Length of the file. Rows do not cross it.
    written: u64,
    /// Rows behind those of the file.
    buffer: Vec<u8>,
    chunk_bytes: usize,
    /// Bytes of all files of the statement.
    of_statement: Arc<AtomicU64>,
}

impl RowFile {
    pub fn new(files: &dyn TemporaryFiles) -> RowFile {
        let share = files.memory().sort_bytes / CHUNKS_IN_MEMORY;
        let chunk_bytes = share.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        let of_statement = files.bytes().clone();
        RowFile { file: None, written: 0, buffer: Vec::new(), chunk_bytes, of_statement }
    }

    /// Bytes that are written and read at once.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Position behind the last row.
    pub fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// # Errors
    /// The disk is full (53100), or the statement's limit reached (53400).
    pub fn push(&mut self, row: &[Value], files: &dyn TemporaryFiles) -> Result<(), SqlError> {
        let start = self.buffer.len();
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.extend_from_slice(&[0; 4]);
        self.buffer = postcard::to_extend(row, buffer).expect("memory takes all");
        let length = u32::try_from(self.buffer.len() - start - 4).expect("a row has less than 4 GiB");
        self.buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
        if self.buffer.len() >= self.chunk_bytes { self.write_out(files) } else { Ok(()) }
    }

    /// Writes the rows that are in memory to the file.
    fn write_out(&mut self, files: &dyn TemporaryFiles) -> Result<(), SqlError> {
        let length = self.buffer.len() as u64;
        let all = self.of_statement.load(Ordering::Relaxed) + length;
        if let Some(most) = files.memory().files_bytes_max.filter(|most| all > *most) {
            return Err(over_limit(most));
        }
        let (file, buffer) = (&mut self.file, &self.buffer);
        let mut append = || {
            let file = match file.take() {
                Some(open) => file.insert(open),
                None => file.insert(files.create()?),
            };
            file.append(buffer)
        };
        files.transfer(&mut append).map_err(|error| failed(&error))?;
        self.of_statement.store(all, Ordering::Relaxed);
        self.written += length;
        self.buffer.clear();
        Ok(())
    }

    /// Reads bytes from a position on, up to `end`: at least one, unless the position is `end`.
    fn read(
        &self,
        (at, end): (u64, u64),
        into: &mut Vec<u8>,
        files: &dyn TemporaryFiles,
    ) -> Result<(), SqlError> {
        if at >= self.written {
            let range = (at - self.written) as usize..(end - self.written) as usize;
            into.extend_from_slice(&self.buffer[range]);
            return Ok(());
        }
        let length = (end.min(self.written) - at).min(self.chunk_bytes as u64) as usize;
        let start = into.len();
        into.resize(start + length, 0);
        let file = self.file.as_ref().expect("it has been written to");
        files.transfer(&mut || file.read(at, &mut into[start..])).map_err(|error| failed(&error))
    }
}

impl Drop for RowFile {
    fn drop(&mut self) {
        self.of_statement.fetch_sub(self.written, Ordering::Relaxed);
    }
}

/// A file of rows, with the files of its statement.
pub struct Spool<'f> {
    files: &'f dyn TemporaryFiles,
    rows: RowFile,
}

impl<'f> Spool<'f> {
    pub fn new(files: &'f dyn TemporaryFiles) -> Spool<'f> {
        Spool { files, rows: RowFile::new(files) }
    }

    pub fn files(&self) -> &'f dyn TemporaryFiles {
        self.files
    }

    /// Number of chunks that fit into the working memory of a sort.
    pub fn chunks_in_memory(&self) -> usize {
        self.files.memory().sort_bytes / self.rows.chunk_bytes
    }

    /// Position behind the last row.
    pub fn end(&self) -> u64 {
        self.rows.end()
    }

    /// # Errors
    /// As [`RowFile::push`].
    pub fn push(&mut self, row: &[Value]) -> Result<(), SqlError> {
        self.rows.push(row, self.files)
    }

    /// The next row of a cursor; none: there is no other.
    ///
    /// # Errors
    /// 58030.
    pub fn next_row(&self, cursor: &mut SpoolCursor) -> Result<Option<Vec<Value>>, SqlError> {
        cursor.next_row(&self.rows, self.files)
    }

    /// All of its rows, which takes them out of it.
    pub fn into_rows(self) -> SpooledRows<'f> {
        let cursor = SpoolCursor::new(0, self.end());
        SpooledRows { spool: self, cursor }
    }
}

/// A place among the rows of a file, and where they end.
#[derive(Debug, Default)]
pub struct SpoolCursor {
    /// Position behind the bytes that have been read.
    at: u64,
    end: u64,
    /// Bytes that have been read, and how many of them have been taken.
    chunk: Vec<u8>,
    taken: usize,
}

impl SpoolCursor {
    /// Both positions are ends of rows.
    pub fn new(at: u64, end: u64) -> SpoolCursor {
        SpoolCursor { at, end, chunk: Vec::new(), taken: 0 }
    }

    /// Moves to the start of a row. Bytes that have been read and lie behind it are not read again.
    pub fn seek(&mut self, to: u64) {
        let start = self.at - self.chunk.len() as u64;
        if (start..=self.at).contains(&to) {
            self.taken = (to - start) as usize;
        } else {
            (self.at, self.taken) = (to, 0);
            self.chunk.clear();
        }
    }

    /// Rows have been pushed: their end is there now.
    pub fn extend_to(&mut self, end: u64) {
        self.end = end;
    }

    /// The next bytes, exactly so many.
    fn bytes(
        &mut self,
        rows: &RowFile,
        files: &dyn TemporaryFiles,
        length: usize,
    ) -> Result<&[u8], SqlError> {
        if self.chunk.len() - self.taken < length {
            self.chunk.drain(..self.taken);
            self.taken = 0;
            while self.chunk.len() < length {
                let before = self.chunk.len();
                rows.read((self.at, self.end), &mut self.chunk, files)?;
                self.at += (self.chunk.len() - before) as u64;
            }
        }
        let start = self.taken;
        self.taken += length;
        Ok(&self.chunk[start..self.taken])
    }

    /// The bytes of the next row; none: there is no other.
    fn next_bytes(&mut self, rows: &RowFile, files: &dyn TemporaryFiles) -> Result<Option<&[u8]>, SqlError> {
        if self.at == self.end && self.taken == self.chunk.len() {
            return Ok(None);
        }
        let length = self.bytes(rows, files, 4)?.try_into().expect("four bytes");
        self.bytes(rows, files, u32::from_le_bytes(length) as usize).map(Some)
    }

    /// The next row; none: there is no other.
    ///
    /// # Errors
    /// 58030.
    pub fn next_row(
        &mut self,
        rows: &RowFile,
        files: &dyn TemporaryFiles,
    ) -> Result<Option<Vec<Value>>, SqlError> {
        let row = self.next_bytes(rows, files)?;
        Ok(row.map(|row| postcard::from_bytes(row).expect("a row that was pushed")))
    }

    /// Passes over the next row, if there is one.
    ///
    /// # Errors
    /// 58030.
    pub fn skip_row(&mut self, rows: &RowFile, files: &dyn TemporaryFiles) -> Result<(), SqlError> {
        self.next_bytes(rows, files).map(|_| ())
    }
}

/// The rows of a spool, one after another.
pub struct SpooledRows<'f> {
    spool: Spool<'f>,
    cursor: SpoolCursor,
}

impl SpooledRows<'_> {
    /// The next row; none: there is no other.
    ///
    /// # Errors
    /// 58030.
    pub fn next_row(&mut self) -> Result<Option<Vec<Value>>, SqlError> {
        self.spool.next_row(&mut self.cursor)
    }
}

/// Temporary files for tests, in memory.
#[cfg(test)]
#[derive(Default)]
pub struct InMemory {
    memory: WorkingMemory,
    bytes: Arc<AtomicU64>,
    pub files: std::cell::Cell<usize>,
}

#[cfg(test)]
impl InMemory {
    pub fn of(memory: WorkingMemory) -> InMemory {
        InMemory { memory, ..InMemory::default() }
    }

    /// Bytes that its files take now.
    pub fn bytes_now(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
impl TemporaryFiles for InMemory {
    fn memory(&self) -> WorkingMemory {
        self.memory
    }

    fn create(&self) -> io::Result<Box<dyn TemporaryFile>> {
        struct Unpaced;
        impl weir_core::machine::Pace for Unpaced {
            fn wants_pause(&self) -> bool {
                false
            }
            fn pause(&self) {}
        }
        self.files.set(self.files.get() + 1);
        weir_core::machine::Pace::temporary_file(&Unpaced)
    }

    fn bytes(&self) -> &Arc<AtomicU64> {
        &self.bytes
    }

    fn transfer(&self, transfer: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        transfer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: i64) -> Vec<Value> {
        let long = "x".repeat(if number % 1_000 == 7 { 70_000 } else { number as usize % 50 });
        vec![Value::Int(number), Value::Null, Value::from(long.as_str())]
    }

    #[test]
    fn rows_come_back_in_their_order_and_files_end_with_their_spool() {
        let files = InMemory::default();
        let mut spool = Spool::new(&files);
        for number in 0..10 {
            spool.push(&row(number)).unwrap();
        }
        assert_eq!(files.files.get(), 1, "a long row fills a chunk");
        let ten = spool.end();
        for number in 10..5_000 {
            spool.push(&row(number)).unwrap();
        }
        let mut some = SpoolCursor::new(ten, spool.end());
        assert_eq!(spool.next_row(&mut some).unwrap(), Some(row(10)));
        let mut rows = spool.into_rows();
        for number in 0..5_000 {
            assert_eq!(rows.next_row().unwrap(), Some(row(number)));
        }
        assert_eq!(rows.next_row().unwrap(), None);
        assert!(files.bytes_now() > 400_000);
        drop(rows);
        assert_eq!(files.bytes_now(), 0);
    }

    #[test]
    fn few_rows_need_no_file_and_a_limit_ends_the_statement() {
        let memory = WorkingMemory { files_bytes_max: Some(100_000), ..WorkingMemory::default() };
        let files = InMemory::of(memory);
        let mut spool = Spool::new(&files);
        spool.push(&row(1)).unwrap();
        assert_eq!(files.files.get(), 0);
        let error = (0..5_000).find_map(|number| spool.push(&row(number)).err()).unwrap();
        assert_eq!(error.state(), SqlState::CONFIGURATION_LIMIT_EXCEEDED);
        drop(spool);
        assert_eq!(files.bytes_now(), 0);
        let mut spool = Spool::new(&files);
        spool.push(&row(2)).unwrap();
        assert_eq!(spool.into_rows().next_row().unwrap(), Some(row(2)));
    }
}
