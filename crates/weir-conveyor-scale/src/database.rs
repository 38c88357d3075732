//! A database as far as the protocol goes: the epoch row, the position and the outbox, and the service time of each piece of work.
//!
//! No transaction of the model fails: serialization failures and waiting for row locks are left out, of all protocols alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_conveyor::epochs::VisitNumber;
use weir_conveyor::token::Visit;
use weir_conveyor::work::{DatabaseState, Done, EpochRow, Work};

use crate::costs::Steps;

/// An operation as the model runs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    pub service_us: f64,
    pub wait_us: f64,
    pub writes: bool,
    /// Rows that it leaves in the outbox.
    pub rows: f64,
}

/// The state update of an operation: its number of rows.
pub type Rows = f64;
pub type JobWork = Work<Job, Rows>;
pub type JobDone = Done<(), Rows>;

/// A database.
#[derive(Clone, Debug, Default)]
pub struct Database {
    row: EpochRow,
    applied: VisitNumber,
    outbox: BTreeMap<VisitNumber, Vec<Rows>>,
}

/// Processor time of a piece of work, and the time that it then waits: for the disk, or as the operation does.
pub fn service_us(work: &JobWork, steps: &Steps) -> (f64, f64) {
    let rows = |visit: &Visit<Rows>| visit.updates.iter().sum::<f64>();
    match work {
        Work::Execute { operation, .. } => {
            let flush_us = if operation.writes { steps.flush_us } else { 0.0 };
            (operation.service_us, operation.wait_us + flush_us)
        }
        Work::Apply { visit, .. } => (steps.apply_us + rows(visit) * steps.apply_row_us, steps.flush_us),
        Work::End { .. } | Work::Adopt { .. } | Work::Fence { .. } => (steps.end_us, steps.flush_us),
        Work::Load => (steps.read_us, 0.0),
        Work::Read { .. } => (steps.read_us, 0.0),
        Work::Truncate { .. } => (steps.truncate_us, 0.0),
        Work::Copy { .. } => unreachable!("no server joins here"),
    }
}

impl Database {
    fn state(&self) -> DatabaseState {
        DatabaseState { row: self.row, applied: self.applied, ..DatabaseState::default() }
    }

    /// Rows of the outbox of a visit.
    pub fn outbox_rows(&self, visit: VisitNumber) -> f64 {
        self.outbox.get(&visit).into_iter().flatten().sum()
    }

    /// Commits a piece of work.
    pub fn commit(&mut self, work: &JobWork) -> JobDone {
        match work {
            Work::Load => Done::State(self.state()),
            Work::Adopt { epoch } => {
                self.row = self.row.adopted(*epoch);
                Done::Row(self.row)
            }
            Work::Apply { after, visit } => {
                if self.applied == *after {
                    self.applied = visit.number;
                }
                Done::State(self.state())
            }
            Work::Execute { license: Some(license), .. } if !self.row.licenses(*license) => Done::NotLicensed,
            Work::Execute { license, operation, .. } => {
                if let Some(license) = license.filter(|_| operation.writes) {
                    self.outbox.entry(license.visit).or_default().push(operation.rows);
                }
                Done::Executed(())
            }
            Work::End { license, after } => {
                if self.applied == *after && self.row.licenses(*license) {
                    (self.row, self.applied) = (self.row.ended(*license), license.visit);
                }
                Done::State(self.state())
            }
            Work::Read { visit, .. } => {
                let updates = self.outbox.get(visit).cloned().unwrap_or_default();
                Done::Contents(Arc::new(Visit { number: *visit, updates }))
            }
            Work::Fence { epoch, visit, .. } => {
                self.row = self.row.fenced(*epoch, *visit);
                Done::Row(self.row)
            }
            Work::Copy { .. } => unreachable!("no server joins here"),
            Work::Truncate { up_to } => {
                self.outbox = self.outbox.split_off(&(up_to + 1));
                Done::Truncated
            }
        }
    }
}
