//! The settings of a session with which everything that its connection computes is computed: its time zone and its working memory.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use weir_types::datetime::session::{SessionZone, ZoneCell};
use weir_types::memory::WorkingMemory;

/// Several threads may carry a session, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Evaluation {
    pub zone: ZoneCell,
    memory: Mutex<WorkingMemory>,
}

impl Evaluation {
    /// The evaluation that is under way on this thread goes on with these.
    pub fn set(&self, zone: SessionZone, memory: WorkingMemory) {
        if zone != self.zone.get() {
            self.zone.set(zone);
        }
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = memory;
        memory.replace_current();
    }

    fn memory(&self) -> WorkingMemory {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs work with these settings. They are entered at each poll, since the work may move to another thread, and other work may run in
/// between.
pub(crate) async fn evaluate_with<F: Future>(evaluation: &Evaluation, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        let _zone = evaluation.zone.get().enter();
        let _memory = evaluation.memory().enter();
        work.as_mut().poll(context)
    })
    .await
}
