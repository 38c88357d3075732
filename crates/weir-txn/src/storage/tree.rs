//! An ordered map from fixed-width keys to row numbers: a B+tree with wide nodes.
//!
//! `std`'s `BTreeMap` has eleven keys in a node; wider nodes and rows that stand beside their keys halve
//! the cache misses of a look-up in a large index. Nodes live in chunks and refer to each other by
//! number. A leaf goes when it is empty; leaves are not merged before, since keys that were deleted in
//! one place tend to be followed by others there.

use std::ops::{Bound, ControlFlow};

const WIDTH: usize = 32;
const CHUNK_BITS: u32 = 7;
const NONE: u32 = u32::MAX;
/// 32 children a node and a leaf of at least one key: no tree of 2^32 rows is higher.
const HEIGHT_MAX: usize = 12;

#[derive(Debug)]
struct Leaf<K> {
    count: usize,
    next: u32,
    previous: u32,
    keys: [K; WIDTH],
    rows: [u32; WIDTH],
}

/// `keys[i]` is at most the least key below `children[i]`; `keys[0]` is not looked at.
#[derive(Debug)]
struct Inner<K> {
    count: usize,
    keys: [K; WIDTH],
    children: [u32; WIDTH],
}

/// Numbered nodes; growing moves none of them.
#[derive(Debug)]
struct Arena<T> {
    chunks: Vec<Vec<T>>,
    free: Vec<u32>,
    used: u32,
}

impl<T> Arena<T> {
    fn new() -> Arena<T> {
        Arena { chunks: Vec::new(), free: Vec::new(), used: 0 }
    }

    fn add(&mut self, node: T) -> u32 {
        if let Some(id) = self.free.pop() {
            *self.at_mut(id) = node;
            return id;
        }
        let id = self.used;
        if id & ((1 << CHUNK_BITS) - 1) == 0 {
            // A small index stays small: the first chunk grows by itself.
            self.chunks.push(if id == 0 { Vec::new() } else { Vec::with_capacity(1 << CHUNK_BITS) });
        }
        self.chunks[(id >> CHUNK_BITS) as usize].push(node);
        self.used += 1;
        id
    }

    #[inline]
    fn at(&self, id: u32) -> &T {
        &self.chunks[(id >> CHUNK_BITS) as usize][(id & ((1 << CHUNK_BITS) - 1)) as usize]
    }

    #[inline]
    fn at_mut(&mut self, id: u32) -> &mut T {
        &mut self.chunks[(id >> CHUNK_BITS) as usize][(id & ((1 << CHUNK_BITS) - 1)) as usize]
    }

    fn bytes(&self) -> usize {
        self.chunks.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>()
    }
}

/// The way from the root to a leaf: nodes, and which child was taken.
struct Path {
    steps: [(u32, usize); HEIGHT_MAX],
    height: usize,
}

#[derive(Debug)]
pub struct Tree<K> {
    leaves: Arena<Leaf<K>>,
    inners: Arena<Inner<K>>,
    /// A leaf if the height is 0.
    root: u32,
    height: usize,
    /// The leaf with the greatest keys.
    last: u32,
    entries: usize,
}

impl<K: Copy + Ord + Default> Tree<K> {
    pub fn new() -> Tree<K> {
        let mut leaves = Arena::new();
        let root = leaves.add(Leaf::empty());
        Tree { leaves, inners: Arena::new(), root, height: 0, last: root, entries: 0 }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries
    }

    pub fn memory_bytes(&self) -> usize {
        self.leaves.bytes() + self.inners.bytes()
    }

    /// The leaf in which the key is, or would be.
    #[inline]
    fn leaf_of(&self, key: &K) -> u32 {
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = self.inners.at(node);
            node = inner.children[inner.child_of(key)];
        }
        node
    }

    fn path_to(&self, key: &K) -> (u32, Path) {
        let mut path = Path { steps: [(NONE, 0); HEIGHT_MAX], height: self.height };
        let mut node = self.root;
        for step in &mut path.steps[..self.height] {
            let inner = self.inners.at(node);
            let child = inner.child_of(key);
            *step = (node, child);
            node = inner.children[child];
        }
        (node, path)
    }

    #[inline]
    pub fn get(&self, key: &K) -> Option<u32> {
        let leaf = self.leaves.at(self.leaf_of(key));
        let at = leaf.position(key);
        (at < leaf.count && leaf.keys[at] == *key).then(|| leaf.rows[at])
    }

    /// `Err` is the row that has the key already.
    pub fn insert(&mut self, key: K, row: u32) -> Result<(), u32> {
        if self.append(key, row) {
            return Ok(());
        }
        let (id, path) = self.path_to(&key);
        let leaf = self.leaves.at_mut(id);
        let at = leaf.position(&key);
        if at < leaf.count && leaf.keys[at] == key {
            return Err(leaf.rows[at]);
        }
        self.entries += 1;
        if leaf.count < WIDTH {
            leaf.insert(at, key, row);
            return Ok(());
        }
        // Keys that come in order fill their leaves; others leave both halves room.
        let split = if at == WIDTH { WIDTH } else { WIDTH / 2 };
        let mut right = leaf.split_off(split);
        let next = leaf.next;
        right.previous = id;
        if at < split {
            leaf.insert(at, key, row);
        } else {
            right.insert(at - split, key, row);
        }
        let least = right.keys[0];
        let right = self.leaves.add(right);
        self.leaves.at_mut(id).next = right;
        match next {
            NONE => self.last = right,
            next => self.leaves.at_mut(next).previous = right,
        }
        self.add_child(path, least, right);
        Ok(())
    }

    /// Inserts a key above all others, if its leaf has room, without a search.
    #[inline]
    fn append(&mut self, key: K, row: u32) -> bool {
        let leaf = self.leaves.at_mut(self.last);
        let is_next = leaf.count > 0 && leaf.count < WIDTH && leaf.keys[leaf.count - 1] < key;
        if is_next {
            (leaf.keys[leaf.count], leaf.rows[leaf.count]) = (key, row);
            leaf.count += 1;
            self.entries += 1;
        }
        is_next
    }

    /// Puts a new node behind the child that the path took, splitting upwards as needed.
    fn add_child(&mut self, path: Path, mut least: K, mut child: u32) {
        for &(id, taken) in path.steps[..path.height].iter().rev() {
            let inner = self.inners.at_mut(id);
            if inner.count < WIDTH {
                inner.insert(taken + 1, least, child);
                return;
            }
            let split = if taken + 1 == WIDTH { WIDTH - 1 } else { WIDTH / 2 };
            let mut right = inner.split_off(split);
            if taken < split && taken + 1 < WIDTH {
                inner.insert(taken + 1, least, child);
            } else {
                right.insert(taken + 1 - split, least, child);
            }
            least = right.keys[0];
            child = self.inners.add(right);
        }
        let mut root = Inner { count: 1, keys: [K::default(); WIDTH], children: [NONE; WIDTH] };
        root.children[0] = self.root;
        root.insert(1, least, child);
        self.root = self.inners.add(root);
        self.height += 1;
    }

    pub fn remove(&mut self, key: &K) -> Option<u32> {
        let (id, path) = self.path_to(key);
        let leaf = self.leaves.at_mut(id);
        let at = leaf.position(key);
        if at == leaf.count || leaf.keys[at] != *key {
            return None;
        }
        let row = leaf.remove(at);
        self.entries -= 1;
        if leaf.count == 0 && self.height > 0 {
            let (previous, next) = (leaf.previous, leaf.next);
            if previous != NONE {
                self.leaves.at_mut(previous).next = next;
            }
            match next {
                // The root becomes a new leaf if there is no other.
                NONE => self.last = previous,
                next => self.leaves.at_mut(next).previous = previous,
            }
            self.leaves.free.push(id);
            self.remove_child(path);
        }
        Some(row)
    }

    /// Takes out the child that the path took, and every node above that is empty then.
    fn remove_child(&mut self, path: Path) {
        for &(id, taken) in path.steps[..path.height].iter().rev() {
            let inner = self.inners.at_mut(id);
            inner.remove(taken);
            if inner.count > 0 {
                break;
            }
            self.inners.free.push(id);
        }
        while self.height > 0 {
            let root = self.inners.at(self.root);
            match root.count {
                0 => {
                    // The last leaf went; the root is free already.
                    self.root = self.leaves.add(Leaf::empty());
                    self.last = self.root;
                    self.height = 0;
                }
                1 => {
                    let only = root.children[0];
                    self.inners.free.push(self.root);
                    self.root = only;
                    self.height -= 1;
                }
                _ => break,
            }
        }
    }

    /// Visits the rows between the bounds in order, or in reverse, until a visit breaks.
    pub fn range<E>(
        &self,
        lower: Bound<K>,
        upper: Bound<K>,
        reverse: bool,
        visit: &mut dyn FnMut(u32) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        if self.entries == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        if reverse {
            return self.range_back(lower, upper, visit);
        }
        let from = match &lower {
            Bound::Unbounded => (self.first_leaf(), 0),
            Bound::Included(key) => self.place_of(key, false),
            Bound::Excluded(key) => self.place_of(key, true),
        };
        self.range_from(from, upper, visit)
    }

    /// Ascending range. `leaf`: start of the previous range; if this one starts there or in the next leaf, it is found without a descent.
    pub fn range_ahead<E>(
        &self,
        lower: Bound<K>,
        upper: Bound<K>,
        leaf: &mut Option<u32>,
        visit: &mut dyn FnMut(u32) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        let (Bound::Included(key) | Bound::Excluded(key), false) = (&lower, self.entries == 0) else {
            return self.range(lower, upper, false, visit);
        };
        let id = leaf.and_then(|id| self.leaf_ahead(id, key)).unwrap_or_else(|| self.leaf_of(key));
        *leaf = Some(id);
        let own = self.leaves.at(id);
        let at = match lower {
            Bound::Excluded(_) => own.position_after(key),
            _ => own.position(key),
        };
        self.range_from((id, at), upper, visit)
    }

    /// The leaf where the key is or would be, if that is this one or the next.
    fn leaf_ahead(&self, id: u32, key: &K) -> Option<u32> {
        let holds = |id: u32| {
            let leaf = self.leaves.at(id);
            let own = &leaf.keys[..leaf.count];
            own.first().is_some_and(|first| first <= key) && own.last().is_some_and(|last| key <= last)
        };
        let next = self.leaves.at(id).next;
        [id, next].into_iter().find(|id| *id != NONE && holds(*id))
    }

    fn range_from<E>(
        &self,
        (mut id, mut at): (u32, usize),
        upper: Bound<K>,
        visit: &mut dyn FnMut(u32) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        while id != NONE {
            let leaf = self.leaves.at(id);
            let end = match &upper {
                Bound::Unbounded => leaf.count,
                Bound::Included(key) => leaf.position_after(key),
                Bound::Excluded(key) => leaf.position(key),
            };
            for &row in leaf.rows.get(at..end).unwrap_or(&[]) {
                if visit(row)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if end < leaf.count {
                break;
            }
            (id, at) = (leaf.next, 0);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn range_back<E>(
        &self,
        lower: Bound<K>,
        upper: Bound<K>,
        visit: &mut dyn FnMut(u32) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        let (mut id, mut end) = match &upper {
            Bound::Unbounded => (self.last_leaf(), WIDTH),
            Bound::Included(key) => self.place_of(key, true),
            Bound::Excluded(key) => self.place_of(key, false),
        };
        while id != NONE {
            let leaf = self.leaves.at(id);
            let start = match &lower {
                Bound::Unbounded => 0,
                Bound::Included(key) => leaf.position(key),
                Bound::Excluded(key) => leaf.position_after(key),
            };
            for &row in leaf.rows.get(start..end.min(leaf.count)).unwrap_or(&[]).iter().rev() {
                if visit(row)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if start > 0 {
                break;
            }
            (id, end) = (leaf.previous, WIDTH);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Where the key is or would be, or just after it.
    fn place_of(&self, key: &K, after: bool) -> (u32, usize) {
        let id = self.leaf_of(key);
        let leaf = self.leaves.at(id);
        (id, if after { leaf.position_after(key) } else { leaf.position(key) })
    }

    fn first_leaf(&self) -> u32 {
        (0..self.height).fold(self.root, |node, _| self.inners.at(node).children[0])
    }

    fn last_leaf(&self) -> u32 {
        (0..self.height).fold(self.root, |node, _| {
            let inner = self.inners.at(node);
            inner.children[inner.count - 1]
        })
    }
}

impl<K: Copy + Ord + Default> Leaf<K> {
    fn empty() -> Leaf<K> {
        Leaf { count: 0, next: NONE, previous: NONE, keys: [K::default(); WIDTH], rows: [0; WIDTH] }
    }

    /// Number of keys that are less.
    #[inline]
    fn position(&self, key: &K) -> usize {
        self.keys[..self.count].partition_point(|own| own < key)
    }

    /// Number of keys that are less or equal.
    #[inline]
    fn position_after(&self, key: &K) -> usize {
        self.keys[..self.count].partition_point(|own| own <= key)
    }

    fn insert(&mut self, at: usize, key: K, row: u32) {
        self.keys.copy_within(at..self.count, at + 1);
        self.rows.copy_within(at..self.count, at + 1);
        self.keys[at] = key;
        self.rows[at] = row;
        self.count += 1;
    }

    fn remove(&mut self, at: usize) -> u32 {
        let row = self.rows[at];
        self.keys.copy_within(at + 1..self.count, at);
        self.rows.copy_within(at + 1..self.count, at);
        self.count -= 1;
        row
    }

    /// A leaf with the keys from `at` on, which has this one's successor.
    fn split_off(&mut self, at: usize) -> Leaf<K> {
        let mut right = Leaf { next: self.next, ..Leaf::empty() };
        right.count = self.count - at;
        right.keys[..right.count].copy_from_slice(&self.keys[at..self.count]);
        right.rows[..right.count].copy_from_slice(&self.rows[at..self.count]);
        self.count = at;
        right
    }
}

impl<K: Copy + Ord + Default> Inner<K> {
    #[inline]
    fn child_of(&self, key: &K) -> usize {
        self.keys[1..self.count].partition_point(|least| least <= key)
    }

    fn insert(&mut self, at: usize, least: K, child: u32) {
        self.keys.copy_within(at..self.count, at + 1);
        self.children.copy_within(at..self.count, at + 1);
        self.keys[at] = least;
        self.children[at] = child;
        self.count += 1;
    }

    fn remove(&mut self, at: usize) {
        self.keys.copy_within(at + 1..self.count, at);
        self.children.copy_within(at + 1..self.count, at);
        self.count -= 1;
    }

    fn split_off(&mut self, at: usize) -> Inner<K> {
        let mut right =
            Inner { count: self.count - at, keys: [K::default(); WIDTH], children: [NONE; WIDTH] };
        right.keys[..right.count].copy_from_slice(&self.keys[at..self.count]);
        right.children[..right.count].copy_from_slice(&self.children[at..self.count]);
        self.count = at;
        right
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn rows(tree: &Tree<u64>, lower: Bound<u64>, upper: Bound<u64>, reverse: bool) -> Vec<u32> {
        let mut rows = Vec::new();
        let _ = tree.range(lower, upper, reverse, &mut |row| {
            rows.push(row);
            Ok::<_, ()>(ControlFlow::Continue(()))
        });
        rows
    }

    /// Inserts, removals, look-ups and ranges agree with `BTreeMap`, whatever the order.
    #[test]
    fn agrees_with_the_standard_map() {
        for (seed, keys) in [(1_u64, 40), (2, 300), (3, 5_000), (4, 60_000)] {
            let mut random = seed;
            let mut next = || {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                random >> 33
            };
            let (mut tree, mut map) = (Tree::new(), BTreeMap::new());
            for step in 0..40_000_u32 {
                // Growing, random, ascending and shrinking phases.
                let key = if step % 7_000 < 2_000 { u64::from(step) } else { next() % keys };
                let shrinking = (step / 10_000) % 2 == 1;
                if next() % 10 < if shrinking { 3 } else { 7 } {
                    let inserted = tree.insert(key, step).is_ok();
                    assert_eq!(inserted, !map.contains_key(&key));
                    map.entry(key).or_insert(step);
                } else {
                    assert_eq!(tree.remove(&key), map.remove(&key));
                }
                assert_eq!(tree.len(), map.len());
                if step % 97 == 0 {
                    let (a, b) = (next() % keys, next() % keys);
                    let (a, b) = (a.min(b), a.max(b));
                    for (lower, upper) in [
                        (Bound::Included(a), Bound::Excluded(b)),
                        (Bound::Included(a), Bound::Included(b)),
                        (Bound::Excluded(a), Bound::Included(b)),
                        (Bound::Unbounded, Bound::Excluded(b)),
                        (Bound::Included(a), Bound::Unbounded),
                    ] {
                        if a == b && lower != Bound::Included(a) {
                            continue;
                        }
                        let expected: Vec<u32> = map.range((lower, upper)).map(|(_, row)| *row).collect();
                        assert_eq!(rows(&tree, lower, upper, false), expected);
                        let backwards: Vec<u32> = expected.into_iter().rev().collect();
                        assert_eq!(rows(&tree, lower, upper, true), backwards);
                    }
                }
                assert_eq!(tree.get(&key), map.get(&key).copied());
            }
            for key in map.into_keys() {
                assert!(tree.remove(&key).is_some());
            }
            assert_eq!(rows(&tree, Bound::Unbounded, Bound::Unbounded, false), [] as [u32; 0]);
            assert_eq!(tree.insert(7, 1), Ok(()));
            assert_eq!(tree.get(&7), Some(1));
        }
    }
}
