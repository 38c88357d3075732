//! What the analysis wants a person to know beside the verdicts: lost updates, defaults it chose, what it
//! could not decide.

use weir_sql::Span;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kind of finding, for `weir explain ID`.
    pub id: &'static str,
    pub severity: Severity,
    pub message: String,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Note,
    Warning,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
        }
    }
}
