//! Rows in temporary files: what a long statement does not hold in memory (docs/internals/steps.md, "Memory").
//!
//! Only a worker has temporary files: it may wait for a disk, a step of a shard may not.

use std::cell::Cell;
use std::io;

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
    fn bytes(&self) -> &Cell<u64>;

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
pub struct Spool<'f> {
    files: &'f dyn TemporaryFiles,
    file: Option<Box<dyn TemporaryFile>>,
    /// Length of the file. Rows do not cross it.
    written: u64,
    /// Rows behind those of the file.
    buffer: Vec<u8>,
    chunk_bytes: usize,
}

impl<'f> Spool<'f> {
    pub fn new(files: &'f dyn TemporaryFiles) -> Spool<'f> {
        let share = files.memory().sort_bytes / CHUNKS_IN_MEMORY;
        let chunk_bytes = share.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        Spool { files, file: None, written: 0, buffer: Vec::new(), chunk_bytes }
    }

    pub fn files(&self) -> &'f dyn TemporaryFiles {
        self.files
    }

    /// Number of chunks that fit into the working memory of a sort.
    pub fn chunks_in_memory(&self) -> usize {
        self.files.memory().sort_bytes / self.chunk_bytes
    }

    /// Position behind the last row.
    pub fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// # Errors
    /// The disk is full (53100), or the statement's limit reached (53400).
    pub fn push(&mut self, row: &[Value]) -> Result<(), SqlError> {
        let start = self.buffer.len();
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.extend_from_slice(&[0; 4]);
        self.buffer = postcard::to_extend(row, buffer).expect("memory takes all");
        let length = u32::try_from(self.buffer.len() - start - 4).expect("a row has less than 4 GiB");
        self.buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
        if self.buffer.len() >= self.chunk_bytes { self.write_out() } else { Ok(()) }
    }

    /// Writes the rows that are in memory to the file.
    fn write_out(&mut self) -> Result<(), SqlError> {
        let length = self.buffer.len() as u64;
        let all = self.files.bytes().get() + length;
        if let Some(most) = self.files.memory().files_bytes_max.filter(|most| all > *most) {
            return Err(over_limit(most));
        }
        let (file, buffer, files) = (&mut self.file, &self.buffer, self.files);
        let mut append = || {
            let file = match file.take() {
                Some(open) => file.insert(open),
                None => file.insert(files.create()?),
            };
            file.append(buffer)
        };
        self.files.transfer(&mut append).map_err(|error| failed(&error))?;
        self.files.bytes().set(all);
        self.written += length;
        self.buffer.clear();
        Ok(())
    }

    /// Reads bytes from a position on, up to `end`: at least one, unless the position is `end`.
    fn read(&mut self, at: u64, end: u64, into: &mut Vec<u8>) -> Result<(), SqlError> {
        if at >= self.written {
            let range = (at - self.written) as usize..(end - self.written) as usize;
            into.extend_from_slice(&self.buffer[range]);
            return Ok(());
        }
        let length = (end.min(self.written) - at).min(self.chunk_bytes as u64) as usize;
        let start = into.len();
        into.resize(start + length, 0);
        let file = self.file.as_mut().expect("it has been written to");
        self.files.transfer(&mut || file.read(at, &mut into[start..])).map_err(|error| failed(&error))
    }

    /// All of its rows, which takes them out of it.
    pub fn into_rows(self) -> SpooledRows<'f> {
        let cursor = SpoolCursor::new(0, self.end());
        SpooledRows { spool: self, cursor }
    }
}

impl Drop for Spool<'_> {
    fn drop(&mut self) {
        self.files.bytes().set(self.files.bytes().get() - self.written);
    }
}

/// A place among the rows of a spool, and where they end.
#[derive(Debug)]
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

    /// The next bytes, exactly so many.
    fn bytes(&mut self, spool: &mut Spool<'_>, length: usize) -> Result<&[u8], SqlError> {
        if self.chunk.len() - self.taken < length {
            self.chunk.drain(..self.taken);
            self.taken = 0;
            while self.chunk.len() < length {
                let before = self.chunk.len();
                spool.read(self.at, self.end, &mut self.chunk)?;
                self.at += (self.chunk.len() - before) as u64;
            }
        }
        let start = self.taken;
        self.taken += length;
        Ok(&self.chunk[start..self.taken])
    }

    /// The next row; none: there is no other.
    ///
    /// # Errors
    /// 58030.
    pub fn next_row(&mut self, spool: &mut Spool<'_>) -> Result<Option<Vec<Value>>, SqlError> {
        if self.at == self.end && self.taken == self.chunk.len() {
            return Ok(None);
        }
        let length = self.bytes(spool, 4)?.try_into().expect("four bytes");
        let row = self.bytes(spool, u32::from_le_bytes(length) as usize)?;
        Ok(Some(postcard::from_bytes(row).expect("a row that was pushed")))
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
        self.cursor.next_row(&mut self.spool)
    }
}

/// Temporary files for tests, in memory.
#[cfg(test)]
#[derive(Default)]
pub struct InMemory {
    memory: WorkingMemory,
    bytes: Cell<u64>,
    pub files: Cell<usize>,
}

#[cfg(test)]
impl InMemory {
    pub fn of(memory: WorkingMemory) -> InMemory {
        InMemory { memory, ..InMemory::default() }
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

    fn bytes(&self) -> &Cell<u64> {
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
        assert_eq!(some.next_row(&mut spool).unwrap(), Some(row(10)));
        let mut rows = spool.into_rows();
        for number in 0..5_000 {
            assert_eq!(rows.next_row().unwrap(), Some(row(number)));
        }
        assert_eq!(rows.next_row().unwrap(), None);
        assert!(files.bytes().get() > 400_000);
        drop(rows);
        assert_eq!(files.bytes().get(), 0);
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
        assert_eq!(files.bytes().get(), 0);
        let mut spool = Spool::new(&files);
        spool.push(&row(2)).unwrap();
        assert_eq!(spool.into_rows().next_row().unwrap(), Some(row(2)));
    }
}
