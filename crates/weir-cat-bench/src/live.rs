//! The live Contention Level beside the offline one of the same recorded run, and beside what the server says of it (docs/internals/cat.md).

use weir_cat::contention::of_history;
use weir_cat::live::{Live, Sampling};
use weir_cat::workload::Shape;
use weir_harness::figure::{Claim, Figure, Kind, Verdict};
use weir_harness::plot::{Axis, Panel, Series};

use crate::metrics;
use crate::run::{Load, Times, recorded};
use crate::servers::Servers;
use crate::target::{Level, Target};

/// The levels differ by no more than this share of the offline one.
const WITHIN: f64 = 0.05;

/// Recorded accesses, and common ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counters {
    accesses: f64,
    common: f64,
}

impl Counters {
    fn of(page: &str) -> Counters {
        let sum = |metric| metrics::sum(page, metric);
        Counters { accesses: sum("weir_recorded_accesses_total"), common: sum("weir_common_accesses_total") }
    }

    /// The level of what was recorded since then. None: nothing was.
    fn level_since(self, before: Counters) -> Option<f64> {
        let accesses = self.accesses - before.accesses;
        (accesses > 0.0).then(|| (self.common - before.common) / accesses)
    }
}

/// Runs write-only transactions by zipf exponent against each of Weir's mechanisms.
///
/// # Errors
/// As [`recorded`], or the metrics cannot be read.
pub fn figure(
    servers: &mut Servers,
    exponents: &[f64],
    times: Times,
    seed: u64,
    listener: &mut dyn FnMut(&str),
) -> Result<Figure, String> {
    const TARGETS: [Target; 3] =
        [Target::WeirConfluent, Target::WeirOrdered, Target::WeirInteractive(Level::Serializable)];
    let (mut data, mut claims, mut series) = (Vec::new(), Vec::new(), Vec::new());
    for target in TARGETS {
        let (mut live_points, mut offline_points) = (Vec::new(), Vec::new());
        for exponent in exponents {
            servers.address(target)?;
            let before = Counters::of(&servers.metrics(target)?);
            let load = Load { clients: 7, shape: Shape { exponent: *exponent, ..Shape::PAPER }, seed };
            let history = recorded(servers, target, load, times)?;
            let offline = of_history(&history).level();
            let live = Live::replay(&history, Sampling::DEFAULT).report(1).all.contention.level();
            let page = servers.metrics(target)?;
            let server = Counters::of(&page).level_since(before);
            let said =
                server.map_or("nothing recorded in this run".to_owned(), |level| format!("{level:.4}"));
            listener(&format!(
                "{target}, zipf {exponent}, {} attempts: live {live:.4}, offline {offline:.4}; the server, by its own times: {said}",
                history.len()
            ));
            for hot in metrics::samples(&page, "weir_hot_key_accesses").into_iter().take(3) {
                listener(hot);
            }
            data.push(serde_json::json!({
                "target": target.to_string(), "exponent": exponent, "live": live, "offline": offline, "server": server,
            }));
            claims.push(Claim::new(
                format!(
                    "{target}, zipf {exponent}: the live Contention Level is within 5% of the offline one"
                ),
                format!("{offline:.4} offline"),
                format!("{live:.4}, {:+.1}%", 100.0 * (live / offline - 1.0)),
                Verdict::of((live / offline - 1.0).abs() <= WITHIN),
            ));
            live_points.push((*exponent, live));
            offline_points.push((*exponent, offline));
        }
        series.push(Series { name: format!("{target}, live"), points: live_points });
        series.push(Series { name: format!("{target}, offline"), points: offline_points });
    }
    Ok(Figure {
        id: "cat-live".to_owned(),
        paper: "cat-theorem.txt",
        title: "The live Contention Level beside the offline one: 7 clients, 8 operations, write-only".to_owned(),
        kind: Kind::Measured,
        notes: vec![
            "Offline: of all attempts of the clients, by their times. Live: the same history through what a server records of it in bursts. What the server \
             says is by its own times: a transaction begins there when its first statement is begun, and ends with its last one, so waits outside of the server are \
             not in it, and it overlaps with fewer others."
                .to_owned(),
        ],
        panels: vec![Panel {
            title: "Contention Level".to_owned(),
            x: Axis::linear("zipf exponent"),
            y: Axis::linear("0 to 1"),
            series,
        }],
        data,
        claims,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_of_what_was_recorded_in_between() {
        let counters = |accesses, common| Counters { accesses, common };
        assert_eq!(counters(30.0, 6.0).level_since(counters(10.0, 1.0)), Some(0.25));
        assert_eq!(counters(10.0, 1.0).level_since(counters(10.0, 1.0)), None);
        let page = "weir_recorded_accesses_total{name=\"a\"} 8\nweir_common_accesses_total{name=\"a\"} 2\n";
        assert_eq!(Counters::of(page), counters(8.0, 2.0));
    }
}
