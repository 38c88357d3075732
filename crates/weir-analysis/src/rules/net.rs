//! Net amount that a transaction adds to a column, if several of its statements add to one row.
//!
//! `n = n + 2` and then `n = n - 1` of one row come to one addition of 1: both run or neither does, both find the row or neither does, and in
//! a merge nothing of another transaction comes between them, since all that a transaction writes has one timestamp.

use weir_sql::catalog::ColumnIndex;

use crate::effects::{ColumnOperation, Operation, Sign, Term, TermId, Write};
use crate::world::World;

/// The sign of what the write adds, together with what belongs to it.
pub fn sign(world: &World<'_>, procedure: usize, write: &Write, column: ColumnIndex, delta: TermId) -> Sign {
    match total(world, procedure, write, column) {
        Some(total) => Sign::of_integer(total),
        None => world.effects[procedure].terms.sign(delta),
    }
}

/// The sum of all constants that the transaction adds to the column of that row; `None` if it does anything else to the table.
fn total(world: &World<'_>, procedure: usize, write: &Write, column: ColumnIndex) -> Option<i64> {
    let effects = &world.effects[procedure];
    let key = effects.key_of(write);
    let mut total: i64 = 0;
    for (_, other) in world.own_writes(procedure, write.table) {
        let Operation::Update { row, columns } = &other.operation else { return None };
        let belongs = effects.read(*row).by_key_alone
            && other.action.is_none()
            && other.context == write.context
            && other.moment.departures == write.moment.departures
            && effects.key_of(other) == key
            && !columns.iter().any(|(changed, _)| key.iter().any(|(of, _)| of == changed));
        match other.update_of(column) {
            _ if !belongs => return None,
            None => {}
            Some(ColumnOperation::Add(delta)) => match effects.terms.get(delta) {
                Term::Integer(amount) => total = total.checked_add(*amount)?,
                _ => return None,
            },
            Some(_) => return None,
        }
    }
    Some(total)
}
