//! `--log`: a schema together with a log of the statements that PostgreSQL was sent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use weir_analysis::Weights;
use weir_sql::ways::log;
use weir_sql::{Application, Reading, Sources};

use crate::output::{self, Failure};
use crate::{application, input};

/// The schema with the transactions of its log, in their frequencies.
pub fn read(mut sources: Sources, paths: &[PathBuf]) -> Result<(Application, Weights), Failure> {
    let texts = paths.iter().map(|path| input::read_log(path)).collect::<Result<Vec<String>, Failure>>()?;
    let schema = application::read(sources.clone(), Reading::Tolerant)?;
    let routines = schema.procedures.iter().map(|procedure| procedure.name.clone());
    let routines: BTreeSet<String> = routines.filter(|_| !schema.synthesised).collect();
    let log = log::read(&texts.iter().map(String::as_str).collect::<Vec<_>>(), &routines);
    if log.committed == 0 {
        return Err(Failure::input(format!(
            "{}: error: no transaction that committed is in this log\n\
             hint: PostgreSQL writes statements with log_statement = 'all' or log_min_duration_statement = 0",
            paths[0].display()
        )));
    }
    output::print_remark(&format!(
        "weir: the log has {} transactions of {} kinds; {} that did not commit are left out",
        log.committed,
        log.calls.len(),
        log.aborted
    ));
    let generated = sources.add(format!("{} (transactions)", paths[0].display()), log.text.clone());
    let mut application = application::read(sources, Reading::Tolerant)?;
    let files: Vec<u32> = paths
        .iter()
        .zip(texts)
        .map(|(path, text)| application.sources.add(path.display().to_string(), text))
        .collect();
    log.settle(&mut application.notes, generated, &files);
    let weights = weights(&routines, &log.calls);
    Ok((application, weights))
}

/// Procedures that do not occur in the log have weight zero.
fn weights(routines: &BTreeSet<String>, calls: &BTreeMap<String, u64>) -> Weights {
    // The analysis counts in thousandths, up to a million.
    let most = calls.values().copied().max().unwrap_or(1) as f64;
    let scale = (1e6 / most).min(1.0);
    let mut by_name: BTreeMap<String, f64> = routines.iter().map(|name| (name.clone(), 0.0)).collect();
    by_name.extend(calls.iter().map(|(name, count)| (name.clone(), *count as f64 * scale)));
    Weights { by_name }
}
