//! The bytes of messages and of datagrams.
//!
//! A datagram has a head (version, checksum, sender) and messages, each with its length. Opens no socket.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use weir_core::lsn::Outgoing;
use weir_kv::Bytes;
use weir_net::{Fault, Kind, body};
use weir_ordered::carried::{Carried, MessageKind};
use weir_ordered::cluster::Cluster;
use weir_ordered::message::{self, Party};
use weir_ordered::replica;

/// Operation of a transaction, which only the application reads, and where its replies go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation<B = Bytes> {
    pub body: B,
    /// None: to the stream of the client. The sequencer says where the client's datagram came from. It is the end of a transaction's bytes, so
    /// that a sequencer passes on the bytes before it as they are.
    pub reply_to: Option<SocketAddr>,
}

pub type Message = message::Message<Operation, Bytes, Bytes>;
pub type Effects = message::Effects<Operation, Bytes, Bytes>;
/// Runs a step of a machine of weir-ordered, whose messages are added.
pub fn with_effects<O, R, S>(
    out: &mut Vec<Outgoing<Party, message::Message<O, R, S>>>,
    step: impl FnOnce(&mut message::Effects<O, R, S>),
) {
    let mut effects = message::Effects { messages: std::mem::take(out) };
    step(&mut effects);
    *out = effects.messages;
}

pub type ReplicaRecord = replica::records::Record<Operation, Bytes, Bytes>;
pub type CoordinatorNode = weir_ordered_raft::CoordinatorNode<Operation, Bytes, Bytes>;

/// Length of a datagram, at most: it fits into an Ethernet frame, also within a tunnel.
pub const DATAGRAM_BYTES: usize = 1_400;
/// Length of a message, at most. It then goes over a stream, in parts.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

const MAGIC: [u8; 2] = *b"WO";
pub const VERSION: u8 = 4;
/// Magic, version, a zero, checksum.
const HEAD_BYTES: usize = 8;
const LENGTH_BYTES: usize = 2;
/// The longest sender: a tag and an id of up to ten bytes.
const SENDER_BYTES_MAX: usize = 11;
/// Length of a message that goes into a datagram, at most.
pub const SMALL_BYTES_MAX: usize = DATAGRAM_BYTES - HEAD_BYTES - SENDER_BYTES_MAX - LENGTH_BYTES;

/// Adds the message to the bytes.
pub fn encode<M: Carried>(message: &M, out: &mut Vec<u8>) {
    body::write(message, out);
}

/// Reads a message that is all of these bytes, and checks it.
///
/// # Errors
/// It is none, or makes no sense in this cluster.
pub fn decode<M: Carried>(mut bytes: &[u8], cluster: &Cluster) -> Result<M, Fault> {
    let message: M = body::read(Kind::Peer, &mut bytes)?;
    body::is_over(Kind::Peer, bytes)?;
    message.check(cluster).map_err(Fault::sense)?;
    Ok(message)
}

/// A message as a party reads and writes it.
pub trait OnWire: Send + Sized + 'static {
    /// Reads a message that is all of these bytes, and checks it.
    ///
    /// # Errors
    /// It is none, or makes no sense in this cluster.
    fn read(bytes: &[u8], cluster: &Cluster) -> Result<Self, Fault>;
    /// Adds the message to the bytes.
    fn write(&self, out: &mut Vec<u8>);
    /// Returns whether both have the same bytes. It may say no although they have.
    fn is_alike(&self, other: &Self) -> bool;
    /// Its kind, for the counts of a transport.
    fn kind(&self) -> MessageKind;
}

impl<M: Carried> OnWire for M {
    fn read(bytes: &[u8], cluster: &Cluster) -> Result<M, Fault> {
        decode(bytes, cluster)
    }

    fn write(&self, out: &mut Vec<u8>) {
        encode(self, out);
    }

    fn is_alike(&self, other: &M) -> bool {
        Carried::is_alike(self, other)
    }

    fn kind(&self) -> MessageKind {
        Carried::kind(self)
    }
}

/// Writes the datagrams of one sender.
#[derive(Clone, Debug)]
pub struct Datagram {
    tag: u64,
    /// The head, with room for the checksum, and the sender.
    head: Vec<u8>,
}

impl Datagram {
    pub fn new(tag: u64, sender: Party) -> Datagram {
        let mut head = Vec::with_capacity(HEAD_BYTES + SENDER_BYTES_MAX);
        head.extend(MAGIC);
        head.extend([VERSION, 0, 0, 0, 0, 0]);
        body::write(&sender, &mut head);
        assert!(head.len() <= HEAD_BYTES + SENDER_BYTES_MAX, "a sender takes no more");
        Datagram { tag, head }
    }

    /// Adds the beginning of a datagram.
    pub fn begin(&self, out: &mut Vec<u8>) {
        out.extend(&self.head);
    }

    /// Adds a message to a datagram.
    pub fn push(message: &[u8], out: &mut Vec<u8>) {
        let length = u16::try_from(message.len()).expect("a message of a datagram is small");
        out.extend(length.to_le_bytes());
        out.extend(message);
    }

    /// Length of a datagram of this length with a message more.
    pub fn length_with(length: usize, message: &[u8]) -> usize {
        length + LENGTH_BYTES + message.len()
    }

    /// Completes a datagram: nothing is added to it any more.
    pub fn seal(&self, datagram: &mut [u8]) {
        let sum = checksum(self.tag, datagram);
        datagram[4..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    }
}

fn checksum(tag: u64, datagram: &[u8]) -> u32 {
    let seed = crc32c::crc32c_append(crc32c::crc32c(&tag.to_le_bytes()), &datagram[..4]);
    crc32c::crc32c_append(seed, &datagram[HEAD_BYTES..])
}

/// A datagram that has come: its sender, and the bytes of its messages.
#[derive(Debug)]
pub struct Opened<'a> {
    pub from: Party,
    rest: &'a [u8],
}

/// Opens a datagram.
///
/// # Errors
/// It is none of this cluster, or of another version.
pub fn open<'a>(tag: u64, datagram: &'a [u8], cluster: &Cluster) -> Result<Opened<'a>, Fault> {
    let Some((head, mut rest)) = datagram.split_first_chunk::<HEAD_BYTES>() else {
        return Err(Fault::Length(datagram.len()));
    };
    if head[..2] != MAGIC || head[2] != VERSION {
        return Err(Fault::sense(format_args!("a datagram of version {}, and {VERSION} is spoken", head[2])));
    }
    if checksum(tag, datagram).to_le_bytes() != head[4..] {
        return Err(Fault::sense("a datagram of another cluster, or a damaged one"));
    }
    let from = body::read(Kind::Peer, &mut rest)?;
    cluster.check_party(from).map_err(Fault::sense)?;
    Ok(Opened { from, rest })
}

impl<'a> Iterator for Opened<'a> {
    type Item = Result<&'a [u8], Fault>;

    /// The bytes of the next message.
    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.rest.split_first_chunk::<LENGTH_BYTES>()?;
        let length = usize::from(u16::from_le_bytes(*length));
        if length == 0 {
            return None;
        }
        let Some((message, rest)) = rest.split_at_checked(length) else {
            self.rest = &[];
            return Some(Err(Fault::Length(length)));
        };
        self.rest = rest;
        Some(Ok(message))
    }
}
