//! Which shard each statement of a procedure belongs to, and which shards a call needs.
//!
//! A statement belongs to the shard that its partition columns name. They must be bound by equality to expressions that are independent
//! of rows. These are traced back to parameters, so that a coordinator computes a call's participants from its arguments alone.

use std::collections::BTreeMap;

use weir_analysis::plan::{Placement, Plan};
use weir_sql::Catalog;
use weir_sql::bound::{
    BinaryOp, Delete, Distinct, Expr, ExprKind, FromItem, Insert, InsertSource, JoinKind, Query, QueryBody,
    RelationId, Select, Statement, Update,
};
use weir_sql::catalog::{ColumnIndex, ForeignKey, TableId};
use weir_types::cast::{CastContext, cast};
use weir_types::{SqlType, Value};

mod origins;

pub use origins::Origins;

use super::compile::proven::Proven;
use super::sequences::generates_id;
use super::walk;

/// Shards on which a statement runs.
#[derive(Clone, Debug)]
pub enum Route {
    /// It reads replicated tables only: any shard gives the same result.
    Anywhere,
    /// The shard named by these values of the partition columns.
    By(Vec<Expr>),
    /// The deciding shard: the key is an id generated there, which therefore names that shard.
    Own,
    /// Every shard, each over its own rows.
    Everywhere,
}

/// Partition column values of all rows that a query needs.
pub(super) enum Homes {
    Keys(Vec<Vec<Expr>>),
    /// Each element of an array is a value of the only partition column.
    Elements(Expr),
}

/// Returns whether each result row comes from one row of one table.
fn is_row_by_row(query: &Query) -> bool {
    is_of_one_table(query) && query.limit.is_none() && query.offset.is_none() && !query.with_ties
}

/// Like [`is_row_by_row`], but LIMIT and OFFSET are allowed.
fn is_of_one_table(query: &Query) -> bool {
    let QueryBody::Select(select) = &query.body else { return false };
    let mut has_subquery = false;
    walk::each_expr_of_query(query, &mut |expr| has_subquery |= walk::subquery(expr).is_some());
    let one_table = matches!(&select.from[..], [] | [FromItem::Table { .. }]);
    one_table
        && !has_subquery
        && query.ctes.is_empty()
        && !select.aggregates
        && matches!(select.distinct, Distinct::All)
        && !select.outputs.iter().any(walk::has_window)
}

/// Source of the value of a partition column.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Parameter(usize),
    /// Every element of an array parameter.
    Elements(usize),
    Constant(Value),
    /// An id that the deciding shard generates during the call.
    Own,
    /// A deterministic cast of the value.
    Cast(Box<Source>, Coercion),
}

/// A cast that depends on nothing but the value.
#[derive(Clone, Debug, PartialEq)]
pub struct Coercion {
    from: SqlType,
    to: SqlType,
    explicit: bool,
}

impl Coercion {
    /// Coercion of a cast of the expression, unless it depends on settings.
    fn of(operand: &Expr, to: &SqlType, explicit: bool) -> Option<Coercion> {
        let is_plain = |ty: &SqlType| {
            ty.is_string()
                || ty.is_integer()
                || matches!(ty, SqlType::Numeric(_) | SqlType::Uuid | SqlType::Bool)
        };
        let is_known = is_plain(&operand.ty) && is_plain(to);
        is_known.then(|| Coercion { from: operand.ty.clone(), to: to.clone(), explicit })
    }

    /// Casts a value; one that does not fit remains unchanged, and its use will fail.
    pub fn of_value(&self, value: &Value) -> Value {
        let context = if self.explicit { CastContext::Explicit } else { CastContext::Assignment };
        cast(value, &self.from, &self.to, context).unwrap_or_else(|_| value.clone())
    }
}

impl Source {
    /// Returns whether it yields several values.
    pub fn is_elements(&self) -> bool {
        match self {
            Source::Elements(_) => true,
            Source::Cast(source, _) => source.is_elements(),
            Source::Parameter(_) | Source::Constant(_) | Source::Own => false,
        }
    }
}

#[derive(Clone, Copy)]
pub struct Router<'a> {
    pub catalog: &'a Catalog,
    pub plan: &'a Plan,
    /// Facts proven about the procedure whose statements are routed.
    pub proven: &'a Proven,
}

/// Union-find over columns and expressions that are independent of rows.
#[derive(Clone, Default)]
struct Equalities<'a> {
    classes: BTreeMap<(RelationId, ColumnIndex), usize>,
    /// By class: the class it was merged into, and an expression that equals it.
    parents: Vec<usize>,
    known: Vec<Option<&'a Expr>>,
    tables: Vec<(RelationId, TableId)>,
    /// Nested parts whose conditions do not restrict the outer rows.
    within: Vec<Within<'a>>,
}

/// A part of a query with rows of its own.
#[derive(Clone, Copy)]
enum Within<'a> {
    Query(&'a Query),
    /// A nullable side of an outer join, and the join condition; none if the other side is nullable too.
    Side(&'a FromItem, Option<&'a Expr>),
}

impl<'a> Within<'a> {
    /// Adds the part's equalities; those of the outer query hold as well.
    fn take_in(self, equalities: &mut Equalities<'a>) {
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
    fn class(&mut self, relation: RelationId, column: ColumnIndex) -> usize {
        let next = self.parents.len();
        let class = *self.classes.entry((relation, column)).or_insert(next);
        if class == next {
            self.parents.push(next);
            self.known.push(None);
        }
        self.find(class)
    }

    fn find(&self, mut class: usize) -> usize {
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

    fn filter(&mut self, filter: &'a Expr) {
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
    fn query(&mut self, query: &'a Query) {
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

    fn from(&mut self, item: &'a FromItem) {
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
    fn subqueries(&mut self, expr: &'a Expr) {
        walk::parts(expr).into_iter().for_each(|part| self.subqueries(part));
        self.within.extend(walk::subquery(expr).map(Within::Query));
    }
}

pub(super) fn without_integer_cast(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Cast { operand, .. } if expr.ty.is_integer() && operand.ty.is_integer() => {
            without_integer_cast(operand)
        }
        _ => expr,
    }
}

fn is_column(expr: &Expr, relation: RelationId, column: ColumnIndex) -> bool {
    match without_integer_cast(expr).kind {
        ExprKind::Column { relation: of, column: at } => (of, at) == (relation, column),
        _ => false,
    }
}

impl Router<'_> {
    pub fn partition(&self, table: TableId) -> Option<&[ColumnIndex]> {
        match self.plan.placement(table) {
            Placement::Partitioned { columns } => Some(columns),
            Placement::Replicated => None,
        }
    }

    pub fn is_partitioned(&self, table: TableId) -> bool {
        self.partition(table).is_some()
    }

    /// Returns whether all partitioned rows that the query combines, at any depth, live on the same shard.
    pub fn is_local(&self, query: &Query) -> bool {
        let mut equalities = Equalities::default();
        equalities.query(query);
        self.is_of_one_home(&mut equalities, &mut None)
    }

    /// `home`: classes of the partition columns of an outer table, and their types.
    fn is_of_one_home(
        &self,
        equalities: &mut Equalities<'_>,
        home: &mut Option<Vec<(usize, SqlType)>>,
    ) -> bool {
        for (relation, table) in std::mem::take(&mut equalities.tables) {
            let Some(columns) = self.partition(table) else { continue };
            let ty = |column: ColumnIndex| self.catalog.table(table).columns[column].ty.base();
            let own: Vec<(usize, SqlType)> =
                columns.iter().map(|&column| (equalities.class(relation, column), ty(column))).collect();
            let same = |((own, a), (home, b)): (&(usize, SqlType), &(usize, SqlType))| {
                equalities.find(*own) == equalities.find(*home)
                    && (a == b || a.is_integer() && b.is_integer())
            };
            match home {
                None => *home = Some(own),
                Some(home) if home.len() == own.len() && own.iter().zip(home.iter()).all(same) => {}
                Some(_) => return false,
            }
        }
        // Nested classes are distinct from the outer ones.
        home.is_some()
            && std::mem::take(&mut equalities.within).into_iter().all(|within| {
                let mut inner = equalities.clone();
                within.take_in(&mut inner);
                self.is_of_one_home(&mut inner, home)
            })
    }

    pub fn statement(&self, statement: &Statement) -> Route {
        match statement {
            Statement::Insert(insert) => self.insert(insert),
            _ => self.resolve(&equalities_of(statement)),
        }
    }

    pub fn query(&self, query: &Query) -> Route {
        let mut equalities = Equalities::default();
        equalities.query(query);
        self.resolve(&equalities)
    }

    /// Partition values of the rows needed by a query over all shards, if a list in its WHERE determines them. Used for queries that each
    /// shard answers for its own rows.
    pub(super) fn homes(&self, query: &Query) -> Option<Homes> {
        let QueryBody::Select(select) = &query.body else { return None };
        let mut equalities = Equalities::default();
        equalities.query(query);
        if !self.is_local(query) {
            return None;
        }
        let of_conjunct = |conjunct: &Expr| {
            let mut tables = equalities.tables.iter();
            tables.find_map(|&(relation, table)| self.listed(relation, table, conjunct, &equalities))
        };
        select.filter.iter().flat_map(walk::conjuncts).find_map(of_conjunct)
    }

    /// Partition values listed by a condition, combined with the columns that are fixed.
    fn listed(
        &self,
        relation: RelationId,
        table: TableId,
        condition: &Expr,
        around: &Equalities<'_>,
    ) -> Option<Homes> {
        let columns = self.partition(table)?;
        let keeps_value = |ty: &SqlType| {
            ty.is_integer() || matches!(ty.base(), SqlType::Text | SqlType::Varchar(_) | SqlType::Uuid)
        };
        if !columns.iter().all(|&column| keeps_value(&self.catalog.table(table).columns[column].ty)) {
            return None;
        }
        let is_own = |expr: &Expr, at: ColumnIndex| match without_integer_cast(expr).kind {
            ExprKind::Column { relation: of, column } => (of, column) == (relation, at),
            _ => false,
        };
        let is_given = |value: &Expr| {
            walk::relations_read(value).is_empty()
                && !walk::has_subquery(value)
                && !walk::is_volatile(value)
                && keeps_value(&value.ty)
        };
        let known = |equalities: &Equalities<'_>, column: ColumnIndex| -> Option<Expr> {
            let class = equalities.find(*equalities.classes.get(&(relation, column))?);
            equalities.known[class].filter(|value| is_given(value)).cloned()
        };
        match &condition.kind {
            ExprKind::InList { operand, list, negated: false } if list.iter().all(is_given) => {
                let at = columns.iter().position(|&column| is_own(operand, column))?;
                let key = |value: &Expr| -> Option<Vec<Expr>> {
                    let of = |(position, &column): (usize, &ColumnIndex)| match position == at {
                        true => Some(without_integer_cast(value).clone()),
                        false => known(around, column),
                    };
                    columns.iter().enumerate().map(of).collect()
                };
                list.iter().map(key).collect::<Option<_>>().map(Homes::Keys)
            }
            ExprKind::ArrayCompare { op: BinaryOp::Equal, left, array, all: false } => {
                let SqlType::Array(element) = &array.ty else { return None };
                let [column] = columns else { return None };
                let is_plain = matches!(array.kind, ExprKind::Variable(_) | ExprKind::Literal(_));
                (is_plain && keeps_value(element) && is_own(left, *column))
                    .then(|| Homes::Elements((**array).clone()))
            }
            ExprKind::Or(alternatives) => {
                let key = |alternative: &Expr| -> Option<Vec<Expr>> {
                    let mut own = Equalities::default();
                    own.filter(alternative);
                    columns
                        .iter()
                        .map(|&column| known(&own, column).or_else(|| known(around, column)))
                        .collect()
                };
                alternatives.iter().map(key).collect::<Option<_>>().map(Homes::Keys)
            }
            _ => None,
        }
    }

    /// Route of an expression that contains subqueries.
    pub fn expr(&self, expr: &Expr) -> Route {
        let mut equalities = Equalities::default();
        equalities.subqueries(expr);
        self.resolve(&equalities)
    }

    fn resolve(&self, equalities: &Equalities<'_>) -> Route {
        let mut route = Route::Anywhere;
        self.add_to(&mut route, equalities);
        route
    }

    /// Restricts the route to shards that can also answer for all these tables.
    fn add_to(&self, route: &mut Route, equalities: &Equalities<'_>) {
        for &(relation, table) in &equalities.tables {
            let Some(columns) = self.partition(table) else { continue };
            let known: Option<Vec<Expr>> = columns
                .iter()
                .map(|&column| {
                    let class = equalities.find(*equalities.classes.get(&(relation, column))?);
                    equalities.known[class].cloned()
                })
                .collect();
            match (known, &*route) {
                (Some(keys), Route::Anywhere) => *route = Route::By(keys),
                (Some(keys), Route::By(others)) if same(&keys, others) => {}
                _ => *route = Route::Everywhere,
            }
        }
        for within in &equalities.within {
            let mut inner = Equalities { tables: Vec::new(), within: Vec::new(), ..equalities.clone() };
            within.take_in(&mut inner);
            self.add_to(route, &inner);
        }
    }

    fn insert(&self, insert: &Insert) -> Route {
        let route = self.inserted(insert);
        let conflict = insert.on_conflict.iter().filter_map(|conflict| conflict.update.as_ref());
        let updated =
            conflict.flat_map(|(assignments, filter)| assignments.iter().map(|(_, expr)| expr).chain(filter));
        let mut asked = Equalities::default();
        insert.returning.iter().map(|(_, expr)| expr).chain(updated).for_each(|expr| asked.subqueries(expr));
        if let InsertSource::Values(rows) = &insert.source {
            rows.iter().flatten().for_each(|expr| asked.subqueries(expr));
        }
        match (route, self.resolve(&asked)) {
            (route, Route::Anywhere) => route,
            (Route::By(keys), Route::By(others)) if same(&keys, &others) => Route::By(keys),
            _ => Route::Everywhere,
        }
    }

    /// Partition key of each row of an INSERT whose rows live on several shards, if each shard can recognise its own rows.
    pub fn spread(&self, insert: &Insert) -> Option<Vec<Vec<Expr>>> {
        let columns = self.partition(insert.table)?;
        let InsertSource::Values(rows) = &insert.source else { return None };
        // RETURNING preserves the order of VALUES.
        if !insert.returning.is_empty() || !matches!(self.inserted(insert), Route::Everywhere) {
            return None;
        }
        let is_told = |value: &&Expr| !walk::is_volatile(value) && !walk::has_subquery(value);
        let key = |row: &Vec<Expr>| -> Option<Vec<Expr>> {
            columns.iter().map(|&column| inserted(insert, row, column).filter(is_told).cloned()).collect()
        };
        rows.iter().map(key).collect()
    }

    /// Returns whether all inserted rows live where the statement runs, whatever the data.
    pub fn keeps_home(&self, insert: &Insert) -> bool {
        let Some(columns) = self.partition(insert.table) else { return true };
        let query = match &insert.source {
            InsertSource::Values(_) => {
                return self.spread(insert).is_some() || !matches!(self.inserted(insert), Route::Everywhere);
            }
            InsertSource::Query(query) => query,
        };
        let QueryBody::Select(select) = &query.body else { return false };
        let outputs: Option<Vec<&Expr>> =
            columns.iter().map(|&column| inserted(insert, &select.outputs, column)).collect();
        let Some(outputs) = outputs else { return false };
        let mut equalities = Equalities::default();
        equalities.query(query);
        let class = |output: &Expr| match without_integer_cast(output).kind {
            ExprKind::Column { relation, column } => {
                equalities.classes.get(&(relation, column)).map(|class| equalities.find(*class))
            }
            _ => None,
        };
        match self.inserted(insert) {
            Route::By(keys) => keys.iter().zip(&outputs).all(|(key, output)| {
                let known = class(output).and_then(|class| equalities.known[class]);
                same_expr(key, output) || known.is_some_and(|known| same_expr(key, known))
            }),
            Route::Own => true,
            Route::Anywhere => false,
            Route::Everywhere => equalities.tables.iter().any(|&(relation, table)| {
                self.partition(table).is_some_and(|theirs| {
                    theirs.len() == outputs.len()
                        && theirs.iter().zip(&outputs).all(|(&column, output)| {
                            let (own, is_own) = (class(output), is_column(output, relation, column));
                            let same = equalities.classes.get(&(relation, column));
                            is_own || same.is_some_and(|class| own == Some(equalities.find(*class)))
                        })
                })
            }),
        }
    }

    /// Route of the inserted rows.
    fn inserted(&self, insert: &Insert) -> Route {
        let Some(columns) = self.partition(insert.table) else {
            // A replicated table is written on all shards.
            return Route::Everywhere;
        };
        let key = |row: &[Expr]| -> Option<Vec<Expr>> {
            columns.iter().map(|&column| inserted(insert, row, column).cloned()).collect()
        };
        match &insert.source {
            InsertSource::Values(rows) => {
                let mut keys = rows.iter().map(|row| key(row));
                if rows.iter().all(|row| self.is_own(insert, row)) {
                    return Route::Own;
                }
                match keys.next().flatten() {
                    Some(first) if keys.all(|other| other.is_some_and(|other| same(&first, &other))) => {
                        Route::By(first)
                    }
                    _ => Route::Everywhere,
                }
            }
            InsertSource::Query(query) => {
                let mut equalities = Equalities::default();
                equalities.query(query);
                let of_one_row = match &query.body {
                    QueryBody::Select(select) if select.from.is_empty() => key(&select.outputs),
                    _ => None,
                };
                match (of_one_row, self.resolve(&equalities)) {
                    (Some(keys), Route::Anywhere) => Route::By(keys),
                    (Some(keys), Route::By(others)) if !same(&keys, &others) => Route::Everywhere,
                    (_, route) => route,
                }
            }
        }
    }

    /// Returns whether a write also reads partitioned rows that may live on other shards than the written ones, or has a source that is
    /// not computed row by row. No shard alone can run such a statement for the rows of all shards.
    pub fn asks_elsewhere(&self, statement: &Statement) -> bool {
        let is_partitioned = |table: &TableId| self.partition(*table).is_some();
        if matches!(statement, Statement::Update(_) | Statement::Delete(_))
            && self.is_of_one_home(&mut equalities_of(statement), &mut None)
        {
            return false;
        }
        let mut asked = Equalities::default();
        match statement {
            Statement::Query(query) => return !is_of_one_table(query),
            Statement::Insert(insert) => {
                if let InsertSource::Query(query) = &insert.source {
                    return !is_row_by_row(query);
                }
                walk::each_statement_expr(statement, &mut |expr| {
                    asked.within.extend(walk::subquery(expr).map(Within::Query))
                });
            }
            Statement::Update(update) => {
                update.from.iter().for_each(|item| asked.from(item));
                walk::each_statement_expr(statement, &mut |expr| {
                    asked.within.extend(walk::subquery(expr).map(Within::Query))
                });
            }
            Statement::Delete(delete) => {
                delete.using.iter().for_each(|item| asked.from(item));
                walk::each_statement_expr(statement, &mut |expr| {
                    asked.within.extend(walk::subquery(expr).map(Within::Query))
                });
            }
        }
        let mut todo = std::mem::take(&mut asked.within);
        while let Some(within) = todo.pop() {
            within.take_in(&mut asked);
            todo.append(&mut asked.within);
        }
        asked.tables.iter().any(|(_, table)| is_partitioned(table))
    }

    /// Returns whether the row's shard is named by an id generated with the row.
    fn is_own(&self, insert: &Insert, row: &[Expr]) -> bool {
        let Some([column]) = self.partition(insert.table) else { return false };
        inserted(insert, row, *column).is_some_and(generates_id)
    }

    /// Parents of inserted rows that are placed by a partition key and not read by the call itself: foreign key, row, key of the parent.
    pub fn parents<'i>(&self, insert: &'i Insert) -> Vec<(&ForeignKey, &'i [Expr], Vec<Expr>)> {
        let InsertSource::Values(rows) = &insert.source else { return Vec::new() };
        let keys = self.catalog.table(insert.table).foreign_keys.iter().enumerate();
        let looked_up = keys.filter(|&(at, _)| !self.proven.holds(insert, at));
        let pairs = looked_up.flat_map(|(_, key)| rows.iter().map(move |row| (key, row.as_slice())));
        pairs.filter_map(|(key, row)| Some((key, row, self.parent(insert, row, key)?))).collect()
    }

    /// Partition key of a foreign key's parent row, as far as the inserted values determine it; `None` if the parent table is replicated,
    /// so that every shard can check.
    pub fn parent(&self, insert: &Insert, row: &[Expr], key: &ForeignKey) -> Option<Vec<Expr>> {
        let columns = self.partition(key.parent)?;
        columns
            .iter()
            .map(|column| {
                let at = key.parent_columns.iter().position(|parent| parent == column)?;
                inserted(insert, row, key.columns[at]).cloned()
            })
            .collect()
    }
}

/// Equalities of the columns of a query, UPDATE or DELETE.
fn equalities_of(statement: &Statement) -> Equalities<'_> {
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
pub(super) fn fixed_columns(statement: &Statement) -> Option<(TableId, Vec<(ColumnIndex, &Expr)>)> {
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

/// Expression that an INSERT assigns to a column.
pub(super) fn inserted<'a>(insert: &'a Insert, row: &'a [Expr], column: ColumnIndex) -> Option<&'a Expr> {
    match insert.columns.iter().position(|&given| given == column) {
        Some(at) => row.get(at).map(without_integer_cast),
        None => {
            let default = insert.defaults.iter().find(|(default, _)| *default == column);
            default.map(|(_, expr)| without_integer_cast(expr))
        }
    }
}

/// Returns whether the statement is `INSERT … RETURNING id` of a newly generated id.
fn returns_own_id(statement: &Statement, at: usize) -> bool {
    let Statement::Insert(insert) = statement else { return false };
    let Some((_, returned)) = insert.returning.get(at) else { return false };
    let (InsertSource::Values(rows), None) = (&insert.source, &insert.on_conflict) else { return false };
    match without_integer_cast(returned).kind {
        ExprKind::Column { relation, column } if relation == insert.relation => {
            rows.iter().all(|row| inserted(insert, row, column).is_some_and(generates_id))
        }
        _ => false,
    }
}

/// Returns whether the expressions are equal, ignoring their positions in the text.
pub(super) fn same(left: &[Expr], right: &[Expr]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same_expr(left, right))
}

pub fn same_expr(left: &Expr, right: &Expr) -> bool {
    let (left, right) = (without_integer_cast(left), without_integer_cast(right));
    match (&left.kind, &right.kind) {
        (ExprKind::Variable(a), ExprKind::Variable(b)) => a == b,
        (ExprKind::Literal(a), ExprKind::Literal(b)) => format!("{a:?}") == format!("{b:?}"),
        (ExprKind::Subscript { array: a, index: i }, ExprKind::Subscript { array: b, index: j }) => {
            same_expr(a, b) && same_expr(i, j)
        }
        (ExprKind::Cast { operand: a, explicit: x }, ExprKind::Cast { operand: b, explicit: y })
            if left.ty == right.ty && a.ty == b.ty && x == y =>
        {
            Coercion::of(a, &left.ty, *x).is_some() && same_expr(a, b)
        }
        _ => false,
    }
}
