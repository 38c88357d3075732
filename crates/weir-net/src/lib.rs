//! What nodes and clients of a cluster have in common on the network: the cluster file, connections, the
//! handshake and frames.
//!
//! Knows how bytes travel and who may speak. What is said in them is the protocols' (`weir-txn`), what is
//! done with it is the loops' of the node (`weir-server`) and of the client (`weir-client`).
//!
//! The design is docs/internals/network.md.

pub mod body;
pub mod clock;
pub mod cluster_file;
pub mod connection;
pub mod frame;
pub mod handshake;
pub mod link;
pub mod loopback;
pub mod tls;

pub use cluster_file::ClusterFile;
pub use connection::Connection;
pub use frame::{Fault, Kind};
pub use link::Link;
