//! Conditions of RUBiS that hold after every run, and the work that was acknowledged.

use std::collections::BTreeMap;

use super::{DAY, NEW_BIDS, NEW_COMMENTS, NEW_ITEMS, NEW_PURCHASES, NEW_USERS, NOW};
use crate::workload::{Acknowledged, State, check_new};

pub const STATE: [&str; 6] = [
    "SELECT id, quantity, nb_of_bids, max_bid, end_date FROM items ORDER BY id",
    "SELECT id, quantity, nb_of_bids, max_bid FROM old_items ORDER BY id",
    "SELECT item_id, count(*), max(bid) FROM bids GROUP BY item_id ORDER BY item_id",
    "SELECT id, rating FROM users ORDER BY id",
    "SELECT to_user_id, count(*), sum(rating) FROM comments GROUP BY to_user_id ORDER BY to_user_id",
    "SELECT item_id, count(*), sum(qty) FROM buy_now GROUP BY item_id ORDER BY item_id",
];

/// Auctions of the population, and those that are new, end no sooner by themselves.
const FIRST_END: i64 = (NOW + DAY) as i64;

type Rows = [Vec<i64>];

/// The parts of a state.
struct Parts<'s> {
    items: &'s Rows,
    old_items: &'s Rows,
    users: &'s Rows,
    /// By item, count and highest.
    bids: BTreeMap<i64, (i64, i64)>,
    /// By receiver, count and sum.
    comments: BTreeMap<i64, (i64, i64)>,
    /// By item, count and pieces.
    purchases: BTreeMap<i64, (i64, i64)>,
}

fn by_first(rows: &Rows) -> BTreeMap<i64, (i64, i64)> {
    rows.iter().map(|row| (row[0], (row[1], row[2]))).collect()
}

/// Rows of all groups.
fn count(groups: &BTreeMap<i64, (i64, i64)>) -> usize {
    groups.values().map(|(count, _)| *count as usize).sum()
}

impl Parts<'_> {
    fn of(state: &State) -> Result<Parts<'_>, String> {
        let [items, old_items, bids, users, comments, purchases] = state.as_slice() else {
            return Err("the state has other queries".to_owned());
        };
        let (bids, comments, purchases) = (by_first(bids), by_first(comments), by_first(purchases));
        Ok(Parts { items, old_items, users, bids, comments, purchases })
    }

    /// Pieces of each item that are left or sold.
    fn pieces(&self) -> BTreeMap<i64, i64> {
        let sold = |item: i64| self.purchases.get(&item).map_or(0, |(_, pieces)| *pieces);
        self.items.iter().map(|item| (item[0], item[1] + sold(item[0]))).collect()
    }
}

pub fn check(before: &State, after: &State, acknowledged: &Acknowledged) -> Result<(), String> {
    let (before, after) = (Parts::of(before)?, Parts::of(after)?);
    consistent(&after)?;
    check_pieces(&before, &after, acknowledged.sum)?;
    let both = |count: &dyn Fn(&Parts<'_>) -> usize| (count(&before), count(&after));
    check_new("users", both(&|parts| parts.users.len()), acknowledged, NEW_USERS)?;
    check_new("items", both(&|parts| parts.items.len()), acknowledged, NEW_ITEMS)?;
    check_new("bids", both(&|parts| count(&parts.bids)), acknowledged, NEW_BIDS)?;
    check_new("purchases", both(&|parts| count(&parts.purchases)), acknowledged, NEW_PURCHASES)?;
    check_new("comments", both(&|parts| count(&parts.comments)), acknowledged, NEW_COMMENTS)
}

/// Items know their bids and end with the last piece; ratings are those of the comments.
fn consistent(state: &Parts<'_>) -> Result<(), String> {
    let (mut bids, mut comments) = (state.bids.clone(), state.comments.clone());
    for item in state.items.iter().chain(state.old_items) {
        let (number, said) = (item[0], (item[2], item[3]));
        let (count, highest) = bids.remove(&number).unwrap_or_default();
        if said != (count, highest) {
            return Err(format!(
                "item {number} has {count} bids up to {highest}, and says {} up to {}",
                said.0, said.1
            ));
        }
        if item[1] < 0 {
            return Err(format!("item {number} has {} pieces", item[1]));
        }
    }
    for item in state.items {
        let (number, quantity, end) = (item[0], item[1], item[4]);
        if (quantity == 0) != (end < FIRST_END) {
            return Err(format!("item {number} has {quantity} pieces and ends at {end}"));
        }
    }
    if let Some(item) = bids.keys().next() {
        return Err(format!("there are bids on item {item}, which is not there"));
    }
    for user in state.users {
        let (_, sum) = comments.remove(&user[0]).unwrap_or_default();
        if user[1] != sum {
            return Err(format!("user {} has a rating of {}, and comments of {sum}", user[0], user[1]));
        }
    }
    match comments.keys().next() {
        None => Ok(()),
        Some(user) => Err(format!("there are comments on user {user}, who is not there")),
    }
}

/// Pieces are sold by purchases alone, and come with new items alone.
fn check_pieces(before: &Parts<'_>, after: &Parts<'_>, registered: i64) -> Result<(), String> {
    let (before, mut after) = (before.pieces(), after.pieces());
    for (item, expected) in before {
        match after.remove(&item) {
            Some(found) if found == expected => {}
            Some(found) => {
                return Err(format!("item {item} has {found} pieces left or sold of {expected}"));
            }
            None => return Err(format!("item {item} is not there any more")),
        }
    }
    let found: i64 = after.values().sum();
    match found == registered {
        true => Ok(()),
        false => Err(format!("new items have {found} pieces, and {registered} were acknowledged")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Breaks a state that holds.
    type Broken = &'static dyn Fn(&mut State);

    const END: i64 = FIRST_END + 5;

    fn before() -> State {
        vec![
            vec![vec![1, 3, 2, 70, END], vec![2, 1, 0, 0, END]],
            vec![vec![3, 1, 1, 50]],
            vec![vec![1, 2, 70], vec![3, 1, 50]],
            vec![vec![1, -2], vec![2, 0]],
            vec![vec![1, 2, -2]],
            vec![vec![1, 1, 1]],
        ]
    }

    /// Of each kind one: a user, an item of six pieces, a bid on item 1, the purchase of item 2, a comment on user 2.
    fn after() -> State {
        vec![
            vec![vec![1, 3, 3, 90, END], vec![2, 0, 0, 0, FIRST_END - 1], vec![9, 6, 0, 0, END]],
            vec![vec![3, 1, 1, 50]],
            vec![vec![1, 3, 90], vec![3, 1, 50]],
            vec![vec![1, -2], vec![2, 4], vec![8, 0]],
            vec![vec![1, 2, -2], vec![2, 1, 4]],
            vec![vec![1, 1, 1], vec![2, 1, 1]],
        ]
    }

    fn acknowledged() -> Acknowledged {
        let all = [NEW_USERS, NEW_ITEMS, NEW_BIDS, NEW_PURCHASES, NEW_COMMENTS];
        Acknowledged { writes: all.map(|object| (object, 1)).into(), sum: 6 }
    }

    #[test]
    fn each_condition_is_checked() {
        assert_eq!(check(&before(), &before(), &Acknowledged::default()), Ok(()));
        assert_eq!(check(&before(), &after(), &acknowledged()), Ok(()));
        let broken: &[(Broken, &str)] = &[
            (&|state| state[0][0][2] = 2, "item 1 has 3 bids up to 90, and says 2"),
            (&|state| state[0][0][3] = 70, "item 1 has 3 bids up to 90, and says 3 up to 70"),
            (&|state| state[1][0][3] = 51, "item 3 has 1 bids"),
            (&|state| state[0][1][1] = -1, "item 2 has -1 pieces"),
            (&|state| state[0][1][4] = END, "item 2 has 0 pieces and ends"),
            (&|state| state[0][0][4] = 0, "item 1 has 3 pieces and ends"),
            (&|state| state[2].push(vec![7, 1, 1]), "bids on item 7, which is not there"),
            (&|state| state[3][1][1] = 0, "user 2 has a rating of 0, and comments of 4"),
            (&|state| state[4].push(vec![7, 1, 1]), "comments on user 7, who is not there"),
            (&|state| state[0][0][1] = 2, "item 1 has 3 pieces left or sold of 4"),
            (&|state| drop(state[5].pop()), "item 2 has 0 pieces left or sold of 1"),
            (&|state| drop(state[0].remove(1)), "item 2 is not there any more"),
            (&|state| state[0][2][1] = 7, "new items have 7 pieces, and 6"),
        ];
        for (change, why) in broken {
            let mut after = after();
            change(&mut after);
            let said = check(&before(), &after, &acknowledged());
            assert!(said.as_ref().is_err_and(|said| said.contains(why)), "{why}: {said:?}");
        }
    }

    #[test]
    fn nothing_is_lost_or_invented() {
        let new = [
            (NEW_USERS, "users"),
            (NEW_ITEMS, "items"),
            (NEW_BIDS, "bids"),
            (NEW_PURCHASES, "purchases"),
            (NEW_COMMENTS, "comments"),
        ];
        for (object, what) in new {
            for count in [0, 2] {
                let mut acknowledged = acknowledged();
                acknowledged.writes.insert(object, count);
                let why = format!("there are 1 new {what}, and {count} were acknowledged");
                assert_eq!(check(&before(), &after(), &acknowledged), Err(why));
            }
        }
    }
}
