//! Fractured reads and long forks: answers in states that no serial order of the writers has.
//!
//! A reader whose parts read at different moments sees some of the writers' rows as they were and others as they
//! are: a state of its own, made here row by row and read with the real executor.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use weir_analysis::execution::{Execution, Outcome, Shows};
use weir_analysis::witness::Side;
use weir_analysis::{Anomaly, AnomalyKind, Executed};
use weir_sql::catalog::TableId;
use weir_txn::message::Output;

use super::cases::Case;
use super::pairs::{Pair, Pairs, Setting, refusal};
use super::record::{answer, call, keys, part};
use super::{NOTHING, USED_UP, smaller};
use crate::domain::calls;
use crate::lab::{Lab, Validity};
use crate::last_update::{alone, local, named, unnamed};
use crate::literals;
use crate::merge::merge;
use crate::replica::{Branch, Invocation, NamedRows, Replica, RowName, Who};
use crate::state::State;

/// Calls of the reader that are tried on one pair of writers.
const READER_CALLS_MAX: usize = 6;
/// Halves of a writer's rows that a reader may have seen.
const HALVES_MAX: usize = 12;

pub fn show(pairs: &mut Pairs<'_>, findings: &[usize], executed: &mut [Executed]) {
    let lab = pairs.lab;
    for (done, &at) in findings.iter().enumerate() {
        let anomaly = &lab.analysis.anomalies[at];
        let second = anomaly.others.first().copied().unwrap_or(anomaly.with);
        executed[at] = match refusal(lab, &[anomaly.transaction, anomaly.with, second]) {
            Some(why) => Executed::NotShown(why),
            None if pairs.steps_left == 0 => Executed::NotShown(USED_UP.to_owned()),
            None => {
                let share = (findings.len() - done) as u64;
                let execution = match anomaly.kind {
                    AnomalyKind::FracturedRead => fractured(pairs, anomaly, share),
                    _ => forked(pairs, anomaly, second, share),
                };
                match execution {
                    Some(execution) => Executed::Shown(Box::new(execution)),
                    None => Executed::NotShown(NOTHING.to_owned()),
                }
            }
        };
    }
}

fn setting(anomaly: &Anomaly, left: usize, right: usize, lab: &Lab<'_>, reader: bool) -> Setting {
    let reads = &lab.effects(anomaly.transaction).reads;
    Setting {
        left,
        right,
        tables: reads.iter().map(|read| read.table).collect(),
        constants: literals::of_procedure(&lab.application, anomaly.transaction),
        validity: Validity::Everything,
        counted_alike: false,
        reader,
        meeting: false,
    }
}

/// Answer to one call in one state; none on an error.
fn told(lab: &Lab<'_>, state: &State, reader: &Invocation) -> Option<Output> {
    let mut replica = Replica::new(lab, state).ok()?;
    replica.in_order(&[(Who::Before, reader)]).answers.pop()?.ok()
}

fn same(one: &Output, other: &Output) -> bool {
    one.values == other.values && one.rows == other.rows
}

/// States in which a part of the writer's rows is as it was; the tables that the anomaly is about come first.
fn halves(lab: &Lab<'_>, anomaly: &Anomaly, pair: &Pair<'_>) -> Vec<State> {
    let changes = local(lab, pair.initial, pair.right);
    let names: Vec<(TableId, RowName)> = changes.keys().copied().collect();
    let mut seen: Vec<BTreeSet<(TableId, RowName)>> = Vec::new();
    for (table, _) in &anomaly.items {
        let (here, elsewhere) = names.iter().partition(|(of, _)| of == table);
        seen.extend([here, elsewhere]);
    }
    for name in &names {
        seen.push(BTreeSet::from([*name]));
        seen.push(names.iter().filter(|other| *other != name).copied().collect());
    }
    seen.retain(|part| !part.is_empty() && part.len() < names.len());
    seen.truncate(HALVES_MAX);
    let state = |part: BTreeSet<(TableId, RowName)>| {
        let mut rows: NamedRows = named(pair.initial);
        for name in part {
            match &changes[&name] {
                Some(row) => rows.insert(name, row.clone()),
                None => rows.remove(&name),
            };
        }
        unnamed(&rows)
    };
    seen.into_iter().map(state).collect()
}

/// Before, between and after.
type Moments = [(State, Output); 3];

fn fracture(lab: &Lab<'_>, anomaly: &Anomaly, pair: &Pair<'_>, steps: &mut u64) -> Option<Moments> {
    let reader = &pair.left.calls[0];
    let after = unnamed(&alone(lab, pair.initial, pair.right));
    *steps += 2;
    let (was, is) = (told(lab, pair.initial, reader)?, told(lab, &after, reader)?);
    for between in halves(lab, anomaly, pair) {
        *steps += 1;
        let Some(answer) = told(lab, &between, reader) else { continue };
        if !same(&answer, &was) && !same(&answer, &is) {
            return Some([(pair.initial.clone(), was), (between, answer), (after, is)]);
        }
    }
    None
}

fn fractured(pairs: &mut Pairs<'_>, anomaly: &Anomaly, share: u64) -> Option<Execution> {
    let lab = pairs.lab;
    let setting = setting(anomaly, anomaly.transaction, anomaly.with, lab, true);
    let mut found: Option<Case> = None;
    pairs.each(&setting, share, &mut |_, pair| {
        let mut steps = 0;
        let flow = match fracture(lab, anomaly, pair, &mut steps) {
            Some(_) => {
                found = Some(Case::of(pair, &setting, Side::Right));
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        };
        (steps, flow)
    });
    let case = found?;
    let mut again = |state: &State| case.again(lab, state, |_, pair| fracture(lab, anomaly, pair, &mut 0));
    let first = again(&case.initial)?;
    let (initial, (_, written, moments)) = smaller(case.initial.clone(), first, &mut again);
    let (reader, tables) = (&case.left, written.tables());
    let (reads, writes) = (call(lab, reader), call(lab, &case.right));
    let [before, between, after] = moments
        .map(|(state, output)| (part(lab, &state, &tables), Some(answer(lab, reader.procedure, &output))));
    let outcome =
        |run: String, (state, answer): (Vec<_>, Option<String>)| Outcome { run, state, answer, error: None };
    Some(Execution {
        initial: initial.text(&lab.program.schema),
        serial: vec![
            outcome("left, then right".to_owned(), before),
            outcome("right, then left".to_owned(), after),
        ],
        together: vec![outcome("left sees a part of right's rows".to_owned(), between)],
        left: reads,
        right: writes,
        reader: None,
        later: Side::Right,
        alone: Vec::new(),
        shows: Shows::Answers,
        shown: columns(lab, anomaly, &tables),
    })
}

/// Keys, and the columns that the anomaly is about.
fn columns(lab: &Lab<'_>, anomaly: &Anomaly, tables: &BTreeSet<TableId>) -> Vec<String> {
    let mut names = keys(lab, tables);
    for (table, column) in &anomaly.items {
        let table = lab.application.catalog.table(*table);
        names.extend(column.map(|column| table.columns[column].name.clone()));
    }
    names.into_iter().collect()
}

/// Answers before both writers, after the first, after the second, and after both.
struct Fork {
    reader: Invocation,
    answers: [Output; 4],
    states: [State; 3],
}

fn fork(
    lab: &Lab<'_>,
    anomaly: &Anomaly,
    pair: &Pair<'_>,
    readers: &[Invocation],
    steps: &mut u64,
) -> Option<Fork> {
    // The two are independent: what the reader looks at, each has in rows of its own.
    let rows = |branch: &Branch| -> BTreeSet<(TableId, RowName)> {
        let operations = branch.operations.iter().flatten().map(|each| (each.table, each.row));
        operations.filter(|(table, _)| anomaly.items.iter().any(|(of, _)| of == table)).collect()
    };
    if !rows(pair.left).is_disjoint(&rows(pair.right)) {
        return None;
    }
    let one = unnamed(&alone(lab, pair.initial, pair.left));
    let other = unnamed(&alone(lab, pair.initial, pair.right));
    let both = merge(lab, pair.initial, pair.left, pair.right, Side::Right)?;
    *steps += 3;
    for reader in readers {
        *steps += 4;
        let all = [pair.initial, &one, &other, &both].map(|state| told(lab, state, reader));
        let [Some(before), Some(first), Some(second), Some(after)] = all else { continue };
        // Each has seen one change and not the other, and can tell.
        let tells =
            |own: &Output, theirs: &Output| [&before, theirs, &after].iter().all(|answer| !same(own, answer));
        if tells(&first, &second) && tells(&second, &first) {
            let answers = [before, first, second, after];
            return Some(Fork { reader: reader.clone(), answers, states: [one, other, both] });
        }
    }
    None
}

fn forked(pairs: &mut Pairs<'_>, anomaly: &Anomaly, second: usize, share: u64) -> Option<Execution> {
    let lab = pairs.lab;
    let setting = setting(anomaly, anomaly.with, second, lab, false);
    let mut found: Option<(Case, Invocation)> = None;
    pairs.each(&setting, share, &mut |_, pair| {
        let mut steps = 0;
        let limits = (READER_CALLS_MAX, false);
        let readers = calls(lab, anomaly.transaction, pair.initial, &setting.constants, limits);
        let flow = match fork(lab, anomaly, pair, &readers[..readers.len().min(READER_CALLS_MAX)], &mut steps)
        {
            Some(fork) => {
                found = Some((Case::of(pair, &setting, Side::Right), fork.reader));
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        };
        (steps, flow)
    });
    let (case, reader) = found?;
    let mut again = |state: &State| {
        case.again(lab, state, |_, pair| match pair.meets {
            true => None,
            false => fork(lab, anomaly, pair, std::slice::from_ref(&reader), &mut 0),
        })
    };
    let first = again(&case.initial)?;
    let (initial, (left, right, fork)) = smaller(case.initial.clone(), first, &mut again);
    let tables: BTreeSet<TableId> = left.tables().union(&right.tables()).copied().collect();
    let [one, other, both] = fork.states.map(|state| part(lab, &state, &tables));
    let answers = fork.answers.map(|output| Some(answer(lab, reader.procedure, &output)));
    let [before, first, second, after] = answers;
    let (left, right, reader) = (call(lab, &case.left), call(lab, &case.right), call(lab, &reader));
    let read = |when: &str, answer: Option<String>, state: Vec<_>| Outcome {
        run: when.to_owned(),
        state,
        answer,
        error: None,
    };
    let writes = |call: &weir_analysis::witness::WitnessCall, state: &Vec<_>| Outcome {
        run: call.text(),
        state: state.clone(),
        ..Outcome::default()
    };
    Some(Execution {
        initial: initial.text(&lab.program.schema),
        alone: vec![writes(&left, &one), writes(&right, &other)],
        serial: vec![read("before both", before, Vec::new()), read("after both", after, both)],
        together: vec![
            read("it sees left's change only", first, Vec::new()),
            read("it sees right's change only", second, Vec::new()),
        ],
        left,
        right,
        reader: Some(reader),
        later: Side::Right,
        shows: Shows::Answers,
        shown: columns(lab, anomaly, &tables),
    })
}
