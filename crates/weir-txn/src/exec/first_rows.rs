//! FOR UPDATE with LIMIT over several shards. No shard knows which of its rows are among the first of all, so the coordinator reads
//! candidates without locks, in the order of the query, and locks one after the other where it lives, until there are enough. So no row is
//! locked that does not count for OFFSET and LIMIT, as in PostgreSQL (docs/internals/row-locks.md).
//!
//! Invariant: a row that is given is locked, and satisfied the condition when it was.

use std::sync::Arc;

use weir_sql::bound::{Expr, ExprKind, FromItem, OutputColumn, Query, QueryBody, Select, VariableId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::{Text, walk};
use weir_types::datetime::TransactionTime;
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::assertion::{column_of, equal_to_variables};
use super::call_steps::not_asked;
use super::context::{Cx, Frame};
use super::expr::CompiledExpr;
use super::names::Name;
use super::plpgsql::interpreter::{Execution, Stopped};
use super::program::{CompiledProcedure, Program};
use super::query::{ValueSet, row_count};
use super::routing::Router;
use super::sequences::Sequences;
use crate::message::Output;
use crate::storage::rows::NoRows;

/// Number of candidates that are read besides those that are wanted: others may hold the first ones.
const SPARE: usize = 16;

/// Most candidates that the first query asks for. Each query after it asks for twice as many as the one before.
const FIRST_BATCH_MAX: usize = 1_024;

/// The queries of such a statement.
pub(super) struct FirstRows {
    /// Keys of the rows, in order; LIMIT is the parameter behind the statement's.
    pub candidates: Query,
    /// The statement for the row whose key is in the parameters behind the statement's.
    pub candidate: Query,
    /// Types of that key.
    pub key: Vec<SqlType>,
}

impl FirstRows {
    /// `parameters`: number of those of the statement. `None`: it is no such statement, or its rows have no key.
    pub fn of(router: &Router<'_>, query: &Query, parameters: usize) -> Option<FirstRows> {
        let catalog = router.catalog;
        let QueryBody::Select(select) = &query.body else { return None };
        let [FromItem::Table { relation, table, .. }] = select.from[..] else { return None };
        let is_count = |expr: &Expr| !walk::has_subquery(expr) && !walk::is_volatile(expr);
        let counts = [&query.limit, &query.offset];
        if query.limit.is_none()
            || query.locks.is_empty()
            || query.with_ties
            || !query.ctes.is_empty()
            || !counts.into_iter().flatten().all(is_count)
        {
            return None;
        }
        let key = key_of(router, table)?;
        let columns: Vec<Expr> =
            key.iter().map(|&column| column_of(relation, table, column, catalog)).collect();
        let key_types: Vec<SqlType> = columns.iter().map(|column| column.ty.clone()).collect();
        let is_it = equal_to_variables((relation, table), &key, parameters, catalog);
        Some(FirstRows {
            candidates: candidates(query, select, columns, parameters),
            candidate: candidate(query, select, is_it),
            key: key_types,
        })
    }
}

/// Columns that say which row it is, and where it lives.
fn key_of(router: &Router<'_>, of: TableId) -> Option<Vec<ColumnIndex>> {
    let table = router.catalog.table(of);
    let mut key = table.primary_key.as_ref()?.columns.clone();
    for &column in router.partition(of).unwrap_or_default() {
        if !key.contains(&column) && table.columns[column].not_null {
            key.push(column);
        }
    }
    Some(key)
}

fn candidates(query: &Query, select: &Select, key: Vec<Expr>, parameters: usize) -> Query {
    let columns = key.iter().map(|column| OutputColumn::new(String::new(), column.ty.clone())).collect();
    let mut outputs = key;
    let mut order_by = query.order_by.clone();
    for one in &mut order_by {
        outputs.push(select.outputs[one.output].clone());
        one.output = outputs.len() - 1;
    }
    let select = Select::plain(outputs, select.from.clone(), select.filter.clone());
    let limit = ExprKind::Variable(VariableId(parameters as u32));
    Query {
        order_by,
        limit: Some(Expr { kind: limit, ty: SqlType::Int8, span: query.span }),
        ..Query::of_select(select, columns, query.span)
    }
}

fn candidate(query: &Query, select: &Select, is_it: Vec<Expr>) -> Query {
    let outputs = select.outputs[..query.columns.len()].to_vec();
    let filter = is_it.into_iter().chain(select.filter.clone()).collect();
    let filter = Expr { kind: ExprKind::And(filter), ty: SqlType::Bool, span: query.span };
    let select = Select::plain(outputs, select.from.clone(), Some(filter));
    Query { locks: query.locks.clone(), ..Query::of_select(select, query.columns.clone(), query.span) }
}

/// Such a statement, compiled: LIMIT and OFFSET are over its parameters.
#[derive(Debug)]
pub struct CompiledFirstRows {
    pub(super) key: Vec<SqlType>,
    pub(super) limit: CompiledExpr,
    pub(super) offset: Option<CompiledExpr>,
}

/// A statement that locks its first rows.
#[derive(Debug)]
pub struct LocksFirstRows {
    candidates: Arc<Text>,
    candidate: Arc<Text>,
    args: Vec<Value>,
    /// Whether it takes interval locks of what it reads.
    locks: bool,
    /// Number of rows that are still to be locked and not given: OFFSET.
    skipped: usize,
    /// Number of rows that are still to be locked and given: LIMIT.
    wanted: usize,
    /// Number of candidates that the next query asks for.
    batch: usize,
    /// Candidates that have not been tried.
    left: std::vec::IntoIter<Vec<Value>>,
    /// There are no others than those that have been read.
    are_all: bool,
    /// Keys of the candidates that have been tried.
    tried: ValueSet,
    rows: Vec<Vec<Value>>,
    /// Answers of its parts besides their rows.
    output: Output,
}

impl LocksFirstRows {
    /// `None`: the statement is no such one.
    ///
    /// # Errors
    /// It cannot be compiled, or LIMIT or OFFSET is none.
    pub fn of(
        program: &Program,
        (text, args, locks): (&Text, &[Value], bool),
        transaction_time: TransactionTime,
    ) -> Result<Option<LocksFirstRows>, SqlError> {
        let compiled = program.text(text).map_err(|wrong| wrong.error)?;
        let procedure = &compiled.procedure;
        let Some(first) = &procedure.first_rows else { return Ok(None) };
        if procedure.participants.of(args, program.shards).len() < 2 {
            return Ok(None);
        }
        let (wanted, skipped) = counts(program, (procedure, first), args, transaction_time)?;
        let (own, of) = (text.types.len(), &*text.sql);
        let limit = [SqlType::Int8];
        let named = |name: Name<'_>, more: &[SqlType]| {
            Arc::new(Text { sql: name.to_string(), types: [&text.types, more].concat() })
        };
        Ok(Some(LocksFirstRows {
            candidates: named(Name::Candidates { own, of }, &limit),
            candidate: named(Name::Candidate { own, of }, &first.key),
            args: args.to_vec(),
            locks,
            skipped,
            wanted,
            batch: wanted.saturating_add(skipped).min(FIRST_BATCH_MAX) + SPARE,
            left: Vec::new().into_iter(),
            are_all: false,
            tried: ValueSet::default(),
            rows: Vec::new(),
            output: Output::default(),
        }))
    }

    /// Its next part, or its end.
    pub fn run(&mut self) -> Stopped {
        if self.wanted == 0 {
            return self.end();
        }
        for key in self.left.by_ref() {
            if self.tried.insert(&key) {
                let args = [&self.args[..], &key].concat();
                let (text, locks) = (self.candidate.clone(), self.locks);
                return Stopped::Executes(Execution::Statement { text, args, locks });
            }
        }
        if self.are_all {
            return self.end();
        }
        let limit = Value::Int(i64::try_from(self.batch).unwrap_or(i64::MAX));
        let args = [&self.args[..], &[limit]].concat();
        let (text, locks) = (self.candidates.clone(), self.locks);
        Stopped::Executes(Execution::Query { text, args, locks })
    }

    fn end(&mut self) -> Stopped {
        let (rows, output) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.output));
        Stopped::Ends(Output { values: vec![Value::Int(rows.len() as i64)], rows, ..output })
    }

    /// Takes candidates.
    pub fn take_rows(&mut self, rows: Vec<Vec<Value>>) {
        self.are_all = rows.len() < self.batch;
        self.batch = self.batch.saturating_mul(2);
        self.left = rows.into_iter();
    }

    /// Takes the row of a candidate; none: others hold it, or it satisfies the condition no longer.
    ///
    /// # Errors
    /// There is more than one.
    pub fn take_output(&mut self, output: Output) -> Result<(), SqlError> {
        let Output { rows, given, notices, .. } = output;
        self.output.given.retain(|one| !given.iter().any(|later| later.sequence == one.sequence));
        self.output.given.extend(given);
        self.output.notices.extend(notices);
        let mut rows = rows.into_iter();
        match (rows.next(), rows.next()) {
            (None, _) => {}
            (Some(_), None) if self.skipped > 0 => self.skipped -= 1,
            (Some(row), None) => {
                self.wanted -= 1;
                self.rows.push(row);
            }
            (Some(_), Some(_)) => return Err(not_asked()),
        }
        Ok(())
    }
}

/// LIMIT, where NULL is no limit, and OFFSET.
fn counts(
    program: &Program,
    (procedure, first): (&CompiledProcedure, &CompiledFirstRows),
    args: &[Value],
    transaction_time: TransactionTime,
) -> Result<(usize, usize), SqlError> {
    let mut frame = Frame::default();
    frame.grow(procedure.slots, procedure.cells);
    for (input, value) in procedure.inputs.iter().zip(args) {
        frame.set(input.slot, value.clone());
    }
    frame.begin_statement();
    let _zone = transaction_time.zone.enter();
    let mut sequences = Sequences::seeded(0);
    let mut environment = sequences.environment(program, program.shards, transaction_time);
    let mut cx = Cx { frame: &mut frame, rows: &NoRows, transaction_time, environment: &mut environment };
    let mut count =
        |expr: Option<&CompiledExpr>, clause: &str, state: SqlState| row_count(expr, clause, state, &mut cx);
    let skipped = count(first.offset.as_ref(), "OFFSET", SqlState::INVALID_ROW_COUNT_IN_OFFSET)?;
    let wanted = count(Some(&first.limit), "LIMIT", SqlState::INVALID_ROW_COUNT_IN_LIMIT)?;
    Ok((wanted.unwrap_or(usize::MAX), skipped.unwrap_or(0)))
}
