//! Events of a world, and their effects.

use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::lsn::Lsn;
use weir_ordered::client::{Client, Completed};
use weir_ordered::cluster::ReplicaId;
use weir_ordered::message::{Party, SequencerId};
use weir_ordered::replica::Replica;
use weir_ordered::sequencer::Sequencer;
use weir_ordered_raft::CoordinatorNode;

use crate::world::network::Fate;
use crate::world::registers::{Change, READ, READ_TO_WRITE, Register, Registers, Values};
use crate::world::strict::Violation;
use crate::world::{FAULTS_MS, Msg, NodeHost, Out, SimClient, TICK_MS, World};

/// Registers of each shard: few, so that transactions meet.
const REGISTERS: u64 = 3;
/// Sequencers at the start; one of them is chosen.
const SEQUENCERS: usize = 2;

/// An event.
pub enum Event {
    Deliver {
        from: Party,
        to: Party,
        message: Box<Msg>,
    },
    Timer(Party),
    /// The disk has written up to that position of that start.
    Durable(Party, u64, Lsn),
    /// A client begins a transaction.
    Begin(CoordinatorId),
    /// A client has seen the answers to a preliminary part, and adds that number.
    Conclude(TxnId, u64),
    /// Some replica, or a whole group, crashes, and again later.
    Crash,
    /// The learner of some shard crashes, and again later.
    LearnerCrash,
    CoordinatorCrash,
    /// A sequencer dies, or is no longer heard by the failure coordinator.
    SequencerFault,
    /// A client dies, and another one goes on.
    ClientCrash,
    Partition,
    Heal,
    Restart(Party),
    /// All faults end.
    FaultsEnd,
}

impl Event {
    fn is_fault(&self) -> bool {
        use Event::{ClientCrash, CoordinatorCrash, Crash, LearnerCrash, Partition, SequencerFault};
        matches!(self, ClientCrash | Crash | LearnerCrash | CoordinatorCrash | SequencerFault | Partition)
    }
}

impl World {
    pub(super) fn schedule(&mut self, after_ms: u64, event: Event) {
        self.events.insert((self.now_ms + after_ms, self.next_event), event);
        self.next_event += 1;
    }

    pub(super) fn begin(&mut self) {
        (0..SEQUENCERS).for_each(|_| self.start_sequencer());
        let replicas: Vec<_> = self.replicas.keys().copied().map(Party::Replica).collect();
        let clients: Vec<_> = self.clients.keys().copied().collect();
        for party in replicas.into_iter().chain(self.node_parties()) {
            self.schedule_timer(party);
        }
        for client in clients {
            self.schedule_timer(Party::Client(client));
            self.schedule_begin(client);
        }
        let profile = self.profile;
        self.schedule_fault(profile.crash_ms, Event::Crash);
        self.schedule_fault(profile.learner_crash_ms, Event::LearnerCrash);
        self.schedule_fault(profile.coordinator_crash_ms, Event::CoordinatorCrash);
        self.schedule_fault(profile.sequencer_ms, Event::SequencerFault);
        self.schedule_fault(profile.client_crash_ms, Event::ClientCrash);
        self.schedule_fault(profile.partition_ms, Event::Partition);
        self.schedule(FAULTS_MS, Event::FaultsEnd);
    }

    fn schedule_fault(&mut self, every_ms: u64, event: Event) {
        if every_ms > 0 && self.network.is_faulty {
            let after_ms = self.chance.between(1, 2 * every_ms);
            self.schedule(after_ms, event);
        }
    }

    fn schedule_timer(&mut self, party: Party) {
        let after_ms = self.chance.between(1, TICK_MS);
        self.schedule(after_ms, Event::Timer(party));
    }

    fn schedule_begin(&mut self, client: CoordinatorId) {
        let after_ms = self.chance.below(2 * FAULTS_MS / u64::from(self.profile.transactions));
        self.schedule(after_ms, Event::Begin(client));
    }

    pub(super) fn write(&mut self, party: Party, start: u64, up_to: Lsn) {
        let after_ms = self.chance.between(0, self.profile.disk_ms);
        self.schedule(after_ms, Event::Durable(party, start, up_to));
    }

    pub(super) fn happen(&mut self, event: Event) -> Result<(), Violation> {
        let profile = self.profile;
        if !self.network.is_faulty && event.is_fault() {
            return Ok(());
        }
        match event {
            Event::Deliver { from, to, message } => self.deliver(from, to, *message)?,
            Event::Timer(party) => self.on_timer(party)?,
            Event::Durable(party, start, up_to) => self.on_durable(party, start, up_to),
            Event::Begin(client) => self.begin_transaction(client),
            Event::Conclude(general, number) => self.conclude(general, number),
            Event::Crash => {
                self.crash_some();
                self.schedule_fault(profile.crash_ms, Event::Crash);
            }
            Event::LearnerCrash => {
                if let Some(learner) = self.some_learner() {
                    self.crash_replica(learner);
                }
                self.schedule_fault(profile.learner_crash_ms, Event::LearnerCrash);
            }
            Event::CoordinatorCrash => {
                self.crash_node();
                self.schedule_fault(profile.coordinator_crash_ms, Event::CoordinatorCrash);
            }
            Event::SequencerFault => {
                self.fail_sequencer();
                self.schedule_fault(profile.sequencer_ms, Event::SequencerFault);
            }
            Event::ClientCrash => {
                let ids: Vec<_> = self.clients.keys().copied().collect();
                let victim = self.chance.pick(&ids);
                self.replace_client(victim);
                self.schedule_fault(profile.client_crash_ms, Event::ClientCrash);
            }
            Event::Partition => self.partition(),
            Event::Heal => self.network.island.clear(),
            Event::Restart(party) => self.restart(party),
            Event::FaultsEnd => self.end_faults(),
        }
        Ok(())
    }

    fn deliver(&mut self, from: Party, to: Party, message: Msg) -> Result<(), Violation> {
        let now_ms = self.now_ms;
        let from = match (from, to) {
            (Party::CoordinatorNode(_), Party::CoordinatorNode(_)) => from,
            (Party::CoordinatorNode(_), _) => Party::FailureCoordinator,
            _ => from,
        };
        match to {
            Party::FailureCoordinator => {}
            Party::Replica(id) => self.step_replica(id, |each, out| each.step(now_ms, from, message, out))?,
            Party::CoordinatorNode(number) => {
                self.step_node(number, |each, out| each.step(now_ms, from, message, out));
            }
            Party::Sequencer(id) => self.step_sequencer(id, |each, out| each.step(message, out)),
            Party::Client(id) => {
                let Some((client, _)) = self.clients.get_mut(&id) else { return Ok(()) };
                if let Some(completed) = client.step(from, message) {
                    self.on_completed(&completed)?;
                } else if client.is_retired() {
                    self.replace_client(id);
                }
            }
        }
        Ok(())
    }

    fn on_completed(&mut self, completed: &Completed<Values>) -> Result<(), Violation> {
        self.counts.answered += 1;
        self.answered_ms = self.now_ms;
        self.history.complete(self.now_ms, completed);
        self.check_completed(completed.txn)?;
        if completed.is_aborted {
            self.generals.remove(&completed.txn);
            self.counts.aborted += 1;
        } else if self.generals.contains_key(&completed.txn) {
            let read = completed.answers.values().flatten().map(|(_, value)| *value);
            let number = read.fold(1, |number: u64, value| number.wrapping_mul(37).wrapping_add(value));
            let after_ms = self.chance.between(0, self.profile.think_ms);
            self.schedule(after_ms, Event::Conclude(completed.txn, number));
        }
        Ok(())
    }

    /// What is added follows from all that was read, at all shards.
    fn conclude(&mut self, general: TxnId, number: u64) {
        let Some((registers, commits)) = self.generals.remove(&general) else { return };
        let by = (number % (1 << 40)).max(1);
        let change = Change(registers.into_iter().map(|register| (register, by)).collect());
        let (now_ms, mut begun) = (self.now_ms, None);
        self.step_client(general.coordinator, |client, out| {
            begun = client.conclude(now_ms, general, (commits, change), out);
        });
        if let Some(txn) = begun {
            self.counts.committed += u64::from(commits);
            self.history.begin(now_ms, txn);
            self.answered_ms = now_ms;
        }
    }

    fn on_timer(&mut self, party: Party) -> Result<(), Violation> {
        let now_ms = self.now_ms;
        match party {
            Party::Replica(id) => self.step_replica(id, |each, out| each.on_timer(now_ms, out))?,
            Party::CoordinatorNode(number) => {
                self.step_node(number, |each, out| each.on_timer(now_ms, out));
            }
            Party::FailureCoordinator => {}
            Party::Sequencer(id) => self.step_sequencer(id, |each, out| each.on_timer(now_ms, out)),
            Party::Client(id) => self.step_client(id, |client, out| client.on_timer(now_ms, out)),
        }
        let is_gone = match party {
            Party::Sequencer(id) => !self.sequencers.contains_key(&id),
            Party::Client(id) => !self.clients.contains_key(&id),
            _ => false,
        };
        if !is_gone {
            self.schedule_timer(party);
        }
        Ok(())
    }

    fn step_client(&mut self, id: CoordinatorId, step: impl FnOnce(&mut SimClient, &mut Out)) {
        let mut out = Out::default();
        let Some((client, _)) = self.clients.get_mut(&id) else { return };
        step(client, &mut out);
        let leaving = out.messages.into_iter().map(|each| (each.to, each.message)).collect();
        self.send(Party::Client(id), leaving, &Fate::default());
    }

    fn on_durable(&mut self, party: Party, start: u64, up_to: Lsn) {
        let leaving = match party {
            Party::Replica(id) => {
                self.replicas.get_mut(&id).map(|host| host.on_durable(start, up_to)).unwrap_or_default()
            }
            Party::CoordinatorNode(number) => {
                self.nodes.get_mut(&number).map(|host| host.on_durable(start, up_to)).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        self.send(party, leaving, &Fate::default());
        if let Party::CoordinatorNode(number) = party {
            let now_ms = self.now_ms;
            let up_to = self.nodes.get(&number).map(|host| host.durable_position()).unwrap_or_default();
            self.step_node(number, |each, out| each.on_durable(now_ms, up_to, out));
        }
    }

    /// The answers to transactions that the client has in flight are lost. A client with a new id begins the transactions that are left.
    fn replace_client(&mut self, id: CoordinatorId) {
        let Some((_, left)) = self.clients.remove(&id) else { return };
        let next = self.next_client;
        self.next_client += 1;
        let client = Client::new(next, self.cluster, self.profile.client_bugs);
        self.clients.insert(next, (client, left));
        self.counts.replaced += 1;
        self.answered_ms = self.now_ms;
        self.schedule_timer(Party::Client(next));
        if left > 0 {
            self.schedule_begin(next);
        }
    }

    fn begin_transaction(&mut self, id: CoordinatorId) {
        if !self.clients.contains_key(&id) {
            return;
        }
        let shards = u64::from(self.cluster.shards);
        let chance = &mut self.chance;
        let mut register =
            || -> Register { (chance.below(shards) as ShardId, chance.below(REGISTERS) as u8) };
        let registers = vec![register(), register()];
        if self.chance.per_mille(self.profile.general) {
            self.begin_general(id, registers);
        } else {
            self.begin_on(id, registers);
        }
        let Some((_, left)) = self.clients.get_mut(&id) else { return };
        *left -= 1;
        if *left > 0 {
            self.schedule_begin(id);
        }
    }

    fn begin_on(&mut self, id: CoordinatorId, registers: Vec<Register>) {
        let (registers, destinations) = sorted(registers);
        let (number, reads) = (self.chance.between(1, 1 << 40), self.chance.per_mille(200));
        let by = |place| if reads && place == 0 { READ } else { number };
        let changes = registers.into_iter().enumerate().map(|(place, register)| (register, by(place)));
        let (now_ms, change) = (self.now_ms, Change(changes.collect()));
        let mut begun = None;
        self.step_client(id, |client, out| {
            begun = Some(client.begin(now_ms, destinations.into(), change, out));
        });
        self.note_begun(begun);
    }

    /// Begins a general transaction that reads these registers, and will write some of them.
    fn begin_general(&mut self, id: CoordinatorId, registers: Vec<Register>) {
        let (registers, destinations) = sorted(registers);
        let writes = if self.chance.per_mille(300) { 1 } else { registers.len() };
        let by = |place| if place < writes { READ_TO_WRITE } else { READ };
        let reads = registers.iter().enumerate().map(|(place, register)| (*register, by(place)));
        let (now_ms, reads) = (self.now_ms, Change(reads.collect()));
        let mut begun = None;
        self.step_client(id, |client, out| {
            begun = Some(client.begin_general(now_ms, destinations.into(), reads, out));
        });
        self.note_begun(begun);
        let commits = self.chance.per_mille(900);
        let written = registers[..writes].to_vec();
        self.generals.extend(begun.map(|txn| (txn, (written, commits))));
    }

    fn note_begun(&mut self, begun: Option<TxnId>) {
        if let Some(txn) = begun {
            self.history.begin(self.now_ms, txn);
            self.answered_ms = self.now_ms;
        }
    }

    fn some_learner(&mut self) -> Option<ReplicaId> {
        let up = self.replicas.values().filter_map(|host| host.machine.as_ref());
        let learners: Vec<_> = up.filter(|replica| replica.is_learner()).map(Replica::id).collect();
        if learners.is_empty() { None } else { Some(self.chance.pick(&learners)) }
    }

    fn crash_replica(&mut self, id: ReplicaId) {
        if let Some(host) = self.replicas.get_mut(&id) {
            host.crash(&mut self.chance);
            self.schedule_restart(Party::Replica(id));
        }
        self.wipe_some(id);
    }

    /// A crashed replica may lose its disk: never so many of a shard that no majority is left.
    fn wipe_some(&mut self, id: ReplicaId) {
        let empty = self.empty.iter().filter(|each| each.shard == id.shard && **each != id).count();
        let may_lose = empty + self.cluster.majority() < usize::from(self.cluster.replicas);
        if may_lose && self.chance.per_mille(self.profile.wiped) {
            if let Some(host) = self.replicas.get_mut(&id) {
                host.wipe();
            }
            self.empty.insert(id);
            self.counts.wiped += 1;
        }
    }

    fn crash_some(&mut self) {
        let all: Vec<_> = self.replicas.keys().copied().collect();
        let victim = self.chance.pick(&all);
        if self.chance.per_mille(100) {
            self.cluster.group(victim.shard).for_each(|each| self.crash_replica(each));
        } else {
            self.crash_replica(victim);
        }
    }

    /// Half of the time it is the node that leads which crashes.
    fn crash_node(&mut self) {
        let leads = |host: &NodeHost| host.machine.as_ref().is_some_and(|node| node.leading().is_some());
        let leading: Vec<_> =
            self.nodes.iter().filter(|(_, host)| leads(host)).map(|(number, _)| *number).collect();
        let all: Vec<_> = self.nodes.keys().copied().collect();
        let is_leading = !leading.is_empty() && self.chance.per_mille(500);
        let victim = self.chance.pick(if is_leading { &leading } else { &all });
        if let Some(host) = self.nodes.get_mut(&victim) {
            host.crash(&mut self.chance);
        }
        self.schedule_restart(Party::CoordinatorNode(victim));
    }

    fn schedule_restart(&mut self, party: Party) {
        let after_ms = self.chance.between(1, self.profile.down_ms);
        self.schedule(after_ms, Event::Restart(party));
    }

    fn restart(&mut self, party: Party) {
        let (now_ms, cluster, bugs) = (self.now_ms, self.cluster, self.profile.bugs);
        match party {
            Party::Replica(id) => {
                let Some(host) = self.replicas.get_mut(&id) else { return };
                host.restart(|start, disk| {
                    Replica::new(now_ms, id, cluster, bugs, Registers::new(id.shard), (start, disk))
                });
            }
            Party::CoordinatorNode(number) => {
                let (settings, bugs) = (self.profile.settings(number), self.profile.coordinator_bugs);
                let Some(host) = self.nodes.get_mut(&number) else { return };
                host.restart(|_, disk| CoordinatorNode::new(now_ms, settings, cluster, bugs, disk));
            }
            Party::Sequencer(_) => self.start_sequencer(),
            Party::Client(_) | Party::FailureCoordinator => {}
        }
    }

    fn start_sequencer(&mut self) {
        let id: SequencerId = self.next_sequencer;
        self.next_sequencer += 1;
        self.sequencers.insert(id, Sequencer::new(id, self.cluster));
        self.schedule_timer(Party::Sequencer(id));
    }

    /// The newest sequencers are the likely ones.
    fn fail_sequencer(&mut self) {
        let ids: Vec<_> = self.sequencers.keys().copied().collect();
        if ids.is_empty() {
            return;
        }
        let victim = self.chance.pick(&ids);
        if self.chance.per_mille(500) {
            self.network.muted.insert(victim);
        } else {
            self.sequencers.remove(&victim);
        }
        self.schedule_restart(Party::Sequencer(victim));
    }

    /// Cuts off some replicas and nodes of the failure coordinator.
    fn partition(&mut self) {
        let replicas = self.replicas.keys().copied().map(Party::Replica);
        let parties: Vec<_> = replicas.chain(self.node_parties()).collect();
        let share = self.chance.pick(&[150, 300, 500]);
        self.network.island = parties.into_iter().filter(|_| self.chance.per_mille(share)).collect();
        self.network.is_remote = self.chance.per_mille(300);
        let heal_ms = self.chance.between(20, 600);
        self.schedule(heal_ms, Event::Heal);
        self.schedule_fault(self.profile.partition_ms, Event::Partition);
    }

    fn end_faults(&mut self) {
        self.network = Default::default();
        let ids: Vec<_> = self.replicas.keys().copied().collect();
        ids.into_iter().for_each(|id| self.restart(Party::Replica(id)));
        self.node_parties().into_iter().for_each(|node| self.restart(node));
    }
}

/// Registers in order, each once, and their shards.
fn sorted(mut registers: Vec<Register>) -> (Vec<Register>, Vec<ShardId>) {
    registers.sort_unstable();
    registers.dedup();
    let mut destinations: Vec<_> = registers.iter().map(|(shard, _)| *shard).collect();
    destinations.dedup();
    (registers, destinations)
}
