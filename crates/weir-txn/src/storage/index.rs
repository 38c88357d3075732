//! One ordered index: key bytes to row.
//!
//! Keys of one width up to 24 bytes (nearly all primary keys) are compared as big-endian words; the rest
//! are boxed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Bound, ControlFlow};

use weir_types::SqlError;

use super::key::{Boundary, KeyBytes, KeyRange, fixed_width};
use super::point::PointIndex;
use super::schema::IndexSchema;
use super::tree::Tree;

#[derive(Debug)]
pub struct IndexTree {
    map: Map,
    points: Points,
    /// The row number is part of the key, because several rows may share the columns.
    pub row_in_key: bool,
}

/// A position in an index, for searches in key order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// None: nothing has been asked for.
    leaf: Option<u32>,
}

#[derive(Debug)]
enum Map {
    One(Tree<u64>),
    Two(Tree<u128>),
    Three(Tree<(u128, u64)>),
    Bytes(BTreeMap<Box<[u8]>, u32>),
}

/// Whole keys, where the program looks them up one at a time.
#[derive(Debug)]
enum Points {
    None,
    One(PointIndex<u64>),
    Two(PointIndex<u128>),
}

/// A key as words, in the order of its bytes.
trait Words: Copy + Ord + Default {
    fn exact(key: &KeyBytes) -> Self;
    /// The key filled up with ones: no longer key that starts with it is greater.
    fn greatest(key: &KeyBytes) -> Self;
}

fn filled<const N: usize>(key: &[u8]) -> [u8; N] {
    let mut bytes = [0xFF; N];
    let length = key.len().min(N);
    bytes[..length].copy_from_slice(&key[..length]);
    bytes
}

impl Words for u64 {
    #[inline]
    fn exact(key: &KeyBytes) -> u64 {
        u64::from_be_bytes(key.first())
    }

    fn greatest(key: &KeyBytes) -> u64 {
        u64::from_be_bytes(filled(key))
    }
}

impl Words for u128 {
    #[inline]
    fn exact(key: &KeyBytes) -> u128 {
        u128::from_be_bytes(key.first())
    }

    fn greatest(key: &KeyBytes) -> u128 {
        u128::from_be_bytes(filled(key))
    }
}

impl Words for (u128, u64) {
    #[inline]
    fn exact(key: &KeyBytes) -> (u128, u64) {
        let bytes: [u8; 24] = key.first();
        let (high, low) = bytes.split_at(16);
        (u128::from_be_bytes(filled(high)), u64::from_be_bytes(filled(low)))
    }

    fn greatest(key: &KeyBytes) -> (u128, u64) {
        (u128::from_be_bytes(filled(key)), u64::from_be_bytes(filled(key.get(16..).unwrap_or(&[]))))
    }
}

/// Keys of one width: "after every key that starts with p" is "after p filled up with ones".
fn word_bounds<K: Words>(range: &KeyRange) -> (Bound<K>, Bound<K>) {
    let end = |boundary: &Boundary| match boundary.after {
        true => K::greatest(&boundary.bytes),
        false => K::exact(&boundary.bytes),
    };
    let (lower, upper) = (end(&range.lower), end(&range.upper));
    (
        if range.lower.after { Bound::Excluded(lower) } else { Bound::Included(lower) },
        if range.upper.after { Bound::Included(upper) } else { Bound::Excluded(upper) },
    )
}

type ByteBounds = (Bound<Box<[u8]>>, Bound<Box<[u8]>>);

/// The ends of a range of byte prefixes; `None` if no key can lie between them.
fn byte_bounds(range: &KeyRange) -> Option<ByteBounds> {
    let lower = match range.lower.after {
        false => Bound::Included(range.lower.bytes[..].into()),
        true => Bound::Included(successor(&range.lower.bytes)?),
    };
    let upper = match range.upper.after {
        false => Bound::Excluded(range.upper.bytes[..].into()),
        true => successor(&range.upper.bytes).map_or(Bound::Unbounded, Bound::Excluded),
    };
    let empty = match (&lower, &upper) {
        (Bound::Included(low), Bound::Excluded(high)) => low >= high,
        _ => false,
    };
    (!empty).then_some((lower, upper))
}

/// The least byte string above every string that starts with `prefix`; none above "all ones".
fn successor(prefix: &[u8]) -> Option<Box<[u8]>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut bytes = prefix[..=last].to_vec();
    bytes[last] += 1;
    Some(bytes.into())
}

impl IndexTree {
    pub fn new(schema: &IndexSchema) -> IndexTree {
        let nulls_repeat = !schema.nulls_not_distinct && schema.columns.iter().any(|column| column.nullable);
        let row_in_key = !schema.unique || nulls_repeat;
        let columns: Option<usize> = schema.columns.iter().map(fixed_width).sum();
        let map = match columns.map(|width| width + if row_in_key { 4 } else { 0 }) {
            Some(0..=8) => Map::One(Tree::new()),
            Some(9..=16) => Map::Two(Tree::new()),
            Some(17..=24) => Map::Three(Tree::new()),
            _ => Map::Bytes(BTreeMap::new()),
        };
        let points = match map {
            Map::One(_) if schema.looked_up && !row_in_key => Points::One(PointIndex::new()),
            Map::Two(_) if schema.looked_up && !row_in_key => Points::Two(PointIndex::new()),
            _ => Points::None,
        };
        IndexTree { map, points, row_in_key }
    }

    /// `Err` is the row that has the key already.
    pub fn insert(&mut self, key: &KeyBytes, row: u32) -> Result<(), u32> {
        match &mut self.map {
            Map::One(tree) => tree.insert(Words::exact(key), row)?,
            Map::Two(tree) => tree.insert(Words::exact(key), row)?,
            Map::Three(tree) => tree.insert(Words::exact(key), row)?,
            Map::Bytes(map) => match map.entry(key[..].into()) {
                Entry::Vacant(entry) => drop(entry.insert(row)),
                Entry::Occupied(entry) => return Err(*entry.get()),
            },
        }
        match &mut self.points {
            Points::None => {}
            Points::One(points) => points.insert(Words::exact(key), row),
            Points::Two(points) => points.insert(Words::exact(key), row),
        }
        Ok(())
    }

    pub fn remove(&mut self, key: &KeyBytes) -> Option<u32> {
        match &mut self.points {
            Points::None => {}
            Points::One(points) => points.remove(&Words::exact(key)),
            Points::Two(points) => points.remove(&Words::exact(key)),
        }
        match &mut self.map {
            Map::One(tree) => tree.remove(&Words::exact(key)),
            Map::Two(tree) => tree.remove(&Words::exact(key)),
            Map::Three(tree) => tree.remove(&Words::exact(key)),
            Map::Bytes(map) => map.remove(&key[..]),
        }
    }

    pub fn get(&self, key: &KeyBytes) -> Option<u32> {
        match &self.points {
            Points::None => {}
            Points::One(points) => return points.get(&Words::exact(key)),
            Points::Two(points) => return points.get(&Words::exact(key)),
        }
        if self.row_in_key {
            let mut found = None;
            let everything = KeyRange::prefix(key.clone());
            let _ = self.range(&everything, false, &mut |row| {
                found = Some(row);
                Ok(ControlFlow::Break(()))
            });
            return found;
        }
        match &self.map {
            Map::One(tree) => tree.get(&Words::exact(key)),
            Map::Two(tree) => tree.get(&Words::exact(key)),
            Map::Three(tree) => tree.get(&Words::exact(key)),
            Map::Bytes(map) => map.get(&key[..]).copied(),
        }
    }

    pub fn range(
        &self,
        range: &KeyRange,
        reverse: bool,
        visit: &mut dyn FnMut(u32) -> Result<ControlFlow<()>, SqlError>,
    ) -> Result<ControlFlow<()>, SqlError> {
        fn words<K: Words>(
            tree: &Tree<K>,
            range: &KeyRange,
            reverse: bool,
            visit: &mut dyn FnMut(u32) -> Result<ControlFlow<()>, SqlError>,
        ) -> Result<ControlFlow<()>, SqlError> {
            let (lower, upper) = word_bounds(range);
            tree.range(lower, upper, reverse, visit)
        }
        match &self.map {
            Map::One(tree) => words(tree, range, reverse, visit),
            Map::Two(tree) => words(tree, range, reverse, visit),
            Map::Three(tree) => words(tree, range, reverse, visit),
            Map::Bytes(map) => {
                let Some(bounds) = byte_bounds(range) else { return Ok(ControlFlow::Continue(())) };
                let mut rows = map.range(bounds);
                while let Some((_, &row)) = if reverse { rows.next_back() } else { rows.next() } {
                    if visit(row)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
        }
    }

    /// Ascending range that starts at the cursor if the range is ahead of it; sets the cursor to the start of this range.
    pub fn range_ahead(
        &self,
        range: &KeyRange,
        cursor: &mut Cursor,
        visit: &mut dyn FnMut(u32) -> Result<ControlFlow<()>, SqlError>,
    ) -> Result<ControlFlow<()>, SqlError> {
        fn words<K: Words>(
            tree: &Tree<K>,
            range: &KeyRange,
            cursor: &mut Cursor,
            visit: &mut dyn FnMut(u32) -> Result<ControlFlow<()>, SqlError>,
        ) -> Result<ControlFlow<()>, SqlError> {
            let (lower, upper) = word_bounds(range);
            tree.range_ahead(lower, upper, &mut cursor.leaf, visit)
        }
        match &self.map {
            Map::One(tree) => words(tree, range, cursor, visit),
            Map::Two(tree) => words(tree, range, cursor, visit),
            Map::Three(tree) => words(tree, range, cursor, visit),
            Map::Bytes(_) => self.range(range, false, visit),
        }
    }

    /// Bytes held by nodes, keys and boxes; `BTreeMap`'s nodes are on average about two thirds full. Keys of any width are as large
    /// as the first `looked_at` are.
    pub fn memory_bytes(&self, looked_at: usize) -> usize {
        let points = match &self.points {
            Points::None => 0,
            Points::One(points) => points.memory_bytes(),
            Points::Two(points) => points.memory_bytes(),
        };
        let ordered = match &self.map {
            Map::One(tree) => tree.memory_bytes(),
            Map::Two(tree) => tree.memory_bytes(),
            Map::Three(tree) => tree.memory_bytes(),
            Map::Bytes(map) => {
                let some = map.keys().take(looked_at).map(|key| key.len().div_ceil(16) * 16 + 16);
                let some: usize = some.sum();
                let all = (some * map.len()).checked_div(looked_at.min(map.len()));
                map.len() * 20 * 3 / 2 + all.unwrap_or(0)
            }
        };
        points + ordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(tree: &IndexTree, lower: (&[u8], bool), upper: (&[u8], bool), reverse: bool) -> Vec<u32> {
        let boundary = |(bytes, after): (&[u8], bool)| Boundary { bytes: KeyBytes::from(bytes), after };
        let mut rows = Vec::new();
        let range = KeyRange { lower: boundary(lower), upper: boundary(upper) };
        tree.range(&range, reverse, &mut |row| {
            rows.push(row);
            Ok(ControlFlow::Continue(()))
        })
        .map(drop)
        .expect("nothing fails");
        rows
    }

    #[test]
    fn every_form_of_key_answers_ranges_alike() {
        let forms = [
            Map::One(Tree::new()),
            Map::Two(Tree::new()),
            Map::Three(Tree::new()),
            Map::Bytes(BTreeMap::new()),
        ];
        for map in forms {
            let mut tree = IndexTree { map, points: Points::None, row_in_key: false };
            for (row, key) in [[1, 1], [1, 255], [2, 0], [2, 7], [255, 255]].iter().enumerate() {
                tree.insert(&KeyBytes::from(&key[..]), row as u32).expect("keys differ");
            }
            assert_eq!(tree.insert(&KeyBytes::from(&[2, 0][..]), 9), Err(2));
            assert_eq!(tree.get(&KeyBytes::from(&[1, 255][..])), Some(1));
            assert_eq!(rows(&tree, (&[], false), (&[], true), false), [0, 1, 2, 3, 4]);
            assert_eq!(rows(&tree, (&[1], false), (&[1], true), true), [1, 0]);
            assert_eq!(rows(&tree, (&[1], true), (&[2, 7], false), false), [2]);
            assert_eq!(rows(&tree, (&[2], false), (&[255], true), false), [2, 3, 4]);
            assert_eq!(rows(&tree, (&[255], true), (&[], true), false), [] as [u32; 0]);
            assert_eq!(rows(&tree, (&[3], false), (&[1], true), false), [] as [u32; 0]);
        }
    }
}
