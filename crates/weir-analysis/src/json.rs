//! `weir analyze --format json`, version 1 (interface.md). Fields are added, never changed.

use std::collections::BTreeSet;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::{Application, Span};

use crate::Analysis;
use crate::assertion::Shape;
use crate::invariant::column_list;
use crate::partitioning::sets::Cause;
use crate::partitioning::{Clause, Conflict, Key, reason, reason_rows, where_clause};
use crate::plan::{Guard, GuardKind, Placement, Runs};
use crate::registry;
use crate::rules::tables_of;
use crate::suggest::{Cost, Suggestion};
use crate::verdict::Rule;

/// The document as a tree.
pub fn to_json(app: &Application, analysis: &Analysis) -> Value {
    serde_json::to_value(Document { app, analysis }).expect("its keys are strings")
}

/// The document, made while it is written: as a tree it takes many times the room of its text.
pub struct Document<'a> {
    pub app: &'a Application,
    pub analysis: &'a Analysis,
}

impl Document<'_> {
    /// Its members, in order.
    pub fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let Document { app, analysis } = *self;
        let untouched = if is_large(analysis) { analysis.pairs() - analysis.verdicts.len() } else { 0 };
        map.serialize_entry("version", &1)?;
        map.serialize_entry("tables", &List(|| tables(app, analysis)))?;
        map.serialize_entry("invariants", &List(|| invariants(app, analysis)))?;
        map.serialize_entry("transactions", &List(|| transactions(app, analysis)))?;
        map.serialize_entry("partitioning", &partitioning(app, analysis))?;
        map.serialize_entry("verdicts", &List(|| verdicts(app, analysis)))?;
        map.serialize_entry("verdicts_untouched", &untouched)?;
        map.serialize_entry("suggestions", &suggestions(app, analysis))?;
        map.serialize_entry("suggestions_not_tried", &analysis.suggestions.not_tried)?;
        map.serialize_entry("diagnostics", &List(|| diagnostics(app, analysis)))
    }
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.members(&mut map)?;
        map.end()
    }
}

/// An array of which each element is made when it is written.
pub struct List<F>(pub F);

impl<I: Iterator<Item = Value>, F: Fn() -> I> Serialize for List<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

fn source(app: &Application, span: Span) -> Value {
    let place = app.sources.place(span);
    json!({"file": place.file, "line": place.line, "column": place.column})
}

fn names(app: &Application, table: TableId, columns: &[ColumnIndex]) -> Vec<String> {
    let table = app.catalog.table(table);
    columns.iter().map(|&column| table.columns[column].name.clone()).collect()
}

/// `district (d_next_o_id)`.
pub fn guard_on(app: &Application, guard: &Guard) -> String {
    if let GuardKind::Check(assertion) = guard.kind {
        let assertion = app.assertions.get(assertion as usize);
        return format!("assertion {}", assertion.map_or("", |assertion| &assertion.name));
    }
    let table = app.catalog.table(guard.table);
    format!("{} {}", table.name, column_list(table, &guard.columns))
}

fn tables(app: &Application, analysis: &Analysis) -> impl Iterator<Item = Value> {
    let table = move |table: &weir_sql::catalog::Table| {
        let (columns, replicated) = match analysis.plan.placement(table.id) {
            Placement::Partitioned { columns } => (names(app, table.id, columns), false),
            Placement::Replicated => (Vec::new(), true),
        };
        json!({"name": table.name, "partition_columns": columns, "replicated": replicated})
    };
    app.catalog.tables.iter().map(table)
}

fn invariants(app: &Application, analysis: &Analysis) -> impl Iterator<Item = Value> {
    let shapes: Vec<Shape<'_>> = app.assertions.iter().map(|assertion| Shape::of(&assertion.expr)).collect();
    let invariant = move |invariant: &crate::Invariant| {
        let speaks_of = tables_of(app, &shapes, invariant);
        let columns = invariant.table.map(|table| names(app, table, &invariant.columns)).unwrap_or_default();
        json!({
            "id": invariant.name,
            "kind": invariant.kind.name(),
            "table": invariant.table.map(|table| app.catalog.table(table).name.clone()),
            "columns": columns,
            "tables": speaks_of.iter().map(|table| &app.catalog.table(*table).name).collect::<Vec<_>>(),
            "text": invariant.text,
            "source": source(app, invariant.span),
        })
    };
    analysis.invariants.iter().map(invariant)
}

fn transactions(app: &Application, analysis: &Analysis) -> impl Iterator<Item = Value> {
    let transaction = move |plan: &crate::TransactionPlan| {
        let procedure = &app.procedures[plan.procedure];
        let parameter = |index: &usize| procedure.parameters[*index].name.clone();
        let keeps = |guard: &Guard| -> Vec<&str> {
            guard.keeps.iter().map(|id| analysis.invariants[id.0 as usize].name.as_str()).collect()
        };
        let guards: Vec<Value> = plan
            .guards
            .iter()
            .map(|guard| {
                json!({
                    "kind": guard.kind.name(),
                    "on": guard_on(app, guard),
                    "shared": guard.shared,
                    "keeps": keeps(guard),
                    "why": guard.why,
                    "source": source(app, guard.statement),
                })
            })
            .collect();
        json!({
            "name": procedure.name,
            "parameters": procedure.parameters.iter().map(|p| p.name.clone()).collect::<Vec<_>>(),
            "synthesised": procedure.synthesised,
            "read_only": plan.read_only,
            "confluent": plan.confluent,
            "class": plan.class.name(),
            "partitioning_parameters": plan.partitioning_parameters.iter().map(parameter).collect::<Vec<_>>(),
            "global_because": global_because(app, analysis, plan.procedure),
            "weight": analysis.partitioning.weights[plan.procedure],
            "accesses": accesses(app, analysis, plan.procedure),
            "requirement": plan.requirement.name(),
            "mechanism": plan.mechanism.name(),
            "guards": guards,
            "round_trips": plan.round_trips,
            "single_partition": plan.single_partition,
            "promoted_by": plan.promoted_by.map(|by| app.procedures[by].name.clone()),
            "why": plan.why,
            "runs": analysis.runs.get(plan.procedure).map(runs),
            "anomalies": anomalies(app, analysis, plan.procedure),
            "prevented": prevented(analysis, plan.procedure),
            "source": source(app, procedure.span),
        })
    };
    analysis.plan.transactions.iter().map(transaction)
}

fn runs(runs: &Runs) -> Value {
    let refused = runs.refused.as_ref();
    json!({
        "on_one_shard": runs.on_one_shard,
        "on_several": runs.on_several,
        "single_shard_calls": runs.single_shard_calls,
        "interactive": runs.interactive,
        "refused": refused.map(|refused| &refused.reason),
        "state": refused.map(|refused| &refused.state),
        "instead": refused.and_then(|refused| refused.instead.as_ref()),
        "by_rows": runs.is_refused_by_rows(),
        "when_met": runs.when_met.iter().map(|refused| &refused.reason).collect::<Vec<_>>(),
    })
}

/// Its read and write sets, statement by statement; what constraints look at is left away.
fn accesses(app: &Application, analysis: &Analysis, procedure: usize) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let entries = analysis.partitioning.sets.entries[procedure].iter();
    let own = entries.filter(|entry| entry.cause == Cause::Statement);
    own.filter(|entry| seen.insert((entry.span, entry.table, entry.kind, &entry.touched)))
        .map(|entry| {
            let columns: Vec<ColumnIndex> = entry.touched.iter().flatten().copied().collect();
            json!({
                "table": app.catalog.table(entry.table).name,
                "access": entry.kind.name(),
                "columns": names(app, entry.table, &columns),
                "source": source(app, entry.span),
            })
        })
        .collect()
}

/// Anomalies that its mechanism allows.
fn anomalies(app: &Application, analysis: &Analysis, procedure: usize) -> Vec<Value> {
    let name = |procedure: usize| app.procedures[procedure].name.clone();
    let of_it = analysis.anomalies.iter().filter(|anomaly| anomaly.transaction == procedure);
    of_it
        .map(|anomaly| {
            json!({
                "kind": anomaly.kind.name(),
                "id": registry::id_of(anomaly.kind.finding()),
                "with": name(anomaly.with),
                "others": anomaly.others.iter().map(|&other| name(other)).collect::<Vec<_>>(),
                "between": if anomaly.between_copies { "copies" } else { "shards" },
                "message": anomaly.message,
                "example": {
                    "initial": anomaly.example.initial,
                    "left": anomaly.example.left,
                    "right": anomaly.example.right,
                    "outcome": anomaly.example.outcome,
                },
                "execution": anomaly.executed.to_json(),
                "not_shown": anomaly.executed.why_not(),
                "remedy": anomaly.remedies.first(),
                "remedies": anomaly.remedies,
                "source": source(app, anomaly.span),
            })
        })
        .collect()
}

fn prevented(analysis: &Analysis, procedure: usize) -> Vec<Value> {
    let of_it = analysis.prevented.iter().filter(|prevented| prevented.transaction == procedure);
    of_it.map(|prevented| json!({"kind": prevented.kind.name(), "by": prevented.by})).collect()
}

/// The conflict that makes a transaction global, or is between servers where its parameters disagree.
fn global_because(app: &Application, analysis: &Analysis, procedure: usize) -> Value {
    let partitioning = &analysis.partitioning;
    let Some(because) = partitioning.transactions[procedure].because else { return Value::Null };
    let conflict = &partitioning.conflicts[because.conflict];
    let with = if because.left { conflict.right } else { conflict.left };
    json!({
        "transaction": app.procedures[with].name,
        "text": reason(app, partitioning, because),
        "rows": reason_rows(app, &analysis.effects, partitioning, because),
        "clause": clause(app, analysis, conflict, &conflict.clauses[because.clause]),
    })
}

fn clause(app: &Application, analysis: &Analysis, conflict: &Conflict, clause: &Clause) -> Value {
    let partitioning = &analysis.partitioning;
    let side = |procedure: usize, entry: usize| {
        let entry = &partitioning.sets.entries[procedure][entry];
        let table = app.catalog.table(entry.table);
        json!({
            "transaction": app.procedures[procedure].name,
            "access": entry.kind.name(),
            "for": entry.cause.name(),
            "rows": where_clause(app, &analysis.effects[procedure], table, entry, procedure),
            "source": source(app, entry.span),
        })
    };
    let key = |procedure: usize, key: Key| match key {
        Key::Own => Value::Null,
        Key::Parameter(index) => json!(app.procedures[procedure].parameters[index].name),
    };
    let keys = |procedure: usize| partitioning.transactions[procedure].home_keys();
    let table = partitioning.sets.entries[conflict.left][clause.left].table;
    let columns: Vec<ColumnIndex> = clause.touched.iter().flatten().copied().collect();
    let equal = clause.keys.iter().map(|(a, b)| json!([key(conflict.left, *a), key(conflict.right, *b)]));
    json!({
        "table": app.catalog.table(table).name,
        "columns": names(app, table, &columns),
        "left": side(conflict.left, clause.left),
        "right": side(conflict.right, clause.right),
        "equal": equal.collect::<Vec<_>>(),
        "local": clause.is_local(keys(conflict.left), keys(conflict.right)),
    })
}

fn partitioning(app: &Application, analysis: &Analysis) -> Value {
    /// The others of a conflict are counted; those between servers come first.
    const CLAUSES_MAX: usize = 3;
    /// Beyond that many conflicts those between servers come first, and the others are counted too.
    const CONFLICTS_MAX: usize = 2_000;
    let partitioning = &analysis.partitioning;
    let keys = |procedure: usize| partitioning.transactions[procedure].home_keys();
    let mut listed: Vec<&Conflict> = partitioning.conflicts.iter().collect();
    if listed.len() > CONFLICTS_MAX {
        listed.sort_by_cached_key(|conflict| partitioning.is_local(conflict));
        listed.truncate(CONFLICTS_MAX);
    }
    let conflicts = listed.into_iter().map(|conflict| {
        let mut clauses: Vec<&Clause> = conflict.clauses.iter().collect();
        clauses.sort_by_key(|clause| clause.is_local(keys(conflict.left), keys(conflict.right)));
        let shown = clauses.iter().take(CLAUSES_MAX).map(|each| clause(app, analysis, conflict, each));
        json!({
            "left": app.procedures[conflict.left].name,
            "right": app.procedures[conflict.right].name,
            "local": partitioning.is_local(conflict),
            "clauses": shown.collect::<Vec<_>>(),
            "clauses_in_all": conflict.clauses.len(),
        })
    });
    json!({
        "cost": partitioning.cost,
        "bound": partitioning.bound,
        "gap": partitioning.gap(),
        "search": partitioning.method.name(),
        "conflicts": conflicts.collect::<Vec<_>>(),
        "conflicts_in_all": partitioning.conflicts.len(),
    })
}

fn verdicts<'a>(app: &'a Application, analysis: &'a Analysis) -> Box<dyn Iterator<Item = Value> + 'a> {
    let verdict = move |verdict: &crate::Verdict| {
        json!({
            "invariant": analysis.invariants[verdict.invariant.0 as usize].name,
            "transaction": app.procedures[verdict.transaction].name,
            "operation": verdict.operation,
            "with": verdict.with.map(|with| app.procedures[with].name.clone()),
            "confluent": verdict.confluent,
            "alone": verdict.alone.name(),
            "assumes": verdict.assumes,
            "because": verdict.argument(),
            "decided_by": verdict.decided_by.name(),
            "id": registry::of_verdict(verdict).id,
            "rule": verdict.rule().map(Rule::name),
            "witness": verdict.witness.as_ref().map(|witness| witness.to_json()),
            "alone_witness": verdict.alone_witness.as_ref().map(|witness| witness.to_json()),
        })
    };
    if is_large(analysis) {
        return Box::new(analysis.verdicts.iter().map(verdict));
    }
    let pairs = (0..analysis.effects.len()).flat_map(|transaction| {
        (0..analysis.invariants.len()).map(move |invariant| (transaction, invariant))
    });
    Box::new(
        pairs.map(move |(transaction, at)| {
            verdict(&analysis.verdict(transaction, crate::InvariantId(at as u32)))
        }),
    )
}

/// For applications with more pairs the JSON contains only pairs that touch each other, and the number of the others.
fn is_large(analysis: &Analysis) -> bool {
    const PAIRS_MAX: usize = 100_000;
    analysis.pairs() > PAIRS_MAX
}

fn suggestions(app: &Application, analysis: &Analysis) -> Vec<Value> {
    let cost = |cost: &Cost| json!({"mechanism": cost.mechanism.name(), "round_trips": cost.round_trips, "guards": cost.guards});
    let one = |suggestion: &Suggestion| {
        let names = suggestion.also.iter().map(|&other| app.procedures[other].name.as_str());
        json!({
            "transaction": app.procedures[suggestion.transaction].name,
            "invariant": suggestion.invariant,
            "text": suggestion.text,
            "edit": suggestion.edit,
            "before": cost(&suggestion.before),
            "after": cost(&suggestion.after),
            "gain": suggestion.before.change_to(&suggestion.after),
            "also": names.collect::<Vec<_>>(),
            "verified": if analysis.suggestions.in_part { "in part" } else { "whole" },
        })
    };
    analysis.suggestions.list.iter().map(one).collect()
}

fn diagnostics(app: &Application, analysis: &Analysis) -> impl Iterator<Item = Value> {
    let finding = move |finding: &crate::Finding| {
        json!({
            "id": registry::id_of(finding.id),
            "name": finding.id,
            "severity": finding.severity.name(),
            "message": finding.message,
            "source": source(app, finding.span),
        })
    };
    analysis.diagnostics.iter().map(finding)
}
