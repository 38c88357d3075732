//! A smaller witness: fewer calls, then fewer rows, always in the same order, and each step replayed.

use weir_sql::catalog::TableId;

use crate::explore::Found;
use crate::lab::Lab;
use crate::merge::merge;
use crate::replica::{Invocation, Replica, Who};
use crate::state::View;

/// Runs a witness again: the initial state is valid, both branches are, and the merge is not.
pub fn reproduced(lab: &Lab<'_>, found: &Found) -> Option<Found> {
    let schema = &lab.program.schema;
    if !lab.violated(found.validity, &View { schema, state: &found.initial }).is_empty() {
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
    let mut table = best.initial.tables.len();
    while table > 0 {
        table -= 1;
        let mut row = best.initial.tables[table].len();
        while row > 0 {
            row -= 1;
            let mut smaller = best.clone();
            smaller.initial.tables[table].remove(row);
            if let Some(smaller) = reproduced(lab, &smaller) {
                best = smaller;
            }
        }
    }
    // Parents that only a later table's rows needed.
    for table in (0..best.initial.tables.len()).map(|table| TableId(table as u32)) {
        let mut smaller = best.clone();
        smaller.initial.table_mut(table).clear();
        if smaller.initial != best.initial
            && let Some(smaller) = reproduced(lab, &smaller)
        {
            best = smaller;
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

/// The witness without one of a branch's calls, each in turn; a branch keeps one.
fn shorter(found: &Found, side: fn(&mut Found) -> &mut Vec<Invocation>) -> Vec<Found> {
    let calls = side(&mut found.clone()).len();
    let without = |at: usize| {
        let mut smaller = found.clone();
        side(&mut smaller).remove(at);
        smaller
    };
    if calls > 1 { (0..calls).map(without).collect() } else { Vec::new() }
}
