//! Small applications with verdicts that were derived by hand (`testdata/small`), each with the reason.
//!
//! Verdicts follow from Definition 7 of coordination-avoidance.txt: *no* is of a pair of branches, valid by themselves, whose merge breaks the invariant,
//! where the transaction is one that takes part. A *yes* of the analysis where a *no* was derived is a fault. A *no* where a *yes* was
//! derived costs coordination that is not needed: how many of these there are is kept, and may only fall.

use crate::support;

use crate::small_cases as small;

use weir_analysis::{Analysis, analyze};
use weir_sql::Application;

/// A generated key beside chosen ones: the verdict assumes that nobody chooses a value that the generator has yet to give, and says so. A
/// generated value lives on the shard that gives it, where a chosen one that is the same is found.
const ASSUMED: [&str; 1] = ["key-generated-and-chosen: draw and t_pkey"];

/// Verdicts that are stricter than what was derived, of the rules alone: no solver is asked here. It may only fall.
const TOO_STRICT_MAX: usize = 3;

fn confluent(app: &Application, analysis: &Analysis, transaction: &str, invariant: &str) -> Option<bool> {
    let procedure = app.procedures.iter().position(|one| one.name == transaction)?;
    let at = analysis.invariants.iter().position(|one| one.name == invariant)?;
    let verdict = analysis.verdict(procedure, weir_analysis::InvariantId(at as u32));
    Some(verdict.confluent)
}

#[test]
fn verdicts_are_never_laxer_than_what_was_derived() {
    let folder = support::root().join("testdata/small");
    let all = small::read_all(&folder);
    let (mut wrong, mut strict) = (Vec::new(), Vec::new());
    for small in &all {
        let app = support::read_to_analyze(&small.sql);
        let analysis = analyze(&app);
        for (transaction, invariant, derived) in &small.derived {
            let line = format!("{}: {transaction} and {invariant}", small.name);
            match (confluent(&app, &analysis, transaction, invariant), derived) {
                (None, _) => {
                    let known: Vec<&str> = analysis.invariants.iter().map(|one| one.name.as_str()).collect();
                    wrong.push(format!("{line}: there is none; there are {}", known.join(", ")));
                }
                (Some(true), false) if ASSUMED.contains(&line.as_str()) => {}
                (Some(true), false) => wrong.push(format!("{line}: confluent, and should not be")),
                (Some(false), true) => strict.push(line),
                _ => {}
            }
        }
    }
    let applications = all.len();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(applications >= 200, "{applications} applications");
    assert!(strict.len() <= TOO_STRICT_MAX, "{} of {applications}:\n{}", strict.len(), strict.join("\n"));
}
