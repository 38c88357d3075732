//! Which columns of a statement equal each other, and which equal expressions that are independent of rows.
//!
//! An equality holds for the rows of the query that requires it. Parts of a query whose conditions do not restrict the outer rows are kept
//! apart, as [`Within`], and are taken in over the equalities of what is around them.

use std::collections::BTreeMap;

use weir_sql::bound::{
    BinaryOp, Delete, Distinct, Expr, ExprKind, FromItem, JoinKind, Query, QueryBody, RelationId, Select,
    Statement, Update,
};
use weir_sql::catalog::{ColumnIndex, TableId};

use super::without_integer_cast;
use crate::exec::walk;

/// Union-find over columns and expressions that are independent of rows.
#[derive(Clone, Default)]
pub(in crate::exec) struct Equalities<'a> {
    pub(in crate::exec) classes: BTreeMap<(RelationId, ColumnIndex), usize>,
    /// By class: the class it was merged into, and an expression that equals it.
    parents: Vec<usize>,
    pub(in crate::exec) known: Vec<Option<&'a Expr>>,
    pub(in crate::exec) tables: Vec<(RelationId, TableId)>,
    /// Nested parts whose conditions do not restrict the outer rows.
    pub(in crate::exec) within: Vec<Within<'a>>,
}

/// A part of a query with rows of its own.
#[derive(Clone, Copy)]
pub(in crate::exec) enum Within<'a> {
    Query(&'a Query),
    /// A nullable side of an outer join, and the join condition; none if the other side is nullable too.
    Side(&'a FromItem, Option<&'a Expr>),
}

impl<'a> Within<'a> {
    /// Adds the part's equalities; those of the outer query hold as well.
    pub(in crate::exec) fn take_in(self, equalities: &mut Equalities<'a>) {
        match self {
            Within::Query(query) => equalities.query(query),
            Within::Side(item, on) => {
                equalities.from(item);
                if let Some(on) = on {
                    equalities.filter(on);
                    equalities.required(on);
                }
            }
        }
    }
}

/// Returns whether every result row comes from rows that satisfy WHERE; an aggregate without GROUP BY returns a row over no rows too.
fn is_of_rows(query: &Query) -> bool {
    match &query.body {
        QueryBody::Select(select) => !select.aggregates || !select.group_by.is_empty(),
        _ => false,
    }
}

/// Returns the SELECT if rows with another value of the output column do not affect the other result rows.
fn passes_on<'a>(query: &'a Query, output: &Expr) -> Option<&'a Select> {
    let QueryBody::Select(select) = &query.body else { return None };
    let all = query.limit.is_none() && query.offset.is_none() && !matches!(select.distinct, Distinct::On(_));
    let plain = all && !select.outputs.iter().any(walk::has_window);
    let output = without_integer_cast(output);
    let grouped = !select.aggregates
        || select.group_by.iter().any(|key| match (&without_integer_cast(key).kind, &output.kind) {
            (ExprKind::Column { relation: a, column: x }, ExprKind::Column { relation: b, column: y }) => {
                (a, x) == (b, y)
            }
            _ => false,
        });
    (plain && grouped).then_some(&**select)
}

impl<'a> Equalities<'a> {
    /// The equalities that hold in a part, too, without the tables and parts of this query.
    pub(in crate::exec) fn around_parts(&self) -> Equalities<'a> {
        Equalities { tables: Vec::new(), within: Vec::new(), ..self.clone() }
    }

    pub(in crate::exec) fn class(&mut self, relation: RelationId, column: ColumnIndex) -> usize {
        let next = self.parents.len();
        let class = *self.classes.entry((relation, column)).or_insert(next);
        if class == next {
            self.parents.push(next);
            self.known.push(None);
        }
        self.find(class)
    }

    pub(in crate::exec) fn find(&self, mut class: usize) -> usize {
        while self.parents[class] != class {
            class = self.parents[class];
        }
        class
    }

    fn equate(&mut self, left: &'a Expr, right: &'a Expr) {
        let (left, right) = (without_integer_cast(left), without_integer_cast(right));
        match (&left.kind, &right.kind) {
            (ExprKind::Column { relation: a, column: x }, ExprKind::Column { relation: b, column: y }) => {
                let (a, b) = (self.class(*a, *x), self.class(*b, *y));
                self.parents[a] = b;
                self.known[b] = self.known[b].or(self.known[a]);
            }
            (ExprKind::Column { relation, column }, _) if walk::relations_read(right).is_empty() => {
                let class = self.class(*relation, *column);
                self.known[class] = Some(right);
            }
            (_, ExprKind::Column { relation, column }) if walk::relations_read(left).is_empty() => {
                let class = self.class(*relation, *column);
                self.known[class] = Some(left);
            }
            _ => {}
        }
    }

    pub(in crate::exec) fn filter(&mut self, filter: &'a Expr) {
        for conjunct in walk::conjuncts(filter) {
            match &conjunct.kind {
                ExprKind::Binary { op: BinaryOp::Equal, left, right } => self.equate(left, right),
                ExprKind::QuantifiedSubquery { op: BinaryOp::Equal, left, query, all: false } => {
                    if let QueryBody::Select(select) = &query.body {
                        for (left, output) in left.iter().zip(&select.outputs) {
                            if passes_on(query, output).is_some() {
                                self.equate(left, output);
                            }
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds the query's tables and equalities, at every depth.
    pub(in crate::exec) fn query(&mut self, query: &'a Query) {
        self.within.extend(query.ctes.iter().map(|cte| Within::Query(&cte.query)));
        match &query.body {
            QueryBody::Select(select) => {
                select.from.iter().for_each(|item| self.from(item));
                if let Some(filter) = &select.filter {
                    self.filter(filter);
                    self.required(filter);
                }
                let others = select.outputs.iter().chain(&select.group_by).chain(&select.having);
                others.for_each(|expr| self.subqueries(expr));
            }
            QueryBody::SetOperation { left, right, .. } => {
                self.within.extend([Within::Query(left), Within::Query(right)]);
            }
            QueryBody::Values(rows) => rows.iter().flatten().for_each(|expr| self.subqueries(expr)),
        }
        query.limit.iter().chain(&query.offset).for_each(|expr| self.subqueries(expr));
    }

    pub(in crate::exec) fn from(&mut self, item: &'a FromItem) {
        match item {
            FromItem::Table { relation, table, .. } => self.tables.push((*relation, *table)),
            FromItem::Subquery { relation, query, .. } => {
                if !is_of_rows(query) {
                    self.within.push(Within::Query(query));
                    return;
                }
                self.query(query);
                if let QueryBody::Select(select) = &query.body {
                    for (column, output) in select.outputs.iter().enumerate() {
                        if let ExprKind::Column { relation: inner, column: at } =
                            without_integer_cast(output).kind
                            && passes_on(query, output).is_some()
                        {
                            let (outer, inner) = (self.class(*relation, column), self.class(inner, at));
                            self.parents[outer] = inner;
                            self.known[inner] = self.known[inner].or(self.known[outer]);
                        }
                    }
                }
            }
            FromItem::Join { kind: JoinKind::Left, left, right, on } => {
                self.from(left);
                self.within.push(Within::Side(right, on.as_ref()));
            }
            FromItem::Join { kind: JoinKind::Right, left, right, on } => {
                self.from(right);
                self.within.push(Within::Side(left, on.as_ref()));
            }
            FromItem::Join { kind: JoinKind::Full, left, right, on } => {
                self.within.extend([Within::Side(left, None), Within::Side(right, None)]);
                on.iter().for_each(|on| self.subqueries(on));
            }
            FromItem::Join { left, right, on, .. } => {
                self.from(left);
                self.from(right);
                if let Some(on) = on {
                    self.filter(on);
                    self.required(on);
                }
            }
            FromItem::Function { calls, .. } => {
                calls.iter().flat_map(|call| &call.args).for_each(|arg| self.subqueries(arg));
            }
            FromItem::Values { rows, .. } => rows.iter().flatten().for_each(|value| self.subqueries(value)),
            FromItem::Cte { .. } => {}
        }
    }

    /// Adds the subqueries of a condition that every row satisfies.
    fn required(&mut self, filter: &'a Expr) {
        for conjunct in walk::conjuncts(filter) {
            match &conjunct.kind {
                ExprKind::Exists { query, negated: false } if is_of_rows(query) => self.query(query),
                ExprKind::QuantifiedSubquery { op: BinaryOp::Equal, left, query, all: false }
                    if is_of_rows(query) =>
                {
                    left.iter().for_each(|part| self.subqueries(part));
                    self.query(query);
                }
                _ => self.subqueries(conjunct),
            }
        }
    }

    /// Adds the subqueries of an expression that rows need not satisfy.
    pub(in crate::exec) fn subqueries(&mut self, expr: &'a Expr) {
        walk::parts(expr).into_iter().for_each(|part| self.subqueries(part));
        self.within.extend(walk::subquery(expr).map(Within::Query));
    }
}

/// Equalities of the columns of a query, UPDATE or DELETE.
pub(in crate::exec) fn equalities_of(statement: &Statement) -> Equalities<'_> {
    let mut equalities = Equalities::default();
    let (target, others, filter, returning) = match statement {
        Statement::Query(query) => {
            equalities.query(query);
            return equalities;
        }
        Statement::Insert(_) => return equalities,
        Statement::Update(update) => {
            let Update { relation, table, from, filter, returning, .. } = update;
            ((*relation, *table), from, filter, returning)
        }
        Statement::Delete(delete) => {
            let Delete { relation, table, using, filter, returning, .. } = delete;
            ((*relation, *table), using, filter, returning)
        }
    };
    equalities.tables.push(target);
    others.iter().for_each(|item| equalities.from(item));
    if let Some(filter) = filter {
        equalities.filter(filter);
        equalities.required(filter);
    }
    if let Statement::Update(update) = statement {
        update.assignments.iter().for_each(|(_, expr)| equalities.subqueries(expr));
    }
    returning.iter().for_each(|(_, expr)| equalities.subqueries(expr));
    equalities
}

/// A table of a query, and the query's equalities on its columns.
pub struct KnownTable<'a> {
    pub relation: RelationId,
    pub table: TableId,
    /// Columns equal to expressions that are independent of rows.
    pub fixed: Vec<(ColumnIndex, &'a Expr)>,
    /// Columns equal to a column of an earlier table: own column, position of the table, its column.
    pub joined: Vec<(ColumnIndex, usize, ColumnIndex)>,
}

/// Every table of the query, at every depth.
pub fn known_columns(query: &Query) -> Vec<KnownTable<'_>> {
    let mut equalities = Equalities::default();
    equalities.query(query);
    let mut known = Vec::new();
    let mut tables = Vec::new();
    add_known(equalities, &mut tables, &mut known);
    known
}

/// `tables`: those of `known`, at the same positions; nested queries may refer to all of them.
fn add_known<'a>(
    equalities: Equalities<'a>,
    tables: &mut Vec<(RelationId, TableId)>,
    known: &mut Vec<KnownTable<'a>>,
) {
    let columns_of = |relation: RelationId| {
        let own = equalities.classes.iter().filter(move |((of, _), _)| *of == relation);
        own.map(|((_, column), class)| (*column, equalities.find(*class)))
    };
    for &(relation, table) in &equalities.tables[tables.len()..] {
        let mut one = KnownTable { relation, table, fixed: Vec::new(), joined: Vec::new() };
        for (column, class) in columns_of(relation) {
            if let Some(expr) = equalities.known[class] {
                one.fixed.push((column, expr));
                continue;
            }
            for (earlier, (other, _)) in tables.iter().enumerate() {
                if let Some((theirs, _)) = columns_of(*other).find(|(_, of)| *of == class) {
                    one.joined.push((column, earlier, theirs));
                }
            }
        }
        tables.push((relation, table));
        known.push(one);
    }
    for within in &equalities.within {
        let mut inner = Equalities { tables: tables.clone(), within: Vec::new(), ..equalities.clone() };
        within.take_in(&mut inner);
        add_known(inner, tables, known);
    }
}

/// Columns that a plain UPDATE or SELECT of one table fixes by equality.
pub(in crate::exec) fn fixed_columns(statement: &Statement) -> Option<(TableId, Vec<(ColumnIndex, &Expr)>)> {
    let mut equalities = Equalities::default();
    let filter = match statement {
        Statement::Update(Update { relation, table, from, filter, .. }) if from.is_empty() => {
            equalities.tables.push((*relation, *table));
            filter
        }
        Statement::Query(query) => {
            let QueryBody::Select(select) = &query.body else { return None };
            let Select { from, filter, aggregates: false, .. } = &**select else { return None };
            from.iter().for_each(|item| equalities.from(item));
            filter
        }
        _ => return None,
    };
    filter.iter().for_each(|filter| equalities.filter(filter));
    let [(relation, table)] = equalities.tables[..] else { return None };
    let own = equalities.classes.iter().filter(|((of, _), _)| *of == relation);
    let known =
        own.filter_map(|((_, column), class)| Some((*column, equalities.known[equalities.find(*class)]?)));
    Some((table, known.collect()))
}
