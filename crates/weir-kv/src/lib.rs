//! RAMP over items: read-atomic transactions over keys and values on many shards, in the paper's three
//! variants.
//!
//! Source: ramp.txt, Algorithms 1 to 3 and §4.5 to §4.7, with soundness S3, S5, S6, S9 and S10. Guarantees: all of a transaction's writes
//! become visible together, to reads of keys and of ranges; no transaction waits for another one; only the shards of the items are asked.
//! Not provided: an order of transactions that write the same items, beyond the stamps that decide which write wins.
//!
//! The design is docs/internals/items.md.

pub mod buffer;
pub mod bytes;
pub mod chain;
pub mod coordinator;
pub mod cut;
mod exposed;
pub mod faults;
mod guard;
pub mod interactive;
pub mod log;
pub mod message;
pub mod metadata;
#[cfg(test)]
mod paper_tests;
pub mod partition;
mod payload;
pub mod place;
pub mod reader;
pub mod relations;
pub mod sizes;
pub mod table;
#[cfg(test)]
mod termination_tests;
pub mod write;

pub use buffer::NotOneWrite;
pub use bytes::{Bytes, Key};
pub use coordinator::{Coordinator, Done, GivenUp, Options, Transaction};
pub use interactive::Isolation;
pub use log::Record;
pub use message::{Answer, Fate, Guard, ItemRead, KeyRange, Progress, Reply, Request, Stamp};
pub use metadata::{Metadata, Sketch, Variant};
pub use partition::Partition;
pub use payload::Items;
pub use place::{ByShard, Slots, fingerprint, part_at, shard_of, slots_by_shard, writes_by_shard};
pub use reader::ReadSet;
pub use sizes::Sizes;
pub use weir_core::termination::Timeouts;
pub use write::Write;

use weir_core::machine::{self, CoordinatorOf};

/// A coordinator of transactions over items, of any protocol.
pub trait ItemCoordinator<S: machine::Shard>:
    CoordinatorOf<S> + machine::Coordinator<Transaction = Transaction, Done = Done>
{
}

impl<S, C> ItemCoordinator<S> for C
where
    S: machine::Shard,
    C: CoordinatorOf<S> + machine::Coordinator<Transaction = Transaction, Done = Done>,
{
}
