//! RUBiS by SQL that PostgreSQL, MariaDB, SQLite and Weir take alike, statement by statement: the auction site's requests, with their shares in
//! the bidding and in the browsing mix. (`examples/rubis` has them as procedures.)
//!
//! * A bid, a purchase and a comment are one transaction each, with their share of all parts that `examples/rubis` has: so an item's
//!   `nb_of_bids` and `max_bid` are those of its bids, and a rating is the sum of the comments, and both are checked.
//! * Numbers of new rows are drawn by the client from a sequence of this program, outside of the transaction: no two rows have the same, and what
//!   is undone leaves a gap, as with a database's own sequence.
//! * A bid and a purchase hold the row of their item first. More pieces than are left are refused.
//! * Time goes on by a second with each transaction of a client, and begins again after a day: the population's auctions end later.

mod check;
mod tables;
mod transactions;

use std::str::FromStr;

use serde_json::{Value as Json, json};
use weir_cat::chance::Chance;

use super::draws::between;
use super::{
    Acknowledged, Definition, Planned, Plans, SPREAD, Settings, State, Way, Workload, Wrong, chance_of,
    draw_kind, texts, within,
};
use crate::connection::{Connection, Refused};

const CATEGORIES: u64 = 20;
const REGIONS: u64 = 62;

const DAY: u64 = 86_400;
/// 2026-01-01: transactions are from then on.
const NOW: u64 = 1_767_225_600;

/// Of a hundred new users, those who wish for a nickname that somebody has.
const TAKEN_NICKNAMES: u64 = 5;
/// A purchase is of so many pieces at most.
const PIECES_MAX: u64 = 3;

const KINDS: [&str; 22] = [
    "authenticate",
    "browse_categories",
    "browse_regions",
    "browse_categories_in_region",
    "search_items_by_category",
    "search_items_by_region",
    "view_item",
    "view_user",
    "view_bid_history",
    "buy_now_form",
    "bid_form",
    "comment_form",
    "my_bids",
    "my_items",
    "my_won_items",
    "my_bought_items",
    "my_comments",
    "register_user",
    "register_item",
    "store_bid",
    "store_buy_now",
    "store_comment",
];
const AUTHENTICATE: usize = 0;
const BROWSE_CATEGORIES: usize = 1;
const BROWSE_REGIONS: usize = 2;
const BROWSE_CATEGORIES_IN_REGION: usize = 3;
const SEARCH_ITEMS_BY_CATEGORY: usize = 4;
const SEARCH_ITEMS_BY_REGION: usize = 5;
const VIEW_ITEM: usize = 6;
const VIEW_USER: usize = 7;
const VIEW_BID_HISTORY: usize = 8;
const BUY_NOW_FORM: usize = 9;
const BID_FORM: usize = 10;
const COMMENT_FORM: usize = 11;
const MY_BIDS: usize = 12;
const MY_ITEMS: usize = 13;
const MY_WON_ITEMS: usize = 14;
const MY_BOUGHT_ITEMS: usize = 15;
const MY_COMMENTS: usize = 16;
/// The first of those that write.
const REGISTER_USER: usize = 17;
const REGISTER_ITEM: usize = 18;
const STORE_BID: usize = 19;
const STORE_BUY_NOW: usize = 20;
const STORE_COMMENT: usize = 21;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mix {
    /// 15 of a hundred write.
    Bidding,
    /// Requests of visitors without a name, in the same proportions: they only read.
    Browsing,
}

impl Mix {
    fn name(self) -> &'static str {
        match self {
            Mix::Bidding => "bidding",
            Mix::Browsing => "browsing",
        }
    }

    /// Transactions of each kind; in the bidding mix among a thousand.
    fn shares(self) -> [u64; 22] {
        match self {
            Mix::Bidding => {
                [40, 75, 30, 30, 160, 70, 150, 50, 30, 15, 60, 10, 26, 26, 26, 26, 26, 10, 10, 90, 25, 15]
            }
            Mix::Browsing => [0, 75, 30, 30, 160, 70, 150, 50, 30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }
}

impl FromStr for Mix {
    type Err = ();

    fn from_str(text: &str) -> Result<Mix, ()> {
        [Mix::Bidding, Mix::Browsing].into_iter().find(|mix| mix.name() == text).ok_or(())
    }
}

/// The workload.
#[derive(Clone, Copy, Debug)]
pub struct Rubis {
    users: u64,
    /// Auctions of the population that run; those are bid on and bought.
    items: u64,
    /// Auctions that have ended.
    old_items: u64,
    /// Pieces of an item at most; a long run sells all of them.
    pieces: u64,
    mix: Mix,
}

impl Rubis {
    /// # Errors
    /// A setting is wrong.
    pub fn of(mut settings: Settings<'_>) -> Result<Rubis, Wrong> {
        let workload = Rubis {
            users: settings.count("users", 2_000, 1_000_000)? as u64,
            items: settings.count("items", 1_000, 1_000_000)? as u64,
            old_items: settings.count("old_items", 2_000, 1_000_000)? as u64,
            pieces: settings.count("pieces", 20, 1_000_000)? as u64,
            mix: settings.take("mix", Mix::Bidding, "bidding or browsing", |_| true)?,
        };
        settings.end()?;
        Ok(workload)
    }
}

/// Objects whose accesses count for the Contention Level.
#[derive(Clone, Copy)]
enum Object {
    User,
    Item,
    Category,
    Region,
}

impl Object {
    fn at(self, number: u64) -> u64 {
        ((self as u64) << 60) | number
    }

    /// All of them.
    fn all(self) -> u64 {
        self.at(0)
    }
}

/// Objects whose writes are counted: new rows of these tables.
const NEW_USERS: u64 = 0;
const NEW_ITEMS: u64 = 1;
const NEW_BIDS: u64 = 2;
const NEW_PURCHASES: u64 = 3;
const NEW_COMMENTS: u64 = 4;

struct RubisPlans {
    workload: Rubis,
    chance: Chance,
    /// Transactions so far.
    planned: u64,
}

impl RubisPlans {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        between(&mut self.chance, least, most)
    }

    fn user(&mut self) -> u64 {
        self.between(1, self.workload.users)
    }

    fn item(&mut self) -> u64 {
        self.between(1, self.workload.items)
    }

    /// One that runs or has ended.
    fn any_item(&mut self) -> u64 {
        self.between(1, self.workload.items + self.workload.old_items)
    }

    fn at(&self) -> u64 {
        NOW + self.planned % DAY
    }

    /// An item and a user, with objects for both.
    fn both(&mut self, item: u64) -> (Vec<u64>, Vec<u64>) {
        let user = self.user();
        (vec![item, user], vec![Object::Item.at(item), Object::User.at(user)])
    }

    /// Values, and objects that are accessed.
    fn reader(&mut self, kind: usize) -> (Vec<u64>, Vec<u64>) {
        match kind {
            BROWSE_CATEGORIES => (Vec::new(), vec![Object::Category.all()]),
            BROWSE_REGIONS => (Vec::new(), vec![Object::Region.all()]),
            BROWSE_CATEGORIES_IN_REGION => {
                let region = self.between(1, REGIONS);
                (vec![region], vec![Object::Region.at(region), Object::Category.all()])
            }
            SEARCH_ITEMS_BY_CATEGORY => {
                let category = self.between(1, CATEGORIES);
                (vec![category, self.at(), self.chance.below(3)], vec![Object::Category.at(category)])
            }
            SEARCH_ITEMS_BY_REGION => {
                let (category, region) = (self.between(1, CATEGORIES), self.between(1, REGIONS));
                let accesses = vec![Object::Category.at(category), Object::Region.at(region)];
                (vec![category, self.at(), region], accesses)
            }
            VIEW_ITEM => {
                let item = self.any_item();
                (vec![item], vec![Object::Item.at(item)])
            }
            VIEW_BID_HISTORY => {
                let item = self.item();
                (vec![item], vec![Object::Item.at(item)])
            }
            BUY_NOW_FORM | BID_FORM => {
                let item = self.item();
                self.both(item)
            }
            COMMENT_FORM => {
                let (item, receiver) = (self.any_item(), self.user());
                let (mut values, mut accesses) = self.both(item);
                values.push(receiver);
                accesses.push(Object::User.at(receiver));
                (values, accesses)
            }
            _ => {
                let user = self.user();
                (vec![user], vec![Object::User.at(user)])
            }
        }
    }

    /// As [`RubisPlans::reader`]; the moment is first.
    fn writer(&mut self, kind: usize) -> (Vec<u64>, Vec<u64>) {
        let (own, accesses) = match kind {
            REGISTER_USER => {
                // The user whose nickname it is, or 0 for a new one.
                let taken = if self.chance.below(100) < TAKEN_NICKNAMES { self.user() } else { 0 };
                let region = self.between(1, REGIONS);
                (vec![taken, region], vec![Object::Region.at(region)])
            }
            REGISTER_ITEM => {
                let (seller, category) = (self.user(), self.between(1, CATEGORIES));
                let (price, quantity) = (self.between(100, 10_000), self.between(1, self.workload.pieces));
                let accesses = vec![Object::User.at(seller), Object::Category.at(category)];
                (vec![seller, category, price, quantity, self.between(1, 7)], accesses)
            }
            STORE_BID => {
                let item = self.item();
                let (mut values, accesses) = self.both(item);
                values.extend([self.between(1, 3), self.between(1_000, 50_000)]);
                (values, accesses)
            }
            STORE_BUY_NOW => {
                let item = self.item();
                let (mut values, accesses) = self.both(item);
                values.push(self.between(1, PIECES_MAX));
                (values, accesses)
            }
            _ => {
                let (item, receiver) = (self.any_item(), self.user());
                let (mut values, _) = self.both(item);
                values.extend([receiver, self.chance.below(11)]);
                (values, vec![Object::User.at(receiver)])
            }
        };
        ([vec![self.at()], own].concat(), accesses)
    }
}

impl Plans for RubisPlans {
    fn plan(&mut self) -> Option<Planned> {
        self.planned += 1;
        let kind = draw_kind(&mut self.chance, &self.workload.mix.shares());
        let is_writer = kind >= REGISTER_USER;
        let planned = if is_writer { self.writer(kind) } else { self.reader(kind) };
        let written = match kind {
            REGISTER_USER => vec![NEW_USERS],
            REGISTER_ITEM => vec![NEW_ITEMS],
            STORE_BID => vec![NEW_BIDS],
            STORE_BUY_NOW => vec![NEW_PURCHASES],
            STORE_COMMENT => vec![NEW_COMMENTS],
            _ => Vec::new(),
        };
        Some(Planned::of_numbers(kind, planned, written, is_writer))
    }
}

impl Workload for Rubis {
    fn name(&self) -> &'static str {
        "rubis"
    }

    fn settings(&self) -> Vec<(&'static str, Json)> {
        vec![
            ("users", json!(self.users)),
            ("items", json!(self.items)),
            ("old_items", json!(self.old_items)),
            ("pieces", json!(self.pieces)),
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
        Box::new(RubisPlans { workload: *self, chance: chance_of(seed, number), planned: 0 })
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
        let [users, items, old_items] = [self.users, self.items, self.old_items].map(times);
        Some(Box::new(Rubis { users, items, old_items, ..*self }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_mixes() {
        for (mix, writers) in [(Mix::Bidding, 0.15), (Mix::Browsing, 0.0)] {
            let rubis = Rubis { users: 50, items: 20, old_items: 30, pieces: 20, mix };
            let (mut plans, mut counts) = (rubis.plans(1, 4), [0; 22]);
            for _ in 0..20_000 {
                let planned = plans.plan().unwrap();
                counts[planned.kind] += 1;
                assert_eq!(planned.is_writer, planned.kind >= REGISTER_USER);
                assert_eq!(planned.written.len(), usize::from(planned.is_writer));
            }
            let (shares, all) = (mix.shares(), mix.shares().iter().sum::<u64>() as f64);
            for (kind, (count, share)) in counts.iter().zip(shares).enumerate() {
                let expected = 20_000.0 * share as f64 / all;
                let allowed = 5.0 * expected.sqrt();
                assert!((*count as f64 - expected).abs() <= allowed, "{mix:?} {}: {count}", KINDS[kind]);
            }
            let written = shares[REGISTER_USER..].iter().sum::<u64>() as f64;
            assert!((written / all - writers).abs() < 1e-9, "{mix:?}");
            assert_eq!(mix.name().parse(), Ok(mix));
        }
        let given = [("mix".to_owned(), "selling".to_owned())];
        let wrong = Rubis::of(Settings::new("rubis", &given)).expect_err("there is no such mix");
        assert!(wrong.hint.contains("bidding or browsing"), "{wrong}");
    }
}
