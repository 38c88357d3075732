//! The `weir` command line: reads arguments and files, prints what the other crates find.
//!
//! It decides nothing about an application and measures nothing. Exit codes are a promise to scripts:
//! 0 all is well, 1 a check failed, 2 the input or the usage is wrong.

mod allocator;
mod analyze;
mod application;
mod bench;
mod calibrate;
mod cli;
mod conveyor;
mod diagnostic;
mod dump;
mod explain;
mod explanation;
mod input;
mod kept;
mod live;
mod logging;
mod migrate;
mod output;
mod progress;
mod replay;
mod report;
mod reproduce;
mod run;
mod serve;
mod settings;
mod sim;
mod solver;
mod statement_log;
mod table;
mod ways_out;
mod weights;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::output::Failure;

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

/// Exit code of a bug, as Rust programs have it.
const BUG: i32 = 101;

/// Deeply nested SQL recurses deeply; only what is touched of this is ever paid for.
const STACK_BYTES: usize = 256 << 20;

fn main() -> ExitCode {
    let cli = parse();
    let as_json = cli.prints_json();
    end_on_bugs();
    let worker = std::thread::Builder::new().name("weir".to_owned()).stack_size(STACK_BYTES);
    let outcome = match worker.spawn(move || dispatch(cli)) {
        Ok(handle) => match handle.join() {
            Ok(outcome) => outcome,
            // The panic's own message is already on stderr.
            Err(_) => return ExitCode::from(BUG as u8),
        },
        Err(error) => Err(Failure::input(format!("weir: cannot start a thread: {error}"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Check(message)) => {
            if let Some(message) = message {
                output::print_error(&message);
            }
            ExitCode::from(1)
        }
        Err(failure @ (Failure::Input(_) | Failure::Refused { .. })) => {
            if let Some(document) = failure.document().filter(|_| as_json) {
                output::print_json(&document);
            }
            if let Failure::Input(message) | Failure::Refused { message, .. } = failure {
                output::print_error(&message);
            }
            ExitCode::from(2)
        }
    }
}

/// Names the new form of a command that earlier versions had.
fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let is_beside = std::env::args().nth(1).is_some_and(|name| name == "beside");
        if is_beside && error.kind() == clap::error::ErrorKind::InvalidSubcommand {
            output::print_error(
                "weir: error: there is no command `beside`: it is part of `weir bench`\n\
                 hint: weir bench pgbench --target weir:,postgres; for calls of an application: weir bench DIRECTORY --target …",
            );
            std::process::exit(2);
        }
        error.exit()
    })
}

/// A bug ends the process at once: a cluster that has lost a shard's thread would wait for it for ever. One of a client's connection
/// ends that connection.
fn end_on_bugs() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        if weir_pg::is_isolated() {
            return;
        }
        eprintln!(
            "weir: this is a bug in Weir, not in your input; please report it with the command that shows it"
        );
        std::process::exit(BUG);
    }));
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Analyze(arguments) => analyze::execute(&arguments),
        Command::Run(arguments) => run::execute(&arguments),
        Command::Bench(arguments) => bench::execute(&arguments),
        Command::Calibrate(arguments) => calibrate::execute(&arguments),
        Command::Reproduce(arguments) => reproduce::execute(&arguments),
        Command::Serve(arguments) => serve::execute(arguments),
        Command::Conveyor(arguments) => conveyor::execute(arguments),
        Command::Dump(arguments) => dump::execute(&arguments),
        Command::Sim(arguments) => sim::execute(&arguments),
        Command::History(arguments) => sim::execute_history(&arguments),
        Command::Explain(arguments) => explain::execute(&arguments),
    }
}
