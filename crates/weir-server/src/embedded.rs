//! The embedded cluster: threads that carry the shards, batches of messages between them and the
//! coordinators.
//!
//! Drives the same shards as every other deployment. It adds threads, the wall clock and nothing else.
//! There are no more threads for shards than cores: shards that would only take turns on a core take them
//! on one thread, without asking the system's scheduler.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_txn::machine::{Coordinator, Effects, Orders, Sender, Shard};
use weir_txn::ramp::ShardId;

use crate::mailbox::Mailbox;

/// Requests of one coordinator for one shard, with what the shard should know of the coordinator.
#[derive(Debug)]
pub struct RequestBatch<S: Shard> {
    shard: ShardId,
    coordinator: u16,
    progress: S::Progress,
    requests: Vec<S::Request>,
}

/// What a thread of shards takes in.
pub enum Inbound<S: Shard> {
    Batch(RequestBatch<S>),
    /// One shard to another.
    Peer {
        from: ShardId,
        to: ShardId,
        request: S::Request,
    },
}

/// Replies of one shard for one coordinator.
#[derive(Debug)]
pub struct ReplyBatch<S: Shard> {
    shard: ShardId,
    epoch: u64,
    replies: Vec<S::Reply>,
}

pub struct Cluster<S: Shard> {
    inboxes: Vec<Arc<Mailbox<Inbound<S>>>>,
    threads: Vec<JoinHandle<Vec<S>>>,
}

/// A coordinator's ends of its links.
pub struct Links<S: Shard> {
    /// Of the threads; shard `s` is on thread `s % threads`.
    threads: Vec<Arc<Mailbox<Inbound<S>>>>,
    inbox: Arc<Mailbox<ReplyBatch<S>>>,
    outgoing: Vec<Vec<S::Request>>,
    incoming: Vec<ReplyBatch<S>>,
}

impl<S: Shard> Cluster<S> {
    /// Starts the threads that carry the nodes (shards `0..n`, in order), and links for as many
    /// coordinators (ids from 0).
    pub fn start(nodes: Vec<S>, coordinators: usize) -> (Cluster<S>, Vec<Links<S>>) {
        let shards = nodes.len();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut carried: Vec<Vec<S>> = (0..shards.min(cores)).map(|_| Vec::new()).collect();
        for node in nodes {
            let thread = usize::from(node.id()) % carried.len();
            carried[thread].push(node);
        }
        let inboxes: Vec<Arc<Mailbox<Inbound<S>>>> =
            carried.iter().map(|_| Arc::new(Mailbox::new())).collect();
        let replies: Vec<Arc<Mailbox<ReplyBatch<S>>>> =
            (0..coordinators).map(|_| Arc::new(Mailbox::new())).collect();
        let carriers = carried.len();
        let threads = carried
            .into_iter()
            .enumerate()
            .map(|(thread, nodes)| {
                let (inboxes, replies) = (inboxes.clone(), replies.clone());
                std::thread::Builder::new()
                    .name(format!("shards-{thread}"))
                    .spawn(move || serve(nodes, carriers, &inboxes, thread, &replies))
                    .expect("the system can start one more thread")
            })
            .collect();
        let links = replies
            .into_iter()
            .map(|inbox| Links {
                threads: inboxes.clone(),
                inbox,
                outgoing: (0..shards).map(|_| Vec::new()).collect(),
                incoming: Vec::new(),
            })
            .collect();
        (Cluster { inboxes, threads }, links)
    }

    /// Ends the threads once their inboxes are empty, and hands the shards back.
    pub fn stop(self) -> Vec<S> {
        self.inboxes.iter().for_each(|inbox| inbox.close());
        self.threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a shard's assertion failed; see above"))
            .collect()
    }
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn serve<S: Shard>(
    mut nodes: Vec<S>,
    threads: usize,
    inboxes: &[Arc<Mailbox<Inbound<S>>>],
    own: usize,
    coordinators: &[Arc<Mailbox<ReplyBatch<S>>>],
) -> Vec<S> {
    let mut inbound = Vec::new();
    let mut effects = Effects::default();
    let mut outgoing: Vec<Vec<ReplyBatch<S>>> = coordinators.iter().map(|_| Vec::new()).collect();
    while inboxes[own].receive(&mut inbound, None) {
        let now = now_ms();
        for one in inbound.drain(..) {
            let (shard, from) = match &one {
                Inbound::Batch(batch) => (batch.shard, Sender::Coordinator(batch.coordinator)),
                Inbound::Peer { from, to, .. } => (*to, Sender::Shard(*from)),
            };
            let node = &mut nodes[usize::from(shard) / threads];
            match one {
                Inbound::Batch(batch) => {
                    node.on_progress(now, batch.coordinator, batch.progress);
                    for request in batch.requests {
                        node.step(now, from, request, &mut effects);
                    }
                }
                Inbound::Peer { request, .. } => node.step(now, from, request, &mut effects),
            }
            for (coordinator, reply) in effects.replies.drain(..) {
                let batches = &mut outgoing[usize::from(coordinator)];
                match batches.last_mut() {
                    Some(last) if last.shard == shard => last.replies.push(reply),
                    _ => batches.push(ReplyBatch { shard, epoch: 0, replies: vec![reply] }),
                }
            }
            for (to, request) in effects.peers.drain(..) {
                let peer = Inbound::Peer { from: shard, to, request };
                inboxes[usize::from(to) % threads].send_all(std::iter::once(peer));
            }
        }
        for (batches, inbox) in outgoing.iter_mut().zip(coordinators) {
            for batch in batches.iter_mut() {
                batch.epoch = nodes[usize::from(batch.shard) / threads].epoch();
            }
            inbox.send_all(batches.drain(..));
        }
    }
    nodes
}

impl<S: Shard> Links<S> {
    /// Puts requests into the outgoing batches.
    pub fn dispatch<D>(&mut self, orders: &mut Orders<S::Request, D>) {
        for (shard, request) in orders.sends.drain(..) {
            self.outgoing[usize::from(shard)].push(request);
        }
    }

    /// Sends every batch that has something in it.
    pub fn flush<C>(&mut self, coordinator: &mut C)
    where
        C: Coordinator<Request = S::Request, Reply = S::Reply, Progress = S::Progress>,
    {
        let (threads, id) = (self.threads.len(), coordinator.id());
        for (thread, inbox) in self.threads.iter().enumerate() {
            let carried = self.outgoing.iter_mut().enumerate().skip(thread).step_by(threads);
            inbox.send_all(carried.filter(|(_, requests)| !requests.is_empty()).map(|(shard, requests)| {
                let shard = shard as ShardId;
                let progress = coordinator.progress(shard);
                Inbound::Batch(RequestBatch {
                    shard,
                    coordinator: id,
                    progress,
                    requests: std::mem::take(requests),
                })
            }));
        }
    }

    /// Waits for replies and feeds all of them to the coordinator.
    pub fn receive<C>(&mut self, coordinator: &mut C, orders: &mut Orders<S::Request, C::Done>)
    where
        C: Coordinator<Request = S::Request, Reply = S::Reply, Progress = S::Progress>,
    {
        self.inbox.receive(&mut self.incoming, None);
        let now = now_ms();
        for batch in self.incoming.drain(..) {
            coordinator.on_epoch(batch.shard, batch.epoch);
            for reply in batch.replies {
                coordinator.on_reply(now, reply, orders);
            }
        }
    }
}
