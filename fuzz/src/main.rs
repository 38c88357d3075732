//! Damaged inputs for every reader: SQL, PL/pgSQL and statement logs, through load, binding and analysis; messages of PostgreSQL's protocol.
//!
//! `weir-fuzz --seconds N --seed S` makes inputs from the examples and test data, one for each number, and demands
//! an answer: no panic, no overflow of the stack, no endless loop. The cases run in a process of their own; where
//! it dies or stands still, the input is made smaller, saved, and the next process goes on behind it. A case
//! follows from seed and number alone, so that `--case` shows it again. Exit code 1: something was found.

mod case;
mod corpus;
mod mutate;
mod nesting;
mod run;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str =
    "usage: weir-fuzz [--seconds N] [--seed S] [--findings FOLDER] [--case NUMBER] [--replay FOLDER]
    --seconds N      how long to search [default: 60]
    --seed S         what the inputs follow from [default: 1]
    --findings FOLDER  where inputs are saved that were not answered [default: fuzz/findings]
    --plant panic|overflow|sql|plpgsql|log|wire  with a bug that must be found
    --case NUMBER    run one case of the seed, in this process
    --replay FOLDER  run a saved input, in this process";

fn main() -> ExitCode {
    let findings = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("findings");
    let mut options = Options { seconds: 60, seed: 1, findings, ..Options::default() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let understood = match argument.as_str() {
            "--seconds" => value.parse().map(|seconds| options.seconds = seconds).is_ok(),
            "--seed" => value.parse().map(|seed| options.seed = seed).is_ok(),
            "--case" => value.parse().map(|case| options.case = Some(case)).is_ok(),
            "--work" => value.parse().map(|from| options.work = Some(from)).is_ok(),
            "--replay" => {
                options.replay = Some(PathBuf::from(value));
                true
            }
            "--findings" => {
                options.findings = PathBuf::from(value);
                true
            }
            "--plant" => {
                options.plant = Plant::named(&value);
                options.plant.is_some()
            }
            _ => false,
        };
        if !understood {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    match (&options.replay, options.case, options.work) {
        (Some(folder), _, _) => run::replay(folder, options.plant),
        (_, Some(number), _) => {
            let case = case::Case::make(options.seed, number, &corpus::Corpus::read());
            run::one(&case, options.plant)
        }
        (_, _, Some(from)) => run::work(options.seed, from, options.plant),
        _ => watch::Watch::new(options).search(),
    }
}

/// A bug on purpose: the search must find it. Every text with a DELETE in it panics, or overflows the stack; or the reader of
/// one language panics at what it has understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    Panic,
    Overflow,
    Sql,
    PlPgSql,
    Log,
    Wire,
}

impl Plant {
    const ALL: [(&str, Plant); 6] = [
        ("panic", Plant::Panic),
        ("overflow", Plant::Overflow),
        ("sql", Plant::Sql),
        ("plpgsql", Plant::PlPgSql),
        ("log", Plant::Log),
        ("wire", Plant::Wire),
    ];

    fn named(name: &str) -> Option<Plant> {
        Plant::ALL.iter().find(|(other, _)| *other == name).map(|(_, plant)| *plant)
    }

    fn name(self) -> &'static str {
        Plant::ALL.iter().find(|(_, other)| *other == self).map_or("", |(name, _)| name)
    }
}

#[derive(Debug, Default)]
struct Options {
    seconds: u64,
    seed: u64,
    case: Option<u64>,
    replay: Option<PathBuf>,
    /// Where inputs are saved that were not answered.
    findings: PathBuf,
    plant: Option<Plant>,
    /// Given to the process that runs the cases: the first of them.
    work: Option<u64>,
}
