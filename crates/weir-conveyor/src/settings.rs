//! Bounds and time-outs of agents and of the coordinator.

/// Settings of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Global operations of one visit, at most.
    pub batch_max: usize,
    /// Operations that run at a server at once: global ones, and others. Each kind has so many connections.
    pub global_max: usize,
    pub local_max: usize,
    /// Executions of an operation that has met serialization failures, at most. Beyond them a global one waits for the next visit.
    pub attempts_max: u32,
    /// Visits that a token carries, at most.
    pub carried_max: usize,
    /// A token that has found nothing to do for a whole round stays so long at each server; twice as long in each round that follows, up to a
    /// quarter of `token_ms`.
    pub idle_ms: u64,
    /// A global operation that takes longer is aborted. A client that idles inside one keeps everybody waiting.
    pub operation_ms: u64,
    /// A global operation that waits for the token for longer is given up, and so is another one that waits for a connection.
    pub wait_ms: u64,
    /// What is not answered is sent again, and what has failed is tried again, after so long.
    pub resend_ms: u64,
    /// Interval of the reports of an agent to the coordinator.
    pub alive_ms: u64,
    /// An agent that is not heard for so long is thought dead.
    pub silence_ms: u64,
    /// Without a new visit for so long, the token is thought lost. Longer than `idle_ms`, a usual operation and `alive_ms` together.
    pub token_ms: u64,
    /// A server with more visits to apply than that does not join the ring.
    pub lag_max: u64,
}

impl Settings {
    /// How long a token stays that has found nothing to do in so many visits. Each visit costs its server a commit.
    pub fn stay_ms(&self, idle: u32, ring: usize) -> u64 {
        let rounds = u64::from(idle) / ring.max(1) as u64;
        if rounds == 0 {
            return 0;
        }
        let longest_ms = self.idle_ms.max(self.token_ms / 4);
        self.idle_ms.saturating_mul(1 << (rounds - 1).min(16)).min(longest_ms)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            batch_max: 256,
            global_max: 16,
            local_max: 32,
            attempts_max: 10,
            carried_max: 64,
            idle_ms: 20,
            operation_ms: 5_000,
            wait_ms: 30_000,
            resend_ms: 200,
            alive_ms: 100,
            silence_ms: 1_000,
            token_ms: 3_000,
            lag_max: 64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_token_stays_longer_in_each_round() {
        let settings = Settings { idle_ms: 20, token_ms: 1_000, ..Settings::default() };
        let stays: Vec<u64> = (0..8).map(|round| settings.stay_ms(round * 3, 3)).collect();
        assert_eq!(stays, [0, 20, 40, 80, 160, 250, 250, 250]);
        assert_eq!((settings.stay_ms(2, 3), settings.stay_ms(u32::MAX, 1)), (0, 250));
        let slow = Settings { idle_ms: 600, ..settings };
        assert_eq!(slow.stay_ms(100, 1), 600, "as long as it is told to");
    }
}
