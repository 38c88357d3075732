//! Runs of several targets in turns, each point measured once however many figures have it.

use std::time::Duration;

use serde::Serialize;
use weir_cat::workload::Shape;
use weir_harness::{Spread, mariadb};

use crate::run::{Load, Outcome, Times, run};
use crate::servers::Servers;
use crate::target::Target;

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Effort {
    pub times: Times,
    pub repetitions: usize,
    pub clients: Vec<usize>,
    pub exponents: Vec<f64>,
    pub lengths: Vec<usize>,
    /// Slots of the calculated figures.
    pub slots: u64,
}

impl Effort {
    /// Minutes.
    pub fn quick() -> Effort {
        Effort {
            times: Times { warm_up: Duration::from_millis(100), measured: Duration::from_millis(400) },
            repetitions: 3,
            clients: vec![1, 4, 6, 7],
            exponents: vec![0.0, 0.6, 0.9, 1.2],
            lengths: vec![2, 8, 16],
            slots: 5_000,
        }
    }

    /// Most of an hour.
    pub fn full() -> Effort {
        Effort {
            times: Times { warm_up: Duration::from_secs(1), measured: Duration::from_secs(3) },
            repetitions: 3,
            clients: (1..=7).collect(),
            exponents: vec![0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.2],
            lengths: vec![2, 4, 6, 8, 10, 12, 14, 16],
            slots: 100_000,
        }
    }

    /// To see that it works.
    pub fn tiny() -> Effort {
        Effort {
            times: Times { warm_up: Duration::from_millis(10), measured: Duration::from_millis(60) },
            clients: vec![1, 7],
            exponents: vec![0.0, 1.2],
            lengths: vec![2, 16],
            repetitions: 1,
            slots: 200,
        }
    }
}

/// Outcome of a point: that repetition whose throughput is the median, and the range.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub target: String,
    pub clients: usize,
    pub exponent: f64,
    pub length: usize,
    pub writers: f64,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub throughput_least: f64,
    pub throughput_most: f64,
    pub abort_rate: f64,
}

/// Measures points.
pub struct Laboratory<'a> {
    pub effort: Effort,
    pub targets: Vec<Target>,
    servers: Servers,
    seed: u64,
    known: Vec<(Target, Load, Point)>,
    listener: &'a mut dyn FnMut(&str),
}

impl<'a> Laboratory<'a> {
    /// Leaves out MariaDB where it is not installed, and says so.
    pub fn new(
        effort: Effort,
        targets: &[Target],
        servers: Servers,
        seed: u64,
        listener: &'a mut dyn FnMut(&str),
    ) -> Laboratory<'a> {
        let has_mariadb = mariadb::is_installed();
        if !has_mariadb && targets.iter().any(|target| target.is_mariadb()) {
            listener(&format!("MariaDB is not installed and left out (`{}`)", mariadb::INSTALL));
        }
        let targets = targets.iter().copied().filter(|target| has_mariadb || !target.is_mariadb()).collect();
        Laboratory { effort, targets, servers, seed, known: Vec::new(), listener }
    }

    /// Ends the servers that were started; the next measurement starts them anew.
    pub fn end_servers(&mut self) {
        self.servers.end();
    }

    /// Hears what is measured.
    pub fn listener(&mut self) -> &mut dyn FnMut(&str) {
        self.listener
    }

    /// Measures the places of a sweep that are not known yet: each repetition goes through all of them and all targets, so that a machine that is
    /// busier for a while disturbs all alike.
    ///
    /// # Errors
    /// As [`run`].
    pub fn measure(&mut self, places: &[(usize, Shape)]) -> Result<(), String> {
        let mut outcomes: Vec<(Target, Load, Vec<Outcome>)> = Vec::new();
        for (clients, shape) in places {
            let load = Load { clients: *clients, shape: *shape, seed: self.seed };
            let missing = self.targets.iter().filter(|target| self.of(**target, load).is_none());
            outcomes.extend(missing.map(|target| (*target, load, Vec::new())));
        }
        for repetition in 0..self.effort.repetitions {
            for (target, load, outcomes) in &mut outcomes {
                let load = Load { seed: self.seed.wrapping_add(repetition as u64), ..*load };
                let outcome = run(&mut self.servers, *target, load, self.effort.times)?;
                (self.listener)(&in_words(*target, load, &outcome));
                outcomes.push(outcome);
            }
        }
        for (target, load, outcomes) in outcomes {
            let point = point(target, load, outcomes).ok_or("nothing is repeated 0 times")?;
            self.known.push((target, load, point));
        }
        Ok(())
    }

    /// One point of each target.
    ///
    /// # Errors
    /// As [`Laboratory::measure`].
    pub fn points(&mut self, clients: usize, shape: Shape) -> Result<Vec<(Target, Point)>, String> {
        self.measure(&[(clients, shape)])?;
        let load = Load { clients, shape, seed: self.seed };
        let targets = self.targets.iter();
        Ok(targets.filter_map(|target| Some((*target, self.of(*target, load)?.clone()))).collect())
    }

    fn of(&self, target: Target, load: Load) -> Option<&Point> {
        self.known.iter().find(|(one, known, _)| *one == target && *known == load).map(|(.., point)| point)
    }
}

fn in_words(target: Target, Load { clients, shape, .. }: Load, outcome: &Outcome) -> String {
    format!(
        "{target}, {clients} clients, zipf {}, {} operations, {:.0}% writers: {:.0}/s, {:.1}% aborts",
        shape.exponent,
        shape.length,
        100.0 * shape.writers,
        outcome.throughput,
        100.0 * outcome.abort_rate()
    )
}

fn point(target: Target, load: Load, mut outcomes: Vec<Outcome>) -> Option<Point> {
    let spread = Spread::of(outcomes.iter().map(|outcome| outcome.throughput).collect())?;
    outcomes.sort_by(|one, other| one.throughput.total_cmp(&other.throughput));
    let outcome = outcomes.swap_remove(outcomes.len() / 2);
    Some(Point {
        target: target.to_string(),
        clients: load.clients,
        exponent: load.shape.exponent,
        length: load.shape.length,
        writers: load.shape.writers,
        throughput_least: spread.least,
        throughput_most: spread.most,
        abort_rate: outcome.abort_rate(),
        outcome,
    })
}
