//! Bounded columns to which several transactions add at once (docs/internals/escrow.md, S15): each bound holds whichever of the prepared
//! amounts commit.

use smallvec::SmallVec;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::cast::{CastContext, cast};
use weir_types::compare::{compare, equal};
use weir_types::{SqlError, SqlType, Value};

use super::operation::eval_alone;
use super::{AssignmentKind, CompiledUpdate, Matches};
use crate::claims::{Amount, Claim, Holders};
use crate::exec::call::{Run, Stop};
use crate::exec::worker::ClaimsOf;
use crate::faults::Faults;
use crate::storage::{RowRef, Rows as _, add};

/// Assignments of an UPDATE under escrow.
#[derive(Debug)]
pub struct Escrow {
    /// Numbers of the assignments that add to a column under escrow.
    pub adds: Vec<usize>,
    /// Its condition compares such a column.
    pub is_compared: bool,
}

/// By column: the least and the greatest value that it may have.
type Ends = SmallVec<[(ColumnIndex, [Value; 2]); 1]>;

/// Values that a row may have, whichever of the amounts of others commit.
enum Reach {
    /// Its values are those that it has: there are no amounts of others.
    Same,
    Between(Ends),
    /// Some sum overflows.
    Unknown,
}

impl<F: Faults> Run<'_, F> {
    /// Holds a row that is about to be updated. Returns whether it is held by amounts alone.
    pub(super) fn hold_for_update(&mut self, update: &CompiledUpdate, row: u32) -> Result<bool, Stop> {
        // Requests of others are handled before an open transaction ends, and it may read the row again: it claims it.
        if let (Some(escrow), false) = (&update.escrow, self.stays_open())
            && let Some(amounts) = self.amounts(update, escrow)
        {
            for (column, delta) in amounts {
                self.claim(|| Claim::Amount(update.table, row, column, delta))?;
            }
            if escrow.is_compared {
                self.match_with_amounts(update, row)?;
            }
            return Ok(true);
        }
        self.hold_row(update.table, row, update.hold)?;
        Ok(false)
    }

    /// The amounts that the update adds; none: they cannot be added up with those of others in any order.
    fn amounts(
        &mut self,
        update: &CompiledUpdate,
        escrow: &Escrow,
    ) -> Option<SmallVec<[(ColumnIndex, Value); 1]>> {
        let types = &self.fragment.program.schema.table(update.table).types;
        let mut amounts = SmallVec::new();
        for &at in &escrow.adds {
            let assignment = &update.assignments[at];
            let AssignmentKind::Add(delta) = &assignment.kind else { return None };
            // The statement raises the error.
            let delta = self.eval(delta).ok()?;
            if !is_exact(&types[assignment.column], &delta) {
                return None;
            }
            amounts.push((assignment.column, delta));
        }
        Some(amounts)
    }

    /// Stops if what the update has compared might differ with the amounts of others.
    fn match_with_amounts(&mut self, update: &CompiledUpdate, row: u32) -> Result<(), Stop> {
        let reach = match (&update.rows, self.reach(update.table, row)) {
            (_, Reach::Same) => return Ok(()),
            (Matches::Access(access), Reach::Between(ends)) => Some((access, ends)),
            _ => None,
        };
        let Some((access, ends)) = reach else { return Err(self.held_by_amounts(update.table, row)) };
        let at = RowRef { shard: 0, row };
        let matches = self.with_cx(|cx| {
            let mut matches = true;
            for corner in corners(&ends) {
                matches &= access.passes_with(at, &corner, cx)?;
            }
            access.load(at, cx);
            Ok::<bool, SqlError>(matches)
        })?;
        match matches {
            true => Ok(()),
            false => Err(self.held_by_amounts(update.table, row)),
        }
    }

    /// Stops if the row, which has just been changed and is valid, might violate a CHECK with the amounts of others.
    pub(super) fn check_with_amounts(&mut self, table: TableId, row: u32) -> Result<(), Stop> {
        let is_valid = match self.reach(table, row) {
            Reach::Same => true,
            Reach::Between(ends) => self.is_valid_within(&ends, table, row),
            Reach::Unknown => false,
        };
        if is_valid { Ok(()) } else { Err(self.held_by_amounts(table, row)) }
    }

    /// Whether the row satisfies each CHECK with the least and the greatest values. All CHECKs of columns under escrow are bounds, or sums with a
    /// bound: they hold for all values between those for which they hold.
    fn is_valid_within(&mut self, ends: &Ends, table: TableId, row: u32) -> bool {
        let program = self.fragment.program;
        let has_amounts = |column: &ColumnIndex| ends.iter().any(|(of, _)| of == column);
        for check in &program.rules[table.0 as usize].checks {
            if !check.columns.iter().any(|(column, _)| has_amounts(column)) {
                continue;
            }
            self.rule_frame.grow(check.slots, check.cells);
            for &(column, slot) in &check.columns {
                let value = self.fragment.storage.value(table, RowRef { shard: 0, row }, column);
                self.rule_frame.set(slot, value);
            }
            for corner in corners(ends) {
                for (column, value) in corner {
                    if let Some((_, slot)) = check.columns.iter().find(|(of, _)| *of == column) {
                        self.rule_frame.set(*slot, value.clone());
                    }
                }
                let held = eval_alone(&check.expr, self.rule_frame, self.transaction_time);
                if !held.is_ok_and(|held| !matches!(held, Value::Bool(false))) {
                    return false;
                }
            }
        }
        true
    }

    fn reach(&self, table: TableId, row: u32) -> Reach {
        let ClaimsOf::Step(claims) = self.fragment.claims else { return Reach::Same };
        let mut amounts = claims.amounts_of_others(table, row, self.fragment.txn).peekable();
        let bugs = &self.fragment.bugs;
        if amounts.peek().is_none() || bugs.escrow_counts_committed() || bugs.no_guards() {
            return Reach::Same;
        }
        let types = &self.fragment.program.schema.table(table).types;
        let mut all = Ends::new();
        for Amount { column, delta, .. } in amounts {
            let at = all.iter().position(|(of, _)| of == column).unwrap_or_else(|| {
                let current = self.fragment.storage.value(table, RowRef { shard: 0, row }, *column);
                all.push((*column, [current.clone(), current]));
                all.len() - 1
            });
            let ends = &mut all[at].1;
            if !ends[0].is_null() && widen(ends, &types[*column], delta).is_none() {
                return Reach::Unknown;
            }
        }
        Reach::Between(all)
    }

    /// The others whose amounts have to commit or abort first.
    fn held_by_amounts(&mut self, table: TableId, row: u32) -> Stop {
        self.stopped_at = Some(table);
        let ClaimsOf::Step(claims) = self.fragment.claims else { return Stop::Held(Holders::new()) };
        let amounts = claims.amounts_of_others(table, row, self.fragment.txn);
        let mut holders: Holders = amounts.map(|amount| amount.txn).collect();
        holders.dedup();
        Stop::Held(holders)
    }
}

/// Lowers the lower end, or raises the upper one, by the amount; none: the sum overflows.
fn widen([least, greatest]: &mut [Value; 2], ty: &SqlType, delta: &Value) -> Option<()> {
    let less = add(ty, least, delta)?;
    match compare(&less, least).is_lt() {
        true => *least = less,
        false => *greatest = add(ty, greatest, delta)?,
    }
    Some(())
}

/// Whether sums with that amount are the same in every order: nothing is rounded.
fn is_exact(ty: &SqlType, delta: &Value) -> bool {
    match (ty.base(), delta) {
        (_, Value::Int(_)) if ty.is_integer() => true,
        (base @ SqlType::Numeric(_), Value::Numeric(_)) => {
            cast(delta, &base, ty, CastContext::Assignment).is_ok_and(|rounded| equal(&rounded, delta))
        }
        _ => false,
    }
}

/// Each choice of the least or the greatest value for each column.
fn corners(all: &Ends) -> impl Iterator<Item = SmallVec<[(ColumnIndex, &Value); 2]>> {
    let choose = |choice: usize| {
        let columns = all.iter().enumerate();
        columns.map(|(at, (column, ends))| (*column, &ends[choice >> at & 1])).collect()
    };
    (0..1_usize << all.len()).map(choose)
}
