//! Ordered transactions over the network: the wire format, the transport, and clusters of processes on loopback
//! (docs/internals/ordered-network.md).

#[path = "../../weir-sim/src/chance.rs"]
#[allow(dead_code, reason = "the simulator uses all of it")]
mod chance;
mod cluster;
mod counting;
mod damage;
mod disk;
mod faults;
mod party;
mod transport;
mod world;
