//! GROUP BY GROUPING SETS, ROLLUP and CUBE: one query for each set, joined by UNION ALL (SQL:1999 7.9).
//!
//! Where a key is not of the set, what is that key gives NULL, and `grouping` says so.

use std::collections::{BTreeMap, BTreeSet};

use pg_query::protobuf::{GroupingFunc, GroupingSet, GroupingSetKind, Node, SelectStmt, node};
use weir_types::{SqlState, SqlType, Value};

use super::Binder;
use super::coerce::null;
use super::output::Target;
use super::scope::Aggregates;
use crate::bound::{Distinct, Expr, ExprKind, FromItem, OutputColumn, Query, QueryBody, Select, SetOperator};
use crate::print;
use crate::source::Diagnostic;
use crate::walk::{self, Part};

/// Keys by their positions, set by set.
pub(super) type Sets = Vec<Vec<usize>>;

/// More would be a mistake: CUBE of a dozen has 4,096.
const SETS_MAX: usize = 4_096;

impl<'a> Binder<'a> {
    /// The keys, and the sets of them where there is more than one GROUP BY.
    pub(super) fn bind_grouping(
        &mut self,
        select: &'a SelectStmt,
        targets: &[Target],
    ) -> Result<(Vec<Expr>, Option<Sets>), Diagnostic> {
        let list = &select.group_clause[..];
        if !list.iter().any(|node| matches!(node.node, Some(node::Node::GroupingSet(_)))) {
            return Ok((self.bind_group_by(list, targets)?, None));
        }
        let mut keys = Vec::new();
        let mut sets: Sets = vec![Vec::new()];
        for node in list {
            let of_node = self.sets_of(node, targets, &mut keys)?;
            if sets.len() * of_node.len() > SETS_MAX {
                let message = "too many grouping sets present (maximum 4096)";
                return Err(self.error(SqlState::STATEMENT_TOO_COMPLEX, self.piece.span(), message));
            }
            sets = sets.iter().flat_map(|one| of_node.iter().map(|other| joined(one, other))).collect();
        }
        if select.group_distinct {
            sets = without_duplicates(sets);
        }
        Ok((keys, Some(sets)))
    }

    fn sets_of(
        &mut self,
        node: &'a Node,
        targets: &[Target],
        keys: &mut Vec<Expr>,
    ) -> Result<Sets, Diagnostic> {
        let Some(node::Node::GroupingSet(set)) = &node.node else {
            return Ok(vec![self.keys_of(node, targets, keys)?]);
        };
        let GroupingSet { kind, content, location } = set;
        let mut parts = Vec::new();
        match GroupingSetKind::try_from(*kind) {
            Ok(GroupingSetKind::GroupingSetEmpty) => return Ok(vec![Vec::new()]),
            Ok(GroupingSetKind::GroupingSetSets) => {
                for node in content {
                    parts.extend(self.sets_of(node, targets, keys)?);
                }
                return Ok(parts);
            }
            _ => {}
        }
        for node in content {
            parts.push(self.keys_of(node, targets, keys)?);
        }
        let together = |parts: &[Vec<usize>]| parts.iter().fold(Vec::new(), |all, one| joined(&all, one));
        match GroupingSetKind::try_from(*kind) {
            Ok(GroupingSetKind::GroupingSetRollup) => {
                Ok((0..=parts.len()).rev().map(|count| together(&parts[..count])).collect())
            }
            Ok(GroupingSetKind::GroupingSetCube) if parts.len() <= 12 => {
                let chosen = |mask: u32| {
                    let of_mask = parts.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1);
                    together(&of_mask.map(|(_, part)| part.clone()).collect::<Vec<_>>())
                };
                Ok((0..1_u32 << parts.len()).rev().map(chosen).collect())
            }
            Ok(GroupingSetKind::GroupingSetCube) => {
                let message = "CUBE is limited to 12 elements";
                Err(self.error(SqlState::STATEMENT_TOO_COMPLEX, self.piece.token(*location), message))
            }
            _ => Ok(vec![together(&parts)]),
        }
    }

    /// `a` or `(a, b)`.
    fn keys_of(
        &mut self,
        node: &'a Node,
        targets: &[Target],
        keys: &mut Vec<Expr>,
    ) -> Result<Vec<usize>, Diagnostic> {
        let nodes = match &node.node {
            Some(node::Node::RowExpr(row)) => &row.args[..],
            _ => std::slice::from_ref(node),
        };
        let mut positions = Vec::new();
        for node in nodes {
            let position = self.add_group_key(node, targets, keys)?;
            if !positions.contains(&position) {
                positions.push(position);
            }
        }
        Ok(positions)
    }

    /// Stands for its value until the set is known.
    pub(super) fn bind_grouping_function(&mut self, function: &'a GroupingFunc) -> Result<Expr, Diagnostic> {
        let span = self.piece.bracketed(function.location);
        let allowed = self.scopes.last().map_or(Aggregates::NoQuery, |scope| scope.aggregates);
        if allowed != Aggregates::Allowed {
            let message = "grouping operations are not allowed here";
            return Err(self.error(SqlState::GROUPING_ERROR, span, message));
        }
        let args = self.bind_list(&function.args)?;
        Ok(Expr { kind: ExprKind::Opaque(args), ty: SqlType::Int4, span })
    }

    pub(super) fn grouped_by_sets(
        &mut self,
        select: Select,
        sets: Option<Sets>,
    ) -> Result<QueryBody, Diagnostic> {
        let asks = select.outputs.iter().chain(&select.having).any(asks_for_set);
        if sets.is_none() && !asks {
            return Ok(QueryBody::Select(Box::new(select)));
        }
        let span = select.outputs.first().map_or(self.piece.span(), |output| output.span);
        if sets.is_some()
            && (!matches!(select.distinct, Distinct::All) || select.outputs.iter().any(walk::has_window))
        {
            let what = "DISTINCT or window functions beside GROUPING SETS, ROLLUP or CUBE";
            return Err(Diagnostic::unsupported(span, what, "group in a subquery"));
        }
        let sets = sets.unwrap_or_else(|| vec![(0..select.group_by.len()).collect()]);
        let columns: Vec<OutputColumn> =
            select.outputs.iter().map(|output| OutputColumn::new(String::new(), output.ty.clone())).collect();
        let mut union: Option<Query> = None;
        for (number, set) in sets.iter().enumerate() {
            let mut query = Query::of_select(self.of_set(&select, set)?, columns.clone(), span);
            if number > 0 {
                self.renumber_own(&mut query);
            }
            walk::deepen(&mut query, sets.len() - number.max(1));
            union = Some(match union {
                None => query,
                Some(left) => {
                    let (left, right) = (Box::new(left), Box::new(query));
                    let body = QueryBody::SetOperation { op: SetOperator::Union, all: true, left, right };
                    Query {
                        body,
                        ..Query::of_select(Select::plain(vec![], vec![], None), columns.clone(), span)
                    }
                }
            });
        }
        match union {
            Some(query) => Ok(query.body),
            None => Ok(QueryBody::Select(Box::new(select))),
        }
    }

    /// The SELECT grouped by these keys alone.
    fn of_set(&self, select: &Select, set: &[usize]) -> Result<Select, Diagnostic> {
        let mut one = select.clone();
        one.aggregates = true;
        one.group_by = set.iter().map(|&key| select.group_by[key].clone()).collect();
        for expr in one.outputs.iter_mut().chain(&mut one.having) {
            self.within_set(expr, &select.group_by, set)?;
        }
        Ok(one)
    }

    fn within_set(&self, expr: &mut Expr, keys: &[Expr], set: &[usize]) -> Result<(), Diagnostic> {
        if matches!(expr.kind, ExprKind::Aggregate(_)) {
            return Ok(());
        }
        if let (ExprKind::Opaque(args), SqlType::Int4) = (&expr.kind, &expr.ty) {
            let mut bits = 0;
            for arg in args {
                let Some(key) = keys.iter().position(|key| print::same(key, arg)) else {
                    let message =
                        "arguments to GROUPING must be grouping expressions of the associated query level";
                    return Err(self.error(SqlState::GROUPING_ERROR, arg.span, message));
                };
                bits = bits << 1 | i64::from(!set.contains(&key));
            }
            expr.kind = ExprKind::Literal(Value::Int(bits));
            return Ok(());
        }
        if let Some(key) = keys.iter().position(|key| print::same(key, expr)) {
            if !set.contains(&key) {
                *expr = null(expr.ty.clone(), expr.span);
            }
            return Ok(());
        }
        for part in walk::parts_mut(expr) {
            self.within_set(part, keys, set)?;
        }
        if let Some(query) = walk::subquery_mut(expr) {
            walk::change_query(query, &mut |inner: &mut Expr| {
                if let Some(key) = keys.iter().position(|key| print::same(key, inner))
                    && !set.contains(&key)
                {
                    *inner = null(inner.ty.clone(), inner.span);
                }
            });
        }
        Ok(())
    }

    /// Gives the relations that the query defines other numbers; those of queries around it stay.
    fn renumber_own(&mut self, query: &mut Query) {
        let mut moved = BTreeMap::new();
        let mut own = Vec::new();
        walk::each_part(Part::Query(query), &mut |part| {
            if let Part::From(
                FromItem::Table { relation, .. }
                | FromItem::Subquery { relation, .. }
                | FromItem::Cte { relation, .. }
                | FromItem::Function { relation, .. }
                | FromItem::Values { relation, .. },
            ) = part
            {
                own.push(*relation)
            }
        });
        for relation in own {
            moved.insert(relation, self.new_relation());
        }
        walk::renumber(query, &mut |relation| moved.get(&relation).copied().unwrap_or(relation));
    }
}

/// The first of the sets that have the same keys, in whatever order.
fn without_duplicates(sets: Sets) -> Sets {
    let mut met = BTreeSet::new();
    let is_new = |set: &Vec<usize>| {
        let mut keys = set.clone();
        keys.sort_unstable();
        met.insert(keys)
    };
    let mut sets = sets;
    sets.retain(is_new);
    sets
}

fn asks_for_set(expr: &Expr) -> bool {
    let is_it = matches!((&expr.kind, &expr.ty), (ExprKind::Opaque(_), SqlType::Int4));
    is_it || walk::parts(expr).into_iter().any(asks_for_set)
}

fn joined(one: &[usize], other: &[usize]) -> Vec<usize> {
    let mut all = one.to_vec();
    all.extend(other.iter().filter(|key| !one.contains(key)));
    all
}
