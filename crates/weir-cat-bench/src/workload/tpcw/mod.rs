//! TPC-W by SQL that PostgreSQL, MariaDB, SQLite and Weir take alike, statement by statement: the twenty transactions of the bookstore's pages,
//! with their shares in the three mixes. (`examples/tpcw` has them as procedures.)
//!
//! * Numbers of new orders, customers, carts and addresses are drawn by the client from a sequence of this program, outside of the
//!   transaction: they grow, no two rows have the same, and what is undone leaves a gap, as with a database's own sequence.
//! * A change and a purchase hold the row of their cart first; a purchase changes the stock of books in the order of their numbers.
//! * The latest orders are those with the highest numbers.
//! * A purchase of an empty cart is refused.

mod check;
mod tables;
mod transactions;

use std::str::FromStr;

use serde_json::{Value as Json, json};
use weir_cat::chance::Chance;

use super::draws::{between, skewed};
use super::{
    Acknowledged, Definition, Planned, Plans, SPREAD, Settings, State, Way, Workload, Wrong, chance_of,
    draw_kind, texts, within,
};
use crate::connection::{Connection, Refused};

const COUNTRIES: u64 = 92;
/// Clause 4.6.2.12.
const SUBJECTS: u64 = 24;

const KINDS: [&str; 20] = [
    "get_name",
    "get_customer",
    "get_user_name",
    "get_password",
    "get_book",
    "search_by_subject",
    "search_by_title",
    "search_by_author",
    "new_products",
    "best_sellers",
    "get_related",
    "get_most_recent_order",
    "get_cart",
    "create_empty_cart",
    "change_cart",
    "refresh_session",
    "create_customer",
    "confirm_purchase",
    "confirm_purchase_to_address",
    "admin_update",
];
const GET_NAME: usize = 0;
const GET_CUSTOMER: usize = 1;
const GET_USER_NAME: usize = 2;
const GET_PASSWORD: usize = 3;
const GET_BOOK: usize = 4;
const SEARCH_BY_SUBJECT: usize = 5;
const SEARCH_BY_TITLE: usize = 6;
const SEARCH_BY_AUTHOR: usize = 7;
const NEW_PRODUCTS: usize = 8;
const BEST_SELLERS: usize = 9;
const GET_RELATED: usize = 10;
const GET_MOST_RECENT_ORDER: usize = 11;
const GET_CART: usize = 12;
/// The first of those that write.
const CREATE_EMPTY_CART: usize = 13;
const CHANGE_CART: usize = 14;
const REFRESH_SESSION: usize = 15;
const CREATE_CUSTOMER: usize = 16;
const CONFIRM_PURCHASE: usize = 17;
const CONFIRM_PURCHASE_TO_ADDRESS: usize = 18;
const ADMIN_UPDATE: usize = 19;

/// The mixes of clause 5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mix {
    Shopping,
    Browsing,
    Ordering,
}

impl Mix {
    fn name(self) -> &'static str {
        match self {
            Mix::Shopping => "shopping",
            Mix::Browsing => "browsing",
            Mix::Ordering => "ordering",
        }
    }

    /// Shares of the transactions that the requests of clause 5.2.1 make, in hundredths of a percent of the requests.
    fn shares(self) -> [u64; 20] {
        match self {
            Mix::Shopping => [
                1_600, 260, 75, 66, 1_710, 567, 567, 566, 500, 500, 3_600, 66, 260, 580, 1_160, 208, 52, 96,
                24, 9,
            ],
            Mix::Browsing => [
                2_900, 75, 30, 25, 2_110, 367, 367, 366, 1_100, 1_100, 4_100, 25, 75, 100, 200, 60, 15, 55,
                14, 9,
            ],
            Mix::Ordering => [
                912, 1_273, 25, 22, 1_247, 436, 436, 436, 46, 46, 2_365, 22, 1_273, 676, 1_353, 1_018, 255,
                814, 204, 11,
            ],
        }
    }
}

impl FromStr for Mix {
    type Err = ();

    fn from_str(text: &str) -> Result<Mix, ()> {
        let all = [Mix::Shopping, Mix::Browsing, Mix::Ordering];
        all.into_iter().find(|mix| mix.name() == text).ok_or(())
    }
}

/// The workload.
#[derive(Clone, Copy, Debug)]
pub struct Tpcw {
    items: u64,
    customers: u64,
    /// Carts of the population; those are changed and bought.
    carts: u64,
    mix: Mix,
}

impl Tpcw {
    /// # Errors
    /// A setting is wrong.
    pub fn of(mut settings: Settings<'_>) -> Result<Tpcw, Wrong> {
        let workload = Tpcw {
            items: settings.count("items", 1_000, 100_000)? as u64,
            customers: settings.count("customers", 2_880, 1_000_000)? as u64,
            carts: settings.count("carts", 1_000, 1_000_000)? as u64,
            mix: settings.take("mix", Mix::Shopping, "shopping, browsing or ordering", |_| true)?,
        };
        settings.end()?;
        Ok(workload)
    }

    fn authors(&self) -> u64 {
        self.items / 4 + 1
    }
}

/// Objects whose accesses count for the Contention Level.
#[derive(Clone, Copy)]
enum Object {
    Customer,
    Item,
    Cart,
    Subject,
    Title,
    Author,
    Address,
}

impl Object {
    fn at(self, number: u64) -> u64 {
        ((self as u64) << 60) | number
    }
}

/// Objects whose writes are counted: new rows of these tables.
const NEW_ORDERS: u64 = 0;
const NEW_CUSTOMERS: u64 = 1;
const NEW_CARTS: u64 = 2;

struct TpcwPlans {
    workload: Tpcw,
    chance: Chance,
}

impl TpcwPlans {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        between(&mut self.chance, least, most)
    }

    fn customer(&mut self) -> u64 {
        skewed(&mut self.chance, 1_023, 1, self.workload.customers)
    }

    fn book(&mut self) -> u64 {
        skewed(&mut self.chance, 1_023, 1, self.workload.items)
    }

    fn any_book(&mut self) -> u64 {
        self.between(1, self.workload.items)
    }

    fn cart(&mut self) -> u64 {
        self.between(1, self.workload.carts)
    }

    /// A number that no other transaction is likely to have: for a row that is new.
    fn fresh(&mut self) -> u64 {
        1 << 59 | self.chance.below(1 << 59)
    }

    /// A street: 0 is where somebody lives already, for three of ten.
    fn street(&mut self) -> u64 {
        match self.chance.below(10) < 3 {
            true => 0,
            false => self.between(1, 1 << 40),
        }
    }

    /// Values, and objects that are accessed.
    fn reader(&mut self, kind: usize) -> (Vec<u64>, Vec<u64>) {
        let (value, object) = match kind {
            GET_BOOK | GET_RELATED => (self.book(), Object::Item),
            SEARCH_BY_SUBJECT | NEW_PRODUCTS | BEST_SELLERS => (self.between(1, SUBJECTS), Object::Subject),
            // Two letters of a title, one of a name.
            SEARCH_BY_TITLE => (self.chance.below(26 * 26), Object::Title),
            SEARCH_BY_AUTHOR => (self.chance.below(26), Object::Author),
            GET_CART => (self.cart(), Object::Cart),
            _ => (self.customer(), Object::Customer),
        };
        (vec![value], vec![object.at(value)])
    }

    /// A cart, a book to add or 0, a book for an empty cart, and books with their new quantities.
    fn change_cart(&mut self) -> (Vec<u64>, Vec<u64>) {
        let cart = self.cart();
        let added = if self.chance.below(10) < 8 { self.book() } else { 0 };
        let mut values = vec![cart, added, self.any_book()];
        for _ in 0..self.chance.below(3) {
            values.extend([self.any_book(), self.chance.below(5)]);
        }
        (values, vec![Object::Cart.at(cart)])
    }

    /// As [`TpcwPlans::reader`].
    fn writer(&mut self, kind: usize) -> (Vec<u64>, Vec<u64>) {
        match kind {
            CREATE_EMPTY_CART => (Vec::new(), vec![Object::Cart.at(self.fresh())]),
            CHANGE_CART => self.change_cart(),
            REFRESH_SESSION => {
                let customer = self.customer();
                (vec![customer], vec![Object::Customer.at(customer)])
            }
            CREATE_CUSTOMER => {
                let street = self.street();
                let accesses = vec![Object::Address.at(street), Object::Customer.at(self.fresh())];
                (vec![street, self.chance.below(51)], accesses)
            }
            ADMIN_UPDATE => {
                let (book, cost) = (self.any_book(), self.between(100, 50_000));
                (vec![book, cost], vec![Object::Item.at(book)])
            }
            _ => {
                let (cart, customer) = (self.cart(), self.customer());
                let mut values =
                    vec![cart, customer, self.chance.below(5), self.chance.below(6), self.between(1, 7)];
                let mut accesses = vec![Object::Cart.at(cart), Object::Customer.at(customer)];
                if kind == CONFIRM_PURCHASE_TO_ADDRESS {
                    let street = self.street();
                    values.push(street);
                    accesses.push(Object::Address.at(street));
                }
                (values, accesses)
            }
        }
    }
}

impl Plans for TpcwPlans {
    fn plan(&mut self) -> Option<Planned> {
        let kind = draw_kind(&mut self.chance, &self.workload.mix.shares());
        let is_writer = kind >= CREATE_EMPTY_CART;
        let planned = if is_writer { self.writer(kind) } else { self.reader(kind) };
        let written = match kind {
            CONFIRM_PURCHASE | CONFIRM_PURCHASE_TO_ADDRESS => vec![NEW_ORDERS],
            CREATE_CUSTOMER => vec![NEW_CUSTOMERS],
            CREATE_EMPTY_CART => vec![NEW_CARTS],
            _ => Vec::new(),
        };
        Some(Planned::of_numbers(kind, planned, written, is_writer))
    }
}

impl Workload for Tpcw {
    fn name(&self) -> &'static str {
        "tpcw"
    }

    fn settings(&self) -> Vec<(&'static str, Json)> {
        vec![
            ("items", json!(self.items)),
            ("customers", json!(self.customers)),
            ("carts", json!(self.carts)),
            ("mix", json!(self.mix.name())),
        ]
    }

    fn kinds(&self) -> &[&'static str] {
        &KINDS
    }

    fn has_calls(&self) -> bool {
        false
    }

    fn definition(&self) -> Definition {
        Definition { tables: tables::definition(), indexes: tables::indexes(), ..Definition::default() }
    }

    fn rows(&self) -> Vec<String> {
        tables::rows(self)
    }

    fn statements(&self, _: Way) -> Vec<String> {
        texts(transactions::STATEMENTS)
    }

    fn plans(&self, seed: u64, number: u64) -> Box<dyn Plans> {
        Box::new(TpcwPlans { workload: *self, chance: chance_of(seed, number) })
    }

    fn attempt(&self, _: Way, connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused> {
        within(connection, planned.is_writer, |connection| transactions::run(connection, planned))
    }

    fn state(&self) -> Vec<String> {
        texts(&check::STATE)
    }

    fn check(&self, before: &State, after: &State, acknowledged: &Acknowledged) -> Result<(), String> {
        check::check(before, after, acknowledged)
    }

    fn spread(&self) -> Option<Box<dyn Workload>> {
        let times = |count| SPREAD * count;
        let [items, customers, carts] = [self.items, self.customers, self.carts].map(times);
        Some(Box::new(Tpcw { items, customers, carts, ..*self }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(mix: Mix) -> [u64; 20] {
        let tpcw = Tpcw { items: 100, customers: 50, carts: 20, mix };
        let mut plans = tpcw.plans(1, 4);
        let mut counts = [0; 20];
        for _ in 0..20_000 {
            let planned = plans.plan().unwrap();
            counts[planned.kind] += 1;
            assert_eq!(planned.is_writer, planned.kind >= CREATE_EMPTY_CART);
            assert!(planned.is_writer || planned.values.len() == 1);
        }
        counts
    }

    #[test]
    fn shares_are_those_of_the_specification() {
        for mix in [Mix::Shopping, Mix::Browsing, Mix::Ordering] {
            let (counts, shares) = (counts(mix), mix.shares());
            let all: u64 = shares.iter().sum();
            for (kind, (count, share)) in counts.iter().zip(shares).enumerate() {
                let expected = 20_000.0 * share as f64 / all as f64;
                let allowed = 5.0 * expected.sqrt() + 1.0;
                assert!((*count as f64 - expected).abs() < allowed, "{mix:?} {}: {count}", KINDS[kind]);
            }
            // Some requests of the table in clause 5.2.1 make one transaction each.
            let request = |kinds: &[usize]| kinds.iter().map(|kind| shares[*kind]).sum::<u64>();
            let bought = request(&[CONFIRM_PURCHASE, CONFIRM_PURCHASE_TO_ADDRESS]);
            assert_eq!(bought, [120, 69, 1_018][mix as usize], "buy confirm");
            assert_eq!(request(&[BEST_SELLERS]), [500, 1_100, 46][mix as usize], "best sellers");
        }
    }

    #[test]
    fn mixes_have_names() {
        for mix in [Mix::Shopping, Mix::Browsing, Mix::Ordering] {
            assert_eq!(mix.name().parse(), Ok(mix));
        }
        let given = [("mix".to_owned(), "buying".to_owned())];
        let wrong = Tpcw::of(Settings::new("tpcw", &given)).expect_err("there is no such mix");
        assert!(wrong.hint.contains("shopping, browsing or ordering"), "{wrong}");
    }
}
