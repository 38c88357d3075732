//! The one SQL executor: compiles bound statements to slots and indexes, and runs them over [`Rows`].
//!
//! [`Rows`]: crate::storage::Rows

pub mod access;
pub mod accessed_rows;
pub mod accesses;
pub mod admission;
pub mod aggregate;
mod ahead;
pub mod assertion;
pub mod by_key;
pub mod call;
pub(crate) mod call_route;
pub mod call_steps;
pub mod chosen;
mod compile;
pub mod compiler;
pub mod constraint;
pub mod context;
mod counts;
pub mod deferred;
pub mod definition;
pub mod expr;
pub mod fetch;
pub mod first_rows;
mod flow;
pub mod folding;
mod foreseen;
pub mod gather;
mod gathered;
mod global;
pub mod independent;
mod inserted_keys;
mod names;
pub mod plpgsql;
pub mod program;
pub mod query;
pub mod reads;
mod remake;
pub mod returned;
pub(crate) mod routing;
pub mod sequences;
mod slice;
pub mod slots;
mod split;
pub mod texts;
pub mod walk;
pub mod worker;
pub mod write;

pub use access::TableAccess;
pub use compiler::Compiler;
pub use context::{Cx, Environment, Flow, Frame};
pub use expr::{CompiledExpr, Truth};
pub use query::CompiledQuery;
pub use remake::GeneratedColumns;
pub use slots::{ROW_IDENTITY, Slot, SlotAllocator};
