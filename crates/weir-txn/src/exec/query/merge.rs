//! Merge joins: both sides come in the order of an index, and the place in the inner one only moves forward.
//!
//! The order is the planner's promise and nothing that the result rests on: where a key is not ahead, its place is looked up.

use std::ops::ControlFlow;

use weir_sql::bound::SortOrder;
use weir_sql::catalog::ColumnIndex;
use weir_types::SqlError;

use super::node::{Node, set_null};
use crate::exec::access::{Path, Sink, TableAccess};
use crate::exec::context::{Cx, Flow};
use crate::exec::expr::CompiledExpr;
use crate::exec::slots::Slot;
use crate::storage::{Cursor, Schema};

#[derive(Debug)]
pub struct MergeJoin {
    pub outer: Node,
    pub inner: TableAccess,
    /// LEFT JOIN: where nothing matches, these become NULL.
    pub null_slots: Option<Vec<Slot>>,
}

/// Fewer rows are looked up one by one: they need not come in an order for that.
const OUTER_ROWS_MIN: f64 = 500.0;

/// A join that looks the inner table's rows up by an index for each of about so many outer rows: as a merge join, if the outer side can
/// come in that index's order.
pub fn join(
    mut outer: Node,
    outer_rows: f64,
    inner: TableAccess,
    null_slots: Option<Vec<Slot>>,
    schema: &Schema,
) -> Node {
    match outer_rows >= OUTER_ROWS_MIN && comes_in_order(&mut outer, &inner, schema) {
        true => Node::Merge(Box::new(MergeJoin { outer, inner, null_slots })),
        false => Node::Nested { outer: Box::new(outer), inner: Box::new(Node::Table(inner)), null_slots },
    }
}

/// Makes the side's first table come in the order in which it asks the other one's index, if it can.
pub fn comes_in_order(outer: &mut Node, inner: &TableAccess, schema: &Schema) -> bool {
    let (index, keys) = match &inner.path {
        Path::Get { index, keys } => (*index, keys),
        Path::Range(range) if range.lower.is_none() && range.upper.is_none() && !range.reverse => {
            (range.index, &range.prefix)
        }
        _ => return false,
    };
    let Some((first, is_free)) = first_table(outer) else { return false };
    let columns = &schema.table(inner.table).indexes[index].columns;
    let mut order: Vec<(ColumnIndex, SortOrder)> = Vec::new();
    for (key, asked) in keys.iter().zip(columns) {
        match key {
            CompiledExpr::Constant(_) => {}
            CompiledExpr::Slot(slot) => match first.column_in(*slot) {
                Some(column) => {
                    let direction =
                        SortOrder { descending: asked.descending, nulls_first: asked.nulls_first };
                    order.push((column, direction));
                }
                // It is the same for all rows, or nothing is known of it.
                None => return false,
            },
            _ => return false,
        }
    }
    // Rows that another join has put in order stay so.
    let may_change = is_free || matches!(&first.path, Path::Range(range) if !range.reverse);
    !order.is_empty() && may_change && first.deliver_in_order(&order, true, true, schema)
}

/// The table whose rows come first; whether another order may be chosen for them.
fn first_table(node: &mut Node) -> Option<(&mut TableAccess, bool)> {
    match node {
        Node::Table(access) => Some((access, true)),
        Node::Filter { input, .. } => first_table(input),
        Node::Nested { outer, .. } => first_table(outer),
        Node::Merge(join) => first_table(&mut join.outer).map(|(access, _)| (access, false)),
        Node::Once | Node::Rows(_) | Node::Hash(_) => None,
    }
}

impl MergeJoin {
    pub fn run(&self, cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        let mut cursor = Cursor::default();
        self.outer.run(cx, &mut |cx| {
            let mut matched = false;
            let flow = self.inner.for_each_ahead(&mut cursor, cx, &mut |cx, _| {
                matched = true;
                sink(cx)
            })?;
            match &self.null_slots {
                Some(slots) if !matched => {
                    set_null(slots, cx);
                    sink(cx)
                }
                _ => Ok::<ControlFlow<()>, SqlError>(flow),
            }
        })
    }
}
