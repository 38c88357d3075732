//! An application that the analysis reads: statements that no transaction of it covers.

use crate::deployment::Deployment;

const SCHEMA: &str = include_str!("../../weir-conveyor-plan/tests/shop/schema.sql");
const TRANSACTIONS: &str = include_str!("../../weir-conveyor-plan/tests/shop/transactions.sql");

#[test]
fn what_nobody_has_analysed_may_read_what_is_the_same_everywhere() {
    let deployment = Deployment::start_of(2, (SCHEMA, TRANSACTIONS), ("placed", 20_000));
    let ask = |text: &str| deployment.psql(0, "shop", &[text]);
    assert_eq!(ask("SELECT count(*), max(quantity) FROM stock").unwrap(), "0|");
    assert_eq!(ask("BEGIN; SELECT count(*) FROM stock; SELECT count(*) FROM shop; COMMIT").unwrap(), "0\n0");
    let said = ask("SELECT count(*) FROM cart_line").unwrap_err();
    assert!(said.contains("it touches rows that each server has on its own"), "{said}");
    let said = ask("BEGIN; SELECT count(*) FROM stock; SELECT count(*) FROM cart_line; COMMIT").unwrap_err();
    assert!(said.contains("it touches rows that each server has on its own"), "{said}");
    let said = ask("UPDATE stock SET quantity = 0").unwrap_err();
    assert!(said.contains("no transaction of the application covers this statement"), "{said}");
}
