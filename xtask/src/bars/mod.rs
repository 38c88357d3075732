//! `cargo xtask bars`: runs what Weir promises and writes docs/bars.md.
//!
//! A bar is a claim with a number and the command that shows it. Each issue adds its bars in a module of
//! its own. Results are kept in docs/bars.json, so that measuring one bar leaves the others as they were.

mod figures;
mod issue_02;
mod issue_03;
mod issue_04;
mod issue_05;
mod issue_24;
mod issue_25;
mod issue_26;
mod issue_27;
mod issue_28;
mod issue_29;
mod issue_30;
mod large_schema;
mod price_list;
mod record;
mod side_by_side;
mod triggered_schema;
mod unchanged;
mod weir;

use std::path::PathBuf;
use std::process::ExitCode;

use record::{Record, Records};
use weir::Weir;

/// How much time to spend: `--quick` shows that a bar can be met, the full form is what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    Quick,
    Full,
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Measured on this machine.
    Real,
    /// Follows from the input; the same on every machine.
    Computed,
    /// Simulated servers, charged with measured costs of the steps (docs/internals/scale.md).
    Simulated,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Real => "real",
            Kind::Computed => "computed",
            Kind::Simulated => "simulated",
        }
    }
}

pub struct Bar {
    /// Stable: `--only ID` runs it alone.
    pub id: &'static str,
    pub issue: u32,
    pub claim: &'static str,
    /// Criterion, in words.
    pub bar: &'static str,
    pub kind: Kind,
    pub measure: fn(&Weir, Effort) -> Result<Seen, String>,
}

/// Result of a measurement.
pub struct Seen {
    pub met: bool,
    pub figure: String,
    /// Smallest and largest of the repetitions, and their number.
    pub interval: String,
}

const USAGE: &str = "usage: cargo xtask bars [--quick] [--list] [--only ID]… [--baseline PROGRAM]";

pub fn run(arguments: &[String]) -> ExitCode {
    let (mut effort, mut only, mut list, mut baseline) = (Effort::Full, Vec::new(), false, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--quick" => effort = Effort::Quick,
            "--list" => list = true,
            "--only" => match rest.next() {
                Some(id) => only.push(id.clone()),
                None => return usage(),
            },
            "--baseline" => match rest.next() {
                Some(program) => baseline = Some(PathBuf::from(program)),
                None => return usage(),
            },
            _ => return usage(),
        }
    }
    let bars: Vec<&Bar> = issue_02::BARS
        .iter()
        .chain(issue_03::BARS)
        .chain(issue_04::BARS)
        .chain(issue_05::BARS)
        .chain(issue_24::BARS)
        .chain(issue_25::BARS)
        .chain(issue_26::BARS)
        .chain(issue_27::BARS)
        .chain(issue_28::BARS)
        .chain(issue_29::BARS)
        .chain(issue_30::BARS)
        .chain(unchanged::BARS)
        .chain(figures::BARS)
        .collect();
    if list {
        for bar in bars {
            println!("{:24} {}: {}", bar.id, bar.claim, bar.bar);
        }
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) = only.iter().find(|id| bars.iter().all(|bar| bar.id != id.as_str())) {
        eprintln!("bars: there is no bar `{unknown}`; `cargo xtask bars --list` lists them");
        return ExitCode::from(2);
    }
    // Without a baseline, bars relative to one keep their last figures.
    let by_default = |bar: &Bar| baseline.is_some() || unchanged::BARS.iter().all(|one| one.id != bar.id);
    let is_chosen = |bar: &&Bar| match only.is_empty() {
        true => by_default(bar),
        false => only.iter().any(|id| id == bar.id),
    };
    let chosen: Vec<&Bar> = bars.into_iter().filter(is_chosen).collect();
    measure(&chosen, effort, baseline)
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn measure(bars: &[&Bar], effort: Effort, baseline: Option<PathBuf>) -> ExitCode {
    let weir = match Weir::build(baseline) {
        Ok(weir) => weir,
        Err(error) => {
            eprintln!("bars: {error}");
            return ExitCode::from(2);
        }
    };
    let mut records = Records::read(&weir.root);
    let mut missed = 0;
    for bar in bars {
        eprintln!("bars: {} …", bar.id);
        let seen = (bar.measure)(&weir, effort).unwrap_or_else(|error| Seen {
            met: false,
            figure: error.lines().next().unwrap_or("failed").to_owned(),
            interval: String::new(),
        });
        eprintln!("bars: {}: {} {}", bar.id, seen.figure, if seen.met { "(met)" } else { "(MISSED)" });
        missed += u32::from(!seen.met);
        records.put(Record::new(bar, &seen, effort, &weir));
        // After each one: a measurement of an hour should not be lost to the next one's crash.
        if let Err(error) = records.write(&weir.root) {
            eprintln!("bars: cannot write docs/bars.md: {error}");
            return ExitCode::from(2);
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
