//! Measures what the steps of the real machines take: each protocol in a loop on one thread, messages timed in runs of
//! a kind.
//!
//! Disturbances of the machine only increase the times, so the shortest of several windows counts.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::machine::Outgoing;
use weir_core::machine::{Effects, Orders, Shard};
use weir_kv::{Done, ItemCoordinator, Key, Transaction};
use weir_server::embedded::now_ms;

use super::prices::{Price, ProtocolPrices, WirePrices, beginning};
use crate::ycsb::{Drive, Generator, ItemShard, Keys, Machines, Protocol, Shaped, Ycsb};

/// Duration of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub items: u64,
    pub windows: usize,
    /// Transactions in a window.
    pub transactions: u64,
}

impl Effort {
    pub const FULL: Effort = Effort { items: 1_000_000, windows: 5, transactions: 20_000 };
    pub const QUICK: Effort = Effort { items: 50_000, windows: 3, transactions: 2_000 };
}

const SHARDS: ShardId = 5;
const COORDINATORS: CoordinatorId = 2;
/// Transactions under way at each coordinator.
const AT_ONCE: u64 = 256;
/// Operations of the transactions of which most is wanted, and of others that show what an operation more costs.
const LENGTHS: [u32; 2] = [4, 32];

/// Costs of the protocols' steps. They are measured in turn, several times: a temporary slowdown of the machine affects all of them.
pub fn protocols(effort: Effort, mut listener: impl FnMut(&str)) -> BTreeMap<String, ProtocolPrices> {
    const PASSES: usize = 4;
    let machines = Machines { shards: SHARDS, coordinators: COORDINATORS, one_phase: false, seed: 1 };
    let mut least: BTreeMap<String, [Least; 2]> = BTreeMap::new();
    for pass in 1..=PASSES {
        for protocol in Protocol::ALL {
            listener(&format!("{} ({pass} of {PASSES})", protocol.name()));
            let seen = protocol.drive(machines, Measured(effort));
            let known = least.entry(protocol.name().to_owned()).or_default();
            for (known, seen) in known.iter_mut().zip(seen) {
                seen.into_iter().for_each(|(step, seen)| keep_less(known, step, seen));
            }
        }
    }
    least.into_iter().map(|(name, [short, long])| (name, prices(&short, &long))).collect()
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Begin,
    Request,
    Reply,
    Progress,
}

#[derive(Clone, Copy, Default)]
struct Sample {
    ns: u64,
    count: u64,
    operations: u64,
}

type Samples = BTreeMap<(Step, &'static str), Sample>;

struct Measured(Effort);

impl Drive for Measured {
    /// By length.
    type Output = [Least; 2];

    fn run<S: ItemShard, C: ItemCoordinator<S>>(self, shards: Vec<S>, coordinators: Vec<C>) -> [Least; 2] {
        let Measured(effort) = self;
        let workload = |length, read_share, keys| Ycsb {
            items: effort.items,
            length,
            read_share,
            keys,
            ..Ycsb::default()
        };
        let mut steps = Steps { shards, coordinators, samples: Samples::new() };
        let generator = Generator::new(&workload(4, 0.0, Keys::Uniform));
        let load =
            (0..effort.items).step_by(64).map(|from| generator.load(from..effort.items.min(from + 64)));
        steps.all(load, 16);
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
        LENGTHS.map(|length| {
            let mut least = Least::new();
            // Evenly drawn keys, so that nothing is in a cache by chance; hot ones only for what else never happens.
            for (read_share, keys) in [(1.0, Keys::Uniform), (0.0, Keys::Uniform), (0.5, Keys::Zipf(0.99))] {
                let generator = Generator::new(&workload(length, read_share, keys));
                let number = effort.transactions * u64::from(LENGTHS[0]) / u64::from(length);
                let mut of_phase = Least::new();
                for _ in 0..effort.windows {
                    steps.samples.clear();
                    let transactions: Vec<Transaction> =
                        (0..number).map(|_| generator.next(&mut chance)).collect();
                    steps.all(transactions.into_iter(), AT_ONCE);
                    let quiet_ns = least.get(&(Step::Progress, "")).map(|(ns, _)| *ns);
                    charge_drains(&mut steps.samples, quiet_ns);
                    steps.samples.iter().for_each(|(step, sample)| take_least(&mut of_phase, *step, *sample));
                }
                of_phase.into_iter().for_each(|(step, seen)| _ = least.entry(step).or_insert(seen));
            }
            least
        })
    }
}

/// Nanoseconds and operations of one message.
type Least = BTreeMap<(Step, &'static str), (f64, f64)>;

/// Garbage collection after a batch costs more than the batch itself: it is charged to the commits.
fn charge_drains(samples: &mut Samples, quiet_ns: Option<f64>) {
    let Some(quiet_ns) = quiet_ns else { return };
    let Some(progress) = samples.get_mut(&(Step::Progress, "")) else { return };
    let quiet_ns = (quiet_ns * progress.count as f64) as u64;
    let extra_ns = progress.ns.saturating_sub(quiet_ns);
    let mut commits: Vec<&mut Sample> = samples
        .iter_mut()
        .filter(|(step, _)| matches!(step, (Step::Request, "commit" | "write" | "release")))
        .map(|(_, sample)| sample)
        .collect();
    let count: u64 = commits.iter().map(|sample| sample.count).sum();
    for sample in &mut commits {
        sample.ns += extra_ns * sample.count / count.max(1);
    }
}

fn take_least(least: &mut Least, step: (Step, &'static str), sample: Sample) {
    /// Fewer say little.
    const COUNT_MIN: u64 = 30;
    let each = |sum: u64| sum as f64 / sample.count as f64;
    if sample.count >= COUNT_MIN {
        keep_less(least, step, (each(sample.ns), each(sample.operations)));
    }
}

fn keep_less(least: &mut Least, step: (Step, &'static str), seen: (f64, f64)) {
    let known = least.entry(step).or_insert(seen);
    if seen.0 < known.0 {
        *known = seen;
    }
}

/// A message and its operations, from short and long ones.
fn prices(short: &Least, long: &Least) -> ProtocolPrices {
    let mut prices = ProtocolPrices::default();
    for (step, (ns, operations)) in short {
        let slope = long
            .get(step)
            .filter(|more| more.1 > operations + 0.5)
            .map_or(0.0, |more| (more.0 - ns) / (more.1 - operations));
        // Noise must not make the message itself cost nothing.
        let operation_ns = slope.clamp(0.0, if *operations > 0.0 { 0.8 * ns / operations } else { 0.0 });
        let tenths = |ns: f64| (ns * 10.0).round() / 10.0;
        let price =
            Price { each_ns: tenths(ns - operation_ns * operations), operation_ns: tenths(operation_ns) };
        match step {
            (Step::Begin, kind) => _ = prices.begins.insert((*kind).to_owned(), price),
            (Step::Request, kind) => _ = prices.requests.insert((*kind).to_owned(), price),
            (Step::Reply, kind) => _ = prices.replies.insert((*kind).to_owned(), price),
            (Step::Progress, _) => prices.progress_ns = tenths(ns / 2.0),
        }
    }
    prices
}

/// By shard, with its epoch.
type ReplyBatches<S> = Vec<(ShardId, u64, Vec<<S as Shard>::Reply>)>;

/// Shards and coordinators on one thread, everything that is under way delivered at once.
struct Steps<S, C> {
    shards: Vec<S>,
    coordinators: Vec<C>,
    samples: Samples,
}

impl<S: ItemShard, C: ItemCoordinator<S>> Steps<S, C> {
    /// Runs all transactions, that many at once at each coordinator.
    fn all(&mut self, transactions: impl Iterator<Item = Transaction>, at_once: u64) {
        let mut transactions = transactions.fuse();
        let mut orders: Vec<Orders<S::Request, Done>> =
            (0..COORDINATORS).map(|_| Orders::default()).collect();
        for (at, orders) in orders.iter_mut().enumerate() {
            let first: Vec<Transaction> = transactions.by_ref().take(at_once as usize).collect();
            self.begin(at, first, orders);
        }
        let mut peers = Vec::new();
        while orders.iter().any(|orders| !orders.sends.is_empty()) || !peers.is_empty() {
            let mut replies: Vec<ReplyBatches<S>> = (0..COORDINATORS).map(|_| Vec::new()).collect();
            let mut effects = Effects::default();
            for (from, to, request) in std::mem::take(&mut peers) {
                self.step(Sender::Shard(from), to, vec![request], &mut effects);
                self.sort(to, &mut effects, &mut replies, &mut peers);
            }
            for (at, orders) in orders.iter_mut().enumerate() {
                let mut by_shard: Vec<Vec<S::Request>> = (0..SHARDS).map(|_| Vec::new()).collect();
                for (shard, request) in orders.sends.drain(..) {
                    by_shard[usize::from(shard)].push(request);
                }
                for (shard, requests) in by_shard.into_iter().enumerate().filter(|(_, list)| !list.is_empty())
                {
                    self.batch(at, shard as ShardId, requests, &mut effects);
                    self.sort(shard as ShardId, &mut effects, &mut replies, &mut peers);
                }
            }
            for (at, batches) in replies.into_iter().enumerate() {
                for (shard, epoch, replies) in batches {
                    self.replies(at, shard, epoch, replies, &mut orders[at]);
                }
                let ended = std::mem::take(&mut orders[at].done).len();
                let next: Vec<Transaction> = transactions.by_ref().take(ended).collect();
                self.begin(at, next, &mut orders[at]);
            }
        }
    }

    fn note(&mut self, step: (Step, &'static str), begun: Instant, count: u64, operations: usize) {
        let sample = self.samples.entry(step).or_default();
        sample.ns += begun.elapsed().as_nanos() as u64;
        sample.count += count;
        sample.operations += operations as u64;
    }

    fn begin(&mut self, at: usize, transactions: Vec<Transaction>, orders: &mut Orders<S::Request, Done>) {
        let now_ms = now_ms();
        for run in runs(transactions, beginning) {
            let begun = Instant::now();
            for transaction in run.messages {
                self.coordinators[at].begin(now_ms, 0, transaction, orders);
            }
            self.note((Step::Begin, run.kind), begun, run.count, run.operations);
        }
    }

    fn batch(
        &mut self,
        at: usize,
        shard: ShardId,
        requests: Vec<S::Request>,
        effects: &mut Effects<S::Request, S::Reply>,
    ) {
        let begun = Instant::now();
        let progress = self.coordinators[at].progress(shard);
        self.shards[usize::from(shard)].on_progress(now_ms(), at as CoordinatorId, progress);
        self.note((Step::Progress, ""), begun, 1, 0);
        self.step(Sender::Coordinator(at as CoordinatorId), shard, requests, effects);
    }

    fn step(
        &mut self,
        from: Sender,
        shard: ShardId,
        requests: Vec<S::Request>,
        effects: &mut Effects<S::Request, S::Reply>,
    ) {
        let now_ms = now_ms();
        for run in runs(requests, |request| (request.shape().kind, request.shape().operations)) {
            let begun = Instant::now();
            for request in run.messages {
                self.shards[usize::from(shard)].step(now_ms, from, request, effects);
            }
            self.note((Step::Request, run.kind), begun, run.count, run.operations);
        }
    }

    fn sort(
        &self,
        shard: ShardId,
        effects: &mut Effects<S::Request, S::Reply>,
        replies: &mut [ReplyBatches<S>],
        peers: &mut Vec<(ShardId, ShardId, S::Request)>,
    ) {
        let epoch = self.shards[usize::from(shard)].epoch();
        for Outgoing { to: coordinator, message: reply, .. } in effects.replies.drain(..) {
            let batches = &mut replies[coordinator as usize];
            match batches.last_mut().filter(|(from, ..)| *from == shard) {
                Some((_, _, batch)) => batch.push(reply),
                None => batches.push((shard, epoch, vec![reply])),
            }
        }
        peers.extend(effects.peers.drain(..).map(|one| (shard, one.to, one.message)));
    }

    fn replies(
        &mut self,
        at: usize,
        shard: ShardId,
        epoch: u64,
        replies: Vec<S::Reply>,
        orders: &mut Orders<S::Request, Done>,
    ) {
        let now_ms = now_ms();
        self.coordinators[at].on_epoch(shard, epoch);
        for run in runs(replies, |reply| (reply.shape().kind, reply.shape().operations)) {
            let begun = Instant::now();
            for reply in run.messages {
                self.coordinators[at].on_reply(now_ms, reply, orders);
            }
            self.note((Step::Reply, run.kind), begun, run.count, run.operations);
        }
    }
}

/// Messages of one kind that come one after the other.
struct Run<M> {
    kind: &'static str,
    count: u64,
    operations: usize,
    messages: Vec<M>,
}

fn runs<M>(messages: Vec<M>, shape: impl Fn(&M) -> (&'static str, usize)) -> Vec<Run<M>> {
    let mut runs: Vec<Run<M>> = Vec::new();
    for message in messages {
        let (kind, operations) = shape(&message);
        match runs.last_mut().filter(|run| run.kind == kind) {
            Some(run) => {
                run.count += 1;
                run.operations += operations;
                run.messages.push(message);
            }
            None => runs.push(Run { kind, count: 1, operations, messages: vec![message] }),
        }
    }
    runs
}

/// Cost of message transport: frames over TCP on the loopback interface, on a thread that plays both sides.
///
/// Each frame is answered by one, as coordinators and shards speak: what confirms a frame travels with the answer. (One
/// way only, taking a frame in costs seven times as much, for the kernel confirms each of them with a packet.)
///
/// # Errors
/// The system has no loopback.
pub fn wire(effort: Effort) -> std::io::Result<WirePrices> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut asks = TcpStream::connect(listener.local_addr()?)?;
    let (mut answers, _) = listener.accept()?;
    asks.set_nodelay(true)?;
    answers.set_nodelay(true)?;
    let mut frames = |bytes: usize| -> std::io::Result<(f64, f64)> {
        let (mut frame, mut least) = (vec![7; bytes], (f64::MAX, f64::MAX));
        let count = (effort.transactions / 20).max(50);
        for _ in 0..3 * effort.windows {
            let (mut out_ns, mut in_ns) = (0, 0);
            for _ in 0..count {
                for (sent_ns, taken_ns) in
                    [pass(&mut asks, &mut answers, &mut frame)?, pass(&mut answers, &mut asks, &mut frame)?]
                {
                    out_ns += sent_ns;
                    in_ns += taken_ns;
                }
            }
            let each = |ns: u128| ns as f64 / (2 * count) as f64;
            least = (least.0.min(each(out_ns)), least.1.min(each(in_ns)));
        }
        Ok(least)
    };
    const SIZES: [usize; 2] = [256, 16_384];
    let (short, long) = (frames(SIZES[0])?, frames(SIZES[1])?);
    let more = (SIZES[1] - SIZES[0]) as f64;
    let (byte_out_ns, byte_in_ns) = ((long.0 - short.0).max(0.0) / more, (long.1 - short.1).max(0.0) / more);
    let (message_out_ns, message_in_ns) = codec(effort);
    let thousandths = |ns: f64| (ns * 1e3).round() / 1e3;
    Ok(WirePrices {
        batch_out_ns: thousandths(short.0 - byte_out_ns * SIZES[0] as f64),
        batch_in_ns: thousandths(short.1 - byte_in_ns * SIZES[0] as f64),
        message_out_ns: thousandths(message_out_ns),
        message_in_ns: thousandths(message_in_ns),
        byte_out_ns: thousandths(byte_out_ns),
        byte_in_ns: thousandths(byte_in_ns),
        handover_ns: thousandths(handover(effort)),
    })
}

/// Nanoseconds to send a frame and to take it in.
fn pass(from: &mut TcpStream, to: &mut TcpStream, frame: &mut [u8]) -> std::io::Result<(u128, u128)> {
    let begun = Instant::now();
    from.write_all(frame)?;
    let sent = Instant::now();
    to.read_exact(frame)?;
    Ok(((sent - begun).as_nanos(), sent.elapsed().as_nanos()))
}

/// The fields of a read of one key, written one after the other and read again.
fn codec(effort: Effort) -> (f64, f64) {
    let keys: Vec<Key> =
        (0..effort.transactions).map(|at| Key::from(format!("user{at:07}").as_str())).collect();
    let mut least = (f64::MAX, f64::MAX);
    for _ in 0..3 * effort.windows {
        let begun = Instant::now();
        let mut bytes: Vec<u8> = Vec::with_capacity(64 * keys.len());
        for (at, key) in keys.iter().enumerate() {
            bytes.push(5);
            bytes.extend((at as u64).to_le_bytes());
            bytes.extend((at as u64 + 1).to_le_bytes());
            bytes.push(1);
            bytes.push(key.len() as u8);
            bytes.extend(&**key);
        }
        let encoded = Instant::now();
        let mut rest = &bytes[..];
        let mut decoded = Vec::with_capacity(keys.len());
        while let [_, head @ ..] = rest {
            let number = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
            let length = usize::from(head[17]);
            decoded.push((number, vec![Key::new(&head[18..18 + length])]));
            rest = &head[18 + length..];
        }
        let decoding = encoded.elapsed();
        std::hint::black_box(&decoded);
        let each = |time: std::time::Duration| time.as_nanos() as f64 / keys.len() as f64;
        least = (least.0.min(each(encoded - begun)), least.1.min(each(decoding)));
    }
    least
}

/// A batch through a lock from one core to another, as far as one thread can tell.
fn handover(effort: Effort) -> f64 {
    let queue = std::sync::Mutex::new(Vec::with_capacity(8));
    let mut least = f64::MAX;
    for _ in 0..3 * effort.windows {
        let begun = Instant::now();
        for at in 0..effort.transactions {
            queue.lock().expect("one thread").push(Box::new(at));
            std::hint::black_box(queue.lock().expect("one thread").pop());
        }
        least = least.min(begun.elapsed().as_nanos() as f64 / effort.transactions as f64);
    }
    least
}
