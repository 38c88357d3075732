//! The examples' analyses as text, compared with `testdata/analysis`. `WEIR_UPDATE=1` rewrites the files.

use crate::support;

use std::fmt::Write as _;

use weir_analysis::{Analysis, TextStyle, Weights, analyze, suggestions, to_json, to_text};
use weir_sql::Application;

#[track_caller]
fn check(example: &str) {
    let app = support::example(example, |_, text| text);
    let mut analysis = analyze(&app);
    analysis.suggestions = suggestions(&app, &analysis, &Weights::default());
    let actual = format!("{}{}", to_text(&app, &analysis, TextStyle::default()), details(&app, &analysis));
    support::golden(&format!("testdata/analysis/{example}.txt"), &actual);
    let json = to_json(&app, &analysis);
    assert_eq!(json["verdicts"].as_array().map(Vec::len), Some(analysis.pairs()));
}

/// Every verdict that is not "untouched", and the placement.
fn details(app: &Application, analysis: &Analysis) -> String {
    let mut text = String::from("\n--- verdicts\n");
    for verdict in &analysis.verdicts {
        let name = &analysis.invariants[verdict.invariant.0 as usize].name;
        let rule = match verdict.decided_by {
            weir_analysis::DecidedBy::Rule(weir_analysis::Rule::Untouched) => continue,
            weir_analysis::DecidedBy::Rule(rule) => rule.name(),
            other => other.name().to_string(),
        };
        let _ = writeln!(
            text,
            "{} | {name} | {} | {rule} | alone {}{}",
            app.procedures[verdict.transaction].name,
            if verdict.confluent { "yes" } else { "NO" },
            verdict.alone.name(),
            if verdict.assumes.is_empty() {
                String::new()
            } else {
                format!(" | assumes {}", verdict.assumes.join("; "))
            },
        );
    }
    text.push_str("--- tables\n");
    for table in &app.catalog.tables {
        let _ = writeln!(text, "{} {:?}", table.name, analysis.plan.placement(table.id));
    }
    text
}

#[test]
fn payroll() {
    check("payroll");
}

#[test]
fn tpcc() {
    check("tpcc");
}

#[test]
fn auction() {
    check("auction");
}

#[test]
fn escrow_tickets() {
    check("escrow-tickets");
}

#[test]
fn rubis() {
    check("rubis");
}

#[test]
fn smallbank() {
    check("smallbank");
}

#[test]
fn social() {
    check("social");
}

#[test]
fn tpcw() {
    check("tpcw");
}
