//! Hybrid logical clock (soundness S9): 48 bits of milliseconds, 16 bits of counter.
//!
//! Physical time is an argument. The clock never runs backwards: when the physical clock steps back the
//! counter goes on, and carries into the milliseconds when it is full.

use crate::storage::Timestamp;
use weir_types::datetime::TransactionTime;

const COUNTER_BITS: u32 = 16;

const UNIX_TO_2000_MS: i64 = 946_684_800_000;

/// What `now()` says in a call that begins then, of no session: in UTC.
pub fn transaction_time(unix_ms: u64) -> TransactionTime {
    (unix_ms as i64).saturating_sub(UNIX_TO_2000_MS).saturating_mul(1_000).into()
}

/// The same of microseconds.
pub fn transaction_time_of_us(unix_us: u64) -> i64 {
    (unix_us as i64).saturating_sub(UNIX_TO_2000_MS * 1_000)
}

/// The first clock of that millisecond, of which the low 48 bits count.
pub fn clock_at(now_ms: u64) -> u64 {
    now_ms << COUNTER_BITS
}

/// The milliseconds of a clock.
pub fn ms_of(clock: u64) -> u64 {
    clock >> COUNTER_BITS
}

/// Physical clocks of a coordinator and its shards may differ by so much. A write between clocks that differ more is refused, and so is
/// a timestamp that is further ahead than this clock has ever been, lest one wrong clock carry all others along (S9).
pub const CLOCK_AHEAD_MS_MAX: u64 = 60_000;

#[derive(Clone, Copy, Debug)]
pub struct HybridClock {
    last: u64,
    /// The furthest that the physical clock here, or the durable history, has been: what follows it is none of another's making.
    reached_ms: u64,
    node: u16,
}

impl HybridClock {
    pub fn new(node: u16) -> HybridClock {
        HybridClock { last: 0, reached_ms: 0, node }
    }

    /// A timestamp above every one that this clock has given or observed. `now_ms`: milliseconds since
    /// the Unix epoch, of which the low 48 bits count.
    pub fn tick(&mut self, now_ms: u64) -> Timestamp {
        self.reached_ms = self.reached_ms.max(now_ms & (u64::MAX >> COUNTER_BITS));
        self.last =
            clock_at(now_ms).max(self.last.checked_add(1).expect("2^64 timestamps last ten thousand years"));
        Timestamp { clock: self.last, node: self.node }
    }

    /// Never ticks at or below `timestamp` again.
    pub fn observe(&mut self, timestamp: Timestamp) {
        self.observe_clock(timestamp.clock);
    }

    pub fn observe_clock(&mut self, clock: u64) {
        self.last = self.last.max(clock);
    }

    /// The durable history is at that clock: what was written then is there, however far ahead the clock was that wrote it. The logical
    /// part goes on above it, and it is no reason to refuse what comes.
    pub fn restore(&mut self, clock: u64) {
        self.observe_clock(clock);
        self.reached_ms = self.reached_ms.max(ms_of(clock));
    }

    /// The physical clock here, and the coordinator's when the transaction began, are not too far apart; nor have others carried this
    /// one ahead of both.
    pub fn is_near(&self, now_ms: u64, begun_ms: u64) -> bool {
        let own_ms = begun_ms.min(now_ms).max(self.reached_ms);
        now_ms.abs_diff(begun_ms) <= CLOCK_AHEAD_MS_MAX
            && ms_of(self.last) <= own_ms.saturating_add(CLOCK_AHEAD_MS_MAX)
    }

    /// A clock that another has given is not too far ahead of all that this one has been.
    pub fn may_follow(&self, now_ms: u64, clock: u64) -> bool {
        ms_of(clock) <= now_ms.max(self.reached_ms).saturating_add(CLOCK_AHEAD_MS_MAX)
    }

    /// What it has given or observed last.
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
