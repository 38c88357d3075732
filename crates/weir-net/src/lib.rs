//! Networking shared by the nodes and clients of a cluster: cluster file, connections, handshake and frames.
//!
//! This crate handles transport and admission. Messages are defined by the protocols (`weir-txn`) and handled by the loops of the node
//! (`weir-server`) and of the client (`weir-client`).
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
