//! The twenty transactions of TPC-W, clause 2, statement by statement.

use std::collections::BTreeMap;

use super::tables::{SESSION, card, shipped_by, total};
use super::{
    ADMIN_UPDATE, BEST_SELLERS, CHANGE_CART, CONFIRM_PURCHASE, CONFIRM_PURCHASE_TO_ADDRESS, CREATE_CUSTOMER,
    CREATE_EMPTY_CART, GET_BOOK, GET_CART, GET_CUSTOMER, GET_MOST_RECENT_ORDER, GET_NAME, GET_PASSWORD,
    GET_RELATED, GET_USER_NAME, NEW_PRODUCTS, REFRESH_SESSION, SEARCH_BY_AUTHOR, SEARCH_BY_SUBJECT,
    SEARCH_BY_TITLE,
};
use crate::connection::{Connection, Refused, Value};
use crate::workload::Planned;
use crate::workload::statements::{self, new_number, seconds, statements, values, without_values};

const DAY: i64 = 86_400;

statements! {
    Name = "SELECT c_fname, c_lname FROM customer WHERE c_id = $1";
    Customer = "SELECT c_id, c_passwd, c_fname, c_lname, c_phone, c_email, c_birthdate, c_data, c_discount, addr_id, addr_street1, \
                addr_street2, addr_city, addr_state, addr_zip, co_name \
                FROM customer JOIN address ON addr_id = c_addr_id JOIN country ON co_id = addr_co_id WHERE c_uname = $1";
    UserName = "SELECT c_uname FROM customer WHERE c_id = $1";
    Password = "SELECT c_passwd FROM customer WHERE c_uname = $1";
    Book = "SELECT i_title, i_pub_date, i_publisher, i_subject, i_desc, i_thumbnail, i_image, i_srp, i_cost, i_avail, i_stock, i_isbn, i_page, \
            i_backing, i_dimensions, a_fname, a_lname FROM item JOIN author ON a_id = i_a_id WHERE i_id = $1";
    BySubject = "SELECT i_id, i_title, a_fname, a_lname FROM item JOIN author ON a_id = i_a_id \
                 WHERE i_subject = $1 ORDER BY i_title, i_id LIMIT 50";
    ByTitle = "SELECT i_id, i_title, a_fname, a_lname FROM item JOIN author ON a_id = i_a_id \
               WHERE i_title LIKE $1 ORDER BY i_title, i_id LIMIT 50";
    ByAuthor = "SELECT i_id, i_title, a_fname, a_lname FROM author JOIN item ON i_a_id = a_id \
                WHERE a_lname LIKE $1 ORDER BY i_title, i_id LIMIT 50";
    Newest = "SELECT i_id, i_title, a_fname, a_lname FROM item JOIN author ON a_id = i_a_id \
              WHERE i_subject = $1 ORDER BY i_pub_date DESC, i_title, i_id LIMIT 50";
    BeforeLatest = "SELECT o_id FROM orders ORDER BY o_id DESC LIMIT 1 OFFSET 3333";
    BestSellers = "SELECT i_id, i_title, a_fname, a_lname, sum(ol_qty) AS sold \
                   FROM order_line JOIN item ON i_id = ol_i_id JOIN author ON a_id = i_a_id \
                   WHERE ol_o_id > $1 AND i_subject = $2 GROUP BY i_id, i_title, a_fname, a_lname ORDER BY sold DESC, i_id LIMIT 50";
    Related = "SELECT i_related1, i_related2, i_related3, i_related4, i_related5 FROM item WHERE i_id = $1";
    Thumbnails = "SELECT i_id, i_thumbnail FROM item WHERE i_id IN ($1, $2, $3, $4, $5)";
    LastOrder = "SELECT o_id FROM customer JOIN orders ON o_c_id = c_id WHERE c_uname = $1 ORDER BY o_date DESC, o_id DESC LIMIT 1";
    Order = "SELECT o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date, o_status, cx_type, billing.addr_street1, billing.addr_city, \
             billing.addr_zip, billed.co_name, shipping.addr_street1, shipping.addr_city, shipping.addr_zip, shipped.co_name \
             FROM orders JOIN cc_xacts ON cx_o_id = o_id \
             JOIN address AS billing ON billing.addr_id = o_bill_addr_id JOIN country AS billed ON billed.co_id = billing.addr_co_id \
             JOIN address AS shipping ON shipping.addr_id = o_ship_addr_id JOIN country AS shipped ON shipped.co_id = shipping.addr_co_id \
             WHERE o_id = $1";
    OrderLines = "SELECT i_id, i_title, ol_qty, ol_discount, ol_comments FROM order_line JOIN item ON i_id = ol_i_id \
                  WHERE ol_o_id = $1 ORDER BY ol_id";
    Cart = "SELECT sc_date FROM shopping_cart WHERE sc_id = $1";
    CartBooks = "SELECT i_id, i_title, i_cost, i_srp, i_backing, scl_qty FROM shopping_cart_line JOIN item ON i_id = scl_i_id \
                 WHERE scl_sc_id = $1 ORDER BY i_id";
    AddCart = "INSERT INTO shopping_cart VALUES ($1, $2)";
    HoldCart = "SELECT sc_date FROM shopping_cart WHERE sc_id = $1 FOR UPDATE";
    CartLines = "SELECT scl_i_id, scl_qty FROM shopping_cart_line WHERE scl_sc_id = $1 ORDER BY scl_i_id";
    AddCartLine = "INSERT INTO shopping_cart_line VALUES ($1, $2, $3)";
    SetCartLine = "UPDATE shopping_cart_line SET scl_qty = $3 WHERE scl_sc_id = $1 AND scl_i_id = $2";
    TakeCartLine = "DELETE FROM shopping_cart_line WHERE scl_sc_id = $1 AND scl_i_id = $2";
    DateCart = "UPDATE shopping_cart SET sc_date = $2 WHERE sc_id = $1";
    RefreshSession = "UPDATE customer SET c_last_visit = $2, c_login = $2, c_expiration = $3 WHERE c_id = $1";
    CountryByName = "SELECT co_id FROM country WHERE co_name = $1";
    AddressByText = "SELECT min(addr_id) FROM address WHERE addr_zip = $1 AND addr_street1 = $2 AND addr_street2 = $3 AND addr_city = $4 \
                     AND addr_state = $5 AND addr_co_id = $6";
    AddAddress = "INSERT INTO address VALUES ($1, $2, $3, $4, $5, $6, $7)";
    AddCustomer = "INSERT INTO customer VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $9, $10, $11, 0, 0, $12, $13)";
    Buyer = "SELECT c_discount, c_addr_id, addr_co_id FROM customer JOIN address ON addr_id = c_addr_id WHERE c_id = $1";
    Stock = "SELECT i_cost, i_stock FROM item WHERE i_id = $1 FOR UPDATE";
    SetStock = "UPDATE item SET i_stock = $2 WHERE i_id = $1";
    AddOrder = "INSERT INTO orders VALUES ($1, $2, $3, $4, $5, $6, $10, $7, $8, $9, 'PENDING')";
    AddLine = "INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6)";
    AddCard = "INSERT INTO cc_xacts VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    EmptyCart = "DELETE FROM shopping_cart_line WHERE scl_sc_id = $1";
    BeforeBuyers = "SELECT o_id FROM orders ORDER BY o_id DESC LIMIT 1 OFFSET 10000";
    BoughtBeside = "SELECT beside.ol_i_id, sum(beside.ol_qty) AS copies \
                    FROM orders AS latest JOIN order_line AS beside ON beside.ol_o_id = latest.o_id \
                    WHERE latest.o_id > $2 AND beside.ol_i_id <> $1 AND latest.o_c_id IN (\
                    SELECT bought.o_c_id FROM order_line AS line JOIN orders AS bought ON bought.o_id = line.ol_o_id \
                    WHERE line.ol_i_id = $1 AND line.ol_o_id > $2) \
                    GROUP BY beside.ol_i_id ORDER BY copies DESC, beside.ol_i_id LIMIT 5";
    SetBook = "UPDATE item SET i_cost = $2, i_pub_date = $3, i_related1 = $4, i_related2 = $5, i_related3 = $6, i_related4 = $7, \
               i_related5 = $8, i_image = $9, i_thumbnail = $10 WHERE i_id = $1";
}

type Running<'c> = statements::Running<'c, Statement>;

fn user_name(customer: i64) -> String {
    format!("user{customer}")
}

fn letter(number: i64) -> char {
    char::from(b'a' + (number % 26) as u8)
}

/// Runs a transaction; returns the copies that it has put into carts, less those that it took out without a purchase.
pub fn run(connection: &mut dyn Connection, planned: &Planned) -> Result<i64, Refused> {
    let values: Vec<i64> = planned.values.iter().map(Value::number).collect();
    let mut running = Running::new(connection);
    match (planned.kind, values.as_slice()) {
        (CREATE_EMPTY_CART, []) => {
            running.rows(Statement::AddCart, &[new_number(), seconds()])?;
            Ok(0)
        }
        (CHANGE_CART, [cart, added, fallback, changes @ ..]) => {
            running.change_cart(*cart, (*added, *fallback), changes.as_chunks::<2>().0)
        }
        (REFRESH_SESSION, &[customer]) => {
            let now = seconds();
            running.rows(Statement::RefreshSession, &[customer, now, now + SESSION])?;
            Ok(0)
        }
        (CREATE_CUSTOMER, &[street, discount]) => running.create_customer(street, discount),
        (CONFIRM_PURCHASE, &[cart, customer, card, by, days]) => {
            running.confirm_purchase([cart, customer], [card, by, days], None)
        }
        (CONFIRM_PURCHASE_TO_ADDRESS, &[cart, customer, card, by, days, street]) => {
            running.confirm_purchase([cart, customer], [card, by, days], Some(street))
        }
        (ADMIN_UPDATE, &[book, cost]) => running.admin_update(book, cost),
        (kind, &[value]) => running.read(kind, value).map(|()| 0),
        _ => Err(without_values()),
    }
}

impl Running<'_> {
    /// A statement with one text.
    fn text(&mut self, statement: Statement, text: String) -> Result<(), Refused> {
        self.rows_of(statement, &[Value::Text(text)]).map(drop)
    }

    /// Runs one of the thirteen that only read.
    fn read(&mut self, kind: usize, value: i64) -> Result<(), Refused> {
        let subject = || format!("SUBJECT {value}");
        match kind {
            GET_NAME => self.rows(Statement::Name, &[value]).map(drop),
            GET_CUSTOMER => self.text(Statement::Customer, user_name(value)),
            GET_USER_NAME => self.rows(Statement::UserName, &[value]).map(drop),
            GET_PASSWORD => self.text(Statement::Password, user_name(value)),
            GET_BOOK => self.rows(Statement::Book, &[value]).map(drop),
            SEARCH_BY_SUBJECT => self.text(Statement::BySubject, subject()),
            SEARCH_BY_TITLE => {
                self.text(Statement::ByTitle, format!("%{}{}%", letter(value / 26), letter(value)))
            }
            SEARCH_BY_AUTHOR => self.text(Statement::ByAuthor, format!("{}%", letter(value))),
            NEW_PRODUCTS => self.text(Statement::Newest, subject()),
            BEST_SELLERS => {
                let before = self.number(Statement::BeforeLatest, &[])?.unwrap_or(0);
                self.rows_of(Statement::BestSellers, values![before, subject()]).map(drop)
            }
            GET_RELATED => {
                let related: [i64; 5] = self.row(Statement::Related, &[value])?;
                self.rows(Statement::Thumbnails, &related).map(drop)
            }
            GET_MOST_RECENT_ORDER => self.most_recent_order(value),
            GET_CART => {
                self.rows(Statement::Cart, &[value])?;
                self.rows(Statement::CartBooks, &[value]).map(drop)
            }
            _ => Err(without_values()),
        }
    }

    fn most_recent_order(&mut self, customer: i64) -> Result<(), Refused> {
        let last = self.rows_of(Statement::LastOrder, &[Value::Text(user_name(customer))])?;
        if let Some(order) = last.first().and_then(|row| row[0]) {
            self.rows(Statement::Order, &[order])?;
            self.rows(Statement::OrderLines, &[order])?;
        }
        Ok(())
    }

    /// Books and copies of a cart that is held until the end.
    fn hold_cart(&mut self, cart: i64) -> Result<BTreeMap<i64, i64>, Refused> {
        let [_date] = self.row(Statement::HoldCart, &[cart])?;
        let lines = self.rows(Statement::CartLines, &[cart])?;
        Ok(lines.iter().filter_map(|line| Some((line[0]?, line[1]?))).collect())
    }

    /// Adds a copy of a book (0: of none), changes the quantities of books that are there, and puts a book into a cart that is empty then.
    fn change_cart(
        &mut self,
        cart: i64,
        (added, fallback): (i64, i64),
        changes: &[[i64; 2]],
    ) -> Result<i64, Refused> {
        let old = self.hold_cart(cart)?;
        let mut new = old.clone();
        if added != 0 {
            *new.entry(added).or_default() += 1;
        }
        for [book, quantity] in changes {
            new.entry(*book).and_modify(|copies| *copies = *quantity);
        }
        new.retain(|_, copies| *copies > 0);
        if new.is_empty() {
            new.insert(fallback, 1);
        }
        for book in old.keys().filter(|book| !new.contains_key(book)) {
            self.rows(Statement::TakeCartLine, &[cart, *book])?;
        }
        for (book, copies) in &new {
            match old.get(book) {
                None => self.rows(Statement::AddCartLine, &[cart, *book, *copies])?,
                Some(there) if there != copies => {
                    self.rows(Statement::SetCartLine, &[cart, *book, *copies])?
                }
                Some(_) => continue,
            };
        }
        self.rows(Statement::DateCart, &[cart, seconds()])?;
        self.rows(Statement::CartBooks, &[cart])?;
        Ok(new.values().sum::<i64>() - old.values().sum::<i64>())
    }

    /// The address with that street, which is added if it is new.
    fn address(&mut self, street: i64) -> Result<i64, Refused> {
        let [country] = self.row_by_text(Statement::CountryByName, "country 7".to_owned())?;
        let street = if street == 0 { "the same street".to_owned() } else { format!("{street} street") };
        let (second, city, state, zip) = ("the same house", "a city", "a state", "12345");
        let found =
            self.rows_of(Statement::AddressByText, values![zip, &*street, second, city, state, country])?;
        if let Some(address) = found.first().and_then(|row| row[0]) {
            return Ok(address);
        }
        let address = new_number();
        self.rows_of(Statement::AddAddress, values![address, &*street, second, city, state, zip, country])?;
        Ok(address)
    }

    /// The user name is made of the number.
    fn create_customer(&mut self, street: i64, discount: i64) -> Result<i64, Refused> {
        let address = self.address(street)?;
        let (customer, now) = (new_number(), seconds());
        let data = "A customer who has come by the registration page. ".repeat(6);
        let values = values![
            customer,
            user_name(customer),
            format!("pass{customer}"),
            "firstname",
            "lastname",
            address,
            "123456789",
            "somebody@example.com",
            now,
            now + SESSION,
            discount,
            0,
            data,
        ];
        self.rows_of(Statement::AddCustomer, values)?;
        Ok(0)
    }

    /// Buys a cart; with a street the order is shipped there.
    fn confirm_purchase(
        &mut self,
        [cart, customer]: [i64; 2],
        [with_card, by, days]: [i64; 3],
        street: Option<i64>,
    ) -> Result<i64, Refused> {
        use Statement::{AddCard, AddLine, AddOrder, Buyer, EmptyCart};
        let books = self.hold_cart(cart)?;
        if books.is_empty() {
            return Err(Refused::ByRule("the cart is empty".to_owned()));
        }
        let shipped_to = street.map(|street| self.address(street)).transpose()?;
        let [discount, home, country] = self.row(Buyer, &[customer])?;
        let full_price = self.take_stock(&books)?;
        let copies = books.values().sum();
        let sub_total = (full_price * (100 - discount) + 50) / 100;
        let tax = (sub_total * 825 + 5_000) / 10_000;
        let (order, now, total) = (new_number(), seconds(), total(sub_total, tax, copies));
        let numbers =
            [order, customer, now, sub_total, tax, total, now + DAY * days, home, shipped_to.unwrap_or(home)];
        self.change(AddOrder, &numbers, shipped_by(by as u64))?;
        for (line, (book, copies)) in (1..).zip(&books) {
            self.change(AddLine, &[order, line, *book, *copies, discount], "to be wrapped as a present")?;
        }
        let (number, name, authorization) = ("1234567890123456", "firstname lastname", "authorized here");
        let expires = now + 730 * DAY;
        let card = card(with_card as u64);
        let values = values![order, card, number, name, expires, authorization, total, now, country];
        self.rows_of(AddCard, values)?;
        self.rows(EmptyCart, &[cart])?;
        Ok(0)
    }

    /// Takes books from the stock, in the order of their numbers; twenty-one more come in where fewer than ten copies would be left. Returns their price.
    fn take_stock(&mut self, books: &BTreeMap<i64, i64>) -> Result<i64, Refused> {
        let mut full_price = 0;
        for (book, copies) in books {
            let [cost, stock] = self.row(Statement::Stock, &[*book])?;
            let left = if stock - copies < 10 { stock - copies + 21 } else { stock - copies };
            self.rows(Statement::SetStock, &[*book, left])?;
            full_price += cost * copies;
        }
        Ok(full_price)
    }

    /// Changes a book's cost, pictures and day, and the books that it is shown with: those that its latest buyers bought most beside it, and
    /// the former ones where there are fewer.
    fn admin_update(&mut self, book: i64, cost: i64) -> Result<i64, Refused> {
        let before = self.number(Statement::BeforeBuyers, &[])?.unwrap_or(0);
        let beside = self.rows(Statement::BoughtBeside, &[book, before])?;
        let mut related: [i64; 5] = self.row(Statement::Related, &[book])?;
        for (place, found) in related.iter_mut().zip(beside.iter().filter_map(|row| row[0])) {
            *place = found;
        }
        let [r1, r2, r3, r4, r5] = related;
        let (image, thumbnail) = (format!("image/{book}-{cost}.gif"), format!("thumbnail/{book}-{cost}.gif"));
        let values = values![book, cost, seconds(), r1, r2, r3, r4, r5, image, thumbnail];
        self.rows_of(Statement::SetBook, values)?;
        Ok(0)
    }
}
