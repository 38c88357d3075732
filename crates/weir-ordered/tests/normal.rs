//! The normal case, without faults (eris.txt §6.2).

use weir_core::lsn::Outgoing;
use weir_ordered::client::{Client, Completed};
use weir_ordered::cluster::{Cluster, ReplicaId, Timeouts};
use weir_ordered::faults::NoFaults;
use weir_ordered::message::{Message, Party};
use weir_ordered::replica::Replica;
use weir_ordered::replica::log::Log;
use weir_ordered::sequencer::Sequencer;

use crate::world::profile::Profile;
use crate::world::registers::{Change, Registers, Snapshot};
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

fn stamped(sequencer: &mut Sequencer, submitted: Sent) -> Sent {
    let mut out = Out::default();
    submitted.into_iter().for_each(|each| sequencer.step(each.message, &mut out));
    out.messages
}

/// An independent transaction takes one round trip: the client's message to the sequencer, one packet to each replica of its
/// participants, one reply of each.
#[test]
fn a_transaction_takes_one_round_trip() {
    let mut sequencer = Sequencer::new(7, CLUSTER);
    let begin = || Message::NewSequencer { epoch: 1, sequencer: 7, client_floor: 1 };
    sequencer.step(begin(), &mut Out::default());
    let mut client = Client::new(1, CLUSTER, NoFaults);
    client.step(Party::FailureCoordinator, begin());
    client.step::<Snapshot>(Party::FailureCoordinator, Message::Registered { registration: 1 });

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
    assert_eq!(completed, Some(Completed { txn, answers }));
    assert!(client.is_idle());
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
