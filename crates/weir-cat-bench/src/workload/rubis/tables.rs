//! Tables and rows of the auction site: amounts are cents, moments seconds.

use std::collections::BTreeMap;

use weir_cat::chance::Chance;

use super::{CATEGORIES, DAY, NOW, REGIONS, Rubis};
use crate::workload::draws::{between, letters};
use crate::workload::{inserts, table};

/// Bids on each running auction of the population.
const BIDS_EACH: u64 = 5;

const ITEM: &str = "id bigint PRIMARY KEY, name varchar(100) NOT NULL, description varchar(400) NOT NULL, initial_price bigint NOT NULL, \
                    quantity integer NOT NULL, reserve_price bigint NOT NULL, buy_now bigint NOT NULL, nb_of_bids integer NOT NULL, \
                    max_bid bigint NOT NULL, start_date bigint NOT NULL, end_date bigint NOT NULL, seller bigint NOT NULL, category bigint NOT NULL";

pub fn definition() -> Vec<(&'static str, String)> {
    vec![
        table("categories", "id bigint PRIMARY KEY, name varchar(50) NOT NULL"),
        table("regions", "id bigint PRIMARY KEY, name varchar(25) NOT NULL UNIQUE"),
        table(
            "users",
            "id bigint PRIMARY KEY, firstname varchar(20) NOT NULL, lastname varchar(20) NOT NULL, nickname varchar(20) NOT NULL UNIQUE, \
             password varchar(20) NOT NULL, email varchar(50) NOT NULL, rating integer NOT NULL, balance bigint NOT NULL, \
             creation_date bigint NOT NULL, region bigint NOT NULL",
        ),
        table("items", ITEM),
        table("old_items", ITEM),
        table(
            "bids",
            "id bigint PRIMARY KEY, user_id bigint NOT NULL, item_id bigint NOT NULL, qty integer NOT NULL, bid bigint NOT NULL, \
             max_bid bigint NOT NULL, date bigint NOT NULL",
        ),
        table(
            "comments",
            "id bigint PRIMARY KEY, from_user_id bigint NOT NULL, to_user_id bigint NOT NULL, item_id bigint NOT NULL, rating integer NOT NULL, \
             date bigint NOT NULL, comment varchar(200) NOT NULL",
        ),
        table(
            "buy_now",
            "id bigint PRIMARY KEY, buyer_id bigint NOT NULL, item_id bigint NOT NULL, qty integer NOT NULL, date bigint NOT NULL",
        ),
    ]
}

pub fn indexes() -> Vec<String> {
    [
        "CREATE INDEX users_by_region ON users (region)",
        "CREATE INDEX items_by_seller ON items (seller)",
        "CREATE INDEX items_by_category ON items (category, end_date)",
        "CREATE INDEX old_items_by_seller ON old_items (seller)",
        "CREATE INDEX bids_by_item ON bids (item_id)",
        "CREATE INDEX bids_by_user ON bids (user_id)",
        "CREATE INDEX comments_by_receiver ON comments (to_user_id)",
        "CREATE INDEX buy_now_by_buyer ON buy_now (buyer_id)",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Rows that refer to auctions.
#[derive(Default)]
struct Auctions {
    items: Vec<String>,
    old_items: Vec<String>,
    bids: Vec<String>,
    comments: Vec<String>,
    buy_now: Vec<String>,
    /// Sum of the comments on each user.
    ratings: BTreeMap<u64, i64>,
}

pub fn rows(of: &Rubis) -> Vec<String> {
    let mut chance = Chance::from_seed(0x4b15);
    let mut auctions = Auctions::default();
    (1..=of.items).for_each(|id| auctions.running(&mut chance, of, id));
    (1..=of.old_items).for_each(|number| auctions.ended(&mut chance, of, of.items + number));
    let mut all = inserts("categories", (1..=CATEGORIES).map(|id| format!("({id}, 'category {id}')")));
    all.extend(inserts("regions", (1..=REGIONS).map(|id| format!("({id}, 'region {id}')"))));
    let user = |id: u64| {
        let (first, last) = (letters(&mut chance, 4, 12), letters(&mut chance, 4, 12));
        let (rating, since) = (auctions.ratings.get(&id).copied().unwrap_or(0), NOW - 365 * DAY + id);
        let region = between(&mut chance, 1, REGIONS);
        format!(
            "({id}, '{first}', '{last}', 'user{id}', 'password{id}', 'user{id}@example.com', {rating}, 0, {since}, {region})"
        )
    };
    all.extend(inserts("users", (1..=of.users).map(user)));
    all.extend(inserts("items", auctions.items.into_iter()));
    all.extend(inserts("old_items", auctions.old_items.into_iter()));
    all.extend(inserts("bids", auctions.bids.into_iter()));
    all.extend(inserts("comments", auctions.comments.into_iter()));
    all.extend(inserts("buy_now", auctions.buy_now.into_iter()));
    all
}

impl Auctions {
    /// An auction that ends within a week after the first day, with bids that go up, and a purchase.
    fn running(&mut self, chance: &mut Chance, of: &Rubis, id: u64) {
        let (price, quantity) = (between(chance, 100, 10_000), between(chance, 1, of.pieces));
        let (seller, dates) =
            (between(chance, 1, of.users), (NOW - 7 * DAY, NOW + DAY * between(chance, 1, 8)));
        let bids = (BIDS_EACH, price + 100 * BIDS_EACH);
        let item = item(chance, (id, price, quantity, seller), bids, dates);
        self.items.push(item);
        for number in 1..=BIDS_EACH {
            self.bid(chance, of, id, price + 100 * number, NOW - 6 * DAY + number);
        }
        let buyer = between(chance, 1, of.users);
        self.buy_now.push(format!("({id}, {buyer}, {id}, 1, {})", NOW - 5 * DAY));
    }

    /// An auction that has ended, with the bid that won, and a comment on the seller.
    fn ended(&mut self, chance: &mut Chance, of: &Rubis, id: u64) {
        let price = between(chance, 100, 10_000);
        let dates = (NOW - 92 * DAY, NOW - 85 * DAY);
        let seller = between(chance, 1, of.users);
        let item = item(chance, (id, price, 1, seller), (1, price + 100), dates);
        self.old_items.push(item);
        self.bid(chance, of, id, price + 100, NOW - 90 * DAY);
        let (author, rating) = (between(chance, 1, of.users), chance.below(11) as i64 - 5);
        let (date, words) = (NOW - 83 * DAY, letters(chance, 20, 200));
        self.comments.push(format!("({id}, {author}, {seller}, {id}, {rating}, {date}, '{words}')"));
        *self.ratings.entry(seller).or_default() += rating;
    }

    fn bid(&mut self, chance: &mut Chance, of: &Rubis, item: u64, amount: u64, date: u64) {
        let (id, bidder) = (self.bids.len() + 1, between(chance, 1, of.users));
        self.bids.push(format!("({id}, {bidder}, {item}, 1, {amount}, {}, {date})", amount + 100));
    }
}

/// Number, price, pieces and seller of an item; count and highest of its bids; its first and last moment.
fn item(
    chance: &mut Chance,
    (id, price, quantity, seller): (u64, u64, u64, u64),
    (count, highest): (u64, u64),
    (start, end): (u64, u64),
) -> String {
    let (name, description) = (letters(chance, 10, 60), letters(chance, 100, 400));
    let category = between(chance, 1, CATEGORIES);
    format!(
        "({id}, '{name}', '{description}', {price}, {quantity}, {price}, {}, {count}, {highest}, {start}, {end}, {seller}, {category})",
        price + 5_000
    )
}
