//! `weir serve`: one node of a cluster, until it is told to end.
//!
//! Serves nothing itself: weir-server does.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use weir_bench::run::{Loaded, load};
use weir_client::{Application, Client, ClusterFile};
use weir_server::embedded::now_ms;
use weir_server::serve::{Durability, ServeError, Server, Settings, Stop};
use weir_txn::exec::program::Program;
use weir_txn::node::Node;
use weir_txn::ramp::Record;

use crate::application::Carried;
use crate::cli::{ServeArguments, ServeDurability};
use crate::output::{Failure, print_remark};
use crate::run;

pub fn execute(arguments: ServeArguments) -> Result<(), Failure> {
    let ServeArguments { cluster, node, data, durability, insecure, listen, database, .. } = arguments;
    let ServeArguments { password_file, tls_certificate, tls_key, max_connections, .. } = arguments;
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
    let door = listen.map(|listen| -> Result<_, Failure> {
        let password = password(&cluster, password_file)?;
        let certificate = tls_certificate.zip(tls_key);
        let door = weir_pg::Settings::new(listen);
        let door = weir_pg::Settings { database: database.clone(), password, certificate, insecure, ..door };
        let door = weir_pg::Settings { connections_max: max_connections, ..door };
        weir_pg::Door::new(door).map_err(closed)
    });
    let door = door.transpose()?;
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).with_ansi(colours).init();
    let (application, file) = (cluster.application.clone(), cluster.clone());
    let settings = Settings { data, insecure, ..Settings::new(cluster, node) };
    let (server, stop) = match application {
        None => Server::start(settings).map_err(failure)?,
        Some(named) => start_application(settings, &named)?,
    };
    ctrlc::set_handler(move || stop.stop())
        .map_err(|error| Failure::Check(Some(format!("weir serve: error: {error}"))))?;
    print_remark(&format!("weir: listening on {}; ^C ends it", server.address()));
    // It ends before the node does.
    let _door = door.map(|door| open(door, &file, &database)).transpose()?;
    server.wait().map_err(failure)
}

/// Of clients of PostgreSQL's protocol.
fn password(cluster: &ClusterFile, file: Option<PathBuf>) -> Result<Option<String>, Failure> {
    if cluster.application.is_none() {
        return Err(usage(
            "--listen is for the tables of an application, and the cluster file names none",
            "add [application] with the path of its directory",
        ));
    }
    let Some(file) = file else { return Ok(None) };
    let text = std::fs::read_to_string(&file)
        .map_err(|error| usage(&format!("{}: {error}", file.display()), "name a file with the password"))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Some(line.to_owned())),
        _ => Err(usage(&format!("{}: its first line is empty", file.display()), "write the password there")),
    }
}

fn closed(weir_pg::NotStarted(what, hint): weir_pg::NotStarted) -> Failure {
    usage(&what, &hint)
}

fn open(door: weir_pg::Door, cluster: &ClusterFile, database: &str) -> Result<weir_pg::Server, Failure> {
    let settings = weir_client::Settings { under_way_max: UNDER_WAY_MAX, ..Default::default() };
    let client = Client::connect_with(cluster, settings)
        .map_err(|error| Failure::Check(Some(format!("weir serve: error: {error}"))))?;
    let door = door.open(client).map_err(closed)?;
    print_remark(&format!("weir: PostgreSQL's protocol on {}, database {database}", door.address()));
    Ok(door)
}

/// No more than one for each connection, and there are fewer of these.
const UNDER_WAY_MAX: usize = 100_000;

/// Shards of an SQL application. Those that start for the first time are filled with their share of its rows.
fn start_application(settings: Settings, named: &Application) -> Result<(Server, Stop), Failure> {
    let carried = Carried::of(&named.path, &settings.cluster, named)?;
    let settings = Settings { description: Some(carried.description().to_bytes().into()), ..settings };
    let Carried { loaded, workload, options, terms, .. } = carried;
    let (application, analysis) = (&loaded.application, &loaded.analysis);
    let population = || {
        print_remark("weir: filling the tables");
        load(application, analysis, &workload, &options, true, &mut |_| ()).map(Loaded::into_snapshots)
    };
    let program = Program::compile(application, &analysis.plan, options.shards);
    let program = program.map_err(|error| run::failure(&loaded, error.into()))?;
    let program = Arc::new(program.with_texts(application, &analysis.plan));
    let mut rows = None;
    let mut wrong = None;
    let started = Server::start_with(settings, terms, |shard, mut records, has_log| {
        if records.is_empty() {
            if rows.is_none() {
                let (_, snapshots, _) = population().map_err(|error| {
                    wrong = Some(error);
                    ServeError::Settings(String::new(), String::new())
                })?;
                rows = Some(snapshots);
            }
            let snapshots: &Vec<Record> = rows.as_ref().expect("they have just been made");
            records.push(snapshots[usize::from(shard)].clone());
            if !has_log {
                records.push(Record::Started { incarnation: now_ms() });
            }
        }
        let node = Node::recover(shard, program.clone(), Default::default(), Default::default(), records);
        Ok(if has_log { node } else { node.without_log() })
    });
    started.map_err(|error| match wrong {
        Some(error) => run::failure(&loaded, error),
        None => failure(error),
    })
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
