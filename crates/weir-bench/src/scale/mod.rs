//! The scaling of protocols, by simulation: the real machines in virtual time, charged with what they were measured to take
//! (docs/internals/scale.md).

pub mod calibrate;
pub mod calls;
pub mod prices;
mod ycsb;

pub use prices::Prices;
pub use weir_sim::scale::{Network, World};
pub use ycsb::run as ycsb;

use weir_sim::scale::Work;

/// Servers that do not exist.
#[derive(Clone, Copy, Debug)]
pub struct Servers {
    pub servers: u16,
    /// Cores of each server, each with its own shard and coordinator.
    pub cores: u16,
    /// Closed loops of each server.
    pub clients: u32,
    pub network: Network,
    /// Virtual time, after an equal time to warm up.
    pub seconds: f64,
    pub seed: u64,
}

impl Servers {
    /// Shards and coordinators together.
    fn cores_in_all(&self) -> u16 {
        self.servers * self.cores
    }

    fn setup(&self, prices: &Prices) -> weir_sim::scale::Setup {
        weir_sim::scale::Setup {
            servers: usize::from(self.servers),
            cores: usize::from(self.cores),
            clients: u64::from(self.clients.div_ceil(u32::from(self.cores))),
            network: self.network,
            wire: prices.wire(),
            seed: self.seed,
        }
    }
}

/// Measurements of the servers.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Share of the time that cores were busy.
    pub busy: f64,
    /// Between servers.
    pub messages_per_batch: f64,
    pub bytes_per_second: f64,
}

impl Load {
    fn of(work: &Work, seconds: f64) -> Load {
        Load {
            busy: work.busy,
            messages_per_batch: work.messages as f64 / work.batches.max(1) as f64,
            bytes_per_second: work.bytes as f64 / seconds,
        }
    }
}
