//! A node of the failure coordinator as a party, with its log on disk.

use std::sync::Arc;

use weir_core::lsn::{Lsn, Outgoing};
use weir_ordered::faults::NoFaults;
use weir_ordered::message::Party;
use weir_ordered_raft::{Record, Settings};

use crate::disk::{COORDINATOR_LOG, DiskSettings};
use crate::driver::{Machine, PartyError, Running};
use crate::members::Members;
use crate::transport::{Loss, Transport};
use crate::wire::{self, CoordinatorNode, Message};

impl Machine for CoordinatorNode {
    type Message = Message;
    type Record = Record;

    fn step(&mut self, now_ms: u64, from: Party, message: Message, out: &mut Vec<Outgoing<Party, Message>>) {
        wire::with_effects(out, |out| CoordinatorNode::step(self, now_ms, from, message, out));
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Vec<Outgoing<Party, Message>>) {
        wire::with_effects(out, |out| CoordinatorNode::on_timer(self, now_ms, out));
    }

    fn on_durable(&mut self, now_ms: u64, up_to: Lsn, out: &mut Vec<Outgoing<Party, Message>>) {
        wire::with_effects(out, |out| CoordinatorNode::on_durable(self, now_ms, up_to, out));
    }

    fn take_records(&mut self) -> Vec<Record> {
        CoordinatorNode::take_records(self)
    }

    fn snapshot(&self) -> Option<Record> {
        Some(CoordinatorNode::snapshot(self))
    }
}

/// Starts the node of that number with what is on its disk. A failure coordinator of one node is embedded: it leads at once.
///
/// # Errors
/// The cluster has no such node, the log cannot be read, or the system's.
pub fn start(
    members: Arc<Members>,
    number: u8,
    disk: &DiskSettings,
    loss: Option<Loss>,
) -> Result<Running<CoordinatorNode>, PartyError> {
    members.check().map_err(PartyError::Members)?;
    let nodes = members.coordinators.len() as u8;
    if number >= nodes {
        return Err(PartyError::Members(format!(
            "no node {number} among the {nodes} of the failure coordinator"
        )));
    }
    let (records, log) = disk.read(COORDINATOR_LOG)?;
    let settings = Settings::new(number, nodes);
    let machine = CoordinatorNode::new(0, settings, members.cluster, NoFaults, &records);
    let transport = Transport::bind(members, Party::CoordinatorNode(number), loss)?;
    Running::start(&format!("coordinator-{number}"), machine, transport, Some(log))
}
