//! The embedded cluster: threads that carry the shards, batches of messages between them and the
//! coordinators.
//!
//! Drives the same [`Node`]s as every other deployment. It adds threads, the wall clock and nothing else.
//! There are no more threads for shards than cores: shards that would only take turns on a core take them
//! on one thread, without asking the system's scheduler.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_txn::node::{Effects, Node};
use weir_txn::ramp::{Coordinator, Event, Reply, Request, ShardId};

use crate::mailbox::Mailbox;

/// Requests of one coordinator for one shard, with what the shard should know of the coordinator.
#[derive(Debug)]
pub struct RequestBatch {
    shard: ShardId,
    coordinator: u16,
    settled_below: u64,
    drained: u64,
    requests: Vec<Request>,
}

/// Replies of one shard for one coordinator.
#[derive(Debug)]
pub struct ReplyBatch {
    shard: ShardId,
    epoch: u64,
    replies: Vec<Reply>,
}

pub struct Cluster {
    inboxes: Vec<Arc<Mailbox<RequestBatch>>>,
    threads: Vec<JoinHandle<Vec<Node>>>,
}

/// A coordinator's ends of its links.
pub struct Links {
    /// Of the threads; shard `s` is on thread `s % threads`.
    threads: Vec<Arc<Mailbox<RequestBatch>>>,
    inbox: Arc<Mailbox<ReplyBatch>>,
    outgoing: Vec<Vec<Request>>,
    incoming: Vec<ReplyBatch>,
}

impl Cluster {
    /// Starts the threads that carry the nodes (shards `0..n`, in order), and links for as many
    /// coordinators (ids from 0).
    pub fn start(nodes: Vec<Node>, coordinators: usize) -> (Cluster, Vec<Links>) {
        let shards = nodes.len();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut carried: Vec<Vec<Node>> = (0..shards.min(cores)).map(|_| Vec::new()).collect();
        for node in nodes {
            let thread = usize::from(node.shard) % carried.len();
            carried[thread].push(node);
        }
        let inboxes: Vec<Arc<Mailbox<RequestBatch>>> =
            carried.iter().map(|_| Arc::new(Mailbox::new())).collect();
        let replies: Vec<Arc<Mailbox<ReplyBatch>>> =
            (0..coordinators).map(|_| Arc::new(Mailbox::new())).collect();
        let carriers = carried.len();
        let threads = carried
            .into_iter()
            .zip(&inboxes)
            .enumerate()
            .map(|(thread, (nodes, inbox))| {
                let (inbox, replies) = (inbox.clone(), replies.clone());
                std::thread::Builder::new()
                    .name(format!("shards-{thread}"))
                    .spawn(move || serve(nodes, carriers, &inbox, &replies))
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
    pub fn stop(self) -> Vec<Node> {
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

fn serve(
    mut nodes: Vec<Node>,
    threads: usize,
    inbox: &Mailbox<RequestBatch>,
    coordinators: &[Arc<Mailbox<ReplyBatch>>],
) -> Vec<Node> {
    let mut batches = Vec::new();
    let mut effects = Effects::default();
    let mut outgoing: Vec<Vec<ReplyBatch>> = coordinators.iter().map(|_| Vec::new()).collect();
    while inbox.receive(&mut batches, None) {
        let now = now_ms();
        for batch in batches.drain(..) {
            let node = &mut nodes[usize::from(batch.shard) / threads];
            node.on_progress(batch.coordinator, batch.settled_below, batch.drained);
            for request in batch.requests {
                node.step(now, request, &mut effects);
            }
            for (coordinator, reply) in effects.replies.drain(..) {
                let batches = &mut outgoing[usize::from(coordinator)];
                match batches.last_mut() {
                    Some(last) if last.shard == node.shard => last.replies.push(reply),
                    _ => batches.push(ReplyBatch { shard: node.shard, epoch: 0, replies: vec![reply] }),
                }
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

impl Links {
    /// Puts requests into the outgoing batches; hands the other events to `event`.
    pub fn dispatch(&mut self, events: &mut Vec<Event>, mut event: impl FnMut(Event)) {
        for one in events.drain(..) {
            match one {
                Event::Send(shard, request) => self.outgoing[usize::from(shard)].push(request),
                other => event(other),
            }
        }
    }

    /// Sends every batch that has something in it.
    pub fn flush(&mut self, coordinator: &Coordinator) {
        let threads = self.threads.len();
        for (thread, inbox) in self.threads.iter().enumerate() {
            let carried = self.outgoing.iter_mut().enumerate().skip(thread).step_by(threads);
            inbox.send_all(carried.filter(|(_, requests)| !requests.is_empty()).map(|(shard, requests)| {
                RequestBatch {
                    shard: shard as ShardId,
                    coordinator: coordinator.id,
                    settled_below: coordinator.settled_below(),
                    drained: coordinator.drained(shard as ShardId),
                    requests: std::mem::take(requests),
                }
            }));
        }
    }

    /// Waits for replies and feeds all of them to the coordinator.
    pub fn receive(&mut self, coordinator: &mut Coordinator, events: &mut Vec<Event>) {
        self.inbox.receive(&mut self.incoming, None);
        for batch in self.incoming.drain(..) {
            coordinator.on_epoch(batch.shard, batch.epoch);
            for reply in batch.replies {
                coordinator.on_reply(reply, events);
            }
        }
    }
}
