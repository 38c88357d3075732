//! The normal case, without faults (eris.txt §6.2).

use std::collections::BTreeMap;

use weir_core::ids::TxnId;
use weir_core::lsn::Outgoing;
use weir_ordered::client::{Client, Completed};
use weir_ordered::cluster::{Cluster, ReplicaId, Timeouts};
use weir_ordered::faults::NoFaults;
use weir_ordered::message::{Message, Party};
use weir_ordered::replica::Replica;
use weir_ordered::replica::log::Log;
use weir_ordered::sequencer::Sequencer;

use crate::world::profile::Profile;
use crate::world::registers::{Change, READ, READ_TO_WRITE, Register, Registers, Snapshot, Values};
use crate::world::{Msg, Out, World};

const CLUSTER: Cluster =
    Cluster { shards: 3, replicas: 3, timeouts: Timeouts::DEFAULT, truncate_entries: 10, aside_max: 100 };

type Sent = Vec<Outgoing<Party, Msg>>;

/// A replica that has started epoch 1.
fn replica(id: ReplicaId) -> Replica<Registers> {
    let mut replica = Replica::new(0, id, CLUSTER, NoFaults, Registers::new(id.shard), (1, &[]));
    replica.step(0, Party::FailureCoordinator, Message::Joined { disk: 1, epoch: 0 }, &mut Out::default());
    let start = Message::StartEpoch { epoch: 1, view: 0, log: Log::default() };
    replica.step(0, Party::FailureCoordinator, start, &mut Out::default());
    replica
}

/// A sequencer of epoch 1, and a client that knows it.
fn parties() -> (Sequencer, Client<Change, Values>) {
    let begin = || Message::NewSequencer { epoch: 1, sequencer: 7, client_floor: 1 };
    let mut sequencer = Sequencer::new(7, CLUSTER);
    sequencer.step(begin(), &mut Out::default());
    let mut client = Client::new(1, CLUSTER, NoFaults);
    client.step::<Snapshot>(Party::FailureCoordinator, begin());
    client.step::<Snapshot>(Party::FailureCoordinator, Message::Registered { registration: 1 });
    (sequencer, client)
}

fn stamped(sequencer: &mut Sequencer, submitted: Sent) -> Sent {
    let mut out = Out::default();
    submitted.into_iter().for_each(|each| sequencer.step(each.message, &mut out));
    out.messages
}

/// An independent transaction takes one round trip: the client's message to the sequencer, one packet to each replica of its
/// participants, one reply of each.
#[test]
fn a_transaction_takes_one_round_trip() {
    let (mut sequencer, mut client) = parties();
    let mut out = Out::default();
    let change = Change(vec![((0, 0), 5), ((2, 0), 6)]);
    let txn = client.begin(0, [0, 2].into(), change, &mut out);
    assert_eq!(out.messages.len(), 1);
    let packets = stamped(&mut sequencer, out.messages);
    assert_eq!(packets.len(), 6);

    let mut completed = None;
    for packet in packets {
        let Party::Replica(id) = packet.to else { panic!("a packet to {:?}", packet.to) };
        let mut out = Out::default();
        replica(id).step(1, Party::Sequencer(7), packet.message, &mut out);
        let [reply] = &out.messages[..] else { panic!("{} messages of {id:?}", out.messages.len()) };
        completed = completed.or(client.step(packet.to, reply.message.clone()));
    }
    let answers = [(0, vec![((0, 0), 5)]), (2, vec![((2, 0), 6)])].into();
    assert_eq!(completed, Some(Completed { txn, answers, is_aborted: false }));
    assert!(client.is_idle());
}

/// All replicas of shards 0 and 2, and what their client and a sequencer do with them.
struct Small {
    sequencer: Sequencer,
    client: Client<Change, Values>,
    replicas: BTreeMap<ReplicaId, Replica<Registers>>,
    completed: Vec<Completed<Values>>,
    /// Messages that clients have sent, and that the parties have sent each other.
    rounds: usize,
}

impl Small {
    fn new() -> Small {
        let (sequencer, client) = parties();
        let replicas = [0, 2].into_iter().flat_map(|shard| CLUSTER.group(shard));
        let replicas = replicas.map(|id| (id, replica(id))).collect();
        Small { sequencer, client, replicas, completed: Vec::new(), rounds: 0 }
    }

    /// Delivers what a client has sent, and all that follows from it.
    fn deliver(&mut self, out: Out) {
        let from_client = |each: Outgoing<Party, Msg>| (Party::Client(1), each);
        let mut on_way: Vec<_> = out.messages.into_iter().map(from_client).collect();
        while !on_way.is_empty() {
            self.rounds += 1;
            for (from, each) in std::mem::take(&mut on_way) {
                let mut out = Out::default();
                match each.to {
                    Party::Sequencer(_) => self.sequencer.step(each.message, &mut out),
                    Party::Replica(id) => {
                        let replica = self.replicas.get_mut(&id).expect("of shards 0 and 2");
                        replica.step(1, from, each.message, &mut out);
                    }
                    Party::Client(_) => self.completed.extend(self.client.step(from, each.message)),
                    Party::FailureCoordinator | Party::CoordinatorNode(_) => {}
                }
                on_way.extend(out.messages.into_iter().map(|sent| (each.to, sent)));
            }
        }
    }

    fn begin_general(&mut self, reads: Change) -> TxnId {
        let mut out = Out::default();
        let txn = self.client.begin_general(0, [0, 2].into(), reads, &mut out);
        self.deliver(out);
        txn
    }

    fn conclude(&mut self, general: TxnId, commits: bool, change: Change) -> TxnId {
        let mut out = Out::default();
        let txn = self.client.conclude(0, general, (commits, change), &mut out);
        self.deliver(out);
        txn.expect("all participants have answered")
    }

    fn begin(&mut self, change: Change) -> TxnId {
        let mut out = Out::default();
        let txn = self.client.begin(0, [0, 2].into(), change, &mut out);
        self.deliver(out);
        txn
    }

    fn last(&self) -> (TxnId, Values, bool) {
        let completed = self.completed.last().expect("something is completed");
        let values = completed.answers.values().flatten().copied().collect();
        (completed.txn, values, completed.is_aborted)
    }
}

const BOTH: [Register; 2] = [(0, 0), (2, 0)];

fn of_both(by: [u64; 2]) -> Change {
    Change(BOTH.into_iter().zip(by).collect())
}

/// A general transaction takes two round trips: two messages of the client, each three hops to the answers (eris.txt §7.1).
#[test]
fn a_general_transaction_takes_two_round_trips() {
    let mut small = Small::new();
    let general = small.begin_general(of_both([READ_TO_WRITE; 2]));
    assert_eq!((small.rounds, small.last()), (3, (general, vec![((0, 0), 0), ((2, 0), 0)], false)));
    assert!(!small.client.is_idle(), "it is not concluded");
    let last = small.conclude(general, true, of_both([5, 6]));
    assert_eq!((small.rounds, small.last()), (6, (last, vec![((0, 0), 5), ((2, 0), 6)], false)));
    assert!(small.client.is_idle());
    let mut out = Out::default();
    assert_eq!(small.client.conclude(0, general, (true, of_both([5, 6])), &mut out), None, "it is concluded");
}

/// An independent transaction that meets a lock is answered once a majority has the entry that lets go (docs/internals/ordered.md).
#[test]
fn a_transaction_that_waits_is_answered_when_locks_are_let_go() {
    let mut small = Small::new();
    let general = small.begin_general(of_both([READ_TO_WRITE; 2]));
    let waiting = small.begin(of_both([1, 1]));
    assert_eq!(small.completed.len(), 1, "it waits");
    let last = small.conclude(general, true, of_both([5, 6]));
    let done: Vec<_> = small.completed.iter().map(|completed| completed.txn).collect();
    assert_eq!(done, [general, last, waiting]);
    assert_eq!(small.last().1, [((0, 0), 5 * 31 + 1), ((2, 0), 6 * 31 + 1)]);
}

/// A transaction that its client does not conclude is aborted by a replica, for all participants (eris.txt §7.2).
#[test]
fn a_replica_aborts_what_its_client_does_not_conclude() {
    let mut small = Small::new();
    let general = small.begin_general(of_both([READ_TO_WRITE; 2]));
    let learner = ReplicaId { shard: 2, number: 0 };
    let counters = Default::default();
    let alive = Message::SequencerAlive { epoch: 1, counters, client_floor: 1 };
    let replica = small.replicas.get_mut(&learner).expect("of shard 2");
    replica.step(1, Party::Sequencer(7), alive, &mut Out::default());
    let is_abort = |each: &Outgoing<Party, Msg>| matches!(each.message, Message::Submit(_));
    let mut out = Out::default();
    for now_ms in [2, 1 + CLUSTER.timeouts.general_ms] {
        replica.on_timer(now_ms, &mut out);
        assert!(!out.messages.iter().any(is_abort));
    }
    replica.on_timer(3 + CLUSTER.timeouts.general_ms, &mut out);
    out.messages.retain(is_abort);
    assert_eq!(out.messages.len(), 1);
    let free = |small: &Small| small.replicas.values().filter(|replica| replica.locked() == (0, 0)).count();
    assert_eq!(free(&small), 4, "the learners of both shards have locks");
    small.deliver(out);
    assert_eq!(free(&small), 6);
    let last = small.conclude(general, true, of_both([5, 6]));
    assert_eq!(small.last(), (last, vec![], true));
    assert!(small.client.is_idle());
}

/// A read outside of transactions waits for no lock.
#[test]
fn reconnaissance_reads_what_is_executed() {
    let mut small = Small::new();
    small.begin(of_both([5, 6]));
    small.begin_general(of_both([READ_TO_WRITE; 2]));
    let mut out = Out::default();
    let number = small.client.reconnoitre(0, 2, of_both([READ; 2]), &mut out);
    small.deliver(out);
    let answers = small.client.take_reconnoitred();
    assert_eq!(answers, [(number, Some(vec![((0, 0), 0), ((2, 0), 6)]))]);
}

#[test]
fn without_faults_nothing_is_lost_and_no_view_changes() {
    for seed in 0..5 {
        let profile = Profile::calm();
        let counts = World::new(seed, profile).run().unwrap_or_else(|violation| panic!("{violation:?}"));
        assert_eq!(counts.answered, profile.clients * u64::from(profile.transactions));
        assert_eq!((counts.dropped, counts.found, counts.views, counts.epochs), (0, 0, 0, 1));
        let (entries, most) = (counts.answered, 4 * profile.truncate_entries);
        assert!(counts.longest <= most && most < entries, "{} of {entries} entries are left", counts.longest);
    }
}

/// Clients that never come back are forgotten, and a client that is thought gone is told so.
#[test]
fn clients_that_never_come_back_are_forgotten() {
    for seed in 0..5 {
        let profile = Profile { client_crash_ms: 40, client_ms: 200, ..Profile::calm() };
        let counts = World::new(seed, profile).run().unwrap_or_else(|violation| panic!("{violation:?}"));
        assert!(counts.replaced > 20 && counts.retired > 0, "{counts:?}");
        assert!(counts.clients < counts.replaced / 2, "{counts:?}");
    }
    let mut sequencer = Sequencer::new(7, CLUSTER);
    sequencer.step(Message::NewSequencer { epoch: 1, sequencer: 7, client_floor: 2 }, &mut Out::default());
    let mut client = Client::new(1, CLUSTER, NoFaults);
    client.step::<Snapshot>(Party::FailureCoordinator, Message::Registered { registration: 1 });
    client.step::<Snapshot>(
        Party::FailureCoordinator,
        Message::NewSequencer { epoch: 1, sequencer: 7, client_floor: 1 },
    );
    let mut out = Out::default();
    client.begin(0, [0].into(), Change(vec![((0, 0), 5)]), &mut out);
    let answers = stamped(&mut sequencer, out.messages);
    assert!(matches!(&answers[..], [answer] if answer.to == Party::Client(1)), "{answers:?}");
    answers.into_iter().for_each(|answer| drop(client.step(Party::Sequencer(7), answer.message)));
    assert!(client.is_retired());
}
