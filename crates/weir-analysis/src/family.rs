//! One column, one family (design.md §4, soundness S13): closes the set of ordered transactions.
//!
//! Ordered and general transactions are serializable only with respect to each other. So every transaction that writes what one of them
//! reads or writes is ordered too, existence and predicate columns included; and so is every one that touches an invariant which only
//! order keeps. A transaction that merely reads ordered data stays in the merge family: its reads run as an independent transaction.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::catalog::{ColumnIndex, TableId};

use crate::effects::{ColumnOperation, Operation};
use crate::invariant::InvariantId;
use crate::plan::Placement;
use crate::planner::Candidate;
use crate::world::World;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    Merge,
    Ordered { one_shot: bool, because: Because },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    Declared,
    /// No guard keeps this invariant.
    Unguarded(InvariantId),
    /// Not all that it does is known.
    NotFollowed,
    PromotedBy {
        by: usize,
        over: Shared,
    },
}

/// The data or the invariant that a transaction shares with one that runs in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// It writes this column, or (`None`) which rows there are, and the other one reads or writes it.
    Written(TableId, Option<ColumnIndex>),
    /// Order alone keeps the invariant, and both touch it.
    Invariant(InvariantId),
}

/// Follows promotions to the transaction that is in order of itself.
pub fn root(members: &[Member], from: usize) -> usize {
    let mut at = from;
    // A procedure is promoted by one that was in order before it.
    while let Some(Member::Ordered { because: Because::PromotedBy { by, .. }, .. }) = members.get(at) {
        at = *by;
    }
    at
}

/// For each that asks for order the families are closed once more.
const ASKING_MAX: usize = 1_000;

/// A column, or (`None`) which rows there are.
type Touched = BTreeSet<(TableId, Option<ColumnIndex>)>;

pub fn close(world: &World<'_>, placement: &[Placement], candidates: &[Candidate]) -> Vec<Member> {
    let mut reasons: Vec<Option<Because>> = vec![None; candidates.len()];
    for (procedure, candidate) in candidates.iter().enumerate() {
        if world.app.procedures[procedure].serializable {
            reasons[procedure] = Some(Because::Declared);
        } else if let Some(&(invariant, _)) = candidate.unguarded.first() {
            reasons[procedure] = Some(Because::Unguarded(invariant));
        } else if !world.effects[procedure].unseen.is_empty() {
            reasons[procedure] = Some(Because::NotFollowed);
        }
    }
    let mut todo: Vec<usize> =
        (0..candidates.len()).filter(|&procedure| reasons[procedure].is_some()).collect();
    let mut writers: BTreeMap<(TableId, Option<ColumnIndex>), Vec<usize>> = BTreeMap::new();
    for procedure in 0..candidates.len() {
        for place in written(world, procedure) {
            writers.entry(place).or_default().push(procedure);
        }
    }
    let mut touching: BTreeMap<InvariantId, Vec<usize>> = BTreeMap::new();
    for (procedure, candidate) in candidates.iter().enumerate() {
        candidate
            .touches
            .iter()
            .for_each(|&invariant| touching.entry(invariant).or_default().push(procedure));
    }
    while let Some(by) = todo.pop() {
        // Procedures that write an item, or touch an invariant, are promoted with the first procedure that reads it.
        let touched = touched(world, by);
        let mut writing = BTreeMap::new();
        for &(table, column) in &touched {
            for other in writers.remove(&(table, column)).into_iter().flatten() {
                writing.entry(other).or_insert(Shared::Written(table, column));
            }
        }
        let mut promote: Vec<(usize, Shared)> = writing.into_iter().collect();
        for (invariant, with) in &candidates[by].unguarded {
            // A verdict that says no speaks of one partner. Order keeps the invariant only among all who touch it.
            let touching = touching.remove(invariant).into_iter().flatten();
            promote.extend(
                with.iter().copied().chain(touching).map(|other| (other, Shared::Invariant(*invariant))),
            );
        }
        for (other, over) in promote {
            if reasons[other].is_none() {
                reasons[other] = Some(Because::PromotedBy { by, over });
                todo.push(other);
            }
        }
    }
    reasons
        .into_iter()
        .enumerate()
        .map(|(procedure, reason)| match reason {
            None => Member::Merge,
            Some(because) => Member::Ordered {
                one_shot: one_shot(world, placement, &candidates[procedure], procedure),
                because,
            },
        })
        .collect()
}

/// Which invariants alone have transactions run in order, and which ones: without the invariant these would not. Where several
/// invariants ask for order together, none of them is alone to blame.
pub fn to_blame(
    world: &World<'_>,
    placement: &[Placement],
    candidates: &mut [Candidate],
    members: &[Member],
) -> Vec<(InvariantId, Vec<usize>)> {
    let unguarded = candidates.iter().flat_map(|candidate| &candidate.unguarded);
    let asking: BTreeSet<InvariantId> = unguarded.map(|(invariant, _)| *invariant).take(ASKING_MAX).collect();
    let mut found = Vec::new();
    for invariant in asking {
        let all: Vec<_> = candidates.iter().map(|candidate| candidate.unguarded.clone()).collect();
        candidates.iter_mut().for_each(|candidate| candidate.unguarded.retain(|(one, _)| *one != invariant));
        let without = close(world, placement, candidates);
        candidates.iter_mut().zip(all).for_each(|(candidate, all)| candidate.unguarded = all);
        let is_freed =
            |procedure: &usize| members[*procedure] != Member::Merge && without[*procedure] == Member::Merge;
        let freed: Vec<usize> = (0..members.len()).filter(is_freed).collect();
        if !freed.is_empty() {
            found.push((invariant, freed));
        }
    }
    found
}

/// Items that the procedure writes: columns, and the existence of rows for inserts and deletes.
pub fn written(world: &World<'_>, procedure: usize) -> Touched {
    let mut touched = Touched::new();
    for write in &world.effects[procedure].writes {
        touched.extend(write.updates().iter().map(|(column, _)| (write.table, Some(*column))));
        if write.is_insert() || write.is_delete() {
            touched.insert((write.table, None));
        }
    }
    touched
}

/// Items that it reads or writes; every read of a table also reads the existence of rows.
pub fn touched(world: &World<'_>, procedure: usize) -> Touched {
    let mut touched = written(world, procedure);
    for read in &world.effects[procedure].reads {
        touched.insert((read.table, None));
        touched.extend(read.columns.iter().map(|&column| (read.table, Some(column))));
    }
    touched
}

/// One message is enough and every shard comes to the same decision from its own data (soundness S2).
fn one_shot(world: &World<'_>, placement: &[Placement], candidate: &Candidate, procedure: usize) -> bool {
    let effects = &world.effects[procedure];
    if !effects.unseen.is_empty() {
        return false;
    }
    if candidate.reach.single {
        return true;
    }
    let crosses = candidate.reach.dependent
        || effects.writes.iter().any(|write| {
            let terms = match &write.operation {
                Operation::Insert { values, .. } => values.clone(),
                _ => write.updates().iter().map(|(_, operation)| operation.term()).collect(),
            };
            let fixed = |&term| world.self_determined(procedure, term, false).is_ok();
            !terms.iter().all(fixed)
        });
    let may_fail = !effects.raises.is_empty() || effects.writes.iter().any(|write| can_fail(world, write));
    let copied =
        effects.writes.iter().any(|write| placement[write.table.0 as usize] == Placement::Replicated);
    !crosses && !may_fail && !copied
}

/// An error that only the shard with that row would see.
fn can_fail(world: &World<'_>, write: &crate::effects::Write) -> bool {
    let table = world.table(write.table);
    let key = table.primary_key.is_some() || !table.unique_keys.is_empty();
    let checks = |column: ColumnIndex| {
        let mut found = false;
        for check in &table.checks {
            weir_sql::walk::columns(&check.expr, &mut |_, checked| found |= checked == column);
        }
        found
    };
    match &write.operation {
        Operation::Insert { .. } => key || !table.checks.is_empty() || !table.foreign_keys.is_empty(),
        Operation::Delete { .. } => true,
        Operation::Update { columns, .. } => columns
            .iter()
            .any(|(column, operation)| checks(*column) || matches!(operation, ColumnOperation::Apply(_))),
    }
}
