//! Metrics of a process: counters and histograms, their Prometheus text, and the HTTP listener that serves it.
//!
//! Independent of the metrics' meaning: each provider implements [`Source`].

pub mod figures;
mod http;
pub mod page;
mod process;

pub use figures::{Counter, Histogram};
pub use http::{Http, NotStarted, Settings};
pub use page::Page;

/// A part of the process that has figures. It is asked on a thread that may wait a moment.
pub trait Source: Send + Sync + 'static {
    fn tell(&self, page: &mut Page);

    /// A page of HTML that shows its metrics, which the listener has at `/`; it may ask for nothing but this listener.
    fn html(&self) -> Option<&'static str> {
        None
    }

    /// Parts that work, or not.
    fn health(&self) -> Vec<Check> {
        Vec::new()
    }
}

/// Whether one part works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub part: String,
    /// Why not.
    pub wrong: Option<String>,
}
