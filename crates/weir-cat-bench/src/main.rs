//! The CAT experiment from the command line: one run, or figures with their claims.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use weir_cat::workload::Shape;
use weir_cat_bench::experiments::{self, IDS};
use weir_cat_bench::laboratory::{Effort, Laboratory};
use weir_cat_bench::recording_cost::{self, RECORDERS};
use weir_cat_bench::run::Times;
use weir_cat_bench::schema::LENGTHS;
use weir_cat_bench::servers::Servers;
use weir_cat_bench::table;
use weir_cat_bench::target::Target;
use weir_harness::figure::Figure;
use weir_harness::machine::Machine;
use weir_harness::plot::svg;

#[derive(Parser)]
#[command(about = "Contention, aborts and throughput of Weir, PostgreSQL and MariaDB")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one workload against targets in turns; prints a line of JSON for each
    Run(Run),
    /// Compare the live Contention Level of Weir with the offline one of the same runs
    Live(Live),
    /// Count what recording the live Contention Level costs `weir serve` and `weir conveyor`; prints a line of JSON for each
    Cost(CostOf),
    /// Measure figures, or all of them; prints their claims
    Figures(Figures),
}

#[derive(Args)]
struct Common {
    /// The program `weir`; it is looked for beside this program, then in PATH
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
    /// Shards of Weir
    #[arg(long, default_value_t = 2)]
    shards: u16,
    /// Targets; all of the figures by default
    #[arg(long, value_delimiter = ',')]
    target: Vec<Target>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    common: Common,
    #[arg(long, default_value_t = 7)]
    clients: usize,
    #[arg(long, default_value_t = 0.9)]
    zipf: f64,
    /// Operations of a transaction: 2, 4, … 16
    #[arg(long, default_value_t = 8)]
    length: usize,
    /// Share of transactions that write
    #[arg(long, default_value_t = 1.0)]
    writers: f64,
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
}

#[derive(Args)]
struct Live {
    #[command(flatten)]
    common: Common,
    #[arg(long, value_delimiter = ',', default_value = "0.0,0.6,0.9,1.2")]
    zipf: Vec<f64>,
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

#[derive(Args)]
struct CostOf {
    #[command(flatten)]
    common: Common,
    /// Transactions that are counted; one recorded burst stands for 16,384, and fewer say nothing
    #[arg(long, default_value_t = 32_768, value_parser = clap::value_parser!(u32).range(16_384..))]
    transactions: u32,
}

#[derive(Args)]
struct Figures {
    #[command(flatten)]
    common: Common,
    /// cat-fig1 … cat-fig8, cat-wall, confluence-fig3; all if none is named
    ids: Vec<String>,
    /// Few points, short runs
    #[arg(long)]
    quick: bool,
    /// Shorter still, to see that it works: the numbers say nothing
    #[arg(long, conflicts_with = "quick")]
    tiny: bool,
    /// Write ID.jsonl and ID.svg there
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(wanted) => run(&wanted),
        Command::Live(wanted) => live(&wanted),
        Command::Cost(wanted) => cost(&wanted),
        Command::Figures(wanted) => figures(&wanted),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            anstream::eprintln!("weir-cat-bench: error: {why}");
            ExitCode::FAILURE
        }
    }
}

impl Common {
    fn program(&self) -> PathBuf {
        let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("weir")));
        let beside = beside.filter(|program| program.exists());
        self.weir.clone().or(beside).unwrap_or_else(|| PathBuf::from("weir"))
    }

    fn servers(&self) -> Servers {
        Servers::new(&self.program(), self.shards)
    }

    fn targets(&self) -> &[Target] {
        if self.target.is_empty() { &Target::FIGURES } else { &self.target }
    }
}

fn progress(what: &str) {
    anstream::eprintln!("weir-cat-bench: {what}");
}

fn run(wanted: &Run) -> Result<(), String> {
    if !LENGTHS.contains(&wanted.length) {
        return Err(format!(
            "there are procedures for {LENGTHS:?} operations, and not for {}",
            wanted.length
        ));
    }
    let seconds =
        Duration::try_from_secs_f64(wanted.seconds).map_err(|error| format!("--seconds: {error}"))?;
    let effort = Effort {
        times: Times { warm_up: seconds / 4, measured: seconds },
        repetitions: wanted.repetitions,
        ..Effort::quick()
    };
    progress(&Machine::here().to_string());
    let mut listener = progress;
    let common = &wanted.common;
    let mut laboratory =
        Laboratory::new(effort, common.targets(), common.servers(), common.seed, &mut listener);
    let shape =
        Shape { exponent: wanted.zipf, length: wanted.length, writers: wanted.writers, ..Shape::PAPER };
    for (_, point) in laboratory.points(wanted.clients, shape)? {
        anstream::println!("{}", serde_json::to_string(&point).map_err(|error| error.to_string())?);
    }
    Ok(())
}

fn live(wanted: &Live) -> Result<(), String> {
    let measured =
        Duration::try_from_secs_f64(wanted.seconds).map_err(|error| format!("--seconds: {error}"))?;
    let times = Times { warm_up: Duration::ZERO, measured };
    progress(&Machine::here().to_string());
    let figure = weir_cat_bench::live::figure(
        &mut wanted.common.servers(),
        &wanted.zipf,
        times,
        wanted.common.seed,
        &mut progress,
    )?;
    anstream::println!("{}", table::claims(&figure));
    Ok(())
}

fn cost(wanted: &CostOf) -> Result<(), String> {
    for recorder in RECORDERS {
        let cost = recording_cost::measure(&wanted.common.program(), recorder, wanted.transactions)?;
        progress(&format!("{recorder:?}: {:+.2}% of the instructions", 100.0 * cost.share()));
        anstream::println!("{}", serde_json::to_string(&cost).map_err(|error| error.to_string())?);
    }
    Ok(())
}

fn figures(wanted: &Figures) -> Result<(), String> {
    let effort = match (wanted.quick, wanted.tiny) {
        (true, _) => Effort::quick(),
        (_, true) => Effort::tiny(),
        _ => Effort::full(),
    };
    let all: Vec<String> = IDS.iter().map(|id| (*id).to_owned()).collect();
    let ids = if wanted.ids.is_empty() { &all } else { &wanted.ids };
    if let Some(id) = ids.iter().find(|id| !all.contains(id)) {
        return Err(format!("there is no figure `{id}`; the figures are: {}", IDS.join(", ")));
    }
    progress(&Machine::here().to_string());
    let mut listener = progress;
    let common = &wanted.common;
    let mut laboratory =
        Laboratory::new(effort, common.targets(), common.servers(), common.seed, &mut listener);
    for id in ids {
        let figure = experiments::figure(&mut laboratory, id, common.seed)?;
        anstream::println!("{}", table::claims(&figure));
        if let Some(folder) = &wanted.out {
            write(folder, &figure)?;
        }
    }
    Ok(())
}

fn write(folder: &Path, figure: &Figure) -> Result<(), String> {
    let put = |name: String, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    put(format!("{}.jsonl", figure.id), &figure.lines())?;
    put(format!("{}.svg", figure.id), &svg(&figure.title, &figure.panels)?)
}
