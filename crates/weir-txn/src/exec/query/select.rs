//! SELECT: source, grouping, outputs, DISTINCT.

use std::ops::ControlFlow;

use weir_sql::bound::{Distinct, Expr, ExprKind, Select, SortOrder};
use weir_types::interrupt::check;
use weir_types::{SqlError, Value};

use super::RowSink;
use super::hash::{Indexed, ValueSet};
use super::join::plan_from;
use super::node::{Node, append_slots, load_slots};
use super::partitions::Room;
use super::sort::Sorter;
use super::window::Windows;
use crate::exec::access::{Sink, TableAccess};
use crate::exec::aggregate::{Accumulator, CompiledAggregate};
use crate::exec::compiler::Compiler;
use crate::exec::context::{Cx, Flow};
use crate::exec::expr::CompiledExpr;
use crate::exec::expr::compile::compile_list;
use crate::exec::slots::Slot;
use crate::exec::walk::{self, Relations};
use crate::storage::Schema;
use crate::storage::temporary::TemporaryFiles;

#[derive(Debug)]
pub struct CompiledSelect {
    pub source: Node,
    outputs: Vec<CompiledExpr>,
    grouping: Option<Grouping>,
    windows: Option<Windows>,
    distinct: bool,
}

#[derive(Debug)]
struct Grouping {
    keys: Vec<CompiledExpr>,
    aggregates: Vec<CompiledAggregate>,
    /// Columns that outputs read outside of aggregates. They are constant within a group, so those of its first row are kept.
    kept: Vec<Slot>,
    having: Option<CompiledExpr>,
    /// `min` or `max` over an index: the first non-null value is the result.
    first_value_decides: bool,
}

struct Group<'a> {
    accumulators: Vec<Accumulator<'a>>,
    kept: Vec<Value>,
}

impl CompiledSelect {
    pub fn compile(select: &Select, compiler: &mut Compiler<'_>) -> Result<CompiledSelect, SqlError> {
        let conditions: Vec<&Expr> = select.filter.iter().flat_map(walk::conjuncts).collect();
        let items: Vec<_> = select.from.iter().collect();
        let mut source = plan_from(&items, conditions, compiler)?.node;
        let distinct = matches!(select.distinct, Distinct::Rows);
        let has_window = select.outputs.iter().any(walk::has_window);
        if !select.aggregates && !has_window {
            let outputs = match &mut source {
                Node::Table(access) => access.compile_in_place(&select.outputs, compiler)?,
                _ => compile_list(&select.outputs, compiler)?,
            };
            return Ok(CompiledSelect { source, outputs, grouping: None, windows: None, distinct });
        }
        compiler.windows.push(Vec::new());
        if !select.aggregates {
            let outputs = compile_list(&select.outputs, compiler);
            let sorts = compiler.windows.pop().unwrap_or_default();
            let windows = Windows::new(sorts, kept_columns(select, compiler));
            return Ok(CompiledSelect { source, outputs: outputs?, grouping: None, windows, distinct });
        }
        let keys = compile_list(&select.group_by, compiler)?;
        compiler.aggregates.push(Vec::new());
        let outputs = compile_list(&select.outputs, compiler);
        let having = select.having.as_ref().map(|having| CompiledExpr::compile(having, compiler)).transpose();
        let aggregates = compiler.aggregates.pop().unwrap_or_default();
        let sorts = compiler.windows.pop().unwrap_or_default();
        let kept = kept_columns(select, compiler);
        let saved = kept.iter().copied().chain(aggregates.iter().map(|aggregate| aggregate.output)).collect();
        let grouping = Grouping { keys, aggregates, kept, having: having?, first_value_decides: false };
        let (grouping, windows) = (Some(grouping), Windows::new(sorts, saved));
        let mut compiled = CompiledSelect { source, outputs: outputs?, grouping, windows, distinct };
        compiled.use_index_end(select, compiler.schema);
        Ok(compiled)
    }

    /// `SELECT max(k)` over a range of an index ordered by `k` reads only one end of it.
    fn use_index_end(&mut self, select: &Select, schema: &Schema) {
        let Some(grouping) = &mut self.grouping else { return };
        let ([aggregate], true) = (&grouping.aggregates[..], grouping.keys.is_empty()) else { return };
        let Some(maximum) = aggregate.is_plain_extremum() else { return };
        let mut argument = None;
        for output in select.outputs.iter().chain(&select.having) {
            walk::each_expr(output, &mut |expr| {
                if let ExprKind::Aggregate(aggregate) = &expr.kind {
                    argument = aggregate.args.first();
                }
            });
        }
        let Some(ExprKind::Column { relation, column }) = argument.map(|argument| &argument.kind) else {
            return;
        };
        let Node::Table(access) = &mut self.source else { return };
        if access.relation != *relation {
            return;
        }
        let order = SortOrder { descending: maximum, nulls_first: maximum };
        grouping.first_value_decides = access.deliver_in_order(&[(*column, order)], true, true, schema);
    }

    /// Makes the source deliver rows in ORDER BY's order, if it can. `limited`: only a few rows are needed.
    pub fn deliver_in_order(
        &mut self,
        select: &Select,
        order_by: &[(usize, SortOrder)],
        limited: bool,
        schema: &Schema,
    ) -> bool {
        let Node::Table(access) = &mut self.source else { return false };
        if self.grouping.is_some() || self.distinct || self.windows.is_some() {
            return false;
        }
        let mut columns = Vec::with_capacity(order_by.len());
        for (output, order) in order_by {
            match select.outputs[*output].kind {
                ExprKind::Column { relation, column } if relation == access.relation => {
                    columns.push((column, *order));
                }
                _ => return false,
            }
        }
        access.deliver_in_order(&columns, limited, false, schema)
    }

    /// See [`super::CompiledQuery::as_look_up`].
    pub fn as_look_up(&self) -> Option<(&TableAccess, &[CompiledExpr])> {
        match &self.source {
            Node::Table(access)
                if access.is_single() && self.grouping.is_none() && self.windows.is_none() =>
            {
                Some((access, &self.outputs))
            }
            _ => None,
        }
    }

    pub fn run(&self, cx: &mut Cx<'_>, sink: RowSink<'_>) -> Flow {
        if !self.distinct {
            return self.rows(cx, sink);
        }
        let mut seen = Seen::new(Room::new(cx.rows.temporary_files()));
        if self.rows(cx, &mut |cx, row| seen.offer(row, cx, sink))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        seen.room.work_through(|mut rows, room| {
            let mut seen = Seen::new(room);
            while let Some(mut row) = rows.next_row()? {
                check()?;
                if seen.offer(&mut row, cx, sink)?.is_break() {
                    return Ok((ControlFlow::Break(()), seen.room));
                }
            }
            Ok((ControlFlow::Continue(()), seen.room))
        })
    }

    fn rows(&self, cx: &mut Cx<'_>, sink: RowSink<'_>) -> Flow {
        let mut row = Vec::with_capacity(self.outputs.len());
        let mut output = |cx: &mut Cx<'_>| self.output(&mut row, cx, sink);
        match &self.windows {
            None => self.each(cx, &mut output),
            Some(windows) => windows.run(|cx, sink| self.each(cx, sink), cx, &mut output),
        }
    }

    /// Visits every row of the source, or every group that satisfies HAVING, in the frame.
    fn each(&self, cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        match &self.grouping {
            None => self.source.run(cx, sink),
            Some(grouping) if grouping.keys.is_empty() => {
                let group = self.one_group(grouping, cx.rows.temporary_files(), cx)?;
                grouping.emit(group, cx, sink)
            }
            Some(grouping) => self.each_group(grouping, cx, sink),
        }
    }

    #[inline]
    fn output(&self, row: &mut Vec<Value>, cx: &mut Cx<'_>, sink: RowSink<'_>) -> Flow {
        row.clear();
        for output in &self.outputs {
            row.push(output.eval(cx)?);
        }
        sink(cx, row)
    }

    fn one_group<'a>(
        &self,
        grouping: &'a Grouping,
        files: Option<&'a dyn TemporaryFiles>,
        cx: &mut Cx<'_>,
    ) -> Result<Group<'a>, SqlError> {
        let mut group = grouping.start(None, files);
        let _ = self.source.run(cx, &mut |cx| {
            grouping.add(&mut group, cx)?;
            let done = grouping.first_value_decides
                && group.accumulators.first().is_some_and(Accumulator::has_value);
            Ok(if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(group)
    }

    fn each_group(&self, grouping: &Grouping, cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        match cx.rows.temporary_files() {
            Some(files) if grouping.aggregates.iter().any(CompiledAggregate::sorts) => {
                self.each_group_in_order(grouping, files, cx, sink)
            }
            files => self.each_hashed_group(grouping, files, cx, sink),
        }
    }

    /// Sorts the rows by their keys, so that one group is in memory at a time: each aggregate that sorts has a working memory of its own.
    fn each_group_in_order(
        &self,
        grouping: &Grouping,
        files: &dyn TemporaryFiles,
        cx: &mut Cx<'_>,
        sink: Sink<'_>,
    ) -> Flow {
        let (keys, slots) = (grouping.keys.len(), self.source.slots());
        let order: Vec<(usize, SortOrder)> = (0..keys).map(|at| (at, SortOrder::ASCENDING)).collect();
        let mut sorter = Sorter::new(&order, None, Some(files));
        let _ = self.source.run(cx, &mut |cx| {
            let mut row = Vec::with_capacity(keys + slots.len());
            grouping.eval_keys(&mut row, cx)?;
            append_slots(&mut row, &slots, cx);
            sorter.push(row)?;
            Ok(ControlFlow::Continue(()))
        })?;
        let mut sorted = sorter.finish()?;
        let mut current: Option<(Vec<Value>, Group<'_>)> = None;
        while let Some(mut key) = sorted.next_row()? {
            check()?;
            let values = key.split_off(keys);
            if let Some((_, ended)) = current.take_if(|(of, _)| *of != key)
                && grouping.emit(ended, cx, sink)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            load_slots(&slots, &values, cx);
            let (_, group) = current.get_or_insert_with(|| (key, grouping.start(Some(cx), Some(files))));
            grouping.add(group, cx)?;
        }
        match current {
            Some((_, last)) => grouping.emit(last, cx, sink),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    fn each_hashed_group(
        &self,
        grouping: &Grouping,
        files: Option<&dyn TemporaryFiles>,
        cx: &mut Cx<'_>,
        sink: Sink<'_>,
    ) -> Flow {
        let mut groups = Groups::new(grouping, Room::new(files));
        // What has no room is kept with its key: the expressions of keys are evaluated once for each row.
        let slots = self.source.slots();
        let (mut key, mut row) = (Vec::with_capacity(grouping.keys.len()), Vec::new());
        let _ = self.source.run(cx, &mut |cx| {
            key.clear();
            grouping.eval_keys(&mut key, cx)?;
            if !groups.take(&key, cx)? {
                row.clone_from(&key);
                append_slots(&mut row, &slots, cx);
                groups.room.push(&key, &row)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let (flow, room) = groups.emit(cx, sink)?;
        if flow.is_break() {
            return Ok(flow);
        }
        room.work_through(|mut rows, room| {
            let mut groups = Groups::new(grouping, room);
            while let Some(row) = rows.next_row()? {
                check()?;
                let (key, values) = row.split_at(grouping.keys.len());
                load_slots(&slots, values, cx);
                if !groups.take(key, cx)? {
                    groups.room.push(key, &row)?;
                }
            }
            groups.emit(cx, sink)
        })
    }
}

/// The distinct rows so far for which there is room.
struct Seen<'f> {
    rows: ValueSet,
    room: Room<'f>,
}

impl<'f> Seen<'f> {
    fn new(room: Room<'f>) -> Seen<'f> {
        Seen { rows: ValueSet::default(), room }
    }

    /// Passes a row on unless it has been seen, or keeps it for later.
    fn offer(&mut self, row: &mut Vec<Value>, cx: &mut Cx<'_>, sink: RowSink<'_>) -> Flow {
        if self.room.has_any() {
            if !self.rows.insert(row) {
                return Ok(ControlFlow::Continue(()));
            }
            self.room.take(|| Value::row_bytes(row));
            return sink(cx, row);
        }
        if !self.rows.contains(row) {
            self.room.push(row, row)?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The groups so far for which there is room.
struct Groups<'g> {
    grouping: &'g Grouping,
    groups: Indexed<Group<'g>>,
    room: Room<'g>,
}

impl<'g> Groups<'g> {
    fn new(grouping: &'g Grouping, room: Room<'g>) -> Groups<'g> {
        Groups { grouping, groups: Indexed::default(), room }
    }

    /// Adds the row in the frame to its group. Returns false if there is no room for the group.
    fn take(&mut self, key: &[Value], cx: &mut Cx<'_>) -> Result<bool, SqlError> {
        let group = match self.room.has_any() {
            true => self.groups.entry(key, || {
                let group = self.grouping.start(Some(cx), None);
                self.room.take(|| group.bytes() + Value::row_bytes(key));
                group
            }),
            false => match self.groups.get_mut(key) {
                Some(group) => group,
                None => return Ok(false),
            },
        };
        self.grouping.add(group, cx)?;
        Ok(true)
    }

    /// Passes the groups on. Returns the room with what it keeps.
    fn emit(self, cx: &mut Cx<'_>, sink: Sink<'_>) -> Result<(ControlFlow<()>, Room<'g>), SqlError> {
        for group in self.groups.entries {
            check()?;
            if self.grouping.emit(group, cx, sink)?.is_break() {
                return Ok((ControlFlow::Break(()), self.room));
            }
        }
        Ok((ControlFlow::Continue(()), self.room))
    }
}

impl Group<'_> {
    /// About how many bytes it takes, without what its accumulators collect.
    fn bytes(&self) -> usize {
        size_of::<Group<'_>>() + size_of_val(&self.accumulators[..]) + Value::row_bytes(&self.kept)
    }
}

impl Grouping {
    fn eval_keys(&self, key: &mut Vec<Value>, cx: &mut Cx<'_>) -> Result<(), SqlError> {
        for expr in &self.keys {
            key.push(expr.eval(cx)?);
        }
        Ok(())
    }

    fn emit(&self, group: Group<'_>, cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        for (&slot, value) in self.kept.iter().zip(group.kept) {
            cx.frame.set(slot, value);
        }
        for (aggregate, accumulator) in self.aggregates.iter().zip(group.accumulators) {
            let value = aggregate.finish(accumulator)?;
            cx.frame.set(aggregate.output, value);
        }
        if let Some(having) = &self.having
            && !having.truth(cx)?.is_true()
        {
            return Ok(ControlFlow::Continue(()));
        }
        sink(cx)
    }

    fn start<'a>(&'a self, cx: Option<&Cx<'_>>, files: Option<&'a dyn TemporaryFiles>) -> Group<'a> {
        let kept = cx.map_or(Vec::new(), |cx| self.kept.iter().map(|&slot| cx.value(slot).clone()).collect());
        Group { accumulators: self.aggregates.iter().map(|aggregate| aggregate.start(files)).collect(), kept }
    }

    fn add(&self, group: &mut Group<'_>, cx: &mut Cx<'_>) -> Result<(), SqlError> {
        for (aggregate, accumulator) in self.aggregates.iter().zip(&mut group.accumulators) {
            aggregate.add(accumulator, cx)?;
        }
        Ok(())
    }
}

/// Slots of this SELECT's columns that its outputs and HAVING read outside of aggregates.
fn kept_columns(select: &Select, compiler: &mut Compiler<'_>) -> Vec<Slot> {
    let mut local = Relations::new();
    select.from.iter().for_each(|item| local.extend(walk::item_relations(item)));
    let mut used = walk::UsedColumns::new();
    for expr in select.outputs.iter().chain(&select.having) {
        outside_aggregates(expr, &mut |expr| walk::note_column(&mut used, expr));
    }
    let mut kept = Vec::new();
    for (relation, columns) in used.into_iter().filter(|(relation, _)| local.contains(relation)) {
        kept.extend(columns.into_iter().map(|column| compiler.slots.read_column(relation, column)));
    }
    kept
}

fn outside_aggregates<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    if matches!(expr.kind, ExprKind::Aggregate(_)) {
        return;
    }
    visit(expr);
    walk::parts(expr).into_iter().for_each(|part| outside_aggregates(part, visit));
    walk::subquery(expr).into_iter().for_each(|query| walk::each_expr_of_query(query, visit));
}

impl TableAccess {
    /// Makes the access deliver rows in this order, if an index provides it.
    pub(crate) fn deliver_in_order(
        &mut self,
        order: &[(usize, SortOrder)],
        limited: bool,
        ignore_nulls: bool,
        schema: &Schema,
    ) -> bool {
        super::super::access::order::deliver_in_order(self, order, limited, ignore_nulls, schema)
    }
}
