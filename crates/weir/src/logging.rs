//! The log of a server, on standard error: as people read it, or as JSON documents.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;

use crate::cli::LogFormat;
use crate::output::{Failure, print_remark};

/// Says how much is logged if the command line does not.
const VARIABLE: &str = "WEIR_LOG";

/// # Errors
/// The environment names no level.
pub fn begin(format: LogFormat, level: Option<LevelFilter>) -> Result<(), Failure> {
    let level = match (level, std::env::var(VARIABLE)) {
        (Some(level), _) => level,
        (None, Ok(named)) => named.parse().map_err(|_| {
            Failure::input(format!(
                "weir serve: error: {VARIABLE}={named} is no level\nhint: it may be error, warn, info, debug, trace or off"
            ))
        })?,
        (None, Err(_)) => LevelFilter::INFO,
    };
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).with_max_level(level);
    match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Prints a message independent of the log level: users and scripts wait for it.
pub fn remark(format: LogFormat, message: &str) {
    match format {
        LogFormat::Text => print_remark(&format!("weir: {message}")),
        LogFormat::Json => tracing::info!("{message}"),
    }
}
