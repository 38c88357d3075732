//! All IO: the embedded cluster, its clients, and what a run reports.

pub mod embedded;
mod mailbox;
pub mod progress;
pub mod report;
pub mod serve;
