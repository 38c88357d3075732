//! The plan of a FROM clause: sources, filters and joins.

use std::ops::ControlFlow;

use weir_types::{SqlError, Value};

use super::hash_join::HashJoin;
use super::merge::MergeJoin;
use super::source::RowSource;
use crate::exec::access::{Sink, TableAccess};
use crate::exec::context::{Cx, Flow};
use crate::exec::expr::CompiledExpr;
use crate::exec::slots::{Slot, SlotAllocator};

#[derive(Debug)]
pub enum Node {
    /// One row without columns: `SELECT 1`.
    Once,
    Table(TableAccess),
    Rows(RowSource),
    /// Conditions that no source took. Those without columns come first of all.
    Filter {
        conditions: Vec<CompiledExpr>,
        input: Box<Node>,
    },
    /// The inner side runs once per outer row; it sees the outer row's columns.
    Nested {
        outer: Box<Node>,
        inner: Box<Node>,
        /// LEFT JOIN: where nothing matches, these become NULL.
        null_slots: Option<Vec<Slot>>,
    },
    Hash(Box<HashJoin>),
    Merge(Box<MergeJoin>),
}

pub(super) const CONTINUE: Flow = Ok(ControlFlow::Continue(()));

/// Whether all conditions are true.
#[inline]
pub fn all_true(conditions: &[CompiledExpr], cx: &mut Cx<'_>) -> Result<bool, SqlError> {
    for condition in conditions {
        if !condition.truth(cx)?.is_true() {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Node {
    pub fn run(&self, cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        match self {
            Node::Once => sink(cx),
            Node::Table(access) => access.for_each_match(cx, &mut |cx, _| sink(cx)),
            Node::Rows(source) => source.run(cx, sink),
            Node::Filter { conditions, input } => {
                if matches!(**input, Node::Once) {
                    return if all_true(conditions, cx)? { sink(cx) } else { CONTINUE };
                }
                input.run(cx, &mut |cx| if all_true(conditions, cx)? { sink(cx) } else { CONTINUE })
            }
            Node::Nested { outer, inner, null_slots: None } => outer.run(cx, &mut |cx| inner.run(cx, sink)),
            Node::Nested { outer, inner, null_slots: Some(slots) } => outer.run(cx, &mut |cx| {
                let mut matched = false;
                let flow = inner.run(cx, &mut |cx| {
                    matched = true;
                    sink(cx)
                })?;
                if matched {
                    return Ok(flow);
                }
                set_null(slots, cx);
                sink(cx)
            }),
            Node::Hash(join) => join.run(cx, sink),
            Node::Merge(join) => join.run(cx, sink),
        }
    }

    /// The slots that a row of it fills.
    pub fn slots(&self) -> Vec<Slot> {
        match self {
            Node::Once => Vec::new(),
            Node::Table(access) => access.slots().collect(),
            Node::Rows(source) => source.slots(),
            Node::Filter { input, .. } => input.slots(),
            Node::Nested { outer, inner, .. } => {
                let mut slots = outer.slots();
                slots.extend(inner.slots());
                slots
            }
            Node::Hash(join) => join.outer_slots.iter().chain(&join.inner_slots).copied().collect(),
            Node::Merge(join) => {
                let mut slots = join.outer.slots();
                slots.extend(join.inner.slots());
                slots
            }
        }
    }

    pub fn each_table<'a>(&'a self, visit: &mut dyn FnMut(&'a TableAccess)) {
        match self {
            Node::Once => {}
            Node::Table(access) => visit(access),
            Node::Rows(source) => source.each_table(visit),
            Node::Filter { input, .. } => input.each_table(visit),
            Node::Nested { outer, inner, .. } => {
                outer.each_table(visit);
                inner.each_table(visit);
            }
            Node::Hash(join) => {
                join.outer.each_table(visit);
                join.inner.each_table(visit);
            }
            Node::Merge(join) => {
                join.outer.each_table(visit);
                visit(&join.inner);
            }
        }
    }
}

impl Node {
    /// Ends the compilation of a statement: columns that no expression reads are not loaded.
    pub fn prune(&mut self, slots: &SlotAllocator) {
        match self {
            Node::Once | Node::Rows(_) => {}
            Node::Table(access) => access.prune(slots),
            Node::Filter { input, .. } => input.prune(slots),
            Node::Nested { outer, inner, .. } => {
                outer.prune(slots);
                inner.prune(slots);
            }
            Node::Hash(join) => {
                join.outer.prune(slots);
                join.inner.prune(slots);
            }
            Node::Merge(join) => {
                join.outer.prune(slots);
                join.inner.prune(slots);
            }
        }
    }
}

pub(super) fn set_null(slots: &[Slot], cx: &mut Cx<'_>) {
    for &slot in slots {
        cx.frame.set(slot, Value::Null);
    }
}

/// Appends the values of the slots to a row.
pub(super) fn append_slots(key: &mut Vec<Value>, slots: &[Slot], cx: &Cx<'_>) {
    key.extend(slots.iter().map(|&slot| cx.value(slot).clone()));
}

pub(super) fn load_slots(slots: &[Slot], values: &[Value], cx: &mut Cx<'_>) {
    for (&slot, value) in slots.iter().zip(values) {
        cx.frame.set(slot, value.clone());
    }
}
