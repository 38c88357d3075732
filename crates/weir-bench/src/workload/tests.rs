//! The engine on the examples' own files, and on small ones that are wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_sql::{Application, Sources};
use weir_types::numeric::Numeric;
use weir_types::value::Array;
use weir_types::{SqlType, Value};

use super::{CallGenerator, Workload, raw_row_bytes};

macro_rules! example {
    ($name:literal, $file:literal) => {
        include_str!(concat!("../../../../examples/", $name, "/", $file))
    };
}

fn application(schema: &str, procedures: &str) -> Application {
    let mut sources = Sources::default();
    sources.add("schema.sql", schema);
    sources.add("procedures.sql", procedures);
    weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"))
}

fn parse(
    mut application: Application,
    toml: &str,
    overrides: &[(&str, &str)],
) -> Result<(Application, Arc<Workload>), String> {
    let file = application.sources.add("workload.toml", toml);
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    match Workload::parse(&application, file, &overrides) {
        Ok(workload) => Ok((application, Arc::new(workload))),
        Err(diagnostics) => {
            let show = |diagnostic: &weir_sql::Diagnostic| {
                let hint = diagnostic.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
                format!("{}: {}{hint}", application.sources.place(diagnostic.span), diagnostic.message)
            };
            Err(diagnostics.iter().map(show).collect::<Vec<_>>().join("\n"))
        }
    }
}

fn tpcc(overrides: &[(&str, &str)]) -> (Application, Arc<Workload>) {
    let application = application(example!("tpcc", "schema.sql"), example!("tpcc", "procedures.sql"));
    parse(application, example!("tpcc", "workload.toml"), overrides).expect("the example's workload is right")
}

const SMALL: &[(&str, &str)] = &[("warehouses", "2"), ("items", "500"), ("customers_per_district", "100")];

/// The rows of a table, each value by its column's name.
fn rows(application: &Application, workload: &Workload, table: &str) -> Vec<BTreeMap<String, Value>> {
    let table = application.catalog.table_by_name(table).expect("the table exists");
    let mut rows = Vec::new();
    let mut sink = |values: Vec<Value>| {
        rows.push(table.columns.iter().map(|column| column.name.clone()).zip(values).collect());
        Ok(())
    };
    workload.load_rows(7, table.id, &mut sink).expect("the rows fit");
    rows
}

fn int(value: &Value) -> i64 {
    if let Value::Int(value) = value { *value } else { panic!("{value:?} is no integer") }
}

fn ints(value: &Value) -> Vec<i64> {
    let Value::Array(array) = value else { panic!("{value:?} is no array") };
    array.values.iter().map(int).collect()
}

fn text(value: &Value) -> &str {
    if let Value::Text(text) = value { text } else { panic!("{value:?} is no text") }
}

#[test]
fn every_section_of_payroll_fits_its_tables_and_procedures() {
    let application = application(example!("payroll", "schema.sql"), example!("payroll", "procedures.sql"));
    let (application, workload) =
        parse(application, example!("payroll", "workload.toml"), &[("departments", "7")]).expect("right");
    let heads: i64 =
        rows(&application, &workload, "departments").iter().map(|row| int(&row["headcount"])).sum();
    assert_eq!(heads, 1000);
    let employees = rows(&application, &workload, "employees");
    let in_third = employees.iter().filter(|row| int(&row["department_id"]) == 3).count() as i64;
    assert_eq!(in_third, int(&rows(&application, &workload, "departments")[2]["headcount"]));
    let mut generator = CallGenerator::new(&workload, 1, 0);
    for _ in 0..1000 {
        generator.next_call().expect("every call fits");
    }
}

#[test]
fn a_warehouse_has_the_population_of_clause_4_3_3_1() {
    let (application, workload) = tpcc(&[("warehouses", "2")]);
    let count = |name: &str| {
        let table = application.catalog.table_by_name(name).expect("the table exists");
        workload.row_count(7, table.id).expect("it can be counted")
    };
    let expected = [
        ("warehouse", 2),
        ("item", 100_000),
        ("district", 20),
        ("stock", 200_000),
        ("customer", 60_000),
        ("history", 60_000),
        ("orders", 60_000),
        ("new_order", 18_000),
    ];
    for (table, rows) in expected {
        assert_eq!(count(table), rows, "{table}");
    }
    let lines = count("order_line");
    assert!((595_000..605_000).contains(&lines), "5 to 15 lines an order, on average 10: {lines}");
}

#[test]
fn parents_are_loaded_before_their_children() {
    let (application, workload) = tpcc(SMALL);
    let names: Vec<&str> =
        workload.load_order().iter().map(|id| application.catalog.table(*id).name.as_str()).collect();
    let expected = [
        "warehouse",
        "item",
        "district",
        "stock",
        "customer",
        "orders",
        "new_order",
        "order_line",
        "history",
    ];
    assert_eq!(names, expected);
}

#[test]
fn orders_are_a_permutation_of_the_customers_with_the_last_three_tenths_undelivered() {
    let (application, workload) = tpcc(SMALL);
    let orders = rows(&application, &workload, "orders");
    let of = |warehouse: i64, district: i64| {
        orders.iter().filter(move |row| int(&row["o_w_id"]) == warehouse && int(&row["o_d_id"]) == district)
    };
    let customers = |warehouse, district| of(warehouse, district).map(|row| int(&row["o_c_id"])).collect();
    let (first, second): (Vec<i64>, Vec<i64>) = (customers(1, 1), customers(1, 2));
    assert_ne!(first, second);
    for mut list in [first, second] {
        assert!(!list.is_sorted());
        list.sort_unstable();
        assert_eq!(list, (1..=100).collect::<Vec<i64>>());
    }
    for row in of(2, 10) {
        assert_eq!(row["o_carrier_id"].is_null(), int(&row["o_id"]) > 2970);
    }
    let new_orders = rows(&application, &workload, "new_order");
    assert_eq!(new_orders.len(), 2 * 10 * 30);
    assert_eq!((int(&new_orders[0]["no_o_id"]), int(&new_orders[29]["no_o_id"])), (2971, 3000));
}

#[test]
fn order_lines_are_those_that_their_orders_announce() {
    let (application, workload) = tpcc(SMALL);
    let mut lines: BTreeMap<(i64, i64, i64), i64> = BTreeMap::new();
    for line in rows(&application, &workload, "order_line") {
        let order = (int(&line["ol_w_id"]), int(&line["ol_d_id"]), int(&line["ol_o_id"]));
        *lines.entry(order).or_default() += 1;
        assert_eq!(line["ol_delivery_d"].is_null(), order.2 > 2970);
        let Value::Numeric(Numeric::Small { scale: 2, mantissa }) = line["ol_amount"] else {
            panic!("an amount has two decimals")
        };
        assert_eq!(mantissa == 0, order.2 <= 2970);
    }
    for order in rows(&application, &workload, "orders") {
        let key = (int(&order["o_w_id"]), int(&order["o_d_id"]), int(&order["o_id"]));
        assert_eq!(lines.get(&key), Some(&int(&order["o_ol_cnt"])));
    }
}

#[test]
fn texts_and_quirks_are_those_of_the_clause() {
    let (application, workload) = tpcc(&[("warehouses", "1"), ("items", "20000")]);
    let items = rows(&application, &workload, "item");
    let originals = items.iter().filter(|row| text(&row["i_data"]).contains("ORIGINAL")).count();
    assert!((1800..2200).contains(&originals), "a tenth of 20,000: {originals}");
    assert!(items.iter().all(|row| (26..=50).contains(&text(&row["i_data"]).len())));
    let customers = rows(&application, &workload, "customer");
    let bad = customers.iter().filter(|row| text(&row["c_credit"]) == "BC").count();
    assert!((2700..3300).contains(&bad), "a tenth of 30,000: {bad}");
    let last = |position: usize| text(&customers[position]["c_last"]);
    assert_eq!((last(0), last(371), last(999)), ("BARBARBAR", "PRICALLYOUGHT", "EINGEINGEING"));
    assert!(customers.iter().all(|row| int(&row["c_delivery_cnt"]) == 0));
    let zip = text(&customers[5]["c_zip"]);
    assert!(zip.len() == 9 && zip.ends_with("11111"), "{zip}");
}

#[test]
fn the_deck_deals_ten_ten_one_one_one() {
    let (application, workload) = tpcc(SMALL);
    let mut generator = CallGenerator::new(&workload, 1, 0);
    for _ in 0..5 {
        let mut dealt: BTreeMap<&str, u32> = BTreeMap::new();
        for _ in 0..23 {
            let call = generator.next_call().expect("the call fits");
            *dealt.entry(application.procedures[call.procedure].name.as_str()).or_default() += 1;
        }
        let expected =
            [("delivery", 1), ("new_order", 10), ("order_status", 1), ("payment", 10), ("stock_level", 1)];
        assert_eq!(dealt, BTreeMap::from(expected));
    }
    assert_eq!(tpcc(&[("minimum_mix", "true")]).1.weights(), [45, 43, 4, 4, 4]);
}

/// Warehouse, items, supplying warehouses, quantities.
type NewOrder = (i64, Vec<i64>, Vec<i64>, Vec<i64>);

/// The New-Orders among the first calls of one client.
fn new_orders(overrides: &[(&str, &str)], calls: usize) -> Vec<NewOrder> {
    let (_, workload) = tpcc(overrides);
    let mut generator = CallGenerator::new(&workload, 3, 5);
    let stream = std::iter::from_fn(|| Some(generator.next_call().expect("the call fits")));
    stream
        .take(calls)
        .filter(|call| call.procedure == 0)
        .map(|call| (int(&call.args[0]), ints(&call.args[3]), ints(&call.args[4]), ints(&call.args[5])))
        .collect()
}

#[test]
fn new_orders_have_the_shares_that_are_set() {
    let orders = new_orders(&[], 46_000);
    assert_eq!(orders.len(), 20_000);
    let lines: usize = orders.iter().map(|(_, items, ..)| items.len()).sum();
    assert!((195_000..205_000).contains(&lines), "{lines}");
    let remote =
        |(home, _, supply, _): &NewOrder| supply.iter().filter(|warehouse| *warehouse != home).count();
    let remote_lines: usize = orders.iter().map(remote).sum();
    assert!((1700..2300).contains(&remote_lines), "1% of 200,000: {remote_lines}");
    let rolled_back = orders.iter().filter(|(_, items, ..)| items.last() == Some(&100_001)).count();
    assert!((150..250).contains(&rolled_back), "1% of 20,000: {rolled_back}");
    for (home, items, supply, quantities) in &orders {
        assert!((1..=4).contains(home) && supply.iter().all(|warehouse| (1..=4).contains(warehouse)));
        assert!(items.len() == supply.len() && items.len() == quantities.len());
        assert!(items[..items.len() - 1].iter().all(|item| (1..=100_000).contains(item)));
        assert!(quantities.iter().all(|quantity| (1..=10).contains(quantity)));
    }
    let all_remote = new_orders(&[("remote_lines", "1.0")], 1000);
    assert!(all_remote.iter().all(|order| remote(order) == order.1.len()));
    let nowhere_else = new_orders(&[("remote_lines", "1"), ("warehouses", "1")], 1000);
    assert!(nowhere_else.iter().all(|order| remote(order) == 0));
    let at_home = new_orders(&[("fixed_home", "true")], 1000);
    assert!(at_home.iter().all(|(home, ..)| *home == 2), "client 5 of 4 warehouses");
}

#[test]
fn nurand_is_not_uniform_and_its_constants_keep_the_delta_rule() {
    let mut frequency = vec![0u32; 100_001];
    for (_, items, ..) in new_orders(&[("rollback", "0")], 46_000) {
        items.iter().for_each(|item| frequency[*item as usize] += 1);
    }
    frequency.sort_unstable_by(|a, b| b.cmp(a));
    let hottest: u32 = frequency[..10_000].iter().sum();
    let all: u32 = frequency.iter().sum();
    assert!(hottest * 2 > all, "a tenth of the items takes more than half of the lines");
    for seed in 0..2000 {
        let constants = |calls| super::nurand_constants(&[255], seed, calls)[0];
        let delta = (constants(false) - constants(true)).abs();
        assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "seed {seed}: {delta}");
        assert!((0..=255).contains(&constants(true)));
    }
}

#[test]
fn payments_name_their_customer_one_way_or_the_other() {
    let (_, workload) = tpcc(&[]);
    let mut generator = CallGenerator::new(&workload, 3, 0);
    let (mut payments, mut by_name, mut remote) = (0, 0, 0);
    while payments < 10_000 {
        let call = generator.next_call().expect("the call fits");
        if call.procedure == 1 {
            payments += 1;
            assert_ne!(call.args[4].is_null(), call.args[5].is_null());
            by_name += i32::from(call.args[4].is_null());
            remote += i32::from(int(&call.args[0]) != int(&call.args[2]));
            assert!(matches!(call.args[6], Value::Numeric(Numeric::Small { scale: 2, .. })));
        }
    }
    assert!((5800..6200).contains(&by_name), "{by_name}");
    assert!((1350..1650).contains(&remote), "{remote}");
}

#[test]
fn the_same_seed_gives_the_same_rows_and_calls_and_another_gives_others() {
    let (application, workload) = tpcc(SMALL);
    let stream = |seed, client| {
        let mut generator = CallGenerator::new(&workload, seed, client);
        (0..100).map(|_| format!("{:?}", generator.next_call())).collect::<Vec<_>>()
    };
    assert_eq!(stream(1, 2), stream(1, 2));
    assert_ne!(stream(1, 2), stream(2, 2));
    assert_ne!(stream(1, 2), stream(1, 3));
    let again = tpcc(SMALL).1;
    let show = |workload: &Workload| format!("{:?}", rows(&application, workload, "customer"));
    assert_eq!(show(&workload), show(&again));
}

#[test]
fn raw_size_counts_values_alone() {
    let array = Value::Array(Arc::new(Array { element: SqlType::Int4, values: vec![Value::Int(1); 3] }));
    let money = Value::Numeric(Numeric::Small { scale: 2, mantissa: 1000 });
    let values = [Value::Int(1), Value::Null, Value::text("ab"), Value::text("ab"), money, array];
    let types = [
        SqlType::Int4,
        SqlType::Int8,
        SqlType::Varchar(Some(9)),
        SqlType::Char(9),
        SqlType::Numeric(Some((12, 2))),
        SqlType::Array(Box::new(SqlType::Int4)),
    ];
    assert_eq!(raw_row_bytes(&values, &types), 4 + 2 + 9 + 6 + 12);
}

const ONE_TABLE: &str = "CREATE TABLE t (a integer NOT NULL, b varchar(3), c numeric(4,2));";
const ONE_PROCEDURE: &str =
    "CREATE PROCEDURE p(IN x integer, IN y integer[]) LANGUAGE plpgsql AS $$ BEGIN NULL; END; $$;";

/// Values of `t.a`, or the message: `expression` is its generator and `rest` follows it.
fn check(expression: &str) -> String {
    let toml = format!(
        "[load.t]\nfor = [\"i in 1..4\"]\na = \"{expression}\"\n[parameters.p]\nx = 1\ny = \"array(2, index)\"\n"
    );
    match parse(application(ONE_TABLE, ONE_PROCEDURE), &toml, &[]) {
        Err(message) => message,
        Ok((application, workload)) => {
            let mut values = Vec::new();
            let table = application.catalog.tables[0].id;
            let result = workload.load_rows(1, table, &mut |row: Vec<Value>| {
                values.push(int(&row[0]).to_string());
                Ok(())
            });
            result.map_or_else(|error| error.message().to_string(), |_| values.join(" "))
        }
    }
}

#[test]
fn expressions_mean_what_they_say() {
    let cases = [
        ("i * 2 + 1", "3 5 7 9"),
        ("-i + 10 % 4", "1 0 -1 -2"),
        ("if(i > 1 and not (i = 3), i, 0)", "0 2 0 4"),
        ("if(1.5 < 1.50 or i >= 4, 1, 0)", "0 0 0 1"),
        ("min(i, 2) + max(i, 3)", "4 5 5 6"),
        ("coalesce(if(i = 2, null, i), 9)", "1 9 3 4"),
        ("if(is_null(if(i = 2, null, i)), 1, 0)", "0 1 0 0"),
        ("uniform_except(1, 2, 1) * i", "2 4 6 8"),
        ("(time('2000-01-02') - time('2000-01-01 23:59:00')) / 1_000_000", "60 60 60 60"),
        ("row * 10", "10 20 30 40"),
        ("pick(5)", "5 5 5 5"),
        ("uniform(5, 5)", "5 5 5 5"),
        ("i / 0", "workload: [load.t]: division by zero"),
        ("(i + 1) * 9_000_000_000_000_000_000", "workload: [load.t]: a number is out of range"),
        ("3_000_000_000", "workload: [load.t]: t.a: 3000000000 is not between -2147483648 and 2147483647"),
        ("uniform(i, 2)", "workload: [load.t]: the range 3..2 is empty"),
    ];
    for (expression, expected) in cases {
        let found = check(expression);
        assert_eq!(found, expected, "{expression}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let cases = [
        ("1 +", "workload.toml:3:9: expected a number, a 'text', a name or a call"),
        ("1 + 'x'", "workload.toml:3:10: expected a number, found a text"),
        ("1 + 'x", "workload.toml:3:10: a text without its closing quote"),
        ("j", "workload.toml:3:6: there is no name j here (the names that may be used here are i, row)"),
        ("unifrom(1, 2)", "workload.toml:3:6: there is no generator unifrom"),
        (
            "uniform(1)",
            "workload.toml:3:6: uniform takes other arguments (it is called as uniform(low, high))",
        ),
        ("uniform(2, 1)", "workload.toml:3:14: the range is empty: its low end is above its high end"),
        ("chance(1.5, 1, 2)", "workload.toml:3:13: a probability is between 0 and 1"),
        ("if(i, 1, 2)", "workload.toml:3:9: expected a boolean, found an integer"),
        ("1 + if(i = 1, null, 2)", "workload.toml:3:10: expected a number, found a value that may be null"),
        ("time('yesterday')", "workload.toml:3:11: 'yesterday' is not a time"),
        ("text(3)", "workload.toml:3:1: expected what fits integer, found a text"),
        ("1 # 2", "workload.toml:3:8: unexpected character #"),
        ("1 / 0", "workload.toml:3:6: division by zero"),
    ];
    for (expression, expected) in cases {
        let found = check(expression);
        assert!(found.starts_with(expected), "{expression}: {found}");
    }
    let files = [
        ("[lod.t]\n", "workload.toml:1:2: there is no section [lod]"),
        ("[mix\n", "workload.toml:1:5: unclosed table"),
        ("[load.u]\n", "workload.toml:1:7: there is no table u (the tables are t)"),
        ("[load.t]\nb = 1\n", "workload.toml:2:1: expected what fits character varying(3), found an integer"),
        ("[load.t]\n", "workload.toml:1:7: [load.t] has no generator for column a"),
        ("[load.t]\na = 1\nd = 1\n", "workload.toml:3:1: table t has no column d"),
        ("[load.t]\nfor = [\"t\"]\na = 1\n", "workload.toml:2:9: there is no [load.t] above this section"),
        (
            "[load.t]\nfor = [\"i in 1..uniform(1, 2)\"]\na = 1\n",
            "workload.toml:2:17: a loop's end may not be",
        ),
        ("[load.t]\na = [1]\n", "workload.toml:2:5: a cannot be a list, a table or a date"),
        ("[mix]\nq = 1\n", "workload.toml:2:1: there is no procedure q (the procedures are p)"),
        ("[mix]\np = -1\n", "workload.toml:2:5: a weight is a number from 0"),
        ("[mix]\np = 0\n", "workload.toml:2:1: no procedure has a weight above 0"),
        ("[parameters.p]\nx = 1\n", "workload.toml:1:13: [parameters.p] has no generator for y"),
        ("[parameters.p]\nz = 1\n", "workload.toml:2:1: procedure p has no IN parameter z"),
        ("[set]\nn = \"uniform(1, 2)\"\n", "workload.toml:2:1: n has no constant value"),
    ];
    for (toml, expected) in files {
        let found = parse(application(ONE_TABLE, ONE_PROCEDURE), toml, &[]).expect_err("it is wrong");
        assert!(found.lines().any(|line| line.starts_with(expected)), "{toml}: {found}");
    }
}

#[test]
fn overrides_must_name_what_can_be_set() {
    let found = parse(application(ONE_TABLE, ONE_PROCEDURE), "[set]\nn = 1\n", &[("m", "2")]);
    let message = "workload.toml:2:1: --set m=2: [set] has no name m (the names are n)";
    assert!(found.expect_err("there is no m").starts_with(message));
    let found = parse(application(ONE_TABLE, ONE_PROCEDURE), "[set]\nn = 1\n", &[("n", "two")]);
    assert!(
        found
            .expect_err("two is no name")
            .starts_with("workload.toml:2:1: --set n=two: there is no name two")
    );
}

#[test]
fn zipf_prefers_the_low_end() {
    let values = check("zipf(0.99, 1, 1000)");
    assert_eq!(values.split(' ').count(), 4);
    let toml = "[parameters.p]\nx = \"zipf(0.9, 1, 1000)\"\ny = \"array(1, 1)\"\n";
    let (_, workload) = parse(application(ONE_TABLE, ONE_PROCEDURE), toml, &[]).expect("right");
    let mut generator = CallGenerator::new(&workload, 1, 0);
    let mut frequency = vec![0u32; 1001];
    for _ in 0..20_000 {
        frequency[int(&generator.next_call().expect("fits").args[0]) as usize] += 1;
    }
    // 1 / (1 + 2^-0.9 + … + 1000^-0.9) is 9.4%.
    assert!((1600..2200).contains(&frequency[1]), "{}", frequency[1]);
    assert!(frequency[1] > frequency[2] && frequency[2] > frequency[10] && frequency[10] > frequency[500]);
}

/// Defaults that are no constants, as most applications have them.
const GENERATED_ELSEWHERE: &str = "CREATE TABLE person (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), \
    since timestamptz NOT NULL DEFAULT now(), state text NOT NULL DEFAULT 'new');
    CREATE TABLE visit (id bigserial PRIMARY KEY, person uuid NOT NULL REFERENCES person, at date DEFAULT current_date);";

const TOUCH: &str = "CREATE PROCEDURE touch(p uuid) LANGUAGE plpgsql AS $$ BEGIN
    UPDATE person SET since = now() WHERE id = p; INSERT INTO visit (person) VALUES (p); END; $$;";

#[test]
fn an_application_without_a_workload_gets_one_from_its_domains() {
    let bare = application(example!("payroll", "schema.sql"), example!("payroll", "procedures.sql"));
    let text = Workload::default_text(&bare);
    let lines = [
        "[load.phones]\nfor = [\"n in 1..rows\"]",
        "department_id = \"_parent_0\"",
        "[parameters.give_raise]\nemployee_id = \"uniform(1, rows)\"",
        "[parameters.hire_with_number]\nemployee_id = \"rows + 1 + unique\"",
        "new_department = \"uniform(1, rows)\"",
        "department_name = \"concat(rows + 1 + unique)\"",
    ];
    for line in lines {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    for (schema, procedures) in [
        (example!("payroll", "schema.sql"), example!("payroll", "procedures.sql")),
        (example!("tpcc", "schema.sql"), example!("tpcc", "procedures.sql")),
        (ONE_TABLE, ONE_PROCEDURE),
        (GENERATED_ELSEWHERE, TOUCH),
    ] {
        let application = application(schema, procedures);
        let text = Workload::default_text(&application);
        let (application, workload) =
            parse(application, &text, &[]).unwrap_or_else(|why| panic!("{why}\n{text}"));
        for table in &application.catalog.tables {
            assert_eq!(rows(&application, &workload, &table.name).len(), 100);
        }
        let mut generator = CallGenerator::new(&workload, 1, 0);
        for _ in 0..100 {
            generator.next_call().expect("the call fits");
        }
    }
}

#[test]
fn a_workload_made_by_weir_knows_enumerations_and_schemas() {
    let application = application(
        "create schema shop; create type mood as enum ('sad', 'it''s ok', 'glad');
         create domain amount as numeric(12, 2) check (value >= 0);
         create table shop.pet (id int primary key, mood mood not null, owed amount);",
        "create procedure see(p int, m mood) language plpgsql as $$ begin
         update shop.pet set mood = m where id = p; end $$;",
    );
    let text = Workload::default_text(&application);
    for expected in ["[load.\"shop.pet\"]", "mood = \"pick('sad', 'glad')\"", "m = \"pick('sad', 'glad')\""] {
        assert!(text.contains(expected), "{text}");
    }
    let mut application = application;
    let file = application.sources.add("workload.toml", text.clone());
    assert!(Workload::parse(&application, file, &[]).is_ok(), "{text}");
}
