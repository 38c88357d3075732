//! TPC-W, RUBiS and a shop: classes, places, captured tables, and the statements that come one by one.

use std::path::{Path, PathBuf};

use weir_conveyor::matching::{Class, Matching, Refusal, Statement, StatementAction};
use weir_conveyor::message::Placement;
use weir_conveyor::routing::{Routing, RoutingValue};
use weir_conveyor_plan::{LocalRows, Plan};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> Plan {
    Plan::of_folder(&root().join("examples").join(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// Names of a class, sorted.
fn of_class(plan: &Plan, class: Class) -> Vec<&str> {
    let operations = plan.operations.iter().filter(|operation| operation.class == class);
    let mut names: Vec<&str> = operations.map(|operation| operation.name.as_str()).collect();
    names.sort_unstable();
    names
}

fn counts(plan: &Plan) -> [usize; 4] {
    [Class::Local, Class::Global, Class::Commutative, Class::LocalGlobal]
        .map(|class| of_class(plan, class).len())
}

fn captured(plan: &Plan) -> Vec<&str> {
    plan.captured.iter().map(|table| table.name.as_str()).collect()
}

#[test]
fn tpcw() {
    let plan = example("tpcw");
    assert_eq!(counts(&plan), [13, 4, 3, 0]);
    let global = ["admin_update", "confirm_purchase", "confirm_purchase_to_address", "create_customer"];
    assert_eq!(of_class(&plan, Class::Global), global);
    let home = |name: &str| {
        let operation = plan.operation(name).unwrap();
        operation.home.map(|home| operation.parameters[home].name.as_str())
    };
    assert_eq!((home("change_cart"), home("refresh_session")), (Some("cart_id"), Some("customer_id")));
    // Books are written by global operations only, so that any server shows them.
    assert_eq!((home("get_book"), home("best_sellers")), (None, None));
    assert!(!captured(&plan).contains(&"shopping_cart"), "{:?}", plan.captured);
    for table in ["orders", "order_line", "cc_xacts", "item", "customer"] {
        assert!(captured(&plan).contains(&table), "{table}: {:?}", plan.captured);
    }
}

#[test]
fn rows_belong_to_the_slot_of_the_column_that_routes_their_writers() {
    let slot = |column: &str| LocalRows::Slot(column.to_owned());
    let of = |plan: &Plan| {
        let rows = plan.local.iter().map(|table| (table.name.clone(), table.rows.clone()));
        rows.collect::<Vec<_>>()
    };
    let tpcw = [("customer", "c_id"), ("shopping_cart", "sc_id"), ("shopping_cart_line", "scl_sc_id")];
    assert_eq!(of(&example("tpcw")), tpcw.map(|(table, column)| (table.to_owned(), slot(column))));
    let rubis = [("users", "id"), ("bids", "user_id"), ("comments", "to_user_id"), ("buy_now", "buyer_id")];
    assert_eq!(of(&example("rubis")), rubis.map(|(table, column)| (table.to_owned(), slot(column))));
}

/// What nobody has analysed may read what is the same at every server.
#[test]
fn statements_of_nobody_touch_all_columns_of_their_tables() {
    let plan = example("tpcw");
    let templates = plan.templates(Routing::even(&[0, 1, 2]));
    let action = |tables: &[&str]| {
        let tables: Vec<String> = tables.iter().map(|name| (*name).to_owned()).collect();
        let touches = plan.touched(&tables);
        let statement = Statement { text: "SELECT …", arguments: &[], touches: touches.as_ref() };
        Matching::new(&templates, 1).statement(&templates, &statement)
    };
    assert_eq!(action(&["orders", "public.order_line", "item"]), StatementAction::Runs(Placement::Global(1)));
    assert_eq!(action(&["orders", "shopping_cart"]), StatementAction::Refused(Refusal::TouchesLocalRows));
    assert_eq!(action(&["orders", "a_view"]), StatementAction::Refused(Refusal::Unknown));
}

#[test]
fn rows_of_calls_are_named_by_parameters() {
    let plan = example("tpcw");
    let rows = |name: &str| {
        let rows = &plan.operation(name).unwrap().rows;
        rows.iter().map(|row| (row.table.as_str(), row.key.clone())).collect::<Vec<_>>()
    };
    assert_eq!(rows("get_user_name"), [("customer", vec![0])]);
    // Its rows are found by a key that is not the primary one, or by no key.
    assert_eq!(rows("get_password"), []);
    assert_eq!(rows("search_by_title"), []);
    assert!(rows("admin_update").contains(&("item", vec![0])), "{:?}", rows("admin_update"));
}

#[test]
fn calls_of_tpcw_are_placed() {
    let plan = example("tpcw");
    let templates = plan.templates(Routing::even(&[0, 1, 2]));
    let place = |name: &str, arguments: &[Option<&str>]| {
        let values = plan.call(name, arguments).unwrap();
        templates.call(name, &values, 2).unwrap()
    };
    assert_eq!(place("get_cart", &[Some("7")]), Placement::Local(1));
    assert_eq!(place("search_by_title", &[Some("a")]), Placement::Commutative);
    let admin = [Some("4"), Some("1.00"), Some("i"), Some("t"), Some("2026-01-01 00:00:00")];
    assert!(matches!(place("admin_update", &admin), Placement::Global(_)));
    assert_eq!(plan.call("get_cart", &[Some("seven")]), None);
    assert_eq!(plan.call("get_cart", &[]), None);
}

#[test]
fn rubis() {
    let plan = example("rubis");
    assert_eq!(counts(&plan), [17, 5, 3, 1]);
    assert_eq!(of_class(&plan, Class::LocalGlobal), ["store_bid"]);
    let commutative = ["browse_categories", "browse_categories_in_region", "browse_regions"];
    assert_eq!(of_class(&plan, Class::Commutative), commutative);
    let templates = plan.templates(Routing::even(&[0, 1]));
    let integer = RoutingValue::Integer;
    let bid = |item, bidder| {
        let mut values =
            vec![RoutingValue::Text(String::new()); plan.operation("store_bid").unwrap().parameters.len()];
        (values[0], values[1]) = (integer(item), integer(bidder));
        templates.call("store_bid", &values, 0)
    };
    assert_eq!(bid(4, 2), Some(Placement::Local(0)));
    assert!(matches!(bid(4, 3), Some(Placement::Global(_))));
}

#[test]
fn ids_route_back_to_their_server() {
    let plan = example("tpcw");
    let routing = Routing::even(&[0, 1, 2]);
    let statements = plan.sequence_statements(&routing, 1, 0);
    assert_eq!(statements.len(), plan.sequences.len());
    for statement in &statements {
        let (increment, first) =
            statement.split_once(" INCREMENT BY ").unwrap().1.split_once(" RESTART WITH ").unwrap();
        let (increment, first): (i64, i64) = (increment.parse().unwrap(), first.parse().unwrap());
        for turn in 0..500 {
            assert_eq!(routing.server(&RoutingValue::Integer(first + turn * increment)), 1, "{statement}");
        }
        assert!(first >= 1_000_000_001, "{statement}");
    }
    assert!(
        plan.sequence_statements(&routing, 1, 5_000_000_000)
            .iter()
            .all(|one| one.contains("RESTART WITH 50000"))
    );
}

/// An application whose transactions come statement by statement.
fn shop() -> Plan {
    Plan::of_folder(&root().join("crates/weir-conveyor-plan/tests/shop"))
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_shop_of_statements() {
    let plan = shop();
    assert_eq!(of_class(&plan, Class::Global), ["order_cart"]);
    assert_eq!(of_class(&plan, Class::Local), ["add_to_cart", "show_cart"]);
    assert_eq!(of_class(&plan, Class::Commutative), ["list_shops", "write_log"]);
    assert_eq!(captured(&plan), ["cart_line", "stock"]);
    assert!(plan.operations.iter().all(|operation| operation.is_sent_as_statements));
}

#[test]
fn statements_of_a_client_are_matched() {
    let plan = shop();
    let templates = plan.templates(Routing::even(&[0, 1, 2]));
    let mut matching = Matching::new(&templates, 0);
    let mut send = |text: &str, parameters: &[Option<&str>]| {
        let bound = plan.statement(text, parameters).unwrap();
        let statement = Statement { text: &bound.text, arguments: &bound.arguments, touches: None };
        matching.statement(&templates, &statement)
    };
    let reads = "select item, quantity from cart_line where cart = $1";
    // That may be the beginning of an order, too, which is global.
    assert_eq!(send(reads, &[Some("4")]), StatementAction::Runs(Placement::Global(1)));
    let takes = "UPDATE stock SET quantity = quantity - $1 WHERE item = $2";
    assert_eq!(send(takes, &[Some("2"), Some("9")]), StatementAction::Runs(Placement::Global(1)));
    let empties = "DELETE FROM cart_line WHERE cart = 4";
    assert_eq!(send(empties, &[]), StatementAction::Runs(Placement::Global(1)));
}

#[test]
fn a_statement_that_nobody_has_and_a_value_that_nobody_can_place_are_not_matched() {
    let plan = shop();
    assert_eq!(plan.statement("SELECT 1", &[]), None);
    assert_eq!(plan.statement("select item, quantity from cart_line where cart = 4.0", &[]), None);
    assert_eq!(plan.statement("select item, quantity from cart_line where cart = $1", &[]), None);
}

#[test]
fn a_statement_of_one_transaction_is_local() {
    let plan = shop();
    let templates = plan.templates(Routing::even(&[0, 1, 2]));
    let mut matching = Matching::new(&templates, 0);
    let bound = plan.statement("INSERT INTO cart_line VALUES (5, $1, 1)", &[Some("9")]).unwrap();
    let statement = Statement { text: &bound.text, arguments: &bound.arguments, touches: None };
    assert_eq!(matching.statement(&templates, &statement), StatementAction::Runs(Placement::Local(2)));
}
