//! Long statements of a shard: those that have exceeded the budget of a step, and run on workers beside the shard's steps
//! (docs/internals/steps.md). Reads are here, calls and statements that write in [`super::long_calls`].

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_core::ids::{CoordinatorId, Position, ShardId, TxnId};
use weir_core::lsn::Lsn;
use weir_core::machine::{Pace, Work};
use weir_core::participant::Transactions as _;
use weir_types::interrupt::{Budget, Interrupts, StatementId, allocated, check_now, pass_on, pause_with};
use weir_types::memory::WorkingMemory;
use weir_types::{SqlError, SqlState};

use super::long_calls::{Attempts, EndedCall};
use super::reads::{read_rows, read_rows_into};
use super::snapshot::CHANGES_MAX;
use crate::exec::fetch::Found;
use crate::exec::program::Program;
use crate::faults::Faults;
use crate::message::{ReadQuery, Reply, Sibling, schema_has_changed};
use crate::shard::node::{Effects, Node};
use crate::storage::moment::{Changed, Moment, MomentParts, Progress};
use crate::stream::{Batch, Row, RowQueue};

/// Number of workers of a shard that run at once; further long statements wait in order.
const WORKERS_MAX: usize = 64;

/// Number of workers that rest until their reader takes rows and that are not among [`WORKERS_MAX`]. Each is a thread.
const RESTING_MAX: usize = 1_024;

/// The answer to a read, but for its rows.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) read: TxnId,
    pub(crate) round: u32,
    pub(crate) position: Position,
    pub(crate) siblings: Vec<Sibling>,
    /// Position of the log that it depends on.
    pub(crate) after: Lsn,
    /// Its rows come through a queue.
    pub(crate) is_streamed: bool,
}

impl Answer {
    fn run(&self) -> (TxnId, u32) {
        (self.read, self.round)
    }

    /// That its rows come through a queue.
    fn streams(&self, shard: ShardId, siblings: Vec<Sibling>, ended: Option<usize>) -> Reply {
        let Answer { read, round, position, .. } = *self;
        Reply::ReadStreams { read, shard, round, position, siblings, ended }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    /// A call or statement that writes nothing.
    ReadOnlyCall,
    Call,
    /// A commit in slices.
    Commit,
}

#[derive(Debug)]
pub(super) struct Running {
    progress: Arc<Progress>,
    /// Its coordinator is gone, or has ended its transaction: its answer is dropped.
    is_unheard: bool,
    kind: Kind,
}

impl Running {
    pub(super) fn call(progress: Arc<Progress>, writes: bool) -> Running {
        let kind = if writes { Kind::Call } else { Kind::ReadOnlyCall };
        Running { progress, is_unheard: false, kind }
    }

    pub(super) fn is_unheard(&self) -> bool {
        self.is_unheard
    }

    pub(super) fn is_read_only(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::ReadOnlyCall)
    }

    fn end_unheard(&mut self) {
        self.is_unheard = true;
        self.progress.end(unheard());
    }
}

/// The last word about a run whose rows come through a queue. It may be lost, and the run does not begin again: so it is repeated.
#[derive(Debug)]
struct Said {
    round: u32,
    reply: Reply,
    after: Lsn,
}

/// The result of a worker's statement, on its way to the shard.
#[derive(Debug)]
pub(super) enum Finished {
    Read {
        answer: Answer,
        result: Result<Found, SqlError>,
    },
    Call(Box<EndedCall>),
    /// The next slice of the transaction's commit is due.
    Slice(TxnId),
}

/// A work without work: when it ends, the next slice of a commit is due.
struct NextSlice {
    txn: TxnId,
    done: Done,
}

impl Drop for NextSlice {
    fn drop(&mut self) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(Finished::Slice(self.txn));
    }
}

pub(super) type Done = Arc<Mutex<Vec<Finished>>>;

#[derive(Default)]
pub(crate) struct Workers {
    /// None: the driver runs no work, and every statement runs within its step.
    budget: Option<Budget>,
    /// Work that the driver has not been given yet.
    queued: VecDeque<Work>,
    /// Work of commits. It takes no time, and is not counted.
    of_commits: Vec<Work>,
    /// Work that the driver has and that has not finished.
    handed_out: usize,
    running: BTreeMap<TxnId, Running>,
    /// Reads whose history was dropped while they ran: their answer stands, but they cannot be read at an earlier position.
    outgrown: BTreeSet<TxnId>,
    /// Of reads that are not over.
    said: BTreeMap<TxnId, Said>,
    /// Calls that begin again.
    pub(super) attempts: BTreeMap<TxnId, Attempts>,
    done: Done,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("running", &self.running).finish_non_exhaustive()
    }
}

impl Workers {
    pub(crate) fn set_budget(&mut self, budget: Budget) {
        self.budget = Some(budget);
    }

    /// Budget of a read within a step; none: it runs to its end.
    pub(crate) fn budget(&self) -> Option<Budget> {
        self.budget
    }

    /// Returns whether any worker may read the storage.
    pub(crate) fn has_any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns whether a request for this round of the read is a repetition, or late: a worker runs it, or has run it and put rows into its
    /// queue, or the read is over.
    fn is_late(&self, (read, round): (TxnId, u32), query: &ReadQuery) -> bool {
        self.running.contains_key(&read) || query.queue().is_some_and(|queue| !queue.may_begin((read, round)))
    }

    pub(super) fn begin(&mut self, txn: TxnId, running: Running, work: Work) {
        self.running.insert(txn, running);
        self.queued.push_back(work);
    }

    pub(super) fn done(&self) -> Done {
        self.done.clone()
    }

    /// Returns whether a call or statement of any transaction runs on a worker.
    pub(crate) fn has_calls(&self) -> bool {
        self.running.values().any(|running| running.kind != Kind::Read)
    }

    /// Returns whether a call or statement of the transaction runs on a worker, or it commits in slices.
    pub(crate) fn calls(&self, txn: TxnId) -> bool {
        self.running.get(&txn).is_some_and(|running| running.kind != Kind::Read)
    }

    /// Returns whether a worker has the write set of the transaction.
    pub(crate) fn runs_for(&self, txn: TxnId) -> bool {
        self.calls(txn) && !self.commits(txn)
    }

    /// Returns whether the transaction commits in slices.
    pub(crate) fn commits(&self, txn: TxnId) -> bool {
        self.running.get(&txn).is_some_and(|running| running.kind == Kind::Commit)
    }

    /// Transactions whose calls or statements run on workers and may write, or that commit in slices.
    pub(crate) fn writers(&self) -> impl Iterator<Item = TxnId> {
        self.running.iter().filter(|(_, running)| !running.is_read_only()).map(|(txn, _)| *txn)
    }

    pub(super) fn begin_commit(&mut self, txn: TxnId) {
        // It needs no history.
        let progress = Arc::new(Progress::new(Position::MAX));
        self.running.insert(txn, Running { progress, is_unheard: false, kind: Kind::Commit });
    }

    pub(super) fn end_commit(&mut self, txn: TxnId) {
        self.running.remove(&txn);
    }

    /// The driver is to come back for the next slice of the transaction's commit.
    pub(super) fn come_back(&mut self, txn: TxnId) {
        let next = NextSlice { txn, done: self.done.clone() };
        self.of_commits.push(Box::new(move |_| drop(next)));
    }

    /// Drops something large beside the shard's steps.
    pub(crate) fn drop_beside(&mut self, leftovers: impl Send + 'static) {
        self.of_commits.push(Box::new(move |_| drop(leftovers)));
    }

    /// Ends the call of the transaction; nobody waits for its answer.
    pub(crate) fn abandon(&mut self, txn: TxnId) {
        self.running.get_mut(&txn).into_iter().for_each(Running::end_unheard);
    }

    /// Oldest position whose history a worker needs.
    pub(crate) fn oldest(&self) -> Option<Position> {
        self.running.values().map(|running| running.progress.needs()).min()
    }

    /// Work for the driver, as much as may run at once.
    pub(crate) fn take(&mut self) -> Vec<Work> {
        let of_commits = std::mem::take(&mut self.of_commits);
        if self.queued.is_empty() {
            return of_commits;
        }
        let resting = self.running.values().filter(|running| running.progress.rests_for_reader()).count();
        let counted = self.handed_out.saturating_sub(resting.min(RESTING_MAX));
        let count = self.queued.len().min(WORKERS_MAX.saturating_sub(counted));
        self.handed_out += count;
        of_commits.into_iter().chain(self.queued.drain(..count)).collect()
    }

    /// Ends all that run, for the tables are another schema's from now on. None of them writes: a definition waits for those that do.
    pub(crate) fn on_definition(&self) {
        self.running.values().for_each(|running| running.progress.end(schema_has_changed()));
    }

    /// Ends what runs for these coordinators, since nobody waits for it.
    pub(crate) fn drop_those_of(&mut self, silent: &[CoordinatorId]) {
        let of_them = self.running.iter_mut().filter(|(txn, _)| silent.contains(&txn.coordinator));
        of_them.for_each(|(_, running)| running.end_unheard());
        self.said.retain(|read, _| !silent.contains(&read.coordinator));
    }

    pub(crate) fn has_outgrown(&self, read: TxnId) -> bool {
        self.outgrown.contains(&read)
    }

    /// The read is over: if it still runs, nobody waits for its answer.
    pub(crate) fn end(&mut self, read: TxnId) {
        self.outgrown.remove(&read);
        self.said.remove(&read);
        self.abandon(read);
    }

    /// These reads are over: nobody waits for the answers of those that still run.
    pub(crate) fn end_all(&mut self, over: Range<TxnId>) {
        while let Some(&read) = self.outgrown.range(over.clone()).next() {
            self.outgrown.remove(&read);
        }
        while let Some((&read, _)) = self.said.range(over.clone()).next() {
            self.said.remove(&read);
        }
        let running = self.running.range_mut(over).map(|(_, running)| running);
        running.filter(|running| running.kind == Kind::Read).for_each(Running::end_unheard);
    }

    fn finished(&self) -> Vec<Finished> {
        std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn unheard() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement because its client is gone")
}

pub(super) fn no_thread() -> SqlError {
    let message = "could not run a statement on a thread of its own";
    SqlError::new(SqlState::INSUFFICIENT_RESOURCES, message).with_hint("The server's log says why.")
}

/// Intervals at which a worker that waits for its reader looks at its interrupts: the first one, and the longest. Each is twice the one
/// before: a reader may wait for hours.
const LOOK_EVERY: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(320)];

/// Passes rows of a worker's read on to the queue of its shard.
struct Sender {
    queue: RowQueue,
    /// The read and its round.
    run: (TxnId, u32),
    moment: Rc<Moment>,
    batch: Batch,
    /// Bytes that this thread had allocated when the batch was begun.
    allocated: i64,
}

impl Sender {
    fn new(queue: RowQueue, run: (TxnId, u32), moment: Rc<Moment>) -> Sender {
        Sender { queue, run, moment, batch: Batch::default(), allocated: allocated() }
    }

    fn take(&mut self, row: &mut Row) -> Result<(), SqlError> {
        self.batch.push(row);
        if self.batch.is_large() { self.send() } else { Ok(()) }
    }

    /// Puts the batch into the queue, and waits until there is room for more.
    fn send(&mut self) -> Result<(), SqlError> {
        let batch = self.batch.cut();
        // What the query has taken for itself since remains its own.
        pass_on((allocated() - self.allocated).clamp(0, batch.allocated()));
        self.queue.put(self.run, batch);
        self.batch.refill(&self.queue);
        let mut look_every = LOOK_EVERY[0];
        while self.queue.is_full() {
            self.moment.rest_for_reader(&mut || self.queue.wait_for_room(look_every));
            look_every = (2 * look_every).min(LOOK_EVERY[1]);
            check_now()?;
        }
        self.allocated = allocated();
        self.queue.check_open(self.run)
    }

    /// Puts the rest into the queue.
    fn finish(mut self) -> Result<(), SqlError> {
        if self.batch.is_empty() { Ok(()) } else { self.send() }
    }
}

/// A long read on its way to a worker. Whatever becomes of it, the shard hears of its end.
struct LongRead {
    parts: Option<MomentParts>,
    program: Arc<Program>,
    query: Arc<ReadQuery>,
    interrupts: Arc<Interrupts>,
    statement: StatementId,
    answer: Option<Answer>,
    done: Done,
}

impl LongRead {
    fn run(mut self, pace: Arc<dyn Pace>) {
        let parts = self.parts.take().expect("a read runs once");
        let progress = parts.progress.clone();
        let result = {
            let moment = Rc::new(Moment::new(parts, pace));
            let at_checks = moment.clone();
            let _pausing = pause_with(Rc::new(move || {
                at_checks.pause();
                at_checks.check_void()
            }));
            let _watch = self.interrupts.watch(self.statement);
            self.read(&moment)
        };
        let result = progress.void().map_or(result, |why| Err(why.clone()));
        self.finish(result);
    }

    fn read(&self, moment: &Rc<Moment>) -> Result<Found, SqlError> {
        let streaming = self.query.parts.as_deref().and_then(|of| Some((of, of.stream.clone()?)));
        let (Some((of, queue)), Some(answer)) = (streaming, &self.answer) else {
            return read_rows(&self.program, &**moment, &self.query);
        };
        let mut sender = Sender::new(queue.clone(), answer.run(), moment.clone());
        let found = read_rows_into(&self.program, &**moment, of, &mut |row| sender.take(row));
        match found.and_then(|found| sender.finish().map(|()| found)) {
            // A second round gives its rows, or its error.
            Err(_) if queue.is_dropping(answer.run()) => Ok((Vec::new(), 0)),
            found => found,
        }
    }

    fn finish(&mut self, result: Result<Found, SqlError>) {
        if let Some(answer) = self.answer.take() {
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push(Finished::Read { answer, result });
        }
    }
}

impl Drop for LongRead {
    /// Its thread could not be started, or it has panicked.
    fn drop(&mut self) {
        self.finish(Err(no_thread()));
    }
}

impl<F: Faults> Node<F> {
    /// Hands a read to a worker. It sees the state of now, but for the rows in `changed`.
    pub(crate) fn read_beside(
        &mut self,
        mut answer: Answer,
        changed: Changed,
        within: Option<(TxnId, u64)>,
        query: &Arc<ReadQuery>,
        out: &mut Effects,
    ) {
        if let Some(queue) = query.queue() {
            queue.begin(answer.run());
            let siblings =
                if self.bugs.begins_without_siblings() { Vec::new() } else { answer.siblings.clone() };
            let begun = answer.streams(self.shard, siblings, None);
            self.say(answer.run(), begun, self.rests_on(&answer), out);
            answer.is_streamed = true;
        }
        let progress = Arc::new(Progress::new(self.storage.position()));
        let statement = self.statement;
        let running = Running { progress: progress.clone(), is_unheard: false, kind: Kind::Read };
        let own = self.open_of(within).map(|open| open.own.share()).unwrap_or_default();
        let memory = query.parts.as_deref().map_or_else(WorkingMemory::default, |of| of.memory);
        let parts = MomentParts {
            storage: self.storage.lock(),
            schema: self.program.schema.clone(),
            progress,
            changed,
            own,
            memory,
            advances: self.bugs.moment_advances(),
        };
        let txn = answer.read;
        let read = LongRead {
            parts: Some(parts),
            program: self.program.clone(),
            query: query.clone(),
            interrupts: self.interrupts.clone(),
            statement,
            answer: Some(answer),
            done: self.workers.done.clone(),
        };
        self.workers.begin(txn, running, Box::new(move |pace| read.run(pace)));
    }

    /// Returns whether a request for this round of the read is a repetition, or late. What was said of that round is said again. If a run
    /// was ended because its coordinator was silent, the read has to begin again.
    pub(crate) fn is_late_read(
        &mut self,
        (read, round): (TxnId, u32),
        query: &ReadQuery,
        out: &mut Effects,
    ) -> bool {
        let is_late = self.workers.is_late((read, round), query);
        match self.workers.said.get(&read) {
            _ if !is_late => {}
            Some(said) if said.round == round => {
                out.reply(read.coordinator, said.reply.clone(), said.after);
            }
            Some(_) => {}
            None => {
                let runs = self.workers.running.contains_key(&read);
                if !runs && query.queue().is_some_and(|queue| queue.has_begun((read, round))) {
                    self.read_again(read, out);
                }
            }
        }
        is_late
    }

    /// Says something of a run whose rows come through a queue.
    fn say(&mut self, (read, round): (TxnId, u32), reply: Reply, after: Lsn, out: &mut Effects) {
        self.workers.said.insert(read, Said { round, reply: reply.clone(), after });
        out.reply(read.coordinator, reply, after);
    }

    /// Drops the history that long reads keep, once that is too long.
    pub(crate) fn bound_long_reads(&mut self) {
        let end = self.storage.position();
        for read in self.workers.running.keys() {
            let is_old = |since: &mut Position| end - *since > CHANGES_MAX;
            if let Entry::Occupied(mut reader) = self.readers.entry(*read)
                && is_old(reader.get_mut())
            {
                reader.remove();
                self.workers.outgrown.insert(*read);
            }
        }
    }

    pub(crate) fn answer_finished(&mut self, now_ms: u64, out: &mut Effects) {
        for finished in self.workers.finished() {
            let txn = match &finished {
                Finished::Read { answer, .. } => answer.read,
                Finished::Call(ended) => ended.txn(),
                Finished::Slice(txn) => {
                    self.on_slice(*txn, out);
                    continue;
                }
            };
            self.workers.handed_out -= 1;
            let Some(running) = self.workers.running.remove(&txn) else { continue };
            match finished {
                Finished::Read { answer, result } if !running.is_unheard => {
                    self.answer_read(answer, result, out)
                }
                Finished::Read { .. } => {}
                Finished::Call(ended) => self.end_call(now_ms, &running, *ended, out),
                Finished::Slice(_) => unreachable!("it has been handled"),
            }
        }
    }

    /// Position of the log that must be durable before anything of the read leaves.
    fn rests_on(&self, answer: &Answer) -> Lsn {
        if self.bugs.ignores_read_dependencies() { Lsn::START } else { answer.after }
    }

    fn answer_read(&mut self, mut answer: Answer, result: Result<Found, SqlError>, out: &mut Effects) {
        let after = self.rests_on(&answer);
        let (read, shard, run) = (answer.read, self.shard, answer.run());
        let Answer { round, position, is_streamed, .. } = answer;
        match result {
            Ok((_, examined)) if is_streamed => {
                let siblings = std::mem::take(&mut answer.siblings);
                self.say(run, answer.streams(shard, siblings, Some(examined)), after, out);
            }
            Ok((rows, examined)) => {
                let siblings = answer.siblings;
                let reply = Reply::ReadRows { read, shard, round, position, rows, examined, siblings };
                out.reply(read.coordinator, reply, after);
            }
            Err(error) if is_streamed => {
                self.say(run, Reply::Refused { txn: read, shard, error }, self.noted(), out)
            }
            Err(error) => self.refuse_read(read, error, out),
        }
    }
}
