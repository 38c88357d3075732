//! Results of the analysis besides verdicts and plan: anomalies, suggestions, active-active replication, and parts that could not be
//! read.

use std::fmt::Write;

use serde_json::Value;

use super::diamond::Diamond;
use super::document::Document;
use super::html::{escape, list, plain, text};

/// Limit on the bytes of figures in one section; further findings have none.
const BYTES_MAX: usize = 3 << 20;

pub fn suggestions(document: &Document<'_>) -> String {
    let suggestions = list(document.value, "suggestions");
    if suggestions.is_empty() {
        return String::new();
    }
    let mut cards = String::new();
    for suggestion in suggestions {
        let others = list(suggestion, "also").iter();
        let about: Vec<usize> = [&suggestion["transaction"]]
            .into_iter()
            .chain(others)
            .filter_map(|name| document.transaction(name))
            .collect();
        let invariant = document.invariant(&suggestion["invariant"]);
        let tables = match invariant {
            Some(invariant) => document.tables_of_invariant(invariant),
            None => about.iter().flat_map(|&index| document.tables_of(index)).collect(),
        };
        let also: Vec<String> = list(suggestion, "also").iter().map(plain).collect();
        let also = match also.as_slice() {
            [] => String::new(),
            some => format!("<div class=\"small soft\">It also helps {}.</div>", escape(&some.join(", "))),
        };
        let _ = writeln!(
            cards,
            "<article class=\"card filtered suggestion\"{} data-i=\"{}\"><h3>{}</h3><p>{}</p><pre>{}</pre>\
             <div><span class=\"badge good\">gains</span>{}</div>{also}<div class=\"small soft\">{}</div></article>",
            document.marks(about, tables, true),
            invariant.map_or_else(String::new, |invariant| invariant.to_string()),
            escape(&text(suggestion, "transaction")),
            escape(&text(suggestion, "text")),
            escape(&text(suggestion, "edit")),
            escape(&text(suggestion, "gain")),
            match suggestion["verified"] == "whole" {
                true => "Verified by analysing the changed application.",
                false => "Verified by analysing the part of the application that the edit touches.",
            }
        );
    }
    let not_tried = match document.value["suggestions_not_tried"].as_u64() {
        Some(count) if count > 0 => {
            format!("<p class=\"soft small\">{count} other edits were not tried.</p>\n")
        }
        _ => String::new(),
    };
    section("suggestions", "What would make it cheaper", "", &format!("{cards}{not_tried}"))
}

pub fn anomalies(document: &Document<'_>) -> String {
    let (mut figures, mut prevented, mut untold) = (String::new(), String::new(), 0);
    for transaction in document.transactions {
        for anomaly in list(transaction, "anomalies") {
            if figures.len() > BYTES_MAX {
                untold += 1;
                continue;
            }
            figures.push_str(&anomaly_figure(document, transaction, anomaly));
        }
        for kept in list(transaction, "prevented") {
            let _ = writeln!(
                prevented,
                "<li class=\"filtered\"{}><b>{}</b>: no {}, because {}</li>",
                document.marks_of(&transaction["name"], false),
                escape(&text(transaction, "name")),
                escape(&text(kept, "kind").replace('_', " ")),
                escape(&text(kept, "by"))
            );
        }
    }
    if figures.is_empty() && prevented.is_empty() {
        return String::new();
    }
    if figures.is_empty() {
        figures.push_str("<p class=\"empty\">None.</p>");
    } else {
        figures = format!("<div class=\"diamonds\">\n{figures}</div>\n");
    }
    if untold > 0 {
        let _ = writeln!(figures, "<p class=\"soft\">{untold} more are in the JSON document.</p>");
    }
    if !prevented.is_empty() {
        let _ = write!(
            figures,
            "<details class=\"card\"><summary>What the mechanisms keep away</summary><ul class=\"small\">\n{prevented}</ul></details>\n"
        );
    }
    section(
        "anomalies",
        "Anomalies that no invariant forbids",
        "What two calls may do together that they would not do one after the other, under the plan above.",
        &figures,
    )
}

fn anomaly_figure(document: &Document<'_>, transaction: &Value, anomaly: &Value) -> String {
    let example = &anomaly["example"];
    let name = &transaction["name"];
    let parties: Vec<usize> = [name, &anomaly["with"]]
        .into_iter()
        .chain(list(anomaly, "others"))
        .filter_map(|name| document.transaction(name))
        .collect();
    let tables = document.transaction(name).map(|index| document.tables_of(index)).unwrap_or_default();
    let steps = |side: &str| -> String {
        let line = |step: &Value| format!("<div>{}</div>", escape(&plain(step)));
        list(example, side).iter().map(line).collect()
    };
    let between = match anomaly["between"] == "copies" {
        true => "where copies of a shard take calls at once",
        false => "where the rows are on several shards",
    };
    let remedies: String = list(anomaly, "remedies")
        .iter()
        .map(|remedy| format!("<li>{}</li>", escape(&plain(remedy))))
        .collect();
    let with = text(anomaly, "with");
    let with = if name == &anomaly["with"] { "another call of it".to_owned() } else { with };
    let allowed = document.allowed(&plain(name), "", &text(anomaly, "id"));
    Diamond {
        class: "filtered",
        attributes: document.marks(parties, tables, false),
        caption: format!(
            "<h3>{} <span class=\"badge warn\">{}</span><span class=\"badge\">{}</span>{}</h3>\
             <span class=\"soft small\">beside {}, {between}</span><div class=\"small\">{}</div>",
            escape(&plain(name)),
            escape(&text(anomaly, "kind").replace('_', " ")),
            escape(&text(anomaly, "id")),
            let_through(allowed),
            escape(&with),
            escape(&text(anomaly, "message"))
        ),
        top: ["at first".to_owned(), escape(&text(example, "initial"))],
        left: ["one call".to_owned(), steps("left")],
        right: ["the other".to_owned(), steps("right")],
        join: "both",
        bottom: ["then".to_owned(), escape(&text(example, "outcome"))],
        foot: format!(
            "<div class=\"soft\">What helps, cheapest first:</div><ol>{remedies}</ol>{}",
            document.place(&anomaly["source"])
        ),
    }
    .markup()
}

fn let_through(reason: Option<&str>) -> String {
    reason.map_or_else(String::new, |reason| {
        format!("<span class=\"badge good\" title=\"{}\">let through</span>", escape(reason))
    })
}

pub fn active_active(document: &Document<'_>) -> String {
    let Some(answers) = document.value["active_active"].as_array() else { return String::new() };
    let (mut unsafe_ones, mut safe) = (String::new(), Vec::new());
    for answer in answers {
        let conflicts = list(answer, "conflicts");
        if conflicts.is_empty() {
            safe.push(escape(&text(answer, "transaction")));
            continue;
        }
        let figures: String = match unsafe_ones.len() < BYTES_MAX {
            true => conflicts.iter().map(|conflict| replication_figure(document, answer, conflict)).collect(),
            false => {
                format!("<p class=\"soft\">{} conflicts; they are in the JSON document.</p>", conflicts.len())
            }
        };
        let mut kinds: Vec<String> = conflicts.iter().map(|conflict| text(conflict, "name")).collect();
        kinds.sort();
        kinds.dedup();
        let badges: String = kinds
            .iter()
            .map(|kind| format!("<span class=\"badge bad\">{}</span>", escape(&kind.replace('-', " "))))
            .collect();
        let _ = writeln!(
            unsafe_ones,
            "<details class=\"card filtered\"{}><summary><b>{}</b> {badges}</summary>\n<div class=\"diamonds\">\n{figures}</div></details>",
            document.marks_of(&answer["transaction"], true),
            escape(&text(answer, "transaction"))
        );
    }
    let safe = match safe.is_empty() {
        true => "<p>No transaction is safe.</p>\n".to_owned(),
        false => format!("<p><span class=\"badge good\">safe</span> {}</p>\n", safe.join(", ")),
    };
    section(
        "active-active",
        "Under active-active replication of PostgreSQL",
        "Several servers take writes and send each other rows; of two changes of one row the later commit's whole row stays.",
        &format!("{safe}{unsafe_ones}"),
    )
}

fn replication_figure(document: &Document<'_>, answer: &Value, conflict: &Value) -> String {
    let corner = |head: &str, field: &str| [head.to_owned(), escape(&text(conflict, field))];
    let invariant = text(conflict, "invariant");
    let allowed = document.allowed(&text(answer, "transaction"), &invariant, &text(conflict, "id"));
    Diamond {
        class: "",
        attributes: String::new(),
        caption: format!(
            "<h3>{} <span class=\"badge\">{}</span>{}</h3><div class=\"small\">{}</div>",
            escape(&text(conflict, "name").replace('-', " ")),
            escape(&text(conflict, "id")),
            let_through(allowed),
            escape(&text(conflict, "message"))
        ),
        top: ["at first".to_owned(), "both servers have the same rows".to_owned()],
        left: corner("one server", "left"),
        right: corner("another", "right"),
        join: "replicate",
        bottom: corner("both then", "merged"),
        foot: format!("<span class=\"soft\">Remedy:</span> {}", escape(&text(conflict, "remedy"))),
    }
    .markup()
}

/// Everything that was said while reading and planning; anomalies have a section of their own.
pub fn diagnostics(document: &Document<'_>) -> String {
    let others = list(document.value, "findings").iter().filter(|one| text(one, "id").starts_with("WEIR-W"));
    let diagnostics = list(document.value, "diagnostics").iter().chain(others);
    let mut rows = String::new();
    for diagnostic in diagnostics.filter(|one| !text(one, "id").starts_with("WEIR-A")) {
        let severity = text(diagnostic, "severity");
        let class = match severity.as_str() {
            "warning" => "warn",
            "error" => "bad",
            _ => "",
        };
        let _ = writeln!(
            rows,
            "<tr class=\"filtered\"><td><span class=\"badge {class}\">{}</span></td>\
             <td class=\"mono soft\">{}</td><td>{}{}</td></tr>",
            escape(&severity),
            escape(&text(diagnostic, "id")),
            escape(&text(diagnostic, "message")),
            document.place(&diagnostic["source"])
        );
    }
    if rows.is_empty() {
        return String::new();
    }
    let table = format!("<div class=\"card scroll\"><table class=\"stacks\">\n{rows}</table></div>\n");
    section("diagnostics", "Diagnostics", "", &table)
}

fn section(id: &str, title: &str, words: &str, body: &str) -> String {
    let words = if words.is_empty() { String::new() } else { format!("<p class=\"soft\">{words}</p>\n") };
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{words}{body}</section>\n")
}
