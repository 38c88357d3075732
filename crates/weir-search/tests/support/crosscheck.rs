//! The cross-check of one application: what the rules call confluent, or the plan leaves uncoordinated, is searched.

use std::fmt::Write as _;

use weir_analysis::{Analysis, DecidedBy, GuardKind, InvariantKind, Rule, Verdict};
use weir_search::{Explorer, Lab, Limits, Question, minimise};
use weir_sql::Application;

use super::support;

/// Small cases need small bounds.
#[allow(dead_code)]
pub const LIMITS: Limits = Limits {
    calls_per_branch: 1,
    calls_before: 1,
    calls_per_state: 14,
    nulls: true,
    pairs_per_state: 60,
    steps_per_verdict: 1_500,
    steps: u64::MAX,
};

pub fn load(text: &str) -> Application {
    support::application(&[("case.sql".to_owned(), text.to_owned())])
}

/// The same, of which some may only be analysed.
#[allow(dead_code)]
pub fn load_to_analyze(text: &str) -> Application {
    let mut sources = weir_sql::Sources::default();
    sources.add("case.sql", text);
    match weir_sql::load_with(sources, weir_sql::Reading::Tolerant) {
        Ok(app) => app,
        Err((_, errors)) => panic!("{text}\n{errors:?}"),
    }
}

pub fn rule_of(verdict: &Verdict) -> Option<Rule> {
    match verdict.decided_by {
        DecidedBy::Rule(rule) => Some(rule),
        _ => None,
    }
}

/// A counterexample to one verdict, in words.
pub fn counterexample(
    explorer: &mut Explorer<'_>,
    app: &Application,
    analysis: &Analysis,
    verdict: &Verdict,
    partners: &[usize],
    clean: bool,
) -> Option<String> {
    for &right in partners {
        let question = Question { invariant: verdict.invariant, left: verdict.transaction, right };
        let Some(found) = explorer.explore(&question) else { continue };
        if clean && !found.clean {
            // A key is broken besides; keys have verdicts of their own.
            continue;
        }
        let witness = weir_search::witness(explorer.lab, &minimise::minimised(explorer.lab, found));
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{} is {:?} for {}, confluent: {}, assuming {:?}",
            analysis.invariants[verdict.invariant.0 as usize].name,
            rule_of(verdict),
            app.procedures[verdict.transaction].name,
            verdict.confluent,
            verdict.assumes,
        );
        for (title, words) in witness.steps() {
            let _ = writeln!(text, "   {title}: {words}");
        }
        return Some(text);
    }
    None
}

/// Everything that contradicts the rules in one application.
pub fn contradictions(app: &Application, analysis: &Analysis, limits: Limits) -> Vec<String> {
    let lab = match Lab::guarded(app, analysis) {
        Ok(lab) => lab,
        Err(refused) => panic!("{}", refused.0),
    };
    let mut explorer = Explorer::new(&lab, limits);
    let ordered = |procedure: usize| analysis.plan.transactions[procedure].mechanism.is_ordered_family();
    let mut found = Vec::new();
    for verdict in &analysis.verdicts {
        let (invariant, own) = (verdict.invariant, verdict.transaction);
        let writes = |procedure: usize| {
            let mut writes = lab.effects(procedure).writes.iter();
            writes.any(|write| lab.mention(invariant).tables.contains(&write.table))
        };
        if !lab.can_check(invariant) || !writes(own) || lab.refusal(own).is_some() {
            continue;
        }
        // A share of a bounded counter is no item that two branches could meet at.
        let draws = |procedure: usize| {
            let mut guards = analysis.plan.transactions[procedure].guards.iter();
            guards.any(|guard| guard.kind == GuardKind::Escrow && guard.keeps.contains(&invariant))
        };
        // Which keys and parents a call claims is the executor's business, and tested there.
        let kind = analysis.invariants[invariant.0 as usize].kind;
        let of_keys = !matches!(kind, InvariantKind::Assertion(_) | InvariantKind::Check(_));
        // Of two verdicts that are yes, neither transaction waits for anybody; where one is no, the plan must keep them
        // apart: in order, both, or by a guard at which they meet.
        let unkept = |other: &usize| {
            let second = analysis
                .verdicts
                .iter()
                .find(|second| second.invariant == invariant && second.transaction == *other);
            let untouched = |verdict: &Verdict| rule_of(verdict) == Some(Rule::Untouched);
            second.is_some_and(|second| {
                let apart = untouched(verdict) && untouched(second) || ordered(own) && ordered(*other);
                !apart && (verdict.confluent && second.confluent || !(of_keys || draws(own) || draws(*other)))
            })
        };
        let partners: Vec<usize> = (own..app.procedures.len())
            .filter(|other| writes(*other) && unkept(other) && lab.refusal(*other).is_none())
            .collect();
        found.extend(counterexample(&mut explorer, app, analysis, verdict, &partners, true));
    }
    found
}
