//! Nodes are processes, and processes are killed: nobody may see half a transaction, and nothing acknowledged may be lost.
//!
//! `WEIR_KILLS=SECONDS` runs for so long (6 here; the bar `kills` runs a minute), a node being killed and started again every five
//! seconds, or every second in the short form.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::nodes::Nodes;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
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

/// A client that writes as much as it can, until it is killed.
fn spawn_client(nodes: &Nodes) -> Child {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["bench", "ycsb", "--target", &nodes.target()])
        .args(["--set", "read_share=0", "--set", "items=500", "--clients", "64", "--seconds", "600"])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Times reported by the nodes, in milliseconds, after which all prepared transactions of killed clients were decided.
fn decided_after_ms(nodes: &Nodes) -> Vec<u64> {
    let after = |line: &str| line.split_once("after_ms=")?.1.split_whitespace().next()?.parse().ok();
    nodes.said().lines().filter_map(after).collect()
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
fn run(seconds: u64, every: u64, has_logs: bool) -> Result<Nodes, String> {
    let mut nodes = Nodes::start(NODES, 2, "", has_logs);
    let file = ClusterFile::read(&nodes.file()).unwrap();
    let (begun, stop, written) = (Instant::now(), AtomicBool::new(false), AtomicU64::new(0));
    let mut kills = 0;
    let mut records: Vec<Record> = std::thread::scope(|threads| {
        let (file, shared) = (&file, (begun, &stop, &written));
        let session = |number| threads.spawn(move || session(number, file, shared));
        let sessions: Vec<_> = (0..SESSIONS).map(session).collect();
        while begun.elapsed() < Duration::from_secs(seconds) {
            let mut client = spawn_client(&nodes);
            std::thread::sleep(Duration::from_secs(every));
            client.kill().and_then(|()| client.wait()).unwrap();
            // Every other time a node goes too, while what that client has left is not decided yet.
            if kills % 2 == 1 {
                std::thread::sleep(PATIENCE);
            }
            nodes.kill_and_start_again(kills % NODES);
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
    Ok(nodes)
}

#[test]
fn nobody_sees_half_of_anything_and_nothing_is_lost() {
    let (seconds, every) = match std::env::var("WEIR_KILLS").ok().and_then(|text| text.parse().ok()) {
        Some(seconds) => (seconds, 5),
        None => (6, 1),
    };
    let nodes = run(seconds, every, true).unwrap();
    println!("no fractured read, nothing acknowledged was lost");
    let decided = decided_after_ms(&nodes);
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
