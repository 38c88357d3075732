//! The experiments of operation-partitioning.txt §7: figures 3 to 6 and table 3, each as series of points.

use serde::Serialize;
use weir_conveyor::settings::Settings;

use crate::costs::{Class, Costs, Home, Operation, Steps};
use crate::load::{Classes, Load, Outcome, RunClass};
use crate::sites::{Network, Reading, SITES};
use crate::{belt, two_phase};

/// Names of the figures.
pub const NAMES: [&str; 8] = ["3-tpcw", "3-rubis", "sensitivity", "table-3", "4-tpcw", "4-rubis", "5", "6"];

/// A point of a series.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub x: f64,
    pub throughput: f64,
    pub mean_ms: f64,
    /// By class: commutative, local, global, local at another site. 0 where there was none.
    pub class_mean_ms: [f64; 4],
    pub class_p99_ms: [f64; 4],
    pub shares: [f64; 4],
    /// Use of the cores of the busiest server.
    pub busiest: f64,
    /// Visits of the token in a second.
    pub visits: f64,
    pub failed: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Series {
    pub name: String,
    pub points: Vec<Point>,
}

/// A figure or table of the paper.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub name: &'static str,
    pub title: String,
    pub x: &'static str,
    pub series: Vec<Series>,
}

impl Series {
    pub fn at(&self, x: f64) -> Option<&Point> {
        self.points.iter().find(|point| (point.x - x).abs() < 1e-9)
    }

    /// The point of the most throughput.
    pub fn best(&self) -> Option<&Point> {
        self.points.iter().max_by(|a, b| a.throughput.total_cmp(&b.throughput))
    }
}

impl Figure {
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }
}

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub servers: &'static [usize],
    /// Clients of each server, where the peak is looked for.
    pub clients: &'static [usize],
    pub warm_up_ms: u64,
    pub measured_ms: u64,
    /// Longer, over sites.
    pub wan_ms: u64,
}

impl Effort {
    pub const FULL: Effort = Effort {
        servers: &[1, 2, 4, 6, 8, 12, 16, 24],
        clients: &[24, 96],
        warm_up_ms: 1_500,
        measured_ms: 1_500,
        wan_ms: 30_000,
    };
    pub const QUICK: Effort = Effort {
        servers: &[1, 2, 4, 8, 16],
        clients: &[48],
        warm_up_ms: 1_500,
        measured_ms: 1_000,
        wan_ms: 8_000,
    };
}

/// Everything that an experiment is made from.
#[derive(Clone, Debug)]
pub struct Laboratory<'a> {
    pub costs: &'a Costs,
    pub effort: Effort,
    pub seed: u64,
}

/// The most latency of a peak within a site (§7.1) and over sites (§7.2).
const PEAK_LAN_MS: f64 = 2_000.0;
const PEAK_WAN_MS: f64 = 5_000.0;

/// Shares of Table 1.
const TABLE_1: [(&str, f64, f64, f64); 2] = [("tpcw", 0.47, 0.39, 0.73), ("rubis", 0.64, 0.08, 0.85)];

/// Peaks are at no fewer servers.
const SENSITIVE_FROM: usize = 8;

/// Two virtual cores, as the paper's machines have.
const CORES: u32 = 2;

/// A system that runs a load.
#[derive(Clone, Copy, Debug, PartialEq)]
enum System {
    Belt(Classes),
    TwoPhase,
}

/// Settings of the agents over one site, and over several: a rotation is longer, and so is everything that waits for one. A server with two cores
/// runs eight local operations at once, so that the work of the token has its share of them.
fn settings(network: Network) -> Settings {
    match network {
        Network::Lan { .. } => Settings { idle_ms: 2, local_max: 8, global_max: 16, ..Settings::default() },
        Network::Wan(_) => Settings {
            resend_ms: 1_500,
            silence_ms: 6_000,
            token_ms: 12_000,
            operation_ms: 20_000,
            ..Settings::default()
        },
    }
}

fn point(x: f64, outcome: &Outcome) -> Point {
    let classes = [RunClass::Commutative, RunClass::Local, RunClass::Global, RunClass::Remote];
    let is_there = |class: RunClass| !outcome.of(class).is_empty();
    Point {
        x,
        throughput: outcome.throughput(),
        mean_ms: outcome.mean_ms(),
        class_mean_ms: classes.map(|class| if is_there(class) { outcome.class_mean_ms(class) } else { 0.0 }),
        class_p99_ms: classes.map(|class| outcome.of(class).value_at_quantile(0.99) as f64 / 1e3),
        shares: classes.map(|class| outcome.share(class)),
        busiest: outcome.busiest,
        visits: outcome.visits as f64 / outcome.seconds,
        failed: outcome.failed,
    }
}

fn run(system: System, load: &Load) -> Outcome {
    match system {
        System::Belt(classes) => belt::run(&Load { classes, ..load.clone() }, settings(load.network)),
        System::TwoPhase => two_phase::run(load),
    }
}

impl Laboratory<'_> {
    /// # Errors
    /// There is no such figure, or the costs lack its application.
    pub fn figure(&self, name: &str) -> Result<Figure, String> {
        match name {
            "3-tpcw" => self.servers("3-tpcw", "tpcw"),
            "3-rubis" => self.servers("3-rubis", "rubis"),
            "sensitivity" => self.sensitivity(),
            "table-3" => self.table_3(),
            "4-tpcw" => self.sites("4-tpcw", "tpcw"),
            "4-rubis" => self.sites("4-rubis", "rubis"),
            "5" => self.ratios(),
            "6" => self.ratio_latencies(),
            other => Err(format!("there is no figure {other}; there are {}", NAMES.join(", "))),
        }
    }

    fn operations(&self, application: &str) -> Result<Vec<Operation>, String> {
        let operations = self.costs.of(application);
        match operations.is_empty() {
            true => Err(format!(
                "the costs have no operation of {application}; `weir-conveyor-bench measure` makes them"
            )),
            false => Ok(operations),
        }
    }

    fn load(&self, operations: Vec<Operation>, servers: usize) -> Load {
        Load {
            operations,
            steps: self.costs.steps,
            mix: 0,
            classes: Classes::Analysed,
            servers,
            network: Network::LAN,
            client_sites: 1,
            clients: 1,
            think_ms: 0.0,
            warm_up_ms: self.effort.warm_up_ms,
            measured_ms: self.effort.measured_ms,
            cores: CORES,
            seed: self.seed,
        }
    }

    /// The most throughput over numbers of clients, with a mean latency below the bound; the least latency if all are above.
    fn peak(&self, system: System, load: &Load, (numbers, bound_ms): (&[usize], f64), x: f64) -> Point {
        let outcomes =
            numbers.iter().map(|clients| point(x, &run(system, &Load { clients: *clients, ..load.clone() })));
        let points: Vec<Point> = outcomes.collect();
        let below = points.iter().filter(|point| point.mean_ms < bound_ms);
        let best = below.max_by(|a, b| a.throughput.total_cmp(&b.throughput));
        let least = || points.iter().min_by(|a, b| a.mean_ms.total_cmp(&b.mean_ms));
        best.or_else(least).cloned().expect("there is a number of clients")
    }

    fn lan_peak(&self, system: System, load: &Load) -> Point {
        let numbers: Vec<usize> = self.effort.clients.iter().map(|each| each * load.servers).collect();
        self.peak(system, load, (&numbers, PEAK_LAN_MS), load.servers as f64)
    }

    /// Figure 3: peak throughput by number of servers, within one site.
    fn servers(&self, name: &'static str, application: &str) -> Result<Figure, String> {
        let operations = self.operations(application)?;
        let systems = systems(application);
        let series = systems.into_iter().map(|(name, system)| {
            let at = |servers: &usize| {
                let load = self.load(operations.clone(), *servers);
                self.lan_peak(system, &Load { client_sites: *servers, ..load })
            };
            Series { name: name.into(), points: self.effort.servers.iter().map(at).collect() }
        });
        let title = format!("Peak throughput within a site, {application}");
        Ok(Figure { name, title, x: "servers", series: series.collect() })
    }

    /// The ratio of figure 3 if service times, or the steps of the protocols, were half as large or half as large again.
    fn sensitivity(&self) -> Result<Figure, String> {
        let mut series = Vec::new();
        for application in ["tpcw", "rubis"] {
            for (name, operations_by, steps_by) in [
                ("as measured", 1.0, 1.0),
                ("operations -50%", 0.5, 1.0),
                ("operations +50%", 1.5, 1.0),
                ("steps -50%", 1.0, 0.5),
                ("steps +50%", 1.0, 1.5),
            ] {
                let mut operations = self.operations(application)?;
                for operation in &mut operations {
                    operation.cpu_us *= operations_by;
                    operation.global_us *= operations_by;
                }
                for (system_name, system) in
                    [("conveyor", System::Belt(Classes::Analysed)), ("two-phase", System::TwoPhase)]
                {
                    let at = |servers: &usize| {
                        let load = self.load(operations.clone(), *servers);
                        let steps = self.costs.steps.scaled(steps_by);
                        self.lan_peak(system, &Load { client_sites: *servers, steps, ..load })
                    };
                    let servers = self.effort.servers.iter().filter(|servers| **servers >= SENSITIVE_FROM);
                    let points = servers.map(at).collect();
                    series.push(Series { name: format!("{application} {name} {system_name}"), points });
                }
            }
        }
        let title = "Sensitivity to the measured service times".into();
        Ok(Figure { name: "sensitivity", title, x: "servers", series })
    }

    fn wan(&self, operations: Vec<Operation>, servers: usize, reading: Reading) -> Load {
        Load {
            network: Network::Wan(reading),
            client_sites: SITES,
            warm_up_ms: 10_000,
            measured_ms: self.effort.wan_ms,
            ..self.load(operations, servers)
        }
    }

    /// Table 3: latency with light load over sites. `x` is the number of servers; clients are at all five sites.
    fn table_3(&self) -> Result<Figure, String> {
        let mut series = Vec::new();
        for (reading, said) in [(Reading::RoundTrip, "round trips"), (Reading::OneWay, "one way")] {
            for application in ["tpcw", "rubis"] {
                for (name, system) in
                    systems(application).into_iter().filter(|(_, system)| *system != System::TwoPhase)
                {
                    let at = |servers: usize| {
                        let load = self.wan(self.operations(application)?, servers, reading);
                        // One client at each site, with pauses: nobody queues.
                        let load = Load { clients: 2 * SITES, think_ms: 200.0, ..load };
                        Ok(point(servers as f64, &run(system, &load)))
                    };
                    let points = [1, 2, 3, 5].into_iter().map(at).collect::<Result<_, String>>()?;
                    series.push(Series { name: format!("{application} {name}, {said}"), points });
                }
            }
        }
        let title = "Latency with light load over sites (Table 2 as round trips, and as one way)".into();
        Ok(Figure { name: "table-3", title, x: "servers", series })
    }

    /// Figure 4: peak throughput over sites.
    fn sites(&self, name: &'static str, application: &str) -> Result<Figure, String> {
        let operations = self.operations(application)?;
        let systems = systems(application).into_iter().filter(|(_, system)| *system != System::TwoPhase);
        let numbers: &[usize] =
            if self.effort.clients.len() > 1 { &[500, 2_000, 8_000] } else { &[1_000, 4_000] };
        let series = systems.map(|(name, system)| {
            let at = |servers: usize| {
                let load = self.wan(operations.clone(), servers, Reading::RoundTrip);
                let load = Load { measured_ms: self.effort.wan_ms / 3, ..load };
                self.peak(system, &load, (numbers, PEAK_WAN_MS), servers as f64)
            };
            Series { name: name.into(), points: (1..=SITES).map(at).collect() }
        });
        let title = format!("Peak throughput over sites, {application}");
        Ok(Figure { name, title, x: "servers", series: series.collect() })
    }

    fn micro(&self, local: f64, clients: usize) -> Outcome {
        let load = self.wan(vec![micro()], 3, Reading::RoundTrip);
        // Clients are at the three sites that have servers.
        let load = Load { client_sites: 3, clients, measured_ms: self.effort.wan_ms / 2, ..load };
        run(System::Belt(Classes::Shares { local, global: 1.0 - local }), &load)
    }

    /// Figure 5: throughput and latency of operations of 5 ms by the share of local ones, over three sites. A series for each share; `x` is the
    /// number of clients.
    fn ratios(&self) -> Result<Figure, String> {
        let numbers: &[usize] =
            if self.effort.clients.len() > 1 { &[30, 100, 300, 1_000, 2_000] } else { &[100, 1_000] };
        let of = |local: u32| {
            let at =
                |clients: &usize| point(*clients as f64, &self.micro(f64::from(local) / 100.0, *clients));
            Series { name: format!("{local}% local"), points: numbers.iter().map(at).collect() }
        };
        let series = [0, 10, 30, 50, 70, 90].into_iter().map(of).collect();
        Ok(Figure { name: "5", title: "Operations of 5 ms over three sites".into(), x: "clients", series })
    }

    /// Figure 6: latency by the share of local operations (`x`), with light and with higher load.
    fn ratio_latencies(&self) -> Result<Figure, String> {
        let of = |(name, clients): (&str, usize)| {
            let at = |local: u32| point(f64::from(local), &self.micro(f64::from(local) / 100.0, clients));
            Series { name: name.into(), points: [10, 30, 50, 70, 90].into_iter().map(at).collect() }
        };
        let series = [("light load", 15), ("higher load", 900)].into_iter().map(of).collect();
        Ok(Figure { name: "6", title: "Latency by share of local operations".into(), x: "% local", series })
    }
}

fn systems(application: &str) -> Vec<(&'static str, System)> {
    let table_1 = TABLE_1.iter().find(|(name, ..)| *name == application);
    let (local, global, reads) =
        table_1.map_or((0.5, 0.3, 0.7), |(_, local, global, reads)| (*local, *global, *reads));
    vec![
        ("conveyor", System::Belt(Classes::Analysed)),
        ("conveyor with the shares of Table 1", System::Belt(Classes::Shares { local, global })),
        ("read-only", System::Belt(Classes::ReadOnly)),
        ("read-only with the share of Table 1", System::Belt(Classes::ReadOnlyShare { reads })),
        ("two-phase", System::TwoPhase),
    ]
}

/// The operation of the micro-benchmark: 5 ms, of which the processor has little, since the paper's saturate at more than its cores could
/// compute.
fn micro() -> Operation {
    Operation {
        application: "conveyor-micro".into(),
        operation: "operation".into(),
        class: Class::Local,
        home: Home::Any,
        reads_only: false,
        weights: vec![1],
        cpu_us: 300.0,
        global_us: 300.0,
        wait_us: 4_700.0,
        rows: 1.0,
        others: 0,
        writes_at: 1,
        all: false,
        repeats: false,
    }
}

/// The steps of a costs file for tests: round numbers of the size that PostgreSQL has.
pub fn steps_for_tests() -> Steps {
    Steps {
        read_participant_us: 60.0,
        write_participant_us: 100.0,
        exchange_us: 20.0,
        prepare_us: 80.0,
        commit_prepared_us: 80.0,
        end_us: 150.0,
        read_us: 120.0,
        read_row_us: 5.0,
        apply_us: 150.0,
        apply_row_us: 40.0,
        truncate_us: 80.0,
        check_us: 0.0,
        flush_us: 500.0,
    }
}
