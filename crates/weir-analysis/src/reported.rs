//! Everything that there is to report, in one list: refused verdicts, anomalies and other findings, each with a
//! fingerprint that survives moved lines.
//!
//! A fingerprint is made of names and of the statement's own words, never of a line number: of the id, the
//! transaction, the invariant, and the text of the line that the finding is about with its blanks made one and its
//! comment left away. Two findings that agree in all of these are told apart by their order.

use std::collections::BTreeMap;

use weir_sql::{Application, Span};

use crate::Analysis;
use crate::active_active::Conflict;
use crate::anomaly::AnomalyKind;
use crate::assertion::Shape;
use crate::execution::Execution;
use crate::finding::Severity;
use crate::registry::{self, Kind};
use crate::verdict::Verdict;

/// The kind of finding that is one call's own fault.
pub const BREAKS_ALONE: &str = "breaks-alone";

#[derive(Clone, Debug)]
pub struct Reported {
    pub kind: &'static Kind,
    pub severity: Severity,
    pub message: String,
    pub remedy: Option<String>,
    /// Names.
    pub transaction: Option<String>,
    pub invariant: Option<String>,
    pub span: Span,
    /// Where the transaction and the invariant are declared.
    pub about: Vec<Span>,
    /// 16 hexadecimal digits.
    pub fingerprint: String,
}

/// Refused verdicts, calls that break an invariant by themselves, then anomalies, then the rest, then what active-active replication breaks.
pub fn reported(app: &Application, analysis: &Analysis, conflicts: &[Conflict]) -> Vec<Reported> {
    let mut list: Vec<Reported> = Vec::new();
    let shapes: Vec<Shape<'_>> = app.assertions.iter().map(|assertion| Shape::of(&assertion.expr)).collect();
    let refused = analysis.verdicts.iter().filter(|verdict| !verdict.confluent);
    list.extend(refused.map(|verdict| of_verdict(app, analysis, &shapes, verdict)));
    list.extend(analysis.verdicts.iter().filter_map(|verdict| alone(app, analysis, verdict)));
    for anomaly in &analysis.anomalies {
        let severity = match anomaly.kind {
            AnomalyKind::LongFork => Severity::Note,
            _ => Severity::Warning,
        };
        let message = with_example(
            &format!("{}.", anomaly.message),
            anomaly.executed.execution().map(Execution::steps),
        );
        let mut one = blank(anomaly.kind.finding(), severity, message, anomaly.span);
        one.remedy = anomaly.remedies.first().cloned();
        list.push(with_transaction(app, one, Some(anomaly.transaction)));
    }
    let told = |id: &str| AnomalyKind::ALL.iter().any(|kind| kind.finding() == id);
    for finding in analysis.diagnostics.iter().filter(|finding| !told(finding.id)) {
        let one = blank(finding.id, finding.severity, finding.message.clone(), finding.span);
        let around = app.procedures.iter().position(|procedure| holds(procedure.span, finding.span));
        list.push(with_transaction(app, one, around));
    }
    for conflict in conflicts {
        let message = with_example(
            &format!("{}.", conflict.message),
            conflict.executed.execution().map(Execution::steps),
        );
        let mut one = blank(conflict.kind, conflict.severity, message, conflict.span);
        one.remedy = Some(conflict.remedy.clone());
        one.invariant = conflict.invariant.clone();
        list.push(with_transaction(app, one, Some(conflict.transaction)));
    }
    give_fingerprints(app, &mut list);
    list
}

/// Findings of others, such as comments that allow nothing, with their fingerprints.
pub fn of_others(
    app: &Application,
    list: impl IntoIterator<Item = (&'static str, String, Span)>,
) -> Vec<Reported> {
    let mut list: Vec<Reported> =
        list.into_iter().map(|(name, message, span)| blank(name, Severity::Warning, message, span)).collect();
    give_fingerprints(app, &mut list);
    list
}

fn blank(name: &'static str, severity: Severity, message: String, span: Span) -> Reported {
    Reported {
        kind: registry::find(name).unwrap_or(&registry::KINDS[0]),
        severity,
        message,
        remedy: None,
        transaction: None,
        invariant: None,
        span,
        about: Vec::new(),
        fingerprint: String::new(),
    }
}

fn with_transaction(app: &Application, mut one: Reported, transaction: Option<usize>) -> Reported {
    if let Some(procedure) = transaction.map(|transaction| &app.procedures[transaction]) {
        one.transaction = Some(procedure.name.clone());
        one.about.push(procedure.span);
    }
    one
}

fn holds(outer: Span, inner: Span) -> bool {
    outer.file == inner.file && outer.start <= inner.start && inner.end <= outer.end
}

/// A note where a guard keeps it; a warning where nothing but order does.
fn of_verdict(app: &Application, analysis: &Analysis, shapes: &[Shape<'_>], verdict: &Verdict) -> Reported {
    let invariant = &analysis.invariants[verdict.invariant.0 as usize];
    let plan = &analysis.plan.transactions[verdict.transaction];
    let kept: Vec<&crate::Guard> =
        plan.guards.iter().filter(|guard| guard.keeps.contains(&verdict.invariant)).collect();
    let name = &app.procedures[verdict.transaction].name;
    let beside = match verdict.with {
        Some(with) => crate::world::other(app, verdict.transaction, with),
        None => "others".to_string(),
    };
    let how = match kept.first() {
        Some(guard) => format!("kept by {} on {}", guard.kind.name(), crate::json::guard_on(app, guard)),
        None => format!("it runs as {}", plan.mechanism.name()),
    };
    let undecided = if verdict.is_undecided() { "undecided: " } else { "" };
    let message = format!(
        "{undecided}{name} beside {beside} does not keep {} without coordination; {how}. It {}. {}",
        invariant.name,
        verdict.operation,
        verdict.argument()
    );
    let message = with_example(&message, verdict.witness.as_ref().map(|witness| witness.steps()));
    let severity = if kept.is_empty() { Severity::Warning } else { Severity::Note };
    let span =
        kept.first().map_or_else(|| statement_of(app, analysis, shapes, verdict), |guard| guard.statement);
    let kind = registry::of_verdict(verdict);
    let mut one = with_transaction(app, blank(kind.name, severity, message, span), Some(verdict.transaction));
    one.invariant = Some(invariant.name.clone());
    one.about.push(invariant.span);
    let suggestions = analysis.suggestions.list.iter();
    one.remedy = suggestions
        .filter(|suggestion| suggestion.invariant.as_deref() == Some(invariant.name.as_str()))
        .find(|suggestion| {
            suggestion.transaction == verdict.transaction || suggestion.also.contains(&verdict.transaction)
        })
        .map(|suggestion| suggestion.text.clone());
    one
}

/// One call that breaks the invariant by itself.
fn alone(app: &Application, analysis: &Analysis, verdict: &Verdict) -> Option<Reported> {
    let witness = verdict.alone_witness.as_ref()?;
    let name = &app.procedures[verdict.transaction].name;
    let message = format!("{name} breaks {} by itself.", witness.invariant);
    let message = with_example(&message, Some(witness.steps()));
    let span = app.procedures[verdict.transaction].span;
    let one = blank(BREAKS_ALONE, Severity::Warning, message, span);
    let mut one = with_transaction(app, one, Some(verdict.transaction));
    one.invariant = Some(witness.invariant.clone());
    one.about.push(analysis.invariants[verdict.invariant.0 as usize].span);
    Some(one)
}

/// The message and what was run to show it.
fn with_example(message: &str, steps: Option<Vec<(&'static str, String)>>) -> String {
    let Some(steps) = steps else { return message.to_owned() };
    let steps: Vec<String> = steps.iter().map(|(title, words)| format!("{title}: {words}")).collect();
    format!("{message} For example, {}.", steps.join("; "))
}

/// The first statement that writes what the invariant speaks of; the transaction, where none does so itself.
fn statement_of(app: &Application, analysis: &Analysis, shapes: &[Shape<'_>], verdict: &Verdict) -> Span {
    let invariant = &analysis.invariants[verdict.invariant.0 as usize];
    let tables = crate::rules::tables_of(app, shapes, invariant);
    let whole = app.procedures[verdict.transaction].span;
    let writes = analysis.effects[verdict.transaction].writes.iter();
    let mut own = writes.filter(|write| tables.contains(&write.table) && holds(whole, write.span));
    own.next().map_or(whole, |write| write.span)
}

fn give_fingerprints(app: &Application, list: &mut [Reported]) {
    let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
    for one in list {
        let statement = match one.invariant.is_some() && one.transaction.is_some() {
            // Both names say what it is, wherever the statement stands.
            true => String::new(),
            false => statement(app, one.span),
        };
        let transaction = one.transaction.as_deref().unwrap_or("");
        let invariant = one.invariant.as_deref().unwrap_or("");
        let hash = hash(&[one.kind.id, transaction, invariant, &statement]);
        let times = seen.entry(hash).or_insert(0);
        *times += 1;
        let hash =
            if *times == 1 { hash } else { self::hash(&[&format!("{hash:016x}"), &times.to_string()]) };
        one.fingerprint = format!("{hash:016x}");
    }
}

/// The words of the line that a place is on, without its comment.
fn statement(app: &Application, span: Span) -> String {
    let Some(file) = app.sources.files.get(span.file as usize) else { return String::new() };
    let start = file.text.floor_char_boundary((span.start as usize).min(file.text.len()));
    let from = file.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line = file.text[from..].lines().next().unwrap_or("");
    let line = line.split("--").next().unwrap_or("");
    line.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// FNV-1a, with a zero byte behind each part: the same for ever and everywhere.
fn hash(parts: &[&str]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}
