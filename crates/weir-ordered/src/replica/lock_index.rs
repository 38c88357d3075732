//! Which items are locked: the footprints of all that hold locks, by item, so that a transaction that meets none of them is known without a
//! look at each.

use rustc_hash::FxHashMap;

use crate::footprint::{Footprint, Item, Spans};

/// How many footprints read and write an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    reads: u32,
    writes: u32,
}

/// Items of footprints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockIndex {
    /// Items that are intervals of their own. None has two zeros.
    items: FxHashMap<Item, Counts>,
    /// Footprints with longer intervals, or of everything.
    wide: u32,
}

/// Whether each interval is one item.
fn is_narrow(spans: &Spans) -> bool {
    spans.iter().all(|(first, last)| first == last)
}

impl LockIndex {
    pub fn add(&mut self, footprint: &Footprint) {
        self.change(footprint, |count| *count += 1);
    }

    pub fn remove(&mut self, footprint: &Footprint) {
        self.change(footprint, |count| *count -= 1);
    }

    fn change(&mut self, footprint: &Footprint, change: impl Fn(&mut u32)) {
        match footprint {
            Footprint::Items { reads, writes } if is_narrow(reads) && is_narrow(writes) => {
                for (item, _) in reads.iter() {
                    self.change_item(item, |counts| change(&mut counts.reads));
                }
                for (item, _) in writes.iter() {
                    self.change_item(item, |counts| change(&mut counts.writes));
                }
            }
            _ => change(&mut self.wide),
        }
    }

    fn change_item(&mut self, item: Item, change: impl Fn(&mut Counts)) {
        let counts = self.items.entry(item).or_default();
        change(counts);
        if *counts == Counts::default() {
            self.items.remove(&item);
        }
    }

    /// Returns whether the order of this operation and of one whose footprint was added may matter. None: that needs a look at each of them.
    pub fn conflicts_with(&self, footprint: &Footprint) -> Option<bool> {
        let Footprint::Items { reads, writes } = footprint else { return None };
        if self.wide > 0 {
            return None;
        }
        let has = |spans: &Spans, is_hit: fn(&Counts) -> bool| {
            spans.iter().any(|(first, last)| match first == last {
                true => self.items.get(&first).is_some_and(is_hit),
                false => {
                    let is_within = |item: &Item| (first..=last).contains(item);
                    self.items.iter().any(|(item, counts)| is_within(item) && is_hit(counts))
                }
            })
        };
        Some(has(writes, |_| true) || has(reads, |counts| counts.writes > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint::Access::{self, Read, Write};

    fn of(spans: &[(Item, Item, Access)]) -> Footprint {
        Footprint::of(spans.iter().map(|(first, last, access)| (*first..=*last, *access)))
    }

    #[test]
    fn the_index_says_what_a_look_at_each_footprint_says() {
        let all = [
            of(&[(1, 1, Read)]),
            of(&[(1, 1, Write), (4, 4, Read)]),
            of(&[(1, 9, Read)]),
            of(&[(2, 3, Write)]),
            of(&[(5, 5, Write), (5, 5, Read)]),
            Footprint::nothing(),
            Footprint::Everything,
        ];
        for a in &all {
            for b in &all {
                let mut index = LockIndex::default();
                index.add(a);
                index.add(b);
                for other in &all {
                    let expected = a.conflicts_with(other) || b.conflicts_with(other);
                    assert!(
                        index.conflicts_with(other).is_none_or(|said| said == expected),
                        "{a:?} {b:?} {other:?}"
                    );
                }
                index.remove(b);
                let said = index.conflicts_with(&all[1]);
                assert!(said.is_none_or(|said| said == a.conflicts_with(&all[1])), "{a:?}");
                index.remove(a);
                assert_eq!(index, LockIndex::default());
            }
        }
        let mut index = LockIndex::default();
        index.add(&all[0]);
        assert_eq!((index.conflicts_with(&all[1]), index.conflicts_with(&all[2])), (Some(true), Some(false)));
    }
}
