//! The rows of one partition, in window order.

use std::ops::Range;

use weir_sql::bound::SortOrder;
use weir_types::interrupt::check;
use weir_types::{SqlError, Value};

use super::WindowSort;
use crate::exec::query::sort::{Sorted, compare_by, compare_one};
use crate::exec::query::tuplestore::{ReadPointer, Tuplestore};
use crate::storage::temporary::TemporaryFiles;

/// Sorted rows, of which the next can be looked at.
pub struct SortedRows<'s> {
    rows: Sorted<'s>,
    next: Option<Vec<Value>>,
}

impl<'s> SortedRows<'s> {
    pub fn new(mut rows: Sorted<'s>) -> Result<SortedRows<'s>, SqlError> {
        let next = rows.next_row()?;
        Ok(SortedRows { rows, next })
    }

    pub fn is_empty(&self) -> bool {
        self.next.is_none()
    }
}

/// The rows of a partition up to the furthest that was asked for, and the current one.
pub struct Partition<'p, 's> {
    pub sort: &'p WindowSort,
    input: &'p mut SortedRows<'s>,
    files: Option<&'p dyn TemporaryFiles>,
    rows: Tuplestore,
    /// PARTITION BY of its rows.
    key: Vec<Value>,
    /// Number of the current row.
    pub row: usize,
    /// Number of its peer group.
    pub group: usize,
    /// Its peers: rows that are equal under ORDER BY. Their end is there if a function asks for it.
    pub peers: Range<usize>,
    /// ORDER BY of the current row.
    pub order: Vec<Value>,
    own: ReadPointer,
    peers_end: Option<GroupStart>,
}

impl<'p, 's> Partition<'p, 's> {
    /// Begins with the next row of the input, which has one.
    pub fn new(
        sort: &'p WindowSort,
        input: &'p mut SortedRows<'s>,
        files: Option<&'p dyn TemporaryFiles>,
    ) -> Result<Partition<'p, 's>, SqlError> {
        let first = input.next.as_ref().expect("the input has a row");
        let key = first[sort.partition_columns.clone()].to_vec();
        let order = first[sort.order_columns.clone()].to_vec();
        let mut partition = Partition {
            sort,
            input,
            files,
            rows: Tuplestore::default(),
            key,
            row: 0,
            group: 0,
            peers: 0..0,
            order,
            own: ReadPointer::default(),
            peers_end: None,
        };
        if sort.calls.iter().any(|of| of.call.asks_for_peers_end()) {
            partition.peers_end = Some(GroupStart::new(&partition));
            partition.find_peers_end()?;
        }
        Ok(partition)
    }

    /// Number of the rows, or that number if there are as many.
    pub fn reach(&mut self, rows: usize) -> Result<usize, SqlError> {
        while self.rows.len() < rows && self.pull()? {}
        Ok(rows.min(self.rows.len()))
    }

    /// Number of the rows.
    pub fn count(&mut self) -> Result<usize, SqlError> {
        self.reach(usize::MAX)
    }

    /// Takes one more row from the input; false: the partition has no more.
    fn pull(&mut self) -> Result<bool, SqlError> {
        let columns = self.sort.partition_columns.clone();
        if self.input.next.as_ref().is_none_or(|next| !same(&next[columns], &self.key)) {
            return Ok(false);
        }
        check()?;
        let following = self.input.rows.next_row()?;
        let row = std::mem::replace(&mut self.input.next, following);
        self.rows.push(row.expect("it was looked at"), self.files)?;
        Ok(true)
    }

    /// The row of that number, as far as it is kept; none: the partition has no such row.
    pub fn row<'r>(
        &'r mut self,
        number: usize,
        pointer: &'r mut ReadPointer,
    ) -> Result<Option<&'r [Value]>, SqlError> {
        if number >= self.rows.len() {
            self.reach(number.saturating_add(1))?;
        }
        self.rows.row(number, pointer, self.files)
    }

    /// Columns of the current row.
    pub fn current(&mut self, columns: Range<usize>) -> Result<&[Value], SqlError> {
        self.reach(self.row + 1)?;
        let row = self.rows.row(self.row, &mut self.own, self.files)?;
        Ok(&row.expect("there is a current row")[columns])
    }

    /// The current row. `needed`: no row before that one is read again by a function.
    pub fn current_row(&mut self, needed: usize) -> Result<Vec<Value>, SqlError> {
        self.reach(self.row + 1)?;
        if needed > self.row {
            return self.rows.take(self.row, &mut self.own, self.files);
        }
        self.rows.trim(needed);
        let row = self.rows.row(self.row, &mut self.own, self.files)?;
        Ok(row.expect("there is a current row").to_vec())
    }

    /// Goes to the next row; false: there is none.
    pub fn advance(&mut self) -> Result<bool, SqlError> {
        if self.reach(self.row + 2)? < self.row + 2 {
            return Ok(false);
        }
        self.row += 1;
        let columns = self.sort.order_columns.clone();
        let row = self.rows.row(self.row, &mut self.own, self.files)?.expect("it was reached");
        if compare_by(&row[columns.clone()], &self.order, &self.sort.orders).is_ne() {
            self.order.clone_from_slice(&row[columns]);
            self.group += 1;
            self.peers = self.row..self.row;
            self.find_peers_end()?;
        }
        Ok(true)
    }

    fn find_peers_end(&mut self) -> Result<(), SqlError> {
        if let Some(mut end) = self.peers_end.take() {
            self.peers.end = end.advance_to(self.group + 1, self)?;
            self.peers_end = Some(end);
        }
        Ok(())
    }
}

fn same(left: &[Value], right: &[Value]) -> bool {
    let mut pairs = left.iter().zip(right);
    pairs.all(|(left, right)| compare_one(left, right, SortOrder::ASCENDING).is_eq())
}

/// The first row of a peer group, for groups that only go forward.
pub struct GroupStart {
    pub at: usize,
    /// The group; behind all rows it is greater than any.
    group: usize,
    /// ORDER BY of the row.
    order: Vec<Value>,
    pointer: ReadPointer,
}

impl GroupStart {
    /// That of the first row, which is the current one.
    pub fn new(partition: &Partition<'_, '_>) -> GroupStart {
        GroupStart { at: 0, group: 0, order: partition.order.clone(), pointer: ReadPointer::default() }
    }

    /// The first row of the group; behind all rows if there is no such group.
    pub fn advance_to(&mut self, group: usize, partition: &mut Partition<'_, '_>) -> Result<usize, SqlError> {
        let sort = partition.sort;
        while self.group < group {
            check()?;
            self.at += 1;
            match partition.row(self.at, &mut self.pointer)? {
                None => self.group = usize::MAX,
                Some(row) => {
                    let order = &row[sort.order_columns.clone()];
                    if compare_by(order, &self.order, &sort.orders).is_ne() {
                        self.order.clone_from_slice(order);
                        self.group += 1;
                    }
                }
            }
        }
        Ok(self.at)
    }
}
