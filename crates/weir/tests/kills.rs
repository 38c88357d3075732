//! Nodes are processes, and processes are killed: nobody may see half a transaction, and nothing acknowledged may be lost.
//!
//! `WEIR_KILLS=SECONDS` runs for so long (6 here; the bar `kills` runs a minute), a node being killed and started again every five
//! seconds, or every second in the short form.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use tempfile::TempDir;
use weir_client::{Bytes, Client, ClusterFile, Error, Key, KeyRange, Settings, Transaction, Write};
use weir_sim::history::{History, Record};

const NODES: usize = 3;
const SESSIONS: usize = 6;
/// Items that all sessions share.
const KEYS: u64 = 24;
/// Between two transactions of a session: what counts is what happens around the kills, and histories take time to check.
const PAUSE: Duration = Duration::from_millis(4);

/// So long after a client was killed all that it had prepared is decided (two time-outs, and a moment).
const PATIENCE: Duration = Duration::from_millis(2_500);

struct Cluster {
    place: TempDir,
    file: ClusterFile,
    /// Without, nodes keep nothing: the checks must see that.
    has_logs: bool,
    nodes: Vec<Child>,
}

/// Ports that were free a moment ago, below those that the system gives to connections: the port of a node that was killed must
/// still be free when it starts again.
fn free_ports() -> Vec<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() * 61 % 10_000) as u16;
    let candidates = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000);
    candidates.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).take(NODES).collect()
}

impl Cluster {
    fn start(has_logs: bool) -> Cluster {
        let place = tempfile::tempdir().unwrap();
        let mut text = String::new();
        for (node, port) in free_ports().into_iter().enumerate() {
            let shards = [2 * node, 2 * node + 1];
            text.push_str(&format!("[nodes.n{node}]\naddress = \"127.0.0.1:{port}\"\nshards = {shards:?}\n"));
        }
        let path = place.path().join("cluster.toml");
        std::fs::write(&path, text).unwrap();
        let mut cluster =
            Cluster { place, file: ClusterFile::read(&path).unwrap(), has_logs, nodes: Vec::new() };
        cluster.nodes = (0..NODES).map(|node| cluster.spawn(node)).collect();
        cluster
    }

    fn spawn(&self, node: usize) -> Child {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.place.path().join(format!("n{node}.txt")));
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args(["serve", "--cluster"])
            .arg(self.place.path().join("cluster.toml"))
            .args(["--node", &format!("n{node}")]);
        if self.has_logs {
            command.arg("--data").arg(self.place.path().join(format!("n{node}")));
        }
        command.stderr(log.unwrap()).stdout(Stdio::null()).spawn().unwrap()
    }

    /// A client that writes as much as it can, until it is killed.
    fn spawn_client(&self) -> Child {
        Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["bench", "ycsb", "--target"])
            .arg(format!("weir:{}", self.place.path().join("cluster.toml").display()))
            .args(["--set", "read_share=0", "--set", "items=500", "--clients", "64", "--seconds", "600"])
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// What the nodes say of clients that were killed: after how many milliseconds all that they had prepared was decided.
    fn decided_after_ms(&self) -> Vec<u64> {
        let logs = (0..NODES)
            .map(|node| std::fs::read_to_string(self.place.path().join(format!("n{node}.txt"))).unwrap());
        let after = |line: &str| line.split_once("after_ms=")?.1.split_whitespace().next()?.parse().ok();
        logs.flat_map(|log| log.lines().filter_map(after).collect::<Vec<u64>>()).collect()
    }

    fn kill_and_start_again(&mut self, node: usize) {
        self.nodes[node].kill().unwrap();
        self.nodes[node].wait().unwrap();
        self.nodes[node] = self.spawn(node);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            // It may have ended by itself; then the test has failed already.
            let _ = node.kill().and_then(|()| node.wait());
        }
        if std::thread::panicking() {
            for node in 0..NODES {
                let said = std::fs::read_to_string(self.place.path().join(format!("n{node}.txt")))
                    .unwrap_or_default();
                eprintln!("--- n{node}\n{said}");
            }
        }
    }
}

/// A closed loop, until it is told to stop.
fn session(
    number: usize,
    file: &ClusterFile,
    (begun, stop, written): (Instant, &AtomicBool, &AtomicU64),
) -> Vec<Record> {
    let settings = Settings { deadline: Duration::from_secs(20), ..Settings::default() };
    let client = Client::connect_with(file, settings).unwrap();
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(number as u64);
    let mut below = |n: u64| chance.next_u64() % n;
    let mut records = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut keys: Vec<Key> =
            (0..1 + below(5)).map(|_| Key::from(format!("r{:02}", below(KEYS)).as_str())).collect();
        keys.sort();
        keys.dedup();
        if below(6) == 0 {
            // Alone on an item that only single operations touch: these are linearizable.
            keys = vec![Key::from(format!("s{}", below(2)).as_str())];
        }
        let mut transaction = Transaction::default();
        match below(10) {
            0 if keys[0][0] == b'r' => {
                transaction.ranges = vec![KeyRange { from: Key::from("r05"), to: Key::from("r12") }];
            }
            1..=4 => {
                let value = || {
                    Write::Put(Bytes::from(format!("{}", written.fetch_add(1, Ordering::Relaxed)).as_str()))
                };
                transaction.writes = keys.into_iter().map(|key| (key, value())).collect();
            }
            _ => transaction.reads = keys,
        }
        let mut record = Record {
            session: number,
            begun_us: begun.elapsed().as_micros() as u64,
            writes: transaction.writes.clone(),
            ..Record::default()
        };
        let (reads, ranges) = (transaction.reads.clone(), transaction.ranges.clone());
        match client.begin(transaction).wait() {
            Ok(done) => {
                record.ended_us = Some(begun.elapsed().as_micros() as u64);
                record.stamp = done.stamp;
                record.reads = reads.into_iter().zip(done.read.items).collect();
                record.ranges = ranges.into_iter().zip(done.read.ranges).collect();
            }
            Err(Error::Aborted | Error::Deadline(_)) => {
                record.ended_us = Some(begun.elapsed().as_micros() as u64);
                record.aborted = true;
            }
            // It may have happened: that is none of what this test can judge.
            Err(error) => {
                eprintln!("session {number}: {error}");
                return records;
            }
        }
        records.push(record);
        std::thread::sleep(PAUSE);
    }
    records
}

/// Kills for so many seconds, every so many; then what all clients were told is checked.
fn run(seconds: u64, every: u64, has_logs: bool) -> Result<Cluster, String> {
    let mut cluster = Cluster::start(has_logs);
    let file = cluster.file.clone();
    let (begun, stop, written) = (Instant::now(), AtomicBool::new(false), AtomicU64::new(0));
    let mut kills = 0;
    let mut records: Vec<Record> = std::thread::scope(|threads| {
        let (file, shared) = (&file, (begun, &stop, &written));
        let session = |number| threads.spawn(move || session(number, file, shared));
        let sessions: Vec<_> = (0..SESSIONS).map(session).collect();
        while begun.elapsed() < Duration::from_secs(seconds) {
            let mut client = cluster.spawn_client();
            std::thread::sleep(Duration::from_secs(every));
            client.kill().and_then(|()| client.wait()).unwrap();
            // Every other time a node goes too, while what that client has left is not decided yet.
            if kills % 2 == 1 {
                std::thread::sleep(PATIENCE);
            }
            cluster.kill_and_start_again(kills % NODES);
            kills += 1;
        }
        std::thread::sleep(PATIENCE);
        stop.store(true, Ordering::Relaxed);
        sessions.into_iter().flat_map(|session| session.join().unwrap()).collect()
    });
    records.sort_by_key(|record| record.begun_us);
    let range = KeyRange { from: Key::from("r"), to: Key::from("t") };
    let client = Client::connect(&file).unwrap();
    let last = client.begin(Transaction { ranges: vec![range], ..Transaction::default() });
    let last = last.wait().map_err(|error| error.to_string())?.read.ranges;
    let last: BTreeMap<Key, Option<Bytes>> =
        last.into_iter().flatten().map(|(key, item)| (key, item.value)).collect();
    let (count, aborted) = (records.len(), records.iter().filter(|record| record.aborted).count());
    println!("{count} transactions, {aborted} aborted, {kills} nodes and {kills} clients killed: checking");
    let history = History::new(records);
    let checked = history.check().and_then(|()| history.check_nothing_lost(&last));
    checked.map_err(|violation| format!("{}: {}", violation.claim, violation.seen))?;
    Ok(cluster)
}

#[test]
fn nobody_sees_half_of_anything_and_nothing_is_lost() {
    let (seconds, every) = match std::env::var("WEIR_KILLS").ok().and_then(|text| text.parse().ok()) {
        Some(seconds) => (seconds, 5),
        None => (6, 1),
    };
    let cluster = run(seconds, every, true).unwrap();
    println!("no fractured read, nothing acknowledged was lost");
    let decided = cluster.decided_after_ms();
    assert!(!decided.is_empty(), "no client was killed in the middle of anything");
    println!(
        "what killed clients had prepared was decided after {} ms at most",
        decided.iter().max().unwrap()
    );
}

#[test]
fn nodes_without_logs_are_caught() {
    let violation = run(2, 1, false).map(drop).unwrap_err();
    assert!(violation.contains(':'), "{violation}");
    println!("{violation}");
}
