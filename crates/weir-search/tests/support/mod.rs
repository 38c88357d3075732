//! Loading applications, and golden files.

use std::path::PathBuf;

use weir_sql::{Application, Sources};

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
#[allow(dead_code)]
pub fn application(files: &[(String, String)]) -> Application {
    let mut sources = Sources::default();
    for (name, text) in files {
        sources.add(name, text);
    }
    match weir_sql::load(sources) {
        Ok(app) => app,
        Err((sources, errors)) => {
            let show =
                |error: &weir_sql::Diagnostic| format!("{}: {}", sources.place(error.span), error.message);
            panic!(
                "the application does not load:\n{}",
                errors.iter().map(show).collect::<Vec<_>>().join("\n")
            )
        }
    }
}

/// A schema, and procedures of parameters `p`, `q` and `m`, and locals `x` and `y`.
#[allow(dead_code)]
pub fn with_procedures(schema: &str, bodies: &[&str]) -> String {
    let procedures = bodies.iter().enumerate().map(|(at, body)| {
        format!(
            "CREATE PROCEDURE t{at}(IN p integer, IN q integer, IN m integer) LANGUAGE plpgsql AS $$\n\
             DECLARE x integer; y integer;\nBEGIN {body} END $$;\n"
        )
    });
    format!("{schema}\n{}", procedures.collect::<String>())
}

#[track_caller]
#[allow(dead_code)]
pub fn example(name: &str) -> Application {
    let folder = root().join("examples").join(name);
    let files: Vec<(String, String)> = ["schema.sql", "procedures.sql", "invariants.sql"]
        .iter()
        .map(|file| {
            let text = std::fs::read_to_string(folder.join(file)).expect("the example's file");
            (format!("examples/{name}/{file}"), text)
        })
        .collect();
    application(&files)
}

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
