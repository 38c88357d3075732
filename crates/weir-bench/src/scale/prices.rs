//! Measured costs of the steps of the real state machines, used by simulations.
//!
//! `weir calibrate` measures them (`calibrate.rs`) and writes prices.json, which is compiled into the program: the same simulation yields
//! the same figures everywhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_kv::{ItemCoordinator, Transaction};
use weir_sim::scale::{Charge, Tariff, Wire};

use crate::ycsb::{ItemShard, Protocol, Shape, Shaped};

/// Measured on one core of the machine that it names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prices {
    pub version: u32,
    pub machine: String,
    pub date: String,
    pub command: String,
    pub wire: WirePrices,
    /// By protocol over items.
    pub protocols: BTreeMap<String, ProtocolPrices>,
    /// Nanoseconds, by kind of message, of the calls of one SQL procedure.
    pub calls: BTreeMap<String, f64>,
}

/// Nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct WirePrices {
    pub batch_out_ns: f64,
    pub batch_in_ns: f64,
    pub message_out_ns: f64,
    pub message_in_ns: f64,
    pub byte_out_ns: f64,
    pub byte_in_ns: f64,
    pub handover_ns: f64,
}

/// By kind of message.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProtocolPrices {
    /// To begin a transaction, at the coordinator.
    pub begins: BTreeMap<String, Price>,
    /// At the shard.
    pub requests: BTreeMap<String, Price>,
    /// At the coordinator.
    pub replies: BTreeMap<String, Price>,
    /// Cost of a batch's progress and epoch, at each end.
    pub progress_ns: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Price {
    pub each_ns: f64,
    pub operation_ns: f64,
}

impl Prices {
    /// The prices that the program was built with.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn shipped() -> Result<Prices, String> {
        Prices::from_json(include_str!("prices.json")).map_err(|error| format!("prices.json: {error}"))
    }

    /// # Errors
    /// The error in the text.
    pub fn from_json(text: &str) -> Result<Prices, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    pub fn wire(&self) -> Wire {
        let wire = &self.wire;
        Wire {
            batch_out_ps: picoseconds(wire.batch_out_ns),
            batch_in_ps: picoseconds(wire.batch_in_ns),
            message_out_ps: picoseconds(wire.message_out_ns),
            message_in_ps: picoseconds(wire.message_in_ns),
            byte_out_ps: picoseconds(wire.byte_out_ns),
            byte_in_ps: picoseconds(wire.byte_in_ns),
            batch_bytes: BATCH_BYTES,
            handover_ps: picoseconds(wire.handover_ns),
        }
    }

    /// # Errors
    /// It has not been measured.
    pub fn of(&self, protocol: Protocol) -> Result<ItemTariff, String> {
        let prices = self.protocols.get(protocol.name()).ok_or_else(|| {
            format!("`{}` has not been measured; `weir calibrate` does it", protocol.name())
        })?;
        Ok(ItemTariff {
            begins: in_picoseconds(&prices.begins),
            requests: in_picoseconds(&prices.requests),
            replies: in_picoseconds(&prices.replies),
            progress_ps: picoseconds(prices.progress_ns),
        })
    }
}

/// A frame's head, and what it says of its coordinator and its shard.
const BATCH_BYTES: u64 = 64;

fn picoseconds(nanoseconds: f64) -> u64 {
    (nanoseconds.max(0.0) * 1e3) as u64
}

/// In picoseconds, for the message and for each operation.
type Table = Vec<(String, u64, u64)>;

fn in_picoseconds(prices: &BTreeMap<String, Price>) -> Table {
    let each = prices.values().map(|price| price.each_ns).sum::<f64>() / prices.len().max(1) as f64;
    let of = |(kind, price): (&String, &Price)| {
        (kind.clone(), picoseconds(price.each_ns), picoseconds(price.operation_ns))
    };
    // A message that was too rare to be measured costs what messages cost on average.
    prices.iter().map(of).chain([(String::new(), picoseconds(each), 0)]).collect()
}

/// Prices of a protocol over items.
#[derive(Clone, Debug)]
pub struct ItemTariff {
    begins: Table,
    requests: Table,
    replies: Table,
    progress_ps: u64,
}

fn charge(table: &Table, shape: Shape) -> Charge {
    Charge { handling_ps: cost_ps(table, shape.kind, shape.operations), bytes: shape.bytes as u64 }
}

fn cost_ps(table: &Table, kind: &str, operations: usize) -> u64 {
    let known = table.iter().find(|(one, ..)| one == kind).or(table.last());
    known.map_or(0, |(_, each_ps, operation_ps)| each_ps + operation_ps * operations as u64)
}

/// The first operation of a transaction, and the number of its operations.
pub fn beginning(transaction: &Transaction) -> (&'static str, usize) {
    let reads = transaction.reads.len() + transaction.ranges.len();
    let kind = if reads > 0 { "read" } else { "write" };
    (kind, reads + transaction.writes.len())
}

impl<S: ItemShard, C: ItemCoordinator<S>> Tariff<S, C> for ItemTariff {
    fn begin_ps(&self, transaction: &Transaction) -> u64 {
        let (kind, operations) = beginning(transaction);
        cost_ps(&self.begins, kind, operations)
    }

    fn request(&self, request: &S::Request) -> Charge {
        charge(&self.requests, request.shape())
    }

    fn reply(&self, reply: &S::Reply) -> Charge {
        charge(&self.replies, reply.shape())
    }

    fn progress_ps(&self) -> u64 {
        self.progress_ps
    }
}
