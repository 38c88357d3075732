//! Checks of messages of other processes: a message that passes them breaks no arithmetic and no invariant of a stamp, a transaction or a
//! log, whoever has sent it. Whether it is true, nobody can check.

use weir_core::ids::{ShardId, TxnId};

use crate::cluster::{Cluster, ReplicaId};
use crate::message::{Message, Party};
use crate::packet::{Cut, Index, Packet, Part, Slot, Stamp, Transaction};
use crate::raft_message::RaftMessage;
use crate::replica::Drops;
use crate::replica::locks::Locks;
use crate::replica::log::{Entry, Log};

/// Largest number in a message that names no party: so no sum of two overflows.
const NUMBER_MAX: u64 = u64::MAX / 4;

type Checked = Result<(), &'static str>;

fn check(is_right: bool, otherwise: &'static str) -> Checked {
    if is_right { Ok(()) } else { Err(otherwise) }
}

fn numbers(numbers: &[u64]) -> Checked {
    check(numbers.iter().all(|number| *number <= NUMBER_MAX), "a number beyond all")
}

/// Entries follow each other, behind the index of their message.
fn check_raft(message: &RaftMessage) -> Checked {
    let RaftMessage { from, to, term, log_term, index, commit, commit_term, reject_hint, .. } = message;
    numbers(&[*from, *to, *term, *log_term, *index, *commit, *commit_term, *reject_hint])?;
    message.entries.iter().try_for_each(|entry| numbers(&[entry.term]))?;
    message.snapshot.iter().try_for_each(|snapshot| numbers(&[snapshot.term, snapshot.index]))?;
    let follow =
        message.entries.iter().map(|entry| entry.index).eq((index + 1..).take(message.entries.len()));
    check(follow, "entries that do not follow each other")
}

impl Cluster {
    /// # Errors
    /// The sender is no party of this cluster.
    pub fn check_party(&self, party: Party) -> Checked {
        match party {
            Party::Replica(id) => self.check_replica(id),
            Party::Client(_)
            | Party::Sequencer(_)
            | Party::FailureCoordinator
            | Party::CoordinatorNode(_) => Ok(()),
        }
    }

    /// # Errors
    /// The message makes no sense; why.
    pub fn check_message<O: Clone, R, S>(&self, message: &Message<O, R, S>) -> Checked {
        match message {
            Message::Submit(transaction) => self.check_transaction(transaction),
            Message::Packet(packet)
            | Message::SlotFound(packet)
            | Message::HasTxn(packet)
            | Message::TxnFound(packet) => self.check_packet(packet),
            Message::Reply(reply) => numbers(&[reply.txn.sequence, reply.epoch, reply.view, reply.index]),
            Message::SequencerRequest { registration }
            | Message::Registered { registration }
            | Message::Retired { registration } => numbers(&[*registration]),
            Message::NewSequencer { epoch, client_floor, .. } => numbers(&[*epoch, *client_floor]),
            Message::SequencerAlive { epoch, counters, client_floor } => {
                numbers(&[*epoch, *client_floor])?;
                self.check_cut(counters)
            }
            Message::SlotRequest { slot }
            | Message::SlotDropped { slot }
            | Message::FindTxn { slot }
            | Message::TxnRequest { slot }
            | Message::TxnDropped { slot } => self.check_slot(*slot),
            Message::TempDropped { slot, view } => {
                numbers(&[*view])?;
                self.check_slot(*slot)
            }
            Message::ViewChange { epoch, view, state } | Message::StartView { epoch, view, state } => {
                numbers(&[*epoch, *view])?;
                self.check_drops(&state.drops)?;
                self.check_log(&state.log)
            }
            Message::SyncPrepare { epoch, view, index, no_ops, complete_from } => {
                numbers(&[*epoch, *view, *index, *complete_from])?;
                no_ops.iter().try_for_each(|slot| self.check_slot(*slot))
            }
            Message::SyncAck { epoch, view, index, end } => numbers(&[*epoch, *view, *index, *end]),
            Message::SyncCommit { epoch, view, index } => numbers(&[*epoch, *view, *index]),
            Message::EpochChangeRequest { epoch }
            | Message::EpochStateRequest { epoch }
            | Message::EpochStarted { epoch } => numbers(&[*epoch]),
            Message::EpochState { epoch, started, view, log } => {
                numbers(&[*epoch, *started, *view])?;
                self.check_log(log)
            }
            Message::StartEpoch { epoch, view, log } => {
                numbers(&[*epoch, *view])?;
                self.check_log(log)
            }
            Message::JoinRequest { disk, synchronized } => numbers(&[*disk, *synchronized]),
            Message::Behind { disk, index } => numbers(&[*disk, *index]),
            Message::Joined { disk, epoch } => numbers(&[*disk, *epoch]),
            Message::Synchronized { epoch, sequence } => numbers(&[*epoch, *sequence]),
            Message::Stable { epoch, cut } => {
                numbers(&[*epoch])?;
                self.check_cut(cut)
            }
            Message::Truncated { epoch, index } => numbers(&[*epoch, *index]),
            Message::StateRequest { index } => numbers(&[*index]),
            Message::State { epoch, checkpoint, log } => {
                numbers(&[*epoch, checkpoint.index])?;
                self.check_log(log)?;
                let is_of_index = log.end() == checkpoint.index && log.base() <= checkpoint.index;
                check(is_of_index, "a log that does not end with its checkpoint")?;
                let mut clients = checkpoint.clients.values();
                let is_sorted =
                    clients.all(|client| client.answers.iter().is_sorted_by(|(a, _), (b, _)| a < b));
                check(is_sorted, "a client table whose answers do not ascend")?;
                self.check_locks(&checkpoint.locks, checkpoint.index)
            }
            Message::Settled { txn, .. } => numbers(&[txn.sequence]),
            Message::Reconnaissance { number, .. } | Message::Reconnoitred { number, .. } => {
                numbers(&[*number])
            }
            Message::Raft(message) => check_raft(message),
        }
    }

    fn check_shard(&self, shard: ShardId) -> Checked {
        check(shard < self.shards, "a shard that the cluster has not")
    }

    fn check_replica(&self, id: ReplicaId) -> Checked {
        self.check_shard(id.shard)?;
        check(id.number < self.replicas, "a replica that the cluster has not")
    }

    fn check_slot(&self, slot: Slot) -> Checked {
        self.check_shard(slot.shard)?;
        numbers(&[slot.epoch, slot.sequence])?;
        check(slot.epoch > 0 && slot.sequence > 0, "a slot before the first")
    }

    fn check_stamp(&self, stamp: &Stamp) -> Checked {
        let is_ascending = stamp.sequences.is_sorted_by(|(a, _), (b, _)| a < b);
        check(is_ascending && !stamp.sequences.is_empty(), "a stamp whose shards do not ascend")?;
        stamp.slots().try_for_each(|slot| self.check_slot(slot))
    }

    /// # Errors
    /// The transaction makes no sense in this cluster.
    pub fn check_transaction<O>(&self, transaction: &Transaction<O>) -> Checked {
        let Transaction { id: TxnId { sequence, .. }, floor, registration, destinations, part, .. } =
            transaction;
        numbers(&[*sequence, *floor, *registration])?;
        let is_early = matches!(part, Part::Conclusory { preliminary, .. } if preliminary >= sequence);
        check(!is_early, "a conclusory part before its preliminary part")?;
        check(floor <= sequence, "a transaction below its own floor")?;
        let is_ascending = destinations.is_sorted_by(|a, b| a < b);
        check(is_ascending && !destinations.is_empty(), "destinations that do not ascend")?;
        destinations.iter().try_for_each(|shard| self.check_shard(*shard))
    }

    fn check_packet<O>(&self, packet: &Packet<O>) -> Checked {
        numbers(&[packet.client_floor])?;
        self.check_stamp(&packet.stamp)?;
        self.check_transaction(&packet.transaction)?;
        let stamped = packet.stamp.sequences.iter().map(|(shard, _)| shard);
        check(stamped.eq(packet.transaction.destinations.iter()), "a stamp for other shards")
    }

    fn check_locks<O>(&self, locks: &Locks<O>, index: Index) -> Checked {
        locks.claims().try_for_each(|(waits, claim)| {
            check(waits.is_none_or(|at| at <= index), "a transaction that waits before its turn")?;
            check(claim.footprint.is_sorted(), "a footprint whose items do not ascend")?;
            self.check_transaction(&claim.transaction)
        })
    }

    fn check_cut(&self, cut: &Cut) -> Checked {
        cut.sequences().try_for_each(|(shard, sequence)| {
            self.check_shard(shard)?;
            numbers(&[sequence])
        })
    }

    fn check_drops(&self, drops: &Drops) -> Checked {
        let mut slots = drops.temporary.iter().chain(&drops.permanent).chain(&drops.found);
        slots.try_for_each(|slot| self.check_slot(*slot))
    }

    fn check_log<O: Clone>(&self, log: &Log<O>) -> Checked {
        numbers(&[log.base(), log.epoch_start()])?;
        numbers(&[log.end()])?;
        check(log.epoch_start() <= log.end(), "a log that ends before its epoch")?;
        log.behind(0)
            .filter_map(|(_, entry)| Entry::packet(entry))
            .try_for_each(|packet| self.check_packet(packet))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::Timeouts;
    use crate::packet::Sequence;

    const CLUSTER: Cluster =
        Cluster { shards: 3, replicas: 3, timeouts: Timeouts::DEFAULT, truncate_entries: 1, aside_max: 2 };

    fn packet(sequences: &[(ShardId, Sequence)], destinations: &[ShardId]) -> Message<(), (), ()> {
        let stamp = Stamp { epoch: 1, sequences: sequences.into() };
        let id = TxnId { coordinator: u64::MAX, sequence: 4 };
        let part = Part::Independent;
        let transaction = Transaction {
            id,
            floor: 4,
            registration: 1,
            destinations: destinations.into(),
            part,
            operation: (),
        };
        Message::Packet(Packet { stamp, client_floor: 0, transaction: Arc::new(transaction) })
    }

    #[test]
    fn stamps_name_the_destinations_in_order() {
        type Case<'a> = (&'a [(ShardId, Sequence)], &'a [ShardId], bool);
        let cases: [Case<'_>; 7] = [
            (&[(0, 1), (2, 5)], &[0, 2], true),
            (&[(2, 5), (0, 1)], &[0, 2], false),
            (&[(0, 1)], &[0, 2], false),
            (&[(0, 1), (3, 1)], &[0, 3], false),
            (&[(0, 0)], &[0], false),
            (&[(0, u64::MAX)], &[0], false),
            (&[], &[], false),
        ];
        for (sequences, destinations, is_right) in cases {
            let checked = CLUSTER.check_message(&packet(sequences, destinations));
            assert_eq!(checked.is_ok(), is_right, "{sequences:?} {destinations:?}: {checked:?}");
        }
    }

    #[test]
    fn a_replica_is_one_of_the_cluster() {
        let replica = |shard, number| Party::Replica(ReplicaId { shard, number });
        assert_eq!(
            [(2, 2), (3, 0), (0, 3)]
                .map(|(shard, number)| CLUSTER.check_party(replica(shard, number)).is_ok()),
            [true, false, false]
        );
    }
}
