//! A simulated world for any comparator: its machines, disks, a network, faults, and the checks of docs/internals/ordered-baselines.md, all
//! from one seed. The checker of strict serializability is that of ordered transactions.

mod events;
mod history;
#[path = "../../../weir-ordered/tests/world/host.rs"]
#[allow(dead_code, reason = "the world of ordered transactions uses all of it")]
mod host;
pub mod profile;
#[path = "../../../weir-ordered/tests/world/registers.rs"]
#[allow(dead_code, reason = "the checker names them")]
pub mod registers;
#[path = "../../../weir-ordered/tests/world/strict.rs"]
#[allow(dead_code, reason = "the world of ordered transactions uses all of it")]
pub mod strict;

use std::collections::{BTreeMap, BTreeSet};

use crate::chance::Chance;
use weir_baselines::eris::machine::{Client, Effects, Protocol, Server};
use weir_baselines::eris::operation::{Key, Operation, Value};
use weir_core::ids::{CoordinatorId, TxnId};
use weir_core::lsn::Outgoing;
use weir_ordered::cluster::{Cluster, ReplicaId, Timeouts};
use weir_ordered::message::Party;

use events::Event;
use history::History;
use host::Host;
use profile::Profile;
use strict::{Violation, violation};

pub type MessageOf<P> = <<P as Protocol>::Server as Server>::Message;
pub type RecordOf<P> = <<P as Protocol>::Server as Server>::Record;
type HostOf<P> = Host<<P as Protocol>::Server, RecordOf<P>, MessageOf<P>>;

/// Interval of all timers.
const TICK_MS: u64 = 5;
/// Faults end then.
pub const FAULTS_MS: u64 = 2_000;
/// Without faults, something must be answered in so long a time until everything is, and then all must come to rest.
const ANSWER_MS: u64 = 4_000;

/// Executions of a comparator's shard, in an order that has all accesses of a key in theirs.
pub trait Checked:
    Protocol<Client: Client<Operation = Operation>, Server: Server<Values = BTreeMap<Key, Value>>>
{
    /// From the records of one of its replicas.
    fn history(id: ReplicaId, cluster: Cluster, records: &[RecordOf<Self>]) -> Vec<(TxnId, Operation)>;

    /// A shard without records executes that message when it arrives.
    fn executed(_message: &MessageOf<Self>) -> Option<(TxnId, Operation)> {
        None
    }
}

/// Result of a run of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub answered: u64,
    pub aborts: u64,
    pub messages: u64,
    pub crashes: u64,
    pub replaced: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.answered += other.answered;
        self.aborts += other.aborts;
        self.messages += other.messages;
        self.crashes += other.crashes;
        self.replaced += other.replaced;
    }
}

/// A world.
pub struct World<P: Checked> {
    protocol: P,
    profile: Profile,
    cluster: Cluster,
    chance: Chance,
    now_ms: u64,
    events: BTreeMap<(u64, u64), Event<MessageOf<P>>>,
    next_event: u64,
    is_faulty: bool,
    /// Replicas that are cut off from all others outside of this set.
    island: BTreeSet<ReplicaId>,
    /// Whether clients do not reach the island, either.
    is_remote: bool,
    /// How far the clock of each party that is no client is ahead.
    ahead_ms: BTreeMap<Party, u64>,
    servers: BTreeMap<Party, HostOf<P>>,
    /// With the number of transactions that each has yet to begin.
    clients: BTreeMap<CoordinatorId, (P::Client, u32)>,
    next_client: CoordinatorId,
    history: History,
    /// When something was last begun or answered.
    answered_ms: u64,
    counts: Counts,
}

impl<P: Checked> World<P> {
    pub fn new(protocol: P, seed: u64, profile: Profile) -> World<P> {
        let cluster = Cluster {
            shards: profile.shards,
            replicas: profile.replicas,
            timeouts: Timeouts::default(),
            aside_max: 100,
            // Logs of ordered transactions keep all that the checks read.
            truncate_entries: u64::MAX / 8,
        };
        let cluster = Cluster { replicas: protocol.replicas(cluster), ..cluster };
        let server = |id| (Party::Replica(id), Host::new(protocol.server(0, id, cluster, 1, &[]), None));
        let service = |party| Some((party, Host::new(protocol.service(0, party, cluster, &[])?, None)));
        let services = protocol.services(cluster).into_iter().filter_map(service);
        let client = |id| (id, (protocol.client(id, cluster), profile.transactions));
        let mut world = World {
            protocol,
            profile,
            cluster,
            chance: Chance::from_seed(seed),
            now_ms: 0,
            events: BTreeMap::new(),
            next_event: 0,
            is_faulty: true,
            island: BTreeSet::new(),
            is_remote: false,
            ahead_ms: BTreeMap::new(),
            servers: cluster.all_replicas().map(server).chain(services).collect(),
            clients: (1..=profile.clients).map(client).collect(),
            next_client: profile.clients + 1,
            history: History::default(),
            answered_ms: 0,
            counts: Counts::default(),
        };
        for party in world.servers.keys() {
            world.ahead_ms.insert(*party, world.chance.below(profile.skew_ms + 1));
        }
        world.begin();
        world
    }

    /// Runs until everything is answered and all servers are at rest.
    pub fn run(mut self) -> Result<Counts, Violation> {
        while let Some(((at_ms, _), event)) = self.events.pop_first() {
            self.now_ms = at_ms;
            self.happen(event);
            if !self.is_faulty && self.is_answered() && self.is_at_rest() {
                break;
            }
            if at_ms > self.answered_ms.max(FAULTS_MS) + ANSWER_MS.max(20 * self.profile.disk_ms) {
                let answered = self.counts.answered;
                let what =
                    if self.is_answered() { "servers do not come to rest" } else { "not all is answered" };
                return violation("liveness", format!("{what}; {answered} are answered"));
            }
        }
        self.check_end()?;
        Ok(self.counts)
    }

    fn is_answered(&self) -> bool {
        self.clients.values().all(|(client, left)| *left == 0 && client.is_idle())
    }

    fn is_at_rest(&self) -> bool {
        let at_rest = |party: &Party| {
            let host = self.servers.get(party).filter(|host| host.is_durable())?;
            host.machine.as_ref().and_then(Server::at_rest)
        };
        (0..self.cluster.shards).all(|shard| {
            let mut group = self.cluster.group(shard).map(|id| at_rest(&Party::Replica(id)));
            let first = group.next().flatten();
            first.is_some() && group.all(|each| each == first)
        })
    }

    fn check_end(&self) -> Result<(), Violation> {
        let mut histories = BTreeMap::new();
        let mut values = BTreeMap::new();
        for shard in 0..self.cluster.shards {
            let mut of_shard: Option<Vec<(TxnId, Operation)>> = None;
            for id in self.cluster.group(shard) {
                let host = &self.servers[&Party::Replica(id)];
                let Some(server) = &host.machine else { continue };
                let history = self.history_of(id, host.durable());
                if of_shard.as_ref().is_some_and(|before| !self.history.is_same(before, &history)) {
                    return violation("6", format!("{id:?} has executed something else than its peers"));
                }
                of_shard = Some(history);
                values.insert(id, server.values().unwrap_or_default());
            }
            histories.insert(shard, of_shard.unwrap_or_default());
        }
        // Clocks that differ may order transactions otherwise than they have happened.
        self.history.check(&histories, &values, self.cluster, self.profile.skew_ms == 0)
    }

    fn history_of(&self, id: ReplicaId, disk: &[RecordOf<P>]) -> Vec<(TxnId, Operation)> {
        let observed = self.history.observed(id.shard);
        if observed.is_empty() { P::history(id, self.cluster, disk) } else { observed.to_vec() }
    }

    /// The time by a party's clock.
    fn time_of(&self, party: Party) -> u64 {
        let ahead_ms = match party {
            // Clients come and go, so their clocks follow from their names.
            Party::Client(id) => id.wrapping_mul(37) % (self.profile.skew_ms + 1),
            _ => self.ahead_ms.get(&party).copied().unwrap_or(0),
        };
        self.now_ms + ahead_ms
    }

    fn step_server(&mut self, party: Party, step: impl FnOnce(&mut P::Server, &mut Effects<MessageOf<P>>)) {
        let mut out = Effects::default();
        let Some(host) = self.servers.get_mut(&party) else { return };
        let Some(server) = &mut host.machine else { return };
        step(server, &mut out);
        let records = server.take_records();
        let (leaving, written) = host.take(records, out.messages);
        let start = host.start;
        self.send(party, leaving);
        if let Some(up_to) = written {
            let after_ms = self.chance.between(0, self.profile.disk_ms);
            self.schedule(after_ms, Event::Durable(party, start, up_to));
        }
    }

    fn step_client(
        &mut self,
        id: CoordinatorId,
        step: impl FnOnce(&mut P::Client, &mut Effects<MessageOf<P>>),
    ) {
        let mut out = Effects::default();
        let Some((client, _)) = self.clients.get_mut(&id) else { return };
        step(client, &mut out);
        let leaving = out.messages.into_iter().map(|Outgoing { to, message, .. }| (to, message)).collect();
        self.send(Party::Client(id), leaving);
    }

    fn send(&mut self, from: Party, messages: Vec<(Party, MessageOf<P>)>) {
        self.counts.messages += messages.len() as u64;
        for (to, message) in messages {
            for delay_ms in self.delays(from, to) {
                let message = message.clone();
                self.schedule(delay_ms, Event::Deliver { from, to, message: Box::new(message) });
            }
        }
    }

    /// After how many milliseconds a message arrives: once for each time that it does.
    fn delays(&mut self, from: Party, to: Party) -> Vec<u64> {
        let (profile, chance) = (&self.profile, &mut self.chance);
        let delay_ms = chance.between(1, 4);
        if !self.is_faulty {
            return vec![delay_ms];
        }
        let is_in = |party| matches!(party, Party::Replica(id) if self.island.contains(&id));
        let is_client = matches!((from, to), (Party::Client(_), _) | (_, Party::Client(_)));
        let is_cut = is_in(from) != is_in(to) && (self.is_remote || !is_client);
        if is_cut || chance.per_mille(profile.lost) {
            return Vec::new();
        }
        let late_ms = if chance.per_mille(profile.late) { chance.between(5, 300) } else { 0 };
        let mut delays = vec![delay_ms + late_ms];
        if chance.per_mille(profile.doubled) {
            delays.push(delays[0] + chance.below(400));
        }
        delays
    }
}
