//! Tables and rows of TPC-W, clauses 1.4 and 4.3, at a size of one's own: amounts are cents, discounts hundredths, days and moments seconds.

use weir_cat::chance::Chance;

use super::{COUNTRIES, SUBJECTS, Tpcw};
use crate::workload::draws::{between, digits, letters, text};
use crate::workload::{inserts, table};

/// 2025-06-01: the population's orders and visits are from then on, for sixty days.
const POPULATED: u64 = 1_748_736_000;
const DAY: u64 = 86_400;

/// Seconds of a session.
pub const SESSION: i64 = 7_200;

/// Parcel and each copy in it, clause 2.7, in cents.
const PARCEL: i64 = 300;
const COPY: i64 = 100;

const CARDS: [&str; 5] = ["VISA", "MASTERCARD", "DISCOVER", "AMEX", "DINERS"];
const SHIPPED_BY: [&str; 6] = ["AIR", "UPS", "FEDEX", "SHIP", "COURIER", "MAIL"];

pub fn card(number: u64) -> &'static str {
    CARDS[number as usize % CARDS.len()]
}

pub fn shipped_by(number: u64) -> &'static str {
    SHIPPED_BY[number as usize % SHIPPED_BY.len()]
}

/// The amount of an order: subtotal, tax (8.25 of a hundred), parcel and copies.
pub fn total(sub_total: i64, tax: i64, copies: i64) -> i64 {
    sub_total + tax + PARCEL + COPY * copies
}

pub fn definition() -> Vec<(&'static str, String)> {
    vec![
        table(
            "country",
            "co_id bigint PRIMARY KEY, co_name varchar(50) NOT NULL UNIQUE, co_exchange bigint NOT NULL, co_currency varchar(18) NOT NULL",
        ),
        table(
            "author",
            "a_id bigint PRIMARY KEY, a_fname varchar(20) NOT NULL, a_lname varchar(20) NOT NULL, a_mname varchar(20) NOT NULL, \
             a_dob bigint NOT NULL, a_bio varchar(500) NOT NULL",
        ),
        table(
            "address",
            "addr_id bigint PRIMARY KEY, addr_street1 varchar(40) NOT NULL, addr_street2 varchar(40) NOT NULL, addr_city varchar(30) NOT NULL, \
             addr_state varchar(20) NOT NULL, addr_zip varchar(10) NOT NULL, addr_co_id bigint NOT NULL",
        ),
        table(
            "customer",
            "c_id bigint PRIMARY KEY, c_uname varchar(20) NOT NULL UNIQUE, c_passwd varchar(20) NOT NULL, c_fname varchar(15) NOT NULL, \
             c_lname varchar(15) NOT NULL, c_addr_id bigint NOT NULL, c_phone varchar(16) NOT NULL, c_email varchar(50) NOT NULL, \
             c_since bigint NOT NULL, c_last_visit bigint NOT NULL, c_login bigint NOT NULL, c_expiration bigint NOT NULL, \
             c_discount bigint NOT NULL, c_balance bigint NOT NULL, c_ytd_pmt bigint NOT NULL, c_birthdate bigint NOT NULL, \
             c_data varchar(500) NOT NULL",
        ),
        table(
            "item",
            "i_id bigint PRIMARY KEY, i_title varchar(60) NOT NULL, i_a_id bigint NOT NULL, i_pub_date bigint NOT NULL, \
             i_publisher varchar(60) NOT NULL, i_subject varchar(60) NOT NULL, i_desc varchar(500) NOT NULL, i_related1 bigint NOT NULL, \
             i_related2 bigint NOT NULL, i_related3 bigint NOT NULL, i_related4 bigint NOT NULL, i_related5 bigint NOT NULL, \
             i_thumbnail varchar(40) NOT NULL, i_image varchar(40) NOT NULL, i_srp bigint NOT NULL, i_cost bigint NOT NULL, \
             i_avail bigint NOT NULL, i_stock bigint NOT NULL, i_isbn varchar(13) NOT NULL, i_page bigint NOT NULL, \
             i_backing varchar(15) NOT NULL, i_dimensions varchar(25) NOT NULL",
        ),
        table(
            "orders",
            "o_id bigint PRIMARY KEY, o_c_id bigint NOT NULL, o_date bigint NOT NULL, o_sub_total bigint NOT NULL, o_tax bigint NOT NULL, \
             o_total bigint NOT NULL, o_ship_type varchar(10) NOT NULL, o_ship_date bigint NOT NULL, o_bill_addr_id bigint NOT NULL, \
             o_ship_addr_id bigint NOT NULL, o_status varchar(15) NOT NULL",
        ),
        table(
            "order_line",
            "ol_o_id bigint, ol_id bigint, ol_i_id bigint NOT NULL, ol_qty integer NOT NULL, ol_discount bigint NOT NULL, \
             ol_comments varchar(100) NOT NULL, PRIMARY KEY (ol_o_id, ol_id)",
        ),
        table(
            "cc_xacts",
            "cx_o_id bigint PRIMARY KEY, cx_type varchar(10) NOT NULL, cx_num varchar(16) NOT NULL, cx_name varchar(31) NOT NULL, \
             cx_expire bigint NOT NULL, cx_auth_id varchar(15) NOT NULL, cx_xact_amt bigint NOT NULL, cx_xact_date bigint NOT NULL, \
             cx_co_id bigint NOT NULL",
        ),
        table("shopping_cart", "sc_id bigint PRIMARY KEY, sc_date bigint NOT NULL"),
        table(
            "shopping_cart_line",
            "scl_sc_id bigint, scl_i_id bigint, scl_qty integer NOT NULL, PRIMARY KEY (scl_sc_id, scl_i_id)",
        ),
    ]
}

pub fn indexes() -> Vec<String> {
    [
        "CREATE INDEX author_by_last_name ON author (a_lname)",
        "CREATE INDEX address_by_text ON address (addr_zip, addr_street1)",
        "CREATE INDEX item_by_subject ON item (i_subject, i_pub_date)",
        "CREATE INDEX item_by_author ON item (i_a_id)",
        "CREATE INDEX orders_by_customer ON orders (o_c_id, o_date)",
        "CREATE INDEX order_line_by_item ON order_line (ol_i_id)",
    ]
    .map(str::to_owned)
    .to_vec()
}

pub fn rows(of: &Tpcw) -> Vec<String> {
    let mut chance = Chance::from_seed(0x7bc3);
    let mut all = Vec::new();
    let country = |id: u64| {
        let (exchange, currency) = (between(&mut chance, 10_000, 10_000_000), letters(&mut chance, 3, 10));
        format!("({id}, 'country {id}', {exchange}, '{currency}')")
    };
    all.extend(inserts("country", (1..=COUNTRIES).map(country)));
    all.extend(inserts("author", (1..=of.authors()).map(|id| author(&mut chance, id))));
    all.extend(inserts("address", (1..=2 * of.customers).map(|id| address(&mut chance, id))));
    all.extend(inserts("customer", (1..=of.customers).map(|id| customer(&mut chance, id))));
    all.extend(inserts("item", (1..=of.items).map(|id| item(&mut chance, of, id))));
    all.extend(orders(of, &mut chance));
    all.extend(inserts("shopping_cart", (1..=of.carts).map(|id| format!("({id}, {POPULATED})"))));
    // A visitor's cart has one book to begin with.
    let line =
        |id: u64| format!("({id}, {}, {})", between(&mut chance, 1, of.items), between(&mut chance, 1, 3));
    all.extend(inserts("shopping_cart_line", (1..=of.carts).map(line)));
    all
}

fn author(chance: &mut Chance, id: u64) -> String {
    let names = [letters(chance, 3, 20), letters(chance, 3, 20), letters(chance, 1, 20)];
    let (born, bio) = (DAY * chance.below(10_000), letters(chance, 125, 500));
    format!("({id}, '{}', '{}', '{}', {born}, '{bio}')", names[0], names[1], names[2])
}

fn address(chance: &mut Chance, id: u64) -> String {
    let (street, second) = (letters(chance, 5, 20), letters(chance, 5, 20));
    let (city, state, zip) = (letters(chance, 4, 20), letters(chance, 2, 20), digits(chance, 8));
    let country = between(chance, 1, COUNTRIES);
    format!("({id}, '{id} {street} street', '{second}', '{city}', '{state}', '{zip}', {country})")
}

fn customer(chance: &mut Chance, id: u64) -> String {
    let (first, last, phone) = (letters(chance, 8, 15), letters(chance, 8, 15), digits(chance, 16));
    let since = POPULATED - DAY * between(chance, 1, 730);
    let login = POPULATED + DAY * chance.below(61);
    let (expiration, born) = (login + SESSION as u64, DAY * chance.below(10_000));
    let (discount, paid, data) = (chance.below(51), chance.below(100_000), letters(chance, 100, 500));
    format!(
        "({id}, 'user{id}', 'pass{id}', '{first}', '{last}', {id}, '{phone}', 'user{id}@example.com', {since}, {login}, {login}, {expiration}, \
         {discount}, 0, {paid}, {born}, '{data}')"
    )
}

fn item(chance: &mut Chance, of: &Tpcw, id: u64) -> String {
    const BACKINGS: [&str; 5] = ["HARDBACK", "PAPERBACK", "USED", "AUDIO", "LIMITED-EDITION"];
    let title = format!("{} {}", letters(chance, 4, 10), letters(chance, 4, 20));
    let (author, published) = (between(chance, 1, of.authors()), POPULATED - DAY * chance.below(12_000));
    let (publisher, subject) = (letters(chance, 14, 60), between(chance, 1, SUBJECTS));
    let description = letters(chance, 100, 500);
    let related: Vec<String> = (0..5).map(|next| ((id + next) % of.items + 1).to_string()).collect();
    let (suggested, cost) = (between(chance, 1_000, 99_999), between(chance, 100, 50_000));
    let (available, stock) = (POPULATED - DAY * between(chance, 1, 30), between(chance, 10, 30));
    let (isbn, pages) = (text(chance, 13), between(chance, 20, 9_999));
    let (backing, dimensions) = (BACKINGS[chance.below(5) as usize], digits(chance, 6));
    format!(
        "({id}, '{title}', {author}, {published}, '{publisher}', 'SUBJECT {subject}', '{description}', {}, 'thumbnail/{id}.gif', 'image/{id}.gif', \
         {suggested}, {cost}, {available}, {stock}, '{isbn}', {pages}, '{backing}', '{dimensions}')",
        related.join(", ")
    )
}

/// Clause 4.6.2.15: 0.9 for each customer, with their lines and cards.
fn orders(of: &Tpcw, chance: &mut Chance) -> Vec<String> {
    const STATES: [&str; 4] = ["PROCESSING", "SHIPPED", "PENDING", "DENIED"];
    let (mut orders, mut lines, mut cards) = (Vec::new(), Vec::new(), Vec::new());
    for id in 1..=of.customers * 9 / 10 {
        let mut copies = 0;
        for line in 1..=between(chance, 1, 5) {
            let (item, quantity) = (between(chance, 1, of.items), between(chance, 1, 300));
            let (discount, comments) = (chance.below(31), letters(chance, 20, 100));
            copies += quantity as i64;
            lines.push(format!("({id}, {line}, {item}, {quantity}, {discount}, '{comments}')"));
        }
        let (customer, date) = (between(chance, 1, of.customers), POPULATED + chance.below(60 * DAY));
        let (sub_total, tax) = (between(chance, 1_000, 99_999) as i64, between(chance, 80, 8_250) as i64);
        let total = total(sub_total, tax, copies);
        let (by, shipped) = (shipped_by(chance.below(6)), date + DAY * chance.below(8));
        let addresses = [between(chance, 1, 2 * of.customers), between(chance, 1, 2 * of.customers)];
        let state = STATES[chance.below(4) as usize];
        orders.push(format!(
            "({id}, {customer}, {date}, {sub_total}, {tax}, {total}, '{by}', {shipped}, {}, {}, '{state}')",
            addresses[0], addresses[1]
        ));
        let (card, number, name) = (card(chance.below(5)), digits(chance, 16), letters(chance, 14, 30));
        let (expires, authorization) = (POPULATED + 730 * DAY, text(chance, 15));
        let country = between(chance, 1, COUNTRIES);
        cards.push(format!(
            "({id}, '{card}', '{number}', '{name}', {expires}, '{authorization}', {total}, {date}, {country})"
        ));
    }
    let mut all = inserts("orders", orders.into_iter());
    all.extend(inserts("order_line", lines.into_iter()));
    all.extend(inserts("cc_xacts", cards.into_iter()));
    all
}
