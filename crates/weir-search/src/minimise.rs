//! A smaller witness: fewer calls, then fewer rows, always in the same order, and each step replayed.

use weir_sql::catalog::TableId;

use crate::explore::Found;
use crate::lab::Lab;
use crate::merge::merge;
use crate::replica::{Invocation, Replica, Who};
use crate::state::{State, View};

/// Two rows at once are tried only in states that have no more.
const PAIRED_ROWS_MAX: usize = 12;

/// Runs a witness again: the initial state is valid, both branches are, and the merge is not.
pub fn reproduced(lab: &Lab<'_>, found: &Found) -> Option<Found> {
    let schema = &lab.program.schema;
    if !lab.violated(found.validity, &found.initial).is_empty() {
        return None;
    }
    let mut replica = Replica::new(lab, &found.initial).ok()?;
    let left = replica.branch(&found.left, Who::Left, found.validity, &mut |_| {})?;
    let right = replica.branch(&found.right, Who::Right, found.validity, &mut |_| {})?;
    let merged = merge(lab, &found.initial, &left, &right, found.later)?;
    let violation = lab.violation(found.invariant, &View { schema, state: &merged })?;
    Some(Found { merged, violation, ..found.clone() })
}

pub fn minimised(lab: &Lab<'_>, found: Found) -> Found {
    let mut best = found;
    for side in [left as fn(&mut Found) -> &mut Vec<Invocation>, right] {
        while let Some(smaller) = shorter(&best, side).iter().find_map(|found| reproduced(lab, found)) {
            best = smaller;
        }
    }
    // Rows one by one, then two at once: an owner and what it owns may be there only together.
    loop {
        let smaller =
            fewer_rows(&best.initial).find_map(|initial| reproduced(lab, &Found { initial, ..best.clone() }));
        match smaller {
            Some(smaller) => best = smaller,
            None => break,
        }
    }
    best
}

fn left(found: &mut Found) -> &mut Vec<Invocation> {
    &mut found.left
}

fn right(found: &mut Found) -> &mut Vec<Invocation> {
    &mut found.right
}

/// The state without one row, each in turn from the last, then without two.
pub fn fewer_rows(state: &State) -> impl Iterator<Item = State> + '_ {
    let tables = state.filled().rev();
    let rows: Vec<(TableId, usize)> =
        tables.flat_map(|table| (0..state.table(table).len()).rev().map(move |row| (table, row))).collect();
    let pairs = if rows.len() <= PAIRED_ROWS_MAX { rows.clone() } else { Vec::new() };
    let count = pairs.len();
    let twos = (0..count).flat_map(move |first| (first + 1..count).map(move |second| (first, second)));
    let twos: Vec<Vec<(TableId, usize)>> =
        twos.map(|(first, second)| vec![pairs[first], pairs[second]]).collect();
    rows.into_iter().map(|row| vec![row]).chain(twos).map(|gone| {
        let mut smaller = state.clone();
        // From the last row on, so that the places of the others stay.
        for (table, row) in gone {
            smaller.table_mut(table).remove(row);
        }
        smaller
    })
}

/// The witness without one of a branch's calls, each in turn; its last call is the one that the verdict is about.
fn shorter(found: &Found, side: fn(&mut Found) -> &mut Vec<Invocation>) -> Vec<Found> {
    let calls = side(&mut found.clone()).len();
    let without = |at: usize| {
        let mut smaller = found.clone();
        side(&mut smaller).remove(at);
        smaller
    };
    (0..calls.saturating_sub(1)).map(without).collect()
}
