//! What a long job says of itself while it runs, for whoever shows it to a person.
//!
//! Reports only; a job behaves the same with anybody listening or nobody.

/// One remark. Phases follow one another; steps belong to the latest phase.
#[derive(Clone, Debug)]
pub enum Progress<'a> {
    /// A new phase begins, of this many steps; 0 where the number is not known.
    Phase { name: &'a str, steps: u64 },
    /// So many of the phase's steps are done; the note is a figure worth watching, or empty.
    Steps { done: u64, note: &'a str },
}

/// Takes the remarks of a job; must return quickly.
pub type Listener<'a> = dyn FnMut(Progress<'_>) + Send + 'a;

/// A listener for jobs that nobody watches.
pub fn silent(_: Progress<'_>) {}
