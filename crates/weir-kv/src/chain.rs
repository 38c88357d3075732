//! The versions of one item.
//!
//! The base contains the writes that every reader sees; the versions above it are writes that some readers may not see. Without readers
//! an overwrite becomes the base at once: a *fresh* base. Until its transaction is drained, later readers of a fresh base are told which
//! other items it wrote.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use weir_core::ids::TxnId;

use super::bytes::Bytes;
use super::message::{ItemRead, Position, Stamp};
use super::metadata::Sketch;
use super::write::{Content, Write};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Version {
    pub stamp: Stamp,
    pub write: Write,
    pub committed_at: Position,
    /// Sketch of all keys that its transaction wrote on all shards; empty if it wrote on this one alone.
    pub written: Sketch,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chain {
    base: Content,
    base_stamp: BaseStamp,
    /// Committed versions above the base, in stamp order. Most items have none and few have more than one, hence a thin pointer.
    versions: Option<Box<SmallVec<[Version; 1]>>>,
}

/// Stamp of a base, with the fresh flag in one bit of its sequence, to keep items small. Serialised without that bit, which
/// [`Chain::refresh`] restores.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(from = "Stamp", into = "Stamp")]
struct BaseStamp(Stamp);

impl BaseStamp {
    /// Larger sequences are rejected (`weir_core::exposed`), so the bit is free.
    const FRESH: u64 = 1 << 63;

    fn fresh(stamp: Stamp) -> BaseStamp {
        let sequence = stamp.txn.sequence | BaseStamp::FRESH;
        BaseStamp(Stamp { txn: TxnId { sequence, ..stamp.txn }, ..stamp })
    }

    fn is_fresh(self) -> bool {
        self.0.txn.sequence & BaseStamp::FRESH != 0
    }

    fn stamp(self) -> Stamp {
        let sequence = self.0.txn.sequence & !BaseStamp::FRESH;
        Stamp { txn: TxnId { sequence, ..self.0.txn }, ..self.0 }
    }
}

impl From<Stamp> for BaseStamp {
    fn from(stamp: Stamp) -> BaseStamp {
        BaseStamp(stamp)
    }
}

impl From<BaseStamp> for Stamp {
    fn from(base: BaseStamp) -> Stamp {
        base.stamp()
    }
}

/// Defines which committed versions a read sees.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// Versions committed up to this position…
    pub position: Position,
    /// …and those of these transactions, in order.
    pub naming: &'a [TxnId],
}

impl Sight<'_> {
    pub const NEWEST: Sight<'static> = Sight { position: Position::MAX, naming: &[] };

    fn sees(&self, version: &Version) -> bool {
        version.committed_at <= self.position || self.naming.binary_search(&version.stamp.txn).is_ok()
    }
}

/// Versions above the base that a read sees, in stamp order, from the newest overwrite on.
type Contained<'a> = SmallVec<[&'a Version; 2]>;

/// Value of an item for a read, with its versions.
#[derive(Debug)]
pub struct Seen<'a> {
    pub item: ItemRead,
    /// The value combines several writes.
    pub merged: bool,
    pub contained: Contained<'a>,
    /// Stamp of a fresh base that the value also contains.
    pub fresh: Option<Stamp>,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain { base: Content::Absent, base_stamp: Stamp::NONE.into(), versions: None }
    }
}

impl Chain {
    fn above(&self) -> &[Version] {
        self.versions.as_ref().map_or(&[], |versions| versions)
    }

    /// Adds a committed write in stamp order. A write older than the base has no effect: for every reader its effect has been
    /// overwritten.
    pub fn commit(&mut self, version: Version) {
        let stamp = version.stamp;
        if stamp <= self.base_stamp() {
            return;
        }
        let versions = self.versions.get_or_insert_default();
        let at = versions.iter().rposition(|version| version.stamp < stamp).map_or(0, |at| at + 1);
        debug_assert!(versions.get(at).is_none_or(|version| version.stamp != stamp), "committed twice");
        versions.insert(at, version);
    }

    /// Makes an overwrite the base at once; allowed only without readers, which might need the earlier value. `fresh`: other shards may
    /// not have committed the transaction yet. Returns false if it is not the newest write: then it must be committed as a version.
    pub fn commit_to_base(&mut self, stamp: Stamp, value: &Bytes, fresh: bool) -> bool {
        debug_assert!(self.base_stamp() != stamp, "committed twice");
        let newest = self.above().last().map_or(self.base_stamp(), |version| version.stamp);
        if stamp <= newest {
            return false;
        }
        self.base = Content::Value(value.clone());
        self.base_stamp = if fresh { BaseStamp::fresh(stamp) } else { stamp.into() };
        self.versions = None;
        true
    }

    /// Stamp of the base, if it is fresh.
    #[inline]
    pub fn fresh(&self) -> Option<Stamp> {
        self.base_stamp.is_fresh().then(|| self.base_stamp())
    }

    /// Clears the fresh flag: the base's transaction is drained.
    pub fn age(&mut self) {
        self.base_stamp = self.base_stamp().into();
    }

    /// Sets the fresh flag if the base is of this undrained transaction.
    pub fn refresh(&mut self, stamp: Stamp) {
        if self.base_stamp() == stamp {
            self.base_stamp = BaseStamp::fresh(stamp);
        }
    }

    #[inline]
    pub fn read(&self, sight: Sight<'_>) -> Seen<'_> {
        if self.versions.is_none() {
            return self.read_base();
        }
        self.read_above(sight)
    }

    #[inline]
    fn read_base(&self) -> Seen<'_> {
        let item = ItemRead { value: self.base.value(), stamp: self.base_stamp() };
        Seen { item, merged: false, contained: Contained::new(), fresh: self.fresh() }
    }

    fn read_above(&self, sight: Sight<'_>) -> Seen<'_> {
        let contained = self.contained(sight);
        let Some(newest) = contained.last() else { return self.read_base() };
        let merged = contained.iter().any(|version| !version.write.overwrites());
        let value = match &newest.write {
            Write::Put(value) => Some(value.clone()),
            Write::Delete => None,
            _ => self.merge(&contained).value(),
        };
        let fresh = if contained[0].write.overwrites() { None } else { self.fresh() };
        Seen { item: ItemRead { value, stamp: newest.stamp }, merged, contained, fresh }
    }

    /// Fast path: nearly always there is no version above the base, or the newest is an overwrite that the read sees.
    pub fn contained(&self, sight: Sight<'_>) -> Contained<'_> {
        let mut contained = Contained::new();
        for version in self.above().iter().rev().filter(|version| sight.sees(version)) {
            contained.push(version);
            if version.write.overwrites() {
                break;
            }
        }
        contained.reverse();
        contained
    }

    fn merge(&self, contained: &[&Version]) -> Content {
        let buried = contained.first().is_some_and(|version| version.write.overwrites());
        let mut content = if buried { Content::Absent } else { self.base.clone() };
        contained.iter().for_each(|version| content.apply(&version.write));
        content
    }

    /// Called when the transaction with this stamp is drained, so that every reader sees it. An overwrite becomes the base and replaces
    /// older versions. Merges are folded in stamp order, as far as they are drained and below the floor, under which no write can arrive
    /// any more (S6).
    pub fn collect(&mut self, drained: Stamp, floor: u64, is_drained: impl Fn(Stamp) -> bool) {
        let above = self.above();
        let written = above.binary_search_by(|version| version.stamp.cmp(&drained)).ok();
        if let Some(mut at) = written.filter(|at| above[*at].write.overwrites()) {
            // A hot item may have thousands of versions after a silent reader: those that have drained together are removed together.
            let goes = |version: &Version| version.write.overwrites() && is_drained(version.stamp);
            while above.get(at + 1).is_some_and(goes) {
                at += 1;
            }
            self.fold(at + 1);
        }
        self.fold_while(|stamp| stamp.clock < floor && is_drained(stamp));
    }

    /// Folds the oldest versions into the base while `foldable` holds.
    pub fn fold_while(&mut self, foldable: impl Fn(Stamp) -> bool) {
        // Readers of a merge into a fresh base must be told of both transactions.
        if self.fresh().is_some_and(|stamp| !foldable(stamp)) {
            return;
        }
        let oldest = self.above().iter().take_while(|version| foldable(version.stamp)).count();
        self.fold(oldest);
    }

    fn fold(&mut self, oldest: usize) {
        let Some(versions) = self.versions.as_mut().filter(|_| oldest > 0) else { return };
        let newest = &mut versions[oldest - 1];
        self.base_stamp = newest.stamp.into();
        if let Write::Put(value) = &mut newest.write {
            self.base = Content::Value(std::mem::take(value));
        } else {
            versions[..oldest].iter().for_each(|version| self.base.apply(&version.write));
        }
        if oldest == versions.len() {
            self.versions = None;
        } else {
            versions.drain(..oldest);
        }
    }

    /// Stamp of the newest write in the base; older writes have no effect any more.
    #[inline]
    pub fn base_stamp(&self) -> Stamp {
        self.base_stamp.stamp()
    }

    /// Stamp of the deletion, if nothing else is left of the item.
    pub fn is_tombstone(&self) -> Option<Stamp> {
        (self.versions.is_none() && self.base == Content::Absent).then_some(self.base_stamp())
    }

    /// Number of versions above the base.
    pub fn versions(&self) -> usize {
        self.above().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fresh flag does not change the stamp, up to the largest accepted clock and sequence.
    #[test]
    fn a_fresh_base_has_its_stamp() {
        for (clock, sequence) in [(1, 1), (u64::MAX / 4 * 3, u64::MAX / 2)] {
            let stamp = Stamp { clock, txn: TxnId { coordinator: 7, sequence } };
            let mut chain = Chain::default();
            assert!(chain.commit_to_base(stamp, &"x".into(), true));
            assert_eq!((chain.base_stamp(), chain.fresh()), (stamp, Some(stamp)));
            let earlier = Stamp { clock: clock - 1, ..stamp };
            assert!(!chain.commit_to_base(earlier, &"buried".into(), true));
            chain.age();
            assert_eq!((chain.base_stamp(), chain.fresh()), (stamp, None));
            chain.refresh(earlier);
            assert_eq!(chain.fresh(), None);
            chain.refresh(stamp);
            assert_eq!(chain.read(Sight::NEWEST).fresh, Some(stamp));
        }
    }

    /// Removing versions one by one would move all later ones, and a hot item may have tens of thousands.
    #[test]
    fn what_has_drained_together_goes_with_the_first_of_it() {
        let version = |clock| Version {
            stamp: Stamp { clock, txn: TxnId { coordinator: 1, sequence: clock } },
            committed_at: clock,
            written: Sketch::ALL,
            write: Write::Put("x".into()),
        };
        let mut chain = Chain::default();
        (1..=9).for_each(|clock| chain.commit(version(clock)));
        chain.collect(version(1).stamp, 0, |stamp| stamp.clock <= 7);
        assert_eq!((chain.base_stamp(), chain.versions()), (version(7).stamp, 2));
    }
}
