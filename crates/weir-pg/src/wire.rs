//! PostgreSQL's protocol without Weir's sessions: what another server of the protocol needs (weir-conveyor-front).
//!
//! Connections are accepted and carried by event loops, opened with or without TLS, authenticated, and read message by message.

pub use crate::authentication::{fatal, not_let_in, scram};
pub use crate::frontend::{Expected, Frame, Opening};
pub use crate::listening::{Arrival, Listening};
pub use crate::opening::{Incoming, Opened, Socket, Unreadable, open};
