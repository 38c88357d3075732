//! Corpus of the fuzzers: every SQL text and log in the repository.

use std::path::{Path, PathBuf};

pub struct Corpus {
    /// Whole applications: schema, procedures, invariants.
    pub applications: Vec<Vec<(String, String)>>,
    /// Single statements, from everywhere.
    pub statements: Vec<String>,
    pub logs: Vec<String>,
}

impl Corpus {
    /// Reads the repository that this program was built in.
    pub fn read() -> Corpus {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut corpus = Corpus { applications: Vec::new(), statements: Vec::new(), logs: Vec::new() };
        for folder in sorted(&root.join("examples")) {
            let files: Vec<(String, String)> = ["schema.sql", "procedures.sql", "invariants.sql"]
                .iter()
                .filter_map(|name| Some((name.to_string(), std::fs::read_to_string(folder.join(name)).ok()?)))
                .collect();
            if !files.is_empty() {
                corpus.statements.extend(files.iter().flat_map(|(_, text)| statements(text)));
                corpus.applications.push(files);
            }
        }
        for folder in ["testdata/sql", "testdata/dumps"] {
            for file in sorted(&root.join(folder)) {
                if let Ok(text) = std::fs::read_to_string(&file) {
                    corpus.statements.extend(statements(&text));
                }
            }
        }
        let logs = sorted(&root.join("testdata/logs"));
        corpus.logs = logs.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect();
        assert!(
            !corpus.applications.is_empty() && !corpus.statements.is_empty() && !corpus.logs.is_empty(),
            "the examples and the test data are beside the program's source"
        );
        corpus
    }
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// Told by semicolons at the ends of lines outside of `$$`; it does not matter much.
pub fn statements(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut current = String::new();
    for line in text.split_inclusive('\n') {
        current.push_str(line);
        let quoted = current.matches("$$").count() % 2 == 1;
        if line.trim_end().ends_with(';') && !quoted || line.starts_with("----") {
            found.push(std::mem::take(&mut current));
        }
    }
    found.push(current);
    found.retain(|statement| !statement.trim().is_empty());
    found
}
