//! Figures that functions give: Figures 1 and 2 of cat-theorem.txt, Figure 3 of coordination-avoidance.txt.

use serde_json::json;
use weir_cat::commitment::{Commitment, LAN_PUBLISHED, Network, Published, calibrated, simulate};
use weir_cat::delays::{EC2, Family, Tail};
use weir_cat::gray;
use weir_cat::slots::Slots;
use weir_harness::figure::{Claim, Figure, Kind, Verdict};
use weir_harness::plot::{Axis, Panel, Series};

/// Commits of a Monte-Carlo over a local network.
const COMMITS: usize = 40_000;

/// Numbers agree that differ by no more than this factor.
const WITHIN: f64 = 1.25;

/// Contention Level beside Equation 1.
///
/// # Errors
/// None with the paper's numbers.
pub fn figure_1(slots: u64, seed: u64) -> Result<Figure, String> {
    let shape = Slots::PAPER;
    let by_exponent = |exponent: f64| Slots { exponent, ..shape }.levels(slots, seed);
    let (zipf, uniform) = (by_exponent(shape.exponent)?, by_exponent(0.0)?);
    let mut data = Vec::new();
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    for concurrent in 1..=shape.clients {
        let equation_1 = gray::contention(shape.keys as u64, concurrent as u64, shape.length as u64);
        let levels = [zipf[concurrent].1.level(), uniform[concurrent].1.level()];
        data.push(json!({
            "concurrent": concurrent, "slots": zipf[concurrent].0, "contention_level": levels[0],
            "contention_level_uniform": levels[1], "equation_1": equation_1,
        }));
        let x = concurrent as f64;
        lines[0].push((x, levels[0]));
        lines[1].push((x, equation_1));
        lines[2].push((x, levels[1]));
    }
    let apart =
        lines[0].iter().zip(&lines[1]).map(|(level, gray)| (level.1 - gray.1).abs()).fold(0.0, f64::max);
    let [level, gray, uniform] = lines;
    let series = |name: &str, points| Series { name: name.to_owned(), points };
    let claim = Claim::new(
        "With zipf 0.9 the Contention Level is another number than Equation 1, whose model has uniform keys",
        "they differ (shape)",
        format!("by up to {apart:.2}"),
        Verdict::of(apart > 0.05),
    );
    Ok(Figure {
        id: "cat-fig1".to_owned(),
        paper: "cat-theorem.txt",
        title: "Figure 1: Contention Level and Equation 1".to_owned(),
        kind: Kind::Calculated,
        notes: vec![format!(
            "{slots} slots, seed {seed}; 1,000 keys, 8 operations, 7 clients, activity 0.8."
        )],
        panels: vec![Panel {
            title: "zipf 0.9, 8 operations, 1,000 keys".to_owned(),
            x: Axis::linear("concurrent transactions"),
            y: Axis::linear("contention, 0 to 1"),
            series: vec![
                series("Contention Level", level),
                series("Equation 1", gray),
                series("Contention Level, uniform keys", uniform),
            ],
        }],
        data,
        claims: vec![claim],
    })
}

/// Least squares of y over x: slope and intercept. None: the points are above each other.
fn regression(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let variance: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / variance;
    slope.is_finite().then_some((slope, y - slope * x))
}

/// Contention Level over the abort probability by brute force.
///
/// # Errors
/// None with the paper's numbers.
pub fn figure_2(slots: u64, seed: u64) -> Result<Figure, String> {
    let mut data = Vec::new();
    let mut series = Vec::new();
    // The paper does not say how many keys there are here. With 1,000 two short transactions hardly meet twice.
    for keys in [1_000, 100, 20] {
        let mut points = Vec::new();
        for (clients, length) in [(2, 2), (2, 3), (2, 4), (2, 5), (2, 6), (3, 2), (3, 3), (3, 4)] {
            let slot = Slots { keys, length, clients, activity: 1.0, ..Slots::PAPER };
            // Three transactions of four operations have 34,650 interleavings.
            let slots = if clients == 3 { slots / 50 } else { slots / 5 }.max(20);
            let (probability, level) = slot.abort_probability(slots, seed)?;
            data.push(json!({
                "keys": keys, "concurrent": clients, "length": length, "slots": slots,
                "abort_probability": probability, "contention_level": level.level(),
            }));
            points.push((probability, level.level()));
        }
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        series.push(Series { name: format!("{keys} keys"), points });
    }
    let claims = series
        .iter()
        .map(|series| {
            let slope = regression(&series.points).map(|(slope, _)| slope);
            Claim::new(
                format!("{}: the regression of the Contention Level over the abort probability is parallel to x = y", series.name),
                "largely parallel: a slope of about 1",
                slope.map_or("no slope".to_owned(), |slope| format!("a slope of {slope:.2}")),
                Verdict::of(slope.is_some_and(|slope| (0.75..=1.25).contains(&slope))),
            )
        })
        .collect();
    Ok(Figure {
        id: "cat-fig2".to_owned(),
        paper: "cat-theorem.txt",
        title: "Figure 2: Contention Level over the abort probability by brute force".to_owned(),
        kind: Kind::Calculated,
        notes: vec![
            "All operations write. The abort probability is the share of all interleavings that are not serially equivalent. \
             The paper does not say how many keys there are."
                .to_owned(),
        ],
        panels: vec![Panel {
            title: "c = 2, η = 2…6; c = 3, η = 2…4".to_owned(),
            x: Axis::linear("abort probability"),
            y: Axis::linear("Contention Level"),
            series,
        }],
        data,
        claims,
    })
}

/// Figure 3 of coordination-avoidance.txt. The local network's tail is calibrated, and the text says so.
///
/// # Errors
/// No tail passes through the points that are marked in the data file.
pub fn commitment(seed: u64) -> Result<Figure, String> {
    let mut data = Vec::new();
    let mut claims = Vec::new();
    let tail = calibrated(Family::LogNormal, &LAN_PUBLISHED)?;
    for family in Family::ALL {
        let tail = calibrated(family, &LAN_PUBLISHED)?;
        for point in LAN_PUBLISHED.iter() {
            let ours = lan(tail, point.protocol, point.servers, seed);
            data.push(json!({
                "network": "lan", "family": family.name(), "protocol": point.protocol.name(), "servers": point.servers,
                "commits_per_second": ours, "published": point.commits_per_second, "fitted": point.is_fitted,
            }));
            // One family is the model; what the other predicts stands in the data.
            if family == Family::LogNormal {
                claims.push(lan_claim(point, ours));
            }
        }
    }
    let lan_panel = lan_panel(tail, seed, &mut data);
    let wan_panel = wan_panel(seed, &mut data, &mut claims);
    Ok(Figure {
        id: "confluence-fig3".to_owned(),
        paper: "coordination-avoidance.txt",
        title: "Figure 3: atomic commitment bounds the throughput of one item".to_owned(),
        kind: Kind::Calculated,
        notes: vec![
            format!(
                "A calibration: the traces of the local network are not public. A log-normal tail (median {:.0} µs, one message in a hundred above {:.1} ms) \
                 is fitted to two of the four published points and predicts the other two; a Pareto tail through the same two is in the data.",
                tail.exceeded_by_us(0.5),
                tail.exceeded_by_us(0.01) / 1e3
            ),
            "The round trips between regions are means of 2013 (crates/weir-cat/data/ec2-regions.txt says where from); as in the paper a round trip is \
             the delay of a message."
                .to_owned(),
        ],
        panels: vec![lan_panel, wan_panel],
        data,
        claims,
    })
}

fn lan(tail: Tail, protocol: Commitment, servers: u64, seed: u64) -> f64 {
    let network = Network::Lan { tail, servers: servers as usize };
    simulate(&network, protocol, COMMITS, seed).commits_per_second
}

fn lan_claim(point: &Published, ours: f64) -> Claim {
    let ratio = ours / point.commits_per_second;
    let how = if point.is_fitted { "fitted" } else { "predicted" };
    Claim::new(
        format!("Local network, {} servers, {} ({how})", point.servers, point.protocol.name()),
        format!("{} commits/s", point.commits_per_second),
        format!("{ours:.0} commits/s, {:+.0}%", 100.0 * (ratio - 1.0)),
        Verdict::of((1.0 / WITHIN..=WITHIN).contains(&ratio)),
    )
}

fn lan_panel(tail: Tail, seed: u64, data: &mut Vec<serde_json::Value>) -> Panel {
    let series = Commitment::ALL.map(|protocol| {
        let points = (2..=10).map(|servers| {
            let commits = lan(tail, protocol, servers, seed);
            data.push(json!({
                "network": "lan", "family": tail.family.name(), "protocol": protocol.name(), "servers": servers, "commits_per_second": commits,
            }));
            (servers as f64, commits)
        });
        Series { name: protocol.name().to_owned(), points: points.collect() }
    });
    Panel {
        title: "a) local network, calibrated".to_owned(),
        x: Axis::linear("servers"),
        y: Axis::log("commits a second, one item"),
        series: series.into(),
    }
}

/// From Virginia to more and more regions, in the order of the paper's figure.
fn wan_panel(seed: u64, data: &mut Vec<serde_json::Value>, claims: &mut Vec<Claim>) -> Panel {
    const ORDER: [&str; 8] =
        ["virginia", "oregon", "california", "ireland", "sao-paulo", "tokyo", "singapore", "sydney"];
    let regions: Vec<usize> = ORDER.iter().filter_map(|name| EC2.region(name)).collect();
    let series = Commitment::ALL.map(|protocol| {
        let mut points = Vec::new();
        for count in 2..=regions.len() {
            let network = Network::Wan { world: &EC2, regions: regions[..count].to_vec() };
            let cost = simulate(&network, protocol, 1, seed);
            let commits = cost.commits_per_second;
            data.push(json!({
                "network": "wan", "protocol": protocol.name(), "servers": count, "regions": ORDER[..count], "commits_per_second": commits,
            }));
            points.push((count as f64, commits));
            let published = match (count, protocol) {
                (2, Commitment::Decentralized) => Some((12.0, "Virginia and Oregon")),
                (8, _) => Some((2.0, "all eight regions")),
                _ => None,
            };
            if let Some((published, place)) = published {
                let ratio: f64 = commits / published;
                let holds = (1.0 / WITHIN..=WITHIN).contains(&ratio);
                claims.push(Claim::new(
                    format!("World, {place}, {}", protocol.name()),
                    if count == 8 { "slightly over 2 commits/s".to_owned() } else { format!("{published} commits/s, 83 ms") },
                    format!("{commits:.1} commits/s, {:.0} ms", cost.mean_us / 1e3),
                    Verdict::of(holds),
                ));
            }
        }
        Series { name: protocol.name().to_owned(), points }
    });
    Panel {
        title: "b) EC2's regions, from Virginia".to_owned(),
        x: Axis::linear("regions"),
        y: Axis::log("commits a second, one item"),
        series: series.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_its_own_regression() {
        let line: Vec<(f64, f64)> = (0..5).map(|x| (f64::from(x), 2.0 * f64::from(x) + 1.0)).collect();
        let (slope, intercept) = regression(&line).expect("there is one");
        assert!((slope - 2.0).abs() < 1e-9 && (intercept - 1.0).abs() < 1e-9);
        assert_eq!(regression(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn the_wide_area_is_as_slow_as_published() {
        let figure = commitment(1).expect("a tail passes through the points");
        let ours = |claim: &str| {
            let found = figure.claims.iter().find(|one| one.claim.starts_with(claim));
            found.unwrap_or_else(|| panic!("{claim}")).ours.clone()
        };
        assert_eq!(ours("World, Virginia and Oregon, d-2pc"), "12.1 commits/s, 83 ms");
        assert_eq!(ours("World, all eight regions, d-2pc"), "2.8 commits/s, 363 ms");
        assert_eq!(ours("World, all eight regions, c-2pc"), "1.9 commits/s, 531 ms");
        assert_eq!(figure.claims.len(), 7);
    }

    #[test]
    fn figures_have_their_points() {
        let first = figure_1(300, 1).expect("it is the paper's");
        assert_eq!((first.data.len(), first.claims[0].verdict), (7, Verdict::Reproduced));
        let second = figure_2(100, 1).expect("it is the paper's");
        assert_eq!(second.data.len(), 24);
    }
}
