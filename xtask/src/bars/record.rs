//! Results on disk: docs/bars.json for the next run, docs/bars.md for people.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::weir::Weir;
use super::{Bar, Effort, Seen};

#[derive(Serialize, Deserialize)]
pub struct Record {
    id: String,
    issue: u32,
    claim: String,
    bar: String,
    seen: String,
    interval: String,
    kind: String,
    met: bool,
    quick: bool,
    commit: String,
    machine: String,
}

impl Record {
    pub fn new(bar: &Bar, seen: &Seen, effort: Effort, weir: &Weir) -> Record {
        Record {
            id: bar.id.to_owned(),
            issue: bar.issue,
            claim: bar.claim.to_owned(),
            bar: bar.bar.to_owned(),
            seen: seen.figure.clone(),
            interval: seen.interval.clone(),
            kind: bar.kind.name().to_owned(),
            met: seen.met,
            quick: effort == Effort::Quick,
            commit: commit(&weir.root),
            machine: machine(),
        }
    }
}

#[derive(Default)]
pub struct Records(Vec<Record>);

impl Records {
    pub fn read(root: &Path) -> Records {
        let text = std::fs::read_to_string(root.join("docs/bars.json")).unwrap_or_default();
        Records(serde_json::from_str(&text).unwrap_or_default())
    }

    pub fn put(&mut self, record: Record) {
        match self.0.iter_mut().find(|known| known.id == record.id) {
            Some(known) => *known = record,
            None => self.0.push(record),
        }
        self.0.sort_by_key(|record| record.issue);
    }

    pub fn write(&self, root: &Path) -> std::io::Result<()> {
        let json = serde_json::to_string_pretty(&self.0).map_err(std::io::Error::other)?;
        std::fs::write(root.join("docs/bars.json"), json + "\n")?;
        std::fs::write(root.join("docs/bars.md"), self.markdown())
    }

    fn markdown(&self) -> String {
        let mut text = String::from(
            "# Bars: what Weir promises, and what was seen\n\n\
             Written by `cargo xtask bars`; do not edit. *Real* figures were measured on the machine named, with \
             clients, shards and coordinators on its cores together; *computed* ones follow from the input, and *simulated* ones are of servers that nobody has ([scale.md](internals/scale.md)). A \
             ratio is the median of interleaved pairs, with its range. A quick measurement shows that a bar can \
             be met; only a full one counts.\n",
        );
        let mut issue = None;
        for record in &self.0 {
            if issue != Some(record.issue) {
                issue = Some(record.issue);
                let _ = write!(
                    text,
                    "\n## Issue {}\n\n| claim | bar | seen | interval | met | kind | commit | machine |\n\
                     |---|---|---|---|---|---|---|---|\n",
                    record.issue
                );
            }
            let _ = writeln!(
                text,
                "| {} (`{}`) | {} | **{}** | {} | {} | {}{} | {} | {} |",
                record.claim,
                record.id,
                record.bar,
                cell(&record.seen),
                cell(&record.interval),
                if record.met { "yes" } else { "**no**" },
                record.kind,
                if record.quick { ", quick" } else { "" },
                record.commit,
                record.machine
            );
        }
        text
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

pub(super) fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) else { return "unknown".to_owned() };
    // Results of earlier bars do not make the code another one.
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).unwrap_or_default();
    if changed.lines().all(|line| line.contains("docs/bars.")) { commit } else { commit + " and changes" }
}

pub(super) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let read = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = read("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let memory = read("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
        .map_or(String::new(), |kib| format!(", {} GiB", (kib + (1 << 19)) >> 20));
    format!("{cores} cores, {model}{memory}")
}
