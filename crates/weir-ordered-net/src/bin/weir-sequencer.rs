//! A sequencer as a process, and how fast it is (docs/internals/ordered-network.md).

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use weir_ordered_net::bench::{self, Load};
use weir_ordered_net::{Members, sequencer};

/// The allocator of `weir`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Packets a second on one core that a sequencer is to stamp (issue 28).
const BAR: f64 = 500_000.0;

#[derive(Parser)]
#[command(about = "A sequencer of ordered transactions")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a sequencer
    Run {
        /// The members of the cluster, as JSON
        members: PathBuf,
        /// Place of the sequencer among the members
        #[arg(default_value_t = 0)]
        place: u8,
    },
    /// Measure packets a second on one core, over loopback
    Bench {
        /// For one second instead of five
        #[arg(long)]
        quick: bool,
        #[arg(long, default_value_t = 3)]
        shards: u16,
        /// Replicas of each shard
        #[arg(long, default_value_t = 3)]
        replicas: u16,
        /// Every so many transactions, one is of two shards
        #[arg(long, default_value_t = 10)]
        distributed_every: u64,
        /// Transactions that clients send in one datagram
        #[arg(long, default_value_t = 1)]
        per_datagram: u64,
        /// Size of an operation
        #[arg(long, default_value_t = 64)]
        bytes: usize,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            anstream::eprintln!("weir-sequencer: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), String> {
    match command {
        Command::Run { members, place } => {
            let text = std::fs::read_to_string(&members)
                .map_err(|error| format!("{}: {error}", members.display()))?;
            let members: Members = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            let running =
                sequencer::start(Arc::new(members), place, None).map_err(|error| error.to_string())?;
            Err(running.wait().to_string())
        }
        Command::Bench { quick, shards, replicas, distributed_every, per_datagram, bytes } => {
            let is_small = (1..=16).contains(&per_datagram) && bytes <= 1_024 / per_datagram as usize;
            if shards == 0 || replicas == 0 || !is_small {
                let why = "a shard has a replica, and the operations of a datagram here are 16 at most, of 1024 bytes together";
                return Err(why.to_owned());
            }
            let duration = Duration::from_secs(if quick { 1 } else { 5 });
            let load = Load { shards, replicas, distributed_every, per_datagram, bytes, duration };
            let figures = bench::run(&load).map_err(|error| error.to_string())?;
            anstream::println!("{figures}");
            let is_met = if figures.per_core_second() >= BAR { "met" } else { "missed" };
            anstream::println!("bar: {BAR:.0} packets a second on one core: {is_met}");
            Ok(())
        }
    }
}
