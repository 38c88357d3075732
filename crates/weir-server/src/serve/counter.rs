//! Where a shard is spoken to: by its own thread, which carries connections, and by the coordinators of its own process.

use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;
use serde::Serialize;
use tracing::warn;
use weir_core::history::Seen;
use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::lsn::Lsn;
use weir_core::machine::{Exposed, Shard, Work};
use weir_core::nearby::{Actor, Nearby, ReplySink, is_hurried};
use weir_types::interrupt::Interrupts;

use super::log::LogError;
use super::outbox::{Leaving, Outbox};
use super::permits::Permits;
use super::recovery::STACK_BYTES;
use super::shard_loop::Inbox;
use super::writer::WriterHere;
use crate::embedded::now_ms;

/// A shard, and what it has to say.
pub(super) struct Core<S: Exposed> {
    pub shard: S,
    pub outbox: Outbox<S>,
    sinks: FxHashMap<CoordinatorId, Weak<dyn ReplySink<S>>>,
    /// For the thread that has connections.
    pub away: Leaving<S>,
    /// It could not be written down.
    pub failed: Option<LogError>,
    /// Nothing more is done.
    is_over: bool,
}

/// An arrival for the shard.
pub(super) enum Arrival<S: Shard> {
    /// Requests of a coordinator of this process.
    Said { from: CoordinatorId, progress: S::Progress, requests: Vec<S::Request> },
    /// More records of the log are durable.
    Written,
    /// A worker has finished.
    Worked,
}

type Answers<S> = (Arc<dyn ReplySink<S>>, Vec<<S as Shard>::Reply>);

/// Replies for coordinators of this process.
pub(super) struct Deliveries<S: Shard> {
    to: Vec<Answers<S>>,
    shard: ShardId,
    epoch: u64,
}

impl<S: Shard> Deliveries<S> {
    /// Delivers the replies. The caller must not hold the shard's turn: receivers may send further requests at once.
    pub(super) fn tell(self) {
        for (sink, replies) in self.to {
            sink.deliver(self.shard, self.epoch, replies);
        }
    }
}

pub(super) struct Counter<S: Exposed> {
    pub actor: Actor<Core<S>, Arrival<S>>,
    /// Itself, for workers.
    own: Weak<Counter<S>>,
    inbox: Arc<Inbox>,
    interrupts: Option<Arc<Interrupts>>,
    seen: Arc<Seen>,
    /// For workers.
    permits: Arc<Permits>,
    /// Writes the log of a turn whose thread has nothing else to do.
    writer: Option<WriterHere<S::Record>>,
}

/// Work on its way to a thread. However it ends, the shard is told once it has.
struct Worker<F: Fn()> {
    work: Option<Work>,
    permits: Arc<Permits>,
    tell: F,
}

impl<F: Fn()> Worker<F> {
    fn run(mut self) {
        if let Some(work) = self.work.take() {
            work(self.permits.take());
        }
    }
}

impl<F: Fn()> Drop for Worker<F> {
    fn drop(&mut self) {
        // Work that no thread has run ends when it is dropped.
        self.work = None;
        (self.tell)();
    }
}

impl<S> Core<S>
where
    S: Exposed,
    S::Record: Serialize + Send + 'static,
{
    /// Begins a turn, and does what coordinators of this process have asked for.
    pub(super) fn serve(&mut self, arrivals: Vec<Arrival<S>>) {
        self.shard.begin_turn();
        if self.is_over || arrivals.is_empty() {
            return;
        }
        let now_ms = now_ms();
        for arrival in arrivals {
            match arrival {
                Arrival::Said { from, progress, requests } => {
                    self.shard.on_progress(now_ms, from, progress);
                    for request in requests {
                        self.outbox.step(&mut self.shard, now_ms, Sender::Coordinator(from), request);
                    }
                }
                Arrival::Worked => self.outbox.on_work_done(&mut self.shard, now_ms),
                Arrival::Written => {}
            }
        }
    }

    /// Ends a turn: passes its records to the log, and sorts the messages that may leave. Returns those for this process.
    pub(super) fn end_turn(&mut self) -> Deliveries<S> {
        let mut told = Deliveries { to: Vec::new(), shard: self.shard.id(), epoch: self.shard.epoch() };
        if self.is_over {
            return told;
        }
        if let Err(error) = self.outbox.write_down(&mut self.shard) {
            (self.failed, self.is_over) = (Some(error), true);
            return told;
        }
        if !self.outbox.may_tell() {
            // A later turn tells it, or the shard ends here.
            return told;
        }
        let leaving = std::mem::take(&mut self.outbox.leaving);
        let mut of_ears: Vec<(CoordinatorId, Vec<S::Reply>)> = Vec::new();
        for (coordinator, reply) in leaving.replies {
            if !self.sinks.contains_key(&coordinator) {
                self.away.replies.push((coordinator, reply));
            } else if let Some((_, replies)) = of_ears.iter_mut().find(|(of, _)| *of == coordinator) {
                replies.push(reply);
            } else {
                of_ears.push((coordinator, vec![reply]));
            }
        }
        for (coordinator, replies) in of_ears {
            match self.sinks[&coordinator].upgrade() {
                Some(sink) => told.to.push((sink, replies)),
                None => drop(self.sinks.remove(&coordinator)),
            }
        }
        self.away.peers.extend(leaving.peers);
        self.away.description = leaving.description.or(self.away.description.take());
        told
    }

    /// Lets workers read until the next turn. Returns the work that the turn has left.
    pub(super) fn release(&mut self) -> Vec<Work> {
        let work = self.shard.take_work();
        self.shard.end_turn();
        work
    }

    /// Writes what has been noted, and ends.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(&mut self) -> Result<(), LogError> {
        self.is_over = true;
        self.outbox.finish()
    }

    /// Its thread has something to do.
    fn wants_thread(&self) -> bool {
        let Leaving { replies, peers, description } = &self.away;
        let has_news = !replies.is_empty() || !peers.is_empty() || description.is_some();
        has_news || self.failed.is_some() || self.outbox.wants_snapshot()
    }
}

impl<S> Counter<S>
where
    S: Exposed,
    S::Record: Serialize + Send + 'static,
{
    pub(super) fn new(
        shard: S,
        outbox: Outbox<S>,
        inbox: Arc<Inbox>,
        (seen, permits): (Arc<Seen>, Arc<Permits>),
        own: Weak<Counter<S>>,
    ) -> Counter<S> {
        let sinks = FxHashMap::default();
        let interrupts = shard.interrupts().cloned();
        let writer = outbox.writer_here();
        let core = Core { shard, outbox, sinks, away: Leaving::default(), failed: None, is_over: false };
        Counter { actor: Actor::new(core), own, inbox, interrupts, seen, permits, writer }
    }

    /// Called after a turn: handles arrivals that have come meanwhile.
    pub(super) fn go_on(&self) {
        if self.actor.has_arrivals() {
            self.take_turns();
        }
    }

    /// More of the log is durable.
    pub(super) fn on_written(&self) {
        self.actor.leave(Arrival::Written);
        self.take_turns();
    }

    /// Gives each work a thread of its own. The caller must not hold the shard's turn.
    pub(super) fn start(&self, work: Vec<Work>) {
        for one in work {
            let own = self.own.clone();
            let tell = move || {
                if let Some(counter) = own.upgrade() {
                    counter.actor.leave(Arrival::Worked);
                    counter.take_turns();
                }
            };
            let permits = self.permits.clone();
            let worker = Worker { work: Some(one), permits, tell };
            let thread = std::thread::Builder::new().name("worker".to_owned()).stack_size(STACK_BYTES);
            if let Err(error) = thread.spawn(move || worker.run()) {
                warn!(%error, "a statement cannot have a thread of its own");
            }
        }
    }

    /// Takes turns while there are arrivals, unless another thread does.
    fn take_turns(&self) {
        loop {
            let Some(mut core) = self.actor.try_lock() else { return };
            core.serve(self.actor.take());
            let (told, wants_thread) = (core.end_turn(), core.wants_thread());
            let (work, writes_here) = (core.release(), core.outbox.take_writes_here());
            drop(core);
            self.start(work);
            if wants_thread {
                self.inbox.wake();
            }
            told.tell();
            if writes_here && self.writer.as_ref().is_some_and(WriterHere::write) {
                self.actor.leave(Arrival::Written);
            }
            if !self.actor.has_arrivals() {
                return;
            }
            if is_hurried() {
                return self.inbox.wake();
            }
        }
    }
}

impl<S> Nearby<S> for Counter<S>
where
    S: Exposed,
    S::Record: Serialize + Send + 'static,
{
    fn listen(&self, coordinator: CoordinatorId, sink: Weak<dyn ReplySink<S>>) {
        self.actor.lock().sinks.insert(coordinator, sink);
    }

    fn look(&self, look: &mut dyn FnMut(&mut S) -> Option<Lsn>) -> bool {
        let Some(mut core) = self.actor.try_lock_for_a_while() else { return false };
        let Core { shard, outbox, is_over, .. } = &mut *core;
        let mut has_seen = false;
        if !*is_over {
            shard.begin_turn();
            has_seen = look(shard).is_some_and(|after| outbox.is_durable_up_to(after));
            shard.end_turn();
        }
        drop(core);
        self.go_on();
        has_seen
    }

    fn interrupts(&self) -> Option<Arc<Interrupts>> {
        self.interrupts.clone()
    }

    fn seen(&self) -> Option<Arc<Seen>> {
        Some(self.seen.clone())
    }

    fn say(&self, from: CoordinatorId, progress: S::Progress, requests: Vec<S::Request>) {
        self.actor.leave(Arrival::Said { from, progress, requests });
        match is_hurried() {
            true => self.inbox.wake(),
            false => self.take_turns(),
        }
    }
}
