//! What transactions and reads of a coordinator take that somebody wants to know of: EXPLAIN ANALYZE. Nobody else is looked at.

use std::collections::{BTreeMap, BTreeSet};

use super::message::ShardId;

/// What came to pass until the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Times that something was sent and an answer came.
    pub round_trips: u32,
    /// Requests, and their answers.
    pub messages: u32,
    pub shards: BTreeSet<ShardId>,
    /// It began anew, because another transaction held what it wanted.
    pub retries: u32,
    /// A shard said that it waits for another transaction.
    pub waits: u32,
    /// Something has been sent since the last answer.
    is_asking: bool,
}

/// Those that are looked at, by tag.
#[derive(Debug, Default)]
pub struct Traces(BTreeMap<u64, Trace>);

impl Traces {
    pub fn begin(&mut self, tag: u64) {
        self.0.insert(tag, Trace::default());
    }

    /// It has been answered.
    pub fn take(&mut self, tag: u64) -> Option<Trace> {
        self.0.remove(&tag)
    }

    /// None for nearly all, and at once.
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
