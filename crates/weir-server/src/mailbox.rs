//! Batches between threads: a sender adds to a queue under a lock, the receiver takes all of it at once.
//!
//! On few cores what counts is how rarely a thread is woken, not how fast one message moves: a receiver
//! that is busy finds everything that has come meanwhile in one swap.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Number of times that a receiver with nothing to do lets others run before it sleeps. On few cores those others are
/// the senders, and being woken costs both sides far more than having waited.
const YIELDS: u32 = 16;

#[derive(Debug, Default)]
pub struct Mailbox<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct State<T> {
    queue: Vec<T>,
    sleeping: bool,
    closed: bool,
}

impl<T> Default for State<T> {
    fn default() -> State<T> {
        State { queue: Vec::new(), sleeping: false, closed: false }
    }
}

impl<T> Mailbox<T> {
    pub fn new() -> Mailbox<T> {
        Mailbox { state: Mutex::new(State::default()), arrived: Condvar::new() }
    }

    /// A thread that panicked while it held the lock has left the queue whole: it is only ever pushed to
    /// or swapped.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn send_all(&self, messages: impl Iterator<Item = T>) {
        let mut messages = messages.peekable();
        if messages.peek().is_none() {
            return;
        }
        let mut state = self.lock();
        state.queue.extend(messages);
        if state.sleeping {
            state.sleeping = false;
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// No more will come; the receiver drains what is there.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Takes all messages that are there into the (empty) buffer.
    pub fn take(&self, buffer: &mut Vec<T>) {
        std::mem::swap(&mut self.lock().queue, buffer);
    }

    /// Waits for messages and takes all of them into the (empty) buffer; false once the box is closed and
    /// empty. With a patience it may come back empty-handed.
    pub fn receive(&self, buffer: &mut Vec<T>, timeouts: Option<Duration>) -> bool {
        let mut state = self.lock();
        let mut yields = YIELDS;
        while state.queue.is_empty() {
            if state.closed {
                return false;
            }
            if yields > 0 {
                yields -= 1;
                drop(state);
                std::thread::yield_now();
                state = self.lock();
                continue;
            }
            state.sleeping = true;
            state = match timeouts {
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(timeouts) => {
                    let (mut state, result) =
                        self.arrived.wait_timeout(state, timeouts).unwrap_or_else(PoisonError::into_inner);
                    if result.timed_out() {
                        state.sleeping = false;
                        std::mem::swap(&mut state.queue, buffer);
                        return true;
                    }
                    state
                }
            };
        }
        state.sleeping = false;
        std::mem::swap(&mut state.queue, buffer);
        true
    }
}
