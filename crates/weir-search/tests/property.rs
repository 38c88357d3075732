//! The rules and the search never contradict each other: no confluent verdict has a counterexample, on random small
//! applications (300 here; `-- --ignored` for the 10,000 that the bar asks), and every rule, turned round, is caught.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/random.rs"]
mod random;
mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weir_analysis::{Analysis, DecidedBy, Rule, Verdict};
use weir_search::{Explorer, Lab, Limits, Question, minimise};
use weir_sql::Application;

/// Small cases need small bounds.
const LIMITS: Limits = Limits {
    calls_per_branch: 1,
    calls_before: 1,
    calls_per_state: 10,
    pairs_per_state: 60,
    steps_per_verdict: 1_500,
    steps: u64::MAX,
};

fn load(text: &str) -> Application {
    support::application(&[("case.sql".to_owned(), text.to_owned())])
}

fn rule_of(verdict: &Verdict) -> Option<Rule> {
    match verdict.decided_by {
        DecidedBy::Rule(rule) => Some(rule),
        _ => None,
    }
}

/// A counterexample to one verdict, in words.
fn counterexample(
    explorer: &mut Explorer<'_>,
    app: &Application,
    analysis: &Analysis,
    verdict: &Verdict,
    partners: &[usize],
) -> Option<String> {
    for &right in partners {
        let question = Question { invariant: verdict.invariant, left: verdict.transaction, right };
        let Some(found) = explorer.explore(&question) else { continue };
        if verdict.confluent && !found.clean {
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
fn contradictions(app: &Application, analysis: &Analysis) -> Vec<String> {
    let lab = match Lab::guarded(app, analysis) {
        Ok(lab) => lab,
        Err(refused) => panic!("{}", refused.0),
    };
    let mut explorer = Explorer::new(&lab, LIMITS);
    let ordered = |procedure: usize| analysis.plan.transactions[procedure].mechanism.is_ordered_family();
    let mut found = Vec::new();
    for verdict in analysis.verdicts.iter().filter(|verdict| verdict.confluent) {
        let writes = |procedure: usize| {
            let mut writes = lab.effects(procedure).writes.iter();
            writes.any(|write| lab.mention(verdict.invariant).tables.contains(&write.table))
        };
        if !lab.can_check(verdict.invariant)
            || !writes(verdict.transaction)
            || rule_of(verdict) == Some(Rule::Untouched)
            || lab.refusal(verdict.transaction).is_some()
        {
            continue;
        }
        let both_in_order = |other: &usize| ordered(*other) && ordered(verdict.transaction);
        // A verdict speaks of its transaction beside any other whose verdict is yes too: the others are named by theirs.
        let judged = |other: &usize| {
            analysis.verdicts.iter().any(|second| {
                second.invariant == verdict.invariant && second.transaction == *other && second.confluent
            })
        };
        let partners: Vec<usize> = (0..app.procedures.len())
            .filter(|other| *other >= verdict.transaction && writes(*other) && judged(other))
            .filter(|other| !both_in_order(other) && lab.refusal(*other).is_none())
            .collect();
        found.extend(counterexample(&mut explorer, app, analysis, verdict, &partners));
    }
    found
}

#[test]
fn no_confluent_verdict_has_a_counterexample() {
    check(300);
}

#[test]
#[ignore = "takes minutes; a bar of its own"]
fn no_confluent_verdict_of_ten_thousand_has_a_counterexample() {
    check(10_000);
}

/// Searches every confluent verdict of so many random applications.
#[track_caller]
fn check(cases: u64) {
    const SHOWN_BYTES: usize = 20_000;
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    let mut bad = String::new();
    let mut contradicted = 0;
    for seed in 0..cases {
        let text = random::application(seed);
        let app = load(&text);
        let analysis = weir_analysis::analyze(&app);
        for rule in analysis.verdicts.iter().filter_map(rule_of) {
            *verdicts.entry(rule.name()).or_default() += 1;
        }
        let found = contradictions(&app, &analysis);
        contradicted += usize::from(!found.is_empty());
        if !found.is_empty() && bad.len() < SHOWN_BYTES {
            let _ = writeln!(bad, "=== case {seed}\n{text}{}", found.join(""));
        }
    }
    println!("verdicts by rule: {verdicts:?}");
    assert!(contradicted == 0, "{contradicted} of {cases} cases\n{bad}");
}

/// Applications in which every rule speaks: the cases of `cases.rs`, then random ones.
fn applications(random: u64) -> impl Iterator<Item = (String, Application)> {
    let written = cases::cases().map(|(name, text)| (name, load(&text)));
    written.chain((0..random).map(|seed| (format!("random {seed}"), load(&random::application(seed)))))
}

/// Derived data is a function of the rows, so the engine has nothing to check.
const NOT_CHECKED: &[&str] = &["untouched", "secondary-index", "materialized-view", "sequence-share"];

/// A rule that is turned round says no where two branches never break the invariant, or yes where they do. In the case
/// that the golden file names the search finds no counterexample, or one.
#[test]
fn every_rule_turned_round_is_caught() {
    let mut caught: BTreeMap<String, String> = BTreeMap::new();
    for (name, app) in applications(120) {
        let analysis = weir_analysis::analyze(&app);
        let lab = Lab::guarded(&app, &analysis).map_err(|refused| refused.0).expect("the case runs");
        let free = Lab::new(&app, &analysis).map_err(|refused| refused.0).expect("the case runs");
        for verdict in &analysis.verdicts {
            let Some(rule) = rule_of(verdict).map(|rule| rule.name()) else { continue };
            if caught.contains_key(&rule) || NOT_CHECKED.contains(&rule.as_str()) {
                continue;
            }
            let mut explorer = Explorer::new(if verdict.confluent { &lab } else { &free }, LIMITS);
            let partners = [verdict.with.unwrap_or(verdict.transaction)];
            let before = explorer.merges;
            let found = counterexample(&mut explorer, &app, &analysis, verdict, &partners);
            let merges = explorer.merges - before;
            let invariant = &analysis.invariants[verdict.invariant.0 as usize].name;
            let what = format!("{name}: {} and {invariant}", app.procedures[verdict.transaction].name);
            match found {
                Some(_) if !verdict.confluent => {
                    caught.insert(rule, format!("yes is refuted | {what}"));
                }
                None if verdict.confluent && merges >= MERGES_MIN => {
                    caught.insert(rule, format!("no has no witness | {what}"));
                }
                _ => {}
            }
        }
    }
    let rules: Vec<&str> = weir_analysis::registry::KINDS
        .iter()
        .filter(|kind| kind.id["WEIR-".len()..].starts_with(['U', 'D', 'F', 'R', 'B', 'S', 'E', 'C', 'T']))
        .map(|kind| kind.name)
        .filter(|name| !NOT_CHECKED.contains(name))
        .collect();
    let mut text = String::new();
    for (rule, how) in &caught {
        let _ = writeln!(text, "{rule} | {how}");
    }
    let missing: Vec<&&str> = rules.iter().filter(|rule| !caught.contains_key(**rule)).collect();
    assert!(missing.is_empty(), "no case catches {missing:?}\n{text}");
    support::golden("testdata/witnesses/rules.txt", &text);
}

/// So many merges must have been looked at before "no counterexample" says anything.
const MERGES_MIN: u64 = 4;
