//! The wall clock, as those need it who drive state machines over a network.

use std::time::{SystemTime, UNIX_EPOCH};

pub use weir_txn::clock::transaction_time;

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
