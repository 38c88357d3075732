//! The failure coordinator: decides what becomes of lost packets, and begins epochs (eris.txt §6.3, §6.5).
//!
//! It tells a decision once the record is durable, and keeps it until the epoch ends. Its records are those of one process, or are replicated:
//! then the machine runs on the node that leads (weir-ordered-raft).

mod clients;
mod epochs;
mod lost_packets;
pub mod members;
mod truncation;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use weir_core::ids::ShardId;
use weir_core::lsn::Lsn;

use crate::cluster::{Cluster, ReplicaId};
use crate::faults::{CoordinatorFaults, NoFaults};
use crate::message::{Effects, Message, Party, Registration, SequencerId};
use crate::packet::{Cut, Epoch, Packet, Slot, View};
use crate::replica::log::Log;
use lost_packets::Promises;
use members::Member;
use truncation::Synchronized;

/// One change of the durable state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Record<O> {
    /// All participants log the packet.
    Found(Packet<O>),
    /// No participant logs a packet with that slot.
    Dropped(Slot),
    /// Nothing more is decided in earlier epochs.
    EpochBegun(Epoch),
    /// State with which all replicas of each shard start the epoch.
    EpochDecided(Epoch, BTreeMap<ShardId, Start<O>>),
    /// The sequencer of the epoch, which never has another one.
    SequencerChosen(Epoch, SequencerId),
    /// That registration is taken.
    Registered(Registration),
    /// Clients with lower registrations are gone.
    ClientFloor(Registration),
    /// A replica takes part from an epoch on, which begins with that if it has not begun before.
    Joined(ReplicaId, Member),
    /// The whole state. Earlier records mean nothing any more.
    State(Box<Durable<O>>),
}

impl<O> Record<O> {
    /// Returns whether a restart needs no record before this one. A driver may forget them once this one is durable.
    pub fn is_complete(&self) -> bool {
        matches!(self, Record::State(_))
    }
}

/// State with which the replicas of a shard start an epoch: the entries that a majority of the shard may not have synchronized. The entries
/// before them are in a checkpoint of each majority.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start<O> {
    pub view: View,
    pub log: Log<O>,
}

/// The state that records restore.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Durable<O> {
    members: BTreeMap<ReplicaId, Member>,
    last_registration: Registration,
    client_floor: Registration,
    /// The latest epoch whose start is decided. 0: before the first, when all logs are empty.
    epoch: Epoch,
    /// The latest epoch that has begun; while it is later than `epoch`, replicas are asked for their states.
    epoch_begun: Epoch,
    /// The start of `epoch`.
    starts: BTreeMap<ShardId, Start<O>>,
    /// The sequencer of `epoch`.
    sequencer: Option<SequencerId>,
    /// Up to this cut of `epoch` a majority of each shard is synchronized.
    stable: Cut,
    /// Decisions of `epoch` behind the stable cut. No slot is in both.
    found: BTreeMap<Slot, Packet<O>>,
    dropped: BTreeSet<Slot>,
}

/// State of a replica at the end of an epoch.
#[derive(Clone, Debug)]
struct ReplicaState<O> {
    /// The last epoch that has started there.
    started: Epoch,
    view: View,
    /// The entries of that epoch which it has not forgotten.
    log: Log<O>,
}

/// The failure coordinator.
#[derive(Clone, Debug)]
pub struct FailureCoordinator<O, F: CoordinatorFaults = NoFaults> {
    cluster: Cluster,
    faults: F,
    durable: Durable<O>,
    records: Vec<Record<O>>,
    noted: Lsn,
    /// Lost packets of `epoch` on which nothing is decided.
    asking: BTreeMap<Slot, Promises>,
    /// States for the epoch that has begun and is not decided.
    states: BTreeMap<ReplicaId, ReplicaState<O>>,
    /// How far the replicas of `epoch` are synchronized.
    synchronized: Synchronized,
    /// A cut of `epoch` that is to be the next stable one.
    next_cut: Option<Cut>,
    /// Replicas in which `epoch` has started.
    started: BTreeSet<ReplicaId>,
    /// When each client was last heard, by its registration.
    clients_heard_ms: BTreeMap<Registration, u64>,
    /// When each sequencer was last heard.
    heard_ms: BTreeMap<SequencerId, u64>,
    /// When this process began.
    begun_ms: u64,
    /// When the sequencer of the epoch was chosen, or this process began.
    chosen_ms: u64,
    /// When unanswered messages were last repeated.
    repeated_ms: u64,
}

impl<O: Clone, F: CoordinatorFaults> FailureCoordinator<O, F> {
    /// A failure coordinator with the records that were durable when it stopped; none for a new one.
    pub fn new(now_ms: u64, cluster: Cluster, faults: F, records: &[Record<O>]) -> Self {
        let mut durable = Durable::default();
        records.iter().for_each(|record| durable.apply(record));
        FailureCoordinator::with(now_ms, cluster, faults, durable)
    }

    /// A failure coordinator that goes on with that state.
    pub fn with(now_ms: u64, cluster: Cluster, faults: F, durable: Durable<O>) -> Self {
        FailureCoordinator {
            cluster,
            faults,
            durable,
            records: Vec::new(),
            noted: Lsn::START,
            asking: BTreeMap::new(),
            states: BTreeMap::new(),
            synchronized: Synchronized::default(),
            next_cut: None,
            started: BTreeSet::new(),
            clients_heard_ms: BTreeMap::new(),
            heard_ms: BTreeMap::new(),
            begun_ms: now_ms,
            chosen_ms: now_ms,
            repeated_ms: now_ms,
        }
    }

    /// The latest epoch whose start is decided.
    pub fn epoch(&self) -> Epoch {
        self.durable.epoch
    }

    /// Slots of the current epoch whose packets no participant logs.
    pub fn dropped(&self) -> &BTreeSet<Slot> {
        &self.durable.dropped
    }

    /// Takes the records of the steps since the last call, in order.
    pub fn take_records(&mut self) -> Vec<Record<O>> {
        std::mem::take(&mut self.records)
    }

    /// The whole durable state as a record, before which a driver needs no others.
    pub fn snapshot(&self) -> Record<O> {
        Record::State(Box::new(self.durable.clone()))
    }

    /// Takes one message and runs it to completion.
    pub fn step<R: Clone, S: Clone>(
        &mut self,
        now_ms: u64,
        from: Party,
        message: Message<O, R, S>,
        out: &mut Effects<O, R, S>,
    ) {
        match (from, message) {
            (Party::Replica(replica), message) => self.on_replica(now_ms, replica, message, out),
            (Party::Sequencer(sequencer), Message::SequencerAlive { epoch, counters, client_floor }) => {
                self.on_sequencer_alive(now_ms, sequencer, (epoch, counters, client_floor), out);
            }
            (Party::Client(client), Message::SequencerRequest { registration }) => {
                self.on_sequencer_request(now_ms, client, registration, out);
            }
            _ => {}
        }
    }

    /// Called every few milliseconds.
    pub fn on_timer<R: Clone, S: Clone>(&mut self, now_ms: u64, out: &mut Effects<O, R, S>) {
        self.suspect_sequencer(now_ms);
        self.choose_sequencer(now_ms, out);
        self.retire_clients(now_ms);
        if now_ms >= self.repeated_ms + self.cluster.timeouts.resend_ms {
            self.repeated_ms = now_ms;
            self.repeat_requests(out);
            self.repeat_epoch(out);
        }
    }

    fn on_replica<R: Clone, S: Clone>(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        message: Message<O, R, S>,
        out: &mut Effects<O, R, S>,
    ) {
        match message {
            Message::FindTxn { slot } if self.decides(slot.epoch) => self.on_find_txn(from, slot, out),
            Message::HasTxn(packet) if self.decides(packet.stamp.epoch) => self.on_has_txn(from, packet, out),
            Message::TempDropped { slot, view } if self.decides(slot.epoch) => {
                self.on_temp_dropped(from, slot, view, out);
            }
            Message::EpochChangeRequest { .. } if !self.is_changing_epoch() => self.send_start(from, out),
            Message::EpochState { epoch, started, view, log } if epoch == self.durable.epoch_begun => {
                self.on_epoch_state(now_ms, from, ReplicaState { started, view, log }, out);
            }
            Message::JoinRequest { disk, synchronized } => {
                self.on_join_request(from, (disk, synchronized), out);
            }
            Message::Synchronized { epoch, sequence } if self.decides(epoch) => {
                self.on_synchronized(from, sequence, out);
            }
            Message::EpochStarted { epoch } if epoch == self.durable.epoch => {
                self.started.insert(from);
            }
            _ => {}
        }
    }

    /// Returns whether lost packets of that epoch are decided. Once the next epoch has begun, its start decides about them.
    fn decides(&self, epoch: Epoch) -> bool {
        epoch == self.durable.epoch && !self.is_changing_epoch()
    }

    fn is_changing_epoch(&self) -> bool {
        self.durable.epoch_begun > self.durable.epoch
    }

    /// Position that a message waits for which tells a decision.
    fn decided(&self) -> Lsn {
        if self.faults.tells_before_record() { Lsn::START } else { self.noted }
    }

    fn note(&mut self, record: Record<O>) {
        self.durable.apply(&record);
        self.records.push(record);
        self.noted = self.noted.plus(1);
    }
}

impl<O> Default for Durable<O> {
    fn default() -> Self {
        Durable {
            members: BTreeMap::new(),
            last_registration: 0,
            client_floor: 0,
            epoch: 0,
            epoch_begun: 0,
            starts: BTreeMap::new(),
            sequencer: None,
            stable: Cut::default(),
            found: BTreeMap::new(),
            dropped: BTreeSet::new(),
        }
    }
}

impl<O> Durable<O> {
    /// The latest epoch whose start is decided.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

impl<O: Clone> Durable<O> {
    /// # Panics
    /// The record contradicts an earlier one.
    pub fn apply(&mut self, record: &Record<O>) {
        match record {
            Record::Found(packet) => {
                self.found.extend(packet.stamp.slots().map(|slot| (slot, packet.clone())));
            }
            Record::Dropped(slot) => {
                assert!(!self.found.contains_key(slot), "a slot is decided once");
                self.dropped.insert(*slot);
            }
            Record::EpochBegun(epoch) => {
                assert!(*epoch > self.epoch_begun, "epochs ascend");
                self.epoch_begun = *epoch;
            }
            Record::EpochDecided(epoch, starts) => {
                assert!(*epoch >= self.epoch_begun && *epoch > self.epoch, "an epoch is decided once");
                let (epoch, starts) = (*epoch, starts.clone());
                (self.epoch, self.epoch_begun, self.starts) = (epoch, epoch, starts);
                (self.sequencer, self.stable) = (None, Cut::default());
                self.found.clear();
                self.dropped.clear();
            }
            Record::SequencerChosen(epoch, sequencer) => {
                assert!(*epoch == self.epoch && self.sequencer.is_none(), "an epoch has one sequencer");
                self.sequencer = Some(*sequencer);
            }
            Record::Registered(registration) => self.last_registration = *registration,
            Record::ClientFloor(floor) => self.client_floor = *floor,
            Record::Joined(replica, member) => {
                self.epoch_begun = self.epoch_begun.max(member.epoch);
                self.members.insert(*replica, *member);
            }
            Record::State(state) => *self = (**state).clone(),
        }
    }
}
