//! The embedded cluster: threads that carry the shards and their clients, and batches of messages between
//! them.
//!
//! Drives the same shards and coordinators as every other deployment. It adds threads, the wall clock and
//! nothing else. There are no more threads than cores: shards and clients that would only take turns on a
//! core take them on one thread, without asking the system's scheduler, and what stays on a thread is
//! never handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::machine::Outgoing;
use weir_core::machine::{ClientOrders, Clients, Coordinator, Effects, Orders, Shard};
pub use weir_net::clock::now_ms;

use crate::mailbox::Mailbox;

/// Requests of one coordinator for one shard, with what the shard should know of the coordinator.
struct RequestBatch<S: Shard> {
    shard: ShardId,
    coordinator: CoordinatorId,
    progress: S::Progress,
    requests: Vec<S::Request>,
}

/// Replies of one shard for one coordinator.
struct ReplyBatch<S: Shard> {
    shard: ShardId,
    coordinator: CoordinatorId,
    epoch: u64,
    replies: Vec<S::Reply>,
}

/// Input of a thread.
enum Inbound<S: Shard> {
    Requests(RequestBatch<S>),
    Replies(ReplyBatch<S>),
    /// One shard to another.
    Peer {
        from: ShardId,
        to: ShardId,
        request: S::Request,
    },
}

/// Which thread carries what.
#[derive(Clone, Copy)]
struct Placement {
    threads: usize,
    /// Threads that carry shards; the others, if there are more cores, are for clients.
    shard_threads: usize,
}

impl Placement {
    fn of_shard(self, shard: ShardId) -> usize {
        usize::from(shard) % self.shard_threads
    }

    fn of_coordinator(self, coordinator: CoordinatorId) -> usize {
        if self.shard_threads == self.threads {
            coordinator as usize % self.threads
        } else {
            self.shard_threads + coordinator as usize % (self.threads - self.shard_threads)
        }
    }
}

/// A cluster under way.
pub struct Cluster<S: Shard, C: Clients<S>> {
    threads: Vec<std::thread::JoinHandle<(Vec<S>, Vec<C>)>>,
}

impl<S: Shard, C: Clients<S>> Cluster<S, C> {
    /// Starts the threads. Shards and clients are given in the order of their ids, which count from 0.
    pub fn start(shards: Vec<S>, clients: Vec<C>) -> Cluster<S, C> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = cores.min(shards.len() + clients.len()).max(1);
        let placement = Placement { threads, shard_threads: shards.len().clamp(1, threads) };
        let inboxes: Arc<[Mailbox<Inbound<S>>]> = (0..threads).map(|_| Mailbox::new()).collect();
        let active = Arc::new(AtomicUsize::new(clients.len()));
        let mut carriers: Vec<Carrier<S, C>> = (0..threads)
            .map(|own| Carrier {
                own,
                placement,
                shards: Vec::new(),
                clients: Vec::new(),
                inboxes: inboxes.clone(),
                active: active.clone(),
                outgoing: (0..threads).map(|_| Vec::new()).collect(),
                own_replies: Vec::new(),
                requests: Vec::new(),
                replies: Vec::new(),
                effects: Effects::default(),
            })
            .collect();
        let shard_count = shards.len();
        for shard in shards {
            carriers[placement.of_shard(shard.id())].shards.push(shard);
        }
        for mut one in clients {
            let coordinator = one.coordinator().id();
            let carried = Carried { coordinator, clients: one, orders: Orders::default(), ended: false };
            carriers[placement.of_coordinator(coordinator)].clients.push(carried);
        }
        let start = |carrier: Carrier<S, C>| {
            std::thread::Builder::new()
                .name(format!("weir-{}", carrier.own))
                .spawn(move || carrier.run(shard_count))
                .expect("the system can start one more thread")
        };
        Cluster { threads: carriers.into_iter().map(start).collect() }
    }

    /// All clients have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(std::thread::JoinHandle::is_finished)
    }

    /// Waits for all clients to end, and hands back the shards and the clients, each in order of ids.
    pub fn join(self) -> (Vec<S>, Vec<C>) {
        let (mut shards, mut clients) = (Vec::new(), Vec::new());
        for thread in self.threads {
            let (of_thread, clients_of_thread) = thread.join().expect("an assertion failed; see above");
            shards.extend(of_thread);
            clients.extend(clients_of_thread.into_iter().map(|mut one| (one.coordinator().id(), one)));
        }
        shards.sort_by_key(Shard::id);
        clients.sort_by_key(|(id, _)| *id);
        (shards, clients.into_iter().map(|(_, one)| one).collect())
    }
}

/// State of one thread.
struct Carrier<S: Shard, C: Clients<S>> {
    own: usize,
    placement: Placement,
    shards: Vec<S>,
    clients: Vec<Carried<S, C>>,
    inboxes: Arc<[Mailbox<Inbound<S>>]>,
    /// Number of clients, of all threads, that have not ended.
    active: Arc<AtomicUsize>,
    /// By thread: what the next turn hands over, and what it takes in on this one.
    outgoing: Vec<Vec<Inbound<S>>>,
    /// For clients of this thread, which take it in the same turn.
    own_replies: Vec<ReplyBatch<S>>,
    /// By shard: requests of the clients whose turn it is.
    requests: Vec<Vec<S::Request>>,
    /// Replies of the current batch, by coordinator.
    replies: Vec<ReplyBatch<S>>,
    effects: Effects<S::Request, S::Reply>,
}

struct Carried<S: Shard, C: Clients<S>> {
    coordinator: CoordinatorId,
    clients: C,
    orders: ClientOrders<S, C>,
    ended: bool,
}

impl<S: Shard, C: Clients<S>> Carrier<S, C> {
    fn run(mut self, shards: usize) -> (Vec<S>, Vec<C>) {
        self.requests = (0..shards).map(|_| Vec::new()).collect();
        for at in 0..self.clients.len() {
            let Carried { clients, orders, .. } = &mut self.clients[at];
            clients.begin(orders);
            self.take_turn(at);
        }
        self.hand_over();
        self.end_clients();
        let mut inbound = Vec::new();
        while self.receive(&mut inbound) {
            let now = now_ms();
            for one in inbound.drain(..) {
                match one {
                    Inbound::Requests(batch) => self.serve(now, batch),
                    Inbound::Peer { from, to, request } => self.serve_peer(now, from, to, request),
                    Inbound::Replies(batch) => self.take_replies(now, batch),
                }
            }
            // Shards first: what they answer to clients of this thread is taken in the same turn.
            let mut own_replies = std::mem::take(&mut self.own_replies);
            own_replies.drain(..).for_each(|batch| self.take_replies(now, batch));
            self.own_replies = own_replies;
            for at in 0..self.clients.len() {
                self.take_turn(at);
            }
            self.hand_over();
            self.end_clients();
        }
        (self.shards, self.clients.into_iter().map(|carried| carried.clients).collect())
    }

    /// The next turn's messages: those that stayed on this thread, and those that have come. Waits only where
    /// there is nothing of its own to do; false once all clients of all threads have ended.
    fn receive(&mut self, inbound: &mut Vec<Inbound<S>>) -> bool {
        let mut own = std::mem::take(&mut self.outgoing[self.own]);
        if own.is_empty() {
            return self.inboxes[self.own].receive(inbound, None);
        }
        self.inboxes[self.own].take(inbound);
        inbound.append(&mut own);
        true
    }

    fn serve(&mut self, now: u64, batch: RequestBatch<S>) {
        let shard = &mut self.shards[usize::from(batch.shard) / self.placement.shard_threads];
        shard.on_progress(now, batch.coordinator, batch.progress);
        for request in batch.requests {
            shard.step(now, Sender::Coordinator(batch.coordinator), request, &mut self.effects);
        }
        self.send_effects(batch.shard);
    }

    fn serve_peer(&mut self, now: u64, from: ShardId, to: ShardId, request: S::Request) {
        let shard = &mut self.shards[usize::from(to) / self.placement.shard_threads];
        shard.step(now, Sender::Shard(from), request, &mut self.effects);
        self.send_effects(to);
    }

    fn send_effects(&mut self, shard: ShardId) {
        let epoch = self.shards[usize::from(shard) / self.placement.shard_threads].epoch();
        for Outgoing { to: coordinator, message: reply, .. } in self.effects.replies.drain(..) {
            match self.replies.iter_mut().find(|batch| batch.coordinator == coordinator) {
                Some(batch) => batch.replies.push(reply),
                None => self.replies.push(ReplyBatch { shard, coordinator, epoch, replies: vec![reply] }),
            }
        }
        for batch in self.replies.drain(..) {
            let thread = self.placement.of_coordinator(batch.coordinator);
            if thread == self.own {
                self.own_replies.push(batch);
            } else {
                self.outgoing[thread].push(Inbound::Replies(batch));
            }
        }
        for Outgoing { to, message: request, .. } in self.effects.peers.drain(..) {
            let thread = self.placement.of_shard(to);
            self.outgoing[thread].push(Inbound::Peer { from: shard, to, request });
        }
    }

    fn take_replies(&mut self, now: u64, batch: ReplyBatch<S>) {
        let carried = self.clients.iter_mut().find(|one| one.coordinator == batch.coordinator);
        let Carried { clients, orders, .. } = carried.expect("replies go to the thread of their coordinator");
        let coordinator = clients.coordinator();
        coordinator.on_epoch(batch.shard, batch.epoch);
        for reply in batch.replies {
            coordinator.on_reply(now, reply, orders);
        }
    }

    /// Lets the clients go on from what has been done, and sends what they and their coordinator want sent.
    fn take_turn(&mut self, at: usize) {
        let Carried { clients, orders, .. } = &mut self.clients[at];
        while !orders.done.is_empty() {
            clients.go_on(orders);
        }
        for (shard, request) in orders.sends.drain(..) {
            self.requests[usize::from(shard)].push(request);
        }
        let coordinator = clients.coordinator();
        for (shard, requests) in self.requests.iter_mut().enumerate().filter(|(_, queue)| !queue.is_empty()) {
            let shard = shard as ShardId;
            // The next batch is likely as large; growing to it would copy it several times.
            let room = Vec::with_capacity(requests.len());
            let requests = std::mem::replace(requests, room);
            let progress = coordinator.progress(shard);
            let batch = RequestBatch { shard, coordinator: coordinator.id(), progress, requests };
            self.outgoing[self.placement.of_shard(shard)].push(Inbound::Requests(batch));
        }
    }

    /// Gives the other threads what is for them.
    fn hand_over(&mut self) {
        for (thread, messages) in self.outgoing.iter_mut().enumerate() {
            if thread != self.own && !messages.is_empty() {
                self.inboxes[thread].send_all(messages.drain(..));
            }
        }
    }

    /// Looks which clients have ended, and closes all inboxes if they are the last. Only after everything has been
    /// handed over: nothing is sent to an inbox that is closed.
    fn end_clients(&mut self) {
        for Carried { clients, ended, .. } in self.clients.iter_mut().filter(|carried| !carried.ended) {
            *ended = clients.have_ended();
            if *ended && self.active.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.inboxes.iter().for_each(Mailbox::close);
            }
        }
    }
}
