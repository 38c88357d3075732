//! Conveyor: Operation Partitioning over PostgreSQL servers.

use std::process::Command;

use serde_json::Value;

use super::weir::Weir;
use super::{Bar, Effort, Kind, Seen};

pub const BARS: &[Bar] = &[
    Bar {
        id: "conveyor-overhead",
        issue: 29,
        claim: "an operation at its own server through an agent, beside a direct connection and a proxy that copies bytes, pgbench with 1 and 8 clients, all SERIALIZABLE, commits synced (`weir-conveyor-bench overhead`; decision 22)",
        bar: "at most 15 percentage points of throughput more than the proxy costs, and 150 µs more than a direct connection with one client",
        kind: Kind::Real,
        measure: overhead,
    },
    Bar {
        id: "conveyor-tpcw",
        issue: 29,
        claim: "TPC-W, shopping mix: most throughput of the belt beside that of two-phase commit, each at its best number of servers",
        bar: "≥ 4.2",
        kind: Kind::Simulated,
        measure: |weir, effort| simulated(weir, effort, "3-tpcw", BESIDE_TWO_PHASE),
    },
    Bar {
        id: "conveyor-rubis",
        issue: 29,
        claim: "RUBiS, bidding mix: the same",
        bar: "≥ 1.4",
        kind: Kind::Simulated,
        measure: |weir, effort| simulated(weir, effort, "3-rubis", BESIDE_TWO_PHASE),
    },
    Bar {
        id: "conveyor-latency",
        issue: 29,
        claim: "light load over five sites, Table 2 as round trips and as one way, TPC-W and RUBiS: mean of commutative and of local operations, and of global ones",
        bar: "at most 1.5 times the time within a site (30 ms); a rotation of the token more for global ones",
        kind: Kind::Simulated,
        measure: |weir, effort| simulated(weir, effort, "table-3", "mean of "),
    },
];

/// The claim of figures 3a and 3b that has a bar.
const BESIDE_TWO_PHASE: &str = "most throughput beside two-phase commit";

const POINTS_MOST: f64 = 15.0;
const ADDED_US_MOST: f64 = 150.0;

/// Lines of JSON that a program prints.
fn lines(command: &mut Command) -> Result<Vec<Value>, String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    let lines = String::from_utf8_lossy(&output.stdout);
    let lines: Result<Vec<Value>, _> = lines.lines().map(serde_json::from_str).collect();
    match lines {
        Ok(lines) if !lines.is_empty() => Ok(lines),
        Ok(_) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Throughput of proxy and agent beside a direct connection, and what the agent adds to its median, of one round.
struct Round {
    clients: u64,
    points: f64,
    added_us: f64,
}

fn overhead(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let program = weir.other("weir-conveyor-bench", "weir-conveyor-bench")?;
    let (rounds, seconds) = if effort == Effort::Quick { ("1", "1") } else { ("10", "2") };
    let samples =
        lines(Command::new(program).args(["overhead", "--json", "--rounds", rounds, "--seconds", seconds]))?;
    let rounds = rounds_of(&samples)?;
    let median = |clients: u64, of: fn(&Round) -> f64| {
        let mut all: Vec<f64> = rounds.iter().filter(|round| round.clients == clients).map(of).collect();
        all.sort_by(f64::total_cmp);
        let middle = *all.get(all.len() / 2).ok_or_else(|| format!("no round has {clients} clients"))?;
        Ok::<_, String>((middle, all[0], all[all.len() - 1]))
    };
    let (one, eight) = (median(1, |round| round.points)?, median(8, |round| round.points)?);
    let added = median(1, |round| round.added_us)?;
    Ok(Seen {
        met: one.0 <= POINTS_MOST && eight.0 <= POINTS_MOST && added.0 <= ADDED_US_MOST,
        figure: format!("{:.1} and {:.1} points; {:.0} µs", one.0, eight.0, added.0),
        interval: format!(
            "{:.1} to {:.1}, {:.1} to {:.1}; {:.0} to {:.0} µs",
            one.1, one.2, eight.1, eight.2, added.1, added.2
        ),
    })
}

/// The runs of each round and number of clients, beside each other.
fn rounds_of(samples: &[Value]) -> Result<Vec<Round>, String> {
    let field =
        |sample: &Value, name: &str| sample[name].as_f64().ok_or_else(|| format!("no {name} in {sample}"));
    let of_way = |direct: &Value, way: &str| {
        let is_beside = |sample: &&Value| {
            sample["way"] == way
                && sample["clients"] == direct["clients"]
                && sample["round"] == direct["round"]
        };
        samples.iter().find(is_beside).ok_or_else(|| format!("no run by {way} beside {direct}"))
    };
    let round = |direct: &Value| {
        let (proxy, agent) = (of_way(direct, "proxy")?, of_way(direct, "agent")?);
        let of_direct = field(direct, "per_second")?;
        let lost = field(proxy, "per_second")? - field(agent, "per_second")?;
        Ok(Round {
            clients: direct["clients"].as_u64().unwrap_or_default(),
            points: 100.0 * lost / of_direct,
            added_us: field(agent, "median_us")? - field(direct, "median_us")?,
        })
    };
    samples.iter().filter(|sample| sample["way"] == "direct").map(round).collect()
}

/// Verdicts of a simulated figure whose claims have these words.
fn simulated(weir: &Weir, effort: Effort, figure: &str, words: &str) -> Result<Seen, String> {
    let program = weir.other("weir-conveyor-scale", "weir-conveyor-scale")?;
    let mut command = Command::new(program);
    command.args(["--json", figure]);
    if effort == Effort::Quick {
        command.arg("--quick");
    }
    let lines = lines(&mut command)?;
    let verdicts: Vec<&Value> = lines
        .iter()
        .filter_map(|line| line["verdicts"].as_array())
        .flatten()
        .filter(|verdict| verdict["claim"].as_str().is_some_and(|claim| claim.contains(words)))
        .collect();
    if verdicts.is_empty() {
        return Err(format!("no verdict of {figure} says `{words}`"));
    }
    let ours = |verdict: &&Value| format!("{:.2}", verdict["ours"].as_f64().unwrap_or(f64::NAN));
    Ok(Seen {
        met: verdicts.iter().all(|verdict| verdict["holds"] == true),
        figure: verdicts.iter().map(ours).collect::<Vec<_>>().join(", "),
        interval: "one seed".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn runs_of_a_round_are_compared() {
        let sample = |round: u32, way: &str, per_second: f64, median_us: f64| json!({"clients": 1, "round": round, "way": way, "per_second": per_second, "median_us": median_us});
        let mut samples = vec![
            sample(0, "direct", 100.0, 10.0),
            sample(1, "direct", 200.0, 10.0),
            sample(0, "proxy", 80.0, 15.0),
            sample(0, "agent", 70.0, 30.0),
        ];
        assert!(rounds_of(&samples).is_err(), "a round that lacks two runs");
        samples.remove(1);
        let rounds = rounds_of(&samples).unwrap();
        assert_eq!((rounds.len(), rounds[0].points, rounds[0].added_us), (1, 10.0, 20.0));
    }
}
