//! The requests of RUBiS, statement by statement; the page about me is five transactions.

use super::{
    AUTHENTICATE, BID_FORM, BROWSE_CATEGORIES, BROWSE_CATEGORIES_IN_REGION, BROWSE_REGIONS, BUY_NOW_FORM,
    COMMENT_FORM, DAY, MY_BIDS, MY_BOUGHT_ITEMS, MY_COMMENTS, MY_ITEMS, MY_WON_ITEMS, REGISTER_ITEM,
    REGISTER_USER, SEARCH_ITEMS_BY_CATEGORY, SEARCH_ITEMS_BY_REGION, STORE_BID, STORE_BUY_NOW, STORE_COMMENT,
    VIEW_BID_HISTORY, VIEW_ITEM, VIEW_USER,
};
use crate::connection::{Connection, Refused, Value};
use crate::workload::Planned;
use crate::workload::statements::{self, new_number, statements, values, without_values};

/// Items on a page.
const PAGE: i64 = 20;

statements! {
    Authenticate = "SELECT id FROM users WHERE nickname = $1 AND password = $2";
    Categories = "SELECT id, name FROM categories ORDER BY id";
    Regions = "SELECT id, name FROM regions ORDER BY id";
    RegionByName = "SELECT id FROM regions WHERE name = $1";
    ByCategory = "SELECT id, name, initial_price, max_bid, nb_of_bids, end_date FROM items WHERE category = $1 AND end_date >= $2 \
                  ORDER BY end_date, id LIMIT 20 OFFSET $3";
    ByRegion = "SELECT items.id, items.name, items.initial_price, items.max_bid, items.nb_of_bids, items.end_date \
                FROM items JOIN users ON users.id = items.seller \
                WHERE items.category = $1 AND items.end_date >= $2 AND users.region = $3 ORDER BY items.end_date, items.id LIMIT 20";
    Item = "SELECT items.name, items.description, items.initial_price, items.quantity, items.buy_now, items.nb_of_bids, items.max_bid, \
            items.start_date, items.end_date, items.seller, users.nickname FROM items JOIN users ON users.id = items.seller WHERE items.id = $1";
    OldItem = "SELECT old_items.name, old_items.description, old_items.initial_price, old_items.quantity, old_items.buy_now, \
               old_items.nb_of_bids, old_items.max_bid, old_items.start_date, old_items.end_date, old_items.seller, users.nickname \
               FROM old_items JOIN users ON users.id = old_items.seller WHERE old_items.id = $1";
    User = "SELECT nickname, firstname, lastname, email, rating, balance, creation_date FROM users WHERE id = $1";
    Comments = "SELECT users.nickname, comments.item_id, comments.date, comments.rating, comments.comment \
                FROM comments JOIN users ON users.id = comments.from_user_id \
                WHERE comments.to_user_id = $1 ORDER BY comments.date DESC, comments.id";
    ItemName = "SELECT name FROM items WHERE id = $1";
    OldItemName = "SELECT name FROM old_items WHERE id = $1";
    Bids = "SELECT bids.user_id, users.nickname, bids.bid, bids.date FROM bids JOIN users ON users.id = bids.user_id \
            WHERE bids.item_id = $1 ORDER BY bids.date DESC, bids.id";
    Nickname = "SELECT nickname FROM users WHERE id = $1";
    ItemForm = "SELECT items.name, items.buy_now, items.initial_price, items.max_bid, items.nb_of_bids, items.quantity, items.end_date, \
                users.nickname FROM items JOIN users ON users.id = items.seller WHERE items.id = $1";
    MyBids = "SELECT items.id, items.name, items.max_bid, max(bids.bid) FROM bids JOIN items ON items.id = bids.item_id \
              WHERE bids.user_id = $1 GROUP BY items.id, items.name, items.max_bid ORDER BY items.id";
    MyOldBids = "SELECT old_items.id, old_items.name, old_items.max_bid, max(bids.bid) FROM bids JOIN old_items ON old_items.id = bids.item_id \
                 WHERE bids.user_id = $1 GROUP BY old_items.id, old_items.name, old_items.max_bid ORDER BY old_items.id";
    MyItems = "SELECT id, name, max_bid, quantity, end_date FROM items WHERE seller = $1 ORDER BY id";
    MyOldItems = "SELECT id, name, max_bid, quantity, end_date FROM old_items WHERE seller = $1 ORDER BY id";
    MyWonItems = "SELECT old_items.id, old_items.name, old_items.max_bid, old_items.seller FROM bids JOIN old_items ON old_items.id = bids.item_id \
                  WHERE bids.user_id = $1 AND bids.bid = old_items.max_bid AND old_items.max_bid >= old_items.reserve_price ORDER BY old_items.id";
    MyBoughtItems = "SELECT items.id, items.name, buy_now.qty, items.buy_now, buy_now.date, items.seller \
                     FROM buy_now JOIN items ON items.id = buy_now.item_id WHERE buy_now.buyer_id = $1 ORDER BY buy_now.date DESC, buy_now.id";
    MyBoughtOldItems = "SELECT old_items.id, old_items.name, buy_now.qty, old_items.buy_now, buy_now.date, old_items.seller \
                        FROM buy_now JOIN old_items ON old_items.id = buy_now.item_id WHERE buy_now.buyer_id = $1 \
                        ORDER BY buy_now.date DESC, buy_now.id";
    AddUser = "INSERT INTO users VALUES ($1, $2, $3, $4, $5, $6, 0, 0, $7, $8)";
    AddItem = "INSERT INTO items VALUES ($1, $9, $10, $2, $3, $2, $4, 0, 0, $5, $6, $7, $8)";
    HoldItem = "SELECT max_bid, quantity FROM items WHERE id = $1 FOR UPDATE";
    AddBid = "INSERT INTO bids VALUES ($1, $2, $3, $4, $5, $6, $7)";
    RaiseItem = "UPDATE items SET nb_of_bids = nb_of_bids + 1, max_bid = $2 WHERE id = $1";
    TakePieces = "UPDATE items SET quantity = $2 WHERE id = $1";
    CloseItem = "UPDATE items SET end_date = $2 WHERE id = $1";
    AddPurchase = "INSERT INTO buy_now VALUES ($1, $2, $3, $4, $5)";
    AddComment = "INSERT INTO comments VALUES ($1, $2, $3, $4, $5, $6, $7)";
    ChangeRating = "UPDATE users SET rating = rating + $2 WHERE id = $1";
}

type Running<'c> = statements::Running<'c, Statement>;

/// Runs a transaction; returns the pieces that it has put on sale.
pub fn run(connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused> {
    let values: Vec<i64> = planned.values.iter().map(Value::number).collect();
    let mut running = Running::new(connection);
    match (planned.kind, values.as_slice()) {
        (REGISTER_USER, &[at, taken, region]) => running.register_user(at, taken, region)?,
        (REGISTER_ITEM, &[at, seller, category, price, quantity, days]) => {
            running.register_item([at, seller, category, price, quantity, days])?;
            return Ok(quantity);
        }
        (STORE_BID, &[at, item, bidder, pieces, amount]) => {
            running.store_bid([at, item, bidder, pieces, amount])?;
        }
        (STORE_BUY_NOW, &[at, item, buyer, pieces]) => running.store_buy_now([at, item, buyer, pieces])?,
        (STORE_COMMENT, &[at, item, author, receiver, stars]) => {
            running.store_comment([at, item, author, receiver, stars - 5])?;
        }
        (kind, values) if kind >= MY_BIDS => running.about_me(kind, values)?,
        (kind, values) => running.read(kind, values)?,
    }
    Ok(0)
}

impl Running<'_> {
    /// Runs the pages of a visitor, and the forms.
    fn read(&mut self, kind: usize, values: &[i64]) -> Result<(), Refused> {
        use Statement::{
            Authenticate, Bids, ByCategory, ByRegion, Categories, Item, ItemForm, Nickname, OldItem, Regions,
        };
        match (kind, values) {
            (AUTHENTICATE, &[user]) => {
                let values = values![format!("user{user}"), format!("password{user}")];
                self.rows_of(Authenticate, values)
            }
            (BROWSE_CATEGORIES, []) => self.rows(Categories, &[]),
            (BROWSE_REGIONS, []) => self.rows(Regions, &[]),
            (BROWSE_CATEGORIES_IN_REGION, &[region]) => {
                self.region(region)?;
                self.rows(Categories, &[])
            }
            (SEARCH_ITEMS_BY_CATEGORY, &[category, at, page]) => {
                self.rows(ByCategory, &[category, at, page * PAGE])
            }
            (SEARCH_ITEMS_BY_REGION, values @ &[_, _, _]) => self.rows(ByRegion, values),
            (VIEW_ITEM, &[item]) => match self.rows(Item, &[item])?.is_empty() {
                true => self.rows(OldItem, &[item]),
                false => return Ok(()),
            },
            (VIEW_USER, &[user]) => return self.user(user),
            (VIEW_BID_HISTORY, &[item]) => {
                self.item_name(item)?;
                self.rows(Bids, &[item])
            }
            (BUY_NOW_FORM | BID_FORM, &[item, user]) => {
                self.rows(Nickname, &[user])?;
                self.rows(ItemForm, &[item])
            }
            (COMMENT_FORM, &[item, author, receiver]) => {
                self.rows(Nickname, &[author])?;
                self.rows(Nickname, &[receiver])?;
                return self.item_name(item);
            }
            _ => return Err(without_values()),
        }
        .map(drop)
    }

    /// Runs a part of the page about me.
    fn about_me(&mut self, kind: usize, user: &[i64]) -> Result<(), Refused> {
        use Statement::{
            MyBids, MyBoughtItems, MyBoughtOldItems, MyItems, MyOldBids, MyOldItems, MyWonItems,
        };
        let statements: &[Statement] = match (kind, user) {
            (MY_BIDS, [_]) => &[MyBids, MyOldBids],
            (MY_ITEMS, [_]) => &[MyItems, MyOldItems],
            (MY_WON_ITEMS, [_]) => &[MyWonItems],
            (MY_BOUGHT_ITEMS, [_]) => &[MyBoughtItems, MyBoughtOldItems],
            (MY_COMMENTS, &[user]) => return self.user(user),
            _ => return Err(without_values()),
        };
        statements.iter().try_for_each(|statement| self.rows(*statement, user).map(drop))
    }

    /// A user, and what others say of this user.
    fn user(&mut self, user: i64) -> Result<(), Refused> {
        self.rows(Statement::User, &[user])?;
        self.rows(Statement::Comments, &[user]).map(drop)
    }

    /// The name of an item that runs or has ended.
    fn item_name(&mut self, item: i64) -> Result<(), Refused> {
        if self.rows(Statement::ItemName, &[item])?.is_empty() {
            self.rows(Statement::OldItemName, &[item])?;
        }
        Ok(())
    }

    /// The number of a region, by its name.
    fn region(&mut self, region: i64) -> Result<i64, Refused> {
        let [number] = self.row_by_text(Statement::RegionByName, format!("region {region}"))?;
        Ok(number)
    }

    /// A new user, whose nickname is made of the number, or is that of another one.
    fn register_user(&mut self, at: i64, taken: i64, region: i64) -> Result<(), Refused> {
        let (user, region) = (new_number(), self.region(region)?);
        let nickname = if taken == 0 { format!("user{user}") } else { format!("user{taken}") };
        let (password, email) = (format!("password{user}"), "somebody@example.com");
        let values = values![user, "firstname", "lastname", nickname, password, email, at, region];
        self.rows_of(Statement::AddUser, values).map(drop)
    }

    fn register_item(
        &mut self,
        [at, seller, category, price, quantity, days]: [i64; 6],
    ) -> Result<(), Refused> {
        let (item, ends) = (new_number(), at + days * DAY as i64);
        let description = "The description of an item as its seller would write it. ".repeat(4);
        let values = values![
            item,
            price,
            quantity,
            price + 5_000,
            at,
            ends,
            seller,
            category,
            "an item that is on sale",
            description,
        ];
        self.rows_of(Statement::AddItem, values).map(drop)
    }

    /// A bid, and the item has one more, which may be its highest.
    fn store_bid(&mut self, [at, item, bidder, pieces, amount]: [i64; 5]) -> Result<(), Refused> {
        let [highest, _quantity] = self.row(Statement::HoldItem, &[item])?;
        let bid = [new_number(), bidder, item, pieces, amount, amount + 1_000, at];
        self.rows(Statement::AddBid, &bid)?;
        self.rows(Statement::RaiseItem, &[item, highest.max(amount)]).map(drop)
    }

    /// A purchase: pieces that must be there; an item of which nothing is left ends now.
    fn store_buy_now(&mut self, [at, item, buyer, pieces]: [i64; 4]) -> Result<(), Refused> {
        let [_highest, quantity] = self.row(Statement::HoldItem, &[item])?;
        let left = quantity - pieces;
        if left < 0 {
            return Err(Refused::ByRule("fewer pieces are left".to_owned()));
        }
        self.rows(Statement::TakePieces, &[item, left])?;
        if left == 0 {
            self.rows(Statement::CloseItem, &[item, at])?;
        }
        self.rows(Statement::AddPurchase, &[new_number(), buyer, item, pieces, at]).map(drop)
    }

    /// A comment, by which the receiver's rating goes up or down.
    fn store_comment(&mut self, [at, item, author, receiver, stars]: [i64; 5]) -> Result<(), Refused> {
        let comment = [new_number(), author, receiver, item, stars, at];
        self.change(Statement::AddComment, &comment, "a comment on somebody who has sold an item")?;
        self.rows(Statement::ChangeRating, &[receiver, stars]).map(drop)
    }
}
