//! Figure 2 of the coordination-avoidance paper, for every verdict that is not confluent: one valid
//! state, two branches that are valid each, and the merge that is not.

use std::fmt::Write;

use serde_json::Value;

use super::html::{escape, list, plain, text};

/// Verdicts that are drawn; the rest are told in the plan's table and in the JSON.
const DRAWN_MAX: usize = 60;

const FORK: &str = "<svg viewBox=\"0 0 400 34\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
    <path d=\"M200 0 L100 32 M107 24 L100 32 L111 32\"/><path d=\"M200 0 L300 32 M293 24 L300 32 L289 32\"/></svg>";

const JOIN: &str = "<svg viewBox=\"0 0 400 34\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
    <path d=\"M100 0 L196 32 M186 32 L196 32 L191 25\"/><path d=\"M300 0 L204 32 M214 32 L204 32 L209 25\"/>\
    <text x=\"200\" y=\"12\">merge ⊔</text></svg>";

pub fn section(plan: &Value) -> String {
    let verdicts: Vec<&Value> =
        list(plan, "verdicts").iter().filter(|verdict| verdict["confluent"] == false).collect();
    let mut section = String::from("<section>\n<h2>Where coordination is needed, and why</h2>\n");
    if verdicts.is_empty() {
        section.push_str(
            "<p class=\"soft\">Nowhere: any two valid branches of these transactions merge into a valid \
             state.</p>\n</section>\n",
        );
        return section;
    }
    section.push_str(
        "<p class=\"soft\">Both branches start from the same valid state and are valid by themselves. Their \
         merge is not; the plan's guard is what keeps it from coming to be.</p>\n<div class=\"diamonds\">\n",
    );
    for verdict in verdicts.iter().take(DRAWN_MAX) {
        section.push_str(&figure(plan, verdict));
    }
    section.push_str("</div>\n");
    if verdicts.len() > DRAWN_MAX {
        let _ = writeln!(section, "<p class=\"soft\">… and {} more.</p>", verdicts.len() - DRAWN_MAX);
    }
    section.push_str("</section>\n");
    section
}

fn figure(plan: &Value, verdict: &Value) -> String {
    let (invariant, transaction) = (text(verdict, "invariant"), text(verdict, "transaction"));
    let witness = &verdict["witness"];
    let operation = text(verdict, "operation");
    let partner = Some(text(verdict, "with")).filter(|with| !with.is_empty());
    let partner = partner.unwrap_or_else(|| transaction.clone());
    let partner_operation =
        partner_operation(plan, &invariant, &partner).unwrap_or_else(|| operation.clone());

    let (initial, left, right, merged) = if witness.is_object() {
        (
            states(witness, "initial"),
            steps(&witness["left"]),
            steps(&witness["right"]),
            format!(
                "{}<div class=\"mono\"><b>{}</b></div>",
                states(witness, "merged"),
                escape(&text(&witness["violates"], "text"))
            ),
        )
    } else {
        (
            "any state in which it holds".to_owned(),
            format!("<div class=\"mono\">{}</div>{}", escape(&transaction), escape(&operation)),
            format!("<div class=\"mono\">{}</div>{}", escape(&partner), escape(&partner_operation)),
            escape(&text(verdict, "because")),
        )
    };
    let declared = declaration(plan, &invariant);
    let mut foot = String::new();
    if witness.is_object() {
        foot.push_str(&escape(&text(verdict, "because")));
    }
    let assumes: Vec<String> = list(verdict, "assumes").iter().map(plain).collect();
    if !assumes.is_empty() {
        let _ = write!(foot, " <span class=\"soft\">Assumes: {}.</span>", escape(&assumes.join("; ")));
    }
    for guard in guards_of(plan, &transaction, &invariant) {
        let _ = write!(foot, "<div>Kept by a <span class=\"badge\">{}</span></div>", escape(&guard));
    }
    format!(
        "<figure class=\"diamond\">\n<figcaption><h3 class=\"mono\">{}</h3><span class=\"soft small\">{} beside {}</span>\
         {declared}</figcaption>\n<div class=\"state top\"><b>valid state</b>{initial}</div>\n{FORK}\n\
         <div class=\"branches\"><div class=\"state\"><b>one branch: valid</b>{left}</div>\
         <div class=\"state\"><b>the other: valid</b>{right}</div></div>\n{JOIN}\n\
         <div class=\"state bottom violated\"><b>merged: violated</b>{merged}</div>\n<div class=\"foot\">{foot}</div>\n</figure>\n",
        escape(&invariant),
        escape(&transaction),
        escape(&if partner == transaction { "itself".to_owned() } else { partner })
    )
}

/// The invariant's own words, folded away.
fn declaration(plan: &Value, invariant: &str) -> String {
    let found = list(plan, "invariants").iter().find(|found| found["id"] == invariant);
    let words = found.map(|found| text(found, "text")).unwrap_or_default();
    if words.is_empty() {
        return String::new();
    }
    let place = found.map(|found| &found["source"]).unwrap_or(&Value::Null);
    format!(
        "<details class=\"small\"><summary>{}:{}</summary><pre>{}</pre></details>",
        escape(&text(place, "file")),
        escape(&text(place, "line")),
        escape(words.trim())
    )
}

/// What the other transaction does to the same invariant.
fn partner_operation(plan: &Value, invariant: &str, partner: &str) -> Option<String> {
    list(plan, "verdicts")
        .iter()
        .find(|verdict| verdict["invariant"] == invariant && verdict["transaction"] == partner)
        .map(|verdict| text(verdict, "operation"))
}

/// The guards of this transaction that the plan says are there for this invariant; all if it does not say.
fn guards_of(plan: &Value, transaction: &str, invariant: &str) -> Vec<String> {
    let Some(found) = list(plan, "transactions").iter().find(|found| found["name"] == transaction) else {
        return Vec::new();
    };
    let serves = |guard: &&Value| match guard["keeps"].as_array() {
        Some(kept) => kept.iter().any(|kept| kept == invariant),
        None => true,
    };
    list(found, "guards")
        .iter()
        .filter(serves)
        .map(|guard| format!("{} on {}", text(guard, "kind"), text(guard, "on")))
        .collect()
}

/// A state row by row, with the columns that matter; of rows that are only there for others to refer to, how many.
fn states(witness: &Value, state: &str) -> String {
    let shown = list(&witness["violates"], "shown");
    let Some(tables) = witness[state].as_object().filter(|tables| !tables.is_empty()) else {
        return "no rows".to_owned();
    };
    let mut lines = String::new();
    for (name, rows) in tables {
        let rows = rows.as_array().map_or(&[][..], Vec::as_slice);
        let mut told = 0;
        for row in rows.iter().filter_map(Value::as_object) {
            let cells = row.iter().filter(|(column, _)| shown.iter().any(|name| name == *column));
            let cells: Vec<String> =
                cells.map(|(column, value)| format!("{column} {}", cell(value))).collect();
            if !cells.is_empty() {
                told += 1;
                let _ = write!(
                    lines,
                    "<div class=\"mono\">{} ({})</div>",
                    escape(name),
                    escape(&cells.join(", "))
                );
            }
        }
        if told < rows.len() {
            let _ =
                write!(lines, "<div class=\"soft small\">{} of {}</div>", rows.len() - told, escape(name));
        }
    }
    lines
}

fn cell(value: &Value) -> String {
    if value.is_null() { "NULL".to_owned() } else { plain(value) }
}

fn steps(calls: &Value) -> String {
    let calls = calls.as_array().map_or(&[][..], Vec::as_slice);
    let line = |call: &Value| format!("<div class=\"mono\">{}</div>", escape(&text(call, "text")));
    calls.iter().map(line).collect()
}
