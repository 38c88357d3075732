//! A read whose rows have been fetched, and whose result is still to be computed.
//!
//! The computation may take as long as the query likes, so the coordinator does not do it: whoever waits for the result does. Meanwhile
//! the coordinator serves its other clients, and the shards hear from it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use weir_core::ids::ShardId;
use weir_types::datetime::TransactionTime;
use weir_types::interrupt::{Interrupts, StatementId};
use weir_types::{SqlError, Value};

use crate::exec::gather::{Fetched, Gather};
use crate::exec::program::Program;
use crate::message::ReadQuery;

/// The rows that the shards have sent for a read.
pub struct FetchedRead {
    pub(super) gather: Arc<Gather>,
    pub(super) values: Vec<Value>,
    pub(super) queries: BTreeMap<ShardId, Arc<ReadQuery>>,
    pub(super) fetched: Fetched,
    pub(super) program: Arc<Program>,
    pub(super) transaction_time: TransactionTime,
    pub(super) seed: u64,
    /// The computation ends early if this statement is interrupted.
    pub(super) statement: (Arc<Interrupts>, StatementId),
}

impl FetchedRead {
    /// Computes the result.
    ///
    /// # Errors
    /// The query's, or that of the interruption.
    pub fn rows(self) -> Result<Vec<Vec<Value>>, SqlError> {
        let (interrupts, statement) = &self.statement;
        let _watch = interrupts.watch(*statement);
        let at = (&*self.program, self.transaction_time, self.seed);
        self.gather.rows(&self.values, &self.queries, self.fetched, at)
    }
}

impl fmt::Debug for FetchedRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FetchedRead").field(&self.fetched).finish()
    }
}
