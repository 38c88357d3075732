//! Ordered transactions: Eris in software.

use std::process::Command;

use super::weir::Weir;
use super::{Bar, Effort, Kind, Seen};

/// Packets a second on one core.
const LEAST: f64 = 500_000.0;

pub const BARS: &[Bar] = &[Bar {
    id: "sequencer",
    issue: 28,
    claim: "packets that a sequencer stamps a second on one core, over loopback, three replicas a shard, one transaction in a datagram (`weir-sequencer bench`), and the kernel's share of that core",
    bar: "≥ 500,000",
    kind: Kind::Real,
    measure: sequencer,
}];

/// The median of five runs; one in the quick form.
fn sequencer(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let built = Command::new("cargo")
        .current_dir(&weir.root)
        .args(["build", "--release", "--quiet", "--package", "weir-ordered-net", "--bin", "weir-sequencer"])
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.success() {
        return Err("the release build of weir-sequencer failed".to_owned());
    }
    let program = weir.binary.with_file_name("weir-sequencer");
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
