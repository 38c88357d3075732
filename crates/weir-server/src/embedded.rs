//! The embedded cluster: one thread per shard, batches of messages between them and the coordinators.
//!
//! Drives the same [`Node`]s as every other deployment. It adds threads, the wall clock and nothing else.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_txn::node::{Effects, Node};
use weir_txn::ramp::{Coordinator, Event, Reply, Request, ShardId};

use crate::mailbox::Mailbox;

/// Requests of one coordinator for one shard, with what the shard should know of the coordinator.
#[derive(Debug)]
pub struct RequestBatch {
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
    threads: Vec<JoinHandle<Node>>,
}

/// A coordinator's ends of its links.
pub struct Links {
    shards: Vec<Arc<Mailbox<RequestBatch>>>,
    inbox: Arc<Mailbox<ReplyBatch>>,
    outgoing: Vec<Vec<Request>>,
    incoming: Vec<ReplyBatch>,
}

impl Cluster {
    /// Starts a thread for each node, and links for as many coordinators (ids from 0).
    pub fn start(nodes: Vec<Node>, coordinators: usize) -> (Cluster, Vec<Links>) {
        let inboxes: Vec<Arc<Mailbox<RequestBatch>>> =
            nodes.iter().map(|_| Arc::new(Mailbox::new())).collect();
        let replies: Vec<Arc<Mailbox<ReplyBatch>>> =
            (0..coordinators).map(|_| Arc::new(Mailbox::new())).collect();
        let threads = nodes
            .into_iter()
            .zip(&inboxes)
            .map(|(node, inbox)| {
                let (inbox, replies) = (inbox.clone(), replies.clone());
                std::thread::Builder::new()
                    .name(format!("shard-{}", node.shard))
                    .spawn(move || serve(node, &inbox, &replies))
                    .expect("the system can start one more thread")
            })
            .collect();
        let links = replies
            .into_iter()
            .map(|inbox| Links {
                shards: inboxes.clone(),
                inbox,
                outgoing: inboxes.iter().map(|_| Vec::new()).collect(),
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
            .map(|thread| thread.join().expect("a shard's assertion failed; see above"))
            .collect()
    }
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn serve(mut node: Node, inbox: &Mailbox<RequestBatch>, coordinators: &[Arc<Mailbox<ReplyBatch>>]) -> Node {
    let mut batches = Vec::new();
    let mut effects = Effects::default();
    let mut outgoing: Vec<Vec<Reply>> = coordinators.iter().map(|_| Vec::new()).collect();
    while inbox.receive(&mut batches, None) {
        let now = now_ms();
        for batch in batches.drain(..) {
            node.on_progress(batch.coordinator, batch.settled_below, batch.drained);
            for request in batch.requests {
                node.step(now, request, &mut effects);
            }
        }
        for (coordinator, reply) in effects.replies.drain(..) {
            outgoing[usize::from(coordinator)].push(reply);
        }
        for (replies, inbox) in outgoing.iter_mut().zip(coordinators) {
            if !replies.is_empty() {
                let replies = std::mem::take(replies);
                inbox.send(ReplyBatch { shard: node.shard, epoch: node.epoch(), replies });
            }
        }
    }
    node
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
        for (shard, (requests, inbox)) in self.outgoing.iter_mut().zip(&self.shards).enumerate() {
            if !requests.is_empty() {
                inbox.send(RequestBatch {
                    coordinator: coordinator.id,
                    settled_below: coordinator.settled_below(),
                    drained: coordinator.drained(shard as ShardId),
                    requests: std::mem::take(requests),
                });
            }
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
