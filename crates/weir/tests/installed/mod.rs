//! Clients as their users have them, from their registries. What is installed is kept in cargo's target folder; what cannot be
//! installed fails its test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a client is kept; `install` fills it once.
#[allow(dead_code, reason = "each test uses its part")]
pub fn installed(name: &str, install: impl FnOnce(&Path) -> Command) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("drivers").join(name);
    let ready = place.join("installed");
    if !ready.exists() {
        std::fs::create_dir_all(&place).unwrap();
        let said = run(&mut install(&place));
        said.unwrap_or_else(|why| panic!("{name} cannot be installed, so it cannot be tested: {why}"));
        std::fs::write(ready, "").unwrap();
    }
    place
}

/// The driver of JDBC, by which many find it.
#[allow(dead_code, reason = "each test uses its part")]
pub fn jdbc() -> PathBuf {
    let place = installed("jdbc", |place| {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "dependency:copy", "-Dartifact=org.postgresql:postgresql:42.7.4"]);
        maven.arg(format!("-DoutputDirectory={}", place.display())).current_dir(place);
        maven
    });
    place.join("postgresql-42.7.4.jar")
}

/// A client that takes longer has hung: its test fails, and not the whole run.
const SECONDS_MAX: &str = "600";

/// The same command, ended from outside when it has hung.
fn bounded(command: &Command) -> Command {
    let mut bounded = Command::new("timeout");
    bounded.args(["--kill-after=5", SECONDS_MAX]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    if let Some(place) = command.get_current_dir() {
        bounded.current_dir(place);
    }
    bounded
}

/// Output of the command, or the reason of its failure.
#[allow(dead_code, reason = "each test uses its part")]
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = bounded(command).output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    match output.status.success() {
        true => Ok(said[0].clone()),
        false => Err(format!("{command:?} has failed:\n{}{}", said[0], said[1])),
    }
}

/// It ends with "all is well".
#[allow(dead_code, reason = "each test uses its part")]
pub fn is_well(command: &mut Command) {
    let said = run(command).unwrap_or_else(|why| panic!("{why}"));
    assert!(said.contains("all is well"), "{said}");
}
