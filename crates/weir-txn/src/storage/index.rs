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
    Two(BTreeMap<u128, u32>),
    Three(BTreeMap<(u128, u64), u32>),
    Bytes(BTreeMap<Box<[u8]>, u32>),
}

/// A key form that keeps the order of the bytes.
trait Stored: Ord + Sized {
    fn exact(bytes: &[u8]) -> Self;
    /// The ends of a range of byte prefixes; `None` if no key can lie between them.
    fn bounds(range: &KeyRange) -> Option<(Bound<Self>, Bound<Self>)>;
}

impl Stored for u128 {
    fn exact(bytes: &[u8]) -> Self {
        word(bytes, 0)
    }

    fn bounds(range: &KeyRange) -> Option<(Bound<Self>, Bound<Self>)> {
        Some(filled(range, word))
    }
}

impl Stored for (u128, u64) {
    fn exact(bytes: &[u8]) -> Self {
        two_words(bytes, 0)
    }

    fn bounds(range: &KeyRange) -> Option<(Bound<Self>, Bound<Self>)> {
        Some(filled(range, two_words))
    }
}

/// Keys of one width: "after every key that starts with p" is "after p filled up with ones".
fn filled<K>(range: &KeyRange, fill: fn(&[u8], u8) -> K) -> (Bound<K>, Bound<K>) {
    let end = |boundary: &Boundary| fill(&boundary.bytes, if boundary.after { 0xFF } else { 0 });
    let (lower, upper) = (end(&range.lower), end(&range.upper));
    (
        if range.lower.after { Bound::Excluded(lower) } else { Bound::Included(lower) },
        if range.upper.after { Bound::Included(upper) } else { Bound::Excluded(upper) },
    )
}

/// The first sixteen bytes as one big-endian number, which compares as the bytes do.
fn word(bytes: &[u8], filler: u8) -> u128 {
    let mut sixteen = [filler; 16];
    let length = bytes.len().min(16);
    sixteen[..length].copy_from_slice(&bytes[..length]);
    u128::from_be_bytes(sixteen)
}

fn two_words(bytes: &[u8], filler: u8) -> (u128, u64) {
    let mut eight = [filler; 8];
    if let Some(rest) = bytes.get(16..) {
        eight[..rest.len()].copy_from_slice(rest);
    }
    (word(bytes, filler), u64::from_be_bytes(eight))
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
            Map::Two(map) => map.remove(&u128::exact(key)),
            Map::Three(map) => map.remove(&<(u128, u64)>::exact(key)),
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
            Map::Two(map) => map.get(&u128::exact(key)).copied(),
            Map::Three(map) => map.get(&<(u128, u64)>::exact(key)).copied(),
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
            Map::Three(_) => 36,
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
