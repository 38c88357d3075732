//! From an application's folder to what the agents of a deployment need (docs/internals/conveyor.md, "From the application to the agents").
//!
//! Operation Partitioning (`weir-analysis`) gives each transaction a class and its partitioning parameters. This crate turns that into
//! templates for matching and routing, the tables that global operations write, those whose rows travel with their slots, and the sequences whose
//! ids have to route back to their server. An application that the protocol cannot carry is refused, with place and remedy. Pure but for the
//! reading of the folder.

mod folder;
mod local_rows;
mod plan;
mod refusals;
pub mod statements;
pub mod value;

pub use folder::{Error, application_of, read_application};
pub use local_rows::{LocalRows, LocalTable};
pub use plan::{Bound, CapturedTable, NamedRow, Operation, Parameter, Plan, Sequence};
