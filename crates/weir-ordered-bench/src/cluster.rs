//! A cluster of any protocol on loopback: each party is a thread with a socket of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use weir_baselines::eris::machine::{Client, Protocol};
use weir_core::ids::CoordinatorId;
use weir_net::loopback::free_ports;
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::message::Party;
use weir_ordered_net::Members;
use weir_ordered_net::driver::{PartyError, Running};
use weir_ordered_net::members::Network;
use weir_ordered_net::transport::{Counts, Transport};

use crate::load::{Control, FrontEnd, Phase};
use crate::loss::loss;
use crate::server::{AtRest, ServerParty};
use crate::settings::Settings;
use crate::source::{OperationOf, Source};
use crate::{cpu, load};

/// Places of sequencers: one serves, the other takes its place.
const SEQUENCERS: u8 = 2;

pub type FrontEnds<P, S> = Vec<Running<FrontEnd<<P as Protocol>::Client, S>>>;

/// A cluster that runs.
pub struct Parties<P: Protocol, S: Source> {
    pub cluster: Cluster,
    pub control: Arc<Control>,
    pub replicas: Vec<(ReplicaId, Running<ServerParty<P::Server>>)>,
    pub sequencers: Vec<Running<ServerParty<P::Server>>>,
    pub coordinators: Vec<Running<ServerParty<P::Server>>>,
    pub front_ends: FrontEnds<P, S>,
    pub idle: Receiver<Phase>,
    pub at_rest: Receiver<AtRest>,
}

/// Processor time and counts of a party since its start.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    pub cpu: f64,
    pub counts: Counts,
}

fn members(cluster: Cluster) -> Members {
    let replicas = usize::from(cluster.shards) * usize::from(cluster.replicas);
    let ports = free_ports(1 + usize::from(SEQUENCERS) + replicas);
    let mut addresses = ports.into_iter().map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let mut take = |count: usize| addresses.by_ref().take(count).collect::<Vec<_>>();
    let (coordinators, sequencers, replicas) = (take(1), take(usize::from(SEQUENCERS)), take(replicas));
    let tag = u64::from(std::process::id());
    Members { cluster, tag, network: Network::Udp, coordinators, sequencers, replicas }
}

/// Starts the parties of a cluster, with clients that wait for the first values to be written.
///
/// # Errors
/// The system's.
pub fn start<P, S>(protocol: P, settings: &Settings, source: &S) -> Result<Parties<P, S>, PartyError>
where
    P: Protocol<Client: Client<Operation = OperationOf<S>>>,
    S: Source,
{
    let cluster = settings.cluster();
    let cluster = Cluster { replicas: protocol.replicas(cluster), ..cluster };
    let quota = match settings.until {
        crate::settings::Until::Time(_) => u64::MAX,
        crate::settings::Until::Transactions(count) => count,
    };
    let (tell_idle, idle) = channel();
    let (tell_at_rest, at_rest) = channel();
    let mut starting = Starting {
        protocol,
        settings,
        cluster,
        members: Arc::new(members(cluster)),
        control: Arc::new(Control::new(quota)),
        clients: Vec::new(),
        at_rest: tell_at_rest,
        started: 0,
        begun: Instant::now(),
    };
    let bound = starting.bind_clients()?;
    // All are loaded before any party counts time, which takes part in timeouts.
    let servers: Vec<_> =
        cluster.all_replicas().map(|id| (id, protocol.server(0, id, cluster, 1, &[]))).collect();
    starting.begun = Instant::now();
    let replicas =
        servers.into_iter().map(|(id, server)| Ok((id, starting.start_server(Party::Replica(id), server)?)));
    let replicas = replicas.collect::<Result<Vec<_>, PartyError>>()?;
    let (sequencers, coordinators) = starting.start_services()?;
    let front_ends = starting.start_front_ends(bound, &tell_idle, source)?;
    let control = starting.control;
    Ok(Parties { cluster, control, replicas, sequencers, coordinators, front_ends, idle, at_rest })
}

struct Starting<'a, P> {
    protocol: P,
    settings: &'a Settings,
    cluster: Cluster,
    members: Arc<Members>,
    control: Arc<Control>,
    /// Where the front ends are.
    clients: Vec<(CoordinatorId, SocketAddr)>,
    at_rest: Sender<AtRest>,
    /// Parties started so far.
    started: u64,
    /// All parties count time from here: the comparators that order by clocks wait where these disagree.
    begun: Instant,
}

type RunningServer<P> = Running<ServerParty<<P as Protocol>::Server>>;

impl<P: Protocol> Starting<'_, P> {
    fn bind(&mut self, party: Party) -> Result<Transport, PartyError> {
        self.started += 1;
        let loses = loss(self.settings.loss, self.settings.seed ^ (self.started << 32));
        // It is the only node of the failure coordinator, which needs no Raft.
        let address = if party == Party::FailureCoordinator { Party::CoordinatorNode(0) } else { party };
        let mut transport = Transport::bind(self.members.clone(), address, loses)?;
        if self.settings.is_unpacked {
            transport.unpack_clients();
        }
        self.clients.iter().for_each(|(client, address)| transport.learn(*client, *address));
        Ok(transport)
    }

    /// Clients have any ports, which servers must know before they start.
    fn bind_clients(&mut self) -> Result<Vec<(CoordinatorId, Transport)>, PartyError> {
        let mut bound = Vec::new();
        for client in 1..=self.settings.front_ends as CoordinatorId {
            let transport = self.bind(Party::Client(client))?;
            if let Some(address) = transport.address()? {
                self.clients.push((client, SocketAddr::from(([127, 0, 0, 1], address.port()))));
            }
            bound.push((client, transport));
        }
        Ok(bound)
    }

    fn start_server(&mut self, party: Party, server: P::Server) -> Result<RunningServer<P>, PartyError> {
        let transport = self.bind(party)?;
        let (control, at_rest) = (self.control.clone(), self.at_rest.clone());
        let machine = ServerParty { party, server, control, at_rest };
        Running::start_since(self.begun, &name(party), machine, transport, None)
    }

    /// Sequencers at all places, if the protocol has one, and the failure coordinator.
    #[expect(clippy::type_complexity, reason = "two kinds of services")]
    fn start_services(&mut self) -> Result<(Vec<RunningServer<P>>, Vec<RunningServer<P>>), PartyError> {
        let (mut sequencers, mut coordinators) = (Vec::new(), Vec::new());
        for service in self.protocol.services(self.cluster) {
            let is_sequencer = matches!(service, Party::Sequencer(_));
            for place in 0..if is_sequencer { SEQUENCERS } else { 1 } {
                // The id of a sequencer ends with its place.
                let party = if is_sequencer { Party::Sequencer(1 << 8 | u64::from(place)) } else { service };
                let Some(server) = self.protocol.service(0, party, self.cluster, &[]) else { continue };
                let running = self.start_server(party, server)?;
                if is_sequencer { sequencers.push(running) } else { coordinators.push(running) }
            }
        }
        Ok((sequencers, coordinators))
    }

    fn start_front_ends<S: Source>(
        &mut self,
        bound: Vec<(CoordinatorId, Transport)>,
        idle: &Sender<Phase>,
        source: &S,
    ) -> Result<FrontEnds<P, S>, PartyError>
    where
        P: Protocol<Client: Client<Operation = OperationOf<S>>>,
    {
        let Settings { seed, clients, keeps_answers, .. } = *self.settings;
        let (count, mut first) = (bound.len(), source.first().into_iter());
        let mut front_ends = Vec::new();
        for (client, transport) in bound {
            let place = client as usize - 1;
            let own = clients * (place + 1) / count - clients * place / count;
            let source = source.with_seed(seed.wrapping_add(client << 16));
            // The first one writes the first values.
            let first = first.by_ref().collect();
            let machine = FrontEnd::new(
                self.protocol.client(client, self.cluster),
                own,
                (source, first),
                (self.control.clone(), idle.clone()),
                keeps_answers,
            );
            let name = format!("front-end-{client}");
            front_ends.push(Running::start_since(self.begun, &name, machine, transport, None)?);
        }
        Ok(front_ends)
    }
}

fn name(party: Party) -> String {
    match party {
        Party::Replica(id) => format!("replica-{}-{}", id.shard, id.number),
        Party::Sequencer(_) => "sequencer".to_owned(),
        Party::FailureCoordinator | Party::CoordinatorNode(_) => "coordinator".to_owned(),
        Party::Client(id) => format!("front-end-{id}"),
    }
}

/// Returns processor time and counts of a party so far.
///
/// # Errors
/// It has ended.
pub fn used<M: weir_ordered_net::driver::Machine>(running: &Running<M>) -> Result<Used, PartyError> {
    let look = |_: &M, transport: &Transport, _: bool| Used {
        cpu: cpu::of_this_thread(),
        counts: transport.counts(),
    };
    running.look(look).ok_or(PartyError::Failed)
}

/// Returns the counts of a front end so far.
///
/// # Errors
/// It has ended.
pub fn figures<C: Client<Operation = OperationOf<S>>, S: Source>(
    running: &Running<FrontEnd<C, S>>,
) -> Result<load::Figures, PartyError> {
    running.look(|front_end, _, _| front_end.figures.clone()).ok_or(PartyError::Failed)
}
