//! Ordered transactions in the frame of the comparators, and Eris-OUM beside them (eris.txt §5.1, §8.1).

use std::collections::BTreeSet;

use weir_baselines::eris::operation::{Empty, Operation, Registers};
use weir_baselines::eris::ordered::{Executor, Ordered, Record, Work, records_of_replica};
use weir_core::ids::TxnId;
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::faults::NoFaults;
use weir_ordered::packet::{Part, Transaction};
use weir_ordered::replica::Replica;

use crate::world::profile::Profile;
use crate::world::{Checked, World};

impl Checked for Ordered {
    /// The log, each transaction once, without those of other shards.
    fn history(id: ReplicaId, cluster: Cluster, records: &[Record]) -> Vec<(TxnId, Operation)> {
        let placement = weir_baselines::eris::operation::Placement { shards: cluster.shards };
        let records = records_of_replica(records);
        let registers = Executor(Registers::new(id.shard, placement));
        let replica: Replica<Executor<Registers>> =
            Replica::new(0, id, cluster, NoFaults, registers, (1, &records));
        let packets = replica.log().behind(0).filter_map(|(_, entry)| entry.packet());
        let transactions: Vec<_> = packets.map(|packet| &*packet.transaction).collect();
        let committed = committed(&transactions);
        let mut seen = BTreeSet::new();
        let is_own = |each: &&Transaction<Work>| {
            each.operation.operation().participants(placement).contains(&id.shard)
        };
        let has_effect = |each: &&Transaction<Work>| match each.part {
            Part::Independent => true,
            Part::Preliminary => committed.contains(&each.id),
            Part::Conclusory { .. } | Part::ReplicaAbort => false,
        };
        let own = transactions.into_iter().filter(is_own).filter(has_effect);
        let first = own.filter(|each| seen.insert(each.id));
        first.map(|each| (each.id, each.operation.operation().clone())).collect()
    }
}

/// General transactions that commit: the first part that ends one decides.
fn committed(transactions: &[&Transaction<Work>]) -> BTreeSet<TxnId> {
    let (mut seen, mut open, mut committed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for transaction in transactions {
        let Some(general) = transaction.general() else { continue };
        match transaction.part {
            Part::Preliminary if seen.insert(general) => drop(open.insert(general)),
            Part::Conclusory { commits, .. } if open.remove(&general) && commits => {
                committed.insert(general);
            }
            Part::ReplicaAbort => drop(open.remove(&general)),
            _ => {}
        }
    }
    committed
}

/// Messages of an answered transaction in a calm cluster.
fn messages(is_global: bool, shards: u16) -> f64 {
    let profile = Profile { shards, general: 0, keys: 64, transactions: 100, clients: 10, ..Profile::calm() };
    let counts = World::new(Ordered { is_global, origin: Empty }, 1, profile)
        .run()
        .unwrap_or_else(|each| panic!("{each:?}"));
    counts.messages as f64 / counts.answered as f64
}

/// §5.1: total global sequencing "requires every server to receive every message involving any shard in the system".
#[test]
fn one_sequence_for_all_sends_everything_to_everybody() {
    let (few, many) = (messages(true, 2) - messages(false, 2), messages(true, 16) - messages(false, 16));
    // A transaction has up to two participants; 3 replicas of each of the others receive it, too. Packets that come in another order are
    // asked of peers, and more of them do where everybody receives all.
    assert!(few > 0.5 && few < 6.0, "{few} messages more");
    assert!(many > 40.0, "{many} messages more");
}
