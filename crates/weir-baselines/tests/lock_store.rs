//! Lock-Store (eris.txt §8): what two-phase commit over replicated leaders costs, and what locks do under contention.

use weir_baselines::eris::faults::{Faults, NoFaults};
use weir_baselines::eris::lock_store::{Entry, LockStore, Record};
use weir_baselines::eris::operation::{Action, Empty, Operation};
use weir_baselines::eris::vr;
use weir_core::ids::TxnId;
use weir_ordered::cluster::{Cluster, ReplicaId};

use crate::lockstep::Lockstep;
use crate::world::profile::Profile;
use crate::world::{Checked, World};

/// The log that records say.
pub fn log_of<E: Clone>(records: &[vr::Record<E>]) -> Vec<E> {
    let mut log: Vec<E> = Vec::new();
    for record in records {
        match record {
            vr::Record::Appended(entry) => log.push(entry.clone()),
            vr::Record::Promised(_) => {}
            vr::Record::Started(_, started) => {
                log.truncate(started.base() as usize);
                log.extend_from_slice(started.behind(started.base()));
            }
        }
    }
    log
}

impl<F: Faults> Checked for LockStore<F> {
    /// Committed transactions, in the order in which they have got their locks.
    fn history(_id: ReplicaId, _cluster: Cluster, records: &[Record]) -> Vec<(TxnId, Operation)> {
        let log = log_of(records);
        let mut prepared = std::collections::BTreeMap::new();
        let mut history = Vec::new();
        for (index, entry) in log.iter().enumerate() {
            match entry {
                Entry::Executed(request) => history.push((index, request)),
                Entry::Prepared(request) => {
                    _ = prepared.insert((request.txn, request.attempt), (index, request))
                }
                Entry::Finished { txn, attempt, commit: Some(_) } => {
                    history.extend(prepared.remove(&(*txn, *attempt)));
                }
                Entry::Finished { .. } | Entry::Refused(_) => {}
            }
        }
        history.sort_by_key(|(index, _)| *index);
        history.into_iter().map(|(_, request)| (request.txn, request.operation.clone())).collect()
    }
}

/// A transaction of one shard takes the round trip of replication within that of the client.
#[test]
fn one_shard_takes_two_round_trips() {
    let mut cluster = Lockstep::new(LockStore { faults: NoFaults, origin: Empty }, 2);
    let seen = cluster.run(&[Action::Modify(0, 5)]);
    // Request, two messages to followers, their answers, the answer.
    assert_eq!((seen.delays, seen.messages), (4, 6));
    assert_eq!(seen.completed.answers, [(0, vec![(0, 5)])].into());
}

/// Two-phase commit over replicated participants: both phases are replicated. The client is answered after the first.
#[test]
fn two_shards_replicate_both_phases() {
    let mut cluster = Lockstep::new(LockStore { faults: NoFaults, origin: Empty }, 2);
    let seen = cluster.run(&[Action::Modify(0, 5), Action::Modify(1, 6)]);
    // A participant: request, two to followers, two acknowledgements, the vote; then the same for the decision.
    assert_eq!((seen.delays, seen.delays_until_rest, seen.messages), (4, 8, 24));
    assert_eq!(seen.completed.answers, [(0, vec![(0, 5)]), (1, vec![(1, 6)])].into());
}

/// "Lock-Store … use[s] the same coordination protocol for MRMW and CRMW" (Figure 9).
#[test]
fn general_transactions_cost_the_same() {
    let mut cluster = Lockstep::new(LockStore { faults: NoFaults, origin: Empty }, 2);
    cluster.run(&[Action::Write(0, 5), Action::Write(1, 6)]);
    let seen = cluster.run(&[Action::Swap(0, 1)]);
    assert_eq!((seen.delays, seen.delays_until_rest, seen.messages), (4, 8, 24));
    assert_eq!(seen.completed.answers, [(0, vec![(0, 6)]), (1, vec![(1, 5)])].into());
}

/// §8.1: throughput falls at high contention "due to frequent lock conflicts": attempts are refused, and more of them the fewer the keys.
#[test]
fn contention_aborts() {
    let aborts = |keys| {
        let profile = Profile { keys, clients: 10, transactions: 50, general: 0, ..Profile::calm() };
        World::new(LockStore { faults: NoFaults, origin: Empty }, 1, profile)
            .run()
            .unwrap_or_else(|violation| panic!("{violation:?}"))
            .aborts
    };
    let (few, many) = (aborts(4), aborts(1_000));
    assert!(few > 300 && many < few / 10, "{few} aborts with 4 keys, {many} with 1,000");
}
