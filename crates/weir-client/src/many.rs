//! An INSERT of many rows, of VALUES or of a query over several shards: a text of one row, and its rows as arguments. So it is judged and
//! compiled once whatever the number of rows is, and they go to their shards in batches, as those of COPY do.

use std::sync::Arc;

use weir_sql::bound::{Expr, ExprKind, Insert, InsertSource, OutputColumn, Query, QueryBody, Select};
use weir_sql::walk::{each_expr, has_subquery, uncast};
use weir_sql::{ParsedText, Text, of_one_row, of_rows_of_query};
use weir_txn::exec::gather::Gather;
use weir_txn::exec::program::CompiledText;
use weir_types::{SqlError, SqlState, SqlType, Value};

use crate::CallResult;
use crate::calls::{Callable, argument, begins_now};
use crate::load::{Batch, Load, LoadedTable};
use crate::prepared::{Prepared, What, prepare};

/// Fewer rows are steps of one procedure.
const ROWS_MIN: usize = 9;

#[derive(Debug)]
pub struct Many {
    /// The INSERT of one row.
    one: Prepared,
    table: LoadedTable,
    source: Source,
    /// Each row is a batch, in their order: it may be met by those after it, on any shard.
    one_by_one: bool,
}

#[derive(Debug)]
enum Source {
    Values {
        rows: Vec<Vec<Given>>,
        /// Gives, as one row, what has to be worked out.
        computed: Option<Gather>,
    },
    Query(Box<Prepared>),
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
    pub(crate) fn of(
        of: &Arc<Callable>,
        parsed: &ParsedText<'_>,
        insert: &Insert,
        parameters: usize,
    ) -> Option<Many> {
        let InsertSource::Values(rows) = &insert.source else { return None };
        let is_plain = |value: &Expr| !takes_number(value) && !has_subquery(value);
        let one_by_one = of.program.arbitrates_globally(insert);
        let rows_min = if one_by_one { 2 } else { ROWS_MIN };
        if rows.len() < rows_min || !rows.iter().flatten().all(is_plain) {
            return None;
        }
        // Generated columns are behind those that are given.
        let generated = of.application.catalog.table(insert.table).columns.iter();
        let width = rows[0].len() - generated.filter(|column| column.generated.is_some()).count();
        let one = prepare(of, &of_one_row(parsed, width)?, &[]).ok()?;
        takes_rows(of, &one, width)?;
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
        let rows = rows.iter().map(|row| row[..width].iter().map(&mut given).collect()).collect();
        let computed = match computed.is_empty() {
            true => None,
            false => Some(Gather::compile(&row_of(computed), parameters, &of.program).ok()?),
        };
        Some(Many {
            one,
            table: table_of(of, insert)?,
            source: Source::Values { rows, computed },
            one_by_one,
        })
    }

    /// An INSERT … SELECT whose rows may live on other shards than their sources. `None`: one shard runs it alone, or its query is
    /// none by itself.
    pub(crate) fn of_query(
        of: &Arc<Callable>,
        parsed: &ParsedText<'_>,
        insert: &Insert,
        parameters: &[SqlType],
    ) -> Option<Many> {
        let InsertSource::Query(query) = &insert.source else { return None };
        let own = Text { sql: parsed.text().to_owned(), types: parameters.to_vec() };
        let stays = |text: Arc<CompiledText>| {
            let participants = &text.procedure.participants;
            !participants.keys.is_empty() && !participants.everywhere && participants.unsupported.is_none()
        };
        let one_by_one = of.program.arbitrates_globally(insert);
        let is_copied = of.program.partition(insert.table).is_none();
        let may_stay = !one_by_one && (is_copied || keeps_homes(of, insert, query));
        if of.program.shards == 1 || may_stay && of.program.text(&own).is_ok_and(stays) {
            return None;
        }
        let generated = of.application.catalog.table(insert.table).columns.iter();
        let width = query.columns.len() - generated.filter(|column| column.generated.is_some()).count();
        let (one, select) = of_rows_of_query(parsed, width)?;
        let query = prepare(of, &select, parameters).ok()?;
        if !query.reads_only() || query.columns().len() != width {
            return None;
        }
        // A constant of no type has become a text: what it is as a value of the column is told when it is there.
        let known = |column: &OutputColumn| match column.ty {
            SqlType::Text => SqlType::Unknown,
            ref ty => ty.clone(),
        };
        let types: Vec<SqlType> = query.columns().iter().map(known).collect();
        let one = prepare(of, &one, &types).ok()?;
        takes_rows(of, &one, width)?;
        Some(Many { one, table: table_of(of, insert)?, source: Source::Query(Box::new(query)), one_by_one })
    }

    /// The INSERT of one row.
    pub(crate) fn one(&self) -> &Prepared {
        &self.one
    }

    /// Batches of an INSERT … VALUES.
    pub(crate) fn batches(&self, of: &Callable, values: &[Value]) -> Result<Vec<Batch>, SqlError> {
        let Source::Values { rows, computed } = &self.source else {
            let message = "an INSERT of a query over several shards runs in batches";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("run the query, and ask for the batches of its rows"));
        };
        let computed = match computed {
            Some(gather) => of.work_out(gather, values, begins_now())?,
            None => Vec::new(),
        };
        let value = |given: &Given| match given {
            Given::Value(value) => value.clone(),
            Given::Parameter(at) => values.get(*at).cloned().unwrap_or_default(),
            Given::Computed(at) => computed.get(*at).cloned().unwrap_or_default(),
        };
        self.loaded(of, rows.iter().map(|row| Ok(row.iter().map(value).collect())))
    }

    fn loaded(
        &self,
        of: &Callable,
        rows: impl Iterator<Item = Result<Vec<Value>, SqlError>>,
    ) -> Result<Vec<Batch>, SqlError> {
        let What::Write { text, constants, .. } = &self.one.what else { return Ok(Vec::new()) };
        let mut load = Load::of_text(of.program.clone(), self.table.clone(), text.clone())?;
        let mut batches = Vec::new();
        for (at, row) in rows.enumerate() {
            let mut row = row?;
            row.extend(constants.iter().cloned());
            batches.extend(load.push(&mut row, at as u64));
            if self.one_by_one {
                batches.extend(load.rest());
            }
        }
        batches.extend(std::iter::from_fn(|| load.rest()));
        Ok(batches)
    }
}

/// A sequence is asked at a shard. The time, and what is of chance, can be worked out before.
fn takes_number(value: &Expr) -> bool {
    let mut takes = false;
    each_expr(value, &mut |part| {
        takes |= matches!(part.kind, ExprKind::NextValue(_) | ExprKind::CurrentValue(_));
    });
    takes
}

/// Each row comes to live where the row lives that it is made of.
fn keeps_homes(of: &Callable, insert: &Insert, query: &Query) -> bool {
    let (QueryBody::Select(select), Some(partition)) = (&query.body, of.program.partition(insert.table))
    else {
        return false;
    };
    let homes = weir_sql::walk::tables(query);
    let is_home = |(at, column): (usize, &usize)| {
        let given = insert.columns.iter().position(|one| one == column);
        let output = given.and_then(|given| select.outputs.get(given)).map(uncast);
        let Some(ExprKind::Column { relation, column }) = output.map(|output| &output.kind) else {
            return false;
        };
        let table =
            homes.iter().find(|(of, _)| of == relation).and_then(|(_, table)| of.program.partition(*table));
        table.is_some_and(|columns| columns.len() == partition.len() && columns[at] == *column)
    };
    partition.iter().enumerate().all(is_home)
}

fn table_of(of: &Callable, insert: &Insert) -> Option<LoadedTable> {
    let catalog = &of.application.catalog;
    LoadedTable::of(catalog, &catalog.table(insert.table).name, &[]).ok()
}

/// Checks that the INSERT of one row can run for many rows of `width` values.
fn takes_rows(of: &Callable, one: &Prepared, width: usize) -> Option<()> {
    let What::Write { text, constants, .. } = &one.what else { return None };
    let compiled = of.program.text(text).ok()?;
    (compiled.procedure.takes_rows() && text.types.len() == width + constants.len()).then_some(())
}

/// `SELECT a, b, …`.
fn row_of(outputs: Vec<Expr>) -> Query {
    let column = |output: &Expr| OutputColumn::new(String::new(), output.ty.clone());
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

    /// It is an INSERT of many rows, and what they have to fulfil together is looked at behind the last batch.
    pub fn has_statement_checks(&self) -> bool {
        let What::Many(many) = &self.what else { return false };
        let What::Write { text, .. } = &many.one.what else { return false };
        let compiled = self.of.program.text(text);
        compiled.is_ok_and(|compiled| compiled.procedure.has_statement_checks(&self.of.program))
    }

    /// The query whose rows it inserts.
    pub fn source(&self) -> Option<&Prepared> {
        match &self.what {
            What::Many(many) => match &many.source {
                Source::Query(query) => Some(query),
                Source::Values { .. } => None,
            },
            _ => None,
        }
    }

    /// Its batches, of the rows that its query has given.
    ///
    /// # Errors
    /// A value does not fit its column.
    pub fn batches_of(&self, rows: Vec<Vec<Value>>) -> Result<Vec<Batch>, SqlError> {
        let What::Many(many) = &self.what else { return Ok(Vec::new()) };
        let types = many.one.parameters();
        let fit = |row: Vec<Value>| row.iter().zip(types).map(|(value, ty)| argument(value, ty)).collect();
        many.loaded(&self.of, rows.into_iter().map(fit))
    }

    /// Combines the results of its batches: number of rows, and the rows of RETURNING in the order of VALUES.
    pub fn of_batches(&self, done: Vec<(CallResult, Vec<u64>)>) -> CallResult {
        let mut count = 0;
        let (mut placed, mut rest) = (Vec::new(), Vec::new());
        let last = done.iter().max_by_key(|(_, places)| places.last().copied());
        // All rows use the same sequences.
        let given = last.map_or_else(Vec::new, |(result, _)| result.given.clone());
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
        let (names, values) = (self.names.clone(), vec![Value::Int(count)]);
        // An INSERT says nothing.
        CallResult { names, values, rows, given, notices: Vec::new() }
    }
}
