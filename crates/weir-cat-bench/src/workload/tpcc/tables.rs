//! Tables and rows of TPC-C, clauses 1.3 and 4.3: amounts are cents, taxes and discounts ten-thousandths, moments seconds; addresses are one column.

use weir_cat::chance::Chance;

use super::{DISTRICTS, Tpcc, last_name};
use crate::workload::draws::text;
use crate::workload::{inserts, table};

/// Units whose taxes and discounts are counted.
pub const WHOLE: i64 = 10_000;

/// Cents that a district was paid at the begin.
const YTD_OF_DISTRICT: u64 = 3_000_000;

/// Orders that are not delivered yet: the last three of ten.
fn is_new(order: u64, orders: u64) -> bool {
    order > orders * 7 / 10
}

pub fn definition() -> Vec<(&'static str, String)> {
    vec![
        table(
            "warehouse",
            "w_id bigint PRIMARY KEY, w_name varchar(10) NOT NULL, w_address varchar(71) NOT NULL, w_tax bigint NOT NULL, w_ytd bigint NOT NULL",
        ),
        table(
            "district",
            "d_w_id bigint, d_id bigint, d_name varchar(10) NOT NULL, d_address varchar(71) NOT NULL, d_tax bigint NOT NULL, d_ytd bigint NOT NULL, \
             d_next_o_id bigint NOT NULL, PRIMARY KEY (d_w_id, d_id)",
        ),
        table(
            "customer",
            "c_w_id bigint, c_d_id bigint, c_id bigint, c_first varchar(16) NOT NULL, c_last varchar(16) NOT NULL, c_address varchar(71) NOT NULL, \
             c_has_bad_credit bigint NOT NULL, c_discount bigint NOT NULL, c_balance bigint NOT NULL, c_ytd_payment bigint NOT NULL, \
             c_payment_cnt bigint NOT NULL, c_delivery_cnt bigint NOT NULL, c_data varchar(500) NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id), \
             UNIQUE (c_w_id, c_d_id, c_last, c_first, c_id)",
        ),
        table(
            "history",
            "h_w_id bigint NOT NULL, h_d_id bigint NOT NULL, h_c_w_id bigint NOT NULL, h_c_d_id bigint NOT NULL, h_c_id bigint NOT NULL, \
             h_date bigint NOT NULL, h_amount bigint NOT NULL, h_data varchar(24) NOT NULL",
        ),
        table(
            "item",
            "i_id bigint PRIMARY KEY, i_name varchar(24) NOT NULL, i_price bigint NOT NULL, i_data varchar(50) NOT NULL",
        ),
        table(
            "stock",
            "s_w_id bigint, s_i_id bigint, s_quantity bigint NOT NULL, s_dist varchar(240) NOT NULL, s_ytd bigint NOT NULL, s_order_cnt bigint NOT NULL, \
             s_remote_cnt bigint NOT NULL, s_data varchar(50) NOT NULL, PRIMARY KEY (s_w_id, s_i_id)",
        ),
        table(
            "orders",
            "o_w_id bigint, o_d_id bigint, o_id bigint, o_c_id bigint NOT NULL, o_entry_d bigint NOT NULL, o_carrier_id bigint, o_ol_cnt bigint NOT NULL, \
             o_all_local bigint NOT NULL, PRIMARY KEY (o_w_id, o_d_id, o_id), UNIQUE (o_w_id, o_d_id, o_c_id, o_id)",
        ),
        table(
            "new_order",
            "no_w_id bigint, no_d_id bigint, no_o_id bigint, PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
        ),
        table(
            "order_line",
            "ol_w_id bigint, ol_d_id bigint, ol_o_id bigint, ol_number bigint, ol_i_id bigint NOT NULL, ol_supply_w_id bigint NOT NULL, \
             ol_delivery_d bigint, ol_quantity bigint NOT NULL, ol_amount bigint NOT NULL, ol_dist_info varchar(24) NOT NULL, \
             PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
        ),
    ]
}

pub fn rows(of: &Tpcc) -> Vec<String> {
    let mut chance = Chance::from_seed(0x7bcc);
    let mut all = Vec::new();
    let item = |id: u64| {
        let (name, price, data) = (text(&mut chance, 20), 100 + chance.below(9_901), text(&mut chance, 40));
        format!("({id}, '{name}', {price}, '{data}')")
    };
    all.extend(inserts("item", (1..=of.items).map(item)));
    for warehouse in 1..=of.warehouses {
        let (address, tax) = (text(&mut chance, 60), chance.below(2_001));
        let ytd = YTD_OF_DISTRICT * DISTRICTS;
        all.push(format!("INSERT INTO warehouse VALUES ({warehouse}, 'house', '{address}', {tax}, {ytd})"));
        let stock = |item: u64| {
            let (quantity, districts, data) =
                (10 + chance.below(91), text(&mut chance, 240), text(&mut chance, 40));
            format!("({warehouse}, {item}, {quantity}, '{districts}', 0, 0, 0, '{data}')")
        };
        all.extend(inserts("stock", (1..=of.items).map(stock)));
        for district in 1..=DISTRICTS {
            all.extend(of_district(of, (warehouse, district), &mut chance));
        }
    }
    all
}

fn of_district(of: &Tpcc, (warehouse, district): (u64, u64), chance: &mut Chance) -> Vec<String> {
    let (address, tax, next) = (text(chance, 60), chance.below(2_001), of.customers + 1);
    let mut all = vec![format!(
        "INSERT INTO district VALUES ({warehouse}, {district}, 'part', '{address}', {tax}, {YTD_OF_DISTRICT}, {next})"
    )];
    let customer = |id: u64| {
        let (first, last) = (text(chance, 12), last_name(id - 1));
        let (address, is_bad, discount) =
            (text(chance, 60), u8::from(chance.below(10) == 0), chance.below(5_001));
        let data = text(chance, 400);
        format!(
            "({warehouse}, {district}, {id}, '{first}', '{last}', '{address}', {is_bad}, {discount}, -1000, 1000, 1, 0, '{data}')"
        )
    };
    all.extend(inserts("customer", (1..=of.customers).map(customer)));
    // Each customer has one order, in another order than their ids.
    let mut customers: Vec<u64> = (1..=of.customers).collect();
    for last in (1..customers.len()).rev() {
        customers.swap(last, chance.below(last as u64 + 1) as usize);
    }
    let (mut orders, mut new, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for (order, customer) in (1..).zip(customers) {
        let (count, is_new) = (5 + chance.below(11), is_new(order, of.customers));
        let carrier = if is_new { "NULL".to_owned() } else { (1 + chance.below(10)).to_string() };
        orders.push(format!("({warehouse}, {district}, {order}, {customer}, 0, {carrier}, {count}, 1)"));
        if is_new {
            new.push(format!("({warehouse}, {district}, {order})"));
        }
        for line in 1..=count {
            let (item, info) = (1 + chance.below(of.items), text(chance, 24));
            let (delivered, amount) = if is_new { ("NULL", 1 + chance.below(999_999)) } else { ("0", 0) };
            lines.push(format!(
                "({warehouse}, {district}, {order}, {line}, {item}, {warehouse}, {delivered}, 5, {amount}, '{info}')"
            ));
        }
    }
    all.extend(inserts("orders", orders.into_iter()));
    all.extend(inserts("new_order", new.into_iter()));
    all.extend(inserts("order_line", lines.into_iter()));
    all
}
