//! Figure 2 of the coordination-avoidance paper, for every verdict that is not confluent: one valid
//! state, two branches that are valid each, and the merge that is not.

use std::fmt::Write;

use serde_json::Value;

use super::document::Document;
use super::html::{escape, list, plain, text};

/// Figures that are shown at first, and without the page's script.
const SHOWN_MAX: usize = 24;
/// Bytes of all figures; the words of the other verdicts are in the matrix, their witnesses in the JSON.
const BYTES_MAX: usize = 3 << 20;

/// The arrows of all figures, once.
pub const ARROWS: &str = "<svg class=\"arrows\" aria-hidden=\"true\">\
    <symbol id=\"fork\" viewBox=\"0 0 400 34\" preserveAspectRatio=\"none\">\
    <path d=\"M200 0 L100 32 M107 24 L100 32 L111 32\"/><path d=\"M200 0 L300 32 M293 24 L300 32 L289 32\"/></symbol>\
    <symbol id=\"join\" viewBox=\"0 0 400 34\" preserveAspectRatio=\"none\">\
    <path d=\"M100 0 L196 32 M186 32 L196 32 L191 25\"/><path d=\"M300 0 L204 32 M214 32 L204 32 L209 25\"/></symbol></svg>\n";

const FORK: &str = "<svg aria-hidden=\"true\"><use href=\"#fork\"/></svg>";
const JOIN: &str = "<svg aria-hidden=\"true\"><use href=\"#join\"/></svg>";

/// Contents of the four corners and around them, already as markup.
pub struct Diamond {
    pub class: &'static str,
    pub attributes: String,
    pub caption: String,
    pub top: [String; 2],
    pub left: [String; 2],
    pub right: [String; 2],
    /// The word between the branches and their outcome.
    pub join: &'static str,
    pub bottom: [String; 2],
    pub foot: String,
}

impl Diamond {
    pub fn markup(&self) -> String {
        let state = |class: &str, [head, body]: &[String; 2]| {
            format!("<div class=\"state{class}\"><b>{head}</b>{body}</div>")
        };
        format!(
            "<figure class=\"diamond {}\"{}>\n<figcaption>{}</figcaption>\n{}\n{FORK}\n<div class=\"branches\">{}{}</div>\n\
             <div class=\"join\">{JOIN}<span>{}</span></div>\n{}\n<div class=\"foot\">{}</div>\n</figure>\n",
            self.class,
            self.attributes,
            self.caption,
            state(" top", &self.top),
            state("", &self.left),
            state("", &self.right),
            self.join,
            state(" bottom violated", &self.bottom),
            self.foot
        )
    }
}

pub fn section(document: &Document<'_>) -> String {
    let verdicts: Vec<&Value> =
        list(document.value, "verdicts").iter().filter(|verdict| verdict["confluent"] == false).collect();
    let mut section =
        String::from("<section id=\"witnesses\">\n<h2>Where coordination is needed, and why</h2>\n");
    if verdicts.is_empty() {
        section.push_str(
            "<p class=\"soft\">Nowhere: any two valid branches of these transactions merge into a valid \
             state.</p>\n</section>\n",
        );
        return section;
    }
    section.push_str(
        "<p class=\"soft\">Both branches start from the same valid state and are valid by themselves. Their \
         merge is not; the plan's guard or order is what keeps it from coming to be.</p>\n",
    );
    let (mut shown, mut hidden, mut count) = (String::new(), String::new(), 0);
    for verdict in &verdicts {
        if shown.len() + hidden.len() > BYTES_MAX {
            break;
        }
        let into = if count < SHOWN_MAX { &mut shown } else { &mut hidden };
        into.push_str(&figure(document, verdict));
        count += 1;
    }
    let _ = writeln!(section, "<div class=\"diamonds\" id=\"diamonds\">\n{shown}</div>");
    if !hidden.is_empty() {
        let _ = writeln!(
            section,
            "<template id=\"more-diamonds\">\n{hidden}</template>\n\
             <p><button type=\"button\" id=\"show-more\" hidden>Show more</button></p>"
        );
    }
    if count < verdicts.len() {
        let _ = writeln!(
            section,
            "<p class=\"soft\">{} more verdicts are in the matrix; their witnesses are in the JSON document.</p>",
            verdicts.len() - count
        );
    }
    section.push_str("</section>\n");
    section
}

fn figure(document: &Document<'_>, verdict: &Value) -> String {
    let (invariant, transaction) = (text(verdict, "invariant"), text(verdict, "transaction"));
    let witness = &verdict["witness"];
    let operation = text(verdict, "operation");
    let partner = Some(text(verdict, "with")).filter(|with| !with.is_empty());
    let partner = partner.unwrap_or_else(|| transaction.clone());
    let partner_operation = partner_operation(document, verdict).unwrap_or_else(|| operation.clone());

    let (initial, left, right, merged) = if witness.is_object() {
        (
            states(witness, "initial"),
            steps(&witness["left"]),
            steps(&witness["right"]),
            format!(
                "{}<div class=\"mono broken\">{}</div>",
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
    let mut foot = String::new();
    if witness.is_object() {
        foot.push_str(&escape(&text(verdict, "because")));
    }
    let assumes: Vec<String> = list(verdict, "assumes").iter().map(plain).collect();
    if !assumes.is_empty() {
        let _ = write!(foot, " <span class=\"soft\">Assumes: {}.</span>", escape(&assumes.join("; ")));
    }
    let at = (document.transaction(&verdict["transaction"]), document.invariant(&verdict["invariant"]));
    let mut attributes = String::new();
    if let (Some(transaction), Some(invariant)) = at {
        for guard in document.guards(transaction, invariant) {
            let guard = format!("{} on {}", text(guard, "kind"), text(guard, "on"));
            let _ = write!(foot, "<div>Kept by a <span class=\"badge warn\">{}</span></div>", escape(&guard));
        }
        let parties = [transaction].into_iter().chain(document.transaction(&verdict["with"]));
        let marks = document.marks(parties, document.tables_of_invariant(invariant), true);
        let _ = write!(
            attributes,
            " id=\"w{invariant}-{transaction}\" data-s=\"{}\"{marks}",
            document.standing(verdict) as u8
        );
    }
    Diamond {
        class: "",
        attributes,
        caption: format!(
            "<h3 class=\"mono\">{}</h3><span class=\"soft small\">{} beside {}</span>{}",
            escape(&invariant),
            escape(&transaction),
            escape(if partner == transaction { "itself" } else { &partner }),
            declaration(document, &invariant)
        ),
        top: ["valid state".to_owned(), initial],
        left: ["one branch: valid".to_owned(), left],
        right: ["the other: valid".to_owned(), right],
        join: "merge ⊔",
        bottom: [
            if witness.is_object() { "merged: violated" } else { "merged: may be violated" }.to_owned(),
            merged,
        ],
        foot,
    }
    .markup()
}

/// The invariant's own words, folded away.
fn declaration(document: &Document<'_>, invariant: &str) -> String {
    let Some(found) = document.invariant(&Value::from(invariant)).map(|index| &document.invariants[index])
    else {
        return String::new();
    };
    let words = text(found, "text");
    if words.trim().is_empty() {
        return String::new();
    }
    format!(
        "<details class=\"small\"><summary>{}</summary><pre>{}</pre></details>",
        escape(&document.place_name(&found["source"])),
        escape(words.trim())
    )
}

/// Operation of the other transaction on the same invariant.
fn partner_operation(document: &Document<'_>, verdict: &Value) -> Option<String> {
    let invariant = document.invariant(&verdict["invariant"])?;
    let partner = document.verdict(document.transaction(&verdict["with"])?, invariant)?;
    Some(text(partner, "operation"))
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
