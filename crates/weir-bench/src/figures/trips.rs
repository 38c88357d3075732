//! Round trips of Table 1 of ramp.txt, as runs count them: `table_1.rs` of the tests counts them message by message.

use super::{Effort, Point, Setting};
use crate::pace::Limit;
use crate::plot::{Axis, Panel, Series};
use crate::ycsb::{Keys, Outcome, Protocol, Ycsb};

/// Enough that a transaction has several participants.
const LENGTH: u32 = 8;

/// Name, the share of reads, clients, items, and the rounds that are looked at.
type Row = (&'static str, f64, u32, u64, fn(&Outcome) -> f64);

const ROWS: [Row; 3] = [
    ("writes", 0.0, 16, 20_000, |outcome| outcome.write_rounds),
    ("reads that meet no write", 1.0, 16, 20_000, |outcome| outcome.read_rounds),
    ("reads that meet a write", 0.5, 64, 64, |outcome| outcome.read_rounds),
];

const PROTOCOLS: [&str; 3] = ["ramp-fast", "ramp-small", "ramp-hybrid"];

/// The x of a point is its round trips.
pub fn measure(setting: &mut Setting<'_>) -> Result<Vec<Point>, (String, String)> {
    let seconds = if setting.effort == Effort::Quick { 0.1 } else { 1.0 };
    let mut points = Vec::new();
    for (panel, read_share, clients, items, rounds) in ROWS {
        for name in PROTOCOLS {
            setting.tell(&format!("{panel}: {name}"));
            let workload = Ycsb {
                items,
                keys: Keys::Uniform,
                read_share,
                length: LENGTH,
                clients,
                limit: Limit::Seconds(seconds),
                seed: setting.seed,
                ..Ycsb::default()
            };
            let protocol = Protocol::by_name(name)?;
            let outcome = workload.run(protocol)?;
            points.push(super::point(panel, rounds(&outcome), protocol, &outcome, false));
        }
    }
    Ok(points)
}

pub fn panels(points: &[Point]) -> Vec<Panel> {
    let series = |name: &str| {
        let trips = ROWS.iter().enumerate().filter_map(|(number, (panel, ..))| {
            let point = points.iter().find(|point| point.panel == *panel && point.series == name)?;
            Some((number as f64 + 1.0, point.x))
        });
        Series { name: name.to_owned(), points: trips.collect() }
    };
    vec![Panel {
        title: "round trips".to_owned(),
        x: Axis::linear("1: writes, 2: reads alone, 3: reads beside writes"),
        y: Axis::linear("round trips on average"),
        series: PROTOCOLS.iter().map(|name| series(name)).collect(),
    }]
}
