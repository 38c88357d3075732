//! A replica as a party, with its log on disk.

use std::sync::Arc;

use weir_core::lsn::Outgoing;
use weir_kv::Bytes;
use weir_ordered::application::Application;
use weir_ordered::cluster::ReplicaId;
use weir_ordered::faults::NoFaults;
use weir_ordered::message::Party;
use weir_ordered::packet::{Packet, Part};
use weir_ordered::replica::{RecordOf, Replica};

use crate::disk::DiskSettings;
use crate::driver::{Machine, PartyError, Running};
use crate::members::{Members, start_number};
use crate::transport::{Loss, Received, Transport};
use crate::wire::{self, Message, Operation};

/// An application that replicas execute: it reads the bytes of operations and writes those of answers.
pub trait ByteApplication:
    Application<Operation = Operation, Answer = Bytes, Snapshot = Bytes> + Send + 'static
{
}

impl<A: Application<Operation = Operation, Answer = Bytes, Snapshot = Bytes> + Send + 'static> ByteApplication
    for A
{
}

impl<A: ByteApplication> Machine for Replica<A> {
    type Message = Message;
    type Record = RecordOf<A>;

    /// A packet says where its client is.
    fn on_received(&mut self, received: &mut Received, transport: &mut Transport) {
        if let Message::Packet(packet) | Message::SlotFound(packet) | Message::TxnFound(packet) =
            &received.message
        {
            learn(packet, transport);
        }
    }

    fn step(&mut self, now_ms: u64, from: Party, message: Message, out: &mut Vec<Outgoing<Party, Message>>) {
        wire::with_effects(out, |out| Replica::step(self, now_ms, from, message, out));
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Vec<Outgoing<Party, Message>>) {
        wire::with_effects(out, |out| Replica::on_timer(self, now_ms, out));
    }

    fn take_records(&mut self) -> Vec<RecordOf<A>> {
        Replica::take_records(self)
    }

    fn snapshot(&self) -> Option<RecordOf<A>> {
        Some(Replica::snapshot(self))
    }
}

fn learn(packet: &Packet<Operation>, transport: &mut Transport) {
    let transaction = &packet.transaction;
    // An abort comes from a replica, and nobody answers it.
    if transaction.part == Part::ReplicaAbort {
        return;
    }
    if let Some(address) = transaction.operation.reply_to {
        transport.learn(transaction.id.coordinator, address);
    }
}

/// Starts a replica with what is on its disk. `application`: its state before the first transaction.
///
/// # Errors
/// The log cannot be read, the replica is none of the cluster, or the system's.
pub fn start<A: ByteApplication>(
    members: Arc<Members>,
    id: ReplicaId,
    application: A,
    disk: &DiskSettings,
    loss: Option<Loss>,
) -> Result<Running<Replica<A>>, PartyError> {
    members.check().map_err(PartyError::Members)?;
    let (machine, log) = read(&members, id, application, disk)?;
    let transport = Transport::bind(members, Party::Replica(id), loss)?;
    Running::start(&format!("replica-{}-{}", id.shard, id.number), machine, transport, Some(log))
}

/// A replica as it is on its disk, and its log.
///
/// # Errors
/// The log cannot be read.
pub fn read<A: ByteApplication>(
    members: &Members,
    id: ReplicaId,
    application: A,
    disk: &DiskSettings,
) -> Result<(Replica<A>, weir_server::serve::log::Log), PartyError> {
    let (records, log) = disk.read(id.shard)?;
    let start = (start_number(), &records[..]);
    Ok((Replica::new(0, id, members.cluster, NoFaults, application, start), log))
}
