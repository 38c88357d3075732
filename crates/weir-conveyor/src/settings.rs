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
    /// A token that has found nothing to do for a whole round stays so long at each server.
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
