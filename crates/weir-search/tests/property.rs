//! The rules and the search never contradict each other: no confluent verdict has a counterexample, on random small
//! applications (300, or as many as `WEIR_CASES` says), and every rule, turned round, is caught.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/crosscheck.rs"]
mod crosscheck;
#[path = "support/random.rs"]
mod random;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;

use crosscheck::{LIMITS, contradictions, counterexample, load, rule_of};
use weir_analysis::{InvariantId, Rule, Verdict};
use weir_search::{Explorer, Lab};
use weir_sql::Application;

#[test]
fn no_confluent_verdict_has_a_counterexample() {
    check(cases_of(std::env::var("WEIR_CASES").ok().as_deref()));
}

/// `10000` of them, or those of the seeds `10000..20000`.
fn cases_of(given: Option<&str>) -> Range<u64> {
    let Some(given) = given else { return 0..300 };
    let (from, to) = given.split_once("..").unwrap_or(("0", given));
    let number = |text: &str| text.parse().expect("WEIR_CASES is a number, or FROM..TO");
    let cases = number(from)..number(to);
    assert!(!cases.is_empty(), "WEIR_CASES={given} are none");
    cases
}

/// Searches every confluent verdict of so many random applications.
#[track_caller]
fn check(cases: Range<u64>) {
    const SHOWN_BYTES: usize = 20_000;
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    let mut bad = String::new();
    let mut contradicted = 0;
    for seed in cases.clone() {
        let text = random::application(seed);
        let app = load(&text);
        let analysis = weir_analysis::analyze(&app);
        for rule in analysis.verdicts.iter().filter_map(rule_of) {
            *verdicts.entry(rule.name()).or_default() += 1;
        }
        let found = contradictions(&app, &analysis, LIMITS);
        contradicted += usize::from(!found.is_empty());
        if !found.is_empty() && bad.len() < SHOWN_BYTES {
            let _ = writeln!(bad, "=== case {seed}\n{text}{}", found.join(""));
        }
    }
    println!("verdicts by rule: {verdicts:?}");
    assert!(contradicted == 0, "{contradicted} of {} cases\n{bad}", cases.end - cases.start);
}

/// Applications in which every rule speaks: the cases of `cases.rs`, then random ones.
fn applications(random: u64) -> impl Iterator<Item = (String, Application)> {
    let written = cases::cases().map(|(name, text)| (name, load(&text)));
    written.chain((0..random).map(|seed| (format!("random {seed}"), load(&random::application(seed)))))
}

/// Rules that no run can catch: derived data is a function of the rows, and a sequence has none, so the engine has
/// nothing to check. [`what_cannot_be_caught_has_nothing_to_check`] shows it.
const NOT_CHECKED: &[Rule] = &[Rule::SequenceShare, Rule::SecondaryIndex, Rule::MaterializedView];

/// A rule that is turned round says no where two branches never break the invariant, or yes where they do. In the case
/// that the golden file names the search finds no counterexample, or one.
#[test]
fn every_rule_turned_round_is_caught() {
    let mut caught: BTreeMap<String, String> = BTreeMap::new();
    for (name, app) in applications(120) {
        let analysis = weir_analysis::analyze(&app);
        let lab = Lab::guarded(&app, &analysis).map_err(|refused| refused.0).expect("the case runs");
        let free = Lab::new(&app, &analysis).map_err(|refused| refused.0).expect("the case runs");
        // Untouched pairs, which the list leaves out, are among them.
        let invariants = || (0..analysis.invariants.len() as u32).map(InvariantId);
        let pairs = (0..app.procedures.len()).flat_map(|own| invariants().map(move |of| (own, of)));
        for verdict in pairs.map(|(own, invariant)| analysis.verdict(own, invariant)) {
            let verdict: &Verdict = &verdict;
            let Some(rule) = rule_of(verdict).filter(|rule| !NOT_CHECKED.contains(rule)) else { continue };
            let rule = rule.name();
            if caught.contains_key(&rule) {
                continue;
            }
            let mut explorer = Explorer::new(if verdict.confluent { &lab } else { &free }, LIMITS);
            let partners = [verdict.with.unwrap_or(verdict.transaction)];
            let before = explorer.merges;
            let found = counterexample(&mut explorer, &app, &analysis, verdict, &partners, verdict.confluent);
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
    // Every rule that there is: one that is new and has no case fails here.
    let rules: Vec<String> =
        Rule::ALL.iter().filter(|rule| !NOT_CHECKED.contains(rule)).map(|rule| rule.name()).collect();
    let mut text = String::new();
    for (rule, how) in &caught {
        let _ = writeln!(text, "{rule} | {how}");
    }
    let missing: Vec<&String> = rules.iter().filter(|rule| !caught.contains_key(*rule)).collect();
    assert!(missing.is_empty(), "no case catches {missing:?}\n{text}");
    support::golden("testdata/witnesses/rules.txt", &text);
}

/// So many merges must have been looked at before "no counterexample" says anything.
const MERGES_MIN: u64 = 4;

#[test]
fn what_cannot_be_caught_has_nothing_to_check() {
    let text = support::with_procedures(
        "CREATE TABLE item (id serial PRIMARY KEY, a integer NOT NULL);
         CREATE INDEX item_a ON item (a);
         CREATE MATERIALIZED VIEW totals AS SELECT sum(a) AS total FROM item;",
        &["INSERT INTO item (a) VALUES (m);"],
    );
    let app = load(&text);
    let analysis = weir_analysis::analyze(&app);
    let lab = Lab::new(&app, &analysis).map_err(|refused| refused.0).expect("the case runs");
    let mut seen: BTreeSet<Rule> = BTreeSet::new();
    for verdict in &analysis.verdicts {
        let Some(rule) = rule_of(verdict).filter(|rule| NOT_CHECKED.contains(rule)) else { continue };
        assert!(verdict.confluent && !lab.can_check(verdict.invariant), "{}", rule.name());
        seen.insert(rule);
    }
    assert_eq!(seen, NOT_CHECKED.iter().copied().collect());
}
