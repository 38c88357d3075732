//! Rows of a long read on their way to the client while the read still runs (docs/internals/steps.md, "Results").
//!
//! The worker of the read puts batches in, and waits while the stream is full; the session takes them out. Both are in one process.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use weir_types::{SqlError, SqlState, Value};

/// Bytes of rows from which on a stream is full.
const FULL_BYTES: usize = 1 << 20;

/// Bytes of rows that a worker collects before it puts them into a stream.
const BATCH_BYTES: usize = 64 << 10;

pub type Row = Vec<Value>;

/// A bounded queue of rows. Invariant: no row is taken before all records are durable on which the read depends (S16), and rows of one run
/// of the read alone are taken.
#[derive(Debug, Default)]
pub struct RowStream {
    state: Mutex<State>,
    /// The stream is not full any more, or closed.
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<Batch>,
    /// Of all batches.
    bytes: usize,
    is_durable: bool,
    /// A row has been taken.
    is_taken: bool,
    /// The session takes no more rows.
    is_closed: bool,
    waker: Option<Waker>,
}

/// Rows, and their bytes.
#[derive(Debug, Default)]
pub struct Batch {
    rows: Vec<Row>,
    bytes: usize,
}

impl Batch {
    pub fn push(&mut self, row: Row) {
        self.bytes += Value::row_bytes(&row);
        self.rows.push(row);
    }

    pub fn is_large(&self) -> bool {
        self.bytes >= BATCH_BYTES
    }

    /// Bytes that its rows have been allocated, at most.
    pub fn allocated(&self) -> i64 {
        // Vectors have up to twice the capacity that they need, and small pieces have headers.
        i64::try_from(2 * self.bytes).unwrap_or(i64::MAX)
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl State {
    fn is_full(&self) -> bool {
        self.bytes >= FULL_BYTES && !self.is_closed
    }
}

impl RowStream {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run of the read begins. What an earlier run has put in is dropped.
    ///
    /// # Errors
    /// 40001: rows of an earlier run have been taken.
    pub fn begin(&self) -> Result<(), SqlError> {
        let mut state = self.lock();
        if state.is_taken {
            let message = "could not begin a query again after some of its rows were sent";
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Try again."));
        }
        *state = State { waker: state.waker.take(), is_closed: state.is_closed, ..State::default() };
        Ok(())
    }

    /// All is durable on which the run depends: its rows may be taken.
    pub fn set_durable(&self) {
        self.lock().is_durable = true;
        self.wake();
    }

    fn wake(&self) {
        let waker = self.lock().waker.take();
        waker.into_iter().for_each(Waker::wake);
    }

    /// Puts rows in, however full the stream is.
    pub fn put(&self, batch: Batch) {
        let mut state = self.lock();
        state.bytes += batch.bytes;
        state.batches.push_back(batch);
        drop(state);
        self.wake();
    }

    pub fn is_full(&self) -> bool {
        self.lock().is_full()
    }

    /// Waits until the stream is not full, but no longer than this.
    pub fn wait_for_room(&self, most: Duration) {
        let _ = self.has_room.wait_timeout_while(self.lock(), most, |state| state.is_full());
    }

    /// # Errors
    /// 57014: the stream is closed.
    pub fn check_open(&self) -> Result<(), SqlError> {
        match self.lock().is_closed {
            true => {
                let message = "canceling statement because nobody takes its rows";
                Err(SqlError::new(SqlState::QUERY_CANCELED, message))
            }
            false => Ok(()),
        }
    }

    /// Takes the next rows; none: there are none yet.
    pub fn take(&self) -> Option<Vec<Row>> {
        let mut state = self.lock();
        take(&mut state, &self.has_room)
    }

    /// Waits for the next rows. Does not end when the read ends.
    pub async fn next(&self) -> Vec<Row> {
        std::future::poll_fn(|context: &mut Context<'_>| {
            let mut state = self.lock();
            match take(&mut state, &self.has_room) {
                Some(rows) => Poll::Ready(rows),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// The session takes no more rows: the run ends with its next batch.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.has_room.notify_all();
    }
}

fn take(state: &mut State, has_room: &Condvar) -> Option<Vec<Row>> {
    if !state.is_durable {
        return None;
    }
    let Batch { rows, bytes } = state.batches.pop_front()?;
    state.is_taken = true;
    let was_full = state.bytes >= FULL_BYTES;
    state.bytes -= bytes;
    if was_full && state.bytes < FULL_BYTES {
        has_room.notify_all();
    }
    Some(rows)
}

/// Closes a stream when it is dropped.
#[derive(Debug)]
pub struct Receiving(pub Arc<RowStream>);

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(rows: i64) -> Batch {
        let mut batch = Batch::default();
        (0..rows).for_each(|row| batch.push(vec![Value::Int(row)]));
        batch
    }

    #[test]
    fn nothing_is_taken_before_it_is_durable() {
        let stream = RowStream::default();
        stream.begin().unwrap();
        stream.put(batch(2));
        assert_eq!(stream.take().map(|rows| rows.len()), None);
        stream.set_durable();
        assert_eq!(stream.take().map(|rows| rows.len()), Some(2));
        assert_eq!(stream.take().map(|rows| rows.len()), None);
    }

    #[test]
    fn a_run_begins_again_only_before_its_rows_are_taken() {
        let stream = RowStream::default();
        stream.begin().unwrap();
        stream.put(batch(2));
        stream.set_durable();
        stream.begin().unwrap();
        stream.put(batch(3));
        assert_eq!(stream.take().map(|rows| rows.len()), None, "the second run is not durable");
        stream.set_durable();
        assert_eq!(stream.take().map(|rows| rows.len()), Some(3));
        assert_eq!(stream.begin().unwrap_err().state(), SqlState::SERIALIZATION_FAILURE);
    }

    #[test]
    fn a_full_stream_has_room_when_it_is_read_or_closed() {
        let stream = Arc::new(RowStream::default());
        stream.begin().unwrap();
        stream.set_durable();
        let fill = || {
            while !stream.is_full() {
                stream.put(batch(1_000));
            }
        };
        fill();
        let worker = std::thread::spawn({
            let stream = stream.clone();
            move || stream.wait_for_room(Duration::from_secs(600))
        });
        assert!(stream.take().is_some());
        worker.join().unwrap();
        fill();
        drop(Receiving(stream.clone()));
        assert!(!stream.is_full() && stream.check_open().is_err());
    }
}
