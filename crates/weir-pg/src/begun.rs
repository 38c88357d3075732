//! When the open transaction began: `now()` is the same in all of its statements.

use std::sync::{Mutex, PoisonError};

use weir_net::clock::time_of_day;

/// The transaction that was asked about last, by its name, and when that was first, in microseconds since 2000.
#[derive(Debug, Default)]
pub(crate) struct Begun(Mutex<Option<(u64, i64)>>);

impl Begun {
    /// The transaction with its time; it begins now if it is another one than before.
    pub(crate) fn of(&self, name: u64) -> (u64, i64) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some(begun) if begun.0 == name => begun,
            _ => *last.insert((name, time_of_day())),
        }
    }
}
