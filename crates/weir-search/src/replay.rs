//! From a witness's text back to the run that shows it (`weir run --replay`).
//!
//! Uses the code of the search: the real executor, the real fold, the checks of the invariants.

use serde_json::Value as Json;
use weir_analysis::witness::Side;
use weir_analysis::{InvariantId, Witness};
use weir_sql::bound::ParameterMode;
use weir_sql::catalog::TableId;
use weir_types::text::parse_text;
use weir_types::{SqlType, Value};

use crate::explore::Found;
use crate::lab::{Lab, Validity};
use crate::merge::merge;
use crate::replica::{Invocation, Replica, Who};
use crate::state::{Row, State, View};

/// Result of a replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The states of this replay.
    pub witness: Witness,
    /// The merged state violates the invariant.
    pub violated: bool,
}

/// Error in a witness document: position, and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError {
    /// In the form `left[0].arguments.amount`.
    pub place: String,
    pub message: String,
    pub remedy: String,
}

fn wrong(place: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> ReplayError {
    ReplayError { place: place.into(), message: message.into(), remedy: remedy.into() }
}

/// Runs the witness of a JSON document (`witness` of `weir analyze --format json`).
pub fn replay(lab: &Lab<'_>, document: &Json) -> Result<Replayed, ReplayError> {
    let invariant = invariant(lab, document)?;
    let initial = state(lab, field(document, "initial")?)?;
    let left = calls(lab, document, "left")?;
    let right = calls(lab, document, "right")?;
    let later = match document.get("later").and_then(Json::as_str) {
        None | Some("right") => Side::Right,
        Some("left") => Side::Left,
        Some(other) => {
            return Err(wrong("later", format!("there is no branch `{other}`"), "write left or right"));
        }
    };
    let validity = Validity::Only(invariant);
    if let Some(&broken) = lab.violated(validity, &initial).first() {
        return Err(wrong(
            "initial",
            format!("the state violates {} before anything runs", name(lab, broken)),
            "a witness begins with a valid state",
        ));
    }
    let mut replica = Replica::new(lab, &initial)
        .map_err(|error| wrong("initial", error.message(), "a key has one row"))?;
    let mut branch = |calls: &[Invocation], who: Who, side: &str| {
        replica.branch(calls, who, validity, &mut |_| {}).ok_or_else(|| {
            wrong(
                side,
                "a call of this branch fails, or leaves a state that is not valid",
                "both branches of a witness are valid by themselves",
            )
        })
    };
    let left = branch(&left, Who::Left, "left")?;
    let right = branch(&right, Who::Right, "right")?;
    let merged = merge(lab, &initial, &left, &right, later).ok_or_else(|| {
        wrong("right", "both branches DO UPDATE one row, which is not merged here", "choose other arguments")
    })?;
    let violation = lab.violation(invariant, &View { schema: &lab.program.schema, state: &merged });
    let violated = violation.is_some();
    let found = Found {
        invariant,
        initial,
        left: left.calls,
        right: right.calls,
        later,
        validity,
        merged,
        violation: violation.unwrap_or_default(),
        clean: true,
    };
    Ok(Replayed { witness: crate::witness(lab, &found), violated })
}

fn name<'l>(lab: &Lab<'l>, invariant: InvariantId) -> &'l str {
    &lab.analysis.invariants[invariant.0 as usize].name
}

fn field<'j>(document: &'j Json, name: &str) -> Result<&'j Json, ReplayError> {
    document.get(name).ok_or_else(|| {
        wrong(name, "it is missing", "give the `witness` object of a verdict of weir analyze --format json")
    })
}

fn invariant(lab: &Lab<'_>, document: &Json) -> Result<InvariantId, ReplayError> {
    let place = "violates.invariant";
    let named = field(document, "violates")?.get("invariant").and_then(Json::as_str);
    let named = named.ok_or_else(|| wrong(place, "it is missing", "name the invariant"))?;
    let mut invariants = lab.analysis.invariants.iter();
    let at = invariants.position(|invariant| invariant.name == named).ok_or_else(|| {
        wrong(
            place,
            format!("there is no invariant `{named}`"),
            "replay it with the application that it is from",
        )
    })?;
    let id = InvariantId(at as u32);
    match lab.can_check(id) {
        true => Ok(id),
        false => Err(wrong(place, format!("the engine does not check `{named}`"), "choose another witness")),
    }
}

fn value(place: &str, value: &Json, ty: &SqlType) -> Result<Value, ReplayError> {
    let text = match value {
        Json::Null => return Ok(Value::Null),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    parse_text(&text, ty)
        .map_err(|error| wrong(place, error.message(), format!("write a value of type {ty}")))
}

fn state(lab: &Lab<'_>, document: &Json) -> Result<State, ReplayError> {
    let shape =
        || wrong("initial", "it is not an object of tables", "write {\"table\": [{\"column\": value}]}");
    let mut state = State::empty();
    for (name, rows) in document.as_object().ok_or_else(shape)? {
        let place = format!("initial.{name}");
        let table = lab.application.catalog.table_by_name(name).ok_or_else(|| {
            wrong(&place, "there is no such table", "replay it with the application that it is from")
        })?;
        for (at, row) in rows.as_array().ok_or_else(shape)?.iter().enumerate() {
            let place = format!("{place}[{at}]");
            let cells = row.as_object().ok_or_else(shape)?;
            if let Some(unknown) = cells.keys().find(|name| table.column_by_name(name).is_none()) {
                let message = format!("{} has no column `{unknown}`", table.name);
                return Err(wrong(place, message, "leave it away"));
            }
            let columns = table.columns.iter().map(|column| {
                let place = format!("{place}.{}", column.name);
                value(&place, cells.get(&column.name).unwrap_or(&Json::Null), &column.ty)
            });
            let row = columns.collect::<Result<Vec<Value>, ReplayError>>().map(Row::from)?;
            state.table_mut(TableId(table.id.0)).push(row);
        }
    }
    Ok(state)
}

fn calls(lab: &Lab<'_>, document: &Json, side: &str) -> Result<Vec<Invocation>, ReplayError> {
    let list = field(document, side)?.as_array().filter(|list| !list.is_empty());
    let list =
        list.ok_or_else(|| wrong(side, "it has no calls", "write [{\"call\": …, \"arguments\": {…}}]"))?;
    list.iter().enumerate().map(|(at, call)| invocation(lab, call, &format!("{side}[{at}]"))).collect()
}

fn invocation(lab: &Lab<'_>, call: &Json, place: &str) -> Result<Invocation, ReplayError> {
    let named = call.get("call").and_then(Json::as_str).unwrap_or_default();
    let mut procedures = lab.application.procedures.iter();
    let procedure = procedures.position(|procedure| procedure.name == named).ok_or_else(|| {
        wrong(
            format!("{place}.call"),
            format!("there is no procedure `{named}`"),
            "name one of the application",
        )
    })?;
    if let Some(why) = lab.refusal(procedure) {
        let message = format!("the engine does not run {named}: {why}");
        return Err(wrong(format!("{place}.call"), message, "choose another witness"));
    }
    let inputs = lab.application.procedures[procedure].parameters.iter();
    let arguments = inputs.filter(|parameter| parameter.mode != ParameterMode::Out).map(|parameter| {
        let place = format!("{place}.arguments.{}", parameter.name);
        let given = call.get("arguments").and_then(|arguments| arguments.get(&parameter.name));
        let given = given
            .ok_or_else(|| wrong(&place, "it is missing", format!("a value of type {}", parameter.ty)))?;
        value(&place, given, &parameter.ty)
    });
    Ok(Invocation { procedure, arguments: arguments.collect::<Result<Vec<Value>, ReplayError>>()? })
}
