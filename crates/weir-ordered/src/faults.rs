//! Bugs that tests plant in replicas, failure coordinators and clients (docs/decisions/0014-faults-are-a-type.md).

pub use weir_core::faults::NoFaults;
use weir_core::faults::faults;

faults! {
    /// The faults of a replica.
    Faults, PlantedBugs:
    /// A packet is logged although its drop was promised to the failure coordinator.
    skips_temporary_drops,
    /// A packet of an earlier epoch is logged in the place of one of the current epoch.
    delivers_across_epochs,
    /// The client table keeps one client only.
    forgets_clients,
    /// A packet that the failure coordinator has found stays promised away.
    forgets_undrops,
    /// A restarted replica has forgotten its temporary drops (S18).
    forgets_promises,
    /// A reply leaves before the entry is durable (S16).
    answers_early,
    /// A learner that adopts another log keeps what it has executed.
    keeps_executed,
    /// A repeated transaction is executed again.
    executes_twice,
    /// The learner of a new view ignores the drops that other replicas have promised.
    merges_no_drops,
    /// A replica that has promised its state to a later epoch goes on in the earlier one.
    ignores_epoch_promise,
    /// A replica with an empty disk joins as the one that it was, and so takes part at once.
    votes_at_once,
    /// A checkpoint lacks the client table.
    snapshots_without_clients,
    /// A replica forgets what its own shard has synchronized, which other shards may need.
    forgets_synchronized,
    /// The application's part of a checkpoint has what the learner has executed, not what is synchronized.
    snapshots_executed,
    /// A follower acknowledges entries without the NO-OPs of its learner.
    synchronizes_blindly,
    /// A general transaction holds no locks once its preliminary part is answered.
    lets_go_early,
    /// An independent transaction does not wait for locks.
    passes_locks,
    /// A transaction does not wait for what waits before it.
    passes_waiting,
    /// The conclusory part of a transaction that a replica has aborted is executed.
    commits_aborted,
    /// A checkpoint lacks the lock table.
    snapshots_without_locks,
    /// A transaction that has waited is answered before a majority has the entry that has set it free.
    settles_early,
}

faults! {
    /// The faults of a failure coordinator.
    CoordinatorFaults, CoordinatorBugs:
    /// A decision is told before its record is durable.
    tells_before_record,
    /// The promises of the shard that lacks the packet are enough to drop it.
    asks_one_shard,
    /// The state of a replica that has lost its disk counts for the start of an epoch.
    counts_empty_disks,
    /// A cut is stable once one shard has synchronized it.
    truncates_early,
    /// A majority of promises without the learner is enough to drop a packet.
    drops_without_learner,
    /// An epoch starts with what each shard has itself, not with what its transactions' other participants have.
    starts_shards_apart,
    /// A node that has lost its lead goes on as the failure coordinator, and takes entries of later leaders for its own.
    answers_after_lead,
    /// The failure coordinator starts on a node as soon as that leads, before it knows everything that was committed.
    starts_before_first_entry,
}

faults! {
    /// The faults of a client.
    ClientFaults, ClientBugs:
    /// The reply of the learner alone is an answer.
    learns_before_quorum,
    /// A majority without the learner is a quorum; the answer is that of any reply.
    quorum_without_learner,
    /// Replies of different views and epochs count together.
    mixes_views,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure_coordinator::FailureCoordinator;

    #[test]
    fn a_product_carries_no_faults() {
        assert!(size_of::<FailureCoordinator<()>>() < size_of::<FailureCoordinator<(), CoordinatorBugs>>());
        assert_eq!(size_of::<NoFaults>(), 0);
    }
}
