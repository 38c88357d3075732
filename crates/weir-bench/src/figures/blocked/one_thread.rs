//! Blocked writes without a network: the machines, their clients and the messages between them on one thread, so that
//! nothing is measured but what they compute.

use std::time::Instant;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::machine::{Coordinator as _, Effects, Orders, Shard as _};
use weir_kv::faults::NoFaults;
use weir_kv::{Coordinator, Done, Options, Partition, Reply, Request, Timeouts, Variant};
use weir_server::embedded::now_ms;

use crate::ycsb::{Generator, Ycsb};

use super::SHARDS;
const CLIENTS: u64 = 256;
/// Interval at which late messages are looked for.
const TIMER_MS: u64 = 40;
/// A doomed coordinator begins transactions for so long.
const DOOMED_MS: u64 = 100;
/// Time-outs of the shards: the second of a real cluster, and five until a coordinator is forgotten.
const PATIENCE: Timeouts = Timeouts { terminate_ms: 1_000, retire_ms: 5_000 };

/// Transactions answered, a second of the thread's own time: what else the machine does is not counted. Two time-outs go by
/// first.
pub fn throughput(workload: &Ycsb, share: f64, seconds: f64) -> f64 {
    let mut stage = Stage::new(workload, share);
    stage.load(workload.items);
    for client in 0..CLIENTS {
        stage.begin(client);
    }
    let two_time_outs = 2.2 * PATIENCE.terminate_ms as f64 / 1e3;
    stage.run(two_time_outs);
    let before = stage.answered;
    let (begun, begun_busy) = (Instant::now(), busy_seconds());
    stage.run(seconds);
    let waited = begun.elapsed().as_secs_f64();
    let took = busy_seconds().zip(begun_busy).map_or(waited, |(after, before)| after - before);
    (stage.answered - before) as f64 / took
}

/// Time for which this thread has had a core; none where the system does not say.
fn busy_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e9)
}

struct Stage {
    shards: Vec<Partition>,
    /// The one that lives, then the doomed ones that still have something to do.
    coordinators: Vec<(CoordinatorId, Coordinator, Orders<Request, Done>)>,
    peers: Vec<(ShardId, ShardId, Request)>,
    generator: Generator,
    chance: Xoshiro256PlusPlus,
    /// A transaction is blocked if a random word is below this.
    blocked_below: u64,
    next_id: CoordinatorId,
    doomed_since_ms: u64,
    timer_ms: u64,
    answered: u64,
}

impl Stage {
    fn new(workload: &Ycsb, share: f64) -> Stage {
        let shard = |id| Partition::recover(id, NoFaults, PATIENCE, Vec::new()).without_log();
        let mut stage = Stage {
            shards: (0..SHARDS).map(shard).collect(),
            coordinators: Vec::new(),
            peers: Vec::new(),
            generator: Generator::new(workload),
            chance: Xoshiro256PlusPlus::seed_from_u64(workload.seed),
            blocked_below: (share * 2f64.powi(64)) as u64,
            next_id: 0,
            doomed_since_ms: 0,
            timer_ms: now_ms(),
            answered: 0,
        };
        stage.start(false);
        stage
    }

    fn start(&mut self, one_phase: bool) {
        let options = Options {
            variant: Variant::Fast,
            shards: SHARDS,
            links_keep_order: true,
            one_phase,
            bugs: NoFaults,
        };
        let coordinator = Coordinator::new(self.next_id, 0, options);
        self.coordinators.push((self.next_id, coordinator, Orders::default()));
        self.next_id += 1;
    }

    fn load(&mut self, items: u64) {
        let now_ms = now_ms();
        for from in (0..items).step_by(64) {
            let transaction = self.generator.load(from..items.min(from + 64));
            let (_, coordinator, orders) = &mut self.coordinators[0];
            coordinator.begin(now_ms, CLIENTS, transaction, orders);
            while self.turn(now_ms) {}
        }
        self.answered = 0;
    }

    fn begin(&mut self, client: u64) {
        let now_ms = now_ms();
        let transaction = self.generator.next(&mut self.chance);
        let is_blocked = self.chance.next_u64() < self.blocked_below;
        if is_blocked && (self.coordinators.len() < 2 || now_ms >= self.doomed_since_ms + DOOMED_MS) {
            self.doomed_since_ms = now_ms;
            self.start(true);
        }
        let at = if is_blocked { self.coordinators.len() - 1 } else { 0 };
        let (_, coordinator, orders) = &mut self.coordinators[at];
        coordinator.begin(now_ms, client, transaction, orders);
    }

    fn run(&mut self, seconds: f64) {
        let begun = Instant::now();
        while begun.elapsed().as_secs_f64() < seconds {
            let now_ms = now_ms();
            if now_ms >= self.timer_ms + TIMER_MS {
                self.timer_ms = now_ms;
                self.on_timer(now_ms);
            }
            self.turn(now_ms);
        }
    }

    fn on_timer(&mut self, now_ms: u64) {
        for at in 0..self.shards.len() {
            let mut effects = Effects::default();
            self.shards[at].on_timer(now_ms, &mut effects);
            self.peers.extend(effects.peers.into_iter().map(|one| (at as ShardId, one.to, one.message)));
        }
        let (_, living, orders) = &mut self.coordinators[0];
        living.on_timer(now_ms, orders);
        // All clients of the doomed coordinators but the last have been answered: these are silent.
        let doomed = self.coordinators.len().saturating_sub(1);
        if doomed > 3 {
            self.coordinators.drain(1..doomed - 2);
        }
    }

    /// Delivers everything that is under way, batch by batch; says whether there was something.
    fn turn(&mut self, now_ms: u64) -> bool {
        let mut replies: Vec<(CoordinatorId, ShardId, Reply)> = Vec::new();
        for (from, to, request) in std::mem::take(&mut self.peers) {
            self.step(now_ms, Sender::Shard(from), to, request, &mut replies);
        }
        let mut some = !replies.is_empty();
        for at in 0..self.coordinators.len() {
            let (id, _, orders) = &mut self.coordinators[at];
            let id = *id;
            let mut by_shard: Vec<Vec<Request>> = (0..SHARDS).map(|_| Vec::new()).collect();
            for (shard, request) in orders.sends.drain(..) {
                // Messages that a doomed coordinator's clients never send.
                if at == 0 || !matches!(request, Request::Commit { .. }) {
                    by_shard[usize::from(shard)].push(request);
                }
            }
            for (shard, requests) in by_shard.into_iter().enumerate().filter(|(_, list)| !list.is_empty()) {
                some = true;
                let progress = self.coordinators[at].1.progress(shard as ShardId);
                self.shards[shard].on_progress(now_ms, id, progress);
                for request in requests {
                    self.step(now_ms, Sender::Coordinator(id), shard as ShardId, request, &mut replies);
                }
            }
        }
        for (id, shard, reply) in replies {
            // Messages to dead coordinators are dropped.
            let Some((_, coordinator, orders)) = self.coordinators.iter_mut().find(|one| one.0 == id) else {
                continue;
            };
            coordinator.on_epoch(shard, self.shards[usize::from(shard)].epoch());
            coordinator.on_reply(now_ms, reply, orders);
        }
        let done: Vec<u64> =
            self.coordinators.iter_mut().flat_map(|one| one.2.done.drain(..)).map(|done| done.0).collect();
        for client in done.into_iter().filter(|client| *client < CLIENTS) {
            self.answered += 1;
            self.begin(client);
            some = true;
        }
        some
    }

    fn step(
        &mut self,
        now_ms: u64,
        from: Sender,
        shard: ShardId,
        request: Request,
        replies: &mut Vec<(CoordinatorId, ShardId, Reply)>,
    ) {
        let mut effects = Effects::default();
        self.shards[usize::from(shard)].step(now_ms, from, request, &mut effects);
        replies.extend(effects.replies.into_iter().map(|one| (one.to, shard, one.message)));
        self.peers.extend(effects.peers.into_iter().map(|one| (shard, one.to, one.message)));
    }
}
