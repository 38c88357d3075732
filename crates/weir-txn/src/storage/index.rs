//! One ordered index: key bytes to row.
//!
//! Short keys of one width (nearly all primary keys) live inside the tree's nodes as big-endian words;
//! the rest are boxed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Bound, ControlFlow};

use weir_types::SqlError;

use super::key::{Boundary, KeyRange, fixed_width};
use super::schema::IndexSchema;

#[derive(Debug)]
pub struct IndexTree {
    map: Map,
    /// The row number is part of the key, because several rows may share the columns.
    pub row_in_key: bool,
}

#[derive(Debug)]
enum Map {
    Two(BTreeMap<[u64; 2], u32>),
    Three(BTreeMap<[u64; 3], u32>),
    Bytes(BTreeMap<Box<[u8]>, u32>),
}

/// A key form that keeps the order of the bytes.
trait Stored: Ord + Sized {
    fn exact(bytes: &[u8]) -> Self;
    /// The ends of a range of byte prefixes; `None` if no key can lie between them.
    fn bounds(range: &KeyRange) -> Option<(Bound<Self>, Bound<Self>)>;
}

impl<const N: usize> Stored for [u64; N] {
    fn exact(bytes: &[u8]) -> Self {
        words(bytes, 0)
    }

    fn bounds(range: &KeyRange) -> Option<(Bound<Self>, Bound<Self>)> {
        // Keys of one width: "after every key that starts with p" is "after p filled up with ones".
        let fill = |boundary: &Boundary| words(&boundary.bytes, if boundary.after { 0xFF } else { 0 });
        let lower = fill(&range.lower);
        let upper = fill(&range.upper);
        Some((
            if range.lower.after { Bound::Excluded(lower) } else { Bound::Included(lower) },
            if range.upper.after { Bound::Included(upper) } else { Bound::Excluded(upper) },
        ))
    }
}

fn words<const N: usize>(bytes: &[u8], filler: u8) -> [u64; N] {
    let mut words = [0; N];
    for (word, at) in words.iter_mut().zip((0..).step_by(8)) {
        let mut eight = [filler; 8];
        if at < bytes.len() {
            let end = bytes.len().min(at + 8);
            eight[..end - at].copy_from_slice(&bytes[at..end]);
        }
        *word = u64::from_be_bytes(eight);
    }
    words
}

impl Stored for Box<[u8]> {
    fn exact(bytes: &[u8]) -> Self {
        bytes.into()
    }

    fn bounds(range: &KeyRange) -> Option<(Bound<Self>, Bound<Self>)> {
        let lower = match range.lower.after {
            false => Bound::Included(range.lower.bytes[..].into()),
            true => Bound::Included(successor(&range.lower.bytes)?),
        };
        let upper = match range.upper.after {
            false => Bound::Excluded(range.upper.bytes[..].into()),
            true => successor(&range.upper.bytes).map_or(Bound::Unbounded, Bound::Excluded),
        };
        Some((lower, upper))
    }
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
            Some(0..=16) => Map::Two(BTreeMap::new()),
            Some(17..=24) => Map::Three(BTreeMap::new()),
            _ => Map::Bytes(BTreeMap::new()),
        };
        IndexTree { map, row_in_key }
    }

    /// `Err` is the row that has the key already.
    pub fn insert(&mut self, key: &[u8], row: u32) -> Result<(), u32> {
        fn insert<K: Stored>(map: &mut BTreeMap<K, u32>, key: &[u8], row: u32) -> Result<(), u32> {
            match map.entry(K::exact(key)) {
                Entry::Vacant(entry) => {
                    entry.insert(row);
                    Ok(())
                }
                Entry::Occupied(entry) => Err(*entry.get()),
            }
        }
        match &mut self.map {
            Map::Two(map) => insert(map, key, row),
            Map::Three(map) => insert(map, key, row),
            Map::Bytes(map) => insert(map, key, row),
        }
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<u32> {
        match &mut self.map {
            Map::Two(map) => map.remove(&<[u64; 2]>::exact(key)),
            Map::Three(map) => map.remove(&<[u64; 3]>::exact(key)),
            Map::Bytes(map) => map.remove(key),
        }
    }

    pub fn get(&self, key: &[u8]) -> Option<u32> {
        if self.row_in_key {
            let mut found = None;
            let everything = KeyRange::prefix(key.into());
            let _ = self.range(&everything, false, &mut |row| {
                found = Some(row);
                Ok(ControlFlow::Break(()))
            });
            return found;
        }
        match &self.map {
            Map::Two(map) => map.get(&<[u64; 2]>::exact(key)).copied(),
            Map::Three(map) => map.get(&<[u64; 3]>::exact(key)).copied(),
            Map::Bytes(map) => map.get(key).copied(),
        }
    }

    pub fn range(
        &self,
        range: &KeyRange,
        reverse: bool,
        visit: &mut dyn FnMut(u32) -> Result<ControlFlow<()>, SqlError>,
    ) -> Result<ControlFlow<()>, SqlError> {
        fn run<K: Stored>(
            map: &BTreeMap<K, u32>,
            range: &KeyRange,
            reverse: bool,
            visit: &mut dyn FnMut(u32) -> Result<ControlFlow<()>, SqlError>,
        ) -> Result<ControlFlow<()>, SqlError> {
            let Some((lower, upper)) = K::bounds(range) else { return Ok(ControlFlow::Continue(())) };
            // BTreeMap panics on an inverted range; to us it is empty.
            let empty = match (&lower, &upper) {
                (Bound::Included(low), Bound::Included(high)) => low > high,
                (
                    Bound::Included(low) | Bound::Excluded(low),
                    Bound::Included(high) | Bound::Excluded(high),
                ) => low >= high,
                _ => false,
            };
            if empty {
                return Ok(ControlFlow::Continue(()));
            }
            let mut rows = map.range((lower, upper));
            while let Some((_, &row)) = if reverse { rows.next_back() } else { rows.next() } {
                if visit(row)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        }
        match &self.map {
            Map::Two(map) => run(map, range, reverse, visit),
            Map::Three(map) => run(map, range, reverse, visit),
            Map::Bytes(map) => run(map, range, reverse, visit),
        }
    }

    fn entries(&self) -> usize {
        match &self.map {
            Map::Two(map) => map.len(),
            Map::Three(map) => map.len(),
            Map::Bytes(map) => map.len(),
        }
    }

    /// Bytes held by keys, row numbers and boxes; nodes are on average about two thirds full.
    pub fn memory_bytes(&self) -> usize {
        let per_entry = match &self.map {
            Map::Two(_) => 20,
            Map::Three(_) => 28,
            Map::Bytes(_) => 20,
        };
        let boxed: usize = match &self.map {
            Map::Bytes(map) => map.keys().map(|key| key.len().div_ceil(16) * 16 + 16).sum(),
            _ => 0,
        };
        self.entries() * per_entry * 3 / 2 + boxed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(tree: &IndexTree, lower: (&[u8], bool), upper: (&[u8], bool), reverse: bool) -> Vec<u32> {
        let boundary = |(bytes, after): (&[u8], bool)| Boundary { bytes: bytes.into(), after };
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
        let forms = [Map::Two(BTreeMap::new()), Map::Three(BTreeMap::new()), Map::Bytes(BTreeMap::new())];
        for map in forms {
            let mut tree = IndexTree { map, row_in_key: false };
            for (row, key) in [[1, 1], [1, 255], [2, 0], [2, 7], [255, 255]].iter().enumerate() {
                tree.insert(key, row as u32).expect("keys differ");
            }
            assert_eq!(tree.insert(&[2, 0], 9), Err(2));
            assert_eq!(tree.get(&[1, 255]), Some(1));
            assert_eq!(rows(&tree, (&[], false), (&[], true), false), [0, 1, 2, 3, 4]);
            assert_eq!(rows(&tree, (&[1], false), (&[1], true), true), [1, 0]);
            assert_eq!(rows(&tree, (&[1], true), (&[2, 7], false), false), [2]);
            assert_eq!(rows(&tree, (&[2], false), (&[255], true), false), [2, 3, 4]);
            assert_eq!(rows(&tree, (&[255], true), (&[], true), false), [] as [u32; 0]);
            assert_eq!(rows(&tree, (&[3], false), (&[1], true), false), [] as [u32; 0]);
        }
    }
}
