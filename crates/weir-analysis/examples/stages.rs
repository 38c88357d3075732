//! Seconds that each stage of the analysis takes: `cargo run --release --example stages DIRECTORY`.
//!
//! The analysis as a whole includes effects and partitioning, which are also timed by themselves.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use weir_analysis::{Document, Weights, effects, partitioning};
use weir_sql::{Reading, Sources};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which directory?")?;
    let sources = sources(Path::new(&path))?;
    let weights = Weights::default();
    let app =
        stage("read", || weir_sql::load_with(sources, Reading::Tolerant)).map_err(|_| "it has errors")?;
    println!("{} tables, {} transactions", app.catalog.tables.len(), app.procedures.len());
    let effects = stage("effects", || effects::of_all(&app));
    let (reads, writes) = effects
        .iter()
        .fold((0, 0), |(reads, writes), each| (reads + each.reads.len(), writes + each.writes.len()));
    println!("{reads} reads, {writes} writes");
    let partitioning = stage("partitioning", || partitioning::partition(&app, &effects, &weights));
    println!("{} conflicts", partitioning.conflicts.len());
    drop((effects, partitioning));
    let mut analysis = stage("analyze", || weir_analysis::analyze(&app));
    println!("{} verdicts, {} anomalies", analysis.verdicts.len(), analysis.anomalies.len());
    analysis.suggestions = stage("suggestions", || weir_analysis::suggestions(&app, &analysis, &weights));
    let (list, not_tried) = (&analysis.suggestions.list, analysis.suggestions.not_tried);
    println!("{} suggestions, {not_tried} not tried", list.len());
    let document = Document { app: &app, analysis: &analysis };
    let text = stage("JSON", || serde_json::to_string_pretty(&document))?;
    println!("{} MB of JSON, {}", text.len() / 1_000_000, peak_memory().unwrap_or_default());
    Ok(())
}

fn stage<T>(name: &str, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    println!("{name:>14} {:6.2} s", start.elapsed().as_secs_f64());
    result
}

/// The `.sql` files of a directory in the order of their names, or the one file.
fn sources(path: &Path) -> Result<Sources, Box<dyn Error>> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        files = std::fs::read_dir(path)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "sql"));
        files.sort_by_key(|file| (!file.ends_with("schema.sql"), file.clone()));
    }
    let mut sources = Sources::default();
    for file in files {
        sources.add(file.display().to_string(), std::fs::read_to_string(&file)?);
    }
    Ok(sources)
}

/// As Linux tells it.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find(|line| line.starts_with("VmHWM")).map(str::to_owned)
}
