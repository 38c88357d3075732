//! A simulated world: parties, disks, a network, faults, and the checks of docs/internals/ordered.md, all from one seed.

pub mod checks;
mod events;
#[allow(dead_code, reason = "the world of comparators uses all of it")]
mod host;
mod network;
pub mod profile;
pub mod registers;
pub mod strict;

use std::collections::{BTreeMap, BTreeSet};

use weir_core::ids::{CoordinatorId, TxnId};
use weir_ordered::client::Client;
use weir_ordered::cluster::{Cluster, ReplicaId, Timeouts};
use weir_ordered::failure_coordinator::{self, FailureCoordinator};
use weir_ordered::faults::{ClientBugs, CoordinatorBugs, PlantedBugs};
use weir_ordered::message::{Effects, Message, Party, SequencerId};
use weir_ordered::replica::records::Record;
use weir_ordered::replica::{RecordOf, Replica};
use weir_ordered::sequencer::Sequencer;
use weir_ordered_raft::CoordinatorNode;

use crate::chance::Chance;
use checks::History;
use events::Event;
use host::Host;
use network::{Fate, Network};
use profile::Profile;
use registers::{Change, Register, Registers, Snapshot, Values};
use strict::Violation;

pub type Msg = Message<Change, Values, Snapshot>;
pub type Out = Effects<Change, Values, Snapshot>;
pub type SimReplica = Replica<Registers, PlantedBugs>;
pub type SimClient = Client<Change, Values, ClientBugs>;
type ReplicaHost = Host<SimReplica, RecordOf<Registers>, Msg>;
pub type SimCoordinator = FailureCoordinator<Change, CoordinatorBugs>;
pub type SimNode = CoordinatorNode<Change, Values, Snapshot, CoordinatorBugs>;
type NodeHost = Host<SimNode, weir_ordered_raft::Record, Msg>;

/// Interval of all timers.
const TICK_MS: u64 = 5;
/// Faults end then.
const FAULTS_MS: u64 = 2_000;
/// Without faults, something must be answered in so long a time until everything is.
const ANSWER_MS: u64 = 2_500;
/// Time without faults, after the last answer, in which all replicas become alike.
const REST_MS: u64 = 1_000;
/// More messages than any run needs. Parties that answer each other without end send more.
const MESSAGES_MAX: u64 = 3_000_000;

/// Result of a run of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub answered: u64,
    /// General transactions that clients were to commit, those that ended without, and answers that came late, since transactions had waited.
    pub committed: u64,
    pub aborted: u64,
    pub settled: u64,
    /// Aborts that replicas have sent.
    pub aborts: u64,
    pub messages: u64,
    pub dropped: u64,
    pub found: u64,
    pub views: u64,
    pub epochs: u64,
    /// How often the failure coordinator has started on a node, and how often a node has taken or written a snapshot.
    pub leaders: u64,
    pub snapshots: u64,
    /// Checkpoints that replicas have noted, and states that they have told peers.
    pub checkpoints: u64,
    pub transfers: u64,
    pub wiped: u64,
    /// Clients that died or were thought gone, and how often clients were retired.
    pub replaced: u64,
    pub retired: u64,
    /// Clients in the largest client table at the end.
    pub clients: u64,
    /// The longest log at the end.
    pub longest: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.answered += other.answered;
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.settled += other.settled;
        self.aborts += other.aborts;
        self.messages += other.messages;
        self.dropped += other.dropped;
        self.found += other.found;
        self.views += other.views;
        self.epochs += other.epochs;
        self.leaders += other.leaders;
        self.snapshots += other.snapshots;
        self.checkpoints += other.checkpoints;
        self.transfers += other.transfers;
        self.wiped += other.wiped;
        self.replaced += other.replaced;
        self.retired += other.retired;
        self.clients = self.clients.max(other.clients);
        self.longest = self.longest.max(other.longest);
    }
}

/// A world.
pub struct World {
    profile: Profile,
    cluster: Cluster,
    chance: Chance,
    now_ms: u64,
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    network: Network,
    replicas: BTreeMap<ReplicaId, ReplicaHost>,
    /// The nodes of the failure coordinator.
    nodes: BTreeMap<u8, NodeHost>,
    sequencers: BTreeMap<SequencerId, Sequencer>,
    next_sequencer: SequencerId,
    /// With the number of transactions that each has yet to begin.
    clients: BTreeMap<CoordinatorId, (SimClient, u32)>,
    next_client: CoordinatorId,
    /// Replicas that have lost their disks, and have not started an epoch since.
    empty: BTreeSet<ReplicaId>,
    history: History,
    /// What general transactions change once they are concluded, and whether they commit.
    generals: BTreeMap<TxnId, (Vec<Register>, bool)>,
    /// When something was last begun or answered.
    answered_ms: u64,
    counts: Counts,
}

impl World {
    pub fn new(seed: u64, profile: Profile) -> World {
        let cluster = Cluster {
            shards: profile.shards,
            replicas: profile.replicas,
            timeouts: Timeouts {
                client_ms: profile.client_ms,
                general_ms: profile.general_ms,
                ..Timeouts::default()
            },
            aside_max: profile.aside_max,
            truncate_entries: profile.truncate_entries,
        };
        let replica = |id: ReplicaId| {
            let replica = Replica::new(0, id, cluster, profile.bugs, Registers::new(id.shard), (1, &[]));
            (id, Host::new(replica, Some(Record::is_complete)))
        };
        let node = |number| {
            let node =
                CoordinatorNode::new(0, profile.settings(number), cluster, profile.coordinator_bugs, &[]);
            (number, Host::new(node, Some(weir_ordered_raft::Record::is_complete)))
        };
        let client = |id| (id, (Client::new(id, cluster, profile.client_bugs), profile.transactions));
        let mut world = World {
            profile,
            cluster,
            chance: Chance::from_seed(seed),
            now_ms: 0,
            events: BTreeMap::new(),
            next_event: 0,
            network: Network { is_faulty: true, ..Network::default() },
            replicas: cluster.all_replicas().map(replica).collect(),
            nodes: (0..profile.coordinators).map(node).collect(),
            sequencers: BTreeMap::new(),
            next_sequencer: 1,
            clients: (1..=profile.clients).map(client).collect(),
            next_client: profile.clients + 1,
            empty: BTreeSet::new(),
            history: History::default(),
            generals: BTreeMap::new(),
            answered_ms: 0,
            counts: Counts::default(),
        };
        world.begin();
        world
    }

    /// Runs until everything is answered and all replicas are alike.
    pub fn run(mut self) -> Result<Counts, Violation> {
        let mut rest_ms = None;
        while let Some(((at_ms, _), event)) = self.events.pop_first() {
            self.now_ms = at_ms;
            self.happen(event)?;
            if !self.network.is_faulty && self.is_answered() && self.is_free() {
                let rest_ms = *rest_ms.get_or_insert(at_ms + REST_MS.max(self.slow_ms()));
                if at_ms >= rest_ms {
                    break;
                }
            }
            if at_ms > self.answered_ms.max(FAULTS_MS) + ANSWER_MS.max(self.slow_ms()) {
                return Err(self.not_live());
            }
            if self.counts.messages > MESSAGES_MAX {
                let text = format!("{MESSAGES_MAX} messages, and no end");
                return Err(Violation { invariant: "liveness", text });
            }
        }
        self.check_end()?;
        self.count_end();
        Ok(self.counts)
    }

    /// Time of many writes of a disk, one after the other.
    fn slow_ms(&self) -> u64 {
        20 * self.profile.disk_ms
    }

    fn is_answered(&self) -> bool {
        self.clients.values().all(|(client, left)| *left == 0 && client.is_idle())
    }

    /// No replica has locks, and none has transactions that wait for them.
    fn is_free(&self) -> bool {
        let mut replicas = self.replicas.values().filter_map(|host| host.machine.as_ref());
        replicas.all(|replica| replica.locked() == (0, 0))
    }

    fn not_live(&self) -> Violation {
        let mut text = String::from("not all transactions are answered:");
        for host in self.replicas.values() {
            let Some(replica) = &host.machine else { continue };
            let (status, end) = (replica.status(), replica.log().end());
            let place = (replica.epoch(), replica.view());
            text +=
                &format!("\n{:?}: {status:?} {place:?}, {end} entries, {:?}", replica.id(), replica.drops());
            text += &format!(", locks and waiting transactions: {:?}", replica.locked());
        }
        Violation { invariant: "liveness", text }
    }

    fn count_end(&mut self) {
        let replicas = self.replicas.values().filter_map(|host| host.machine.as_ref());
        let clients = replicas.clone().map(|replica| replica.clients() as u64);
        self.counts.clients = clients.max().unwrap_or(0);
        let lengths = replicas.map(|replica| replica.log().end() - replica.log().base());
        self.counts.longest = lengths.max().unwrap_or(0);
    }

    fn count_record(&mut self, record: &RecordOf<Registers>) {
        match record {
            Record::ViewStarted(..) => self.counts.views += 1,
            Record::State(_) => self.counts.checkpoints += 1,
            _ => {}
        }
    }

    fn count_decision(&mut self, record: &failure_coordinator::Record<Change>) {
        match record {
            failure_coordinator::Record::ClientFloor(_) => self.counts.retired += 1,
            failure_coordinator::Record::Dropped(_) => self.counts.dropped += 1,
            failure_coordinator::Record::Found(_) => self.counts.found += 1,
            failure_coordinator::Record::EpochBegun(_) => self.counts.epochs += 1,
            _ => {}
        }
    }

    fn step_replica(
        &mut self,
        id: ReplicaId,
        step: impl FnOnce(&mut SimReplica, &mut Out),
    ) -> Result<(), Violation> {
        let mut out = Out::default();
        let Some(host) = self.replicas.get_mut(&id) else { return Ok(()) };
        let since_complete = host.since_complete();
        let Some(replica) = &mut host.machine else { return Ok(()) };
        step(replica, &mut out);
        if since_complete > self.profile.snapshot_after {
            replica.note_snapshot();
        }
        let records = replica.take_records();
        let noted = records.clone();
        let (leaving, written) = host.take(records, out.messages);
        let start = host.start;
        noted.iter().for_each(|record| self.count_record(record));
        for (_, message) in &leaving {
            match message {
                Message::State { .. } => self.counts.transfers += 1,
                Message::Settled { .. } => self.counts.settled += 1,
                Message::Submit(_) => self.counts.aborts += 1,
                _ => {}
            }
        }
        self.send(Party::Replica(id), leaving, &Fate::default());
        if let Some(up_to) = written {
            self.write(Party::Replica(id), start, up_to);
        }
        self.check_step(id)
    }

    fn step_node(&mut self, number: u8, step: impl FnOnce(&mut SimNode, &mut Out)) {
        let mut out = Out::default();
        let Some(host) = self.nodes.get_mut(&number) else { return };
        let Some(node) = &mut host.machine else { return };
        let led = node.leading().is_some();
        step(node, &mut out);
        let leads = node.leading().is_some();
        let records = node.take_records();
        let noted = records.clone();
        let (leaving, written) = host.take(records, out.messages);
        let start = host.start;
        self.counts.leaders += u64::from(!led && leads);
        noted.iter().for_each(|record| self.count_node_record(record, leads));
        self.send(Party::CoordinatorNode(number), leaving, &Fate::default());
        if let Some(up_to) = written {
            self.write(Party::CoordinatorNode(number), start, up_to);
        }
    }

    /// Decisions are counted at the node that proposes them.
    fn count_node_record(&mut self, record: &weir_ordered_raft::Record, leads: bool) {
        match record {
            weir_ordered_raft::Record::Entries(entries) if leads => {
                for entry in entries.iter().filter(|entry| !entry.data.is_empty()) {
                    let records: Vec<_> = postcard::from_bytes(&entry.data).unwrap();
                    records.iter().for_each(|record| self.count_decision(record));
                }
            }
            weir_ordered_raft::Record::State(_) => self.counts.snapshots += 1,
            _ => {}
        }
    }

    fn step_sequencer(&mut self, id: SequencerId, step: impl FnOnce(&mut Sequencer, &mut Out)) {
        let mut out = Out::default();
        let Some(sequencer) = self.sequencers.get_mut(&id) else { return };
        step(sequencer, &mut out);
        let leaving = out.messages.into_iter().map(|each| (each.to, each.message)).collect();
        let fate = self.network.fate(&self.profile, &mut self.chance);
        self.send(Party::Sequencer(id), leaving, &fate);
    }

    fn send(&mut self, from: Party, messages: Vec<(Party, Msg)>, fate: &Fate) {
        self.counts.messages += messages.len() as u64;
        let nodes = self.node_parties();
        let addressed = |(to, message): (Party, Msg)| -> Vec<(Party, Msg)> {
            // Only the node that leads takes what the failure coordinator is told.
            match to {
                Party::FailureCoordinator => nodes.iter().map(|node| (*node, message.clone())).collect(),
                _ => vec![(to, message)],
            }
        };
        for (to, message) in messages.into_iter().flat_map(addressed) {
            let delays = self.network.delays((from, to), &message, fate, &self.profile, &mut self.chance);
            for delay_ms in delays {
                let message = message.clone();
                self.schedule(delay_ms, Event::Deliver { from, to, message: Box::new(message) });
            }
        }
    }

    fn node_parties(&self) -> Vec<Party> {
        self.nodes.keys().copied().map(Party::CoordinatorNode).collect()
    }
}
