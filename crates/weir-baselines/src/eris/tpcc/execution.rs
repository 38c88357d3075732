//! The part of a transaction that one shard executes: first what it answers, from the data as they are, then what it changes.

use std::collections::BTreeSet;

use weir_ordered::packet::Index;

use super::faults::Faults;
use super::procedure::{Answer, Call, Line, NewOrder, Payment, Procedure, Selected};
use super::tables::{Customer, DATA_MAX, History, Order, OrderLine};
use super::undo::Change;
use super::{Cents, CustomerId, DISTRICTS, DistrictId, OrderId, Tpcc, WarehouseId, shard_of};

/// Letters of C_DATA that Payment answers.
const DATA_TOLD: usize = 200;
/// Orders that Stock-Level looks at.
const LAST_ORDERS: usize = 20;
/// Parts in which discounts and taxes are given.
const PARTS: i128 = 10_000;

impl<F: Faults> Tpcc<F> {
    fn is_own(&self, warehouse: WarehouseId) -> bool {
        shard_of(warehouse, self.placement) == self.shard
    }

    fn warehouse(&self, id: WarehouseId) -> &super::tables::Warehouse {
        self.tables.warehouse(id, self.placement.shards)
    }

    fn warehouse_mut(&mut self, id: WarehouseId) -> &mut super::tables::Warehouse {
        self.tables.warehouse_mut(id, self.placement.shards)
    }

    /// The answer of this shard.
    pub(super) fn evaluate(&self, call: &Call) -> Answer {
        match &*call.0 {
            Procedure::NewOrder(order) => self.evaluate_new_order(order),
            Procedure::Payment(payment) => self.evaluate_payment(payment),
            other if !self.is_own(other.home()) => Answer::Nothing,
            Procedure::OrderStatus { warehouse, district, customer } => {
                self.order_status(*warehouse, *district, *customer)
            }
            Procedure::Delivery { warehouse, .. } => {
                let districts = self.warehouse(*warehouse).districts.iter();
                Answer::Delivery { orders: districts.map(|each| each.new_orders.front().copied()).collect() }
            }
            Procedure::StockLevel { warehouse, district, threshold } => {
                self.stock_level(*warehouse, *district, *threshold)
            }
        }
    }

    /// Changes the data of this shard, as a part of the entry with that index; none: it will never be undone.
    pub(super) fn change(&mut self, index: Option<Index>, call: &Call) {
        match &*call.0 {
            Procedure::NewOrder(order) => self.enter_order(index, order),
            Procedure::Payment(payment) => self.pay(index, payment),
            Procedure::Delivery { warehouse, carrier, at_ms } if self.is_own(*warehouse) => {
                self.deliver(index, *warehouse, (*carrier, *at_ms));
            }
            _ => {}
        }
    }

    /// Whether all item numbers are used. Every shard decides the same, as it has all items.
    fn is_entered(&self, order: &NewOrder) -> bool {
        order.lines.iter().all(|line| self.copied.item(line.item).is_some())
    }

    fn amount(&self, line: &Line) -> Cents {
        self.copied.item(line.item).map_or(0, |item| item.price * Cents::from(line.quantity))
    }

    fn evaluate_new_order(&self, order: &NewOrder) -> Answer {
        if !self.is_entered(order) {
            return Answer::RolledBack;
        }
        let own = (0..).zip(&order.lines).filter(|(_, line)| self.is_own(line.supply));
        let stock = own.map(|(place, line)| {
            let left = self.warehouse(line.supply).stock[line.item as usize].after(line.quantity, false);
            let is_original = self.copied.item(line.item).is_some_and(|item| item.is_original);
            let text = &self.copied.warehouse(line.supply).stock[line.item as usize];
            (place, left.quantity, is_original && text.is_original)
        });
        let stock = stock.collect();
        let entered = self.is_own(order.warehouse).then(|| {
            let district = self.warehouse(order.warehouse).district(order.district);
            (district.next_order, self.total(order))
        });
        Answer::NewOrder { order: entered, stock }
    }

    /// The sum of an order, with discount and taxes (clause 2.4.2.2).
    fn total(&self, order: &NewOrder) -> Cents {
        let NewOrder { warehouse, district, customer, .. } = *order;
        let sum: Cents = order.lines.iter().map(|line| self.amount(line)).sum();
        let discount = i128::from(self.copied.customer(warehouse, district, customer).discount);
        let taxes = self.copied.warehouse(warehouse).tax + self.copied.district(warehouse, district).tax;
        (i128::from(sum) * (PARTS - discount) * (PARTS + i128::from(taxes)) / (PARTS * PARTS)) as Cents
    }

    fn enter_order(&mut self, index: Option<Index>, order: &NewOrder) {
        if !self.is_entered(order) {
            return;
        }
        for line in &order.lines {
            if self.is_own(line.supply) {
                self.supply(index, order.warehouse, line);
            }
        }
        if self.is_own(order.warehouse) {
            self.add_order(index, order);
        }
    }

    fn supply(&mut self, index: Option<Index>, home: WarehouseId, line: &Line) {
        let is_remote = line.supply != home;
        if is_remote && self.faults.loses_remote_stock() {
            return;
        }
        let Line { item, supply: warehouse, quantity } = *line;
        let stock = &mut self.warehouse_mut(warehouse).stock[item as usize];
        let before = *stock;
        *stock = before.after(quantity, is_remote);
        self.undo.note(index, || Change::Stock { warehouse, item, before });
    }

    fn add_order(&mut self, index: Option<Index>, order: &NewOrder) {
        let NewOrder { warehouse, district: number, customer, entered_ms, .. } = *order;
        let copied = self.copied;
        let district = self.tables.warehouse_mut(warehouse, self.placement.shards).district_mut(number);
        let id = district.next_order;
        district.orders.push(Order {
            id,
            customer,
            entered_ms,
            carrier: None,
            lines: order.lines.len() as u8,
            is_all_local: order.lines.iter().all(|line| line.supply == warehouse),
            first_line: district.lines.len() as u32,
        });
        district.lines.extend(order.lines.iter().map(|line| OrderLine {
            order: id,
            item: line.item,
            supply: line.supply,
            quantity: line.quantity,
            amount: copied.item(line.item).map_or(0, |item| item.price * Cents::from(line.quantity)),
            delivered_ms: None,
            text: copied.warehouse(line.supply).stock[line.item as usize].of_districts[usize::from(number)],
        }));
        district.new_orders.push_back(id);
        district.next_order = id + 1;
        let last = &mut district.customers[customer as usize].last_order;
        let before = std::mem::replace(last, id);
        self.undo.note(index, || Change::Entered { warehouse, district: number, before });
    }

    /// The customer whom a call names: the same one that it was begun with.
    fn selected(&self, warehouse: WarehouseId, district: DistrictId, selected: Selected) -> CustomerId {
        if let Selected::ByName(name, customer) = selected {
            let found = self.copied.district(warehouse, district).by_name(name);
            assert_eq!(found, Some(customer), "last names are the same everywhere");
        }
        selected.customer()
    }

    fn has_bad_credit(&self, payment: &Payment) -> bool {
        let (warehouse, district) = (payment.of_warehouse, payment.of_district);
        self.copied.customer(warehouse, district, payment.customer.customer()).has_bad_credit
    }

    fn evaluate_payment(&self, payment: &Payment) -> Answer {
        let (warehouse, district) = (payment.of_warehouse, payment.of_district);
        if !self.is_own(warehouse) {
            return if self.is_own(payment.warehouse) {
                Answer::Payment { customer: None }
            } else {
                Answer::Nothing
            };
        }
        let id = self.selected(warehouse, district, payment.customer);
        let customer = &self.warehouse(warehouse).district(district).customers[id as usize];
        let mut data = Vec::new();
        if self.has_bad_credit(payment) {
            data = prefixed(payment, customer, DATA_TOLD);
        }
        Answer::Payment { customer: Some((customer.balance - payment.amount, data)) }
    }

    fn pay(&mut self, index: Option<Index>, payment: &Payment) {
        let Payment { warehouse, district, of_warehouse, of_district, amount, paid_ms, .. } = *payment;
        let id = payment.customer.customer();
        if self.is_own(warehouse) {
            let paid = self.warehouse_mut(warehouse);
            paid.ytd += amount;
            paid.district_mut(district).ytd += amount;
            let customer = (of_warehouse, of_district, id);
            paid.history.push(History { customer, district, amount, paid_ms });
            self.undo.note(index, || Change::Paid { warehouse, district, amount });
        }
        let is_lost = of_warehouse != warehouse && self.faults.loses_remote_payment();
        if self.is_own(of_warehouse) && !is_lost {
            self.pay_by(index, payment, id);
        }
    }

    fn pay_by(&mut self, index: Option<Index>, payment: &Payment, id: CustomerId) {
        let Payment { of_warehouse: warehouse, of_district: district, amount, .. } = *payment;
        let has_bad_credit = self.has_bad_credit(payment);
        let customer = &mut self.warehouse_mut(warehouse).district_mut(district).customers[id as usize];
        let mut data = None;
        if has_bad_credit {
            let new = prefixed(payment, customer, DATA_MAX);
            data = Some(std::mem::replace(&mut customer.data, new));
        }
        customer.balance -= amount;
        customer.ytd_payment += amount;
        customer.payments += 1;
        self.undo.note(index, || Change::PaidBy { warehouse, district, customer: id, amount, data });
    }

    fn order_status(&self, warehouse: WarehouseId, district: DistrictId, customer: Selected) -> Answer {
        let id = self.selected(warehouse, district, customer);
        let district = self.warehouse(warehouse).district(district);
        let Customer { balance, last_order, .. } = district.customers[id as usize];
        let order = district.order(last_order);
        let line = |line: &OrderLine| (line.item, line.supply, line.quantity, line.amount, line.delivered_ms);
        Answer::OrderStatus {
            balance,
            order: order.id,
            carrier: order.carrier,
            lines: district.lines_of(order).iter().map(line).collect(),
        }
    }

    /// Delivers the oldest new order of each district (clause 2.7.4).
    fn deliver(&mut self, index: Option<Index>, warehouse: WarehouseId, delivered: (u8, u64)) {
        for number in 0..DISTRICTS {
            let faults = self.faults;
            let district = self.warehouse_mut(warehouse).district_mut(number);
            let Some(order) = next_delivered(&mut district.new_orders, &faults) else { continue };
            let (customer, sum) = district.set_delivered(order, Some(delivered));
            let customer = &mut district.customers[customer as usize];
            customer.balance += sum;
            customer.deliveries += 1;
            self.undo.note(index, || Change::Delivered { warehouse, district: number, order });
        }
    }

    /// Items of the last orders of a district of which the warehouse has less than that (clause 2.8.2).
    fn stock_level(&self, warehouse: WarehouseId, district: DistrictId, threshold: i16) -> Answer {
        let warehouse = self.warehouse(warehouse);
        let district = warehouse.district(district);
        let first = district.orders.len().saturating_sub(LAST_ORDERS);
        let lines = &district.lines[district.orders[first].first_line as usize..];
        let items: BTreeSet<_> = lines.iter().map(|line| line.item).collect();
        let is_below = |item: &u32| warehouse.stock[*item as usize].quantity < threshold;
        Answer::StockLevel { below: items.iter().filter(|item| is_below(item)).count() as u32 }
    }
}

fn next_delivered(
    new_orders: &mut std::collections::VecDeque<OrderId>,
    faults: &impl Faults,
) -> Option<OrderId> {
    if faults.delivers_again() { new_orders.front().copied() } else { new_orders.pop_front() }
}

/// C_DATA behind what Payment puts before it, so many letters at most (clause 2.5.2.2).
fn prefixed(payment: &Payment, customer: &Customer, letters: usize) -> Vec<u8> {
    let Payment { warehouse, district, of_warehouse, of_district, amount, .. } = *payment;
    let id = payment.customer.customer();
    let mut data = Vec::with_capacity(letters);
    for number in [i64::from(id), i64::from(of_district), i64::from(of_warehouse), i64::from(district)] {
        push_number(&mut data, number);
    }
    push_number(&mut data, i64::from(warehouse));
    push_number(&mut data, amount);
    let left = letters.saturating_sub(data.len()).min(customer.data.len());
    data.extend_from_slice(&customer.data[..left]);
    data
}

/// Appends a number that is not negative, and a space.
fn push_number(data: &mut Vec<u8>, mut number: i64) {
    let first = data.len();
    loop {
        data.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    data[first..].reverse();
    data.push(b' ');
}
