//! Markdown, for a comment on a pull request: the plan, what counts, and what would be cheaper.

use std::fmt::Write as _;

use crate::application::Loaded;

use super::Outcome;

/// More findings are counted, not listed: a comment has an end.
const LISTED_MAX: usize = 100;

pub fn document(loaded: &Loaded, outcome: &Outcome) -> String {
    let (app, analysis) = (&loaded.application, &loaded.analysis);
    let mut text = String::from("## Weir: which transaction needs coordination\n\n");
    if app.synthesised {
        text.push_str("Insert, update and delete of every table are answered for.\n\n");
    }
    text.push_str("| transaction | mechanism | round trips | why |\n|---|---|---:|---|\n");
    for plan in &analysis.plan.transactions {
        let name = &app.procedures[plan.procedure].name;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            cell(name),
            plan.mechanism.name(),
            plan.round_trips,
            cell(&plan.why)
        );
    }
    let counting: Vec<_> = outcome.shown.iter().filter(|one| one.counts()).collect();
    let what = if outcome.has_baseline { "New findings" } else { "Findings" };
    let _ = writeln!(text, "\n### {what}: {}\n", counting.len());
    if !counting.is_empty() {
        text.push_str("| severity | finding | where | what | remedy |\n|---|---|---|---|---|\n");
    }
    for one in counting.iter().take(LISTED_MAX) {
        let reported = &one.reported;
        let place = app.sources.place(reported.span);
        let _ = writeln!(
            text,
            "| {} | {} {} | {} | {} | {} |",
            reported.severity.name(),
            reported.kind.id,
            reported.kind.name,
            cell(&place.to_string()),
            cell(&reported.message),
            cell(reported.remedy.as_deref().unwrap_or(""))
        );
    }
    if counting.len() > LISTED_MAX {
        let _ = writeln!(text, "\nand {} more", counting.len() - LISTED_MAX);
    }
    if !analysis.suggestions.list.is_empty() {
        text.push_str(
            "\n### What would make it cheaper\n\n| transaction | gain | suggestion |\n|---|---|---|\n",
        );
    }
    for suggestion in &analysis.suggestions.list {
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            cell(&app.procedures[suggestion.transaction].name),
            cell(&suggestion.before.change_to(&suggestion.after)),
            cell(&suggestion.text)
        );
    }
    let allowed: Vec<_> = outcome.shown.iter().filter(|one| one.allowed.is_some()).collect();
    if !allowed.is_empty() {
        let _ = writeln!(text, "\n{}.", super::let_through(allowed.len()));
    }
    text
}

/// Escapes characters that would end a cell or be taken for HTML.
fn cell(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('|', "\\|");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
