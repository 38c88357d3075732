//! The registers of the simulated world, with operations and answers in bytes. Both may have padding, to be large.

use serde::de::DeserializeOwned;
use weir_core::ids::ShardId;
use weir_kv::Bytes;
use weir_ordered::application::Application;
use weir_ordered::packet::{Index, Packet};
use weir_ordered::replica::log::{Entry, Log};
use weir_ordered_net::wire::Operation;

use crate::world::registers::{Change, Register, Registers, Snapshot, Values};

/// Registers, how much each changes, and padding.
type Operated = (Vec<(Register, u64)>, Bytes);
/// Values, and the same padding.
type Answered = (Values, Bytes);

fn bytes(value: &impl serde::Serialize) -> Bytes {
    Bytes::new(&postcard::to_allocvec(value).unwrap())
}

fn value<T: DeserializeOwned + Default>(bytes: &[u8]) -> T {
    postcard::from_bytes(bytes).unwrap_or_default()
}

/// An operation that changes these registers.
pub fn operation(Change(changes): &Change, padding: usize) -> Bytes {
    bytes(&(changes, Bytes::new(&vec![7; padding])))
}

/// The values that an answer has.
pub fn values(answer: &Bytes, padding: usize) -> Values {
    let (values, padded): Answered = value(answer);
    assert_eq!(padded.len(), padding, "the padding of an answer is that of its operation");
    values
}

/// The log as that of the registers.
pub fn log_of_changes(log: &Log<Operation>) -> Log<Change> {
    let mut changes = Log::default();
    for (_, entry) in log.behind(0) {
        changes.push(match entry {
            Entry::NoOp => Entry::NoOp,
            Entry::Packet(packet) => Entry::Packet(packet_of_change(packet)),
        });
    }
    changes
}

fn packet_of_change(packet: &Packet<Operation>) -> Packet<Change> {
    let from = &*packet.transaction;
    let (changes, _): Operated = value(&from.operation.body);
    let transaction = weir_ordered::packet::Transaction {
        id: from.id,
        floor: from.floor,
        registration: from.registration,
        destinations: from.destinations.clone(),
        operation: Change(changes),
    };
    Packet { stamp: packet.stamp.clone(), client_floor: packet.client_floor, transaction: transaction.into() }
}

/// The registers of one shard.
#[derive(Clone, Debug)]
pub struct ByteRegisters(Registers);

impl ByteRegisters {
    pub fn new(shard: ShardId) -> ByteRegisters {
        ByteRegisters(Registers::new(shard))
    }
}

impl Application for ByteRegisters {
    type Operation = Operation;
    type Answer = Bytes;
    type Snapshot = Bytes;

    fn execute(&mut self, index: Index, operation: &Operation) -> Bytes {
        let (changes, padding): Operated = value(&operation.body);
        let values = self.0.execute(index, &Change(changes));
        bytes(&(values, padding))
    }

    fn roll_back(&mut self, to: Index) {
        self.0.roll_back(to);
    }

    fn forget(&mut self, up_to: Index) {
        self.0.forget(up_to);
    }

    fn snapshot(&self, at: Index) -> Bytes {
        bytes(&self.0.snapshot(at))
    }

    fn restore(&mut self, at: Index, snapshot: &Bytes) {
        self.0.restore(at, &value::<Snapshot>(snapshot));
    }
}
