//! One self-contained page: the matrix of transactions and invariants, the plan, a diagram for every verdict that is
//! not confluent, conflicts and partitioning, anomalies and suggestions; of a run also its plots and the outcome of
//! every invariant.
//!
//! Built from the documents that the JSON output prints, so the page can say nothing that a script cannot read. It
//! refers to nothing outside itself, and its policy lets a browser load nothing and run no script but its own:
//! what the files of an application say is text, here and in the script.

mod advice;
mod data;
mod diamond;
mod document;
mod graph;
mod html;
mod layout;
mod partitioning;
mod plot;
mod sections;

use base64::Engine;
use serde_json::Value;
use sha2::{Digest, Sha256};
use weir_server::report::RunReport;
use weir_sql::Sources;

pub use html::{duration, escape, grouped, plain};

use document::Document;

const STYLE: &str = concat!(include_str!("page.css"), include_str!("matrix.css"));
const SCRIPT: &str = concat!(
    "\"use strict\";\n",
    include_str!("matrix.js"),
    include_str!("detail.js"),
    include_str!("page.js")
);

/// The page of an analysis, or of a run if there is one. `sources` are the files that places in the plan name.
pub fn page(title: &str, plan: &Value, sources: &Sources, run: Option<&RunReport>) -> String {
    let document = &Document::new(plan, sources);
    let sections = [
        ("invariants", "Invariants", run.map(sections::invariants).unwrap_or_default()),
        ("run", "The run", run.map(plot::section).unwrap_or_default()),
        ("matrix", "Matrix", sections::matrix(document)),
        ("plan", "Plan", sections::plan(document)),
        ("refused", "Refused", sections::refused(document)),
        ("suggestions", "Suggestions", advice::suggestions(document)),
        ("witnesses", "Witnesses", diamond::section(document)),
        ("conflicts", "Conflicts", partitioning::conflicts(document)),
        ("partitioning", "Partitioning", partitioning::section(document)),
        ("anomalies", "Anomalies", advice::anomalies(document)),
        ("active-active", "Active-active", advice::active_active(document)),
        ("diagnostics", "Diagnostics", advice::diagnostics(document)),
    ];
    let shown = sections.iter().filter(|(_, _, body)| !body.is_empty());
    let links: Vec<(&str, &str)> = shown.map(|(id, title, _)| (*id, *title)).collect();
    let body: String = sections.iter().map(|(_, _, body)| body.as_str()).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Weir: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{}{}{}<main>\n{body}</main>\n\
         <aside id=\"detail\" aria-label=\"Verdict\" tabindex=\"-1\" hidden></aside>\n{}<script>{SCRIPT}</script>\n\
         </body>\n</html>\n",
        policy(),
        escape(title),
        diamond::ARROWS,
        sections::header(title, document, run),
        sections::bar(document, &links),
        data::element(document)
    )
}

/// Nothing is loaded, and of scripts only ours runs: the second line behind escaping.
fn policy() -> String {
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
}

#[cfg(test)]
pub mod tests;
