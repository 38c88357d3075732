//! The wall clock, as those need it who drive state machines over a network.

use std::time::{SystemTime, UNIX_EPOCH};

const UNIX_TO_2000_MS: i64 = 946_684_800_000;

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// What `now()` says in a call that begins then: microseconds since 2000.
pub fn transaction_time(unix_ms: u64) -> i64 {
    (unix_ms as i64).saturating_sub(UNIX_TO_2000_MS).saturating_mul(1_000)
}
