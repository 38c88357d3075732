//! An INSERT of many rows of VALUES: a text of one row, and its rows as arguments. So it is judged and compiled once whatever the number
//! of rows is, and they go to their shards in batches, as those of COPY do.

use std::sync::Arc;

use weir_net::clock::transaction_time;
use weir_sql::bound::{Expr, ExprKind, Insert, InsertSource, OutputColumn, Query, Select};
use weir_sql::of_one_row;
use weir_sql::walk::{changing, has_subquery};
use weir_txn::exec::gather::Gather;
use weir_types::{SqlError, Value};

use crate::CallResult;
use crate::calls::Callable;
use crate::carrier::now_ms;
use crate::load::{Batch, Load, LoadedTable};
use crate::prepared::{Prepared, What, prepare};

/// Fewer rows are steps of one procedure.
const ROWS_MIN: usize = 9;

#[derive(Debug)]
pub struct Many {
    /// The INSERT of one row.
    one: Prepared,
    table: LoadedTable,
    rows: Vec<Vec<Given>>,
    /// Gives, as one row, what has to be worked out.
    computed: Option<Gather>,
}

/// A value of a row.
#[derive(Debug)]
enum Given {
    Value(Value),
    Parameter(usize),
    Computed(usize),
}

impl Many {
    /// `None`: it has few rows, or they are not alike.
    pub(crate) fn of(of: &Arc<Callable>, text: &str, insert: &Insert, parameters: usize) -> Option<Many> {
        let InsertSource::Values(rows) = &insert.source else { return None };
        let is_plain = |value: &Expr| changing(value).is_none() && !has_subquery(value);
        if rows.len() < ROWS_MIN || !rows.iter().flatten().all(is_plain) {
            return None;
        }
        let one = prepare(of, &of_one_row(text, rows[0].len())?, &[]).ok()?;
        let What::Write { text: own, constants, .. } = &one.what else { return None };
        let compiled = of.program.text(own).ok()?;
        if !compiled.procedure.takes_rows() || own.types.len() != rows[0].len() + constants.len() {
            return None;
        }
        let mut computed = Vec::new();
        let given = |value: &Expr| match &value.kind {
            ExprKind::Literal(value) => Given::Value(value.clone()),
            ExprKind::Variable(variable) => Given::Parameter(variable.0 as usize),
            _ => {
                computed.push(value.clone());
                Given::Computed(computed.len() - 1)
            }
        };
        let mut given = given;
        let rows = rows.iter().map(|row| row.iter().map(&mut given).collect()).collect();
        let computed = match computed.is_empty() {
            true => None,
            false => Some(Gather::compile(&row_of(computed), parameters, &of.program).ok()?),
        };
        let table =
            LoadedTable::of(&of.application.catalog, &of.application.catalog.table(insert.table).name, &[]);
        Some(Many { one, table: table.ok()?, rows, computed })
    }

    /// The INSERT of one row.
    pub(crate) fn one(&self) -> &Prepared {
        &self.one
    }

    pub(crate) fn batches(&self, of: &Callable, values: &[Value]) -> Result<Vec<Batch>, SqlError> {
        let now = transaction_time(now_ms());
        let computed = match &self.computed {
            Some(gather) => of.work_out(gather, values, now)?,
            None => Vec::new(),
        };
        let What::Write { text, constants, .. } = &self.one.what else { return Ok(Vec::new()) };
        let mut load = Load::of_text(of.program.clone(), self.table.clone(), text.clone())?;
        let mut batches = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            let value = |given: &Given| match given {
                Given::Value(value) => value.clone(),
                Given::Parameter(at) => values.get(*at).cloned().unwrap_or_default(),
                Given::Computed(at) => computed.get(*at).cloned().unwrap_or_default(),
            };
            let row = row.iter().map(value).chain(constants.iter().cloned()).collect();
            batches.extend(load.push(row, at as u64));
        }
        batches.extend(std::iter::from_fn(|| load.rest()));
        Ok(batches)
    }
}

/// `SELECT a, b, …`.
fn row_of(outputs: Vec<Expr>) -> Query {
    let column = |output: &Expr| OutputColumn { name: String::new(), ty: output.ty.clone() };
    let columns = outputs.iter().map(column).collect();
    let span = outputs.first().map_or_else(Default::default, |output| output.span);
    Query::of_select(Select::plain(outputs, Vec::new(), None), columns, span)
}

impl Prepared {
    /// It is an INSERT of many rows.
    pub fn has_batches(&self) -> bool {
        matches!(self.what, What::Many(_))
    }

    /// It is an INSERT of many rows: these are its batches. One alone may run by itself; several are statements of one transaction.
    ///
    /// # Errors
    /// A value cannot be worked out, or does not fit its column.
    pub fn batches(&self, values: &[Value]) -> Option<Result<Vec<Batch>, SqlError>> {
        let What::Many(many) = &self.what else { return None };
        Some(many.batches(&self.of, values))
    }

    /// What its batches have done: how many rows, and the rows of RETURNING in the order of VALUES as far as each has given one.
    pub fn of_batches(&self, done: Vec<(CallResult, Vec<u64>)>) -> CallResult {
        let mut count = 0;
        let (mut placed, mut rest) = (Vec::new(), Vec::new());
        for (result, places) in done {
            if let Some(Value::Int(written)) = result.values.first() {
                count += written;
            }
            match result.rows.len() == places.len() {
                true => placed.extend(places.into_iter().zip(result.rows)),
                false => rest.extend(result.rows),
            }
        }
        placed.sort_by_key(|(place, _)| *place);
        let rows = placed.into_iter().map(|(_, row)| row).chain(rest).collect();
        CallResult { names: self.names.clone(), values: vec![Value::Int(count)], rows }
    }
}
