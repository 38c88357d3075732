//! General transactions at their client (eris.txt §7.1): two parts, and the reads before them that say what they will lock.

use std::collections::BTreeMap;

use weir_core::ids::{ShardId, TxnId};

use crate::client::Client;
use crate::cluster::{Cluster, ReplicaId};
use crate::faults::ClientFaults;
use crate::message::{Effects, Message, Party};
use crate::packet::{Epoch, Part, Shards, View};

impl<O: Clone, R: Clone, F: ClientFaults> Client<O, R, F> {
    /// Begins a general transaction on these shards: ascending, each once, at least one. Its preliminary part is executed, and holds locks until
    /// the transaction is concluded.
    pub fn begin_general<S: Clone>(
        &mut self,
        now_ms: u64,
        destinations: Shards,
        preliminary: O,
        out: &mut Effects<O, R, S>,
    ) -> TxnId {
        let id = self.begin_part(now_ms, (destinations.clone(), Part::Preliminary), preliminary, out);
        self.open.insert(id.sequence, destinations);
        id
    }

    /// Concludes a general transaction: `operation` is executed if it commits and no replica has aborted it. None: all its participants have
    /// not yet answered, or it is concluded.
    pub fn conclude<S: Clone>(
        &mut self,
        now_ms: u64,
        general: TxnId,
        (commits, operation): (bool, O),
        out: &mut Effects<O, R, S>,
    ) -> Option<TxnId> {
        let preliminary = general.sequence;
        if general.coordinator != self.id || self.in_flight.contains_key(&preliminary) {
            return None;
        }
        let destinations = self.open.remove(&preliminary)?;
        let part = Part::Conclusory { preliminary, commits };
        Some(self.begin_part(now_ms, (destinations, part), operation, out))
    }

    /// Reads what a shard has executed, outside of any transaction. The number comes back with the answer.
    pub fn reconnoitre<S: Clone>(
        &mut self,
        now_ms: u64,
        shard: ShardId,
        operation: O,
        out: &mut Effects<O, R, S>,
    ) -> u64 {
        self.reads.begin(now_ms, (shard, operation), &self.cluster, out)
    }

    /// Takes the answers to such reads, by their numbers. None: the application has no answer.
    pub fn take_reconnoitred(&mut self) -> Vec<(u64, Option<R>)> {
        std::mem::take(&mut self.reads.answers)
    }
}

/// Reads outside of transactions.
#[derive(Clone, Debug)]
pub(super) struct Reads<O, R> {
    next: u64,
    in_flight: BTreeMap<u64, Read<O>>,
    answers: Vec<(u64, Option<R>)>,
    /// The latest epoch and view of each shard, as far as replies have said. The learner has executed the most.
    views: BTreeMap<ShardId, (Epoch, View)>,
}

#[derive(Clone, Debug)]
struct Read<O> {
    shard: ShardId,
    operation: O,
    resend_at_ms: u64,
    /// How many replicas have been asked.
    asked: u64,
}

impl<O, R> Default for Reads<O, R> {
    fn default() -> Self {
        Reads { next: 1, in_flight: BTreeMap::new(), answers: Vec::new(), views: BTreeMap::new() }
    }
}

impl<O: Clone, R: Clone> Reads<O, R> {
    pub(super) fn note_view(&mut self, shard: ShardId, at: (Epoch, View)) {
        let latest = self.views.entry(shard).or_insert(at);
        *latest = at.max(*latest);
    }

    fn begin<S: Clone>(
        &mut self,
        now_ms: u64,
        (shard, operation): (ShardId, O),
        cluster: &Cluster,
        out: &mut Effects<O, R, S>,
    ) -> u64 {
        let number = self.next;
        self.next += 1;
        self.in_flight.insert(number, Read { shard, operation, resend_at_ms: now_ms, asked: 0 });
        self.repeat(now_ms, cluster, out);
        number
    }

    /// Asks the learner, then its followers in turn.
    pub(super) fn repeat<S: Clone>(&mut self, now_ms: u64, cluster: &Cluster, out: &mut Effects<O, R, S>) {
        for (&number, read) in self.in_flight.iter_mut().filter(|(_, read)| now_ms >= read.resend_at_ms) {
            let view = self.views.get(&read.shard).map_or(0, |(_, view)| *view);
            let replica: ReplicaId = cluster.learner(read.shard, view.wrapping_add(read.asked));
            (read.resend_at_ms, read.asked) = (now_ms + cluster.timeouts.resend_ms, read.asked + 1);
            let operation = read.operation.clone();
            out.send(Party::Replica(replica), Message::Reconnaissance { number, operation });
        }
    }

    pub(super) fn on_answer(&mut self, number: u64, answer: Option<R>) {
        if self.in_flight.remove(&number).is_some() {
            self.answers.push((number, answer));
        }
    }
}
