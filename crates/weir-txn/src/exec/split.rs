//! Splits a query into parts that shards run, with their shards: parts that one shard can answer, or that each shard can answer for its
//! own rows; for the remaining tables, the rows that satisfy the query's conditions.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{
    BinaryOp, Distinct, Expr, ExprKind, FromItem, JoinKind, OutputColumn, Query, QueryBody, RelationId,
    Select,
};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{Part as Tree, each_part, parts_mut, subquery_mut};
use weir_types::SqlType;

use super::gathered::{PartSource, of_groups, of_rows};
use super::routing::{Route, Router, known_columns, without_integer_cast};
use super::slots::ROW_IDENTITY;
use super::walk;
use crate::storage::Schema;

pub(super) struct Part {
    pub query: Query,
    pub route: Route,
    pub feeds: Feeds,
}

/// Destination of a part's rows.
#[derive(Clone, Debug)]
pub(super) enum Feeds {
    /// A CTE around the whole.
    Cte,
    /// These columns of a table.
    Table { table: TableId, columns: Vec<ColumnIndex> },
}

pub(super) struct Split {
    pub parts: Vec<Part>,
    pub whole: Query,
    pub assembly: Assembly,
}

/// How the result follows from the rows of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assembly {
    /// The whole computes it.
    Computed,
    /// It is the rows of the only part, of all shards that run it, one after another.
    Concatenated,
    /// It is these rows, which each shard gives in the query's order, merged by that; of them those that OFFSET and LIMIT leave.
    Merged,
}

/// `one_shard`: the cluster has only one.
pub(super) fn split(query: &Query, router: Router<'_>, schema: &Schema, one_shard: bool) -> Split {
    let mut next = 0;
    let mut has_ctes = false;
    each_part(Tree::Query(query), &mut |part| {
        if let Tree::From(item) = part {
            walk::item_relations(item).into_iter().for_each(|relation| next = next.max(relation.0 + 1));
            has_ctes |= matches!(item, FromItem::Cte { .. });
        }
    });
    let mut splitter = Splitter {
        router,
        one_shard,
        has_ctes,
        next,
        parts: Vec::new(),
        leaves: Vec::new(),
        assembly: Assembly::Computed,
    };
    let whole = splitter.query(query, 0);
    let leaves = splitter.leaf_parts(query, schema);
    splitter.parts.extend(leaves);
    let Splitter { parts, assembly, .. } = splitter;
    let assembly = if parts.len() == 1 { assembly } else { Assembly::Computed };
    Split { parts, whole, assembly }
}

struct Splitter<'a> {
    router: Router<'a>,
    one_shard: bool,
    has_ctes: bool,
    next: u32,
    parts: Vec<Part>,
    /// Tables that the whole reads row by row, with conditions that all needed rows satisfy.
    leaves: Vec<(RelationId, TableId, Vec<Expr>)>,
    /// If there is no other part.
    assembly: Assembly,
}

impl Splitter<'_> {
    /// Remainder of a query at nesting level `depth`.
    fn query(&mut self, query: &Query, depth: usize) -> Query {
        let limited = with_limit_within(query);
        let query = limited.as_ref().unwrap_or(query);
        let is_alone = depth == 0 || !self.has_ctes && walk::outer_relations(query).is_empty();
        let reads_rows = !weir_sql::walk::tables(query).is_empty();
        if is_alone && reads_rows && !walk::query_is_volatile(query) {
            let given =
                PartSource { relation: RelationId(self.next), level: depth + 1, index: self.parts.len() };
            let route = self.router.query(query);
            let (split, assembly) = match &route {
                Route::Everywhere if !self.one_shard => {
                    let assembly = if depth == 0 { self.assembly(query) } else { Assembly::Computed };
                    (self.over_shards(query, given, assembly), assembly)
                }
                _ => (Some((query.clone(), given.query(query))), Assembly::Concatenated),
            };
            self.assembly = if depth == 0 && split.is_some() { assembly } else { Assembly::Computed };
            if let Some((query, whole)) = split {
                self.next += 1;
                self.parts.push(Part { query, route, feeds: Feeds::Cte });
                return whole;
            }
        }
        let mut left = query.clone();
        for cte in &mut left.ctes {
            // A recursive query is evaluated where all of its rows are.
            cte.query = match cte.recursive {
                true => self.within(&cte.query, depth + 1),
                false => self.query(&cte.query, depth + 1),
            };
        }
        self.body(&mut left, depth);
        left
    }

    /// Remainder of a query that is not a part itself.
    fn within(&mut self, query: &Query, depth: usize) -> Query {
        let mut left = query.clone();
        match &mut left.body {
            QueryBody::SetOperation { left, right, .. } => {
                [left, right].into_iter().for_each(|side| **side = self.within(side, depth + 1));
            }
            _ => self.body(&mut left, depth),
        }
        left
    }

    fn body(&mut self, query: &mut Query, depth: usize) {
        match &mut query.body {
            QueryBody::Select(select) => {
                let conditions: Vec<Expr> = select.filter.iter().flat_map(walk::conjuncts).cloned().collect();
                select.from.iter_mut().for_each(|item| self.item(item, &conditions, depth));
                let exprs = select.outputs.iter_mut().chain(&mut select.filter).chain(&mut select.group_by);
                exprs.chain(&mut select.having).for_each(|expr| self.expr(expr, depth));
            }
            QueryBody::SetOperation { left, right, .. } => {
                [left, right].into_iter().for_each(|side| **side = self.query(side, depth + 1));
            }
            QueryBody::Values(rows) => {
                rows.iter_mut().flatten().for_each(|expr| self.expr(expr, depth));
            }
        }
        query.limit.iter_mut().chain(&mut query.offset).for_each(|expr| self.expr(expr, depth));
    }

    fn expr(&mut self, expr: &mut Expr, depth: usize) {
        parts_mut(expr).into_iter().for_each(|part| self.expr(part, depth));
        if let Some(query) = subquery_mut(expr) {
            *query = self.query(query, depth + 1);
        }
    }

    /// `conditions`: hold for all needed rows of the item.
    fn item(&mut self, item: &mut FromItem, conditions: &[Expr], depth: usize) {
        match item {
            FromItem::Table { relation, table, .. } => {
                let own = |condition: &&Expr| {
                    !walk::has_subquery(condition)
                        && !walk::is_volatile(condition)
                        && walk::relations_read(condition) == [*relation].into()
                };
                let own = conditions.iter().filter(own).cloned().collect();
                self.leaves.push((*relation, *table, own));
            }
            FromItem::Subquery { query, .. } => **query = self.query(query, depth + 1),
            FromItem::Function { calls, .. } => {
                calls.iter_mut().flat_map(|call| &mut call.args).for_each(|arg| self.expr(arg, depth));
            }
            FromItem::Values { rows, .. } => {
                rows.iter_mut().flatten().for_each(|value| self.expr(value, depth));
            }
            FromItem::Cte { .. } => {}
            FromItem::Join { kind, left, right, on } => {
                let on_all: Vec<Expr> = on.iter().flat_map(walk::conjuncts).cloned().collect();
                let both = || [conditions, &on_all].concat();
                let (of_left, of_right) = match kind {
                    JoinKind::Inner | JoinKind::Cross => (both(), both()),
                    JoinKind::Left => (conditions.to_vec(), on_all.clone()),
                    JoinKind::Right => (on_all.clone(), conditions.to_vec()),
                    JoinKind::Full => (Vec::new(), Vec::new()),
                };
                self.item(left, &of_left, depth);
                self.item(right, &of_right, depth);
                on.iter_mut().for_each(|on| self.expr(on, depth));
            }
        }
    }

    /// How the result of a query over all shards follows from the rows of each.
    fn assembly(&self, query: &Query) -> Assembly {
        let QueryBody::Select(select) = &query.body else { return Assembly::Computed };
        let is_grouped = select.aggregates && !self.groups_at_home(select);
        if is_grouped || query.with_ties || !matches!(select.distinct, Distinct::All) {
            return Assembly::Computed;
        }
        match query.order_by.is_empty() && query.limit.is_none() && query.offset.is_none() {
            true => Assembly::Concatenated,
            // Without an order, rows are merged as they are.
            false => Assembly::Merged,
        }
    }

    /// Split of the query into a part that each shard runs over its own rows, and the whole.
    fn over_shards(&self, query: &Query, given: PartSource, assembly: Assembly) -> Option<(Query, Query)> {
        let QueryBody::Select(select) = &query.body else { return None };
        let plain = query.ctes.is_empty() && !self.has_ctes && !select.outputs.iter().any(walk::has_window);
        // Without its own ORDER BY the query must preserve the order of its source.
        let is_sorted =
            |item: &FromItem| matches!(item, FromItem::Subquery { query, .. } if !query.order_by.is_empty());
        let keeps_order = query.order_by.is_empty() && select.from.iter().any(is_sorted);
        if !plain
            || keeps_order
            || self.drives_all(&select.from) != Some(true)
            || !self.router.is_local(query)
        {
            return None;
        }
        match select.aggregates && !self.groups_at_home(select) {
            true => of_groups(query, given),
            false => of_rows(query, given, assembly == Assembly::Merged),
        }
    }

    fn drives_all(&self, items: &[FromItem]) -> Option<bool> {
        let mut drives = false;
        for item in items {
            drives |= self.drives(item)?;
        }
        Some(drives)
    }

    /// Returns `Some(true)` if each row of the item comes from exactly one shard, `Some(false)` if every shard finds all rows, `None`
    /// otherwise.
    fn drives(&self, item: &FromItem) -> Option<bool> {
        match item {
            FromItem::Table { table, .. } => Some(self.router.is_partitioned(*table)),
            FromItem::Cte { .. } => None,
            FromItem::Function { .. } | FromItem::Values { .. } => Some(false),
            FromItem::Subquery { query, .. } => {
                let tables = weir_sql::walk::tables(query);
                if !tables.iter().any(|(_, table)| self.router.is_partitioned(*table)) {
                    return Some(false);
                }
                let QueryBody::Select(select) = &query.body else { return None };
                let is_plain = query.ctes.is_empty()
                    && query.limit.is_none()
                    && query.offset.is_none()
                    && !query.with_ties
                    && matches!(select.distinct, Distinct::All)
                    && !select.outputs.iter().any(walk::has_window)
                    && (!select.aggregates || self.groups_at_home(select));
                (is_plain && self.drives_all(&select.from)?).then_some(true)
            }
            FromItem::Join { kind, left, right, .. } => {
                match (kind, self.drives(left)?, self.drives(right)?) {
                    (_, false, false) => Some(false),
                    (JoinKind::Inner | JoinKind::Cross, ..) => Some(true),
                    (JoinKind::Left, true, _) | (JoinKind::Right, _, true) => Some(true),
                    _ => None,
                }
            }
        }
    }

    /// Returns whether no group contains rows of several shards: the grouping columns determine the shard.
    fn groups_at_home(&self, select: &Select) -> bool {
        let mut tables = Vec::new();
        select.from.iter().for_each(|item| kept_tables(item, &mut tables));
        let is_key = |relation: RelationId, column: ColumnIndex| {
            select.group_by.iter().any(|key| match without_integer_cast(key).kind {
                ExprKind::Column { relation: of, column: at } => (of, at) == (relation, column),
                _ => false,
            })
        };
        tables.iter().any(|&(relation, table)| {
            let columns = self.router.partition(table);
            columns.is_some_and(|columns| columns.iter().all(|&column| is_key(relation, column)))
        })
    }

    /// Parts for the tables that the whole reads row by row.
    fn leaf_parts(&mut self, query: &Query, schema: &Schema) -> Vec<Part> {
        if self.leaves.is_empty() {
            return Vec::new();
        }
        let mut used = walk::UsedColumns::new();
        walk::each_expr_of_query(query, &mut |expr| walk::note_column(&mut used, expr));
        let mut wanted: BTreeMap<TableId, BTreeSet<ColumnIndex>> = BTreeMap::new();
        for (relation, table, _) in &self.leaves {
            let columns = wanted.entry(*table).or_default();
            columns.extend(used.remove(relation).unwrap_or_default());
            // Columns of the table's indexes are needed here too.
            for index in &schema.table(*table).indexes {
                let exprs = index.columns.iter().map(|column| &column.expr).chain(&index.predicate);
                for expr in exprs {
                    weir_sql::walk::columns(expr, &mut |_, column| {
                        columns.insert(column);
                    });
                }
            }
        }
        let known = known_columns(query);
        let leaves = std::mem::take(&mut self.leaves).into_iter();
        leaves
            .map(|(relation, table, own)| self.leaf((relation, table), own, &wanted[&table], &known))
            .collect()
    }

    fn leaf(
        &self,
        (relation, table): (RelationId, TableId),
        mut conditions: Vec<Expr>,
        columns: &BTreeSet<ColumnIndex>,
        known: &[super::routing::KnownTable<'_>],
    ) -> Part {
        let definition = self.router.catalog.table(table);
        let column = |column: ColumnIndex, ty: SqlType| Expr {
            kind: ExprKind::Column { relation, column },
            ty,
            span: Default::default(),
        };
        for (of, value) in known.iter().filter(|one| one.relation == relation).flat_map(|one| &one.fixed) {
            let is_plain = matches!(value.kind, ExprKind::Literal(_) | ExprKind::Variable(_));
            let own = column(*of, definition.columns[*of].ty.clone());
            let is_comparable = value.ty == own.ty || value.ty.is_integer() && own.ty.is_integer();
            if is_plain && is_comparable {
                let (left, right) = (Box::new(own), Box::new((*value).clone()));
                let kind = ExprKind::Binary { op: BinaryOp::Equal, left, right };
                conditions.push(Expr { kind, ty: SqlType::Bool, span: value.span });
            }
        }
        let filter = match conditions.len() {
            0 | 1 => conditions.pop(),
            _ => {
                let span = conditions[0].span;
                Some(Expr { kind: ExprKind::And(conditions), ty: SqlType::Bool, span })
            }
        };
        let columns: Vec<ColumnIndex> = columns.iter().copied().collect();
        let values = columns.iter().map(|&at| column(at, definition.columns[at].ty.clone()));
        let outputs: Vec<Expr> = [column(ROW_IDENTITY, SqlType::Int8)].into_iter().chain(values).collect();
        let shown = outputs.iter().map(|output| OutputColumn::new(String::new(), output.ty.clone()));
        let shown = shown.collect();
        let (alias, span) = (definition.name.clone(), Default::default());
        let from = vec![FromItem::Table { relation, table, alias, span }];
        let query = Query::of_select(Select::plain(outputs, from, filter), shown, span);
        let route = self.router.query(&query);
        Part { query, route, feeds: Feeds::Table { table, columns } }
    }
}

/// `SELECT … FROM (SELECT … ORDER BY …) s LIMIT n`: moves the limit into the subquery.
fn with_limit_within(query: &Query) -> Option<Query> {
    let QueryBody::Select(select) = &query.body else { return None };
    let [FromItem::Subquery { query: inner, .. }] = &select.from[..] else { return None };
    let is_whole = select.filter.is_none()
        && !select.aggregates
        && matches!(select.distinct, Distinct::All)
        && !select.outputs.iter().any(walk::has_window)
        && query.order_by.is_empty()
        && query.locks.is_empty();
    let (Some(limit), None) = (&query.limit, &query.offset) else { return None };
    let is_plain = matches!(limit.kind, ExprKind::Literal(_) | ExprKind::Variable(_));
    if !is_whole || !is_plain || inner.limit.is_some() || inner.order_by.is_empty() || inner.with_ties {
        return None;
    }
    let mut whole = query.clone();
    if let QueryBody::Select(select) = &mut whole.body
        && let [FromItem::Subquery { query: inner, .. }] = &mut select.from[..]
    {
        inner.limit = Some(limit.clone());
    }
    Some(whole)
}

/// Tables that contribute a row to every row of the item.
fn kept_tables(item: &FromItem, tables: &mut Vec<(RelationId, TableId)>) {
    match item {
        FromItem::Table { relation, table, .. } => tables.push((*relation, *table)),
        FromItem::Join { kind, left, right, .. } => {
            if matches!(kind, JoinKind::Inner | JoinKind::Cross | JoinKind::Left) {
                kept_tables(left, tables);
            }
            if matches!(kind, JoinKind::Inner | JoinKind::Cross | JoinKind::Right) {
                kept_tables(right, tables);
            }
        }
        _ => {}
    }
}
