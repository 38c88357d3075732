//! The storage of a shard as its steps and its workers share it (docs/internals/steps.md, "Exclusion").

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::{ArcRwLockWriteGuard, RawRwLock, RwLock};

use super::Storage;

/// The storage, held for writing by its shard. The shard lets it go between its turns while workers read it.
#[derive(Debug)]
pub struct SharedStorage {
    lock: Arc<RwLock<Storage>>,
    /// None: between two turns, while workers exist.
    held: Option<ArcRwLockWriteGuard<RawRwLock, Storage>>,
}

impl SharedStorage {
    pub fn new(storage: Storage) -> SharedStorage {
        let lock = Arc::new(RwLock::new(storage));
        let held = Some(RwLock::write_arc(&lock));
        SharedStorage { lock, held }
    }

    /// The lock, for a worker.
    pub fn lock(&self) -> Arc<RwLock<Storage>> {
        self.lock.clone()
    }

    /// Begins a turn of the shard: waits until every worker has reached a check.
    pub fn hold(&mut self) {
        if self.held.is_none() {
            self.held = Some(RwLock::write_arc(&self.lock));
        }
    }

    /// Ends a turn of the shard: workers may read.
    pub fn release(&mut self) {
        self.held = None;
    }
}

impl Deref for SharedStorage {
    type Target = Storage;

    #[inline]
    fn deref(&self) -> &Storage {
        self.held.as_deref().expect("a shard holds its storage during its turns")
    }
}

impl DerefMut for SharedStorage {
    #[inline]
    fn deref_mut(&mut self) -> &mut Storage {
        self.held.as_deref_mut().expect("a shard holds its storage during its turns")
    }
}
