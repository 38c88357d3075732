//! The changes of a transaction's state at a shard, live and when a log is read again: what the core does, and what the payload adds.

use super::{Participant, Payload, Record};
use crate::ids::{CoordinatorId, ShardId, TxnId};
use crate::lsn::Lsn;
use crate::termination::Fate;

/// The result of applying a commit: the state that is kept, and the log record.
#[derive(Debug)]
pub struct Applied<P: Payload> {
    /// Kept until no reader and no participant may ask for it; none: nobody can.
    pub committed: Option<P::Committed>,
    /// None without a log.
    pub record: Option<P::LoggedCommit>,
}

/// A shard that the core carries. These methods are what depends on the payload.
pub trait Participates: Sized {
    type Payload: Payload;
    /// Why a log cannot be read again.
    type Unreadable;

    fn own_id(&self) -> ShardId;
    fn participant(&self) -> &Participant<Self::Payload>;
    fn participant_mut(&mut self) -> &mut Participant<Self::Payload>;

    /// Stamp of a prepared transaction that has committed elsewhere at that clock.
    fn stamp_at(&self, txn: TxnId, prepared: &PreparedOf<Self>, clock: u64) -> StampOf<Self>;
    /// Commit clock of a transaction that is prepared here and, with these clocks, everywhere else. None: this does not decide it.
    fn clock_of_all_prepared(&self, prepared: &PreparedOf<Self>, others: &[u64]) -> Option<u64>;

    /// Takes what the transaction holds against others while it is prepared.
    fn claim(&mut self, txn: TxnId, prepared: &PreparedOf<Self>);
    /// Gives back what [`Participates::claim`] has taken.
    fn unclaim(&mut self, txn: TxnId, prepared: &PreparedOf<Self>);
    /// Makes the writes of a prepared transaction visible.
    fn apply(
        &mut self,
        txn: TxnId,
        prepared: PreparedOf<Self>,
        stamp: StampOf<Self>,
    ) -> Applied<Self::Payload>;
    /// Drops the writes of a prepared transaction for good.
    fn discard(&mut self, txn: TxnId, prepared: PreparedOf<Self>);
    /// Drops what has been done for a transaction that has not prepared. Returns whether there was something.
    fn drop_unprepared(&mut self, _txn: TxnId) -> bool {
        false
    }

    /// Rebuilds a prepared transaction from its record. Takes over its clock.
    fn restore_prepared(
        &mut self,
        txn: TxnId,
        logged: <Self::Payload as Payload>::LoggedPrepared,
    ) -> Result<PreparedOf<Self>, Self::Unreadable>;
    /// Repeats a commit, of a prepared transaction or of another. Takes over its clock.
    fn restore_commit(
        &mut self,
        logged: <Self::Payload as Payload>::LoggedCommit,
    ) -> Result<(), Self::Unreadable>;
    /// Replaces all state.
    fn restore_snapshot(
        &mut self,
        snapshot: <Self::Payload as Payload>::Snapshot,
    ) -> Result<(), Self::Unreadable>;
    fn restore_part(&mut self, part: <Self::Payload as Payload>::SnapshotPart);
    /// Keeps rows until the record of their transaction's commit.
    fn restore_rows(&mut self, txn: TxnId, rows: <Self::Payload as Payload>::LoggedRows);
    /// Drops the rows of a transaction whose commit does not follow; none: of all.
    fn drop_rows(&mut self, _txn: Option<TxnId>) {}
    /// Repeats what a record of ordered transactions says.
    fn restore_ordered(
        &mut self,
        ordered: <Self::Payload as Payload>::Ordered,
    ) -> Result<(), Self::Unreadable>;

    /// Returns whether the shard itself finds out when all participants have committed this transaction, which is committed here: it was
    /// never prepared anywhere, so the words of termination say nothing about it.
    fn settles_itself(&self, _txn: TxnId) -> bool {
        false
    }

    /// Fate reported to another participant; none: the transaction is unknown, so this shard promises never to prepare it. Overridden by
    /// planted bugs only.
    fn fate_for(&self, txn: TxnId, _asked: Fate) -> Option<Fate> {
        self.participant().fate(txn)
    }

    /// Returns whether a silent coordinator has sent a message since the last search: otherwise it cannot have left new transactions.
    /// Overridden by planted bugs only.
    fn is_newly_silent(&self, heard_before_ms: Option<u64>, heard_ms: u64) -> bool {
        heard_before_ms != Some(heard_ms)
    }

    /// Whether refusals are logged. Overridden by planted bugs only.
    fn records_refusals(&self) -> bool {
        true
    }
}

type PreparedOf<S> = <<S as Participates>::Payload as Payload>::Prepared;
type StampOf<S> = <<S as Participates>::Payload as Payload>::Stamp;
type RecordOf<S> = Record<<S as Participates>::Payload>;

/// The state machine of a shard's transactions. Implemented here alone.
pub trait Transactions: Participates {
    /// Position after the last record noted.
    #[inline]
    fn noted(&self) -> Lsn {
        self.participant().log.noted()
    }

    /// The transaction is prepared from now on.
    fn hold(&mut self, txn: TxnId, prepared: PreparedOf<Self>) {
        self.claim(txn, &prepared);
        self.participant_mut().hold(txn, prepared);
    }

    /// The transaction is not prepared any more.
    fn release(&mut self, txn: TxnId) -> Option<PreparedOf<Self>> {
        let prepared = self.participant_mut().release(txn)?;
        self.unclaim(txn, &prepared);
        Some(prepared)
    }

    /// Commits a prepared transaction. Returns false, and changes nothing, if there is none: a reader or another participant may have
    /// committed it already.
    fn commit(&mut self, txn: TxnId, stamp: StampOf<Self>) -> bool {
        let Some(prepared) = self.release(txn) else { return false };
        let applied = self.apply(txn, prepared, stamp);
        let clock = Self::Payload::clock_of(stamp);
        self.participant_mut().note_commit((txn, clock), Default::default(), applied);
        true
    }

    /// Drops a transaction for good that is in flight or prepared. Returns whether there was one.
    fn abort(&mut self, txn: TxnId) -> bool {
        if let Some(prepared) = self.release(txn) {
            self.discard(txn, prepared);
        } else if !self.drop_unprepared(txn) {
            return false;
        }
        self.refuse(txn, Default::default());
        true
    }

    /// Promises that the transaction, which is not prepared, never will be here.
    fn promise(&mut self, txn: TxnId) {
        self.drop_unprepared(txn);
        self.refuse(txn, Default::default());
    }

    /// Notes that the transaction never commits here, with the answer to a repetition.
    fn refuse(&mut self, txn: TxnId, answer: <Self::Payload as Payload>::Answer) {
        let is_logged = self.records_refusals();
        self.participant_mut().note_refusal(txn, answer, is_logged);
    }

    /// Rejects everything of a silent coordinator from now on.
    fn retire(&mut self, coordinator: CoordinatorId) {
        let participant = self.participant_mut();
        participant.forget_coordinator(coordinator);
        participant.log.push(Record::Retired { coordinator });
    }

    /// One step of recovery. Nothing is logged meanwhile.
    ///
    /// # Errors
    /// The payload cannot read its part of the record.
    fn replay(&mut self, record: RecordOf<Self>) -> Result<(), Self::Unreadable> {
        match record {
            Record::Started { incarnation } => {
                self.drop_rows(None);
                self.participant_mut().incarnation = incarnation;
            }
            Record::Prepared { txn, prepared } => {
                self.participant_mut().readers.know(txn.coordinator);
                let prepared = self.restore_prepared(txn, prepared)?;
                self.hold(txn, prepared);
            }
            Record::Committed(commit) => self.restore_commit(commit)?,
            Record::Refused { txn, answer } => {
                self.drop_rows(Some(txn));
                if let Some(prepared) = self.release(txn) {
                    self.discard(txn, prepared);
                }
                // The preceding snapshot may have been written after the coordinator reported the transaction as over.
                self.participant_mut().remember_refusal(txn, answer);
            }
            Record::Retired { coordinator } => self.participant_mut().forget_coordinator(coordinator),
            Record::Snapshot(snapshot) => self.restore_snapshot(*snapshot)?,
            Record::Part(part) => self.restore_part(part),
            Record::Rows { txn, rows } => self.restore_rows(txn, rows),
            Record::Ordered(ordered) => self.restore_ordered(ordered)?,
        }
        Ok(())
    }
}

impl<S: Participates> Transactions for S {}
