//! Formatting, lints, and the rules of the house that no lint knows.
//!
//! Reads the checkout and runs cargo; `verify` changes no file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::citations::Cited;

/// From about 600 lines on a file has to ask itself whether it is one thing; here it must have answered.
const FILE_LINES_MAX: usize = 1_000;

pub fn verify() -> ExitCode {
    let root = workspace_root();
    let mut complaints = house_rules(&root);
    complaints.extend(crate::compatibility::complaint(&root));
    for (name, component, arguments) in [
        ("rustfmt", "fmt", &["fmt", "--all", "--check"][..]),
        (
            "clippy",
            "clippy",
            &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"][..],
        ),
    ] {
        if !cargo_has(component) {
            eprintln!("verify: {name} is not installed, so it was NOT run (rustup component add {name})");
            continue;
        }
        eprintln!("verify: cargo {}", arguments.join(" "));
        if !cargo(&root, arguments) {
            complaints.push(format!("{name} complains; `cargo xtask fix` mends what a program can"));
        }
    }
    for complaint in &complaints {
        eprintln!("verify: {complaint}");
    }
    if complaints.is_empty() {
        eprintln!("verify: all is well");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

pub fn fix() -> ExitCode {
    let root = workspace_root();
    let fixed =
        cargo(&root, &["clippy", "--fix", "--allow-dirty", "--allow-staged", "--workspace", "--all-targets"]);
    let formatted = cargo(&root, &["fmt", "--all"]);
    if fixed && formatted { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub fn fuzz(arguments: &[String]) -> ExitCode {
    let root = workspace_root();
    // The test program is small; with one, dependencies have the features that tests give them, and nothing is built twice.
    if !cargo(&root, &["build", "--quiet", "--workspace", "--bin", "weir-fuzz", "--test", "types"]) {
        return ExitCode::FAILURE;
    }
    let program = target_folder(&root).join("debug").join("weir-fuzz");
    let status = Command::new(&program).current_dir(&root).args(arguments).status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fuzz: cannot run {}: {error}", program.display());
            ExitCode::FAILURE
        }
    }
}

/// Root of the checkout that `cargo xtask` is run in: checkouts may share their build folder, and so this program.
pub fn workspace_root() -> PathBuf {
    let run_in = std::env::var_os("CARGO_MANIFEST_DIR");
    let xtask = run_in.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Where cargo builds.
pub fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn cargo_has(component: &str) -> bool {
    Command::new("cargo").args([component, "--version"]).output().is_ok_and(|output| output.status.success())
}

fn cargo(root: &Path, arguments: &[&str]) -> bool {
    Command::new("cargo").current_dir(root).args(arguments).status().is_ok_and(|status| status.success())
}

fn house_rules(root: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    let files = tracked_files(root);
    let cited = Cited::of(root, &files);
    complaints.extend(crate::layers::complaints(root, &files));
    complaints.extend(crate::layers::dependencies(root));
    complaints.extend(crate::planted::complaints(root, &files));
    let all: BTreeSet<&str> = files.iter().map(String::as_str).collect();
    for file in &files {
        let Ok(text) = std::fs::read_to_string(root.join(file)) else { continue };
        // Examples of citations, and what is written anew or was written long ago.
        let is_exempt = ["xtask/src/citations.rs", "xtask/src/verify.rs", "docs/bars.md", "CHANGELOG.md"]
            .contains(&file.as_str());
        if (file.ends_with(".rs") || file.ends_with(".md")) && !is_exempt {
            complaints.extend(cited.complaints(root, file, &text));
        }
        if file.ends_with(".rs") {
            complaints.extend(check_module(file, &text));
            complaints.extend(crate::sleeps::complaints(file, &text));
            complaints.extend(crate::included::complaints(file, &text, &all));
        }
        if matches!(
            file.as_str(),
            "ARCHITECTURE.md" | "README.md" | "CONTRIBUTING.md" | "docs/glossary.md" | "docs/limits.md"
        ) {
            complaints.extend(check_named_paths(root, file, &text));
        }
    }
    complaints
}

/// Tracked and untracked files of the checkout, without ignored ones.
fn tracked_files(root: &Path) -> Vec<String> {
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output();
    match listed {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

fn check_module(file: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!"));
    if first.is_some_and(|line| !line.starts_with("//!")) {
        complaints.push(format!("{file}:1: a module opens with `//!`: its role, and what it never does"));
    }
    let name = file.rsplit('/').next().unwrap_or(file);
    if ["utils.rs", "util.rs", "common.rs", "manager.rs", "helper.rs", "helpers.rs"].contains(&name) {
        complaints.push(format!("{file}: name a module after what it does"));
    }
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        complaints.push(format!("{file}: {lines} lines; is it still one thing? (at most {FILE_LINES_MAX})"));
    }
    for (index, line) in text.lines().enumerate() {
        // Spelled in halves, so that this file does not find itself.
        if [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("TO", "DO")]
            .iter()
            .any(|mark| line.contains(mark))
        {
            complaints
                .push(format!("{file}:{}: unfinished; refuse by name with an error instead", index + 1));
        }
    }
    complaints
}

/// Every `path/with/a/slash` in backticks and every relative link must lead somewhere.
fn check_named_paths(root: &Path, file: &str, text: &str) -> Vec<String> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut complaints = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for name in named_paths(line) {
            let exists = root.join(folder).join(&name).exists() || root.join(&name).exists();
            if !exists {
                complaints.push(format!("{file}:{}: names `{name}`, which is not there", index + 1));
            }
        }
    }
    complaints
}

fn named_paths(line: &str) -> Vec<String> {
    let mut names = Vec::new();
    for piece in line.split('`').skip(1).step_by(2) {
        let rooted = ["crates/", "docs/", "examples/", "ci/", ".ci/", "testdata/", "xtask/"]
            .iter()
            .any(|start| piece.starts_with(start));
        if rooted && !piece.contains([' ', '{', '*', '<', '…']) {
            names.push(piece.to_owned());
        }
    }
    for piece in line.split("](").skip(1) {
        let target = piece.split([')', '#']).next().unwrap_or("");
        if !target.is_empty() && !target.contains("://") {
            names.push(target.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_held_to_the_rules() {
        for (text, complaints) in [
            ("//! Role.\nfn f() {}\n", 0),
            ("fn f() {}\n", 1),
            (concat!("//! Role.\nfn f() { to", "do!() }\n"), 1),
        ] {
            assert_eq!(check_module("src/a.rs", text).len(), complaints, "{text}");
        }
        assert_eq!(check_module("src/utils.rs", "//! Role.\n").len(), 1);
    }

    #[test]
    fn paths_are_found_in_prose() {
        assert_eq!(
            named_paths("see `crates/a/src/b.rs`, [c](docs/c.md#d), `x / y` and [e](https://e.org)"),
            ["crates/a/src/b.rs", "docs/c.md"]
        );
    }
}
