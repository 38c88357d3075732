//! The same calls of one client on PostgreSQL 15 and on Weir, TPC-C with one shard and with four, the other
//! examples with one: the same results to the digit, the same SQLSTATEs, and in the end the same rows in every
//! table.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::on_postgres::{OnPostgres, SEED, call_text};
use postgres::SimpleQueryMessage;
use weir_bench::{Call, CallGenerator};
use weir_sim::Simulation;
use weir_sql::Application;
use weir_sql::bound::ParameterMode;
use weir_sql::catalog::Table;
use weir_txn::exec::program::Program;
use weir_txn::faults::NoFaults;
use weir_txn::message;
use weir_txn::shard::Node;
use weir_txn::storage::rows::Rows;
use weir_txn::storage::view::WholeView;
use weir_types::memory::WorkingMemory;
use weir_types::text::to_text;
use weir_types::{SqlType, Value};

/// An example at a size at which its calls meet.
struct Example {
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    calls: usize,
    on: &'static [(u16, Links)],
    /// Number of calls that are refused, on both.
    refused: std::ops::Range<usize>,
}

const ONE_SHARD: &[(u16, Links)] = &[(1, Links::Ordered)];

const TPCC: Example = Example {
    name: "tpcc",
    settings: &[
        ("warehouses", "4"),
        ("items", "200"),
        ("customers_per_district", "30"),
        ("remote_lines", "0.3"),
        ("remote_payments", "0.5"),
        ("rollback", "0.05"),
    ],
    calls: 2_000,
    on: &[(1, Links::Ordered), (4, Links::Ordered), (4, Links::Overtaking)],
    refused: 10..100,
};

const OTHERS: &[Example] = &[
    Example {
        name: "payroll",
        settings: &[("departments", "5"), ("employees", "50"), ("well_paid", "0.2")],
        calls: 1_500,
        on: ONE_SHARD,
        refused: 1..500,
    },
    Example {
        name: "smallbank",
        settings: &[("customers", "20"), ("hot_customers", "3"), ("hot", "0.8")],
        calls: 1_500,
        on: ONE_SHARD,
        refused: 1..800,
    },
    Example { name: "social", settings: &[("members", "60")], calls: 1_500, on: ONE_SHARD, refused: 1..500 },
    Example {
        name: "escrow-tickets",
        settings: &[("events", "3"), ("seats", "100"), ("tickets_each", "20"), ("houses", "1")],
        calls: 1_500,
        on: ONE_SHARD,
        refused: 1..900,
    },
    Example {
        name: "auction",
        settings: &[("auctions", "10"), ("bids_each", "3")],
        calls: 1_500,
        on: ONE_SHARD,
        refused: 1..200,
    },
    Example {
        name: "tpcw",
        settings: &[("items", "100"), ("customers", "100"), ("carts", "40"), ("ordering", "true")],
        calls: 1_500,
        on: ONE_SHARD,
        refused: 1..200,
    },
    Example {
        name: "rubis",
        settings: &[
            ("users", "100"),
            ("items", "30"),
            ("old_items", "30"),
            ("taken_nicknames", "0.5"),
            ("pieces_max", "20"),
        ],
        calls: 2_000,
        on: ONE_SHARD,
        refused: 1..200,
    },
];

/// Values as text; `None` is NULL.
type Line = Vec<Option<String>>;
/// OUT and INOUT parameters in their order, or the SQLSTATE.
type Answer = Result<Line, String>;
/// By name; the lines sorted, because HISTORY has no key.
type Tables = BTreeMap<String, Vec<Line>>;

fn shown(value: &Value, ty: &SqlType) -> Option<String> {
    (!matches!(value, Value::Null)).then(|| to_text(value, ty))
}

fn lines(messages: &[SimpleQueryMessage]) -> Vec<Line> {
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| (0..row.len()).map(|column| row.get(column).map(str::to_string)).collect()).collect()
}

fn answers_of_postgres(database: &mut OnPostgres, calls: &[Call]) -> Vec<Answer> {
    let answer = |call| {
        let sql = call_text(&database.application, call);
        match database.client.simple_query(&sql) {
            // No line where nothing goes out.
            Ok(messages) => Ok(lines(&messages).pop().unwrap_or_default()),
            Err(error) => Err(error.code().unwrap_or_else(|| panic!("{sql}: {error}")).code().to_string()),
        }
    };
    calls.iter().map(answer).collect()
}

fn tables_of_postgres(database: &mut OnPostgres) -> Tables {
    let mut tables = Tables::new();
    for table in &database.application.catalog.tables {
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        let sql = format!("SELECT {} FROM {}", names.join(", "), table.name);
        let mut rows = lines(&database.client.simple_query(&sql).expect("the table can be read"));
        rows.sort();
        tables.insert(table.name.clone(), rows);
    }
    tables
}

/// The order of the calls on Weir.
#[derive(Clone, Copy, Debug)]
enum Links {
    /// Messages between two nodes keep their order, as the server's links do. A call begins with the
    /// answer to the one before, behind its COMMITs, and must see what it wrote.
    Ordered,
    /// Messages overtake one another, so a call waits until the one before is over on every shard.
    Overtaking,
}

fn on_weir(database: &OnPostgres, calls: &[Call], shards: u16, links: Links) -> (Vec<Answer>, Tables) {
    let application = &database.application;
    let analysis = weir_analysis::analyze(application);
    let program =
        Arc::new(Program::compile(application, &analysis.plan, shards).expect("the example compiles"));
    // Equal delays keep the order; others are drawn from 1 up to so many microseconds.
    let (delay_us_max, at_once) = match links {
        Links::Ordered => (1, calls.len()),
        Links::Overtaking => (50, 1),
    };
    let mut simulation = Simulation::new(&program, 1, SEED, delay_us_max, NoFaults);
    for &table in database.workload.load_order() {
        let mut load = |values: Vec<Value>| Node::load_row(&mut simulation.nodes, &program, table, &values);
        database.workload.load_rows(SEED, table, &mut load).expect("the population loads");
    }
    let mut answers: Vec<Answer> = Vec::new();
    for together in calls.chunks(at_once) {
        let mut left = together.iter();
        let mut next_call = |_| {
            let Call { procedure, args } = left.next()?.clone();
            Some(message::Call {
                callee: message::Callee::Procedure(procedure),
                args,
                transaction_time: 0.into(),
                schema_version: 0,
                memory: WorkingMemory::default(),
            })
        };
        simulation.run(1, &[], &mut next_call, &mut |_, result| {
            let types = result_types(application, calls[answers.len()].procedure);
            answers.push(match result {
                Ok(output) => {
                    assert_eq!(output.values.len(), types.len(), "one value per parameter that goes out");
                    Ok(output.values.iter().zip(types).map(|(value, ty)| shown(value, ty)).collect())
                }
                Err(error) => Err(error.state().to_string()),
            });
        });
    }
    let replicated = program.replicated();
    let view = WholeView::new(simulation.nodes.iter().map(|node| &*node.storage).collect(), replicated);
    let tables = application.catalog.tables.iter();
    (answers, tables.map(|table| (table.name.clone(), table_of_weir(&view, table))).collect())
}

/// The types of the OUT and INOUT parameters.
fn result_types(application: &Application, procedure: usize) -> Vec<&SqlType> {
    let parameters = application.procedures[procedure].parameters.iter();
    parameters
        .filter(|parameter| parameter.mode != ParameterMode::In)
        .map(|parameter| &parameter.ty)
        .collect()
}

fn table_of_weir(view: &WholeView<'_>, table: &Table) -> Vec<Line> {
    let mut rows = Vec::new();
    let end = view.scan(table.id, &mut |row| {
        let columns = table.columns.iter().enumerate();
        rows.push(
            columns.map(|(index, column)| shown(&view.value(table.id, row, index), &column.ty)).collect(),
        );
        Ok(ControlFlow::Continue(()))
    });
    assert!(end.expect("the table can be read").is_continue());
    rows.sort();
    rows
}

#[track_caller]
fn check(example: &Example) {
    let Example { name, settings, calls, on, refused } = example;
    let mut database = OnPostgres::start(name, settings);
    let mut generator = CallGenerator::new(&database.workload, SEED, 0);
    let calls: Vec<Call> = (0..*calls).map(|_| generator.next_call().expect("calls never end")).collect();
    let expected = answers_of_postgres(&mut database, &calls);
    let expected_tables = tables_of_postgres(&mut database);
    let failed = expected.iter().filter(|answer| answer.is_err()).count();
    assert!(refused.contains(&failed), "{name}: {failed} calls are refused");
    for &(shards, links) in *on {
        let (answers, tables) = on_weir(&database, &calls, shards, links);
        let place = format!("{name}, {shards} shards, {links:?}");
        assert_eq!(answers.len(), calls.len(), "{place}");
        for (number, call) in calls.iter().enumerate() {
            let sql = call_text(&database.application, call);
            assert_eq!(answers[number], expected[number], "{place}, call {number}: {sql}");
        }
        for (table, rows) in &expected_tables {
            let found = &tables[table];
            assert_eq!(found.len(), rows.len(), "{place}, rows of {table}");
            let different = found.iter().zip(rows).find(|(found, row)| found != row);
            assert_eq!(different, None, "{place}: a row of {table} here and in PostgreSQL");
        }
    }
}

#[test]
fn weir_answers_tpcc_as_postgresql_does_with_one_shard_and_with_four() {
    check(&TPCC);
}

#[test]
fn weir_answers_the_other_examples_as_postgresql_does() {
    OTHERS.iter().for_each(check);
}
