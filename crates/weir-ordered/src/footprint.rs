//! Footprints: the items that an operation reads and writes, by which general transactions lock (eris.txt §7).

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::few::Few;

/// Number of an item of a shard. It may be a hash, or the beginning of a key: transactions on different items with one number wait for each
/// other, and no more. Numbers in the order of keys make intervals of keys intervals of numbers, which keeps phantoms out (soundness S18).
pub type Item = u64;

/// What a transaction does with items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    #[default]
    Read,
    Write,
}

/// The items that an operation reads and writes at one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Footprint {
    Items {
        reads: Spans,
        writes: Spans,
    },
    /// It may write whatever the shard has.
    Everything,
}

/// Intervals of items by their first and last ones: ascending, none meets another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spans(Few<(Item, Item), 1>);

impl Footprint {
    /// Of an operation that touches nothing here.
    pub fn nothing() -> Footprint {
        Footprint::Items { reads: Spans::default(), writes: Spans::default() }
    }

    /// Of these intervals, in any order.
    pub fn of(spans: impl IntoIterator<Item = (RangeInclusive<Item>, Access)>) -> Footprint {
        let spans = spans.into_iter().filter(|(span, _)| !span.is_empty());
        let spans: Few<_, 4> = spans.map(|(span, access)| (*span.start(), *span.end(), access)).collect();
        let of = |wanted| {
            let spans = spans.iter().filter(move |(.., access)| *access == wanted);
            Spans::of(spans.map(|(first, last, _)| (*first, *last)).collect())
        };
        Footprint::Items { reads: of(Access::Read), writes: of(Access::Write) }
    }

    /// Returns whether the order of two operations may matter.
    pub fn conflicts_with(&self, other: &Footprint) -> bool {
        match (self, other) {
            (Footprint::Items { reads, writes }, Footprint::Items { reads: read, writes: written }) => {
                writes.meets(written) || writes.meets(read) || reads.meets(written)
            }
            (Footprint::Everything, Footprint::Items { reads, writes })
            | (Footprint::Items { reads, writes }, Footprint::Everything) => {
                !(reads.0.is_empty() && writes.0.is_empty())
            }
            (Footprint::Everything, Footprint::Everything) => true,
        }
    }

    /// Returns whether the intervals are as those of a message must be.
    pub(crate) fn is_sorted(&self) -> bool {
        match self {
            Footprint::Items { reads, writes } => reads.is_sorted() && writes.is_sorted(),
            Footprint::Everything => true,
        }
    }
}

impl Spans {
    fn of(spans: Few<(Item, Item), 1>) -> Spans {
        let given = Spans(spans);
        if given.is_sorted() { given } else { given.joined() }
    }

    /// The same items in intervals that are as they must be.
    fn joined(&self) -> Spans {
        let mut spans = self.0.to_vec();
        spans.sort_unstable();
        let mut joined: Vec<(Item, Item)> = Vec::with_capacity(spans.len());
        for (first, last) in spans {
            match joined.last_mut() {
                Some((_, before)) if first <= *before => *before = last.max(*before),
                _ => joined.push((first, last)),
            }
        }
        Spans(joined.into())
    }

    /// First and last items of the intervals, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Item, Item)> + '_ {
        self.0.iter().copied()
    }

    fn is_sorted(&self) -> bool {
        self.0.iter().all(|(first, last)| first <= last)
            && self.0.is_sorted_by(|(_, last), (first, _)| last < first)
    }

    /// Returns whether both have an item.
    fn meets(&self, other: &Spans) -> bool {
        let (mut own, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some((first, last)), Some((other_first, other_last))) = (own.peek(), others.peek()) {
            if last < other_first {
                own.next();
            } else if other_last < first {
                others.next();
            } else {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::Access::{Read, Write};
    use super::*;

    type Given<'a> = &'a [(Item, Item, Access)];

    fn of(spans: Given<'_>) -> Footprint {
        Footprint::of(spans.iter().map(|(first, last, access)| (*first..=*last, *access)))
    }

    #[test]
    fn two_footprints_conflict_if_one_writes_what_both_have() {
        let cases: [(Given<'_>, Given<'_>, bool); 10] = [
            (&[(1, 1, Read)], &[(1, 1, Read)], false),
            (&[(1, 1, Read)], &[(1, 1, Write)], true),
            (&[(1, 1, Write)], &[(1, 1, Write)], true),
            (&[(1, 1, Write)], &[(2, 2, Write)], false),
            (&[(9, 9, Write), (1, 1, Read), (4, 4, Read)], &[(3, 3, Write), (4, 4, Write)], true),
            (&[(9, 9, Write), (1, 1, Read), (4, 4, Read)], &[(4, 4, Read), (8, 8, Write)], false),
            (&[(10, 20, Read)], &[(15, 15, Write)], true),
            (&[(10, 20, Read), (30, u64::MAX, Read)], &[(0, 9, Write), (21, 29, Write)], false),
            (&[(10, 20, Write), (12, 25, Write)], &[(22, 22, Read)], true),
            (&[], &[(1, 1, Write)], false),
        ];
        for (a, b, conflict) in cases {
            assert_eq!(of(a).conflicts_with(&of(b)), conflict, "{a:?} {b:?}");
            assert_eq!(of(b).conflicts_with(&of(a)), conflict, "{b:?} {a:?}");
        }
        assert!(Footprint::Everything.conflicts_with(&of(&[(1, 1, Read)])));
        assert!(!Footprint::Everything.conflicts_with(&Footprint::nothing()));
        assert!(Footprint::Everything.conflicts_with(&Footprint::Everything));
    }

    #[test]
    fn intervals_that_meet_are_one() {
        let joined =
            of(&[(5, 9, Write), (1, 2, Write), (7, 12, Write), (2, 3, Write), (8, 4, Write), (6, 6, Write)]);
        assert_eq!(joined, of(&[(1, 3, Write), (5, 12, Write)]));
        assert!(joined.is_sorted() && of(&[(7, 7, Read), (7, 7, Write)]).is_sorted());
    }
}
