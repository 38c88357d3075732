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
    /// Number of times that its requests were sent again, since no reply had come in time. Replies to both are among the messages.
    pub repeats: u32,
    /// A request has been sent since the last reply.
    is_asking: bool,
    /// The operation has its answer; what comes later does not count.
    is_answered: bool,
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
        let Some(trace) = self.of(tag).filter(|trace| !trace.is_answered) else { return };
        trace.messages += 1;
        trace.round_trips += u32::from(std::mem::take(&mut trace.is_asking));
    }

    pub fn answered(&mut self, tag: u64) {
        self.of(tag).into_iter().for_each(|trace| trace.is_answered = true);
    }

    pub fn waits(&mut self, tag: u64) {
        self.of(tag).into_iter().for_each(|trace| trace.waits += 1);
    }

    pub fn repeats(&mut self, tag: u64) {
        self.of(tag).into_iter().for_each(|trace| trace.repeats += 1);
    }

    pub fn retries(&mut self, tag: u64) {
        self.of(tag).into_iter().for_each(|trace| trace.retries += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transaction on two shards has its answer once the second has decided; the reply to COMMIT at the first is not waited for.
    #[test]
    fn replies_behind_the_answer_do_not_count() {
        let mut traces = Traces::default();
        traces.begin(1);
        for shard in 0..2 {
            traces.sent(1, shard);
            traces.heard(1);
        }
        traces.sent(1, 0);
        traces.answered(1);
        traces.heard(1);
        let trace = traces.take(1).expect("it is traced");
        assert_eq!((trace.round_trips, trace.messages), (2, 5));
    }
}
