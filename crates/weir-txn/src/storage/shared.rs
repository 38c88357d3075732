//! State of a shard as its steps and its workers share it (docs/internals/steps.md, "Exclusion").

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::{ArcRwLockWriteGuard, RawRwLock, RwLock};

/// A part of a shard's state, held for writing by its shard. The shard lets it go between its turns while workers use it.
#[derive(Debug)]
pub struct Shared<T> {
    lock: Arc<RwLock<T>>,
    /// None: between two turns, while workers exist.
    held: Option<ArcRwLockWriteGuard<RawRwLock, T>>,
}

impl<T> Shared<T> {
    pub fn new(state: T) -> Shared<T> {
        let lock = Arc::new(RwLock::new(state));
        let held = Some(RwLock::write_arc(&lock));
        Shared { lock, held }
    }

    /// The lock, for a worker.
    pub fn lock(&self) -> Arc<RwLock<T>> {
        self.lock.clone()
    }

    /// Begins a turn of the shard: waits until no worker holds the lock.
    pub fn hold_lock(&mut self) {
        if self.held.is_none() {
            self.held = Some(RwLock::write_arc(&self.lock));
        }
    }

    /// Ends a turn of the shard: workers may go on.
    pub fn release_lock(&mut self) {
        self.held = None;
    }
}

impl<T: Default> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared::new(T::default())
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.held.as_deref().expect("a shard holds its state during its turns")
    }
}

impl<T> DerefMut for Shared<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_deref_mut().expect("a shard holds its state during its turns")
    }
}
