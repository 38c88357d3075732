//! Findings for the user in addition to the verdicts: lost updates, chosen defaults, undecided questions.

use weir_sql::{Diagnostic, Span};
use weir_types::SqlState;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kind of finding, for `weir explain ID`.
    pub id: &'static str,
    pub severity: Severity,
    pub message: String,
    pub span: Span,
}

impl Finding {
    /// Finding for a note about a statement that was skipped or not understood.
    pub fn of_note(note: &Diagnostic) -> Finding {
        let (id, severity) = match note.severity {
            weir_sql::Severity::Info => ("passed-over", Severity::Note),
            _ => ("not-understood", Severity::Warning),
        };
        let message = match &note.hint {
            Some(hint) if note.state == SqlState::UNDEFINED_FUNCTION => format!("{}; {hint}", note.message),
            _ => note.message.clone(),
        };
        Finding { id, severity, message, span: note.span }
    }
}

/// There is nothing to keep.
pub fn no_invariants(app: &weir_sql::Application) -> Finding {
    Finding {
        id: "no-invariants",
        severity: Severity::Note,
        message: "no invariant is declared, so there is nothing to keep; NOT NULL, CHECK, UNIQUE, REFERENCES and CREATE \
                  ASSERTION declare one"
            .to_owned(),
        span: app.catalog.tables.first().map(|table| table.span).unwrap_or_default(),
    }
}

/// No solver answered the questions that no rule decides.
pub fn no_solver(app: &weir_sql::Application, why: &str, unasked: usize) -> Option<Finding> {
    (unasked > 0).then(|| Finding {
        id: "no-solver",
        severity: Severity::Note,
        message: format!(
            "{why}: a solver might have proved of {unasked} verdicts that the branches merge; without one they \
             count as needing coordination"
        ),
        span: app.procedures.first().map(|procedure| procedure.span).unwrap_or_default(),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Note,
    Warning,
    Error,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}
