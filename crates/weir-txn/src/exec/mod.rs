//! The one SQL executor: compiles bound statements to slots and indexes, and runs them over [`Rows`].
//!
//! [`Rows`]: crate::storage::Rows
