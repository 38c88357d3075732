//! Which shard each statement of a procedure belongs to, and which shards a call needs.
//!
//! A statement belongs to the shard that its partition columns name. They must be bound by equality to expressions that are independent
//! of rows. These are traced back to parameters, so that a coordinator computes a call's participants from its arguments alone.

use weir_analysis::plan::{Placement, Plan};
use weir_sql::bound::{
    BinaryOp, Distinct, Expr, ExprKind, FromItem, Insert, InsertSource, Query, QueryBody, RelationId,
    Statement,
};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::{Catalog, Span};
use weir_types::cast::{CastContext, cast};
use weir_types::{SqlType, Value};

mod equalities;
mod insert;
mod origins;

pub(super) use self::equalities::Equalities;
use self::equalities::Within;
pub(super) use self::equalities::equalities_of;
pub(super) use self::equalities::fixed_columns;
pub use self::equalities::{KnownTable, known_columns};
pub(super) use self::insert::inserted;
use self::insert::returns_own_id;
pub use self::origins::Origins;

use super::compile::proven::Proven;
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
    /// Integer arithmetic.
    Arithmetic(Box<Source>, Arithmetic, Box<Source>),
}

/// Operators of [`Source::Arithmetic`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
}

impl Arithmetic {
    fn of(op: BinaryOp) -> Option<Arithmetic> {
        match op {
            BinaryOp::Add => Some(Arithmetic::Add),
            BinaryOp::Subtract => Some(Arithmetic::Subtract),
            BinaryOp::Multiply => Some(Arithmetic::Multiply),
            _ => None,
        }
    }

    /// The result. NULL where it has none: the statement that uses it fails, or finds no row.
    pub fn of_values(self, left: &Value, right: &Value) -> Value {
        let (Value::Int(left), Value::Int(right)) = (left, right) else { return Value::Null };
        let result = match self {
            Arithmetic::Add => left.checked_add(*right),
            Arithmetic::Subtract => left.checked_sub(*right),
            Arithmetic::Multiply => left.checked_mul(*right),
        };
        result.map_or(Value::Null, Value::Int)
    }
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
            Source::Arithmetic(left, _, right) => left.is_elements() || right.is_elements(),
            Source::Parameter(_) | Source::Constant(_) | Source::Own => false,
        }
    }
}

/// Tells of a statement whether it writes on all shards and asks for rows that may live on other shards than those that it writes; or inserts
/// rows of a query, which may belong on other shards than where they are found.
pub(super) fn asks_elsewhere<'a>(
    catalog: &'a Catalog,
    plan: &'a Plan,
    shards: u16,
) -> impl Fn(&Statement) -> bool + 'a {
    move |statement| {
        let proven = Proven::default();
        let router = Router { catalog, plan, proven: &proven };
        let asks = || match statement {
            Statement::Query(_) => false,
            Statement::Insert(Insert { source: InsertSource::Query(_), .. }) => true,
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
                router.asks_elsewhere(statement) && matches!(router.statement(statement), Route::Everywhere)
            }
        };
        shards > 1 && asks()
    }
}

#[derive(Clone, Copy)]
pub struct Router<'a> {
    pub catalog: &'a Catalog,
    pub plan: &'a Plan,
    /// Facts proven about the procedure whose statements are routed.
    pub proven: &'a Proven,
}

pub(super) fn without_integer_cast(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Cast { operand, .. } if expr.ty.is_integer() && operand.ty.is_integer() => {
            without_integer_cast(operand)
        }
        _ => expr,
    }
}

/// The key of the shard that writes a table first of which every shard has a copy: its writers meet there.
fn first_of_copies() -> Expr {
    Expr { kind: ExprKind::Literal(Value::Int(0)), ty: SqlType::Int8, span: Span::default() }
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
        let written = match statement {
            Statement::Insert(insert) => return self.insert(insert),
            Statement::Update(update) => Some(update.table),
            Statement::Delete(delete) => Some(delete.table),
            Statement::Query(_) => None,
        };
        match self.resolve(&equalities_of(statement)) {
            route if written.is_none_or(|table| self.is_partitioned(table)) => route,
            Route::Anywhere => Route::By(vec![first_of_copies()]),
            _ => Route::Everywhere,
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
            let mut inner = equalities.around_parts();
            within.take_in(&mut inner);
            self.add_to(route, &inner);
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
                if let InsertSource::Query(query) = &insert.source
                    && !is_row_by_row(query)
                {
                    return true;
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
