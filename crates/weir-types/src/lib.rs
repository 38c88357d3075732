//! The vocabulary that every other crate speaks: SQL types, values, errors, and the scalar functions
//! and operators over them, with PostgreSQL's semantics and PostgreSQL's SQLSTATEs.
//!
//! Pure: no clock, no randomness, no IO. `now()` and friends take the transaction's time as an input.

pub mod arrays;
pub mod binary;
pub mod cast;
pub mod catalog_type;
pub mod compare;
pub mod datetime;
pub mod error;
pub mod floats;
pub mod function;
pub mod interrupt;
pub mod json;
pub mod memory;
pub mod notice;
pub mod numeric;
pub mod operator;
pub mod pattern;
mod recent;
mod regexp;
pub mod sql_type;
pub mod text;
pub mod value;

pub use cast::CastContext;
pub use catalog_type::CatalogType;
pub use error::{SqlError, SqlState};
pub use notice::{Notice, Notices, Severity};
pub use numeric::Numeric;
pub use recent::Recent;
pub use sql_type::{EnumType, SqlType};
pub use value::Value;
