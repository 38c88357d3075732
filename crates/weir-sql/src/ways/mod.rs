//! The ways in: what a project's files are, beside a plain schema with procedures.
//!
//! [`layout`] says which files of a directory make an application, and in which order (migrations fold into
//! their final schema by being read one after the other). [`queries`] finds statements that an application
//! keeps outside of the database, and makes procedures of them; [`sqlx`] does that for sqlx' query cache,
//! and [`log`] for a log of PostgreSQL's statements.
//! Pure: names and texts are handed in.

pub mod layout;
pub mod log;
pub(crate) mod queries;
pub(crate) mod sections;
pub(crate) mod sqlx;

#[cfg(test)]
mod tests;
