//! Transactions on the wall of cat-theorem.txt: with contention their aborts or their waiting grow, and throughput falls.
//!
//! Each point is compared with the same work that is spread over all keys, at the same number of clients: what a busy machine costs, both have.

use serde::Serialize;

use crate::workbench::{Medians, Report, Summary};

/// Throughput that has fallen to less than this share of the spread one has fallen.
const KEPT: f64 = 0.9;

/// Aborts that grow by less are not noticed.
const ABORTS_MORE: f64 = 0.01;

/// A median latency that has grown by this factor is waiting.
const WAITS_MORE: f64 = 1.25;

/// A spread load with more than this share of the contention is nothing to compare with.
const SPREAD_MAX: f64 = 0.5;

/// The quantity that grows with contention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Symptom {
    Aborts,
    Waiting,
}

/// One kind of transaction on one target, under contention and spread.
#[derive(Clone, Debug, Serialize)]
pub struct Observation {
    pub target: String,
    /// The run with the most contention.
    pub label: String,
    pub transaction: &'static str,
    /// None: it is not on the wall.
    pub symptom: Option<Symptom>,
    pub contended: Medians,
    pub spread: Medians,
    /// Commits a second of all transactions of the target.
    pub throughput: f64,
    pub spread_throughput: f64,
}

impl Observation {
    pub fn is_on_wall(&self) -> bool {
        self.symptom.is_some()
    }

    /// Throughput under contention, of the spread one.
    pub fn kept(&self) -> f64 {
        self.throughput / self.spread_throughput.max(f64::MIN_POSITIVE)
    }

    /// The observation as a sentence.
    pub fn in_words(&self) -> String {
        let Observation { target, transaction, contended, spread, .. } = self;
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let level = format!("Contention Level {:.2}", contended.contention_level);
        let throughput = format!(
            "throughput is {:.2} of that of the same work spread over all keys ({:.0} and {:.0} a second)",
            self.kept(),
            self.throughput,
            self.spread_throughput
        );
        let aborts = format!(
            "{} of its attempts are aborted ({} spread)",
            percent(contended.aborted_share),
            percent(spread.aborted_share)
        );
        let waiting = format!(
            "its median latency is {:.2} ms ({:.2} ms spread)",
            contended.p50_us / 1e3,
            spread.p50_us / 1e3
        );
        if spread.contention_level > SPREAD_MAX * contended.contention_level && self.symptom.is_none() {
            return format!(
                "{target}: nothing can be said of {transaction}: at {level} the spread load has {:.2}, too; take more keys.",
                spread.contention_level
            );
        }
        match self.symptom {
            Some(Symptom::Aborts) => {
                format!("{target}: {transaction} is on the CAT wall: at {level} {aborts}, and {throughput}.")
            }
            Some(Symptom::Waiting) => {
                format!("{target}: {transaction} is on the CAT wall: at {level} {waiting}, and {throughput}.")
            }
            None => format!(
                "{target}: {transaction} is not on the CAT wall: at {level} {aborts}, and {throughput}."
            ),
        }
    }
}

/// Observations of a report whose points were measured with and without common objects; for each target and transaction the point with the most
/// contention.
pub fn observe(report: &Report) -> Vec<Observation> {
    let mut targets: Vec<&str> = Vec::new();
    for one in &report.summary {
        if !targets.contains(&one.target.as_str()) {
            targets.push(&one.target);
        }
    }
    targets.into_iter().flat_map(|target| of_target(report, target)).collect()
}

fn of_target(report: &Report, target: &str) -> Vec<Observation> {
    let own = report.summary.iter().filter(|one| one.target == target);
    let contended = own
        .filter(|one| !one.is_spread)
        .max_by(|one, other| one.contention_level.value.total_cmp(&other.contention_level.value));
    let Some(contended) = contended else { return Vec::new() };
    let label = format!("{} spread", contended.label);
    let Some(spread) = report.summary.iter().find(|one| one.is_spread && one.label == label) else {
        return Vec::new();
    };
    let of_kind = |(kind, medians): (&&'static str, &Medians)| {
        let beside = spread.transactions.get(kind)?;
        Some(observation(kind, (contended, medians), (spread, beside)))
    };
    contended.transactions.iter().filter_map(of_kind).collect()
}

fn observation(
    transaction: &'static str,
    (contended, own): (&Summary, &Medians),
    (spread, beside): (&Summary, &Medians),
) -> Observation {
    let (throughput, spread_throughput) = (contended.throughput.value, spread.throughput.value);
    let falls = throughput < KEPT * spread_throughput;
    let symptom = if own.aborted_share > beside.aborted_share + ABORTS_MORE {
        Some(Symptom::Aborts)
    } else if own.p50_us > WAITS_MORE * beside.p50_us {
        Some(Symptom::Waiting)
    } else {
        None
    };
    Observation {
        target: contended.target.clone(),
        label: contended.label.clone(),
        transaction,
        symptom: symptom.filter(|_| falls),
        contended: *own,
        spread: *beside,
        throughput,
        spread_throughput,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::workbench::Range;

    fn summary(label: &str, is_spread: bool, throughput: f64, aborted_share: f64, p50_us: f64) -> Summary {
        let range = |value| Range { value, min: value, max: value };
        let contention_level = if is_spread { 0.01 } else { 0.5 };
        let medians = Medians { throughput, aborted_share, contention_level, p50_us };
        Summary {
            label: label.to_owned(),
            target: label.split(' ').next().unwrap_or(label).to_owned(),
            x: None,
            is_spread,
            throughput: range(throughput),
            aborted_share: range(aborted_share),
            contention_level: range(contention_level),
            p50_us: range(p50_us),
            p99_us: range(p50_us),
            transactions: BTreeMap::from([("write", medians)]),
        }
    }

    fn report(summary: Vec<Summary>) -> Report {
        Report {
            version: 1,
            workload: "cat".to_owned(),
            runs: vec![],
            ratios: vec![],
            summary,
            recorded: vec![],
        }
    }

    #[test]
    fn the_wall_is_aborts_or_waiting_while_throughput_falls() {
        let symptom = |contended: (f64, f64, f64), spread: (f64, f64, f64)| {
            let summary = vec![
                summary("postgres", false, contended.0, contended.1, contended.2),
                summary("postgres spread", true, spread.0, spread.1, spread.2),
            ];
            let observed = observe(&report(summary));
            assert_eq!(observed.len(), 1);
            observed[0].symptom
        };
        let spread = (1_000.0, 0.001, 500.0);
        assert_eq!(symptom((400.0, 0.4, 600.0), spread), Some(Symptom::Aborts));
        assert_eq!(symptom((400.0, 0.0, 1_600.0), spread), Some(Symptom::Waiting));
        // Throughput is kept.
        assert_eq!(symptom((950.0, 0.4, 1_600.0), spread), None);
        // It falls for another reason.
        assert_eq!(symptom((400.0, 0.001, 510.0), spread), None);
        // All machines are slow alike.
        assert_eq!(symptom((400.0, 0.4, 600.0), (400.0, 0.4, 600.0)), None);
    }

    #[test]
    fn a_spread_load_that_is_contended_says_nothing() {
        let mut spread = summary("sqlite spread", true, 1_000.0, 0.0, 500.0);
        spread.transactions.values_mut().for_each(|medians| medians.contention_level = 0.4);
        let summary = vec![summary("sqlite", false, 990.0, 0.0, 510.0), spread];
        let words = observe(&report(summary))[0].in_words();
        assert!(words.contains("nothing can be said of write") && words.contains("more keys"), "{words}");
    }

    #[test]
    fn the_sentence_has_the_figures() {
        let summary = vec![
            summary("mariadb zipf=0.9", false, 400.0, 0.4, 600.0),
            summary("mariadb zipf=0.9 spread", true, 1_000.0, 0.0, 500.0),
        ];
        assert_eq!(
            observe(&report(summary))[0].in_words(),
            "mariadb: write is on the CAT wall: at Contention Level 0.50 40.0% of its attempts are aborted (0.0% spread), and throughput is \
             0.40 of that of the same work spread over all keys (400 and 1000 a second)."
        );
    }
}
