//! The comparators of eris.txt §8 are in [`eris`]. The others are those of ramp.txt §5.1, as state machines of the shape that RAMP over items has
//! (`weir_core::machine`), over the same items: one driver runs all.
//!
//! Pure: no clock, no socket, no thread, no chance of its own. Nothing here is for production; a comparator
//! that is broken or slow would flatter what it is compared with, so each is as good as honest code makes it.
//!
//! | name | the paper's | guarantees | rounds of a read | rounds of a write |
//! |---|---|---|---|---|
//! | `none` | NWNR (NWN) | nothing | 1 | 1 |
//! | `lwnr` | LWNR (LWN) | PL-1, read uncommitted | 1 | r + 1 |
//! | `lwsr` | LWSR | PL-2, read committed | 1, and waits | r + 1, and waits |
//! | `lwlr` | LWLR | PL-2.99, repeatable read; serializable over items | r + 1, and waits | r + 1, and waits |
//! | `e-pci` | E-PCI, Eiger's 2PC-PCI | snapshots at a timestamp, so no fractured reads | 1, or 2 when a write is under way | 2 |
//!
//! r: how many runs of consecutive keys on one shard the items form, in order of keys; from 1 to their
//! number. The +1 is the round that applies and releases, which the client does not wait for; it falls away
//! when r is 1.
//!
//! Where they differ from the paper, always in favour of the comparator:
//!
//! * All: requests of one transaction to one shard are one message a round. A client is answered once nothing
//!   can undo its transaction, as in RAMP over items; the messages that follow are not waited for. So a client
//!   reads its own writes under `lwnr` only where links keep their order.
//! * `none`: a transaction that reads and writes does both in the same round.
//! * Locks: keys next to each other on one shard are locked by one message. The shard of the last run applies
//!   and releases at once, because then all locks are held (not where a transaction reads under long locks and
//!   writes). Locks are granted first come first served. A write travels with the request for its lock. A
//!   range under `lwlr` is first looked up, then its items are locked: new items may appear meanwhile, which
//!   PL-2.99 permits.
//! * `e-pci`: votes and decisions go from shard to shard as in Eiger, so that a writing client waits for three
//!   messages, not four. A shard that asks learns a bound that spares later readers the same question. Old
//!   versions go as soon as no read that the coordinators know of can want them, after five seconds at the
//!   latest; a read that comes too late for them begins again.

#[cfg(test)]
#[path = "../../weir-sim/src/chance.rs"]
#[allow(dead_code, reason = "the simulator uses all of it")]
mod chance;
pub mod e_pci;
pub mod eris;
pub mod faults;
pub mod lock_manager;
pub mod locking;
pub mod none;
mod row;

#[cfg(test)]
mod tests;

use weir_core::ids::{CoordinatorId, ShardId};
use weir_core::machine::Shard;
use weir_kv::ItemCoordinator;

use faults::{Faults, NoFaults};
use locking::ReadLocks;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    None,
    Locking(ReadLocks),
    EPci,
}

impl Protocol {
    pub const ALL: [Protocol; 5] = [
        Protocol::None,
        Protocol::Locking(ReadLocks::None),
        Protocol::Locking(ReadLocks::Short),
        Protocol::Locking(ReadLocks::Long),
        Protocol::EPci,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Protocol::None => "none",
            Protocol::Locking(ReadLocks::None) => "lwnr",
            Protocol::Locking(ReadLocks::Short) => "lwsr",
            Protocol::Locking(ReadLocks::Long) => "lwlr",
            Protocol::EPci => "e-pci",
        }
    }

    /// It promises that reads are never fractured (ramp.txt §3).
    pub fn is_read_atomic(self) -> bool {
        matches!(self, Protocol::Locking(ReadLocks::Long) | Protocol::EPci)
    }
}

/// The protocol of that name, as in the table above.
pub fn by_name(name: &str) -> Option<Protocol> {
    Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)
}

/// Counters of a shard for costs of readers and writers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Locks that were waited for.
    pub lock_waits: u64,
    /// Reads of an item with a prepared write that might have committed at or below their timestamp.
    pub checked_reads: u64,
    /// Transactions whose outcome such reads had to find out.
    pub commit_checks: u64,
    /// Messages to other shards that asked so.
    pub check_messages: u64,
}

/// A shard of a comparator.
pub trait Comparator: Shard<Request: Clone, Reply: Clone> {
    fn counts(&self) -> Counts;
}

/// Driver of a cluster, independent of its protocol.
pub trait Drive {
    type Output;

    fn run<S, C>(self, shards: Vec<S>, coordinators: Vec<C>) -> Self::Output
    where
        S: Comparator,
        C: ItemCoordinator<S>;
}

/// A cluster to be made.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<F = NoFaults> {
    pub shards: ShardId,
    pub coordinators: CoordinatorId,
    /// Decides which shards decide (`e-pci`).
    pub seed: u64,
    pub bugs: F,
}

impl Protocol {
    /// Makes the machines of a cluster and hands them to the driver.
    pub fn drive<F: Faults, D: Drive>(self, cluster: Cluster<F>, driver: D) -> D::Output {
        let Cluster { shards, coordinators, seed, bugs } = cluster;
        let (shard_ids, ids) = (0..shards, 0..coordinators);
        match self {
            Protocol::None => driver.run(
                shard_ids.map(none::Partition::new).collect(),
                ids.map(|id| none::Coordinator::new(id, shards)).collect(),
            ),
            Protocol::Locking(reads) => driver.run(
                shard_ids.map(|id| locking::Partition::new(id, bugs)).collect(),
                ids.map(|id| locking::Coordinator::new(id, shards, reads)).collect(),
            ),
            Protocol::EPci => driver.run(
                shard_ids.map(|id| e_pci::Partition::new(id, bugs)).collect(),
                ids.map(|id| e_pci::Coordinator::new(id, shards, seed)).collect(),
            ),
        }
    }
}
