//! Shared code of the fuzzers in this folder and the tests of servers: seeded randomness, and damaged conversations.

pub mod chance;
pub mod wire;
