//! Anomalies and suggestions as a person reads them, below the plan.

use std::fmt::Write as _;

use comfy_table::{Cell, Color};
use weir_sql::Application;

use crate::Analysis;
use crate::anomaly::{Anomaly, AnomalyKind};
use crate::registry;
use crate::text::{TextStyle, cell, constrain, table, wrap, write_steps};

/// Number of items described in full; further ones are listed by name.
const TOLD_MAX: usize = 12;

pub fn anomalies(app: &Application, analysis: &Analysis, style: TextStyle, text: &mut String) {
    let (forks, told): (Vec<&Anomaly>, Vec<&Anomaly>) =
        analysis.anomalies.iter().partition(|anomaly| anomaly.kind == AnomalyKind::LongFork);
    if analysis.anomalies.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nPossible though every invariant holds:\n");
    for anomaly in told.iter().take(TOLD_MAX) {
        one(app, anomaly, style, text);
    }
    if told.len() > TOLD_MAX {
        let names: Vec<String> = told[TOLD_MAX..]
            .iter()
            .map(|anomaly| {
                format!("{} ({})", app.procedures[anomaly.transaction].name, anomaly.kind.finding())
            })
            .collect();
        wrap(&format!("And {} more: {}.", names.len(), names.join(", ")), "  ", style.width, text);
        text.push('\n');
    }
    if let Some(first) = forks.first() {
        let names: Vec<&str> =
            forks.iter().map(|anomaly| app.procedures[anomaly.transaction].name.as_str()).collect();
        let id = registry::id_of(first.kind.finding());
        let words = format!(
            "Long fork [{id}]: two readers may see independent changes in opposite orders. It can be seen by {}.",
            names.join(", ")
        );
        wrap(&words, "  ", style.width, text);
        if let Some((fork, execution)) =
            forks.iter().find_map(|fork| Some((fork, fork.executed.execution()?)))
        {
            let name = &app.procedures[fork.transaction].name;
            wrap(&format!("For example two calls of {name}:"), "  ", style.width, text);
            write_steps(&execution.steps(), "      ", style.width, text);
        }
    }
}

fn one(app: &Application, anomaly: &Anomaly, style: TextStyle, text: &mut String) {
    let id = registry::id_of(anomaly.kind.finding());
    let place = app.sources.place(anomaly.span);
    let kind = anomaly.kind.name().replace('_', " ");
    let name = &app.procedures[anomaly.transaction].name;
    let _ = writeln!(text, "  {kind}: {name} [{id}]  ({place})");
    let indent = "      ";
    wrap(&format!("{}.", anomaly.message), indent, style.width, text);
    let example = &anomaly.example;
    match anomaly.executed.execution() {
        Some(execution) => write_steps(&execution.steps(), indent, style.width, text),
        None => {
            wrap(&format!("Before: {}.", example.initial), indent, style.width, text);
            wrap(&format!("Left:   {}.", example.left.join("; ")), indent, style.width, text);
            wrap(&format!("Right:  {}.", example.right.join("; ")), indent, style.width, text);
            wrap(&example.outcome, indent, style.width, text);
        }
    }
    if let Some(why) = anomaly.executed.why_not() {
        wrap(&format!("Not shown with values: {why}."), indent, style.width, text);
    }
    if anomaly.between_copies {
        let words = "On one shard calls follow each other; copies that take calls at once can show it.";
        wrap(words, indent, style.width, text);
    }
    if let Some(remedy) = anomaly.remedies.first() {
        wrap(&format!("Remedy: {remedy}."), indent, style.width, text);
    }
    text.push('\n');
}

/// Suggestions to make transactions cheaper, printed below the plan.
pub fn suggestions(app: &Application, analysis: &Analysis, style: TextStyle, text: &mut String) {
    let found = &analysis.suggestions;
    if !found.list.is_empty() {
        let _ = writeln!(
            text,
            "\nWhat would make it cheaper; each was analysed, and nothing gets dearer by it:\n"
        );
        let mut table = table(style, &["transaction", "gain", "suggestion"]);
        for suggestion in &found.list {
            let also = match suggestion.also.len() {
                0 => String::new(),
                n => format!(" (and {n} more)"),
            };
            table.add_row(vec![
                Cell::new(format!("{}{also}", app.procedures[suggestion.transaction].name)),
                cell(style, suggestion.before.change_to(&suggestion.after), Color::Green),
                Cell::new(format!("{}\n{}", suggestion.text, suggestion.edit)),
            ]);
        }
        constrain(&mut table, 2);
        let _ = writeln!(text, "{table}");
    }
    if found.not_tried > 0 {
        let words = "changes that might help were not tried: there are too many to analyse each.";
        let _ = writeln!(text, "{} {words}", found.not_tried);
    }
    if found.in_part && !found.list.is_empty() {
        let words = "Each was analysed beside the transactions that have a table in common with it.";
        let _ = writeln!(text, "{words}");
    }
}
