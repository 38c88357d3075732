//! The failure coordinator as a party, with its log on disk.

use std::sync::Arc;

use weir_core::lsn::Outgoing;
use weir_ordered::failure_coordinator::FailureCoordinator;
use weir_ordered::faults::NoFaults;
use weir_ordered::message::Party;

use crate::disk::{COORDINATOR_LOG, DiskSettings};
use crate::driver::{Machine, PartyError, Running};
use crate::members::Members;
use crate::transport::{Loss, Transport};
use crate::wire::{self, CoordinatorRecord, Message, Operation};

impl Machine for FailureCoordinator<Operation> {
    type Message = Message;
    type Record = CoordinatorRecord;

    fn step(&mut self, now_ms: u64, from: Party, message: Message, out: &mut Vec<Outgoing<Party, Message>>) {
        wire::with_effects(out, |out| FailureCoordinator::step(self, now_ms, from, message, out));
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Vec<Outgoing<Party, Message>>) {
        wire::with_effects(out, |out| FailureCoordinator::on_timer(self, now_ms, out));
    }

    fn take_records(&mut self) -> Vec<CoordinatorRecord> {
        FailureCoordinator::take_records(self)
    }

    fn snapshot(&self) -> Option<CoordinatorRecord> {
        Some(FailureCoordinator::snapshot(self))
    }
}

/// Starts the failure coordinator with what is on its disk.
///
/// # Errors
/// The log cannot be read, or the system's.
pub fn start(
    members: Arc<Members>,
    disk: &DiskSettings,
    loss: Option<Loss>,
) -> Result<Running<FailureCoordinator<Operation>>, PartyError> {
    members.check().map_err(PartyError::Members)?;
    let (records, log) = disk.read(COORDINATOR_LOG)?;
    let machine = FailureCoordinator::new(0, members.cluster, NoFaults, &records);
    let transport = Transport::bind(members, Party::FailureCoordinator, loss)?;
    Running::start("failure-coordinator", machine, transport, Some(log))
}
