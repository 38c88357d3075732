//! Long reads of a shard: reads that have exceeded the budget of a step, and run on workers beside the shard's steps
//! (docs/internals/steps.md).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use weir_core::ids::{CoordinatorId, Position, TxnId};
use weir_core::lsn::Lsn;
use weir_core::machine::{Pace, Work};
use weir_types::interrupt::{Budget, Interrupts, StatementId, pause_with};
use weir_types::{SqlError, SqlState};

use super::reads::read_rows;
use super::snapshot::CHANGES_MAX;
use crate::exec::fetch::Found;
use crate::exec::program::Program;
use crate::faults::Faults;
use crate::message::{ReadQuery, Reply, Sibling, schema_has_changed};
use crate::shard::node::{Effects, Node};
use crate::storage::moment::{Changed, Moment, MomentParts, Progress};

/// Number of workers of a shard that run at once; further long reads wait in order.
const WORKERS_MAX: usize = 64;

/// The answer to a read, but for its rows.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) read: TxnId,
    pub(crate) round: u32,
    pub(crate) position: Position,
    pub(crate) siblings: Vec<Sibling>,
    /// Position of the log that it depends on.
    pub(crate) after: Lsn,
}

#[derive(Debug)]
struct Running {
    progress: Arc<Progress>,
    /// Its coordinator is gone, so its answer is dropped.
    is_unheard: bool,
}

/// The result of a long read, on its way to the shard.
#[derive(Debug)]
struct Finished {
    answer: Answer,
    result: Result<Found, SqlError>,
}

type Done = Arc<Mutex<Vec<Finished>>>;

#[derive(Default)]
pub(crate) struct Workers {
    /// None: the driver runs no work, and every statement runs within its step.
    budget: Option<Budget>,
    /// Work that the driver has not been given yet.
    queued: VecDeque<Work>,
    /// Work that the driver has and that has not finished.
    handed_out: usize,
    running: BTreeMap<TxnId, Running>,
    /// Reads whose history was dropped while they ran: their answer stands, but they cannot be read at an earlier position.
    outgrown: BTreeSet<TxnId>,
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

    pub(crate) fn runs(&self, read: TxnId) -> bool {
        self.running.contains_key(&read)
    }

    /// Oldest position whose history a worker needs.
    pub(crate) fn oldest(&self) -> Option<Position> {
        self.running.values().map(|running| running.progress.needs()).min()
    }

    /// Work for the driver, as much as may run at once.
    pub(crate) fn take(&mut self) -> Vec<Work> {
        let count = self.queued.len().min(WORKERS_MAX - self.handed_out);
        self.handed_out += count;
        self.queued.drain(..count).collect()
    }

    /// Ends all reads: their tables are another schema's from now on.
    pub(crate) fn on_definition(&self) {
        self.running.values().for_each(|running| running.progress.end(schema_has_changed()));
    }

    /// Ends the reads of these coordinators, which nobody waits for.
    pub(crate) fn drop_those_of(&mut self, silent: &[CoordinatorId]) {
        for (read, running) in &mut self.running {
            if silent.contains(&read.coordinator) {
                running.is_unheard = true;
                running.progress.end(unheard());
            }
        }
    }

    pub(crate) fn has_outgrown(&self, read: TxnId) -> bool {
        self.outgrown.contains(&read)
    }

    /// The read is over.
    pub(crate) fn end(&mut self, read: TxnId) {
        self.outgrown.remove(&read);
    }

    /// These reads are over.
    pub(crate) fn end_all(&mut self, over: Range<TxnId>) {
        while let Some(&read) = self.outgrown.range(over.clone()).next() {
            self.outgrown.remove(&read);
        }
    }

    fn finished(&self) -> Vec<Finished> {
        std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn unheard() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement because its client is gone")
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
            read_rows(&self.program, &*moment, &self.query)
        };
        let result = progress.void().map_or(result, |why| Err(why.clone()));
        self.finish(result);
    }

    fn finish(&mut self, result: Result<Found, SqlError>) {
        if let Some(answer) = self.answer.take() {
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push(Finished { answer, result });
        }
    }
}

impl Drop for LongRead {
    /// Its thread could not be started, or it has panicked.
    fn drop(&mut self) {
        let error = SqlError::new(
            SqlState::INSUFFICIENT_RESOURCES,
            "could not run a statement on a thread of its own",
        )
        .with_hint("The server's log says why.");
        self.finish(Err(error));
    }
}

impl<F: Faults> Node<F> {
    /// Hands a read to a worker. It sees the state of now, but for the rows in `changed`.
    pub(crate) fn read_beside(
        &mut self,
        answer: Answer,
        changed: Changed,
        within: Option<(TxnId, u64)>,
        query: &Arc<ReadQuery>,
    ) {
        let progress = Arc::new(Progress::new(self.storage.position()));
        let statement = self.statement;
        let running = Running { progress: progress.clone(), is_unheard: false };
        let own = self.open_of(within).map(|open| open.own.share());
        let parts = MomentParts {
            storage: self.storage.lock(),
            schema: self.program.schema.clone(),
            progress,
            changed,
            own,
            advances: self.bugs.moment_advances(),
        };
        self.workers.running.insert(answer.read, running);
        let read = LongRead {
            parts: Some(parts),
            program: self.program.clone(),
            query: query.clone(),
            interrupts: self.interrupts.clone(),
            statement,
            answer: Some(answer),
            done: self.workers.done.clone(),
        };
        self.workers.queued.push_back(Box::new(move |pace| read.run(pace)));
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

    pub(crate) fn answer_finished(&mut self, out: &mut Effects) {
        for Finished { answer, result } in self.workers.finished() {
            self.workers.handed_out -= 1;
            let Answer { read, round, position, siblings, after } = answer;
            let running = self.workers.running.remove(&read);
            if running.is_none_or(|running| running.is_unheard) {
                continue;
            }
            let shard = self.shard;
            match result {
                Ok((rows, examined)) => {
                    let reply = Reply::ReadRows { read, shard, round, position, rows, examined, siblings };
                    let after = if self.bugs.ignores_read_dependencies() { Lsn::START } else { after };
                    out.reply(read.coordinator, reply, after);
                }
                Err(error) => self.refuse_read(read, error, out),
            }
        }
    }
}
