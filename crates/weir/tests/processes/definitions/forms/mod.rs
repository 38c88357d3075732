//! Every form of a definition that is taken has the effect that it has in PostgreSQL, or is refused by name: the forms are data
//! (testdata/sql/definitions), told to a PostgreSQL server and to Weir on one shard and on several.
//!
//! A line is one statement. `[refused]` before it says that Weir refuses it (0A000), on any number of shards; `[refused on 3]`, on
//! several: then PostgreSQL is not told it, so that what follows meets the same. `[on 1]`: on one shard only; `[taken]`: Weir takes it,
//! PostgreSQL is not told it, and nothing follows from it. `--` begins a remark. Each file has a database of
//! its own, and what stands in it is its own affair: parts of it do well with tables of names of their own.

use std::path::PathBuf;

use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server;

use super::answer;
use crate::alone::Alone;

/// As PostgreSQL answers, refused everywhere, or refused where there are several shards.
#[derive(Clone, Copy, PartialEq)]
enum Expected {
    Alike,
    Refused,
    RefusedOnSeveral,
    /// Both are told it where there is one shard: values that several shards give in another order.
    OnOneShard,
    /// Weir takes it without an effect, and PostgreSQL is not told it.
    Taken,
}

fn read(line: &str) -> (Expected, &str) {
    let marks = [
        ("[refused] ", Expected::Refused),
        ("[refused on 3] ", Expected::RefusedOnSeveral),
        ("[on 1] ", Expected::OnOneShard),
        ("[taken] ", Expected::Taken),
    ];
    let marked = marks.iter().find_map(|(mark, expected)| Some((*expected, line.strip_prefix(mark)?)));
    marked.unwrap_or((Expected::Alike, line))
}

fn is_error(answer: &str) -> bool {
    answer.contains("Error {")
}

fn state(answer: &str) -> &str {
    answer.split(' ').next().unwrap_or_default()
}

/// Differences in the file, on that number of shards.
fn differences(name: &str, text: &str, postgres: &Server, shards: u16) -> Vec<String> {
    let weir = Alone::start(shards);
    let mut own = weir.driver();
    let database = format!("{name}_{shards}");
    let connect = |text: &str| Driver::connect(text, NoTls).unwrap();
    connect(&postgres.connection_string()).batch_execute(&format!("CREATE DATABASE {database}")).unwrap();
    let mut oracle = connect(&format!("{} dbname={database}", postgres.connection_string()));
    let mut different = Vec::new();
    for (number, line) in
        text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with("--"))
    {
        let (expected, statement) = read(line);
        if expected == Expected::OnOneShard && shards > 1 {
            continue;
        }
        let seen = answer(&mut own, statement);
        let refused = expected == Expected::Refused || expected == Expected::RefusedOnSeveral && shards > 1;
        let wanted = match expected {
            _ if refused => "0A000".to_owned(),
            Expected::Taken => "(0)".to_owned(),
            _ => answer(&mut oracle, statement),
        };
        let same = match refused || is_error(&wanted) {
            true => is_error(&seen) && state(&seen) == state(&wanted),
            false => seen == wanted,
        };
        if !same {
            let at = number + 1;
            different.push(format!(
                "{name}.sql:{at} on {shards}: {statement}\n  expected: {wanted}\n  Weir:     {seen}"
            ));
        }
    }
    different
}

#[test]
fn every_form_has_its_effect_or_is_refused() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/sql/definitions"));
    let only = std::env::var("WEIR_FORMS").ok();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let postgres = Server::start().unwrap();
    let mut different = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        std::thread::scope(|scope| {
            let on = [1, 3].map(|shards| {
                let (name, text, postgres) = (&name, &text, &postgres);
                scope.spawn(move || differences(name, text, postgres, shards))
            });
            different.extend(on.into_iter().flat_map(|thread| thread.join().unwrap()));
        });
    }
    assert!(different.is_empty(), "{} differ\n{}", different.len(), different.join("\n"));
}
