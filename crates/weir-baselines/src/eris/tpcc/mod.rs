//! TPC-C (revision 5.11) as one-shot transactions over shards that are partitioned by warehouse, as eris.txt §8.2 runs it.
//!
//! Every shard has all that no transaction changes ([`copied`]): items, and the columns of stock, customers, districts and warehouses that are
//! read only. So each participant's part of a New-Order or Payment follows from its own data, every transaction is independent, and that an
//! item number is unused, which rolls a New-Order back, is decided alike everywhere. Numbers of warehouses, districts, customers and items
//! begin at 0, those of orders at 1; amounts are cents.

mod chance;
pub mod consistency;
pub mod copied;
mod execution;
pub mod faults;
pub mod generator;
pub mod procedure;
pub mod tables;
mod undo;

use weir_core::ids::ShardId;
use weir_ordered::packet::Index;

use super::application::{Application, Origin};
use super::operation::{Key, Placement, Value};
use copied::Copied;
use faults::{Faults, NoFaults};
use procedure::{Answer, Call};
use tables::Tables;
use undo::Undo;

pub use chance::Chance;

pub type WarehouseId = u16;
pub type DistrictId = u8;
pub type CustomerId = u32;
pub type ItemId = u32;
pub type OrderId = u32;
pub type Cents = i64;

/// Districts of a warehouse.
pub const DISTRICTS: DistrictId = 10;
/// Last names that customers may have.
pub const NAMES: u32 = 1_000;

/// How much data there are. A district begins with as many orders as customers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    pub warehouses: WarehouseId,
    /// Of a district.
    pub customers: u32,
    pub items: u32,
}

impl Scale {
    /// That of the specification.
    pub fn full(warehouses: WarehouseId) -> Scale {
        Scale { warehouses, customers: 3_000, items: 100_000 }
    }

    /// Orders of a district that are delivered at the beginning.
    pub fn delivered(self) -> u32 {
        self.customers * 7 / 10
    }

    /// Names that customers of each district have.
    pub fn names(self) -> u32 {
        self.customers.min(NAMES)
    }
}

/// The shard that has a warehouse.
pub fn shard_of(warehouse: WarehouseId, placement: Placement) -> ShardId {
    warehouse % placement.shards
}

/// The data of a shard.
#[derive(Clone, Debug)]
pub struct Tpcc<F = NoFaults> {
    shard: ShardId,
    placement: Placement,
    copied: &'static Copied,
    tables: Tables,
    undo: Undo,
    faults: F,
}

impl<F: Faults> Tpcc<F> {
    pub fn tables(&self) -> &Tables {
        &self.tables
    }
}

/// The data with which shards begin.
#[derive(Clone, Copy, Debug)]
pub struct Loaded<F = NoFaults> {
    /// One for all shards of a process, for as long as that runs: replicas read it, and never write.
    pub copied: &'static Copied,
    pub faults: F,
}

impl<F: Faults> Origin for Loaded<F> {
    type Application = Tpcc<F>;

    fn shard(self, shard: ShardId, placement: Placement) -> Tpcc<F> {
        let Loaded { copied, faults } = self;
        Tpcc {
            shard,
            placement,
            copied,
            tables: Tables::load(copied, shard, placement),
            undo: Undo::default(),
            faults,
        }
    }
}

impl<F: Faults> Application for Tpcc<F> {
    type Operation = Call;
    type Snapshot = Tables;

    fn place(&self) -> (ShardId, Placement) {
        (self.shard, self.placement)
    }

    fn answer(&self, call: &Call, _reads: &[(Key, Value)]) -> Answer {
        self.evaluate(call)
    }

    fn execute(&mut self, index: Index, call: &Call, _reads: &[(Key, Value)]) -> Answer {
        let answer = self.evaluate(call);
        self.change(Some(index), call);
        answer
    }

    fn execute_for_good(&mut self, call: &Call, _reads: &[(Key, Value)]) -> Answer {
        let answer = self.evaluate(call);
        self.change(None, call);
        answer
    }

    fn roll_back(&mut self, to: Index) {
        let shards = self.placement.shards;
        while let Some(change) = self.undo.pop_behind(to) {
            change.undo(self.tables.warehouse_mut(change.warehouse(), shards), &self.faults);
        }
    }

    fn forget(&mut self, up_to: Index) {
        self.undo.forget(up_to);
    }

    fn snapshot(&self) -> Tables {
        self.tables.clone()
    }

    fn restore(&mut self, _at: Index, tables: &Tables) {
        self.tables = tables.clone();
        self.undo = Undo::default();
    }
}

#[cfg(test)]
mod unit_tests;
