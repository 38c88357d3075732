//! `--fail-on`: which findings end the command with exit code 1.

use weir_analysis::registry::{self, Kind};
use weir_analysis::{Reported, Severity};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// This severe or more.
    Severity(Severity),
    Kind(&'static Kind),
}

impl Threshold {
    pub fn is_met(&self, reported: &Reported) -> bool {
        match self {
            Threshold::Severity(severity) => reported.severity >= *severity,
            Threshold::Kind(kind) => reported.kind == *kind,
        }
    }
}

/// One word of the list.
///
/// # Errors
/// The word is not a threshold; lists the valid ones.
pub fn parse(word: &str) -> Result<Threshold, String> {
    match word.trim().to_ascii_lowercase().as_str() {
        "note" | "any" => return Ok(Threshold::Severity(Severity::Note)),
        "warning" => return Ok(Threshold::Severity(Severity::Warning)),
        "error" => return Ok(Threshold::Severity(Severity::Error)),
        _ => {}
    }
    registry::find(word).map(Threshold::Kind).ok_or_else(|| {
        "write note, warning, error, or the id of a finding (`weir explain` lists them)".to_owned()
    })
}
