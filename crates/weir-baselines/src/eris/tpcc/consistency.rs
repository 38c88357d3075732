//! The consistency conditions of clause 3.3.2 over the data of all shards, with one of our own: what is ordered is what stock has lost (13).
//!
//! Conditions 10, 12 and 13 span shards: payments and orders of one warehouse change customers and stock of others.

use std::collections::{BTreeMap, BTreeSet};

use super::tables::{District, Order, OrderLine, Stock, Tables, Warehouse};
use super::{Cents, CustomerId, DistrictId, ItemId, Scale, WarehouseId};

type CustomerKey = (WarehouseId, DistrictId, CustomerId);

/// Checks the data of all shards.
///
/// # Errors
/// A condition does not hold: its number, and where.
pub fn check(scale: Scale, shards: &[Tables]) -> Result<(), String> {
    let warehouses: Vec<&Warehouse> = shards.iter().flat_map(|shard| &shard.warehouses).collect();
    holds(0, warehouses.len() == usize::from(scale.warehouses), || "a warehouse is missing".to_owned())?;
    for warehouse in &warehouses {
        check_sums(warehouse)?;
        for (number, district) in warehouse.districts.iter().enumerate() {
            let place = format!("district {number} of warehouse {}", warehouse.id);
            check_orders(district, &place)?;
            check_lines(district, &place)?;
            check_deliveries(scale, district, &place)?;
        }
    }
    check_customers(&warehouses)?;
    check_stock(scale, &warehouses)
}

fn holds(number: u32, holds: bool, place: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("consistency condition {number}: {}", place())) }
}

/// Conditions 1, 8 and 9: what was paid to a warehouse and its districts.
fn check_sums(warehouse: &Warehouse) -> Result<(), String> {
    let place = || format!("warehouse {}", warehouse.id);
    let of_districts: Cents = warehouse.districts.iter().map(|district| district.ytd).sum();
    holds(1, warehouse.ytd == of_districts, place)?;
    let mut paid = vec![0; warehouse.districts.len()];
    warehouse.history.iter().for_each(|row| paid[usize::from(row.district)] += row.amount);
    holds(8, warehouse.ytd == paid.iter().sum::<Cents>(), place)?;
    let ytd: Vec<_> = warehouse.districts.iter().map(|district| district.ytd).collect();
    holds(9, ytd == paid, place)
}

/// Conditions 2 and 3: the numbers of orders and of new ones have no gaps.
fn check_orders(district: &District, place: &str) -> Result<(), String> {
    let is_dense = (1..).zip(&district.orders).all(|(id, order): (u32, &Order)| order.id == id);
    let last = district.orders.last().map_or(0, |order| order.id);
    let last_new = district.new_orders.back().copied().unwrap_or(last);
    let is_last = district.next_order == last + 1 && last == last_new;
    holds(2, is_dense && is_last, || place.to_owned())?;
    let mut new = district.new_orders.iter().zip(district.new_orders.iter().skip(1));
    holds(3, new.all(|(one, next)| one + 1 == *next), || place.to_owned())
}

/// Conditions 4 and 6: the lines of orders.
fn check_lines(district: &District, place: &str) -> Result<(), String> {
    let ordered: usize = district.orders.iter().map(|order| usize::from(order.lines)).sum();
    holds(4, ordered == district.lines.len(), || place.to_owned())?;
    let is_whole = |order: &Order| district.lines_of(order).iter().all(|line| line.order == order.id);
    holds(6, district.orders.iter().all(is_whole), || place.to_owned())
}

/// Conditions 5, 7 and 11: an order is new until it is delivered, and customers have as many deliveries as there were.
fn check_deliveries(scale: Scale, district: &District, place: &str) -> Result<(), String> {
    let new: BTreeSet<_> = district.new_orders.iter().copied().collect();
    let is_new = |order: &Order| order.carrier.is_none() == new.contains(&order.id);
    holds(5, district.orders.iter().all(is_new), || place.to_owned())?;
    let is_delivered =
        |order: &Order, line: &OrderLine| line.delivered_ms.is_some() == order.carrier.is_some();
    let is_alike = |order: &Order| district.lines_of(order).iter().all(|line| is_delivered(order, line));
    holds(7, district.orders.iter().all(is_alike), || place.to_owned())?;
    let deliveries: u32 = district.customers.iter().map(|customer| customer.deliveries).sum();
    let delivered = district.orders.len() - district.new_orders.len();
    holds(11, delivered as u32 == scale.delivered() + deliveries, || place.to_owned())
}

/// Conditions 10 and 12: balances are what was delivered, less what was paid, wherever it was paid.
fn check_customers(warehouses: &[&Warehouse]) -> Result<(), String> {
    let mut paid: BTreeMap<CustomerKey, (u32, Cents)> = BTreeMap::new();
    for row in warehouses.iter().flat_map(|warehouse| &warehouse.history) {
        let (payments, sum) = paid.entry(row.customer).or_default();
        (*payments, *sum) = (*payments + 1, *sum + row.amount);
    }
    for warehouse in warehouses {
        for (number, district) in (0..).zip(&warehouse.districts) {
            let delivered = delivered(district);
            for (id, customer) in (0..).zip(&district.customers) {
                let key = (warehouse.id, number, id);
                let (payments, paid) = paid.get(&key).copied().unwrap_or_default();
                let delivered = delivered.get(&id).copied().unwrap_or(0);
                let is_right = customer.balance == delivered - paid && customer.payments == payments;
                holds(10, is_right, || format!("customer {key:?}"))?;
                let is_right = customer.balance + customer.ytd_payment == delivered;
                holds(12, is_right, || format!("customer {key:?}"))?;
            }
        }
    }
    Ok(())
}

/// The sum of the delivered lines of each customer.
fn delivered(district: &District) -> BTreeMap<CustomerId, Cents> {
    let mut sums: BTreeMap<CustomerId, Cents> = BTreeMap::new();
    for order in district.orders.iter().filter(|order| order.carrier.is_some()) {
        let sum: Cents = district.lines_of(order).iter().map(|line| line.amount).sum();
        *sums.entry(order.customer).or_default() += sum;
    }
    sums
}

/// Condition 13: the columns of STOCK count the lines of orders that were entered since the beginning.
fn check_stock(scale: Scale, warehouses: &[&Warehouse]) -> Result<(), String> {
    let mut ordered: BTreeMap<(WarehouseId, ItemId), (u32, u32, u32)> = BTreeMap::new();
    for warehouse in warehouses {
        let lines = warehouse.districts.iter().flat_map(|district| &district.lines);
        for line in lines.filter(|line| line.order > scale.customers) {
            let (ytd, orders, remote) = ordered.entry((line.supply, line.item)).or_default();
            *ytd += u32::from(line.quantity);
            *orders += 1;
            *remote += u32::from(line.supply != warehouse.id);
        }
    }
    for warehouse in warehouses {
        for (item, stock) in (0..).zip(&warehouse.stock) {
            let Stock { ytd, orders, remote_orders, quantity } = *stock;
            let expected = ordered.get(&(warehouse.id, item)).copied().unwrap_or_default();
            let is_right = (ytd, orders, remote_orders) == expected && (0..=110).contains(&quantity);
            holds(13, is_right, || format!("item {item} of warehouse {}", warehouse.id))?;
        }
    }
    Ok(())
}

/// Orders that were entered since the beginning, and payments.
pub fn entered(scale: Scale, shards: &[Tables]) -> (u64, u64) {
    let warehouses = shards.iter().flat_map(|shard| &shard.warehouses);
    let (mut orders, mut payments) = (0, 0);
    for warehouse in warehouses {
        let of_districts = warehouse.districts.iter().map(|district| district.orders.len() as u64);
        orders += of_districts.map(|count| count - u64::from(scale.customers)).sum::<u64>();
        let first = warehouse.districts.len() as u64 * u64::from(scale.customers);
        payments += warehouse.history.len() as u64 - first;
    }
    (orders, payments)
}
