//! The replicated failure coordinator (eris.txt §6.1): a few nodes agree on its records by Raft, and the node that leads runs the machine of
//! weir-ordered (docs/internals/ordered.md, "Its nodes").
//!
//! Nothing here has a clock, a socket, a thread or randomness of its own. It changes no decision of the machine, and reads none of the
//! messages of replicas, sequencers and clients.

mod node;

pub use node::{CoordinatorNode, Settings};
pub use weir_raft::{HardState, Record, State};
