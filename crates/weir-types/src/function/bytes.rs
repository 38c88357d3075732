//! Placeholder.
pub(super) static FUNCTIONS: &[super::Function] = &[];
