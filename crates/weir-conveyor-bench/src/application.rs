//! An application with its workload: its files, which the program contains, its plan, its rows and its calls.

use std::sync::Arc;

use weir_bench::Workload;
use weir_conveyor_plan::{Plan, application_of};
use weir_sql::{Application, Sources};

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

/// The files of an application: its SQL, and its workload as the last one.
pub type Files = [(&'static str, &'static str)];

macro_rules! files {
    ($folder:literal: $($name:literal),*) => {
        &[$(($name, include_str!(concat!("../../../", $folder, "/", $name)))),*]
    };
}
pub const TPCW: &Files =
    files!("examples/tpcw": "schema.sql", "procedures.sql", "invariants.sql", "workload.toml");
pub const RUBIS: &Files =
    files!("examples/rubis": "schema.sql", "procedures.sql", "invariants.sql", "workload.toml");
const MICRO: &Files = files!(
    "crates/weir-conveyor-bench/applications/conveyor-micro": "schema.sql", "procedures.sql", "workload.toml"
);

impl Bench {
    /// `set`: settings of the workload that differ from its file.
    ///
    /// # Errors
    /// There is no such application, or a file or setting is wrong.
    pub fn of(name: &str, set: &[(String, String)]) -> Result<Bench, String> {
        let (files, pause_ms) = match name {
            "tpcw" => (TPCW, 0),
            "rubis" => (RUBIS, 0),
            "conveyor-micro" => (MICRO, 5),
            other => return Err(format!("there is no workload {other}; there are {}", NAMES.join(", "))),
        };
        let named = |(file, text): &(&str, &str)| (format!("{name}/{file}"), (*text).to_owned());
        let (workload, sql) = files.split_last().expect("an application has files");
        let mut sources = Sources::default();
        for (file, text) in sql.iter().map(named) {
            sources.add(file, text);
        }
        let (mut application, weights) =
            application_of(sources, Some(named(workload))).map_err(|error| error.to_string())?;
        let plan = Plan::of_application(&application, &weights).map_err(|error| error.to_string())?;
        // The last source is the workload, whose frequencies were read.
        let files = application.sources.files.len() - 1;
        let text = application.sources.files[files].text.clone();
        let file = application.sources.add("workload.toml", text);
        let workload = Workload::parse(&application, file, set).map_err(|wrong| {
            let said = |one: &weir_sql::Diagnostic| {
                let hint = one.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                format!("{}: {}{hint}", application.sources.place(one.span), one.message)
            };
            wrong.iter().map(said).collect::<Vec<_>>().join("\n")
        })?;
        Ok(Bench { name: name.into(), application, plan, workload: Arc::new(workload), files, pause_ms })
    }
}
