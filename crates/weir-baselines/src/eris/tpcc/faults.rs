//! Bugs that tests plant in TPC-C, which its consistency conditions must catch (docs/decisions/0014-faults-are-a-type.md).

pub use weir_core::faults::NoFaults;
use weir_core::faults::faults;

faults! {
    /// The faults of a shard's data.
    Faults, PlantedBugs:
    /// A line of an order of another warehouse leaves the stock as it is.
    loses_remote_stock,
    /// A Payment by a customer of another warehouse leaves the balance as it is.
    loses_remote_payment,
    /// A delivered order stays in the new ones.
    delivers_again,
    /// A New-Order that is rolled back leaves its lines.
    leaves_lines,
}
