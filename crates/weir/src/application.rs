//! From the command line's PATH to an application, its analysis and its workload.
//!
//! Every way for the input to be wrong ends here as a message with its place.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use weir_analysis::{Analysis, Placement, Proofs, TextStyle, Weights, said_placement};
use weir_bench::Workload;
use weir_bench::run::RunOptions;
use weir_client::{ClusterFile, Description, Terms};
use weir_sql::catalog::Table;
use weir_sql::{Application, Diagnostic, Reading, Sources};
use weir_types::SqlState;

use crate::output::Failure;
use crate::solver::Z3;
use crate::{diagnostic, input, output, settings, weights};

pub struct Loaded {
    pub application: Application,
    pub analysis: Analysis,
    /// The first `files` sources are the SQL that was read.
    files: usize,
}

impl Loaded {
    pub fn from_paths(paths: &[PathBuf], reading: Reading) -> Result<Loaded, Failure> {
        let sources = input::read_sources(paths)?;
        let files = sources.files.len();
        let mut application = read_for(sources, reading)?;
        settings::apply(&mut application, paths)?;
        let weights = weights::of(&mut application, paths, None, None)?;
        Ok(Loaded { files, ..Loaded::of(application, &weights) })
    }

    pub fn from_sources(sources: Sources, reading: Reading) -> Result<Loaded, Failure> {
        Ok(Loaded::of(read_for(sources, reading)?, &Weights::default()))
    }

    pub fn of(application: Application, weights: &Weights) -> Loaded {
        let mut solver = Z3::start();
        let proofs = match &mut solver {
            Ok(solver) => Proofs::Solver(solver),
            Err(why) => Proofs::Missing(why),
        };
        let mut analysis = weir_analysis::analyze_with(&application, weights, proofs);
        analysis.runs = weir_txn::exec::admission::runs(&application, &analysis.plan);
        Loaded { files: application.sources.files.len(), application, analysis }
    }

    /// With a witness for every verdict that is not confluent, and an execution for every anomaly, where the search
    /// finds one.
    pub fn with_witnesses(mut self) -> Loaded {
        weir_search::attach(&self.application, &mut self.analysis, weir_search::Limits::default());
        let limits = weir_search::ShowLimits::default();
        weir_search::show::anomalies(&self.application, &mut self.analysis, limits);
        self
    }

    /// The document of `weir analyze --format json`.
    pub fn plan(&self) -> Value {
        weir_analysis::to_json(&self.application, &self.analysis)
    }

    /// The plan as a person reads it, as wide as the terminal.
    pub fn plan_text(&self) -> String {
        let style = TextStyle { width: output::width(), colours: true };
        weir_analysis::to_text(&self.application, &self.analysis, style)
    }

    /// Reads a workload; its text becomes one of the application's sources, so that messages can point.
    pub fn workload(
        &mut self,
        name: String,
        text: String,
        settings: &[(String, String)],
    ) -> Result<Workload, Failure> {
        let file = self.application.sources.add(name, text);
        Workload::parse(&self.application, file, settings)
            .map_err(|wrong| refused(&self.application.sources, &wrong))
    }
}

/// An application as a cluster carries it: analysed, with the workload that fills its tables.
pub struct Carried {
    pub loaded: Loaded,
    pub workload: Workload,
    pub options: RunOptions,
    pub terms: Terms,
    placement: u64,
}

impl Carried {
    /// `path`: where the application is.
    pub fn of(
        path: &Path,
        cluster: &ClusterFile,
        named: &weir_client::Application,
    ) -> Result<Carried, Failure> {
        let mut loaded = Loaded::from_paths(&[path.to_owned()], Reading::Strict)?;
        let (name, mut text) = workload_source(&loaded, path)?;
        // Rows are only invented on request.
        if !workload_file(path).exists() && !named.set.contains_key(ROWS) {
            text = Workload::default_text_without_rows(&loaded.application);
        }
        let workload = loaded.workload(name, text, &named.settings())?;
        let options = RunOptions { seed: named.seed, ..RunOptions::new(cluster.shards) };
        let placement = fingerprint(&loaded, named);
        let terms = cluster.terms_of(weir_client::SQL, placement);
        Ok(Carried { loaded, workload, options, terms, placement })
    }

    /// Description for clients.
    pub fn description(&self) -> Description {
        Description::new(self.described(), self.placement)
    }

    /// Initial state of the database.
    pub fn begun(&self) -> Bare {
        Bare { described: self.described(), placement: self.placement }
    }

    pub fn described(&self) -> weir_txn::exec::definition::Description {
        let Loaded { application, analysis, files } = &self.loaded;
        weir_txn::exec::definition::Description::new(application, *files, &analysis.plan)
    }
}

/// Initial state of a database whose rows are in its logs: tables without procedures and rows, or nothing.
#[derive(Clone)]
pub struct Bare {
    pub described: weir_txn::exec::definition::Description,
    pub placement: u64,
}

impl Bare {
    /// None: it has procedures, so it is planned and filled.
    pub fn of(path: Option<&Path>) -> Result<Option<Bare>, Failure> {
        let sources = match path {
            Some(path) => input::read_sources(&[path.to_owned()])?,
            None => Sources::default(),
        };
        let files = sources.files.len();
        let application = read(sources, Reading::Strict)?;
        if !application.procedures.is_empty() {
            return Ok(None);
        }
        let described = weir_txn::exec::definition::Description::of_schema(&application, files);
        // Builds before placed all tables by the first column: they agree only where this one does, too.
        let placement = &described.plan().placement;
        let by_first = |(table, placement): (&Table, &Placement)| {
            let first = table.primary_key.as_ref().map_or(0, |key| key.columns[0]);
            said_placement(table).is_some() || placement.columns() == Some(&[first])
        };
        let is_as_before = application.catalog.tables.iter().zip(placement.iter()).all(by_first);
        let placed = (!is_as_before).then(|| format!("{placement:?}"));
        let mut hash = Sha256::new();
        let texts = application.sources.files.iter().map(|file| file.text.as_str());
        for part in texts.chain(["bare"]).chain(placed.as_deref()) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let placement = u64::from_le_bytes(*hash.finalize().first_chunk().expect("32 bytes"));
        Ok(Some(Bare { described, placement }))
    }
}

/// Fingerprint of everything that determines the plan and the population.
fn fingerprint(loaded: &Loaded, named: &weir_client::Application) -> u64 {
    let mut hash = Sha256::new();
    let settings = format!("{:?} {}", named.settings(), named.seed);
    // Without a solver, or with another, it may be another one.
    let plan = format!("{:?}", loaded.analysis.plan);
    let texts = loaded.application.sources.files.iter().map(|file| file.text.as_str());
    for part in texts.chain([settings.as_str(), &plan, env!("CARGO_PKG_VERSION")]) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    u64::from_le_bytes(*hash.finalize().first_chunk().expect("32 bytes"))
}

/// As [`read`]. A unique index that is partial or on an expression is held by hidden columns where the application is to run, as a server
/// holds it, so that whatever `weir serve` takes `weir run` takes.
fn read_for(sources: Sources, reading: Reading) -> Result<Application, Failure> {
    let again = (reading == Reading::Strict).then(|| sources.clone());
    let application = read(sources, reading)?;
    let is_computed = |index: &weir_sql::catalog::Index| {
        index.unique && (index.predicate.is_some() || index.plain_columns().is_none())
    };
    match again
        .filter(|_| application.catalog.tables.iter().flat_map(|table| &table.indexes).any(is_computed))
    {
        Some(sources) => read(sources, Reading::Running),
        None => Ok(application),
    }
}

/// Text to application; what is wrong with it becomes a message.
pub fn read(sources: Sources, reading: Reading) -> Result<Application, Failure> {
    weir_sql::load_with(sources, reading).map_err(|(sources, mut wrong)| {
        let creates = |line: &str| {
            line.starts_with("create ") && line.split_whitespace().take(3).any(|word| word == "table")
        };
        let defines = |text: &str| text.lines().any(|line| creates(&line.trim_start().to_ascii_lowercase()));
        if !sources.files.iter().any(|file| defines(&file.text)) {
            for one in wrong.iter_mut().filter(|one| one.state == SqlState::UNDEFINED_TABLE) {
                let hint = "no table is defined here; name the schema too, before what uses it: \
                            weir analyze schema.sql procedures.sql";
                one.hint = Some(hint.to_owned());
            }
        }
        refused(&sources, &wrong)
    })
}

/// Where it would lie.
pub fn workload_file(path: &Path) -> PathBuf {
    path.join("workload.toml")
}

/// The setting of a workload that Weir has made: how many rows a table begins with.
pub const ROWS: &str = "rows";

/// Name and text of the workload that lies in a directory, or of one made from the columns' domains, which is said.
pub fn workload_text(loaded: &Loaded, path: &Path) -> Result<(String, String), Failure> {
    let source = workload_source(loaded, path)?;
    if !workload_file(path).exists() {
        output::print_remark(
            "weir: there is no workload.toml; rows and parameters come from the columns' domains",
        );
    }
    Ok(source)
}

fn workload_source(loaded: &Loaded, path: &Path) -> Result<(String, String), Failure> {
    if loaded.application.procedures.is_empty() {
        return Err(Failure::input(format!(
            "{}: error: there is no procedure, so there is nothing to run\n\
             hint: add CREATE PROCEDURE statements in procedures.sql; `weir analyze` needs none",
            path.display()
        )));
    }
    let file = workload_file(path);
    if file.exists() {
        return Ok((file.display().to_string(), input::read_text(&file)?));
    }
    Ok(("workload.toml (made by weir)".to_owned(), Workload::default_text(&loaded.application)))
}

pub fn refused(sources: &Sources, wrong: &[Diagnostic]) -> Failure {
    let error = |diagnostic: &Diagnostic| {
        let place = sources.place(diagnostic.span);
        json!({
            "message": diagnostic.message,
            "state": diagnostic.state.to_string(),
            "hint": diagnostic.hint,
            "source": { "file": place.file, "line": place.line, "column": place.column },
        })
    };
    Failure::Refused {
        message: diagnostic::render_all(sources, wrong),
        errors: wrong.iter().map(error).collect(),
    }
}
