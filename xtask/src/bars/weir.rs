//! Drives the `weir` binary and cargo's tests; knows their JSON and their closing lines.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Effort, Seen};
use crate::verify::{target_folder, workspace_root};

pub struct Weir {
    pub root: PathBuf,
    pub binary: PathBuf,
    /// An earlier build, for relative measurements.
    baseline: Option<PathBuf>,
}

impl Weir {
    /// Builds the release binary, for speed is what most bars are about.
    pub fn build(baseline: Option<PathBuf>) -> Result<Weir, String> {
        let root = workspace_root();
        if let Some(program) =
            baseline.as_ref().filter(|program| !program.is_absolute() || !program.is_file())
        {
            return Err(format!(
                "--baseline {}: it must be the absolute path of a program",
                program.display()
            ));
        }
        let status = Command::new("cargo")
            .current_dir(&root)
            // The test program is small; with one, dependencies have the features that tests give them. Bars that run tests with
            // this profile would else build everything once more, and another binary in this one's place.
            .args(["build", "--release", "--quiet", "--workspace", "--bin", "weir", "--test", "types"])
            .status()
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        if !status.success() {
            return Err("the release build failed".to_owned());
        }
        let binary = target_folder(&root).join("release").join("weir");
        Ok(Weir { root, binary, baseline })
    }

    /// Builds another program of the workspace for release.
    ///
    /// # Errors
    /// Cargo cannot, or says what is wrong.
    pub fn other(&self, package: &str, binary: &str) -> Result<PathBuf, String> {
        let built = Command::new("cargo")
            .current_dir(&self.root)
            .args(["build", "--release", "--quiet", "--package", package, "--bin", binary])
            .status()
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        if built.success() {
            Ok(self.binary.with_file_name(binary))
        } else {
            Err(format!("the release build of {binary} failed"))
        }
    }

    /// The earlier build for relative measurements.
    pub fn baseline(&self) -> Result<&Path, String> {
        self.baseline.as_deref().ok_or_else(|| {
            "it is compared with an earlier build: `cargo xtask bars --baseline PROGRAM`".to_owned()
        })
    }

    /// Drives the earlier build instead of this one.
    pub fn earlier(&self) -> Result<Weir, String> {
        Ok(Weir { root: self.root.clone(), binary: self.baseline()?.to_owned(), baseline: None })
    }

    /// Runs `weir … --format json`. Exit codes above 1 are errors; 1 is an answer.
    pub fn json(&self, arguments: &[&str]) -> Result<Value, String> {
        self.json_within(arguments, 1)
    }

    /// The same, where 1 is an error, too.
    pub fn json_of_success(&self, arguments: &[&str]) -> Result<Value, String> {
        self.json_within(arguments, 0)
    }

    fn json_within(&self, arguments: &[&str], code_max: i32) -> Result<Value, String> {
        let output = self.output(arguments)?;
        if output.status.code().is_none_or(|code| code > code_max) {
            return Err(format!("weir {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or_default();
            format!("weir {}: no JSON: {error}; {last}", arguments.join(" "))
        })
    }

    /// Runs `weir bench …` over interleaved pairs and takes its one ratio.
    pub fn ratio(&self, effort: Effort, least: f64, what: &[&str]) -> Result<Seen, String> {
        // Many short pairs: what else the machine's host does changes its speed by a half within ten seconds.
        let (seconds, pairs) = if effort == Effort::Quick { ("2", "3") } else { ("2", "30") };
        let mut arguments = vec!["bench"];
        arguments.extend(what);
        arguments.extend(["--format", "json", "--seconds", seconds, "--repeat", pairs]);
        let report = self.json(&arguments)?;
        let ratio = report["ratios"].get(0).ok_or("the bench reported no ratio")?;
        let number = |field: &str| ratio[field].as_f64().unwrap_or(f64::NAN);
        Ok(Seen {
            met: number("value") >= least,
            figure: format!("{:.3}", number("value")),
            interval: format!("{:.3} to {:.3}, {pairs} pairs of {seconds} s", number("min"), number("max")),
        })
    }

    /// Standard output of a command; exit codes above 1 are errors, 1 is an answer.
    pub fn text(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.output(arguments)?;
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(format!("weir {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Wall time of one command that must succeed, its start-up included.
    pub fn time(&self, arguments: &[&str]) -> Result<Duration, String> {
        let begin = Instant::now();
        let output = self.output(arguments)?;
        let elapsed = begin.elapsed();
        if output.status.success() {
            Ok(elapsed)
        } else {
            Err(format!("weir {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
        }
    }

    /// Wall time of one command that must succeed, and the most memory that it had.
    pub fn usage(&self, arguments: &[&str]) -> Result<(Duration, u64), String> {
        let begin = Instant::now();
        let mut child = Command::new(&self.binary)
            .current_dir(&self.root)
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", self.binary.display()))?;
        let mut bytes = 0;
        loop {
            bytes = bytes.max(high_water(child.id()).unwrap_or(0));
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok((begin.elapsed(), bytes)),
                Some(status) => return Err(format!("weir {}: {status}", arguments.join(" "))),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn output(&self, arguments: &[&str]) -> Result<Output, String> {
        Command::new(&self.binary)
            .current_dir(&self.root)
            .args(arguments)
            .output()
            .map_err(|error| format!("cannot run {}: {error}", self.binary.display()))
    }

    /// Runs tests. No test at all is an error, and so is a name that no test has.
    ///
    /// # Errors
    /// Cargo cannot run them, or one of the names is no test's.
    pub fn tests(
        &self,
        chosen: &Chosen,
        output: Captured,
        environment: &[(&str, &str)],
    ) -> Result<Ran, String> {
        let mut arguments = chosen.arguments();
        if output == Captured::No {
            arguments.push("--nocapture");
        }
        let output = Command::new("cargo")
            .current_dir(&self.root)
            .args(["test", "--no-fail-fast"])
            .args(&arguments)
            .envs(environment.iter().copied())
            .output()
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() && !text.contains("test result:") {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{chosen}: {}", said.lines().last().unwrap_or_default()));
        }
        Ran::of(text, chosen)
    }
}

/// Which output of tests is shown: that of failing ones, or all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Captured {
    Yes,
    No,
}

/// Tests of one test binary: those whose names have one of `names` in them. A tier and a file are modules: `simulated::table_1::`.
pub struct Chosen {
    pub target: &'static str,
    pub names: &'static [&'static str],
    /// Profile that it is built with; none: that of tests.
    pub profile: Option<&'static str>,
}

impl Chosen {
    pub const fn of(target: &'static str, names: &'static [&'static str]) -> Chosen {
        Chosen { target, names, profile: None }
    }

    pub const fn release(target: &'static str, names: &'static [&'static str]) -> Chosen {
        Chosen { target, names, profile: Some("release") }
    }

    /// Optimised, but not at link time, which each test program would pay for: where the product is not measured.
    pub const fn fast(target: &'static str, names: &'static [&'static str]) -> Chosen {
        Chosen { target, names, profile: Some("fast") }
    }

    /// Arguments for the whole workspace: other features would build everything once more.
    fn arguments(&self) -> Vec<&'static str> {
        let mut arguments = self.profile.map_or_else(Vec::new, |profile| vec!["--profile", profile]);
        arguments.extend(["--workspace", "--test", self.target, "--"]);
        arguments.extend(self.names);
        arguments
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cargo test {}", self.arguments().join(" "))
    }
}

/// Tests that were run.
pub struct Ran {
    pub passed: u64,
    pub failed: u64,
    /// Output of cargo and the tests.
    pub text: String,
}

impl Ran {
    fn of(text: String, chosen: &Chosen) -> Result<Ran, String> {
        let (mut passed, mut failed) = (0, 0);
        for line in text.lines().filter(|line| line.starts_with("test result:")) {
            passed += count_before(line, " passed");
            failed += count_before(line, " failed");
        }
        if passed + failed == 0 {
            return Err(format!("{chosen} ran no test"));
        }
        let has_run = |name: &&str| {
            let tests = text.lines().filter_map(|line| line.strip_prefix("test "));
            tests
                .filter_map(|line| line.split_once(" ..."))
                .any(|(test, ended)| test.contains(*name) && !ended.contains("ignored"))
        };
        match chosen.names.iter().find(|name| !has_run(name)) {
            Some(name) => Err(format!("{chosen} ran no test with {name} in its name")),
            None => Ok(Ran { passed, failed, text }),
        }
    }
}

/// The most memory that a running process has had, in bytes.
fn high_water(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The number that stands before these words.
fn count_before(line: &str, words: &str) -> u64 {
    let before = line.split(words).next().unwrap_or("");
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Chosen, Ran};

    #[test]
    fn a_name_that_no_test_has_is_an_error() {
        let said = "running 1 test\ntest simulated::table_1::counted ... ok\n\n\
                    test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured";
        let ran =
            |names| Ran::of(said.to_owned(), &Chosen::of("bench", names)).map(|ran| (ran.passed, ran.failed));
        assert_eq!(ran(&["simulated::table_1::"]), Ok((1, 0)));
        let wrong = ran(&["simulated::table_1::", "table_2::"]).unwrap_err();
        assert!(wrong.contains("ran no test with table_2:: in its name"), "{wrong}");
        let none = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured";
        let wrong = Ran::of(none.to_owned(), &Chosen::fast("search", &["property"])).err().unwrap();
        assert_eq!(wrong, "cargo test --profile fast --workspace --test search -- property ran no test");
    }

    #[test]
    fn counts_are_read_from_cargos_closing_line() {
        let line = "test result: ok. 12 passed; 3 failed; 0 ignored; 0 measured";
        assert_eq!((super::count_before(line, " passed"), super::count_before(line, " failed")), (12, 3));
    }
}
