//! The examples on a private PostgreSQL 15: their files load unchanged, their procedures run on the rows and
//! calls of their workloads, their invariants hold afterwards, and each of them sees its own violation.

use std::collections::BTreeMap;

use crate::on_postgres::{OnPostgres, SEED, call_text, read};
use postgres::SimpleQueryMessage;
use weir_bench::CallGenerator;

struct Example {
    database: OnPostgres,
    /// Name and condition.
    assertions: Vec<(String, String)>,
}

impl Example {
    fn start(name: &str, overrides: &[(&str, &str)]) -> Example {
        let database = OnPostgres::start(name, overrides);
        Example { database, assertions: assertions(&read(name, "invariants.sql")) }
    }

    /// Makes the calls of some clients in turn; answers how often each SQLSTATE came back.
    fn run(&mut self, clients: u64, calls: usize) -> BTreeMap<String, usize> {
        let mut generators: Vec<CallGenerator> =
            (0..clients).map(|client| CallGenerator::new(&self.database.workload, SEED, client)).collect();
        let mut errors = BTreeMap::new();
        for turn in 0..calls {
            let generator = &mut generators[turn % clients as usize];
            let sql = call_text(&self.database.application, &generator.next_call().expect("the call fits"));
            if let Err(error) = self.database.client.batch_execute(&sql) {
                let state = error.code().map(|state| state.code().to_string());
                *errors.entry(state.unwrap_or_else(|| panic!("{sql}: {error}"))).or_default() += 1;
            }
        }
        errors
    }

    /// The names of the assertions that do not hold.
    fn violated(&mut self) -> Vec<String> {
        let names: Vec<String> = self.assertions.iter().map(|(name, _)| name.clone()).collect();
        names.into_iter().filter(|name| !self.holds(name)).collect()
    }

    fn holds(&mut self, assertion: &str) -> bool {
        let found = self.assertions.iter().find(|(name, _)| name == assertion);
        let (_, condition) = found.expect("the assertion is declared");
        let answer =
            self.database.client.simple_query(&format!("SELECT {condition}")).expect("it can be asked");
        answer
            .iter()
            .any(|message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("t")))
    }
}

/// Condition of each `CREATE ASSERTION name CHECK (…);`.
fn assertions(text: &str) -> Vec<(String, String)> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let code = code.join("\n");
    code.split("CREATE ASSERTION ")
        .skip(1)
        .map(|assertion| {
            let (name, condition) = assertion.split_once(" CHECK ").expect("an assertion has a CHECK");
            (name.to_string(), condition.trim_end().trim_end_matches(';').to_string())
        })
        .collect()
}

const SMALL: &[(&str, &str)] =
    &[("warehouses", "2"), ("items", "200"), ("customers_per_district", "60"), ("remote_lines", "0.2")];

/// For each condition, the smallest damage that it is there to see.
const CORRUPTIONS: [(&str, &str); 13] = [
    ("c_3_3_2_1", "UPDATE district SET d_ytd = d_ytd + 0.01 WHERE d_w_id = 2 AND d_id = 10"),
    ("c_3_3_2_2", "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 3"),
    (
        "c_3_3_2_3",
        "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 3 AND no_o_id = \
         (SELECT min(no_o_id) + 1 FROM new_order WHERE no_w_id = 1 AND no_d_id = 3)",
    ),
    (
        "c_3_3_2_4",
        "DELETE FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 1 AND ol_o_id = 2990 AND ol_number = 1",
    ),
    ("c_3_3_2_5", "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 2950"),
    (
        "c_3_3_2_6",
        "UPDATE order_line SET ol_o_id = 2951, ol_number = 99 \
         WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 2950 AND ol_number = 1",
    ),
    (
        "c_3_3_2_7",
        "UPDATE order_line SET ol_delivery_d = NULL \
         WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 2950 AND ol_number = 2",
    ),
    ("c_3_3_2_8", "DELETE FROM history WHERE h_w_id = 2 AND h_d_id = 2 AND h_c_id = 7"),
    ("c_3_3_2_9", "UPDATE history SET h_d_id = 3 WHERE h_w_id = 2 AND h_d_id = 2 AND h_c_id = 7"),
    (
        "c_3_3_2_10",
        "UPDATE customer SET c_balance = c_balance - 1, c_ytd_payment = c_ytd_payment + 1 \
         WHERE c_w_id = 2 AND c_d_id = 2 AND c_id = 7",
    ),
    (
        "c_3_3_2_11",
        "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = 2 AND c_d_id = 2 AND c_id = 7",
    ),
    (
        "c_3_3_2_12",
        "UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_w_id = 2 AND c_d_id = 2 AND c_id = 7",
    ),
    (
        "stock_matches_order_lines",
        "UPDATE stock SET s_remote_cnt = s_remote_cnt + 1 WHERE s_w_id = 1 AND s_i_id = 9",
    ),
];

#[test]
fn tpcc_keeps_its_thirteen_conditions_and_each_sees_its_violation() {
    let mut example = Example::start("tpcc", SMALL);
    assert_eq!(example.assertions.len(), 13);
    assert_eq!(example.violated(), [""; 0], "after the load");
    let errors = example.run(3, 1500);
    let unused_items: usize = errors.get("TC001").copied().unwrap_or(0);
    assert!((1..30).contains(&unused_items) && errors.len() == 1, "{errors:?}");
    assert_eq!(example.violated(), [""; 0], "after the run");
    for (name, damage) in CORRUPTIONS {
        let begin = format!("BEGIN; SET LOCAL session_replication_role = replica; {damage}");
        example.database.client.batch_execute(&begin).expect("the damage can be done");
        assert!(!example.holds(name), "{name} does not see {damage}");
        example.database.client.batch_execute("ROLLBACK").expect("it can be undone");
    }
}

#[test]
fn payroll_keeps_its_invariants() {
    let mut example = Example::start("payroll", &[("departments", "5"), ("employees", "50")]);
    assert_eq!(example.violated(), [""; 0], "after the load");
    let errors = example.run(2, 1000);
    // Departments and employees that are gone, departments that have people, raises above the bound.
    let expected = ["23503", "23514"];
    assert!(errors.keys().all(|state| expected.contains(&state.as_str())), "{errors:?}");
    assert_eq!(example.violated(), [""; 0], "after the run");
    example
        .database
        .client
        .batch_execute("UPDATE departments SET headcount = headcount + 1")
        .expect("it can be done");
    assert_eq!(example.violated(), ["headcount_is_right"]);
}

/// The size of a run that is worth checking and takes a moment.
struct Run {
    name: &'static str,
    overrides: &'static [(&'static str, &'static str)],
    /// SQLSTATEs of the application's own refusals, all of which must occur.
    refused: &'static [&'static str],
    /// For each assertion, a damage that it alone must see.
    damages: &'static [(&'static str, &'static str)],
}

const RUNS: &[Run] = &[
    Run {
        name: "smallbank",
        overrides: &[("customers", "20"), ("hot_customers", "3"), ("hot", "0.8")],
        // Savings that were emptied by an amalgamation; a payment that is not covered.
        refused: &["23514", "SB001"],
        damages: &[
            ("customer_has_savings", "DELETE FROM savings WHERE customer_id = 7"),
            ("customer_has_checking", "DELETE FROM checking WHERE customer_id = 7"),
        ],
    },
    Run {
        name: "social",
        overrides: &[("members", "60")],
        // A user name that is taken; a post that was deleted; a comment that is not allowed.
        refused: &["23505", "SO001", "SO002"],
        damages: &[
            (
                "friends_are_mutual",
                "DELETE FROM friends WHERE (user_id, friend_id) IN \
                 (SELECT user_id, friend_id FROM friends ORDER BY user_id, friend_id LIMIT 1)",
            ),
            ("everybody_has_settings", "DELETE FROM privacy_settings WHERE user_id = 7"),
        ],
    },
    Run {
        name: "escrow-tickets",
        overrides: &[("events", "3"), ("seats", "100"), ("tickets_each", "20"), ("houses", "1")],
        // No seats left, or nobody inside.
        refused: &["23514"],
        damages: &[
            ("sold_is_what_tickets_say", "UPDATE tickets SET seats = seats + 1 WHERE event_id = 1"),
            ("revenue_is_what_was_paid", "UPDATE events SET revenue = revenue + 0.01 WHERE id = 1"),
        ],
    },
    Run {
        name: "auction",
        overrides: &[("auctions", "10"), ("bids_each", "3")],
        // An auction that is closed already; a bid that is too low.
        refused: &["23505", "AU001"],
        damages: &[
            ("bids_are_counted", "UPDATE auctions SET bid_count = bid_count + 1 WHERE id = 7"),
            ("top_bid_is_the_highest", "UPDATE auctions SET top_bid = top_bid + 0.01 WHERE id = 7"),
            ("sold_for_what_was_bid", "UPDATE sales SET price = price + 0.01"),
        ],
    },
    Run {
        name: "tpcw",
        overrides: &[("items", "100"), ("customers", "100"), ("carts", "40"), ("ordering", "true")],
        // A cart that was bought already.
        refused: &["TW001"],
        damages: &[
            ("paid_as_billed", "UPDATE cc_xacts SET cx_xact_amt = cx_xact_amt + 0.01 WHERE cx_o_id = 7"),
            ("order_has_lines", "DELETE FROM order_line WHERE ol_o_id = 7"),
        ],
    },
    Run {
        name: "rubis",
        overrides: &[
            ("users", "100"),
            ("items", "30"),
            ("old_items", "30"),
            ("taken_nicknames", "0.5"),
            ("pieces_max", "20"),
        ],
        // A nickname that is taken; more pieces than there are.
        refused: &["23505", "23514"],
        damages: &[
            (
                "bid_is_on_an_item",
                "DELETE FROM items WHERE id = 7; DELETE FROM buy_now; DELETE FROM comments",
            ),
            ("purchase_is_of_an_item", "UPDATE buy_now SET item_id = -1"),
            ("comment_is_on_an_item", "UPDATE comments SET item_id = -1"),
        ],
    },
];

#[test]
fn every_example_keeps_its_assertions_and_each_sees_its_violation() {
    for run in RUNS {
        let mut example = Example::start(run.name, run.overrides);
        assert_eq!(example.violated(), [""; 0], "{} after the load", run.name);
        let errors = example.run(2, 1500);
        let refused: Vec<&str> = errors.keys().map(String::as_str).collect();
        assert_eq!(refused, run.refused, "{}: {errors:?}", run.name);
        assert_eq!(example.violated(), [""; 0], "{} after the run", run.name);
        let seen: Vec<&str> = run.damages.iter().map(|(assertion, _)| *assertion).collect();
        let declared: Vec<&str> = example.assertions.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(seen, declared, "{}: each assertion has its damage", run.name);
        for (assertion, damage) in run.damages {
            let begin = format!("BEGIN; SET LOCAL session_replication_role = replica; {damage}");
            example.database.client.batch_execute(&begin).expect("the damage can be done");
            assert_eq!(example.violated(), [*assertion], "{}: {damage}", run.name);
            example.database.client.batch_execute("ROLLBACK").expect("it can be undone");
        }
    }
}

/// Every folder of `examples/` is run by one of the tests above.
#[test]
fn no_example_is_left_out() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .expect("the examples are there")
        .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let mut run: Vec<&str> = RUNS.iter().map(|run| run.name).chain(["payroll", "tpcc"]).collect();
    run.sort();
    assert_eq!(found, run);
}
