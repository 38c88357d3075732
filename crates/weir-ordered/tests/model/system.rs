//! All parties of a small cluster with what is on its way between them: one state of the model.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use weir_core::ids::{ShardId, TxnId};
use weir_ordered::client::Client;
use weir_ordered::cluster::{Cluster, ReplicaId, Timeouts};
use weir_ordered::failure_coordinator::FailureCoordinator;
use weir_ordered::message::{Message, Party};
use weir_ordered::packet::Stamp;
use weir_ordered::replica::Replica;
use weir_ordered::sequencer::Sequencer;

use super::{AtOnce, Bounds};
use crate::world::registers::{Change, Registers};
use crate::world::{Msg, Out, SimClient, SimCoordinator, SimReplica};

/// Steps happen at time 0, soft timers at 1, suspicions at 100. So a message that is not answered is repeated once, and nobody is suspected
/// twice: times are a small part of the state.
pub const SOFT_MS: u64 = 1;
pub const SUSPECT_MS: u64 = 100;
const NEVER_MS: u64 = 1_000_000;

const TIMEOUTS: Timeouts = Timeouts {
    gap_ms: 0,
    find_ms: 0,
    resend_ms: SOFT_MS,
    synchronize_ms: NEVER_MS,
    learner_ms: SUSPECT_MS,
    view_ms: NEVER_MS,
    sequencer_ms: SUSPECT_MS - 1,
    leader_ms: NEVER_MS,
    client_ms: NEVER_MS,
    general_ms: NEVER_MS,
};

const SEQUENCER: u64 = 1;
const OTHER_SEQUENCER: u64 = 2;
const CLIENT: u64 = 1;

/// A value with the hash of its text, which says everything about it. Clones share the value until one of them changes.
#[derive(Clone)]
pub struct Hashed<T> {
    value: Arc<T>,
    hash: u64,
}

impl<T: Debug + Clone> Hashed<T> {
    fn new(value: T) -> Self {
        let hash = text_hash(&value);
        Hashed { value: Arc::new(value), hash }
    }

    pub fn get(&self) -> &T {
        &self.value
    }

    fn change<U>(&mut self, change: impl FnOnce(&mut T) -> U) -> U {
        let result = change(Arc::make_mut(&mut self.value));
        self.hash = text_hash(&*self.value);
        result
    }
}

struct TextHasher(DefaultHasher);

impl Write for TextHasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

fn text_hash(value: &impl Debug) -> u64 {
    let mut hasher = TextHasher(DefaultHasher::new());
    write!(hasher, "{value:?}").expect("a hasher takes every text");
    hasher.0.finish()
}

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Envelope {
    pub from: Party,
    pub to: Party,
    pub message: Msg,
}

/// How often something may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    pub losses: u8,
    pub views: u8,
    pub epochs: u8,
}

/// A state. Messages on their way are a set: a message that comes twice does what it does when it comes once.
#[derive(Clone)]
pub struct System {
    pub replicas: BTreeMap<ReplicaId, Hashed<SimReplica>>,
    pub coordinator: Hashed<SimCoordinator>,
    client: Hashed<SimClient>,
    sequencer: Hashed<Sequencer>,
    pub network: BTreeMap<u64, Arc<Envelope>>,
    pub left: Left,
    /// Packets that the sequencer has stamped.
    pub stamped: Vec<(TxnId, Stamp)>,
    /// Answers that the client has been given.
    pub told: Vec<TxnId>,
    /// Whether the cluster has begun, so that some messages are left out.
    has_begun: bool,
    at_once: AtOnce,
}

impl Hash for System {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.replicas.values().for_each(|replica| replica.hash.hash(state));
        (self.coordinator.hash, self.left).hash(state);
        self.told.iter().for_each(|txn| txn.hash(state));
        self.network.keys().for_each(|key| key.hash(state));
    }
}

impl PartialEq for System {
    fn eq(&self, other: &Self) -> bool {
        let hash = |system: &System| {
            let mut hasher = DefaultHasher::new();
            system.hash(&mut hasher);
            hasher.finish()
        };
        hash(self) == hash(other)
    }
}

impl Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, replica) in &self.replicas {
            let replica = replica.get();
            let stamps: Vec<_> = replica.log().behind(0).map(|(_, entry)| entry.stamp()).collect();
            let place = (replica.status(), replica.epoch(), replica.view());
            writeln!(f, "{id:?}: {place:?} {stamps:?} {:?}", replica.drops())?;
        }
        writeln!(f, "told {:?}, {:?}", self.told, self.left)
    }
}

impl System {
    /// A cluster whose first epoch has started, with packets on their way to all replicas of all shards.
    pub fn new(bounds: &Bounds) -> System {
        let cluster = Cluster {
            shards: bounds.shards,
            replicas: 3,
            timeouts: TIMEOUTS,
            truncate_entries: NEVER_MS,
            aside_max: 8,
        };
        let (bugs, coordinator_bugs) = (bounds.bugs, bounds.coordinator_bugs);
        let replica = |id: ReplicaId| {
            (id, Hashed::new(Replica::new(0, id, cluster, bugs, Registers::new(id.shard), (1, &[]))))
        };
        let live = cluster.all_replicas().filter(|id| id.number < bounds.live);
        let mut system = System {
            replicas: live.map(replica).collect(),
            coordinator: Hashed::new(FailureCoordinator::new(0, cluster, coordinator_bugs, &[])),
            client: Hashed::new(Client::new(CLIENT, cluster, Default::default())),
            sequencer: Hashed::new(Sequencer::new(SEQUENCER, cluster)),
            network: BTreeMap::new(),
            left: bounds.left,
            stamped: Vec::new(),
            told: Vec::new(),
            has_begun: false,
            at_once: bounds.at_once,
        };
        system.begin();
        system.has_begun = true;
        for _ in 0..bounds.transactions {
            system.begin_transaction(bounds.shards);
        }
        system
    }

    fn begin(&mut self) {
        let ids: Vec<_> = self.replicas.keys().copied().collect();
        self.coordinator_hears(0, SEQUENCER);
        ids.into_iter().for_each(|id| self.replica_timer(id, 0));
        self.settle();
        self.client_step(|client, out| client.on_timer(0, out));
        self.coordinator_timer(SOFT_MS);
        self.settle();
        self.coordinator_timer(SOFT_MS);
        self.client_step(|client, out| client.on_timer(SOFT_MS, out));
        self.settle();
        assert!(self.replicas.values().all(|replica| replica.get().epoch() == 1), "{self:?}");
    }

    fn begin_transaction(&mut self, shards: ShardId) {
        let changes = (0..shards).map(|shard| ((shard, 0), self.stamped.len() as u64 + 1)).collect();
        let mut id = None;
        self.client_step(|client, out| {
            id = Some(client.begin(SOFT_MS, (0..shards).collect(), Change(changes), out));
        });
        let mut out = Out::default();
        let is_submit = |_: &u64, each: &mut Arc<Envelope>| matches!(each.message, Message::Submit(_));
        for (_, envelope) in self.network.extract_if(.., is_submit) {
            self.sequencer.change(|sequencer| sequencer.step(envelope.message.clone(), &mut out));
        }
        let Some(Message::Packet(packet)) = out.messages.first().map(|each| &each.message) else {
            panic!("the sequencer stamps")
        };
        self.stamped.push((id.expect("begun"), packet.stamp.clone()));
        self.send(Party::Sequencer(SEQUENCER), out);
    }

    /// Delivers everything.
    fn settle(&mut self) {
        while let Some((_, envelope)) = self.network.pop_first() {
            self.deliver(&envelope);
        }
    }

    fn send(&mut self, from: Party, out: Out) {
        for each in out.messages {
            let envelope = Envelope { from, to: each.to, message: each.message };
            match each.to {
                // The reply that comes at once says most.
                Party::Client(_) => self.deliver(&envelope),
                Party::Replica(id) if !self.replicas.contains_key(&id) => {}
                _ if is_at_once(self.at_once, &envelope.message) => self.deliver(&envelope),
                _ if self.has_begun && is_left_out(&envelope.message) => {}
                _ => drop(self.network.insert(text_hash(&envelope), Arc::new(envelope))),
            }
        }
    }

    pub fn deliver(&mut self, envelope: &Envelope) {
        let (from, message) = (envelope.from, envelope.message.clone());
        match envelope.to {
            Party::Replica(id) => self.replica_step(id, |each, out| each.step(0, from, message, out)),
            Party::FailureCoordinator => {
                self.coordinator_step(|each, out| each.step(0, from, message, out));
            }
            Party::Client(_) => {
                let completed = self.client.change(|client| client.step(from, message));
                self.told.extend(completed.map(|completed| completed.txn));
            }
            Party::Sequencer(_) => {
                let mut out = Out::default();
                self.sequencer.change(|each| each.step(message, &mut out));
                self.send(envelope.to, out);
            }
            Party::CoordinatorNode(_) => {}
        }
    }

    fn replica_step(&mut self, id: ReplicaId, step: impl FnOnce(&mut SimReplica, &mut Out)) {
        let mut out = Out::default();
        let Some(replica) = self.replicas.get_mut(&id) else { return };
        replica.change(|replica| {
            step(replica, &mut out);
            drop(replica.take_records());
        });
        self.send(Party::Replica(id), out);
    }

    fn coordinator_step(&mut self, step: impl FnOnce(&mut SimCoordinator, &mut Out)) {
        let mut out = Out::default();
        self.coordinator.change(|coordinator| {
            step(coordinator, &mut out);
            drop(coordinator.take_records());
        });
        self.send(Party::FailureCoordinator, out);
    }

    fn client_step(&mut self, step: impl FnOnce(&mut SimClient, &mut Out)) {
        let mut out = Out::default();
        self.client.change(|client| step(client, &mut out));
        self.send(Party::Client(CLIENT), out);
    }

    pub fn replica_timer(&mut self, id: ReplicaId, now_ms: u64) {
        self.replica_step(id, |replica, out| replica.on_timer(now_ms, out));
    }

    fn coordinator_timer(&mut self, now_ms: u64) {
        self.coordinator_step(|coordinator, out| coordinator.on_timer(now_ms, out));
    }

    fn coordinator_hears(&mut self, now_ms: u64, sequencer: u64) {
        let alive = Message::SequencerAlive { epoch: 0, counters: Default::default(), client_floor: 0 };
        self.coordinator_step(|each, out| each.step(now_ms, Party::Sequencer(sequencer), alive, out));
    }

    /// The failure coordinator suspects the sequencer, and hears of another one.
    pub fn suspect_sequencer(&mut self) {
        self.coordinator_hears(SUSPECT_MS, OTHER_SEQUENCER);
        self.coordinator_timer(SUSPECT_MS);
    }

    /// A packet is lost to the replicas of a shard that do not have it yet. They hear from the sequencer that there was one.
    pub fn lose(&mut self, lost: &Stamp, shard: ShardId) {
        let is_lost = |_: &u64, envelope: &mut Arc<Envelope>| {
            matches!((&envelope.message, envelope.to),
                (Message::Packet(packet), Party::Replica(id)) if packet.stamp == *lost && id.shard == shard)
        };
        let losers: Vec<_> = self.network.extract_if(.., is_lost).map(|(_, envelope)| envelope.to).collect();
        let mut out = Out::default();
        self.sequencer.get().clone().on_timer(NEVER_MS, &mut out);
        out.messages.retain(|each| losers.contains(&each.to));
        self.send(Party::Sequencer(SEQUENCER), out);
    }
}

/// Returns whether a message is always lost: synchronization, the question to peers (the failure coordinator is asked, too), and the news
/// that an epoch has started, after which the model ends.
fn is_left_out(message: &Msg) -> bool {
    use Message::{EpochStarted, SlotRequest, SyncCommit, SyncPrepare, Synchronized};
    matches!(
        message,
        SyncPrepare { .. }
            | SyncCommit { .. }
            | Synchronized { .. }
            | SlotRequest { .. }
            | EpochStarted { .. }
    )
}

fn is_at_once(at_once: AtOnce, message: &Msg) -> bool {
    use Message::{EpochState, EpochStateRequest, HasTxn, TempDropped, TxnRequest};
    match message {
        TxnRequest { .. } | EpochStateRequest { .. } => at_once >= AtOnce::Requests,
        HasTxn(_) | TempDropped { .. } | EpochState { .. } => at_once >= AtOnce::Answers,
        _ => false,
    }
}
