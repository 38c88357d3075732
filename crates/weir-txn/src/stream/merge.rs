//! The sorted rows of several shards, merged as they come.

use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use weir_core::ids::ShardId;

use super::Row;

/// Rows that are merged at once, at most: a query's session sends them before it merges more.
const ROWS_MAX: usize = 4_096;

pub type Compare = Arc<dyn Fn(&Row, &Row) -> Ordering + Send + Sync>;

/// The result of a query, as the rows of the shards give it.
#[derive(Clone)]
pub struct MergeOrder {
    /// Order of the result, in which each shard gives its rows. Of equal rows those of the first shard come first.
    pub compare: Compare,
    /// Number of columns of the result; further ones are there for the order.
    pub width: usize,
    /// OFFSET.
    pub skip: usize,
    /// LIMIT.
    pub most: usize,
}

impl std::fmt::Debug for MergeOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MergeOrder { width, skip, most, .. } = self;
        write!(f, "MergeOrder({width}, {skip}, {most})")
    }
}

/// A merge under way. Invariant: the heap has a row of each input that has rows.
#[derive(Debug)]
pub(super) struct Merge {
    order: Arc<MergeOrder>,
    inputs: Vec<Input>,
    heap: BinaryHeap<Head>,
    /// Of the OFFSET.
    to_skip: usize,
    /// Of the LIMIT.
    left: usize,
}

/// Rows of one shard.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) shard: ShardId,
    /// Rows behind the one in the heap.
    rows: VecDeque<Row>,
    has_head: bool,
    /// The shard gives no further rows.
    has_ended: bool,
}

/// The first row of an input. The greatest head is that of the row which comes first.
#[derive(Debug)]
struct Head {
    row: Row,
    input: usize,
    order: Arc<MergeOrder>,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.order.compare)(&other.row, &self.row).then(other.input.cmp(&self.input))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl Merge {
    /// Of the rows of these shards.
    pub(super) fn new(order: Arc<MergeOrder>, mut shards: Vec<ShardId>) -> Merge {
        shards.sort_unstable();
        let input = |shard| Input { shard, rows: VecDeque::new(), has_head: false, has_ended: false };
        let (to_skip, left) = (order.skip, order.most);
        Merge {
            inputs: shards.into_iter().map(input).collect(),
            heap: BinaryHeap::new(),
            to_skip,
            left,
            order,
        }
    }

    /// Gives each input that needs them the next rows of its shard. Returns whether all have got some, or have ended. `next`: an error
    /// stands for rows that have not come yet.
    pub(super) fn fill(&mut self, mut next: impl FnMut(ShardId) -> Result<Option<Vec<Row>>, NotYet>) -> bool {
        for (at, input) in self.inputs.iter_mut().enumerate() {
            while !input.has_head && !input.has_ended {
                match next(input.shard) {
                    Ok(Some(rows)) => {
                        input.rows = rows.into();
                        if let Some(row) = input.rows.pop_front() {
                            self.heap.push(Head { row, input: at, order: self.order.clone() });
                            input.has_head = true;
                        }
                    }
                    Ok(None) => input.has_ended = true,
                    Err(NotYet) => return false,
                }
            }
        }
        true
    }

    /// Merges until an input needs rows. All of them have some, or have ended.
    pub(super) fn advance(&mut self) -> Vec<Row> {
        let mut merged = Vec::new();
        while self.left > 0 && merged.len() < ROWS_MAX {
            let Some(mut first) = self.heap.peek_mut() else { break };
            let input = &mut self.inputs[first.input];
            let mut row = match input.rows.pop_front() {
                Some(row) => std::mem::replace(&mut first.row, row),
                None => {
                    input.has_head = false;
                    PeekMut::pop(first).row
                }
            };
            let needs_rows = !input.has_head && !input.has_ended;
            if self.to_skip > 0 {
                self.to_skip -= 1;
            } else {
                row.truncate(self.order.width);
                merged.push(row);
                self.left -= 1;
            }
            if needs_rows {
                break;
            }
        }
        merged
    }

    /// Returns whether it gives no further rows, whatever comes.
    pub(super) fn is_satisfied(&self) -> bool {
        self.left == 0
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_satisfied() || self.heap.is_empty() && self.inputs.iter().all(|input| input.has_ended)
    }
}

/// Rows that have not come yet.
#[derive(Debug)]
pub(super) struct NotYet;

#[cfg(test)]
mod tests {
    use weir_types::Value;

    use super::*;

    fn merge(shards: &[ShardId], skip: usize, most: usize) -> Merge {
        let compare: Compare = Arc::new(|left, right| match (&left[0], &right[0]) {
            (Value::Int(left), Value::Int(right)) => left.cmp(right),
            other => panic!("{other:?}"),
        });
        Merge::new(Arc::new(MergeOrder { compare, width: 2, skip, most }), shards.to_vec())
    }

    fn row(key: i64, shard: ShardId) -> Row {
        vec![Value::Int(key), Value::Int(i64::from(shard)), Value::Null]
    }

    /// The merge keeps the order of rows for every arrival and every size of batches; of equal rows those of the first shard come first.
    #[test]
    fn rows_come_in_their_order() {
        for batch in 1..6_usize {
            for (skip, most) in [(0, usize::MAX), (3, 7), (40, 5), (0, 0)] {
                let mut sources: Vec<VecDeque<i64>> =
                    (0..3).map(|shard| (0..10).map(|n| (n * (shard + 1)) / 2).collect()).collect();
                sources.push(VecDeque::new());
                let mut expected: Vec<(i64, i64)> = (0..)
                    .zip(&sources)
                    .flat_map(|(shard, keys)| keys.iter().map(move |key| (*key, shard)))
                    .collect();
                expected.sort_unstable();
                let expected: Vec<_> = expected.into_iter().skip(skip).take(most).collect();
                let mut merge = merge(&[0, 1, 2, 3], skip, most);
                let (mut merged, mut asked) = (Vec::new(), 0);
                while !merge.is_over() {
                    let is_filled = merge.fill(|shard| {
                        asked += 1;
                        if asked % 3 == 1 {
                            return Err(NotYet);
                        }
                        let source = &mut sources[usize::from(shard)];
                        let keys: Vec<i64> = source.drain(..batch.min(source.len())).collect();
                        let rows: Vec<Row> = keys.into_iter().map(|key| row(key, shard)).collect();
                        Ok((!rows.is_empty()).then_some(rows))
                    });
                    if is_filled {
                        merged.extend(merge.advance());
                    }
                }
                let merged: Vec<(i64, i64)> = merged
                    .iter()
                    .map(|row| match row[..] {
                        [Value::Int(key), Value::Int(shard)] => (key, shard),
                        _ => panic!("{row:?}"),
                    })
                    .collect();
                assert_eq!(merged, expected, "{batch} at once, OFFSET {skip} LIMIT {most}");
            }
        }
    }
}
