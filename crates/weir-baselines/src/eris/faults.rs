//! Bugs that tests plant in the comparators of eris.txt §8 (docs/decisions/0014-faults-are-a-type.md).

pub use weir_core::faults::NoFaults;
use weir_core::faults::faults;

faults! {
    /// The faults of a comparator: of its servers and clients.
    Faults, PlantedBugs:
    /// Viewstamped Replication: the leader takes its own log for that of a majority.
    commits_alone,
    /// Viewstamped Replication: a new leader starts with its own log.
    starts_with_own_log,
    /// Lock-Store: locks are given back when the transaction is prepared.
    releases_at_prepare,
    /// Lock-Store: a new leader does not lock what prepared transactions have locked.
    forgets_prepared,
    /// Lock-Store: a participant that does not hear of the client commits without asking the others.
    terminates_alone,
    /// Granola: a leader that others may have replaced tells what is not committed.
    ignores_leases,
    /// Granola: a transaction is executed with the timestamp that this shard proposes, before all participants have voted.
    executes_before_votes,
    /// Granola: a vote leaves before the proposal is replicated.
    votes_early,
    /// TAPIR: the client takes the votes of a majority for those of a fast quorum.
    fast_path_by_majority,
    /// TAPIR: the client proposes a refusal although votes that are missing could make a fast quorum.
    refuses_beside_fast_quorum,
    /// TAPIR: votes of different views count together.
    mixes_record_views,
    /// TAPIR: a replica validates against committed transactions only.
    ignores_prepared,
    /// TAPIR: what a transaction has read may be replaced before it is prepared.
    skips_read_validation,
    /// TAPIR: a write may have a timestamp below that of a committed read of what it replaces.
    forgets_committed_reads,
    /// TAPIR: the merged record of a view change drops verdicts that a fast quorum may have decided.
    merges_without_results,
    /// TAPIR: a vote leaves before its record is durable.
    votes_before_record,
    /// TAPIR: a backup coordinator aborts without asking anybody.
    aborts_alone,
}
