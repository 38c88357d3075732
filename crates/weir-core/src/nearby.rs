//! Shards and coordinators of one process, which communicate without sockets.
//!
//! The sender of a message runs the receiver itself if no other thread does, and otherwise leaves the message to that thread. So a
//! request is answered without waking a thread, and no thread waits for a lock.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weir_types::interrupt::Interrupts;

use crate::history::Seen;
use crate::ids::{CoordinatorId, ShardId};
use crate::lsn::Lsn;
use crate::machine::Shard;

/// A shard of this process.
pub trait Nearby<S: Shard>: Send + Sync {
    /// Registers the sink for the shard's messages to that coordinator.
    fn listen(&self, coordinator: CoordinatorId, sink: Weak<dyn ReplySink<S>>);
    /// Sends requests to the shard. Replies may arrive before this returns.
    fn say(&self, from: CoordinatorId, progress: S::Progress, requests: Vec<S::Request>);
    /// Runs `look` in a turn of the shard, if no other thread has it for long. It must change nothing, and returns the position up to which
    /// the log must be durable before anybody may know what it has seen; none: it could not look. Returns whether it has looked and the log
    /// is durable.
    fn look(&self, look: &mut dyn FnMut(&mut S) -> Option<Lsn>) -> bool;
    /// Interrupts for running statements; need no turn of the shard.
    fn interrupts(&self) -> Option<Arc<Interrupts>>;
    /// Histories of shards that its process knows.
    fn seen(&self) -> Option<Arc<Seen>>;
}

/// Receiver of replies: the owner of a coordinator in this process.
pub trait ReplySink<S: Shard>: Send + Sync {
    /// Delivers replies with the shard's drain epoch.
    fn deliver(&self, from: ShardId, epoch: u64, replies: Vec<S::Reply>);
}

/// Some of the shards of a cluster, by number.
pub type Neighbours<S> = Vec<(ShardId, Arc<dyn Nearby<S>>)>;

thread_local! {
    static IS_HURRIED: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as urgent, because others wait for its work, such as writing to a disk: it leaves arriving messages to other threads
/// where it can.
pub fn hurry() {
    IS_HURRIED.set(true);
}

pub fn is_hurried() -> bool {
    IS_HURRIED.get()
}

thread_local! {
    static IS_PATIENT: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that has nothing to do until what it says now is answered; or no longer. It may write to the disk itself.
pub fn set_patient(is_patient: bool) {
    IS_PATIENT.set(is_patient);
}

pub fn is_patient() -> bool {
    IS_PATIENT.get()
}

/// Number of times that a thread looks whether another one has ended its turn: a few microseconds.
const TRIALS: u32 = 64;

/// A state machine that several threads run in turns, and its queue of arrivals.
///
/// Arrivals during a turn are handled by the thread that has the turn; the sender need not return.
#[derive(Debug)]
pub struct Actor<M, A> {
    machine: Mutex<M>,
    arrivals: Mutex<Vec<A>>,
}

impl<M, A> Actor<M, A> {
    pub fn new(machine: M) -> Actor<M, A> {
        Actor { machine: Mutex::new(machine), arrivals: Mutex::new(Vec::new()) }
    }

    pub fn leave(&self, arrival: A) {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
    }

    pub fn take(&self) -> Vec<A> {
        std::mem::take(&mut *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn has_arrivals(&self) -> bool {
        !self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Waits for the turn. The holder must look for arrivals afterwards.
    ///
    /// # Panics
    /// An assertion has failed in another thread's turn.
    pub fn lock(&self) -> MutexGuard<'_, M> {
        self.machine.lock().expect("no assertion has failed in anybody's turn")
    }

    /// Takes the turn, if no other thread has it for longer than it takes to fail. On a few processors, being woken costs more.
    pub fn try_lock_for_a_while(&self) -> Option<MutexGuard<'_, M>> {
        let trial = |_| {
            std::hint::spin_loop();
            self.try_lock()
        };
        self.try_lock().or_else(|| (1..TRIALS).find_map(trial))
    }

    /// Takes the turn if no other thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, M>> {
        // A failed assertion in another turn is reported by the thread that owns the machine.
        self.machine.try_lock().ok()
    }
}
