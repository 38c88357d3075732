//! Histories of real servers with concurrent operations: they are serializable, also if agents and sessions are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use postgres::{Client, NoTls};
use weir_conveyor::epochs::ServerId;
use weir_conveyor::message::{Outcome, Placement};
use weir_conveyor::routing::Routing;
use weir_conveyor::settings::Settings;
use weir_conveyor_net::connection::{install, next_start};
use weir_conveyor_net::node::{Cluster, Databases, Requests};
use weir_conveyor_net::operation::{Answer, Operation};
use weir_conveyor_net::process::{AgentProcess, ProcessSettings};
use weir_conveyor_net::sockets::Identity;
use weir_conveyor_net::wire;
use weir_net::handshake::Terms;
use weir_net::loopback::free_ports;
use weir_server::serve::Durability;

use crate::chance::Chance;
use crate::shop;
use weir_harness::postgres::Server;

const SERVERS: u16 = 3;
const CLIENTS: u64 = 9;

fn settings() -> Settings {
    Settings {
        global_max: 4,
        local_max: 4,
        idle_ms: 5,
        resend_ms: 50,
        alive_ms: 20,
        silence_ms: 300,
        token_ms: 500,
        ..Settings::default()
    }
}

/// How agents reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    Channels,
    Sockets,
}

/// The agents: threads with channels, or what a process has, with sockets between them.
enum Agents {
    Threads(Box<Cluster>),
    Processes(Processes),
}

/// The parts of agents' processes; in one process here, so that a test can end them at any instant.
struct Processes {
    databases: Databases,
    identity: Identity,
    folder: std::path::PathBuf,
    running: Running,
}

type Running = Arc<Mutex<BTreeMap<ServerId, Arc<AgentProcess>>>>;

impl Processes {
    fn new(databases: Databases) -> Processes {
        static FOLDERS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-conveyor-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let address = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let addresses = (0..SERVERS).zip(free_ports(usize::from(SERVERS)).into_iter().map(address)).collect();
        let terms = Terms {
            versions: wire::VERSIONS,
            protocol: wire::PROTOCOL.into(),
            shards: SERVERS,
            placement: 7,
            secret: b"s3cret".to_vec(),
        };
        let identity = Identity { server: 0, terms, addresses };
        Processes { databases, identity, folder, running: Arc::default() }
    }

    fn start(&self, server: ServerId, start: u64) {
        let of = ProcessSettings {
            identity: Identity { server, ..self.identity.clone() },
            start,
            databases: self.databases.clone(),
            settings: settings(),
            directory: self.folder.join(server.to_string()),
            durability: Durability::Sync,
            // A few epochs, so that snapshots take the place of the log all the time.
            snapshot_after: 2 << 10,
            first_map: Routing::first(&(0..SERVERS).collect::<Vec<_>>()),
        };
        let process = Arc::new(AgentProcess::start(of).unwrap());
        self.running.lock().unwrap().insert(server, process);
    }

    fn stop(&self, server: ServerId) {
        let process = self.running.lock().unwrap().remove(&server).unwrap();
        // Clients hold it for as long as they hand it an operation.
        while Arc::strong_count(&process) > 1 {
            std::thread::yield_now();
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.running.lock().unwrap().clear();
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// Sends operations to agents, from any thread.
#[derive(Clone)]
enum Sends {
    Threads(Requests),
    Processes(Running),
}

impl Sends {
    fn request(&self, agent: ServerId, place: Placement, operation: Operation) -> Receiver<Outcome<Answer>> {
        let running = match self {
            Sends::Threads(requests) => return requests.request(agent, place, operation),
            Sends::Processes(running) => running,
        };
        let (sender, outcome) = channel();
        let process = running.lock().unwrap().get(&agent).cloned();
        if let Some(process) = process {
            process.request(place, operation, Box::new(move |outcome| drop(sender.send(outcome))));
        }
        outcome
    }
}

struct World {
    servers: Vec<Server>,
    configs: Vec<String>,
    agents: Agents,
}

impl World {
    fn new(carried: Carried) -> World {
        let servers: Vec<_> = (0..SERVERS).map(|_| Server::start().unwrap()).collect();
        let configs: Vec<_> = servers.iter().map(Server::connection_string).collect();
        let mut tables = None;
        for (server, config) in servers.iter().zip(&configs) {
            let mut client = Client::connect(config, NoTls).unwrap();
            let data: String = client.query_one("SHOW data_directory", &[]).unwrap().get(0);
            assert_eq!(data, server.data().display().to_string(), "a stranger's server");
            client.batch_execute(shop::TABLES).unwrap();
            tables = Some(install(config).unwrap());
        }
        let by_server = (0..SERVERS).zip(configs.iter().cloned()).collect::<BTreeMap<_, _>>();
        let databases = Databases { configs: by_server, tables: Arc::new(tables.unwrap()) };
        let agents = match carried {
            Carried::Channels => Agents::Threads(Box::new(Cluster::new(databases, settings()))),
            Carried::Sockets => Agents::Processes(Processes::new(databases)),
        };
        let mut world = World { servers, configs, agents };
        (0..SERVERS).for_each(|server| world.start(server));
        world
    }

    fn start(&mut self, server: ServerId) {
        let start = next_start(&self.configs[usize::from(server)]).unwrap();
        match &mut self.agents {
            Agents::Threads(cluster) => cluster.start_agent(server, start),
            Agents::Processes(processes) => processes.start(server, start),
        }
    }

    fn stop(&mut self, server: ServerId) {
        match &mut self.agents {
            Agents::Threads(cluster) => cluster.stop_agent(server),
            Agents::Processes(processes) => processes.stop(server),
        }
    }

    fn requests(&self) -> Sends {
        match &self.agents {
            Agents::Threads(cluster) => Sends::Threads(cluster.requests()),
            Agents::Processes(processes) => Sends::Processes(processes.running.clone()),
        }
    }

    /// Ends every session of a server but its own, as a crash does. What has committed stays.
    fn end_sessions(&self, server: ServerId) {
        let Ok(mut client) = Client::connect(&self.configs[usize::from(server)], NoTls) else { return };
        let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
        client.query(all, &[]).unwrap();
    }
}

/// Operations of clients with their outcomes.
#[derive(Default)]
struct Seen {
    answered: BTreeSet<u64>,
    global: BTreeSet<u64>,
    unknown: usize,
    failed: usize,
}

/// Runs clients until each has had so many outcomes; `fault` is called after every 20 of them.
fn run(
    world: &mut World,
    seed: u64,
    operations: u64,
    mut fault: impl FnMut(&mut World, &mut Chance),
) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (progress, outcomes) = channel();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (requests, seen, progress) = (world.requests(), seen.clone(), progress.clone());
            std::thread::spawn(move || {
                let mut chance = Chance::from_seed(seed * 1_000 + client);
                for turn in 0..operations {
                    let op = 1 + client + turn * CLIENTS;
                    let (place, operation) = shop::operation(op, SERVERS, &mut chance);
                    let agent = chance.below(u64::from(SERVERS)) as ServerId;
                    let outcome = requests.request(agent, place, operation).recv();
                    let mut seen = seen.lock().unwrap();
                    if matches!(place, Placement::Global(_)) {
                        seen.global.insert(op);
                    }
                    match outcome {
                        Ok(Outcome::Answered(Ok(_))) => {
                            seen.answered.insert(op);
                        }
                        Ok(Outcome::Answered(Err(error))) => panic!("{error:?}"),
                        Ok(
                            Outcome::Starved | Outcome::TooLong | Outcome::NotBegun(_) | Outcome::WrongMap,
                        ) => {
                            seen.failed += 1;
                        }
                        Ok(Outcome::Unknown) | Err(_) => seen.unknown += 1,
                    }
                    drop(seen);
                    let _ = progress.send(());
                }
            })
        })
        .collect();
    drop(progress);
    let mut chance = Chance::from_seed(seed);
    for count in 1.. {
        if outcomes.recv().is_err() {
            break;
        }
        if count % 20 == 0 {
            fault(world, &mut chance);
        }
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
    Arc::into_inner(seen).unwrap().into_inner().unwrap()
}

/// Global operations of each server, so that connections that were killed are found out, and the token has gone round since.
fn settle(world: &World) {
    let mut op = 1_000_000;
    for server in (0..SERVERS).chain(0..SERVERS) {
        let mut is_answered = false;
        while !is_answered {
            op += 1;
            let place = Placement::Global(server);
            let outcome = world.requests().request(server, place, shop::restock(op)).recv();
            is_answered = matches!(outcome, Ok(Outcome::Answered(Ok(_))));
        }
    }
}

/// The last visit that any server has closed, and the one that may be open after it, are applied everywhere. An operation is
/// answered when it has committed, while its visit is open; a token with nothing to do leaves the visit open for a while.
fn wait_until_applied(configs: &[String]) {
    let read = |config: &String, column: &str| -> i64 {
        let mut client = Client::connect(config, NoTls).unwrap();
        let text = format!("SELECT {column} FROM weir_conveyor.epoch, weir_conveyor.position");
        client.query_one(&text, &[]).unwrap().get(0)
    };
    let closed = configs.iter().map(|config| read(config, "closed")).max().unwrap();
    while configs.iter().any(|config| read(config, "applied") <= closed) {
        std::thread::yield_now();
    }
}

fn check(world: World, seen: &Seen) -> usize {
    settle(&world);
    wait_until_applied(&world.configs);
    let configs = world.configs.clone();
    drop(world.agents);
    shop::check(&configs, &seen.global, &seen.answered)
}

fn run_concurrent_operations(carried: Carried) {
    let mut world = World::new(carried);
    let seen = run(&mut world, 1, 60, |_, _| {});
    println!("{} answered, {} failed, {} unknown", seen.answered.len(), seen.failed, seen.unknown);
    assert_eq!(seen.unknown, 0);
    assert!(check(world, &seen) >= seen.answered.len());
}

#[test]
fn concurrent_operations_are_serializable() {
    run_concurrent_operations(Carried::Channels);
}

#[test]
fn concurrent_operations_over_sockets_are_serializable() {
    run_concurrent_operations(Carried::Sockets);
}

/// Seeds of `WEIR_SEEDS`, for example `0..20`; without it, one.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("WEIR_SEEDS") else { return 2..3 };
    let bounds = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    bounds.map(|(from, to)| from..to).expect("WEIR_SEEDS is not FROM..TO")
}

fn run_with_failures(carried: Carried) {
    for seed in seeds() {
        let mut world = World::new(carried);
        let seen = run(&mut world, seed, 80, fail);
        println!("{} answered, {} failed, {} unknown", seen.answered.len(), seen.failed, seen.unknown);
        assert!(seen.unknown > 0 && seen.answered.len() > 100);
        check(world, &seen);
    }
}

#[test]
fn killed_agents_and_servers_lose_nothing() {
    run_with_failures(Carried::Channels);
}

#[test]
fn killed_agents_over_sockets_lose_nothing() {
    run_with_failures(Carried::Sockets);
}

/// Something of one server fails, or the coordinator does.
fn fail(world: &mut World, chance: &mut Chance) {
    let server = chance.below(u64::from(SERVERS)) as ServerId;
    match (chance.below(5), &mut world.agents) {
        (0, _) => world.end_sessions(server),
        (1, _) => world.servers[usize::from(server)].crash().unwrap(),
        (2, Agents::Threads(cluster)) => {
            cluster.stop_coordinator();
            cluster.start_coordinator();
        }
        // Over sockets each agent here has a node of the coordinator, which ends with it.
        _ => {
            world.stop(server);
            world.start(server);
        }
    }
}
