//! A transaction that is under way: a future, or something to wait for.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::{Committed, Error};

type Outcome = Result<Committed, Error>;

#[derive(Debug, Default)]
struct State {
    outcome: Option<Outcome>,
    /// There will be no other outcome.
    is_over: bool,
    waker: Option<Waker>,
}

impl State {
    fn take(&mut self) -> Option<Outcome> {
        let lost = || Err(Error::Closed("its thread has ended".into()));
        self.outcome.take().or_else(|| self.is_over.then(lost))
    }
}

#[derive(Debug, Default)]
struct Place {
    state: Mutex<State>,
    ended: Condvar,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropping it does not stop the transaction.
#[derive(Debug)]
pub struct Pending(Arc<Place>);

/// The other end.
#[derive(Debug)]
pub(crate) struct Promise(Arc<Place>);

impl Pending {
    pub(crate) fn new() -> (Pending, Promise) {
        let place = Arc::new(Place::default());
        (Pending(place.clone()), Promise(place))
    }

    /// Of a client whose thread has ended.
    pub(crate) fn broken() -> Pending {
        Pending::new().0
    }

    pub(crate) fn ended(outcome: Outcome) -> Pending {
        let (pending, promise) = Pending::new();
        promise.keep(outcome);
        pending
    }

    /// Waits for it on this thread.
    ///
    /// # Errors
    /// Why it has not committed, or may not have.
    pub fn wait(self) -> Outcome {
        let mut state = self.0.lock();
        loop {
            match state.take() {
                Some(outcome) => return outcome,
                None => state = self.0.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Future for Pending {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = self.0.lock();
        match state.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Promise {
    pub(crate) fn keep(self, outcome: Outcome) {
        self.0.lock().outcome = Some(outcome);
    }
}

/// Nobody may wait for ever: where a promise goes, it has been kept or never will be.
impl Drop for Promise {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.0.lock();
            state.is_over = true;
            state.waker.take()
        };
        self.0.ended.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_is_not_kept_is_waited_for_by_nobody() {
        let (pending, promise) = Pending::new();
        let waits = std::thread::spawn(move || pending.wait());
        drop(promise);
        assert!(matches!(waits.join().unwrap(), Err(Error::Closed(_))));
        assert!(Pending::ended(Ok(Committed::default())).wait().is_ok());
    }
}
