//! `weir bench` of one workload on several targets, in turns: points of a sweep, interleaved repetitions, medians and ranges, ratios.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value as Json, json};
use weir_harness::Spread;

use crate::connection::Dialect;
use crate::load::{self, Figures, Latency, Load, Loop, Outcome, Times, Use};
use crate::place::{Place, Places, Starting};
use crate::target::Level;
use crate::trace::{self, Line, Trace};
use crate::workload::{self, Way, Workload, Wrong};

/// A measurement that is asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub workload: String,
    pub settings: Vec<(String, String)>,
    pub places: Vec<Place>,
    /// 0: so many as the workload has by itself.
    pub clients: usize,
    /// A setting of the workload, or `clients` or `rate`, with its values.
    pub sweep: Option<(String, Vec<String>)>,
    pub way: Way,
    pub level: Option<Level>,
    /// Transactions a second of the open loop.
    pub rate: Option<f64>,
    pub times: Times,
    pub repeat: u32,
    pub seed: u64,
    /// Each point is measured without common objects, too.
    pub beside_spread: bool,
    /// A recorded load instead of a workload: name of its file, and its text.
    pub trace: Option<(String, String)>,
    /// The recorded load is replayed at its times, so many times as fast; None: in the closed loop.
    pub speed: Option<f64>,
    /// The first run is recorded.
    pub is_recorded: bool,
    pub starting: Starting,
}

impl Wanted {
    /// One run of a second of the workload on these places, without anything else.
    pub fn of(workload: &str, places: Vec<Place>, clients: usize) -> Wanted {
        Wanted {
            workload: workload.to_owned(),
            settings: Vec::new(),
            places,
            clients,
            sweep: None,
            way: Way::Calls,
            level: None,
            rate: None,
            times: Times { warm_up: Duration::ZERO, measured: Duration::from_secs(1) },
            repeat: 1,
            seed: 1,
            beside_spread: false,
            trace: None,
            speed: None,
            is_recorded: false,
            starting: Starting { weir: "weir".into(), shards: 1, is_durable: false },
        }
    }
}

/// Clients are threads.
pub const CLIENTS_MAX: usize = 1_000;

/// Clients of a workload that was not recorded.
const CLIENTS: usize = 16;

/// A point of the sweep.
pub struct Point {
    /// The swept value, for labels: ` zipf=0.9`.
    suffix: String,
    x: Option<f64>,
    pub workload: Box<dyn Workload>,
    clients: usize,
    pace: Loop,
    pub is_spread: bool,
}

/// The document of `weir bench --format json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub version: u32,
    pub workload: String,
    pub runs: Vec<Run>,
    /// Of the first target to each other one, at each point.
    pub ratios: Vec<Ratio>,
    /// Medians over the repetitions.
    pub summary: Vec<Summary>,
    /// The trace of the first run, if it was recorded.
    #[serde(skip)]
    pub recorded: Vec<Line>,
}

/// One target at one point in one repetition.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub label: String,
    pub target: String,
    pub parameters: BTreeMap<String, Json>,
    /// Commits a second of each transaction.
    pub by_transaction: BTreeMap<&'static str, f64>,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The number of the repetition, from 1.
    pub rounds: u32,
    /// The data has what was acknowledged, and nothing else.
    pub holds: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub violation: Option<String>,
}

/// Median and range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    pub value: f64,
    pub min: f64,
    pub max: f64,
}

impl Range {
    fn of(values: Vec<f64>) -> Option<Range> {
        Spread::of(values).map(|spread| Range { value: spread.median, min: spread.least, max: spread.most })
    }
}

/// The repetitions of one label.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub label: String,
    pub target: String,
    /// The swept value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// The same work without common objects.
    pub is_spread: bool,
    pub throughput: Range,
    pub aborted_share: Range,
    pub contention_level: Range,
    pub p50_us: Range,
    pub p99_us: Range,
    /// By transaction, medians.
    pub transactions: BTreeMap<&'static str, Medians>,
}

/// Medians of one kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Medians {
    pub throughput: f64,
    pub aborted_share: f64,
    pub contention_level: f64,
    pub p50_us: f64,
}

/// Throughput of one label over that of another, paired by repetition.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    pub of: String,
    pub to: String,
    #[serde(flatten)]
    pub range: Range,
    pub pairs: usize,
    pub p99: Option<Range>,
}

/// Progress: which run of how many, and in words.
pub struct Remark<'a> {
    pub done: u64,
    pub of: u64,
    pub text: &'a str,
}

/// The points of the sweep.
///
/// # Errors
/// A setting or a value is wrong.
pub fn points(wanted: &Wanted) -> Result<Vec<Point>, Wrong> {
    let values: Vec<Option<&String>> = match &wanted.sweep {
        Some((_, values)) => values.iter().map(Some).collect(),
        None => vec![None],
    };
    let mut points = Vec::new();
    for value in values {
        let name = wanted.sweep.as_ref().map_or("", |(name, _)| name.as_str());
        let mut settings = wanted.settings.clone();
        let (mut clients, mut rate) = (wanted.clients, wanted.rate);
        match (name, value) {
            ("clients", Some(value)) => clients = clients_of(value)?,
            ("rate", Some(value)) => rate = Some(rate_of(value)?),
            (name, Some(value)) => settings.push((name.to_owned(), value.clone())),
            (_, None) => {}
        }
        let swept_clients = (name == "clients" || wanted.clients > 0).then_some(clients);
        let (workload, clients) = match &wanted.trace {
            Some((file, text)) => {
                let trace = Trace::parse(file, text, swept_clients)?;
                let threads = trace.threads();
                (Box::new(trace) as Box<dyn Workload>, threads)
            }
            None => (workload::of(&wanted.workload, &settings)?, swept_clients.unwrap_or(CLIENTS)),
        };
        let spread = wanted.beside_spread.then(|| workload.spread()).flatten();
        let pace = match (rate, wanted.speed) {
            (Some(rate), _) => Loop::Open(rate),
            (None, Some(speed)) => Loop::Recorded(speed),
            (None, None) => Loop::Closed,
        };
        let suffix = value.map_or_else(String::new, |value| format!(" {name}={value}"));
        let x = value.and_then(|value| value.parse().ok());
        points.push(Point { suffix: suffix.clone(), x, workload, clients, pace, is_spread: false });
        if let Some(workload) = spread {
            points.push(Point {
                suffix: format!("{suffix} spread"),
                x,
                workload,
                clients,
                pace,
                is_spread: true,
            });
        }
    }
    Ok(points)
}

/// A number of clients.
///
/// # Errors
/// It is none.
pub fn clients_of(text: &str) -> Result<usize, Wrong> {
    let clients = text.parse().ok().filter(|clients| (1..=CLIENTS_MAX).contains(clients));
    clients.ok_or_else(|| {
        Wrong::new(
            format!("`clients={text}` is wrong"),
            format!("clients is a whole number from 1 to {CLIENTS_MAX}"),
        )
    })
}

/// A rate of the open loop.
///
/// # Errors
/// It is none.
pub fn rate_of(text: &str) -> Result<f64, Wrong> {
    let rate = text.parse().ok().filter(|rate: &f64| *rate > 0.0 && *rate <= 1e9);
    rate.ok_or_else(|| {
        Wrong::new(format!("`rate={text}` is wrong"), "a rate is a number of transactions a second above 0")
    })
}

/// Measures all points on all targets, in turns.
///
/// # Errors
/// A database's, in words.
pub fn run(
    wanted: &Wanted,
    points: &[Point],
    listener: &mut dyn FnMut(Remark<'_>),
) -> Result<Report, String> {
    let mut places = Places::new(wanted.starting.clone());
    let of = u64::from(wanted.repeat) * (points.len() * wanted.places.len()) as u64;
    let (mut runs, mut recorded) = (Vec::new(), Vec::new());
    for round in 1..=wanted.repeat {
        for point in points {
            // None of them is always the first.
            let mut order: Vec<&Place> = wanted.places.iter().collect();
            if round % 2 == 0 {
                order.reverse();
            }
            for place in order {
                let label = format!("{}{}", place.label(), point.suffix);
                let done = runs.len() as u64;
                listener(Remark { done, of, text: &format!("{label} ({round} of {})", wanted.repeat) });
                let is_recorded = wanted.is_recorded && runs.is_empty();
                let (run, lines) = measure(wanted, (point, place), &mut places, round, is_recorded)?;
                recorded.extend(lines);
                let figures = &run.outcome.all;
                let text = format!(
                    "{label} ({round} of {}): {:.0} a second, {:.1}% aborted",
                    wanted.repeat,
                    figures.throughput,
                    100.0 * figures.aborted_share
                );
                listener(Remark { done: done + 1, of, text: &text });
                runs.push(run);
            }
        }
    }
    let summary = summary(wanted, points, &runs);
    let ratios = ratios(wanted, points, &runs);
    let workload = wanted.workload.clone();
    Ok(Report { version: 1, workload, runs, ratios, summary, recorded })
}

/// The way of a target: databases without PostgreSQL's language run the statements of a call one by one, and so do all if the workload has no
/// calls.
fn way_on(wanted: &Wanted, workload: &dyn Workload, place: &Place) -> Way {
    let has_calls = place.dialect() == Dialect::Postgres && workload.has_calls();
    if has_calls { wanted.way } else { Way::Statements }
}

/// The level of the transactions: Weir's plan says at which one a call runs, and SQLite has one only.
fn level_on(wanted: &Wanted, way: Way, place: &Place) -> Option<Level> {
    let has_its_own = (place.is_weir() && way == Way::Calls) || place.dialect() == Dialect::Sqlite;
    wanted.level.filter(|_| !has_its_own)
}

fn measure(
    wanted: &Wanted,
    (point, place): (&Point, &Place),
    places: &mut Places,
    round: u32,
    is_recorded: bool,
) -> Result<(Run, Vec<Line>), String> {
    let workload = &*point.workload;
    let address = places.ready(place, workload)?;
    let way = way_on(wanted, workload, place);
    let using = Use { address, way, level: level_on(wanted, way, place) };
    let seed = wanted.seed.wrapping_add(round.into());
    let load = Load { clients: point.clients, seed, times: wanted.times, pace: point.pace, is_recorded };
    let recorded = load::run(workload, &using, load)
        .map_err(|why| format!("{}{}: {why}", place.label(), point.suffix))?;
    let outcome = recorded.outcome;
    let mut lines = if is_recorded { trace::setup(workload, using.way) } else { Vec::new() };
    lines.extend(recorded.lines);
    let run = Run {
        label: format!("{}{}", place.label(), point.suffix),
        target: place.label(),
        parameters: parameters(wanted, point, &using),
        by_transaction: outcome.transactions.iter().map(|(name, one)| (*name, one.throughput)).collect(),
        outcome,
        rounds: round,
        holds: recorded.violation.is_none(),
        violation: recorded.violation,
    };
    Ok((run, lines))
}

fn parameters(wanted: &Wanted, point: &Point, using: &Use) -> BTreeMap<String, Json> {
    let seconds = |time: Duration| json!(time.as_secs_f64());
    let own = point.workload.settings().into_iter().map(|(name, value)| (name.to_owned(), value));
    let mut parameters: BTreeMap<String, Json> = own.collect();
    let (kind, rate) = match point.pace {
        Loop::Closed => ("closed", Json::Null),
        Loop::Open(rate) => ("open", json!(rate)),
        Loop::Recorded(speed) => ("recorded", json!(speed)),
    };
    let given = [
        ("clients", json!(point.clients)),
        ("seconds", seconds(wanted.times.measured)),
        ("warmup", seconds(wanted.times.warm_up)),
        ("loop", json!(kind)),
        ("rate", rate),
        ("way", json!(using.way.name())),
        ("isolation", json!(using.level.map(Level::name))),
        ("shards", json!(wanted.starting.shards)),
        ("durable", json!(wanted.starting.is_durable)),
        ("seed", json!(wanted.seed)),
    ];
    parameters.extend(given.map(|(name, value)| (name.to_owned(), value)));
    parameters
}

fn of_label<'r>(runs: &'r [Run], label: &'r str) -> impl Iterator<Item = &'r Run> {
    runs.iter().filter(move |run| run.label == label)
}

fn summary(wanted: &Wanted, points: &[Point], runs: &[Run]) -> Vec<Summary> {
    let mut summary = Vec::new();
    for (point, place) in
        points.iter().flat_map(|point| wanted.places.iter().map(move |place| (point, place)))
    {
        let label = format!("{}{}", place.label(), point.suffix);
        let range = |figure: &dyn Fn(&Run) -> f64| Range::of(of_label(runs, &label).map(figure).collect());
        let latency = |of: fn(&Latency) -> f64| range(&|run| of(&run.outcome.all.latency_us));
        let one = || {
            Some(Summary {
                target: place.label(),
                x: point.x,
                is_spread: point.is_spread,
                throughput: range(&|run| run.outcome.all.throughput)?,
                aborted_share: range(&|run| run.outcome.all.aborted_share)?,
                contention_level: range(&|run| run.outcome.all.contention_level)?,
                p50_us: latency(|latency| latency.p50)?,
                p99_us: latency(|latency| latency.p99)?,
                transactions: medians(point.workload.kinds(), runs, &label),
                label: label.clone(),
            })
        };
        summary.extend(one());
    }
    summary
}

fn medians(kinds: &[&'static str], runs: &[Run], label: &str) -> BTreeMap<&'static str, Medians> {
    let of_kind = |kind: &'static str| {
        let figures: Vec<&Figures> =
            of_label(runs, label).filter_map(|run| run.outcome.transactions.get(kind)).collect();
        let median = |of: fn(&Figures) -> f64| {
            Spread::of(figures.iter().map(|one| of(one)).collect()).map(|spread| spread.median)
        };
        Some((
            kind,
            Medians {
                throughput: median(|one| one.throughput)?,
                aborted_share: median(|one| one.aborted_share)?,
                contention_level: median(|one| one.contention_level)?,
                p50_us: median(|one| one.latency_us.p50)?,
            },
        ))
    };
    kinds.iter().filter_map(|kind| of_kind(kind)).collect()
}

fn ratios(wanted: &Wanted, points: &[Point], runs: &[Run]) -> Vec<Ratio> {
    let Some((first, others)) = wanted.places.split_first() else { return Vec::new() };
    let mut ratios = Vec::new();
    for (point, other) in points.iter().flat_map(|point| others.iter().map(move |other| (point, other))) {
        let of = format!("{}{}", first.label(), point.suffix);
        let to = format!("{}{}", other.label(), point.suffix);
        let quotients = |figure: fn(&Figures) -> f64| -> Vec<f64> {
            let pair = |run: &Run| {
                let other = of_label(runs, &to).find(|other| other.rounds == run.rounds)?;
                Some(figure(&run.outcome.all) / figure(&other.outcome.all))
            };
            of_label(runs, &of).filter_map(pair).filter(|quotient| quotient.is_finite()).collect()
        };
        let throughputs = quotients(|figures| figures.throughput);
        let pairs = throughputs.len();
        let p99 = Range::of(quotients(|figures| figures.latency_us.p99));
        ratios.extend(Range::of(throughputs).map(|range| Ratio { of, to, range, pairs, p99 }));
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(places: &[&str], sweep: Option<(&str, &[&str])>) -> Wanted {
        let place = |text: &&str| Place::parse(text).unwrap_or_else(|wrong| panic!("{wrong}"));
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        Wanted {
            sweep: sweep.map(|(name, given)| (name.to_owned(), values(given))),
            level: Some(Level::Serializable),
            repeat: 3,
            ..Wanted::of("cat", places.iter().map(place).collect(), 2)
        }
    }

    fn fake(label: &str, rounds: u32, throughput: f64, p99: f64) -> Run {
        let latency_us = Latency { p99, ..Latency::default() };
        let all = Figures { throughput, latency_us, attempts: 1, ..Figures::default() };
        Run {
            label: label.to_owned(),
            target: label.to_owned(),
            parameters: BTreeMap::new(),
            by_transaction: BTreeMap::new(),
            outcome: Outcome { transactions: [("write", all.clone())].into(), all, ..Outcome::default() },
            rounds,
            holds: true,
            violation: None,
        }
    }

    #[test]
    fn ratios_are_of_the_first_target_by_repetition() {
        let wanted = wanted(&["weir:", "postgres"], None);
        let points = points(&wanted).unwrap_or_else(|wrong| panic!("{wrong}"));
        let runs: Vec<Run> = [(30.0, 1.0, 10.0, 2.0), (20.0, 4.0, 10.0, 2.0), (60.0, 4.0, 15.0, 2.0)]
            .into_iter()
            .zip(1..)
            .flat_map(|((own, own_p99, other, p99), round)| {
                [fake("postgres", round, other, p99), fake("weir", round, own, own_p99)]
            })
            .collect();
        let ratios = ratios(&wanted, &points, &runs);
        let [ratio] = &ratios[..] else { panic!("{}", ratios.len()) };
        assert_eq!((ratio.of.as_str(), ratio.to.as_str(), ratio.pairs), ("weir", "postgres", 3));
        assert_eq!(ratio.range, Range { value: 3.0, min: 2.0, max: 4.0 });
        assert_eq!(ratio.p99, Some(Range { value: 2.0, min: 0.5, max: 2.0 }));
        let summary = summary(&wanted, &points, &runs);
        assert_eq!(summary[0].throughput, Range { value: 30.0, min: 20.0, max: 60.0 });
        assert_eq!(summary[1].transactions["write"].throughput, 10.0);
    }

    #[test]
    fn a_sweep_is_over_settings_clients_or_rates() {
        let labels = |sweep: (&str, &[&str])| {
            let points = points(&wanted(&["weir:"], Some(sweep)))?;
            Ok::<_, Wrong>(
                points.iter().map(|point| (point.suffix.clone(), point.clients, point.x)).collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            labels(("clients", &["1", "4"])),
            Ok(vec![(" clients=1".to_owned(), 1, Some(1.0)), (" clients=4".to_owned(), 4, Some(4.0))])
        );
        assert_eq!(labels(("write", &["modify"])), Ok(vec![(" write=modify".to_owned(), 2, None)]));
        for (sweep, what) in [
            (("clients", &["0"]), "`clients=0` is wrong"),
            (("rate", &["-1"]), "`rate=-1` is wrong"),
            (("zipf", &["9"]), "`zipf=9` is wrong"),
            (("length", &["3"]), "`length=3` is wrong"),
            (("colour", &["9"]), "no setting `colour`"),
        ] {
            let wrong = labels((sweep.0, sweep.1)).expect_err(what);
            assert!(wrong.what.contains(what), "{wrong}");
        }
    }

    #[test]
    fn what_a_target_cannot_do_is_done_as_it_can() {
        let wanted = wanted(&["weir:", "postgres", "mariadb", "sqlite:"], None);
        let all = |name: &str| {
            let workload = workload::of(name, &[]).unwrap_or_else(|wrong| panic!("{wrong}"));
            let of = |place: &Place| {
                let way = way_on(&wanted, &*workload, place);
                (way, level_on(&wanted, way, place))
            };
            wanted.places.iter().map(of).collect::<Vec<_>>()
        };
        let serializable = Some(Level::Serializable);
        assert_eq!(
            all("cat"),
            [
                (Way::Calls, None),
                (Way::Calls, serializable),
                (Way::Statements, serializable),
                (Way::Statements, None)
            ]
        );
        for name in ["tpcc", "tpcw", "rubis"] {
            let statements = (Way::Statements, serializable);
            assert_eq!(all(name), [statements, statements, statements, (Way::Statements, None)]);
        }
    }
}
