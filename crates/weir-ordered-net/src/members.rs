//! The parties of a cluster, and where they are.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use weir_core::ids::CoordinatorId;
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::message::{Party, SequencerId};

/// Low bits of a sequencer's id that say at which place it runs.
const PLACE_BITS: u32 = 8;
/// Nodes of the failure coordinator, at most: more would only make it slower.
const COORDINATORS_MAX: usize = 9;

/// How messages travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// In datagrams; those that do not fit, over TCP.
    #[default]
    Udp,
    /// Over TCP alone.
    Tcp,
}

/// A cluster and its addresses.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Members {
    pub cluster: Cluster,
    /// The same for all parties of a cluster, and for no other cluster.
    pub tag: u64,
    #[serde(default)]
    pub network: Network,
    /// Nodes of the failure coordinator, by number: one, or three, of which one may be down.
    pub coordinators: Vec<SocketAddr>,
    /// Places where a sequencer may run: 256 at most.
    pub sequencers: Vec<SocketAddr>,
    /// Those of shard 0, by number, then those of the next shard.
    pub replicas: Vec<SocketAddr>,
}

impl Members {
    /// # Errors
    /// The addresses are not those of such a cluster; why.
    pub fn check(&self) -> Result<(), String> {
        let Cluster { shards, replicas, .. } = self.cluster;
        let expected = usize::from(shards) * usize::from(replicas);
        if expected == 0 || self.replicas.len() != expected {
            let given = self.replicas.len();
            return Err(format!(
                "{shards} shards of {replicas} replicas have {expected} addresses, not {given}"
            ));
        }
        if self.sequencers.is_empty() || self.sequencers.len() > 1 << PLACE_BITS {
            return Err(format!(
                "a cluster has 1 to 256 places of sequencers, not {}",
                self.sequencers.len()
            ));
        }
        if self.coordinators.is_empty() || self.coordinators.len() > COORDINATORS_MAX {
            return Err(format!(
                "a failure coordinator has 1 to {COORDINATORS_MAX} nodes, not {}",
                self.coordinators.len()
            ));
        }
        Ok(())
    }

    /// Where a party is. None: a client, which has no fixed address, the failure coordinator, which is where one of its nodes leads, or a party
    /// that the cluster has not.
    pub fn address(&self, party: Party) -> Option<SocketAddr> {
        match party {
            Party::Client(_) => None,
            Party::Sequencer(id) => self.sequencers.get((id & ((1 << PLACE_BITS) - 1)) as usize).copied(),
            Party::Replica(ReplicaId { shard, number }) if number < self.cluster.replicas => {
                let first = usize::from(shard) * usize::from(self.cluster.replicas);
                self.replicas.get(first + usize::from(number)).copied()
            }
            Party::Replica(_) => None,
            Party::FailureCoordinator => None,
            Party::CoordinatorNode(number) => self.coordinators.get(usize::from(number)).copied(),
        }
    }
}

/// Number of a start of a process: later starts have later numbers, as far as the clock goes on.
pub fn start_number() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_micros() as u64)
}

/// Id of a sequencer that starts now at that place.
pub fn sequencer_id(place: u8) -> SequencerId {
    start_number() << PLACE_BITS | u64::from(place)
}

/// Id of a client that starts now.
///
/// # Errors
/// The system has no randomness to give.
pub fn client_id() -> std::io::Result<CoordinatorId> {
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(std::io::Error::other)?;
    Ok(CoordinatorId::from_le_bytes(id))
}

#[cfg(test)]
mod tests {
    use weir_ordered::cluster::Timeouts;

    use super::*;

    fn members() -> Members {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Members {
            cluster: Cluster {
                shards: 2,
                replicas: 3,
                timeouts: Timeouts::DEFAULT,
                truncate_entries: 1,
                aside_max: 2,
            },
            tag: 7,
            network: Network::Udp,
            coordinators: vec![address(1)],
            sequencers: vec![address(2), address(3)],
            replicas: (10..16).map(address).collect(),
        }
    }

    #[test]
    fn parties_are_where_the_members_say() {
        let members = members();
        assert_eq!(members.check(), Ok(()));
        let port = |party| members.address(party).map(|address| address.port());
        let replica = |shard, number| Party::Replica(ReplicaId { shard, number });
        assert_eq!(
            [replica(0, 0), replica(1, 2), replica(1, 3), replica(2, 0)].map(port),
            [Some(10), Some(15), None, None]
        );
        let places = [0, 1, 2].map(|place| port(Party::Sequencer(sequencer_id(place))));
        assert_eq!(places, [Some(2), Some(3), None]);
        assert_eq!([0, 1].map(|number| port(Party::CoordinatorNode(number))), [Some(1), None]);
        assert_eq!([Party::Client(1), Party::FailureCoordinator].map(port), [None, None]);
    }

    #[test]
    fn addresses_that_do_not_fit_the_cluster_are_refused() {
        let mut members = members();
        members.replicas.pop();
        assert!(members.check().is_err_and(|why| why.contains("6 addresses, not 5")));
    }
}
