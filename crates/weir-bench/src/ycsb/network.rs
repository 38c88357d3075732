//! YCSB against nodes that run elsewhere: the same clients, on a coordinator that speaks over the network.

use std::sync::Arc;

use weir_client::carrier::{Carrier, new_id};
use weir_client::{Client, ClusterFile};
use weir_core::machine::Clients;
use weir_kv::faults::NoFaults;
use weir_kv::{Coordinator, Options, Partition};
use weir_server::progress;

use super::clients::{ClosedLoops, Loader, Tally};
use super::generator::Generator;
use super::{Outcome, Ycsb};
use crate::pace::Pace;

type Failure = (String, String);

impl Ycsb {
    /// Loads the items and runs the workload on a cluster, with all clients on one coordinator.
    ///
    /// # Errors
    /// The cluster cannot be reached, or what [`Ycsb::check`] finds: what is wrong, what would be right.
    pub fn run_at(&self, cluster: &ClusterFile) -> Result<Outcome, Failure> {
        let (coordinator, generator) = self.load_at(cluster)?;
        let pace = Arc::new(Pace::new(self.limit));
        let loops = ClosedLoops::new(coordinator, generator, pace.clone(), self.seed, self.clients.into());
        let cluster = cluster.clone();
        let carried = std::thread::spawn(move || carry(&cluster, loops));
        pace.watch(&mut progress::silent, || carried.is_finished());
        let seconds = pace.begun.elapsed().as_secs_f64();
        let mut tally = Tally::default();
        tally.add(carried.join().expect("an assertion failed; see above").map_err(unreachable)?.into_tally());
        Ok(Outcome::of(&tally, seconds))
    }

    /// Loads the items, and gives the coordinator that did.
    ///
    /// # Errors
    /// As [`Ycsb::run_at`].
    pub fn load_at(&self, cluster: &ClusterFile) -> Result<(Coordinator, Arc<Generator>), Failure> {
        self.check()?;
        // A range is on all shards.
        let probe = Client::connect(cluster).and_then(|client| client.scan("", ""));
        probe.map_err(|error| unreachable(error.to_string()))?;
        let options = Options {
            variant: cluster.variant,
            shards: cluster.shards,
            links_keep_order: false,
            one_phase: self.one_phase,
            bugs: NoFaults,
        };
        let id = new_id().map_err(|error| unreachable(error.to_string()))?;
        let generator = Arc::new(Generator::new(self));
        let loader = Loader::new(Coordinator::new(id, 0, options), generator.clone(), 0..self.items);
        let coordinator = carry(cluster, loader).map_err(unreachable)?.into_coordinator();
        Ok((coordinator, generator))
    }
}

fn unreachable(why: String) -> Failure {
    (why, "start its nodes: weir serve --cluster FILE --node NAME, one for each in the file".to_owned())
}

fn carry<C: Clients<Partition>>(cluster: &ClusterFile, clients: C) -> Result<C, String> {
    let carrier =
        Carrier::<Partition, C>::new(cluster.clone(), clients).map_err(|error| error.to_string())?;
    Ok(carrier.run())
}
