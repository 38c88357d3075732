//! `--baseline FILE`: the findings of an earlier analysis, by fingerprint.
//!
//! The file is what `weir analyze --format json` or `--format sarif` has written.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::input;
use crate::output::Failure;

/// The name of our fingerprint in SARIF.
pub const FINGERPRINT: &str = "weir/v1";

const HINT: &str =
    "a baseline is what `weir analyze PATH --format json --out FILE` (or --format sarif) has written";

/// # Errors
/// The file is not there, is no JSON, or is no document of ours.
pub fn read(path: &Path) -> Result<BTreeSet<String>, Failure> {
    if !path.exists() {
        return Err(Failure::input(format!(
            "{}: error: there is no such file\nhint: {HINT}",
            path.display()
        )));
    }
    let text = input::read_text(path)?;
    let document: Value = serde_json::from_str(&text).map_err(|error| {
        let (line, column) = (error.line().max(1), error.column().max(1));
        Failure::input(format!("{}:{line}:{column}: error: this is no JSON\nhint: {HINT}", path.display()))
    })?;
    let found = match (document["findings"].as_array(), document["runs"].as_array()) {
        (Some(findings), _) => texts(findings.iter().map(|finding| &finding["fingerprint"])),
        (None, Some(runs)) => {
            let results = runs.iter().filter_map(|run| run["results"].as_array()).flatten();
            texts(results.map(|result| &result["partialFingerprints"][FINGERPRINT]))
        }
        (None, None) => {
            return Err(Failure::input(format!(
                "{}:1:1: error: there are no findings in it\nhint: {HINT}",
                path.display()
            )));
        }
    };
    Ok(found)
}

fn texts<'v>(values: impl Iterator<Item = &'v Value>) -> BTreeSet<String> {
    values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}
