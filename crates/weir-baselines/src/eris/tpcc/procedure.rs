//! The five transactions: their arguments, what they lock, and what participants answer (clauses 2.4 to 2.8).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::ShardId;

use super::super::application::OneShot;
use super::super::operation::{Access, Key, Placement, Reads};
use super::{Cents, CustomerId, DISTRICTS, DistrictId, ItemId, OrderId, WarehouseId, shard_of};

/// An item that is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub item: ItemId,
    pub supply: WarehouseId,
    pub quantity: u8,
}

/// How a customer is named. Names do not change, so whoever begins the transaction knows the number, and shards find the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selected {
    ByNumber(CustomerId),
    ByName(u16, CustomerId),
}

impl Selected {
    pub fn customer(self) -> CustomerId {
        match self {
            Selected::ByNumber(customer) | Selected::ByName(_, customer) => customer,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewOrder {
    pub warehouse: WarehouseId,
    pub district: DistrictId,
    pub customer: CustomerId,
    pub entered_ms: u64,
    /// Of different items. One with an unused number rolls all of it back.
    pub lines: Vec<Line>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payment {
    /// Where it is paid.
    pub warehouse: WarehouseId,
    pub district: DistrictId,
    /// Where the customer is.
    pub of_warehouse: WarehouseId,
    pub of_district: DistrictId,
    pub customer: Selected,
    pub amount: Cents,
    pub paid_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Procedure {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus { warehouse: WarehouseId, district: DistrictId, customer: Selected },
    Delivery { warehouse: WarehouseId, carrier: u8, at_ms: u64 },
    StockLevel { warehouse: WarehouseId, district: DistrictId, threshold: i16 },
}

/// A call of one of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call(pub Arc<Procedure>);

/// The answer of a participant. Texts that do not change are at every shard, and are not told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It has no part of the call.
    #[default]
    Nothing,
    /// An item number is unused.
    RolledBack,
    NewOrder {
        /// At the warehouse that has the order: its number, and the sum with discount and taxes.
        order: Option<(OrderId, Cents)>,
        /// Of the lines that this shard supplies: their places, what is left, and whether both texts have "ORIGINAL".
        stock: Vec<(u8, i16, bool)>,
    },
    Payment {
        /// Where the customer is: the balance, and the beginning of C_DATA if the credit is bad.
        customer: Option<(Cents, Vec<u8>)>,
    },
    OrderStatus {
        balance: Cents,
        order: OrderId,
        carrier: Option<u8>,
        /// Item, supplying warehouse, quantity, amount, and when it was delivered.
        lines: Vec<(ItemId, WarehouseId, u8, Cents, Option<u64>)>,
    },
    /// The order of each district that is delivered; none: it had no new one.
    Delivery {
        orders: Vec<Option<OrderId>>,
    },
    StockLevel {
        below: u32,
    },
}

/// Kinds of keys. A number of a warehouse, of a district, and of a customer or item are below.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
enum KeyKind {
    /// W_YTD and the HISTORY of a warehouse.
    Paid,
    /// D_YTD.
    DistrictPaid,
    /// D_NEXT_O_ID, and the ORDER, NEW-ORDER and ORDER-LINE of a district.
    Orders,
    /// All customers of a district: who changes one of them shares it, and Delivery, whose customers are known when it is executed only,
    /// has it alone.
    Customers,
    Customer,
    Stock,
}

fn key(kind: KeyKind, warehouse: WarehouseId, district: DistrictId, number: u32) -> Key {
    (kind as u64) << 56 | u64::from(warehouse) << 40 | u64::from(district) << 32 | u64::from(number)
}

/// A key with its warehouse.
type At = (WarehouseId, Key, Access);

impl Procedure {
    pub fn home(&self) -> WarehouseId {
        match *self {
            Procedure::NewOrder(NewOrder { warehouse, .. })
            | Procedure::Payment(Payment { warehouse, .. })
            | Procedure::OrderStatus { warehouse, .. }
            | Procedure::Delivery { warehouse, .. }
            | Procedure::StockLevel { warehouse, .. } => warehouse,
        }
    }

    /// Other warehouses that it changes.
    fn others(&self) -> impl Iterator<Item = WarehouseId> + '_ {
        let (lines, paying) = match self {
            Procedure::NewOrder(order) => (&order.lines[..], None),
            Procedure::Payment(payment) => (&[][..], Some(payment.of_warehouse)),
            _ => (&[][..], None),
        };
        lines.iter().map(|line| line.supply).chain(paying)
    }

    /// Rows that it locks. The stock that Stock-Level reads is not locked: clause 3.4.1 lets it read whatever is committed.
    fn accesses(&self) -> Vec<At> {
        let at = |kind, warehouse, district, number, access| {
            (warehouse, key(kind, warehouse, district, number), access)
        };
        match self {
            Procedure::NewOrder(order) => {
                let own = at(KeyKind::Orders, order.warehouse, order.district, 0, Access::Write);
                let stock = |line: &Line| at(KeyKind::Stock, line.supply, 0, line.item, Access::Write);
                std::iter::once(own).chain(order.lines.iter().map(stock)).collect()
            }
            Procedure::Payment(Payment {
                warehouse, district, of_warehouse, of_district, customer, ..
            }) => vec![
                at(KeyKind::Paid, *warehouse, 0, 0, Access::Write),
                at(KeyKind::DistrictPaid, *warehouse, *district, 0, Access::Write),
                at(KeyKind::Customers, *of_warehouse, *of_district, 0, Access::Read),
                at(KeyKind::Customer, *of_warehouse, *of_district, customer.customer(), Access::Write),
            ],
            Procedure::OrderStatus { warehouse, district, customer } => vec![
                at(KeyKind::Orders, *warehouse, *district, 0, Access::Read),
                at(KeyKind::Customers, *warehouse, *district, 0, Access::Read),
                at(KeyKind::Customer, *warehouse, *district, customer.customer(), Access::Read),
            ],
            Procedure::Delivery { warehouse, .. } => {
                let kinds = [KeyKind::Orders, KeyKind::Customers];
                let of_district = |district| {
                    kinds.into_iter().map(move |kind| at(kind, *warehouse, district, 0, Access::Write))
                };
                (0..DISTRICTS).flat_map(of_district).collect()
            }
            Procedure::StockLevel { warehouse, district, .. } => {
                vec![at(KeyKind::Orders, *warehouse, *district, 0, Access::Read)]
            }
        }
    }
}

impl OneShot for Call {
    type Answer = Answer;

    const IS_REPLAYED: bool = true;

    fn participants(&self, placement: Placement) -> Vec<ShardId> {
        let warehouses = std::iter::once(self.0.home()).chain(self.0.others());
        let mut shards: Vec<_> = warehouses.map(|warehouse| shard_of(warehouse, placement)).collect();
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    fn accesses_at(&self, at: ShardId, placement: Placement) -> impl Iterator<Item = (Key, Access)> + '_ {
        let own = self.0.accesses().into_iter().filter(move |(id, ..)| shard_of(*id, placement) == at);
        own.map(|(_, key, access)| (key, access))
    }

    fn keys_read_at(&self, at: ShardId, placement: Placement) -> Vec<Key> {
        self.accesses_at(at, placement).map(|(key, _)| key).collect()
    }

    /// No part of a call needs anything of another shard.
    fn answer_of_reads(_reads: Reads) -> Answer {
        Answer::Nothing
    }

    fn reads_of_answer(_answer: Answer) -> Reads {
        Reads::new()
    }
}
