//! From the command line's PATH to an application, its analysis and its workload.
//!
//! Every way for the input to be wrong ends here as a message with its place.

use std::path::{Path, PathBuf};

use serde_json::Value;
use weir_analysis::{Analysis, TextStyle};
use weir_bench::Workload;
use weir_sql::{Application, Diagnostic, Sources};

use crate::output::Failure;
use crate::{diagnostic, input, output};

pub struct Loaded {
    pub application: Application,
    pub analysis: Analysis,
}

impl Loaded {
    pub fn from_paths(paths: &[PathBuf]) -> Result<Loaded, Failure> {
        Loaded::from_sources(input::read_sources(paths)?)
    }

    pub fn from_sources(sources: Sources) -> Result<Loaded, Failure> {
        let application = weir_sql::load(sources).map_err(|(sources, wrong)| refused(&sources, &wrong))?;
        let analysis = weir_analysis::analyze(&application);
        Ok(Loaded { application, analysis })
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

/// The text of a directory's workload.toml.
pub fn workload_file(directory: &Path) -> Result<(String, String), Failure> {
    let path = directory.join("workload.toml");
    if !path.exists() {
        return Err(Failure::input(format!(
            "{}: error: there is no workload.toml here, so nothing says what to call\n\
             hint: add one with [load], [mix] and [parameters]; examples/payroll has a short one",
            directory.display()
        )));
    }
    Ok((path.display().to_string(), input::read_text(&path)?))
}

pub fn refused(sources: &Sources, wrong: &[Diagnostic]) -> Failure {
    Failure::Input(diagnostic::render_all(sources, wrong))
}
