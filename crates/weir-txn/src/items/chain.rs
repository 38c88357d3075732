//! The versions of one item.
//!
//! What every reader sees is folded into the base; above it are the writes that some reader may still have
//! to tell apart.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::message::{Position, Stamp};
use super::write::{Content, Write};

#[derive(Clone, Debug)]
pub struct Version {
    pub stamp: Stamp,
    pub write: Write,
    pub committed_at: Position,
}

#[derive(Clone, Debug)]
pub struct Chain {
    base: Content,
    base_stamp: Stamp,
    /// Committed, by stamp.
    versions: Vec<Version>,
}

/// Which committed versions a read sees.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// Those that were committed by then…
    pub position: Position,
    /// …and these.
    pub naming: &'a [Stamp],
}

impl Sight<'_> {
    pub const NEWEST: Sight<'static> = Sight { position: Position::MAX, naming: &[] };

    fn sees(&self, version: &Version) -> bool {
        version.committed_at <= self.position
            || self.naming.iter().any(|named| named.txn == version.stamp.txn)
    }
}

/// What a read sees of an item.
#[derive(Debug)]
pub struct Seen<'a> {
    pub content: Cow<'a, Content>,
    /// The newest in it.
    pub stamp: Stamp,
    /// It is made of several writes.
    pub merged: bool,
    /// Versions above the base that it contains, by stamp.
    pub contained: SmallVec<[&'a Version; 2]>,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain { base: Content::Absent, base_stamp: Stamp::NONE, versions: Vec::new() }
    }
}

impl Chain {
    /// Adds a committed write at its place. One that is older than the base has no effect any more: whatever
    /// it could have changed has been overwritten for every reader.
    pub fn commit(&mut self, stamp: Stamp, write: Write, committed_at: Position) {
        if stamp <= self.base_stamp {
            return;
        }
        let at = self.versions.iter().rposition(|version| version.stamp < stamp).map_or(0, |at| at + 1);
        debug_assert!(self.versions.get(at).is_none_or(|version| version.stamp != stamp), "committed twice");
        self.versions.insert(at, Version { stamp, write, committed_at });
    }

    pub fn read(&self, sight: Sight<'_>) -> Seen<'_> {
        let mut contained: SmallVec<[&Version; 2]> = SmallVec::new();
        let mut content = Cow::Borrowed(&self.base);
        // Nearly always there is nothing above the base, or the newest is an overwrite that the read sees.
        for version in self.versions.iter().rev().filter(|version| sight.sees(version)) {
            contained.push(version);
            if version.write.overwrites() {
                content = Cow::Owned(Content::Absent);
                break;
            }
        }
        contained.reverse();
        for version in &contained {
            content.to_mut().apply(&version.write);
        }
        let stamp = contained.last().map_or(self.base_stamp, |version| version.stamp);
        let merged = contained.iter().any(|version| !version.write.overwrites());
        Seen { content, stamp, merged, contained }
    }

    /// The transaction with this stamp is drained: every reader sees it. An overwrite becomes the base and
    /// buries what is below it. Merges are folded in order of their stamps, as far as they are drained and
    /// below the floor, under which no write can come any more (S6).
    pub fn collect(&mut self, drained: Stamp, floor: u64, is_drained: impl Fn(Stamp) -> bool) {
        let written = self.versions.iter().position(|version| version.stamp == drained);
        if let Some(at) = written.filter(|at| self.versions[*at].write.overwrites()) {
            self.fold(at + 1);
        }
        self.fold_while(|stamp| stamp.clock < floor && is_drained(stamp));
    }

    /// Folds the oldest versions into the base, as far as they may be.
    pub fn fold_while(&mut self, foldable: impl Fn(Stamp) -> bool) {
        let oldest = self.versions.iter().take_while(|version| foldable(version.stamp)).count();
        self.fold(oldest);
    }

    fn fold(&mut self, oldest: usize) {
        for version in self.versions.drain(..oldest) {
            self.base.apply(&version.write);
            self.base_stamp = version.stamp;
        }
    }

    /// Of the newest write in the base; what is older has no effect any more.
    pub fn base_stamp(&self) -> Stamp {
        self.base_stamp
    }

    /// Nothing is left of the item but the stamp of its deletion.
    pub fn is_tombstone(&self) -> Option<Stamp> {
        (self.versions.is_empty() && self.base == Content::Absent).then_some(self.base_stamp)
    }

    /// How many versions are kept above the base.
    pub fn versions(&self) -> usize {
        self.versions.len()
    }
}
