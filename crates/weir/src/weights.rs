//! Frequencies of procedures, for the partitioning: from `--weights FILE`, a log, or the `[mix]` of the workload that
//! lies beside the schema.

use std::path::{Path, PathBuf};

use weir_analysis::Weights;
use weir_bench::Workload;
use weir_sql::Application;

use crate::output::Failure;
use crate::{application, input};

const WORKLOAD: &str = "workload.toml";

/// `given` by the user, or `logged` by a server, or what lies beside. The file's text becomes one of the application's sources, so that messages can point.
pub fn of(
    application: &mut Application,
    paths: &[PathBuf],
    given: Option<&Path>,
    logged: Option<Weights>,
) -> Result<Weights, Failure> {
    if let (None, Some(logged)) = (given, logged) {
        return Ok(logged);
    }
    let beside = || paths.iter().map(|path| path.join(WORKLOAD)).find(|file| file.is_file());
    let Some(file) = given.map(Path::to_path_buf).or_else(beside) else { return Ok(Weights::default()) };
    let text = input::read_text(&file)?;
    let source = application.sources.add(file.display().to_string(), text);
    let frequencies = Workload::frequencies(application, source)
        .map_err(|wrong| application::refused(&application.sources, &wrong))?;
    // So that the mean is 1, as without a file.
    let unit = frequencies.iter().sum::<f64>() / frequencies.len().max(1) as f64;
    let frequencies = frequencies.into_iter().map(|frequency| frequency / unit);
    let names = application.procedures.iter().map(|procedure| procedure.name.clone());
    Ok(Weights { by_name: names.zip(frequencies).collect() })
}
