//! `weir conveyor`: its configuration is checked, an agent starts, reloads and ends. Deployments of several agents are tests of
//! weir-conveyor-front.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::eventually::eventually;
use postgres::{Client, NoTls};
use tempfile::TempDir;
use weir_bench::postgres::Server;
use weir_client::loopback::free_ports;

struct World {
    server: Server,
    folder: TempDir,
}

impl World {
    fn new() -> World {
        let world = World { server: Server::start().unwrap(), folder: tempfile::tempdir().unwrap() };
        let transactions = "[[transaction]]\nname = \"add\"\nclass = \"global\"\n";
        std::fs::write(world.folder.path().join("transactions.toml"), transactions).unwrap();
        world.write("");
        world
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("conveyor.toml")
    }

    /// Writes the configuration, with these settings.
    fn write(&self, settings: &str) {
        let ports = match std::fs::read_to_string(self.file()) {
            Ok(text) => text.lines().next().unwrap().trim_start_matches("# ").to_owned(),
            Err(_) => free_ports(2).iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        };
        let (agent, listen) = ports.split_once(' ').unwrap();
        let text = format!(
            "# {ports}\napplication = \".\"\ndirectory = {:?}\n[[server]]\nname = \"a\"\nagent = \"127.0.0.1:{agent}\"\n\
             listen = \"127.0.0.1:{listen}\"\ndatabase = \"{}\"\n[settings]\n{settings}",
            self.folder.path().join("log"),
            self.server.connection_string()
        );
        std::fs::write(self.file(), text).unwrap();
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("conveyor").arg("--config").arg(self.file()).args(arguments);
        command
    }

    fn direct(&self) -> Client {
        Client::connect(&self.server.connection_string(), NoTls).unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_configuration_is_checked_with_place_and_remedy() {
    let world = World::new();
    world.direct().batch_execute("CREATE TABLE t (a int)").unwrap();
    let refused = world.weir(&["--check-config"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let text = said(&refused);
    assert!(
        text.contains("server `a`: table t has no primary key") && text.contains("ADD PRIMARY KEY"),
        "{text}"
    );
    world.direct().batch_execute("ALTER TABLE t ADD PRIMARY KEY (a)").unwrap();
    let checked = world.weir(&["--check-config", "--server", "a"]).output().unwrap();
    assert!(checked.status.success(), "{}", said(&checked));
    let count = "SELECT count(*) FROM pg_namespace WHERE nspname = 'weir_conveyor'";
    assert_eq!(world.direct().query_one(count, &[]).unwrap().get::<_, i64>(0), 0, "a check changes nothing");
    let other = world.weir(&["--server", "b"]).output().unwrap();
    assert_eq!(other.status.code(), Some(2));
    assert!(said(&other).contains("there is no server `b`: it may be a"), "{}", said(&other));
    world.write("batch = 7\n");
    let unknown = world.weir(&["--check-config"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(said(&unknown).contains("unknown field `batch`"), "{}", said(&unknown));
}

/// An agent with its log.
struct Agent {
    process: Child,
    log: PathBuf,
}

impl Agent {
    fn start(world: &World, arguments: &[&str]) -> Agent {
        let log = world.folder.path().join("said");
        let process = world
            .weir(arguments)
            .stderr(std::fs::File::create(&log).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Agent { process, log }
    }

    /// The word that it says behind these words.
    fn says(&self, words: &str) -> String {
        eventually(format!("it says {words}"), || behind(&self.log, words))
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn behind(log: &Path, words: &str) -> Option<String> {
    let text = std::fs::read_to_string(log).ok()?;
    let rest = text.split(words).nth(1)?;
    Some(rest.split([';', ' ', '\n']).find(|word| !word.is_empty())?.trim_end_matches(':').to_owned())
}

fn ask(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_agent_starts_reloads_and_ends() {
    let world = World::new();
    let table = "CREATE TABLE t (a int PRIMARY KEY); \
                 CREATE FUNCTION add(b int) RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (b) RETURNING a'";
    world.direct().batch_execute(table).unwrap();
    let mut agent = Agent::start(&world, &["--server", "a", "--http", "127.0.0.1:0"]);
    let http = agent.says("HTTP on ");
    let address = agent.says("takes clients on ");
    let (_, port) = address.rsplit_once(':').unwrap();
    let target = format!("host=127.0.0.1 port={port} user=me dbname=postgres");
    let mut client = Client::connect(&target, NoTls).unwrap();
    let added: i32 = client.query_one("SELECT add($1)", &[&7]).unwrap().get(0);
    assert_eq!(added, 7);
    let metrics = ask(&http, "/metrics");
    assert!(metrics.contains("weir_conveyor_transactions_total{class=\"global\"} 1"), "{metrics}");
    assert!(ask(&http, "/health").contains("200 OK"));
    assert!(ask(&http, "/").contains("<title>Weir: contention"));
    world.write("batch_max = 7\nlocal_max = 3\n");
    agent.signal("HUP");
    agent.says("the bounds were read anew");
    assert_eq!(agent.says("conveyor: settings.local_max"), "differs,");
    world.write("batch_max = 0\n");
    agent.signal("HUP");
    agent.says("the configuration stays as it was: ");
    let added: i32 = client.query_one("SELECT add($1)", &[&8]).unwrap().get(0);
    assert_eq!(added, 8);
    agent.signal("TERM");
    assert!(agent.process.wait().unwrap().success());
    assert!(client.batch_execute("SELECT 1").is_err());
}

/// Orders get their ids from a sequence: those of a server have to route back to it.
const SCHEMA: &str = "
CREATE SEQUENCE order_ids;
CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL);
CREATE TABLE price (item int PRIMARY KEY, cents int NOT NULL);
";
const PROCEDURES: &str = "
CREATE FUNCTION place(customer int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE id bigint := nextval('order_ids');
BEGIN INSERT INTO orders VALUES (id, customer); RETURN id; END $$;
CREATE FUNCTION customer_of(order_id bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE found int;
BEGIN SELECT customer INTO found FROM orders WHERE id = order_id; RETURN found; END $$;
CREATE PROCEDURE raise_all(percent int) LANGUAGE plpgsql AS $$
BEGIN UPDATE price SET cents = cents * (100 + percent) / 100; END $$;
";

#[test]
fn an_application_is_carried_as_it_is_analysed() {
    let world = World::new();
    std::fs::remove_file(world.folder.path().join("transactions.toml")).unwrap();
    std::fs::write(world.folder.path().join("schema.sql"), SCHEMA).unwrap();
    std::fs::write(world.folder.path().join("procedures.sql"), PROCEDURES).unwrap();
    let second = Server::start().unwrap();
    let ports = free_ports(2);
    let mut text = std::fs::read_to_string(world.file()).unwrap();
    let other = format!(
        "[[server]]\nname = \"b\"\nagent = \"127.0.0.1:{}\"\nlisten = \"127.0.0.1:{}\"\ndatabase = \"{}\"\n[settings]\n",
        ports[0],
        ports[1],
        second.connection_string()
    );
    text = text.replace("[settings]\n", &other);
    std::fs::write(world.file(), text).unwrap();
    let mut servers = [world.direct(), Client::connect(&second.connection_string(), NoTls).unwrap()];
    for server in &mut servers {
        server.batch_execute(&format!("{SCHEMA}{PROCEDURES}INSERT INTO price VALUES (1, 200)")).unwrap();
    }
    let refused = world.weir(&["--check-config"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let text = said(&refused);
    for (name, server) in ["a", "b"].iter().zip(&mut servers) {
        let words = format!("server `{name}`: ids of its sequences do not route back to it");
        assert!(text.contains(&words), "{text}");
        let remedy = text.split(&words).nth(1).unwrap().split("run there: ").nth(1).unwrap();
        server.batch_execute(remedy.lines().next().unwrap()).unwrap();
    }
    let checked = world.weir(&["--check-config"]).output().unwrap();
    assert!(checked.status.success(), "{}", said(&checked));
    let log = world.folder.path().join("said-b");
    let second_agent = world.weir(&["--server", "b"]).stderr(std::fs::File::create(&log).unwrap()).spawn();
    let second_agent = Agent { process: second_agent.unwrap(), log };
    let agent = Agent::start(&world, &["--server", "a", "--http", "127.0.0.1:0"]);
    let http = agent.says("HTTP on ");
    let mut clients = [&agent, &second_agent].map(|agent| {
        let address = agent.says("takes clients on ");
        let (_, port) = address.rsplit_once(':').unwrap();
        let target = format!("host=127.0.0.1 port={port} user=me dbname=postgres");
        Client::connect(&target, NoTls).unwrap()
    });
    let ids: Vec<i64> = (0..10)
        .map(|number| clients[number % 2].query_one("SELECT place($1)", &[&(number as i32)]).unwrap().get(0))
        .collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 10, "{ids:?}");
    for (number, id) in ids.iter().enumerate() {
        for client in &mut clients {
            let found: Option<i32> = client.query_one("SELECT customer_of($1)", &[id]).unwrap().get(0);
            assert_eq!(found, Some(number as i32), "{ids:?}");
        }
    }
    // One client at a time: nobody is beside it.
    let metrics = ask(&http, "/metrics");
    for line in [
        "weir_recorded_transactions_total{mechanism=\"local\",name=\"customer_of\"} 10\n",
        "weir_contention_level{mechanism=\"local\",name=\"customer_of\"} 0\n",
        "weir_recorded_abort_rate{mechanism=\"local\",name=\"customer_of\"} 0\n",
        "weir_table_contention_level{table=\"orders\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    clients[1].execute("CALL raise_all(50)", &[]).unwrap();
    for server in &mut servers {
        eventually("the update is at each server".to_owned(), || {
            let cents: i32 = server.query_one("SELECT cents FROM price", &[]).unwrap().get(0);
            (cents == 300).then_some(())
        });
    }
}
