//! One column against a value that does not change: the counters of Table 2.

use weir_sql::bound::{Expr, ExprKind};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{self, uncast};
use weir_types::operator::Comparison;

use super::net;
use super::range::{self, Range};
use super::{GuardDraft, Outcome, describe};
use crate::effects::{ColumnOperation, Sign, Write};
use crate::plan::GuardKind;
use crate::verdict::Rule;
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// `>` and `>=`.
    Above,
    /// `<` and `<=`.
    Below,
    Equal,
    NotEqual,
    /// Another condition on the column alone.
    Other,
}

/// The condition's form if its only changing column is `mutable`.
pub fn of(expr: &Expr, negated: bool, mutable: &[ColumnIndex]) -> Option<Bound> {
    let &[column] = mutable else { return None };
    let bound = form(expr, column);
    Some(if negated { opposite(bound) } else { bound })
}

fn form(expr: &Expr, column: ColumnIndex) -> Bound {
    if let ExprKind::Not(inner) = &expr.kind {
        return opposite(form(inner, column));
    }
    let ExprKind::Binary { op, left, right } = &expr.kind else { return Bound::Other };
    let mentions = |expr: &Expr| {
        let mut found = false;
        walk::columns(expr, &mut |_, mentioned| found |= mentioned == column);
        found
    };
    let is_column =
        |expr: &Expr| matches!(uncast(expr).kind, ExprKind::Column { column: c, .. } if c == column);
    let Some(op) = Comparison::of(*op) else { return Bound::Other };
    let op = match (is_column(left) && !mentions(right), is_column(right) && !mentions(left)) {
        (true, _) => op,
        (_, true) => op.mirrored(),
        _ => return Bound::Other,
    };
    match op {
        Comparison::Greater | Comparison::GreaterOrEqual => Bound::Above,
        Comparison::Less | Comparison::LessOrEqual => Bound::Below,
        Comparison::Equal => Bound::Equal,
        Comparison::NotEqual => Bound::NotEqual,
    }
}

fn opposite(bound: Bound) -> Bound {
    match bound {
        Bound::Above => Bound::Below,
        Bound::Below => Bound::Above,
        Bound::Equal => Bound::NotEqual,
        Bound::NotEqual => Bound::Equal,
        Bound::Other => Bound::Other,
    }
}

/// A delta of that sign may bring the column nearer to the bound.
fn is_toward(bound: Bound, sign: Sign) -> bool {
    match bound {
        Bound::Above => sign.negative,
        Bound::Below => sign.positive,
        Bound::Equal | Bound::NotEqual | Bound::Other => sign.negative || sign.positive,
    }
}

/// The verdict on an update of the column. `valid`: the values that the bound allows, where it is a number.
pub fn judge(
    world: &World<'_>,
    (table, column): (TableId, ColumnIndex),
    (bound, valid): (Bound, Option<Range>),
    procedure: usize,
    write: &Write,
) -> Outcome {
    let name = world.column_name(table, column);
    let operation = describe(world, write);
    let Some(own) = write.update_of(column) else {
        return Outcome::yes(Rule::PerRecord, operation, "It does not change the column.").proved();
    };
    match own {
        ColumnOperation::Add(delta) => {
            let sign = net::sign(world, procedure, write, column, delta);
            let away = matches!(bound, Bound::Above | Bound::Below) && !is_toward(bound, sign);
            match computes_otherwise(world, table, column, valid).filter(|_| away) {
                Some(other) => Outcome::undecided(
                    operation,
                    format!(
                        "{} makes an expression of {name}: what that makes of the sum nobody has checked.",
                        world.name(other)
                    ),
                ),
                None => added(world, table, column, bound, sign, procedure, write, operation, &name),
            }
        }
        ColumnOperation::Apply(_) if valid.is_some_and(|valid| is_kept(world, table, column, valid)) => {
            let because = format!(
                "Whatever valid value of {name} it finds, it leaves a valid one, and so does every other change of it."
            );
            Outcome::yes(Rule::BoundAway, operation, because)
        }
        ColumnOperation::Apply(_) => Outcome::undecided(
            operation,
            format!("{name} becomes an expression of itself; no rule says where two of them lead together."),
        ),
        ColumnOperation::Assign(_) | ColumnOperation::Max(_) | ColumnOperation::Min(_) => match valid {
            Some(valid) if is_kept(world, table, column, valid) => {
                let because = format!(
                    "The value of {name} was checked where it was set; every other change keeps it valid."
                );
                Outcome::yes(Rule::PerRecord, operation, because)
            }
            _ => replaced(world, table, column, bound, write, operation, &name),
        },
    }
}

/// Every change of the column leads from each valid value to a valid one, so any order of them does.
fn is_kept(world: &World<'_>, table: TableId, column: ColumnIndex, valid: Range) -> bool {
    world.writes_of(table).all(|(other, write)| range::keeps(world, column, valid, other, write))
}

/// A transaction that makes of a valid value one that may be none, as `10 - n` does of a larger one.
fn computes_otherwise(
    world: &World<'_>,
    table: TableId,
    column: ColumnIndex,
    valid: Option<Range>,
) -> Option<usize> {
    let mut writes = world
        .writes_of(table)
        .filter(|(_, write)| matches!(write.update_of(column), Some(ColumnOperation::Apply(_))));
    let is_kept = |(other, write): &(usize, &Write)| {
        valid.is_some_and(|valid| range::keeps(world, column, valid, *other, write))
    };
    writes.find(|write| !is_kept(write)).map(|(other, _)| other)
}

#[allow(clippy::too_many_arguments)]
fn added(
    world: &World<'_>,
    table: TableId,
    column: ColumnIndex,
    bound: Bound,
    sign: Sign,
    procedure: usize,
    write: &Write,
    operation: String,
    name: &str,
) -> Outcome {
    match bound {
        Bound::Above | Bound::Below if !is_toward(bound, sign) => {
            let because = format!("It moves {name} away from the bound; merged deltas move it further away.");
            Outcome::yes(Rule::BoundAway, operation, because).proved()
        }
        Bound::Above | Bound::Below => {
            let because = format!(
                "Each branch may use up what {name} is away from the bound; together they use up more than \
                 there is."
            );
            Outcome::no(Rule::BoundToward, procedure, operation, because)
                .guarded(escrow(world, table, column, write))
        }
        Bound::Equal => {
            let because =
                "Each branch keeps the value alone, so its deltas sum to zero; so do both together.";
            Outcome::yes(Rule::BoundEqual, operation, because)
        }
        Bound::NotEqual => {
            let because =
                format!("Deltas that miss the forbidden value of {name} one by one may meet it together.");
            Outcome::no(Rule::BoundAvoid, procedure, operation, because)
        }
        Bound::Other => Outcome::undecided(
            operation,
            format!(
                "No rule says whether deltas of {name} that keep the condition one by one keep it together."
            ),
        ),
    }
}

fn replaced(
    world: &World<'_>,
    table: TableId,
    column: ColumnIndex,
    bound: Bound,
    write: &Write,
    operation: String,
    name: &str,
) -> Outcome {
    for (other, candidate) in world.writes_of(table) {
        let Some(change) = candidate.update_of(column) else { continue };
        let toward = match change {
            ColumnOperation::Add(delta) => {
                is_toward(bound, net::sign(world, other, candidate, column, delta))
            }
            ColumnOperation::Apply(_) => true,
            _ => false,
        };
        if toward {
            let because = format!(
                "{} changes {name} by an amount that it could afford before; on the new value it may not.",
                world.name(other)
            );
            let outcome = Outcome::no(Rule::BoundToward, other, operation, because);
            let bounded =
                matches!(bound, Bound::Above | Bound::Below) && matches!(change, ColumnOperation::Add(_));
            return if bounded { outcome.guarded(escrow(world, table, column, write)) } else { outcome };
        }
    }
    if let Some(mixed) = mixed(world, table, column, bound) {
        let because = format!(
            "{} raises or lowers {name} to a value that it never had there; on the value of the other branch it may \
             come to stand, and nobody has checked it.",
            world.name(mixed)
        );
        return match bound {
            Bound::Other => Outcome::undecided(operation, because),
            _ => Outcome::no(Rule::BoundAvoid, mixed, operation, because),
        };
    }
    let because = format!("The value of {name} that stands in the end was checked by whoever wrote it.");
    Outcome::yes(Rule::PerRecord, operation, because)
}

/// A procedure that raises (lowers) the column while others set it, or do the opposite, so that the merge may have a value of neither
/// branch: `greatest(x, 2)` of 3 is 3, and of the other branch's 1 it is 2. With one kind of change alone, the merged value is one of the
/// checked values. The same holds if the condition is a bound: the set value was checked, and raising it above a lower bound, or lowering
/// it to a value that was above one itself, violates none. But only if the column is never NULL, since NULL passes the check without
/// being above anything.
fn mixed(world: &World<'_>, table: TableId, column: ColumnIndex, bound: Bound) -> Option<usize> {
    let ordered = matches!(bound, Bound::Above | Bound::Below | Bound::Equal);
    if ordered && world.table(table).columns[column].not_null {
        return None;
    }
    let changes =
        || world.writes_of(table).filter_map(|(other, write)| Some((other, write.update_of(column)?)));
    let moved =
        |change: &ColumnOperation| matches!(change, ColumnOperation::Max(_) | ColumnOperation::Min(_));
    let (mover, kind) = changes().find(|(_, change)| moved(change))?;
    let same = |change: &ColumnOperation| std::mem::discriminant(change) == std::mem::discriminant(&kind);
    changes().any(|(_, change)| !same(&change)).then_some(mover)
}

fn escrow(world: &World<'_>, table: TableId, column: ColumnIndex, write: &Write) -> GuardDraft {
    GuardDraft {
        kind: GuardKind::Escrow,
        table,
        columns: vec![column],
        shared: false,
        statement: write.span,
        why: format!("draws on a share of what {} may still change by", world.column_name(table, column)),
    }
}
