//! A cluster without faults in which every message takes one step: counts the message delays and the messages of a transaction.

use std::collections::BTreeMap;

use weir_baselines::eris::machine::{Client, Completed, Effects, Server};
use weir_baselines::eris::operation::{Action, Operation};
use weir_core::lsn::Outgoing;
use weir_ordered::cluster::{Cluster, Timeouts};
use weir_ordered::message::Party;

use crate::world::{Checked, MessageOf};

/// Steps after which nothing can come any more.
const DELAYS_MAX: u32 = 50;

pub struct Lockstep<P: Checked> {
    servers: BTreeMap<Party, P::Server>,
    client: P::Client,
    under_way: Vec<(Party, Party, MessageOf<P>)>,
    pub messages: u32,
    now_ms: u64,
}

/// A transaction, as its client sees it.
#[derive(Debug)]
pub struct Seen {
    pub completed: Completed,
    /// Message delays until the client is answered.
    pub delays: u32,
    /// Messages that were sent until nothing is under way any more.
    pub messages: u32,
    /// Message delays until nothing is under way any more.
    pub delays_until_rest: u32,
}

impl<P: Checked> Lockstep<P> {
    pub fn new(protocol: P, shards: u16) -> Lockstep<P> {
        let timeouts = Timeouts::DEFAULT;
        let cluster = Cluster { shards, replicas: 3, timeouts, truncate_entries: 10, aside_max: 10 };
        let cluster = Cluster { replicas: protocol.replicas(cluster), ..cluster };
        let server = |id| (Party::Replica(id), protocol.server(0, id, cluster, 1, &[]));
        let servers = cluster.all_replicas().map(server).collect();
        let client = protocol.client(1, cluster);
        Lockstep { servers, client, under_way: Vec::new(), messages: 0, now_ms: 1 }
    }

    fn send(&mut self, from: Party, out: Effects<MessageOf<P>>) {
        self.messages += out.messages.len() as u32;
        self.under_way
            .extend(out.messages.into_iter().map(|Outgoing { to, message, .. }| (from, to, message)));
    }

    /// Runs one transaction alone.
    pub fn run(&mut self, actions: &[Action]) -> Seen {
        let mut out = Effects::default();
        self.messages = 0;
        self.client.begin(self.now_ms, Operation::new(actions), &mut out);
        self.send(Party::Client(1), out);
        let (mut answered, mut delays) = (None, 0);
        while !self.under_way.is_empty() {
            delays += 1;
            self.now_ms += 1;
            assert!(delays < DELAYS_MAX, "messages without end");
            for (from, to, message) in std::mem::take(&mut self.under_way) {
                if let Some(completed) = self.deliver(from, to, message) {
                    answered = Some((completed, delays));
                }
            }
        }
        let (completed, delays_of_answer) = answered.expect("an answer without faults");
        Seen { completed, delays: delays_of_answer, messages: self.messages, delays_until_rest: delays }
    }

    fn deliver(&mut self, from: Party, to: Party, message: MessageOf<P>) -> Option<Completed> {
        let mut out = Effects::default();
        let mut completed = None;
        match to {
            Party::Client(_) => completed = self.client.step(self.now_ms, from, message, &mut out),
            _ => {
                let server = self.servers.get_mut(&to).expect("a party of the cluster");
                server.step(self.now_ms, from, message, &mut out);
                server.take_records();
            }
        }
        self.send(to, out);
        completed
    }
}
