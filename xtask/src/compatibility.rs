//! The generated part of docs/limits.md: what of PostgreSQL's SQL is answered alike, from the corpus that runs against both, and what is
//! refused by name, from the places that refuse it.
//!
//! Reads text alone: nothing has to be built or run for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const FILE: &str = "docs/limits.md";
const BEGIN: &str = "<!-- written by `cargo xtask limits`; what stands here is not edited -->";
const END: &str = "<!-- the end of what is written -->";

/// Feature, and what a statement that uses it has in it, in small letters; none of the words matters alone.
const FEATURES: &[(&str, &[&str])] = &[
    ("Joins: inner, left, right, full, cross", &[" join "]),
    ("LATERAL", &["lateral"]),
    ("Subqueries: scalar, IN, EXISTS, ANY, ALL", &["(select ", "exists (", "any (select", "all (select"]),
    ("WITH", &["with "]),
    ("WITH RECURSIVE", &["with recursive"]),
    ("GROUP BY, HAVING", &["group by"]),
    ("GROUPING SETS, ROLLUP, CUBE", &["grouping sets", "rollup", "cube"]),
    ("Aggregates with DISTINCT, FILTER or WITHIN GROUP", &["(distinct ", "filter (", "within group"]),
    ("Window functions", &[" over (", " over w"]),
    ("UNION, INTERSECT, EXCEPT", &[" union ", " intersect ", " except "]),
    ("ORDER BY, LIMIT, OFFSET, FETCH", &["order by", " limit ", " offset ", "fetch first"]),
    ("DISTINCT ON", &["distinct on"]),
    ("Functions that give rows", &["generate_series", "unnest", "rows from", "_each", "_elements"]),
    ("jsonb", &["jsonb", "->"]),
    ("Arrays", &["array[", "array_", "any(", "'{"]),
    ("Dates, times and intervals", &["interval", "timestamp", "date ", "extract("]),
    ("Regular expressions, LIKE, SIMILAR TO", &["~", "like ", "similar to", "regexp_"]),
    ("INSERT", &["insert into"]),
    ("ON CONFLICT", &["on conflict"]),
    ("UPDATE", &["update "]),
    ("UPDATE … FROM, DELETE … USING", &[" using ", " from "]),
    ("DELETE", &["delete from"]),
    ("RETURNING", &["returning"]),
    ("FOR UPDATE and weaker", &["for update", "for share", "for no key", "for key"]),
];

pub fn write(root: &Path) -> ExitCode {
    let path = root.join(FILE);
    let Some(text) = written(root) else {
        eprintln!("{FILE}: there is no place for it between\n{BEGIN}\n{END}");
        return ExitCode::FAILURE;
    };
    match std::fs::write(&path, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{FILE}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Complaint about an outdated file; none if it is current.
pub fn complaint(root: &Path) -> Option<String> {
    let now = std::fs::read_to_string(root.join(FILE)).ok();
    let is_so = now.is_some() && now == written(root);
    (!is_so).then(|| format!("{FILE}: it does not say what is so; `cargo xtask limits` writes it anew"))
}

/// The file as it should be.
fn written(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join(FILE)).ok()?;
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n{END}{after}", generated(root)))
}

fn generated(root: &Path) -> String {
    let cases = corpus(&root.join("testdata/sql/corpus"));
    let mut text = String::from("### Answered as by PostgreSQL 15\n\n");
    let refused = cases.iter().filter(|case| case.refused).count();
    let _ = writeln!(
        text,
        "`testdata/sql/corpus` has {} statements that PostgreSQL 15 and Weir, on one shard and on three, answer alike (`cargo test --workspace --test bench postgres::corpus::`), and {refused} that\n\
         PostgreSQL runs and Weir refuses. A statement counts for each feature that it uses.\n",
        cases.len() - refused
    );
    text += "| feature | alike | refused |\n|---|---:|---:|\n";
    for (feature, words) in FEATURES {
        let of = |refused: bool| {
            cases.iter().filter(move |case| case.refused == refused && case.uses(feature, words))
        };
        let _ = writeln!(text, "| {feature} | {} | {} |", of(false).count(), of(true).count());
    }
    text += "\nThose that are refused:\n\n";
    for case in cases.iter().filter(|case| case.refused) {
        let _ = writeln!(text, "* `{}`", case.sql);
    }
    text += "\n### Refused by name (0A000)\n\nWherever the text says so, with the remedy that it gives. Where … stands, the message has a name.\n\n";
    for (area, all) in refusals(root) {
        let _ = writeln!(text, "**{area}**\n\n| what | instead |\n|---|---|");
        for (what, instead) in all {
            let _ = writeln!(text, "| {} | {} |", what.replace('|', "\\|"), instead.replace('|', "\\|"));
        }
        text.push('\n');
    }
    text
}

struct Case {
    /// On one line.
    sql: String,
    refused: bool,
}

impl Case {
    fn uses(&self, feature: &str, words: &[&str]) -> bool {
        let sql = format!("{} ", self.sql.to_lowercase());
        let begins = |word: &str| sql.starts_with(word);
        match feature {
            "UPDATE … FROM, DELETE … USING" => {
                begins("update ") && sql.contains(" from ") || begins("delete ") && sql.contains(" using ")
            }
            "UPDATE" => begins("update "),
            "WITH" => begins("with ") || sql.contains("(with "),
            _ => words.iter().any(|word| sql.contains(word)),
        }
    }
}

/// As `crates/weir-bench/tests/postgres/corpus.rs` reads it.
fn corpus(folder: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    for path in files(folder, "sql") {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let Some((_, listed)) = text.split_once("\n-- cases\n") else { continue };
        let (mut sql, mut refused) = (String::new(), false);
        for line in listed.lines() {
            if sql.is_empty() && (line.trim().is_empty() || line.starts_with("--")) {
                refused |= line.trim() == "-- refused";
                continue;
            }
            sql += line.trim();
            match sql.strip_suffix(';') {
                Some(whole) => {
                    cases.push(Case { sql: whole.to_owned(), refused });
                    (sql, refused) = (String::new(), false);
                }
                None => sql.push(' '),
            }
        }
    }
    cases
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|of| of == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// By area: what is refused, and what to do instead.
fn refusals(root: &Path) -> BTreeMap<&'static str, BTreeSet<(String, String)>> {
    let mut all: BTreeMap<&'static str, BTreeSet<(String, String)>> = BTreeMap::new();
    for folder in ["crates/weir-sql/src", "crates/weir-txn/src/exec"] {
        for path in files(&root.join(folder), "rs") {
            let Some(area) = area(&path) else { continue };
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            // `Diagnostic::unsupported(place, what, instead)`, and what a statement by itself is refused with.
            for call in ["Diagnostic::unsupported(", "refused("] {
                for (at, _) in code.match_indices(call) {
                    let arguments = arguments(&code[at + call.len()..]);
                    let told = |at: usize| arguments.get(at).and_then(|argument| literal(argument));
                    if let (Some(what), Some(instead)) = (told(1), told(2)) {
                        all.entry(area).or_default().insert((what, instead));
                    }
                }
            }
        }
    }
    all
}

/// None: what is refused there no client of a server can say.
fn area(path: &Path) -> Option<&'static str> {
    let path = path.to_string_lossy();
    Some(match () {
        () if path.contains("/ways/") || path.contains("/tests") || path.ends_with("source.rs") => {
            return None;
        }
        () if path.contains("/plpgsql/") || path.ends_with("routine.rs") => "Procedures and functions",
        () if path.contains("/ddl/") || path.contains("definition") => "Definitions",
        () if path.ends_with("assertion.rs") => "Assertions",
        () if path.ends_with("type_name.rs") => "Types",
        () if path.contains("/exec/") => "What the shards of a statement cannot do together",
        () => "Queries and statements",
    })
}

/// The arguments of a call whose parenthesis is open, as they are written.
fn arguments(code: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut in_text) = (0usize, 0, false);
    let mut found = Vec::new();
    let bytes = code.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_text => at += 1,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth > 0 => depth -= 1,
            b')' => {
                found.push(&code[begin..at]);
                return found;
            }
            b',' if depth == 0 => {
                found.push(&code[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The text of a literal, or of a format: … for what is put in.
fn literal(argument: &str) -> Option<String> {
    let argument = argument.trim();
    let argument = argument.strip_prefix("format!(").unwrap_or(argument).trim_start();
    let inner = argument.strip_prefix('"')?;
    let (mut text, mut letters) = (String::new(), inner.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return Some(text),
            '\\' => match letters.next()? {
                // The line goes on.
                '\n' => while letters.next_if(|next| next.is_whitespace()).is_some() {},
                other => text.push(other),
            },
            '{' => {
                letters.by_ref().find(|letter| *letter == '}')?;
                text.push('…');
            }
            letter => text.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_as_it_is_written() {
        let code = "span, format!(\"the {what} of \\\n        {}\", f(a, \")\")), \"say \\\"it\\\"\")";
        let found = arguments(code);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(literal(found[1]).as_deref(), Some("the … of …"));
        assert_eq!(literal(found[2]).as_deref(), Some("say \"it\""));
        assert_eq!(literal("what"), None);
    }
}
