//! `weir run --replay`: runs a counterexample again, with the executor and the merge that found it.
//!
//! Exit code 1 where the merge breaks the invariant as the witness says, 0 where it does not any more, 2 where the
//! document is no witness of this application.

use std::path::Path;

use serde_json::{Value, json};
use weir_analysis::Witness;
use weir_analysis::witness::WitnessCall;
use weir_search::{Lab, ReplayError};

use crate::application::Loaded;
use crate::cli::Format;
use crate::input;
use crate::output::{self, ERROR, Failure, GOOD, STRONG, styled};

pub fn execute(application: &Path, reference: &str, format: Format) -> Result<(), Failure> {
    let (file, wanted) = split(reference);
    let text = input::read_text(Path::new(file))?;
    let document: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::input(format!(
            "{file}:{}:{}: error: this is not JSON: {error}\n\
             hint: write it with weir analyze --format json --out {file}",
            error.line(),
            error.column()
        ))
    })?;
    let witness = chosen(file, &document, wanted)?;
    let mut loaded = Loaded::from_paths(&[application.to_owned()], weir_sql::Reading::Tolerant)?;
    if !loaded.application.synthesised && !names_only_procedures(&loaded, witness) {
        weir_sql::synthesise(&mut loaded.application);
        loaded = Loaded::of(loaded.application, &weir_analysis::Weights::default());
    }
    let lab = Lab::new(&loaded.application, &loaded.analysis).map_err(|refused| {
        Failure::input(format!(
            "{}: error: the engine cannot run this application: {}\n\
             hint: replay a witness that weir analyze has found for it",
            application.display(),
            refused.0
        ))
    })?;
    let replayed = weir_search::replay(&lab, witness).map_err(|wrong| refusal(file, &wrong))?;
    match format {
        Format::Json => output::print_json(
            &json!({"version": 1, "violated": replayed.violated, "witness": replayed.witness.to_json()}),
        ),
        Format::Text => output::print(&told(&replayed.witness, replayed.violated)),
    }
    if replayed.violated { Err(Failure::Check(None)) } else { Ok(()) }
}

/// The file, and what stands behind the `#` (unless a file has one in its name).
fn split(reference: &str) -> (&str, Option<&str>) {
    match reference.rsplit_once('#') {
        Some((file, wanted)) if !Path::new(reference).exists() => (file, Some(wanted)),
        _ => (reference, None),
    }
}

fn refusal(file: &str, wrong: &ReplayError) -> Failure {
    Failure::input(format!("{file}: error: {}: {}\nhint: {}", wrong.place, wrong.message, wrong.remedy))
}

/// The witness itself, or the one of a whole analysis that is named.
fn chosen<'d>(file: &str, document: &'d Value, wanted: Option<&str>) -> Result<&'d Value, Failure> {
    let Some(verdicts) = document.get("verdicts").and_then(Value::as_array) else {
        return Ok(document);
    };
    let name = |verdict: &Value| {
        let part = |field: &str| verdict[field].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", part("invariant"), part("transaction"))
    };
    let all: Vec<&Value> = verdicts.iter().filter(|verdict| verdict["witness"].is_object()).collect();
    let listed = || {
        let names: Vec<String> = all.iter().map(|verdict| name(verdict)).collect();
        match names.is_empty() {
            true => "this analysis has none: every verdict is confluent or assumed".to_owned(),
            false => format!("write {file}#NAME, where NAME is one of: {}", names.join(", ")),
        }
    };
    let found = match wanted {
        Some(wanted) => all.iter().find(|verdict| name(verdict) == wanted),
        None => all.first().filter(|_| all.len() == 1),
    };
    found.map(|verdict| &verdict["witness"]).ok_or_else(|| {
        let what = match wanted {
            Some(wanted) => format!("there is no witness `{wanted}`"),
            None => format!("there are {} witnesses, and none is named", all.len()),
        };
        Failure::input(format!("{file}: error: {what}\nhint: {}", listed()))
    })
}

/// False where it calls a transaction that only `--every-table` makes.
fn names_only_procedures(loaded: &Loaded, witness: &Value) -> bool {
    let known =
        |call: &Value| loaded.application.procedures.iter().any(|procedure| call["call"] == *procedure.name);
    ["left", "right"].iter().filter_map(|side| witness[side].as_array()).flatten().all(known)
}

fn told(witness: &Witness, violated: bool) -> String {
    let calls = |calls: &[WitnessCall]| calls.iter().map(|call| format!("CALL {}", call.text())).collect();
    let mut text = String::new();
    let mut part = |title: &str, lines: Vec<String>| {
        text.push_str(&format!("{}\n", styled(STRONG, title)));
        for line in lines {
            text.push_str(&format!("  {line}\n"));
        }
    };
    let mut initial = witness.lines(&witness.initial);
    if initial.is_empty() {
        initial.push("no rows".to_owned());
    }
    part("Initial state: valid", initial);
    part("Left branch: valid", calls(&witness.left));
    part("Right branch: valid", calls(&witness.right));
    part(&format!("Merged, {} later", witness.later.name()), witness.lines(&witness.merged));
    let verdict = match violated {
        true => format!("{} {}: {}", styled(ERROR, "Violated:"), witness.invariant, witness.violation()),
        false => format!("{} {} holds in the merge", styled(GOOD, "Not reproduced:"), witness.invariant),
    };
    text.push_str(&format!("{verdict}\n"));
    text
}
