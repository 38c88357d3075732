//! The reference has all that there is: options of commands, settings, error codes, functions of `workload.toml`. And the tutorial's
//! files are analysed as it says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn weir(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The lines of a document from a heading to the next.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, behind) = document
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("there is no section {heading}"));
    behind.split("\n## ").next().unwrap_or(behind)
}

/// Words of a help text that begin a line and are commands or options.
fn listed<'a>(help: &'a str, heading: &str) -> Vec<&'a str> {
    let (_, behind) = help.split_once(&format!("\n{heading}:\n")).unwrap_or_default();
    let lines = behind.lines().take_while(|line| line.is_empty() || line.starts_with(' '));
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

fn check_command(document: &str, words: &[&str]) {
    let help = weir(&[words, &["--help"]].concat());
    let commands: Vec<&str> = help
        .lines()
        .filter(|line| is_command(line))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    for command in &commands {
        check_command(document, &[words, &[*command]].concat());
    }
    if !commands.is_empty() {
        return;
    }
    let told = section(document, &format!("weir {}", words.join(" ")));
    for option in listed(&help, "Options").into_iter().filter(|word| word.starts_with("--")) {
        assert!(told.contains(&format!("`{option}")), "{words:?} has {option}, and the reference has not");
    }
}

/// Two blanks, a name, and what it does.
fn is_command(line: &str) -> bool {
    let name = line.strip_prefix("  ").and_then(|rest| rest.split_once("  ")).map_or("", |(name, _)| name);
    !name.is_empty() && name != "help" && name.bytes().all(|byte| byte.is_ascii_lowercase())
}

#[test]
fn the_reference_has_every_command_and_option() {
    check_command(&read("docs/reference/command-line.md"), &[]);
}

#[test]
fn the_reference_has_every_setting() {
    let (source, document) =
        (read("crates/weir-pg/src/settings/known.rs"), read("docs/reference/settings.md"));
    let (_, known) = source.split_once("const KNOWN").unwrap();
    let known = known.split("\n];").next().unwrap_or_default();
    let names: Vec<&str> =
        known.lines().filter_map(|line| line.trim().strip_prefix("(\"")?.split('"').next()).collect();
    assert!(names.len() > 90, "{names:?}");
    for name in names {
        assert!(document.contains(&format!("\n| `{name}` |")), "settings.md has no {name}");
    }
}

#[test]
fn the_reference_has_every_error_code() {
    let (source, document) = (read("crates/weir-types/src/error.rs"), read("docs/reference/error-codes.md"));
    let codes = source.lines().filter_map(|line| line.split_once(" = b\"")?.1.strip_suffix("\";"));
    let codes: BTreeSet<&str> = codes.filter(|code| !matches!(*code, "00000" | "01000")).collect();
    assert!(codes.len() > 90, "{codes:?}");
    for code in codes {
        assert!(document.contains(code), "error-codes.md has no {code}");
    }
}

#[test]
fn the_reference_has_every_function_of_a_workload() {
    let (source, document) =
        (read("crates/weir-bench/src/workload/functions.rs"), read("docs/reference/workload-toml.md"));
    let (_, functions) = source.split_once("const FUNCTIONS").unwrap();
    let functions = functions.split("\n];").next().unwrap_or_default();
    let calls: Vec<&str> =
        functions.lines().filter_map(|line| line.trim().strip_prefix("(\"")?.split('"').nth(2)).collect();
    assert!(calls.len() > 20, "{calls:?}");
    for call in calls {
        assert!(document.contains(&format!("`{call}`")), "workload-toml.md has no {call}");
    }
}

/// The first block behind a line that begins so.
fn block(document: &str, before: &str) -> String {
    let lines = document.lines().skip_while(|line| !line.starts_with(before)).skip(1);
    let lines = lines.skip_while(|line| !line.starts_with("    "));
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or_default())).collect()
}

#[test]
fn the_tutorial_says_what_is_so() {
    let tutorial = read("docs/tutorial.md");
    let directory = tempfile::tempdir().unwrap();
    let tickets = directory.path().join("tickets");
    std::fs::create_dir(&tickets).unwrap();
    let files = [
        ("schema.sql", "## 1."),
        ("procedures.sql", "## 2."),
        ("invariants.sql", "## 3."),
        ("workload.toml", "Weir needs to know what to load"),
    ];
    for (file, before) in files {
        std::fs::write(tickets.join(file), block(&tutorial, before)).unwrap();
    }
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = command.current_dir(directory.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let told = block(&tutorial, "## 4.");
    let (_, told) = told.split_once('\n').unwrap();
    let analysis = run(&["analyze", "tickets"]);
    assert!(analysis.starts_with(told.trim_end()), "{analysis}");
    assert!(run(&["run", "tickets", "--transactions", "1000"]).contains("All 15 invariants hold."));
    let (_, told) = tutorial.split_once("$ weir explain WEIR-B01\n").unwrap();
    let told: Vec<&str> = told.lines().take(4).map(str::trim).collect();
    assert!(run(&["explain", "WEIR-B01"]).starts_with(&told.join("\n")), "{told:?}");
}
