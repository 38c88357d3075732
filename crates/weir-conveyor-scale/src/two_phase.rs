//! Data partitioning over the same servers, with two-phase commit for what crosses: the comparator of operation-partitioning.txt §7.1.
//!
//! The model is in favour of this comparator: no operation waits for a lock or is aborted, the statements of a
//! transaction go to all its participants at once, and looking for rows at all servers divides the work among them, unless each has to find the
//! first rows of an order.

use std::collections::BTreeSet;

use crate::agenda::Agenda;
use crate::chance::Chance;
use crate::costs::Operation;
use crate::load::{Load, Outcome, RunClass};
use crate::processor::Processor;

const NS_PER_MS: u64 = 1_000_000;
const NS_PER_US: f64 = 1_000.0;

/// A part of a transaction at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Execute,
    Prepare,
    Commit,
}

enum Event {
    Send(usize),
    /// A part of a client's transaction begins at a server.
    Begin {
        client: usize,
        server: usize,
    },
    Processor {
        server: usize,
        version: u64,
    },
    /// A part has ended, and its server has said so.
    Ended {
        client: usize,
    },
    Answer(usize),
}

#[derive(Clone, Debug)]
struct Transaction {
    sent_ns: u64,
    operation: usize,
    home: usize,
    participants: Vec<usize>,
    phase: Phase,
    /// Parts of the phase that have not ended.
    missing: usize,
}

struct Host {
    processor: Processor,
    version: u64,
}

struct Simulation<'a> {
    load: &'a Load,
    hosts: Vec<Host>,
    transactions: Vec<Option<Transaction>>,
    agenda: Agenda<Event>,
    now_ns: u64,
    chance: Chance,
    outcome: Outcome,
}

/// Runs a load within one site.
pub fn run(load: &Load) -> Outcome {
    let host = |_| Host { processor: Processor::new(load.cores), version: 0 };
    let mut simulation = Simulation {
        load,
        hosts: (0..load.servers).map(host).collect(),
        transactions: vec![None; load.clients],
        agenda: Agenda::default(),
        now_ns: 0,
        chance: Chance::from_seed(load.seed),
        outcome: Outcome::new(1.0),
    };
    for client in 0..load.clients {
        let at_ns = simulation.chance.below(500 * NS_PER_MS);
        simulation.schedule(at_ns, Event::Send(client));
    }
    let begin_ns = load.warm_up_ms * NS_PER_MS;
    simulation.run_until(begin_ns);
    simulation.outcome = Outcome::new(load.measured_ms as f64 / 1e3);
    let before: Vec<f64> = simulation.hosts.iter().map(|host| host.processor.busy_ns()).collect();
    simulation.run_until(begin_ns + load.measured_ms * NS_PER_MS);
    let available_ns = load.measured_ms as f64 * 1e6 * f64::from(load.cores);
    let used = simulation
        .hosts
        .iter()
        .zip(before)
        .map(|(host, before)| (host.processor.busy_ns() - before) / available_ns);
    simulation.outcome.busiest = used.fold(0.0, f64::max);
    simulation.outcome
}

/// Service of a part of a transaction, and the time that it waits for the disk.
fn part(load: &Load, transaction: &Transaction, server: usize) -> (f64, f64) {
    let operation = &load.operations[transaction.operation];
    let count = transaction.participants.len();
    let writers = writers(operation, count);
    let place = transaction.participants.iter().position(|each| *each == server).unwrap_or(0);
    let writes = place < writers;
    let flush_us = if writes { load.steps.flush_us } else { 0.0 };
    match transaction.phase {
        Phase::Execute => {
            let least_us =
                if writes { load.steps.write_participant_us } else { load.steps.read_participant_us };
            let remote = (count - 1) as f64;
            let service_us = match count {
                1 => operation.cpu_us,
                _ if operation.repeats => operation.cpu_us,
                // Each participant has a transaction with a statement; what is beyond that is divided.
                _ => least_us + (operation.cpu_us - least_us).max(0.0) / count as f64,
            };
            // BEGIN with a statement, and COMMIT.
            let exchanges = if place == 0 { 2.0 * remote } else { 0.0 };
            let service_us = service_us + exchanges * load.steps.exchange_us;
            // One writer commits with its statements; several wait for the two phases.
            let flush_us = if writers == 1 { flush_us } else { 0.0 };
            (service_us, flush_us + operation.wait_us)
        }
        // PREPARE TRANSACTION takes the place of COMMIT; COMMIT PREPARED is one exchange more with each writer.
        Phase::Prepare => (load.steps.prepare_us, flush_us),
        Phase::Commit => {
            let remote = if place == 0 { writers.saturating_sub(1) as f64 } else { 0.0 };
            (load.steps.commit_prepared_us + remote * load.steps.exchange_us, flush_us)
        }
    }
}

/// The first participants write.
fn writers(operation: &Operation, participants: usize) -> usize {
    (operation.writes_at as usize).min(participants)
}

impl Simulation<'_> {
    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.agenda.schedule(at_ns, event);
    }

    fn run_until(&mut self, until_ns: u64) {
        while let Some((at_ns, event)) = self.agenda.next_until(until_ns) {
            self.now_ns = at_ns;
            match event {
                Event::Send(client) => self.send(client),
                Event::Begin { client, server } => self.begin(client, server),
                Event::Processor { server, version } if self.hosts[server].version == version => {
                    self.serve(server)
                }
                Event::Ended { client } => self.ended(client),
                Event::Answer(client) => self.answered(client),
                Event::Processor { .. } => {}
            }
        }
        self.now_ns = until_ns;
    }

    fn send(&mut self, client: usize) {
        let operation = self.load.draw(&mut self.chance);
        let servers = self.load.servers;
        let home = self.chance.below(servers as u64) as usize;
        let Operation { others, all, .. } = self.load.operations[operation];
        let mut participants = vec![home];
        let mut seen = BTreeSet::from([home]);
        for _ in 0..others {
            let other = self.chance.below(servers as u64) as usize;
            if seen.insert(other) {
                participants.push(other);
            }
        }
        if all {
            participants.extend((0..servers).filter(|server| !seen.contains(server)));
        }
        let phase = Phase::Execute;
        let transaction =
            Transaction { sent_ns: self.now_ns, operation, home, participants, phase, missing: 0 };
        self.transactions[client] = Some(transaction);
        let delay_ns = self.load.network.one_way_ns(0, 0);
        self.start_phase(client, phase, delay_ns);
    }

    /// Begins a phase at all that take part in it. The server of the client's session is the coordinator.
    fn start_phase(&mut self, client: usize, phase: Phase, delay_ns: u64) {
        let Some(transaction) = &mut self.transactions[client] else { return };
        let operation = &self.load.operations[transaction.operation];
        let count = match phase {
            Phase::Execute => transaction.participants.len(),
            Phase::Prepare | Phase::Commit => writers(operation, transaction.participants.len()),
        };
        (transaction.phase, transaction.missing) = (phase, count);
        let (home, servers) = (transaction.home, transaction.participants[..count].to_vec());
        for server in servers {
            let hop_ns = if server == home { 0 } else { self.load.network.one_way_ns(0, 0) };
            self.schedule(self.now_ns + delay_ns + hop_ns, Event::Begin { client, server });
        }
    }

    fn begin(&mut self, client: usize, server: usize) {
        let Some(transaction) = &self.transactions[client] else { return };
        let (service_us, _) = part(self.load, transaction, server);
        // A client has at most one part at a server at a time, so that its number names the job.
        self.hosts[server].processor.start(self.now_ns, client as u64, service_us);
        self.expect_end(server);
    }

    fn expect_end(&mut self, server: usize) {
        let host = &mut self.hosts[server];
        host.version += 1;
        let version = host.version;
        if let Some(at_ns) = host.processor.next_end_ns() {
            self.schedule(at_ns.max(self.now_ns), Event::Processor { server, version });
        }
    }

    fn serve(&mut self, server: usize) {
        while let Some(job) = self.hosts[server].processor.take_ended(self.now_ns) {
            let client = job as usize;
            let Some(transaction) = &self.transactions[client] else { continue };
            let (_, wait_us) = part(self.load, transaction, server);
            let hop_ns = if server == transaction.home { 0 } else { self.load.network.one_way_ns(0, 0) };
            self.schedule(self.now_ns + (wait_us * NS_PER_US) as u64 + hop_ns, Event::Ended { client });
        }
        self.expect_end(server);
    }

    fn ended(&mut self, client: usize) {
        let Some(transaction) = &mut self.transactions[client] else { return };
        transaction.missing -= 1;
        if transaction.missing > 0 {
            return;
        }
        let operation = &self.load.operations[transaction.operation];
        let is_distributed = writers(operation, transaction.participants.len()) > 1;
        match transaction.phase {
            Phase::Execute if is_distributed => self.start_phase(client, Phase::Prepare, 0),
            Phase::Prepare => self.start_phase(client, Phase::Commit, 0),
            Phase::Execute | Phase::Commit => {
                self.schedule(self.now_ns + self.load.network.one_way_ns(0, 0), Event::Answer(client));
            }
        }
    }

    fn answered(&mut self, client: usize) {
        if let Some(transaction) = self.transactions[client].take() {
            let class = match transaction.participants.len() {
                1 => RunClass::Local,
                _ => RunClass::Global,
            };
            self.outcome.record(class, self.now_ns - transaction.sent_ns);
        }
        let pause_ns = self.chance.exponential(self.load.think_ms * 1e6) as u64;
        self.schedule(self.now_ns + pause_ns, Event::Send(client));
    }
}
