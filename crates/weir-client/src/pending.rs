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
    waker: Option<Waker>,
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
            match state.outcome.take() {
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
        match state.outcome.take() {
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
        let waker = {
            let mut state = self.0.lock();
            state.outcome = Some(outcome);
            state.waker.take()
        };
        self.0.ended.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
