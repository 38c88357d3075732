//! TAPIR (Zhang et al. 2015; eris.txt §8): one round trip without a leader, optimistic concurrency control, and what makes it slow.

use std::collections::BTreeMap;

use weir_baselines::eris::faults::{Faults, NoFaults};
use weir_baselines::eris::machine::{Client as _, Completed, Effects, Protocol as _, Server as _};
use weir_baselines::eris::operation::{Action, Empty, Operation};
use weir_baselines::eris::tapir::{Client, Message, Record, Request, Server, Tapir};
use weir_core::ids::TxnId;
use weir_ordered::cluster::{Cluster, ReplicaId, Timeouts};
use weir_ordered::message::Party;

use crate::lockstep::Lockstep;
use crate::world::profile::Profile;
use crate::world::{Checked, World};

impl<F: Faults> Checked for Tapir<F> {
    /// Committed attempts in the order of their timestamps, whenever they were committed.
    fn history(_id: ReplicaId, _cluster: Cluster, records: &[Record]) -> Vec<(TxnId, Operation)> {
        let mut committed = BTreeMap::new();
        let mut commit = |request: &Request| {
            committed.insert((request.at, request.id), request.operation.clone());
        };
        for record in records {
            match record {
                Record::Decided(request, true) => commit(request),
                Record::Started(_, entries) => {
                    let entries = entries.iter().filter(|entry| entry.outcome == Some(true));
                    entries.for_each(|entry| commit(&entry.request));
                }
                _ => {}
            }
        }
        committed.into_iter().map(|((_, id), operation)| (id.txn, operation)).collect()
    }
}

/// "TAPIR can commit … in a single round-trip" (§1): a write that reads nothing, at one shard or at two.
#[test]
fn writes_take_one_round_trip() {
    let mut cluster = Lockstep::new(Tapir { faults: NoFaults, origin: Empty }, 2);
    let one = cluster.run(&[Action::Write(0, 5)]);
    // A participant: a Prepare to each replica, its vote, the commit, and its acknowledgement.
    assert_eq!((one.delays, one.delays_until_rest, one.messages), (2, 4, 12), "{one:?}");
    let two = cluster.run(&[Action::Write(0, 6), Action::Write(1, 7)]);
    assert_eq!((two.delays, two.delays_until_rest, two.messages), (2, 4, 24), "{two:?}");
}

/// Reads are another round trip, to one replica of each shard.
#[test]
fn reads_take_a_round_trip_before() {
    let mut cluster = Lockstep::new(Tapir { faults: NoFaults, origin: Empty }, 2);
    let seen = cluster.run(&[Action::Modify(0, 5), Action::Modify(1, 6)]);
    assert_eq!((seen.delays, seen.delays_until_rest, seen.messages), (4, 6, 28), "{seen:?}");
    assert_eq!(seen.completed.answers, [(0, vec![(0, 5)]), (1, vec![(1, 6)])].into());
    let read = cluster.run(&[Action::Read(0)]);
    assert_eq!((read.delays, read.messages), (4, 14), "{read:?}");
}

/// "Lock-Store and TAPIR … use the same coordination protocol for MRMW and CRMW" (eris.txt, Figure 9).
#[test]
fn general_transactions_cost_the_same() {
    let mut cluster = Lockstep::new(Tapir { faults: NoFaults, origin: Empty }, 2);
    cluster.run(&[Action::Write(0, 5), Action::Write(1, 6)]);
    let seen = cluster.run(&[Action::Swap(0, 1)]);
    assert_eq!((seen.delays, seen.delays_until_rest, seen.messages), (4, 6, 28), "{seen:?}");
    assert_eq!(seen.completed.answers, [(0, vec![(0, 6)]), (1, vec![(1, 5)])].into());
}

/// eris.txt §8.1: throughput falls at high contention because of "OCC aborts".
#[test]
fn contention_aborts() {
    let aborts = |keys| {
        let profile = Profile { keys, clients: 10, transactions: 50, general: 0, ..Profile::calm() };
        World::new(Tapir { faults: NoFaults, origin: Empty }, 1, profile)
            .run()
            .unwrap_or_else(|violation| panic!("{violation:?}"))
            .aborts
    };
    let (few, many) = (aborts(4), aborts(1_000));
    assert!(few > 50 && many < few / 5, "{few} aborts with 4 keys, {many} with 1,000");
}

/// A cluster whose messages are delivered in rounds, but for those that are kept back, with clients whose clocks need not agree.
struct Rounds {
    servers: BTreeMap<Party, Server<NoFaults>>,
    clients: BTreeMap<u64, Client<NoFaults>>,
    clocks: BTreeMap<u64, u64>,
    under_way: Vec<(Party, Party, Message)>,
}

impl Rounds {
    fn new(shards: u16, replicas: u16, clocks: &[u64]) -> Rounds {
        let cluster =
            Cluster { shards, replicas, timeouts: Timeouts::DEFAULT, truncate_entries: 10, aside_max: 10 };
        let tapir = Tapir { faults: NoFaults, origin: Empty };
        let server = |id| (Party::Replica(id), tapir.server(0, id, cluster, 1, &[]));
        let ids = 1..=clocks.len() as u64;
        Rounds {
            servers: cluster.all_replicas().map(server).collect(),
            clients: ids.clone().map(|id| (id, tapir.client(id, cluster))).collect(),
            clocks: ids.zip(clocks.iter().copied()).collect(),
            under_way: Vec::new(),
        }
    }

    fn take(&mut self, from: Party, out: Effects<Message>) {
        let messages = out.messages.into_iter().map(|each| (from, each.to, each.message));
        self.under_way.extend(messages);
    }

    fn begin(&mut self, client: u64, actions: &[Action]) {
        let mut out = Effects::default();
        let machine = self.clients.get_mut(&client).expect("a client");
        machine.begin(self.clocks[&client], Operation::new(actions), &mut out);
        self.take(Party::Client(client), out);
    }

    /// Delivers what is under way, but for messages that are kept back. Returns an answer that has come.
    fn deliver(&mut self, keeps: impl Fn(Party, Party, &Message) -> bool) -> Option<Completed> {
        let mut completed = None;
        for (from, to, message) in std::mem::take(&mut self.under_way) {
            if keeps(from, to, &message) {
                self.under_way.push((from, to, message));
                continue;
            }
            let mut out = Effects::default();
            match to {
                Party::Client(id) => {
                    let client = self.clients.get_mut(&id).expect("a client");
                    completed = client.step(self.clocks[&id], from, message, &mut out).or(completed);
                }
                _ => {
                    let server = self.servers.get_mut(&to).expect("a replica");
                    server.step(0, from, message, &mut out);
                    server.take_records();
                }
            }
            self.take(to, out);
        }
        completed
    }

    /// Delivers rounds until an answer comes, and returns it with their number.
    fn run(&mut self, keeps: impl Fn(Party, Party, &Message) -> bool) -> (Completed, u32) {
        let answer = (1..50).find_map(|round| Some((self.deliver(&keeps)?, round)));
        answer.expect("an answer")
    }
}

fn replica(shard: u16, number: u16) -> Party {
    Party::Replica(ReplicaId { shard, number })
}

/// §3.2: without a fast quorum, "the slow path" is a round trip more: a majority accepts the result.
#[test]
fn replicas_that_disagree_cost_a_round_trip() {
    let mut rounds = Rounds::new(1, 3, &[100, 500]);
    // The second client prepares a read at one replica only, above the timestamp of the first one's write.
    rounds.begin(2, &[Action::Read(0)]);
    let is_of_second = |from: Party, to: Party| [from, to].contains(&Party::Client(2));
    let reaches_one = |from, to, message: &Message| {
        let is_prepare = matches!(message, Message::Prepare(_));
        is_of_second(from, to)
            && (matches!(message, Message::Vote { .. }) || is_prepare && to != replica(0, 0))
    };
    rounds.begin(1, &[Action::Write(1, 1)]);
    let other = rounds.run(reaches_one);
    assert_eq!(other.1, 2, "a key that nobody else uses");
    rounds.begin(1, &[Action::Write(2, 1)]);
    rounds.run(reaches_one);
    rounds.begin(1, &[Action::Write(0, 5)]);
    let (completed, delays) = rounds.run(reaches_one);
    assert_eq!((delays, completed.aborts), (4, 0), "{completed:?}");
}

/// An order that timestamps alone allow ("timestamp inversion", Lu et al., OSDI 2023): a transaction reads what was before the first one, and writes
/// beside the second one, which begins when the first one was answered. Returns what it has read, and what is written at last.
fn between_two(clocks: &[u64]) -> (u64, u64) {
    let mut rounds = Rounds::new(2, 1, clocks);
    let is_late = |from, to, message: &Message| {
        from == Party::Client(3) && to == replica(1, 0) && matches!(message, Message::Prepare(_))
    };
    rounds.begin(3, &[Action::Read(0), Action::Write(1, 33)]);
    // It has read and is prepared at the first shard only.
    assert_eq!((0..4).find_map(|_| rounds.deliver(is_late)), None);
    for (client, action) in [(1, Action::Write(0, 11)), (2, Action::Write(1, 22))] {
        rounds.begin(client, &[action]);
        rounds.run(is_late);
    }
    let (completed, _) = rounds.run(|_, _, _| false);
    assert_eq!((completed.txn.coordinator, completed.aborts), (3, 0));
    while !rounds.under_way.is_empty() {
        rounds.deliver(|_, _, _| false);
    }
    (completed.answers[&0][0].1, rounds.servers[&replica(1, 0)].values().unwrap_or_default()[&1])
}

/// The first client is ahead and the second one behind: the third transaction is before the first and after the second.
#[test]
fn clocks_that_disagree_invert_real_time() {
    assert_eq!(between_two(&[1_000, 10, 500]), (0, 33));
}

/// The second transaction has the highest timestamp, so the third one is before both.
#[test]
fn clocks_that_agree_keep_real_time() {
    assert_eq!(between_two(&[1_000, 1_001, 500]), (0, 22));
}
