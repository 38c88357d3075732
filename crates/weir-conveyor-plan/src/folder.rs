//! Reads an application's folder as `weir analyze` does: which files, in which order, and the frequencies beside them.

use std::fmt;
use std::path::Path;

use weir_analysis::Weights;
use weir_bench::Workload;
use weir_sql::ways::layout::{self, LayoutError};
use weir_sql::{Application, Diagnostic, Reading, Sources};

/// The file with the frequencies of the transactions.
const WORKLOAD: &str = "workload.toml";
/// Folders that hold no application of their own, and how deep one may lie.
const SKIPPED: [&str; 4] = ["node_modules", "target", "vendor", "dist"];
const DEPTH_MAX: usize = 8;
const LAYOUT: &str =
    "name a folder with schema.sql and procedures.sql or transactions.sql, as for `weir analyze`";

/// Why an application cannot be read or carried. Each problem is a message with place and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub problems: Vec<String>,
}

impl Error {
    pub(crate) fn one(place: impl fmt::Display, what: impl fmt::Display, hint: &str) -> Error {
        Error { problems: vec![format!("{place}: error: {what}\nhint: {hint}")] }
    }

    pub(crate) fn of(sources: &Sources, wrong: &[Diagnostic]) -> Error {
        Error { problems: wrong.iter().map(|one| said(sources, one)).collect() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for Error {}

fn said(sources: &Sources, wrong: &Diagnostic) -> String {
    let hint = wrong.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    format!("{}: error: {}{hint}", sources.place(wrong.span), wrong.message)
}

/// The application in a folder, and how often its transactions are called relative to each other: once each, if there is no workload.
///
/// # Errors
/// A file is missing or wrong.
pub fn read_application(folder: &Path) -> Result<(Application, Weights), Error> {
    let mut names = Vec::new();
    list(folder, "", 0, &mut names)?;
    let chosen = layout::choose(&names).map_err(|problem| {
        let what = match problem {
            LayoutError::Nothing => "there is no schema.sql in this folder, and no migrations".to_owned(),
            LayoutError::Ambiguous(folders) => {
                format!("these could all be the migrations: {}", folders.join(", "))
            }
        };
        Error::one(folder.display(), what, LAYOUT)
    })?;
    let mut sources = Sources::default();
    for name in chosen {
        let (name, text) = read(&folder.join(name))?;
        sources.add(name, text);
    }
    let workload = folder.join(WORKLOAD);
    let workload = if workload.is_file() { Some(read(&workload)?) } else { None };
    application_of(sources, workload)
}

/// The application of these sources, and how often its transactions are called by the workload, which has a name and a text.
///
/// # Errors
/// A text is wrong.
pub fn application_of(
    sources: Sources,
    workload: Option<(String, String)>,
) -> Result<(Application, Weights), Error> {
    let read = weir_sql::load_with(sources, Reading::Tolerant);
    let mut application = read.map_err(|(sources, wrong)| Error::of(&sources, &wrong))?;
    let weights = match workload {
        Some((name, text)) => weights(&mut application, name, text)?,
        None => Weights::default(),
    };
    Ok((application, weights))
}

/// Every file below the folder, by its path from there.
fn list(folder: &Path, prefix: &str, depth: usize, names: &mut Vec<String>) -> Result<(), Error> {
    for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
        let entry = entry.map_err(|error| unreadable(folder, &error))?;
        // A name that is no text is none that a layout has.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Ok(kind) = std::fs::metadata(entry.path()) else { continue };
        let is_hidden = name.starts_with('.') && name != ".sqlx";
        if !kind.is_dir() {
            names.push(format!("{prefix}{name}"));
        } else if !is_hidden && !SKIPPED.contains(&name.as_str()) && depth < DEPTH_MAX {
            list(&entry.path(), &format!("{prefix}{name}/"), depth + 1, names)?;
        }
    }
    Ok(())
}

/// Name and text of a file.
fn read(path: &Path) -> Result<(String, String), Error> {
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::one(path.display(), "it is not UTF-8", "save the file as UTF-8 text"))?;
    Ok((path.display().to_string(), text.trim_start_matches('\u{feff}').to_owned()))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::one(path.display(), error, LAYOUT)
}

/// Frequencies from the `[mix]` of the workload, scaled so that their mean is 1, as `weir analyze` takes them.
fn weights(application: &mut Application, name: String, text: String) -> Result<Weights, Error> {
    let source = application.sources.add(name, text);
    let frequencies = Workload::frequencies(application, source)
        .map_err(|wrong| Error::of(&application.sources, &wrong))?;
    let unit = frequencies.iter().sum::<f64>() / frequencies.len().max(1) as f64;
    let names = application.procedures.iter().map(|procedure| procedure.name.clone());
    let scaled = frequencies.into_iter().map(|frequency| frequency / unit);
    Ok(Weights { by_name: names.zip(scaled).collect() })
}
