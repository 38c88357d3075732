//! A sequencer as a party. It keeps nothing: each start is another sequencer.
//!
//! It reads of a submitted transaction where that goes to, and passes its bytes on behind the stamp: to read and write a transaction whole
//! took 1.2 of the 2.9 microseconds that a packet takes.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_core::lsn::{Lsn, Outgoing};
use weir_net::{Fault, Kind, body};
use weir_ordered::carried::MessageKind;
use weir_ordered::cluster::Cluster;
use weir_ordered::message::{Party, Registration};
use weir_ordered::packet::{Stamp, Transaction};
use weir_ordered::sequencer::{Sequencer, Stamped};

use crate::driver::{Machine, PartyError, Running};
use crate::members::{Members, sequencer_id};
use crate::transport::{Loss, Received, Transport};
use crate::wire::{self, Message, OnWire, Operation};

/// First byte of [`Message::Submit`].
const SUBMIT: u8 = 0;
/// First byte of [`Message::Packet`].
const PACKET: u8 = 1;

/// A message that a sequencer receives or sends. It is small: each goes through two queues.
#[derive(Debug)]
pub enum SequencerMessage {
    Submit(Arc<Submitted>),
    /// It has a stamp.
    Packet(Arc<Submitted>),
    /// None that has a transaction.
    Other(Box<Message>),
}

/// A submitted transaction, and its packet once it is stamped: all in one place, which its messages share.
#[derive(Debug)]
pub struct Submitted {
    stamp: Stamp,
    client_floor: Registration,
    /// Its operation is in the bytes.
    head: Transaction<()>,
    bytes: TransactionBytes,
}

/// The bytes of a transaction.
#[derive(Debug)]
struct TransactionBytes {
    /// All but the last field.
    start: Vec<u8>,
    /// The last field.
    reply_to: Option<SocketAddr>,
}

impl Submitted {
    fn read(bytes: &[u8], cluster: &Cluster) -> Result<Submitted, Fault> {
        let mut rest = bytes;
        let transaction: Transaction<Operation<&[u8]>> = body::read(Kind::Peer, &mut rest)?;
        body::is_over(Kind::Peer, rest)?;
        cluster.check_transaction(&transaction).map_err(Fault::sense)?;
        let Transaction { id, floor, registration, destinations, part, operation } = transaction;
        let reply_to = operation.reply_to;
        let end = match reply_to {
            None => 1,
            Some(_) => {
                let mut written = Vec::new();
                body::write(&reply_to, &mut written);
                written.len()
            }
        };
        let start = bytes[..bytes.len() - end].to_vec();
        let head = Transaction { id, floor, registration, destinations, part, operation: () };
        let stamp = Stamp { epoch: 0, sequences: [].into() };
        Ok(Submitted { stamp, client_floor: 0, head, bytes: TransactionBytes { start, reply_to } })
    }
}

impl OnWire for SequencerMessage {
    fn read(bytes: &[u8], cluster: &Cluster) -> Result<SequencerMessage, Fault> {
        match bytes {
            [SUBMIT, transaction @ ..] => {
                Submitted::read(transaction, cluster).map(|one| SequencerMessage::Submit(Arc::new(one)))
            }
            _ => wire::decode(bytes, cluster).map(|message| SequencerMessage::Other(Box::new(message))),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            SequencerMessage::Submit(submitted) => {
                out.push(SUBMIT);
                submitted.bytes.write(out);
            }
            SequencerMessage::Packet(packet) => {
                out.push(PACKET);
                body::write(&packet.stamp, out);
                body::write(&packet.client_floor, out);
                packet.bytes.write(out);
            }
            SequencerMessage::Other(message) => wire::encode(&**message, out),
        }
    }

    fn is_alike(&self, other: &SequencerMessage) -> bool {
        match (self, other) {
            (SequencerMessage::Packet(a), SequencerMessage::Packet(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    fn kind(&self) -> MessageKind {
        match self {
            SequencerMessage::Submit(_) => MessageKind::Submit,
            SequencerMessage::Packet(_) => MessageKind::Packet,
            SequencerMessage::Other(message) => OnWire::kind(&**message),
        }
    }
}

impl TransactionBytes {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.start);
        body::write(&self.reply_to, out);
    }
}

impl Machine for Sequencer {
    type Message = SequencerMessage;
    type Record = ();

    /// Replies go to where the transaction has come from, unless that is a replica, which aborts it.
    fn on_received(&mut self, received: &mut Received<SequencerMessage>, _: &mut Transport) {
        if let (Party::Client(_), SequencerMessage::Submit(submitted), Some(address)) =
            (received.from, &mut received.message, received.address)
            && let Some(submitted) = Arc::get_mut(submitted)
        {
            submitted.bytes.reply_to = Some(address);
        }
    }

    fn step(
        &mut self,
        _now_ms: u64,
        _from: Party,
        message: SequencerMessage,
        out: &mut Vec<Outgoing<Party, SequencerMessage>>,
    ) {
        match message {
            SequencerMessage::Submit(submitted) => send_on(self, submitted, out),
            SequencerMessage::Other(message) => {
                others(out, |out| wire::with_effects(out, |out| Sequencer::step(self, *message, out)));
            }
            SequencerMessage::Packet(_) => {}
        }
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Vec<Outgoing<Party, SequencerMessage>>) {
        others(out, |out| wire::with_effects(out, |out| Sequencer::on_timer(self, now_ms, out)));
    }

    fn take_records(&mut self) -> Vec<()> {
        Vec::new()
    }

    fn snapshot(&self) -> Option<()> {
        None
    }
}

/// Sends a submitted transaction with its stamp to all replicas of its destinations.
fn send_on(
    sequencer: &mut Sequencer,
    mut submitted: Arc<Submitted>,
    out: &mut Vec<Outgoing<Party, SequencerMessage>>,
) {
    // The transaction has one owner until it is stamped.
    let Some(packet) = Arc::get_mut(&mut submitted) else { return };
    match sequencer.stamp(&packet.head) {
        Stamped::Packet(stamp, client_floor) => {
            (packet.stamp, packet.client_floor) = (stamp, client_floor);
            let destinations = &submitted.head.destinations;
            let parties = destinations.iter().flat_map(|shard| sequencer.cluster().group(*shard));
            out.extend(parties.map(|to| {
                let message = SequencerMessage::Packet(submitted.clone());
                Outgoing { to: Party::Replica(to), message, after: Lsn::START }
            }));
        }
        Stamped::Retired => {
            let Transaction { id, registration, .. } = packet.head;
            let message = SequencerMessage::Other(Box::new(Message::Retired { registration }));
            let to = Party::Client(id.coordinator);
            out.push(Outgoing { to, message, after: Lsn::START });
        }
        Stamped::Nothing => {}
    }
}

/// Adds messages that have no transaction.
fn others(
    out: &mut Vec<Outgoing<Party, SequencerMessage>>,
    send: impl FnOnce(&mut Vec<Outgoing<Party, Message>>),
) {
    let mut messages = Vec::new();
    send(&mut messages);
    out.extend(messages.into_iter().map(|Outgoing { to, message, after }| {
        let message = SequencerMessage::Other(Box::new(message));
        Outgoing { to, message, after }
    }));
}

/// Starts a sequencer at that place of the members.
///
/// # Errors
/// The place is none of the cluster, or the system's.
pub fn start(members: Arc<Members>, place: u8, loss: Option<Loss>) -> Result<Running<Sequencer>, PartyError> {
    members.check().map_err(PartyError::Members)?;
    let id = sequencer_id(place);
    let machine = Sequencer::new(id, members.cluster);
    let transport = Transport::bind(members, Party::Sequencer(id), loss)?;
    Running::start("sequencer", machine, transport, None)
}
