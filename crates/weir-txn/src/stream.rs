//! Rows of a long read on their way to the client while the read still runs (docs/internals/steps.md, "Results").
//!
//! The worker of each shard puts batches into its queue, and waits while that is full; the session takes them out. All are in one
//! process. The coordinator of the read says when: it knows once all shards have begun whether a second round will replace a queue.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use weir_core::ids::{ShardId, TxnId};
use weir_types::{SqlError, SqlState, Value};

/// Bytes of rows from which on a queue is full.
const FULL_BYTES: usize = 1 << 20;

/// Bytes of rows that a worker collects before it puts them into its queue.
const BATCH_BYTES: usize = 64 << 10;

pub type Row = Vec<Value>;

/// The rows of one query, a queue of each shard that runs it.
#[derive(Debug, Default)]
pub struct RowStream {
    state: Mutex<State>,
    /// A queue is not full any more, or the stream is closed.
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The read whose rows it takes: the coordinator's last one for the query.
    read: Option<TxnId>,
    queues: Vec<Queue>,
    /// The session takes no more rows.
    is_closed: bool,
    waker: Option<Waker>,
}

/// Run of a shard: the read, and its round, from 1.
type Run = (TxnId, u32);

/// Rows of one shard. Invariants: they are those of one run. No row is taken before the coordinator has opened the queue: then all is
/// durable on which the run depends (S16), and the run is part of the result (S5).
#[derive(Debug)]
struct Queue {
    shard: ShardId,
    /// Round of the stream's read that has begun last; 0: none.
    round: u32,
    batches: VecDeque<Batch>,
    /// Of all batches.
    bytes: usize,
    gate: Gate,
    /// A row has been taken.
    is_taken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// It is not known whether the run is part of the result.
    Shut,
    Open,
    /// A second round replaces the run: its rows are dropped.
    Dropping,
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
    /// The queue of the shard, made at its first use.
    fn queue(&mut self, shard: ShardId) -> &mut Queue {
        let at = self.queues.iter().position(|queue| queue.shard == shard).unwrap_or_else(|| {
            let (batches, gate) = (VecDeque::new(), Gate::Shut);
            self.queues.push(Queue { shard, round: 0, batches, bytes: 0, gate, is_taken: false });
            self.queues.len() - 1
        });
        &mut self.queues[at]
    }

    fn is_run(&mut self, shard: ShardId, (read, round): Run) -> bool {
        self.read == Some(read) && self.queue(shard).round == round
    }

    fn take(&mut self, has_room: &Condvar) -> Option<Vec<Row>> {
        let mut open = self.queues.iter_mut().filter(|queue| queue.gate == Gate::Open);
        let queue = open.find(|queue| !queue.batches.is_empty())?;
        let Batch { rows, bytes } = queue.batches.pop_front()?;
        queue.is_taken = true;
        let was_full = queue.is_full();
        queue.bytes -= bytes;
        if was_full && !queue.is_full() {
            has_room.notify_all();
        }
        Some(rows)
    }
}

impl Queue {
    fn is_full(&self) -> bool {
        self.bytes >= FULL_BYTES
    }

    fn clear(&mut self) {
        self.batches.clear();
        self.bytes = 0;
    }
}

impl RowStream {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Takes the next rows; none: there are none yet.
    pub fn take(&self) -> Option<Vec<Row>> {
        self.lock().take(&self.has_room)
    }

    /// Waits for the next rows. Does not end when the read ends.
    pub async fn next(&self) -> Vec<Row> {
        std::future::poll_fn(|context: &mut Context<'_>| {
            let mut state = self.lock();
            match state.take(&self.has_room) {
                Some(rows) => Poll::Ready(rows),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// The session takes no more rows: each run ends with its next batch.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.has_room.notify_all();
    }
}

/// The queue of one shard.
#[derive(Clone, Debug)]
pub struct RowQueue {
    of: Arc<RowStream>,
    shard: ShardId,
}

impl RowQueue {
    pub fn new(of: Arc<RowStream>, shard: ShardId) -> RowQueue {
        RowQueue { of, shard }
    }

    /// From now on the stream takes rows of this read alone. For the coordinator of the read.
    ///
    /// # Errors
    /// 40001: rows of an earlier read have been taken.
    pub fn assign(&self, read: TxnId) -> Result<(), SqlError> {
        let mut state = self.of.lock();
        if state.read == Some(read) {
            return Ok(());
        }
        if state.queues.iter().any(|queue| queue.is_taken) {
            let message = "could not begin a query again after some of its rows were sent";
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Try again."));
        }
        state.read = Some(read);
        state.queues.clear();
        Ok(())
    }

    /// Returns whether the run may begin. If not, its request is a repetition, or of a read that is over.
    pub fn may_begin(&self, (read, round): Run) -> bool {
        let mut state = self.of.lock();
        state.read == Some(read) && state.queue(self.shard).round < round
    }

    /// A run begins at the shard: its rows replace those of an earlier round.
    pub fn begin(&self, (_, round): Run) {
        let mut state = self.of.lock();
        let queue = state.queue(self.shard);
        queue.clear();
        (queue.round, queue.gate) = (round, Gate::Shut);
    }

    /// The run is part of the result: its rows may be taken. For the coordinator of the read.
    pub fn open(&self) {
        let mut state = self.of.lock();
        let queue = state.queue(self.shard);
        if queue.gate == Gate::Shut {
            queue.gate = Gate::Open;
        }
        self.of.wake(state);
    }

    /// A second round replaces the run: its rows are dropped. For the coordinator of the read.
    pub fn drop_rows(&self) {
        let mut state = self.of.lock();
        let queue = state.queue(self.shard);
        queue.gate = Gate::Dropping;
        queue.clear();
        drop(state);
        self.of.has_room.notify_all();
    }

    /// Puts rows of a run in, however full the queue is.
    pub fn put(&self, run: Run, batch: Batch) {
        let mut state = self.of.lock();
        let is_run = state.is_run(self.shard, run);
        let queue = state.queue(self.shard);
        if !is_run || queue.gate == Gate::Dropping {
            return;
        }
        queue.bytes += batch.bytes;
        queue.batches.push_back(batch);
        if queue.gate == Gate::Open {
            self.of.wake(state);
        }
    }

    pub fn is_full(&self) -> bool {
        let mut state = self.of.lock();
        !state.is_closed && state.queue(self.shard).is_full()
    }

    /// Waits until the queue is not full, but no longer than this.
    pub fn wait_for_room(&self, most: Duration) {
        let is_full = |state: &mut State| !state.is_closed && state.queue(self.shard).is_full();
        let _ = self.of.has_room.wait_timeout_while(self.of.lock(), most, is_full);
    }

    /// # Errors
    /// 57014: the stream is closed, or another run has begun.
    pub fn check_open(&self, run: Run) -> Result<(), SqlError> {
        let mut state = self.of.lock();
        match state.is_closed || !state.is_run(self.shard, run) {
            true => {
                let message = "canceling statement because nobody takes its rows";
                Err(SqlError::new(SqlState::QUERY_CANCELED, message))
            }
            false => Ok(()),
        }
    }
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

    fn run(sequence: u64, round: u32) -> Run {
        (TxnId { coordinator: 1, sequence }, round)
    }

    fn taken(stream: &RowStream) -> usize {
        std::iter::from_fn(|| stream.take()).map(|rows| rows.len()).sum()
    }

    #[test]
    fn nothing_is_taken_before_the_coordinator_opens_it() {
        let stream = Arc::new(RowStream::default());
        let (one, other) = (RowQueue::new(stream.clone(), 1), RowQueue::new(stream.clone(), 2));
        for queue in [&one, &other] {
            queue.assign(run(1, 1).0).unwrap();
            queue.begin(run(1, 1));
            queue.put(run(1, 1), batch(2));
        }
        assert_eq!(taken(&stream), 0);
        one.open();
        other.drop_rows();
        other.put(run(1, 1), batch(4));
        assert_eq!(taken(&stream), 2, "the other one is replaced by a second round");
        other.begin(run(1, 2));
        other.put(run(1, 1), batch(8));
        other.put(run(1, 2), batch(16));
        assert_eq!(taken(&stream), 0);
        other.open();
        assert_eq!(taken(&stream), 16);
    }

    #[test]
    fn a_read_begins_again_only_before_its_rows_are_taken() {
        let stream = Arc::new(RowStream::default());
        let queue = RowQueue::new(stream.clone(), 0);
        assert!(!queue.may_begin(run(1, 1)), "it is not the stream's read");
        queue.assign(run(1, 1).0).unwrap();
        assert!(queue.may_begin(run(1, 1)));
        queue.begin(run(1, 1));
        queue.put(run(1, 1), batch(2));
        queue.open();
        assert!(!queue.may_begin(run(1, 1)) && queue.may_begin(run(1, 2)), "a request is repeated");
        queue.assign(run(2, 1).0).unwrap();
        assert!(queue.check_open(run(1, 1)).is_err(), "the first read is over");
        assert!(!queue.may_begin(run(1, 2)) && queue.may_begin(run(2, 1)));
        queue.begin(run(2, 1));
        queue.put(run(1, 1), batch(1));
        queue.put(run(2, 1), batch(3));
        assert_eq!(taken(&stream), 0, "the second run is not open");
        queue.open();
        assert_eq!(taken(&stream), 3);
        assert_eq!(queue.assign(run(3, 1).0).unwrap_err().state(), SqlState::SERIALIZATION_FAILURE);
    }

    #[test]
    fn a_full_queue_has_room_when_it_is_read_or_closed() {
        let stream = Arc::new(RowStream::default());
        let queue = RowQueue::new(stream.clone(), 0);
        queue.assign(run(1, 1).0).unwrap();
        queue.begin(run(1, 1));
        queue.open();
        let fill = || {
            while !queue.is_full() {
                queue.put(run(1, 1), batch(1_000));
            }
        };
        fill();
        let worker = std::thread::spawn({
            let queue = queue.clone();
            move || queue.wait_for_room(Duration::from_secs(600))
        });
        assert!(stream.take().is_some());
        worker.join().unwrap();
        fill();
        drop(Receiving(stream.clone()));
        assert!(!queue.is_full() && queue.check_open(run(1, 1)).is_err());
    }
}
