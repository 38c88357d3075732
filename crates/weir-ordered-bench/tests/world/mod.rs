//! The checker of strict serializability of ordered transactions.

#[path = "../../../weir-ordered/tests/world/registers.rs"]
#[allow(dead_code, reason = "the checker names them")]
pub mod registers;
#[path = "../../../weir-ordered/tests/world/strict.rs"]
#[allow(dead_code, reason = "the world of ordered transactions uses all of it")]
pub mod strict;
