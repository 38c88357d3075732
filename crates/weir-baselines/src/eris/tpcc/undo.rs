//! Records that undo the changes of transactions back to an index of a log.

use std::collections::VecDeque;

use weir_ordered::packet::Index;

use super::faults::Faults;
use super::tables::{Customer, Stock, Warehouse};
use super::{Cents, CustomerId, DistrictId, ItemId, OrderId, WarehouseId};

/// A change of one warehouse.
#[derive(Clone, Debug)]
pub enum Change {
    /// A row of STOCK, with what it was.
    Stock {
        warehouse: WarehouseId,
        item: ItemId,
        before: Stock,
    },
    /// The last order of the district was entered. `before`: the customer's last order before it.
    Entered {
        warehouse: WarehouseId,
        district: DistrictId,
        before: OrderId,
    },
    /// A district was paid, with the last row of HISTORY.
    Paid {
        warehouse: WarehouseId,
        district: DistrictId,
        amount: Cents,
    },
    /// A customer has paid. `data`: C_DATA as it was, if it has changed.
    PaidBy {
        warehouse: WarehouseId,
        district: DistrictId,
        customer: CustomerId,
        amount: Cents,
        data: Option<Vec<u8>>,
    },
    Delivered {
        warehouse: WarehouseId,
        district: DistrictId,
        order: OrderId,
    },
}

impl Change {
    pub fn warehouse(&self) -> WarehouseId {
        match *self {
            Change::Stock { warehouse, .. }
            | Change::Entered { warehouse, .. }
            | Change::Paid { warehouse, .. }
            | Change::PaidBy { warehouse, .. }
            | Change::Delivered { warehouse, .. } => warehouse,
        }
    }

    /// Undoes the last change of its warehouse.
    pub fn undo(&self, warehouse: &mut Warehouse, faults: &impl Faults) {
        match *self {
            Change::Stock { item, before, .. } => warehouse.stock[item as usize] = before,
            Change::Entered { district, before, .. } => withdraw(warehouse, district, before, faults),
            Change::Paid { district, amount, .. } => {
                warehouse.ytd -= amount;
                warehouse.district_mut(district).ytd -= amount;
                warehouse.history.pop();
            }
            Change::PaidBy { district, customer, amount, ref data, .. } => {
                let customer = &mut warehouse.district_mut(district).customers[customer as usize];
                take_back(customer, amount, data.as_ref());
            }
            Change::Delivered { district, order, .. } => {
                let district = warehouse.district_mut(district);
                let (customer, sum) = district.set_delivered(order, None);
                let customer = &mut district.customers[customer as usize];
                customer.balance -= sum;
                customer.deliveries -= 1;
                district.new_orders.push_front(order);
            }
        }
    }
}

fn withdraw(warehouse: &mut Warehouse, district: DistrictId, before: OrderId, faults: &impl Faults) {
    let district = warehouse.district_mut(district);
    let Some(order) = district.orders.pop() else { return };
    if !faults.leaves_lines() {
        district.lines.truncate(order.first_line as usize);
    }
    district.new_orders.pop_back();
    district.next_order -= 1;
    district.customers[order.customer as usize].last_order = before;
}

fn take_back(customer: &mut Customer, amount: Cents, data: Option<&Vec<u8>>) {
    customer.balance += amount;
    customer.ytd_payment -= amount;
    customer.payments -= 1;
    if let Some(data) = data {
        customer.data.clone_from(data);
    }
}

/// Changes that may be undone, ascending by index.
#[derive(Clone, Debug, Default)]
pub struct Undo {
    changes: VecDeque<(Index, Change)>,
}

impl Undo {
    /// Notes a change of the entry with that index; none: it will never be undone.
    pub fn note(&mut self, index: Option<Index>, change: impl FnOnce() -> Change) {
        if let Some(index) = index {
            self.changes.push_back((index, change()));
        }
    }

    /// Takes the last change, if it is of an entry behind that index.
    pub fn pop_behind(&mut self, to: Index) -> Option<Change> {
        self.changes.pop_back_if(|(index, _)| *index > to).map(|(_, change)| change)
    }

    /// Changes up to that index will never be undone.
    pub fn forget(&mut self, up_to: Index) {
        let forgotten = self.changes.partition_point(|(index, _)| *index <= up_to);
        self.changes.drain(..forgotten);
    }
}
