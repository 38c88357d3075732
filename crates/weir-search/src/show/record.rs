//! From a run to its record: states as text, with the columns that matter.

use std::collections::{BTreeMap, BTreeSet};

use weir_analysis::execution::{Execution, Outcome, Shows};
use weir_analysis::witness::{Side, TableRows, WitnessCall};
use weir_sql::bound::{ParameterMode, ProcedureKind};
use weir_sql::catalog::TableId;
use weir_txn::message::Output;
use weir_types::{SqlType, Value};

use crate::lab::Lab;
use crate::last_update::{named, unnamed};
use crate::replica::{InOrder, Invocation, NamedRows};
use crate::state::{State, cell};

/// Data of an execution to report.
pub struct Told<'t> {
    pub initial: &'t State,
    pub left: &'t Invocation,
    pub right: &'t Invocation,
    pub later: Side,
    pub alone: [&'t NamedRows; 2],
    pub orders: &'t [InOrder; 2],
    /// Description of the concurrent execution, and its result, if any.
    pub together: (String, Option<State>),
    pub shows: Shows,
    /// Tables to show.
    pub tables: BTreeSet<TableId>,
    /// Columns to show besides keys and changes.
    pub columns: BTreeSet<String>,
}

pub fn execution(lab: &Lab<'_>, told: Told<'_>) -> Execution {
    let (left, right) = (call(lab, told.left), call(lab, told.right));
    let state = |rows: &NamedRows| part(lab, &unnamed(rows), &told.tables);
    let alone = told.alone.iter().zip([&left, &right]).map(|(rows, call)| Outcome {
        run: call.text(),
        state: state(rows),
        ..Outcome::default()
    });
    let in_order = |order: &InOrder, sides: [&str; 2]| {
        let fails = |(answer, side): (&Result<Output, String>, &str)| {
            Some(format!("{side} fails: {}", answer.as_ref().err()?))
        };
        let errors: Vec<String> = order.answers.iter().zip(sides).filter_map(fails).collect();
        Outcome {
            run: format!("{}, then {}", sides[0], sides[1]),
            state: state(&order.rows),
            answer: None,
            error: (!errors.is_empty()).then(|| errors.join("; ")),
        }
    };
    let [one, other] = told.orders;
    let (run, merged) = told.together;
    let stops = match &told.shows {
        Shows::Stops { key } => {
            Some(format!("neither node can apply the other's row under {key}: the replication stops"))
        }
        _ => None,
    };
    let mut serial = vec![in_order(one, ["left", "right"]), in_order(other, ["right", "left"])];
    // For two equal calls both orders are the same.
    serial.truncate(if told.left == told.right { 1 } else { 2 });
    let mut shown = changed(lab, &told.tables, told.initial, &told.alone, told.orders);
    shown.extend(told.columns);
    Execution {
        initial: told.initial.text(&lab.program.schema),
        alone: alone.collect(),
        serial,
        together: vec![Outcome {
            run,
            state: merged.map(|state| part(lab, &state, &told.tables)).unwrap_or_default(),
            answer: None,
            error: stops,
        }],
        left,
        right,
        reader: None,
        later: told.later,
        shows: told.shows,
        shown: shown.into_iter().collect(),
    }
}

/// The state's rows in these tables.
pub fn part(lab: &Lab<'_>, state: &State, tables: &BTreeSet<TableId>) -> Vec<TableRows> {
    let mut part = State::empty();
    for table in state.filled().filter(|table| tables.contains(table)) {
        *part.table_mut(table) = state.table(table).to_vec();
    }
    part.text(&lab.program.schema)
}

/// Keys, and whatever is not the same throughout.
fn changed(
    lab: &Lab<'_>,
    tables: &BTreeSet<TableId>,
    initial: &State,
    alone: &[&NamedRows; 2],
    orders: &[InOrder; 2],
) -> BTreeSet<String> {
    let before = named(initial);
    let mut names = keys(lab, tables);
    let all: Vec<&NamedRows> = alone.iter().copied().chain(orders.iter().map(|order| &order.rows)).collect();
    for rows in all {
        for ((table, name), row) in rows.iter().filter(|((table, _), _)| tables.contains(table)) {
            let definition = lab.application.catalog.table(*table);
            for (at, column) in definition.columns.iter().enumerate() {
                let was = before.get(&(*table, *name)).map(|row| &row[at]);
                // Of a new row, all columns that are not omitted.
                let differs = match was {
                    Some(was) => *was != row[at],
                    None => !row[at].is_null() && is_told(definition, at),
                };
                if differs {
                    names.insert(column.name.clone());
                }
            }
        }
    }
    names
}

/// New rows are shown by their first columns, and by unique ones.
fn is_told(table: &weir_sql::catalog::Table, column: usize) -> bool {
    const COLUMNS_MAX: usize = 4;
    column < COLUMNS_MAX || table.unique_keys.iter().any(|key| key.columns.contains(&column))
}

/// Names of the columns of primary keys.
pub fn keys(lab: &Lab<'_>, tables: &BTreeSet<TableId>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for &table in tables {
        let table = lab.application.catalog.table(table);
        let keys = table.primary_key.iter().flat_map(|key| key.columns.iter());
        names.extend(keys.map(|&column| table.columns[column].name.clone()));
    }
    names
}

pub fn call(lab: &Lab<'_>, invocation: &Invocation) -> WitnessCall {
    let procedure = &lab.application.procedures[invocation.procedure];
    let inputs = procedure.parameters.iter().filter(|parameter| parameter.mode != ParameterMode::Out);
    let arguments = inputs
        .zip(&invocation.arguments)
        .map(|(parameter, value)| (parameter.name.clone(), cell(value, &parameter.ty)));
    WitnessCall { procedure: procedure.name.clone(), arguments: arguments.collect() }
}

/// Answer to a caller, in words.
pub fn answer(lab: &Lab<'_>, procedure: usize, output: &Output) -> String {
    const ROWS_MAX: usize = 4;
    let procedure = &lab.application.procedures[procedure];
    let text = |value: &Value, ty: &SqlType| weir_analysis::witness::literal(&cell(value, ty));
    match &procedure.kind {
        ProcedureKind::SetReturningFunction { columns } => {
            let row = |row: &Vec<Value>| {
                let cells =
                    row.iter().zip(columns).map(|(value, (name, ty))| format!("{name} {}", text(value, ty)));
                format!("({})", cells.collect::<Vec<_>>().join(", "))
            };
            let mut rows: Vec<String> = output.rows.iter().take(ROWS_MAX).map(row).collect();
            if output.rows.len() > ROWS_MAX {
                rows.push(format!("and {} more", output.rows.len() - ROWS_MAX));
            }
            if rows.is_empty() { "no rows".to_owned() } else { rows.join(", ") }
        }
        kind => {
            let outputs = procedure.parameters.iter().filter(|parameter| parameter.mode != ParameterMode::In);
            let outputs: Vec<(&str, &SqlType)> =
                outputs.map(|parameter| (parameter.name.as_str(), &parameter.ty)).collect();
            let values = match (outputs.is_empty(), kind) {
                (true, ProcedureKind::Function { returns }) => {
                    output.values.iter().map(|value| text(value, returns)).collect::<Vec<_>>()
                }
                _ => {
                    let pairs = output.values.iter().zip(&outputs);
                    pairs.map(|(value, (name, ty))| format!("{name} {}", text(value, ty))).collect()
                }
            };
            values.join(", ")
        }
    }
}

/// By finding, what was found for it.
pub type Found<T> = BTreeMap<usize, T>;
