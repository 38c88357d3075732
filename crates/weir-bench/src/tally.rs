//! From what the clients saw to the report of the run.

use std::collections::BTreeMap;

use weir_server::report::{InvariantReport, Latency, RunReport, Second, Setup, TransactionReport};
use weir_txn::exec::program::Program;

use crate::client::Tally;
use crate::pace::latencies;

/// Number of abort reasons distinguished for a procedure; messages may contain arbitrary values.
pub const REASONS_MAX: usize = 20;

/// A SQLSTATE, and its message without the values in it: aborts of one kind count together.
pub fn reason(state: &str, message: &str) -> String {
    let mut text = format!("{state} ");
    let mut rest = message;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
        let (piece, is_value) = match first {
            // Names of columns and constraints.
            '"' => (quoted(rest, '"'), false),
            // Within a word it is an apostrophe.
            '\'' if !text.ends_with(char::is_alphanumeric) => (quoted(rest, '\''), rest.len() > 1),
            _ if is_word(first) => {
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let word = rest[..end].trim_end_matches(['.', ':', '-']);
                let word = if word.is_empty() { &rest[..end] } else { word };
                (word, is_number(word) || is_uuid(word))
            }
            _ => (&rest[..first.len_utf8()], false),
        };
        text.push_str(if is_value { "…" } else { piece });
        rest = &rest[piece.len()..];
    }
    text
}

/// Up to the next such quote; an apostrophe that closes nowhere is one.
fn quoted(text: &str, quote: char) -> &str {
    text[1..].find(quote).map_or(&text[..1], |end| &text[..end + 2])
}

fn is_number(word: &str) -> bool {
    word.trim_start_matches(['-', '.']).starts_with(|c: char| c.is_ascii_digit())
}

fn is_uuid(word: &str) -> bool {
    const UUID_LENGTH: usize = 36;
    word.len() == UUID_LENGTH && word.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

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
    let fails = |(_, one): &(&String, &TransactionReport)| one.committed == 0 && one.aborted > 0;
    let never_committed = by_transaction.iter().filter(fails).map(|(name, _)| name.clone()).collect();
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
        never_committed,
        interrupted: false,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aborts_of_one_kind_have_one_reason() {
        for (message, expected) in [
            ("no stock for item 17", "P0001 no stock for item …"),
            ("-3.50 is less than 2026-11-23 10:00:00.", "P0001 … is less than … …."),
            ("user 'o''brien' has gone", "P0001 user …… has gone"),
            ("it isn't there", "P0001 it isn't there"),
            ("key \"orders_2_pkey\" of a1b2", "P0001 key \"orders_2_pkey\" of a1b2"),
            ("f47ac10b-58cc-4372-a567-0e02b2c3d479: taken", "P0001 …: taken"),
            ("", "P0001 "),
        ] {
            assert_eq!(reason("P0001", message), expected);
        }
    }
}
