//! The log of ordered calls: records of the replica and of the failure coordinator, and of what is executed.
//!
//! All are in the shard's log. A crash keeps a prefix of it, so an operation whose execution is durable was delivered durably before.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use weir_core::ids::{CoordinatorId, TxnId};
use weir_core::participant::{OverOfRetired, Participates as _, Transactions as _};
use weir_ordered::failure_coordinator;
use weir_ordered::packet::Index;
use weir_ordered::replica::RecordOf;
use weir_types::SqlError;

use super::execution::Deliveries;
use crate::faults::Faults;
use crate::message::{Operation, Reply};
use crate::shard::log::{LoggedCommit, Prepare, Record, Snapshot};
use crate::shard::node::Node;

/// One record of ordered calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum OrderedRecord {
    Replica(Box<RecordOf<Deliveries>>),
    FailureCoordinator(Box<failure_coordinator::Record<Operation>>),
    /// The call at that index is executed, and has changed something.
    Committed {
        index: Index,
        txn: TxnId,
        commit: Box<LoggedCommit>,
    },
    /// The call at that index is executed, and has changed nothing; with its answer.
    Unchanged {
        index: Index,
        txn: TxnId,
        reply: Box<Reply>,
    },
    /// The turn of a transaction that runs under locks has come. Its place survives a restart: with another one, behind calls that its first
    /// place holds up at other shards, all would wait for each other.
    Entered(TxnId),
    /// These have ended.
    Left(Vec<TxnId>),
    /// Replaces all earlier records.
    Snapshot(Box<(Snapshot, Whole)>),
    /// This shard has prepared the call at that index, and votes for it.
    Voted {
        index: Index,
        txn: TxnId,
        prepared: Prepare,
    },
    /// All participants have voted for the call, which was prepared.
    Accepted {
        txn: TxnId,
        commit: Box<LoggedCommit>,
    },
    /// Replaces all earlier records; with the call that this shard has voted for and that is not decided.
    UndecidedSnapshot(Box<(Snapshot, Whole, TxnId)>),
}

/// The state of ordered calls in a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Whole {
    replica: RecordOf<Deliveries>,
    home: Option<failure_coordinator::Record<Operation>>,
    executed: Index,
    /// Calls that other participants may not have executed.
    unsettled: Vec<TxnId>,
    /// Transactions that were over at this shard when their coordinators were retired.
    over: Vec<(CoordinatorId, OverOfRetired)>,
    /// Transactions under locks that have entered and not ended.
    entered: Vec<TxnId>,
}

/// What has been read of a log.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    pub(super) replica: Vec<RecordOf<Deliveries>>,
    pub(super) home: Vec<failure_coordinator::Record<Operation>>,
    pub(super) executed: Index,
    entered: BTreeSet<TxnId>,
    /// The last call that this shard has voted for. It is undecided if it is still prepared.
    voted: Option<TxnId>,
}

impl<F: Faults> Node<F> {
    /// Notes the records of the parties that live here.
    pub(super) fn note_ordering(&mut self) {
        let Some(ordering) = &mut self.ordering else { return };
        let log = &mut self.participant.log;
        for record in ordering.replica.take_records() {
            log.push(Record::Ordered(Box::new(OrderedRecord::Replica(Box::new(record)))));
        }
        let Some(home) = &mut ordering.home else { return };
        for record in home.coordinator.take_records() {
            log.push(Record::Ordered(Box::new(OrderedRecord::FailureCoordinator(Box::new(record)))));
        }
    }

    pub(in crate::shard) fn replay_ordered(&mut self, record: OrderedRecord) -> Result<(), SqlError> {
        match record {
            OrderedRecord::Replica(record) => self.replayed().replica.push(*record),
            OrderedRecord::FailureCoordinator(record) => self.replayed().home.push(*record),
            OrderedRecord::Committed { index, txn, commit } => {
                self.replayed().executed = index;
                self.restore_commit(commit)?;
                self.is_in_order(txn);
            }
            OrderedRecord::Unchanged { index, txn, reply } => {
                self.replayed().executed = index;
                self.participant.note_unchanged(txn, Some(reply));
            }
            OrderedRecord::Entered(txn) => {
                self.replayed().entered.insert(txn);
            }
            OrderedRecord::Left(txns) => {
                self.replayed().entered.retain(|txn| !txns.contains(txn));
            }
            OrderedRecord::Voted { index, txn, prepared } => {
                self.participant.readers.know(txn.coordinator);
                let prepared = self.restore_prepared(txn, prepared)?;
                self.hold(txn, prepared);
                let replayed = self.replayed();
                (replayed.executed, replayed.voted) = (index, Some(txn));
            }
            OrderedRecord::Accepted { txn, commit } => {
                self.restore_commit(commit)?;
                self.is_in_order(txn);
            }
            OrderedRecord::Snapshot(whole) => self.replay_snapshot(whole.0, whole.1)?,
            OrderedRecord::UndecidedSnapshot(whole) => {
                let (snapshot, whole, voted) = *whole;
                self.replay_snapshot(snapshot, whole)?;
                self.replayed().voted = Some(voted);
            }
        }
        Ok(())
    }

    /// The transaction, if it is committed here, is an ordered call.
    fn is_in_order(&mut self, txn: TxnId) {
        if let Some(one) = self.participant.committed_mut().get_mut(&txn) {
            one.is_in_order = true;
        }
    }

    fn replay_snapshot(&mut self, snapshot: Snapshot, whole: Whole) -> Result<(), SqlError> {
        let Whole { replica, home, executed, unsettled, over, entered } = whole;
        self.restore(snapshot)?;
        self.participant.outcomes.keep_over(over);
        let (replica, home) = (vec![replica], home.into_iter().collect());
        self.replayed = Some(Box::new(Replayed {
            replica,
            home,
            executed,
            entered: entered.into_iter().collect(),
            voted: None,
        }));
        unsettled.into_iter().for_each(|txn| self.is_in_order(txn));
        Ok(())
    }

    fn replayed(&mut self) -> &mut Replayed {
        self.participant.outcomes.keep_over([]);
        self.replayed.get_or_insert_default()
    }

    /// Goes on where the log ends.
    pub(in crate::shard) fn order_again(&mut self) {
        let Some(replayed) = self.replayed.take() else { return };
        self.order_after(&replayed);
        let prepared = self.participant.prepared();
        if let Some(ordering) = &mut self.ordering {
            ordering.in_doubt = prepared.keys().copied().collect();
            ordering.entered =
                replayed.entered.iter().map(|txn| (*txn, prepared.contains_key(txn))).collect();
        }
        if let Some(txn) = replayed.voted {
            self.vote_again(txn);
        }
    }

    /// The snapshot as a record, with the state of ordered calls if there is one.
    pub(in crate::shard) fn with_ordering(&self, snapshot: Box<Snapshot>) -> Record {
        let Some(ordering) = &self.ordering else { return Record::Snapshot(snapshot) };
        let in_order = self.participant.committed().iter().filter(|(_, one)| one.is_in_order);
        let whole = Whole {
            replica: ordering.replica.snapshot(),
            home: ordering.home.as_ref().map(|home| home.coordinator.snapshot()),
            executed: ordering.replica.application().executed(),
            unsettled: in_order.map(|(txn, _)| *txn).collect(),
            over: self.participant.outcomes.over_of_retired().collect(),
            entered: ordering.entered.keys().copied().collect(),
        };
        let record = match ordering.undecided() {
            Some(txn) => OrderedRecord::UndecidedSnapshot(Box::new((*snapshot, whole, txn))),
            None => OrderedRecord::Snapshot(Box::new((*snapshot, whole))),
        };
        Record::Ordered(Box::new(record))
    }
}
