//! A panic while a connection is carried is a bug, and ends that connection and no other.
//!
//! A panic affects its own connection only: its locks are released like those of a lost client, and mutexes shared by connections are
//! never treated as poisoned. Threads of shards are not isolated.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use weir_types::{SqlError, SqlState};

thread_local! {
    static IS_ISOLATED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread at this moment ends no more than one connection: a hook for panics must not end the process.
pub fn is_isolated() -> bool {
    IS_ISOLATED.get()
}

/// A caught panic.
#[derive(Debug)]
pub(crate) struct Panicked(pub String);

impl Panicked {
    fn of(panic: &(dyn Any + Send)) -> Panicked {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Panicked(text.unwrap_or_else(|| "a panic without a message".to_owned()))
    }

    /// Error for the client.
    pub fn error(&self) -> SqlError {
        let Panicked(message) = self;
        tracing::error!("a bug in Weir, in a connection of PostgreSQL's protocol: {message}");
        SqlError::new(SqlState::INTERNAL_ERROR, format!("internal error: {message}"))
            .with_hint("This is a bug in Weir; please report it with the statement that shows it.")
    }
}

/// # Errors
/// `work` has panicked.
pub(crate) fn isolated<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    let before = IS_ISOLATED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_ISOLATED.set(before);
    result.map_err(|panic| Panicked::of(&*panic))
}

/// Runs what takes long without waiting for anything, on a thread for such work.
///
/// # Errors
/// `work` has panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SqlError> {
    let done = tokio::task::spawn_blocking(move || isolated(work)).await;
    let panicked = match done {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(panicked)) => panicked,
        Err(_) => Panicked("the server ends".to_owned()),
    };
    Err(panicked.error())
}

/// A future whose panics are its result. It is not polled again after one. Who makes it pins the work, where it costs least: a message's
/// in the task of its connection, for an allocation of its size for each message is seen in the throughput.
pub(crate) struct Isolated<F>(pub F);

impl<F: Future + Unpin> Future for Isolated<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match isolated(|| Pin::new(&mut self.0).poll(context)) {
            Ok(polled) => polled.map(Ok),
            Err(panicked) => Poll::Ready(Err(panicked)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_the_result_and_the_thread_is_as_it_was() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ended = runtime.block_on(Isolated(Box::pin(async {
            tokio::task::yield_now().await;
            assert!(is_isolated());
            let nested = isolated(|| panic!("inside {}", 1));
            assert_eq!(nested.unwrap_err().0, "inside 1");
            assert!(is_isolated(), "it still is");
            panic!("a bug");
        })));
        let Err(Panicked(message)): Result<(), _> = ended else { panic!("it has panicked") };
        assert_eq!(message, "a bug");
        assert!(!is_isolated());
        assert_eq!(runtime.block_on(Isolated(Box::pin(async { 5 }))).unwrap(), 5);
    }
}
