//! `weir serve`: one node of a cluster, until it is told to end.
//!
//! Serves nothing itself: weir-server does.

use std::io::IsTerminal;

use weir_client::ClusterFile;
use weir_server::serve::{Durability, ServeError, Server, Settings};

use crate::cli::{ServeArguments, ServeDurability};
use crate::output::{Failure, print_remark};

pub fn execute(arguments: ServeArguments) -> Result<(), Failure> {
    let ServeArguments { cluster, node, data, durability, insecure } = arguments;
    let cluster = ClusterFile::read(&cluster).map_err(|complaint| Failure::input(complaint.to_string()))?;
    let data = match (data, durability) {
        (Some(data), None | Some(ServeDurability::Sync)) => Some((data, Durability::Sync)),
        (Some(data), Some(ServeDurability::Relaxed)) => Some((data, Durability::Relaxed)),
        (None, None | Some(ServeDurability::Memory)) => None,
        (Some(_), Some(ServeDurability::Memory)) => {
            return Err(usage(
                "--durability memory writes nothing, and --data says where",
                "leave one of them out",
            ));
        }
        (None, Some(_)) => return Err(usage("nothing is durable without a place for it", "add --data DIR")),
    };
    if data.is_none() {
        print_remark("weir: without --data everything is gone when this process ends");
    }
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).with_ansi(colours).init();
    let (server, stop) = Server::start(Settings { cluster, node, data, insecure }).map_err(failure)?;
    ctrlc::set_handler(move || stop.stop())
        .map_err(|error| Failure::Check(Some(format!("weir serve: error: {error}"))))?;
    print_remark(&format!("weir: listening on {}; ^C ends it", server.address()));
    server.wait().map_err(failure)
}

fn usage(message: &str, hint: &str) -> Failure {
    Failure::input(format!("weir serve: error: {message}\nhint: {hint}"))
}

fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::Settings(message, hint) => usage(&message, &hint),
        error => Failure::Check(Some(format!("weir serve: error: {error}"))),
    }
}
