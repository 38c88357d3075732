//! One input: names and texts. It follows from the seed and its number; the first ones nest deeply, for every seed.

use std::path::Path;

use weir_fuzz::wire::{self, When};

use crate::corpus::{self, Corpus};
use crate::mutate::{Chance, damage};
use crate::nesting;

/// Longer inputs are cut: they take long and show nothing more.
const BYTES_MAX: usize = 200_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Names and texts; a name that ends with `.log` is a log of statements, and one that ends with `.wire` has what clients say to a
    /// server, a line for each, in hexadecimal digits.
    pub files: Vec<(String, String)>,
}

impl Case {
    pub fn make(seed: u64, number: u64, corpus: &Corpus) -> Case {
        if let Some(text) = nesting::systematic(number) {
            return Case { files: vec![("schema.sql".to_owned(), text)] };
        }
        let mut chance = Chance::of(seed, number);
        let mut files = match chance.below(11) {
            10 => conversation(&mut chance),
            0 => application(corpus, &mut chance),
            1 | 2 => statements(corpus, &mut chance),
            3 => cached(corpus, &mut chance),
            4..=6 => body(corpus, &mut chance),
            _ => log(corpus, &mut chance),
        };
        for (_, text) in &mut files {
            let mut end = text.len().min(BYTES_MAX);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        Case { files }
    }

    /// As `1-name` and so on, in a folder of its own.
    pub fn save(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        for (number, (name, text)) in self.files.iter().enumerate() {
            std::fs::write(folder.join(format!("{}-{name}", number + 1)), text)?;
        }
        Ok(())
    }

    pub fn load(folder: &Path) -> std::io::Result<Case> {
        let mut paths =
            std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        paths.sort();
        let mut files = Vec::new();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.split_once('-').map_or(&*name, |(_, name)| name).to_owned();
            files.push((name, String::from_utf8_lossy(&std::fs::read(&path)?).into_owned()));
        }
        Ok(Case { files })
    }
}

/// How many clients a file has: reading one of them takes microseconds.
const CLIENTS: usize = 50;

fn conversation(chance: &mut Chance) -> Vec<(String, String)> {
    let line = |_| {
        let when = When::any(chance);
        let bytes = wire::messages(chance, when, 20).concat();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n"
    };
    vec![("clients.wire".to_owned(), (0..CLIENTS).map(line).collect())]
}

/// A whole application with one file damaged.
fn application(corpus: &Corpus, chance: &mut Chance) -> Vec<(String, String)> {
    let mut files = chance.pick(&corpus.applications).clone();
    let at = chance.below(files.len());
    let other = chance.pick(&corpus.statements);
    files[at].1 = damage(&files[at].1, other, chance);
    files
}

/// Some statements, some of them damaged.
fn statements(corpus: &Corpus, chance: &mut Chance) -> Vec<(String, String)> {
    let mut text = accepted(chance).to_owned();
    for _ in 0..1 + chance.below(12) {
        let statement = chance.pick(&corpus.statements).clone();
        let other = chance.pick(&corpus.statements);
        match chance.below(2) {
            0 => text.push_str(&statement),
            _ => text.push_str(&damage(&statement, other, chance)),
        }
        text.push('\n');
    }
    vec![("schema.sql".to_owned(), text)]
}

/// A schema as it is, and a damaged file of sqlx' query cache or of transactions.
fn cached(corpus: &Corpus, chance: &mut Chance) -> Vec<(String, String)> {
    let mut files = chance.pick(&corpus.applications).clone();
    files.truncate(1);
    let (query, other) = (chance.pick(&corpus.statements).clone(), chance.pick(&corpus.statements));
    let (name, text) = match chance.below(2) {
        0 => {
            let query = damage(&query, other, chance).replace('\\', "\\\\").replace('"', "\\\"");
            let query: String = query.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let types = r#"{"parameters":{"Left":["Int8","TextArray",{"Custom":{}}]}}"#;
            let text = format!(r#"{{"db_name":"PostgreSQL","query":"{query}","describe":{types}}}"#);
            ("query-1.json", text)
        }
        _ => ("transactions.sql", format!("-- transaction: t(a, b int, c numeric(3,1)[])\n{query}")),
    };
    let text = if chance.below(2) == 0 { damage(&text, other, chance) } else { text };
    files.push((name.to_owned(), text));
    files
}

/// With this line, reading goes on behind names that are not known.
fn accepted(chance: &mut Chance) -> &'static str {
    if chance.below(2) == 0 { weir_sql::ACCEPTED } else { "" }
}

/// A schema as it is, and one of its routines, or another, with a damaged body.
fn body(corpus: &Corpus, chance: &mut Chance) -> Vec<(String, String)> {
    let mut files = chance.pick(&corpus.applications).clone();
    let own: Vec<String> = files.iter().flat_map(|(_, text)| corpus::statements(text)).collect();
    files.truncate(1);
    let routines = |list: &[String]| -> Vec<String> {
        list.iter().filter(|text| text.contains("$$")).cloned().collect()
    };
    let all = routines(&corpus.statements);
    let routine = match routines(&own) {
        own if !own.is_empty() && chance.below(4) > 0 => chance.pick(&own).clone(),
        _ => chance.pick(&all).clone(),
    };
    let other = chance.pick(&all);
    let mut parts: Vec<String> = routine.split("$$").map(str::to_owned).collect();
    let at = 1.min(parts.len() - 1);
    parts[at] = damage(&parts[at], other, chance);
    files.push(("procedures.sql".to_owned(), format!("{}{}", accepted(chance), parts.join("$$"))));
    files
}

/// A schema as it is, and a damaged log, perhaps with statements of its own.
fn log(corpus: &Corpus, chance: &mut Chance) -> Vec<(String, String)> {
    let mut files = chance.pick(&corpus.applications).clone();
    let mut text = chance.pick(&corpus.logs).clone();
    for _ in 0..chance.below(6) {
        let statement = chance.pick(&corpus.statements).replace('\n', "\n\t");
        let how = *chance.pick(&["statement: ", "execute s: ", "duration: 1 ms  statement: ", ""]);
        text.push_str(&format!("2026-01-31 12:00:00 UTC [{}] LOG:  {how}{statement}\n", chance.below(3)));
    }
    let other = chance.pick(&corpus.statements);
    files.push(("statements.log".to_owned(), damage(&text, other, chance)));
    files
}
