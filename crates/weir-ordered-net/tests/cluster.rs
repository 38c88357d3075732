//! Clusters of processes on loopback, their clients, and the checks of what they have done.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weir_core::ids::{ShardId, TxnId};
use weir_ordered::cluster::{Cluster, ReplicaId, Timeouts};
use weir_ordered::replica::log::Log;
use weir_ordered_net::members::Network;
use weir_ordered_net::{CallError, Client, Members, replica};

use crate::chance::Chance;
use crate::party::{MARK, Order, Role, Seen, VARIABLE, disk, loss};
use crate::transport::members;
use crate::world::application::{ByteRegisters, operation, values};
use crate::world::chains::check_answers;
use crate::world::registers::{Change, READ_TO_WRITE, Register, Values};
use crate::world::strict::{Told, check_executed, check_serializable};

/// Registers of each shard: few, so that transactions meet.
const REGISTERS: u64 = 3;
/// A cluster that is not alike by then has stopped.
const REST: Duration = Duration::from_secs(120);

/// A cluster to be made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub shards: ShardId,
    pub sequencers: usize,
    /// Nodes of the failure coordinator.
    pub coordinators: usize,
    pub network: Network,
    pub timeouts: Timeouts,
    pub truncate_entries: u64,
    pub snapshot_after: u64,
    /// Datagrams that each party loses, per mille.
    pub lost: u32,
    pub seed: u64,
}

impl Default for Plan {
    /// No log is truncated but at the start of an epoch.
    fn default() -> Plan {
        Plan {
            shards: 2,
            sequencers: 1,
            coordinators: 3,
            network: Network::Udp,
            timeouts: Timeouts { client_ms: 60_000, ..Timeouts::DEFAULT },
            truncate_entries: u64::MAX / 8,
            snapshot_after: 64 << 20,
            lost: 0,
            seed: 1,
        }
    }
}

struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

/// A cluster whose parties are processes.
pub struct Processes {
    pub members: Arc<Members>,
    plan: Plan,
    data: TempDir,
    processes: BTreeMap<Role, Process>,
    starts: u64,
}

impl Processes {
    /// Starts all parties.
    pub fn start(plan: Plan) -> Processes {
        let Plan { shards, timeouts, truncate_entries, .. } = plan;
        let cluster = Cluster { shards, replicas: 3, timeouts, truncate_entries, aside_max: 1_000 };
        let members = Arc::new(members(cluster, plan.network, (plan.coordinators, plan.sequencers)));
        let data = tempfile::tempdir().unwrap();
        let mut processes = Processes { members, plan, data, processes: BTreeMap::new(), starts: 0 };
        processes.roles().into_iter().for_each(|role| processes.begin(role));
        processes
    }

    pub fn roles(&self) -> Vec<Role> {
        let sequencers = (0..self.plan.sequencers).map(|place| Role::Sequencer(place as u8));
        let replicas = self.members.cluster.all_replicas().map(Role::Replica);
        self.coordinators().into_iter().chain(sequencers).chain(replicas).collect()
    }

    pub fn coordinators(&self) -> Vec<Role> {
        (0..self.plan.coordinators).map(|number| Role::Coordinator(number as u8)).collect()
    }

    /// The epoch, as a node of the failure coordinator knows it.
    pub fn epoch(&mut self) -> u64 {
        self.coordinators().into_iter().map(|role| self.look(role).epoch).max().unwrap()
    }

    /// The node of the failure coordinator that leads, once one does.
    pub fn leading(&mut self) -> Role {
        let begun = Instant::now();
        loop {
            let up: Vec<_> =
                self.coordinators().into_iter().filter(|role| self.processes.contains_key(role)).collect();
            if let Some(role) = up.into_iter().find(|role| self.look(*role).is_normal) {
                return role;
            }
            assert!(begun.elapsed() < REST, "no node leads");
        }
    }

    /// Starts a party with what is on its disk.
    pub fn begin(&mut self, role: Role) {
        self.starts += 1;
        let order = Order {
            members: (*self.members).clone(),
            role,
            directory: self.directory(role),
            snapshot_after: self.plan.snapshot_after,
            lost: self.plan.lost,
            seed: self.plan.seed * 1_000 + self.starts,
        };
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["party::process", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, serde_json::to_string(&order).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let replaced = self.processes.insert(role, Process { child, lines });
        assert!(replaced.is_none(), "{role:?} runs already");
        println!("{role:?} begins");
    }

    fn directory(&self, role: Role) -> PathBuf {
        self.data.path().join(match role {
            Role::Coordinator(number) => format!("coordinator-{number}"),
            Role::Sequencer(place) => format!("sequencer-{place}"),
            Role::Replica(ReplicaId { shard, number }) => format!("replica-{shard}-{number}"),
        })
    }

    /// Kills a party: it loses its memory, and what it has not yet written.
    pub fn kill(&mut self, role: Role) {
        println!("{role:?} is killed");
        let mut process = self.processes.remove(&role).unwrap();
        process.child.kill().unwrap();
        process.child.wait().unwrap();
    }

    /// Removes the disk of a party that is down.
    pub fn wipe(&mut self, role: Role) {
        assert!(!self.processes.contains_key(&role));
        println!("{role:?} loses its disk");
        std::fs::remove_dir_all(self.directory(role)).unwrap();
    }

    /// The state of a party that is up.
    pub fn look(&mut self, role: Role) -> Seen {
        let process = self.processes.get_mut(&role).unwrap();
        writeln!(process.child.stdin.as_mut().unwrap()).unwrap();
        loop {
            let mut line = String::new();
            let read = process.lines.read_line(&mut line).unwrap();
            assert!(read > 0, "{role:?} has ended");
            if let Some((_, seen)) = line.split_once(MARK) {
                return serde_json::from_str(seen).unwrap();
            }
        }
    }

    pub fn look_at_replicas(&mut self) -> BTreeMap<ReplicaId, Seen> {
        let ids: Vec<_> = self.members.cluster.all_replicas().collect();
        ids.into_iter().map(|id| (id, self.look(Role::Replica(id)))).collect()
    }

    /// Waits until all replicas of each shard are alike, and have everything on disk.
    pub fn wait_for_rest(&mut self) -> BTreeMap<ReplicaId, Seen> {
        let begun = Instant::now();
        loop {
            let seen = self.look_at_replicas();
            let is_at_rest = seen.iter().all(|(id, each)| {
                let learner = &seen[&ReplicaId { number: 0, ..*id }];
                let place = |seen: &Seen| (seen.epoch, seen.view, seen.end, seen.end, seen.end);
                let own = (each.epoch, each.view, each.end, each.synchronized, each.executed);
                each.is_normal && each.is_durable && own == place(learner)
            });
            if is_at_rest {
                return seen;
            }
            assert!(begun.elapsed() < REST, "the replicas do not become alike: {seen:#?}");
        }
    }

    /// Waits until the parties are at rest, and ends them. Returns what each shard has executed, as it follows from the disk of its learner;
    /// the others have the same log on disk.
    fn finish(mut self, work: &Work) -> BTreeMap<ShardId, Log<Change>> {
        self.wait_for_rest();
        for (role, mut process) in std::mem::take(&mut self.processes) {
            drop(process.child.stdin.take());
            assert!(process.child.wait().unwrap().success(), "{role:?}");
        }
        let txns = work.changes.iter().map(|(txn, change)| (change.0[0].1, *txn)).collect();
        (0..self.members.cluster.shards).map(|shard| (shard, self.executed(shard, &txns))).collect()
    }

    fn executed(&self, shard: ShardId, txns: &BTreeMap<u64, TxnId>) -> Log<Change> {
        let read = |id: ReplicaId| {
            let disk = disk(self.directory(Role::Replica(id)), self.plan.snapshot_after);
            replica::read(&self.members, id, ByteRegisters::new(shard), &disk).unwrap().0
        };
        let group: Vec<_> = self.members.cluster.group(shard).map(read).collect();
        let learner = group.iter().find(|each| each.is_learner()).unwrap();
        for each in &group {
            let (log, of_learner) = (each.log(), learner.log());
            assert_eq!((log.end(), log.common_prefix(of_learner)), (of_learner.end(), of_learner.end()));
        }
        assert_eq!(learner.executed(), learner.log().end());
        learner.application().log(txns)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            // It may have ended by itself.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

/// Results of the clients.
#[derive(Default)]
pub struct Work {
    pub told: Told,
    pub changes: BTreeMap<TxnId, Change>,
    /// Transactions without an answer, since their client was retired.
    pub unknown: usize,
    /// General transactions that were committed, that clients have left behind, and that replicas have aborted under clients that lived.
    pub committed: usize,
    pub abandoned: usize,
    pub aborted: usize,
}

/// Clients that work.
pub struct Workers {
    work: Arc<Mutex<Work>>,
    /// Hears of each answer.
    answers: Receiver<()>,
    threads: Vec<JoinHandle<()>>,
}

/// How clients work.
#[derive(Clone, Copy)]
pub struct Load {
    pub clients: u64,
    /// Transactions of each client.
    pub transactions: u32,
    /// Padding of an operation, at most.
    pub padding_max: u64,
    /// Transactions that are general, per mille.
    pub general: u32,
}

impl Workers {
    pub fn start(processes: &Processes, load: Load) -> Workers {
        let (answered, answers) = channel();
        let (work, begun) = (Arc::new(Mutex::new(Work::default())), Instant::now());
        let worker = |number| {
            let worker = Worker {
                members: processes.members.clone(),
                lost: processes.plan.lost,
                chance: Chance::from_seed(processes.plan.seed * 100 + number),
                begun,
                work: work.clone(),
                answered: answered.clone(),
                load,
            };
            std::thread::spawn(move || worker.run())
        };
        let threads = (0..load.clients).map(worker).collect();
        Workers { work, answers, threads }
    }

    /// Waits for so many more answers.
    pub fn wait_for(&self, answers: usize) {
        println!("waits for {answers} answers");
        for _ in 0..answers {
            self.answers.recv_timeout(REST).expect("transactions are answered");
        }
    }

    /// Waits until everything is answered.
    pub fn finish(self) -> Work {
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        std::mem::take(&mut self.work.lock().unwrap())
    }
}

struct Worker {
    members: Arc<Members>,
    lost: u32,
    chance: Chance,
    begun: Instant,
    work: Arc<Mutex<Work>>,
    answered: Sender<()>,
    load: Load,
}

impl Worker {
    fn run(mut self) {
        let mut client = self.client();
        for _ in 0..self.load.transactions {
            let (destinations, change) = self.change();
            let padding = self.chance.below(self.load.padding_max + 1) as usize;
            let goes_on = if self.chance.per_mille(self.load.general) {
                self.general(&client, &destinations, change, padding)
            } else {
                self.independent(&client, &destinations, change, padding)
            };
            if !goes_on {
                client = self.client();
            }
            // The test may wait for no more answers.
            let _ = self.answered.send(());
        }
    }

    /// Returns whether the client goes on.
    fn independent(&self, client: &Client, destinations: &[ShardId], change: Change, padding: usize) -> bool {
        let (begun, has_begun) = channel();
        let began_at = self.now();
        let answer = client.begin(destinations, &operation(&change, padding), Some(begun)).unwrap();
        let answer = answer.recv().unwrap_or(Err(CallError::Ended));
        let completed_at = self.now();
        let mut work = self.work.lock().unwrap();
        if let Ok(txn) = has_begun.recv() {
            work.told.begun.insert(txn, began_at);
            work.changes.insert(txn, change);
        }
        match answer {
            Ok(completed) => {
                let answers = completed.answers.iter();
                let answers = answers.map(|(shard, answer)| (*shard, values(answer, padding))).collect();
                work.told.completed.insert(completed.txn, (completed_at, answers));
                true
            }
            Err(CallError::Retired | CallError::Ended) => {
                work.unknown += 1;
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads the registers of the change, and commits it. What was read is what it changes, and it counts as begun before it reads. Now and
    /// then the client dies in between.
    fn general(&mut self, client: &Client, destinations: &[ShardId], change: Change, padding: usize) -> bool {
        let began_at = self.now();
        let reads = Change(change.0.iter().map(|(register, _)| (*register, READ_TO_WRITE)).collect());
        let read = client.begin_general(destinations, &operation(&reads, padding));
        let dies = self.chance.per_mille(50);
        let read = match read {
            Ok(read) if read.is_aborted => {
                self.work.lock().unwrap().aborted += 1;
                return true;
            }
            Ok(read) if !dies => read,
            Ok(_) | Err(CallError::Retired | CallError::Ended) => {
                self.work.lock().unwrap().abandoned += 1;
                return false;
            }
            Err(error) => panic!("{error}"),
        };
        let concluded = client.conclude(read.txn, true, &operation(&change, padding));
        let completed_at = self.now();
        let mut work = self.work.lock().unwrap();
        match concluded {
            Ok(concluded) if concluded.is_aborted => work.aborted += 1,
            Ok(concluded) => {
                let answers: BTreeMap<ShardId, Values> = concluded
                    .answers
                    .iter()
                    .map(|(shard, answer)| (*shard, values(answer, padding)))
                    .collect();
                let read = read.answers.values().flat_map(|answer| values(answer, padding));
                let expected: Values = read
                    .map(|(register, value)| (register, value.wrapping_mul(31).wrapping_add(change.0[0].1)))
                    .collect();
                assert_eq!(answers.values().flatten().copied().collect::<Values>(), expected, "isolation");
                work.committed += 1;
                work.told.begun.insert(concluded.txn, began_at);
                work.told.completed.insert(concluded.txn, (completed_at, answers));
                work.changes.insert(concluded.txn, change);
            }
            Err(CallError::Retired | CallError::Ended) => {
                work.unknown += 1;
                return false;
            }
            Err(error) => panic!("{error}"),
        }
        true
    }

    fn client(&mut self) -> Client {
        let seed = self.chance.below(u64::MAX);
        Client::start(self.members.clone(), loss(self.lost, seed)).unwrap()
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// A change of two registers, of one shard or of two.
    fn change(&mut self) -> (Vec<ShardId>, Change) {
        let shards = u64::from(self.members.cluster.shards);
        let chance = &mut self.chance;
        let mut register =
            || -> Register { (chance.below(shards) as ShardId, chance.below(REGISTERS) as u8) };
        let mut registers = vec![register(), register()];
        registers.sort_unstable();
        registers.dedup();
        let mut destinations: Vec<_> = registers.iter().map(|(shard, _)| *shard).collect();
        destinations.dedup();
        let number = self.chance.between(1, 1 << 40);
        (destinations, Change(registers.into_iter().map(|register| (register, number)).collect()))
    }
}

/// Everything that was told is on disk, and strictly serializable.
pub fn check(processes: Processes, work: &Work) {
    let logs = processes.finish(work);
    // With locks, a shard executes in another order than that of its log, among transactions that do not meet.
    let is_ordered = work.committed + work.abandoned + work.aborted == 0;
    let check_logs = if is_ordered { check_serializable } else { check_executed };
    if let Err(violation) = check_logs(&logs, &work.told) {
        panic!("invariant {}: {}", violation.invariant, violation.text);
    }
    if let Err(violation) = check_answers(&work.changes, &work.told, work.unknown) {
        panic!("invariant {}: {}", violation.invariant, violation.text);
    }
}
