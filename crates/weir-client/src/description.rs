//! Description of a cluster's application, which nodes send to clients that have only the cluster file.
//!
//! It includes the plan, which depends on more than the texts (weights, a solver that may be missing): a coordinator of calls must use
//! the same plan as the shards.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_core::ids::ShardId;
use weir_net::handshake::{DESCRIPTION, Terms};
use weir_net::{ClusterFile, body};

use crate::Error;
use crate::calls::Callable;
use crate::export::{NotFetched, What, fetch};

/// Name of the protocol for SQL applications, in messages and in logs. Ad-hoc statements came with version 2, definitions with version 3;
/// the versions are mutually incompatible.
pub const SQL: &str = "sql-3";

/// One node may take so long, then the next is asked.
const PATIENCE: Duration = Duration::from_secs(2);

/// An SQL application, and how its transactions run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Description {
    carried: weir_txn::exec::definition::Description,
    /// That of the handshake.
    placement: u64,
}

impl Description {
    pub fn new(carried: weir_txn::exec::definition::Description, placement: u64) -> Description {
        Description { carried, placement }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        body::write(self, &mut bytes);
        bytes
    }

    pub(crate) fn terms(&self, cluster: &ClusterFile) -> Terms {
        cluster.terms_of(SQL, self.placement)
    }

    pub(crate) fn schema_version(&self) -> u64 {
        self.carried.schema_version()
    }

    /// Compiles the application into the form shared by its coordinators and shards.
    pub(crate) fn compile(self, shards: ShardId) -> Result<Callable, Error> {
        let program = self.carried.compile(shards).map_err(|error| Error::Refused(error.to_string()))?;
        Ok(Callable::new(program))
    }

    /// Asks the nodes, one after the other, until one answers.
    ///
    /// # Errors
    /// No node does, or all refuse.
    pub(crate) fn fetch(
        cluster: &ClusterFile,
        versions: &RangeInclusive<u16>,
        timeouts: Duration,
    ) -> Result<Description, Error> {
        let terms = Terms { versions: versions.clone(), ..cluster.terms_of(DESCRIPTION, 0) };
        let until = Instant::now() + timeouts;
        loop {
            let (mut refused, mut why) = (true, String::new());
            for shard in cluster.nodes.values().filter_map(|node| node.shards.first()) {
                let timeouts = until.saturating_duration_since(Instant::now()).min(PATIENCE);
                match fetch(cluster, &terms, *shard, What::Description, timeouts) {
                    Ok(bytes) => {
                        return postcard::from_bytes(&bytes).map_err(|error| {
                            Error::Refused(format!("the node's description cannot be read: {error}"))
                        });
                    }
                    Err(NotFetched::Refused(said)) => why = said,
                    Err(NotFetched::Failed(said)) => (refused, why) = (false, said),
                }
            }
            if refused {
                return Err(Error::Refused(why));
            }
            if Instant::now() >= until {
                return Err(Error::Deadline(why));
            }
        }
    }
}
