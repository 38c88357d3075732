//! `weir serve`: runs one node of a cluster until it is stopped.
//!
//! Serves nothing itself: weir-server does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_bench::run::{Loaded, load};
use weir_client::{Application, Client, ClusterFile, Description};
use weir_core::ids::ShardId;
use weir_observe::{Http, Source};
use weir_server::embedded::now_ms;
use weir_server::serve::{Durability, ServeError, Server, Settings, Stop};
use weir_txn::exec::program::Program;
use weir_txn::faults::NoFaults;
use weir_txn::shard::{Node, Record};

use crate::application::{self, Bare, Carried, ROWS};
use crate::cli::{Migrate, ServeArguments, ServeDurability};
use crate::migrate::{self, Kept};
use crate::output::{Failure, print_remark};
use crate::{input, logging, run};

pub fn execute(arguments: ServeArguments) -> Result<(), Failure> {
    let ServeArguments { application, shards, cluster, node, data, durability, insecure, demo_data, .. } =
        arguments;
    let ServeArguments { listen, database, password_file, tls_certificate, tls_key, max_connections, .. } =
        arguments;
    let ServeArguments { migrate: how, drop_data, .. } = arguments;
    let ServeArguments { snapshot_after, memory, statement_memory, clock_reached, accept_older_data, .. } =
        arguments;
    let half = memory.map(|bytes| (bytes / 2).max(STATEMENT_MEMORY_MIN));
    let statement_memory = statement_memory.or(half).unwrap_or(STATEMENT_MEMORY);
    // The statements do not get all memory of the machine.
    let of_all =
        memory.or_else(|| machine_memory().map(|bytes| bytes / 2)).map(|bytes| bytes.max(statement_memory));
    weir_types::interrupt::set_memory_of_all(of_all.unwrap_or(u64::MAX));
    let ServeArguments { http, log_format, log_level, log_slow, .. } = arguments;
    let is_alone = cluster.is_none();
    let (cluster, node, listen) = match cluster.zip(node) {
        Some((file, node)) => {
            let read = ClusterFile::read(&file);
            (read.map_err(|complaint| Failure::input(complaint.to_string()))?, node, listen)
        }
        None => (alone(application, shards, demo_data)?, ALONE.to_owned(), listen.or(Some(DOOR))),
    };
    if listen.is_none() && (password_file.is_some() || tls_certificate.is_some()) {
        return Err(usage(
            "--password-file and --tls-certificate are of PostgreSQL's protocol",
            "add --listen ADDRESS",
        ));
    }
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
    let door = listen.map(|listen| -> Result<_, Failure> {
        let password = password(&cluster, password_file)?;
        let certificate = tls_certificate.zip(tls_key);
        let door = weir_pg::Settings::new(listen);
        let door = weir_pg::Settings { database: database.clone(), password, certificate, insecure, ..door };
        let log_slow = log_slow.map(Duration::from_millis);
        let door = weir_pg::Settings { connections_max: max_connections, log_slow, ..door };
        weir_pg::Door::new(door).map_err(closed)
    });
    let door = door.transpose()?;
    let http = http.map(|listen| weir_observe::Settings { listen, insecure });
    http.as_ref().map_or(Ok(()), weir_observe::Settings::check).map_err(unheard)?;
    logging::begin(log_format, log_level)?;
    let remark = |message: &str| logging::remark(log_format, message);
    if data.is_none() {
        remark("without --data everything is gone when this process ends");
    }
    let (application, file) = (cluster.application.clone(), cluster.clone());
    // The application that the data was begun with, and the files that it may now be brought to; nodes of a cluster are begun alike.
    let directory = data.as_ref().filter(|_| is_alone).map(|(data, _)| data.clone());
    let files =
        match application.as_ref().and_then(|named| named.path.as_deref()).filter(|_| directory.is_some()) {
            Some(path) => Some(texts(path)?),
            None => None,
        };
    let kept = directory.as_deref().map(Kept::read).transpose()?.flatten();
    let memory = memory.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let settings =
        Settings { data, snapshot_after, memory, statement_memory, insecure, ..Settings::new(cluster, node) };
    let settings =
        Settings { clock_reached_ms: clock_reached, accepts_older_data: accept_older_data, ..settings };
    let (server, stop) = match application {
        None => Server::start(settings).map_err(failure)?,
        Some(named) => {
            let (started, begun) = match &kept {
                Some(kept) => start_bare(settings, kept.begun())?,
                None => start_application(settings, &named)?,
            };
            if let Some(data) = &directory {
                let kept = match kept {
                    Some(kept) => kept,
                    None => {
                        let kept = Kept::of(begun, files.clone().unwrap_or_default());
                        kept.write(data)?;
                        kept
                    }
                };
                if !bring(&started.0, &file, kept, files, (data, how, drop_data))? {
                    started.1.stop();
                    return started.0.wait().map_err(failure);
                }
            }
            started
        }
    };
    // Sessions of PostgreSQL's protocol are terminated before the node ends.
    let inside: Arc<Mutex<Option<weir_pg::Server>>> = Arc::default();
    let (to_end, is_over) = (inside.clone(), Arc::new(AtomicBool::new(false)));
    let ends = is_over.clone();
    let end = move || {
        ends.store(true, Ordering::Release);
        drop(to_end.lock().unwrap_or_else(PoisonError::into_inner).take());
        stop.stop();
    };
    ctrlc::set_handler(end).map_err(|error| Failure::Check(Some(format!("weir serve: error: {error}"))))?;
    remark(&format!("listening on {}; ^C ends it", server.address()));
    let door = match door {
        Some(door) => open((door, statement_memory), (&file, &server), &is_over)?,
        None => None,
    };
    if let Some(door) = &door {
        remark(&format!("PostgreSQL's protocol on {}, database {database}", door.address()));
    }
    // Nothing is recorded for nobody.
    let watched = door.as_ref().filter(|_| http.is_some());
    let watch = watched.map(|door| -> Box<dyn Source> { Box::new(door.watch()) });
    let sources = [Box::new(server.watch()) as Box<dyn Source>].into_iter().chain(watch).collect();
    let http = http.map(|settings| Http::open(&settings, sources)).transpose().map_err(unheard)?;
    if let Some(http) = &http {
        let page = if door.is_some() { ", and a page at /" } else { "" };
        remark(&format!("HTTP on {}: /metrics and /health{page}", http.address()));
    }
    *inside.lock().unwrap_or_else(PoisonError::into_inner) = door;
    server.wait().map_err(failure)
}

/// The SQL of a directory, which is an application that can be read.
fn texts(path: &Path) -> Result<Vec<String>, Failure> {
    let sources = input::read_sources(&[path.to_owned()])?;
    let texts = sources.files.iter().map(|file| file.text.clone()).collect();
    application::read(sources, weir_sql::Reading::Strict)?;
    Ok(texts)
}

/// Brings a database to the files of its directory: tells what differs, then makes it. False: it was told and nothing else.
fn bring(
    server: &Server,
    cluster: &ClusterFile,
    mut kept: Kept,
    files: Option<Vec<String>>,
    (data, how, drop_data): (&Path, Migrate, bool),
) -> Result<bool, Failure> {
    let Some(files) = files.filter(|files| *files != kept.files) else { return Ok(how == Migrate::Apply) };
    let refused = |why: &str, hint: &str| {
        Failure::input(format!(
            "weir serve: error: the files are not migrated: {why}; nothing has changed\nhint: {hint}"
        ))
    };
    let by_hand =
        "start it with the files as they were, make the change as SQL, and give it the new files then";
    let found = migrate::differences(&kept.files, &files).map_err(|why| refused(&why, by_hand))?;
    for one in &found {
        print_remark(&format!("weir: migration {one}"));
    }
    if how == Migrate::Show {
        return Ok(false);
    }
    if let Some(lost) = found.iter().find(|one| one.loses && !drop_data) {
        let why = format!("it {} {}, and what is in it would be lost", lost.verb, lost.name);
        return Err(refused(&why, "--drop-data allows that"));
    }
    let client = client(cluster, server, u64::MAX)?;
    migrate::apply(&client, &found)
        .map_err(|(statement, why)| refused(&format!("{why}, in: {statement}"), by_hand))?;
    kept.files = files;
    kept.write(data)?;
    print_remark(&format!("weir: migrated, {} differences", found.len()));
    Ok(true)
}

/// A node without a cluster file.
const ALONE: &str = "weir";

/// Number of invented rows in each table for demonstrations.
const DEMO_ROWS: u16 = 100;

/// Default address of PostgreSQL's protocol; the port differs from that of a local PostgreSQL.
const DOOR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5433);

/// One node, which its own front end reaches by a port that is free at this moment.
fn alone(path: Option<PathBuf>, shards: u16, demo_data: bool) -> Result<ClusterFile, Failure> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let address = free.map_err(|error| Failure::Check(Some(format!("weir serve: error: {error}"))))?;
    let has_workload = path.as_ref().is_some_and(|path| application::workload_file(path).exists());
    if demo_data && has_workload {
        return Err(usage(
            "--demo-data invents rows, and workload.toml says which rows there are",
            "leave one of them out",
        ));
    }
    let set = demo_data.then(|| (ROWS.to_owned(), i64::from(DEMO_ROWS).into())).into_iter().collect();
    let application = Application { path, seed: 1, set };
    Ok(ClusterFile::alone(ALONE, address, shards, application))
}

/// Password for clients of PostgreSQL's protocol.
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

fn unheard(weir_observe::NotStarted(what, hint): weir_observe::NotStarted) -> Failure {
    usage(&format!("--http: {what}"), &hint)
}

/// Memory of the machine; none: unknown.
fn machine_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Memory that the compilation of a statement may need in addition to its rows.
const STATEMENT_MEMORY_MIN: u64 = 16 << 20;

/// Default memory limit of a statement.
const STATEMENT_MEMORY: u64 = 1 << 30;

/// None: the node was told to end before its replica groups had leaders.
fn open(
    (door, statement_memory): (weir_pg::Door, u64),
    (cluster, server): (&ClusterFile, &Server),
    is_over: &AtomicBool,
) -> Result<Option<weir_pg::Server>, Failure> {
    let has_groups = (0..cluster.shards).any(|shard| cluster.is_group(shard));
    let client = loop {
        match connect(cluster, server, statement_memory) {
            // A majority of a group may not be there yet, which is no reason to end.
            Err(weir_client::Error::Deadline(why)) if has_groups => {
                print_remark(&format!("weir: the database cannot be reached yet: {why}"));
            }
            client => break client.map_err(unconnected)?,
        }
        if is_over.load(Ordering::Acquire) {
            return Ok(None);
        }
    };
    door.open(client).map(Some).map_err(closed)
}

fn unconnected(error: weir_client::Error) -> Failure {
    Failure::Check(Some(format!("weir serve: error: {error}")))
}

fn client(cluster: &ClusterFile, server: &Server, statement_memory: u64) -> Result<Client, Failure> {
    connect(cluster, server, statement_memory).map_err(unconnected)
}

fn connect(
    cluster: &ClusterFile,
    server: &Server,
    statement_memory: u64,
) -> Result<Client, weir_client::Error> {
    // A report may take minutes; who does not want to wait says so with statement_timeout.
    let settings = weir_client::Settings {
        under_way_max: UNDER_WAY_MAX,
        waits_for_busy: true,
        statement_memory_bytes_max: statement_memory,
        ..Default::default()
    };
    Client::connect_beside(cluster, settings, server.nearby::<Node>())
}

/// No more than one for each connection, and there are fewer of these.
const UNDER_WAY_MAX: usize = 100_000;

/// A node, and what it was begun with.
type Started = ((Server, Stop), Bare);

/// Shards of an SQL application. Those that start for the first time are filled with their share of its rows.
fn start_application(settings: Settings, named: &Application) -> Result<Started, Failure> {
    if let Some(bare) = Bare::of(named.path.as_deref())? {
        return start_bare(settings, bare);
    }
    let path = named.path.as_deref().expect("what has procedures has a path");
    let carried = Carried::of(path, &settings.cluster, named)?;
    let settings = Settings { description: Some(carried.description().to_bytes().into()), ..settings };
    let described = carried.described();
    let begun = carried.begun();
    let Carried { loaded, workload, options, terms, .. } = carried;
    let (application, analysis) = (&loaded.application, &loaded.analysis);
    let population = || {
        match named.set.get(ROWS).filter(|_| !application::workload_file(path).exists()) {
            Some(rows) => {
                print_remark(&format!("weir: filling each table with {rows} invented rows (--demo-data)"))
            }
            None if workload.rows(options.seed).is_ok_and(|rows| rows == 0) => {
                print_remark(
                    "weir: the tables begin empty: there is no workload.toml; --demo-data invents rows",
                );
            }
            None => print_remark("weir: filling the tables"),
        }
        load(application, analysis, &workload, &options, true, &mut |_| ()).map(Loaded::into_snapshots)
    };
    let program = described.compile(options.shards).map_err(|error| {
        // Compiled from what was read, for that has places to tell.
        match Program::compile(application, &analysis.plan, options.shards) {
            Err(placed) => run::failure(&loaded, placed.into()),
            Ok(_) => usage(&error.to_string(), "this is a defect of Weir"),
        }
    })?;
    for (_, error) in program.refused() {
        print_remark(&format!("weir: {error}"));
    }
    let program = Arc::new(program);
    let mut rows = None;
    let mut wrong = None;
    let begin = |shard: ShardId, has_log| {
        if rows.is_none() {
            let (_, snapshots, _) = population().map_err(|error| {
                wrong = Some(error);
                ServeError::Settings(String::new(), String::new())
            })?;
            rows = Some(snapshots);
        }
        let snapshots: &Vec<Record> = rows.as_ref().expect("they have just been made");
        let begins = [snapshots[usize::from(shard)].clone()];
        Ok(begins.into_iter().chain(started(has_log)).collect())
    };
    let recover = move |shard, records: &mut dyn Iterator<Item = Record>, has_log| {
        recovered(shard, &program, records, has_log)
    };
    let started = Server::start_with(settings, terms, begin, recover);
    let started = started.map_err(|error| match wrong {
        Some(error) => run::failure(&loaded, error),
        None => failure(error),
    })?;
    Ok((started, begun))
}

/// Shards of tables without rows, or of no tables yet.
fn start_bare(settings: Settings, bare: Bare) -> Result<Started, Failure> {
    let Bare { described, placement } = bare.clone();
    let terms = settings.cluster.terms_of(weir_client::SQL, placement);
    let program = described.compile(settings.cluster.shards);
    let program = Arc::new(program.map_err(|error| usage(&error.to_string(), "change the schema"))?);
    let description = Description::new(described, placement).to_bytes();
    let settings = Settings { description: Some(description.into()), ..settings };
    let begin = |_, has_log| Ok(started(has_log).collect());
    let recover = move |shard, records: &mut dyn Iterator<Item = Record>, has_log| {
        recovered(shard, &program, records, has_log)
    };
    let started = Server::start_with(settings, terms, begin, recover);
    Ok((started.map_err(failure)?, bare))
}

/// First record of a shard without a log: its incarnation is the current time, which is unique.
fn started(has_log: bool) -> impl Iterator<Item = Record> {
    (!has_log).then(|| Record::Started { incarnation: now_ms() }).into_iter()
}

fn recovered(
    shard: ShardId,
    program: &Arc<Program>,
    records: &mut dyn Iterator<Item = Record>,
    has_log: bool,
) -> Result<Node, ServeError> {
    let node = Node::try_recover(shard, program.clone(), NoFaults, Default::default(), records);
    let node = node.map_err(|error| {
        ServeError::Settings(
            format!("a definition in the log of shard {shard} cannot be made again: {error}"),
            "start the node with the version of weir that wrote it".into(),
        )
    })?;
    Ok(if has_log { node } else { node.without_log() })
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
