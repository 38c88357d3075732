//! The tables and columns that transactions change, of the warehouses of one shard, and how they begin (clause 4.3.3).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_core::ids::ShardId;

use super::super::operation::Placement;
use super::chance::Chance;
use super::copied::Copied;
use super::{Cents, CustomerId, DISTRICTS, DistrictId, ItemId, OrderId, Scale, WarehouseId};

/// H_AMOUNT with which each customer begins.
pub const FIRST_PAYMENT: Cents = 1_000;
/// C_DATA has no more letters.
pub const DATA_MAX: usize = 500;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Customer {
    pub balance: Cents,
    pub ytd_payment: Cents,
    pub payments: u32,
    pub deliveries: u32,
    /// The last order, an index of ORDER.
    pub last_order: OrderId,
    pub data: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub id: OrderId,
    pub customer: CustomerId,
    pub entered_ms: u64,
    pub carrier: Option<u8>,
    pub lines: u8,
    pub is_all_local: bool,
    /// Place of the first line in the lines of the district.
    pub first_line: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderLine {
    pub order: OrderId,
    pub item: ItemId,
    pub supply: WarehouseId,
    pub quantity: u8,
    pub amount: Cents,
    pub delivered_ms: Option<u64>,
    pub text: [u8; 24],
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stock {
    pub quantity: i16,
    pub ytd: u32,
    pub orders: u32,
    pub remote_orders: u32,
}

impl Stock {
    /// After a line of an order (clause 2.4.2.2).
    pub fn after(self, quantity: u8, is_remote: bool) -> Stock {
        let wanted = i16::from(quantity);
        let left = self.quantity - wanted;
        Stock {
            quantity: if self.quantity >= wanted + 10 { left } else { left + 91 },
            ytd: self.ytd + u32::from(quantity),
            orders: self.orders + 1,
            remote_orders: self.remote_orders + u32::from(is_remote),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The customer who has paid, who may be of another warehouse.
    pub customer: (WarehouseId, DistrictId, CustomerId),
    /// The district that was paid.
    pub district: DistrictId,
    pub amount: Cents,
    pub paid_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct District {
    pub ytd: Cents,
    pub next_order: OrderId,
    pub customers: Vec<Customer>,
    /// ORDER, ascending by number, without gaps.
    pub orders: Vec<Order>,
    /// ORDER-LINE, in the order of orders.
    pub lines: Vec<OrderLine>,
    /// NEW-ORDER, ascending.
    pub new_orders: VecDeque<OrderId>,
}

impl District {
    pub fn order(&self, id: OrderId) -> &Order {
        &self.orders[id as usize - 1]
    }

    pub fn lines_of(&self, order: &Order) -> &[OrderLine] {
        let first = order.first_line as usize;
        &self.lines[first..first + usize::from(order.lines)]
    }

    /// Sets whether an order is delivered, and returns its customer and the sum of its lines.
    pub fn set_delivered(&mut self, id: OrderId, delivered: Option<(u8, u64)>) -> (CustomerId, Cents) {
        let order = &mut self.orders[id as usize - 1];
        order.carrier = delivered.map(|(carrier, _)| carrier);
        let first = order.first_line as usize;
        let (customer, lines) = (order.customer, first..first + usize::from(order.lines));
        let mut sum = 0;
        for line in &mut self.lines[lines] {
            line.delivered_ms = delivered.map(|(_, at_ms)| at_ms);
            sum += line.amount;
        }
        (customer, sum)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warehouse {
    pub id: WarehouseId,
    pub ytd: Cents,
    pub districts: Vec<District>,
    pub stock: Vec<Stock>,
    /// HISTORY of payments to this warehouse.
    pub history: Vec<History>,
}

impl Warehouse {
    pub fn district(&self, id: DistrictId) -> &District {
        &self.districts[usize::from(id)]
    }

    pub fn district_mut(&mut self, id: DistrictId) -> &mut District {
        &mut self.districts[usize::from(id)]
    }
}

/// The warehouses of a shard, ascending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tables {
    pub warehouses: Vec<Warehouse>,
}

impl Tables {
    pub fn load(copied: &Copied, shard: ShardId, placement: Placement) -> Tables {
        let warehouse = |id: WarehouseId| {
            let mut chance = Chance::new(copied.seed ^ (u64::from(id) + 1) << 48);
            load_warehouse(id, copied.scale, &mut chance)
        };
        Tables { warehouses: copied.warehouses_of(shard, placement.shards).map(warehouse).collect() }
    }

    /// A warehouse of this shard, which is one of so many.
    pub fn warehouse(&self, id: WarehouseId, shards: ShardId) -> &Warehouse {
        &self.warehouses[usize::from(id / shards)]
    }

    pub fn warehouse_mut(&mut self, id: WarehouseId, shards: ShardId) -> &mut Warehouse {
        &mut self.warehouses[usize::from(id / shards)]
    }
}

fn load_warehouse(id: WarehouseId, scale: Scale, chance: &mut Chance) -> Warehouse {
    let stock = |_| Stock { quantity: chance.between(10, 100) as i16, ytd: 0, orders: 0, remote_orders: 0 };
    let stock = (0..scale.items).map(stock).collect();
    let districts: Vec<_> = (0..DISTRICTS).map(|_| load_district(id, scale, chance)).collect();
    let mut history = Vec::new();
    for district in 0..DISTRICTS {
        let payment = |customer| History {
            customer: (id, district, customer),
            district,
            amount: FIRST_PAYMENT,
            paid_ms: 0,
        };
        history.extend((0..scale.customers).map(payment));
    }
    Warehouse { id, ytd: districts.iter().map(|each| each.ytd).sum(), districts, stock, history }
}

fn load_district(warehouse: WarehouseId, scale: Scale, chance: &mut Chance) -> District {
    let mut district = District {
        ytd: FIRST_PAYMENT * Cents::from(scale.customers),
        next_order: scale.customers + 1,
        customers: (0..scale.customers).map(|_| load_customer(chance)).collect(),
        orders: Vec::new(),
        lines: Vec::new(),
        new_orders: (scale.delivered() + 1..=scale.customers).collect(),
    };
    for (id, customer) in (1..).zip(chance.permutation(scale.customers)) {
        load_order((warehouse, id, customer), scale, chance, &mut district);
    }
    district
}

fn load_customer(chance: &mut Chance) -> Customer {
    let mut data = vec![0; chance.between(300, DATA_MAX as u64) as usize];
    chance.fill(&mut data);
    Customer {
        balance: -FIRST_PAYMENT,
        ytd_payment: FIRST_PAYMENT,
        payments: 1,
        deliveries: 0,
        last_order: 0,
        data,
    }
}

fn load_order(
    (warehouse, id, customer): (WarehouseId, OrderId, CustomerId),
    scale: Scale,
    chance: &mut Chance,
    district: &mut District,
) {
    let is_delivered = id <= scale.delivered();
    let lines = chance.between(5, 15) as u8;
    let first_line = district.lines.len() as u32;
    let carrier = is_delivered.then(|| chance.between(1, 10) as u8);
    district.orders.push(Order {
        id,
        customer,
        entered_ms: 0,
        carrier,
        lines,
        is_all_local: true,
        first_line,
    });
    for _ in 0..lines {
        district.lines.push(OrderLine {
            order: id,
            item: chance.below(u64::from(scale.items)) as ItemId,
            supply: warehouse,
            quantity: 5,
            amount: if is_delivered { 0 } else { chance.between(1, 999_999) as Cents },
            delivered_ms: is_delivered.then_some(0),
            text: chance.letters(),
        });
    }
    district.customers[customer as usize].last_order = id;
}
