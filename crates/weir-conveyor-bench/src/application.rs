//! An application with its workload: the folder, its plan, its rows and its calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_bench::Workload;
use weir_conveyor_plan::{Plan, read_application};
use weir_sql::Application;

/// The applications that the benchmark knows, and the folder of each.
pub const NAMES: [&str; 3] = ["tpcw", "rubis", "conveyor-micro"];

/// An application as it is run.
pub struct Bench {
    pub name: String,
    pub application: Application,
    pub plan: Plan,
    pub workload: Arc<Workload>,
    /// Number of files with SQL among the sources.
    pub files: usize,
    /// Each operation waits for so long.
    pub pause_ms: u64,
}

/// Where the sources of Weir are; the benchmark is run from them.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Bench {
    /// `set`: settings of the workload that differ from its file.
    ///
    /// # Errors
    /// There is no such application, or a file or setting is wrong.
    pub fn of(name: &str, set: &[(String, String)]) -> Result<Bench, String> {
        let (folder, pause_ms) = match name {
            "tpcw" | "rubis" => (root().join("examples").join(name), 0),
            "conveyor-micro" => (root().join("crates/weir-conveyor-bench/applications").join(name), 5),
            other => return Err(format!("there is no workload {other}; there are {}", NAMES.join(", "))),
        };
        let (mut application, weights) = read_application(&folder).map_err(|error| error.to_string())?;
        let plan = Plan::of_application(&application, &weights).map_err(|error| error.to_string())?;
        // The last source is the workload, whose frequencies were read.
        let files = application.sources.files.len() - 1;
        let text = application.sources.files[files].text.clone();
        let file = application.sources.add("workload.toml", text);
        let workload = Workload::parse(&application, file, set).map_err(|wrong| {
            let said = |one: &weir_sql::Diagnostic| {
                format!("{}: {}", application.sources.place(one.span), one.message)
            };
            wrong.iter().map(said).collect::<Vec<_>>().join("\n")
        })?;
        Ok(Bench { name: name.into(), application, plan, workload: Arc::new(workload), files, pause_ms })
    }
}
