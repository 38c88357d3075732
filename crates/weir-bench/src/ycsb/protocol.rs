//! The protocols over items, by name: Weir's own and the paper's comparators.

use weir_baselines::{e_pci, locking, none};
use weir_core::ids::{CoordinatorId, ShardId};
use weir_core::machine::Shard;
use weir_kv::faults::NoFaults;
use weir_kv::{Coordinator, ItemCoordinator, Options, Partition, Variant};

use super::shape::Shaped;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Protocol {
    Ramp(Variant),
    Comparator(weir_baselines::Protocol),
}

/// The machines that a driver gets.
#[derive(Clone, Copy, Debug)]
pub struct Machines {
    pub shards: ShardId,
    pub coordinators: CoordinatorId,
    /// Writers are answered once all have prepared (ramp.txt §4.7); only RAMP knows the difference.
    pub one_phase: bool,
    /// Decides which shards decide (`e-pci`).
    pub seed: u64,
}

/// A shard over items, of any protocol.
pub trait ItemShard: Shard<Request: Shaped + Clone, Reply: Shaped + Clone, Progress: Clone> {
    /// Bytes of metadata sent to readers, without stamps.
    fn metadata_bytes(&self) -> u64 {
        0
    }
}

impl ItemShard for Partition {
    fn metadata_bytes(&self) -> u64 {
        self.counts.metadata_bytes
    }
}
impl ItemShard for none::Partition {}
impl ItemShard for locking::Partition {}
impl ItemShard for e_pci::Partition {}

/// Driver of state machines, independent of their protocol.
pub trait Drive {
    type Output;

    fn run<S: ItemShard, C: ItemCoordinator<S>>(self, shards: Vec<S>, coordinators: Vec<C>) -> Self::Output;
}

impl Protocol {
    /// All that there are, Weir's own first, in the order of the paper's tables.
    pub const ALL: [Protocol; 8] = [
        Protocol::Ramp(Variant::Fast),
        Protocol::Ramp(Variant::Small),
        Protocol::Ramp(Variant::HYBRID),
        Protocol::Comparator(weir_baselines::Protocol::None),
        Protocol::Comparator(weir_baselines::Protocol::Locking(locking::ReadLocks::None)),
        Protocol::Comparator(weir_baselines::Protocol::Locking(locking::ReadLocks::Short)),
        Protocol::Comparator(weir_baselines::Protocol::Locking(locking::ReadLocks::Long)),
        Protocol::Comparator(weir_baselines::Protocol::EPci),
    ];

    /// # Errors
    /// The error, and the valid names.
    pub fn by_name(name: &str) -> Result<Protocol, (String, String)> {
        let comparator = || weir_baselines::by_name(name).map(Protocol::Comparator);
        Variant::by_name(name).map(Protocol::Ramp).or_else(comparator).ok_or_else(|| {
            let names = Protocol::ALL.map(Protocol::name).join(", ");
            let hint = format!("the protocols are: {names} (or ramp-hybrid:BITS:HASHES)");
            (format!("there is no protocol `{name}` over items"), hint)
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Protocol::Ramp(variant) => variant.name(),
            Protocol::Comparator(protocol) => protocol.name(),
        }
    }

    /// Makes the machines and hands them to the driver.
    pub fn drive<D: Drive>(self, machines: Machines, driver: D) -> D::Output {
        use weir_baselines::Protocol::{EPci, Locking, None};
        let Machines { shards, coordinators, one_phase, seed } = machines;
        let (shard_ids, ids) = (0..shards, 0..coordinators);
        match self {
            Protocol::Ramp(variant) => {
                let bugs = NoFaults;
                let options = Options { variant, shards, links_keep_order: true, one_phase, bugs };
                driver.run(
                    shard_ids.map(|id| Partition::new(id, NoFaults)).collect(),
                    ids.map(|id| Coordinator::new(id, 0, options)).collect(),
                )
            }
            Protocol::Comparator(None) => driver.run(
                shard_ids.map(none::Partition::new).collect(),
                ids.map(|id| none::Coordinator::new(id, shards)).collect(),
            ),
            Protocol::Comparator(Locking(reads)) => driver.run(
                shard_ids.map(|id| locking::Partition::new(id, NoFaults)).collect(),
                ids.map(|id| locking::Coordinator::new(id, shards, reads)).collect(),
            ),
            Protocol::Comparator(EPci) => driver.run(
                shard_ids.map(|id| e_pci::Partition::new(id, NoFaults)).collect(),
                ids.map(|id| e_pci::Coordinator::new(id, shards, seed)).collect(),
            ),
        }
    }
}
