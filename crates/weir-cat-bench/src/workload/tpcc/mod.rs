//! TPC-C by SQL that PostgreSQL, MariaDB, SQLite and Weir take alike, statement by statement: the five transactions with their shares, and the
//! consistency conditions 1 to 4 of clause 3.3.2. (`examples/tpcc` has all columns and its transactions as procedures.)

mod tables;
mod transactions;

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use weir_cat::chance::Chance;

use super::draws::{between, skewed};
use super::{
    Acknowledged, Definition, Planned, Plans, SPREAD, Settings, State, Way, Workload, Wrong, chance_of,
    check_new, draw_kind, texts, within,
};
use crate::connection::{Connection, Refused};

/// Districts of a warehouse.
const DISTRICTS: u64 = 10;

const KINDS: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];
const NEW_ORDER: usize = 0;
const PAYMENT: usize = 1;
const ORDER_STATUS: usize = 2;
const DELIVERY: usize = 3;

/// Transactions of each kind among a hundred.
const MIX: [u64; 5] = [45, 43, 4, 4, 4];

/// The workload.
#[derive(Clone, Copy, Debug)]
pub struct Tpcc {
    warehouses: u64,
    items: u64,
    /// Customers of a district.
    customers: u64,
    /// Share of the order lines that another warehouse supplies.
    remote: f64,
}

impl Tpcc {
    /// # Errors
    /// A setting is wrong.
    pub fn of(mut settings: Settings<'_>) -> Result<Tpcc, Wrong> {
        let workload = Tpcc {
            warehouses: settings.count("warehouses", 1, 10_000)? as u64,
            items: settings.count("items", 10_000, 100_000)? as u64,
            customers: settings.count("customers", 300, 3_000)? as u64,
            remote: settings.share("remote", 0.01)?,
        };
        settings.end()?;
        Ok(workload)
    }
}

/// Clause 4.3.2.3.
fn last_name(number: u64) -> String {
    const PARTS: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100, number / 10, number].map(|part| PARTS[(part % 10) as usize]).concat()
}

/// Objects whose accesses count for the Contention Level.
#[derive(Clone, Copy)]
enum Object {
    Warehouse,
    District,
    Customer,
    Stock,
}

impl Object {
    fn at(self, warehouse: u64, within: u64) -> u64 {
        ((self as u64) << 60) | (warehouse << 32) | within
    }
}

struct TpccPlans {
    workload: Tpcc,
    chance: Chance,
    /// The client's own warehouse.
    warehouse: u64,
}

impl TpccPlans {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        between(&mut self.chance, least, most)
    }

    fn skewed(&mut self, spread: u64, least: u64, most: u64) -> u64 {
        skewed(&mut self.chance, spread, least, most)
    }

    /// Whether by last name, and the number of the customer or of the name: 60 of a hundred by name.
    fn customer(&mut self) -> (u64, u64) {
        match self.chance.below(100) < 60 {
            true => {
                let names = self.workload.customers.min(1_000) - 1;
                (1, self.skewed(255, 0, names))
            }
            false => (0, self.skewed(1_023, 1, self.workload.customers)),
        }
    }

    /// Another warehouse than the client's, if there is one.
    fn other_warehouse(&mut self) -> u64 {
        match self.workload.warehouses {
            1 => 1,
            all => {
                let other = self.between(1, all - 1);
                if other < self.warehouse { other } else { other + 1 }
            }
        }
    }

    /// Values, and objects that are accessed.
    fn new_order(&mut self, district: u64) -> (Vec<u64>, Vec<u64>) {
        let customer = self.skewed(1_023, 1, self.workload.customers);
        let mut values = vec![self.warehouse, district, customer];
        let mut accesses = vec![
            Object::Warehouse.at(self.warehouse, 0),
            Object::District.at(self.warehouse, district),
            Object::Customer.at(self.warehouse, district << 16 | customer),
        ];
        let mut lines: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for _ in 0..self.between(5, 15) {
            let item = self.skewed(8_191, 1, self.workload.items);
            let is_remote = self.chance.share() < self.workload.remote;
            let supply = if is_remote { self.other_warehouse() } else { self.warehouse };
            let quantity = self.between(1, 10);
            // In one order, so that two transactions wait for each other at most one way.
            lines.insert((supply, item), quantity);
        }
        if self.chance.below(100) == 0 {
            // An unused item, the last one.
            lines.insert((self.workload.warehouses + 1, self.workload.items + 1), 1);
        }
        for ((supply, item), quantity) in lines {
            values.extend([item, supply, quantity]);
            accesses.push(Object::Stock.at(supply, item));
        }
        (values, accesses)
    }

    fn payment(&mut self, district: u64) -> (Vec<u64>, Vec<u64>) {
        let (by_name, who) = self.customer();
        let (of_w, of_d) = match self.chance.below(100) < 85 {
            true => (self.warehouse, district),
            false => (self.other_warehouse(), self.between(1, DISTRICTS)),
        };
        let values = vec![self.warehouse, district, of_w, of_d, by_name, who, self.between(100, 500_000)];
        let accesses = vec![
            Object::Warehouse.at(self.warehouse, 0),
            Object::District.at(self.warehouse, district),
            Object::Customer.at(of_w, of_d << 16 | by_name << 15 | who),
        ];
        (values, accesses)
    }
}

impl Plans for TpccPlans {
    fn plan(&mut self) -> Option<Planned> {
        let (kind, warehouse) = (draw_kind(&mut self.chance, &MIX), self.warehouse);
        let district = self.between(1, DISTRICTS);
        let planned = match kind {
            NEW_ORDER => self.new_order(district),
            PAYMENT => self.payment(district),
            ORDER_STATUS => {
                let (by_name, who) = self.customer();
                let customer = Object::Customer.at(warehouse, district << 16 | by_name << 15 | who);
                (vec![warehouse, district, by_name, who], vec![customer])
            }
            DELIVERY => {
                let districts = (1..=DISTRICTS).map(|district| Object::District.at(warehouse, district));
                (vec![warehouse, self.between(1, 10)], districts.collect())
            }
            _ => {
                let seen = Object::District.at(warehouse, district);
                (vec![warehouse, district, self.between(10, 20)], vec![seen])
            }
        };
        let is_writer = [NEW_ORDER, PAYMENT, DELIVERY].contains(&kind);
        // One object counts the orders.
        let written = if kind == NEW_ORDER { vec![0] } else { Vec::new() };
        Some(Planned::of_numbers(kind, planned, written, is_writer))
    }
}

impl Workload for Tpcc {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn settings(&self) -> Vec<(&'static str, Json)> {
        vec![
            ("warehouses", json!(self.warehouses)),
            ("items", json!(self.items)),
            ("customers", json!(self.customers)),
            ("remote", json!(self.remote)),
        ]
    }

    fn kinds(&self) -> &[&'static str] {
        &KINDS
    }

    fn has_calls(&self) -> bool {
        false
    }

    fn definition(&self) -> Definition {
        Definition { tables: tables::definition(), ..Definition::default() }
    }

    fn rows(&self) -> Vec<String> {
        tables::rows(self)
    }

    fn statements(&self, _: Way) -> Vec<String> {
        texts(transactions::STATEMENTS)
    }

    fn plans(&self, seed: u64, number: u64) -> Box<dyn Plans> {
        let chance = chance_of(seed, number);
        Box::new(TpccPlans { workload: *self, chance, warehouse: number % self.warehouses + 1 })
    }

    fn attempt(&self, _: Way, connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused> {
        within(connection, planned.is_writer, |connection| transactions::run(connection, planned))
    }

    fn state(&self) -> Vec<String> {
        [
            "SELECT w_id, w_ytd FROM warehouse ORDER BY w_id",
            "SELECT d_w_id, d_id, d_ytd, d_next_o_id FROM district ORDER BY d_w_id, d_id",
            "SELECT o_w_id, o_d_id, o_id, o_ol_cnt FROM orders ORDER BY o_w_id, o_d_id, o_id",
            "SELECT no_w_id, no_d_id, no_o_id FROM new_order ORDER BY no_w_id, no_d_id, no_o_id",
            "SELECT ol_w_id, ol_d_id, count(*) FROM order_line GROUP BY ol_w_id, ol_d_id ORDER BY ol_w_id, ol_d_id",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn check(&self, before: &State, after: &State, acknowledged: &Acknowledged) -> Result<(), String> {
        consistent(after)?;
        let paid = |state: &State| state[0].iter().map(|row| row[1]).sum::<i64>();
        let (found, expected) = (paid(after) - paid(before), acknowledged.sum);
        if found != expected {
            return Err(format!("warehouses were paid {found} cents, and {expected} were acknowledged"));
        }
        check_new("orders", (before[2].len(), after[2].len()), acknowledged, 0)
    }

    fn spread(&self) -> Option<Box<dyn Workload>> {
        Some(Box::new(Tpcc { warehouses: SPREAD * self.warehouses, ..*self }))
    }
}

/// Conditions 1 to 4 of clause 3.3.2.
fn consistent(state: &State) -> Result<(), String> {
    let [warehouses, districts, orders, new, lines] = state.as_slice() else {
        return Err("the state has other queries".to_owned());
    };
    for warehouse in warehouses {
        let paid: i64 =
            districts.iter().filter(|district| district[0] == warehouse[0]).map(|row| row[2]).sum();
        if paid != warehouse[1] {
            return Err(format!(
                "condition 1: warehouse {} was paid {}, its districts {paid}",
                warehouse[0], warehouse[1]
            ));
        }
    }
    for district in districts {
        let is_of = |row: &&Vec<i64>| row[..2] == district[..2];
        let place = format!("district {} of warehouse {}", district[1], district[0]);
        let (mut last, mut ordered) = (0, 0);
        for order in orders.iter().filter(is_of) {
            (last, ordered) = (order[2].max(last), ordered + order[3]);
        }
        let waiting: Vec<i64> = new.iter().filter(is_of).map(|row| row[2]).collect();
        let newest = waiting.last().copied().unwrap_or(last);
        if district[3] - 1 != last || newest != last {
            return Err(format!(
                "condition 2: {place} has {} as its next order, the last one is {last}, the last new one {newest}",
                district[3]
            ));
        }
        let oldest = waiting.first().copied().unwrap_or(newest + 1);
        if newest - oldest + 1 != waiting.len() as i64 {
            return Err(format!(
                "condition 3: {place} has {} new orders from {oldest} to {newest}",
                waiting.len()
            ));
        }
        let there = lines.iter().find(is_of).map_or(0, |row| row[2]);
        if there != ordered {
            return Err(format!("condition 4: {place} has {there} order lines of {ordered}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Value;

    fn state(next: i64, orders: &[i64], new: &[i64], lines: i64) -> State {
        vec![
            vec![vec![1, 70]],
            vec![vec![1, 1, 70, next]],
            orders.iter().map(|order| vec![1, 1, *order, 5]).collect(),
            new.iter().map(|order| vec![1, 1, *order]).collect(),
            vec![vec![1, 1, lines]],
        ]
    }

    #[test]
    fn each_condition_is_checked() {
        assert_eq!(consistent(&state(4, &[1, 2, 3], &[2, 3], 15)), Ok(()));
        assert_eq!(consistent(&state(4, &[1, 2, 3], &[], 15)), Ok(()));
        let broken = [
            (state(5, &[1, 2, 3], &[2, 3], 15), "condition 2"),
            (state(4, &[1, 2, 3], &[2], 15), "condition 2"),
            (state(4, &[1, 2, 3], &[1, 3], 15), "condition 3"),
            (state(4, &[1, 2, 3], &[2, 3], 14), "condition 4"),
        ];
        for (state, why) in broken {
            assert!(consistent(&state).is_err_and(|said| said.contains(why)), "{why}");
        }
        let mut unpaid = state(4, &[1, 2, 3], &[2, 3], 15);
        unpaid[0][0][1] = 71;
        assert!(consistent(&unpaid).is_err_and(|said| said.contains("condition 1")));
        let tpcc = Tpcc { warehouses: 1, items: 10, customers: 10, remote: 0.0 };
        let (before, after) = (state(3, &[1, 2], &[2], 10), state(4, &[1, 2, 3], &[2, 3], 15));
        let acknowledged = |orders| Acknowledged { writes: [(0, orders)].into(), sum: 0 };
        assert_eq!(tpcc.check(&before, &after, &acknowledged(1)), Ok(()));
        assert!(tpcc.check(&before, &after, &acknowledged(2)).is_err_and(|why| why.contains("1 new orders")));
    }

    #[test]
    fn shares_are_those_of_the_specification() {
        let tpcc = Tpcc { warehouses: 3, items: 100, customers: 30, remote: 0.1 };
        let mut plans = tpcc.plans(1, 4);
        let mut counts = [0; 5];
        for _ in 0..10_000 {
            let planned = plans.plan().unwrap();
            counts[planned.kind] += 1;
            assert_eq!(planned.values[0], Value::Integer(2), "the client's own warehouse");
        }
        assert!(
            counts.iter().zip(MIX).all(|(count, share)| (*count as i64 / 100 - share as i64).abs() <= 2),
            "{counts:?}"
        );
        assert_eq!((last_name(0), last_name(371)), ("BARBARBAR".to_owned(), "PRICALLYOUGHT".to_owned()));
    }
}
