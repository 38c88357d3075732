//! What an agent has databases do, and what they answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::epochs::{Epoch, ServerId, VisitNumber};
use crate::message::OperationId;
use crate::routing::{MapVersion, ServerSet};
use crate::token::Visit;

/// Name of a piece of work of one start of an agent.
pub type WorkId = u64;

/// The row `weir_conveyor.epoch` of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochRow {
    /// No global operation of an earlier epoch commits here any more.
    pub epoch: Epoch,
    /// The last visit that was closed here: no global operation of it or of an earlier visit commits here any more.
    pub closed: VisitNumber,
    /// The epoch that has closed it.
    pub closed_in: Epoch,
}

impl EpochRow {
    /// Returns whether a global operation of the visit may commit.
    pub fn licenses(&self, license: License) -> bool {
        self.epoch == license.epoch && self.closed < license.visit
    }

    /// Returns whether that epoch itself has closed the visit, and none before it.
    pub fn is_closed_in(&self, epoch: Epoch, visit: VisitNumber) -> bool {
        self.closed == visit && self.closed_in == epoch
    }

    /// The row after its server has taken part in an epoch.
    pub fn adopted(self, epoch: Epoch) -> EpochRow {
        EpochRow { epoch: self.epoch.max(epoch), ..self }
    }

    /// The row after the holder has ended its visit; unchanged if it may not.
    pub fn ended(self, License { epoch, visit }: License) -> EpochRow {
        match self.licenses(License { epoch, visit }) {
            true => EpochRow { closed: visit, closed_in: epoch, ..self },
            false => self,
        }
    }

    /// The row after a new epoch was raised, and the visit closed unless it had ended.
    pub fn fenced(self, epoch: Epoch, visit: VisitNumber) -> EpochRow {
        let raised = self.adopted(epoch);
        match raised.epoch == epoch && self.closed < visit {
            true => EpochRow { closed: visit, closed_in: epoch, ..raised },
            false => raised,
        }
    }
}

/// The visit in which a global operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct License {
    pub epoch: Epoch,
    pub visit: VisitNumber,
}

/// A piece of work for a database: the own one, where no server is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work<O, U> {
    /// Read what the database knows.
    Load,
    /// Raise the epoch, since the token of that epoch has come.
    Adopt { epoch: Epoch },
    /// Apply the updates of a visit, and move the position from `after` to it, in one transaction.
    Apply { after: VisitNumber, visit: Arc<Visit<U>> },
    /// Execute an operation that was placed under that map, and commit it. A global one has a license and fills the outbox.
    Execute { id: OperationId, operation: O, license: Option<License>, map: MapVersion },
    /// Close the own visit, and move the position from `after` to it.
    End { license: License, after: VisitNumber },
    /// Read the outbox of a visit that was closed.
    Read { server: ServerId, visit: VisitNumber },
    /// Raise the epoch, and close a visit unless it has ended.
    Fence { server: ServerId, epoch: Epoch, visit: VisitNumber },
    /// Forget the outbox up to a visit that everybody has applied.
    Truncate { up_to: VisitNumber },
    /// Take all rows, the position and the map of that server, as of one moment at which its map has this server as a member.
    Copy { from: ServerId },
}

/// The durable state of a database, as far as the protocol goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseState {
    pub row: EpochRow,
    /// All visits up to this one are applied, or are of this server.
    pub applied: VisitNumber,
    /// The map of slots.
    pub map: MapVersion,
    /// Servers that are no members, as that map has them.
    pub absent: ServerSet,
}

/// The end of a piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done<R, U> {
    /// The state after `Load`, `Apply`, `End` or `Copy`. All but the first may have changed nothing: then the state says why.
    State(DatabaseState),
    /// The row after `Adopt` or `Fence`.
    Row(EpochRow),
    /// The operation has committed, or has failed for reasons of its own: that is its answer.
    Executed(R),
    /// The epoch row does not license the operation. It has changed nothing.
    NotLicensed,
    /// The database has another map of slots than the one under which the operation was placed. It has changed nothing.
    WrongMap,
    /// SQLSTATE 40001 or 40P01. The work has changed nothing.
    SerializationFailure,
    /// The operation was aborted, and has changed nothing.
    Cancelled,
    Contents(Arc<Visit<U>>),
    Truncated,
    /// The connection is lost: the work may be done or not.
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: EpochRow = EpochRow { epoch: 3, closed: 10, closed_in: 3 };

    #[test]
    fn a_visit_that_is_closed_licenses_nothing() {
        let license = License { epoch: 3, visit: 11 };
        assert!(ROW.licenses(license));
        assert!(!ROW.ended(license).licenses(license));
        assert!(!ROW.adopted(4).licenses(license));
        assert!(!ROW.fenced(4, 11).licenses(License { epoch: 4, visit: 11 }));
    }

    #[test]
    fn a_fence_tells_a_visit_that_has_ended_from_one_that_it_closes() {
        assert!(!ROW.fenced(4, 10).is_closed_in(4, 10));
        let closed = ROW.fenced(4, 13);
        assert!(closed.is_closed_in(4, 13));
        assert_eq!(closed.fenced(4, 13), closed);
    }

    #[test]
    fn an_old_epoch_changes_nothing() {
        let license = License { epoch: 2, visit: 11 };
        assert_eq!((ROW.ended(license), ROW.fenced(2, 11), ROW.adopted(2)), (ROW, ROW, ROW));
    }
}
