//! The client: submits transactions, and knows when each participant has answered for good (eris.txt §6.2).

mod general;
mod retransmission;

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::{CoordinatorId, ShardId, TxnId};

use crate::cluster::{Cluster, ReplicaId};
use crate::faults::{ClientFaults, NoFaults};
use crate::message::{Effects, Message, Party, Registration, Reply, SequencerId};
use crate::packet::{Epoch, Index, Outcome, Part, Shards, Transaction, View};
use general::Reads;
use retransmission::{RetransmissionTimeout, Window};

/// The longest time between two sendings of a transaction, in intervals of other messages.
pub(crate) const RESEND_INTERVALS_MAX: u64 = 16;

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
    /// Destinations of general transactions that are not concluded, by the sequence of the preliminary part.
    open: BTreeMap<u64, Shards>,
    reads: Reads<O, R>,
    timeout: RetransmissionTimeout,
    window: Window,
    /// Time of the last call of `begin` or of the timer.
    now_ms: u64,
}

#[derive(Clone, Debug)]
struct InFlight<O, R> {
    transaction: Arc<Transaction<O>>,
    begun_ms: u64,
    is_repeated: bool,
    resend_at_ms: u64,
    /// Doubles with each sending, up to a limit: a cluster that cannot answer must not drown in repetitions.
    interval_ms: u64,
    /// Replies of participants that have no quorum yet.
    replies: BTreeMap<ShardId, Replies<R>>,
    outcomes: BTreeMap<ShardId, Outcome<R>>,
}

/// Replies of one shard by what they must agree on, and by replica.
type Replies<R> = BTreeMap<(Epoch, View, Index), BTreeMap<u16, Option<Outcome<R>>>>;

/// A transaction that all participants have answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed<R> {
    pub txn: TxnId,
    /// None at a participant that has not executed it, because the transaction is aborted.
    pub answers: BTreeMap<ShardId, R>,
    /// Whether this was a part of a general transaction that is aborted: it has changed nothing, and is concluded.
    pub is_aborted: bool,
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
            open: BTreeMap::new(),
            reads: Reads::default(),
            timeout: RetransmissionTimeout::new(
                cluster.timeouts.resend_ms,
                RESEND_INTERVALS_MAX * cluster.timeouts.resend_ms,
            ),
            window: Window::FULL,
            now_ms: 0,
        }
    }

    /// Begins an independent transaction on these shards: ascending, each once, at least one.
    pub fn begin<S: Clone>(
        &mut self,
        now_ms: u64,
        destinations: Shards,
        operation: O,
        out: &mut Effects<O, R, S>,
    ) -> TxnId {
        self.begin_part(now_ms, (destinations, Part::Independent), operation, out)
    }

    fn begin_part<S: Clone>(
        &mut self,
        now_ms: u64,
        (destinations, part): (Shards, Part),
        operation: O,
        out: &mut Effects<O, R, S>,
    ) -> TxnId {
        assert!(!destinations.is_empty() && destinations.is_sorted_by(|a, b| a < b), "not a set of shards");
        let id = TxnId { coordinator: self.id, sequence: self.next_sequence };
        self.next_sequence += 1;
        let floor = self.in_flight.keys().next().copied().unwrap_or(id.sequence);
        let registration = self.registration;
        let transaction = Arc::new(Transaction { id, floor, registration, destinations, part, operation });
        self.now_ms = now_ms;
        let interval_ms = self.timeout.interval_ms();
        let in_flight = InFlight {
            transaction,
            begun_ms: now_ms,
            is_repeated: false,
            resend_at_ms: now_ms + interval_ms,
            interval_ms,
            replies: BTreeMap::new(),
            outcomes: BTreeMap::new(),
        };
        self.submit(&in_flight.transaction, out);
        self.in_flight.insert(id.sequence, in_flight);
        id
    }

    pub fn step<S>(&mut self, from: Party, message: Message<O, R, S>) -> Option<Completed<R>> {
        match (from, message) {
            (Party::Replica(replica), Message::Reply(reply)) => self.on_reply(replica, reply),
            (Party::Replica(replica), Message::Settled { txn, outcome }) => {
                self.on_outcome(replica.shard, txn, outcome)
            }
            (Party::Replica(_), Message::Reconnoitred { number, answer }) => {
                self.reads.on_answer(number, answer);
                None
            }
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
                self.on_new_sequencer(epoch, sequencer);
                None
            }
            _ => None,
        }
    }

    /// Transactions that the sequencer of an earlier epoch was sent may be lost: the client repeats them at once.
    fn on_new_sequencer(&mut self, epoch: Epoch, sequencer: SequencerId) {
        if self.sequencer.is_some_and(|(known, _)| known >= epoch) {
            return;
        }
        self.sequencer = Some((epoch, sequencer));
        self.window = Window::FULL;
        let interval_ms = self.timeout.interval_ms();
        for in_flight in self.in_flight.values_mut() {
            (in_flight.resend_at_ms, in_flight.interval_ms) = (self.now_ms, interval_ms);
        }
    }

    /// Repeats what is not answered, and asks who the sequencer is: the one that it knows may be of an earlier epoch.
    pub fn on_timer<S: Clone>(&mut self, now_ms: u64, out: &mut Effects<O, R, S>) {
        self.now_ms = now_ms;
        let resend_ms = self.cluster.timeouts.resend_ms;
        let mut late = Vec::new();
        let mut most = None;
        for in_flight in self.in_flight.values_mut().filter(|each| now_ms >= each.resend_at_ms) {
            if late.len() == *most.get_or_insert_with(|| self.window.take()) {
                break;
            }
            in_flight.interval_ms = (2 * in_flight.interval_ms).min(RESEND_INTERVALS_MAX * resend_ms);
            in_flight.resend_at_ms = now_ms + in_flight.interval_ms;
            in_flight.is_repeated = true;
            late.push(in_flight.transaction.clone());
        }
        late.iter().for_each(|transaction| self.submit(transaction, out));
        self.reads.repeat(now_ms, &self.cluster, out);
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
        self.in_flight.is_empty() && self.open.is_empty()
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
        let is_known = in_flight.outcomes.contains_key(&from.shard);
        if reply.txn.coordinator != self.id || !is_participant || is_known {
            return None;
        }
        self.reads.note_view(from.shard, (reply.epoch, reply.view));
        let replies = in_flight.replies.entry(from.shard).or_default();
        let key = (reply.epoch, reply.view, reply.index);
        let of_replica = replies.entry(key).or_default().entry(from.number).or_default();
        *of_replica = reply.answer.or(of_replica.take());
        let outcome = outcome(&self.cluster, self.faults, replies, key)?;
        self.on_outcome(from.shard, reply.txn, outcome)
    }

    /// A participant has answered for good. All participants of a transaction are aborted, or none is.
    fn on_outcome(&mut self, shard: ShardId, txn: TxnId, outcome: Outcome<R>) -> Option<Completed<R>> {
        let in_flight = self.in_flight.get_mut(&txn.sequence)?;
        if txn.coordinator != self.id || !in_flight.transaction.destinations.contains(&shard) {
            return None;
        }
        in_flight.replies.remove(&shard);
        in_flight.outcomes.insert(shard, outcome);
        if in_flight.outcomes.len() < in_flight.transaction.destinations.len() {
            return None;
        }
        let InFlight { outcomes, begun_ms, is_repeated, .. } = self.in_flight.remove(&txn.sequence)?;
        self.window.answered();
        // An answer to one of several sendings does not say how long it took.
        if !is_repeated {
            self.timeout.note(self.now_ms.saturating_sub(begun_ms));
        }
        let is_aborted = outcomes.values().any(|outcome| outcome.is_aborted());
        if is_aborted {
            self.open.remove(&txn.sequence);
        }
        let executed =
            outcomes.into_iter().filter_map(|(shard, outcome)| Some((shard, outcome.into_answer()?)));
        Some(Completed { txn, answers: executed.collect(), is_aborted })
    }
}

/// Returns the learner's answer if the replies with that key are a view-consistent quorum.
fn outcome<R: Clone, F: ClientFaults>(
    cluster: &Cluster,
    faults: F,
    replies: &Replies<R>,
    key: (Epoch, View, Index),
) -> Option<Outcome<R>> {
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
