//! Conditions of TPC-W that hold after every run, and the work that was acknowledged.

use std::collections::BTreeMap;

use super::{NEW_CARTS, NEW_CUSTOMERS, NEW_ORDERS, tables::total};
use crate::workload::{Acknowledged, State, check_new};

pub const STATE: [&str; 8] = [
    "SELECT i_id, i_stock FROM item ORDER BY i_id",
    "SELECT o_id, o_sub_total, o_tax, o_total FROM orders ORDER BY o_id",
    "SELECT ol_o_id, ol_id, ol_i_id, ol_qty FROM order_line ORDER BY ol_o_id, ol_id",
    "SELECT cx_o_id, cx_xact_amt FROM cc_xacts ORDER BY cx_o_id",
    "SELECT scl_sc_id, scl_i_id, scl_qty FROM shopping_cart_line ORDER BY scl_sc_id, scl_i_id",
    "SELECT count(*) FROM shopping_cart",
    "SELECT count(*) FROM customer",
    "SELECT count(*) FROM customer JOIN address ON addr_id = c_addr_id WHERE c_expiration = c_login + 7200",
];

type Rows = [Vec<i64>];

/// The parts of a state.
struct Parts<'s> {
    items: &'s Rows,
    orders: &'s Rows,
    lines: &'s Rows,
    cards: &'s Rows,
    in_carts: &'s Rows,
    carts: usize,
    customers: usize,
    /// Customers with an address, whose session ends two hours after its begin.
    right_customers: usize,
}

impl Parts<'_> {
    fn of(state: &State) -> Result<Parts<'_>, String> {
        let [items, orders, lines, cards, in_carts, carts, customers, right_customers] = state.as_slice()
        else {
            return Err("the state has other queries".to_owned());
        };
        let count = |rows: &Rows| rows.first().map_or(0, |row| row[0] as usize);
        Ok(Parts {
            items,
            orders,
            lines,
            cards,
            in_carts,
            carts: count(carts),
            customers: count(customers),
            right_customers: count(right_customers),
        })
    }

    /// Copies in carts and in orders: a purchase moves them from the one to the other.
    fn copies(&self) -> i64 {
        let in_carts: i64 = self.in_carts.iter().map(|line| line[2]).sum();
        in_carts + self.lines.iter().map(|line| line[3]).sum::<i64>()
    }

    /// Copies of each book that were ordered.
    fn sold(&self) -> BTreeMap<i64, i64> {
        let mut sold = BTreeMap::new();
        for line in self.lines {
            *sold.entry(line[2]).or_default() += line[3];
        }
        sold
    }
}

pub fn check(before: &State, after: &State, acknowledged: &Acknowledged) -> Result<(), String> {
    let (before, after) = (Parts::of(before)?, Parts::of(after)?);
    consistent(&after)?;
    check_stock(&before, &after)?;
    check_new("orders", (before.orders.len(), after.orders.len()), acknowledged, NEW_ORDERS)?;
    check_new("customers", (before.customers, after.customers), acknowledged, NEW_CUSTOMERS)?;
    check_new("carts", (before.carts, after.carts), acknowledged, NEW_CARTS)?;
    let (found, expected) = (after.copies() - before.copies(), acknowledged.sum);
    if found != expected {
        return Err(format!(
            "carts and orders have {found} copies more, and {expected} put into carts were acknowledged"
        ));
    }
    Ok(())
}

/// Orders have lines and a card that paid them, carts have copies, customers have addresses and sessions.
fn consistent(state: &Parts<'_>) -> Result<(), String> {
    let mut lines: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for line in state.lines {
        let (count, copies) = lines.entry(line[0]).or_default();
        *count += 1;
        *copies += line[3];
        if line[1] != *count {
            return Err(format!("line {count} of order {} has the number {}", line[0], line[1]));
        }
    }
    let mut paid: BTreeMap<i64, i64> = state.cards.iter().map(|card| (card[0], card[1])).collect();
    for order in state.orders {
        let (number, amount) = (order[0], order[3]);
        let Some((_, copies)) = lines.remove(&number) else {
            return Err(format!("order {number} has no lines"));
        };
        if amount != total(order[1], order[2], copies) {
            return Err(format!("order {number} of {copies} copies has a total of {amount}"));
        }
        if paid.remove(&number) != Some(amount) {
            return Err(format!("no card has paid the {amount} of order {number}"));
        }
    }
    if let Some(order) = lines.keys().chain(paid.keys()).next() {
        return Err(format!("lines or a card are of order {order}, which is not there"));
    }
    if let Some(line) = state.in_carts.iter().find(|line| line[2] < 1) {
        return Err(format!("cart {} has {} copies of book {}", line[0], line[2], line[1]));
    }
    match state.customers - state.right_customers.min(state.customers) {
        0 => Ok(()),
        wrong => Err(format!("{wrong} customers have no address, or a session of another length")),
    }
}

/// A book's stock is what it was, less what was sold, and twenty-one more each time that fewer than ten were left.
fn check_stock(before: &Parts<'_>, after: &Parts<'_>) -> Result<(), String> {
    const MORE: i64 = 21;
    /// More is there only as long as nothing is sold: nine and those that come in.
    const MOST: i64 = 9 + MORE;
    let (sold_before, sold_after) = (before.sold(), after.sold());
    let sold = |book: i64| {
        let count = |sold: &BTreeMap<i64, i64>| sold.get(&book).copied().unwrap_or(0);
        count(&sold_after) - count(&sold_before)
    };
    if before.items.len() != after.items.len() {
        return Err(format!("there are {} books of {}", after.items.len(), before.items.len()));
    }
    for (old, new) in before.items.iter().zip(after.items) {
        let (book, was, is) = (new[0], old[1], new[1]);
        let came_in = is - was + sold(book);
        if came_in < 0 || came_in % MORE != 0 || is > was.max(MOST) {
            return Err(format!("book {book} has a stock of {is} after {was} and {} sold", sold(book)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Breaks a state that holds.
    type Broken = &'static dyn Fn(&mut State);

    /// Two books, an order of each, and a cart; an order of three copies costs 1000, 83 of tax, and 600.
    fn state(orders: &[i64], stock: i64, in_cart: i64) -> State {
        let of_each = |rows: &dyn Fn(i64) -> Vec<Vec<i64>>| orders.iter().flat_map(|id| rows(*id)).collect();
        vec![
            vec![vec![1, stock], vec![2, 30]],
            of_each(&|id| vec![vec![id, 1_000, 83, 1_683]]),
            of_each(&|id| vec![vec![id, 1, 1, 2], vec![id, 2, 1, 1]]),
            of_each(&|id| vec![vec![id, 1_683]]),
            if in_cart == 0 { Vec::new() } else { vec![vec![5, 1, in_cart]] },
            vec![vec![4]],
            vec![vec![7]],
            vec![vec![7]],
        ]
    }

    fn acknowledged(orders: u64, copies: i64) -> Acknowledged {
        Acknowledged { writes: [(NEW_ORDERS, orders)].into(), sum: copies }
    }

    #[track_caller]
    fn refused(after: &State, acknowledged: &Acknowledged, why: &str) {
        let said = check(&state(&[1, 2], 14, 3), after, acknowledged);
        assert!(said.as_ref().is_err_and(|said| said.contains(why)), "{why}: {said:?}");
    }

    #[test]
    fn each_condition_is_checked() {
        let before = state(&[1, 2], 14, 3);
        assert_eq!(check(&before, &before, &acknowledged(0, 0)), Ok(()));
        // A copy comes into the cart, three are bought: eleven are left.
        let after = state(&[1, 2, 9], 11, 1);
        assert_eq!(check(&before, &after, &acknowledged(1, 1)), Ok(()));
        let again = state(&[1, 2, 9, 10], 29, 0);
        assert_eq!(check(&before, &again, &acknowledged(2, 3)), Ok(()));
        // A lost sale, an invented one, books that are taken away, and books that come in too early.
        for stock in [12, 10, -10, 32] {
            refused(&state(&[1, 2, 9], stock, 1), &acknowledged(1, 1), "book 1 has a stock");
        }
        refused(&after, &acknowledged(0, 1), "1 new orders, and 0");
        refused(&after, &acknowledged(2, 1), "1 new orders, and 2");
        // The cart was bought and is not empty; a copy was lost.
        refused(&after, &acknowledged(1, 0), "1 copies more, and 0");
        refused(&state(&[1, 2, 9], 11, 0), &acknowledged(1, 1), "0 copies more, and 1");
        let broken: &[(Broken, &str)] = &[
            (&|state| state[2].retain(|line| line[0] != 9), "order 9 has no lines"),
            (&|state| state[2].retain(|line| line[..2] != [9, 1]), "line 1 of order 9 has the number 2"),
            (&|state| state[1][2][2] = 82, "order 9 of 3 copies has a total of 1683"),
            (&|state| state[3][2][1] = 1, "no card has paid the 1683 of order 9"),
            (&|state| state[3].truncate(2), "no card has paid"),
            (&|state| state[1].truncate(2), "of order 9, which is not there"),
            (&|state| state[4][0][2] = 0, "cart 5 has 0 copies of book 1"),
            (&|state| state[5][0][0] = 5, "1 new carts, and 0"),
            (&|state| state[6][0][0] = 8, "1 customers have no address"),
            (&|state| (state[6][0][0], state[7][0][0]) = (8, 8), "1 new customers, and 0"),
        ];
        for (change, why) in broken {
            let mut after = after.clone();
            change(&mut after);
            refused(&after, &acknowledged(1, 1), why);
        }
    }
}
