//! Accounts between which money moves: what some simulated worlds have in common.

use std::sync::Arc;

use weir_bench::simulate::Check;
use weir_txn::storage::Rows;

use super::{World, integers};

/// The table, and the procedure that moves money from one account to another.
pub const SCHEMA: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE PROCEDURE move(a integer, b integer, x integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - x WHERE id = a;
    UPDATE account SET balance = balance + x WHERE id = b;
END $$;
";

/// Loads this number of accounts, each with a balance of 100.
pub fn workload(accounts: u64) -> String {
    format!(
        "
[load.account]
for = [\"a in 1..{accounts}\"]
id = \"a\"
balance = \"100\"
[mix]
move = 1
[parameters.move]
a = \"uniform(1, {accounts})\"
b = \"uniform(1, {accounts})\"
x = \"uniform(1, 9)\"
"
    )
}

/// The balances have this sum.
pub fn money_is_kept(world: &World, money: i64) -> Check {
    let account = world.application.catalog.table_by_name("account").unwrap().id;
    Arc::new(move |rows: &dyn Rows| {
        let sum: i64 = integers(rows, account, 1).into_iter().sum();
        (sum != money).then(|| format!("{sum} of {money}"))
    })
}
