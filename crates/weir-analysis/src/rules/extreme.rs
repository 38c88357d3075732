//! "The highest of the rows' values" (or the lowest): `top_bid = max(amount)`.
//!
//! If every row that comes raises the column to its value with `greatest`, and no row goes or changes, the
//! column is the largest of all values ever put in, and so are both in the merge. Where nobody uses
//! `greatest` (`least`) on the column, it is a counter, and the condition one of density.

use std::collections::BTreeSet;

use weir_sql::bound::{AggregateFunction, BinaryOp, ExprKind, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{self, uncast};

use super::{Outcome, assertion};
use crate::assertion::{self as claims, Shape};
use crate::effects::{ColumnOperation, Operation, Sign, TermId, Write, checked_sign};
use crate::verdict::{Alone, Rule};
use crate::world::World;

/// A column that is the highest (or lowest) value of a column of the rows that belong to its row.
pub struct Extreme {
    table: TableId,
    column: ColumnIndex,
    rows: TableId,
    value: ColumnIndex,
    /// Column of the row with the extreme, and the column of the rows that equals it.
    pairs: Vec<(ColumnIndex, ColumnIndex)>,
    /// Columns of the rows that the condition mentions.
    selecting: BTreeSet<ColumnIndex>,
    highest: bool,
    zero_if_none: bool,
}

impl Extreme {
    /// `None` if no transaction raises the column, or if rows are selected by more than equal columns.
    pub fn of(world: &World<'_>, shape: &Shape<'_>, claim: &claims::Extreme<'_>) -> Option<Extreme> {
        let (relation, column) = claim.place;
        let table = shape.table(relation)?;
        let &[(of, rows)] = claim.group.tables.as_slice() else { return None };
        let value = match uncast(claim.group.argument?).kind {
            ExprKind::Column { relation, column } if relation == of => column,
            _ => return None,
        };
        let mut selecting = BTreeSet::from([value]);
        for filter in &claim.group.filters {
            walk::columns(filter, &mut |mentioned, column| {
                if mentioned == of {
                    selecting.insert(column);
                }
            });
        }
        let pairs = claim.group.filters.iter().map(|filter| {
            let ExprKind::Binary { op: BinaryOp::Equal, left, right } = &filter.kind else { return None };
            let column_of = |expr, of: RelationId| match uncast(expr).kind {
                ExprKind::Column { relation, column } if relation == of => Some(column),
                _ => None,
            };
            match (column_of(left, relation), column_of(right, of)) {
                (Some(own), Some(theirs)) => Some((own, theirs)),
                _ => Some((column_of(right, relation)?, column_of(left, of)?)),
            }
        });
        let extreme = Extreme {
            table,
            column,
            rows,
            value,
            pairs: pairs.collect::<Option<_>>()?,
            selecting,
            highest: claim.group.function == Some(AggregateFunction::Maximum),
            zero_if_none: claim.zero_if_none,
        };
        world.writes_of(table).any(|(_, write)| extreme.raised_to(write).is_some()).then_some(extreme)
    }

    /// The value to which the write raises the column.
    fn raised_to(&self, write: &Write) -> Option<TermId> {
        match write.update_of(self.column) {
            Some(ColumnOperation::Max(term)) if self.highest && write.table == self.table => Some(term),
            Some(ColumnOperation::Min(term)) if !self.highest && write.table == self.table => Some(term),
            _ => None,
        }
    }

    /// The new row's value, and whether the same transaction raises the extreme to it.
    fn arrival(&self, world: &World<'_>, procedure: usize, write: &Write) -> Option<(TermId, bool)> {
        let Operation::Insert { values, .. } = &write.operation else { return None };
        if write.table != self.rows {
            return None;
        }
        let effects = &world.effects[procedure];
        let raised = effects.writes.iter().any(|other| {
            let Operation::Update { row, .. } = &other.operation else { return false };
            let target = effects.read(*row);
            target.by_key_alone
                && self.raised_to(other) == Some(values[self.value])
                && write.context.starts_with(&other.context)
                && target.key.iter().all(|(column, term)| {
                    self.pairs.iter().any(|(own, theirs)| own == column && values[*theirs] == *term)
                })
        });
        Some((values[self.value], raised))
    }

    /// It makes the column something else than the highest of all values that were ever put in.
    fn loses(&self, world: &World<'_>, procedure: usize, write: &Write) -> bool {
        let rows_change = write.table == self.rows
            && (write.is_delete() || self.selecting.iter().any(|&column| write.update_of(column).is_some()));
        let column_changes = write.table == self.table
            && (write.update_of(self.column).is_some() && self.raised_to(write).is_none()
                || self.pairs.iter().any(|(own, _)| write.update_of(*own).is_some()));
        rows_change
            || column_changes
            || self.arrival(world, procedure, write).is_some_and(|(_, raised)| !raised)
            || self.raised_to(write).is_some() && !self.has_row(world, procedure, write)
    }

    /// A row comes with the value to which the write raises the column.
    fn has_row(&self, world: &World<'_>, procedure: usize, write: &Write) -> bool {
        world.effects[procedure].writes.iter().any(|other| {
            write.context.starts_with(&other.context)
                && self
                    .arrival(world, procedure, other)
                    .is_some_and(|(value, raised)| raised && self.raised_to(write) == Some(value))
        })
    }

    /// A new row of the table starts as one without rows has to.
    fn new_is_zero(&self, world: &World<'_>, procedure: usize, write: &Write) -> Alone {
        let Operation::Insert { values, .. } = &write.operation else { return Alone::Proved };
        let sign = world.effects[procedure].terms.sign(values[self.column]);
        let zero = !sign.negative && !sign.positive;
        if zero && self.zero_if_none { Alone::Proved } else { Alone::No }
    }

    /// The first row's value is no lower than what the column was without rows.
    fn is_above_none(&self, world: &World<'_>, procedure: usize, value: TermId) -> Alone {
        let effects = &world.effects[procedure];
        let beyond = |sign: Sign| if self.highest { !sign.negative } else { !sign.positive };
        match self.zero_if_none {
            false => Alone::No,
            true if beyond(effects.terms.sign(value)) => Alone::Proved,
            true if beyond(checked_sign(world.table(self.rows), self.value)) => Alone::Checked,
            true => Alone::No,
        }
    }
}

pub fn judge(world: &World<'_>, shape: &Shape<'_>, extreme: &Extreme, procedure: usize) -> Option<Outcome> {
    let touching: Vec<&Write> =
        world.effects[procedure].writes.iter().filter(|write| assertion::touches(shape, write)).collect();
    let operation = assertion::operations(world, &touching);
    let loses = |of: usize| world.effects[of].writes.iter().any(|write| extreme.loses(world, of, write));
    let loser =
        if loses(procedure) { Some(procedure) } else { (0..world.effects.len()).find(|&other| loses(other)) };
    let name = world.column_name(extreme.table, extreme.column);
    if let Some(loser) = loser {
        let because = format!(
            "{} makes {name} something else than the highest value ever put in, so the merge of two branches \
             need not have the value that its rows have.",
            world.name(loser)
        );
        let alone = if loser == procedure { Alone::No } else { Alone::Checked };
        return Some(Outcome::no(Rule::ExtremeLost, loser, operation, because).alone(alone));
    }
    let because =
        format!("Every row raises {name} to its value; merged it is the higher of the branches' two.");
    let mut alone = Alone::Proved;
    for write in touching {
        if let Some((value, _)) = extreme.arrival(world, procedure, write) {
            alone = super::weaker(alone, extreme.is_above_none(world, procedure, value));
        } else if write.is_insert() && write.table == extreme.table {
            alone = super::weaker(alone, extreme.new_is_zero(world, procedure, write));
        }
    }
    if world.effects[procedure].irregular {
        alone = Alone::No;
    }
    Some(
        Outcome::yes(Rule::ExtremeRaised, operation, because)
            .alone(alone)
            .assuming("the rows that it changes exist"),
    )
}
