//! Working memory of a session's statements: what PostgreSQL's `work_mem`, `hash_mem_multiplier` and `temp_file_limit` say.
//!
//! The session enters its settings on the thread that runs it, as it enters its time zone. Whoever makes a request of the session takes
//! them from there ([`WorkingMemory::current`]), and the request carries them.

use std::cell::Cell;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

/// Memory that one operator of a statement takes before it writes to temporary files, and the bound of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingMemory {
    /// Bytes of the rows that a sort holds in memory: `work_mem`.
    pub sort_bytes: usize,
    /// Bytes of the rows that a hash table holds: `work_mem` times `hash_mem_multiplier`.
    pub hash_bytes: usize,
    /// Bytes that the temporary files of a statement take at most: `temp_file_limit`. None: there is no limit.
    pub files_bytes_max: Option<u64>,
}

/// PostgreSQL's defaults.
impl Default for WorkingMemory {
    fn default() -> WorkingMemory {
        WorkingMemory::DEFAULT
    }
}

thread_local! {
    static CURRENT: Cell<WorkingMemory> = const { Cell::new(WorkingMemory::DEFAULT) };
}

/// Largest `work_mem` and `temp_file_limit`, in bytes.
const SETTING_BYTES_MAX: u64 = (i32::MAX as u64) << 10;
/// Largest `hash_mem_multiplier`.
const MULTIPLIER_MAX: u64 = 1_000;

impl WorkingMemory {
    const DEFAULT: WorkingMemory =
        WorkingMemory { sort_bytes: 4 << 20, hash_bytes: 8 << 20, files_bytes_max: None };

    /// Returns whether settings of a session can say so. No larger size is accepted from another process.
    pub fn can_be_set(&self) -> bool {
        let WorkingMemory { sort_bytes, hash_bytes, files_bytes_max } = *self;
        sort_bytes as u64 <= SETTING_BYTES_MAX
            && hash_bytes as u64 <= SETTING_BYTES_MAX * MULTIPLIER_MAX
            && files_bytes_max.is_none_or(|bytes| bytes <= SETTING_BYTES_MAX)
    }

    /// That of the session whose work this thread does.
    pub fn current() -> WorkingMemory {
        CURRENT.get()
    }

    /// This thread does work of a session with this working memory, until the value is dropped.
    pub fn enter(self) -> Entered {
        Entered { before: CURRENT.replace(self), of_thread: PhantomData }
    }

    /// The session whose work this thread does has this working memory from now on.
    pub fn replace_current(self) {
        CURRENT.set(self);
    }
}

/// See [`WorkingMemory::enter`]. It stays on its thread.
pub struct Entered {
    before: WorkingMemory,
    of_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_returns_to_the_session_that_it_served() {
        let small = WorkingMemory { sort_bytes: 1, ..WorkingMemory::default() };
        {
            let _entered = small.enter();
            assert_eq!(WorkingMemory::current(), small);
            WorkingMemory { sort_bytes: 2, ..small }.replace_current();
            assert_eq!(WorkingMemory::current().sort_bytes, 2);
        }
        assert_eq!(WorkingMemory::current(), WorkingMemory::default());
    }
}
