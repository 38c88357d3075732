//! Notification of the tag under which a thread begins an operation, before it runs, so that another thread can cancel it.

use std::cell::RefCell;
use std::sync::Arc;

use weir_types::SqlError;

/// Receives the tag of each operation begun within [`noting`].
pub trait Begun: Send + Sync {
    /// Under this tag ([`crate::Pending::tag`]) something is about to begin.
    ///
    /// # Errors
    /// It is not to begin, and ends with this.
    fn begun(&self, tag: u64) -> Result<(), SqlError>;
}

thread_local! {
    static TOLD: RefCell<Option<Arc<dyn Begun>>> = const { RefCell::new(None) };
}

struct Before(Option<Arc<dyn Begun>>);

impl Drop for Before {
    fn drop(&mut self) {
        TOLD.set(self.0.take());
    }
}

/// Tells that one of what `begin` begins.
pub fn noting<T>(told: Arc<dyn Begun>, begin: impl FnOnce() -> T) -> T {
    let _before = Before(TOLD.replace(Some(told)));
    begin()
}

/// Said once for each wish: what it leads to in this thread is none of its own.
pub(crate) fn note(tag: u64) -> Result<(), SqlError> {
    TOLD.take().map_or(Ok(()), |told| told.begun(tag))
}
