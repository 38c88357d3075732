//! The constraints of the catalog as checks of the whole database at rest. The executor keeps them row
//! by row; this is the naive twin that looks at everything again.

use std::collections::HashSet;
use std::ops::ControlFlow;

use rustc_hash::FxBuildHasher;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::datetime::{SessionZone, TransactionTime};
use weir_types::text::to_text;
use weir_types::{SqlError, Value};

use super::assertion::Verdict;
use super::program::Program;
use super::write::operation::eval_alone;
use crate::exec::context::Frame;
use crate::storage::{KeyBytes, RowRef, Rows, key::push_key};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    NotNull(TableId, ColumnIndex),
    /// Index into the table's checks.
    Check(TableId, usize),
    /// Index into the table's foreign keys.
    ForeignKey(TableId, usize),
    /// Index into the table's indexes.
    Unique(TableId, usize),
}

pub fn check(constraint: &Constraint, rows: &dyn Rows, program: &Program) -> Result<Verdict, SqlError> {
    let (Constraint::NotNull(table, _)
    | Constraint::Check(table, _)
    | Constraint::ForeignKey(table, _)
    | Constraint::Unique(table, _)) = *constraint;
    let mut seen: HashSet<KeyBytes, FxBuildHasher> = HashSet::default();
    let mut frame = Frame::default();
    let mut verdict = Verdict { holds: true, rows_checked: 0, violation: None };
    let _ = rows.scan(table, &mut |row| {
        verdict.rows_checked += 1;
        if !holds(constraint, rows, program, table, row, &mut seen, &mut frame)? {
            verdict.holds = false;
            verdict.violation = Some(describe(rows, table, row));
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(verdict)
}

fn holds(
    constraint: &Constraint,
    rows: &dyn Rows,
    program: &Program,
    table: TableId,
    row: RowRef,
    seen: &mut HashSet<KeyBytes, FxBuildHasher>,
    frame: &mut Frame,
) -> Result<bool, SqlError> {
    let value = |column: ColumnIndex| rows.value(table, row, column);
    let rules = &program.rules[table.0 as usize];
    Ok(match *constraint {
        Constraint::NotNull(_, column) => !value(column).is_null(),
        Constraint::Check(_, at) => {
            let check = &rules.checks[at];
            frame.grow(check.slots, check.cells);
            for &(column, slot) in &check.columns {
                frame.set(slot, value(column));
            }
            let time = TransactionTime::new(0, SessionZone::current());
            !matches!(eval_alone(&check.expr, frame, time)?, Value::Bool(false))
        }
        Constraint::ForeignKey(_, at) => {
            let rule = &rules.foreign_keys[at];
            let mut key = KeyBytes::new();
            let index = &program.schema.table(rule.parent).indexes[rule.parent_index];
            for (own, column) in rule.key_columns.iter().zip(&index.columns) {
                let value = value(*own);
                if value.is_null() {
                    return Ok(true);
                }
                push_key(&mut key, &value, column);
            }
            rows.get(rule.parent, rule.parent_index, &key).is_some()
        }
        Constraint::Unique(_, at) => {
            let index = &program.schema.table(table).indexes[at];
            let mut key = KeyBytes::new();
            for column in &index.columns {
                let value = column.column.map_or(Value::Null, value);
                if value.is_null() && !index.nulls_not_distinct {
                    return Ok(true);
                }
                push_key(&mut key, &value, column);
            }
            seen.insert(key)
        }
    })
}

fn describe(rows: &dyn Rows, table: TableId, row: RowRef) -> Vec<(String, String)> {
    let schema = rows.schema().table(table);
    let text = |column: ColumnIndex| match rows.value(table, row, column) {
        Value::Null => "NULL".to_string(),
        value => to_text(&value, &schema.types[column]),
    };
    let shown = schema.column_names.iter().enumerate().filter(|(column, _)| !schema.hidden[*column]);
    shown.map(|(column, name)| (name.clone(), text(column))).collect()
}
