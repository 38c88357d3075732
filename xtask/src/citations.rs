//! Checks that everything cited in code and documents exists: rules of soundness.md, documents, papers, paths of the checkout, and in
//! documents the names of tests, planted bugs and functions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Valid citations, gathered once.
pub struct Cited {
    /// Numbers of rules: headings of docs/soundness.md.
    rules: BTreeSet<u32>,
    /// Papers, by the names in docs/papers/README.md.
    papers: String,
    /// Files of the checkout.
    files: Vec<String>,
    /// Test programs, and the folder of each one's modules.
    tests: BTreeMap<String, String>,
    /// Names of three words or more in everything that is no document.
    names: BTreeSet<String>,
}

const ROOTED: [&str; 9] =
    ["crates/", "docs/", "examples/", "ci/", ".ci/", "testdata/", "xtask/", "fuzz/", "decisions/"];

impl Cited {
    pub fn of(root: &Path, files: &[String]) -> Cited {
        let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap_or_default();
        let rule = |line: &str| line.strip_prefix("## S")?.split(' ').next()?.parse().ok();
        let rules = read("docs/soundness.md").lines().filter_map(rule).collect();
        let test = |file: &String| {
            let folder = file.strip_suffix("Cargo.toml")?;
            let text = read(file);
            let name = text.split_once("[[test]]\nname = \"")?.1.split('"').next()?;
            Some((name.to_owned(), format!("{folder}tests")))
        };
        let tests = files.iter().filter_map(test).collect();
        let sources = files.iter().filter(|file| !file.ends_with(".md"));
        let names =
            sources.flat_map(|file| names_of(&read(file)).map(str::to_owned).collect::<Vec<_>>()).collect();
        Cited { rules, papers: read("docs/papers/README.md"), files: files.to_vec(), tests, names }
    }

    /// Citations in a file whose target does not exist.
    pub fn complaints(&self, root: &Path, file: &str, text: &str) -> Vec<String> {
        let is_code = file.ends_with(".rs");
        let mut complaints = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let prose = if is_code { comment_of(line) } else { Some(line) };
            let Some(prose) = prose else { continue };
            let missing = rules_of(prose).into_iter().filter(|rule| !self.rules.contains(rule));
            complaints
                .extend(missing.map(|rule| {
                    format!("{file}:{}: cites S{rule}, which docs/soundness.md has not", at + 1)
                }));
            for name in words_of(prose).filter(|name| !self.is_there(root, file, name)) {
                complaints.push(format!("{file}:{}: cites {name}, which is not there", at + 1));
            }
            for (target, path) in tests_of(prose).filter(|(target, path)| !self.has_test(target, path)) {
                complaints.push(format!("{file}:{}: no test is `--test {target} {path}`", at + 1));
            }
        }
        if file.ends_with(".md") && !TELLS_THE_PAST.iter().any(|past| file.starts_with(past)) {
            complaints.extend(self.names_missing(file, text));
        }
        complaints
    }

    /// A name may be the beginning of one, as in a filter of tests.
    fn names_missing(&self, file: &str, text: &str) -> Vec<String> {
        let is_there = |name: &str| {
            self.names.range(name.to_owned()..).next().is_some_and(|found| found.starts_with(name))
        };
        let mut complaints = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2);
            for name in quoted.flat_map(names_of).filter(|name| !is_there(name)) {
                complaints.push(format!("{file}:{}: cites {name}, which is not there", at + 1));
            }
        }
        complaints
    }

    /// There is such a test program, and such a module in it; without a path, the whole program.
    fn has_test(&self, target: &str, path: &str) -> bool {
        let Some(folder) = self.tests.get(target) else { return false };
        let segments = if TIERS.iter().any(|tier| path.starts_with(tier)) { 2 } else { 1 };
        let module = path.split("::").take(segments).collect::<Vec<_>>().join("/");
        let files = [format!("{folder}/{module}.rs"), format!("{folder}/{module}/mod.rs")];
        !path.contains("::") || self.files.iter().any(|file| files.contains(file))
    }

    fn is_there(&self, root: &Path, file: &str, name: &str) -> bool {
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        if name.ends_with(".txt") && PAPERS.contains(&name) {
            return self.papers.contains(name);
        }
        let is_rooted = ROOTED.iter().any(|start| name.starts_with(start));
        // Within a crate, a file is cited by the end of its path.
        let is_source = name.ends_with(".rs") && name.contains('/') && !name.starts_with(['.', '/']);
        if !is_rooted && !is_source && !name.ends_with(".md") {
            return true;
        }
        let within = name.split_once('/').map_or(name, |(_, within)| within);
        let ends = |file: &String, name: &str| {
            file.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        self.files.iter().any(|file| ends(file, name) || is_source && ends(file, within))
            || [root, &root.join("docs"), &root.join(folder)].iter().any(|from| from.join(name).exists())
    }
}

/// The five papers' names, so that other texts (a log, a table) are no citations.
const PAPERS: [&str; 5] =
    ["ramp.txt", "eris.txt", "coordination-avoidance.txt", "operation-partitioning.txt", "cat-theorem.txt"];

/// Documents that name what there was.
const TELLS_THE_PAST: [&str; 4] = ["CHANGELOG.md", "docs/decisions/", "docs/performance.md", "docs/bars.md"];

/// Names of three words or more, as tests, planted bugs and functions have.
fn names_of(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        word.bytes().all(is_letter) && word.split('_').filter(|part| !part.is_empty()).count() > 2
    };
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(is_name)
}

/// The comment on a line of code.
fn comment_of(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//").or_else(|| line.split_once(" // ").map(|(_, comment)| comment))
}

/// Numbers of rules that a line cites: "S14", behind a space, a bracket or "soundness ".
fn rules_of(prose: &str) -> Vec<u32> {
    let mut rules = Vec::new();
    for word in prose.split(|c: char| !c.is_ascii_alphanumeric()) {
        let digits = word.strip_prefix('S').filter(|digits| (1..=2).contains(&digits.len()));
        rules.extend(digits.and_then(|digits| digits.parse::<u32>().ok()));
    }
    rules
}

/// Modules of a test program in which there are only modules.
const TIERS: [&str; 3] = ["simulated::", "postgres::", "processes::"];

/// Of each `--test TARGET PATH`: the two.
fn tests_of(prose: &str) -> impl Iterator<Item = (&str, &str)> {
    prose.split("--test ").skip(1).filter_map(|rest| {
        let command = rest.split(['`', '(', ')', ',', ';', '"']).next()?;
        let mut words = command.split_whitespace().filter(|word| *word != "--");
        let target = words.next().filter(|target| {
            !target.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_' || c.is_ascii_uppercase())
        })?;
        Some((target, words.next().unwrap_or_default()))
    })
}

/// Words that may name a file.
fn words_of(prose: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| c.is_whitespace() || "`()[]\"',;:|<>{}*".contains(c);
    let whole = |name: &str| ![".", "..", "…"].iter().any(|part| name.contains(part) && name.ends_with(part));
    let names = prose.split(ends).map(|word| word.trim_end_matches(['.', '!', '?']).trim_end_matches("::"));
    names.filter(move |name| {
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let has_extension = !extension.is_empty() && extension.bytes().all(|byte| byte.is_ascii_alphabetic());
        has_extension && !name.contains(['…', '$', '=', '#']) && !name.contains("://") && whole(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_files_are_found_in_prose() {
        assert_eq!(rules_of("(soundness S3, S14; not SHA1, S123 or X5)"), [3, 14]);
        let names: Vec<&str> =
            words_of("see `docs/a.md`, [b](c.md) and ramp.txt §4.5. Nothing else.").collect();
        assert_eq!(names, ["docs/a.md", "c.md", "ramp.txt"]);
        let tests: Vec<_> =
            tests_of("`cargo test --test bench simulated::ycsb::`, `--test table_1`; --test NAME").collect();
        assert_eq!(tests, [("bench", "simulated::ycsb::"), ("table_1", "")]);
        let names: Vec<&str> = names_of("names_missing(a_b, _c_d_e), Not_A_Name, `bounds_hold`").collect();
        assert_eq!(names, ["_c_d_e"]);
        assert_eq!(comment_of("let a = 1; // S1"), Some("S1"));
        assert_eq!(comment_of("let a = \"S1\";"), None);
    }
}
