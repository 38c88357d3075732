//! Hybrid logical clock (soundness S9): 48 bits of milliseconds, 16 bits of counter.
//!
//! Physical time is an argument. The clock never runs backwards: when the physical clock steps back the
//! counter goes on, and carries into the milliseconds when it is full.

use crate::ids::Timestamp;
use weir_types::datetime::TransactionTime;

const COUNTER_BITS: u32 = 16;

const UNIX_TO_2000_MS: i64 = 946_684_800_000;

/// Transaction time (`now()`) of a call that begins at that Unix time outside of any session: in UTC.
pub fn transaction_time(unix_ms: u64) -> TransactionTime {
    (unix_ms as i64).saturating_sub(UNIX_TO_2000_MS).saturating_mul(1_000).into()
}

/// Transaction time for microseconds since the Unix epoch.
pub fn transaction_time_of_us(unix_us: u64) -> i64 {
    (unix_us as i64).saturating_sub(UNIX_TO_2000_MS * 1_000)
}

/// First clock of that millisecond, of which the low 48 bits count.
#[inline]
pub fn clock_at(now_ms: u64) -> u64 {
    now_ms << COUNTER_BITS
}

/// The milliseconds of a clock.
#[inline]
pub fn ms_of(clock: u64) -> u64 {
    clock >> COUNTER_BITS
}

/// Largest accepted difference between the physical clocks of a coordinator and its shards. Rejects a write between clocks that differ
/// more, and a timestamp further ahead than this clock has ever been, so that one wrong clock does not move all others (S9).
pub const CLOCK_AHEAD_MS_MAX: u64 = 60_000;

#[derive(Clone, Copy, Debug)]
pub struct HybridClock {
    last: u64,
    /// Highest value of the local physical clock or of the durable history, excluding observed timestamps of other nodes.
    reached_ms: u64,
    node: u16,
}

impl HybridClock {
    pub fn new(node: u16) -> HybridClock {
        HybridClock { last: 0, reached_ms: 0, node }
    }

    /// Returns a timestamp above every one that this clock has issued or observed. `now_ms`: milliseconds since the Unix epoch, of which
    /// the low 48 bits count.
    #[inline]
    pub fn tick(&mut self, now_ms: u64) -> Timestamp {
        self.reached_ms = self.reached_ms.max(now_ms & (u64::MAX >> COUNTER_BITS));
        self.last =
            clock_at(now_ms).max(self.last.checked_add(1).expect("2^64 timestamps last ten thousand years"));
        Timestamp { clock: self.last, node: self.node }
    }

    /// Makes all later ticks exceed `timestamp`.
    #[inline]
    pub fn observe(&mut self, timestamp: Timestamp) {
        self.observe_clock(timestamp.clock);
    }

    #[inline]
    pub fn observe_clock(&mut self, clock: u64) {
        self.last = self.last.max(clock);
    }

    /// Raises the clock to that of the durable history. Its records are valid however far ahead their clock was: the logical part
    /// continues above it, and requests near it are accepted.
    pub fn restore(&mut self, clock: u64) {
        self.observe_clock(clock);
        self.reached_ms = self.reached_ms.max(ms_of(clock));
    }

    /// Returns whether the local physical clock is near the coordinator's at the transaction's begin, and this clock is not far ahead of
    /// both.
    #[inline]
    pub fn is_near(&self, now_ms: u64, begun_ms: u64) -> bool {
        let own_ms = begun_ms.min(now_ms).max(self.reached_ms);
        now_ms.abs_diff(begun_ms) <= CLOCK_AHEAD_MS_MAX
            && ms_of(self.last) <= own_ms.saturating_add(CLOCK_AHEAD_MS_MAX)
    }

    /// Returns whether a clock received from another node is not too far ahead of this one.
    #[inline]
    pub fn may_follow(&self, now_ms: u64, clock: u64) -> bool {
        ms_of(clock) <= now_ms.max(self.reached_ms).saturating_add(CLOCK_AHEAD_MS_MAX)
    }

    /// Last clock issued or observed.
    #[inline]
    pub fn last(&self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards() {
        let mut clock = HybridClock::new(1);
        let past_2038 = 4_102_444_800_000;
        let mut last = clock.tick(past_2038);
        for now_ms in [past_2038, past_2038 - 5_000, 0, u64::MAX >> 16, 17] {
            let next = clock.tick(now_ms);
            assert!(next > last, "{next:?} after {last:?}");
            last = next;
        }
    }

    #[test]
    fn a_full_counter_carries_into_the_milliseconds() {
        let mut clock = HybridClock::new(1);
        let first = clock.tick(1_000);
        for _ in 0..70_000 {
            clock.tick(1_000);
        }
        assert_eq!(clock.tick(1_000).clock, first.clock + 70_001);
        assert!(clock.tick(1_002).clock > first.clock + 70_001);
    }
}
