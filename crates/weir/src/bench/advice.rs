//! `weir bench --advise`: transactions on the CAT wall (`weir_cat_bench::advice`), and Weir's plan for them.

use serde::Serialize;
use serde_json::Value;
use weir_cat_bench::advice::{Observation, observe};
use weir_cat_bench::workbench::{Point, Report};
use weir_cat_bench::workload::Workload;
use weir_sql::{Reading, Sources};

use crate::application::Loaded;
use crate::input::{SHIPPED, example};
use crate::output::Failure;

/// Advice on one transaction on one target.
#[derive(Serialize)]
pub struct Advice {
    on_wall: bool,
    #[serde(flatten)]
    observation: Observation,
    /// Plan of the procedure that the transaction is, where it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Plan>,
    /// All of it in words.
    pub text: String,
}

/// Part of a procedure's plan.
#[derive(Clone, Serialize)]
struct Plan {
    procedure: String,
    mechanism: String,
    /// Kinds of the guards that it takes.
    guards: Vec<String>,
    confluent: bool,
    read_only: bool,
    /// On several shards it runs under locks, statement by statement.
    by_locks: bool,
    why: String,
}

/// Advice on a report whose points were measured with and without hot keys.
pub fn of(report: &Report, points: &[Point]) -> Result<Vec<Advice>, Failure> {
    let Some(point) = points.iter().find(|point| !point.is_spread) else { return Ok(Vec::new()) };
    let sources = sources(point.workload.as_ref());
    let document = Loaded::from_sources(sources, Reading::Strict)?.plan();
    let observed = observe(report);
    let advice = observed.iter().map(|observation| {
        let plan = plan_of(&document, &procedure(point.workload.as_ref(), observation.transaction));
        let text = in_words(observation, plan.as_ref(), &observed, (report, point.workload.as_ref()));
        Advice { on_wall: observation.is_on_wall(), observation: observation.clone(), plan, text }
    });
    Ok(advice.collect())
}

/// The application whose plan it is: the example, where the workload runs statement by statement what its procedures do.
fn sources(workload: &dyn Workload) -> Sources {
    if let Some(sources) = example(workload.name()).filter(|_| !workload.has_calls()) {
        return sources;
    }
    let definition = workload.definition();
    let schema: String = definition.tables.iter().map(|(_, text)| format!("{text};\n")).collect();
    let mut sources = Sources::default();
    sources.add("schema.sql", &schema);
    sources.add("procedures.sql", &definition.procedures);
    sources
}

/// The procedure that does what a transaction does. Those of the examples have the names of the transactions.
fn procedure(workload: &dyn Workload, transaction: &str) -> String {
    workload.procedure(transaction).unwrap_or_else(|| transaction.to_owned())
}

fn plan_of(document: &Value, procedure: &str) -> Option<Plan> {
    let transactions = document["transactions"].as_array()?;
    let one = transactions.iter().find(|one| one["name"] == procedure)?;
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let mut guards: Vec<String> = one["guards"]
        .as_array()?
        .iter()
        .filter_map(|guard| Some(guard["kind"].as_str()?.to_owned()))
        .collect();
    guards.sort();
    guards.dedup();
    Some(Plan {
        procedure: procedure.to_owned(),
        mechanism: text("mechanism"),
        guards,
        confluent: one["confluent"] == true,
        read_only: one["read_only"] == true,
        by_locks: one["runs"]["interactive"].is_string(),
        why: text("why"),
    })
}

/// Returns whether the calls of a target run as Weir has planned them.
fn is_planned(target: &str, report: &Report) -> bool {
    let is_weir = target == "weir" || target.starts_with("weir://") || target.starts_with("baseline:");
    let mut runs = report.runs.iter().filter(|run| run.target == target);
    is_weir && runs.any(|run| run.parameters.get("way").is_some_and(|way| way == "calls"))
}

fn in_words(
    observation: &Observation,
    plan: Option<&Plan>,
    observed: &[Observation],
    (report, workload): (&Report, &dyn Workload),
) -> String {
    let seen = observation.in_words();
    let Some(plan) = plan.filter(|_| observation.is_on_wall()) else { return seen };
    let here = is_planned(&observation.target, report);
    let mut text = format!("{seen} {}", mechanism_in_words(plan, here));
    let other = observed.iter().find(|other| {
        other.transaction == observation.transaction
            && other.target != observation.target
            && is_planned(&other.target, report)
    });
    match other {
        _ if here => {}
        Some(other) => text.push_str(&format!(
            " Measured so on {}: {:.1}% of the attempts are aborted, and throughput is {:.2} of the spread one ({:.0} a second).",
            other.target,
            100.0 * other.contended.aborted_share,
            other.kept(),
            other.throughput
        )),
        None if workload.has_calls() => {
            text.push_str(" Measure it: --way calls --target with weir: among the targets.");
        }
        None if SHIPPED.contains(&workload.name()) => {
            text.push_str(&format!(" Measure it: weir bench {} --target weir:,postgres.", workload.name()));
        }
        None => text.push_str(&format!(" Measure it: weir bench examples/{}.", workload.name())),
    }
    text
}

/// The plan's effect on the wall.
fn mechanism_in_words(plan: &Plan, here: bool) -> String {
    let Plan { procedure, mechanism, guards, why, .. } = plan;
    let guarded = |kind: &str| guards.iter().any(|guard| guard == kind);
    let how = match mechanism.as_str() {
        _ if plan.read_only => "it only reads, and readers wait for nobody",
        "merge" | "ramp" if guards.is_empty() => {
            "its writes merge, so concurrent ones neither wait nor abort"
        }
        "merge" | "ramp" if guarded("lock") => {
            "it takes locks on rows that it has read, so others of the same rows wait: the wall is lower there, not gone"
        }
        "merge" | "ramp" if guarded("claim") => {
            "it claims the rows that must not change beside it: calls of the same rows follow one another, and others merge"
        }
        "merge" | "ramp" if guarded("escrow") => {
            "it takes of an escrow, so concurrent ones wait only when the bound is near"
        }
        "merge" | "ramp" => "it draws numbers at its commit, and otherwise merges",
        _ if plan.by_locks => {
            "on several shards it runs under locks, statement by statement, so calls of the same rows wait: the wall is lower there, not gone"
        }
        _ => {
            "its calls are put into one order before they run, so none aborts and none holds locks while it waits"
        }
    };
    let guards = if guards.is_empty() { String::new() } else { format!(" with {}", guards.join(", ")) };
    let begin = match (here, plan.by_locks || guarded("lock")) {
        (true, _) => "Its plan there",
        (false, false) => "Weir takes it off as the procedure",
        (false, true) => "Weir has it as the procedure",
    };
    format!(
        "{begin}: {procedure} is planned `{mechanism}`{guards}: {how}. The plan's reason: {}.",
        why.trim_end_matches('.')
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(mechanism: &str, guards: &[&str], by_locks: bool) -> String {
        let plan = Plan {
            procedure: "p".to_owned(),
            mechanism: mechanism.to_owned(),
            guards: guards.iter().map(|guard| (*guard).to_owned()).collect(),
            confluent: guards.is_empty(),
            read_only: false,
            by_locks,
            why: "increments commute.".to_owned(),
        };
        mechanism_in_words(&plan, false)
    }

    #[test]
    fn each_mechanism_has_its_words() {
        for (mechanism, guards, by_locks, words) in [
            ("merge", &[][..], false, "planned `merge`: its writes merge"),
            ("ramp", &["escrow"], false, "with escrow: it takes of an escrow"),
            ("ramp", &["claim", "escrow"], false, "with claim, escrow: it claims"),
            ("ordered", &[], false, "one order before they run"),
            ("general", &[], false, "one order before they run"),
            ("general", &[], true, "under locks, statement by statement"),
        ] {
            let text = plan(mechanism, guards, by_locks);
            assert!(text.contains(words) && text.ends_with("reason: increments commute."), "{text}");
        }
    }

    #[test]
    fn the_plans_of_the_workloads_are_found() {
        let settings = |text: &str| {
            let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()
        };
        for (name, set, kind, mechanism, by_locks) in [
            ("cat", "", "write", "ramp", false),
            ("cat", "write=modify", "write", "general", false),
            ("ycsb", "", "write", "merge", false),
            ("ycsb-t", "kind=mrmw", "modify_two", "general", false),
            ("ycsb-t", "kind=crmw", "swap", "general", true),
            ("smallbank", "", "transact_savings", "ramp", false),
        ] {
            let workload =
                weir_cat_bench::workload::of(name, &settings(set)).unwrap_or_else(|wrong| panic!("{wrong}"));
            let definition = workload.definition();
            let mut sources = Sources::default();
            let schema: String = definition.tables.iter().map(|(_, text)| format!("{text};\n")).collect();
            sources.add("schema.sql", &schema);
            sources.add("procedures.sql", &definition.procedures);
            let Ok(loaded) = Loaded::from_sources(sources, Reading::Strict) else {
                panic!("{name} is not read")
            };
            let plan = plan_of(&loaded.plan(), &workload.procedure(kind).expect("it is called"))
                .expect("it is planned");
            assert_eq!(
                (plan.mechanism.as_str(), plan.by_locks),
                (mechanism, by_locks),
                "{name} {set}: {}",
                plan.why
            );
        }
    }
}
