//! The event loop: a heap of messages by their time of arrival.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::machine::Outgoing;
use weir_core::machine::{Coordinator as _, Orders, Shard};
use weir_txn::exec::gather::Gather;
use weir_txn::exec::program::Program;
use weir_txn::faults::{Faults, NoFaults};
use weir_txn::message::{Call, Output, Progress, Reply, Request};
use weir_txn::ramp::{Begin, Coordinator, Event, FetchedRead, Protocol};
use weir_txn::shard::{Effects, Node};
use weir_types::interrupt::Budget;
use weir_types::{SqlError, Value};

use crate::worker::Worker;

/// An assertion that concurrent readers check for rows of their choice.
#[derive(Clone)]
pub struct Audit {
    pub name: String,
    pub gather: Arc<Gather>,
    pub keys: Vec<Vec<Value>>,
}

/// A cluster in virtual time.
pub struct Simulation<F = NoFaults> {
    pub nodes: Vec<Node<F>>,
    coordinators: Vec<Coordinator>,
    chance: Xoshiro256PlusPlus,
    now_us: u64,
    delay_us_max: u64,
    /// Arrivals: time, a tie-breaker, and where the message waits.
    arrivals: BinaryHeap<Reverse<(u64, u64)>>,
    messages: BTreeMap<u64, Message>,
    sent: u64,
    events: Vec<(u64, Event)>,
    effects: Effects,
    /// Number of statements that have run beside the steps of their shard.
    pub worked: u64,
}

enum Message {
    Request { coordinator: usize, shard: ShardId, progress: Progress, request: Request },
    Reply { coordinator: usize, shard: ShardId, epoch: u64, reply: Reply },
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    pub committed: u64,
    pub aborted: BTreeMap<String, u64>,
    pub audits: u64,
    /// Reads that needed a second round.
    pub second_rounds: u64,
    /// Assertions that a concurrent reader saw violated: name, and what it saw first.
    pub violated: BTreeMap<String, String>,
    pub ended_us: u64,
}

/// The step of time where no message is under way.
const TICK_US: u64 = 1_000;

/// The tag of audits; calls have their client's number.
const AUDIT: u64 = u64::MAX;

impl<F: Faults> Simulation<F> {
    /// `delay_us_max`: a message takes from 1 to that many microseconds, so messages overtake one another.
    pub fn new(
        program: &Arc<Program>,
        coordinators: CoordinatorId,
        seed: u64,
        delay_us_max: u64,
        bugs: F,
    ) -> Simulation<F> {
        let nodes = (0..program.shards).map(|shard| Node::new(shard, program.clone(), bugs)).collect();
        Simulation {
            nodes,
            coordinators: (0..coordinators)
                .map(|id| Coordinator::new(id, program.clone(), Protocol::RampFast))
                .collect(),
            chance: Xoshiro256PlusPlus::seed_from_u64(seed),
            now_us: 4_102_444_800_000_000, // The year 2100: clocks must not care.
            delay_us_max,
            arrivals: BinaryHeap::new(),
            messages: BTreeMap::new(),
            sent: 0,
            events: Vec::new(),
            effects: Effects::default(),
            worked: 0,
        }
    }

    /// From now on every statement that looks at rows runs on a worker, which pauses at every row.
    pub fn pause_at_rows(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.set_step_budget(Budget(0)));
    }

    /// Returns whether no transaction is under way at any shard or coordinator.
    pub fn is_idle(&self) -> bool {
        self.nodes.iter().all(Node::is_idle) && self.coordinators.iter().all(Coordinator::is_idle)
    }

    /// Runs what the last step has left to workers, from pause to pause.
    fn run_workers(&mut self, shard: ShardId) {
        let node = &mut self.nodes[usize::from(shard)];
        loop {
            let works = node.take_work();
            if works.is_empty() {
                return;
            }
            for work in works {
                self.worked += 1;
                let mut worker = Worker::at_every_place(work);
                let mut is_done = false;
                while !is_done {
                    node.end_turn();
                    is_done = worker.resume();
                    node.begin_turn();
                }
                drop(worker);
                node.on_work_done(self.now_us / 1000, &mut self.effects);
            }
        }
    }

    /// Runs `clients` closed loops until `next_call` has nothing more for them and everything that was
    /// begun is over; each coordinator audits all the while. `answered` is told of every call.
    pub fn run(
        &mut self,
        clients: usize,
        audits: &[Audit],
        next_call: &mut dyn FnMut(usize) -> Option<Call>,
        answered: &mut dyn FnMut(usize, &Result<Output, SqlError>),
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let begun_us = self.now_us;
        let mut busy = 0;
        for client in 0..clients {
            busy += usize::from(self.begin_call(client, next_call));
        }
        let mut auditing: Vec<Option<usize>> = vec![None; self.coordinators.len()];
        for (coordinator, audit) in auditing.iter_mut().enumerate() {
            *audit = self.begin_audit(coordinator, audits);
        }
        while let Some(Reverse((time, number))) = self.arrivals.pop() {
            self.now_us = time;
            let message = self.messages.remove(&number).expect("every arrival has its message");
            let Some(coordinator) = self.deliver(message) else { continue };
            for (tag, event) in std::mem::take(&mut self.events) {
                match event {
                    Event::Answered(result) => {
                        answered(tag as usize, &result);
                        match result {
                            Ok(_) => outcome.committed += 1,
                            Err(error) => {
                                *outcome
                                    .aborted
                                    .entry(format!("{} {}", error.state(), error.message()))
                                    .or_default() += 1
                            }
                        }
                        if !self.begin_call(tag as usize, next_call) {
                            busy -= 1;
                        }
                    }
                    Event::ReadDone { result, rounds, .. } => {
                        outcome.audits += 1;
                        outcome.second_rounds += u64::from(rounds > 1);
                        let which = auditing[coordinator].take().expect("an audit is under way");
                        let saw = match result.and_then(FetchedRead::rows) {
                            Ok(rows) => rows.first().map(|row| format!("{row:?}")),
                            Err(error) => Some(error.to_string()),
                        };
                        if let Some(saw) = saw {
                            outcome.violated.entry(audits[which].name.clone()).or_insert(saw);
                        }
                        if busy > 0 {
                            auditing[coordinator] = self.begin_audit(coordinator, audits);
                        }
                    }
                }
            }
        }
        outcome.ended_us = self.now_us - begun_us;
        outcome
    }

    /// One call or read of the first coordinator, from its beginning until nothing of it is under way. Time passes while nothing
    /// else does, so what was put off comes.
    pub fn ask(&mut self, begin: Begin) -> Event {
        let mut orders = Orders::default();
        self.coordinators[0].begin(self.now_us / 1000, AUDIT, begin, &mut orders);
        self.post(0, orders);
        let mut answer = None;
        loop {
            answer =
                std::mem::take(&mut self.events).into_iter().map(|(_, event)| event).next_back().or(answer);
            if let Some(Reverse((time, number))) = self.arrivals.pop() {
                self.now_us = time;
                let message = self.messages.remove(&number).expect("every arrival has its message");
                self.deliver(message);
                continue;
            }
            if let Some(answer) = answer {
                return answer;
            }
            self.now_us += TICK_US;
            let mut orders = Orders::default();
            self.coordinators[0].on_timer(self.now_us / 1000, &mut orders);
            self.post(0, orders);
        }
    }

    fn begin_call(&mut self, client: usize, next_call: &mut dyn FnMut(usize) -> Option<Call>) -> bool {
        let Some(call) = next_call(client) else { return false };
        let coordinator = client % self.coordinators.len();
        let mut orders = Orders::default();
        let now_ms = self.now_us / 1000;
        self.coordinators[coordinator].begin(now_ms, client as u64, Begin::Call(call), &mut orders);
        self.post(coordinator, orders);
        true
    }

    fn begin_audit(&mut self, coordinator: usize, audits: &[Audit]) -> Option<usize> {
        if audits.is_empty() {
            return None;
        }
        let which = self.chance.next_u64() as usize % audits.len();
        let audit = &audits[which];
        let key = audit.keys[self.chance.next_u64() as usize % audit.keys.len()].clone();
        let mut orders = Orders::default();
        let now_ms = self.now_us / 1000;
        let read = Begin::Read(audit.gather.clone(), key);
        self.coordinators[coordinator].begin(now_ms, AUDIT, read, &mut orders);
        self.post(coordinator, orders);
        Some(which)
    }

    /// Sends what is to be sent; keeps the answers for the loop.
    fn post(&mut self, coordinator: usize, orders: Orders<Request, Event>) {
        for (shard, request) in orders.sends {
            let progress = self.coordinators[coordinator].progress(shard);
            self.send(Message::Request { coordinator, shard, progress, request });
        }
        self.events.extend(orders.done);
    }

    fn send(&mut self, message: Message) {
        let arrival = self.now_us + 1 + self.chance.next_u64() % self.delay_us_max;
        self.arrivals.push(Reverse((arrival, self.sent)));
        self.messages.insert(self.sent, message);
        self.sent += 1;
    }

    /// The coordinator that got a reply, if one did.
    fn deliver(&mut self, message: Message) -> Option<usize> {
        match message {
            Message::Request { coordinator, shard, progress, request } => {
                let (node, now_ms) = (&mut self.nodes[usize::from(shard)], self.now_us / 1000);
                node.on_progress(now_ms, coordinator as CoordinatorId, progress);
                let from = Sender::Coordinator(coordinator as CoordinatorId);
                node.step(now_ms, from, request, &mut self.effects);
                self.run_workers(shard);
                let epoch = self.nodes[usize::from(shard)].epoch();
                for Outgoing { to, message: reply, .. } in std::mem::take(&mut self.effects.replies) {
                    self.send(Message::Reply { coordinator: to as usize, shard, epoch, reply });
                }
                None
            }
            Message::Reply { coordinator, shard, epoch, reply } => {
                let mut orders = Orders::default();
                let of = &mut self.coordinators[coordinator];
                of.on_epoch(shard, epoch);
                of.on_reply(self.now_us / 1000, reply, &mut orders);
                self.post(coordinator, orders);
                Some(coordinator)
            }
        }
    }
}
