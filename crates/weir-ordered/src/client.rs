//! The client: submits transactions, and knows when each participant has answered for good (eris.txt §6.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::{CoordinatorId, ShardId, TxnId};

use crate::cluster::{Cluster, ReplicaId};
use crate::faults::{ClientFaults, NoFaults};
use crate::message::{Effects, Message, Party, Registration, Reply, SequencerId};
use crate::packet::{Epoch, Index, Transaction, View};

/// The longest time between two sendings of a transaction, in intervals of other messages.
const RESEND_INTERVALS_MAX: u64 = 8;

/// A client and its transactions.
#[derive(Clone, Debug)]
pub struct Client<O, R, F: ClientFaults = NoFaults> {
    id: CoordinatorId,
    cluster: Cluster,
    faults: F,
    next_sequence: u64,
    sequencer: Option<(Epoch, SequencerId)>,
    sequencer_asked_ms: Option<u64>,
    /// 0: none yet, so that nothing can be submitted.
    registration: Registration,
    is_retired: bool,
    in_flight: BTreeMap<u64, InFlight<O, R>>,
}

#[derive(Clone, Debug)]
struct InFlight<O, R> {
    transaction: Arc<Transaction<O>>,
    resend_at_ms: u64,
    /// Doubles with each sending, up to a limit: a cluster that cannot answer must not drown in repetitions.
    interval_ms: u64,
    /// Replies of participants that have no quorum yet.
    replies: BTreeMap<ShardId, Replies<R>>,
    answers: BTreeMap<ShardId, R>,
}

/// Replies of one shard by what they must agree on, and by replica.
type Replies<R> = BTreeMap<(Epoch, View, Index), BTreeMap<u16, Option<R>>>;

/// A transaction that all participants have answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed<R> {
    pub txn: TxnId,
    pub answers: BTreeMap<ShardId, R>,
}

impl<O: Clone, R: Clone, F: ClientFaults> Client<O, R, F> {
    pub fn new(id: CoordinatorId, cluster: Cluster, faults: F) -> Self {
        Client {
            id,
            cluster,
            faults,
            next_sequence: 1,
            sequencer: None,
            sequencer_asked_ms: None,
            registration: 0,
            is_retired: false,
            in_flight: BTreeMap::new(),
        }
    }

    /// Begins a transaction on these shards: ascending, each once, at least one.
    pub fn begin<S: Clone>(
        &mut self,
        now_ms: u64,
        destinations: Box<[ShardId]>,
        operation: O,
        out: &mut Effects<O, R, S>,
    ) -> TxnId {
        assert!(!destinations.is_empty() && destinations.is_sorted_by(|a, b| a < b), "not a set of shards");
        let id = TxnId { coordinator: self.id, sequence: self.next_sequence };
        self.next_sequence += 1;
        let floor = self.in_flight.keys().next().copied().unwrap_or(id.sequence);
        let registration = self.registration;
        let transaction = Arc::new(Transaction { id, floor, registration, destinations, operation });
        let interval_ms = self.cluster.timeouts.resend_ms;
        let in_flight = InFlight {
            transaction,
            resend_at_ms: now_ms + interval_ms,
            interval_ms,
            replies: BTreeMap::new(),
            answers: BTreeMap::new(),
        };
        self.submit(&in_flight.transaction, out);
        self.in_flight.insert(id.sequence, in_flight);
        id
    }

    pub fn step<S>(&mut self, from: Party, message: Message<O, R, S>) -> Option<Completed<R>> {
        match (from, message) {
            (Party::Replica(replica), Message::Reply(reply)) => self.on_reply(replica, reply),
            (_, Message::Registered { registration }) => {
                if self.registration == 0 {
                    self.registration = registration;
                }
                None
            }
            (_, Message::Retired { registration }) => {
                self.is_retired |= registration == self.registration;
                None
            }
            (_, Message::NewSequencer { epoch, sequencer, .. }) => {
                self.sequencer = self.sequencer.max(Some((epoch, sequencer)));
                None
            }
            _ => None,
        }
    }

    /// Repeats what is not answered, and asks who the sequencer is: the one that it knows may be of an earlier epoch.
    pub fn on_timer<S: Clone>(&mut self, now_ms: u64, out: &mut Effects<O, R, S>) {
        let resend_ms = self.cluster.timeouts.resend_ms;
        let mut late = Vec::new();
        for in_flight in self.in_flight.values_mut().filter(|each| now_ms >= each.resend_at_ms) {
            in_flight.interval_ms = (2 * in_flight.interval_ms).min(RESEND_INTERVALS_MAX * resend_ms);
            in_flight.resend_at_ms = now_ms + in_flight.interval_ms;
            late.push(in_flight.transaction.clone());
        }
        late.iter().for_each(|transaction| self.submit(transaction, out));
        let is_lost = self.sequencer.is_none() || self.registration == 0 || !late.is_empty();
        let interval_ms = if is_lost { resend_ms } else { self.cluster.timeouts.client_ms / 4 };
        if self.sequencer_asked_ms.is_none_or(|asked_ms| now_ms >= asked_ms + interval_ms) {
            self.sequencer_asked_ms = Some(now_ms);
            let registration = self.registration;
            out.send(Party::FailureCoordinator, Message::SequencerRequest { registration });
        }
    }

    /// Returns whether the client knows a sequencer and is registered: what is begun before waits for that.
    pub fn is_ready(&self) -> bool {
        self.sequencer.is_some() && self.registration > 0
    }

    /// Returns whether the client was thought gone. It gets no more answers: what it has in flight is executed or not, and another client,
    /// with a new id, must go on.
    pub fn is_retired(&self) -> bool {
        self.is_retired
    }

    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    fn submit<S: Clone>(&self, transaction: &Arc<Transaction<O>>, out: &mut Effects<O, R, S>) {
        let Some((_, sequencer)) = self.sequencer.filter(|_| self.registration > 0) else { return };
        let mut transaction = transaction.clone();
        if transaction.registration == 0 {
            Arc::make_mut(&mut transaction).registration = self.registration;
        }
        out.send(Party::Sequencer(sequencer), Message::Submit(transaction));
    }

    /// Counts a reply. Replies to different packets of one transaction may answer for different participants: a packet with a quorum at
    /// one participant is never dropped, so all of them have executed the same one.
    fn on_reply(&mut self, from: ReplicaId, reply: Reply<R>) -> Option<Completed<R>> {
        let in_flight = self.in_flight.get_mut(&reply.txn.sequence)?;
        let is_participant = in_flight.transaction.destinations.contains(&from.shard);
        if reply.txn.coordinator != self.id || !is_participant || in_flight.answers.contains_key(&from.shard)
        {
            return None;
        }
        let replies = in_flight.replies.entry(from.shard).or_default();
        let key = (reply.epoch, reply.view, reply.index);
        replies.entry(key).or_default().insert(from.number, reply.answer);
        let answer = answer(&self.cluster, self.faults, replies, key)?;
        in_flight.replies.remove(&from.shard);
        in_flight.answers.insert(from.shard, answer);
        if in_flight.answers.len() < in_flight.transaction.destinations.len() {
            return None;
        }
        let answers = self.in_flight.remove(&reply.txn.sequence)?.answers;
        Some(Completed { txn: reply.txn, answers })
    }
}

/// Returns the learner's answer if the replies with that key are a view-consistent quorum.
fn answer<R: Clone, F: ClientFaults>(
    cluster: &Cluster,
    faults: F,
    replies: &Replies<R>,
    key: (Epoch, View, Index),
) -> Option<R> {
    let alike = replies.get(&key)?;
    let learner = cluster.learner(0, key.1).number;
    if faults.quorum_without_learner() && alike.len() >= cluster.majority() {
        return replies.values().flat_map(BTreeMap::values).find_map(Clone::clone);
    }
    if faults.mixes_views() {
        let numbers: std::collections::BTreeSet<_> = replies.values().flat_map(BTreeMap::keys).collect();
        return (numbers.len() >= cluster.majority()).then(|| alike.get(&learner).cloned().flatten())?;
    }
    if !faults.learns_before_quorum() && !cluster.is_quorum(key.1, alike.keys().copied()) {
        return None;
    }
    alike.get(&learner).cloned().flatten()
}
