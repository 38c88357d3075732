//! What the fuzzers of this folder and the tests of servers have in common: chance that follows from a seed, and damaged conversations.

pub mod chance;
pub mod wire;
