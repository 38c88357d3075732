//! Join order and join methods of a FROM clause.
//!
//! Greedy: starts with the item of fewest expected rows, then always adds the connected item with the fewest. An item is looked up per
//! row if an index serves it, in index order if the rows can come in that order (a merge join); else the smaller side is hashed once.

use weir_sql::bound::{Expr, ExprKind, FromItem, JoinKind, TableFunction};
use weir_types::operator::BinaryOp;
use weir_types::{SqlError, Value};

use super::CompiledQuery;
use super::hash_join::{HashJoin, HashJoinKind};
use super::merge::{self, MergeJoin};
use super::node::Node;
use super::source::{FunctionSource, RowSource, SourceKind, series_step};
use crate::exec::access::TableAccess;
use crate::exec::compiler::Compiler;
use crate::exec::expr::CompiledExpr;
use crate::exec::expr::compile::compile_list;
use crate::exec::folding::is_never;
use crate::exec::walk::{self, Relations};

/// Assumed number of rows of an item that is not a table.
const OTHER_ROWS: f64 = 1_000.0;

/// Executable plan of a FROM clause, or of a part of it.
pub struct Plan {
    pub node: Node,
    pub rows: f64,
    relations: Relations,
}

/// A condition and the relations of this FROM clause that it reads.
#[derive(Clone)]
struct Condition<'a> {
    expr: &'a Expr,
    reads: Relations,
}

struct Leaf<'a> {
    item: &'a FromItem,
    relations: Relations,
    /// Relations of this FROM clause that must come before it (LATERAL).
    needs: Relations,
}

/// Plans the join of the items under the conditions. Columns of other relations are expected in the frame.
pub fn plan_from(
    items: &[&FromItem],
    conditions: Vec<&Expr>,
    compiler: &mut Compiler<'_>,
) -> Result<Plan, SqlError> {
    let mut leaves = Vec::new();
    let mut all = conditions;
    items.iter().for_each(|item| flatten(item, &mut leaves, &mut all));
    let mut local = Relations::new();
    leaves.iter().for_each(|leaf| local.extend(leaf.relations.iter().copied()));
    for leaf in &mut leaves {
        let mut reads = Relations::new();
        walk::each_from_expr(leaf.item, &mut |expr| {
            if let ExprKind::Column { relation, .. } = expr.kind {
                reads.insert(relation);
            }
        });
        leaf.needs = reads
            .intersection(&local)
            .filter(|relation| !leaf.relations.contains(relation))
            .copied()
            .collect();
    }
    let mut open: Vec<Condition<'_>> = Vec::new();
    let (mut first, mut for_each_row) = (Vec::new(), Vec::new());
    let never = all.iter().any(|expr| is_never(expr));
    let outer = compiler.finds_nothing;
    compiler.finds_nothing |= never;
    for expr in all {
        let reads: Relations = walk::relations_read(expr).intersection(&local).copied().collect();
        if reads.is_empty() && walk::is_volatile(expr) {
            for_each_row.push(CompiledExpr::compile(expr, compiler)?);
        } else if reads.is_empty() {
            first.push(CompiledExpr::compile(expr, compiler)?);
        } else {
            open.push(Condition { expr, reads });
        }
    }
    let mut plan = Plan { node: Node::Once, rows: 1.0, relations: Relations::new() };
    while !leaves.is_empty() {
        let next = cheapest(&leaves, &plan, &open, &local, compiler);
        let leaf = leaves.remove(next);
        let mut known = plan.relations.clone();
        known.extend(leaf.relations.iter().copied());
        let (ready, later) = open.into_iter().partition(|condition| condition.reads.is_subset(&known));
        open = later;
        plan = attach(plan, leaf, ready, &local, compiler)?;
    }
    compiler.finds_nothing = outer;
    if !for_each_row.is_empty() {
        plan.node = Node::Filter { conditions: for_each_row, input: Box::new(plan.node) };
    }
    if !first.is_empty() {
        plan.node = match plan.node {
            Node::Once => Node::Filter { conditions: first, input: Box::new(Node::Once) },
            node => Node::Nested {
                outer: Box::new(Node::Filter { conditions: first, input: Box::new(Node::Once) }),
                inner: Box::new(node),
                null_slots: None,
            },
        };
    }
    Ok(plan)
}

/// Flattens inner joins into their items and conditions.
fn flatten<'a>(item: &'a FromItem, leaves: &mut Vec<Leaf<'a>>, conditions: &mut Vec<&'a Expr>) {
    if let FromItem::Join { kind: JoinKind::Inner | JoinKind::Cross, left, right, on } = item {
        flatten(left, leaves, conditions);
        flatten(right, leaves, conditions);
        conditions.extend(on.iter().flat_map(walk::conjuncts));
        return;
    }
    leaves.push(Leaf { item, relations: walk::item_relations(item), needs: Relations::new() });
}

fn cheapest(
    leaves: &[Leaf<'_>],
    plan: &Plan,
    open: &[Condition<'_>],
    local: &Relations,
    compiler: &Compiler<'_>,
) -> usize {
    let mut best = (0, (true, true, f64::INFINITY));
    for (position, leaf) in leaves.iter().enumerate() {
        let blocked = !leaf.needs.is_subset(&plan.relations);
        let connected = plan.relations.is_empty()
            || open.iter().any(|condition| {
                !condition.reads.is_disjoint(&leaf.relations) && !condition.reads.is_disjoint(&plan.relations)
            })
            || !leaf.needs.is_empty();
        let rows = match leaf.item {
            FromItem::Table { relation, table, .. } => {
                let usable: Vec<&Expr> = open
                    .iter()
                    .filter(|condition| {
                        condition.reads.contains(relation)
                            && condition
                                .reads
                                .iter()
                                .all(|read| read == relation || plan.relations.contains(read))
                    })
                    .map(|condition| condition.expr)
                    .collect();
                let unknown = unknown(local, &plan.relations, &leaf.relations);
                TableAccess::choose(*table, *relation, &usable, &unknown, compiler).rows_expected
            }
            FromItem::Values { rows, .. } => rows.len() as f64,
            FromItem::Function { .. } => 100.0,
            FromItem::Join { .. } => 10_000.0,
            _ => OTHER_ROWS,
        };
        // A single row may come first even if no condition connects it.
        let key = (blocked, !connected && rows > 1.0, rows);
        if key < best.1 {
            best = (position, key);
        }
    }
    best.0
}

fn unknown(local: &Relations, known: &Relations, own: &Relations) -> Relations {
    local.iter().filter(|relation| !known.contains(relation) && !own.contains(relation)).copied().collect()
}

/// Splits a condition `left = right` between the two sides into (key of the known side, key of the new side).
fn equality<'a>(
    condition: &Condition<'a>,
    new: &Relations,
    local: &Relations,
) -> Option<(&'a Expr, &'a Expr)> {
    let ExprKind::Binary { op: BinaryOp::Equal, left, right } = &condition.expr.kind else { return None };
    let side = |expr: &Expr| -> (bool, bool) {
        let reads: Relations = walk::relations_read(expr).intersection(local).copied().collect();
        (!reads.is_empty() && reads.is_subset(new), reads.is_disjoint(new))
    };
    match (side(left), side(right)) {
        ((true, _), (_, true)) => Some((right, left)),
        ((_, true), (true, _)) => Some((left, right)),
        _ => None,
    }
}

fn attach(
    mut plan: Plan,
    leaf: Leaf<'_>,
    conditions: Vec<Condition<'_>>,
    local: &Relations,
    compiler: &mut Compiler<'_>,
) -> Result<Plan, SqlError> {
    let mut relations = plan.relations.clone();
    relations.extend(leaf.relations.iter().copied());
    let exprs: Vec<&Expr> = conditions.iter().map(|condition| condition.expr).collect();
    let alone = matches!(plan.node, Node::Once);
    let per_row = alone || !leaf.needs.is_empty();
    if let FromItem::Table { relation, table, .. } = leaf.item {
        let unknown = unknown(local, &plan.relations, &leaf.relations);
        let choice = TableAccess::choose(*table, *relation, &exprs, &unknown, compiler);
        let own: Vec<&Expr> = own_conditions(&conditions, &leaf.relations);
        let equalities = conditions.iter().any(|c| {
            equality(c, &leaf.relations, local)
                .is_some_and(|(known, _)| !walk::relations_read(known).is_disjoint(local))
        });
        let hashed_rows = TableAccess::choose(*table, *relation, &own, &unknown, compiler).rows_expected;
        let looks_up = plan.rows * choice.rows_expected.max(1.0) <= 3.0 * hashed_rows + plan.rows;
        if per_row || !equalities || looks_up || choice.is_single() {
            let rows = plan.rows * choice.rows_expected;
            compiler.note_consumed(&exprs, |position| choice.consumes(position));
            let inner = choice.compile(&exprs, compiler)?;
            let node = match plan.node {
                Node::Once => Node::Table(inner),
                outer => merge::join(outer, plan.rows, inner, None, compiler.schema),
            };
            return Ok(Plan { node, rows, relations });
        }
        if is_worth_merging(plan.rows, hashed_rows) {
            let inner = choice.compile(&exprs, compiler)?;
            if merge::comes_in_order(&mut plan.node, &inner, compiler.schema) {
                let rows = plan.rows.max(hashed_rows);
                let node = Node::Merge(Box::new(MergeJoin { outer: plan.node, inner, null_slots: None }));
                return Ok(Plan { node, rows, relations });
            }
        }
    }
    if per_row {
        let (inner, rows) = match alone {
            true => leaf_node(leaf.item, &exprs, compiler)?,
            false => compiler.again(|compiler| leaf_node(leaf.item, &exprs, compiler))?,
        };
        return Ok(Plan { node: nested(plan.node, inner), rows: plan.rows * rows, relations });
    }
    let own = own_conditions(&conditions, &leaf.relations);
    let (inner, inner_rows) = leaf_node(leaf.item, &own, compiler)?;
    let joint: Vec<Condition<'_>> =
        conditions.into_iter().filter(|c| !c.reads.is_subset(&leaf.relations)).collect();
    let constant = item_is_constant(leaf.item, &own);
    let rows = plan.rows.max(inner_rows);
    // The smaller side is hashed, unless the other one can be kept for many runs.
    let exchanged = 2.0 * plan.rows < inner_rows && !compiler.runs_again;
    let (outer, inner, new, constant) = match exchanged {
        true => (inner, plan.node, &plan.relations, false),
        false => (plan.node, inner, &leaf.relations, constant),
    };
    let sides = Sides { joint, new, local, constant };
    let node = hash_join(HashJoinKind::Inner, outer, inner, sides, compiler)?;
    Ok(Plan { node, rows, relations })
}

/// False if the outer side is so much larger that the inner one should be hashed instead of looked up.
fn is_worth_merging(outer_rows: f64, inner_rows: f64) -> bool {
    2.0 * inner_rows >= outer_rows
}

fn own_conditions<'a>(conditions: &[Condition<'a>], own: &Relations) -> Vec<&'a Expr> {
    conditions.iter().filter(|c| c.reads.is_subset(own)).map(|c| c.expr).collect()
}

fn nested(outer: Node, inner: Node) -> Node {
    match outer {
        Node::Once => inner,
        outer => Node::Nested { outer: Box::new(outer), inner: Box::new(inner), null_slots: None },
    }
}

/// Input of a hash join.
struct Sides<'a, 'c> {
    joint: Vec<Condition<'c>>,
    new: &'a Relations,
    local: &'a Relations,
    constant: bool,
}

fn hash_join(
    kind: HashJoinKind,
    outer: Node,
    inner: Node,
    sides: Sides<'_, '_>,
    compiler: &mut Compiler<'_>,
) -> Result<Node, SqlError> {
    let (mut outer_keys, mut inner_keys, mut residual) = (Vec::new(), Vec::new(), Vec::new());
    for condition in &sides.joint {
        match equality(condition, sides.new, sides.local) {
            Some((known, new)) => {
                outer_keys.push(CompiledExpr::compile(known, compiler)?);
                inner_keys.push(CompiledExpr::compile(new, compiler)?);
            }
            None => residual.push(CompiledExpr::compile(condition.expr, compiler)?),
        }
    }
    let cell = sides.constant.then(|| compiler.slots.fresh_cell());
    let (outer_slots, inner_slots) = (outer.slots(), inner.slots());
    let join =
        HashJoin { kind, outer, inner, outer_keys, inner_keys, residual, outer_slots, inner_slots, cell };
    Ok(Node::Hash(Box::new(join)))
}

/// Returns whether the item's rows depend on nothing outside it, so that one evaluation serves the whole statement.
fn item_is_constant(item: &FromItem, conditions: &[&Expr]) -> bool {
    let mut volatile = false;
    let mut read = Relations::new();
    let mut visit = |expr: &Expr| {
        volatile |= expr.kind.is_volatile();
        if let ExprKind::Column { relation, .. } = expr.kind {
            read.insert(relation);
        }
    };
    walk::each_from_expr(item, &mut |expr| visit(expr));
    conditions.iter().for_each(|condition| walk::each_expr(condition, &mut |expr| visit(expr)));
    let mut defined = Relations::new();
    walk::from_relations_deep(item, &mut defined);
    conditions.iter().for_each(|condition| walk::subquery_relations(condition, &mut defined));
    !volatile && read.is_subset(&defined)
}

/// Plans one item with conditions over it and over columns in the frame.
fn leaf_node(
    item: &FromItem,
    conditions: &[&Expr],
    compiler: &mut Compiler<'_>,
) -> Result<(Node, f64), SqlError> {
    let (relation, kind, rows) = match item {
        FromItem::Table { relation, table, .. } => {
            let choice = TableAccess::choose(*table, *relation, conditions, &Relations::new(), compiler);
            let rows = choice.rows_expected;
            compiler.note_consumed(conditions, |position| choice.consumes(position));
            return Ok((Node::Table(choice.compile(conditions, compiler)?), rows));
        }
        FromItem::Join { kind, left, right, on } => {
            return outer_join(*kind, left, right, on.as_ref(), conditions, compiler);
        }
        FromItem::Subquery { relation, query, .. } => {
            let compiled = CompiledQuery::compile_in(query, compiler)?;
            (*relation, SourceKind::Query(Box::new(compiled)), OTHER_ROWS)
        }
        FromItem::Cte { relation, level, index } => {
            (*relation, SourceKind::Cte(compiler.cte(*level, *index)?), OTHER_ROWS)
        }
        FromItem::Values { relation, rows, .. } => {
            let mut compiled = Vec::with_capacity(rows.len());
            for row in rows {
                compiled.push(compile_list(row, compiler)?);
            }
            (*relation, SourceKind::Values(compiled), rows.len() as f64)
        }
        FromItem::Function { relation, calls, .. } => {
            let mut sources = Vec::with_capacity(calls.len());
            for call in calls {
                let types: Vec<_> = call.args.iter().map(|arg| arg.ty.clone()).collect();
                let (step, one) = match call.function {
                    TableFunction::GenerateSeries => {
                        let (step, one) = series_step(&types)?;
                        (Some(step), one)
                    }
                    _ => (None, Value::Null),
                };
                let args = compile_list(&call.args, compiler)?;
                sources.push(FunctionSource { function: call.function, args, width: call.width, step, one });
            }
            (*relation, SourceKind::Functions(sources), 100.0)
        }
    };
    let mut filter = Vec::with_capacity(conditions.len());
    for condition in conditions {
        filter.push(CompiledExpr::compile(condition, compiler)?);
    }
    let targets = compiler.slots.columns_of(relation);
    Ok((Node::Rows(RowSource { kind, targets, filter }), rows))
}

/// Plans a LEFT, RIGHT or FULL JOIN under the conditions of the surrounding WHERE clause.
fn outer_join(
    kind: JoinKind,
    left: &FromItem,
    right: &FromItem,
    on: Option<&Expr>,
    conditions: &[&Expr],
    compiler: &mut Compiler<'_>,
) -> Result<(Node, f64), SqlError> {
    if kind == JoinKind::Right {
        return outer_join(JoinKind::Left, right, left, on, conditions, compiler);
    }
    let (outer_relations, inner_relations) = (walk::item_relations(left), walk::item_relations(right));
    let mut local = outer_relations.clone();
    local.extend(inner_relations.iter().copied());
    let reads =
        |expr: &Expr| -> Relations { walk::relations_read(expr).intersection(&local).copied().collect() };
    let on_conditions: Vec<&Expr> = on.into_iter().flat_map(walk::conjuncts).collect();
    let full = kind == JoinKind::Full;
    // Conditions on the preserved side alone can move below the join; the others see its NULLs.
    let (below, above): (Vec<&Expr>, Vec<&Expr>) =
        conditions.iter().partition(|expr| !full && reads(expr).is_subset(&outer_relations));
    let outer = plan_from(&[left], below, compiler)?;
    let (node, rows) = if full {
        let inner = plan_from(&[right], Vec::new(), compiler)?;
        let rows = outer.rows.max(inner.rows);
        let joint = on_conditions.iter().map(|expr| Condition { expr, reads: reads(expr) }).collect();
        let constant = item_is_constant(right, &[]);
        let sides = Sides { joint, new: &inner_relations, local: &local, constant };
        (hash_join(HashJoinKind::Full, outer.node, inner.node, sides, compiler)?, rows)
    } else {
        left_join(outer, right, &on_conditions, &local, compiler)?
    };
    if above.is_empty() {
        return Ok((node, rows));
    }
    let mut filter = Vec::with_capacity(above.len());
    for condition in above {
        filter.push(CompiledExpr::compile(condition, compiler)?);
    }
    Ok((Node::Filter { conditions: filter, input: Box::new(node) }, rows))
}

fn left_join(
    mut outer: Plan,
    right: &FromItem,
    on: &[&Expr],
    local: &Relations,
    compiler: &mut Compiler<'_>,
) -> Result<(Node, f64), SqlError> {
    let new = walk::item_relations(right);
    let joint: Vec<Condition<'_>> = on
        .iter()
        .map(|expr| Condition {
            expr,
            reads: walk::relations_read(expr).intersection(local).copied().collect(),
        })
        .collect();
    let mut lateral = false;
    walk::each_from_expr(right, &mut |expr| {
        if let ExprKind::Column { relation, .. } = expr.kind {
            lateral |= local.contains(&relation) && !new.contains(&relation);
        }
    });
    let equalities = joint.iter().any(|condition| equality(condition, &new, local).is_some());
    // Conditions that do not read the right side belong to the join itself, not below it.
    let own: Vec<&Expr> =
        joint.iter().filter(|c| !c.reads.is_empty() && c.reads.is_subset(&new)).map(|c| c.expr).collect();
    let looks_up = match right {
        FromItem::Table { relation, table, .. } => {
            let none = Relations::new();
            let choice = TableAccess::choose(*table, *relation, on, &none, compiler);
            let hashed = TableAccess::choose(*table, *relation, &own, local, compiler).rows_expected;
            choice.is_single() || outer.rows * choice.rows_expected <= 3.0 * hashed + outer.rows
        }
        _ => false,
    };
    if lateral || looks_up || (!equalities && matches!(right, FromItem::Table { .. })) {
        let inner = compiler.again(|compiler| plan_from(&[right], on.to_vec(), compiler))?;
        let rows = outer.rows * inner.rows;
        let null_slots = Some(inner.node.slots());
        let node = match inner.node {
            Node::Table(inner) => merge::join(outer.node, outer.rows, inner, null_slots, compiler.schema),
            inner => Node::Nested { outer: Box::new(outer.node), inner: Box::new(inner), null_slots },
        };
        return Ok((node, rows));
    }
    if let FromItem::Table { relation, table, .. } = right {
        let hashed = TableAccess::choose(*table, *relation, &own, local, compiler).rows_expected;
        let inner = match is_worth_merging(outer.rows, hashed) {
            true => compiler.again(|compiler| plan_from(&[right], on.to_vec(), compiler))?.node,
            false => Node::Once,
        };
        if let Node::Table(inner) = inner
            && merge::comes_in_order(&mut outer.node, &inner, compiler.schema)
        {
            let (rows, null_slots) = (outer.rows.max(hashed), Some(inner.slots().collect()));
            return Ok((Node::Merge(Box::new(MergeJoin { outer: outer.node, inner, null_slots })), rows));
        }
    }
    let constant = item_is_constant(right, &own);
    let is_own = |c: &Condition<'_>| !c.reads.is_empty() && c.reads.is_subset(&new);
    let inner = plan_from(&[right], own, compiler)?;
    let rows = outer.rows.max(inner.rows);
    let joint = joint.into_iter().filter(|condition| !is_own(condition)).collect();
    let sides = Sides { joint, new: &new, local, constant };
    let node = hash_join(HashJoinKind::Left, outer.node, inner.node, sides, compiler)?;
    Ok((node, rows))
}
