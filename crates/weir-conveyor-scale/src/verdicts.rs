//! The claims of operation-partitioning.txt §7 and of issue 29, beside the results of the simulation.

use serde::Serialize;

use crate::experiments::{Figure, Point, Series};
use crate::sites::{Network, Reading};

/// A claim, and whether the simulation agrees.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    pub figure: &'static str,
    pub claim: String,
    /// The condition on the number.
    pub bar: String,
    /// None: the figure does not have it.
    pub ours: Option<f64>,
    pub holds: bool,
}

#[derive(Clone, Copy, Debug)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

type Judged = (String, Bar, Option<f64>);

/// The claims of a figure.
pub fn verdicts(figure: &Figure) -> Vec<Verdict> {
    let judged = match figure.name {
        "3-tpcw" => servers(figure, 4.2),
        "3-rubis" => servers(figure, 1.4),
        "sensitivity" => sensitivity(figure),
        "table-3" => light_load(figure),
        "4-tpcw" => sites(figure, 2.91),
        "4-rubis" => sites(figure, 1.81),
        "5" => ratios(figure),
        "6" => ratio_latencies(figure),
        _ => Vec::new(),
    };
    let verdict = |(claim, bar, ours): Judged| {
        let (bar, holds) = match bar {
            Bar::AtLeast(least) => (format!("≥ {least:.2}"), ours.is_some_and(|ours| ours >= least)),
            Bar::AtMost(most) => (format!("≤ {most:.2}"), ours.is_some_and(|ours| ours <= most)),
        };
        Verdict { figure: figure.name, claim, bar, ours, holds }
    };
    judged.into_iter().map(verdict).collect()
}

fn best(figure: &Figure, name: &str) -> Option<Point> {
    figure.series(name)?.best().cloned()
}

fn ratio(figure: &Figure, one: &str, other: &str) -> Option<f64> {
    Some(best(figure, one)?.throughput / best(figure, other)?.throughput)
}

/// Throughput with so many servers beside that with others.
fn along(series: &Series, at: f64, before: f64) -> Option<f64> {
    Some(series.at(at)?.throughput / series.at(before)?.throughput)
}

const TABLE_1: &str = "conveyor with the shares of Table 1";

fn servers(figure: &Figure, bar: f64) -> Vec<Judged> {
    let peak_at = |name: &str| best(figure, name).map(|point| point.x);
    let first = |name: &str| figure.series(name).and_then(|series| Some(series.points.first()?.throughput));
    let scale = |name: &str| Some(best(figure, name)?.throughput / first(name)?);
    // From half of the servers to all of them, two-phase commit gains less than the belt.
    let last = figure.series.first().and_then(|series| series.points.last()).map_or(1.0, |point| point.x);
    let half = figure.series.first().and_then(|series| {
        series.points.iter().map(|point| point.x).filter(|x| *x <= last / 2.0).reduce(f64::max)
    });
    let gain = |name: &str| along(figure.series(name)?, last, half?);
    vec![
        (
            "most throughput beside two-phase commit at its best".into(),
            Bar::AtLeast(bar),
            ratio(figure, "conveyor", "two-phase"),
        ),
        (
            "the same with the shares of Table 1".into(),
            Bar::AtLeast(bar),
            ratio(figure, TABLE_1, "two-phase"),
        ),
        (
            "servers at which two-phase commit has its peak: 4 (TPC-W), 12 (RUBiS)".into(),
            Bar::AtMost(12.0),
            peak_at("two-phase"),
        ),
        (
            "servers at which conveyor has its peak: 13 (TPC-W), 12 (RUBiS)".into(),
            Bar::AtLeast(12.0),
            peak_at("conveyor"),
        ),
        ("most throughput beside one server, conveyor".into(), Bar::AtLeast(2.0), scale("conveyor")),
        (
            "most throughput beside the read-only baseline".into(),
            Bar::AtLeast(1.0),
            ratio(figure, "conveyor", "read-only"),
        ),
        (
            "gain of the last doubling, beside that of two-phase commit".into(),
            Bar::AtLeast(1.0),
            gain("conveyor").zip(gain("two-phase")).map(|(ours, theirs)| ours / theirs),
        ),
    ]
}

fn sensitivity(figure: &Figure) -> Vec<Judged> {
    let mut judged = Vec::new();
    for (application, bar) in [("tpcw", 4.2), ("rubis", 1.4)] {
        for case in ["as measured", "operations -50%", "operations +50%", "steps -50%", "steps +50%"] {
            let of = |system: &str| format!("{application} {case} {system}");
            let ours = ratio(figure, &of("conveyor"), &of("two-phase"));
            judged.push((format!("{application}, {case}: beside two-phase commit"), Bar::AtLeast(bar), ours));
        }
    }
    judged
}

fn light_load(figure: &Figure) -> Vec<Judged> {
    let mut judged = Vec::new();
    for (reading, said) in [(Reading::RoundTrip, "round trips"), (Reading::OneWay, "one way")] {
        let network = Network::Wan(reading);
        let within_ms = 1.5 * network.within_site_ms();
        let rotation_ms = network.rotation_ms(5);
        for application in ["tpcw", "rubis"] {
            let at = |name: &str, servers: f64| {
                figure.series(&format!("{application} {name}, {said}"))?.at(servers)
            };
            let five = at("conveyor", 5.0);
            let class = |class: usize| five.map(|point| point.class_mean_ms[class]);
            let mut add =
                |claim: &str, bar, ours| judged.push((format!("{application}, {said}: {claim}"), bar, ours));
            add("mean of commutative operations, ms", Bar::AtMost(within_ms), class(0));
            add("mean of local operations of the client's site, ms", Bar::AtMost(within_ms), class(1));
            add(
                "mean of global operations, ms: a rotation and a local one",
                Bar::AtMost(rotation_ms + within_ms),
                class(2),
            );
            let beside_one = |name: &str, servers| Some(at(name, 1.0)?.mean_ms / at(name, servers)?.mean_ms);
            add("five servers beside one", Bar::AtLeast(1.5), beside_one("conveyor", 5.0));
            add(
                "five servers beside three",
                Bar::AtLeast(1.0),
                Some(()).and_then(|()| Some(at("conveyor", 3.0)?.mean_ms / at("conveyor", 5.0)?.mean_ms)),
            );
            add(
                "read-only baseline beside conveyor, five servers",
                Bar::AtLeast(1.0),
                Some(()).and_then(|()| Some(at("read-only", 5.0)?.mean_ms / at("conveyor", 5.0)?.mean_ms)),
            );
            let table_1 = Some(()).and_then(|()| {
                Some(at("read-only with the share of Table 1", 5.0)?.mean_ms / at(TABLE_1, 5.0)?.mean_ms)
            });
            add("the same with the shares of Table 1", Bar::AtLeast(1.0), table_1);
        }
    }
    judged
}

fn sites(figure: &Figure, bar: f64) -> Vec<Judged> {
    let at = |name: &str, servers: f64| Some(figure.series(name)?.at(servers)?.throughput);
    let beside = |one: &str, other: &str| Some(at(one, 5.0)? / at(other, 5.0)?);
    let grows = |name: &str| along(figure.series(name)?, 5.0, 3.0);
    vec![
        (
            "five sites beside the read-only baseline".into(),
            Bar::AtLeast(bar),
            beside("conveyor", "read-only"),
        ),
        (
            "the same with the shares of Table 1".into(),
            Bar::AtLeast(bar),
            beside(TABLE_1, "read-only with the share of Table 1"),
        ),
        ("conveyor from three to five sites".into(), Bar::AtLeast(1.3), grows("conveyor")),
        (
            "the read-only baseline from three to five sites: maxes out".into(),
            Bar::AtMost(1.3),
            grows("read-only"),
        ),
        (
            "the same with the share of Table 1".into(),
            Bar::AtMost(1.3),
            grows("read-only with the share of Table 1"),
        ),
    ]
}

fn ratios(figure: &Figure) -> Vec<Judged> {
    let peak = |name: &str| best(figure, name).map(|point| point.throughput);
    let beside = |one: &str, other: &str| Some(peak(one)? / peak(other)?);
    let names: Vec<&str> = figure.series.iter().map(|series| series.name.as_str()).collect();
    let steps = names.windows(2).map(|pair| beside(pair[1], pair[0]));
    let least = steps.collect::<Option<Vec<_>>>().and_then(|steps| steps.into_iter().reduce(f64::min));
    vec![
        ("each larger share of local operations beside the one before".into(), Bar::AtLeast(1.0), least),
        (
            "90% local beside 30%: 5477 and 600 operations a second".into(),
            Bar::AtLeast(5477.0 / 600.0),
            beside("90% local", "30% local"),
        ),
    ]
}

fn ratio_latencies(figure: &Figure) -> Vec<Judged> {
    let at = |name: &str, x: f64| figure.series(name)?.at(x);
    let global_beside_local =
        |x: f64| at("light load", x).map(|point| point.class_mean_ms[2] / point.class_mean_ms[1]);
    let shares = [10.0, 30.0, 50.0, 70.0, 90.0];
    let least = shares.iter().map(|x| global_beside_local(*x)).collect::<Option<Vec<_>>>();
    let least = least.and_then(|all| all.into_iter().reduce(f64::min));
    let beside =
        |name: &str, later: f64, before: f64| Some(at(name, later)?.mean_ms / at(name, before)?.mean_ms);
    vec![
        ("global operations beside local ones, light load: 2.23 to 3.75".into(), Bar::AtLeast(2.23), least),
        (
            "light load: the mean falls from 10% to 70%".into(),
            Bar::AtMost(1.0),
            beside("light load", 70.0, 10.0),
        ),
        (
            "higher load: the mean falls from 70% to 90%, too".into(),
            Bar::AtMost(1.0),
            beside("higher load", 90.0, 70.0),
        ),
        (
            "the last fall is steeper with the higher load".into(),
            Bar::AtMost(1.0),
            beside("higher load", 90.0, 70.0)
                .zip(beside("light load", 90.0, 70.0))
                .map(|(high, light)| high / light),
        ),
    ]
}
