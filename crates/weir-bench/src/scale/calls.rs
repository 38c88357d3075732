//! Calls of one SQL procedure on simulated servers: the real nodes, with a population of their own.
//!
//! Costs of calls come from nodes with the full population, measured by `weir calibrate`; the many simulated nodes may have a smaller
//! one. Each client has a permanent home (the workload's setting `fixed_home` or its equivalent) and is connected to the server of that
//! home, as clients of a partitioned database are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use weir_analysis::Analysis;
use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::machine::Outgoing;
use weir_core::machine::{Coordinator as _, Effects, Orders, Shard as _};
use weir_server::embedded::now_ms;
use weir_sim::scale::{Charge, Clients, Scale, Tariff};
use weir_sql::Application;
use weir_txn::exec::program::Program;
use weir_txn::message::{Call, Callee, Reply, Request};
use weir_txn::ramp::{Begin, Coordinator, Event, Protocol};
use weir_txn::shard::Node;

use super::{Load, Prices, Servers};
use crate::pace::{Limit, latencies};
use crate::run::{self, RunError, RunOptions};
use crate::workload::{CallGenerator, Workload};
use weir_server::report::Latency;
use weir_types::memory::WorkingMemory;

/// Measurements of the clients.
#[derive(Clone, Debug)]
pub struct Called {
    pub throughput: f64,
    pub committed: u64,
    pub aborted: u64,
    /// Share of the calls with several participants.
    pub distributed: f64,
    pub latency: Latency,
}

/// An application, what was found about it, and the calls of one of its procedures.
#[derive(Clone, Copy)]
pub struct Calls<'a> {
    pub application: &'a Application,
    pub analysis: &'a Analysis,
    pub workload: &'a Arc<Workload>,
    /// Position in [`Application::procedures`].
    pub procedure: usize,
}

fn request_kind(request: &Request) -> &'static str {
    match request {
        Request::Execute { .. } => "execute",
        Request::Prepare { .. } => "prepare",
        Request::Decide { .. } => "decide",
        Request::Apply { .. } => "apply",
        Request::Commit { .. } => "commit",
        _ => "other",
    }
}

fn reply_kind(reply: &Reply) -> &'static str {
    match reply {
        Reply::Executed { .. } | Reply::Unchanged { .. } => "executed",
        Reply::Prepared { .. } => "prepared",
        Reply::Decided { .. } => "decided",
        Reply::Committed { .. } => "committed",
        _ => "told",
    }
}

impl Calls<'_> {
    fn load(&self, shards: ShardId, seed: u64) -> Result<(Arc<Program>, Vec<Node>), RunError> {
        let options = RunOptions { limit: Limit::Transactions(1), seed, ..RunOptions::new(shards) };
        let mut silent = weir_server::progress::silent;
        run::nodes(self.application, self.analysis, self.workload, &options, &mut silent)
    }

    /// The next call of the procedure in that client's stream.
    fn next(&self, generator: &mut CallGenerator) -> Option<Call> {
        /// A procedure that is called more rarely is not called.
        const DRAWS_MAX: usize = 10_000;
        let mut drawn = std::iter::repeat_with(|| generator.next_call().ok()).take(DRAWS_MAX).flatten();
        let call = drawn.find(|call| call.procedure == self.procedure)?;
        Some(Call {
            callee: Callee::Procedure(call.procedure),
            args: call.args,
            transaction_time: 0.into(),
            schema_version: 0,
            memory: WorkingMemory::default(),
        })
    }

    /// Nanoseconds, by kind of message: one shard after the other in a loop, on one thread.
    ///
    /// # Errors
    /// The executor cannot run the application, or loading failed.
    pub fn measure(
        &self,
        shards: ShardId,
        windows: usize,
        calls: usize,
    ) -> Result<BTreeMap<String, f64>, RunError> {
        const AT_ONCE: u64 = 32;
        let (program, nodes) = self.load(shards, 1)?;
        let mut steps = Steps {
            nodes,
            coordinator: Coordinator::new(0, program, Protocol::RampFast),
            samples: BTreeMap::new(),
        };
        let mut generators: Vec<CallGenerator> =
            (0..AT_ONCE).map(|client| CallGenerator::new(self.workload, 1, client)).collect();
        let mut least: BTreeMap<String, f64> = BTreeMap::new();
        for _ in 0..windows {
            steps.samples.clear();
            steps.all(calls, |client| self.next(&mut generators[client as usize]));
            for (kind, (ns, count)) in &steps.samples {
                let each = (*ns as f64 / *count as f64 * 10.0).round() / 10.0;
                let known = least.entry((*kind).to_owned()).or_insert(each);
                *known = known.min(each);
            }
        }
        Ok(least)
    }

    /// Runs closed loops of the procedure on servers that do not exist.
    ///
    /// # Errors
    /// The executor cannot run the application, or loading failed.
    pub fn run(
        &self,
        protocol: Protocol,
        servers: Servers,
        prices: &Prices,
    ) -> Result<(Called, Load), RunError> {
        let cores = servers.cores_in_all();
        let (program, nodes) = self.load(cores, servers.seed)?;
        let coordinators =
            (0..CoordinatorId::from(cores)).map(|id| Coordinator::new(id, program.clone(), protocol));
        let tariff =
            CallTariff(prices.calls.iter().map(|(kind, ns)| (kind.clone(), (ns * 1e3) as u64)).collect());
        let setup = servers.setup(prices);
        let mut loops = Loops {
            calls: self,
            generators: self.clients_by_home(&program, cores, setup.clients, servers.seed),
            program: program.clone(),
            seen: Seen::default(),
            latency: latencies(),
        };
        let mut scale = Scale::new(setup, tariff, nodes.into_iter().zip(coordinators));
        scale.start();
        scale.run(servers.seconds, &mut loops);
        scale.take_work();
        (loops.seen, loops.latency) = (Seen::default(), latencies());
        scale.run(servers.seconds, &mut loops);
        let Seen { committed, aborted, begun, distributed } = loops.seen;
        let called = Called {
            throughput: committed as f64 / servers.seconds,
            committed,
            aborted,
            distributed: distributed as f64 / begun.max(1) as f64,
            latency: Latency::from_nanoseconds(&loops.latency),
        };
        Ok((called, Load::of(&scale.take_work(), servers.seconds)))
    }

    /// Clients of each core, whose first call is decided there. A core that is nobody's home gets arbitrary ones.
    fn clients_by_home(
        &self,
        program: &Program,
        cores: u16,
        clients: u64,
        seed: u64,
    ) -> Vec<Vec<CallGenerator>> {
        let mut by_home: Vec<Vec<CallGenerator>> = (0..cores).map(|_| Vec::new()).collect();
        let wanted = clients as usize;
        let most = 20 * u64::from(cores) * clients;
        for client in 0..most {
            if by_home.iter().all(|of_core| of_core.len() == wanted) {
                break;
            }
            let new = || CallGenerator::new(self.workload, seed, client);
            let Some(call) = self.next(&mut new()) else { continue };
            let home = program.participants(&call).ok().and_then(|participants| participants.last().copied());
            let Some(of_core) = home.and_then(|home| by_home.get_mut(usize::from(home))) else { continue };
            if of_core.len() < wanted {
                of_core.push(new());
            }
        }
        for (core, of_core) in by_home.iter_mut().enumerate() {
            let from = most + core as u64 * clients;
            let rest =
                (of_core.len()..wanted).map(|at| CallGenerator::new(self.workload, seed, from + at as u64));
            of_core.extend(rest.collect::<Vec<_>>());
        }
        by_home
    }
}

/// In picoseconds.
struct CallTariff(BTreeMap<String, u64>);

impl CallTariff {
    fn charge(&self, kind: &str, bytes: u64) -> Charge {
        Charge { handling_ps: self.0.get(kind).copied().unwrap_or_default(), bytes }
    }
}

impl Tariff<Node, Coordinator> for CallTariff {
    fn begin_ps(&self, _: &Begin) -> u64 {
        self.charge("begin", 0).handling_ps
    }

    fn request(&self, request: &Request) -> Charge {
        // A value takes about eight bytes, an array one for each element.
        let bytes = match request {
            Request::Prepare { call, .. } | Request::Apply { call, .. } => 32 * call.args.len() as u64,
            Request::Execute { call, .. } => 32 * call.args.len() as u64,
            Request::Decide { decision, .. } => 32 * decision.call.args.len() as u64 + 64,
            _ => 0,
        };
        self.charge(request_kind(request), 64 + bytes)
    }

    fn reply(&self, reply: &Reply) -> Charge {
        self.charge(reply_kind(reply), 128)
    }

    fn progress_ps(&self) -> u64 {
        self.charge("progress", 0).handling_ps
    }
}

struct Loops<'a> {
    calls: &'a Calls<'a>,
    program: Arc<Program>,
    /// By core and client.
    generators: Vec<Vec<CallGenerator>>,
    seen: Seen,
    latency: hdrhistogram::Histogram<u64>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    committed: u64,
    aborted: u64,
    begun: u64,
    distributed: u64,
}

impl Clients<Begin, Event> for Loops<'_> {
    fn next(&mut self, coordinator: usize, client: u64) -> Begin {
        let generator = &mut self.generators[coordinator][client as usize];
        let call = self.calls.next(generator).expect("the client has called it before");
        self.seen.begun += 1;
        let participants = self.program.participants(&call).map_or(0, |participants| participants.len());
        self.seen.distributed += u64::from(participants > 1);
        Begin::Call(call)
    }

    fn done(&mut self, done: Event, took_ps: u64) {
        match done {
            Event::Answered(Ok(_)) => {
                self.seen.committed += 1;
                self.latency.saturating_record((took_ps / 1_000).max(1));
            }
            _ => self.seen.aborted += 1,
        }
    }
}

/// Nodes and one coordinator on one thread, message by message.
struct Steps {
    nodes: Vec<Node>,
    coordinator: Coordinator,
    /// By kind: nanoseconds and messages.
    samples: BTreeMap<&'static str, (u64, u64)>,
}

impl Steps {
    fn all(&mut self, calls: usize, mut next: impl FnMut(u64) -> Option<Call>) {
        let mut orders: Orders<Request, Event> = Orders::default();
        let mut begun = 0;
        while begun < calls || !self.coordinator.is_idle() {
            let idle: Vec<u64> = if begun == 0 {
                (0..32).collect()
            } else {
                orders.done.drain(..).map(|done| done.0).collect()
            };
            for client in idle {
                let Some(call) = next(client).filter(|_| begun < calls) else { continue };
                begun += 1;
                let (coordinator, orders) = (&mut self.coordinator, &mut orders);
                timed(&mut self.samples, "begin", || {
                    coordinator.begin(now_ms(), client, Begin::Call(call), orders)
                });
            }
            let sends = std::mem::take(&mut orders.sends);
            assert!(
                !sends.is_empty() || self.coordinator.is_idle() || !orders.done.is_empty(),
                "nobody goes on"
            );
            for (shard, request) in sends {
                self.step(shard, request, &mut orders);
            }
        }
    }

    fn step(&mut self, shard: ShardId, request: Request, orders: &mut Orders<Request, Event>) {
        let node = &mut self.nodes[usize::from(shard)];
        let (mut effects, now_ms) = (Effects::default(), now_ms());
        let coordinator = &mut self.coordinator;
        timed(&mut self.samples, "progress", || node.on_progress(now_ms, 0, coordinator.progress(shard)));
        let kind = request_kind(&request);
        timed(&mut self.samples, kind, || node.step(now_ms, Sender::Coordinator(0), request, &mut effects));
        self.coordinator.on_epoch(shard, node.epoch());
        for Outgoing { message: reply, .. } in effects.replies {
            let coordinator = &mut self.coordinator;
            timed(&mut self.samples, reply_kind(&reply), || coordinator.on_reply(now_ms, reply, orders));
        }
    }
}

fn timed(samples: &mut BTreeMap<&'static str, (u64, u64)>, kind: &'static str, step: impl FnOnce()) {
    let begun = Instant::now();
    step();
    let sample = samples.entry(kind).or_default();
    sample.0 += begun.elapsed().as_nanos() as u64;
    sample.1 += 1;
}
