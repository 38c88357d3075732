//! `weir.toml`, next to the schema: requirements on the transactions.
//!
//!     [requirement]
//!     default = "invariants"           # or "serializable"
//!
//!     [requirement.procedures]
//!     transfer = "serializable"
//!
//! The isolation level declared by a procedure (ALTER PROCEDURE … SET default_transaction_isolation) holds unless the file names the
//! procedure. This module only reads and applies the file; unknown names are errors with their position.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_sql::{Application, Diagnostic, Span};
use weir_types::SqlState;

use crate::input;
use crate::output::Failure;

const NAME: &str = "weir.toml";
const VALUES: &str = "\"invariants\" (keep what is declared) and \"serializable\" are the two requirements";
const SHAPE: &str =
    "[requirement] has default = \"…\", and [requirement.procedures] has a line for each procedure";

/// Finds the file next to the schema and applies it; without a file nothing happens.
pub fn apply(application: &mut Application, paths: &[PathBuf]) -> Result<(), Failure> {
    let mut files: BTreeSet<PathBuf> = BTreeSet::new();
    for path in paths {
        let directory = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
        let file = directory.unwrap_or(Path::new("")).join(NAME);
        if file.is_file() {
            files.insert(file);
        }
    }
    for file in files {
        let text = input::read_text(&file)?;
        let index = application.sources.add(file.display().to_string(), text.clone());
        apply_text(application, index, &text)
            .map_err(|wrong| crate::application::refused(&application.sources, &wrong))?;
    }
    Ok(())
}

fn apply_text(application: &mut Application, file: u32, text: &str) -> Result<(), Vec<Diagnostic>> {
    let span =
        |range: std::ops::Range<usize>| Span { file, start: range.start as u32, end: range.end as u32 };
    let root = DeTable::parse(text).map_err(|error| {
        let place = span(error.span().unwrap_or(0..0));
        vec![Diagnostic::new(SqlState::SYNTAX_ERROR, place, error.message().to_string()).with_hint(SHAPE)]
    })?;
    let mut reader = Reader { file, wrong: Vec::new(), default: None, named: Vec::new() };
    for (key, value) in root.get_ref() {
        match (key.get_ref().as_ref(), value.get_ref().as_table()) {
            ("requirement", Some(table)) => reader.requirement(application, table),
            ("requirement", None) => reader.error(key.span(), "[requirement] is a section", SHAPE),
            (other, _) => reader.error(key.span(), &format!("there is no section [{other}]"), SHAPE),
        }
    }
    let Reader { mut wrong, default, named, .. } = reader;
    if !wrong.is_empty() {
        wrong.sort_by_key(|diagnostic| diagnostic.span.start);
        return Err(wrong);
    }
    if default == Some(true) {
        application.procedures.iter_mut().for_each(|procedure| procedure.serializable = true);
    }
    for (procedure, serializable) in named {
        application.procedures[procedure].serializable = serializable;
    }
    Ok(())
}

struct Reader {
    file: u32,
    wrong: Vec<Diagnostic>,
    default: Option<bool>,
    /// Procedure, and whether it is to be serializable.
    named: Vec<(usize, bool)>,
}

impl Reader {
    fn error(&mut self, range: std::ops::Range<usize>, message: &str, hint: &str) {
        let span = Span { file: self.file, start: range.start as u32, end: range.end as u32 };
        self.wrong.push(Diagnostic::new(SqlState::SYNTAX_ERROR, span, message).with_hint(hint));
    }

    fn requirement(&mut self, application: &Application, table: &DeTable<'_>) {
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref().as_table()) {
                ("default", _) => self.default = self.serializable(value),
                ("procedures", Some(procedures)) => self.procedures(application, procedures),
                ("procedures", None) => self.error(key.span(), "procedures is a section", SHAPE),
                (other, _) => {
                    self.error(key.span(), &format!("there is no setting {other} in [requirement]"), SHAPE);
                }
            }
        }
    }

    fn procedures(&mut self, application: &Application, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match application.procedures.iter().position(|procedure| procedure.name == name) {
                Some(procedure) => {
                    let serializable = self.serializable(value);
                    self.named.extend(serializable.map(|serializable| (procedure, serializable)));
                }
                None => {
                    let names: Vec<&str> = application
                        .procedures
                        .iter()
                        .map(|procedure| procedure.name.as_str())
                        .take(8)
                        .collect();
                    let more = if application.procedures.len() > 8 { ", …" } else { "" };
                    let hint = format!("the procedures are {}{more}", names.join(", "));
                    self.error(key.span(), &format!("there is no procedure {name}"), &hint);
                }
            }
        }
    }

    fn serializable(&mut self, value: &Spanned<DeValue<'_>>) -> Option<bool> {
        match value.get_ref().as_str() {
            Some("serializable") => Some(true),
            Some("invariants") => Some(false),
            Some(other) => {
                self.error(value.span(), &format!("there is no requirement \"{other}\""), VALUES);
                None
            }
            None => {
                self.error(value.span(), "a requirement is a text", VALUES);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn application() -> Application {
        let mut sources = weir_sql::Sources::default();
        sources.add(
            "p.sql",
            "CREATE TABLE t (a integer);
             CREATE PROCEDURE one() LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t; END $$;
             CREATE PROCEDURE two() LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t; END $$;
             ALTER PROCEDURE two SET default_transaction_isolation = 'serializable';",
        );
        weir_sql::load(sources).unwrap_or_else(|(_, wrong)| panic!("{wrong:?}"))
    }

    /// Compares the serializable procedures, or the first error with its position.
    #[track_caller]
    fn check(text: &str, expect: &str) {
        let mut app = application();
        let file = app.sources.add("weir.toml", text);
        let found = match apply_text(&mut app, file, text) {
            Ok(()) => {
                let chosen = app.procedures.iter().filter(|procedure| procedure.serializable);
                chosen.map(|procedure| procedure.name.as_str()).collect::<Vec<_>>().join(" ")
            }
            Err(wrong) => {
                let first = &wrong[0];
                assert!(first.hint.is_some());
                format!("{}: {}", app.sources.place(first.span), first.message)
            }
        };
        assert_eq!(found, expect);
    }

    #[test]
    fn a_default_and_single_procedures() {
        check("", "two");
        check("[requirement]\ndefault = \"invariants\"\n", "two");
        check("[requirement]\ndefault = \"serializable\"\n", "one two");
        check(
            "[requirement]\ndefault = \"serializable\"\n[requirement.procedures]\none = \"invariants\"\n",
            "two",
        );
        check("[requirement.procedures]\none = \"serializable\"\ntwo = \"invariants\"\n", "one");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        check(
            "[requirement]\ndefault = \"snapshot\"\n",
            "weir.toml:2:11: there is no requirement \"snapshot\"",
        );
        check("[requirement]\ndefault = 3\n", "weir.toml:2:11: a requirement is a text");
        check("[requirement]\nlevel = \"x\"\n", "weir.toml:2:1: there is no setting level in [requirement]");
        check("[requirements]\n", "weir.toml:1:2: there is no section [requirements]");
        check(
            "[requirement.procedures]\nthree = \"serializable\"\n",
            "weir.toml:2:1: there is no procedure three",
        );
        check("[requirement\n", "weir.toml:1:13: unclosed table, expected `]`");
        check("requirement = 1\n", "weir.toml:1:1: [requirement] is a section");
    }
}
