//! Golden tests of the binder: `testdata/sql/*.test` hold inputs and what is to come out.
//!
//! A file is a list of blocks between lines `====`; a block is an input, a line `----`, and the output.
//! The first block is the schema; the others are statements (bound with `$n` inferred) or, when they begin
//! with `-- schema` or `-- tolerant`, schemas of their own, read to be run or to be analysed. `WEIR_UPDATE=1` rewrites the outputs; review them as a diff.

use std::fmt::Write;
use std::path::Path;

use weir_sql::bound::{Procedure, Step, StepKind};
use weir_sql::catalog::{Catalog, Table, TableId, UserType};
use weir_sql::{Application, Diagnostic, Reading, Sources, bind_statement, load_with, print};

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
    let reading = match text.starts_with("-- tolerant") {
        true => Reading::Tolerant,
        false => Reading::Strict,
    };
    printed(sources, reading)
}

fn printed(sources: Sources, reading: Reading) -> (Result<Application, Sources>, String) {
    match load_with(sources, reading) {
        Ok(application) => {
            let mut out = catalog(&application);
            for procedure in &application.procedures {
                let _ =
                    write!(out, "\nprocedure {}{}", procedure.name, opaque_steps(&application, procedure));
            }
            for note in &application.notes {
                let _ = write!(out, "\n{:?} {}", note.severity, error(&application.sources, note));
            }
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

/// The steps that nobody understood.
fn opaque_steps(application: &Application, procedure: &Procedure) -> String {
    let tables = |list: &[TableId]| {
        let names: Vec<&str> = list.iter().map(|id| application.catalog.table(*id).name.as_str()).collect();
        names.join(", ")
    };
    let mut out = format!(" {} steps", procedure.body.len());
    let mut todo: Vec<&Step> = procedure.body.iter().collect();
    while let Some(step) = todo.pop() {
        match &step.kind {
            StepKind::Opaque(step) => {
                let assigns: Vec<&str> =
                    step.assigns.iter().map(|id| procedure.variables[id.0 as usize].name.as_str()).collect();
                let _ = write!(
                    out,
                    "\n  opaque reads ({}) writes ({}) assigns ({}){}",
                    tables(&step.reads),
                    tables(&step.writes),
                    assigns.join(", "),
                    if step.leaves { " leaves" } else { "" }
                );
            }
            StepKind::If { branches, otherwise } => {
                todo.extend(branches.iter().flat_map(|(_, body)| body).chain(otherwise));
            }
            StepKind::ForQuery { body, .. } | StepKind::Block { body, .. } | StepKind::Loop { body, .. } => {
                todo.extend(body);
            }
            _ => {}
        }
    }
    out
}

fn names(table: &Table, columns: &[usize]) -> String {
    columns.iter().map(|&column| table.columns[column].name.as_str()).collect::<Vec<_>>().join(", ")
}

fn catalog(application: &Application) -> String {
    let mut out = String::new();
    for table in &application.catalog.tables {
        let _ = write!(out, "table {}", table.name);
        if let Some(by) = &table.partitioned {
            let _ = write!(out, " {by}");
        }
        if let Some(columns) = &table.partition_by {
            let _ = write!(out, " partition by ({})", names(table, columns));
        }
        out += if table.replicated { " replicated\n" } else { "\n" };
        print_table(&mut out, &application.catalog, table);
    }
    for (partition, table) in &application.catalog.partitions {
        let _ = writeln!(out, "partition {partition} of {table}");
    }
    for (name, ty) in &application.catalog.types {
        match ty {
            UserType::Enum(of) => writeln!(out, "enum {name} ({})", of.labels.join(", ")),
            UserType::Domain(domain) => writeln!(out, "domain {name} of {}", domain.base),
            UserType::Opaque => writeln!(out, "type {name}"),
        }
        .unwrap_or_default();
    }
    for trigger in &application.catalog.triggers {
        let table = application.catalog.table(trigger.table);
        let each = if trigger.each_row { "each row" } else { "statement" };
        let _ = write!(
            out,
            "trigger {} {:?} {:?} on {} {each}",
            trigger.name, trigger.timing, trigger.events, table.name
        );
        if let Some(condition) = &trigger.condition {
            let _ = write!(out, " when {}", print::expr(condition));
        }
        let _ = writeln!(out, "{}", opaque_steps(application, &trigger.body));
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
        if let Some(generated) = &column.generated {
            let _ = write!(out, " generated {}", print::expr(generated));
        }
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
        let domain = check.domain.as_ref().map_or(String::new(), |(name, _)| format!(" of domain {name}"));
        let _ = writeln!(out, "  {}: check {}{domain}", check.name, print::expr(&check.expr));
    }
    for exclusion in &table.exclusions {
        let elements: Vec<String> = exclusion
            .elements
            .iter()
            .map(|(expr, operator)| format!("{} with {operator}", print::expr(expr)))
            .collect();
        let _ = writeln!(out, "  {}: exclude ({})", exclusion.name, elements.join(", "));
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
        if !(key.on_delete.refuses() && key.on_update.refuses()) {
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
        let nulls = if index.nulls_not_distinct { "nulls not distinct " } else { "" };
        let unique = if index.unique { format!("unique {nulls}") } else { String::new() };
        let _ = write!(out, "  {}: {unique}index [{}]", index.name, keys.join(", "));
        if let Some(predicate) = &index.predicate {
            let _ = write!(out, " where {}", print::expr(predicate));
        }
        out.push('\n');
    }
}

fn is_schema(input: &str) -> bool {
    input.starts_with("-- schema") || input.starts_with("-- tolerant")
}

fn run(text: &str) -> String {
    let mut application = None;
    let mut out = Vec::new();
    for block in text.split("\n====\n") {
        let input = block.split("\n----\n").next().unwrap_or("").trim();
        let result = if application.is_none() || is_schema(input) {
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

/// Output of `pg_dump --schema-only` loads unchanged; `source/` has the databases.
#[test]
fn dumps_load_as_they_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/dumps");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("testdata/dumps") {
        let path = entry.expect("entry").path();
        if path.extension().is_none_or(|end| end != "sql") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a dump");
        let mut sources = Sources::default();
        sources.add("dump.sql", text);
        let (loaded, found) = printed(sources, Reading::Tolerant);
        assert!(loaded.is_ok(), "{}\n{found}", path.display());
        let golden = path.with_extension("golden");
        if std::env::var_os("WEIR_UPDATE").is_some() {
            std::fs::write(&golden, found + "\n").expect("writable");
        } else {
            let expect = std::fs::read_to_string(&golden).expect("a golden file");
            assert_eq!(found + "\n", expect, "WEIR_UPDATE=1 rewrites {}", golden.display());
        }
        count += 1;
    }
    assert!(count > 0);
}

/// For any text the result is a value or a diagnostic.
#[test]
fn broken_input_never_panics() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sql");
    for name in ["select.test", "schema.test", "tolerant.test", "modify.test", "postgres.test"] {
        let text = std::fs::read_to_string(folder.join(name)).expect("a golden file");
        let inputs: Vec<&str> =
            text.split("\n====\n").map(|block| block.split("\n----\n").next().unwrap_or("")).collect();
        let (application, _) = schema(inputs[0]);
        let Ok(application) = application else { panic!("the schema does not load") };
        for (i, input) in inputs.iter().enumerate().skip(1) {
            for mutated in mutations(input, i as u64) {
                if is_schema(input) {
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
