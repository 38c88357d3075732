//! Rows of a long read on their way to the client while the read still runs (docs/internals/steps.md, "Results").
//!
//! The worker of each shard puts batches into its queue, and waits while that is full; the session takes them out. All are in one
//! process. The coordinator of the read says when: it knows once all shards have begun whether a second round will replace a queue.
//! The rows of the result are those of each queue, one after another, or they are merged by their order.

mod merge;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use weir_core::ids::{ShardId, TxnId};
use weir_types::{SqlError, SqlState, Value};

pub use merge::{Compare, MergeOrder};
use merge::{Merge, NotYet};

/// Bytes of rows from which on a queue is full.
const FULL_BYTES: usize = 1 << 20;

/// Bytes of rows that a worker collects before it puts them into its queue.
const BATCH_BYTES: usize = 64 << 10;

/// Batches of rows whose memory is kept for later ones; those of large rows are not worth it.
const SPARE_MAX: usize = 4;
const SPARE_ROWS: usize = 64;

pub type Row = Vec<Value>;

/// The rows of one query, a queue of each shard that runs it.
#[derive(Debug, Default)]
pub struct RowStream {
    state: Mutex<State>,
    /// Only the session uses it.
    merge: Mutex<Option<Merge>>,
    /// A queue is not full any more, or the stream is closed.
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The read whose rows it takes: the coordinator's last one for the query.
    read: Option<TxnId>,
    queues: Vec<Queue>,
    /// Number of shards that run the query.
    shards: usize,
    /// How the rows of the queues are merged. None: those of each, one after another.
    order: Option<Arc<MergeOrder>>,
    /// The result has as many rows as its LIMIT says: whatever else comes is dropped.
    is_satisfied: bool,
    /// The session takes no more rows.
    is_closed: bool,
    /// All runs that are part of the result have begun, or have ended: nothing that is written from now on is among the rows.
    is_settled: bool,
    /// The session relies on `is_settled`: the rows are those of this read, or the query fails.
    is_kept: bool,
    waker: Option<Waker>,
    /// Rows that the session is done with, for the next batches.
    spare: Vec<Vec<Row>>,
}

/// Instead of a round: the rows are those of the shard's answer.
const GIVEN: u32 = u32::MAX;

/// Run of a shard: the read, and its round, from 1.
type Run = (TxnId, u32);

/// Rows of one shard. Invariants: they are those of one run. No row is taken before the coordinator has opened the queue: then all is
/// durable on which the run depends (S16), and the run is part of the result (S5).
#[derive(Debug)]
struct Queue {
    shard: ShardId,
    /// Round of the stream's read that has begun last; 0: none; [`GIVEN`]: no run puts rows in.
    round: u32,
    batches: VecDeque<Batch>,
    /// Of all batches.
    bytes: usize,
    gate: Gate,
    /// The run has put in all of its rows.
    has_ended: bool,
    /// A row has been taken, or it is known that there is none.
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
    /// Rows that the session is done with. Their memory is used again, so that it does not go from one thread's heap to the other's.
    spare: Vec<Row>,
}

impl Batch {
    /// Takes the values of the row, and leaves another one for the next values.
    pub fn push(&mut self, row: &mut Row) {
        self.bytes += Value::row_bytes(row);
        let spare = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(row.len()));
        self.rows.push(std::mem::replace(row, spare));
    }

    /// The batch, and an empty one for the next rows.
    pub fn cut(&mut self) -> Batch {
        let spare = std::mem::take(&mut self.spare);
        std::mem::replace(self, Batch { spare, ..Batch::default() })
    }

    /// Takes rows of the queue whose memory can be used again, unless it has some.
    pub fn refill(&mut self, queue: &RowQueue) {
        if self.spare.is_empty() {
            self.spare = queue.of.lock().spare.pop().unwrap_or_default();
        }
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
            let (has_ended, is_taken) = (false, false);
            self.queues.push(Queue { shard, round: 0, batches, bytes: 0, gate, has_ended, is_taken });
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
        queue.take(has_room)
    }

    /// Shards whose rows are merged, once the queues of all of them are open.
    fn merged_shards(&self) -> Option<Vec<ShardId>> {
        let open = self.queues.iter().filter(|queue| queue.gate == Gate::Open);
        let shards: Vec<ShardId> = open.map(|queue| queue.shard).collect();
        (shards.len() == self.shards).then_some(shards)
    }

    /// The next rows of the shard, which are to be merged; none: there are no more.
    fn take_to_merge(&mut self, shard: ShardId, has_room: &Condvar) -> Result<Option<Vec<Row>>, NotYet> {
        let queue = self.queue(shard);
        let rows = queue.take(has_room);
        if rows.is_none() && !queue.has_ended {
            return Err(NotYet);
        }
        queue.is_taken = true;
        Ok(rows)
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

    fn take(&mut self, has_room: &Condvar) -> Option<Vec<Row>> {
        let was_full = self.is_full();
        let Batch { rows, bytes, .. } = self.batches.pop_front()?;
        self.is_taken = true;
        self.bytes -= bytes;
        if was_full && !self.is_full() {
            has_room.notify_all();
        }
        Some(rows)
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
        self.take_or_be_woken(None)
    }

    /// If there are none yet, the waker is told when there may be some.
    fn take_or_be_woken(&self, waker: Option<&Waker>) -> Option<Vec<Row>> {
        let mut merge = self.merge.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut state = self.lock();
            let Some(order) = state.order.clone() else {
                let rows = state.take(&self.has_room);
                if rows.is_none() {
                    state.waker = waker.cloned();
                }
                return rows;
            };
            if merge.is_none() {
                *merge = state.merged_shards().map(|shards| Merge::new(order, shards));
            }
            let is_filled = merge.as_mut().is_some_and(|merge| {
                !merge.is_over() && merge.fill(|shard| state.take_to_merge(shard, &self.has_room))
            });
            let Some(merge) = merge.as_mut().filter(|_| is_filled) else {
                state.waker = waker.cloned();
                return None;
            };
            drop(state);
            let rows = merge.advance();
            if merge.is_satisfied() {
                self.satisfy();
            }
            if !rows.is_empty() {
                return Some(rows);
            }
        }
    }

    /// Takes back rows that the session is done with.
    pub fn give_back(&self, rows: Vec<Row>) {
        let mut state = self.lock();
        if state.spare.len() < SPARE_MAX && rows.len() >= SPARE_ROWS {
            state.spare.push(rows);
        }
    }

    /// Drops what comes from now on.
    fn satisfy(&self) {
        let mut state = self.lock();
        state.is_satisfied = true;
        state.queues.iter_mut().for_each(Queue::clear);
        self.has_room.notify_all();
    }

    /// Merges the rows of the shards from now on. For the coordinator of the read, before it begins.
    pub fn merge(&self, order: MergeOrder) {
        self.lock().order = Some(Arc::new(order));
    }

    /// Waits for the next rows. Does not end when the read ends.
    pub async fn next(&self) -> Vec<Row> {
        std::future::poll_fn(|context: &mut Context<'_>| {
            self.take_or_be_woken(Some(context.waker())).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits until all rows are of a state that nothing changes any more. From then on it takes rows of no other read. Does not end
    /// when the read ends.
    pub async fn settled(&self) {
        std::future::poll_fn(|context: &mut Context<'_>| {
            let mut state = self.lock();
            match state.is_settled {
                true => {
                    state.is_kept = true;
                    Poll::Ready(())
                }
                false => {
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

    /// From now on the stream takes rows of this read alone, which so many shards run. For the coordinator of the read.
    ///
    /// # Errors
    /// 40001: rows of an earlier read have been taken, or its state is relied on.
    pub fn assign(&self, read: TxnId, shards: usize) -> Result<(), SqlError> {
        let mut state = self.of.lock();
        if state.read == Some(read) {
            return Ok(());
        }
        if state.is_kept || state.queues.iter().any(|queue| queue.is_taken) {
            let message = "could not begin a query again after some of its rows were sent";
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Try again."));
        }
        state.read = Some(read);
        state.queues.clear();
        state.shards = shards;
        state.is_settled = false;
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
        (queue.round, queue.gate, queue.has_ended) = (round, Gate::Shut, false);
    }

    /// The run has put in all of its rows. For the coordinator of the read.
    pub fn end(&self) {
        let mut state = self.of.lock();
        let queue = state.queue(self.shard);
        if queue.gate != Gate::Dropping {
            queue.has_ended = true;
            self.of.wake(state);
        }
    }

    /// These rows are all that the shard gives: it has answered with them. For the coordinator of the read, if other shards put rows into
    /// their queues.
    pub fn give(&self, mut rows: Vec<Row>) {
        let mut state = self.of.lock();
        if state.queue(self.shard).has_ended {
            return;
        }
        if let Some(order) = &state.order {
            // Shards of an earlier version of the program do not sort them. What is sorted takes one look at each row.
            rows.sort_by(|left, right| (order.compare)(left, right));
        }
        let (is_satisfied, queue) = (state.is_satisfied, state.queue(self.shard));
        queue.clear();
        // A run that a repeated request has begun meanwhile is not part of the result.
        (queue.round, queue.gate, queue.has_ended) = (GIVEN, Gate::Open, true);
        if !rows.is_empty() && !is_satisfied {
            let bytes = rows.iter().map(|row| Value::row_bytes(row)).sum();
            queue.bytes = bytes;
            queue.batches.push_back(Batch { rows, bytes, spare: Vec::new() });
        }
        self.of.wake(state);
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

    /// All runs of the read that are part of the result have begun. For the coordinator of the read.
    pub fn settle(&self) {
        let mut state = self.of.lock();
        state.is_settled = true;
        self.of.wake(state);
    }

    /// A second round replaces the run: its rows are dropped, and it ends early. For the coordinator of the read.
    pub fn drop_rows(&self) {
        let mut state = self.of.lock();
        let queue = state.queue(self.shard);
        (queue.gate, queue.has_ended) = (Gate::Dropping, false);
        queue.clear();
        drop(state);
        self.of.has_room.notify_all();
    }

    /// Puts rows of a run in, however full the queue is.
    pub fn put(&self, run: Run, batch: Batch) {
        let mut state = self.of.lock();
        let takes = state.is_run(self.shard, run) && !state.is_satisfied;
        let queue = state.queue(self.shard);
        if !takes || queue.gate == Gate::Dropping {
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

    /// Returns whether the rows of the run are dropped, for a second round or an answer replaces it.
    pub fn is_dropping(&self, run: Run) -> bool {
        let mut state = self.of.lock();
        let is_replaced = !state.is_run(self.shard, run) || state.queue(self.shard).gate == Gate::Dropping;
        state.read == Some(run.0) && is_replaced
    }

    /// Returns whether the run has begun, and is the last one.
    pub fn has_begun(&self, run: Run) -> bool {
        self.of.lock().is_run(self.shard, run)
    }

    /// # Errors
    /// 57014: the stream is closed, or the rows of the run are dropped, or another run has begun.
    pub fn check_open(&self, run: Run) -> Result<(), SqlError> {
        let mut state = self.of.lock();
        let is_run = state.is_run(self.shard, run) && state.queue(self.shard).gate != Gate::Dropping;
        match state.is_closed || !is_run {
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
    use std::future::Future;

    use super::*;

    fn batch(rows: i64) -> Batch {
        let mut batch = Batch::default();
        (0..rows).for_each(|row| batch.push(&mut vec![Value::Int(row)]));
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
            queue.assign(run(1, 1).0, 1).unwrap();
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
        queue.assign(run(1, 1).0, 1).unwrap();
        assert!(queue.may_begin(run(1, 1)));
        queue.begin(run(1, 1));
        queue.put(run(1, 1), batch(2));
        queue.open();
        assert!(!queue.may_begin(run(1, 1)) && queue.may_begin(run(1, 2)), "a request is repeated");
        queue.assign(run(2, 1).0, 1).unwrap();
        assert!(queue.check_open(run(1, 1)).is_err(), "the first read is over");
        assert!(!queue.may_begin(run(1, 2)) && queue.may_begin(run(2, 1)));
        queue.begin(run(2, 1));
        queue.put(run(1, 1), batch(1));
        queue.put(run(2, 1), batch(3));
        assert_eq!(taken(&stream), 0, "the second run is not open");
        queue.open();
        assert_eq!(taken(&stream), 3);
        assert_eq!(queue.assign(run(3, 1).0, 1).unwrap_err().state(), SqlState::SERIALIZATION_FAILURE);
    }

    /// Once its state is relied on, a stream takes rows of no other read, though none have been taken.
    #[test]
    fn a_state_that_is_relied_on_is_kept() {
        let stream = Arc::new(RowStream::default());
        let queue = RowQueue::new(stream.clone(), 0);
        let mut context = Context::from_waker(Waker::noop());
        let mut is_settled = || std::pin::pin!(stream.settled()).poll(&mut context).is_ready();
        queue.assign(run(1, 1).0, 1).unwrap();
        queue.settle();
        queue.assign(run(2, 1).0, 1).unwrap();
        assert!(!is_settled(), "the other read has to be settled first");
        queue.settle();
        assert!(is_settled());
        assert_eq!(queue.assign(run(3, 1).0, 1).unwrap_err().state(), SqlState::SERIALIZATION_FAILURE);
    }

    /// Rows of a run that is replaced are in no merge, whatever comes in which order.
    #[test]
    fn a_merge_waits_for_the_last_run_of_each_shard() {
        let stream = Arc::new(RowStream::default());
        let compare: Compare = Arc::new(|left, right| match (&left[0], &right[0]) {
            (Value::Int(left), Value::Int(right)) => left.cmp(right),
            other => panic!("{other:?}"),
        });
        stream.merge(MergeOrder { compare, width: 1, skip: 0, most: usize::MAX });
        let queues: Vec<RowQueue> = (0..3).map(|shard| RowQueue::new(stream.clone(), shard)).collect();
        for queue in &queues {
            queue.assign(run(1, 1).0, 3).unwrap();
        }
        for queue in &queues[..2] {
            queue.begin(run(1, 1));
            queue.put(run(1, 1), batch(2));
        }
        queues[1].end();
        queues[0].open();
        queues[1].drop_rows();
        queues[2].give(batch(3).rows);
        assert_eq!(taken(&stream), 0, "the second shard runs again");
        assert!(!queues[2].may_begin(run(1, 1)) && queues[2].is_dropping(run(1, 1)), "it has answered");
        queues[1].begin(run(1, 2));
        queues[1].put(run(1, 2), batch(4));
        queues[1].open();
        assert_eq!(
            taken(&stream),
            4,
            "behind the last row of the first shard there may be more that are less"
        );
        queues[0].end();
        queues[1].end();
        assert_eq!(taken(&stream), 5);
        assert!(stream.take().is_none());
    }

    #[test]
    fn a_full_queue_has_room_when_it_is_read_or_closed() {
        let stream = Arc::new(RowStream::default());
        let queue = RowQueue::new(stream.clone(), 0);
        queue.assign(run(1, 1).0, 1).unwrap();
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
