//! Costs of traced transactions and reads of a coordinator, for EXPLAIN ANALYZE. Others are not measured.

use std::collections::{BTreeMap, BTreeSet};

use weir_core::ids::ShardId;

/// Costs of one operation until its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Number of times that requests were sent and answers came.
    pub round_trips: u32,
    /// Number of requests and replies.
    pub messages: u32,
    pub shards: BTreeSet<ShardId>,
    /// Number of restarts because another transaction held a claim.
    pub retries: u32,
    /// Number of reports that the operation waits for another transaction.
    pub waits: u32,
    /// A request has been sent since the last reply.
    is_asking: bool,
}

/// Traced operations, by tag.
#[derive(Debug, Default)]
pub struct Traces(BTreeMap<u64, Trace>);

impl Traces {
    pub fn begin(&mut self, tag: u64) {
        self.0.insert(tag, Trace::default());
    }

    /// Removes and returns the trace of an answered operation.
    pub fn take(&mut self, tag: u64) -> Option<Trace> {
        self.0.remove(&tag)
    }

    /// Almost always none; that case must cost nothing.
    #[inline]
    fn of(&mut self, tag: u64) -> Option<&mut Trace> {
        if self.0.is_empty() { None } else { self.0.get_mut(&tag) }
    }

    pub fn sent(&mut self, tag: u64, shard: ShardId) {
        let Some(trace) = self.of(tag) else { return };
        trace.messages += 1;
        trace.shards.insert(shard);
        trace.is_asking = true;
    }

    pub fn heard(&mut self, tag: u64) {
        let Some(trace) = self.of(tag) else { return };
        trace.messages += 1;
        trace.round_trips += u32::from(std::mem::take(&mut trace.is_asking));
    }

    pub fn waits(&mut self, tag: u64) {
        self.of(tag).into_iter().for_each(|trace| trace.waits += 1);
    }

    pub fn retries(&mut self, tag: u64) {
        self.of(tag).into_iter().for_each(|trace| trace.retries += 1);
    }
}
