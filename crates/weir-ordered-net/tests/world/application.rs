//! The registers of the simulated world, with operations and answers in bytes. Both may have padding, to be large.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use weir_core::ids::{ShardId, TxnId};
use weir_kv::Bytes;
use weir_ordered::application::Application;
use weir_ordered::footprint::Footprint;
use weir_ordered::packet::{Index, Packet, Part, Stamp, Transaction};
use weir_ordered::replica::log::{Entry, Log};
use weir_ordered_net::wire::Operation;

use crate::world::registers::{Change, Register, Registers, Snapshot, Values, is_read};

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

/// The registers of one shard, and what has changed them, in order: logs forget that.
#[derive(Clone, Debug)]
pub struct ByteRegisters {
    registers: Registers,
    executed: Vec<(Index, Vec<(Register, u64)>)>,
}

impl ByteRegisters {
    pub fn new(shard: ShardId) -> ByteRegisters {
        ByteRegisters { registers: Registers::new(shard), executed: Vec::new() }
    }

    /// The executed changes, as a log. Each change has a number of its own, which says whose it is.
    pub fn log(&self, txns: &BTreeMap<u64, TxnId>) -> Log<Change> {
        let mut log = Log::default();
        for (_, changes) in &self.executed {
            log.push(Entry::Packet(packet(changes, txns)));
        }
        log
    }
}

/// A packet with the same stamp at all its shards.
fn packet(changes: &[(Register, u64)], txns: &BTreeMap<u64, TxnId>) -> Packet<Change> {
    let number = changes[0].1;
    let destinations: BTreeSet<ShardId> = changes.iter().map(|((shard, _), _)| *shard).collect();
    let transaction = Transaction {
        id: txns[&number],
        floor: 0,
        registration: 1,
        destinations: destinations.iter().copied().collect(),
        part: Part::Independent,
        operation: Change(changes.to_vec()),
    };
    let sequences = destinations.into_iter().map(|shard| (shard, number)).collect();
    Packet { stamp: Stamp { epoch: 1, sequences }, client_floor: 0, transaction: transaction.into() }
}

impl Application for ByteRegisters {
    type Operation = Operation;
    type Answer = Bytes;
    type Snapshot = Bytes;

    fn execute(&mut self, index: Index, operation: &Operation) -> Bytes {
        let (changes, padding): Operated = value(&operation.body);
        if !changes.iter().all(|(_, by)| is_read(*by)) {
            self.executed.push((index, changes.clone()));
        }
        let values = self.registers.execute(index, &Change(changes));
        bytes(&(values, padding))
    }

    fn footprint(&self, operation: &Operation) -> Footprint {
        self.registers.footprint(&Change(value::<Operated>(&operation.body).0))
    }

    fn reconnoitre(&self, operation: &Operation) -> Option<Bytes> {
        let (changes, padding): Operated = value(&operation.body);
        let values = self.registers.reconnoitre(&Change(changes))?;
        Some(bytes(&(values, padding)))
    }

    fn roll_back(&mut self, to: Index) {
        self.registers.roll_back(to);
        self.executed.retain(|(index, _)| *index <= to);
    }

    fn forget(&mut self, up_to: Index) {
        self.registers.forget(up_to);
    }

    fn snapshot(&self, at: Index) -> Bytes {
        let executed: Vec<_> = self.executed.iter().filter(|(index, _)| *index <= at).collect();
        bytes(&(self.registers.snapshot(at), executed))
    }

    fn restore(&mut self, at: Index, snapshot: &Bytes) {
        let (registers, executed): (Snapshot, _) = value(snapshot);
        self.registers.restore(at, &registers);
        self.executed = executed;
    }
}
