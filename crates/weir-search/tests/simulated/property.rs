//! The rules and the search never contradict each other: no confluent verdict has a counterexample, on random small
//! applications (300, or as many as `WEIR_CASES` says), and every rule, turned round, is caught.

use crate::cases;
use crate::random;
use crate::support;
use crate::topics;
use crate::wide;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;

use crate::crosscheck::{LIMITS, contradictions, counterexample, load, load_to_analyze, rule_of};
use weir_analysis::{InvariantId, PlantedFlaws, Proofs, Rule, Verdict, Weights};
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

/// From 300 on, every other application is put together from parts; from 5,000 on, every fifth is about one thing.
fn generated(seed: u64) -> (String, Application) {
    if seed >= 5_000 && seed % 5 == 4 {
        let text = topics::application(seed);
        let app = load(&text);
        return (text, app);
    }
    match seed < 300 || seed.is_multiple_of(2) {
        true => {
            let text = random::application(seed);
            let app = load(&text);
            (text, app)
        }
        false => {
            let text = wide::application(seed);
            let app = load_to_analyze(&text);
            (text, app)
        }
    }
}

/// Searches every confluent verdict of so many random applications.
#[track_caller]
fn check(cases: Range<u64>) {
    const SHOWN_BYTES: usize = 20_000;
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    let mut bad = String::new();
    let mut contradicted = 0;
    for seed in cases.clone() {
        let (text, app) = generated(seed);
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

/// The ways in which a rule that is turned round is caught in one application: it says no where two branches never break the invariant, or
/// yes where they do, and the search finds no counterexample, or one. Only rules that `wanted` names are looked at.
fn caught_in(app: &Application, wanted: impl Fn(Rule) -> bool) -> BTreeMap<String, String> {
    let mut caught: BTreeMap<String, String> = BTreeMap::new();
    let analysis = weir_analysis::analyze(app);
    // Untouched pairs, which the list leaves out, are among them.
    let invariants = || (0..analysis.invariants.len() as u32).map(InvariantId);
    let pairs = (0..app.procedures.len()).flat_map(|own| invariants().map(move |of| (own, of)));
    let verdicts: Vec<Verdict> = pairs
        .map(|(own, invariant)| analysis.verdict(own, invariant).into_owned())
        .filter(|verdict| rule_of(verdict).is_some_and(&wanted))
        .collect();
    if verdicts.is_empty() {
        return caught;
    }
    let lab = Lab::guarded(app, &analysis).map_err(|refused| refused.0).expect("the case runs");
    let free = Lab::new(app, &analysis).map_err(|refused| refused.0).expect("the case runs");
    for verdict in &verdicts {
        let Some(rule) = rule_of(verdict).map(Rule::name) else { continue };
        let own = verdict.transaction;
        if caught.contains_key(&rule) || !lab.can_check(verdict.invariant) {
            continue;
        }
        let mut explorer = Explorer::new(if verdict.confluent { &lab } else { &free }, LIMITS);
        let partners = [verdict.with.unwrap_or(own)];
        if partners.iter().chain([&own]).any(|one| lab.refusal(*one).is_some()) {
            continue;
        }
        let before = explorer.merges;
        let found = counterexample(&mut explorer, app, &analysis, verdict, &partners, verdict.confluent);
        let merges = explorer.merges - before;
        let invariant = &analysis.invariants[verdict.invariant.0 as usize].name;
        let what = format!("{} and {invariant}", app.procedures[own].name);
        match found {
            Some(_) if !verdict.confluent => caught.insert(rule, format!("yes is refuted | {what}")),
            None if verdict.confluent && merges >= MERGES_MIN => {
                caught.insert(rule, format!("no has no witness | {what}"))
            }
            _ => None,
        };
    }
    caught
}

fn is_checked(rule: Rule) -> bool {
    !NOT_CHECKED.contains(&rule)
}

/// In the case that the golden file names each rule is caught, turned round.
#[test]
fn every_rule_turned_round_is_caught() {
    let mut caught: BTreeMap<String, String> = BTreeMap::new();
    for (name, app) in applications(120) {
        let found = caught_in(&app, |rule| is_checked(rule) && !caught.contains_key(&rule.name()));
        caught.extend(found.into_iter().map(|(rule, how)| {
            let how = how.replacen(" | ", &format!(" | {name}: "), 1);
            (rule, how)
        }));
    }
    // Every rule that there is: one that is new and has no case fails here.
    let rules: Vec<String> =
        Rule::ALL.iter().filter(|rule| is_checked(**rule)).map(|rule| rule.name()).collect();
    let mut text = String::new();
    for (rule, how) in &caught {
        let _ = writeln!(text, "{rule} | {how}");
    }
    let missing: Vec<&String> = rules.iter().filter(|rule| !caught.contains_key(*rule)).collect();
    assert!(missing.is_empty(), "no case catches {missing:?}\n{text}");
    support::golden("testdata/witnesses/rules.txt", &text);
}

/// Rules that no generated application catches, and why.
const NOT_GENERATED: &[(Rule, &str)] = &[];

/// Each rule, turned round, is caught by a generated application, whose seed the golden file names, or listed with the
/// reason. `WEIR_CASES` looks for the first that catches each.
#[test]
fn generated_applications_catch_rules() {
    const FILE: &str = "testdata/witnesses/generated.txt";
    let path = support::root().join(FILE);
    let mut caught: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let seeds: BTreeSet<u64> = match std::env::var("WEIR_CASES").ok() {
        Some(cases) => cases_of(Some(&cases)).collect(),
        None => {
            let known = std::fs::read_to_string(path).unwrap_or_default();
            known.lines().filter_map(|line| line.split(" | ").nth(1)?.parse().ok()).collect()
        }
    };
    for seed in seeds {
        let is_open = |rule: Rule| is_checked(rule) && !caught.contains_key(&rule.name());
        if !Rule::ALL.iter().any(|rule| is_open(*rule)) {
            break;
        }
        let found = caught_in(&generated(seed).1, is_open);
        caught.extend(found.into_iter().map(|(rule, how)| (rule, (seed, how))));
    }
    let mut text = String::new();
    for rule in Rule::ALL {
        let reason = NOT_GENERATED.iter().find(|(one, _)| one == rule).map(|(_, reason)| reason);
        let _ = match (caught.get(&rule.name()), reason) {
            (Some((seed, how)), _) => writeln!(text, "{} | {seed} | {how}", rule.name()),
            (None, Some(reason)) => writeln!(text, "{} | – | {reason}", rule.name()),
            (None, None) if is_checked(*rule) => writeln!(text, "{} | ? | not found", rule.name()),
            (None, None) => writeln!(text, "{} | – | nothing to check: the engine derives it", rule.name()),
        };
    }
    support::golden(FILE, &text);
    assert!(!text.contains(" | ? | "), "neither caught nor explained:\n{text}");
}

/// Rules with a flaw, and a generated application that shows it, or why none can.
const FLAWS: &[(&str, PlantedFlaws, Result<u64, &str>)] = &[
    ("one row", PlantedFlaws { one_row: true, ..NONE }, Ok(1307)),
    ("whole by tables", PlantedFlaws { whole_by_tables: true, ..NONE }, Ok(895)),
    ("nothing composed", PlantedFlaws { nothing_composed: true, ..NONE }, Ok(2533)),
    ("inner queries", PlantedFlaws { inner_queries: true, ..NONE }, Ok(5449)),
    (
        "no cycles",
        PlantedFlaws { no_cycles: true, ..NONE },
        Err("the executor has no sequence that begins again"),
    ),
    ("record skew", always(Rule::RecordSkew), Ok(48)),
    ("unique chosen", always(Rule::UniqueChosen), Ok(312)),
    ("dense insert", always(Rule::DenseInsert), Ok(330)),
    ("foreign key delete", always(Rule::ForeignKeyDelete), Ok(380)),
    ("bound toward", always(Rule::BoundToward), Ok(374)),
    ("bound avoid", always(Rule::BoundAvoid), Ok(711)),
    ("taken twice", always(Rule::TakenTwice), Ok(384)),
    ("sum overwritten", always(Rule::SumOverwritten), Ok(4322)),
    ("sum join apart", always(Rule::SumJoinApart), Ok(685)),
    ("margin used", always(Rule::MarginUsed), Ok(303)),
    ("extreme lost", always(Rule::ExtremeLost), Ok(5009)),
    ("counterpart taken", always(Rule::CounterpartTaken), Ok(908)),
    ("facts both ways", always(Rule::FactsBothWays), Ok(311)),
];

const NONE: PlantedFlaws = PlantedFlaws {
    one_row: false,
    whole_by_tables: false,
    nothing_composed: false,
    inner_queries: false,
    no_cycles: false,
    forgets_asked: false,
    forgets_neighbours: false,
    always: None,
};

const fn always(rule: Rule) -> PlantedFlaws {
    PlantedFlaws { always: Some(rule), ..NONE }
}

fn shows(seed: u64, flaws: PlantedFlaws) -> bool {
    let (_, app) = generated(seed);
    let analysis = weir_analysis::analyze_planted(&app, &Weights::default(), Proofs::NotAsked, flaws);
    let sound = weir_analysis::analyze(&app);
    let told = |analysis: &weir_analysis::Analysis| {
        analysis.verdicts.iter().map(|verdict| verdict.confluent).collect::<Vec<_>>()
    };
    told(&analysis) != told(&sound) && !contradictions(&app, &analysis, LIMITS).is_empty()
}

/// A flaw in a rule is found by the generated applications alone. `WEIR_CASES` looks for the first that shows each.
#[test]
fn planted_flaws_are_found() {
    let cases = std::env::var("WEIR_CASES").ok();
    let mut missed = Vec::new();
    for (name, flaws, seed) in FLAWS {
        match &cases {
            None => missed.extend(seed.is_ok_and(|seed| !shows(seed, *flaws)).then_some(*name)),
            Some(cases) => {
                let found = cases_of(Some(cases)).find(|&seed| shows(seed, *flaws));
                println!("{name}: {found:?} {}", seed.err().unwrap_or_default());
                missed.extend((found.is_none() && seed.is_ok()).then_some(*name));
            }
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// Number of merges that must have been tried before "no counterexample" is meaningful.
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
