//! Procedures and functions: the structure of PL/pgSQL bodies, and their bound form.
//!
//! [`parser`] reads the structure over PostgreSQL's own scanner; embedded SQL stays a place in the
//! file until the binder hands it to PostgreSQL's own grammar. Nothing here executes anything.

mod control;
pub mod parser;
pub mod structure;
mod tokens;

#[cfg(test)]
mod structure_tests;
