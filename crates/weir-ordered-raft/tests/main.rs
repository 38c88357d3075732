//! Nodes of a failure coordinator with a network and disks that do what a test says. Elections, losses and crashes in random order are those
//! of the simulated world of weir-ordered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_core::lsn::{HeldMessages, Lsn};
use weir_ordered::cluster::{Cluster, ReplicaId, Timeouts};
use weir_ordered::faults::NoFaults;
use weir_ordered::message::{Effects, Message, Party};
use weir_ordered_raft::{CoordinatorNode, Record, Settings};

type Node = CoordinatorNode<u64, u64, u64, NoFaults>;
type Msg = Message<u64, u64, u64>;
type Out = Effects<u64, u64, u64>;

const TICK_MS: u64 = 10;
/// No election takes longer.
const ELECTION_MS: u64 = 1_000;

fn cluster() -> Cluster {
    Cluster { shards: 1, replicas: 3, timeouts: Timeouts::DEFAULT, truncate_entries: 1, aside_max: 2 }
}

/// A node, its disk, and its messages that wait for the disk.
struct Host {
    node: Node,
    disk: Vec<Record>,
    held: HeldMessages<(Party, Msg)>,
    /// Whether the disk writes.
    is_writing: bool,
}

/// Nodes, and the messages on their way.
struct Nodes {
    count: u8,
    now_ms: u64,
    /// Nodes that are up.
    hosts: BTreeMap<u8, Host>,
    /// The disks of the nodes that are down.
    disks: BTreeMap<u8, Vec<Record>>,
    /// Nodes that neither hear other nodes nor are heard by them.
    cut_off: BTreeSet<u8>,
    queue: VecDeque<(u8, u8, Msg)>,
    /// Messages to clients and replicas.
    told: Vec<(Party, Msg)>,
}

impl Nodes {
    fn start(count: u8) -> Nodes {
        let mut nodes = Nodes {
            count,
            now_ms: 0,
            hosts: BTreeMap::new(),
            disks: BTreeMap::new(),
            cut_off: BTreeSet::new(),
            queue: VecDeque::new(),
            told: Vec::new(),
        };
        (0..count).for_each(|number| nodes.begin(number));
        nodes
    }

    fn begin(&mut self, number: u8) {
        let disk = self.disks.remove(&number).unwrap_or_default();
        let settings = Settings { entries_max: 20, ..Settings::new(number, self.count) };
        let node = Node::new(self.now_ms, settings, cluster(), NoFaults, &disk);
        self.hosts.insert(number, Host { node, disk, held: HeldMessages::default(), is_writing: true });
    }

    /// The node loses its memory, and what its disk has not written.
    fn kill(&mut self, number: u8) {
        let host = self.hosts.remove(&number).unwrap();
        let lost = (host.held.noted().0 - host.held.durable().0) as usize;
        let kept = host.disk.len() - lost;
        self.disks.insert(number, host.disk[..kept].to_vec());
    }

    fn step(&mut self, number: u8, step: impl FnOnce(&mut Node, u64, &mut Out)) {
        let mut out = Out::default();
        let Some(host) = self.hosts.get_mut(&number) else { return };
        step(&mut host.node, self.now_ms, &mut out);
        self.leave(number, out);
    }

    /// Takes what a step has left; the disk writes at once, or not at all.
    fn leave(&mut self, number: u8, mut out: Out) {
        loop {
            let host = self.hosts.get_mut(&number).unwrap();
            let records = host.node.take_records();
            host.held.note(records.len());
            host.disk.extend(records);
            let held = &mut host.held;
            let mut leaving: Vec<_> = out
                .messages
                .drain(..)
                .filter_map(|each| held.hold(each.after, (each.to, each.message)))
                .collect();
            let up_to = held.noted();
            let writes = host.is_writing && up_to > held.durable();
            if writes {
                leaving.extend(held.on_durable(up_to));
                host.node.on_durable(self.now_ms, up_to, &mut out);
            }
            for (to, message) in leaving {
                match to {
                    Party::CoordinatorNode(to) => self.queue.push_back((number, to, message)),
                    _ => self.told.push((to, message)),
                }
            }
            if !writes {
                return;
            }
        }
    }

    /// All messages arrive, except those of nodes that are cut off.
    fn deliver(&mut self) {
        while let Some((from, to, message)) = self.queue.pop_front() {
            if !self.cut_off.contains(&from) && !self.cut_off.contains(&to) {
                let from = Party::CoordinatorNode(from);
                self.step(to, |node, now_ms, out| node.step(now_ms, from, message, out));
            }
        }
    }

    /// Time goes on for so long.
    fn run(&mut self, for_ms: u64) {
        for _ in 0..for_ms / TICK_MS {
            self.now_ms += TICK_MS;
            for number in 0..self.count {
                self.step(number, |node, now_ms, out| node.on_timer(now_ms, out));
                self.deliver();
            }
        }
    }

    /// A party tells all nodes.
    fn tell(&mut self, from: Party, message: &Msg) {
        for number in 0..self.count {
            self.step(number, |node, now_ms, out| node.step(now_ms, from, message.clone(), out));
        }
        self.deliver();
    }

    /// Registers a new client. Returns what it has been told.
    fn register(&mut self, client: u64) -> Vec<u64> {
        self.tell(Party::Client(client), &Message::SequencerRequest { registration: 0 });
        self.registrations(client)
    }

    fn registrations(&self, client: u64) -> Vec<u64> {
        let told = self.told.iter().filter(|(to, _)| *to == Party::Client(client));
        let registration = |message: &Msg| match message {
            Message::Registered { registration } => Some(*registration),
            _ => None,
        };
        told.filter_map(|(_, message)| registration(message)).collect()
    }

    fn leaders(&self) -> Vec<u8> {
        let leads = |(number, host): (&u8, &Host)| host.node.leading().is_some().then_some(*number);
        self.hosts.iter().filter_map(leads).collect()
    }

    /// The only node that leads, once an election is over.
    fn leader(&mut self) -> u8 {
        self.run(ELECTION_MS);
        let leaders = self.leaders();
        assert_eq!(leaders.len(), 1, "{leaders:?}");
        leaders[0]
    }
}

#[test]
fn a_single_node_leads_without_an_election() {
    let mut nodes = Nodes::start(1);
    nodes.run(TICK_MS);
    assert_eq!(nodes.leaders(), [0]);
    assert_eq!(nodes.register(7), [1]);
    nodes.kill(0);
    nodes.begin(0);
    nodes.run(TICK_MS);
    assert_eq!(nodes.register(8), [2], "it goes on from its disk");
}

#[test]
fn a_single_node_answers_once_its_record_is_durable() {
    let mut nodes = Nodes::start(1);
    nodes.run(TICK_MS);
    nodes.hosts.get_mut(&0).unwrap().is_writing = false;
    assert_eq!(nodes.register(7), [0; 0]);
    nodes.hosts.get_mut(&0).unwrap().is_writing = true;
    nodes.run(TICK_MS);
    assert_eq!(nodes.registrations(7), [1]);
}

#[test]
fn one_of_three_nodes_leads_and_answers() {
    let mut nodes = Nodes::start(3);
    assert_eq!(nodes.leaders(), [0; 0]);
    assert_eq!(nodes.register(6), [0; 0], "before an election nobody answers");
    nodes.leader();
    assert_eq!(nodes.register(7), [1]);
    assert_eq!(nodes.register(8), [2]);
}

/// Two nodes have the record in memory, and it is on one disk only.
#[test]
fn an_answer_waits_for_a_majority_of_disks() {
    let mut nodes = Nodes::start(3);
    let leader = nodes.leader();
    for (number, host) in &mut nodes.hosts {
        host.is_writing = *number == leader;
    }
    assert_eq!(nodes.register(7), [0; 0]);
    let follower = (leader + 1) % 3;
    nodes.hosts.get_mut(&follower).unwrap().is_writing = true;
    nodes.run(2 * TICK_MS);
    assert_eq!(nodes.registrations(7), [1]);
}

#[test]
fn another_node_goes_on_with_everything_that_was_committed() {
    let mut nodes = Nodes::start(3);
    let first = nodes.leader();
    assert_eq!(nodes.register(7), [1]);
    nodes.kill(first);
    let second = nodes.leader();
    assert_ne!(first, second);
    assert_eq!(nodes.register(8), [2]);
    nodes.begin(first);
    nodes.kill(second);
    nodes.leader();
    assert_eq!(nodes.register(9), [3]);
}

/// A decision of a leader alone is told to nobody, and another node decides anew.
#[test]
fn a_leader_without_a_majority_answers_nothing_and_steps_down() {
    let mut nodes = Nodes::start(3);
    let first = nodes.leader();
    nodes.cut_off.insert(first);
    assert_eq!(nodes.register(7), [0; 0]);
    let second = nodes.leader();
    assert_ne!(first, second);
    assert_eq!(nodes.register(8), [1]);
    nodes.cut_off.clear();
    nodes.leader();
    assert_eq!(nodes.registrations(7), [0; 0], "the record of the first leader is gone");
    assert_eq!(nodes.register(7), [2]);
}

#[test]
fn without_a_majority_nobody_leads() {
    let mut nodes = Nodes::start(3);
    let leader = nodes.leader();
    nodes.kill((leader + 1) % 3);
    nodes.kill((leader + 2) % 3);
    nodes.run(ELECTION_MS);
    assert_eq!(nodes.leaders(), [0; 0]);
    nodes.begin((leader + 1) % 3);
    nodes.leader();
    assert_eq!(nodes.register(7), [1]);
}

#[test]
fn all_nodes_come_back_from_their_disks() {
    let mut nodes = Nodes::start(3);
    nodes.leader();
    let client = Party::Replica(ReplicaId { shard: 0, number: 0 });
    nodes.tell(client, &Message::JoinRequest { disk: 5, synchronized: 0 });
    assert_eq!(nodes.register(7), [1]);
    (0..3).for_each(|number| nodes.kill(number));
    (0..3).for_each(|number| nodes.begin(number));
    nodes.leader();
    assert_eq!(nodes.register(8), [2]);
    nodes.told.clear();
    nodes.tell(client, &Message::JoinRequest { disk: 5, synchronized: 0 });
    assert!(matches!(nodes.told[..], [(_, Message::Joined { disk: 5, epoch: 0 })]), "{:?}", nodes.told);
}

/// The log is longer than what nodes keep of it.
#[test]
fn a_node_that_lags_gets_a_snapshot() {
    let mut nodes = Nodes::start(3);
    let leader = nodes.leader();
    let (lagging, third) = ((leader + 1) % 3, (leader + 2) % 3);
    nodes.kill(lagging);
    for client in 1..=50 {
        assert_eq!(nodes.register(client), [client]);
    }
    let Record::State(state) = nodes.hosts[&leader].node.snapshot() else { panic!("a whole state") };
    assert!(state.snapshot.index > 20 && state.entries.len() <= 20, "a snapshot has taken their place");
    nodes.begin(lagging);
    nodes.hosts.get_mut(&lagging).unwrap().is_writing = false;
    nodes.run(ELECTION_MS);
    nodes.kill(third);
    // The node that lagged has the snapshot in memory only, and hears nobody.
    nodes.cut_off.insert(lagging);
    nodes.run(ELECTION_MS);
    nodes.cut_off.clear();
    nodes.hosts.get_mut(&lagging).unwrap().is_writing = true;
    let leader = nodes.leader();
    assert_eq!(nodes.register(2_000), [51], "the node that lagged has acknowledged");
    nodes.kill(lagging);
    nodes.begin(lagging);
    nodes.kill(leader);
    nodes.begin(third);
    nodes.leader();
    assert_eq!(nodes.register(3_000), [52]);
}

/// A message that names another sender, or another receiver, has no effect.
#[test]
fn messages_of_strangers_are_ignored() {
    let mut nodes = Nodes::start(3);
    let leader = nodes.leader();
    nodes.run(TICK_MS);
    nodes.step(leader, |node, now_ms, out| node.on_timer(now_ms + 10 * TICK_MS, out));
    let heartbeats: Vec<_> = nodes.queue.drain(..).collect();
    assert!(!heartbeats.is_empty());
    for (from, to, message) in heartbeats {
        let Message::Raft(mut raft) = message else { panic!("a message of Raft") };
        raft.term += 100;
        let stranger = Party::CoordinatorNode(3 - from - to);
        nodes.step(to, |node, now_ms, out| node.step(now_ms, stranger, Message::Raft(raft.clone()), out));
        raft.to = 9;
        let from = Party::CoordinatorNode(from);
        nodes.step(to, |node, now_ms, out| node.step(now_ms, from, Message::Raft(raft), out));
    }
    assert_eq!(nodes.leader(), leader);
}

/// A position of the disk that has not come counts for nothing.
#[test]
fn votes_wait_for_the_disk() {
    let mut nodes = Nodes::start(3);
    nodes.hosts.values_mut().for_each(|host| host.is_writing = false);
    nodes.run(ELECTION_MS);
    assert_eq!(nodes.leaders(), [0; 0]);
    let waits = |host: &Host| host.held.noted() > Lsn::START && host.held.durable() == Lsn::START;
    assert!(nodes.hosts.values().any(waits), "nobody has voted");
}
