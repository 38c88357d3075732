//! Plans: the database transactions of a piece of work, step by step (soundness S19).
//!
//! A driver runs the transactions of a plan one after the other. Each begins with a snapshot of its own. [`crate::schema`] has the SQL of a step.

use std::sync::Arc;

use crate::epochs::{Epoch, ServerId, VisitNumber};
use crate::faults::PlanFaults;
use crate::routing::MapVersion;
use crate::token::Visit;
use crate::work::{License, Work};

/// The isolation level of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    Serializable,
    /// Only planted bugs run at it.
    ReadCommitted,
}

/// What is captured of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Nothing: the operation is not global, or a planted bug captures otherwise.
    Nothing,
    /// The columns that it changes, by triggers, into the outbox of the visit, in the same transaction.
    Columns(VisitNumber),
    /// Its statements. Only a planted bug sends them.
    Statements(VisitNumber),
}

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<O, U> {
    /// Reads the epoch row and the position.
    ReadState,
    /// Locks the epoch row FOR SHARE. The transaction ends as `NotLicensed` unless the row licenses it.
    LockEpoch(License),
    /// The same without a lock. Only a planted bug does that.
    ReadEpoch(License),
    /// Reads the map of slots. The transaction ends as `WrongMap` unless it is that one.
    CheckMap(MapVersion),
    /// The same, but an older map is taken, too. Only a planted bug does that.
    CheckMapAtMost(MapVersion),
    /// Runs the statements of an operation.
    Run(O, Capture),
    /// Applies a state update: triggers are off, foreign keys too, a missing row is passed over.
    Apply(U),
    /// Moves the position. The transaction changes nothing, and ends with the state, if the position is not `after`.
    MovePosition { after: VisitNumber, to: VisitNumber },
    /// Updates the epoch row by `EpochRow::adopted`.
    Adopt(Epoch),
    /// Updates it by `EpochRow::ended`. If the row stays as it is, the transaction ends with the state.
    Close(License),
    /// Updates it by `EpochRow::fenced`.
    Fence(Epoch, VisitNumber),
    /// Reads the outbox of a visit.
    ReadOutbox(VisitNumber),
    /// Deletes outboxes up to a visit.
    DeleteOutbox { up_to: VisitNumber },
    /// Takes all rows, the position and the map of another server, as of one of its snapshots, in the place of those here. The transaction ends
    /// with the state if this server is a member by its own map, and as `WrongMap` unless it is one by that of the other, which has to be newer: by
    /// an older one it has not left yet.
    CopyBase(ServerId),
    /// The same, but the map of the other server may be older. Only a planted bug does that.
    CopyAnyBase(ServerId),
    /// Writes what the operation has changed into the outbox by a transaction of its own, which commits at once. Only planted bugs do that.
    CaptureApart(VisitNumber),
}

/// A database transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction<O, U> {
    pub isolation: Isolation,
    pub steps: Vec<Step<O, U>>,
}

impl<O, U> Transaction<O, U> {
    fn serializable(steps: Vec<Step<O, U>>) -> Self {
        Transaction { isolation: Isolation::Serializable, steps }
    }
}

/// The transactions of a piece of work, in order. The work ends with the first of them that does not commit.
pub fn transactions<O: Clone, U: Clone>(
    work: &Work<O, U>,
    faults: &impl PlanFaults,
) -> Vec<Transaction<O, U>> {
    match work {
        Work::Load => vec![Transaction::serializable(vec![Step::ReadState])],
        Work::Adopt { epoch } => vec![Transaction::serializable(vec![Step::Adopt(*epoch)])],
        Work::Apply { after, visit } => apply(*after, visit, faults),
        Work::Execute { operation, license, map, .. } => execute(operation, *license, *map, faults),
        Work::End { license, after } => {
            let position = Step::MovePosition { after: *after, to: license.visit };
            closing(license.visit, vec![Step::Close(*license), position], faults)
        }
        Work::Read { visit, .. } => vec![Transaction::serializable(vec![Step::ReadOutbox(*visit)])],
        Work::Fence { epoch, visit, .. } => closing(*visit, vec![Step::Fence(*epoch, *visit)], faults),
        Work::Truncate { up_to } => {
            vec![Transaction::serializable(vec![Step::DeleteOutbox { up_to: *up_to }])]
        }
        Work::Copy { from } => vec![Transaction::serializable(vec![match faults.copies_any_base() {
            true => Step::CopyAnyBase(*from),
            false => Step::CopyBase(*from),
        }])],
    }
}

/// What closes a visit waits for whoever has locked the epoch row, with the snapshot from before. So the outbox is read in another transaction.
fn closing<O, U>(
    visit: VisitNumber,
    mut steps: Vec<Step<O, U>>,
    faults: &impl PlanFaults,
) -> Vec<Transaction<O, U>> {
    if faults.reads_as_it_closes() {
        steps.insert(0, Step::ReadOutbox(visit));
    }
    vec![Transaction::serializable(steps)]
}

/// All updates of a visit are one transaction, and so is the position: a concurrent transaction here sees all of the visit or nothing, and a
/// crash applies it once.
fn apply<O, U: Clone>(
    after: VisitNumber,
    visit: &Arc<Visit<U>>,
    faults: &impl PlanFaults,
) -> Vec<Transaction<O, U>> {
    let mut parts: Vec<Vec<Step<O, U>>> = vec![visit.updates.iter().cloned().map(Step::Apply).collect()];
    if faults.applies_one_by_one() {
        parts = visit.updates.iter().cloned().map(|update| vec![Step::Apply(update)]).collect();
    }
    if faults.moves_position_apart() {
        parts.push(Vec::new());
    }
    // The position comes last, so that all other locks are held for longer than that one.
    let position = Step::MovePosition { after, to: visit.number };
    match parts.last_mut() {
        Some(last) => last.push(position),
        None => parts.push(vec![position]),
    }
    let isolation = match faults.applies_read_committed() {
        true => Isolation::ReadCommitted,
        false => Isolation::Serializable,
    };
    parts.into_iter().map(|steps| Transaction { isolation, steps }).collect()
}

/// A global operation locks the epoch row before its first statement, and so commits before its visit is closed, or not at all. Each operation
/// reads the map of slots, and so is before the move of its rows, or fails: SERIALIZABLE sees that it has read what the move writes, and writes what
/// the move has read.
fn execute<O: Clone, U>(
    operation: &O,
    license: Option<License>,
    map: MapVersion,
    faults: &impl PlanFaults,
) -> Vec<Transaction<O, U>> {
    let check = match faults.serves_before_applied() {
        true => Step::CheckMapAtMost(map),
        false => Step::CheckMap(map),
    };
    let Some(license) = license else {
        let run = Step::Run(operation.clone(), Capture::Nothing);
        return match (faults.serves_after_move(), faults.checks_map_apart()) {
            (true, _) => vec![Transaction::serializable(vec![run])],
            (false, true) => [check, run].map(|step| Transaction::serializable(vec![step])).into(),
            (false, false) => vec![Transaction::serializable(vec![check, run])],
        };
    };
    let lock = match faults.reads_epoch_without_lock() {
        true => Step::ReadEpoch(license),
        false => Step::LockEpoch(license),
    };
    let apart = faults.captures_before_commit() || faults.captures_after_commit();
    let capture = match (apart, faults.sends_statements()) {
        (true, _) => Capture::Nothing,
        (false, true) => Capture::Statements(license.visit),
        (false, false) => Capture::Columns(license.visit),
    };
    let mut first = vec![lock, check, Step::Run(operation.clone(), capture)];
    let outbox = Step::CaptureApart(license.visit);
    if faults.captures_before_commit() {
        first.push(outbox);
        return vec![Transaction::serializable(first)];
    }
    let mut transactions = vec![Transaction::serializable(first)];
    if faults.captures_after_commit() {
        transactions.push(Transaction::serializable(vec![outbox]));
    }
    transactions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::NoFaults;
    use crate::message::OperationId;

    type Txn = Transaction<&'static str, &'static str>;

    fn planned(work: Work<&'static str, &'static str>) -> Vec<Txn> {
        transactions(&work, &NoFaults)
    }

    #[test]
    fn a_visit_is_applied_in_one_serializable_transaction_with_its_position() {
        let visit = Arc::new(Visit { number: 7, updates: vec!["a", "b"] });
        let position = Step::MovePosition { after: 5, to: 7 };
        let steps = vec![Step::Apply("a"), Step::Apply("b"), position];
        let expected = Transaction { isolation: Isolation::Serializable, steps };
        assert_eq!(planned(Work::Apply { after: 5, visit }), [expected]);
    }

    #[test]
    fn a_global_operation_locks_the_epoch_row_first_and_fills_the_outbox_in_its_transaction() {
        let license = License { epoch: 1, visit: 7 };
        let id = OperationId { agent: 0, start: 1, number: 1 };
        let run = Step::Run("order", Capture::Columns(7));
        let steps = vec![Step::LockEpoch(license), Step::CheckMap(2), run];
        let expected = Transaction { isolation: Isolation::Serializable, steps };
        let work = Work::Execute { id, operation: "order", license: Some(license), map: 2 };
        assert_eq!(planned(work), [expected]);
    }

    #[test]
    fn an_outbox_is_read_in_another_transaction_than_the_one_that_closes_its_visit() {
        let license = License { epoch: 1, visit: 7 };
        let end = planned(Work::End { license, after: 6 });
        assert!(end.iter().all(|each| !each.steps.contains(&Step::ReadOutbox(7))));
    }
}
