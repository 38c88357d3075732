//! What an open transaction loads stays in place while nobody else is here.
//!
//! COPY sends batch after batch. If each were taken back and done again at the end, each of its rows would go into the indexes twice
//! and out once, and each of its keys into the table of claims and out. A transaction that has done nothing here but insert given rows, and
//! that has the shard to itself, need not hide them from anybody. Whatever else comes first has it *set aside*: what it has done is taken
//! back, its keys are claimed, and from then on it is as any other.

use super::{Done, Open, OpenRows};
use crate::exec::call::{Ran, Role, Stop};
use crate::node::Node;
use crate::ramp::message::{Request, TxnId, Work};
use crate::ramp::participant::Claim;
use crate::storage::{Position, Timestamp, Undone};

/// An open transaction whose changes are in place.
#[derive(Debug)]
pub(crate) struct Stays {
    txn: TxnId,
    /// Where each of its statements began.
    begins: Vec<Position>,
}

impl Stays {
    pub(crate) fn begin(&self) -> Option<Position> {
        self.begins.first().copied()
    }
}

impl Node {
    /// The statement, which loads rows or does not, may leave what it does in place. It is called when `open` has been taken out.
    pub(super) fn may_stay(&self, txn: TxnId, open: &Open, loads: bool) -> bool {
        match &self.stays {
            Some(stays) => stays.txn == txn,
            None => {
                let is_alone = self.open.is_empty() && self.participant.prepared.is_empty();
                loads && is_alone && open.done.is_empty() && self.barrier.is_none()
            }
        }
    }

    /// Runs a statement that loads rows on top of those before it, and leaves them there. What it gives besides is what it did, if it failed.
    pub(super) fn try_in_place(
        &mut self,
        (txn, work, role): (TxnId, &Work, Role<'_>),
        timestamp: Timestamp,
    ) -> (Result<Ran, Stop>, Vec<Undone>) {
        let begin = self.storage.position();
        let rows = OpenRows { inserted: &[], are_hidden: false, is_alone: true, said: &[], later: &[] };
        let ran = self.run(txn, &work.call, role, timestamp, true, Some(rows));
        if ran.as_ref().is_ok_and(|ran| ran.answers.error.is_none()) {
            self.stays.get_or_insert_with(|| Stays { txn, begins: Vec::new() }).begins.push(begin);
            return (ran, Vec::new());
        }
        let undone = self.storage.rewind(begin);
        (ran, undone)
    }

    /// The transaction's changes are in place and remain there; gives where they begin.
    pub(super) fn end_stay(&mut self, txn: TxnId) -> Option<Position> {
        self.stays.take_if(|stays| stays.txn == txn)?.begin()
    }

    /// Whatever is not the next batch or the end of who stays must not see its changes.
    pub(crate) fn set_aside_for(&mut self, request: &Request) {
        let Some(stays) = &self.stays else { return };
        let goes_on = match request {
            Request::Work { txn, work, .. } => *txn == stays.txn && self.loads(&work.call).is_some(),
            Request::Finish { txn, .. } => *txn == stays.txn,
            Request::Read { .. } => self.bugs.shows_what_stays,
            _ => false,
        };
        if !goes_on {
            self.set_aside();
        }
    }

    /// The transaction is over and has not committed: a request of its own has been refused.
    pub(super) fn set_aside_of(&mut self, txn: TxnId) {
        if self.stays.as_ref().is_some_and(|stays| stays.txn == txn) {
            self.set_aside();
        }
    }

    /// Takes back what is in place of an open transaction, and claims its keys. Takes as long as it has rows.
    pub fn set_aside(&mut self) {
        let Some(Stays { txn, begins }) = self.stays.take() else { return };
        let mut open = self.open.remove(&txn).expect("what stays is open");
        for Done { inserted, claims, .. } in &mut open.done {
            for &(table, row, _) in inserted.iter() {
                let keys = self.storage.unique_keys(table, row);
                let keys: Vec<Claim> = keys.map(|(index, key)| Claim::Key(table, index, key)).collect();
                let new = |claim: &Claim| self.participant.claims.take(claim, txn);
                claims.extend(keys.into_iter().filter(new));
            }
        }
        self.take_back(&mut open.done, begins);
        self.open.insert(txn, open);
    }
}
