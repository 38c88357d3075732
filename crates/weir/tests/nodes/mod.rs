//! Nodes as processes of their own, for tests that kill them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::eventually::{eventually, until};
use tempfile::TempDir;
use weir_client::loopback;

/// Routines that read accounts in tests of calls: a procedure with OUT parameters, and a function.
#[allow(dead_code, reason = "each test uses its part")]
pub const LOOKS: &str = "
CREATE PROCEDURE look(a integer, OUT who text, OUT balance numeric) LANGUAGE plpgsql AS $$
BEGIN SELECT account.owner, account.balance INTO who, balance FROM account WHERE id = a; END $$;
CREATE FUNCTION balance_of(a integer) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE found_balance numeric;
BEGIN SELECT balance INTO found_balance FROM account WHERE id = a; RETURN found_balance; END $$;
";

#[allow(dead_code, reason = "each test uses its part")]
pub struct Nodes {
    pub place: TempDir,
    /// Directory of the application, if the test has written it; removed with the nodes.
    _application: Option<TempDir>,
    /// Without, nodes keep nothing.
    has_logs: bool,
    /// By node, beside what all are told.
    arguments: Vec<Vec<String>>,
    processes: Vec<Child>,
}

#[allow(dead_code, reason = "each test uses its part")]
impl Nodes {
    /// Starts that number of nodes with that number of shards each. `more`: further text of the cluster file.
    pub fn start(nodes: usize, shards: usize, more: &str, has_logs: bool) -> Nodes {
        Nodes::start_with(None, nodes, shards, more, has_logs)
    }

    /// Nodes of an application that is written here: its SQL, and its workload.
    pub fn of(schema: &str, workload: &str, nodes: usize, shards: usize, has_logs: bool) -> Nodes {
        let application = tempfile::tempdir().unwrap();
        std::fs::write(application.path().join("schema.sql"), schema).unwrap();
        std::fs::write(application.path().join("workload.toml"), workload).unwrap();
        let more = format!("[application]\npath = \"{}\"\n", application.path().display());
        Nodes::start_with(Some(application), nodes, shards, &more, has_logs)
    }

    /// Nodes of a cluster of tables whose shards are these, with logs. The first one speaks PostgreSQL's protocol, and each is started
    /// with these arguments.
    pub fn of_tables(shards: &[&[u16]], arguments: &[&str]) -> Nodes {
        let mut text = "[application]\n".to_owned();
        for (node, port) in loopback::free_ports(shards.len()).into_iter().enumerate() {
            text +=
                &format!("[nodes.n{node}]\naddress = \"127.0.0.1:{port}\"\nshards = {:?}\n", shards[node]);
        }
        let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        let mut of_nodes = vec![arguments; shards.len()];
        of_nodes[0].extend(["--listen", "127.0.0.1:0"].map(str::to_owned));
        let nodes = Nodes::start_all(None, &text, of_nodes, true);
        nodes.wait_for_door(1);
        nodes
    }

    /// Nodes of a cluster of tables, each of which is a member of all shards, with logs. Each speaks PostgreSQL's protocol.
    pub fn of_groups(members: usize, shards: u16, arguments: &[&str]) -> Nodes {
        let mut text = "[application]\n".to_owned();
        let all: Vec<u16> = (0..shards).collect();
        for (node, port) in loopback::free_ports(members).into_iter().enumerate() {
            text += &format!("[nodes.n{node}]\naddress = \"127.0.0.1:{port}\"\nshards = {all:?}\n");
        }
        let arguments = ["--listen", "127.0.0.1:0"].iter().chain(arguments).map(|one| (*one).to_owned());
        let nodes = Nodes::start_all(None, &text, vec![arguments.collect(); members], true);
        (0..members).for_each(|node| nodes.wait_until(node, "protocol on", 1));
        nodes
    }

    /// Where the first one speaks PostgreSQL's protocol since it was started last.
    pub fn door(&self) -> std::net::SocketAddr {
        self.door_of(0)
    }

    pub fn door_of(&self, node: usize) -> std::net::SocketAddr {
        let said = self.said_by(node);
        let port = said.split("protocol on 127.0.0.1:").last().and_then(|rest| rest.split(',').next());
        std::net::SocketAddr::from(([127, 0, 0, 1], port.unwrap().parse().unwrap()))
    }

    /// A session of the first one.
    pub fn driver(&self) -> postgres::Client {
        let target = format!("host=127.0.0.1 port={} user=ann dbname=weir", self.door().port());
        postgres::Client::connect(&target, postgres::NoTls).unwrap()
    }

    fn start_with(
        application: Option<TempDir>,
        nodes: usize,
        shards: usize,
        more: &str,
        has_logs: bool,
    ) -> Nodes {
        let text = format!("{more}{}", loopback::nodes(nodes, shards));
        Nodes::start_all(application, &text, vec![Vec::new(); nodes], has_logs)
    }

    fn start_all(
        application: Option<TempDir>,
        text: &str,
        arguments: Vec<Vec<String>>,
        has_logs: bool,
    ) -> Nodes {
        let (place, nodes) = (tempfile::tempdir().unwrap(), arguments.len());
        std::fs::write(place.path().join("cluster.toml"), text).unwrap();
        let processes = Vec::new();
        let mut started = Nodes { place, _application: application, has_logs, arguments, processes };
        started.processes = (0..nodes).map(|node| started.spawn(node, &[])).collect();
        (0..nodes).for_each(|node| started.wait_for(node, 1));
        started
    }

    pub fn file(&self) -> PathBuf {
        self.place.path().join("cluster.toml")
    }

    pub fn target(&self) -> String {
        format!("weir:{}", self.file().display())
    }

    pub fn data_of(&self, node: usize) -> PathBuf {
        self.place.path().join(format!("n{node}"))
    }

    fn spawn(&self, node: usize, arguments: &[&str]) -> Child {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_of(node));
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["serve", "--cluster"]).arg(self.file()).args(["--node", &format!("n{node}")]);
        if self.has_logs {
            command.arg("--data").arg(self.data_of(node));
        }
        command.args(&self.arguments[node]).args(arguments);
        command.stderr(log.unwrap()).stdout(Stdio::null()).spawn().unwrap()
    }

    fn log_of(&self, node: usize) -> PathBuf {
        self.place.path().join(format!("n{node}.txt"))
    }

    /// Output of all nodes.
    pub fn said(&self) -> String {
        let logs = (0..self.processes.len()).map(|node| std::fs::read_to_string(self.log_of(node)));
        logs.map(Result::unwrap_or_default).collect()
    }

    pub fn said_by(&self, node: usize) -> String {
        std::fs::read_to_string(self.log_of(node)).unwrap_or_default()
    }

    pub fn pid(&self, node: usize) -> u32 {
        self.processes[node].id()
    }

    /// It ends by itself; how.
    pub fn ends(&mut self, node: usize) -> std::process::ExitStatus {
        eventually(format!("n{node} ends"), || self.processes[node].try_wait().unwrap())
    }

    pub fn wait_for(&self, node: usize, starts: usize) {
        self.wait_until(node, "listening on", starts);
    }

    /// Until the first one has spoken PostgreSQL's protocol in so many starts.
    pub fn wait_for_door(&self, starts: usize) {
        self.wait_until(0, "protocol on", starts);
    }

    fn wait_until(&self, node: usize, word: &str, starts: usize) {
        let has = || self.said_by(node).matches(word).count() >= starts;
        until(format!("n{node} says that it is {word} so often: {starts}"), has);
    }

    pub fn kill(&mut self, node: usize) {
        self.processes[node].kill().unwrap();
        self.processes[node].wait().unwrap();
    }

    pub fn start_again(&mut self, node: usize) {
        self.start_again_with(node, &[]);
    }

    pub fn start_again_with(&mut self, node: usize, arguments: &[&str]) {
        self.processes[node] = self.spawn(node, arguments);
    }

    pub fn kill_and_start_again(&mut self, node: usize) {
        self.kill(node);
        self.start_again(node);
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended by itself; then the test has failed already.
            let _ = process.kill().and_then(|()| process.wait());
        }
        if std::thread::panicking() {
            eprintln!("--- the nodes said\n{}", self.said());
        }
    }
}
