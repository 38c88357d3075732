//! Orders of rows: ORDER BY's directions and places of NULL.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use weir_sql::bound::SortOrder;
use weir_types::compare::compare;
use weir_types::interrupt::check;
use weir_types::{SqlError, Value};

use crate::storage::temporary::{Spool, SpoolCursor, TemporaryFiles};

/// One column's order.
#[inline]
pub fn compare_one(left: &Value, right: &Value, order: SortOrder) -> Ordering {
    match (left.is_null(), right.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if order.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if order.nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if order.descending => compare(right, left),
        (false, false) => compare(left, right),
    }
}

/// Key rows, column by column.
pub fn compare_by(left: &[Value], right: &[Value], orders: &[SortOrder]) -> Ordering {
    left.iter()
        .zip(right)
        .zip(orders)
        .map(|((left, right), order)| compare_one(left, right, *order))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

type Row = Vec<Value>;
pub type Order<'a> = &'a [(usize, SortOrder)];

/// Rows by some of their columns.
pub fn compare_rows(left: &[Value], right: &[Value], order: Order<'_>) -> Ordering {
    order
        .iter()
        .map(|&(column, order)| compare_one(&left[column], &right[column], order))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// A stable sort of rows for ORDER BY. With a limit it never holds many more rows than the limit. Rows beyond the working memory go to a
/// temporary file in sorted runs, which are merged at the end.
pub struct Sorter<'a> {
    rows: Vec<Row>,
    /// Of these rows.
    bytes: usize,
    order: Order<'a>,
    keep: Option<usize>,
    files: Option<&'a dyn TemporaryFiles>,
    runs: Option<Runs<'a>>,
}

/// Sorted runs in a temporary file, each of earlier rows than the next.
struct Runs<'a> {
    spool: Spool<'a>,
    /// Position behind each run.
    ends: Vec<u64>,
}

impl<'a> Sorter<'a> {
    /// `keep`: only the first so many rows are wanted.
    pub fn new(order: Order<'a>, keep: Option<usize>, files: Option<&'a dyn TemporaryFiles>) -> Sorter<'a> {
        Sorter { rows: Vec::new(), bytes: 0, order, keep, files, runs: None }
    }

    pub fn push(&mut self, row: Row) -> Result<(), SqlError> {
        if let Some(files) = self.files {
            self.bytes += Value::row_bytes(&row);
            if self.bytes > files.memory().sort_bytes && !self.rows.is_empty() {
                self.write_run(files)?;
                self.bytes = Value::row_bytes(&row);
            }
        }
        self.rows.push(row);
        if let Some(keep) = self.keep
            && self.rows.len() >= keep.saturating_mul(2).max(1024)
        {
            self.sort()?;
        }
        Ok(())
    }

    /// Sorts the rows in memory, and drops those that are not wanted.
    fn sort(&mut self) -> Result<(), SqlError> {
        let order = self.order;
        sort_by(&mut self.rows, |left, right| compare_rows(left, right, order))?;
        if let Some(keep) = self.keep
            && self.rows.len() > keep
        {
            self.rows.truncate(keep);
            self.bytes = self.rows.iter().map(|row| Value::row_bytes(row)).sum();
        }
        Ok(())
    }

    fn write_run(&mut self, files: &'a dyn TemporaryFiles) -> Result<(), SqlError> {
        self.sort()?;
        let runs = self.runs.get_or_insert_with(|| Runs { spool: Spool::new(files), ends: Vec::new() });
        for row in self.rows.drain(..) {
            check()?;
            runs.spool.push(&row)?;
        }
        runs.ends.push(runs.spool.end());
        Ok(())
    }

    pub fn finish(mut self) -> Result<Sorted<'a>, SqlError> {
        self.sort()?;
        let last = self.rows.into_iter();
        match self.runs {
            None => Ok(Sorted::InMemory(last)),
            Some(runs) => Ok(Sorted::Merged(Merge::new(runs.with_few_runs(self.order)?, last, self.order)?)),
        }
    }
}

impl<'a> Runs<'a> {
    /// Merges runs until one chunk of each has room in memory. Neighbours are merged, so the order of equal rows stays.
    fn with_few_runs(mut self, order: Order<'a>) -> Result<Runs<'a>, SqlError> {
        let most = self.spool.chunks_in_memory().max(2);
        while self.ends.len() > most {
            let mut merged = Runs { spool: Spool::new(self.spool.files()), ends: Vec::new() };
            let mut start = 0;
            for ends in self.ends.chunks(most) {
                let mut sources = Vec::with_capacity(ends.len());
                for &end in ends {
                    sources.push(SpoolCursor::new(start, end));
                    start = end;
                }
                let mut heads = Heads::new(sources, Vec::new().into_iter(), order, &self.spool)?;
                while let Some(row) = heads.next_row(&self.spool)? {
                    check()?;
                    merged.spool.push(&row)?;
                }
                merged.ends.push(merged.spool.end());
            }
            self = merged;
        }
        Ok(self)
    }
}

/// Rows in their order.
pub enum Sorted<'a> {
    InMemory(std::vec::IntoIter<Row>),
    Merged(Merge<'a>),
}

impl Sorted<'_> {
    /// The next row; none: there is no other.
    pub fn next_row(&mut self) -> Result<Option<Row>, SqlError> {
        match self {
            Sorted::InMemory(rows) => Ok(rows.next()),
            Sorted::Merged(merge) => merge.heads.next_row(&merge.spool),
        }
    }
}

/// Merges the runs of a file, and the rows that are in memory behind them.
pub struct Merge<'a> {
    spool: Spool<'a>,
    heads: Heads<'a>,
}

impl<'a> Merge<'a> {
    fn new(runs: Runs<'a>, last: std::vec::IntoIter<Row>, order: Order<'a>) -> Result<Merge<'a>, SqlError> {
        let Runs { spool, ends } = runs;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let sources = starts.zip(&ends).map(|(start, &end)| SpoolCursor::new(start, end)).collect();
        let heads = Heads::new(sources, last, order, &spool)?;
        Ok(Merge { spool, heads })
    }
}

/// The first rows of several sorted sources.
struct Heads<'a> {
    sources: Vec<SpoolCursor>,
    /// A further source, behind all others.
    last: std::vec::IntoIter<Row>,
    heap: BinaryHeap<Head<'a>>,
}

/// The first row of a source. The greatest head is that of the row which comes first.
struct Head<'a> {
    row: Row,
    source: usize,
    order: Order<'a>,
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_rows(&other.row, &self.row, self.order).then(other.source.cmp(&self.source))
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head<'_> {}

impl<'a> Heads<'a> {
    fn new(
        sources: Vec<SpoolCursor>,
        last: std::vec::IntoIter<Row>,
        order: Order<'a>,
        spool: &Spool<'_>,
    ) -> Result<Heads<'a>, SqlError> {
        let count = sources.len();
        let mut heads = Heads { sources, last, heap: BinaryHeap::with_capacity(count + 1) };
        for source in 0..=count {
            if let Some(row) = heads.next_of(source, spool)? {
                heads.heap.push(Head { row, source, order });
            }
        }
        Ok(heads)
    }

    fn next_of(&mut self, source: usize, spool: &Spool<'_>) -> Result<Option<Row>, SqlError> {
        match self.sources.get_mut(source) {
            Some(cursor) => spool.next_row(cursor),
            None => Ok(self.last.next()),
        }
    }

    fn next_row(&mut self, spool: &Spool<'_>) -> Result<Option<Row>, SqlError> {
        let Some(source) = self.heap.peek().map(|first| first.source) else { return Ok(None) };
        let following = self.next_of(source, spool)?;
        let mut first = self.heap.peek_mut().expect("it has one");
        Ok(Some(match following {
            Some(row) => std::mem::replace(&mut first.row, row),
            None => PeekMut::pop(first).row,
        }))
    }
}

/// Items that are sorted without a look at interrupts.
const RUN_LENGTH: usize = 4_096;

/// A stable sort that an interrupt ends; the items are in no order then, and some may be missing.
///
/// # Errors
/// The interrupt's.
pub fn sort_by<T: Default>(items: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) -> Result<(), SqlError> {
    let mut length = RUN_LENGTH;
    for run in items.chunks_mut(length) {
        check()?;
        run.sort_by(&compare);
    }
    let mut merged: Vec<T> = Vec::new();
    while length < items.len() {
        merged.reserve(items.len());
        for pair in items.chunks_mut(2 * length) {
            let (left, right) = pair.split_at_mut(length.min(pair.len()));
            let (mut at, mut other) = (0, 0);
            while at < left.len() || other < right.len() {
                check()?;
                let takes_left =
                    other == right.len() || at < left.len() && compare(&left[at], &right[other]).is_le();
                let (from, next) = if takes_left { (&mut *left, &mut at) } else { (&mut *right, &mut other) };
                merged.push(std::mem::take(&mut from[*next]));
                *next += 1;
            }
        }
        std::mem::swap(items, &mut merged);
        merged.clear();
        length *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use weir_types::memory::WorkingMemory;

    use super::*;
    use crate::storage::temporary::InMemory;

    #[test]
    fn a_long_sort_is_stable_as_a_short_one() {
        let mut items: Vec<(u32, u32)> =
            (0..30_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24, n)).collect();
        let mut expected = items.clone();
        expected.sort_by_key(|item| item.0);
        sort_by(&mut items, |left, right| left.0.cmp(&right.0)).unwrap();
        assert_eq!(items, expected);
    }

    /// Rows of a few keys with their numbers, sorted by the key alone: first in memory, then with less and less of it.
    #[test]
    fn a_sort_in_files_gives_what_one_in_memory_gives() {
        let order = [(0, SortOrder { descending: true, nulls_first: true })];
        let rows = || {
            (0..20_000_i64).map(|n| {
                let key = (n.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) >> 56).rem_euclid(50);
                vec![if key == 0 { Value::Null } else { Value::Int(key) }, Value::Int(n)]
            })
        };
        let sorted = |files: Option<&InMemory>, keep| {
            let files = files.map(|files| files as &dyn TemporaryFiles);
            let mut sorter = Sorter::new(&order, keep, files);
            rows().for_each(|row| sorter.push(row).unwrap());
            let mut sorted = sorter.finish().unwrap();
            std::iter::from_fn(|| sorted.next_row().unwrap()).collect::<Vec<_>>()
        };
        for keep in [None, Some(10), Some(3_000)] {
            let expected = sorted(None, keep);
            let first = keep.unwrap_or(usize::MAX);
            assert_eq!(expected[..first.min(20_000)], sorted(None, None)[..first.min(20_000)]);
            for bytes in [1 << 20, 64 << 10, 1_000] {
                let memory = WorkingMemory { sort_bytes: bytes, ..WorkingMemory::default() };
                let files = InMemory::of(memory);
                let seen = sorted(Some(&files), keep);
                assert_eq!(seen[..first.min(20_000)], expected[..first.min(20_000)], "{keep:?} {bytes}");
                let least = match keep {
                    None => 1 << 20,
                    Some(10) => 1_000,
                    _ => 64 << 10,
                };
                assert_eq!(files.files.get() > 0, bytes <= least, "{keep:?} {bytes}");
                assert_eq!(files.bytes_now(), 0, "the files are gone");
            }
        }
    }
}
