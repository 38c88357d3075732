//! Applications written by hand to lead a rule astray: the search finds no counterexample to what is called confluent.

use crate::crosscheck;
use crate::support;
use crate::tricky_cases as tricky;

use std::fmt::Write as _;

use crate::crosscheck::{contradictions, load};
use weir_search::{Lab, Limits};

/// More than random cases get: there are few of them.
const LIMITS: Limits =
    Limits { calls_per_state: 24, pairs_per_state: 200, steps_per_verdict: 6_000, ..crosscheck::LIMITS };

#[test]
fn no_tricky_case_has_a_counterexample() {
    let mut bad = String::new();
    for (name, schema, bodies) in tricky::CASES {
        let app = load(&support::with_procedures(schema, bodies));
        let analysis = weir_analysis::analyze(&app);
        let lab = Lab::new(&app, &analysis).map_err(|refused| refused.0).expect("the case runs");
        for (at, procedure) in app.procedures.iter().enumerate() {
            if let Some(refusal) = lab.refusal(at) {
                let _ = writeln!(bad, "=== {name}: {} is not searched: {refusal}", procedure.name);
            }
        }
        let found = contradictions(&app, &analysis, LIMITS);
        if !found.is_empty() {
            let _ = writeln!(bad, "=== {name}\n{}", found.join(""));
        }
    }
    assert!(bad.is_empty(), "{bad}");
}
