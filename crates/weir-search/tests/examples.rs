//! Witnesses of the examples in words, compared with `testdata/witnesses`; each is replayed from its own JSON.
//! `WEIR_UPDATE=1` rewrites the files.

use crate::support;

use std::fmt::Write as _;

use weir_analysis::{DecidedBy, Witness};
use weir_search::{Lab, Limits, attach, replay};
use weir_sql::Application;

/// Compares, and demands that all but so many negative verdicts have a witness.
#[track_caller]
fn check(example: &str, without: usize) {
    let app = support::example(example);
    let mut analysis = weir_analysis::analyze(&app);
    let before = analysis.clone();
    let summary = attach(&app, &mut analysis, Limits::default());
    let mut text = String::new();
    let lab = Lab::new(&app, &before).map_err(|refused| refused.0).expect("the examples run");
    for verdict in analysis.verdicts.iter().filter(|verdict| !verdict.confluent) {
        let name = &analysis.invariants[verdict.invariant.0 as usize].name;
        let with = verdict.with.map_or("anything", |with| &app.procedures[with].name);
        let _ = writeln!(text, "{} beside {with}: {name}", app.procedures[verdict.transaction].name);
        match &verdict.witness {
            Some(witness) => {
                describe(witness, &mut text);
                check_replay(&lab, witness);
                assert_ne!(verdict.decided_by, DecidedBy::Assumption);
            }
            None => {
                let _ = writeln!(text, "  {}", verdict.argument());
                assert_eq!(verdict.decided_by, DecidedBy::Assumption);
            }
        }
    }
    assert_eq!(summary.asked - summary.witnessed, without, "{text}");
    support::golden(&format!("testdata/witnesses/{example}.txt"), &text);
}

fn describe(witness: &Witness, text: &mut String) {
    let calls = |calls: &[weir_analysis::witness::WitnessCall]| {
        calls.iter().map(|call| call.text()).collect::<Vec<_>>()
    };
    let parts = [
        ("initial", witness.lines(&witness.initial)),
        ("left", calls(&witness.left)),
        ("right", calls(&witness.right)),
        ("merged", witness.lines(&witness.merged)),
        ("violated", vec![witness.violation()]),
    ];
    for (title, lines) in parts {
        for line in lines {
            let _ = writeln!(text, "  {title}: {line}");
        }
    }
}

/// The JSON of a witness leads to the same merge.
#[track_caller]
fn check_replay(lab: &Lab<'_>, witness: &Witness) {
    let replayed = replay(lab, &witness.to_json()).expect("a witness replays");
    assert!(replayed.violated);
    assert_eq!(replayed.witness, *witness);
}

#[test]
fn tpcc() {
    check("tpcc", 0);
}

#[test]
fn payroll() {
    check("payroll", 0);
}

#[test]
fn smallbank() {
    check("smallbank", 0);
}

#[test]
fn escrow_tickets() {
    check("escrow-tickets", 0);
}

#[test]
fn social() {
    check("social", 0);
}

#[test]
fn auction() {
    check("auction", 0);
}

#[test]
fn rubis() {
    check("rubis", 0);
}

#[test]
fn tpcw() {
    check("tpcw", 0);
}

/// The same input gives the same witnesses.
#[test]
fn the_search_is_deterministic() {
    let found = |app: &Application| {
        let mut analysis = weir_analysis::analyze(app);
        attach(app, &mut analysis, Limits::default());
        analysis.verdicts
    };
    let app = support::example("payroll");
    assert_eq!(found(&app), found(&app));
}
