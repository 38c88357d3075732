//! An application that the analysis reads: statements that no transaction of it covers, and rows that move.

use postgres::{Client, NoTls};

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

/// No file says which rows belong to which slot.
#[test]
fn slots_move_with_the_rows_that_the_analysis_finds() {
    let deployment = Deployment::start_of(2, (SCHEMA, TRANSACTIONS), ("placed", 20_000));
    for server in &deployment.servers {
        let mut client = Client::connect(&server.connection_string(), NoTls).unwrap();
        client.batch_execute("INSERT INTO stock VALUES (1, 10)").unwrap();
    }
    let ask = |place: usize, text: &str| deployment.psql(place, "shop", &[text]).unwrap();
    let add =
        "BEGIN; SELECT quantity FROM stock WHERE item = 1; INSERT INTO cart_line VALUES (2, 1, 3); COMMIT";
    let show = "SELECT item, quantity FROM cart_line WHERE cart = 2";
    assert_eq!(ask(1, add), "10");
    let carts = |place: usize| {
        let server = deployment.servers[place].connection_string();
        let mut client = Client::connect(&server, NoTls).unwrap();
        client.query_one("SELECT count(*) FROM cart_line", &[]).unwrap().get::<_, i64>(0)
    };
    assert_eq!([carts(0), carts(1)], [1, 0]);
    deployment.psql(0, "conveyor", &["MOVE SLOTS 120 FROM a TO b"]).unwrap();
    assert_eq!([ask(0, show), ask(1, show)], ["1|3", "1|3"]);
    assert_eq!(carts(1), 1);
    let said = deployment.psql(0, "conveyor", &["REMOVE SERVER a"]).unwrap_err();
    assert!(said.contains("rows of \"public\".\"log\" cannot move: it has no primary key"), "{said}");
}
