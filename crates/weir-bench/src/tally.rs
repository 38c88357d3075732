//! From what the clients saw to the report of the run.

use std::collections::BTreeMap;

use weir_server::report::{InvariantReport, Latency, RunReport, Second, Setup, TransactionReport};
use weir_txn::exec::program::Program;

use crate::client::Tally;
use crate::pace::latencies;

/// Invariants hold only what concurrent readers saw; the caller adds the check at rest.
pub fn report(program: &Program, tallies: Vec<Tally>, seconds: f64) -> RunReport {
    let mut by_transaction = BTreeMap::new();
    let mut aborted: BTreeMap<String, u64> = BTreeMap::new();
    let mut all = latencies();
    let mut committed = 0;
    for (index, procedure) in program.procedures.iter().enumerate() {
        let mut latency = latencies();
        let mut report = TransactionReport::default();
        for tally in tallies.iter().map(|tally| &tally.by_procedure[index]) {
            report.committed += tally.committed;
            latency.add(&tally.latency).expect("the same bounds");
            for (reason, count) in &tally.aborted {
                *report.abort_reasons.entry(reason.clone()).or_default() += count;
                *aborted.entry(reason.clone()).or_default() += count;
            }
        }
        report.aborted = report.abort_reasons.values().sum();
        report.throughput = report.committed as f64 / seconds;
        report.latency_us = Latency::from_nanoseconds(&latency);
        committed += report.committed;
        all.add(&latency).expect("the same bounds");
        if report.committed + report.aborted > 0 {
            by_transaction.insert(procedure.name.clone(), report);
        }
    }
    RunReport {
        version: 1,
        seconds,
        committed,
        throughput: committed as f64 / seconds,
        aborted,
        latency_us: Latency::from_nanoseconds(&all),
        by_transaction,
        invariants: audit_violations(&tallies),
        converged: false,
        plan: serde_json::Value::Null,
        setup: Setup::default(),
        series: series(program, &tallies, seconds),
        memory: None,
    }
}

fn audit_violations(tallies: &[Tally]) -> Vec<InvariantReport> {
    let seen: BTreeMap<&String, &String> = tallies.iter().flat_map(|tally| &tally.audit_violations).collect();
    let violation =
        |said: &String| Some(serde_json::json!({ "seen_by": "a concurrent reader", "what": said }));
    seen.into_iter()
        .map(|(id, said)| InvariantReport {
            id: id.clone(),
            holds: false,
            rows_checked: 0,
            violation: violation(said),
        })
        .collect()
}

fn series(program: &Program, tallies: &[Tally], seconds: f64) -> Vec<Second> {
    let length = tallies.iter().map(|tally| tally.seconds.len()).max().unwrap_or(0);
    (0..length)
        .map(|second| {
            let mut committed = BTreeMap::new();
            let mut aborted = 0;
            for (by_procedure, refused) in tallies.iter().filter_map(|tally| tally.seconds.get(second)) {
                aborted += refused;
                for (procedure, count) in program.procedures.iter().zip(by_procedure) {
                    if *count > 0 {
                        *committed.entry(procedure.name.clone()).or_default() += count;
                    }
                }
            }
            Second {
                second: second as u64,
                length: (seconds - second as f64).clamp(0.001, 1.0),
                committed,
                aborted,
            }
        })
        .collect()
}
