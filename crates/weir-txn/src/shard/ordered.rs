//! Ordered calls at a shard (docs/internals/ordered-calls.md): the parties of the Eris protocol that live here, and their messages.
//!
//! A shard is a replica group of one. Shard 0 is the home of the sequencer, and of the failure coordinator. The protocol decides what is
//! executed in which order; [`execution`] runs it, and [`entrance`] has the transactions that run under locks beside it.

mod entrance;
mod execution;
mod records;
mod votes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_core::ids::{Sender, ShardId, TxnId};
use weir_core::lsn::{Lsn, Outgoing};
use weir_core::machine::OrderFigures;
use weir_core::participant::Transactions as _;
use weir_ordered::cluster::{Cluster, ReplicaId, Timeouts};
use weir_ordered::failure_coordinator::FailureCoordinator;
use weir_ordered::faults::NoFaults;
use weir_ordered::message::{Message, Party, SequencerId};
use weir_ordered::packet::Index;
use weir_ordered::replica::{EffectsOf, Replica};
use weir_ordered::sequencer::Sequencer;

use self::execution::Deliveries;
pub(super) use self::execution::IN_ORDER;
pub use self::records::OrderedRecord;
pub(crate) use self::records::Replayed;
use self::votes::Votes;
use crate::claims::Holders;
use crate::faults::Faults;
use crate::message::{HOME, Operation, OrderedMessage, Protocol, Request};
use crate::shard::node::{Effects, Node};

/// Number of entries after which logs are truncated.
const TRUNCATE_ENTRIES: u64 = 1_000;

/// Packets that wait for an earlier one, at most.
const ASIDE_MAX: u64 = 10_000;

/// Registration of all clients: shards forget coordinators by themselves.
pub(crate) const REGISTRATION: u64 = 1;

/// The state of ordered calls.
#[derive(Debug)]
pub(crate) struct Ordering {
    id: ReplicaId,
    replica: Replica<Deliveries>,
    home: Option<Home>,
    /// Transactions under locks that have taken their places and have not ended; whether they have begun to work here.
    entered: BTreeMap<TxnId, bool>,
    /// Requests whose transactions wait for their places.
    entering: BTreeMap<TxnId, Request>,
    /// Number of places that this shard has asked for.
    asked: u64,
    /// Those for which the first operation that is not executed waits.
    waits_for: Holders,
    /// Transactions that were prepared when the shard started: they may have taken their places before.
    in_doubt: Vec<TxnId>,
    /// By call of a silent coordinator: participants that have executed it.
    executed_at: BTreeMap<TxnId, BTreeSet<ShardId>>,
    votes: Votes,
    /// By party here (`number_of`): what it sends leaves once the log is durable up to there. It has heard something from another party here that
    /// depends on these records.
    depends_on: [Lsn; 3],
}

/// A message between parties.
struct Handed {
    from: Party,
    to: Party,
    message: Protocol,
    /// It depends on the records up to there.
    after: Lsn,
}

/// The parties of a shard, one of each kind at most.
fn number_of(party: Party) -> usize {
    match party {
        Party::Replica(_) => 0,
        Party::Sequencer(_) => 1,
        _ => 2,
    }
}

/// What lives at shard 0.
#[derive(Debug)]
struct Home {
    sequencer_id: SequencerId,
    sequencer: Sequencer,
    coordinator: FailureCoordinator<Operation, NoFaults>,
}

impl Ordering {
    /// `start`: later than those of earlier starts of the shard.
    fn new((shard, shards): (ShardId, ShardId), start: u64, replayed: &Replayed) -> Ordering {
        let cluster = Cluster {
            shards,
            replicas: 1,
            timeouts: Timeouts::DEFAULT,
            truncate_entries: TRUNCATE_ENTRIES,
            aside_max: ASIDE_MAX,
        };
        let id = ReplicaId { shard, number: 0 };
        let deliveries = Deliveries::executed_to(replayed.executed);
        let home = (shard == HOME).then(|| Home {
            sequencer_id: start,
            sequencer: Sequencer::new(start, cluster),
            coordinator: FailureCoordinator::new(0, cluster, NoFaults, &replayed.home),
        });
        Ordering {
            id,
            replica: Replica::new(0, id, cluster, NoFaults, deliveries, (start, &replayed.replica)),
            home,
            entered: BTreeMap::new(),
            entering: BTreeMap::new(),
            asked: 0,
            waits_for: Holders::new(),
            in_doubt: Vec::new(),
            executed_at: BTreeMap::new(),
            votes: Votes::default(),
            depends_on: [Lsn::START; 3],
        }
    }

    /// The next operation.
    fn next(&self) -> Option<(Index, Operation)> {
        self.replica.application().next()
    }

    pub(crate) fn figures(&self) -> OrderFigures {
        OrderFigures {
            epoch: self.replica.epoch(),
            executed: self.replica.application().executed(),
            waiting: self.replica.application().pending().count(),
            entered: self.entered.len(),
            aside: self.replica.aside(),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        let has_voted = self.votes.undecided().is_some();
        self.next().is_none() && self.entered.is_empty() && self.entering.is_empty() && !has_voted
    }

    /// The call that this shard has voted for and that is not decided.
    pub(crate) fn undecided(&self) -> Option<TxnId> {
        self.votes.undecided()
    }

    /// Gives a message to the party that it is for. The parties see a clock that never goes back.
    fn take(&mut self, age_ms: u64, (from, to, message): (Party, Party, Protocol)) -> EffectsOf<Deliveries> {
        let mut out = EffectsOf::<Deliveries>::default();
        match (to, &mut self.home) {
            (Party::Replica(id), _) if id == self.id => self.replica.step(age_ms, from, message, &mut out),
            (Party::Sequencer(_), Some(home)) => home.sequencer.step(message, &mut out),
            (Party::FailureCoordinator, Some(home)) => {
                home.coordinator.step(age_ms, from, message, &mut out);
            }
            _ => {}
        }
        out
    }

    /// A party here, by the name under which others know it.
    fn named(&self, party: Party) -> Party {
        match (party, &self.home) {
            (Party::Sequencer(_), Some(home)) => Party::Sequencer(home.sequencer_id),
            _ => party,
        }
    }

    fn on_timer(&mut self, age_ms: u64) -> Vec<(Party, EffectsOf<Deliveries>)> {
        let mut all = Vec::new();
        let mut out = EffectsOf::<Deliveries>::default();
        self.replica.on_timer(age_ms, &mut out);
        all.push((Party::Replica(self.id), out));
        if let Some(home) = &mut self.home {
            let mut out = EffectsOf::<Deliveries>::default();
            home.sequencer.on_timer(age_ms, &mut out);
            all.push((Party::Sequencer(home.sequencer_id), out));
            let mut out = EffectsOf::<Deliveries>::default();
            home.coordinator.on_timer(age_ms, &mut out);
            all.push((Party::FailureCoordinator, out));
        }
        all
    }
}

/// The shard of a party; none: it is a client.
fn shard_of(party: Party) -> Option<ShardId> {
    match party {
        Party::Replica(id) => Some(id.shard),
        Party::Sequencer(_) | Party::FailureCoordinator | Party::CoordinatorNode(_) => Some(HOME),
        Party::Client(_) => None,
    }
}

impl<F: Faults> Node<F> {
    /// Ordered calls begin with the first program that has some, and do not end.
    fn begin_ordering(&mut self) {
        if self.ordering.is_none() && self.program.is_ordered {
            self.order_after(&Replayed::default());
        }
    }

    fn order_after(&mut self, replayed: &Replayed) {
        self.participant.outcomes.keep_over([]);
        let start = self.participant.incarnation.max(1);
        let of = (self.shard, self.program.shards);
        self.ordering = Some(Box::new(Ordering::new(of, start, replayed)));
    }

    pub(super) fn on_ordered(
        &mut self,
        now_ms: u64,
        from: Sender,
        message: OrderedMessage,
        out: &mut Effects,
    ) {
        self.begin_ordering();
        if self.ordering.is_none() {
            // A program that this shard does not have yet. Whatever is not answered is sent again.
            return;
        }
        match (message, from) {
            (OrderedMessage::Protocol { from, to, message }, _) => {
                self.hand(now_ms, (from, to, message), out);
            }
            (OrderedMessage::Repeat { txn }, _) => self.answer_in_order_again(txn, out),
            (OrderedMessage::HasExecuted { txn }, Sender::Shard(peer)) if self.is_over(txn) => {
                let executed = OrderedMessage::Executed { txn };
                out.ask(peer, Request::Ordered(Box::new(executed)), self.noted());
            }
            (OrderedMessage::Executed { txn }, Sender::Shard(peer)) => self.on_executed_at(peer, txn),
            (OrderedMessage::Vote { txn, commits }, Sender::Shard(peer)) => self.on_vote(peer, txn, commits),
            (OrderedMessage::VoteWithAnswers { txn, answers }, Sender::Shard(peer)) => {
                self.on_answers(peer, txn, answers);
            }
            (OrderedMessage::AskVote { txn }, Sender::Shard(peer)) => self.on_ask_vote(peer, txn, out),
            _ => {}
        }
    }

    /// Gives a message to a party here.
    fn hand(&mut self, now_ms: u64, (from, to, message): (Party, Party, Protocol), out: &mut Effects) {
        self.carry(now_ms, VecDeque::from([Handed { from, to, message, after: Lsn::START }]), out);
    }

    /// Gives messages to their parties, and what these send to theirs.
    fn carry(&mut self, now_ms: u64, mut messages: VecDeque<Handed>, out: &mut Effects) {
        let age_ms = self.participant.readers.age_ms();
        while let Some(Handed { from, to, message, after }) = messages.pop_front() {
            let message = self.spoil(now_ms, to, message, out);
            let Some(ordering) = &mut self.ordering else { return };
            let depends_on = &mut ordering.depends_on[number_of(to)];
            *depends_on = after.max(*depends_on);
            let sender = ordering.named(to);
            let effects = ordering.take(age_ms, (from, to, message));
            self.post(sender, effects, &mut messages, out);
        }
    }

    /// Notes the records of a step, then sends its messages. Those to parties of this shard are taken at once, durable or not: so all that a party
    /// sends to other shards from then on waits for the records that such a message depends on. A sequencer, which has no records of its own,
    /// stamps in an epoch only once it is durable that the epoch has begun; else another epoch of that number could begin after a crash.
    fn post(
        &mut self,
        sender: Party,
        effects: EffectsOf<Deliveries>,
        own: &mut VecDeque<Handed>,
        out: &mut Effects,
    ) {
        self.note_ordering();
        let depends_on = self.ordering.as_ref().map(|ordering| ordering.depends_on[number_of(sender)]);
        let depends_on = depends_on.unwrap_or_default();
        for Outgoing { to, message, after } in effects.messages {
            let after = if after == Lsn::START { depends_on } else { self.noted() };
            match shard_of(to) {
                Some(shard) if shard == self.shard => {
                    own.push_back(Handed { from: sender, to, message, after });
                }
                Some(shard) => {
                    let message = OrderedMessage::Protocol { from: sender, to, message };
                    out.ask(shard, Request::Ordered(Box::new(message)), after);
                }
                None => {}
            }
        }
    }

    pub(super) fn on_ordering_timer(&mut self, now_ms: u64, out: &mut Effects) {
        self.begin_ordering();
        let age_ms = self.participant.readers.age_ms();
        let Some(ordering) = &mut self.ordering else { return };
        let mut own = VecDeque::new();
        for (sender, effects) in ordering.on_timer(age_ms) {
            self.post(sender, effects, &mut own, out);
        }
        self.carry(now_ms, own, out);
        self.know_who_waits();
        self.ask_who_has_executed(out);
        self.ask_for_votes(out);
    }

    /// What planted bugs make of a packet.
    fn spoil(&mut self, now_ms: u64, to: Party, message: Protocol, out: &mut Effects) -> Protocol {
        let Message::Packet(mut packet) = message else { return message };
        let epoch = self.ordering.as_ref().map_or(0, |ordering| ordering.replica.epoch());
        if self.bugs.delivers_across_epochs() && packet.stamp.epoch < epoch {
            packet.stamp.epoch = epoch;
        }
        if self.bugs.delivers_out_of_order() && matches!(to, Party::Replica(_)) && packet.stamp.epoch == epoch
        {
            let operation = packet.transaction.operation.clone();
            self.execute_at_once(now_ms, operation, out);
        }
        Message::Packet(packet)
    }
}
