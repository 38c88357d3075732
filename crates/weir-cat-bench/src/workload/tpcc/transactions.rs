//! The five transactions of TPC-C, clause 2, statement by statement.

use super::tables::WHOLE;
use super::{DELIVERY, DISTRICTS, NEW_ORDER, ORDER_STATUS, PAYMENT, last_name};
use crate::connection::{Connection, Refused, Value};
use crate::workload::Planned;
use crate::workload::statements::{self, missing, seconds, statements, without_values};

type Running<'c> = statements::Running<'c, Statement>;

statements! {
    WarehouseTax = "SELECT w_tax FROM warehouse WHERE w_id = $1";
    NextOrder = "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE";
    SetNextOrder = "UPDATE district SET d_next_o_id = $3 WHERE d_w_id = $1 AND d_id = $2";
    Discount = "SELECT c_discount FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    AddOrder = "INSERT INTO orders VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)";
    AddNewOrder = "INSERT INTO new_order VALUES ($1, $2, $3)";
    Price = "SELECT i_price FROM item WHERE i_id = $1";
    Quantity = "SELECT s_quantity FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE";
    TakeStock = "UPDATE stock SET s_quantity = $3, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 \
                 WHERE s_w_id = $1 AND s_i_id = $2";
    AddLine = "INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9)";
    PayWarehouse = "UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1";
    PayDistrict = "UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2";
    ByName = "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first";
    Credit = "SELECT c_has_bad_credit, c_balance FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE";
    Pay = "UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, c_payment_cnt = c_payment_cnt + 1 \
           WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    NoteCredit = "UPDATE customer SET c_data = $4 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    AddHistory = "INSERT INTO history VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    Balance = "SELECT c_balance FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    LastOrder = "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1";
    Lines = "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";
    OldestNew = "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1 FOR UPDATE";
    TakeNew = "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3";
    CustomerOf = "SELECT o_c_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3";
    SetCarrier = "UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3";
    Deliver = "UPDATE order_line SET ol_delivery_d = $4 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";
    Charge = "UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    NextOrderSeen = "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2";
    LowStock = "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
                WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 AND s_quantity < $5";
}

/// Runs a transaction; returns the cents that were paid.
pub fn run(connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused> {
    let values: Vec<i64> = planned.values.iter().map(Value::number).collect();
    let mut running = Running::new(connection);
    match (planned.kind, values.as_slice()) {
        (NEW_ORDER, [warehouse, district, customer, lines @ ..]) => {
            running.new_order([*warehouse, *district, *customer], lines)
        }
        (PAYMENT, &[warehouse, district, of_w, of_d, by_name, who, amount]) => {
            running.payment([warehouse, district], ([of_w, of_d], by_name != 0, who), amount)
        }
        (ORDER_STATUS, &[warehouse, district, by_name, who]) => {
            running.order_status(([warehouse, district], by_name != 0, who))
        }
        (DELIVERY, &[warehouse, carrier]) => running.delivery(warehouse, carrier),
        (_, &[warehouse, district, threshold]) => running.stock_level(warehouse, district, threshold),
        _ => Err(without_values()),
    }
}

impl Running<'_> {
    /// Clause 2.4. `lines`: item, supplying warehouse and quantity of each. An item that is not there takes everything back.
    fn new_order(
        &mut self,
        [warehouse, district, customer]: [i64; 3],
        lines: &[i64],
    ) -> Result<i64, Refused> {
        use Statement::{
            AddLine, AddNewOrder, AddOrder, Discount, NextOrder, Price, Quantity, SetNextOrder, TakeStock,
            WarehouseTax,
        };
        let [tax] = self.row(WarehouseTax, &[warehouse])?;
        let [order, of_district] = self.row(NextOrder, &[warehouse, district])?;
        self.rows(SetNextOrder, &[warehouse, district, order + 1])?;
        let [discount] = self.row(Discount, &[warehouse, district, customer])?;
        let lines = lines.as_chunks::<3>().0;
        let is_local = lines.iter().all(|[_, supply, _]| *supply == warehouse);
        let count = lines.len() as i64;
        self.rows(AddOrder, &[warehouse, district, order, customer, seconds(), count, i64::from(is_local)])?;
        self.rows(AddNewOrder, &[warehouse, district, order])?;
        let mut total = 0;
        for (number, &[item, supply, quantity]) in (1..).zip(lines) {
            let Some(price) = self.number(Price, &[item])? else {
                return Err(Refused::ByRule("there is no such item".to_owned()));
            };
            let [stored] = self.row(Quantity, &[supply, item])?;
            let left = if stored >= quantity + 10 { stored - quantity } else { stored - quantity + 91 };
            self.rows(TakeStock, &[supply, item, left, quantity, i64::from(supply != warehouse)])?;
            let amount = price * quantity;
            total += amount;
            let line = [warehouse, district, order, number, item, supply, quantity, amount];
            self.change(AddLine, &line, "of the district         ")?;
        }
        let _charged = total * (WHOLE - discount) / WHOLE * (WHOLE + tax + of_district) / WHOLE;
        Ok(0)
    }

    /// The customer with that number, or the middle one of those with that last name.
    fn customer(&mut self, ([warehouse, district], by_name, who): Who) -> Result<i64, Refused> {
        if !by_name {
            return Ok(who);
        }
        let name = last_name(who as u64);
        let values = [Value::Integer(warehouse), Value::Integer(district), Value::Text(name)];
        let rows = self.rows_of(Statement::ByName, &values)?;
        let middle = rows.get(rows.len().div_ceil(2).saturating_sub(1)).and_then(|row| row[0]);
        middle.ok_or_else(|| missing(Statement::ByName, &[warehouse, district, who]))
    }

    /// Clause 2.5.
    fn payment(&mut self, [warehouse, district]: [i64; 2], who: Who, amount: i64) -> Result<i64, Refused> {
        use Statement::{AddHistory, Credit, NoteCredit, Pay, PayDistrict, PayWarehouse};
        self.rows(PayWarehouse, &[warehouse, amount])?;
        self.rows(PayDistrict, &[warehouse, district, amount])?;
        let customer = self.customer(who)?;
        let [of_w, of_d] = who.0;
        let [is_bad, _balance] = self.row(Credit, &[of_w, of_d, customer])?;
        self.rows(Pay, &[of_w, of_d, customer, amount])?;
        if is_bad != 0 {
            let note = format!("{customer} {of_d} {of_w} {district} {warehouse} {amount} ");
            self.change(NoteCredit, &[of_w, of_d, customer], &note.repeat(500 / note.len()))?;
        }
        let history = [warehouse, district, of_w, of_d, customer, seconds(), amount];
        self.change(AddHistory, &history, "house    part")?;
        Ok(amount)
    }

    /// Clause 2.6.
    fn order_status(&mut self, who: Who) -> Result<i64, Refused> {
        let customer = self.customer(who)?;
        let [warehouse, district] = who.0;
        let [_balance] = self.row(Statement::Balance, &[warehouse, district, customer])?;
        if let Some(order) = self.number(Statement::LastOrder, &[warehouse, district, customer])? {
            self.rows(Statement::Lines, &[warehouse, district, order])?;
        }
        Ok(0)
    }

    /// Clause 2.7, all districts in one transaction.
    fn delivery(&mut self, warehouse: i64, carrier: i64) -> Result<i64, Refused> {
        use Statement::{Charge, CustomerOf, Deliver, Lines, OldestNew, SetCarrier, TakeNew};
        for district in 1..=DISTRICTS as i64 {
            let Some(order) = self.number(OldestNew, &[warehouse, district])? else { continue };
            let key = [warehouse, district, order];
            self.rows(TakeNew, &key)?;
            let [customer] = self.row(CustomerOf, &key)?;
            self.rows(SetCarrier, &[warehouse, district, order, carrier])?;
            let amount: i64 = self.rows(Lines, &key)?.iter().filter_map(|line| line[3]).sum();
            self.rows(Deliver, &[warehouse, district, order, seconds()])?;
            self.rows(Charge, &[warehouse, district, customer, amount])?;
        }
        Ok(0)
    }

    /// Clause 2.8.
    fn stock_level(&mut self, warehouse: i64, district: i64, threshold: i64) -> Result<i64, Refused> {
        let [next] = self.row(Statement::NextOrderSeen, &[warehouse, district])?;
        self.rows(Statement::LowStock, &[warehouse, district, next - 20, next, threshold])?;
        Ok(0)
    }
}

/// Warehouse and district of a customer, whether by last name, and the number of the customer or of the name.
type Who = ([i64; 2], bool, i64);
