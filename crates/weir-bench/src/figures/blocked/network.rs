//! Blocked writes over the network: nodes of one shard each, and two loops of clients, of which one is doomed.
//!
//! Where nothing is to be blocked the same loops run, and none is doomed: what is compared differs in nothing else.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use weir_client::ClusterFile;
use weir_client::carrier::{Carrier, new_id};
use weir_core::machine::{Clients, Coordinator as _, Orders};
use weir_kv::faults::NoFaults;
use weir_kv::{Coordinator, Done, Options, Partition, Request, Timeouts, Variant};
use weir_server::embedded::now_ms;

use crate::processes::Processes;
use crate::ycsb::{Generator, Protocol, Ycsb};

type Failure = (String, String);

/// Closed loops on each of the two coordinators.
const CLIENTS: u64 = 512;
/// A doomed coordinator begins transactions for so long.
const DOOMED_MS: u64 = 500;
/// Tolerance between the two loops, in transactions: the size of one wake-up.
const APART_MAX: f64 = 4_000.0;

/// Nodes with items in them.
pub struct Stage {
    nodes: Processes,
    generator: Arc<Generator>,
    seed: u64,
}

impl Stage {
    /// # Errors
    /// The nodes cannot be started, or loaded.
    pub fn start(weir: &Path, workload: &Ycsb) -> Result<Stage, Failure> {
        let nodes = Processes::start(weir, workload.shards, Protocol::Ramp(Variant::Fast))?;
        let (_, generator) = workload.load_at(&nodes.cluster)?;
        Ok(Stage { nodes, generator, seed: workload.seed })
    }

    /// Transactions answered a second, once two time-outs have gone by, and with them what was blocked before.
    ///
    /// # Errors
    /// The system has no randomness, or no sockets.
    pub fn throughput(&self, share: f64, blocks: bool, seconds: f64) -> Result<f64, Failure> {
        let tickets = Arc::new(Tickets { share, ..Tickets::default() });
        let begin = |is_second: bool| {
            let loops = Loops::new(self, tickets.clone(), is_second, is_second && blocks);
            let cluster = self.nodes.cluster.clone();
            loops.map(|loops| std::thread::spawn(move || carry(cluster, loops)))
        };
        let threads = [begin(false), begin(true)];
        std::thread::sleep(Duration::from_millis(2_200 * Timeouts::default().terminate_ms / 1_000));
        let (begun, before) = (Instant::now(), tickets.answered.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let answered = tickets.answered.load(Ordering::Relaxed) - before;
        let took = begun.elapsed().as_secs_f64();
        tickets.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let carried = thread.map_err(failed)?.join().expect("an assertion failed; see above");
            carried.map_err(failed)?;
        }
        Ok(answered as f64 / took)
    }
}

fn carry(cluster: ClusterFile, loops: Loops) -> Result<(), String> {
    let carrier = Carrier::<Partition, Loops>::new(cluster, loops).map_err(|error| error.to_string())?;
    carrier.run();
    Ok(())
}

fn failed(why: String) -> Failure {
    (why, "the machine must have sockets and threads for five nodes and two clients".to_owned())
}

/// Admission of transactions: the second loop begins its share, the first one the others.
#[derive(Default)]
struct Tickets {
    share: f64,
    /// Transactions begun by the first loop and by the second.
    begun: [AtomicU64; 2],
    answered: AtomicU64,
    stop: AtomicBool,
}

impl Tickets {
    fn take(&self, is_second: bool) -> bool {
        let begun = [0, 1].map(|at| self.begun[at].load(Ordering::Relaxed) as f64);
        let share = if is_second { self.share } else { 1.0 - self.share };
        let may = begun[usize::from(is_second)] < share * (begun[0] + begun[1]) + share * APART_MAX;
        let may = may && !self.stop.load(Ordering::Relaxed);
        self.begun[usize::from(is_second)].fetch_add(u64::from(may), Ordering::Relaxed);
        may
    }
}

struct Loops {
    coordinator: Coordinator,
    options: Options,
    tickets: Arc<Tickets>,
    is_second: bool,
    is_doomed: bool,
    generator: Arc<Generator>,
    chance: Xoshiro256PlusPlus,
    /// Clients that may not begin yet.
    waiting: Vec<u64>,
    under_way: u64,
    since_ms: u64,
}

impl Loops {
    fn new(stage: &Stage, tickets: Arc<Tickets>, is_second: bool, is_doomed: bool) -> Result<Loops, String> {
        let options = Options {
            variant: Variant::Fast,
            shards: stage.nodes.cluster.shards,
            links_keep_order: false,
            one_phase: is_doomed,
            bugs: NoFaults,
        };
        Ok(Loops {
            coordinator: Coordinator::new(new_id().map_err(|error| error.to_string())?, 0, options),
            options,
            tickets,
            is_second,
            is_doomed,
            generator: stage.generator.clone(),
            chance: Xoshiro256PlusPlus::seed_from_u64(stage.seed + u64::from(is_second)),
            waiting: (0..CLIENTS).collect(),
            under_way: 0,
            since_ms: now_ms(),
        })
    }

    fn begin_all(&mut self, orders: &mut Orders<Request, Done>) {
        let now_ms = now_ms();
        if self.is_doomed && now_ms >= self.since_ms + DOOMED_MS {
            if self.under_way > 0 {
                return;
            }
            // All its clients have been answered: it is silent from now on.
            let Ok(id) = new_id() else { return };
            self.coordinator = Coordinator::new(id, 0, self.options);
            self.since_ms = now_ms;
        }
        while let Some(client) = self.waiting.pop() {
            if !self.tickets.take(self.is_second) {
                self.waiting.push(client);
                return;
            }
            self.under_way += 1;
            let transaction = self.generator.next(&mut self.chance);
            self.coordinator.begin(now_ms, client, transaction, orders);
        }
    }
}

impl Clients<Partition> for Loops {
    type Coordinator = Coordinator;

    fn coordinator(&mut self) -> &mut Coordinator {
        &mut self.coordinator
    }

    fn begin(&mut self, orders: &mut Orders<Request, Done>) {
        self.begin_all(orders);
    }

    fn go_on(&mut self, orders: &mut Orders<Request, Done>) {
        let answered = orders.done.len() as u64;
        self.tickets.answered.fetch_add(answered, Ordering::Relaxed);
        self.under_way -= answered;
        self.waiting.extend(orders.done.drain(..).map(|(client, _)| client));
        self.begin_all(orders);
        if self.is_doomed {
            // Messages that its clients never send.
            orders.sends.retain(|(_, request)| !matches!(request, Request::Commit { .. }));
        }
    }

    fn have_ended(&mut self) -> bool {
        let idle = self.is_doomed || self.coordinator.is_idle();
        self.tickets.stop.load(Ordering::Relaxed) && self.under_way == 0 && idle
    }
}
