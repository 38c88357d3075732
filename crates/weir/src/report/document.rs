//! The plan's document with what the page looks up in it again and again: places of names, guards of verdicts,
//! statements of the source files.
//!
//! Reads the document that `--format json` prints, so the page can say nothing that a script cannot read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weir_sql::Sources;

use super::html::{escape, list, text};

/// Lines of a statement that are shown.
const STATEMENT_LINES_MAX: usize = 8;

/// The verdict on one transaction and one invariant. Numbered as `page.js` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Untouched = 0,
    /// Keeps it without coordination.
    Confluent = 1,
    /// A guard keeps it.
    Guarded = 2,
    /// Only order keeps it.
    Ordered = 3,
    /// Nothing decides it, so it runs in order.
    Undecided = 4,
    /// One call alone breaks it, whatever the mechanism.
    BrokenAlone = 5,
}

pub struct Document<'a> {
    pub value: &'a Value,
    pub transactions: &'a [Value],
    pub invariants: &'a [Value],
    transaction_at: BTreeMap<&'a str, usize>,
    invariant_at: BTreeMap<&'a str, usize>,
    table_at: BTreeMap<&'a str, usize>,
    /// By transaction and invariant.
    verdicts: BTreeMap<(usize, usize), &'a Value>,
    guards: BTreeMap<(usize, usize), Vec<&'a Value>>,
    /// Reasons of comments, by transaction, invariant and kind.
    allowed: BTreeMap<(String, String, String), String>,
    lines: BTreeMap<&'a str, Vec<&'a str>>,
    /// Bytes of the folder that all files have in common: places go without it.
    folder: usize,
}

impl<'a> Document<'a> {
    pub fn new(value: &'a Value, sources: &'a Sources) -> Document<'a> {
        let at = |field: &str, name: &str| -> BTreeMap<&'a str, usize> {
            let named = list(value, field).iter().enumerate();
            named.filter_map(|(index, one)| Some((one[name].as_str()?, index))).collect()
        };
        let mut document = Document {
            value,
            transactions: list(value, "transactions"),
            invariants: list(value, "invariants"),
            transaction_at: at("transactions", "name"),
            invariant_at: at("invariants", "id"),
            table_at: at("tables", "name"),
            verdicts: BTreeMap::new(),
            guards: BTreeMap::new(),
            allowed: BTreeMap::new(),
            lines: sources
                .files
                .iter()
                .map(|file| (file.name.as_str(), file.text.lines().collect()))
                .collect(),
            folder: common_folder(sources.files.iter().map(|file| file.name.as_str())),
        };
        for (index, transaction) in document.transactions.iter().enumerate() {
            for guard in list(transaction, "guards") {
                let kept: Vec<usize> =
                    list(guard, "keeps").iter().filter_map(|kept| document.invariant(kept)).collect();
                for kept in kept {
                    document.guards.entry((index, kept)).or_default().push(guard);
                }
            }
        }
        for verdict in list(value, "verdicts") {
            let transaction = document.transaction(&verdict["transaction"]);
            if let Some(at) = transaction.zip(document.invariant(&verdict["invariant"])) {
                document.verdicts.insert(at, verdict);
            }
        }
        for finding in list(value, "findings").iter().filter(|finding| finding["allowed"].is_string()) {
            let key = (text(finding, "transaction"), text(finding, "invariant"), text(finding, "id"));
            document.allowed.insert(key, text(finding, "allowed"));
        }
        document
    }

    pub fn transaction(&self, name: &Value) -> Option<usize> {
        self.transaction_at.get(name.as_str()?).copied()
    }

    pub fn invariant(&self, id: &Value) -> Option<usize> {
        self.invariant_at.get(id.as_str()?).copied()
    }

    pub fn table(&self, name: &Value) -> Option<usize> {
        self.table_at.get(name.as_str()?).copied()
    }

    pub fn verdict(&self, transaction: usize, invariant: usize) -> Option<&'a Value> {
        self.verdicts.get(&(transaction, invariant)).copied()
    }

    /// The guards of a transaction that keep an invariant.
    pub fn guards(&self, transaction: usize, invariant: usize) -> &[&'a Value] {
        self.guards.get(&(transaction, invariant)).map_or(&[], Vec::as_slice)
    }

    pub fn standing(&self, verdict: &Value) -> Standing {
        if verdict["rule"] == "untouched" {
            return Standing::Untouched;
        }
        if verdict["alone_witness"].is_object() {
            return Standing::BrokenAlone;
        }
        if verdict["confluent"] == true {
            return Standing::Confluent;
        }
        let at = self.transaction(&verdict["transaction"]).zip(self.invariant(&verdict["invariant"]));
        match at.is_some_and(|(transaction, invariant)| !self.guards(transaction, invariant).is_empty()) {
            true => Standing::Guarded,
            false if verdict["decided_by"] == "assumption" && verdict["rule"].is_null() => {
                Standing::Undecided
            }
            false => Standing::Ordered,
        }
    }

    /// The reason for which a comment lets a finding of this kind through.
    pub fn allowed(&self, transaction: &str, invariant: &str, kind: &str) -> Option<&str> {
        let key = (transaction.to_owned(), invariant.to_owned(), kind.to_owned());
        self.allowed.get(&key).map(String::as_str)
    }

    /// The tables that a transaction reads or writes.
    pub fn tables_of(&self, transaction: usize) -> BTreeSet<usize> {
        let accesses = list(&self.transactions[transaction], "accesses").iter();
        accesses.filter_map(|access| self.table(&access["table"])).collect()
    }

    /// The tables that an invariant speaks of.
    pub fn tables_of_invariant(&self, invariant: usize) -> BTreeSet<usize> {
        list(&self.invariants[invariant], "tables").iter().filter_map(|table| self.table(table)).collect()
    }

    /// Attributes by which the filters find an element: its transactions, its tables, whether it costs anything.
    pub fn marks(
        &self,
        transactions: impl IntoIterator<Item = usize>,
        tables: impl IntoIterator<Item = usize>,
        costly: bool,
    ) -> String {
        let joined =
            |numbers: BTreeSet<usize>| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        format!(
            " data-t=\"{}\" data-b=\"{}\"{}",
            joined(transactions.into_iter().collect()),
            joined(tables.into_iter().collect()),
            if costly { " data-costly" } else { "" }
        )
    }

    /// The marks of what is about one transaction.
    pub fn marks_of(&self, transaction: &Value, costly: bool) -> String {
        match self.transaction(transaction) {
            Some(index) => self.marks([index], self.tables_of(index), costly),
            None => self.marks([], [], costly),
        }
    }

    /// `procedures.sql:12:5`.
    pub fn place_name(&self, source: &Value) -> String {
        let Some(file) = source["file"].as_str() else { return String::new() };
        let file = if self.lines.contains_key(file) { file.get(self.folder..).unwrap_or(file) } else { file };
        format!("{file}:{}:{}", text(source, "line"), text(source, "column"))
    }

    /// The line that a place is on and those behind it, up to the end of the statement.
    pub fn statement(&self, source: &Value) -> Option<String> {
        let lines = self.lines.get(source["file"].as_str()?)?;
        let first = usize::try_from(source["line"].as_u64()?).ok()?.checked_sub(1)?;
        let mut shown = Vec::new();
        for line in lines.iter().skip(first).take(STATEMENT_LINES_MAX) {
            shown.push(*line);
            if line.trim_end().ends_with(';') {
                break;
            }
        }
        let indent = |line: &&str| line.len() - line.trim_start_matches(' ').len();
        let indent = shown.iter().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
        let cut = |line: &&str| line.get(indent..).unwrap_or("").trim_end().to_owned();
        Some(shown.iter().map(cut).collect::<Vec<_>>().join("\n").trim_end().to_owned())
    }

    /// A place; where the file is known it opens to the statement.
    pub fn place(&self, source: &Value) -> String {
        if !source.is_object() {
            return String::new();
        }
        let place = escape(&self.place_name(source));
        match self.statement(source).filter(|statement| !statement.is_empty()) {
            Some(statement) => format!(
                "<details class=\"place\"><summary class=\"mono\">{place}</summary><pre>{}</pre></details>",
                escape(&statement)
            ),
            None => format!("<div class=\"place mono\">{place}</div>"),
        }
    }
}

/// Bytes up to the last `/` that all names have in common.
fn common_folder<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    let folder = |name: &'a str| name.rfind('/').map_or("", |at| &name[..=at]);
    let common = |a: &'a str, b: &'a str| {
        let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let whole = a.as_bytes()[..same].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        &a[..whole]
    };
    names.map(folder).reduce(common).map_or(0, str::len)
}

#[cfg(test)]
mod tests {
    use super::common_folder;

    #[test]
    fn places_go_without_the_folder_that_all_files_share() {
        for (names, expected) in [
            (&["a/b/x.sql", "a/b/y.sql"][..], 4),
            (&["a/b/x.sql"], 4),
            (&["a/bc/x.sql", "a/bd/x.sql"], 2),
            (&["é/x.sql", "è/x.sql"], 0),
            (&["x.sql", "a/x.sql"], 0),
            (&[], 0),
        ] {
            assert_eq!(common_folder(names.iter().copied()), expected, "{names:?}");
        }
    }
}
