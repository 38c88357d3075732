//! Progress reports of long jobs, for display.
//!
//! Reports only: a job behaves the same without a listener.

/// One remark. Phases follow one another; steps belong to the latest phase.
#[derive(Clone, Debug)]
pub enum Progress<'a> {
    /// A new phase begins, of this many steps; 0 where the number is not known.
    Phase { name: &'a str, steps: u64 },
    /// Number of finished steps of the phase; the note is a figure of interest, or empty.
    Steps { done: u64, note: &'a str },
}

/// Takes the remarks of a job; must return quickly.
pub type Listener<'a> = dyn FnMut(Progress<'_>) + Send + 'a;

/// A listener that ignores the reports.
pub fn silent(_: Progress<'_>) {}
