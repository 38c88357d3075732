//! The vocabulary that every other crate speaks: SQL types, values, errors, and the scalar functions
//! and operators over them, with PostgreSQL's semantics and PostgreSQL's SQLSTATEs.
//!
//! Pure: no clock, no randomness, no IO. `now()` and friends take the transaction's time as an input.

pub mod error;
pub mod function;
pub mod numeric;
pub mod operator;
pub mod sql_type;
pub mod value;

pub use error::{SqlError, SqlState};
pub use sql_type::SqlType;
pub use value::Value;
