//! Datagrams and streams between two parties of one process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_core::ids::TxnId;
use weir_kv::Bytes;
use weir_net::loopback::free_ports;
use weir_ordered::cluster::{Cluster, ReplicaId, Timeouts};
use weir_ordered::message::{Party, Reply};
use weir_ordered::packet::Outcome;
use weir_ordered_net::Members;
use weir_ordered_net::members::Network;
use weir_ordered_net::transport::{Received, Transport};
use weir_ordered_net::wire::Message;

const REPLICA: Party = Party::Replica(ReplicaId { shard: 0, number: 0 });
const CLIENT: Party = Party::Client(7);

pub fn members(cluster: Cluster, network: Network, (coordinators, sequencers): (usize, usize)) -> Members {
    let replicas = usize::from(cluster.shards) * usize::from(cluster.replicas);
    let ports = free_ports(coordinators + sequencers + replicas);
    let mut addresses = ports.into_iter().map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let tag = u64::from(std::process::id());
    let coordinators = addresses.by_ref().take(coordinators).collect();
    let sequencers = addresses.by_ref().take(sequencers).collect();
    Members { cluster, tag, network, coordinators, sequencers, replicas: addresses.collect() }
}

fn small_members(network: Network) -> Members {
    let cluster =
        Cluster { shards: 1, replicas: 1, timeouts: Timeouts::DEFAULT, truncate_entries: 1, aside_max: 2 };
    members(cluster, network, (1, 1))
}

fn reply(index: u64, bytes: usize) -> Message {
    let txn = TxnId { coordinator: 7, sequence: index };
    Message::Reply(Reply {
        txn,
        epoch: 1,
        view: 0,
        index,
        answer: Some(Outcome::Executed(Bytes::new(&vec![index as u8; bytes]))),
    })
}

/// A client says where it is, then gets these replies. Returns their indices, and how many have come in datagrams.
fn exchange(members: Members, sizes: &[usize]) -> (Vec<u64>, usize) {
    let members = Arc::new(members);
    let mut replica = Transport::bind(members.clone(), REPLICA, None).unwrap();
    let mut client = Transport::bind(members, CLIENT, None).unwrap();
    client.send([(REPLICA, Message::SequencerRequest { registration: 0 })].into_iter());
    client.flush();
    let mut received = Vec::new();
    receive(&mut replica, &mut client, &mut received, 1);
    assert_eq!(received.pop().map(|each| each.from), Some(CLIENT));
    replica.send(sizes.iter().zip(1..).map(|(bytes, index)| (CLIENT, reply(index, *bytes))));
    replica.flush();
    receive(&mut client, &mut replica, &mut received, sizes.len());
    let in_datagrams = received.iter().filter(|each| each.address.is_some()).count();
    let indices = received.into_iter().map(|each| match each.message {
        Message::Reply(reply) => {
            let bytes = sizes[reply.index as usize - 1];
            assert_eq!(reply.answer, Some(Outcome::Executed(Bytes::new(&vec![reply.index as u8; bytes]))));
            reply.index
        }
        other => panic!("{other:?}"),
    });
    (indices.collect(), in_datagrams)
}

/// Receives so many messages, while the other party does its part.
fn receive(at: &mut Transport, other: &mut Transport, received: &mut Vec<Received>, count: usize) {
    for _ in 0..10_000 {
        at.receive(Duration::from_millis(1), received).unwrap();
        at.flush();
        if received.len() >= count {
            return;
        }
        other.receive(Duration::ZERO, &mut Vec::<Received>::new()).unwrap();
        other.flush();
    }
    panic!("{} of {count} messages have come: {:?}, {:?}", received.len(), at.counts(), other.counts());
}

#[test]
fn small_messages_share_datagrams_and_calls() {
    let sizes: Vec<_> = (0..200).map(|n| n % 300).collect();
    let members = Arc::new(small_members(Network::Udp));
    let (indices, in_datagrams) = exchange((*members).clone(), &sizes);
    assert_eq!(indices, (1..=200).collect::<Vec<_>>());
    assert_eq!(in_datagrams, 200);
}

#[test]
fn clients_may_have_datagrams_of_their_own_and_servers_share_theirs() {
    let mut members = small_members(Network::Udp);
    members.cluster.replicas = 3;
    members.replicas =
        free_ports(3).into_iter().map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
    let members = Arc::new(members);
    let mut replica = Transport::bind(members.clone(), REPLICA, None).unwrap();
    let mut client = Transport::bind(members, CLIENT, None).unwrap();
    replica.unpack_clients();
    client.unpack_clients();
    let mut received = Vec::new();
    let asks = (0..10).map(|registration| (REPLICA, Message::SequencerRequest { registration }));
    client.send(asks);
    client.flush();
    receive(&mut replica, &mut client, &mut received, 10);
    assert_eq!(client.counts().calls.sent, 10, "those of a client");
    replica.send((1..=10).map(|index| (CLIENT, reply(index, 5))));
    replica.flush();
    assert_eq!(replica.counts().calls.sent, 10, "those to a client");
    let follower = Party::Replica(ReplicaId { shard: 0, number: 1 });
    replica.send((1..=10).map(|index| (follower, reply(index, 5))));
    replica.flush();
    assert_eq!(replica.counts().calls.sent, 11, "those of a server to a server");
}

#[test]
fn large_messages_go_over_streams() {
    let mut sizes = vec![10; 6];
    sizes.extend([5 << 20, 1 << 20, 1_500, 10]);
    // The client dials for them: a replica cannot dial a client.
    let members = Arc::new(small_members(Network::Udp));
    let mut replica = Transport::bind(members.clone(), REPLICA, None).unwrap();
    let mut client = Transport::bind(members, CLIENT, None).unwrap();
    let mut received = Vec::new();
    client.dial([REPLICA].into_iter());
    client.send([(REPLICA, Message::SequencerRequest { registration: 0 })].into_iter());
    client.flush();
    receive(&mut replica, &mut client, &mut received, 1);
    received.clear();
    // The hello of the stream may be behind the datagram.
    let large = || (CLIENT, reply(1, 5 << 20));
    for _ in 0..10_000 {
        let unsent = replica.counts().unsent;
        replica.send([large()].into_iter());
        replica.flush();
        if replica.counts().unsent == unsent {
            break;
        }
        client.receive(Duration::from_millis(1), &mut Vec::<Received>::new()).unwrap();
        client.flush();
        replica.receive(Duration::ZERO, &mut Vec::<Received>::new()).unwrap();
    }
    replica.send(sizes.iter().zip(1..).map(|(bytes, index)| (CLIENT, reply(index, *bytes))));
    replica.flush();
    receive(&mut client, &mut replica, &mut received, 1 + sizes.len());
    let streamed = received.iter().filter(|each| each.address.is_none()).count();
    assert_eq!((received.len(), streamed), (11, 4));
}

#[test]
fn without_udp_everything_goes_over_streams() {
    let sizes: Vec<_> = (0..100).map(|n| n * 50).chain([3 << 20]).collect();
    let (indices, in_datagrams) = exchange(small_members(Network::Tcp), &sizes);
    assert_eq!((indices, in_datagrams), ((1..=101).collect::<Vec<_>>(), 0));
}

#[test]
fn parties_of_another_cluster_are_not_heard() {
    for network in [Network::Udp, Network::Tcp] {
        let members = small_members(network);
        let strange = Members { tag: members.tag + 1, ..members.clone() };
        let mut replica = Transport::bind(Arc::new(members), REPLICA, None).unwrap();
        let mut client = Transport::bind(Arc::new(strange), CLIENT, None).unwrap();
        let mut received: Vec<Received> = Vec::new();
        for _ in 0..10_000 {
            client.send([(REPLICA, Message::SequencerRequest { registration: 0 })].into_iter());
            client.flush();
            replica.receive(Duration::from_millis(1), &mut received).unwrap();
            client.receive(Duration::ZERO, &mut received).unwrap();
            if replica.counts().ignored > 0 {
                break;
            }
        }
        assert!(replica.counts().ignored > 0 && received.is_empty(), "{network:?}");
    }
}
