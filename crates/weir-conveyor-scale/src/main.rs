//! Simulates the figures of operation-partitioning.txt §7 with measured service times, and says which claims hold
//! (docs/internals/conveyor-bench.md).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use serde::Serialize;
use weir_conveyor_scale::costs::{Costs, MEASURED};
use weir_conveyor_scale::experiments::{Effort, Figure, Laboratory, NAMES};
use weir_conveyor_scale::table;
use weir_conveyor_scale::verdicts::{Verdict, verdicts};

#[derive(Parser)]
#[command(
    about = "Conveyor Belt beside two-phase commit and read-only replicas, by simulation with measured service times"
)]
struct Arguments {
    /// Figures: 3-tpcw, 3-rubis, sensitivity, table-3, 4-tpcw, 4-rubis, 5, 6; all if none is named
    names: Vec<String>,
    /// File with lines of `weir-conveyor-bench measure`, instead of those that were measured for Weir
    #[arg(long)]
    costs: Option<PathBuf>,
    /// Fewer servers and points
    #[arg(long)]
    quick: bool,
    /// One line for each figure, with its verdicts
    #[arg(long)]
    json: bool,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    figure: &'a Figure,
    verdicts: &'a [Verdict],
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            anstream::eprintln!("weir-conveyor-scale: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let text = match &arguments.costs {
        Some(path) => {
            std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?
        }
        None => MEASURED.to_owned(),
    };
    let costs = Costs::read(&text)?;
    let effort = if arguments.quick { Effort::QUICK } else { Effort::FULL };
    let laboratory = Laboratory { costs: &costs, effort, seed: arguments.seed };
    let all: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    let mut judged = Vec::new();
    for name in if arguments.names.is_empty() { &all } else { &arguments.names } {
        let figure = laboratory.figure(name)?;
        let verdicts = verdicts(&figure);
        if arguments.json {
            let line = Line { figure: &figure, verdicts: &verdicts };
            anstream::println!("{}", serde_json::to_string(&line).map_err(|error| error.to_string())?);
        } else {
            anstream::println!("{}", table::of_figure(&figure));
        }
        judged.extend(verdicts);
    }
    if !arguments.json {
        anstream::println!("{}", table::of_verdicts(&judged));
    }
    Ok(())
}
