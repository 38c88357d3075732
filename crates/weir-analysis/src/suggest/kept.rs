//! Whether an edit keeps what a call returns and does elsewhere, told by the procedure's text.
//!
//! An edit that makes an error a success lets the call go on where it ended before: a coupon that may be used once would discount two
//! orders. One that removes rows of other tables does what nobody has asked for. Neither is a remedy, whatever it makes cheaper.

use weir_sql::bound::{
    Expr, ExprKind, Insert, InsertSource, Procedure, Statement, Step, StepKind, VariableId,
};
use weir_sql::catalog::{ColumnIndex, ForeignKey, Table};
use weir_sql::walk;

/// A second INSERT of the same key may be passed over: the row that is there is the one that it would have made, nothing is done
/// after it, and nothing is told of it.
pub fn insert_may_be_passed_over(procedure: &Procedure, table: &Table, key: &[ColumnIndex]) -> bool {
    ends_with_insert(&procedure.body, table, key)
}

fn ends_with_insert(steps: &[Step], table: &Table, key: &[ColumnIndex]) -> bool {
    let is_end = |step: &&Step| !matches!(step.kind, StepKind::Null | StepKind::Return { value: None });
    let Some(last) = steps.iter().rposition(|step| is_end(&step)) else { return true };
    let ends = match &steps[last].kind {
        StepKind::Sql { statement, into: None } => match &**statement {
            Statement::Insert(insert) => insert.table == table.id && is_its_key(insert, key),
            _ => !writes(&steps[last]),
        },
        StepKind::If { branches, otherwise } => {
            branches.iter().all(|(_, body)| ends_with_insert(body, table, key))
                && ends_with_insert(otherwise, table, key)
        }
        StepKind::Block { body, .. } => ends_with_insert(body, table, key),
        _ => !writes(&steps[last]),
    };
    ends && !steps[..last].iter().any(writes)
}

/// The row says nothing beside its key: two of the same key are the same row.
fn is_its_key(insert: &Insert, key: &[ColumnIndex]) -> bool {
    let InsertSource::Values(rows) = &insert.source else { return false };
    let is_constant = |value: &Expr| matches!(walk::uncast(value).kind, ExprKind::Literal(_));
    let of_row = |row: &Vec<Expr>| {
        let mut given = insert.columns.iter().zip(row);
        given.all(|(column, value)| key.contains(column) || is_constant(value))
    };
    insert.returning.is_empty()
        && insert.on_conflict.is_none()
        && insert.defaults.iter().all(|(_, value)| is_constant(value))
        && rows.iter().all(of_row)
}

/// It may change something, or end the call.
fn writes(step: &Step) -> bool {
    let mut found = false;
    walk::each_step(std::slice::from_ref(step), &mut |step| {
        found |= match &step.kind {
            StepKind::Sql { statement, .. } => !matches!(&**statement, Statement::Query(_)),
            StepKind::Call { .. } | StepKind::Opaque(_) => true,
            _ => false,
        }
    });
    found
}

/// The procedure removes the children of the parents that it removes, all of them, so that they may go by themselves.
pub fn removes_children(procedure: &Procedure, table: &Table, key: &ForeignKey) -> bool {
    let [child] = key.columns[..] else { return false };
    let [parent] = key.parent_columns[..] else { return false };
    let (mut of_children, mut of_parents) = (Vec::new(), Vec::new());
    walk::each_step(&procedure.body, &mut |step| {
        let StepKind::Sql { statement, .. } = &step.kind else { return };
        let Statement::Delete(delete) = &**statement else { return };
        let by = |column| delete.filter.as_ref().and_then(|filter| equal_to_variable(filter, column));
        if delete.table == table.id && delete.using.is_empty() {
            of_children.extend(by(child));
        } else if delete.table == key.parent {
            of_parents.push(by(parent));
        }
    });
    !of_parents.is_empty()
        && of_parents.iter().all(|one| one.is_some_and(|variable| of_children.contains(&variable)))
}

/// The variable, where the whole condition is that the column equals it.
fn equal_to_variable(filter: &Expr, column: ColumnIndex) -> Option<VariableId> {
    let ExprKind::Binary { op: weir_sql::bound::BinaryOp::Equal, left, right } = &filter.kind else {
        return None;
    };
    let (left, right) = (walk::uncast(left), walk::uncast(right));
    match (&left.kind, &right.kind) {
        (ExprKind::Column { column: of, .. }, ExprKind::Variable(variable))
        | (ExprKind::Variable(variable), ExprKind::Column { column: of, .. })
            if *of == column =>
        {
            Some(*variable)
        }
        _ => None,
    }
}
