//! The claims of ramp.txt §5 beside our points: numbers where its text has some, order and shape elsewhere.

use weir_harness::figure::{Claim, Verdict};

use super::{Figure, Point, blocked};

/// A ratio is reproduced if it is not below the paper's by more than this, and exceeded if it is above by more.
const WITHIN: f64 = 0.05;

/// Measurements of one machine differ by so much from run to run: what is "not slower" may be so much slower.
const NOISE: f64 = 0.1;

const RAMP: [&str; 3] = ["ramp-fast", "ramp-small", "ramp-hybrid"];
const LOCKING: [&str; 3] = ["lwnr", "lwsr", "lwlr"];
const E_PCI: &str = "e-pci";

/// Claims about the points of a figure.
pub fn claims(figure: Figure, points: &[Point]) -> Vec<Claim> {
    match figure {
        Figure::Clients => [published(points), order(points), small_bound(points)].concat(),
        Figure::Sweeps | Figure::SimulatedSweeps => {
            let mut claims = [published(points), order(points)].concat();
            claims.extend([reads_alone(points), writes_alone(points)].into_iter().flatten());
            claims
        }
        Figure::Servers => servers(points),
        Figure::Blocked => published(points),
        Figure::Trips => trips(points),
    }
}

/// Of two ratios: ours is the paper's, better, or worse.
fn beside(ours: f64, theirs: f64) -> Verdict {
    match ours - theirs {
        more if more > WITHIN => Verdict::Exceeded,
        less if less < -WITHIN => Verdict::NotReached,
        _ => Verdict::Reproduced,
    }
}

/// Ratios that the paper's text has. That of a comparator is the paper's finding that it is slow: ours has to be slow, too.
fn published(points: &[Point]) -> Vec<Claim> {
    let claim = |point: &Point| {
        let (theirs, ours) = (point.published?, point.of_base?);
        let base = if point.panel == blocked::PANEL { "that without any" } else { "no concurrency control" };
        let is_ours = RAMP.iter().any(|name| point.series.starts_with(name));
        let verdict = if is_ours { beside(ours, theirs) } else { Verdict::of(ours <= theirs + NOISE) };
        Some(Claim::new(
            format!("{} = {}: {} over {base}", point.panel, point.x, point.series),
            format!("{theirs:.3}"),
            format!("{ours:.3}"),
            verdict,
        ))
    };
    points.iter().filter_map(claim).collect()
}

fn at<'p>(points: &'p [Point], panel: &str, x: f64, series: &str) -> Option<&'p Point> {
    points.iter().find(|point| point.panel == panel && point.x == x && point.series == series)
}

/// Panels with the places of each, in order.
fn places(points: &[Point]) -> Vec<(&str, Vec<f64>)> {
    let mut panels: Vec<(&str, Vec<f64>)> = Vec::new();
    for point in points {
        match panels.iter_mut().find(|(panel, _)| *panel == point.panel) {
            Some((_, xs)) if xs.contains(&point.x) => {}
            Some((_, xs)) => xs.push(point.x),
            None => panels.push((&point.panel, vec![point.x])),
        }
    }
    panels
}

/// RAMP-F and RAMP-H always outperform the techniques that lock and E-PCI, RAMP-S those that lock: by panel, the least ratio over all places.
fn order(points: &[Point]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let pairs =
        RAMP.into_iter().flat_map(|ours| LOCKING.into_iter().chain([E_PCI]).map(move |other| (ours, other)));
    let pairs: Vec<_> = pairs.filter(|(ours, other)| *ours != "ramp-small" || *other != E_PCI).collect();
    for (panel, xs) in places(points) {
        let ratio = |(ours, other): &(&str, &str)| {
            let of = |x: &f64| {
                let (one, two) = (at(points, panel, *x, ours)?, at(points, panel, *x, other)?);
                Some((
                    one.throughput / two.throughput.max(f64::MIN_POSITIVE),
                    *x,
                    format!("{ours} over {other}"),
                ))
            };
            xs.iter().filter_map(of).min_by(|one, other| one.0.total_cmp(&other.0))
        };
        let least = pairs.iter().filter_map(ratio).min_by(|one, other| one.0.total_cmp(&other.0));
        let Some((ratio, x, who)) = least else { continue };
        claims.push(Claim::new(
            format!(
                "{panel}: ramp-fast and ramp-hybrid outperform locks and e-pci everywhere, ramp-small locks"
            ),
            "above 1 everywhere",
            format!("least {ratio:.2}: {who} at {x}"),
            Verdict::of(ratio >= 1.0 - NOISE),
        ));
    }
    claims
}

/// RAMP-S is a lower bound on the others.
fn small_bound(points: &[Point]) -> Vec<Claim> {
    let claim = |(panel, xs): (&str, Vec<f64>)| {
        let last = xs.last()?;
        let [fast, small, hybrid] = RAMP.map(|name| at(points, panel, *last, name));
        let (fast, small, hybrid) = (fast?.throughput, small?.throughput, hybrid?.throughput);
        Some(Claim::new(
            format!("{panel} = {last}: ramp-small is the slowest of the three"),
            "it is a lower bound",
            format!("{small:.0} beside {fast:.0} and {hybrid:.0} a second"),
            Verdict::of(small <= (1.0 + NOISE) * fast.min(hybrid)),
        ))
    };
    places(points).into_iter().filter_map(claim).collect()
}

const READ_PROPORTION: &str = "read proportion";

/// With all reads RAMP-F, no concurrency control and E-PCI are one round trip each.
fn reads_alone(points: &[Point]) -> Option<Claim> {
    let shares: Option<Vec<f64>> = ["ramp-fast", E_PCI]
        .map(|name| at(points, READ_PROPORTION, 1.0, name)?.of_base)
        .into_iter()
        .collect();
    let least = shares?.into_iter().fold(f64::INFINITY, f64::min);
    Some(Claim::new(
        "read proportion = 1: ramp-fast and e-pci are identical to no concurrency control",
        "1",
        format!("at least {least:.3}"),
        Verdict::of(least >= 1.0 - NOISE),
    ))
}

/// With all writes all of RAMP are equivalent: two round trips.
fn writes_alone(points: &[Point]) -> Option<Claim> {
    let own = RAMP.map(|name| at(points, READ_PROPORTION, 0.0, name).map(|point| point.throughput));
    let own: Vec<f64> = own.into_iter().collect::<Option<Vec<f64>>>()?;
    let (least, most) =
        own.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), one| (least.min(*one), most.max(*one)));
    Some(Claim::new(
        "read proportion = 0: all of RAMP are equivalent",
        "alike",
        format!("the slowest is {:.3} of the fastest", least / most),
        Verdict::of(least >= (1.0 - 2.0 * NOISE) * most),
    ))
}

/// §5.4: of the simulated servers.
fn servers(points: &[Point]) -> Vec<Claim> {
    let simulated: Vec<Point> = points.iter().filter(|point| point.simulated).cloned().collect();
    let mut claims = Vec::new();
    for (panel, xs) in places(&simulated) {
        let (Some(first), Some(last)) = (xs.first(), xs.last()) else { continue };
        let each = |series: &str, x: f64| Some(at(&simulated, panel, x, series)?.throughput / x);
        for series in ["ramp-fast", "ramp-small", "ramp-hybrid"] {
            // Transactions of one server need no second participant.
            let from = xs.iter().copied().find(|x| *x >= 10.0).unwrap_or(*first);
            let Some((less, more)) = each(series, from).zip(each(series, *last)) else { continue };
            claims.push(Claim::new(
                format!("{series}: throughput of each server from {from} to {last} servers"),
                "linear: it stays",
                format!("{:.3} of it", more / less),
                Verdict::of(more / less >= 1.0 - NOISE),
            ));
        }
        let least = xs.iter().filter_map(|x| at(&simulated, panel, *x, "ramp-fast")?.of_base);
        let least = least.fold(f64::INFINITY, f64::min);
        claims.push(Claim::new(
            "ramp-fast is within 10% of no concurrency control at all scales",
            "≥ 0.90",
            format!("at least {least:.3}"),
            Verdict::of(least >= 0.9),
        ));
        for (series, theirs) in [("ramp-fast", 0.974), ("ramp-small", 0.966), ("ramp-hybrid", 0.55)] {
            let Some(ours) = at(&simulated, panel, *last, series).and_then(|point| point.of_base) else {
                continue;
            };
            claims.push(Claim::new(
                format!("{series} at {last} servers (the paper's 100) over no concurrency control"),
                format!("{theirs:.3}"),
                format!("{ours:.3}"),
                beside(ours, theirs),
            ));
        }
    }
    claims
}

/// Round trips of reads that were asked again, since the answer came late on a machine that all share, on average.
const ASKED_AGAIN: f64 = 0.02;

/// Table 1: round trips.
fn trips(points: &[Point]) -> Vec<Claim> {
    let theirs = |series: &str, panel: &str| match (series, panel) {
        (_, "writes") | ("ramp-small", _) => Some((2.0, 2.0)),
        (_, "reads that meet a write") => Some((1.0, 2.0)),
        ("ramp-fast", _) => Some((1.0, 1.0)),
        // One and what the filter's false positives add.
        ("ramp-hybrid", _) => Some((1.0, 1.05)),
        _ => None,
    };
    let claim = |point: &Point| {
        let (least, most) = theirs(&point.series, &point.panel)?;
        let ours = point.x;
        let bar = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        let holds = (least - ASKED_AGAIN..=most + ASKED_AGAIN).contains(&ours);
        // Fewer round trips than the paper's are better; RAMP-F's writes to one participant take one.
        let verdict = if ours < least - ASKED_AGAIN { Verdict::Exceeded } else { Verdict::of(holds) };
        let claim = format!("{}: round trips of {}", point.series, point.panel);
        Some(Claim::new(claim, bar, format!("{ours:.3}"), verdict))
    };
    points.iter().filter_map(claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(panel: &str, x: f64, series: &str, throughput: f64, of_base: f64) -> Point {
        Point {
            panel: panel.to_owned(),
            x,
            series: series.to_owned(),
            throughput,
            latency_p50_us: 0.0,
            of_base: Some(of_base),
            of_base_range: None,
            published: None,
            simulated: true,
        }
    }

    #[test]
    fn a_ratio_is_beside_the_papers() {
        for (ours, theirs, verdict) in [
            (0.958, 0.958, Verdict::Reproduced),
            (0.92, 0.958, Verdict::Reproduced),
            (0.9, 0.958, Verdict::NotReached),
            (0.8, 0.65, Verdict::Exceeded),
        ] {
            assert_eq!(beside(ours, theirs), verdict, "{ours}");
        }
    }

    #[test]
    fn a_comparator_that_is_faster_is_found() {
        let mut points = vec![point("p", 1.0, "ramp-fast", 100.0, 1.0), point("p", 1.0, "lwnr", 50.0, 0.5)];
        let verdict = |points: &[Point]| order(points)[0].verdict;
        assert_eq!(verdict(&points), Verdict::Reproduced);
        points.push(point("p", 2.0, "ramp-fast", 100.0, 1.0));
        points.push(point("p", 2.0, "lwnr", 200.0, 2.0));
        assert_eq!(verdict(&points), Verdict::NotReached);
        points[3].published = Some(0.3);
        assert_eq!(published(&points)[0].verdict, Verdict::NotReached);
    }

    #[test]
    fn servers_that_do_not_scale_are_found() {
        let points = |last: f64| {
            ["ramp-fast", "ramp-small", "ramp-hybrid"]
                .into_iter()
                .flat_map(|series| {
                    [(1.0, 100.0), (10.0, 900.0), (100.0, last)]
                        .map(|(x, throughput)| point("servers", x, series, throughput, 0.95))
                })
                .collect::<Vec<_>>()
        };
        let missed =
            |last| servers(&points(last)).iter().filter(|claim| claim.verdict == Verdict::NotReached).count();
        assert_eq!((missed(9_000.0), missed(5_000.0)), (0, 3));
    }

    #[test]
    fn one_trip_too_many_is_found() {
        let verdict = |panel, series, trips| trips_of(panel, series, trips).verdict;
        fn trips_of(panel: &str, series: &str, trips: f64) -> Claim {
            super::trips(&[point(panel, trips, series, 0.0, 0.0)]).remove(0)
        }
        assert_eq!(verdict("writes", "ramp-fast", 2.0), Verdict::Reproduced);
        assert_eq!(verdict("writes", "ramp-fast", 3.0), Verdict::NotReached);
        assert_eq!(verdict("reads that meet no write", "ramp-fast", 1.2), Verdict::NotReached);
        assert_eq!(verdict("reads that meet a write", "ramp-hybrid", 1.4), Verdict::Reproduced);
    }
}
