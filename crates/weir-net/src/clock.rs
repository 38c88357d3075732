//! The wall clock, as those need it who drive state machines over a network.

use std::time::{SystemTime, UNIX_EPOCH};

pub use weir_core::clock::transaction_time;
use weir_core::clock::transaction_time_of_us;

/// Transaction time of a transaction that begins now: microseconds since 2000.
pub fn time_of_day() -> i64 {
    let unix_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    transaction_time_of_us(unix_us)
}

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
