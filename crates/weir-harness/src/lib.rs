//! Common parts of benchmarks: private servers to compare with, line plots, median and range, and a
//! paper's figure with its claims and our verdicts.
//!
//! It measures nothing itself, and knows neither SQL nor a workload. It is apart so that benchmarks are built without PostgreSQL's grammar.

pub mod figure;
pub mod folder;
pub mod machine;
pub mod mariadb;
pub mod page;
pub mod pgbench;
pub mod plot;
pub mod postgres;
pub mod process;
mod spread;
pub mod weir;

pub use spread::Spread;
