//! Storage of one shard: rows, their ordered indexes, and what is needed to go back in time.

pub mod key;
pub mod rows;
pub mod schema;

pub use key::{Boundary, KeyBytes, KeyRange};
pub use rows::{RowRef, Rows};
pub use schema::{IndexColumn, IndexId, IndexSchema, Schema, TableSchema};
