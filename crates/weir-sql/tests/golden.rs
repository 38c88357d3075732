//! Golden tests of the binder: `testdata/sql/*.test` hold inputs and what is to come out.
//!
//! A file is a list of blocks between lines `====`; a block is an input, a line `----`, and the output.
//! The first block is the schema; the others are statements (bound with `$n` inferred) or, when they begin
//! with `-- schema`, schemas of their own. `WEIR_UPDATE=1` rewrites the outputs; review them as a diff.

use std::fmt::Write;
use std::path::Path;

use weir_sql::catalog::{Catalog, ForeignKeyAction, Table};
use weir_sql::{Application, Diagnostic, Sources, bind_statement, load, print};

fn error(sources: &Sources, error: &Diagnostic) -> String {
    let mut out = format!("{} {} {}", sources.place(error.span), error.state, error.message);
    if let Some(hint) = &error.hint {
        let _ = write!(out, " [{hint}]");
    }
    out
}

fn schema(text: &str) -> (Result<Application, Sources>, String) {
    let mut sources = Sources::default();
    sources.add("s.sql", text);
    match load(sources) {
        Ok(application) => {
            let out = catalog(&application);
            (Ok(application), out)
        }
        Err((sources, errors)) => {
            let lines: Vec<String> = errors.iter().map(|e| error(&sources, e)).collect();
            (Err(sources), lines.join("\n"))
        }
    }
}

fn statement(catalog: &Catalog, text: &str) -> String {
    let mut sources = Sources::default();
    sources.add("q", text);
    match bind_statement(catalog, text, None) {
        Ok((bound, parameters)) => {
            let mut out = print::statement(&bound);
            let columns = bound.columns();
            if !columns.is_empty() {
                let _ = write!(out, "\n-> {}", print::columns(&columns));
            }
            if !parameters.is_empty() {
                let types: Vec<String> = parameters.iter().map(ToString::to_string).collect();
                let _ = write!(out, "\n$ {}", types.join(", "));
            }
            out
        }
        Err(diagnostic) => error(&sources, &diagnostic),
    }
}

fn names(table: &Table, columns: &[usize]) -> String {
    columns.iter().map(|&column| table.columns[column].name.as_str()).collect::<Vec<_>>().join(", ")
}

fn catalog(application: &Application) -> String {
    let mut out = String::new();
    for table in &application.catalog.tables {
        let _ = write!(out, "table {}", table.name);
        if let Some(columns) = &table.partition_by {
            let _ = write!(out, " partition by ({})", names(table, columns));
        }
        out += if table.replicated { " replicated\n" } else { "\n" };
        print_table(&mut out, &application.catalog, table);
    }
    for sequence in &application.catalog.sequences {
        let _ = writeln!(
            out,
            "sequence {} start {} by {} {}..{}{} owner {:?}",
            sequence.name,
            sequence.start,
            sequence.increment,
            sequence.minimum,
            sequence.maximum,
            if sequence.cycle { " cycle" } else { "" },
            sequence.owner.map(|(table, column)| (table.0, column))
        );
    }
    for view in &application.catalog.views {
        let kind = if view.materialized { "materialized view" } else { "view" };
        let _ = writeln!(out, "{kind} {} ({})", view.name, print::columns(&view.query.columns));
        let _ = writeln!(out, "  {}", print::query(&view.query));
    }
    for assertion in &application.assertions {
        let place = application.sources.place(assertion.span);
        let _ = writeln!(out, "assertion {} at {}:{}", assertion.name, place.line, place.column);
        let _ = writeln!(out, "  {}", print::expr(&assertion.expr));
    }
    out.trim_end().to_owned()
}

fn print_table(out: &mut String, catalog: &Catalog, table: &Table) {
    for column in &table.columns {
        let _ = write!(out, "  {} {}", column.name, column.ty);
        out.push_str(if column.not_null { " not null" } else { "" });
        out.push_str(if column.generated_always { " always" } else { "" });
        if let Some(default) = &column.default {
            let _ = write!(out, " default {}", print::expr(default));
        }
        out.push('\n');
    }
    if let Some(key) = &table.primary_key {
        let _ = writeln!(out, "  {}: primary key ({})", key.name, names(table, &key.columns));
    }
    for key in &table.unique_keys {
        let nulls = if key.nulls_not_distinct { " nulls not distinct" } else { "" };
        let _ = writeln!(out, "  {}: unique{nulls} ({})", key.name, names(table, &key.columns));
    }
    for check in &table.checks {
        let _ = writeln!(out, "  {}: check {}", check.name, print::expr(&check.expr));
    }
    for key in &table.foreign_keys {
        let parent = catalog.table(key.parent);
        let _ = write!(
            out,
            "  {}: ({}) references {} ({})",
            key.name,
            names(table, &key.columns),
            parent.name,
            names(parent, &key.parent_columns)
        );
        if key.on_delete != ForeignKeyAction::Restrict || key.on_update != ForeignKeyAction::Restrict {
            let _ = write!(out, " delete {:?} update {:?}", key.on_delete, key.on_update);
        }
        out.push('\n');
    }
    for index in &table.indexes {
        let keys: Vec<String> = index
            .keys
            .iter()
            .map(|key| print::expr(&key.expr) + if key.descending { " desc" } else { "" })
            .collect();
        let unique = if index.unique { "unique " } else { "" };
        let _ = write!(out, "  {}: {unique}index [{}]", index.name, keys.join(", "));
        if let Some(predicate) = &index.predicate {
            let _ = write!(out, " where {}", print::expr(predicate));
        }
        out.push('\n');
    }
}

fn run(text: &str) -> String {
    let mut application = None;
    let mut out = Vec::new();
    for block in text.split("\n====\n") {
        let input = block.split("\n----\n").next().unwrap_or("").trim();
        let result = if application.is_none() || input.starts_with("-- schema") {
            let (loaded, printed) = schema(input);
            if application.is_none() {
                application = Some(loaded.unwrap_or_else(|_| panic!("the schema does not load:\n{printed}")));
            }
            printed
        } else {
            application.as_ref().map(|app| statement(&app.catalog, input)).unwrap_or_default()
        };
        out.push(format!("{input}\n----\n{result}"));
    }
    out.join("\n====\n") + "\n"
}

#[test]
fn golden_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sql");
    let mut failures = Vec::new();
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("testdata/sql").map(|entry| entry.expect("entry").path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "test")) {
        let text = std::fs::read_to_string(path).expect("a golden file");
        let found = run(&text);
        if found == text {
            continue;
        }
        if std::env::var_os("WEIR_UPDATE").is_some() {
            std::fs::write(path, &found).expect("writable");
            continue;
        }
        for (expect, found) in text.split("\n====\n").zip(found.split("\n====\n")) {
            if expect.trim() != found.trim() {
                failures.push(format!("{}\nexpected:\n{expect}\nfound:\n{found}", path.display()));
            }
        }
    }
    assert!(failures.is_empty(), "WEIR_UPDATE=1 rewrites the files\n\n{}", failures.join("\n\n"));
}

/// Whatever the text is, the answer is a value or a diagnostic.
#[test]
fn broken_input_never_panics() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sql");
    for name in ["select.test", "schema.test", "modify.test", "postgres.test"] {
        let text = std::fs::read_to_string(folder.join(name)).expect("a golden file");
        let inputs: Vec<&str> =
            text.split("\n====\n").map(|block| block.split("\n----\n").next().unwrap_or("")).collect();
        let (application, _) = schema(inputs[0]);
        let Ok(application) = application else { panic!("the schema does not load") };
        for (i, input) in inputs.iter().enumerate().skip(1) {
            for mutated in mutations(input, i as u64) {
                if input.starts_with("-- schema") {
                    let _ = schema(&mutated);
                } else {
                    let _ = bind_statement(&application.catalog, &mutated, None);
                }
            }
        }
    }
}

/// Cut short, a word left out, two words exchanged, a word doubled.
fn mutations(input: &str, seed: u64) -> Vec<String> {
    let words: Vec<&str> = input.split_inclusive([' ', '(', ')', ',']).collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit.max(1) as u64) as usize
    };
    let mut out = Vec::new();
    for _ in 0..40 {
        let mut changed: Vec<&str> = words.clone();
        match random(4) {
            0 => changed.truncate(random(words.len())),
            1 => {
                changed.remove(random(words.len()));
            }
            2 => changed.swap(random(words.len()), random(words.len())),
            _ => changed.insert(random(words.len()), words[random(words.len())]),
        }
        out.push(changed.concat());
    }
    out
}
