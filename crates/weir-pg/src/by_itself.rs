//! Transactions that statements have for themselves, where none is open.

use std::sync::Arc;

use weir_client::{Client, Error};

/// A transaction for one statement. Dropping it without ending it, because the connection has ended, rolls it back: otherwise its locks
/// would be held for as long as the front end runs.
pub(crate) struct ByItself {
    client: Arc<Client>,
    name: u64,
    is_over: bool,
}

impl ByItself {
    pub fn begin(client: &Arc<Client>) -> ByItself {
        ByItself { name: client.new_transaction(), client: client.clone(), is_over: false }
    }

    pub fn name(&self) -> u64 {
        self.name
    }

    /// # Errors
    /// It cannot commit.
    pub async fn end(mut self, commit: bool) -> Result<(), Error> {
        self.is_over = true;
        self.client.end_transaction(self.name, commit).await.map(drop)
    }

    /// Passes the responsibility for ending it to the caller; returns its name.
    pub fn keep(mut self) -> u64 {
        self.is_over = true;
        self.name
    }
}

impl Drop for ByItself {
    fn drop(&mut self) {
        if !self.is_over {
            // The result is not needed.
            drop(self.client.end_transaction(self.name, false));
        }
    }
}
