//! Data of the matrix for the page's script: every pair that touches, with its texts stored once.
//!
//! The script inserts texts as text, never as markup.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::document::{Document, Standing};
use super::html::{list, plain, text};
use crate::explanation::EXPLANATIONS;

/// Characters of an invariant's declaration that are shown.
const TEXT_MAX: usize = 2_000;

/// Every text once; elsewhere its number stands for it.
#[derive(Default)]
struct Strings {
    at: BTreeMap<String, usize>,
    list: Vec<String>,
}

impl Strings {
    fn add(&mut self, text: String) -> usize {
        *self.at.entry(text).or_insert_with_key(|text| {
            self.list.push(text.clone());
            self.list.len() - 1
        })
    }
}

/// The element with the data, as `page.js` reads it.
pub fn element(document: &Document<'_>) -> String {
    let mut strings = Strings::default();
    let verdicts = verdicts(document, &mut strings);
    let data = json!({
        "tables": list(document.value, "tables").iter().map(|table| text(table, "name")).collect::<Vec<_>>(),
        "transactions": transactions(document, &mut strings),
        "invariants": invariants(document),
        "verdicts": verdicts,
        "rules": rules(document),
        "strings": strings.list,
    });
    // `<` is all that could end the element.
    let data = data.to_string().replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"data\">{data}</script>\n")
}

fn transactions(document: &Document<'_>, strings: &mut Strings) -> Vec<Value> {
    let mut transaction = |transaction: &Value| {
        let accesses = list(transaction, "accesses").iter();
        let writes = accesses.filter(|access| access["access"] != "read");
        let writes: Vec<Value> = writes
            .map(|access| {
                json!([
                    document.table(&access["table"]),
                    access["access"],
                    access["columns"],
                    strings.add(document.place_name(&access["source"])),
                    strings.add(document.statement(&access["source"]).unwrap_or_default()),
                ])
            })
            .collect();
        json!({
            "name": text(transaction, "name"),
            "mechanism": text(transaction, "mechanism"),
            "class": text(transaction, "class"),
            "costly": transaction["confluent"] == false,
            "writes": writes,
        })
    };
    document.transactions.iter().map(&mut transaction).collect()
}

fn invariants(document: &Document<'_>) -> Vec<Value> {
    let invariant = |(index, invariant): (usize, &Value)| {
        json!({
            "id": text(invariant, "id"),
            "kind": text(invariant, "kind"),
            "table": document.table(&invariant["table"]),
            "tables": document.tables_of_invariant(index),
            "columns": invariant["columns"],
            "text": text(invariant, "text").chars().take(TEXT_MAX).collect::<String>(),
            "place": document.place_name(&invariant["source"]),
        })
    };
    document.invariants.iter().enumerate().map(invariant).collect()
}

/// One list for each pair that touches, in the order that `page.js` names.
fn verdicts(document: &Document<'_>, strings: &mut Strings) -> Vec<Value> {
    let mut rows = Vec::new();
    for verdict in list(document.value, "verdicts") {
        let at = document.transaction(&verdict["transaction"]).zip(document.invariant(&verdict["invariant"]));
        let Some((transaction, invariant)) = at else { continue };
        let standing = document.standing(verdict);
        if standing == Standing::Untouched {
            continue;
        }
        let guards = document.guards(transaction, invariant).iter().map(|guard| {
            let shared = if guard["shared"] == true { "shared " } else { "" };
            let words = format!("{shared}{} on {}", text(guard, "kind"), text(guard, "on"));
            let why = text(guard, "why");
            let statement = document.statement(&guard["source"]).unwrap_or_default();
            [words, why, document.place_name(&guard["source"]), statement].map(|text| strings.add(text))
        });
        let guards: Vec<[usize; 4]> = guards.collect();
        let assumes: Vec<usize> =
            list(verdict, "assumes").iter().map(|assumed| strings.add(plain(assumed))).collect();
        let (id, name) = (text(verdict, "id"), text(verdict, "invariant"));
        let allowed = document.allowed(&text(verdict, "transaction"), &name, &id);
        rows.push(json!([
            invariant,
            transaction,
            standing as u8,
            document.transaction(&verdict["with"]),
            strings.add(text(verdict, "operation")),
            strings.add(text(verdict, "because")),
            strings.add(id),
            strings.add(text(verdict, "decided_by")),
            strings.add(text(verdict, "alone")),
            assumes,
            guards,
            allowed.map(|reason| strings.add(reason.to_owned())),
            verdict["alone_witness"]["text"].as_str().map(|steps| strings.add(steps.to_owned())),
        ]));
    }
    rows
}

/// Title and meaning of every kind of verdict that there is, by id.
fn rules(document: &Document<'_>) -> Value {
    let mut used: BTreeMap<String, Value> = BTreeMap::new();
    for verdict in list(document.value, "verdicts") {
        let Some(id) = verdict["id"].as_str() else { continue };
        if used.contains_key(id) {
            continue;
        }
        let kind = weir_analysis::registry::find(id);
        let explained = kind.and_then(|kind| EXPLANATIONS.iter().find(|one| one.name == kind.name));
        if let Some(one) = explained {
            used.insert(id.to_owned(), json!([one.name, one.title, one.meaning, one.mend]));
        }
    }
    json!(used)
}
