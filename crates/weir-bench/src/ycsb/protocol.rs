//! The protocols over items, by name: Weir's own and the paper's comparators.

use weir_baselines::{Comparator, Drive};
use weir_txn::items::{Coordinator, ItemCoordinator, Options, Partition, Variant};

use super::{Outcome, Ycsb};
use crate::pace::COORDINATORS;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Protocol {
    Ramp(Variant),
    Comparator(weir_baselines::Protocol),
}

impl Protocol {
    /// # Errors
    /// What is wrong, and the names that there are.
    pub fn by_name(name: &str) -> Result<Protocol, (String, String)> {
        let ramp = Variant::by_name(name).map(Protocol::Ramp);
        let found = ramp.or_else(|| weir_baselines::by_name(name).map(Protocol::Comparator));
        found.ok_or_else(|| {
            let comparators = weir_baselines::Protocol::ALL.map(weir_baselines::Protocol::name).join(", ");
            let names = format!("the protocols are: ramp-fast, ramp-small, ramp-hybrid, {comparators}");
            (format!("there is no protocol `{name}` over items"), names)
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Protocol::Ramp(variant) => variant.name(),
            Protocol::Comparator(protocol) => protocol.name(),
        }
    }

    pub(super) fn run(self, workload: &Ycsb) -> Outcome {
        match self {
            Protocol::Ramp(variant) => {
                let shards: Vec<Partition> =
                    (0..workload.shards).map(|id| Partition::new(id, Default::default())).collect();
                let options = Options {
                    variant,
                    shards: workload.shards,
                    links_keep_order: true,
                    one_phase: workload.one_phase,
                    bugs: Default::default(),
                };
                let coordinators = (0..COORDINATORS).map(|id| Coordinator::new(id, 0, options)).collect();
                let (mut outcome, shards) = workload.run_on(shards, coordinators);
                let bytes: u64 = shards.iter().map(|shard| shard.counts.metadata_bytes).sum();
                outcome.metadata_bytes_per_read = bytes as f64 / outcome.reads.max(1) as f64;
                outcome
            }
            Protocol::Comparator(protocol) => {
                let cluster = weir_baselines::Cluster {
                    shards: workload.shards,
                    coordinators: COORDINATORS,
                    seed: workload.seed,
                    bugs: Default::default(),
                };
                protocol.drive(cluster, Driven(workload))
            }
        }
    }
}

struct Driven<'a>(&'a Ycsb);

impl Drive for Driven<'_> {
    type Output = Outcome;

    fn run<S, C>(self, shards: Vec<S>, coordinators: Vec<C>) -> Outcome
    where
        S: Comparator,
        C: ItemCoordinator<S>,
    {
        self.0.run_on(shards, coordinators).0
    }
}
