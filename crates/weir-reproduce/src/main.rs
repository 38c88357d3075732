//! Figures of the papers from the command line, built without PostgreSQL's grammar. `weir reproduce` has the same ones, and those of ramp.txt.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use weir_cat_bench::table;
use weir_cat_bench::target::Target;
use weir_harness::machine::Machine;
use weir_reproduce::report::Report;
use weir_reproduce::{Effort, Reproducer, ids};

#[derive(Parser)]
#[command(about = "The papers' figures, measured anew, and a verdict for each claim")]
struct Arguments {
    /// Figures; `all` is all of them
    #[arg(required_unless_present = "list")]
    ids: Vec<String>,
    /// Print the ids
    #[arg(long)]
    list: bool,
    /// Few points, short runs
    #[arg(long)]
    quick: bool,
    /// Shorter still, to see that it works: the numbers say nothing
    #[arg(long, conflicts_with = "quick")]
    tiny: bool,
    /// The program `weir`
    #[arg(long, value_name = "PROGRAM", default_value = "weir")]
    weir: PathBuf,
    /// Shards of Weir
    #[arg(long, default_value_t = 2)]
    shards: u16,
    /// Targets of the measured figures; all by default
    #[arg(long, value_delimiter = ',')]
    target: Vec<Target>,
    /// Write a page, index.html, ID.jsonl and ID.svg there
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            anstream::eprintln!("weir-reproduce: error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    if arguments.list {
        ids().for_each(|id| anstream::println!("{id}"));
        return Ok(());
    }
    let all: Vec<String> = ids().collect();
    let wanted = if arguments.ids.iter().any(|id| id == "all") { &all } else { &arguments.ids };
    if let Some(id) = wanted.iter().find(|id| !all.contains(id)) {
        return Err(format!("there is no figure `{id}`; `--list` prints those that there are"));
    }
    let effort = Effort::of(arguments.tiny, arguments.quick);
    let targets = if arguments.target.is_empty() { &Target::FIGURES[..] } else { &arguments.target };
    let machine = Machine::here();
    let mut listener = |what: &str| anstream::eprintln!("weir-reproduce: {what}");
    listener(&machine.to_string());
    let names: Vec<String> = targets.iter().map(ToString::to_string).collect();
    let command = format!(
        "weir-reproduce {}{} --seed {} --shards {} --target {}",
        arguments.ids.join(" "),
        effort.option(),
        arguments.seed,
        arguments.shards,
        names.join(",")
    );
    let mut report = Report::new(arguments.out.as_deref(), machine, command)?;
    let program = (arguments.weir.as_path(), arguments.shards);
    let mut reproducer = Reproducer::new(effort, targets, program, arguments.seed, &mut listener);
    for id in wanted {
        match reproducer.figure(id) {
            Ok(figure) => {
                anstream::println!("{}", table::claims(&figure));
                report.add(figure)?;
            }
            Err(why) => {
                anstream::eprintln!("weir-reproduce: {id}: {why}");
                report.miss(id, &why)?;
            }
        }
    }
    report.complaint().map_or(Ok(()), Err)
}
