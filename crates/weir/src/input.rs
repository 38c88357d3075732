//! From PATHs on the command line to the texts of one application.
//!
//! Reads files and nothing else; what is in them is for `weir-sql` to judge.

use std::path::{Path, PathBuf};

use weir_conveyor_bench::application::{Files, RUBIS, TPCW};
use weir_sql::Sources;
use weir_sql::ways::layout::{self, LayoutError};

use crate::output::Failure;

const LAYOUT: &str = "a PATH is a directory with schema.sql, procedures.sql and invariants.sql, a directory of \
                      migrations, or a file of SQL";

/// Folders that hold no application of their own, and how deep one may lie.
const SKIPPED: [&str; 4] = ["node_modules", "target", "vendor", "dist"];
const DEPTH_MAX: usize = 8;
/// More files than that are no application's directory.
const FILES_MAX: usize = 100_000;

/// The largest SQL file that is read: places in it are 32-bit.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Reads every PATH in the order given.
pub fn read_sources(paths: &[PathBuf]) -> Result<Sources, Failure> {
    let mut sources = Sources::default();
    add_sources(paths, &mut sources)?;
    if sources.files.iter().all(|file| weir_sql::parse::is_blank(&file.text)) {
        let first = sources.files.first().map_or(String::new(), |file| file.name.clone());
        return Err(Failure::input(format!(
            "{first}:1:1: error: there is no SQL in it\nhint: {LAYOUT}; `CREATE TABLE` is the least it holds"
        )));
    }
    Ok(sources)
}

/// The texts of every PATH, behind those that are there.
pub fn add_sources(paths: &[PathBuf], sources: &mut Sources) -> Result<(), Failure> {
    for path in paths {
        let found = std::fs::metadata(path).map_err(|error| unreadable(path, &error, LAYOUT))?;
        if found.is_dir() {
            read_directory(path, sources)?;
        } else {
            sources.add(path.display().to_string(), read_text(path)?);
        }
    }
    Ok(())
}

fn read_directory(directory: &Path, sources: &mut Sources) -> Result<(), Failure> {
    let mut files = Vec::new();
    list(directory, "", 0, &mut files)?;
    let chosen = layout::choose(&files).map_err(|problem| {
        let what = match problem {
            LayoutError::Nothing if files.is_empty() => "the directory is empty".to_owned(),
            LayoutError::Nothing => "there is no schema.sql in this directory, and no migrations".to_owned(),
            LayoutError::Ambiguous(folders) => {
                format!("these could all be the migrations: {}; name one of them", folders.join(", "))
            }
        };
        Failure::input(format!("{}: error: {what}\nhint: {LAYOUT}", directory.display()))
    })?;
    for name in chosen {
        let path = directory.join(&name);
        sources.add(path.display().to_string(), read_text(&path)?);
    }
    Ok(())
}

/// Every file below the directory that could be read, by its path from there.
fn list(directory: &Path, prefix: &str, depth: usize, files: &mut Vec<String>) -> Result<(), Failure> {
    let entries = std::fs::read_dir(directory).map_err(|error| unreadable(directory, &error, LAYOUT))?;
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(directory, &error, LAYOUT))?;
        // A name that is no text is none that a layout has.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        let Ok(kind) = std::fs::metadata(entry.path()) else { continue };
        if kind.is_dir() {
            let hidden = name.starts_with('.') && name != ".sqlx";
            if !hidden && !SKIPPED.contains(&name.as_str()) && depth < DEPTH_MAX {
                list(&entry.path(), &format!("{path}/"), depth + 1, files)?;
            }
        } else {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            return Err(Failure::input(format!(
                "{}: error: there are more than {FILES_MAX} files below it\nhint: {LAYOUT}",
                directory.display()
            )));
        }
    }
    Ok(())
}

/// Reads one file as text, or says what is wrong with it and where.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    let length =
        std::fs::metadata(path).map_err(|error| unreadable(path, &error, "name a file that is there"))?.len();
    if length > FILE_BYTES_MAX {
        return Err(Failure::input(format!(
            "{}: error: {length} bytes are more than the {FILE_BYTES_MAX} that are read\nhint: split the file",
            path.display()
        )));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error, "name a file that is there"))?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").map(<[u8]>::to_vec).unwrap_or(bytes);
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let good = String::from_utf8_lossy(&error.as_bytes()[..at]).into_owned();
        wrong_byte(path, &good, &format!("byte 0x{:02x} is not UTF-8", error.as_bytes()[at]))
    })?;
    if let Some(at) = text.find('\0') {
        return Err(wrong_byte(path, &text[..at], "a zero byte cannot stand in SQL"));
    }
    Ok(text)
}

/// Reads a log, which may contain arbitrary bytes: invalid text is replaced by marks.
pub fn read_log(path: &Path) -> Result<String, Failure> {
    let length =
        std::fs::metadata(path).map_err(|error| unreadable(path, &error, "name a file that is there"))?.len();
    if length > FILE_BYTES_MAX {
        return Err(Failure::input(format!(
            "{}: error: {length} bytes are more than the {FILE_BYTES_MAX} that are read\n\
             hint: give a part of the log; its frequencies will do",
            path.display()
        )));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error, "name a file that is there"))?;
    Ok(String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}"))
}

fn wrong_byte(path: &Path, before: &str, what: &str) -> Failure {
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    Failure::input(format!(
        "{}:{line}:{column}: error: {what}\nhint: save the file as UTF-8 text (iconv -t utf-8 converts)",
        path.display()
    ))
}

fn unreadable(path: &Path, error: &std::io::Error, wanted: &str) -> Failure {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "give yourself the right to read it",
        _ => wanted,
    };
    // The operating system's words without its number: "No such file or directory".
    let reason = error.to_string();
    let reason = reason.split(" (os error").next().unwrap_or(&reason).to_lowercase();
    Failure::input(format!("{}: error: {reason}\nhint: {hint}", path.display()))
}

/// Names of the applications whose files are in the binary.
pub const SHIPPED: [&str; 1] = ["tpcc"];

/// The sources of an application that Weir ships, and the name and text of its workload.
pub fn shipped(name: &str) -> Option<(Sources, (String, String))> {
    let sources = example(name).filter(|_| SHIPPED.contains(&name))?;
    let workload = include_str!("../../../examples/tpcc/workload.toml");
    Some((sources, ("examples/tpcc/workload.toml".to_owned(), workload.to_owned())))
}

/// The sources of an example that is a benchmark.
pub fn example(name: &str) -> Option<Sources> {
    const TPCC: &Files = &[
        ("schema.sql", include_str!("../../../examples/tpcc/schema.sql")),
        ("procedures.sql", include_str!("../../../examples/tpcc/procedures.sql")),
        ("invariants.sql", include_str!("../../../examples/tpcc/invariants.sql")),
    ];
    let files = match name {
        "tpcc" => TPCC,
        "tpcw" => TPCW,
        "rubis" => RUBIS,
        _ => return None,
    };
    let mut sources = Sources::default();
    for (file, text) in files.iter().filter(|(file, _)| file.ends_with(".sql")) {
        sources.add(format!("examples/{name}/{file}"), *text);
    }
    Some(sources)
}

/// Scripts of pgbench that are shipped with it, by file name.
pub fn shipped_scripts() -> [(&'static str, &'static str); 1] {
    [("new_order.pgbench", include_str!("../../../examples/tpcc/new_order.pgbench"))]
}
