//! A pool of connections to one server, without an agent: transactions run as they are, at the isolation level that their client or the server says.

use crate::locals::Locals;
use crate::process::OpenTransaction;
use crate::sessions::{Replies, SessionStart};

/// The pool.
pub struct PassThrough(Locals);

impl PassThrough {
    /// `config`: of the server. `connections`: at most so many.
    pub fn start(config: String, connections: usize) -> PassThrough {
        PassThrough(Locals::new(config, connections, true))
    }

    /// Opens a transaction. It is called on a thread that carries sessions. Nothing is run again.
    pub fn open(&self, start: SessionStart, replies: Replies) -> OpenTransaction {
        OpenTransaction::here(self.0.open_once(start, replies))
    }
}
