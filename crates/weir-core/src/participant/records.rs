//! Log records of transactions, and the tail of a shard's log that its driver has not taken yet (soundness S16).
//!
//! The records are the same for all payloads; what a payload writes into them is its own. This module says which records must be durable;
//! the driver writes and syncs them.

use serde::{Deserialize, Serialize};

use super::Payload;
use crate::ids::{CoordinatorId, TxnId};
use crate::lsn::Lsn;

/// One record of a shard's log. The order of variants and of their fields is the format on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Record<P: Payload> {
    /// The shard has started, for the `incarnation`-th time.
    Started { incarnation: u64 },
    /// The transaction has prepared.
    Prepared { txn: TxnId, prepared: P::LoggedPrepared },
    /// A transaction has committed, whether it had prepared or not.
    Committed(P::LoggedCommit),
    /// The transaction has not committed here and never will: a prepared one is void, and an unprepared one will not be accepted.
    Refused { txn: TxnId, answer: P::Answer },
    /// Nothing of this coordinator is accepted any more.
    Retired { coordinator: CoordinatorId },
    /// Replaces all earlier records.
    Snapshot(Box<P::Snapshot>),
    /// A part of the preceding snapshot, which was written without it.
    Part(P::SnapshotPart),
    /// Rows of a transaction ahead of its commit. They count with that record, which follows in the same run of the shard, or not at all.
    Rows { txn: TxnId, rows: P::LoggedRows },
    /// Of ordered transactions.
    Ordered(P::Ordered),
}

/// Records noted since the driver has last taken some. A shard without a log builds no records.
#[derive(Debug)]
pub struct RecordLog<R> {
    is_on: bool,
    records: Vec<R>,
    /// Position after the last record that the driver has taken.
    taken: Lsn,
    /// A snapshot replaces the records: the shard's state has changed without any.
    is_replaced: bool,
}

impl<R> Default for RecordLog<R> {
    fn default() -> Self {
        RecordLog { is_on: false, records: Vec::new(), taken: Lsn::START, is_replaced: false }
    }
}

impl<R> RecordLog<R> {
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Begins a log with that record.
    pub fn start(&mut self, first: R) {
        (self.is_on, self.records) = (true, vec![first]);
    }

    /// Turns logging off: a restart loses everything.
    pub fn stop(&mut self) {
        (self.is_on, self.records) = (false, Vec::new());
    }

    /// Notes a record. Without a log it is dropped.
    #[inline]
    pub fn push(&mut self, record: R) {
        if self.is_on {
            self.records.push(record);
        }
    }

    /// The state has changed without a record, so a snapshot is due instead of the records.
    pub fn replace(&mut self) {
        self.is_replaced = true;
    }

    fn is_replaced(&self) -> bool {
        self.is_on && self.is_replaced
    }

    /// Position after the last record noted.
    #[inline]
    pub fn noted(&self) -> Lsn {
        self.taken.plus(if self.is_replaced() { 1 } else { self.records.len() })
    }

    /// Position after the next record.
    #[inline]
    pub fn next(&self) -> Lsn {
        self.taken.plus(if self.is_replaced() { 1 } else { self.records.len() + 1 })
    }

    /// Takes the records; none: a snapshot of the shard replaces them.
    pub fn take(&mut self) -> Option<Vec<R>> {
        self.taken = self.noted();
        let records = std::mem::take(&mut self.records);
        let is_replaced = self.is_on && std::mem::take(&mut self.is_replaced);
        (!is_replaced).then_some(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_what_the_driver_is_given() {
        let mut log = RecordLog::default();
        log.push("without a log");
        assert_eq!((log.noted(), log.next()), (Lsn(0), Lsn(1)));
        log.start("start");
        log.push("one");
        assert_eq!((log.noted(), log.next()), (Lsn(2), Lsn(3)));
        assert_eq!(log.take(), Some(vec!["start", "one"]));
        log.push("two");
        log.replace();
        log.push("three");
        assert_eq!((log.noted(), log.next()), (Lsn(3), Lsn(3)), "one snapshot");
        assert_eq!(log.take(), None);
        log.push("four");
        assert_eq!((log.noted(), log.take()), (Lsn(4), Some(vec!["four"])));
        log.stop();
        log.push("five");
        assert_eq!((log.noted(), log.take()), (Lsn(4), Some(Vec::new())));
    }
}
