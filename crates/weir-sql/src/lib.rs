//! Text to catalog, bound statements and procedures.
//!
//! The first stretch of the road: SQL text → catalog + procedure. Grammar is PostgreSQL's own
//! (`pg_query`); names are resolved and types are inferred here, once, so that nothing to the right
//! ever sees SQL text. Pure: files are handed in as strings.

pub mod bound;
pub mod catalog;
pub mod plpgsql;
pub mod source;

pub use catalog::Catalog;
pub use source::{Diagnostic, Sources, Span};

/// Everything that an application's SQL files say.
#[derive(Debug)]
pub struct Application {
    pub sources: Sources,
    pub catalog: Catalog,
    pub procedures: Vec<bound::Procedure>,
    pub assertions: Vec<catalog::Assertion>,
}
