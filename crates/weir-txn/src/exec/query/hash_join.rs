//! Hash joins: the inner side is hashed by its keys, and each row of the outer side looks its matches up.
//!
//! An inner side that exceeds the working memory is written to temporary files in partitions by the hash of the key, and so is the outer
//! side; then each pair of partitions is joined (a Grace hash join).

use std::ops::ControlFlow;
use std::sync::Arc;

use weir_types::interrupt::check;
use weir_types::{SqlError, Value};

use super::hash::HashTable;
use super::node::{CONTINUE, Node, all_true, append_slots, load_slots, set_null};
use super::partitions::{DEPTH_MAX, Partitions};
use crate::exec::access::Sink;
use crate::exec::context::{Cell, Cx, Flow};
use crate::exec::expr::CompiledExpr;
use crate::exec::slots::{CellId, Slot};
use crate::storage::temporary::{Spool, SpooledRows, TemporaryFiles};

#[derive(Debug)]
pub struct HashJoin {
    pub kind: HashJoinKind,
    pub outer: Node,
    pub inner: Node,
    /// None at all for a product.
    pub outer_keys: Vec<CompiledExpr>,
    pub inner_keys: Vec<CompiledExpr>,
    pub residual: Vec<CompiledExpr>,
    pub outer_slots: Vec<Slot>,
    pub inner_slots: Vec<Slot>,
    /// The inner side is the same whenever the statement asks, and kept here.
    pub cell: Option<CellId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashJoinKind {
    Inner,
    Left,
    Full,
}

/// The inner side, once it has been read.
enum Built<'f> {
    InMemory(Arc<HashTable>),
    Partitioned(Inner<'f>),
}

/// An inner side in temporary files. Each row follows its key.
struct Inner<'f> {
    partitions: Partitions<'f>,
    /// FULL JOIN: rows without a key, which match nothing.
    keyless: Spool<'f>,
}

/// Both sides of one partition, each row behind its key.
struct Pair<'f> {
    inner: SpooledRows<'f>,
    outer: SpooledRows<'f>,
    /// Number of times that the rows have been partitioned.
    depth: u32,
}

/// Evaluates keys into `key`; false if one is NULL, which matches nothing.
fn eval_keys(exprs: &[CompiledExpr], key: &mut Vec<Value>, cx: &mut Cx<'_>) -> Result<bool, SqlError> {
    key.clear();
    for expr in exprs {
        let value = expr.eval(cx)?;
        if value.is_null() || value.is_deferred() {
            return Ok(false);
        }
        key.push(value);
    }
    Ok(true)
}

impl<'f> Inner<'f> {
    /// Writes a table to files that has become too large.
    fn of(table: HashTable, files: &'f dyn TemporaryFiles) -> Result<Inner<'f>, SqlError> {
        let mut inner = Inner { partitions: Partitions::new(files, 0), keyless: Spool::new(files) };
        for (key, values) in table.into_rows() {
            check()?;
            let key = key.as_deref().unwrap_or_default();
            inner.push(key.len(), &[key, &values].concat())?;
        }
        Ok(inner)
    }

    /// Adds a row behind its key of so many values; 0: it has none.
    fn push(&mut self, keys: usize, row: &[Value]) -> Result<(), SqlError> {
        match keys {
            0 => self.keyless.push(row),
            _ => self.partitions.push(&row[..keys], row),
        }
    }
}

impl HashJoin {
    fn build<'f>(
        &self,
        cx: &mut Cx<'_>,
        files: Option<&'f dyn TemporaryFiles>,
    ) -> Result<Built<'f>, SqlError> {
        if let Some(cell) = self.cell
            && let Cell::Table(table) = cx.cell(cell)
        {
            return Ok(Built::InMemory(table.clone()));
        }
        // A product has one key. An inner side that is asked for again is kept in memory: it would be written for each time.
        let is_again = self.cell.is_some_and(|cell| matches!(cx.cell(cell), Cell::Runs(_)));
        let files = files.filter(|_| !self.inner_keys.is_empty() && !is_again);
        let (mut table, mut bytes) = (HashTable::new(self.inner_slots.len()), 0);
        let mut partitioned: Option<Inner<'f>> = None;
        let mut key = Vec::new();
        let _ = self.inner.run(cx, &mut |cx| {
            let present = eval_keys(&self.inner_keys, &mut key, cx)?;
            if !present && self.kind != HashJoinKind::Full {
                return CONTINUE;
            }
            if let Some(inner) = &mut partitioned {
                key.truncate(if present { key.len() } else { 0 });
                let keys = key.len();
                append_slots(&mut key, &self.inner_slots, cx);
                inner.push(keys, &key)?;
                return CONTINUE;
            }
            let frame = &*cx.frame;
            let values = self.inner_slots.iter().map(|&slot| frame.get(slot).clone());
            let row = table.insert(present.then_some(&key[..]), values);
            if let Some(files) = files {
                bytes += table.bytes_of(row, &key);
                if bytes > files.memory().hash_bytes {
                    let table = std::mem::replace(&mut table, HashTable::new(self.inner_slots.len()));
                    partitioned = Some(Inner::of(table, files)?);
                }
            }
            CONTINUE
        })?;
        if let Some(inner) = partitioned {
            if let Some(cell) = self.cell {
                *cx.cell(cell) = Cell::Runs(1);
            }
            return Ok(Built::Partitioned(inner));
        }
        let table = Arc::new(table);
        if let Some(cell) = self.cell {
            *cx.cell(cell) = Cell::Table(table.clone());
        }
        Ok(Built::InMemory(table))
    }

    fn load(&self, table: &HashTable, row: u32, cx: &mut Cx<'_>) {
        load_slots(&self.inner_slots, table.row(row), cx);
    }

    pub fn run(&self, cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        let table = match self.build(cx, cx.rows.temporary_files())? {
            Built::InMemory(table) => table,
            Built::Partitioned(inner) => return self.run_partitioned(inner, cx, sink),
        };
        if table.rows == 0 && self.kind == HashJoinKind::Inner {
            return CONTINUE;
        }
        let mut matched = self.none_matched(&table);
        let mut key = Vec::new();
        let flow = self.outer.run(cx, &mut |cx| match eval_keys(&self.outer_keys, &mut key, cx)? {
            true => self.probe(&table, &key, &mut matched, cx, sink),
            false => self.unmatched_outer(cx, sink),
        })?;
        if flow.is_break() {
            return Ok(flow);
        }
        self.unmatched_inner(&table, &matched, cx, sink)
    }

    /// Which rows of the table have been matched; FULL JOIN asks for it.
    fn none_matched(&self, table: &HashTable) -> Vec<bool> {
        vec![false; if self.kind == HashJoinKind::Full { table.rows } else { 0 }]
    }

    /// Passes on the outer row in the frame with each of its matches, or with none.
    #[inline]
    fn probe(
        &self,
        table: &HashTable,
        key: &[Value],
        matched: &mut [bool],
        cx: &mut Cx<'_>,
        sink: Sink<'_>,
    ) -> Flow {
        let mut any = false;
        for &row in table.matches(key) {
            check()?;
            self.load(table, row, cx);
            if !all_true(&self.residual, cx)? {
                continue;
            }
            any = true;
            if let Some(matched) = matched.get_mut(row as usize) {
                *matched = true;
            }
            if sink(cx)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if any { CONTINUE } else { self.unmatched_outer(cx, sink) }
    }

    /// Passes on the outer row in the frame without a match, unless the join drops it.
    fn unmatched_outer(&self, cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        if self.kind == HashJoinKind::Inner {
            return CONTINUE;
        }
        set_null(&self.inner_slots, cx);
        sink(cx)
    }

    /// FULL JOIN: passes on the rows of the table that nothing has matched.
    fn unmatched_inner(&self, table: &HashTable, matched: &[bool], cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        for row in (0..matched.len()).filter(|&row| !matched[row]) {
            check()?;
            set_null(&self.outer_slots, cx);
            self.load(table, row as u32, cx);
            if sink(cx)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        CONTINUE
    }

    /// Writes the outer side to files as the inner one is, and joins the partitions pair by pair.
    fn run_partitioned(&self, inner: Inner<'_>, cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        let Inner { partitions, keyless } = inner;
        let files = keyless.files();
        let mut outer = Partitions::new(files, 0);
        let mut key = Vec::new();
        let flow = self.outer.run(cx, &mut |cx| {
            if !eval_keys(&self.outer_keys, &mut key, cx)? {
                return self.unmatched_outer(cx, sink);
            }
            let keys = key.len();
            append_slots(&mut key, &self.outer_slots, cx);
            outer.push(&key[..keys], &key)?;
            CONTINUE
        })?;
        if flow.is_break() {
            return Ok(flow);
        }
        let mut pairs = Vec::new();
        add_pairs(&mut pairs, partitions, outer, 1);
        while let Some(pair) = pairs.pop() {
            if self.run_pair(pair, &mut pairs, files, cx, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let mut keyless = keyless.into_rows();
        while let Some(values) = keyless.next_row()? {
            check()?;
            set_null(&self.outer_slots, cx);
            load_slots(&self.inner_slots, &values, cx);
            if sink(cx)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        CONTINUE
    }

    /// Joins a pair, or partitions it again if its inner side is too large.
    fn run_pair<'f>(
        &self,
        pair: Pair<'f>,
        pairs: &mut Vec<Pair<'f>>,
        files: &'f dyn TemporaryFiles,
        cx: &mut Cx<'_>,
        sink: Sink<'_>,
    ) -> Flow {
        let Pair { mut inner, mut outer, depth } = pair;
        let keys = self.inner_keys.len();
        let most = if depth < DEPTH_MAX { files.memory().hash_bytes } else { usize::MAX };
        let (mut table, mut bytes) = (HashTable::new(self.inner_slots.len()), 0);
        while let Some(mut row) = inner.next_row()? {
            check()?;
            let values = row.split_off(keys);
            let inserted = table.insert(Some(&row), values.into_iter());
            bytes += table.bytes_of(inserted, &row);
            if bytes <= most {
                continue;
            }
            let (mut finer_inner, mut finer_outer) =
                (Partitions::new(files, depth), Partitions::new(files, depth));
            for (key, values) in table.into_rows() {
                check()?;
                let key = key.expect("rows without a key are elsewhere");
                finer_inner.push(&key, &[&key[..], &values].concat())?;
            }
            for (from, to) in [(&mut inner, &mut finer_inner), (&mut outer, &mut finer_outer)] {
                while let Some(row) = from.next_row()? {
                    check()?;
                    to.push(&row[..keys], &row)?;
                }
            }
            add_pairs(pairs, finer_inner, finer_outer, depth + 1);
            return CONTINUE;
        }
        let mut matched = self.none_matched(&table);
        while let Some(row) = outer.next_row()? {
            check()?;
            let (key, values) = row.split_at(keys);
            load_slots(&self.outer_slots, values, cx);
            if self.probe(&table, key, &mut matched, cx, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.unmatched_inner(&table, &matched, cx, sink)
    }
}

fn add_pairs<'f>(pairs: &mut Vec<Pair<'f>>, inner: Partitions<'f>, outer: Partitions<'f>, depth: u32) {
    let both = inner.into_parts().zip(outer.into_parts());
    pairs.extend(both.map(|(inner, outer)| Pair { inner, outer, depth }));
}
