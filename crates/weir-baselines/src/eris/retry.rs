//! When a client sends something again: repetitions become rarer, and aborted attempts pause.

use weir_core::ids::TxnId;

/// The longest time between two sendings, in intervals of other messages.
const INTERVALS_MAX: u64 = 8;
/// How often the longest pause before the next attempt doubles.
const DOUBLINGS_MAX: u32 = 6;

/// The next sending of a message that is not answered.
#[derive(Clone, Copy, Debug)]
pub struct Resend {
    due_ms: u64,
    interval_ms: u64,
}

impl Resend {
    /// The message was sent now.
    pub fn sent(now_ms: u64, interval_ms: u64) -> Resend {
        Resend { due_ms: now_ms + interval_ms, interval_ms }
    }

    /// The message is sent after a pause, and then at the interval.
    pub fn after_pause(due_ms: u64, interval_ms: u64) -> Resend {
        Resend { due_ms, interval_ms: interval_ms / 2 }
    }

    /// Returns whether the message is to be sent now. Then the interval to the next time is twice as long. `interval_ms`: the first one.
    pub fn is_due(&mut self, now_ms: u64, interval_ms: u64) -> bool {
        let is_due = now_ms >= self.due_ms;
        if is_due {
            self.interval_ms = (2 * self.interval_ms).min(INTERVALS_MAX * interval_ms);
            self.due_ms = now_ms + self.interval_ms;
        }
        is_due
    }
}

/// Pause after an aborted attempt. Transactions that have met pause differently.
pub fn pause_ms(txn: TxnId, attempt: u32) -> u64 {
    let mixed = (txn.coordinator ^ txn.sequence.rotate_left(20) ^ u64::from(attempt).rotate_left(40))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1 + (mixed >> 32) % (1 << attempt.min(DOUBLINGS_MAX))
}
