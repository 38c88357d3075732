//! A definition is read upon what the statements before it have made, and gives what reading all of them again gives.

use std::path::Path;

use weir_sql::{Application, Diagnostic, Sources, define, load_running};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn application(files: &[(&str, &str)]) -> Application {
    let mut sources = Sources::default();
    files.iter().for_each(|(name, text)| {
        sources.add(*name, *text);
    });
    load_running(sources).unwrap_or_else(|(_, wrong)| panic!("{wrong:?}"))
}

/// All that the texts say.
fn shown(result: &Result<Application, Diagnostic>) -> String {
    match result {
        Ok(app) => format!(
            "{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
            app.sources, app.catalog, app.procedures, app.assertions, app.notes
        ),
        Err(wrong) => format!("{wrong:?}"),
    }
}

/// The application after the statement; none where it is none that defines something. An error where it differs from the one that
/// comes of reading all texts again.
fn compare(before: &Application, number: usize, text: &str) -> Result<Option<Application>, String> {
    let name = format!("definition {number}");
    let whole = Application { reading: None, ..before.clone() };
    assert!(before.reading.is_some(), "{text}");
    let (next, full) = (define(before, &name, text), define(&whole, &name, text));
    let (next_shown, full_shown) = (shown(&next), shown(&full));
    match next_shown == full_shown {
        true => Ok(next.ok()),
        false => Err(format!("{text}\n{next_shown}\n\n{full_shown}")),
    }
}

fn check(before: &Application, number: usize, text: &str) -> Option<Application> {
    compare(before, number, text).unwrap_or_else(|difference| panic!("{difference}"))
}

/// Negative control: what is kept of the texts is not what they say.
#[test]
fn a_reading_of_other_texts_is_found() {
    let own = application(&[("schema.sql", "CREATE TABLE a (id int PRIMARY KEY, x int CHECK (x > 0));")]);
    let other = application(&[("schema.sql", "CREATE TABLE a (id int PRIMARY KEY, x int CHECK (x > 1));")]);
    let flawed = Application { reading: other.reading, ..own };
    for text in ["CREATE TABLE b (id int PRIMARY KEY)", "ALTER TABLE a ADD COLUMN y int"] {
        assert!(compare(&flawed, 0, text).is_err(), "{text}");
    }
}

#[test]
fn of_every_form() {
    let (mut accepted, mut refused) = (0, 0);
    let folder = root().join("testdata/sql/definitions");
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let mut app = application(&[]);
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("--")) {
            match check(&app, accepted, line) {
                Some(next) => (app, accepted) = (next, accepted + 1),
                None => refused += 1,
            }
        }
    }
    assert!(accepted > 300 && refused > 100, "{accepted} {refused}");
}

#[test]
fn upon_examples() {
    for example in ["auction", "payroll", "smallbank", "tpcc"] {
        let folder = root().join("examples").join(example);
        let files = ["schema.sql", "procedures.sql", "invariants.sql"];
        let read = |name: &&str| Some((name.to_string(), std::fs::read_to_string(folder.join(name)).ok()?));
        let files: Vec<(String, String)> = files.iter().filter_map(read).collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let mut app = application(&files);
        let tables: Vec<String> = app.catalog.tables.iter().map(|table| table.name.clone()).collect();
        let mut number = 0;
        for table in &tables {
            for text in [
                format!("ALTER TABLE {table} ADD COLUMN added int DEFAULT 1"),
                format!("CREATE INDEX ON {table} (added)"),
                format!("CREATE VIEW v_{table} AS SELECT * FROM {table}"),
                format!("ALTER TABLE {table} DROP COLUMN added"),
                format!(
                    "CREATE ASSERTION a_{table} CHECK (NOT EXISTS (SELECT 1 FROM {table} WHERE added < 0))"
                ),
                format!("DROP ASSERTION a_{table}"),
                format!("ALTER TABLE {table} RENAME COLUMN added TO named"),
                format!("DROP TABLE {table}"),
                format!("DROP TABLE {table} CASCADE"),
            ] {
                number += 1;
                app = check(&app, number, &text).unwrap_or(app);
            }
        }
        assert!(number > 8);
    }
}

/// A label belongs to the type's own statement, which is read again.
#[test]
fn of_labels() {
    let mut app = application(&[("schema.sql", "CREATE TYPE mood AS ENUM ('good');")]);
    for (number, text) in ["CREATE TABLE t (id int PRIMARY KEY, m mood)", "ALTER TYPE mood ADD VALUE 'bad'"]
        .into_iter()
        .enumerate()
    {
        app = check(&app, number, text).expect("it is a definition");
    }
}
