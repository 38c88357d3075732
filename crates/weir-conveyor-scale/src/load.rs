//! Clients: which operation comes next, where it runs, and what is measured.

use hdrhistogram::Histogram;
use weir_conveyor::epochs::ServerId;
use weir_conveyor::message::Placement;

use crate::chance::Chance;
use crate::costs::{Class, Home, Operation, Steps};
use crate::sites::Network;

/// Longer latencies count as that.
const LATENCY_US_MAX: u64 = 600_000_000;

/// How operations are classified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Classes {
    /// As the analysis says.
    Analysed,
    /// Shares of local, global and commutative operations, whatever the operation: those of Table 1, or of a sweep.
    Shares { local: f64, global: f64 },
    /// The read-only baseline: operations that only read run at any server, all others at the first one.
    ReadOnly,
    /// The read-only baseline with shares of Table 1: so many only read.
    ReadOnlyShare { reads: f64 },
}

/// Class of an operation as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunClass {
    Commutative,
    Local,
    Global,
    /// A local operation of another site than its client's.
    Remote,
}

/// A load, and the servers.
#[derive(Clone, Debug)]
pub struct Load {
    pub operations: Vec<Operation>,
    pub steps: Steps,
    /// Which weights of the operations.
    pub mix: usize,
    pub classes: Classes,
    pub servers: usize,
    pub network: Network,
    /// Sites with clients; more than servers, where sites have none of their own.
    pub client_sites: usize,
    pub clients: usize,
    /// Mean of the exponentially distributed pause between an answer and the next operation.
    pub think_ms: f64,
    pub warm_up_ms: u64,
    pub measured_ms: u64,
    pub cores: u32,
    pub seed: u64,
}

/// An operation that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Place in [`Load::operations`].
    pub operation: usize,
    pub class: RunClass,
    pub placement: Placement,
    /// The server that the client sends it to.
    pub to: ServerId,
}

/// Figures of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seconds: f64,
    pub answered: u64,
    pub failed: u64,
    /// In microseconds, by class in the order of [`RunClass`].
    pub latency: [Histogram<u64>; 4],
    /// Visits of the token in the measured time.
    pub visits: u64,
    /// Share of the cores that was used, of the busiest server.
    pub busiest: f64,
}

impl Outcome {
    pub fn new(seconds: f64) -> Outcome {
        let histogram = || Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are in order");
        Outcome {
            seconds,
            answered: 0,
            failed: 0,
            latency: [histogram(), histogram(), histogram(), histogram()],
            visits: 0,
            busiest: 0.0,
        }
    }

    pub fn throughput(&self) -> f64 {
        self.answered as f64 / self.seconds
    }

    pub fn of(&self, class: RunClass) -> &Histogram<u64> {
        &self.latency[class as usize]
    }

    /// Latencies of all classes together, in microseconds.
    pub fn all(&self) -> Histogram<u64> {
        let (first, others) = self.latency.split_first().expect("there are four classes");
        let mut all = first.clone();
        others.iter().for_each(|each| all.add(each).expect("all histograms have the same bounds"));
        all
    }

    /// Mean latency of all operations in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        let sum: f64 = self.latency.iter().map(|each| each.mean() * each.len() as f64).sum();
        let count: u64 = self.latency.iter().map(|each| each.len()).sum();
        sum / 1e3 / count.max(1) as f64
    }

    /// Mean latency of a class in milliseconds.
    pub fn class_mean_ms(&self, class: RunClass) -> f64 {
        self.of(class).mean() / 1e3
    }

    pub fn record(&mut self, class: RunClass, latency_ns: u64) {
        self.answered += 1;
        self.latency[class as usize].saturating_record(latency_ns / 1_000);
    }

    /// Share of a class among the answered operations.
    pub fn share(&self, class: RunClass) -> f64 {
        self.of(class).len() as f64 / self.answered.max(1) as f64
    }
}

impl Load {
    /// The site of a client.
    pub fn site(&self, client: usize) -> usize {
        client % self.client_sites
    }

    /// The server that is nearest to a site.
    fn nearest(&self, site: usize) -> usize {
        match self.network {
            Network::Lan { .. } => site % self.servers,
            Network::Wan(_) if site < self.servers => site,
            Network::Wan(_) => {
                let delay = |server: &usize| self.network.one_way_ns(site, *server);
                (0..self.servers).min_by_key(delay).unwrap_or(0)
            }
        }
    }

    pub fn draw(&self, chance: &mut Chance) -> usize {
        let total: u64 = self.operations.iter().map(|operation| operation.weights[self.mix]).sum();
        let mut drawn = chance.below(total);
        for (index, operation) in self.operations.iter().enumerate() {
            let weight = operation.weights[self.mix];
            if drawn < weight {
                return index;
            }
            drawn -= weight;
        }
        0
    }

    /// The next operation of a client.
    pub fn request(&self, client: usize, chance: &mut Chance) -> Request {
        let operation = self.draw(chance);
        let site = self.site(client);
        let near = self.nearest(site);
        let any = chance.below(self.servers as u64) as usize;
        let home = match (self.operations[operation].home, self.network) {
            (Home::Any, _) => near,
            (Home::Own, Network::Wan(_)) => near,
            (Home::Own | Home::Other, _) => any,
        };
        let (mut class, home) = self.class(operation, home, near, chance);
        if class == RunClass::Local && home != near && matches!(self.network, Network::Wan(_)) {
            class = RunClass::Remote;
        }
        let placement = match class {
            RunClass::Commutative => Placement::Commutative,
            RunClass::Local | RunClass::Remote => Placement::Local(home as ServerId),
            RunClass::Global => Placement::Global(home as ServerId),
        };
        // Within a site clients know where operations belong (§4, "Redirections"); over sites they know the server of their own.
        let to = match self.network {
            Network::Lan { .. } if class != RunClass::Commutative => home,
            _ => near,
        };
        Request { operation, class, placement, to: to as ServerId }
    }

    fn class(&self, operation: usize, home: usize, near: usize, chance: &mut Chance) -> (RunClass, usize) {
        let drawn = chance.share();
        let operation = &self.operations[operation];
        match self.classes {
            Classes::Analysed => match operation.class {
                Class::Commutative => (RunClass::Commutative, near),
                Class::Local => (RunClass::Local, home),
                Class::Global => (RunClass::Global, home),
                // Both values route to one server.
                Class::LocalGlobal if drawn * self.servers as f64 <= 1.0 => (RunClass::Local, home),
                Class::LocalGlobal => (RunClass::Global, home),
            },
            Classes::Shares { local, .. } if drawn < local => (RunClass::Local, near),
            Classes::Shares { local, global } if drawn < local + global => (RunClass::Global, near),
            Classes::Shares { .. } => (RunClass::Commutative, near),
            Classes::ReadOnly if operation.reads_only => (RunClass::Commutative, near),
            Classes::ReadOnlyShare { reads } if drawn < reads => (RunClass::Commutative, near),
            Classes::ReadOnly | Classes::ReadOnlyShare { .. } => (RunClass::Global, 0),
        }
    }

    /// Processor time of an operation where it runs.
    pub fn service_us(&self, request: &Request) -> f64 {
        let operation = &self.operations[request.operation];
        match request.class {
            RunClass::Global if operation.global_us > 0.0 => operation.global_us,
            _ => operation.cpu_us + self.steps.check_us,
        }
    }
}
