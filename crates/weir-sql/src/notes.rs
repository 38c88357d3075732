//! Notes on skipped statements, and the rule when skipping is allowed.
//!
//! An application is read strictly to be run: what Weir does not understand is refused by name. Read
//! tolerantly, to be analysed, the same refusals become notes, and the rest goes on. The input's own
//! mistakes stay errors, unless something has been left out before that may be their cause.

use std::cell::{Cell, RefCell};

use weir_types::SqlState;

use crate::source::{Diagnostic, Severity};

/// The errors that a reading may pass over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// To run it: whatever is not understood is an error.
    Strict,
    /// Strict reading by a running server: unique indexes over expressions are implemented by hidden columns.
    Running,
    /// To analyse it: whatever is not understood is noted, and the rest is read.
    Tolerant,
}

/// Of one tolerant reading. A strict one has none.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    list: RefCell<Vec<Diagnostic>>,
    /// Some definition is missing, so an unknown name may not be an error.
    left_out: Cell<bool>,
}

impl Notes {
    /// Notes what is not understood; errors stay errors, and are listed with the rest.
    pub fn leave_out(&self, diagnostic: Diagnostic) {
        let severity = match self.is_gap(&diagnostic) {
            true => Severity::Warning,
            false => Severity::Error,
        };
        self.left_out.set(self.left_out.get() || severity == Severity::Warning);
        self.list.borrow_mut().push(Diagnostic { severity, ..diagnostic });
    }

    /// Something more general stands in its place.
    pub fn replace(&self, diagnostic: Diagnostic) {
        self.left_out.set(true);
        self.list.borrow_mut().push(reworded(diagnostic, Severity::Warning, "is not known to Weir"));
    }

    /// The analysis understands it, but nothing could run it.
    pub fn only_analysed(&self, refusal: Diagnostic) {
        let note = reworded(refusal, Severity::Warning, "is analysed, but weir run refuses it");
        self.list.borrow_mut().push(note);
    }

    /// Nothing that is said of the application depends on it. `defines`: others may refer to it.
    pub fn ignore(&self, diagnostic: Diagnostic, defines: bool) {
        self.left_out.set(self.left_out.get() || defines);
        self.list.borrow_mut().push(reworded(diagnostic, Severity::Info, "is passed over"));
    }

    /// Treats the following text as valid, because PostgreSQL has accepted it.
    pub fn trust(&self) {
        self.left_out.set(true);
    }

    /// Is this something that Weir lacks, rather than a mistake of the input?
    pub fn is_gap(&self, diagnostic: &Diagnostic) -> bool {
        let lacking =
            matches!(diagnostic.state, SqlState::FEATURE_NOT_SUPPORTED | SqlState::STATEMENT_TOO_COMPLEX);
        lacking || self.left_out.get() && diagnostic.state != SqlState::SYNTAX_ERROR
    }

    /// In the order of their places, each once.
    pub fn into_list(self) -> Vec<Diagnostic> {
        let mut list = self.list.into_inner();
        list.sort_by(|a, b| (a.span, a.severity, &a.message).cmp(&(b.span, b.severity, &b.message)));
        list.dedup();
        list
    }
}

/// A refusal in the words of what becomes of the thing instead.
fn reworded(refusal: Diagnostic, severity: Severity, becomes: &str) -> Diagnostic {
    let message = match refusal.message.strip_suffix("is not supported") {
        Some(what) => format!("{what}{becomes}"),
        None => refusal.message,
    };
    Diagnostic { message, severity, ..refusal }
}

/// Hands a refusal on as a note; a strict reading refuses.
pub fn note(
    notes: Option<&Notes>,
    refusal: Diagnostic,
    as_what: impl FnOnce(&Notes, Diagnostic),
) -> Result<(), Diagnostic> {
    match notes {
        None => Err(refusal),
        Some(notes) => {
            as_what(notes, refusal);
            Ok(())
        }
    }
}

/// `Ok(None)` where a tolerant reading goes on without it.
pub fn tolerate<T>(notes: Option<&Notes>, result: Result<T, Diagnostic>) -> Result<Option<T>, Diagnostic> {
    match (result, notes) {
        (Ok(value), _) => Ok(Some(value)),
        (Err(error), None) => Err(error),
        (Err(error), Some(notes)) => {
            notes.leave_out(error);
            Ok(None)
        }
    }
}
