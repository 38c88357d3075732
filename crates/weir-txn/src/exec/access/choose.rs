//! Which index serves a table's conditions best.
//!
//! The estimate knows how much of a key is bound: a whole unique key is one row, nothing bound is all of the table, which of a procedure
//! that is being compiled is any number.

use weir_sql::bound::{Expr, ExprKind, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::operator::Comparison;
use weir_types::{SqlError, SqlType};

use super::{Bound, Path, Range, TableAccess, split_columns};
use crate::exec::compiler::Compiler;
use crate::exec::expr::CompiledExpr;
use crate::exec::expr::compile::compile_list;
use crate::exec::walk::{self, Relations};
use crate::storage::{IndexColumn, IndexId, IndexSchema};

/// A condition of the form `column test value`, seen from the column.
#[derive(Clone, Copy)]
struct Term<'a> {
    column: ColumnIndex,
    test: Comparison,
    value: &'a Expr,
    /// Its position among the conditions; BETWEEN gives two terms with different positions.
    position: usize,
}

/// `column IN (…)`.
struct ListTerm<'a> {
    column: ColumnIndex,
    list: &'a [Expr],
    position: usize,
}

/// An index and the conditions that it serves; still in terms of the bound expressions.
pub struct Choice {
    table: TableId,
    relation: RelationId,
    plan: Plan,
    bound_columns: Vec<(ColumnIndex, Expr)>,
    consumed: Vec<bool>,
    pub rows_expected: f64,
}

#[derive(Clone)]
enum Plan {
    Scan,
    Get { index: IndexId, keys: Vec<Expr> },
    Gets { index: IndexId, prefix: Vec<Expr>, list: Vec<Expr> },
    Range { index: IndexId, prefix: Vec<Expr>, lower: Option<(Expr, bool)>, upper: Option<(Expr, bool)> },
}

pub fn choose(
    table: TableId,
    relation: RelationId,
    conditions: &[&Expr],
    unknown: &Relations,
    compiler: &Compiler<'_>,
) -> Choice {
    let table_rows = compiler.rows_of(table);
    let usable = |value: &Expr| {
        let read = walk::relations_read(value);
        !read.contains(&relation) && read.is_disjoint(unknown) && !walk::is_volatile(value)
    };
    let mut terms = Vec::new();
    let mut lists = Vec::new();
    for (position, condition) in conditions.iter().enumerate() {
        collect_terms(condition, position, relation, &usable, &mut terms, &mut lists);
    }
    let mut bound_columns: Vec<(ColumnIndex, Expr)> = Vec::new();
    for term in terms.iter().filter(|term| term.test == Comparison::Equal) {
        if !bound_columns.iter().any(|(column, _)| *column == term.column) {
            bound_columns.push((term.column, term.value.clone()));
        }
    }
    let mut best = Candidate { plan: Plan::Scan, consumed: Vec::new(), rows: table_rows };
    for (index, index_schema) in compiler.schema.table(table).indexes.iter().enumerate() {
        if index_schema.predicate.is_some() {
            continue;
        }
        if let Some(candidate) = candidate((index, index_schema), table_rows, &terms, &lists)
            && candidate.rows < best.rows
        {
            best = candidate;
        }
    }
    let mut consumed = vec![false; conditions.len()];
    best.consumed.iter().for_each(|&position| consumed[position] = true);
    // What the path leaves over thins out further.
    let mut rows_expected = best.rows;
    for term in terms.iter().filter(|term| !consumed[term.position]) {
        rows_expected *= if term.test == Comparison::Equal { 0.1 } else { 0.5 };
    }
    Choice {
        table,
        relation,
        plan: best.plan,
        bound_columns,
        consumed,
        rows_expected: rows_expected.max(1.0),
    }
}

fn collect_terms<'a>(
    condition: &'a Expr,
    position: usize,
    relation: RelationId,
    usable: &dyn Fn(&Expr) -> bool,
    terms: &mut Vec<Term<'a>>,
    lists: &mut Vec<ListTerm<'a>>,
) {
    match &condition.kind {
        ExprKind::Binary { op, left, right } => {
            let Some(test) = Comparison::of(*op).filter(|test| *test != Comparison::NotEqual) else { return };
            for (column, value, test) in [(left, right, test), (right, left, test.mirrored())] {
                if let Some(column) = column_of(column, relation)
                    && usable(value)
                {
                    terms.push(Term { column, test, value, position });
                }
            }
        }
        ExprKind::InList { operand, list, negated: false } => {
            if let Some(column) = column_of(operand, relation)
                && list.iter().all(usable)
            {
                lists.push(ListTerm { column, list, position });
            }
        }
        _ => {}
    }
}

/// The column under casts that keep the order and the bytes of its key.
fn column_of(expr: &Expr, relation: RelationId) -> Option<ColumnIndex> {
    match &expr.kind {
        ExprKind::Column { relation: of, column } if *of == relation => Some(*column),
        ExprKind::Cast { operand, .. } if keeps_the_key(&operand.ty, &expr.ty) => {
            column_of(operand, relation)
        }
        _ => None,
    }
}

fn keeps_the_key(from: &SqlType, to: &SqlType) -> bool {
    match (from, to) {
        (SqlType::Int2, SqlType::Int4 | SqlType::Int8) | (SqlType::Int4, SqlType::Int8) => true,
        (SqlType::Varchar(_) | SqlType::Text, SqlType::Text | SqlType::Varchar(None)) => true,
        (SqlType::Char(_), SqlType::Text | SqlType::Varchar(None)) => true,
        (SqlType::Numeric(_), SqlType::Numeric(None)) => true,
        (from, to) => from == to,
    }
}

struct Candidate {
    plan: Plan,
    consumed: Vec<usize>,
    rows: f64,
}

fn candidate(
    (index, schema): (IndexId, &IndexSchema),
    table_rows: f64,
    terms: &[Term<'_>],
    lists: &[ListTerm<'_>],
) -> Option<Candidate> {
    let mut prefix = Vec::new();
    let mut consumed = Vec::new();
    for column in &schema.columns {
        let Some(term) = term_for(column, terms, |test| test == Comparison::Equal) else { break };
        prefix.push(term.value.clone());
        consumed.push(term.position);
    }
    let total = schema.columns.len();
    let bound = prefix.len();
    if bound == total {
        let plan = match schema.unique {
            true => Plan::Get { index, keys: prefix },
            false => Plan::Range { index, prefix, lower: None, upper: None },
        };
        let rows = if schema.unique { 1.0 } else { 10.0 };
        return Some(Candidate { plan, consumed, rows });
    }
    let next = &schema.columns[bound];
    if bound + 1 == total
        && schema.unique
        && let Some(list) = lists.iter().find(|list| next.column == Some(list.column))
    {
        consumed.push(list.position);
        let rows = list.list.len() as f64;
        return Some(Candidate {
            plan: Plan::Gets { index, prefix, list: list.list.to_vec() },
            consumed,
            rows,
        });
    }
    let lower =
        term_for(next, terms, |test| matches!(test, Comparison::Greater | Comparison::GreaterOrEqual));
    let upper = term_for(next, terms, |test| matches!(test, Comparison::Less | Comparison::LessOrEqual));
    if bound == 0 && lower.is_none() && upper.is_none() {
        return None;
    }
    let fraction = bound as f64 / (total as f64).max(1.0);
    let mut rows = table_rows.powf(1.0 - fraction).min(table_rows / 10.0);
    if bound == 0 {
        rows = table_rows;
    }
    let end = |term: Option<&Term<'_>>, rows: &mut f64| {
        term.map(|term| {
            *rows *= 0.25;
            let inclusive = matches!(term.test, Comparison::GreaterOrEqual | Comparison::LessOrEqual);
            (term.value.clone(), inclusive)
        })
    };
    consumed.extend(lower.iter().chain(&upper).map(|term| term.position));
    let (lower, upper) = (end(lower, &mut rows), end(upper, &mut rows));
    Some(Candidate { plan: Plan::Range { index, prefix, lower, upper }, consumed, rows })
}

fn term_for<'t, 'a>(
    column: &IndexColumn,
    terms: &'t [Term<'a>],
    accepts: impl Fn(Comparison) -> bool,
) -> Option<&'t Term<'a>> {
    let column = column.column?;
    terms.iter().find(|term| term.column == column && accepts(term.test))
}

impl Choice {
    pub fn is_single(&self) -> bool {
        matches!(self.plan, Plan::Get { .. })
    }

    pub fn consumes(&self, position: usize) -> bool {
        self.consumed[position]
    }

    pub fn compile(self, conditions: &[&Expr], compiler: &mut Compiler<'_>) -> Result<TableAccess, SqlError> {
        let left: Vec<&Expr> = conditions
            .iter()
            .zip(&self.consumed)
            .filter(|(_, consumed)| !**consumed)
            .map(|(condition, _)| *condition)
            .collect();
        let mut filter = Vec::with_capacity(left.len());
        for condition in &left {
            filter.push(CompiledExpr::compile(condition, compiler)?);
        }
        let mut bound_columns = Vec::with_capacity(self.bound_columns.len());
        for (column, value) in &self.bound_columns {
            bound_columns.push((*column, CompiledExpr::compile(value, compiler)?));
        }
        let path = compile_path(self.plan, compiler)?;
        if let Path::Get { index, .. } | Path::Gets { index, .. } = &path {
            compiler.slots.looked_up.insert((self.table, *index));
        }
        let columns = split_columns(self.relation, &left, compiler);
        Ok(TableAccess {
            table: self.table,
            relation: self.relation,
            path,
            bound_columns,
            filter,
            filter_columns: columns.in_filter,
            other_columns: columns.others,
            row_slot: columns.row_slot,
        })
    }
}

fn compile_path(plan: Plan, compiler: &mut Compiler<'_>) -> Result<Path, SqlError> {
    let bound = |end: Option<(Expr, bool)>, compiler: &mut Compiler<'_>| {
        end.map(|(value, inclusive)| {
            CompiledExpr::compile(&value, compiler).map(|value| Bound { value, inclusive })
        })
        .transpose()
    };
    Ok(match plan {
        Plan::Scan => Path::Scan,
        Plan::Get { index, keys } => Path::Get { index, keys: compile_list(&keys, compiler)? },
        Plan::Gets { index, prefix, list } => Path::Gets {
            index,
            prefix: compile_list(&prefix, compiler)?,
            list: compile_list(&list, compiler)?,
        },
        Plan::Range { index, prefix, lower, upper } => Path::Range(Range {
            index,
            prefix: compile_list(&prefix, compiler)?,
            lower: bound(lower, compiler)?,
            upper: bound(upper, compiler)?,
            reverse: false,
        }),
    })
}
