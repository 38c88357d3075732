//! Whether two answers to a statement are alike.

use super::Step;
use super::queries::Order;
use crate::on_shards::{Answer, Row};

pub enum Verdict {
    Alike,
    /// With this SQLSTATE.
    BothFail(String),
    /// Weir says that it does not support it.
    Refused(String),
    /// They may differ, for this reason.
    Tolerated(&'static str),
    Different,
}

const NOT_SUPPORTED: &str = "0A000";
const FOREIGN_KEY: &str = "23503";
const CANCELED: &str = "57014";

pub fn verdict(step: &Step, expected: &Answer, found: &Answer) -> Verdict {
    match (expected, found) {
        (Answer::Error(state, _), _) if state == CANCELED => Verdict::Tolerated("PostgreSQL takes too long"),
        (Answer::Error(one, _), Answer::Error(other, _)) if one == other => Verdict::BothFail(one.clone()),
        (Answer::Rows { .. }, Answer::Error(state, _))
            if state == FOREIGN_KEY && step.sql.contains(" ON CONFLICT ") =>
        {
            Verdict::Tolerated("known: parents are looked for of rows that ON CONFLICT does not insert")
        }
        (_, Answer::Error(state, words)) if state == NOT_SUPPORTED => Verdict::Refused(words.clone()),
        (Answer::Error(state, _), _) if state == NOT_SUPPORTED => {
            Verdict::Tolerated("PostgreSQL does not support it")
        }
        (Answer::Error(one, _), Answer::Error(other, _)) => {
            if is_of_data(one) && is_of_data(other) {
                Verdict::Tolerated("two expressions fail, and the other one was met first")
            } else if step.is_write && is_of_row(one) && is_of_row(other) {
                Verdict::Tolerated("two rows fail, and the other one was met first")
            } else if step.is_write
                && (is_of_data(one) && other == FOREIGN_KEY || one == FOREIGN_KEY && is_of_data(other))
            {
                Verdict::Tolerated("an expression fails that the other does not work out")
            } else {
                Verdict::Different
            }
        }
        // PostgreSQL's documentation, 4.2.14: the order of evaluation of subexpressions is not defined; conditions are moved to where
        // rows are fewest, and what a query does not need is not worked out.
        (Answer::Error(state, _), Answer::Rows { .. }) | (Answer::Rows { .. }, Answer::Error(state, _)) => {
            if is_of_data(state) {
                Verdict::Tolerated("an expression fails that the other does not work out")
            } else {
                Verdict::Different
            }
        }
        (Answer::Rows { .. }, Answer::Rows { .. }) => {
            if are_alike(expected, found, &step.order) {
                Verdict::Alike
            } else {
                Verdict::Different
            }
        }
    }
}

fn is_of_data(state: &str) -> bool {
    state.starts_with("22")
}

/// Errors that PostgreSQL raises at the row that has them, in the order of the rows; foreign keys are looked at when all are written.
fn is_of_row(state: &str) -> bool {
    is_of_data(state) || ["23502", "23505", "23514"].contains(&state)
}

fn are_alike(expected: &Answer, found: &Answer, order: &Order) -> bool {
    let (
        Answer::Rows { columns, rows, count },
        Answer::Rows { columns: other_columns, rows: others, count: other_count },
    ) = (expected, found)
    else {
        return false;
    };
    if columns != other_columns || count != other_count {
        return false;
    }
    let is_numeric: Vec<bool> = columns.iter().map(|(_, ty)| ty == "numeric").collect();
    let keys = |rows: &[Row], by: &[usize]| -> Vec<Row> {
        let value = |row: &Row, at: usize| {
            row[at].as_ref().map(|text| if is_numeric[at] { shortened(text) } else { text.clone() })
        };
        rows.iter().map(|row| by.iter().map(|at| value(row, *at)).collect()).collect()
    };
    let is_in_order = match order {
        Order::Any => true,
        Order::By(columns) => keys(rows, columns) == keys(others, columns),
        Order::Total => rows == others,
    };
    let sorted = |rows: &[Row]| {
        let mut rows = rows.to_vec();
        rows.sort();
        rows
    };
    is_in_order && sorted(rows) == sorted(others)
}

/// Without zeros at the end: numerics that are equal may have different ones.
fn shortened(numeric: &str) -> String {
    match numeric.contains('.') {
        true => numeric.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => numeric.to_owned(),
    }
}
