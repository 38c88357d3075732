//! Three PostgreSQL servers with an agent process beside each. An agent is this test program, started again as `an_agent`.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use postgres::{Client, NoTls};
use weir_conveyor_front::Mode;
use weir_conveyor_front::run::Running;
use weir_conveyor_net::config::Config;

use weir_harness::postgres::Server;

const AGENT: &str = "WEIR_CONVEYOR_TEST_AGENT";

pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Stock is written by global operations, carts by local ones; every server has its own carts.
pub const SCHEMA: &str = "
CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO stock SELECT id, 100 FROM generate_series(1, 5) id;
CREATE TABLE cart (key int, item int, n int NOT NULL, PRIMARY KEY (key, item));
CREATE TABLE log (id bigint PRIMARY KEY, what text NOT NULL);
CREATE FUNCTION add_item(k int, i int, m int) RETURNS int LANGUAGE sql AS
    'INSERT INTO cart VALUES (k, i, m) ON CONFLICT (key, item) DO UPDATE SET n = cart.n + m RETURNING n';
CREATE FUNCTION take(i int, m int) RETURNS int LANGUAGE sql AS
    'UPDATE stock SET n = n - m WHERE id = i RETURNING n';
CREATE PROCEDURE restock(i int, m int) LANGUAGE sql AS 'UPDATE stock SET n = n + m WHERE id = i';
";

pub const TRANSACTIONS: &str = r#"
[[transaction]]
name = "add_item"
class = "local"
home = 1

[[transaction]]
name = "take"
class = "global"

[[transaction]]
name = "restock"
class = "global"

[[transaction]]
name = "see_cart"
class = "local"
home = 1
statements = ["SELECT item, n FROM cart WHERE key = $1 ORDER BY item", "INSERT INTO cart VALUES ($1, $2, $3)"]

[[transaction]]
name = "see_stock"
class = "global"
statements = ["SELECT n FROM stock WHERE id = $1"]

[[transaction]]
name = "buy"
class = "global"
home = 1
statements = [
    "SELECT item, n FROM cart WHERE key = $1 ORDER BY item",
    "UPDATE stock SET n = n - $3 WHERE id = $2",
    "SELECT n FROM stock WHERE id = $2",
    "INSERT INTO log VALUES ($4, $5)",
]
"#;

/// Runs as a program of its own: an agent, until it is killed.
#[test]
#[ignore = "it is an agent, which other tests start"]
fn an_agent() {
    let Ok(named) = std::env::var(AGENT) else { return };
    let (file, rest) = named.split_once(' ').unwrap();
    let (name, mode) = rest.split_once(' ').unwrap();
    let mode = if mode == "observes" { Mode::Observes } else { Mode::Placed };
    let config = Config::read(Path::new(file)).unwrap();
    let running = Running::start(config, Path::new(file), name, mode).unwrap_or_else(|why| panic!("{why}"));
    println!("\nready {}", running.front.address());
    std::io::stdout().flush().unwrap();
    // It ends with its parent.
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) {}
    drop(running);
}

/// An agent process.
pub struct Agent {
    process: Child,
    /// The test harness in the process writes to it to the end.
    _output: BufReader<std::process::ChildStdout>,
    pub address: SocketAddr,
}

impl Agent {
    fn start(file: &Path, name: &str, mode: &str) -> Agent {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["deployment::an_agent", "--exact", "--ignored", "--nocapture"])
            .env(AGENT, format!("{} {name} {mode}", file.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        let ready = loop {
            line.clear();
            let read = output.read_line(&mut line).unwrap();
            assert!(read > 0, "the agent starts");
            if let Some(ready) = line.strip_prefix("ready ") {
                break ready.trim().to_owned();
            }
        };
        let address = ready.parse().unwrap();
        Agent { process, _output: output, address }
    }

    /// As `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Sends a signal, by its name.
    pub fn signal(&self, name: &str) {
        let kill = Command::new("kill").arg(format!("-{name}")).arg(self.process.id().to_string()).status();
        assert!(kill.unwrap().success());
    }

    /// Ends as by SIGTERM: its input ends.
    pub fn stop(&mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub struct Deployment {
    pub servers: Vec<Server>,
    pub agents: Vec<Agent>,
    folder: PathBuf,
}

fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> = (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// Parts what each server is told from the schema of the application.
pub const AT_EACH_SERVER: &str = "-- at each server";

impl Deployment {
    pub fn start(count: usize) -> Deployment {
        Deployment::start_with(count, "placed", 20_000)
    }

    /// `operation_ms`: how long a global operation may take.
    pub fn start_with(count: usize, mode: &str, operation_ms: u64) -> Deployment {
        Deployment::start_of(count, (SCHEMA, TRANSACTIONS), (mode, operation_ms))
    }

    /// A deployment of another application: its schema, and its transactions.
    pub fn start_of(count: usize, application: (&str, &str), how: (&str, u64)) -> Deployment {
        Deployment::start_for(count, application, how, |_| [String::new(), String::new()])
    }

    /// `more`: further lines about clients, and further settings; it is given the folder of the deployment.
    pub fn start_for(
        count: usize,
        application: (&str, &str),
        how: (&str, u64),
        more: impl FnOnce(&Path) -> [String; 2],
    ) -> Deployment {
        Deployment::start_spare((count, 0), application, how, more)
    }

    /// The same, and the last `spares` servers are no members. What comes behind [`AT_EACH_SERVER`] in the schema is not the application's, and has
    /// `$server` for the number of the server.
    pub fn start_spare(
        (count, spares): (usize, usize),
        (schema, transactions): (&str, &str),
        (mode, operation_ms): (&str, u64),
        more: impl FnOnce(&Path) -> [String; 2],
    ) -> Deployment {
        let servers: Vec<_> = (0..count).map(|_| Server::start().unwrap()).collect();
        let (schema, at_each) = schema.split_once(AT_EACH_SERVER).unwrap_or((schema, ""));
        for (number, server) in servers.iter().enumerate() {
            let mut client = Client::connect(&server.connection_string(), NoTls).unwrap();
            let data: String = client.query_one("SHOW data_directory", &[]).unwrap().get(0);
            assert_eq!(data, server.data().display().to_string(), "a stranger's server");
            client.batch_execute(schema).unwrap();
            client.batch_execute(&at_each.replace("$server", &number.to_string())).unwrap();
        }
        let number = servers[0].process_id();
        let folder = std::env::temp_dir().join(format!("weir-conveyor-front-{number}"));
        std::fs::create_dir(&folder).unwrap();
        // Described by hand, or as the analysis reads it.
        if transactions.starts_with("-- transaction:") {
            std::fs::write(folder.join("schema.sql"), schema).unwrap();
            std::fs::write(folder.join("transactions.sql"), transactions).unwrap();
        } else {
            std::fs::write(folder.join("transactions.toml"), transactions).unwrap();
        }
        let ports = free_ports(2 * count);
        let mut text = format!("application = \".\"\ndirectory = {:?}\n", folder.join("log"));
        text.push_str("[clients]\ndatabase = \"shop\"\n");
        let [clients, settings] = more(&folder);
        text.push_str(&clients);
        text.push_str(
            "[settings]\nidle_ms = 5\nresend_ms = 50\nalive_ms = 20\nsilence_ms = 300\ntoken_ms = 500\n",
        );
        text.push_str(&format!("local_max = 4\nglobal_max = 4\noperation_ms = {operation_ms}\n"));
        text.push_str(&settings);
        for (place, server) in servers.iter().enumerate() {
            let (name, agent, listen) = (NAMES[place], ports[2 * place], ports[2 * place + 1]);
            text.push_str(&format!(
                "[[server]]\nname = \"{name}\"\nagent = \"127.0.0.1:{agent}\"\nlisten = \"127.0.0.1:{listen}\"\ndatabase = \"{}\"\n",
                server.connection_string()
            ));
            if place + spares >= count {
                text.push_str("spare = true\n");
            }
        }
        std::fs::write(folder.join("conveyor.toml"), text).unwrap();
        let file = folder.join("conveyor.toml");
        let agents = (0..count).map(|place| Agent::start(&file, NAMES[place], mode)).collect();
        Deployment { servers, agents, folder }
    }

    pub fn file(&self) -> PathBuf {
        self.folder.join("conveyor.toml")
    }

    pub fn restart(&mut self, place: usize) {
        let file = self.file();
        self.agents[place] = Agent::start(&file, NAMES[place], "placed");
    }

    /// A client of the agent at that place.
    pub fn client(&self, place: usize) -> Client {
        self.try_client(place).unwrap()
    }

    pub fn try_client(&self, place: usize) -> Result<Client, postgres::Error> {
        let address = self.agents[place].address;
        let config = format!("host={} port={} user=me dbname=shop", address.ip(), address.port());
        Client::connect(&config, NoTls)
    }

    /// A client of the server at that place.
    pub fn direct(&self, place: usize) -> Client {
        Client::connect(&self.servers[place].connection_string(), NoTls).unwrap()
    }

    /// Output of psql for these commands at the agent's database; or its complaint.
    pub fn psql(&self, place: usize, database: &str, commands: &[&str]) -> Result<String, String> {
        self.psql_with(&[], (place, database), commands)
    }

    /// The same with variables of the environment.
    pub fn psql_with(
        &self,
        environment: &[(&str, &str)],
        (place, database): (usize, &str),
        commands: &[&str],
    ) -> Result<String, String> {
        let address = self.agents[place].address;
        let mut psql = Command::new("/usr/lib/postgresql/15/bin/psql");
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", "me", "-d", database]);
        psql.arg("-h").arg(address.ip().to_string()).arg("-p").arg(address.port().to_string());
        psql.envs(environment.iter().copied());
        for command in commands {
            psql.arg("-c").arg(command);
        }
        let output = psql.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        self.agents.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
