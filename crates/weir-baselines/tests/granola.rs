//! Granola (Cowling and Liskov 2012; eris.txt §8): what voting on timestamps costs, and what it saves.

use weir_baselines::eris::faults::{Faults, NoFaults};
use weir_baselines::eris::granola::{Entry, Granola, Record};
use weir_baselines::eris::operation::{Action, Empty, Operation};
use weir_core::ids::TxnId;
use weir_ordered::cluster::{Cluster, ReplicaId};

use crate::lock_store::log_of;
use crate::lockstep::Lockstep;
use crate::world::profile::Profile;
use crate::world::{Checked, World};

impl<F: Faults> Checked for Granola<F> {
    /// Transactions in the order of their turns.
    fn history(_id: ReplicaId, _cluster: Cluster, records: &[Record]) -> Vec<(TxnId, Operation)> {
        let log = log_of(records);
        let requests = log.iter().filter_map(|entry| match entry {
            Entry::Proposed(request, _) => Some((request.txn, request.operation.clone())),
            _ => None,
        });
        let operations: std::collections::BTreeMap<_, _> = requests.collect();
        let turns = log.iter().filter_map(|entry| match entry {
            Entry::Final { txn, .. } => Some((*txn, operations[txn].clone())),
            _ => None,
        });
        turns.collect()
    }
}

/// "Single-repository transactions": the round trip of replication within that of the client.
#[test]
fn one_shard_takes_two_round_trips() {
    let mut cluster = Lockstep::new(Granola { faults: NoFaults, origin: Empty }, 2);
    let seen = cluster.run(&[Action::Modify(0, 5)]);
    assert_eq!(seen.delays, 4, "{seen:?}");
}

/// "Independent distributed transactions" take one message delay more: one round of votes between the participants.
#[test]
fn independent_transactions_take_one_round_of_votes_more() {
    let mut cluster = Lockstep::new(Granola { faults: NoFaults, origin: Empty }, 2);
    let seen = cluster.run(&[Action::Modify(0, 5), Action::Modify(1, 6)]);
    assert_eq!(seen.delays, 5, "{seen:?}");
    assert_eq!(seen.completed.answers, [(0, vec![(0, 5)]), (1, vec![(1, 6)])].into());
}

/// Coordinated transactions exchange what they have read, which is another round.
#[test]
fn coordinated_transactions_take_another_round() {
    let mut cluster = Lockstep::new(Granola { faults: NoFaults, origin: Empty }, 2);
    cluster.run(&[Action::Write(0, 5), Action::Write(1, 6)]);
    let seen = cluster.run(&[Action::Swap(0, 1)]);
    assert_eq!(seen.delays, 6, "{seen:?}");
    assert_eq!(seen.completed.answers, [(0, vec![(0, 6)]), (1, vec![(1, 5)])].into());
}

/// §8.1: "Granola uses timestamps to order independent transactions without locking": nothing aborts, however few the keys are.
#[test]
fn contention_aborts_nothing() {
    let profile = Profile { keys: 4, clients: 20, transactions: 100, general: 0, ..Profile::calm() };
    let counts = World::new(Granola { faults: NoFaults, origin: Empty }, 1, profile)
        .run()
        .unwrap_or_else(|each| panic!("{each:?}"));
    assert_eq!((counts.answered, counts.aborts), (2_000, 0));
}
