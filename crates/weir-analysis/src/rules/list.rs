//! Arrays as lists: Table 2's `[NOT] CONTAINS` under any operation, and HEAD=, TAIL=, length= under mutation.
//!
//! Appending, prepending and removing a value each make a given element present, absent, or leave it as it is,
//! wherever in the list it stands and whatever else is in it. What is at an end, or how many elements there are,
//! depends on all that was done before.

use weir_sql::bound::{BinaryOp, Expr, ExprKind};
use weir_sql::catalog::{ColumnIndex, Table, TableId};
use weir_sql::walk::{self, uncast};
use weir_types::operator::Comparison;

use super::{Outcome, describe};
use crate::effects::{ColumnOperation, Operation, ProcedureEffects, ReadId, Term, TermId, Write};
use crate::verdict::Rule;
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// These elements are in it, or none of them is. `nulls_hide`: an element that is NULL makes the condition NULL where the right one
    /// is missing, and so keeps it.
    Contains { nulls_hide: bool },
    /// Its first, its last or n-th element, or its length.
    Position,
}

const WITHOUT_NULLS: List = List::Contains { nulls_hide: false };

/// The condition's form, if the only column of the row that changes is a list.
pub fn of(expr: &Expr, negated: bool, mutable: &[ColumnIndex]) -> Option<List> {
    let &[column] = mutable else { return None };
    if let ExprKind::Not(inner) = &expr.kind {
        return of(inner, !negated, mutable);
    }
    let is_list =
        |expr: &Expr| matches!(uncast(expr).kind, ExprKind::Column { column: c, .. } if c == column);
    let is_other = |expr: &Expr| !mentions(expr, column);
    match &expr.kind {
        ExprKind::ArrayCompare { op, left, array, all } if is_list(array) && is_other(left) => {
            match (op, all) {
                (BinaryOp::Equal, false) => Some(List::Contains { nulls_hide: !negated }),
                (BinaryOp::NotEqual, true) => Some(List::Contains { nulls_hide: negated }),
                _ => None,
            }
        }
        // All of them are there, or the only one is not; none of them is there.
        ExprKind::Binary { op: BinaryOp::Contains, left, right } if is_list(left) && is_other(right) => {
            let one = matches!(&uncast(right).kind, ExprKind::Array(list) if list.len() == 1);
            (!negated || one).then_some(WITHOUT_NULLS)
        }
        ExprKind::Binary { op: BinaryOp::Overlaps, left, right } => {
            let sides = is_list(left) && is_other(right) || is_list(right) && is_other(left);
            (negated && sides).then_some(WITHOUT_NULLS)
        }
        ExprKind::IsNull { operand, .. } => match &uncast(operand).kind {
            ExprKind::Function { function, args } if function.name == "array_position" => {
                (is_list(&args[0]) && args[1..].iter().all(is_other)).then_some(WITHOUT_NULLS)
            }
            _ => None,
        },
        ExprKind::Binary { op, left, right } if Comparison::of(*op).is_some() => {
            (is_position(left, column) && is_other(right) || is_position(right, column) && is_other(left))
                .then_some(List::Position)
        }
        _ => None,
    }
}

fn mentions(expr: &Expr, column: ColumnIndex) -> bool {
    let mut found = false;
    walk::columns(expr, &mut |_, mentioned| found |= mentioned == column);
    found
}

fn is_position(expr: &Expr, column: ColumnIndex) -> bool {
    match &uncast(expr).kind {
        ExprKind::Subscript { array, .. } => mentions(array, column),
        ExprKind::Function { function, args } => {
            matches!(function.name, "cardinality" | "array_length" | "array_upper")
                && args.iter().any(|arg| mentions(arg, column))
        }
        _ => false,
    }
}

/// Verdict on an update of the list; `None` if some transaction changes it by another operation than those of lists, or if it is only
/// ever replaced.
pub fn judge(
    world: &World<'_>,
    table: TableId,
    column: ColumnIndex,
    list: List,
    procedure: usize,
    write: &Write,
) -> Option<Outcome> {
    let mut mutates = None;
    for (other, candidate) in world.writes_of(table) {
        match candidate.update_of(column) {
            None | Some(ColumnOperation::Assign(_)) => {}
            Some(ColumnOperation::Apply(term)) if mutation(world, other, candidate, column, term) => {
                mutates = if other == procedure { Some(other) } else { mutates.or(Some(other)) };
            }
            Some(_) => return None,
        }
    }
    let with = mutates?;
    let name = world.column_name(table, column);
    let operation = describe(world, write);
    match list {
        List::Contains { nulls_hide }
            if world.table(table).columns[column].not_null
                && (!nulls_hide || has_no_nulls(world.table(table), column)) =>
        {
            let because = format!(
                "Each change of {name} puts an element there, takes it away or leaves it, whatever else is in the \
                 list; no valid branch ends with the wrong one of these."
            );
            Some(Outcome::yes(Rule::ListMember, operation, because))
        }
        List::Contains { nulls_hide: true } if world.table(table).columns[column].not_null => {
            let because = format!(
                "An element of {name} that is NULL keeps the condition though the right one is missing: one branch takes away the \
                 one, the other the other. CHECK (array_position({}, NULL) IS NULL) rules it out, and @> asks for the element \
                 alone.",
                world.table(table).columns[column].name
            );
            Some(Outcome::no(Rule::ListMutated, with, operation, because))
        }
        List::Contains { .. } => None,
        List::Position => {
            let because = format!(
                "What stands first or last in {name}, and how much, depends on what the other branch has put in or \
                 taken out."
            );
            Some(Outcome::no(Rule::ListMutated, with, operation, because))
        }
    }
}

/// A CHECK says that no element is NULL.
fn has_no_nulls(table: &Table, column: ColumnIndex) -> bool {
    table.checks.iter().any(|check| {
        let ExprKind::IsNull { operand, negated: false } = &check.expr.kind else { return false };
        let ExprKind::Function { function, args } = &uncast(operand).kind else { return false };
        let [list, value] = args.as_slice() else { return false };
        function.name == "array_position"
            && matches!(uncast(list).kind, ExprKind::Column { column: of, .. } if of == column)
            && matches!(&uncast(value).kind, ExprKind::Literal(value) if value.is_null())
    })
}

/// The list with values appended, prepended or removed that do not depend on what changes in its row.
fn mutation(world: &World<'_>, procedure: usize, write: &Write, column: ColumnIndex, term: TermId) -> bool {
    let Operation::Update { row, .. } = write.operation else { return false };
    is_list(world, &world.effects[procedure], write.table, row, column, term)
}

fn is_list(
    world: &World<'_>,
    effects: &ProcedureEffects,
    table: TableId,
    row: ReadId,
    column: ColumnIndex,
    term: TermId,
) -> bool {
    let (name, arguments) = match effects.terms.get(term) {
        Term::Field { row: of, column: c } => return *of == row && *c == column,
        Term::Call { name, arguments } => (name.as_str(), arguments.as_slice()),
        _ => return false,
    };
    let settled = |term: TermId| {
        effects.terms.leaves(term).into_iter().all(|leaf| match effects.terms.get(leaf) {
            Term::Field { row: of, column } => *of != row || world.keeps_its_value(table, *column),
            _ => true,
        })
    };
    let (list, value) = match (name, arguments) {
        ("array_append" | "array_remove", &[list, value]) => (list, value),
        ("array_prepend", &[value, list]) => (list, value),
        ("array_cat" | "Concat", &[left, right]) if settled(right) => (left, right),
        ("array_cat" | "Concat", &[left, right]) => (right, left),
        _ => return false,
    };
    settled(value) && is_list(world, effects, table, row, column, list)
}
