//! Simulates the figures of eris.txt §8 with measured costs, and says which of its claims hold (docs/internals/ordered-baselines.md).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use weir_baselines::eris::workload::Kind;
use weir_ordered::cluster::Timeouts;
use weir_ordered_scale::calibration::{Calibration, MEASURED};
use weir_ordered_scale::experiments::{ALL, Effort, Laboratory};
use weir_ordered_scale::figures::{Figure, NAMES};
use weir_ordered_scale::simulation::TICK_NS;
use weir_ordered_scale::table;
use weir_ordered_scale::verdicts::{Verdict, verdicts};

#[derive(Parser)]
#[command(about = "The figures of Eris by simulation with measured costs")]
struct Arguments {
    /// File with lines of weir-ordered-bench, instead of those that were measured for Weir
    #[arg(long, global = true)]
    costs: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate figures: 6 to 11, 13, 14, and scaling to 100 shards
    Figures(Wanted),
    /// Print the cost of messages at each party
    Costs,
    /// Predict runs that the costs are not taken from; fails if one is wrong by more than that
    Validate {
        /// In percent
        #[arg(long, default_value_t = 35.0)]
        most: f64,
    },
}

#[derive(Args)]
struct Wanted {
    /// All if none is named
    names: Vec<String>,
    /// Fewer shards and points, in less than a minute
    #[arg(long)]
    quick: bool,
    /// One line for each figure, with its verdicts
    #[arg(long)]
    json: bool,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// From the detection of a missing packet until a replica asks its peers
    #[arg(long, default_value_t = Timeouts::DEFAULT.gap_ms)]
    gap_ms: u64,
    /// Between two sendings of a message that is not answered
    #[arg(long, default_value_t = Timeouts::DEFAULT.resend_ms)]
    resend_ms: u64,
    /// A sequencer that is silent for so long is suspected
    #[arg(long, default_value_t = Timeouts::DEFAULT.sequencer_ms)]
    sequencer_ms: u64,
    /// Interval of the timers of all machines
    #[arg(long, default_value_t = TICK_NS / NS_PER_MS, value_parser = clap::value_parser!(u64).range(1..))]
    tick_ms: u64,
}

const NS_PER_MS: u64 = 1_000_000;

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
            anstream::eprintln!("weir-ordered-scale: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let calibration = match &arguments.costs {
        Some(path) => {
            let text =
                std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Calibration::read(&text)?
        }
        None => Calibration::read(MEASURED)?,
    };
    match &arguments.command {
        Command::Figures(wanted) => figures(&calibration, wanted),
        Command::Costs => costs(&calibration),
        Command::Validate { most } => validate(&calibration, most / 100.0),
    }
}

fn figures(calibration: &Calibration, wanted: &Wanted) -> Result<(), String> {
    let Wanted { seed, gap_ms, resend_ms, sequencer_ms, tick_ms, .. } = *wanted;
    let laboratory = Laboratory {
        calibration,
        effort: if wanted.quick { Effort::QUICK } else { Effort::FULL },
        seed,
        timeouts: Timeouts { gap_ms, resend_ms, sequencer_ms, ..Timeouts::DEFAULT },
        tick_ns: tick_ms * NS_PER_MS,
    };
    let all: Vec<_> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    let mut judged = Vec::new();
    for name in if wanted.names.is_empty() { &all } else { &wanted.names } {
        let figure = laboratory.figure(name)?;
        let verdicts = verdicts(&figure);
        if wanted.json {
            let line = Line { figure: &figure, verdicts: &verdicts };
            anstream::println!("{}", serde_json::to_string(&line).map_err(|error| error.to_string())?);
        } else {
            anstream::println!("{}", table::of_figure(&figure));
        }
        judged.extend(verdicts);
    }
    if !wanted.json {
        anstream::println!("{}", table::of_verdicts(&judged));
    }
    Ok(())
}

fn costs(calibration: &Calibration) -> Result<(), String> {
    calibration.notes().iter().for_each(|note| anstream::println!("{note}"));
    for contender in ALL {
        for kind in Kind::ALL {
            let costs = contender.sequencer.applied(calibration.costs(contender.protocol, kind)?);
            anstream::println!("{} {}: {costs:.0?}", contender.name, kind.name());
        }
    }
    Ok(())
}

fn validate(calibration: &Calibration, most: f64) -> Result<(), String> {
    let predictions = calibration.predictions()?;
    anstream::println!("{}", table::of_predictions(&predictions));
    let worst = predictions.iter().map(|prediction| prediction.error().abs()).fold(0.0, f64::max);
    if worst > most {
        return Err(format!("a prediction is wrong by {:.0}%", 100.0 * worst));
    }
    Ok(())
}
