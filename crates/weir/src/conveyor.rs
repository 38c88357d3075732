//! `weir conveyor`: one agent beside a PostgreSQL server, until it is stopped.
//!
//! Carries nothing itself: weir-conveyor-front and weir-conveyor-net do. SIGTERM and SIGINT end it, SIGHUP reads the bounds anew.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use weir_conveyor_front::Mode;
use weir_conveyor_front::run::{Running, application_of, complaints};
use weir_conveyor_net::config::Config;
use weir_observe::{Http, Source};

use crate::cli::{ConveyorArguments, LogFormat};
use crate::logging;
use crate::output::{Failure, print, print_remark};

/// How often the process looks whether it can go on.
const LOOKS: Duration = Duration::from_millis(200);

pub fn execute(arguments: ConveyorArguments) -> Result<(), Failure> {
    let config = Config::read(&arguments.config).map_err(|why| wrong(&why))?;
    if arguments.check_config {
        return check(&arguments, &config);
    }
    let Some(name) = &arguments.server else { return Err(wrong("--server is missing")) };
    let http = arguments.http.map(|listen| weir_observe::Settings { listen, insecure: arguments.insecure });
    http.as_ref().map_or(Ok(()), weir_observe::Settings::check).map_err(unheard)?;
    logging::begin(arguments.log_format, arguments.log_level)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
    let mode = if arguments.observe { Mode::Observes } else { Mode::Placed };
    // Signals are heard from here on: one that comes before the agent has started ends it once it has.
    let mut signals = runtime.block_on(async { Signals::hear() }).map_err(system)?;
    let mut running = Running::start(config, &arguments.config, name, mode).map_err(|why| wrong(&why))?;
    let sources = vec![Box::new(running.front.watch()) as Box<dyn Source>];
    let http = http.map(|settings| Http::open(&settings, sources)).transpose().map_err(unheard)?;
    let format = arguments.log_format;
    if let Some(http) = &http {
        logging::remark(
            format,
            &format!("HTTP on {}: /metrics and /health, and a page at /", http.address()),
        );
    }
    let address = running.front.address();
    logging::remark(
        format,
        &format!("conveyor: the agent of server {name} takes clients on {address}; ^C ends it"),
    );
    let ended = runtime.block_on(carry(&mut signals, &mut running, &arguments, format));
    if arguments.observe {
        print(&running.front.report());
    }
    drop(running);
    ended
}

/// Waits for signals. Returns when the process is to end.
async fn carry(
    signals: &mut Signals,
    running: &mut Running,
    arguments: &ConveyorArguments,
    format: LogFormat,
) -> Result<(), Failure> {
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => return Ok(()),
            _ = signals.interrupt.recv() => return Ok(()),
            _ = signals.hang_up.recv() => reload(running, arguments, format),
            () = tokio::time::sleep(LOOKS) => {
                if let Some(why) = running.failure() {
                    return Err(Failure::Check(Some(format!("weir conveyor: error: {why}"))));
                }
            }
        }
    }
}

fn reload(running: &mut Running, arguments: &ConveyorArguments, format: LogFormat) {
    match Config::read(&arguments.config) {
        Ok(config) => {
            let kept = running.reload(config);
            logging::remark(format, "conveyor: the bounds were read anew");
            for name in kept {
                logging::remark(format, &format!("conveyor: {name} differs, and needs a restart"));
            }
        }
        Err(why) => logging::remark(format, &format!("conveyor: the configuration stays as it was: {why}")),
    }
}

/// Looks at everything that an agent needs. Complaints end with exit code 2.
fn check(arguments: &ConveyorArguments, config: &Config) -> Result<(), Failure> {
    let application = application_of(config, &arguments.config).map_err(|why| wrong(&why))?;
    if let Some(name) = &arguments.server {
        config.number(name).map_err(|why| wrong(&why))?;
    }
    config.terms().map_err(|why| wrong(&why))?;
    let found = complaints(config, &*application);
    if found.is_empty() {
        print_remark(&format!("weir: {} servers can carry the application", config.server.len()));
        return Ok(());
    }
    let found: Vec<_> = found.iter().map(|complaint| format!("weir conveyor: error: {complaint}")).collect();
    Err(Failure::input(found.join("\n")))
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn hear() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }
}

fn wrong(why: &str) -> Failure {
    Failure::input(format!("weir conveyor: error: {why}"))
}

fn system(error: std::io::Error) -> Failure {
    Failure::Check(Some(format!("weir conveyor: error: {error}")))
}

fn unheard(not_started: weir_observe::NotStarted) -> Failure {
    Failure::input(format!("weir conveyor: error: {}\nhint: {}", not_started.0, not_started.1))
}
