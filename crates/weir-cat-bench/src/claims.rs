//! Claims of cat-theorem.txt §4, and Weir's own beyond them, beside the measured figures.
//!
//! The paper's systems are others on other machines: what can be reproduced is where the wall is, not how high. A mechanism that does not abort where
//! the paper says that any would exceeds the claim.

use weir_harness::figure::{Claim, Verdict};
use weir_harness::plot::Series;

use crate::experiments::Line;
use crate::laboratory::Point;
use crate::target::{Level, Target};

/// Aborts below this share are none that a user would notice; 0 is 0.
const FEW: f64 = 0.01;

/// The confluent mechanism keeps this share of its uncontended throughput.
const KEPT: f64 = 0.9;

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// At most as many aborts as nobody would notice: then the paper's wall is not there.
fn wall_verdict(target: Target, rises: bool, aborts: f64) -> Verdict {
    if target.never_aborts() && aborts == 0.0 { Verdict::Exceeded } else { Verdict::of(rises) }
}

fn each(lines: &[Line]) -> impl Iterator<Item = (Target, &Point, &Point)> {
    lines.iter().filter_map(|line| Some((line.target, line.first()?, line.last()?)))
}

/// Aborts at the ends of a sweep: the paper's rise.
fn rise(lines: &[Line], of_what: &str, theirs: &str) -> Vec<Claim> {
    let claim = |(target, first, last): (Target, &Point, &Point)| {
        let rises = last.abort_rate > first.abort_rate && last.abort_rate > FEW;
        Claim::new(
            format!("{target}: aborts grow with {of_what}"),
            theirs,
            format!("{} → {}", percent(first.abort_rate), percent(last.abort_rate)),
            wall_verdict(target, rises, last.abort_rate.max(first.abort_rate)),
        )
    };
    each(lines).map(claim).collect()
}

/// Throughput at the end of a sweep beside its begin: the paper's fall.
fn fall(lines: &[Line], of_what: &str, share: impl Fn(&Point, &Point) -> f64) -> Vec<Claim> {
    let claim = |(target, first, last): (Target, &Point, &Point)| {
        let share = share(last, first);
        let verdict =
            if target.never_aborts() && share >= KEPT { Verdict::Exceeded } else { Verdict::of(share < 1.0) };
        let theirs = "it falls (shape)";
        Claim::new(format!("{target}: {of_what}"), theirs, format!("{share:.2} of the first"), verdict)
    };
    each(lines).map(claim).collect()
}

pub fn figure_3(writes: &[Line], mixed: &[Line]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (target, first, _) in each(writes) {
        claims.push(Claim::new(
            format!("{target}: one client's transactions never abort (scenario CA)"),
            "0",
            percent(first.abort_rate),
            Verdict::of(first.abort_rate == 0.0),
        ));
    }
    let at_six = |line: &Line| line.at(6.0).cloned();
    if let Some(point) = writes.iter().filter(|line| !line.target.never_aborts()).find_map(at_six) {
        let level = point.outcome.contention_level;
        claims.push(Claim::new(
            format!("{}: Contention Level at 6 clients, write-only", point.target),
            "0.34",
            format!("{level:.2}"),
            Verdict::of((0.34 / 1.25..=0.34 * 1.25).contains(&level)),
        ));
    }
    for (lines, mix, theirs) in [(writes, "write-only", 0.58), (mixed, "half of them read", 0.36)] {
        for line in lines {
            let Some(point) = line.at(6.0) else { continue };
            let aborts = point.abort_rate;
            let verdict = if aborts < theirs { Verdict::Exceeded } else { Verdict::Reproduced };
            claims.push(Claim::new(
                format!("{}: aborts at 6 clients, {mix} (scenario CT)", line.target),
                format!("{} (Yesquel)", percent(theirs)),
                percent(aborts),
                verdict,
            ));
        }
    }
    claims.extend(rise(writes, "clients, write-only", "it rises (shape)"));
    let by_client = |last: &Point, first: &Point| {
        last.outcome.throughput / first.outcome.throughput * first.clients as f64 / last.clients as f64
    };
    claims.extend(fall(writes, "throughput of each client falls with clients", by_client));
    claims
}

pub fn figure_4(writes: &[Line]) -> Vec<Claim> {
    let claim = |(target, first, last): (Target, &Point, &Point)| {
        let ratio = last.outcome.throughput / first.outcome.throughput;
        let (claim, ours) = (
            format!("{target}: {} clients have more throughput than one, write-only", last.clients),
            format!("{:.0} → {:.0}/s, {ratio:.2} times", first.outcome.throughput, last.outcome.throughput),
        );
        Claim::new(claim, "it rises (shape)", ours, Verdict::of(ratio > 1.0))
    };
    each(writes).map(claim).collect()
}

pub fn figure_5(reads: &[Line], writes: &[Line]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (target, _, last) in each(reads) {
        let aborts = last.abort_rate;
        claims.push(Claim::new(
            format!("{target}: transactions that only read never abort (scenario AT)"),
            "0",
            percent(aborts),
            Verdict::of(aborts == 0.0),
        ));
        let written = writes.iter().find(|line| line.target == target).and_then(Line::last);
        if let Some(written) = written {
            let ratio = last.outcome.throughput / written.outcome.throughput;
            claims.push(Claim::new(
                format!("{target}: reads beside writes at {} clients", last.clients),
                "about 3,000 beside 600: 5 times",
                format!(
                    "{:.0} beside {:.0}: {ratio:.1} times",
                    last.outcome.throughput, written.outcome.throughput
                ),
                // Writes that are nearly as fast as reads are what one would want.
                if ratio < 5.0 { Verdict::Exceeded } else { Verdict::Reproduced },
            ));
        }
    }
    claims
}

pub fn figure_6(ratios: &[Series]) -> Vec<Claim> {
    let claim = |series: &Series| {
        let (first, last) = (series.points.first()?.1, series.points.last()?.1);
        let claim = format!("{}: write-only beside read-only throughput falls with clients", series.name);
        let never_aborts = series.name.parse().is_ok_and(Target::never_aborts);
        let verdict = match never_aborts && last >= KEPT * first {
            true => Verdict::Exceeded,
            false => Verdict::of(last < first),
        };
        Some(Claim::new(claim, "it falls (shape)", format!("{first:.2} → {last:.2}"), verdict))
    };
    ratios.iter().filter_map(claim).collect()
}

pub fn figure_7(lines: &[Line]) -> Vec<Claim> {
    let mut claims = rise(lines, "the zipf exponent", "they rise (shape)");
    let share = |last: &Point, first: &Point| last.outcome.throughput / first.outcome.throughput;
    claims.extend(fall(lines, "throughput falls with the zipf exponent", share));
    claims
}

pub fn figure_8(lines: &[Line]) -> Vec<Claim> {
    let mut claims = rise(lines, "the length of transactions", "they rise (shape)");
    let share = |last: &Point, first: &Point| last.outcome.throughput / first.outcome.throughput;
    claims.extend(fall(lines, "throughput falls with the length", share));
    claims
}

/// Weir's own claims: what the project is for.
pub fn wall(lines: &[Line]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for line in lines {
        let most = line.points.iter().map(|(_, point)| point.abort_rate).fold(0.0, f64::max);
        let aborts = line.points.iter().map(|(_, point)| point.outcome.aborts).sum::<u64>();
        let (Some(first), Some(last)) = (line.first(), line.last()) else { continue };
        let share = |point: &Point| point.outcome.throughput / first.outcome.throughput;
        if line.target.never_aborts() {
            claims.push(Claim::new(
                format!("{}: no transaction aborts at any zipf exponent", line.target),
                "0 aborts",
                format!("{aborts} aborts"),
                Verdict::of(aborts == 0),
            ));
        } else {
            claims.push(Claim::new(
                format!("{}: it hits the wall", line.target),
                "aborts, or less throughput, at the highest exponent",
                format!("up to {} aborts; {:.2} of the throughput at zipf 0", percent(most), share(last)),
                Verdict::of(most > FEW || share(last) < KEPT),
            ));
        }
        if line.target == Target::WeirConfluent {
            let least = line.points.iter().map(|(_, point)| share(point)).fold(f64::INFINITY, f64::min);
            claims.push(Claim::new(
                "weir-confluent: throughput stays within 10% of the uncontended one",
                "≥ 0.90",
                format!("at least {least:.2}"),
                Verdict::of(least >= KEPT),
            ));
        }
    }
    claims.extend(beside(lines));
    claims
}

/// Mechanisms beside PostgreSQL at the highest exponent.
fn beside(lines: &[Line]) -> Option<Claim> {
    let last = |target: Target| lines.iter().find(|line| line.target == target)?.last();
    let one = last(Target::WeirConfluent)?;
    let other = last(Target::PostgresCall(Level::Serializable))?;
    let ratio = one.outcome.throughput / other.outcome.throughput;
    Some(Claim::new(
        format!("weir-confluent beside postgres-call-serializable at zipf {}", one.exponent),
        "more",
        format!("{:.0} and {:.0}/s: {ratio:.1} times", one.outcome.throughput, other.outcome.throughput),
        Verdict::of(ratio > 1.0),
    ))
}
