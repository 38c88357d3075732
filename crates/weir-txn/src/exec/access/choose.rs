//! Choice of the index that serves a table's conditions best.
//!
//! Cost estimate by bound key columns: a full unique key gives one row; no bound column gives the whole table, whose size is unknown when
//! a procedure is compiled.

use weir_sql::bound::{BinaryOp, Expr, ExprKind, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::operator::Comparison;
use weir_types::{SqlError, SqlType};

use super::{Bound, ListKeys, Path, Range, TableAccess, split_columns};
use crate::exec::compiler::Compiler;
use crate::exec::expr::CompiledExpr;
use crate::exec::expr::compile::compile_list;
use crate::exec::folding::is_never;
use crate::exec::walk::{self, Relations};
use crate::storage::{IndexColumn, IndexId, IndexSchema};

/// A condition of the form `column test value`, normalised to the column's side.
#[derive(Clone, Copy)]
struct Term<'a> {
    column: ColumnIndex,
    test: Comparison,
    value: &'a Expr,
    /// Position among the conditions; BETWEEN yields two terms, with different positions.
    position: usize,
}

/// `column IN (…)` or `column = ANY (array)`.
#[derive(Clone, Copy)]
struct ListTerm<'a> {
    column: ColumnIndex,
    list: ListValues<'a>,
    position: usize,
}

#[derive(Clone, Copy)]
enum ListValues<'a> {
    Each(&'a [Expr]),
    Array(&'a Expr),
}

/// Assumed number of elements of an array of unknown length.
const ARRAY_VALUES: f64 = 10.0;

/// Largest number of alternatives of a disjunction that are looked up one by one.
const ALTERNATIVES_MAX: usize = 10_000;

/// A chosen index and the conditions that it serves, before compilation.
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
    Gets { index: IndexId, prefix: Vec<Expr>, list: PlannedList },
    Range { index: IndexId, prefix: Vec<Expr>, lower: Option<(Expr, bool)>, upper: Option<(Expr, bool)> },
    Union(Vec<Plan>),
}

#[derive(Clone)]
enum PlannedList {
    Each(Vec<Expr>),
    Array(Expr),
}

/// Conditions on single columns.
#[derive(Clone, Default)]
struct Terms<'a> {
    singles: Vec<Term<'a>>,
    lists: Vec<ListTerm<'a>>,
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
    let mut terms = Terms::default();
    for (position, condition) in conditions.iter().enumerate() {
        terms.collect(condition, position, relation, &usable);
    }
    let mut bound_columns: Vec<(ColumnIndex, Expr)> = Vec::new();
    for term in terms.singles.iter().filter(|term| term.test == Comparison::Equal) {
        if !bound_columns.iter().any(|(column, _)| *column == term.column) {
            bound_columns.push((term.column, term.value.clone()));
        }
    }
    let of =
        OfTable { table_rows, indexes: &compiler.schema.table(table).indexes, relation, usable: &usable };
    let best = match compiler.finds_nothing || conditions.iter().any(|condition| is_never(condition)) {
        true => Candidate { plan: Plan::Union(Vec::new()), consumed: Vec::new(), rows: 0.0 },
        false => of.best(&terms, conditions),
    };
    let mut consumed = vec![false; conditions.len()];
    best.consumed.iter().for_each(|&position| consumed[position] = true);
    // The remaining conditions reduce the rows further.
    let mut rows_expected = best.rows;
    for term in terms.singles.iter().filter(|term| !consumed[term.position]) {
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

impl<'a> Terms<'a> {
    fn collect(
        &mut self,
        condition: &'a Expr,
        position: usize,
        relation: RelationId,
        usable: &dyn Fn(&Expr) -> bool,
    ) {
        match &condition.kind {
            ExprKind::Binary { op, left, right } => {
                let Some(test) = Comparison::of(*op).filter(|test| *test != Comparison::NotEqual) else {
                    return;
                };
                for (column, value, test) in [(left, right, test), (right, left, test.mirrored())] {
                    if let Some(column) = column_of(column, relation)
                        && usable(value)
                    {
                        self.singles.push(Term { column, test, value, position });
                    }
                }
            }
            ExprKind::InList { operand, list, negated: false } => {
                if let Some(column) = column_of(operand, relation)
                    && list.iter().all(usable)
                {
                    self.lists.push(ListTerm { column, list: ListValues::Each(list), position });
                }
            }
            ExprKind::ArrayCompare { op: BinaryOp::Equal, left, array, all: false } => {
                if let Some(column) = column_of(left, relation)
                    && usable(array)
                {
                    self.lists.push(ListTerm { column, list: ListValues::Array(array), position });
                }
            }
            _ => {}
        }
    }
}

/// Alternatives of a disjunction, each as a list of conjuncts.
fn alternatives(condition: &Expr) -> Option<Vec<Vec<&Expr>>> {
    fn add<'a>(condition: &'a Expr, all: &mut Vec<Vec<&'a Expr>>) {
        match &condition.kind {
            ExprKind::Or(list) => list.iter().for_each(|one| add(one, all)),
            _ => all.push(walk::conjuncts(condition)),
        }
    }
    let mut all = Vec::new();
    matches!(condition.kind, ExprKind::Or(_)).then(|| add(condition, &mut all));
    (2..=ALTERNATIVES_MAX).contains(&all.len()).then_some(all)
}

/// A table for which a path is chosen.
struct OfTable<'s> {
    table_rows: f64,
    indexes: &'s [IndexSchema],
    relation: RelationId,
    usable: &'s dyn Fn(&Expr) -> bool,
}

impl OfTable<'_> {
    /// Path with the fewest expected rows: by one index, or by one look-up for each alternative of a disjunction.
    fn best(&self, terms: &Terms<'_>, conditions: &[&Expr]) -> Candidate {
        let mut best = self.by_one_index(terms);
        for condition in conditions {
            if let Some(union) = alternatives(condition).and_then(|of| self.union(terms, of, best.rows)) {
                best = union;
            }
        }
        best
    }

    fn by_one_index(&self, terms: &Terms<'_>) -> Candidate {
        let mut best = Candidate { plan: Plan::Scan, consumed: Vec::new(), rows: self.table_rows };
        for (index, schema) in self.indexes.iter().enumerate() {
            if schema.predicate.is_none()
                && let Some(candidate) = candidate((index, schema), self.table_rows, terms)
                && candidate.rows < best.rows
            {
                best = candidate;
            }
        }
        best
    }

    /// Union of one index path for each alternative, if its expected rows are fewer than `rows_max`. Consumes no condition: the
    /// disjunction is tested again on each row.
    fn union(&self, terms: &Terms<'_>, alternatives: Vec<Vec<&Expr>>, rows_max: f64) -> Option<Candidate> {
        let (mut plans, mut rows) = (Vec::with_capacity(alternatives.len()), 0.0);
        for conjuncts in alternatives {
            let mut all = terms.clone();
            for conjunct in &conjuncts {
                all.collect(conjunct, 0, self.relation, self.usable);
            }
            let one = self.best(&all, &conjuncts);
            rows += one.rows;
            match one.plan {
                Plan::Scan => return None,
                _ if rows >= rows_max => return None,
                Plan::Union(inner) => plans.extend(inner),
                plan => plans.push(plan),
            }
        }
        Some(Candidate { plan: Plan::Union(plans), consumed: Vec::new(), rows })
    }
}

/// Column below casts that preserve the order and the bytes of its key.
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
    Terms { singles: terms, lists }: &Terms<'_>,
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
    // Expected rows of one key with `known` bound columns.
    let rows_of = |known: usize| match known == total {
        true if schema.unique => 1.0,
        true => 10.0,
        false => table_rows.powf(1.0 - known as f64 / (total as f64).max(1.0)).min(table_rows / 10.0),
    };
    if let Some(list) = lists.iter().find(|list| next.column == Some(list.column)) {
        consumed.push(list.position);
        let (count, list) = match list.list {
            ListValues::Each(list) => (list.len() as f64, PlannedList::Each(list.to_vec())),
            ListValues::Array(array) => (ARRAY_VALUES, PlannedList::Array(array.clone())),
        };
        let rows = count * rows_of(bound + 1);
        return Some(Candidate { plan: Plan::Gets { index, prefix, list }, consumed, rows });
    }
    let lower =
        term_for(next, terms, |test| matches!(test, Comparison::Greater | Comparison::GreaterOrEqual));
    let upper = term_for(next, terms, |test| matches!(test, Comparison::Less | Comparison::LessOrEqual));
    if bound == 0 && lower.is_none() && upper.is_none() {
        return None;
    }
    let mut rows = if bound == 0 { table_rows } else { rows_of(bound) };
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
        path.each(&mut |path| {
            if let Path::Get { index, .. } | Path::Gets { index, .. } = path {
                compiler.slots.looked_up.insert((self.table, *index));
            }
        });
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
            list: match list {
                PlannedList::Each(list) => ListKeys::Each(compile_list(&list, compiler)?),
                PlannedList::Array(array) => ListKeys::Array(CompiledExpr::compile(&array, compiler)?),
            },
        },
        Plan::Union(plans) => {
            let paths: Result<_, SqlError> =
                plans.into_iter().map(|plan| compile_path(plan, compiler)).collect();
            Path::Union(paths?)
        }
        Plan::Range { index, prefix, lower, upper } => Path::Range(Range {
            index,
            prefix: compile_list(&prefix, compiler)?,
            lower: bound(lower, compiler)?,
            upper: bound(upper, compiler)?,
            reverse: false,
        }),
    })
}
