//! The figures of eris.txt §8: what each one varies, and for whom.

use serde::Serialize;
use weir_baselines::eris::workload::Kind;

use crate::experiments::{
    Contender, GRANOLA, LOCK_STORE, Laboratory, Load, NT_UR, ORDERED, ORDERED_GLOBAL, ORDERED_MIDDLEBOX,
    ORDERED_SOFTWARE, Point, TAPIR,
};
use crate::run::run;
use crate::simulation::Window;

/// One line of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    pub name: String,
    pub points: Vec<Point>,
}

impl Series {
    /// Throughput at that place.
    pub fn at(&self, x: f64) -> Option<f64> {
        let point = self.points.iter().find(|point| (point.x - x).abs() < 1e-9)?;
        Some(point.transactions_per_second)
    }

    /// The most throughput.
    pub fn most(&self) -> f64 {
        self.points.iter().map(|point| point.transactions_per_second).fold(0.0, f64::max)
    }
}

/// A figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub name: &'static str,
    pub title: String,
    pub x: &'static str,
    pub series: Vec<Series>,
}

impl Figure {
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }
}

/// Names of the figures. 12, which is of TPC-C, is not there: the comparators run YCSB+T only.
pub const NAMES: [&str; 9] = ["6", "7", "8", "9", "10", "11", "13", "14", "scaling"];

/// Those that the paper compares.
const COMPARED: [Contender; 6] = [NT_UR, ORDERED, ORDERED_SOFTWARE, GRANOLA, TAPIR, LOCK_STORE];
/// Without the sequencer of Weir, where that says nothing more.
const PAPER: [Contender; 5] = [NT_UR, ORDERED, GRANOLA, TAPIR, LOCK_STORE];
const SCALED: [Contender; 8] =
    [NT_UR, ORDERED, ORDERED_SOFTWARE, ORDERED_MIDDLEBOX, ORDERED_GLOBAL, GRANOLA, TAPIR, LOCK_STORE];

const QUICK_SCALED: usize = 5;

/// Exponents of Zipf's law.
const SKEWS: [f64; 6] = [0.5, 0.7, 0.9, 1.0, 1.1, 1.2];
const QUICK_SKEWS: [f64; 2] = [0.5, 1.2];
/// Shares of distributed transactions.
const SHARES: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
const QUICK_SHARES: [f64; 3] = [0.0, 0.2, 1.0];
/// Shares of lost messages, from 0.001% to 10%.
const LOSSES: [f64; 6] = [0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];
const QUICK_LOSSES: [f64; 3] = [0.0, 1e-2, 1e-1];

impl Laboratory<'_> {
    /// The figure of that name.
    ///
    /// # Errors
    /// There is none, or a cost is not known.
    pub fn figure(&self, name: &str) -> Result<Figure, String> {
        match name {
            "6" => self.latency(),
            "7" => self.distributed(),
            "8" => self.skew("8", Kind::Mrmw),
            "9" => self.general(),
            "10" => self.skew("10", Kind::Crmw),
            "11" => self.scaling("11", if self.effort.is_quick { &[1, 5] } else { &[1, 3, 6, 9, 12, 15] }),
            "scaling" => self
                .scaling("scaling", if self.effort.is_quick { &[1, 10, 100] } else { &[1, 15, 30, 60, 100] }),
            "13" => self.lossy(),
            "14" => self.failover(),
            _ => Err(format!("no figure {name}: there are {}", NAMES.join(", "))),
        }
    }

    fn pick<T>(&self, quick: &'static [T], full: &'static [T]) -> &'static [T] {
        if self.effort.is_quick { quick } else { full }
    }

    /// Simulates all points of some contenders.
    fn sweep(
        &self,
        contenders: &[Contender],
        xs: &[f64],
        load: impl Fn(f64) -> Load,
    ) -> Result<Vec<Series>, String> {
        let series = contenders.iter().map(|contender| {
            let points = xs.iter().map(|x| self.best(*contender, load(*x), *x));
            Ok(Series { name: contender.name.to_owned(), points: points.collect::<Result<_, String>>()? })
        });
        series.collect()
    }

    fn load(&self, kind: Kind, distributed: f64, zipf: f64) -> Load {
        Load { kind, shards: self.effort.shards, distributed, zipf, loss: 0.0 }
    }

    /// Figure 6: x is the number of clients a shard.
    fn latency(&self) -> Result<Figure, String> {
        let clients: &[usize] = self.pick(&[1, 64], &[1, 4, 16, 32, 64, 128]);
        let load = self.load(Kind::Srw, 0.0, 0.0);
        let series = COMPARED.iter().map(|contender| {
            let points = clients.iter().map(|count| self.point(*contender, load, *count as f64, *count));
            Ok(Series { name: contender.name.to_owned(), points: points.collect::<Result<_, String>>()? })
        });
        let series = series.collect::<Result<_, String>>()?;
        let title = format!("SRW, uniform, {} shards: latency and throughput", load.shards);
        Ok(Figure { name: "6", title, x: "clients of a shard", series })
    }

    fn distributed(&self) -> Result<Figure, String> {
        let xs = self.pick(&QUICK_SHARES, &SHARES);
        let series = self.sweep(&COMPARED, xs, |x| self.load(Kind::Mrmw, x, 0.0))?;
        let title = format!("MRMW, uniform, {} shards", self.effort.shards);
        Ok(Figure { name: "7", title, x: "share of distributed transactions", series })
    }

    /// Figures 8 and 10.
    fn skew(&self, name: &'static str, kind: Kind) -> Result<Figure, String> {
        let xs = self.pick(&QUICK_SKEWS, &SKEWS);
        let series = self.sweep(&PAPER, xs, |x| self.load(kind, 0.2, x))?;
        let upper = kind.name().to_uppercase();
        let title = format!("{upper}, 20% distributed, Zipf's law, {} shards", self.effort.shards);
        Ok(Figure { name, title, x: "exponent of Zipf's law", series })
    }

    /// Figure 9: x is 0 for MRMW and 1 for CRMW.
    fn general(&self) -> Result<Figure, String> {
        let series = self.sweep(&PAPER, &[0.0, 1.0], |x| {
            self.load(if x == 0.0 { Kind::Mrmw } else { Kind::Crmw }, 0.2, 0.5)
        })?;
        let title = format!("MRMW and CRMW, 20% distributed, Zipf 0.5, {} shards", self.effort.shards);
        Ok(Figure { name: "9", title, x: "0: MRMW, 1: CRMW", series })
    }

    fn scaling(&self, name: &'static str, shards: &[u16]) -> Result<Figure, String> {
        let xs: Vec<_> = shards.iter().map(|shards| f64::from(*shards)).collect();
        let load = |x: f64| Load { shards: x as u16, ..self.load(Kind::Mrmw, 0.2, 0.5) };
        // The first ones are those that differ in their sequencers.
        let contenders = if self.effort.is_quick { &SCALED[..QUICK_SCALED] } else { &SCALED };
        let series = self.sweep(contenders, &xs, load)?;
        Ok(Figure { name, title: "MRMW, 20% distributed, Zipf 0.5".to_owned(), x: "shards", series })
    }

    fn lossy(&self) -> Result<Figure, String> {
        let shards = self.effort.shards.min(LOSSY_SHARDS_MAX);
        let xs = self.pick(&QUICK_LOSSES, &LOSSES);
        let load = |x: f64| Load { shards, loss: x, ..self.load(Kind::Srw, 0.0, 0.0) };
        let series = self.sweep(&PAPER, xs, load)?;
        Ok(Figure {
            name: "13",
            title: format!("SRW, uniform, {shards} shards"),
            x: "share of lost messages",
            series,
        })
    }

    /// Figure 14: x is the time since the end of the sequencer in milliseconds; each point is of the 10 ms from there on.
    fn failover(&self) -> Result<Figure, String> {
        let load = Load { shards: FAILOVER_SHARDS, ..self.load(Kind::Srw, 0.0, 0.0) };
        let clients = if self.effort.is_quick { 2 } else { 6 };
        let mut settings = self.settings(ORDERED, load, clients)?;
        settings.sequencer_ends_ns = Some(FAILOVER_BEFORE_MS * 1_000_000);
        let most_ns = (FAILOVER_BEFORE_MS + FAILOVER_AFTER_MS) * 1_000_000;
        settings.window = Window { least_ns: most_ns, most_ns, answered: 0 };
        let outcome = run(ORDERED.protocol, &settings);
        let place = |at: u64| FAILOVER_BUCKET_MS * at;
        let buckets = (FAILOVER_BEFORE_MS + FAILOVER_AFTER_MS) / FAILOVER_BUCKET_MS;
        let points = (0..buckets).map(|at| {
            let of_bucket =
                outcome.answered_in.iter().skip(place(at) as usize).take(FAILOVER_BUCKET_MS as usize);
            Point {
                x: place(at) as f64 - FAILOVER_BEFORE_MS as f64,
                transactions_per_second: of_bucket.sum::<u64>() as f64 * 1e3 / FAILOVER_BUCKET_MS as f64,
                p50_us: outcome.latency.value_at_quantile(0.5) as f64 / 1e3,
                p99_us: outcome.latency.value_at_quantile(0.99) as f64 / 1e3,
                aborts_per_transaction: 0.0,
                clients,
                busiest_replica: outcome.busiest_replica,
            }
        });
        let series = vec![Series { name: ORDERED.name.to_owned(), points: points.collect() }];
        let title = format!("SRW, {FAILOVER_SHARDS} shards: the sequencer ends at 0");
        Ok(Figure { name: "14", title, x: "milliseconds", series })
    }
}

/// Shards of the figure of lost messages, at most: a run has many clients, and lasts as long as repetitions take.
const LOSSY_SHARDS_MAX: u16 = 5;
const FAILOVER_SHARDS: u16 = 3;
const FAILOVER_BEFORE_MS: u64 = 100;
const FAILOVER_AFTER_MS: u64 = 1_900;
const FAILOVER_BUCKET_MS: u64 = 10;
