//! Procedures and functions: the structure of PL/pgSQL bodies, and their bound form.
//!
//! [`parser`] reads the structure over PostgreSQL's own scanner; embedded SQL stays a place in the
//! file until [`bind_procedure`] hands it to PostgreSQL's own grammar. Nothing here executes anything.

mod bind;
mod conditions;
mod control;
mod declare;
mod flow;
pub mod parser;
mod scope;
mod script;
mod sql_body;
mod steps;
pub mod structure;
mod tokens;
mod trigger;

#[cfg(test)]
mod bind_tests;
#[cfg(test)]
mod structure_tests;

pub(crate) use bind::{Surroundings, bind_block, bind_procedure};
pub(crate) use declare::cast_type;
pub(crate) use script::script;
pub use script::{Caught, ScriptStep};
pub(crate) use trigger::bind_trigger;
