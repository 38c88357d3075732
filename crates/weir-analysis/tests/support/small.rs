//! Small applications with verdicts that were derived by hand (`testdata/small`).
//!
//! An application begins with `-- app: name`, says `-- why:`, and then `-- transaction: invariant yes|no` of what was derived.

use std::path::Path;

pub struct Small {
    pub name: String,
    pub sql: String,
    /// Transaction, invariant, and whether it is confluent.
    #[allow(dead_code, reason = "of some tests")]
    pub derived: Vec<(String, String, bool)>,
}

/// All of the folder, by file and in its order.
pub fn read_all(folder: &Path) -> Vec<Small> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|file| read(&std::fs::read_to_string(file).unwrap())).collect()
}

fn read(text: &str) -> Vec<Small> {
    text.split("-- app: ").skip(1).map(one).collect()
}

fn one(text: &str) -> Small {
    let (name, sql) = text.split_once('\n').unwrap_or((text, ""));
    let comments: Vec<&str> = sql.lines().map_while(|line| line.strip_prefix("-- ")).collect();
    assert!(comments.iter().any(|line| line.starts_with("why: ")), "{name} does not say why");
    let derived = comments.iter().filter(|line| !line.starts_with("why: ")).map(|line| {
        let (transaction, rest) = line.split_once(": ").expect("transaction: invariant yes|no");
        let (invariant, verdict) = rest.rsplit_once(' ').expect("an invariant, and yes or no");
        assert!(matches!(verdict, "yes" | "no"), "{name}: {line}");
        (transaction.to_owned(), invariant.to_owned(), verdict == "yes")
    });
    Small { name: name.to_owned(), sql: sql.to_owned(), derived: derived.collect() }
}
