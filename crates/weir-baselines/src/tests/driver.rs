//! A small driver: random delays, losses and repetitions from a seed, and a record of what happened.

use std::collections::BTreeMap;

use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::machine::Outgoing;
use weir_core::machine::{Effects, Orders, Shard};
use weir_kv::{Done, ItemCoordinator, Transaction};

use crate::chance::Chance;
use crate::{Comparator, Counts, Drive};

/// Configuration of a run.
#[derive(Clone)]
pub struct Plan {
    pub seed: u64,
    /// By coordinator: each begins `at_once` of them, and another whenever one ends.
    pub work: Vec<Vec<Transaction>>,
    pub at_once: usize,
    pub delay_max: u64,
    /// Of a hundred messages, the number of lost ones, and of duplicated ones.
    pub lost: u64,
    pub twice: u64,
}

pub struct Ended {
    pub transaction: Transaction,
    pub began_ms: u64,
    pub ended_ms: u64,
    pub done: Done,
}

pub struct History {
    pub ended: Vec<Ended>,
    pub begun: usize,
    /// Whether all shards are idle in the end.
    pub all_idle: bool,
    pub counts: Counts,
    pub messages: u64,
}

enum Event<S: Comparator> {
    Request { from: Sender, to: ShardId, progress: Option<S::Progress>, request: S::Request },
    Reply { to: CoordinatorId, from: ShardId, epoch: u64, reply: S::Reply },
    Timer,
}

struct Run<S: Comparator, C> {
    plan: Plan,
    random: Chance,
    now_ms: u64,
    shards: Vec<S>,
    coordinators: Vec<C>,
    /// By time, then by number.
    queue: BTreeMap<(u64, u64), Event<S>>,
    numbers: u64,
    /// By tag.
    begun: Vec<(Transaction, u64)>,
    history: History,
}

const START_MS: u64 = 1_700_000_000_000;
/// Nothing takes so long.
const END_MS: u64 = START_MS + 600_000;
const TIMER_MS: u64 = 50;

impl Drive for Plan {
    type Output = History;

    fn run<S, C>(mut self, shards: Vec<S>, coordinators: Vec<C>) -> History
    where
        S: Comparator,
        C: ItemCoordinator<S>,
    {
        self.work.iter_mut().for_each(|work| work.reverse());
        let counts = Counts::default();
        let history = History { ended: Vec::new(), begun: 0, all_idle: false, counts, messages: 0 };
        let mut run = Run {
            random: Chance::from_seed(self.seed),
            plan: self,
            now_ms: START_MS,
            shards,
            coordinators,
            queue: BTreeMap::new(),
            numbers: 0,
            begun: Vec::new(),
            history,
        };
        run.until_all_has_ended();
        run.history
    }
}

impl<S, C> Run<S, C>
where
    S: Comparator,
    C: ItemCoordinator<S>,
{
    fn until_all_has_ended(&mut self) {
        for id in 0..self.coordinators.len() {
            for _ in 0..self.plan.at_once {
                self.begin(id);
            }
        }
        self.push(TIMER_MS, Event::Timer);
        while let Some(((at_ms, _), event)) = self.queue.pop_first() {
            self.now_ms = at_ms;
            match event {
                Event::Request { from, to, progress, request } => {
                    self.on_request(from, to, progress, request)
                }
                Event::Reply { to, from, epoch, reply } => {
                    let coordinator = &mut self.coordinators[to as usize];
                    coordinator.on_epoch(from, epoch);
                    let mut orders = Orders::default();
                    coordinator.on_reply(self.now_ms, reply, &mut orders);
                    self.carry_out(to as usize, orders);
                }
                Event::Timer => self.on_timer(),
            }
        }
        self.history.all_idle = self.shards.iter().all(Shard::is_idle);
        self.history.begun = self.begun.len();
        for shard in &self.shards {
            let counts = shard.counts();
            self.history.counts.lock_waits += counts.lock_waits;
            self.history.counts.checked_reads += counts.checked_reads;
            self.history.counts.commit_checks += counts.commit_checks;
            self.history.counts.check_messages += counts.check_messages;
        }
    }

    fn begin(&mut self, id: usize) {
        let Some(transaction) = self.plan.work[id].pop() else { return };
        let tag = self.begun.len() as u64;
        self.begun.push((transaction.clone(), self.now_ms));
        let mut orders = Orders::default();
        self.coordinators[id].begin(self.now_ms, tag, transaction, &mut orders);
        self.carry_out(id, orders);
    }

    fn on_timer(&mut self) {
        for id in 0..self.coordinators.len() {
            let mut orders = Orders::default();
            self.coordinators[id].on_timer(self.now_ms, &mut orders);
            self.carry_out(id, orders);
        }
        let busy = self.coordinators.iter().any(|coordinator| !coordinator.is_idle());
        if busy && self.now_ms < END_MS {
            self.push(TIMER_MS, Event::Timer);
        }
    }

    fn on_request(&mut self, from: Sender, to: ShardId, progress: Option<S::Progress>, request: S::Request) {
        let shard = &mut self.shards[to as usize];
        if let (Sender::Coordinator(coordinator), Some(progress)) = (from, progress) {
            shard.on_progress(self.now_ms, coordinator, progress);
        }
        let mut effects = Effects::default();
        shard.step(self.now_ms, from, request, &mut effects);
        let epoch = shard.epoch();
        for Outgoing { to: coordinator, message: reply, .. } in effects.replies {
            self.send(|| Event::Reply { to: coordinator, from: to, epoch, reply: reply.clone() });
        }
        for Outgoing { to: peer, message: request, .. } in effects.peers {
            let from = Sender::Shard(to);
            self.send(|| Event::Request { from, to: peer, progress: None, request: request.clone() });
        }
    }

    fn carry_out(&mut self, id: usize, orders: Orders<S::Request, Done>) {
        for (to, request) in orders.sends {
            let mut progress = Some(self.coordinators[id].progress(to));
            let from = Sender::Coordinator(id as CoordinatorId);
            self.send(|| Event::Request { from, to, progress: progress.take(), request: request.clone() });
        }
        for (tag, done) in orders.done {
            let (transaction, began_ms) = self.begun[tag as usize].clone();
            self.history.ended.push(Ended { transaction, began_ms, ended_ms: self.now_ms, done });
            self.begin(id);
        }
    }

    /// Puts a message on its way: once, twice, or not at all.
    fn send(&mut self, mut message: impl FnMut() -> Event<S>) {
        self.history.messages += 1;
        let fate = self.random.below(100);
        let copies = match fate {
            _ if fate < self.plan.lost => 0,
            _ if fate < self.plan.lost + self.plan.twice => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let delay_ms = 1 + self.random.below(self.plan.delay_max);
            self.push(delay_ms, message());
        }
    }

    fn push(&mut self, delay_ms: u64, event: Event<S>) {
        self.numbers += 1;
        self.queue.insert((self.now_ms + delay_ms, self.numbers), event);
    }
}
