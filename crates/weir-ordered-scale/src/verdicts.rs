//! What eris.txt §8 says of its figures, beside what the simulation shows.

use serde::Serialize;

use crate::figures::Figure;

/// A claim of the paper, and whether the simulation agrees.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    pub figure: &'static str,
    pub claim: &'static str,
    /// What has to hold of the number.
    pub bar: String,
    /// None: the figure does not come so far, as with throughput that is never restored.
    pub ours: Option<f64>,
    pub holds: bool,
}

/// What has to hold of a number.
#[derive(Clone, Copy, Debug)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

/// The claims of a figure.
pub fn verdicts(figure: &Figure) -> Vec<Verdict> {
    let judged = match figure.name {
        "6" => latency(figure),
        "7" => distributed(figure),
        "8" => skew(figure),
        "9" => general(figure),
        "10" => general_skew(figure),
        "11" | "scaling" => scaling(figure),
        "13" => lossy(figure),
        "14" => failover(figure),
        _ => Vec::new(),
    };
    let verdict = |(claim, bar, ours): Judged| {
        let (bar, holds) = match bar {
            Bar::AtLeast(least) => (format!("≥ {least}"), ours.is_some_and(|ours| ours >= least)),
            Bar::AtMost(most) => (format!("≤ {most}"), ours.is_some_and(|ours| ours <= most)),
        };
        Verdict { figure: figure.name, claim, bar, ours, holds }
    };
    judged.into_iter().map(verdict).collect()
}

/// A claim, its bar, and our number if the figure has it.
type Judged = (&'static str, Bar, Option<f64>);

/// The most throughput of one beside that of another.
fn most_beside(figure: &Figure, one: &str, other: &str) -> Option<f64> {
    Some(figure.series(one)?.most() / figure.series(other)?.most())
}

/// Throughput of one beside that of another at a place.
fn beside(figure: &Figure, (one, other): (&str, &str), x: f64) -> Option<f64> {
    Some(figure.series(one)?.at(x)? / figure.series(other)?.at(x)?)
}

/// Throughput at one place beside that at another.
fn along(figure: &Figure, name: &str, (at, before): (f64, f64)) -> Option<f64> {
    let series = figure.series(name)?;
    Some(series.at(at)? / series.at(before)?)
}

fn last_x(figure: &Figure) -> f64 {
    figure.series.first().and_then(|series| series.points.last()).map_or(0.0, |point| point.x)
}

fn first_x(figure: &Figure) -> f64 {
    figure.series.first().and_then(|series| series.points.first()).map_or(0.0, |point| point.x)
}

/// Median latency of one beside that of another, where there is no queue.
fn latency_beside(figure: &Figure, one: &str, other: &str) -> Option<f64> {
    let of = |name| Some(figure.series(name)?.points.first()?.p50_us);
    Some(of(one)? / of(other)?)
}

fn latency(figure: &Figure) -> Vec<Judged> {
    let most = |other| most_beside(figure, "ordered", other);
    vec![
        ("throughput beside NT-UR: within 10%", Bar::AtLeast(0.9), most("nt-ur")),
        ("throughput beside Granola: 2.5", Bar::AtLeast(2.5), most("granola")),
        ("throughput beside TAPIR: 2.9", Bar::AtLeast(2.9), most("tapir")),
        ("throughput beside Lock-Store: 4.5", Bar::AtLeast(4.5), most("lock-store")),
        (
            "latency without load beside NT-UR: within 10%",
            Bar::AtMost(1.1),
            latency_beside(figure, "ordered", "nt-ur"),
        ),
        (
            "latency without load beside Granola: 48 to 72% lower than the others",
            Bar::AtMost(0.52),
            latency_beside(figure, "ordered", "granola"),
        ),
        (
            "latency without load beside Lock-Store: 48 to 72% lower than the others",
            Bar::AtMost(0.52),
            latency_beside(figure, "ordered", "lock-store"),
        ),
    ]
}

/// The least throughput of one beside that of another at any place.
fn least_beside(figure: &Figure, one: &str, other: &str) -> Option<f64> {
    let one = figure.series(one)?;
    let shares = one.points.iter().map(|point| beside(figure, (&one.name, other), point.x));
    shares.collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::min)
}

fn distributed(figure: &Figure) -> Vec<Judged> {
    vec![
        (
            "beside NT-UR at any share: within 10%",
            Bar::AtLeast(0.9),
            least_beside(figure, "ordered", "nt-ur"),
        ),
        (
            "NT-UR with all distributed beside none: two operations instead of one",
            Bar::AtMost(0.6),
            along(figure, "nt-ur", (last_x(figure), first_x(figure))),
        ),
        ("margin over Granola grows with the share", Bar::AtLeast(1.0), grows(figure, "granola")),
        ("margin over TAPIR grows with the share", Bar::AtLeast(1.0), grows(figure, "tapir")),
        ("margin over Lock-Store grows with the share", Bar::AtLeast(1.0), grows(figure, "lock-store")),
    ]
}

/// The margin of ordered transactions over others at the last place, beside that at the first.
fn grows(figure: &Figure, other: &str) -> Option<f64> {
    let at = |x| beside(figure, ("ordered", other), x);
    Some(at(last_x(figure))? / at(first_x(figure))?)
}

fn skew(figure: &Figure) -> Vec<Judged> {
    let (last, first) = (last_x(figure), first_x(figure));
    let normalized = |name| along(figure, name, (last, first));
    let beside_nt_ur = || Some(normalized("ordered")? / normalized("nt-ur")?);
    let of_granola = || Some(normalized("granola")? / normalized("nt-ur")?);
    vec![
        (
            "beside Lock-Store with the most skew: 35",
            Bar::AtLeast(35.0),
            beside(figure, ("ordered", "lock-store"), last),
        ),
        (
            "beside TAPIR with the most skew: 25.6",
            Bar::AtLeast(25.6),
            beside(figure, ("ordered", "tapir"), last),
        ),
        ("what skew leaves, beside what it leaves of NT-UR", Bar::AtLeast(0.9), beside_nt_ur()),
        ("Granola does not collapse: what skew leaves, beside NT-UR", Bar::AtLeast(0.7), of_granola()),
    ]
}

fn general(figure: &Figure) -> Vec<Judged> {
    let of = |name| along(figure, name, (1.0, 0.0));
    vec![
        ("CRMW beside MRMW: 28% less", Bar::AtLeast(0.72), of("ordered")),
        ("NT-UR's CRMW is less than its MRMW", Bar::AtMost(0.999), of("nt-ur")),
        ("Granola's CRMW beside its MRMW: more than 50% less", Bar::AtMost(0.5), of("granola")),
        ("CRMW beside Granola's", Bar::AtLeast(1.0), beside(figure, ("ordered", "granola"), 1.0)),
        ("CRMW beside Lock-Store's", Bar::AtLeast(1.0), beside(figure, ("ordered", "lock-store"), 1.0)),
        ("CRMW beside TAPIR's", Bar::AtLeast(1.0), beside(figure, ("ordered", "tapir"), 1.0)),
    ]
}

fn general_skew(figure: &Figure) -> Vec<Judged> {
    let last = last_x(figure);
    let at = |other| beside(figure, ("ordered", other), last);
    let least = |other| least_beside(figure, "ordered", other);
    vec![
        ("beside Granola with the most skew: extreme", Bar::AtLeast(1.0), at("granola")),
        ("beside Lock-Store with the most skew", Bar::AtLeast(1.0), at("lock-store")),
        ("beside TAPIR with the most skew", Bar::AtLeast(1.0), at("tapir")),
        ("beside Granola with any skew", Bar::AtLeast(1.0), least("granola")),
        ("beside Lock-Store with any skew", Bar::AtLeast(1.0), least("lock-store")),
        ("beside TAPIR with any skew", Bar::AtLeast(1.0), least("tapir")),
    ]
}

/// Throughput beside that of one shard, by the number of shards.
fn efficiency(figure: &Figure, name: &str, shards: f64) -> Option<f64> {
    Some(along(figure, name, (shards, first_x(figure)))? * first_x(figure) / shards)
}

fn scaling(figure: &Figure) -> Vec<Judged> {
    let last = last_x(figure);
    let of = |name| efficiency(figure, name, last);
    let beside_nt_ur = || Some(of("ordered")? / of("nt-ur")?);
    vec![
        ("throughput of a shard, beside that of the only shard", Bar::AtLeast(0.75), of("ordered")),
        ("the same, beside NT-UR's", Bar::AtLeast(0.9), beside_nt_ur()),
        (
            "globally ordered: throughput of all shards beside that of one",
            Bar::AtMost(2.0),
            along(figure, "ordered-global", (last, first_x(figure))),
        ),
        (
            "beside globally ordered",
            Bar::AtLeast(last / 4.0),
            beside(figure, ("ordered", "ordered-global"), last),
        ),
    ]
}

fn lossy(figure: &Figure) -> Vec<Judged> {
    let left = |name, loss| along(figure, name, (loss, 0.0));
    vec![
        ("what 1% of lost messages leaves: 90%", Bar::AtLeast(0.9), left("ordered", 0.01)),
        (
            "beside Granola with 10% of lost messages: less",
            Bar::AtMost(1.0),
            beside(figure, ("ordered", "granola"), 0.1),
        ),
        ("TAPIR is affected: what 10% of lost messages leaves", Bar::AtMost(0.8), left("tapir", 0.1)),
    ]
}

/// Points over which the throughput is taken as restored.
const WINDOW: usize = 5;

fn failover(figure: &Figure) -> Vec<Judged> {
    let times = figure.series("ordered").and_then(failover_ms);
    vec![
        (
            "milliseconds until transactions are answered again: 130",
            Bar::AtMost(130.0),
            times.map(|(resumed, _)| resumed),
        ),
        (
            "milliseconds until the full throughput: 300",
            Bar::AtMost(300.0),
            times.and_then(|(_, restored)| restored),
        ),
    ]
}

/// From the end of the sequencer until a tenth of the throughput before, and until nine tenths of it over some points.
fn failover_ms(series: &crate::figures::Series) -> Option<(f64, Option<f64>)> {
    let rate_of = |points: &[crate::experiments::Point]| {
        points.iter().map(|point| point.transactions_per_second).sum::<f64>() / points.len().max(1) as f64
    };
    let ended = series.points.iter().position(|point| point.x >= 0.0)?;
    let (before, after) = series.points.split_at(ended);
    let rate = rate_of(&before[before.len() / 2..]);
    let silent = after.iter().position(|point| point.transactions_per_second < 0.1 * rate)?;
    let is_answered = |point: &crate::experiments::Point| point.transactions_per_second >= 0.1 * rate;
    let resumed = silent + after[silent..].iter().position(is_answered)?;
    let is_restored = |points: &[crate::experiments::Point]| rate_of(points) >= 0.9 * rate;
    let restored = after[resumed..].windows(WINDOW).position(is_restored).map(|at| after[resumed + at].x);
    Some((after[resumed].x, restored))
}

#[cfg(test)]
mod unit_tests {
    use super::*;
    use crate::experiments::Point;
    use crate::figures::Series;

    fn series(name: &str, points: &[(f64, f64)]) -> Series {
        let point = |&(x, transactions_per_second): &(f64, f64)| Point {
            x,
            transactions_per_second,
            p50_us: 20.0,
            p99_us: 40.0,
            aborts_per_transaction: 0.0,
            clients: 1,
            busiest_replica: 1.0,
        };
        Series { name: name.to_owned(), points: points.iter().map(point).collect() }
    }

    fn figure(name: &'static str, series: Vec<Series>) -> Figure {
        Figure { name, title: String::new(), x: "", series }
    }

    #[test]
    fn scaling_is_judged_by_what_each_shard_still_does() {
        let judged = |ordered: f64, global: f64| {
            let series = vec![
                series("nt-ur", &[(1.0, 200.0), (10.0, 1_800.0)]),
                series("ordered", &[(1.0, 100.0), (10.0, ordered)]),
                series("ordered-global", &[(1.0, 100.0), (10.0, global)]),
            ];
            verdicts(&figure("scaling", series)).into_iter().map(|each| each.holds).collect::<Vec<_>>()
        };
        assert_eq!(judged(900.0, 110.0), [true; 4]);
        assert_eq!(judged(500.0, 900.0), [false; 4]);
    }

    #[test]
    fn a_failover_is_read_from_the_throughput() {
        let before = (-10..0).map(|at| (f64::from(at) * 10.0, 100.0));
        let after = |times: [(i32, f64); 3]| {
            let rate =
                move |at: i32| times.iter().rev().find(|(from, _)| at >= *from).map_or(0.0, |each| each.1);
            (0..30).map(move |at| (f64::from(at) * 10.0, rate(at)))
        };
        let points = |times| before.clone().chain(after(times)).collect::<Vec<_>>();
        let read = |times| failover_ms(&series("ordered", &points(times)));
        // Of the five points from there on, one has half of the throughput.
        assert_eq!(read([(0, 0.0), (12, 50.0), (15, 100.0)]), Some((120.0, Some(140.0))));
        assert_eq!(read([(0, 0.0), (12, 50.0), (15, 60.0)]), Some((120.0, None)));
        assert_eq!(read([(0, 0.0), (1, 0.0), (2, 0.0)]), None);
        let never = verdicts(&figure("14", vec![series("ordered", &points([(0, 0.0); 3]))]));
        assert!(never.iter().all(|each| !each.holds && each.ours.is_none()));
    }
}
