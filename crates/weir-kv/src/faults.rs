//! Bugs that tests plant in shards and coordinators of items (docs/decisions/0014-faults-are-a-type.md).

pub use weir_core::faults::NoFaults;
use weir_core::faults::faults;

faults! {
    /// The faults of a shard of items.
    Faults, PlantedBugs:
    /// Metadata is dropped as soon as all participants have committed, despite active readers (S10).
    metadata_goes_at_once,
    /// Old versions are dropped as soon as they are overwritten.
    versions_go_at_once,
    /// Overwrites become bases of their items despite active readers.
    folds_while_read,
    /// Readers of a fresh base get no metadata.
    fresh_is_silent,
    /// A named transaction that is only prepared here is not found.
    prepared_is_hidden,
    /// A repeated request takes effect again.
    takes_effect_twice,
    /// Range answers omit deletions.
    tombstones_are_silent,
    /// Round two reads the newest state instead of the one of round one (S5).
    round_two_reads_newest,
    /// The clock advances neither at commits nor from coordinators, so later writes may be buried (S9).
    clock_ignores_commits,
    /// Merges are folded although an older one may still arrive (S6).
    floor_ignores_prepared,
    /// A request whose clock is far ahead moves the shard's clock (S9).
    accepts_any_clock,
    /// An abort promise is answered before it is logged (S3).
    promise_is_not_recorded,
    /// A shard with a newer version answers that a transaction unknown to it has committed.
    newer_means_committed,
    /// A shard that has terminated transactions of a coordinator does not look again when that one falls silent again.
    looks_for_the_silent_once,
    /// Termination stamps a transaction with the shard's own prepare clock (S9).
    own_stamp_at_termination,
    /// A restarted shard has forgotten its abort promises.
    recovery_forgets_promises,
    /// Guards are not checked: writers of one row add deltas to its sums that were computed from an outdated row (S17).
    stale_delta,
    /// Garbage collection waits for a slow reader without limit, even if it is dead.
    waits_for_readers,
    /// A restarted shard has forgotten its prepared transactions.
    recovery_forgets_prepared,
}

faults! {
    /// The faults of a coordinator of items.
    ClientFaults, ClientBugs:
    /// Writes are stamped by the client's own count (S9).
    stamps_by_client,
    /// Readers never look for siblings.
    reads_once,
    /// A reader of ranges does not say that it may read anything elsewhere.
    sketch_forgets_ranges,
    /// Resent requests get a new number, so no shard recognises the repetition.
    resends_are_new,
    /// COMMIT is sent as soon as one participant has prepared.
    commits_early,
    /// Reads do not name the client's own writes, although links may reorder messages.
    forgets_own_writes,
    /// Each statement of a transaction reads from a new cut.
    forgets_what_it_saw,
    /// A cut does not add the transactions of one shard to the others.
    cut_names_nothing,
    /// A transaction that all have prepared is aborted if its COMMIT is not answered in time (S3).
    aborts_after_prepared,
    /// The client of an abandoned write is told that nothing has happened (S3).
    denies_what_goes_on,
}

faults! {
    /// The faults of a coordinator of relations.
    RelationFaults, RelationBugs:
    /// A look-up trusts index entries without reading the rows.
    shows_stale_entries,
    /// A child is visible without its parent.
    shows_orphans,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Coordinator, Partition};

    #[test]
    fn a_product_carries_no_faults() {
        assert!(size_of::<Partition>() < size_of::<Partition<PlantedBugs>>());
        assert!(size_of::<Coordinator>() < size_of::<Coordinator<ClientBugs>>());
    }
}
