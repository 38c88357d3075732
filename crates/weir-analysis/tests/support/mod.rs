//! Loading applications from text and from the examples.

use std::path::PathBuf;

use weir_sql::{Application, Sources};

#[allow(dead_code)]
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
#[allow(dead_code)]
pub fn application(files: &[(&str, &str)]) -> Application {
    let mut sources = Sources::default();
    for (name, text) in files {
        sources.add(*name, *text);
    }
    match weir_sql::load(sources) {
        Ok(app) => app,
        Err((sources, errors)) => {
            let lines: Vec<String> = errors
                .iter()
                .map(|error| format!("{}: {}", sources.place(error.span), error.message))
                .collect();
            panic!("the application does not load:\n{}", lines.join("\n"));
        }
    }
}

/// The example's files, each changed by `edit` (file name, text).
#[track_caller]
#[allow(dead_code)]
pub fn example(name: &str, edit: impl Fn(&str, String) -> String) -> Application {
    let folder = root().join("examples").join(name);
    let files: Vec<(String, String)> = ["schema.sql", "procedures.sql", "invariants.sql"]
        .iter()
        .map(|file| {
            let text = std::fs::read_to_string(folder.join(file)).expect("the example's file");
            (format!("examples/{name}/{file}"), edit(file, text))
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    application(&files)
}

/// One file, read to be analysed only.
#[track_caller]
#[allow(dead_code)]
pub fn read_to_analyze(text: &str) -> Application {
    let mut sources = Sources::default();
    sources.add("schema.sql", text);
    match weir_sql::load_with(sources, weir_sql::Reading::Tolerant) {
        Ok(application) => application,
        Err((sources, errors)) => {
            let show =
                |error: &weir_sql::Diagnostic| format!("{} {}", sources.place(error.span), error.message);
            panic!("{}", errors.iter().map(show).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Compares with a file below the root, which `WEIR_UPDATE=1` rewrites.
#[track_caller]
#[allow(dead_code)]
pub fn golden(file: &str, actual: &str) {
    let path = root().join(file);
    if std::env::var_os("WEIR_UPDATE").is_some() {
        std::fs::write(&path, actual).expect("the golden file is writable");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        actual == expected,
        "{} differs; WEIR_UPDATE=1 rewrites it. It would be:\n{actual}",
        path.display()
    );
}
