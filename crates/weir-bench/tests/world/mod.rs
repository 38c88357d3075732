//! Small applications for the tests under faults: a schema and a workload as text, analysed.

pub mod accounts;
#[allow(dead_code, reason = "each test uses its part")]
pub mod script;

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::{Arc, Mutex};

use weir_analysis::Analysis;
use weir_bench::simulate::Simulated;
use weir_bench::{CallGenerator, Workload};
use weir_sim::calls::{Report, Script, Setup};
use weir_sql::bound::Statement;
use weir_sql::catalog::TableId;
use weir_sql::{Application, Sources, Text};
use weir_txn::exec::gather::Gather;
use weir_txn::exec::program::Program;
use weir_txn::faults::Faults;
use weir_txn::message::{Call, Callee};
use weir_txn::storage::Rows;
use weir_types::memory::WorkingMemory;
use weir_types::text::to_text;
use weir_types::{SqlType, Value};

pub struct World {
    pub application: Application,
    pub analysis: Analysis,
    pub workload: Arc<Workload>,
}

impl World {
    pub fn of(schema: &str, workload: &str) -> World {
        let mut sources = Sources::default();
        sources.add("schema.sql", schema);
        let mut application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
        let analysis = weir_analysis::analyze(&application);
        let file = application.sources.add("workload.toml", workload);
        let workload = Workload::parse(&application, file, &[]).unwrap_or_else(|errors| panic!("{errors:?}"));
        World { application, analysis, workload: Arc::new(workload) }
    }

    /// An example with these settings of its workload, its files changed where the test says so.
    #[allow(dead_code, reason = "each test uses its part")]
    pub fn example(name: &str, settings: &[(&str, &str)], change: &dyn Fn(&str, String) -> String) -> World {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        let text = |name: &str| {
            change(name, std::fs::read_to_string(directory.join(name)).expect("the example is there"))
        };
        let mut sources = Sources::default();
        for name in ["schema.sql", "procedures.sql", "invariants.sql"] {
            sources.add(name, text(name));
        }
        let mut application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
        let analysis = weir_analysis::analyze(&application);
        let file = application.sources.add("workload.toml", text("workload.toml"));
        let settings: Vec<(String, String)> =
            settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let workload =
            Workload::parse(&application, file, &settings).unwrap_or_else(|errors| panic!("{errors:?}"));
        World { application, analysis, workload: Arc::new(workload) }
    }

    /// SmallBank with a few customers, and without the transactions that bring money in or take it out: emptying an account holds it, by
    /// claims of a part that waits for its COMMIT.
    #[allow(dead_code, reason = "each test uses its part")]
    pub fn smallbank() -> World {
        let change = |name: &str, mut text: String| {
            if name == "workload.toml" {
                for name in ["deposit_checking", "transact_savings", "write_check"] {
                    let line = format!("{name} = 15\n");
                    assert!(text.contains(&line), "the mix has {name}");
                    text = text.replace(&line, &format!("{name} = 0\n"));
                }
            }
            text
        };
        World::example("smallbank", &[("customers", "12"), ("hot_customers", "3"), ("hot", "0.8")], &change)
    }

    #[allow(dead_code, reason = "each test uses its part")]
    pub fn simulated(&self) -> Simulated<'_> {
        Simulated::new(&self.application, &self.analysis, &self.workload)
    }

    /// For statements by themselves, too.
    #[allow(dead_code, reason = "each test uses its part")]
    pub fn program(&self, shards: u16) -> Program {
        let plan = &self.analysis.plan;
        let program = Program::compile(&self.application, plan, shards).unwrap();
        program.with_texts(&self.application, plan)
    }
}

/// A statement of so many integers.
pub fn text(sql: &str, parameters: usize) -> Arc<Text> {
    Arc::new(Text { sql: sql.to_owned(), types: vec![SqlType::Int4; parameters] })
}

/// The query, compiled.
#[allow(dead_code, reason = "each test uses its part")]
pub fn query(application: &Application, program: &Program, sql: &str) -> Arc<Gather> {
    let (statement, types) = weir_sql::bind_statement(&application.catalog, sql, None).unwrap();
    let Statement::Query(query) = statement else { panic!("{sql}") };
    Arc::new(Gather::compile(&query, types.len(), program).unwrap())
}

/// A call with these integers, in the schema version that there is at first.
pub fn call(callee: Callee, args: &[i64]) -> Call {
    let args = args.iter().map(|arg| Value::Int(*arg)).collect();
    Call { callee, args, transaction_time: 0.into(), schema_version: 0, memory: WorkingMemory::default() }
}

/// A statement with these integers.
#[allow(dead_code, reason = "each test uses its part")]
pub fn statement(sql: &str, args: &[i64]) -> Call {
    call(Callee::Text(text(sql, args.len())), args)
}

/// Returns a generator of calls of the workload for its clients, which ends after `calls` of them.
#[allow(dead_code, reason = "each test uses its part")]
pub fn next_call(
    workload: &Arc<Workload>,
    seed: u64,
    (clients, calls): (usize, usize),
) -> impl FnMut(usize) -> Option<Call> {
    let mut generators: Vec<CallGenerator> =
        (0..clients).map(|client| CallGenerator::new(workload, seed, client as u64)).collect();
    let mut left = calls;
    move |client| {
        left = left.checked_sub(1)?;
        let call = generators[client].next_call().expect("calls never end");
        let callee = Callee::Procedure(call.procedure);
        Some(Call { args: call.args, ..self::call(callee, &[]) })
    }
}

/// Money in the two accounts of everybody, in hundredths.
#[allow(dead_code, reason = "each test uses its part")]
pub fn sum_of_balances(application: &Application, rows: &dyn Rows) -> i64 {
    let mut sum = 0;
    for name in ["savings", "checking"] {
        let table = application.catalog.table_by_name(name).expect("the table");
        let balance = table.columns.iter().position(|column| column.name == "balance").expect("the column");
        let end = rows.scan(table.id, &mut |row| {
            let text = to_text(&rows.value(table.id, row, balance), &table.columns[balance].ty);
            sum += text.replace('.', "").parse::<i64>().expect("two digits behind the point");
            Ok(ControlFlow::Continue(()))
        });
        assert!(end.expect("the table can be read").is_continue());
    }
    sum
}

/// Integers of that column, of all rows.
#[allow(dead_code, reason = "each test uses its part")]
pub fn integers(rows: &dyn Rows, table: TableId, column: usize) -> Vec<i64> {
    let mut integers = Vec::new();
    let end = rows.scan(table, &mut |row| {
        if let Value::Int(one) = rows.value(table, row, column) {
            integers.push(one);
        }
        Ok(ControlFlow::Continue(()))
    });
    assert!(end.expect("the table can be read").is_continue());
    integers
}

/// Runs the script, and gives what its sessions were told. With `WEIR_LOG` set the log of the run is written to a file.
#[allow(dead_code, reason = "each test uses its part")]
pub fn run<T: Default, F: Faults>(
    simulated: &mut Simulated<'_>,
    (name, setup): (&str, Setup<F>),
    told: &Mutex<T>,
    script: impl Script,
) -> (Report, T) {
    let (seed, logged) = (setup.seed, std::env::var("WEIR_LOG").is_ok());
    let setup = Setup { logged, ..setup };
    let report = simulated.run_script(&setup, script).unwrap_or_else(|error| panic!("{error:?}"));
    if logged {
        let path = std::env::temp_dir().join(format!("weir-{name}-{seed}.log"));
        std::fs::write(path, &report.log).unwrap();
    }
    (report, std::mem::take(&mut *told.lock().unwrap()))
}

/// Those that `WEIR_SEEDS=FROM..TO` says.
#[allow(dead_code, reason = "each test uses its part")]
pub fn seeds(otherwise: Range<u64>) -> Range<u64> {
    let Ok(given) = std::env::var("WEIR_SEEDS") else { return otherwise };
    let ends = given.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.expect("WEIR_SEEDS is FROM..TO")
}

/// A world has done often enough what its test is about. Nothing is asked of seeds that `WEIR_SEEDS` gives, which may be few.
#[allow(dead_code, reason = "each test uses its part")]
pub fn check_reached(is_enough: bool, counted: &dyn std::fmt::Debug) {
    assert!(is_enough || std::env::var_os("WEIR_SEEDS").is_some(), "{counted:?}");
}

/// A planted bug shows within so many seeds: a run with it says what is wrong.
#[allow(dead_code, reason = "each test uses its part")]
pub fn check_caught(name: &str, within: u64, run: impl Fn(u64) -> Option<String>) {
    let caught = (0..within).find_map(|seed| Some((seed, run(seed)?)));
    let (seed, why) = caught.unwrap_or_else(|| panic!("{name} was not caught"));
    println!("{name}: seed {seed}: {why}");
}
