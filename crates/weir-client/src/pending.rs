//! A transaction that is under way: a future, or something to wait for.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::{Committed, Error};

/// The outcome of an operation.
pub(crate) enum Outcome<T> {
    Known(Result<T, Error>),
    /// Still to be computed, which may take long: by whoever waits for it.
    Computed(Box<dyn FnOnce() -> Result<T, Error> + Send>),
}

impl<T> Outcome<T> {
    fn get(self) -> Result<T, Error> {
        match self {
            Outcome::Known(outcome) => outcome,
            Outcome::Computed(compute) => compute(),
        }
    }
}

impl<T> std::fmt::Debug for Outcome<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Outcome::Known(Ok(_)) => "Known(Ok)",
            Outcome::Known(Err(_)) => "Known(Err)",
            Outcome::Computed(_) => "Computed",
        })
    }
}

#[derive(Debug)]
struct State<T> {
    outcome: Option<Outcome<T>>,
    /// There will be no other outcome.
    is_over: bool,
    waker: Option<Waker>,
    /// A thread sleeps until it has ended.
    has_sleeper: bool,
}

impl<T> State<T> {
    fn take(&mut self) -> Option<Outcome<T>> {
        let lost = || Outcome::Known(Err(Error::Closed("its thread has ended".into())));
        self.outcome.take().or_else(|| self.is_over.then(lost))
    }
}

#[derive(Debug)]
struct Place<T> {
    state: Mutex<State<T>>,
    ended: Condvar,
}

impl<T> Place<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Future result of an operation. Dropping it does not cancel the operation.
#[derive(Debug)]
pub struct Pending<T = Committed> {
    place: Arc<Place<T>>,
    tag: u64,
}

/// The other end.
#[derive(Debug)]
pub(crate) struct Promise<T>(Arc<Place<T>>);

impl<T> Pending<T> {
    pub(crate) fn new(tag: u64) -> (Pending<T>, Promise<T>) {
        let state = State { outcome: None, is_over: false, waker: None, has_sleeper: false };
        let place = Arc::new(Place { state: Mutex::new(state), ended: Condvar::new() });
        (Pending { place: place.clone(), tag }, Promise(place))
    }

    /// Names it among all that the client has under way, for [`crate::Client::cancel`].
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// For a client whose thread has ended.
    pub(crate) fn broken() -> Pending<T> {
        Pending::new(u64::MAX).0
    }

    pub(crate) fn ended(outcome: Result<T, Error>) -> Pending<T> {
        let (pending, promise) = Pending::new(u64::MAX);
        promise.keep(Outcome::Known(outcome));
        pending
    }

    /// Waits until it has ended. A query's result is computed by the thread that waits, or polls.
    ///
    /// # Errors
    /// It has not committed, or may not have.
    pub fn wait(self) -> Result<T, Error> {
        let mut state = self.place.lock();
        loop {
            match state.take() {
                Some(outcome) => {
                    drop(state);
                    return outcome.get();
                }
                None => {
                    state.has_sleeper = true;
                    state = self.place.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Error>> {
        let mut state = self.place.lock();
        match state.take() {
            Some(outcome) => {
                drop(state);
                Poll::Ready(outcome.get())
            }
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Promise<T> {
    pub(crate) fn keep(self, outcome: Outcome<T>) {
        self.0.lock().outcome = Some(outcome);
    }
}

/// A dropped promise wakes its waiter: it will not be kept.
impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let (waker, has_sleeper) = {
            let mut state = self.0.lock();
            state.is_over = true;
            (state.waker.take(), state.has_sleeper)
        };
        if has_sleeper {
            self.0.ended.notify_all();
        }
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
        let (pending, promise) = Pending::<Committed>::new(0);
        let waits = std::thread::spawn(move || pending.wait());
        drop(promise);
        assert!(matches!(waits.join().unwrap(), Err(Error::Closed(_))));
        assert!(Pending::ended(Ok(Committed::default())).wait().is_ok());
    }
}
