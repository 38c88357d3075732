//! Where clients on threads wait while there is no server.

use std::sync::{Condvar, Mutex};

/// Clients are inside while they work at the server, and come in while it is open.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Of the server.
    port: Option<u16>,
    is_over: bool,
    inside: usize,
    /// Transactions that have ended.
    done: usize,
}

#[allow(dead_code, reason = "each test uses its part")]
impl Gate {
    pub fn enter(&self) -> Option<u16> {
        let state = self.state.lock().unwrap();
        let mut state =
            self.changed.wait_while(state, |state| state.port.is_none() && !state.is_over).unwrap();
        state.inside += usize::from(!state.is_over);
        state.port.filter(|_| !state.is_over)
    }

    pub fn leave(&self) {
        self.state.lock().unwrap().inside -= 1;
        self.changed.notify_all();
    }

    pub fn open(&self, port: u16) {
        self.state.lock().unwrap().port = Some(port);
        self.changed.notify_all();
    }

    pub fn close(&self) {
        self.state.lock().unwrap().port = None;
    }

    pub fn wait_until_empty(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |state| state.inside > 0).unwrap());
    }

    pub fn end(&self) {
        self.state.lock().unwrap().is_over = true;
        self.changed.notify_all();
    }

    pub fn is_open(&self) -> bool {
        self.state.lock().unwrap().port.is_some()
    }

    /// A transaction has ended.
    pub fn count(&self) {
        self.state.lock().unwrap().done += 1;
        self.changed.notify_all();
    }

    /// Until so many more have ended.
    pub fn wait_for(&self, more: usize) {
        let state = self.state.lock().unwrap();
        let most = state.done + more;
        drop(self.changed.wait_while(state, |state| state.done < most).unwrap());
    }
}
