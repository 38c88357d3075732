//! Shards and coordinators of one process, which need no socket to speak with each other.
//!
//! Whoever says something does what it asks for itself if nobody else is at it, and leaves it to them if somebody is: so a request
//! is answered without waking a thread, and nobody waits for a lock.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weir_types::interrupt::Interrupts;

use crate::history::Seen;
use crate::machine::{CoordinatorId, Shard};
use crate::ramp::ShardId;

/// A shard of this process.
pub trait Nearby<S: Shard>: Send + Sync {
    /// What the shard has to say to that coordinator it says to that sink from here on.
    fn listen(&self, coordinator: CoordinatorId, sink: Weak<dyn ReplySink<S>>);
    /// Says it to the shard. Answers may have come before this comes back.
    fn say(&self, from: CoordinatorId, progress: S::Progress, requests: Vec<S::Request>);
    /// What ends statements while the shard is at them. Asks for no turn.
    fn interrupts(&self) -> Option<Arc<Interrupts>>;
    /// What its process knows of the histories of shards.
    fn seen(&self) -> Option<Arc<Seen>>;
}

/// Whoever has a coordinator in this process.
pub trait ReplySink<S: Shard>: Send + Sync {
    /// With the shard's drain epoch.
    fn deliver(&self, from: ShardId, epoch: u64, replies: Vec<S::Reply>);
}

/// Some of the shards of a cluster, by number.
pub type Neighbours<S> = Vec<(ShardId, Arc<dyn Nearby<S>>)>;

thread_local! {
    static IS_HURRIED: Cell<bool> = const { Cell::new(false) };
}

/// Others wait for what this thread has to do, such as writing to a disk: of what comes in its turns it leaves to others what it can.
pub fn hurry() {
    IS_HURRIED.set(true);
}

pub fn is_hurried() -> bool {
    IS_HURRIED.get()
}

/// A machine that several threads take turns with, and what has come for it.
///
/// What comes while somebody is at it is done by them: nobody who has left something there needs to come again.
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

    /// The machine, when nobody is at it any more. Whoever has had it looks for arrivals afterwards.
    ///
    /// # Panics
    /// An assertion has failed in another's turn.
    pub fn lock(&self) -> MutexGuard<'_, M> {
        self.machine.lock().expect("no assertion has failed in anybody's turn")
    }

    /// The machine, if nobody is at it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, M>> {
        // If an assertion has failed in another's turn, whoever has a thread for it will say so.
        self.machine.try_lock().ok()
    }
}
