//! The log of a shard of items, and recovery from it (docs/internals/items.md; soundness S16).
//!
//! This module says which records must be durable; the driver writes and syncs them. A shard without a log builds no records.

use super::bytes::Key;
use super::chain::Chain;
use super::message::{Position, Stamp, Writes};

use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::lsn::Lsn;
use weir_core::machine::Durable;
use weir_core::readers::OverOf;

use super::partition::{Committed, Partition, PlantedBugs, Prepared};
use super::termination::Timeouts;
use super::undecided::Undecided;
use serde::{Deserialize, Serialize};

/// One record of a shard's log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Record {
    /// The shard has started, for the `incarnation`-th time.
    Started {
        incarnation: u64,
    },
    /// Prepared and committed in one step, by its only participant.
    Written {
        stamp: Stamp,
        writes: Writes,
    },
    Prepared {
        txn: TxnId,
        prepared: Prepared,
    },
    Committed {
        stamp: Stamp,
    },
    /// It never commits here: a prepared transaction is void, and an unprepared one will not be accepted.
    Aborted {
        txn: TxnId,
    },
    /// Nothing of this coordinator is accepted any more.
    Retired {
        coordinator: CoordinatorId,
    },
    /// Replaces all earlier records.
    Snapshot(Box<Snapshot>),
}

/// State of a shard, without the bookkeeping that only its current readers need.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    incarnation: u64,
    clock: u64,
    position: Position,
    items: Vec<(Key, Chain)>,
    prepared: Vec<(TxnId, Prepared)>,
    committed: Vec<(TxnId, Committed)>,
    promises: Vec<TxnId>,
    outcomes: Vec<(TxnId, u64)>,
    over: Vec<OverOf>,
    retired: Vec<CoordinatorId>,
}

impl Durable for Partition {
    type Record = Record;

    fn last_clock(&self) -> u64 {
        self.clock.last()
    }

    fn restore_clock(&mut self, clock: u64) {
        self.clock.restore(clock);
    }

    fn take_records(&mut self) -> Vec<Record> {
        self.taken = self.noted();
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn snapshot(&mut self) -> Record {
        let mut committed: Vec<(TxnId, Committed)> =
            self.committed.iter().map(|(txn, one)| (*txn, one.clone())).collect();
        committed.sort_by_key(|(_, one)| one.stamp);
        Record::Snapshot(Box::new(Snapshot {
            incarnation: self.incarnation,
            clock: self.clock.last(),
            position: self.position,
            items: self.table.iter().map(|(key, chain)| (key.clone(), chain.clone())).collect(),
            // In clock order, so that equal shards have equal snapshots.
            prepared: self.undecided.iter().map(|(_, txn)| (txn, self.prepared[&txn].clone())).collect(),
            committed,
            promises: self.promises.iter().copied().collect(),
            outcomes: self.outcomes.iter().map(|(txn, clock)| (*txn, *clock)).collect(),
            over: self.readers.over(),
            retired: self.retired.iter().copied().collect(),
        }))
    }
}

impl Partition {
    /// Position after the last record noted.
    pub(super) fn noted(&self) -> Lsn {
        self.taken.plus(self.log.as_ref().map_or(0, Vec::len))
    }

    /// Starts a shard with a log: empty without records, else recovered from the durable ones. Promised, prepared and committed state and
    /// the recorded answers are restored; only readers begin anew.
    pub fn recover(
        id: ShardId,
        bugs: PlantedBugs,
        timeouts: Timeouts,
        records: impl IntoIterator<Item = Record>,
    ) -> Partition {
        let mut shard = Partition { timeouts, ..Partition::new(id, bugs) };
        records.into_iter().for_each(|record| shard.replay(record));
        if bugs.recovery_forgets_promises {
            shard.promises.clear();
        }
        if bugs.recovery_forgets_prepared {
            shard.prepared.clear();
            shard.undecided = Undecided::default();
            shard.guarded.clear();
        }
        shard.incarnation += 1;
        shard.readers.restart(shard.incarnation);
        shard.drain_what_is_settled();
        shard.log = Some(vec![Record::Started { incarnation: shard.incarnation }]);
        shard
    }

    /// Turns logging off: a restart loses everything.
    pub fn without_log(self) -> Partition {
        Partition { log: None, ..self }
    }

    fn replay(&mut self, record: Record) {
        match record {
            Record::Started { incarnation } => self.incarnation = incarnation,
            Record::Written { stamp, writes } => {
                self.clock.restore(stamp.clock);
                self.on_write(stamp, writes);
            }
            Record::Prepared { txn, prepared } => {
                self.clock.restore(prepared.clock);
                self.readers.know(txn.coordinator);
                self.on_prepare(txn, prepared);
            }
            Record::Committed { stamp } => {
                self.clock.restore(stamp.clock);
                self.commit(stamp);
            }
            Record::Aborted { txn } => {
                if !self.abort(txn) {
                    self.promise(txn);
                }
            }
            Record::Retired { coordinator } => {
                // The coordinator has no unfinished transactions, so its commits were settled.
                let of_it = self.committed.iter_mut().filter(|(txn, _)| txn.coordinator == coordinator);
                of_it.for_each(|(_, one)| one.settled = true);
                self.forget_coordinator(coordinator);
            }
            Record::Snapshot(snapshot) => self.restore(*snapshot),
        }
    }

    fn restore(&mut self, snapshot: Snapshot) {
        let Snapshot { incarnation, clock, position, items, prepared, committed, .. } = snapshot;
        *self = Partition { timeouts: self.timeouts, ..Partition::new(self.id, self.bugs) };
        self.incarnation = incarnation;
        self.clock.restore(clock);
        self.position = position;
        for (key, chain) in items {
            if let Some(stamp) = chain.is_tombstone() {
                self.tombstones.push_back((stamp, key.clone()));
            }
            *self.table.at(&key) = chain;
        }
        for (txn, one) in &prepared {
            self.undecided.insert(one.clock, *txn);
            self.guarded.extend(one.guarded.iter().cloned());
        }
        self.prepared.extend(prepared);
        for (_, one) in committed.iter().filter(|(_, one)| one.siblings.is_some()) {
            for (key, _) in one.writes.iter() {
                if let Some(chain) = self.table.get_mut(key) {
                    chain.refresh(one.stamp);
                }
            }
        }
        self.committed.extend(committed);
        self.promises.extend(snapshot.promises);
        self.outcomes.extend(snapshot.outcomes);
        self.retired.extend(snapshot.retired);
        self.readers.restore(snapshot.over);
    }

    /// Puts all settled transactions into the first drain epoch: there are no readers yet.
    fn drain_what_is_settled(&mut self) {
        let settled = self.committed.iter().filter(|(_, one)| one.settled);
        let mut settled: Vec<(Stamp, TxnId)> = settled.map(|(txn, one)| (one.stamp, *txn)).collect();
        settled.sort_unstable();
        self.draining.restart(self.readers.epoch(), settled.into_iter().map(|(_, txn)| txn));
    }
}
