//! COMMIT of large write sets, in slices, so that others' requests are handled in between (docs/internals/write-sets.md, "COMMIT of a large
//! write set").
//!
//! Until its last step the transaction stays what it was: open, prepared, or a call of a worker, with all of its claims. What is in the
//! tables is hidden.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_core::ids::{CoordinatorId, Position, ShardId, Timestamp, TxnId};
use weir_core::lsn::Lsn;
use weir_core::participant::{Record, Transactions as _};
use weir_core::termination::{Says as _, Word};
use weir_sql::catalog::TableId;
use weir_types::interrupt::Budget;

use super::node::{Effects, Node};
use crate::claims::Claim;
use crate::exec::call::Ran;
use crate::faults::Faults;
use crate::message::{Reply, Request};
use crate::storage::{Ahead, WriteSet};

/// Sizes of large commits.
#[derive(Clone, Copy)]
struct Sizes {
    /// A write set with more writes is large.
    writes: usize,
    /// Rows that one step puts into the tables.
    slice_rows: usize,
}

const SIZES: Sizes = Sizes { writes: 2_048, slice_rows: 1_024 };
/// The same where every statement that looks at a row is long, and in small worlds, whose commits are to have many steps.
const SMALL_SIZES: Sizes = Sizes { writes: 1, slice_rows: 1 };

/// Number of slices that are written ahead of the disk: what others note waits behind them.
const UNSYNCED_MAX: usize = 8;

/// A commit in progress. Invariant: only the first of its shard has anything in the tables.
#[derive(Debug)]
pub(crate) struct LargeCommit {
    txn: TxnId,
    timestamp: Timestamp,
    kind: Kind,
    ahead: Ahead,
    /// Positions behind its records that may not be durable.
    records: VecDeque<Lsn>,
    /// Its next slice waits for the log.
    waits: bool,
}

/// What commits, and where its write set is.
#[derive(Debug)]
pub(super) enum Kind {
    /// An open transaction.
    Open { participants: Arc<[ShardId]> },
    /// A prepared transaction.
    Prepared,
    /// A call that a worker has run.
    Run(Box<EndedRun>),
}

#[derive(Debug)]
pub(super) struct EndedRun {
    pub request: Request,
    pub ran: Ran,
    pub own: WriteSet,
    pub claims: Vec<Claim>,
}

impl<F: Faults> Node<F> {
    fn sizes(&self) -> Sizes {
        // Commits in slices shift the moments at which calls meet, which hides calls that starve.
        let is_simulated = self.workers.budget() == Some(Budget(0)) && !self.bugs.starves();
        match self.bugs.small_commits() || is_simulated {
            true => SMALL_SIZES,
            false => SIZES,
        }
    }

    /// Returns whether the write set is committed in slices.
    #[inline]
    pub(super) fn is_large(&self, own: &WriteSet) -> bool {
        own.mark() > SMALL_SIZES.writes && own.mark() > self.sizes().writes && self.workers.budget().is_some()
    }

    /// Begins a commit in slices. Where others are in progress, it follows them.
    #[cold]
    pub(super) fn begin_large(&mut self, txn: TxnId, timestamp: Timestamp, kind: Kind) {
        let ahead = match kind {
            Kind::Prepared => Ahead::of_prepared(),
            Kind::Open { .. } | Kind::Run(_) => Ahead::default(),
        };
        self.workers.begin_commit(txn);
        let records = VecDeque::new();
        self.large.push_back(LargeCommit { txn, timestamp, kind, ahead, records, waits: false });
        if self.large.len() == 1 {
            self.go_on_later();
        }
    }

    /// Asks the driver to come back for the next slice, once enough of the log is durable.
    fn go_on_later(&mut self) {
        let Some(first) = self.large.front_mut() else { return };
        while first.records.front().is_some_and(|record| self.storage.is_durable(*record)) {
            first.records.pop_front();
        }
        first.waits = first.records.len() >= UNSYNCED_MAX;
        if !first.waits {
            self.workers.come_back(first.txn);
        }
    }

    /// More of the log is durable.
    pub(super) fn go_on_if_durable(&mut self) {
        if self.large.front().is_some_and(|first| first.waits) {
            self.go_on_later();
        }
    }

    /// The driver has come back for the next slice of the transaction's commit.
    pub(super) fn on_slice(&mut self, txn: TxnId, out: &mut Effects) {
        if self.large.front().is_none_or(|first| first.txn != txn || first.waits) {
            // It has ended meanwhile.
            return;
        }
        let Some(mut first) = self.large.pop_front() else { return };
        let own = self.take_own(&mut first);
        let has_more = self.slice(&own, &mut first, self.sizes().slice_rows);
        self.put_own(&mut first, own);
        self.large.push_front(first);
        match has_more {
            true => self.go_on_later(),
            false => self.complete_large(txn, out),
        }
    }

    /// Puts the next rows into the tables, hidden, and into the log. Returns whether there are more.
    fn slice(&mut self, own: &WriteSet, large: &mut LargeCommit, rows: usize) -> bool {
        let has_more = self.storage.apply_ahead(own, &mut large.ahead, large.timestamp, rows);
        if self.bugs.shows_ahead() {
            self.storage.reveal_ahead(&large.ahead);
        }
        let rows = large.ahead.take_logged();
        let log = &mut self.participant.log;
        if log.is_on() && !rows.is_empty() {
            large.records.push_back(log.next());
            log.push(Record::Rows { txn: large.txn, rows });
        }
        has_more
    }

    fn take_own(&mut self, large: &mut LargeCommit) -> WriteSet {
        let own = match &mut large.kind {
            Kind::Open { .. } => self.open.get_mut(&large.txn).map(|open| &mut open.own),
            Kind::Prepared => {
                let prepared = self.participant.prepared_mut().get_mut(&large.txn);
                prepared.and_then(|prepared| prepared.own.as_mut())
            }
            Kind::Run(run) => Some(&mut run.own),
        };
        own.map(std::mem::take).expect("a commit in progress has its write set")
    }

    fn put_own(&mut self, large: &mut LargeCommit, own: WriteSet) {
        match &mut large.kind {
            Kind::Open { .. } => self.open.get_mut(&large.txn).expect("it was there").own = own,
            Kind::Prepared => {
                let prepared = self.participant.prepared_mut().get_mut(&large.txn);
                prepared.expect("it was there").own = Some(own);
            }
            Kind::Run(run) => run.own = own,
        }
    }

    /// Takes the transaction's commit out of the queue, for it ends in this step. None: nothing of it is in the tables.
    pub(super) fn take_large(&mut self, txn: TxnId) -> Option<LargeCommit> {
        let at = self.large.iter().position(|one| one.txn == txn)?;
        let large = self.large.remove(at)?;
        self.workers.end_commit(txn);
        if at > 0 {
            return None;
        }
        self.go_on_later();
        Some(large)
    }

    /// Applies a write set, in slices so far, or as a whole. Returns the position behind which are the changes that are not in the log.
    pub(super) fn apply_committed(
        &mut self,
        own: WriteSet,
        large: Option<LargeCommit>,
        folded: &[(TableId, u32)],
        timestamp: Timestamp,
    ) -> Position {
        let Some(large) = large else {
            let begin = self.storage.position();
            self.storage.apply_write_set(own, folded, timestamp);
            return begin;
        };
        self.apply_rest(own, large, folded)
    }

    #[cold]
    fn apply_rest(&mut self, own: WriteSet, mut large: LargeCommit, folded: &[(TableId, u32)]) -> Position {
        while self.slice(&own, &mut large, usize::MAX) {}
        if self.participant.log.is_on() {
            let record = self.participant.log.next();
            self.storage.note_tables_unsynced(large.ahead.tables().iter().copied(), record);
        }
        let (shown, leftovers) = self.storage.show_ahead(own, large.ahead, folded, large.timestamp);
        self.workers.drop_beside(leftovers);
        shown
    }

    /// Takes back what is in the tables of a transaction that is dropped.
    pub(super) fn undo_large(&mut self, txn: TxnId) {
        if !self.large.is_empty()
            && let Some(large) = self.take_large(txn)
        {
            self.storage.undo_ahead(large.ahead);
        }
    }

    /// Ends the transaction's commit in this step, whatever is left of it.
    pub(super) fn complete_large(&mut self, txn: TxnId, out: &mut Effects) {
        let Some(large) = self.large.iter_mut().find(|one| one.txn == txn) else { return };
        let timestamp = large.timestamp;
        match std::mem::replace(&mut large.kind, Kind::Prepared) {
            Kind::Open { participants } => {
                let open = self.open.remove(&txn).expect("a commit in progress is of an open transaction");
                let large = self.take_large(txn);
                self.end_open((txn, open), participants, timestamp, large, out);
            }
            Kind::Prepared => {
                self.commit(txn, timestamp);
                self.reply(txn, Reply::Committed { txn, shard: self.shard }, out);
            }
            Kind::Run(run) => {
                let large = self.take_large(txn);
                self.statement = run.request.statement();
                self.end_committed_run(*run, timestamp, large, out);
            }
        }
    }

    /// Ends all commits in progress.
    fn complete_all_large(&mut self, out: &mut Effects) {
        while let Some(txn) = self.large.front().map(|first| first.txn) {
            self.complete_large(txn, out);
        }
    }

    /// Another participant asks for a transaction, or knows its outcome: a commit in progress ends first.
    #[cold]
    pub(super) fn complete_for_peer(&mut self, request: &Request, out: &mut Effects) {
        if let Some(Word::Ask { txn, .. } | Word::Tell { txn, .. }) = request.word() {
            self.complete_large(txn, out);
        }
    }

    /// Nobody sends more of these coordinators' transactions: their commits end.
    #[cold]
    pub(super) fn complete_those_of(&mut self, silent: &[CoordinatorId], out: &mut Effects) {
        let of_them = self.large.iter().map(|one| one.txn).filter(|txn| silent.contains(&txn.coordinator));
        for txn in of_them.collect::<Vec<_>>() {
            self.complete_large(txn, out);
        }
    }

    /// A reader goes back to a position, and asks for siblings too or not: commits in progress end first if it would meet their rows.
    #[cold]
    fn complete_for_reader(&mut self, position: Position, has_siblings: bool, out: &mut Effects) {
        let is_kept = (self.storage.history_begins()..=self.storage.position()).contains(&position);
        if has_siblings || is_kept && self.storage.meets_hidden(position) {
            self.complete_all_large(out);
        }
    }

    /// Before a request that goes back to an earlier state.
    #[cold]
    pub(super) fn complete_before(&mut self, request: &Request, out: &mut Effects) {
        match request {
            Request::ReadAt { position, including, .. }
            | Request::KeepSnapshot { position, including, .. } => {
                self.complete_for_reader(*position, !including.is_empty(), out);
            }
            Request::ReadSnapshot { snapshot, .. } => {
                if let Some((position, has_siblings)) = self.snapshots.kept_at(*snapshot) {
                    self.complete_for_reader(position, has_siblings, out);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
