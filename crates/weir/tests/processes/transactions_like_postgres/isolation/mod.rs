//! PostgreSQL's isolation specs (`testdata/isolation`) on PostgreSQL and on Weir: rows and SQLSTATEs of each step, and whether it waits, are
//! the same. At SERIALIZABLE and REPEATABLE READ Weir may be stricter, if some serial order explains what came of it. What differs is in
//! `differences.txt`, with its reason.
//!
//! `WEIR_ISOLATION=all` plays every permutation instead of some of each spec, and no line of the file may be about what does not differ any
//! more; `WEIR_SPEC=NAME` plays one spec. `WEIR_WRITE=1` adds to the file what differs and is not in it and, with all permutations, takes out
//! what does not differ.

mod performance;
mod serial;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server as Postgres;

use self::performance::{Performance, Stage, Told, in_one_line, perform, set_up, tear_down, without_order};
use self::spec::{Permutation, Spec};
use crate::alone::Alone;

/// Permutations of each spec in the short form.
const SOME: usize = 2;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/isolation")
}

/// Specs of a million rows, which are played with all permutations or by name.
const LONG: [&str; 1] = ["multiple-row-versions"];

fn specs() -> BTreeMap<String, Spec> {
    let only = std::env::var("WEIR_SPEC").ok();
    let files = std::fs::read_dir(folder().join("specs")).unwrap();
    let read = |file: std::io::Result<std::fs::DirEntry>| {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, spec::parse(&std::fs::read_to_string(path).unwrap()))
    };
    let is_played = |name: &String| match &only {
        Some(only) => only == name,
        None => plays_all() || !LONG.contains(&name.as_str()),
    };
    files.map(read).filter(|(name, _)| is_played(name)).collect()
}

fn plays_all() -> bool {
    std::env::var("WEIR_ISOLATION").is_ok_and(|text| text == "all")
}

/// All, or some that are spread over them.
fn chosen(spec: &Spec) -> Vec<&Permutation> {
    let all = &spec.permutations;
    let apart = if plays_all() { 1 } else { all.len().div_ceil(SOME) };
    all.iter().step_by(apart.max(1)).collect()
}

/// Counts of permutations of a spec.
#[derive(Debug, Default)]
struct Counts {
    same: usize,
    /// Otherwise, and explained by a serial order.
    stricter: usize,
    /// A statement is 0A000, or the tables cannot be made.
    refused: usize,
    different: usize,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.same += other.same;
        self.stricter += other.stricter;
        self.refused += other.refused;
        self.different += other.different;
    }
}

fn same_step(one: &Told, other: &Told) -> bool {
    without_order(&one.answer) == without_order(&other.answer) && one.has_waited == other.has_waited
}

/// The first step that differs: PostgreSQL's answer, and Weir's.
fn difference(expected: &Performance, found: &Performance) -> Option<String> {
    let words = |told: &Told| {
        let waits = if told.has_waited == Some(true) { "waits, " } else { "" };
        format!("{waits}{}", told.answer)
    };
    let mut steps = expected.told.iter().zip(&found.told);
    let step = steps.find(|(expected, found)| !same_step(expected, found));
    match step {
        Some((expected, found)) => Some(format!("{}: {} | {}", expected.name, words(expected), words(found))),
        None if expected.rows != found.rows => Some(format!("rows: {:?} | {:?}", expected.rows, found.rows)),
        None => None,
    }
}

/// The first statement that Weir alone refuses.
fn refusal(expected: &Performance, found: &Performance) -> Option<String> {
    let is_refused = |answer: &str| answer == "0A000";
    let mut steps = expected.told.iter().zip(&found.told);
    let step = steps.find(|(expected, found)| is_refused(&found.answer) && !is_refused(&expected.answer));
    step.map(|(_, found)| format!("0A000: {}", in_one_line(&found.sql)))
}

/// Makes the tables, plays, and removes them.
fn play(stage: &Stage<'_>, spec: &Spec, permutation: &Permutation) -> Result<Performance, String> {
    let mut control = Driver::connect(stage.url, NoTls).unwrap();
    let played = set_up(&mut control, spec).map(|()| perform(stage, spec, permutation));
    tear_down(&mut control, spec);
    played
}

/// Lines of what differs, and how many permutations do.
fn compare(postgres: &str, weir: &str, name: &str, spec: &Spec) -> (BTreeSet<String>, Counts) {
    let (mut lines, mut counts) = (BTreeSet::new(), Counts::default());
    let permutations = chosen(spec);
    for permutation in &permutations {
        let expected = play(&Stage::postgres(postgres), spec, permutation)
            .unwrap_or_else(|why| panic!("{name} in PostgreSQL: {why}"));
        let found = match play(&Stage::weir(weir), spec, permutation) {
            Ok(found) => found,
            Err(why) => {
                lines.insert(format!("{name} is refused: {why}"));
                counts.refused = permutations.len();
                break;
            }
        };
        let Some(what) = difference(&expected, &found) else {
            counts.same += 1;
            continue;
        };
        if let Some(why) = refusal(&expected, &found) {
            counts.refused += 1;
            lines.insert(format!("{name} is refused: {why}"));
        } else if spec.is_strict() && serial::explains(postgres, spec, &found) {
            counts.stricter += 1;
        } else {
            counts.different += 1;
            lines.insert(format!("{name}: {}; {what}", spec.name(permutation)));
        }
    }
    (lines, counts)
}

/// Lines of the file, without the reasons that stand above them.
fn known(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

const NOT_EXPLAINED: &str = "# Not explained yet";

/// The file with lines below all that have a reason, and without those that are `gone`.
fn changed(text: &str, new: &[&String], gone: &[&str]) -> String {
    let heading = if new.is_empty() || text.contains(NOT_EXPLAINED) { "" } else { NOT_EXPLAINED };
    let kept: Vec<&str> = text.trim_end().lines().filter(|line| !gone.contains(line)).collect();
    let lines: Vec<&str> =
        kept.into_iter().chain([heading]).chain(new.iter().map(|one| one.as_str())).collect();
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// Lines of every run of all permutations so far: one run for each number of shards.
static FOUND: Mutex<Vec<Vec<String>>> = Mutex::new(Vec::new());

/// Number of the runs.
const RUNS: usize = 2;

/// Lines of the file that no run has found; only known when all runs have ended.
fn gone<'t>(known: &[&'t str], found: &[String]) -> Vec<&'t str> {
    if !plays_all() || std::env::var_os("WEIR_SPEC").is_some() {
        return Vec::new();
    }
    let mut runs = FOUND.lock().unwrap();
    runs.push(found.to_vec());
    if runs.len() < RUNS {
        return Vec::new();
    }
    let is_found = |line: &str| runs.iter().flatten().any(|found| found == line);
    known.iter().copied().filter(|line| !is_found(line)).collect()
}

fn check(shards: u16) {
    let postgres = Postgres::start().unwrap();
    let weir = Alone::start(shards);
    let path = folder().join("differences.txt");
    let mut found = Vec::new();
    let mut all = Counts::default();
    for (name, spec) in specs() {
        let (lines, counts) = compare(&postgres.connection_string(), &weir.url(), &name, &spec);
        println!("{shards} shards, {name}: {counts:?}");
        lines.iter().for_each(|line| println!("    {line}"));
        all.add(&counts);
        found.extend(lines);
    }
    println!("{shards} shards: permutations {all:?}");
    let text = std::fs::read_to_string(&path).unwrap();
    let known = known(&text);
    let new: Vec<&String> = found.iter().filter(|line| !known.contains(&line.as_str())).collect();
    let gone = gone(&known, &found);
    if std::env::var_os("WEIR_WRITE").is_some() {
        return std::fs::write(&path, changed(&text, &new, &gone)).unwrap();
    }
    assert!(gone.is_empty(), "these do not differ any more, and are in {}: {gone:#?}", path.display());
    assert!(new.is_empty(), "these differ, and are not in {}: {new:#?}", path.display());
    assert!(!text.contains(NOT_EXPLAINED), "{} has differences without a reason", path.display());
}

#[test]
fn on_one_shard() {
    check(1);
}

#[test]
fn on_three_shards() {
    check(3);
}
