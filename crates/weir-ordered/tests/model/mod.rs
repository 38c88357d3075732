//! The exhaustive model: every order of messages, with a lost packet, a new learner and a new epoch, of the machines themselves.
//!
//! One replica of three of each shard is down, which is as many as may be. Synchronization, truncation, restarts and questions to peers are left
//! to the simulated world (docs/internals/ordered.md).

mod system;

use std::collections::BTreeMap;

use stateright::{Checker, HasDiscoveries, Model, Property};
use weir_core::ids::ShardId;
use weir_ordered::cluster::ReplicaId;
use weir_ordered::faults::{CoordinatorBugs, PlantedBugs};
use weir_ordered::packet::Stamp;
use weir_ordered::replica::Status;

use crate::world::SimReplica;
use system::{Hashed, Left, SOFT_MS, SUSPECT_MS, System};

/// Messages between replicas and the failure coordinator that arrive at once, in larger models. Packets, decisions and what replicas send each
/// other still come before or after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum AtOnce {
    Nothing,
    /// Its questions.
    Requests,
    /// Its questions, and the answers to them.
    Answers,
}

/// A model: how large, and what may happen.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub shards: ShardId,
    /// Replicas of each shard that are up, of three.
    pub live: u16,
    pub transactions: u8,
    pub at_once: AtOnce,
    pub left: Left,
    pub bugs: PlantedBugs,
    pub coordinator_bugs: CoordinatorBugs,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A message arrives.
    Deliver(u64),
    /// A packet is lost to the replicas of a shard that do not have it yet: of the first shard, since all are alike.
    Lose(Stamp, ShardId),
    /// A replica asks for what it lacks.
    Timer(ReplicaId),
    SuspectLearner(ReplicaId),
    SuspectSequencer,
}

impl Model for Bounds {
    type State = System;
    type Action = Action;

    fn init_states(&self) -> Vec<System> {
        vec![System::new(self)]
    }

    fn actions(&self, state: &System, actions: &mut Vec<Action>) {
        actions.extend(state.network.keys().map(|key| Action::Deliver(*key)));
        let may_lack = |replica: &SimReplica| replica.status() == Status::Normal || state.network.is_empty();
        let asking = state.replicas.iter().filter(|(_, replica)| may_lack(replica.get()));
        actions.extend(asking.map(|(id, _)| Action::Timer(*id)));
        if state.left.losses > 0 {
            actions.extend(state.stamped.iter().map(|(_, stamp)| Action::Lose(stamp.clone(), 0)));
        }
        if state.left.views > 0 {
            let followers = state.replicas.iter().filter(|(_, replica)| !replica.get().is_learner());
            actions.extend(followers.map(|(id, _)| Action::SuspectLearner(*id)));
        }
        if state.left.epochs > 0 {
            actions.push(Action::SuspectSequencer);
        }
    }

    fn next_state(&self, state: &System, action: Action) -> Option<System> {
        let mut next = state.clone();
        match action {
            Action::Deliver(key) => {
                let envelope = next.network.remove(&key)?;
                next.deliver(&envelope);
            }
            Action::Lose(stamp, shard) => {
                next.left.losses -= 1;
                next.lose(&stamp, shard);
                if next.network.keys().eq(state.network.keys()) {
                    return None;
                }
            }
            Action::Timer(id) => {
                next.replica_timer(id, SOFT_MS);
                if next.network.keys().eq(state.network.keys()) {
                    return None;
                }
            }
            Action::SuspectLearner(id) => {
                next.left.views -= 1;
                next.replica_timer(id, SUSPECT_MS);
            }
            Action::SuspectSequencer => {
                next.left.epochs -= 1;
                next.suspect_sequencer();
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("1: one packet a slot", |_, state: &System| state.has_one_packet_a_slot()),
            Property::always("2: what is told stays", |bounds: &Bounds, state: &System| {
                state.keeps_told(bounds)
            }),
            Property::always("3: all participants or none", |_, state: &System| state.is_whole()),
            Property::sometimes("a packet is answered", |_, state: &System| !state.told.is_empty()),
            Property::sometimes("a packet is dropped", |bounds: &Bounds, state: &System| {
                bounds.left.losses == 0 || !state.coordinator.get().dropped().is_empty()
            }),
            Property::sometimes("a lost packet is found", |bounds: &Bounds, state: &System| {
                let has_found = |each: &Hashed<_>| {
                    let replica: &SimReplica = each.get();
                    !replica.drops().found.is_empty()
                };
                bounds.left.losses == 0 || state.replicas.values().any(has_found)
            }),
            Property::sometimes("a view changes", |bounds: &Bounds, state: &System| {
                let changed = |replica: &Hashed<SimReplica>| {
                    replica.get().view() > 0 && replica.get().status() == Status::Normal
                };
                bounds.left.views == 0 || state.replicas.values().any(changed)
            }),
            Property::sometimes("an epoch changes", |bounds: &Bounds, state: &System| {
                bounds.left.epochs == 0 || state.replicas.values().all(|replica| replica.get().epoch() == 2)
            }),
            Property::sometimes("everything is decided", |_, state: &System| state.is_settled()),
        ]
    }
}

impl System {
    fn has_one_packet_a_slot(&self) -> bool {
        let mut logged: BTreeMap<_, &Stamp> = BTreeMap::new();
        let normal = self.replicas.iter().filter(|(_, replica)| replica.get().status() == Status::Normal);
        let entries = normal.flat_map(|(id, replica)| {
            let (replica, shard) = (replica.get(), id.shard);
            let stamps = replica.log().behind(0).filter_map(|(index, entry)| Some((index, entry.stamp()?)));
            stamps.map(move |(index, stamp)| ((shard, replica.epoch(), index), stamp))
        });
        entries.into_iter().all(|(place, stamp)| *logged.entry(place).or_insert(stamp) == stamp)
    }

    /// The logs of a majority of each participant have every answer that the client has been given.
    fn keeps_told(&self, bounds: &Bounds) -> bool {
        let has = |id: &ReplicaId, txn| {
            let mut packets = self.replicas[id].get().log().behind(0).filter_map(|(_, entry)| entry.packet());
            packets.any(|packet| packet.transaction.id == txn)
        };
        self.told.iter().all(|txn| {
            (0..bounds.shards).all(|shard| {
                let group = self.replicas.keys().filter(|id| id.shard == shard);
                group.filter(|id| has(id, *txn)).count() >= 2
            })
        })
    }

    /// Nothing is on its way, and each slot that was stamped is decided at each replica.
    fn is_settled(&self) -> bool {
        let epoch = self.replicas.values().map(|replica| replica.get().epoch()).max();
        self.network.is_empty()
            && self.replicas.values().all(|replica| {
                let replica = replica.get();
                let is_filled = replica.epoch() > 1 || replica.log().end() == self.stamped.len() as u64;
                Some(replica.epoch()) == epoch && replica.status() == Status::Normal && is_filled
            })
    }

    /// Once everything is decided, a packet is in the logs of all replicas, or in none; in none if the failure coordinator has dropped it.
    fn is_whole(&self) -> bool {
        let is_alike = |(_, stamp): &(_, Stamp)| {
            let has = |replica: &Hashed<SimReplica>| {
                replica.get().log().behind(0).any(|(_, entry)| entry.stamp() == Some(stamp))
            };
            let having = self.replicas.values().filter(|replica| has(replica)).count();
            let is_dropped = stamp.slots().any(|slot| self.coordinator.get().dropped().contains(&slot));
            having == 0 || having == self.replicas.len() && !is_dropped
        };
        !self.is_settled() || self.stamped.iter().all(is_alike)
    }
}

/// One transaction on all shards, of each of which two replicas are up.
fn bounds(shards: ShardId, (losses, views, epochs): (u8, u8, u8)) -> Bounds {
    Bounds {
        shards,
        live: 2,
        transactions: 1,
        at_once: AtOnce::Nothing,
        left: Left { losses, views, epochs },
        bugs: PlantedBugs::default(),
        coordinator_bugs: CoordinatorBugs::default(),
    }
}

fn explore(name: &str, bounds: Bounds) -> impl Checker<Bounds> {
    let checker = bounds.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, steps) = (checker.unique_state_count(), checker.state_count());
    println!("{name}: {states} states, {steps} steps, depth {}", checker.max_depth());
    checker
}

/// All states hold the invariants, and what may happen in the model does, in some of them.
fn check(name: &str, bounds: Bounds) {
    let checker = explore(name, bounds);
    assert!(checker.is_done(), "not all states were seen");
    checker.assert_properties();
}

/// A bug breaks an invariant.
fn caught(name: &str, invariant: &'static str, bounds: Bounds) {
    let checker = explore(name, bounds);
    assert!(checker.discovery(invariant).is_some(), "not caught");
}

#[test]
fn a_lost_packet_a_new_learner_and_a_new_epoch_of_one_shard() {
    check("one shard, all faults", bounds(1, (1, 1, 1)));
}

#[test]
fn a_lost_packet_of_two_shards() {
    check("two shards, a lost packet", Bounds { at_once: AtOnce::Requests, ..bounds(2, (1, 0, 0)) });
}

#[test]
fn a_lost_packet_and_a_new_epoch_of_two_shards() {
    let at_once = AtOnce::Answers;
    check("two shards, a lost packet and an epoch", Bounds { at_once, ..bounds(2, (1, 0, 1)) });
}

#[test]
fn a_new_learner_and_a_new_epoch_of_two_shards() {
    check("two shards, an epoch", bounds(2, (0, 0, 1)));
    check("two shards, a view and an epoch", Bounds { at_once: AtOnce::Requests, ..bounds(2, (0, 1, 1)) });
}

#[test]
fn bugs_are_caught() {
    let coordinator_bugs = CoordinatorBugs { starts_shards_apart: true, ..Default::default() };
    let apart = Bounds { coordinator_bugs, ..bounds(2, (0, 0, 1)) };
    caught("starts_shards_apart", "3: all participants or none", apart);
    let bugs = PlantedBugs { ignores_epoch_promise: true, ..Default::default() };
    caught("ignores_epoch_promise", "2: what is told stays", Bounds { bugs, ..bounds(1, (0, 0, 1)) });
}
