//! Configuration of the crate `raft`, as members of groups and nodes of the failure coordinator have it.

/// Size of the entries in one message, unless it has a single entry.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// Messages with entries that are on their way to one peer.
const IN_FLIGHT_MAX: usize = 64;

/// Configuration with these ticks until an election and between heartbeats. The time until an election is not drawn: callers give each
/// peer another one.
pub fn config_of(id: u64, (election_tick, heartbeat_tick): (usize, usize), applied: u64) -> raft::Config {
    raft::Config {
        id,
        election_tick,
        heartbeat_tick,
        // The crate draws its time-out from this range, which has one number.
        min_election_tick: election_tick,
        max_election_tick: election_tick + 1,
        applied,
        max_size_per_msg: MESSAGE_BYTES_MAX,
        max_inflight_msgs: IN_FLIGHT_MAX,
        check_quorum: true,
        pre_vote: true,
        ..raft::Config::default()
    }
}
