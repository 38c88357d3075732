//! A bounded pool of connections to one server, which threads share.
//!
//! A connection belongs to the runtime that uses it. One of another runtime is moved only if there are as many connections as there may be.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::raw::RawConnection;

/// The pool.
pub(crate) struct Connections {
    config: String,
    /// Transactions run at the level that their client or the server says.
    keeps_isolation: bool,
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: Vec<RawConnection>,
    /// Number of all, idle or not.
    open: usize,
}

/// A connection that somebody uses. Dropping it closes it.
pub(crate) struct Lease {
    pub connection: RawConnection,
    slot: Slot,
}

/// Room for a connection of the pool.
struct Slot {
    pool: Arc<Connections>,
    is_kept: bool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_kept {
            self.pool.state().open -= 1;
        }
    }
}

impl Lease {
    /// Somebody else may use it.
    pub fn give_back(self) {
        let Lease { connection, mut slot } = self;
        slot.is_kept = true;
        slot.pool.state().idle.push(connection);
    }
}

impl Connections {
    /// `config`: of the server. `max`: as many as there may be, if no more than that are taken at a time.
    pub fn new(config: String, keeps_isolation: bool, max: usize) -> Arc<Connections> {
        Arc::new(Connections { config, keeps_isolation, max, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection for the runtime of this thread.
    ///
    /// # Errors
    /// The server cannot be reached, or does not let the role in.
    pub async fn take(self: &Arc<Self>) -> io::Result<Lease> {
        loop {
            let idle = self.idle_or_room();
            let slot = Slot { pool: self.clone(), is_kept: false };
            let connection = match idle {
                // The server may have ended it meanwhile.
                Some(connection) if !connection.is_open() => continue,
                Some(connection) => connection.moved()?,
                None => RawConnection::open(&self.config, self.keeps_isolation).await?,
            };
            return Ok(Lease { connection, slot });
        }
    }

    /// None: there is room for another one, which is counted already.
    fn idle_or_room(&self) -> Option<RawConnection> {
        let mut state = self.state();
        let here = state.idle.iter().rposition(RawConnection::is_here);
        if here.is_none() && (state.open < self.max || state.idle.is_empty()) {
            state.open += 1;
            return None;
        }
        match here {
            Some(place) => Some(state.idle.remove(place)),
            None => state.idle.pop(),
        }
    }
}
