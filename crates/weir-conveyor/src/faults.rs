//! Bugs that tests plant in agents, in the transactions of databases, and in the coordinator (docs/decisions/0014-faults-are-a-type.md).

pub use weir_core::faults::NoFaults;
use weir_core::faults::faults;

faults! {
    /// The faults of an agent.
    AgentFaults, AgentBugs:
    /// The token is passed while operations of the batch run.
    passes_early,
    /// The batch starts before all earlier visits are applied.
    executes_before_applying,
    /// The token is passed although the coordinator was promised that it will not be.
    passes_unpassed,
    /// A forwarded operation that comes twice is executed twice.
    forgets_forwarded,
    /// A forwarded operation is executed by whichever start of the agent it reaches.
    ignores_starts,
    /// An operation that belongs to another server is executed here.
    executes_anywhere,
    /// A global operation is executed at once, as a local one is.
    executes_without_token,
}

faults! {
    /// The faults of the transactions that databases run.
    PlanFaults, PlanBugs:
    /// The state update is durable, and may be applied elsewhere, although the transaction that makes it may not commit.
    captures_before_commit,
    /// The state update is written by a transaction of its own, once the operation has committed.
    captures_after_commit,
    /// The state updates of a visit are applied one by one.
    applies_one_by_one,
    /// State updates are applied at READ COMMITTED.
    applies_read_committed,
    /// The position moves in a transaction of its own, once the updates are applied.
    moves_position_apart,
    /// A global operation reads the epoch row, and does not lock it.
    reads_epoch_without_lock,
    /// State updates are the statements of the operation, not the columns that these have changed.
    sends_statements,
    /// A local operation does not look at the map of slots: its server executes it after the move of its rows.
    serves_after_move,
    /// An operation that was placed under a newer map is executed: its rows may not be there yet.
    serves_before_applied,
    /// The map is read in another transaction than that of the operation.
    checks_map_apart,
    /// The rows of a server that joins again are those of a moment at which it had not left: outboxes behind that may be deleted.
    copies_any_base,
    /// The outbox is read in the snapshot in which its visit is closed.
    reads_as_it_closes,
}

faults! {
    /// The faults of the coordinator.
    CoordinatorFaults, CoordinatorBugs:
    /// A new epoch begins without a fence, after the last visit that is known.
    begins_without_fence,
    /// Only the first database that may have the token is fenced, and it is taken for the last holder.
    fences_once,
    /// An epoch is told before its record is durable.
    tells_before_record,
    /// An epoch is forgotten although a server that is not in the ring still needs it.
    forgets_absent,
    /// An epoch is forgotten once all servers know its visits, although a restart begins at the position of the database.
    forgets_reached,
    /// A checkpoint has records that are not committed.
    checkpoints_uncommitted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::Coordinator;

    #[test]
    fn a_product_carries_no_faults() {
        assert!(size_of::<Coordinator>() < size_of::<Coordinator<CoordinatorBugs>>());
        assert_eq!(size_of::<NoFaults>(), 0);
    }
}
