//! TAPIR (Zhang et al. 2015; eris.txt §8): one round trip without a leader, optimistic concurrency control, and what makes it slow.

use std::collections::BTreeMap;

use weir_baselines::eris::faults::{Faults, NoFaults};
use weir_baselines::eris::operation::{Action, Operation};
use weir_baselines::eris::tapir::{Record, Tapir};
use weir_core::ids::TxnId;
use weir_ordered::cluster::{Cluster, ReplicaId};

use crate::lockstep::Lockstep;
use crate::world::profile::Profile;
use crate::world::{Checked, World};

impl<F: Faults> Checked for Tapir<F> {
    /// Committed attempts in the order of their timestamps, whenever they were committed.
    fn history(_id: ReplicaId, _cluster: Cluster, records: &[Record]) -> Vec<(TxnId, Operation)> {
        let mut committed = BTreeMap::new();
        let mut commit = |request: &weir_baselines::eris::tapir::Request| {
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
    let mut cluster = Lockstep::new(Tapir { faults: NoFaults }, 2);
    let one = cluster.run(&[Action::Write(0, 5)]);
    // A participant: a Prepare to each replica, its vote, the commit, and its acknowledgement.
    assert_eq!((one.delays, one.delays_until_rest, one.messages), (2, 4, 12), "{one:?}");
    let two = cluster.run(&[Action::Write(0, 6), Action::Write(1, 7)]);
    assert_eq!((two.delays, two.delays_until_rest, two.messages), (2, 4, 24), "{two:?}");
}

/// Reads are another round trip, to one replica of each shard.
#[test]
fn reads_take_a_round_trip_before() {
    let mut cluster = Lockstep::new(Tapir { faults: NoFaults }, 2);
    let seen = cluster.run(&[Action::Modify(0, 5), Action::Modify(1, 6)]);
    assert_eq!((seen.delays, seen.delays_until_rest, seen.messages), (4, 6, 28), "{seen:?}");
    assert_eq!(seen.completed.answers, [(0, vec![(0, 5)]), (1, vec![(1, 6)])].into());
    let read = cluster.run(&[Action::Read(0)]);
    assert_eq!((read.delays, read.messages), (4, 14), "{read:?}");
}

/// "Lock-Store and TAPIR … use the same coordination protocol for MRMW and CRMW" (eris.txt, Figure 9).
#[test]
fn general_transactions_cost_the_same() {
    let mut cluster = Lockstep::new(Tapir { faults: NoFaults }, 2);
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
        World::new(Tapir { faults: NoFaults }, 1, profile)
            .run()
            .unwrap_or_else(|violation| panic!("{violation:?}"))
            .aborts
    };
    let (few, many) = (aborts(4), aborts(1_000));
    assert!(few > 50 && many < few / 5, "{few} aborts with 4 keys, {many} with 1,000");
}
