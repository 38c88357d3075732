//! Files that sources include are in the repository: one that git ignores builds here, and in no other checkout.

use std::collections::BTreeSet;

const MACROS: [&str; 2] = ["include_str!(\"", "include_bytes!(\""];

/// Complaints about a file of Rust. `files`: all files of the repository. A path that is put together by `concat!` is not looked at.
pub fn complaints(file: &str, text: &str, files: &BTreeSet<&str>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let paths = MACROS.iter().filter_map(|name| line.split_once(name)?.1.split('"').next());
        for path in paths.filter(|path| !files.contains(resolved(file, path).as_str())) {
            complaints.push(format!(
                "{file}:{}: includes {path}, which is not in the repository (does .gitignore name it?)",
                at + 1
            ));
        }
    }
    complaints
}

/// A path that is relative to a file, from the root on.
fn resolved(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_included_file_that_is_ignored_is_found() {
        let files = BTreeSet::from(["crates/a/src/page.html", "examples/b.sql"]);
        let check = |text: &str| complaints("crates/a/src/lib.rs", text, &files);
        let here = concat!("const A: &str = include", "_str!(\"page.html\");");
        let elsewhere = concat!("const B: &[u8] = include", "_bytes!(\"../../../examples/b.sql\");");
        assert_eq!(check(&format!("{here}\n{elsewhere}\n")), Vec::<String>::new());
        let absent = concat!("\nconst C: &str = include", "_str!(\"other.html\");");
        let [complaint] = &check(absent)[..] else { panic!("one is not there") };
        assert!(complaint.starts_with("crates/a/src/lib.rs:2: includes other.html"), "{complaint}");
    }
}
