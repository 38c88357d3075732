//! The log of a shard of items, and recovery from it (docs/internals/items.md; soundness S16).
//!
//! This module says which records must be durable; the driver writes and syncs them. A shard without a log builds no records.

use serde::{Deserialize, Serialize};
use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::machine::Durable;
use weir_core::participant::{self, Outcome, Transactions as _};
use weir_core::readers::OverOf;
use weir_core::termination::Timeouts;

use super::bytes::Key;
use super::chain::Chain;
use super::faults::Faults;
use super::message::{Position, Stamp, Writes};
use super::partition::{Committed, Partition, Prepared};
use super::payload::Items;

/// One record of a shard's log, as it is stored: of all that the core logs, only commits have another form.
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

/// A commit, as the core logs it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LoggedCommit {
    /// Prepared and committed in one step, by its only participant.
    Written { stamp: Stamp, writes: Writes },
    /// It had prepared.
    Prepared(Stamp),
}

/// Items' snapshots have one part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NoPart {}

impl From<participant::Record<Items>> for Record {
    fn from(record: participant::Record<Items>) -> Record {
        use participant::Record as Of;
        match record {
            Of::Started { incarnation } => Record::Started { incarnation },
            Of::Prepared { txn, prepared } => Record::Prepared { txn, prepared },
            Of::Committed(LoggedCommit::Written { stamp, writes }) => Record::Written { stamp, writes },
            Of::Committed(LoggedCommit::Prepared(stamp)) => Record::Committed { stamp },
            Of::Refused { txn, answer: () } => Record::Aborted { txn },
            Of::Retired { coordinator } => Record::Retired { coordinator },
            Of::Snapshot(snapshot) => Record::Snapshot(snapshot),
            Of::Part(none) | Of::Rows { rows: none, .. } | Of::Ordered(none) => match none {},
        }
    }
}

impl From<Record> for participant::Record<Items> {
    fn from(record: Record) -> Self {
        use participant::Record as Of;
        match record {
            Record::Started { incarnation } => Of::Started { incarnation },
            Record::Written { stamp, writes } => Of::Committed(LoggedCommit::Written { stamp, writes }),
            Record::Prepared { txn, prepared } => Of::Prepared { txn, prepared },
            Record::Committed { stamp } => Of::Committed(LoggedCommit::Prepared(stamp)),
            Record::Aborted { txn } => Of::Refused { txn, answer: () },
            Record::Retired { coordinator } => Of::Retired { coordinator },
            Record::Snapshot(snapshot) => Of::Snapshot(snapshot),
        }
    }
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

impl<F: Faults> Durable for Partition<F> {
    type Record = Record;

    fn last_clock(&self) -> u64 {
        self.clock.last()
    }

    fn restore_clock(&mut self, clock: u64) {
        self.clock.restore(clock);
    }

    fn take_records(&mut self) -> Vec<Record> {
        let records = self
            .participant
            .log
            .take()
            .expect("items are loaded by transactions, so no snapshot replaces records");
        records.into_iter().map(Record::from).collect()
    }

    fn snapshot(&mut self) -> Record {
        let of = &self.participant;
        let mut committed: Vec<(TxnId, Committed)> =
            of.committed().iter().map(|(txn, one)| (*txn, one.clone())).collect();
        committed.sort_by_key(|(_, one)| one.stamp);
        Record::Snapshot(Box::new(Snapshot {
            incarnation: of.incarnation,
            clock: self.clock.last(),
            position: self.position,
            items: self.table.iter().map(|(key, chain)| (key.clone(), chain.clone())).collect(),
            // In clock order, so that equal shards have equal snapshots.
            prepared: of.in_prepare_order().map(|(txn, prepared)| (txn, prepared.clone())).collect(),
            committed,
            promises: of.outcomes.refused().collect(),
            outcomes: of.outcomes.committed().collect(),
            over: of.readers.over(),
            retired: of.outcomes.retired().collect(),
        }))
    }
}

impl<F: Faults> Partition<F> {
    /// Starts a shard with a log: empty without records, else recovered from the durable ones. Promised, prepared and committed state and
    /// the recorded answers are restored; only readers begin anew.
    pub fn recover(
        id: ShardId,
        bugs: F,
        timeouts: Timeouts,
        records: impl IntoIterator<Item = Record>,
    ) -> Partition<F> {
        let mut shard = Partition::new(id, bugs);
        shard.participant.timeouts = timeouts;
        for record in records {
            let Ok(()) = shard.replay(record.into());
        }
        if bugs.recovery_forgets_promises() {
            shard.participant.outcomes.lose(|outcome| outcome.clock.is_none());
        }
        if bugs.recovery_forgets_prepared() {
            let prepared: Vec<TxnId> = shard.participant.prepared().keys().copied().collect();
            prepared.into_iter().for_each(|txn| drop(shard.release(txn)));
        }
        shard.participant.start();
        shard
    }

    /// Turns logging off: a restart loses everything.
    pub fn without_log(mut self) -> Partition<F> {
        self.participant.log.stop();
        self
    }

    /// Restores the state of a snapshot.
    pub(super) fn restore(&mut self, snapshot: Snapshot) {
        let Snapshot { incarnation, clock, position, items, prepared, committed, .. } = snapshot;
        let timeouts = self.participant.timeouts;
        *self = Partition::new(self.id, self.bugs);
        (self.participant.timeouts, self.participant.incarnation) = (timeouts, incarnation);
        self.clock.restore(clock);
        self.position = position;
        for (key, chain) in items {
            if let Some(stamp) = chain.is_tombstone() {
                self.tombstones.push_back((stamp, key.clone()));
            }
            *self.table.at(&key) = chain;
        }
        prepared.into_iter().for_each(|(txn, one)| self.hold(txn, one));
        for (_, one) in committed.iter().filter(|(_, one)| one.siblings.is_some()) {
            for (key, _) in one.writes.iter() {
                if let Some(chain) = self.table.get_mut(key) {
                    chain.refresh(one.stamp);
                }
            }
        }
        self.participant.committed_mut().extend(committed);
        let refused = snapshot.promises.into_iter().map(|txn| (txn, None));
        let outcomes = snapshot.outcomes.into_iter().map(|(txn, clock)| (txn, Some(clock)));
        let outcomes = refused.chain(outcomes).map(|(txn, clock)| (txn, Outcome { clock, answer: () }));
        self.participant.restore(snapshot.over, outcomes, snapshot.retired);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Write};
    use weir_core::machine::Effects;

    /// The stored form and the core's form of a record convert into each other without loss.
    #[test]
    fn a_record_is_converted_without_loss() {
        let txn = |sequence| TxnId { coordinator: 7, sequence };
        let writes: Writes = vec![(Key::from("x"), Write::Add(1))].into();
        let stamp = Stamp { clock: 5, txn: txn(1) };
        let mut shard = Partition::recover(0, crate::faults::NoFaults, Timeouts::default(), []);
        let mut stored = shard.take_records();
        let request =
            crate::Request::Write { txn: txn(1), writes: writes.clone(), begun_ms: 1, guards: [].into() };
        use weir_core::machine::Shard as _;
        shard.step(1, weir_core::ids::Sender::Coordinator(7), request, &mut Effects::default());
        stored.extend(shard.take_records());
        assert!(matches!(&stored[..], [Record::Started { incarnation: 1 }, Record::Written { .. }]));
        stored.extend([
            Record::Committed { stamp },
            Record::Aborted { txn: txn(2) },
            Record::Retired { coordinator: 7 },
            shard.snapshot(),
        ]);
        for record in stored {
            let logged = participant::Record::<Items>::from(record.clone());
            assert_eq!(format!("{:?}", Record::from(logged)), format!("{record:?}"));
        }
    }
}
