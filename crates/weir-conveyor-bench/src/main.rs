//! TPC-W, RUBiS and a micro-benchmark over real PostgreSQL servers, and the service times for the simulation
//! (docs/internals/conveyor-bench.md).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use weir_conveyor_bench::application::Bench;
use weir_conveyor_bench::measure::{self, Effort};
use weir_conveyor_bench::overhead::{self, Verdict};
use weir_conveyor_bench::proxy;
use weir_conveyor_bench::report::{self, Line};
use weir_conveyor_bench::run::{self, Settings};
use weir_conveyor_bench::target::{Deployment, Target};
use weir_conveyor_front::Mode;
use weir_conveyor_front::run::Running;
use weir_conveyor_net::config::Config;
use weir_conveyor_scale::sites::Reading;

#[derive(Parser)]
#[command(about = "Conveyor Belt and its comparators over real PostgreSQL servers")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a workload against targets, one after the other
    Run(Wanted),
    /// Print the classes of a workload's operations beside Table 1 of the paper
    Classes { workload: String },
    /// Measure service times, as lines for weir-conveyor-scale
    Measure {
        /// Few calls of each operation
        #[arg(long)]
        quick: bool,
        /// The steps of the protocols, and no operation
        #[arg(long)]
        steps: bool,
    },
    /// Measure what an agent costs on a local operation, beside a proxy that copies bytes
    Overhead {
        #[arg(long, value_delimiter = ',', default_value = "1,8")]
        clients: Vec<u32>,
        #[arg(long, default_value_t = 10)]
        rounds: u32,
        /// Of each run of pgbench
        #[arg(long, default_value_t = 2)]
        seconds: u32,
        /// Commits do not wait for the disk, which others may use, too
        #[arg(long)]
        no_fsync: bool,
        /// One line of JSON for each run
        #[arg(long)]
        json: bool,
    },
    /// The agent of `overhead`
    #[command(hide = true)]
    ServeAgent { file: PathBuf, server: String },
    /// The proxy of `overhead`
    #[command(hide = true)]
    ServeProxy { socket: PathBuf },
}

#[derive(Args)]
struct Wanted {
    /// tpcw, rubis or conveyor-micro
    workload: String,
    /// postgres, conveyor:N, readonly:N, 2pc:N
    #[arg(long, value_delimiter = ',', default_value = "postgres,conveyor:3,readonly:3")]
    target: Vec<Target>,
    #[arg(long, default_value_t = 9)]
    clients: u64,
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Pause between an answer and the next call
    #[arg(long, default_value_t = 0)]
    think_ms: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Settings of the workload: ordering=true, items=10000
    #[arg(long, value_parser = setting)]
    set: Vec<(String, String)>,
    /// Servers and clients at the sites of Table 2, whose numbers are round trips or one way
    #[arg(long, value_enum)]
    wan: Option<Wan>,
    /// One line of JSON for each run
    #[arg(long)]
    json: bool,
    /// A second for each target
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Wan {
    RoundTrip,
    OneWay,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text}: a setting is name=value"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(wanted) => run_all(&wanted),
        Command::Classes { workload } => {
            Bench::of(&workload, &[]).map(|bench| anstream::println!("{}", report::classes(&bench)))
        }
        Command::Measure { quick, steps } => {
            measured(if quick { Effort::QUICK } else { Effort::FULL }, steps)
        }
        Command::Overhead { clients, rounds, seconds, no_fsync, json } => {
            overhead_of(&overhead::Effort { clients, rounds, seconds, is_durable: !no_fsync }, json)
        }
        Command::ServeAgent { file, server } => serve_agent(&file, &server),
        Command::ServeProxy { socket } => {
            proxy::start(socket).map_err(|error| error.to_string()).and_then(overhead::serve_until_told)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            anstream::eprintln!("weir-conveyor-bench: {why}");
            ExitCode::FAILURE
        }
    }
}

fn overhead_of(effort: &overhead::Effort, json: bool) -> Result<(), String> {
    let samples = overhead::measure(effort, |sample| {
        if json {
            anstream::println!("{}", serde_json::json!(sample));
        }
    })?;
    let verdicts: Vec<Verdict> =
        effort.clients.iter().filter_map(|clients| Verdict::of(&samples, *clients)).collect();
    match json {
        true => verdicts.iter().for_each(|verdict| anstream::println!("{}", serde_json::json!(verdict))),
        false => anstream::println!("{}", overhead::table(&verdicts)),
    }
    Ok(())
}

fn serve_agent(file: &Path, server: &str) -> Result<(), String> {
    let running = Running::start(Config::read(file)?, file, server, Mode::Placed)?;
    overhead::serve_until_told(running.front.address())
}

fn run_all(wanted: &Wanted) -> Result<(), String> {
    let bench = Bench::of(&wanted.workload, &wanted.set)?;
    let seconds = if wanted.quick { 1.0 } else { wanted.seconds };
    let settings = Settings {
        clients: wanted.clients,
        warm_up: Duration::from_secs_f64((seconds / 4.0).min(2.0)),
        measured: Duration::from_secs_f64(seconds),
        calls: u64::MAX,
        think: Duration::from_millis(wanted.think_ms),
        seed: wanted.seed,
    };
    let mut lines = Vec::new();
    for target in &wanted.target {
        let deployment = match wanted.wan {
            None => Deployment::start(&bench, *target)?,
            Some(Wan::RoundTrip) => Deployment::start_over_sites(&bench, *target, Reading::RoundTrip)?,
            Some(Wan::OneWay) => Deployment::start_over_sites(&bench, *target, Reading::OneWay)?,
        };
        let figures = run::run(&bench, &deployment, settings)?;
        let line = Line::new(&wanted.workload, &target.to_string(), &settings, &figures);
        if wanted.json {
            anstream::println!("{}", serde_json::to_string(&line).map_err(|error| error.to_string())?);
        }
        lines.push(line);
    }
    if !wanted.json {
        anstream::println!("{}", report::table(&lines));
    }
    Ok(())
}

/// TPC-W's three mixes, and RUBiS's one.
fn measured(effort: Effort, only_steps: bool) -> Result<(), String> {
    let print = |value: &serde_json::Value| anstream::println!("{value}");
    print(&serde_json::json!({ "note": format!(
        "weir-conveyor-bench measure: PostgreSQL 15, SERIALIZABLE, one client, processor time of the server and its children by \
         /proc/PID/schedstat; {} calls of each operation and {} of each step, at most", effort.calls, effort.steps) }));
    let mix = |name: &str, set: &str| {
        let set: Vec<(String, String)> = setting(set).into_iter().collect();
        Bench::of(name, &set).map(|bench| bench.workload.weights().to_vec())
    };
    for name in ["tpcw", "rubis"] {
        let bench = Bench::of(name, &[])?;
        let mut mixes = vec![bench.workload.weights().to_vec()];
        if name == "tpcw" {
            mixes.extend([mix(name, "browsing=true")?, mix(name, "ordering=true")?]);
            print(&serde_json::json!({ "steps": measure::steps(&bench, effort)? }));
        }
        if only_steps {
            break;
        }
        for operation in measure::operations(&bench, &mixes, effort)? {
            print(&serde_json::to_value(operation).map_err(|error| error.to_string())?);
        }
    }
    Ok(())
}
