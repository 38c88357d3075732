//! Truncation: which cut of the packets of an epoch a majority of each shard has synchronized.
//!
//! The counters of the sequencer at one moment are a cut: no packet has slots on both sides. Once a majority of each shard knows that its log is
//! right up to a cut, every packet before it is logged by all its participants or by none, so neither packets nor decisions are needed.

use std::collections::BTreeMap;

use weir_core::ids::ShardId;

use crate::cluster::{Cluster, ReplicaId};
use crate::failure_coordinator::{Durable, FailureCoordinator, Record};
use crate::faults::CoordinatorFaults;
use crate::message::{Effects, Message, Party};
use crate::packet::{Cut, Sequence};

/// Stable cuts for each truncation. Whatever is behind the last is told, kept and started from when an epoch changes, so there are many;
/// a truncation costs a checkpoint.
const CUTS_OF_TRUNCATION: u64 = 16;

/// Up to which sequence of the epoch each replica is synchronized, as far as it has told.
#[derive(Clone, Debug, Default)]
pub(super) struct Synchronized(BTreeMap<ReplicaId, Sequence>);

impl Synchronized {
    fn note(&mut self, replica: ReplicaId, sequence: Sequence) {
        let known = self.0.entry(replica).or_default();
        *known = sequence.max(*known);
    }

    /// Returns whether a majority of each shard is synchronized up to the cut.
    fn has(&self, cluster: &Cluster, faults: impl CoordinatorFaults, cut: &Cut) -> bool {
        let is_far = |id: &ReplicaId| self.0.get(id).is_some_and(|sequence| *sequence >= cut.at(id.shard));
        let mut shards = (0..cluster.shards)
            .map(|shard| cluster.group(shard).filter(is_far).count() >= cluster.majority());
        if faults.truncates_early() { shards.any(|is_far| is_far) } else { shards.all(|is_far| is_far) }
    }
}

impl<O: Clone, F: CoordinatorFaults> FailureCoordinator<O, F> {
    /// Takes the counters of the sequencer as the next cut, if it is far enough from the last.
    pub(super) fn on_counters(&mut self, counters: Cut) {
        let least = (self.cluster.truncate_entries / CUTS_OF_TRUNCATION).max(1);
        let is_far =
            |shard: ShardId| counters.at(shard) >= self.durable.stable.at(shard).saturating_add(least);
        if self.next_cut.is_none() && (0..self.cluster.shards).any(is_far) {
            self.next_cut = Some(counters);
        }
    }

    /// A replica has synchronized. It is told what is stable.
    pub(super) fn on_synchronized<R: Clone, S: Clone>(
        &mut self,
        from: ReplicaId,
        sequence: Sequence,
        out: &mut Effects<O, R, S>,
    ) {
        self.synchronized.note(from, sequence);
        if let Some(cut) = self.next_cut.take_if(|cut| self.synchronized.has(&self.cluster, self.faults, cut))
        {
            self.note(Record::State(Box::new(self.durable.truncated(cut))));
            self.asking.retain(|slot, _| !self.durable.stable.covers(*slot));
        }
        self.tell_stable(from, out);
    }

    /// Tells a replica that it waits for nothing up to the cut.
    pub(super) fn tell_stable<R: Clone, S: Clone>(&self, to: ReplicaId, out: &mut Effects<O, R, S>) {
        let message = Message::Stable { epoch: self.durable.epoch, cut: self.durable.stable.clone() };
        out.send_after(Party::Replica(to), message, self.noted);
    }
}

impl<O: Clone> Durable<O> {
    /// The state without what only packets before that cut would need.
    fn truncated(&self, cut: Cut) -> Self {
        let mut durable = self.clone();
        for (shard, start) in &mut durable.starts {
            start.log.truncate_start(cut.at(*shard));
        }
        durable.found.retain(|slot, _| !cut.covers(*slot));
        durable.dropped.retain(|slot| !cut.covers(*slot));
        durable.stable = cut;
        durable
    }
}
