//! Runs a protocol by its name.

use weir_baselines::eris::faults::NoFaults;
use weir_baselines::eris::granola::Granola;
use weir_baselines::eris::lock_store::LockStore;
use weir_baselines::eris::nt_ur::NtUr;
use weir_baselines::eris::operation::Empty;
use weir_baselines::eris::ordered::Ordered;
use weir_baselines::eris::tapir::Tapir;

use crate::simulation::{Outcome, Settings, Simulation};

/// Names of the protocols.
pub const PROTOCOLS: [&str; 6] = ["nt-ur", "ordered", "ordered-global", "granola", "tapir", "lock-store"];

/// Runs the protocol of that name.
///
/// # Panics
/// There is none.
pub fn run(protocol: &str, settings: &Settings) -> Outcome {
    let (faults, origin) = (NoFaults, Empty);
    match protocol {
        "nt-ur" => Simulation::new(NtUr { origin }, settings).run(),
        "ordered" => Simulation::new(Ordered { is_global: false, origin }, settings).run(),
        "ordered-global" => Simulation::new(Ordered { is_global: true, origin }, settings).run(),
        "granola" => Simulation::new(Granola { faults, origin }, settings).run(),
        "tapir" => Simulation::new(Tapir { faults, origin }, settings).run(),
        "lock-store" => Simulation::new(LockStore { faults, origin }, settings).run(),
        _ => panic!("no protocol {protocol}: there are {}", PROTOCOLS.join(", ")),
    }
}
