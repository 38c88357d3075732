//! When a client sends a transaction again: after RFC 6298's retransmission time-out, and not all that are late at once.

/// The shortest wait, as a part of the first one. Timers are called every few milliseconds, and times are known to a millisecond.
const PART_MIN: u64 = 5;

/// Transactions that are sent again in one call of the timer, at most.
const WINDOW_MAX: usize = 64;

/// How many transactions are sent again in one call of the timer. It is halved by each call that finds some late, and grows with each answer,
/// as the window of a connection of TCP: what overflows its receivers would be lost again, all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window(usize);

impl Window {
    pub const FULL: Window = Window(WINDOW_MAX);

    pub fn answered(&mut self) {
        self.0 = (self.0 + 1).min(WINDOW_MAX);
    }

    /// Takes the window for transactions that are late.
    pub fn take(&mut self) -> usize {
        let taken = self.0;
        self.0 = (taken / 2).max(1);
        taken
    }
}

/// Smoothed latency of a client's transactions, and how much it varies, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetransmissionTimeout {
    /// While nothing is known.
    first_ms: u64,
    interval_ms_max: u64,
    /// None: nothing is answered yet.
    latency: Option<(u64, u64)>,
}

impl RetransmissionTimeout {
    pub fn new(first_ms: u64, interval_ms_max: u64) -> RetransmissionTimeout {
        RetransmissionTimeout { first_ms, interval_ms_max, latency: None }
    }

    /// A transaction that was sent once was answered after so long.
    pub fn note(&mut self, took_ms: u64) {
        let took_us = took_ms * 1_000;
        self.latency = Some(match self.latency {
            None => (took_us, took_us / 2),
            Some((smoothed, variation)) => {
                let difference = smoothed.abs_diff(took_us);
                ((7 * smoothed + took_us) / 8, (3 * variation + difference) / 4)
            }
        });
    }

    /// From the first sending to the second.
    pub fn interval_ms(&self) -> u64 {
        let Some((smoothed, variation)) = self.latency else { return self.first_ms };
        (smoothed + 4 * variation).div_ceil(1_000).max(self.first_ms / PART_MIN).min(self.interval_ms_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_shrinks_and_grows() {
        let mut window = Window::FULL;
        let taken: Vec<usize> = (0..8).map(|_| window.take()).collect();
        assert_eq!(taken, [64, 32, 16, 8, 4, 2, 1, 1]);
        (0..5).for_each(|_| window.answered());
        assert_eq!(window.take(), 6);
    }

    #[test]
    fn it_follows_the_latency() {
        let mut timeout = RetransmissionTimeout::new(50, 400);
        assert_eq!(timeout.interval_ms(), 50, "nothing is known");
        (0..100).for_each(|_| timeout.note(1));
        assert_eq!(timeout.interval_ms(), 10);
        (0..100).for_each(|at| timeout.note(10 + at % 5));
        assert!((15..30).contains(&timeout.interval_ms()), "{timeout:?}");
        (0..100).for_each(|_| timeout.note(1_000));
        assert_eq!(timeout.interval_ms(), 400, "the longest");
    }
}
