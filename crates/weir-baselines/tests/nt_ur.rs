//! NT-UR (eris.txt §8): the least that any system does, and the first negative control of the checker.

use weir_baselines::eris::nt_ur::{Message, NtUr};
use weir_baselines::eris::operation::{Action, Empty, Operation};
use weir_core::ids::TxnId;
use weir_ordered::cluster::{Cluster, ReplicaId};

use crate::lockstep::Lockstep;
use crate::planted::caught;
use crate::world::profile::Profile;
use crate::world::{Checked, MessageOf, World};

impl Checked for NtUr {
    fn history(_id: ReplicaId, _cluster: Cluster, _records: &[()]) -> Vec<(TxnId, Operation)> {
        Vec::new()
    }

    fn executed(message: &MessageOf<Self>) -> Option<(TxnId, Operation)> {
        match message {
            Message::Execute { txn, operation, .. } => Some((*txn, operation.clone())),
            _ => None,
        }
    }
}

/// §8: "a single node per shard with no coordination, replication, or concurrency control": one round trip, two messages a participant.
#[test]
fn one_round_trip_and_two_messages_a_participant() {
    let mut cluster = Lockstep::new(NtUr { origin: Empty }, 2);
    let one = cluster.run(&[Action::Write(0, 5)]);
    assert_eq!((one.delays, one.messages), (2, 2));
    let two = cluster.run(&[Action::Modify(0, 7), Action::Modify(1, 3)]);
    assert_eq!((two.delays, two.messages), (2, 4));
    assert_eq!(two.completed.answers, [(0, vec![(0, 162)]), (1, vec![(1, 3)])].into());
}

/// §8.1: "NT-UR throughput also drops for the CRMW workload because data must be exchanged between shards".
#[test]
fn a_swap_over_two_shards_takes_two_rounds() {
    let mut cluster = Lockstep::new(NtUr { origin: Empty }, 2);
    cluster.run(&[Action::Write(0, 5), Action::Write(1, 6)]);
    let swap = cluster.run(&[Action::Swap(0, 1)]);
    assert_eq!((swap.delays, swap.messages), (4, 8));
    assert_eq!(swap.completed.answers, [(0, vec![(0, 6)]), (1, vec![(1, 5)])].into());
}

/// "provides neither consistency nor fault tolerance guarantees": the checker says so even without faults.
#[test]
fn nothing_is_serializable() {
    caught(NtUr { origin: Empty }, Profile { clients: 6, transactions: 100, ..Profile::calm() });
}

/// With one key an operation and no fault, order of arrival is serializable.
#[test]
fn operations_of_one_shard_are_serializable_without_faults() {
    for seed in 0..5 {
        let profile = Profile { shards: 1, ..Profile::calm() };
        World::new(NtUr { origin: Empty }, seed, profile)
            .run()
            .unwrap_or_else(|violation| panic!("{violation:?}"));
    }
}
