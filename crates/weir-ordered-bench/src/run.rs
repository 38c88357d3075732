//! A run: a cluster is filled, loaded and measured, comes to rest, and is checked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use weir_baselines::eris::faults::NoFaults;
use weir_baselines::eris::granola::Granola;
use weir_baselines::eris::lock_store::LockStore;
use weir_baselines::eris::machine::{Client, Protocol, Server};
use weir_baselines::eris::nt_ur::NtUr;
use weir_baselines::eris::ordered::Ordered;
use weir_baselines::eris::tapir::Tapir;
use weir_core::ids::ShardId;
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::message::Party;
use weir_ordered::packet::Index;
use weir_ordered_net::driver::{Machine, PartyError, Running};

use crate::cluster::{self, Parties, Used, start, used};
use crate::load::{Answered, Phase};
use crate::report::{Report, failover, total};
use crate::server::{AtRest, ServerParty};
use crate::settings::{Settings, Until, Workload};
use crate::source::{AnsweredOf, OperationOf, RegisterSource, SnapshotOf, Source};
use crate::tpcc::TpccSource;

/// Names of the protocols.
pub const PROTOCOLS: [&str; 6] = ["nt-ur", "ordered", "ordered-global", "lock-store", "granola", "tapir"];

/// Time to warm up, at most.
const WARM_UP: Duration = Duration::from_millis(500);
/// A phase whose end does not come by then has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a run has failed.
#[derive(Debug)]
pub enum RunError {
    /// No protocol has that name.
    Protocol(String),
    Party(PartyError),
    /// A phase does not end.
    Stuck(&'static str),
    /// Answers or values contradict what the protocol promises.
    Wrong(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Protocol(name) => write!(f, "no protocol {name}: there are {}", PROTOCOLS.join(", ")),
            RunError::Party(error) => write!(f, "{error}"),
            RunError::Stuck(phase) => write!(f, "{phase} has not ended"),
            RunError::Wrong(why) => write!(f, "wrong: {why}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<PartyError> for RunError {
    fn from(error: PartyError) -> RunError {
        RunError::Party(error)
    }
}

/// Figures of a run, and all its answers if they are kept and are those of registers.
#[derive(Debug)]
pub struct Outcome {
    pub report: Report,
    pub answers: Vec<Answered>,
}

/// Runs the protocol of that name.
///
/// # Errors
/// There is none, the system's, or the run was wrong.
pub fn run(protocol: &str, settings: &Settings) -> Result<Outcome, RunError> {
    match settings.workload {
        Workload::Registers(workload) => {
            let source = RegisterSource::new(workload, settings.seed);
            let (mut report, answers) = run_source(protocol, settings, &source)?;
            (report.distributed, report.zipf) = (workload.distributed, workload.zipf);
            Ok(Outcome { report, answers })
        }
        Workload::Tpcc { scale, .. } => {
            let (report, _) = run_source(protocol, settings, &TpccSource::new(scale, settings.seed))?;
            Ok(Outcome { report, answers: Vec::new() })
        }
    }
}

type Ran<S> = Result<(Report, Vec<AnsweredOf<S>>), RunError>;

fn run_source<S: Source>(protocol: &str, settings: &Settings, source: &S) -> Ran<S> {
    let (faults, origin) = (NoFaults, source.origin());
    match protocol {
        "nt-ur" => run_protocol(NtUr { origin }, settings, source),
        "ordered" => run_protocol(Ordered { is_global: false, origin }, settings, source),
        "ordered-global" => run_protocol(Ordered { is_global: true, origin }, settings, source),
        "lock-store" => run_protocol(LockStore { faults, origin }, settings, source),
        "granola" => run_protocol(Granola { faults, origin }, settings, source),
        "tapir" => run_protocol(Tapir { faults, origin }, settings, source),
        _ => Err(RunError::Protocol(protocol.to_owned())),
    }
}

fn run_protocol<P, S>(protocol: P, settings: &Settings, source: &S) -> Ran<S>
where
    P: Protocol<Client: Client<Operation = OperationOf<S>>, Server: Server<Values = SnapshotOf<S>>>,
    S: Source,
{
    let mut parties = start(protocol, settings, source)?;
    wait_idle(&parties, Phase::Fill, "filling")?;
    let mut report = measure(&mut parties, settings)?;
    parties.control.set(Phase::Silence);
    wait_idle(&parties, Phase::Silence, "answering")?;
    wait_at_rest(&parties)?;
    let mut answers = Vec::new();
    for front_end in parties.front_ends {
        answers.extend(front_end.stop()?.answers);
    }
    let data = data::<P, S>(parties.replicas)?;
    for service in parties.sequencers.into_iter().chain(parties.coordinators) {
        service.stop()?;
    }
    report.protocol = protocol.name().to_owned();
    report.check = check(&report.protocol, settings, source, (&answers, &data))?;
    Ok((report, answers))
}

fn check<S: Source>(
    protocol: &str,
    settings: &Settings,
    source: &S,
    (answers, data): (&[AnsweredOf<S>], &BTreeMap<ShardId, SnapshotOf<S>>),
) -> Result<String, RunError> {
    if protocol == "nt-ur" {
        return Ok("nothing is promised".to_owned());
    }
    source.check(settings.keeps_answers.then_some(answers), data).map_err(RunError::Wrong)
}

/// Waits until every front end has nothing left to do in that phase.
fn wait_idle<P: Protocol, S: Source>(
    parties: &Parties<P, S>,
    phase: Phase,
    name: &'static str,
) -> Result<(), RunError> {
    let mut left = parties.front_ends.len();
    let deadline = Instant::now() + PATIENCE;
    while left > 0 {
        left -= usize::from(next(&parties.idle, deadline, name)? == phase);
    }
    Ok(())
}

fn next<T>(from: &Receiver<T>, deadline: Instant, name: &'static str) -> Result<T, RunError> {
    from.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|error| match error {
        RecvTimeoutError::Timeout => RunError::Stuck(name),
        RecvTimeoutError::Disconnected => RunError::Party(PartyError::Failed),
    })
}

/// Waits until the replicas of each shard are at rest with logs of one length, and say so twice: what they say is of different moments.
fn wait_at_rest<P: Protocol, S: Source>(parties: &Parties<P, S>) -> Result<(), RunError> {
    let deadline = Instant::now() + PATIENCE;
    let of = |parties: &Parties<P, S>| alike(&parties.at_rest, parties.cluster, deadline);
    let mut before = of(parties)?;
    loop {
        let now = of(parties)?;
        if now == before {
            return Ok(());
        }
        before = now;
    }
}

/// Waits until the replicas of each shard have reported the same, each at least once from now on, and returns their reports. Earlier reports are
/// thrown away: replicas are also at rest while all transactions pause, and followers lag behind what comes after that.
fn alike(
    reports: &Receiver<AtRest>,
    cluster: Cluster,
    deadline: Instant,
) -> Result<BTreeMap<Party, Option<Index>>, RunError> {
    let mut at_rest: BTreeMap<Party, Option<Index>> = BTreeMap::new();
    while reports.try_recv().is_ok() {}
    let is_alike = |at_rest: &BTreeMap<Party, Option<Index>>, shard: ShardId| {
        let mut ends = cluster.group(shard).map(|id| at_rest.get(&Party::Replica(id)).copied().flatten());
        let first = ends.next().flatten();
        first.is_some() && ends.all(|end| end == first)
    };
    while !(0..cluster.shards).all(|shard| is_alike(&at_rest, shard)) {
        let (party, end) = next(reports, deadline, "coming to rest")?;
        if matches!(party, Party::Replica(_)) {
            at_rest.insert(party, end);
        }
    }
    Ok(at_rest)
}

/// The data of all shards, on which the replicas of each agree.
fn data<P, S>(
    replicas: Vec<(ReplicaId, Running<ServerParty<P::Server>>)>,
) -> Result<BTreeMap<ShardId, SnapshotOf<S>>, RunError>
where
    P: Protocol<Server: Server<Values = SnapshotOf<S>>>,
    S: Source,
{
    let mut of_shards = BTreeMap::new();
    for (id, replica) in replicas {
        let Some(values) = replica.stop()?.server.values() else { continue };
        match of_shards.get(&id.shard) {
            Some(known) if *known != values => {
                return Err(RunError::Wrong(format!("{id:?} has other values than its peers")));
            }
            Some(_) => {}
            None => _ = of_shards.insert(id.shard, values),
        }
    }
    Ok(of_shards)
}

/// Processor time and counts of all parties at a moment.
struct Moment {
    at: Instant,
    /// With the shard, and whether it leads.
    replicas: Vec<(ShardId, bool, Used)>,
    sequencers: f64,
    coordinators: f64,
    clients: f64,
}

fn moment<P, S>(parties: &Parties<P, S>) -> Result<Moment, PartyError>
where
    P: Protocol<Client: Client<Operation = OperationOf<S>>>,
    S: Source,
{
    let replicas = parties.replicas.iter().map(|(id, running)| {
        let leads = running.look(|party, _, _| party.server.is_leader()).ok_or(PartyError::Failed)?;
        Ok((id.shard, leads, used(running)?))
    });
    Ok(Moment {
        at: Instant::now(),
        replicas: replicas.collect::<Result<_, PartyError>>()?,
        sequencers: cpu_of(&parties.sequencers)?,
        coordinators: cpu_of(&parties.coordinators)?,
        clients: cpu_of(&parties.front_ends)?,
    })
}

fn cpu_of<M: Machine>(parties: &[Running<M>]) -> Result<f64, PartyError> {
    parties.iter().map(|each| Ok(used(each)?.cpu)).sum()
}

fn measure<P, S>(parties: &mut Parties<P, S>, settings: &Settings) -> Result<Report, RunError>
where
    P: Protocol<Client: Client<Operation = OperationOf<S>>>,
    S: Source,
{
    let mut sequencer_ended_ns = None;
    let (begun, ended) = match settings.until {
        Until::Transactions(_) => {
            let begun = moment(parties)?;
            parties.control.set(Phase::Measure);
            wait_idle(parties, Phase::Measure, "answering")?;
            (begun, moment(parties)?)
        }
        Until::Time(duration) => {
            parties.control.set(Phase::WarmUp);
            std::thread::sleep(WARM_UP.min(duration));
            let begun = moment(parties)?;
            parties.control.set(Phase::Measure);
            std::thread::sleep(duration / 2);
            if settings.kills_sequencer {
                sequencer_ended_ns = Some(end_sequencer(parties)?);
            }
            std::thread::sleep(duration / 2);
            (begun, moment(parties)?)
        }
    };
    let figures = parties.front_ends.iter().map(cluster::figures).collect::<Result<Vec<_>, _>>()?;
    let (total, answered_in) = total(figures.iter());
    let workload = settings.workload;
    let seconds = (ended.at - begun.at).as_secs_f64();
    let detection_ms = settings.timeouts.sequencer_ms;
    let report = Report {
        workload: workload.name().to_owned(),
        warehouses: workload.warehouses(),
        new_orders_per_second: workload.warehouses().map(|_| total.new_orders as f64 / seconds),
        shards: workload.shards(),
        replicas: parties.cluster.replicas,
        clients: settings.clients,
        distributed: total.distributed as f64 / total.answered.max(1) as f64,
        loss: settings.loss,
        is_unpacked: settings.is_unpacked,
        seconds,
        transactions: total.answered,
        distributed_transactions: total.distributed,
        aborts: total.aborts,
        transactions_per_second: total.answered as f64 / seconds,
        p50_us: total.latency.value_at_quantile(0.5) as f64 / 1e3,
        p95_us: total.latency.value_at_quantile(0.95) as f64 / 1e3,
        p99_us: total.latency.value_at_quantile(0.99) as f64 / 1e3,
        max_us: total.latency.max() as f64 / 1e3,
        failover: sequencer_ended_ns.and_then(|at_ns| failover(&answered_in, at_ns, detection_ms)),
        ..Report::default()
    };
    Ok(with_usage(report, &begun, &ended))
}

/// Ends the sequencer that serves: the one that has sent the most packets. Returns when.
fn end_sequencer<P: Protocol, S: Source>(parties: &mut Parties<P, S>) -> Result<u64, RunError> {
    let mut sent = Vec::new();
    for (place, sequencer) in parties.sequencers.iter().enumerate() {
        sent.push((used(sequencer)?.counts.packets_sent, place));
    }
    let Some((_, place)) = sent.into_iter().max() else {
        return Err(RunError::Wrong("the protocol has no sequencer to end".to_owned()));
    };
    let at_ns = parties.control.begun.elapsed().as_nanos() as u64;
    parties.sequencers.remove(place).stop()?;
    Ok(at_ns)
}

/// Adds what parties have used for a transaction.
fn with_usage(report: Report, begun: &Moment, ended: &Moment) -> Report {
    let transactions = report.transactions as f64;
    let each_us = |cpu: f64| cpu * 1e6 / transactions.max(1.0);
    let (mut learners, mut followers, mut all) = (0.0, 0.0, 0.0);
    let mut busiest: BTreeMap<ShardId, f64> = BTreeMap::new();
    let (mut lost, mut messages, mut datagrams) = (0, 0, 0);
    for ((shard, leads, now), (.., before)) in ended.replicas.iter().zip(&begun.replicas) {
        let cpu = now.cpu - before.cpu;
        if *leads {
            learners += cpu
        } else {
            followers += cpu
        }
        all += cpu;
        let most = busiest.entry(*shard).or_default();
        *most = cpu.max(*most);
        let counts = now.counts.since(&before.counts);
        lost += counts.lost;
        messages += counts.submits_sent + counts.packets_sent + counts.replies_sent + counts.others_sent;
        datagrams += counts.calls.sent;
    }
    let followers_of_shard = f64::from(report.replicas).max(2.0) - 1.0;
    Report {
        per_shard_cpu_second: transactions / busiest.values().sum::<f64>(),
        per_replica_cpu_second: transactions / all,
        learner_us: each_us(learners),
        follower_us: each_us(followers / followers_of_shard),
        sequencer_us: each_us(ended.sequencers - begun.sequencers),
        coordinator_us: each_us(ended.coordinators - begun.coordinators),
        client_us: each_us(ended.clients - begun.clients),
        datagrams_lost: lost,
        messages_per_datagram: messages as f64 / datagrams.max(1) as f64,
        ..report
    }
}

#[cfg(test)]
mod unit_tests {
    use std::sync::mpsc::channel;

    use weir_ordered::cluster::Timeouts;

    use super::*;

    /// While all transactions pause replicas are at rest, too. Their reports of that time wait in the channel.
    #[test]
    fn earlier_reports_do_not_count() {
        let cluster = Cluster {
            shards: 1,
            replicas: 3,
            timeouts: Timeouts::DEFAULT,
            truncate_entries: 1,
            aside_max: 2,
        };
        let (tell, reports) = channel();
        for number in 0..3 {
            tell.send((Party::Replica(ReplicaId { shard: 0, number }), Some(7))).unwrap();
        }
        let ended = alike(&reports, cluster, Instant::now());
        assert!(matches!(ended, Err(RunError::Stuck(_))), "{ended:?}");
    }
}
