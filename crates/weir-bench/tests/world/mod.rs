//! Small applications for the tests under faults: a schema and a workload as text, analysed.

#[allow(dead_code, reason = "each test uses its part")]
pub mod script;

use std::ops::Range;
use std::sync::Arc;

use weir_analysis::Analysis;
use weir_bench::Workload;
use weir_sql::{Application, Sources, Text};
use weir_txn::exec::program::Program;
use weir_types::SqlType;

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

/// Those that `WEIR_SEEDS=FROM..TO` says.
#[allow(dead_code, reason = "each test uses its part")]
pub fn seeds(otherwise: Range<u64>) -> Range<u64> {
    let Ok(given) = std::env::var("WEIR_SEEDS") else { return otherwise };
    let ends = given.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.expect("WEIR_SEEDS is FROM..TO")
}

/// A planted bug shows within so many seeds: a run with it says what is wrong.
#[allow(dead_code, reason = "each test uses its part")]
pub fn check_caught(name: &str, within: u64, run: impl Fn(u64) -> Option<String>) {
    let caught = (0..within).find_map(|seed| Some((seed, run(seed)?)));
    let (seed, why) = caught.unwrap_or_else(|| panic!("{name} was not caught"));
    println!("{name}: seed {seed}: {why}");
}
