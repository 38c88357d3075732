//! Bugs that tests plant in comparators (docs/decisions/0014-faults-are-a-type.md).

pub use weir_core::faults::NoFaults;
use weir_core::faults::faults;

faults! {
    /// The faults of a shard of a comparator.
    Faults, PlantedBugs:
    /// A shared lock is granted while an exclusive one is held.
    shared_beside_exclusive,
    /// A reader takes a prepared write for one that has not committed, without asking.
    check_is_skipped,
}
