//! Rows over items: secondary indexes, foreign keys and views that are always as their rows say (design.md §5;
//! ramp.txt §2 and §5; soundness S12, S17; docs/internals/items.md).
//!
//! Guarantees, for everything that one transaction reads: a look-up gives exactly the rows that a scan would, no child is seen
//! without its parent, a view is what its rows add up to. What it never does: know what a value means, which is for the functions
//! of the schema.

mod machine;
mod row;
mod schema;
#[cfg(test)]
mod tests;
mod work;

pub use machine::Relations;
pub use schema::{Index, Reference, Relation, Schema, SchemaError, View, ViewKind};
pub use work::{Order, Told};
