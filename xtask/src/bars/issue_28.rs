//! Ordered transactions: Eris in software.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::weir::Weir;
use super::{Bar, Effort, Kind, Seen};

/// Packets a second on one core.
const LEAST: f64 = 500_000.0;

/// Throughput per processor-second of shards beside that of NT-UR, at least.
const SHARE_LEAST: f64 = 0.90;
/// The same of general transactions beside independent ones.
const GENERAL_LEAST: f64 = 0.70;
/// Throughput beside that of Lock-Store at high skew, at least.
const SKEW_LEAST: f64 = 10.0;
/// The same of TPC-C beside NT-UR, at least.
const TPCC_SHARE_LEAST: f64 = 0.97;
/// New-Orders a second of the published framework's NT-UR on a machine of this kind.
const TPCC_PUBLISHED: f64 = 16_000.0;
/// The same of its Granola, with three replicas a shard.
const TPCC_PUBLISHED_GRANOLA: f64 = 5_700.0;
/// New-Orders a second of ordered transactions beside that, at least.
const TPCC_GRANOLA_LEAST: f64 = 2.0;
/// Least share of the throughput that stays if a hundredth of all datagrams is lost.
const LOSS_LEAST: f64 = 0.90;
/// From the detection of a dead sequencer until transactions are answered again, at most.
const FAILOVER_MS_MOST: f64 = 300.0;

pub const BARS: &[Bar] = &[
    Bar {
        id: "ordered-share",
        issue: 28,
        claim: "ordered transactions over loopback, one replica a shard: transactions per processor-second of the shards (the sequencer's apart) beside NT-UR's, SRW and MRMW with 0, 20 and 100% distributed (`weir-ordered-bench --unpacked`, decision 24)",
        bar: "≥ 0.90 of NT-UR, the least of all",
        kind: Kind::Real,
        measure: share,
    },
    Bar {
        id: "ordered-general",
        issue: 28,
        claim: "general transactions over loopback (CRMW, 20% distributed): transactions per processor-second of the shards beside those of MRMW (`--unpacked`)",
        bar: "≥ 0.70",
        kind: Kind::Real,
        measure: general,
    },
    Bar {
        id: "ordered-skew",
        issue: 28,
        claim: "MRMW with 20% distributed and Zipf's exponent 1.2 over loopback, three replicas a shard: transactions a second beside Lock-Store's",
        bar: "≥ 10",
        kind: Kind::Real,
        measure: skew,
    },
    Bar {
        id: "ordered-tpcc-share",
        issue: 28,
        claim: "TPC-C over loopback, one replica and one warehouse a shard, 10% distributed: transactions per processor-second of the shards (the sequencer's apart) beside NT-UR's (`--unpacked --truncate-entries 10000`)",
        bar: "≥ 0.97",
        kind: Kind::Real,
        measure: tpcc_share,
    },
    Bar {
        id: "ordered-tpcc-absolute",
        issue: 28,
        claim: "TPC-C over loopback, 2 shards, 8 clients: New-Orders a second of NT-UR, and of ordered transactions with three replicas a shard, beside what the published framework gives for NT-UR (16,000) and Granola (5,700); and beside our own Granola",
        bar: "NT-UR ≥ 16,000, ordered ≥ 2 × 5,700",
        kind: Kind::Real,
        measure: tpcc_absolute,
    },
    Bar {
        id: "ordered-loss",
        issue: 28,
        claim: "SRW over loopback, three replicas a shard, 1% of all datagrams lost: transactions a second beside those without loss (`--unpacked`)",
        bar: "≥ 0.90",
        kind: Kind::Real,
        measure: loss,
    },
    Bar {
        id: "ordered-failover",
        issue: 28,
        claim: "the sequencer is ended under load: from its detection until transactions are answered again",
        bar: "≤ 300 ms",
        kind: Kind::Real,
        measure: failover,
    },
    Bar {
        id: "sequencer",
        issue: 28,
        claim: "packets that a sequencer stamps a second on one core, over loopback, three replicas a shard, one transaction in a datagram (`weir-sequencer bench`), and the kernel's share of that core",
        bar: "≥ 500,000",
        kind: Kind::Real,
        measure: sequencer,
    },
];

/// Figures of one run over loopback.
fn loopback(program: &Path, effort: Effort, protocol: &str, arguments: &str) -> Result<Value, String> {
    let mut command = Command::new(program);
    command.args(["--protocol", protocol, "--seconds", "2"]).args(arguments.split_whitespace());
    if !arguments.contains("--clients") {
        command.args(["--clients", "512"]);
    }
    if effort == Effort::Quick {
        command.arg("--quick");
    }
    let output = command.output().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

fn number(figures: &Value, name: &str) -> Result<f64, String> {
    figures.pointer(name).and_then(Value::as_f64).ok_or_else(|| format!("no {name} in {figures}"))
}

/// A run: a protocol and its arguments.
type Run<'a> = (&'a str, &'a str);

/// The median of a figure of one run beside that of another, with the least and the most of the rounds.
fn ratio(
    program: &Path,
    effort: Effort,
    name: &str,
    (one, other): (Run<'_>, Run<'_>),
) -> Result<[f64; 3], String> {
    let rounds = if effort == Effort::Quick { 1 } else { 10 };
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let one = number(&loopback(program, effort, one.0, one.1)?, name)?;
        let other = number(&loopback(program, effort, other.0, other.1)?, name)?;
        ratios.push(one / other);
    }
    Ok(spread(ratios))
}

fn seen(least: f64, [low, median, high]: [f64; 3]) -> Seen {
    Seen { met: median >= least, figure: format!("{median:.2}"), interval: format!("{low:.2} to {high:.2}") }
}

const PER_SHARD_CPU: &str = "/per_shard_cpu_second";
const PER_SECOND: &str = "/transactions_per_second";

/// Clients as machines of their own would send: in this process they share sockets (decision 24).
const OWN_DATAGRAMS: &str = "--unpacked";

fn share(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let program = weir.other("weir-ordered-bench", "weir-ordered-bench")?;
    let unpacked = least_share(&program, effort, OWN_DATAGRAMS)?;
    let packed = least_share(&program, effort, "")?;
    let seen = seen(SHARE_LEAST, unpacked);
    Ok(Seen {
        interval: format!("{}; {:.2} where clients share datagrams", seen.interval, packed[1]),
        ..seen
    })
}

/// The least share of all workloads.
fn least_share(program: &Path, effort: Effort, setting: &str) -> Result<[f64; 3], String> {
    let mut least = [f64::INFINITY; 3];
    for workload in ["srw", "mrmw", "mrmw --distributed 20", "mrmw --distributed 100"] {
        let arguments = format!("--workload {workload} {setting}");
        let runs = (("ordered", arguments.as_str()), ("nt-ur", arguments.as_str()));
        let seen = ratio(program, effort, PER_SHARD_CPU, runs)?;
        if seen[1] < least[1] {
            least = seen;
        }
    }
    Ok(least)
}

fn general(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let program = weir.other("weir-ordered-bench", "weir-ordered-bench")?;
    let [crmw, mrmw] =
        ["crmw", "mrmw"].map(|workload| format!("--workload {workload} --distributed 20 {OWN_DATAGRAMS}"));
    let runs = (("ordered", crmw.as_str()), ("ordered", mrmw.as_str()));
    Ok(seen(GENERAL_LEAST, ratio(&program, effort, PER_SHARD_CPU, runs)?))
}

fn skew(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let program = weir.other("weir-ordered-bench", "weir-ordered-bench")?;
    let arguments = "--workload mrmw --distributed 20 --zipf 1.2 --replicas 3";
    let runs = (("ordered", arguments), ("lock-store", arguments));
    Ok(seen(SKEW_LEAST, ratio(&program, effort, PER_SECOND, runs)?))
}

const TPCC: &str = "--workload tpcc";

fn tpcc_share(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let program = weir.other("weir-ordered-bench", "weir-ordered-bench")?;
    // A log that has reached its length takes no new memory, which the system would clear first.
    let arguments = format!("{TPCC} {OWN_DATAGRAMS} --truncate-entries 10000");
    let runs = (("ordered", arguments.as_str()), ("nt-ur", arguments.as_str()));
    Ok(seen(TPCC_SHARE_LEAST, ratio(&program, effort, PER_SHARD_CPU, runs)?))
}

fn tpcc_absolute(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let program = weir.other("weir-ordered-bench", "weir-ordered-bench")?;
    let rounds = if effort == Effort::Quick { 1 } else { 5 };
    let arguments = format!("{TPCC} --shards 2 --clients 8 --replicas 3");
    let new_orders =
        |protocol| number(&loopback(&program, effort, protocol, &arguments)?, "/new_orders_per_second");
    let (mut unordered, mut ordered, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        unordered.push(new_orders("nt-ur")?);
        let one = new_orders("ordered")?;
        ordered.push(one);
        times.push(one / new_orders("granola")?);
    }
    let [unordered, ordered, times] = [unordered, ordered, times].map(spread);
    Ok(Seen {
        met: unordered[1] >= TPCC_PUBLISHED && ordered[1] >= TPCC_GRANOLA_LEAST * TPCC_PUBLISHED_GRANOLA,
        figure: format!(
            "NT-UR {:.0} a second; ordered {:.0}, {:.2} × our Granola",
            unordered[1], ordered[1], times[1]
        ),
        interval: format!(
            "{:.0} to {:.0}; {:.0} to {:.0}, {:.2} to {:.2}",
            unordered[0], unordered[2], ordered[0], ordered[2], times[0], times[2]
        ),
    })
}

/// The least, the median and the most.
fn spread(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_by(f64::total_cmp);
    [figures[0], figures[figures.len() / 2], figures[figures.len() - 1]]
}

fn loss(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let program = weir.other("weir-ordered-bench", "weir-ordered-bench")?;
    let whole = format!("--replicas 3 {OWN_DATAGRAMS}");
    let lossy = format!("{whole} --loss 1");
    let runs = (("ordered", lossy.as_str()), ("ordered", whole.as_str()));
    Ok(seen(LOSS_LEAST, ratio(&program, effort, PER_SECOND, runs)?))
}

fn failover(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let program = weir.other("weir-ordered-bench", "weir-ordered-bench")?;
    let rounds = if effort == Effort::Quick { 1 } else { 5 };
    let mut all = Vec::new();
    for _ in 0..rounds {
        let figures = loopback(&program, effort, "ordered", "--replicas 3 --kill-sequencer")?;
        let answered = number(&figures, "/failover/answered_after_ms")?;
        all.push(answered - number(&figures, "/failover/detection_ms")?);
    }
    all.sort_by(f64::total_cmp);
    let median = all[rounds / 2];
    Ok(Seen {
        met: median <= FAILOVER_MS_MOST,
        figure: format!("{median:.0} ms"),
        interval: format!("{:.0} to {:.0} ms, {rounds} runs", all[0], all[rounds - 1]),
    })
}

/// The median of five runs; one in the quick form.
fn sequencer(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let program = weir.other("weir-ordered-net", "weir-sequencer")?;
    let rounds = if effort == Effort::Quick { 1 } else { 5 };
    let mut seen: Vec<(f64, f64)> = Vec::new();
    for _ in 0..rounds {
        let output = Command::new(&program)
            .args(if effort == Effort::Quick { &["bench", "--quick"][..] } else { &["bench"][..] })
            .output()
            .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let packets = figure(&text, "packets a second on one core");
        let kernel = figure(&text, "the kernel's share of that");
        seen.push(packets.zip(kernel).ok_or_else(|| format!("no figures: {text}"))?);
    }
    seen.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (packets, kernel) = seen[seen.len() / 2];
    Ok(Seen {
        met: packets >= LEAST,
        figure: format!("{packets:.0} a second, {kernel:.0}% of the core the kernel's"),
        interval: format!("{:.0} to {:.0}, {rounds} runs", seen[0].0, seen[seen.len() - 1].0),
    })
}

/// The number behind these words, at the beginning of a line.
fn figure(text: &str, words: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(words))?;
    line.trim().trim_end_matches('%').parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn figures_are_read_from_the_bench() {
        let said = "packets a second on one core            512345\nthe kernel's share of that               64.5%\n";
        assert_eq!(super::figure(said, "packets a second on one core"), Some(512_345.0));
        assert_eq!(super::figure(said, "the kernel's share of that"), Some(64.5));
        assert_eq!(super::figure(said, "packets in a datagram sent"), None);
    }
}
