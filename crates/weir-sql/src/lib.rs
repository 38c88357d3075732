//! Text to catalog, bound statements and procedures.
//!
//! The first stretch of the road: SQL text → catalog + procedure. Grammar is PostgreSQL's own
//! (`pg_query`); names are resolved and types are inferred here, once, so that nothing to the right
//! ever sees SQL text. Pure: files are handed in as strings.

mod anonymous;
mod assertion;
pub mod binder;
mod bodies;
pub mod bound;
pub mod catalog;
mod constants;
mod current_value;
mod ddl;
mod definition;
pub mod effects;
pub mod explain;
mod lexer;
mod load;
mod local_times;
mod mentions;
pub mod normal;
mod notes;
pub mod parse;
pub mod plpgsql;
pub mod print;
mod remedy;
pub mod remote_read;
pub mod routine;
mod rows;
pub mod session;
pub mod shape;
pub mod source;
mod statement;
pub mod sub_statements;
mod synthesise;
pub mod system;
mod type_name;
mod validation;
pub mod walk;
pub mod ways;

pub use anonymous::anonymous;
pub use binder::relation_named;
pub use bodies::dollar_quoted;
pub use catalog::Catalog;
pub use constants::{Parameterised, each_planned_expr, is_constant_operation, lift_constants};
pub use current_value::{CurrentValue, WithCurrentValues, with_current_values};
pub use definition::{Matching, Truncated, define, define_in, truncated};
pub use load::{ACCEPTED, load, load_running, load_with};
pub use notes::Reading;
pub use rows::{of_one_row, of_rows_of_query};
pub use source::{Diagnostic, Severity, Sources, Span};
pub use statement::{
    BoundSystemQuery, BoundText, Text, bind_block, bind_statement, bind_system_query, bind_text, is_block,
};
pub use synthesise::synthesise;
pub use validation::{Gives, Validation, foreign_keys, validations};

/// Everything that an application's SQL files say.
#[derive(Clone, Debug)]
pub struct Application {
    pub sources: Sources,
    pub catalog: Catalog,
    pub procedures: Vec<bound::Procedure>,
    pub assertions: Vec<catalog::Assertion>,
    /// What a tolerant reading passed over, in the order of its places. An application with a warning here
    /// is to be analysed, not to be run. Of one that runs: what IF EXISTS and its like passed over, and what went with others.
    pub notes: Vec<Diagnostic>,
    /// Some procedures are [`synthesise`]d: nobody wrote them.
    pub synthesised: bool,
}
