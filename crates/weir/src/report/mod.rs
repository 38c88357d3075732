//! One self-contained page: the plan, a diagram for every verdict that is not confluent, plots of the
//! run, and every invariant with its outcome.
//!
//! Built from the documents that the JSON output prints, so the page can say nothing that a script
//! cannot read. It refers to nothing outside itself: no script, no font, no image.

mod diamond;
mod html;
mod plot;
mod sections;

use serde_json::Value;
use weir_server::report::RunReport;

pub use html::{duration, escape, grouped, plain};

const STYLE: &str = include_str!("page.css");

/// The page of an analysis, or of a run if there is one.
pub fn page(title: &str, plan: &Value, run: Option<&RunReport>) -> String {
    let mut body = String::new();
    body.push_str(&sections::header(title, plan, run));
    if let Some(run) = run {
        body.push_str(&sections::invariants(run));
    }
    body.push_str(&sections::plan(plan));
    body.push_str(&diamond::section(plan));
    if let Some(run) = run {
        body.push_str(&plot::section(run));
    }
    body.push_str(&sections::findings(plan));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Weir: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

#[cfg(test)]
pub mod tests;
