//! Applications that the protocol cannot carry: each reason with place and remedy.

use std::collections::{BTreeMap, BTreeSet};

use weir_analysis::invariant::columns_of_all;
use weir_analysis::partitioning::sets::{Entry, Kind as Access};
use weir_conveyor::matching::Class;
use weir_sql::catalog::{ColumnIndex, Table, TableId};
use weir_sql::{Diagnostic, Span};
use weir_types::SqlState;

use crate::plan::{Analysed, inputs};
use crate::value::Kind;

fn refused(span: Span, what: impl Into<String>, hint: &str) -> Diagnostic {
    Diagnostic::new(SqlState::FEATURE_NOT_SUPPORTED, span, what).with_hint(hint)
}

/// One text of a statement, whose parameters have other types in another transaction.
pub fn two_readings(span: Span) -> Diagnostic {
    let what = "another transaction has this statement with parameters of other types";
    refused(span, what, "cast the parameters in one of them, so that the texts differ")
}

/// All reasons.
pub fn all(analysed: &Analysed<'_>) -> Vec<Diagnostic> {
    let procedures = &analysed.application.procedures;
    if procedures.is_empty() || analysed.application.synthesised {
        let what = "there are no transactions, so nothing says what an operation reads and writes";
        let hint =
            "add CREATE PROCEDURE statements in procedures.sql, or a file transactions.sql (docs/analyze.md)";
        return vec![refused(Span::default(), what, hint)];
    }
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    for (index, procedure) in procedures.iter().enumerate() {
        if !names.insert(&procedure.name) {
            let what = format!("{} is the name of two transactions", procedure.name);
            problems.push(refused(
                procedure.span,
                what,
                "give each a name of its own: a call names its transaction",
            ));
        }
        problems.extend(of_transaction(analysed, index));
    }
    let writes = local_writes(analysed);
    for table in analysed.captured() {
        problems.extend(of_table(analysed, analysed.application.catalog.table(table), &writes));
    }
    problems.extend(of_sequences(analysed));
    problems.extend(of_identities(analysed));
    problems
}

fn of_transaction(analysed: &Analysed<'_>, index: usize) -> Vec<Diagnostic> {
    let (procedure, effects) = (&analysed.application.procedures[index], &analysed.effects[index]);
    let mut problems = Vec::new();
    for (name, span) in &effects.unseen {
        let what = format!("{} writes {name}, which the schema does not have", procedure.name);
        problems.push(refused(
            *span,
            what,
            "add its CREATE TABLE to the schema: its changes have to be captured",
        ));
    }
    if !effects.resets.is_empty() {
        let what =
            format!("{} sets a sequence: its ids would no longer route back to their server", procedure.name);
        problems.push(refused(procedure.span, what, "take setval and RESTART out of the transaction"));
    }
    let draws_uuids = effects.generated.values().any(Option::is_none);
    if draws_uuids && analysed.class(index) != Class::Commutative && analysed.relies_on_generated_ids(index) {
        let what = format!(
            "{} makes a random uuid by which others are routed: it may route to any server",
            procedure.name
        );
        problems.push(refused(
            procedure.span,
            what,
            "take the id from a sequence, or let the client give it as a parameter",
        ));
    }
    let routing = &analysed.partitioning.transactions[index];
    let given = inputs(procedure);
    for parameter in routing.parameters() {
        let declared = &procedure.parameters[parameter];
        if !given.contains(&parameter) || Kind::of(&declared.ty) == Kind::Other {
            let what = format!(
                "{} would be routed by {}, whose values have no one text",
                procedure.name, declared.name
            );
            problems.push(refused(procedure.span, what, "make it an integer, text, uuid, boolean or date"));
        }
    }
    problems
}

/// By table: what commutative and local operations write, with who does. `None` is the existence of a row.
type LocalWrites = BTreeMap<TableId, Vec<(usize, BTreeSet<Option<ColumnIndex>>)>>;

fn local_writes(analysed: &Analysed<'_>) -> LocalWrites {
    let mut writes = LocalWrites::new();
    for (procedure, entry) in analysed.writes(false) {
        writes.entry(entry.table).or_default().push((procedure, entry.touched.clone()));
    }
    writes
}

fn of_table(analysed: &Analysed<'_>, table: &Table, writes: &LocalWrites) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    if table.primary_key.is_none() {
        let what = format!(
            "global operations write {}, which has no primary key: its rows cannot be found at other servers",
            table.name
        );
        problems.push(refused(table.span, what, "add a PRIMARY KEY"));
    }
    for (name, columns, span) in unique_keys(table) {
        let written = writes.get(&table.id).into_iter().flatten();
        let mut written =
            written.filter(|(_, touched)| columns.iter().any(|column| touched.contains(&Some(*column))));
        if let Some((procedure, _)) = written.next() {
            let writer = &analysed.application.procedures[*procedure].name;
            let what = format!(
                "{name} on {} is unique beside the primary key, and {writer} writes its columns without the token: a row of a global operation \
                 can collide with an old copy at another server",
                table.name
            );
            problems.push(refused(
                span,
                what,
                "drop the key, make it the primary key, or write its columns by global operations only",
            ));
        }
    }
    problems
}

/// Keys that keep rows apart, beside the primary key: name, columns, place.
fn unique_keys(table: &Table) -> Vec<(String, Vec<ColumnIndex>, Span)> {
    let keys = table.unique_keys.iter().map(|key| (key.name.clone(), key.columns.clone(), key.span));
    let unique = table.indexes.iter().filter(|index| index.unique);
    let indexes = unique.map(|index| {
        let parts = index.written_keys().iter().map(|key| &key.expr);
        let columns = columns_of_all(parts.chain(index.written_predicate()));
        (index.name.clone(), columns, index.span)
    });
    let exclusions = table.exclusions.iter().map(|exclusion| {
        let parts = exclusion.elements.iter().map(|(expr, _)| expr).chain(&exclusion.predicate);
        (exclusion.name.clone(), columns_of_all(parts), exclusion.span)
    });
    keys.chain(indexes).chain(exclusions).collect()
}

fn of_sequences(analysed: &Analysed<'_>) -> Vec<Diagnostic> {
    let drawn: BTreeSet<_> = analysed.effects.iter().flat_map(|effects| &effects.sequences).collect();
    let drawn = drawn.into_iter().map(|id| analysed.application.catalog.sequence(*id));
    let bad = drawn.filter(|sequence| sequence.cycle || sequence.increment != 1);
    bad.map(|sequence| {
        let what = format!("the sequence {} has CYCLE or an increment other than 1", sequence.name);
        refused(sequence.span, what, "leave both away: each server gets its own start and increment")
    })
    .collect()
}

/// A change of a column GENERATED ALWAYS AS IDENTITY cannot be applied elsewhere.
fn of_identities(analysed: &Analysed<'_>) -> Vec<Diagnostic> {
    let updates = analysed.writes(true).filter(|(_, entry)| entry.kind == Access::Update);
    let of_update = |(procedure, entry): (usize, &Entry)| {
        let table = analysed.application.catalog.table(entry.table);
        let columns = entry.touched.iter().flatten().map(|column| &table.columns[*column]);
        let column = columns.into_iter().find(|column| column.is_identity && column.generated_always)?;
        let name = &analysed.application.procedures[procedure].name;
        let what =
            format!("{name} updates {}.{}, which is GENERATED ALWAYS AS IDENTITY", table.name, column.name);
        Some(refused(entry.span, what, "make it GENERATED BY DEFAULT"))
    };
    updates.filter_map(of_update).collect()
}
